//===- LaunchCostsTest.cpp - What a kernel's code for GPUs does -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Code/LaunchCosts.h"
#include "ModuleTest.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class LaunchCosts : public ModuleTest {
protected:
  LaunchCosts() {
    context.loadDialect<gpu::GPUDialect, memref::MemRefDialect,
                        vector::VectorDialect>();
  }

  /// Of a function of f32 in %x and %y with thread %t of 128 and block %block
  /// of 8.
  LaunchCost count(llvm::StringRef body) {
    ModuleOp module = parse((R"(
      func.func @k(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> attributes {
          fsdp.impl = {cuda = #fsdp.cuda_code<[#fsdp.cuda_kernel<@cuda_kernels::@k, grid = 8, block = 128, shared = 64>], traffic = 8192>}} {
        return %y : tensor<1024xf32>
      }
      gpu.module @cuda_kernels {
        gpu.func @k(%x: memref<1024xf32>, %y: memref<1024xf32>)
            workgroup(%s : memref<8xi64, #gpu.address_space<workgroup>>) kernel {
          %t = gpu.thread_id x
          %block = gpu.block_id x
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c32 = arith.constant 32 : index
          %c128 = arith.constant 128 : index
          %c1000 = arith.constant 1000 : index
          %base = arith.muli %block, %c128 : index
          %i = arith.addi %base, %t : index
)" + body + R"(
          gpu.return
        }
      })")
                                .str());
    auto costs = getLaunchCosts(*module.getOps<func::FuncOp>().begin());
    EXPECT_EQ(costs.size(), 1u);
    return costs.empty() ? LaunchCost() : costs.front();
  }
};
} // namespace

TEST_F(LaunchCosts, eachThreadIsCounted) {
  LaunchCost c = count(R"(
    %v = memref.load %x[%i] : memref<1024xf32>
    memref.store %v, %y[%i] : memref<1024xf32>)");
  EXPECT_EQ(c.blocks, 8);
  EXPECT_EQ(c.threads, 128);
  // Dynamic, and what the function has of its own.
  EXPECT_EQ(c.shared, 64 + 8 * 8);
  EXPECT_EQ(c.loaded, 4096);
  EXPECT_EQ(c.stored, 4096);
  EXPECT_EQ(c.bytesInFlight, 4);
  // 2 parameters and the return: 6; thread, block, product and sum: 4; accesses
  // of 3.
  EXPECT_EQ(c.instructions, 1024 * (6 + 4 + 6));
}

TEST_F(LaunchCosts, whatThreadsShareIsReadOnce) {
  LaunchCost c = count(R"(
    %v = memref.load %x[%t] : memref<1024xf32>
    %w = vector.load %x[%c0] : memref<1024xf32>, vector<4xf32>
    %s0 = memref.load %s[%c0] : memref<8xi64, #gpu.address_space<workgroup>>)");
  // A block's own memory is none of the device's.
  EXPECT_EQ(c.loaded, 1024 * (4 + 16));
  // Two loads side by side read it once, those of two loops twice.
  EXPECT_EQ(c.read, 4096);
  EXPECT_EQ(c.bytesInFlight, 20);
  EXPECT_EQ(count(R"(
    scf.for %p = %t to %c1000 step %c128 {
      %v = memref.load %x[%p] : memref<1024xf32>
    }
    scf.for %p = %t to %c1000 step %c128 {
      %v = memref.load %x[%p] : memref<1024xf32>
    })")
                .read,
            2 * 4096);
}

TEST_F(LaunchCosts, loopsThatThreadsShareRunOnceForAll) {
  // 128 threads take 1000 points: some 8, some 7.
  EXPECT_EQ(count(R"(
    scf.for %p = %t to %c1000 step %c128 {
      %v = memref.load %x[%p] : memref<1024xf32>
    })")
                .loaded,
            8 * 1000 * 4);
  // A tile of 32 for each that is begun: blocks end at 1, 129, 257, ..
  EXPECT_EQ(count(R"(
    %end = arith.addi %base, %c1 : index
    scf.for %p = %c0 to %end step %c128 {
      %v = memref.load %x[%p] : memref<1024xf32>
    })")
                .loaded,
            128 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8) * 4);
  // What all iterations but the last do, whatever their number: blocks have 8,
  // 7, 6, ..
  EXPECT_EQ(count(R"(
    %c1024 = arith.constant 1024 : index
    scf.for %p = %base to %c1024 step %c128 {
      %next = arith.addi %p, %c128 : index
      %follows = arith.cmpi ult, %next, %c1024 : index
      scf.if %follows {
        %v = memref.load %x[%next] : memref<1024xf32>
      }
    })")
                .loaded,
            128 * (7 + 6 + 5 + 4 + 3 + 2 + 1) * 4);
}

TEST_F(LaunchCosts, branchesByThreads) {
  EXPECT_EQ(count(R"(
    %in = arith.cmpi ult, %i, %c1000 : index
    scf.if %in {
      %v = memref.load %x[%i] : memref<1024xf32>
    })")
                .loaded,
            1000 * 4);
  // The first lane of each warp stores; others load.
  LaunchCost c = count(R"(
    %lane = arith.remui %t, %c32 : index
    %first = arith.cmpi eq, %lane, %c0 : index
    %f = arith.constant 0.0 : f32
    scf.if %first {
      memref.store %f, %y[%i] : memref<1024xf32>
    } else {
      %v = memref.load %x[%i] : memref<1024xf32>
    })");
  EXPECT_EQ(c.stored, 32 * 4);
  EXPECT_EQ(c.loaded, 31 * 32 * 4);
}

TEST_F(LaunchCosts, commonAndInvariantOpsCountOnce) {
  auto countLoop = [&](llvm::StringRef inside) {
    return count(("%v = memref.load %x[%i] : memref<1024xf32>\n"
                  "scf.for %p = %c0 to %c32 step %c1 {\n" +
                  inside +
                  "  memref.store %a, %y[%i] : memref<1024xf32>\n"
                  "}")
                     .str())
        .instructions;
  };
  int64_t one = countLoop("%a = arith.mulf %v, %v : f32\n");
  // 6 and 4 as above, a load of 3, the product; each iteration 3 and the store.
  EXPECT_EQ(one, 1024 * (6 + 4 + 3 + 1 + 32 * (3 + 3)));
  EXPECT_EQ(countLoop("%b = arith.mulf %v, %v : f32\n"
                      "%a = arith.mulf %v, %v : f32\n"),
            one);
  EXPECT_EQ(countLoop("%w = memref.load %x[%p] : memref<1024xf32>\n"
                      "%a = arith.mulf %w, %w : f32\n"),
            one + 1024 * (32 * (3 + 1) - 1));
}

TEST_F(LaunchCosts, aThreadWaitsForLoadsOneAfterAnother) {
  auto countLoop = [&](llvm::StringRef inside) {
    return count(
               ("scf.for %p = %c0 to %c1000 step %c1 {\n" + inside + "}").str())
        .waits;
  };
  const std::string store = "memref.store %a, %y[%i] : memref<1024xf32>\n";
  // Two that are under way at once.
  const std::string sum = "%v = memref.load %x[%p] : memref<1024xf32>\n"
                          "%w = memref.load %y[%i] : memref<1024xf32>\n"
                          "%a = arith.addf %v, %w : f32\n";
  EXPECT_EQ(countLoop(sum + store), 1000);
  // No load passes a store; without one four iterations' are under way.
  EXPECT_EQ(countLoop(sum), 250);
  // Whatever lies between them.
  EXPECT_EQ(countLoop("%v = memref.load %x[%p] : memref<1024xf32>\n"
                      "%q = arith.mulf %v, %v : f32\n"
                      "%w = memref.load %y[%i] : memref<1024xf32>\n"
                      "%a = arith.addf %q, %w : f32\n" +
                      store),
            1000);
  // One tells where the other is.
  const std::string named = "%v = memref.load %x[%p] : memref<1024xf32>\n"
                            "%n = arith.fptoui %v : f32 to i64\n"
                            "%j = arith.index_cast %n : i64 to index\n"
                            "%w = memref.load %y[%j] : memref<1024xf32>\n"
                            "%a = arith.addf %w, %w : f32\n";
  EXPECT_EQ(countLoop(named + store), 2000);
  EXPECT_EQ(countLoop("%a = memref.load %s[%c0] : memref<8xi64, "
                      "#gpu.address_space<workgroup>>\n"
                      "%b = arith.addi %a, %a : i64\n"),
            0);
}

TEST_F(LaunchCosts, unitsComputeResults) {
  LaunchCost none = count(""), c = count(R"(
    %v = vector.load %x[%c0] : memref<1024xf32>, vector<4xf32>
    %w = arith.mulf %v, %v : vector<4xf32>
    %d = arith.divf %w, %v : vector<4xf32>
    vector.store %d, %y[%c0] : memref<1024xf32>, vector<4xf32>)");
  auto getOfThread = [&](LaneUnit unit) {
    return (c.results[unsigned(unit)] - none.results[unsigned(unit)]) / 1024;
  };
  // 16 bytes take four times as long as 4.
  EXPECT_EQ(getOfThread(LaneUnit::Memory), 4 + 4);
  EXPECT_EQ(getOfThread(LaneUnit::Float), 4 * (1 + 6));
  // A reciprocal, and whether it may be used.
  EXPECT_EQ(getOfThread(LaneUnit::Special), 4 * 2);
  // Two addresses, and of each quotient a comparison.
  EXPECT_EQ(getOfThread(LaneUnit::Integer), 2 * 2 + 4);
}

TEST_F(LaunchCosts, aKernelWithoutSuchCodeLaunchesNothing) {
  ModuleOp module = parse("func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { "
                          "return %x : tensor<4xf32> }");
  EXPECT_TRUE(getLaunchCosts(*module.getOps<func::FuncOp>().begin()).empty());
}
