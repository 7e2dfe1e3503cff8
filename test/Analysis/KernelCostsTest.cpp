//===- KernelCostsTest.cpp - What a kernel function does ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/KernelCosts.h"
#include "ModuleTest.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class KernelCosts : public ModuleTest {
protected:
  KernelCosts() { context.loadDialect<bufferization::BufferizationDialect>(); }

  KernelCost cost(llvm::StringRef text) {
    return getKernelCost(*parse(text).getOps<func::FuncOp>().begin());
  }
  static int64_t flops(const KernelCost &cost, CostDtype dtype) {
    return cost.flops[unsigned(dtype)];
  }
};
} // namespace

TEST_F(KernelCosts, productWithATransposedOperand) {
  // The transpose is a move inside of the kernel: no memory, no arithmetic.
  KernelCost c = cost(R"(
    func.func @k(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>, %d: tensor<4x16xf32>) -> tensor<4x16xf32> {
      %e = tensor.empty() : tensor<8x16xf32>
      %t = linalg.transpose ins(%b : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) permutation = [1, 0]
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%d : tensor<4x16xf32>) -> tensor<4x16xf32>
      %m = linalg.matmul ins(%a, %t : tensor<4x8xf32>, tensor<8x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
      return %m : tensor<4x16xf32>
    })");
  EXPECT_EQ(c.kind, KernelKind::Matmul);
  EXPECT_EQ(c.name, "k");
  EXPECT_EQ(c.m, 4);
  EXPECT_EQ(c.n, 16);
  EXPECT_EQ(c.k, 8);
  EXPECT_EQ(c.batch, 1);
  EXPECT_EQ(flops(c, CostDtype::F32), 2 * 4 * 16 * 8);
  EXPECT_EQ(c.bytes, 4 * (4 * 8 + 16 * 8 + 4 * 16));
}

TEST_F(KernelCosts, narrowOperandsAreTheProductsType) {
  KernelCost c = cost(R"(
    func.func @k(%a: tensor<3x4x8xbf16>, %b: tensor<3x8x16xbf16>, %d: tensor<3x4x16xf32>) -> tensor<3x4x16xf32> {
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%d : tensor<3x4x16xf32>) -> tensor<3x4x16xf32>
      %m = linalg.batch_matmul ins(%a, %b : tensor<3x4x8xbf16>, tensor<3x8x16xbf16>) outs(%f : tensor<3x4x16xf32>) -> tensor<3x4x16xf32>
      return %m : tensor<3x4x16xf32>
    })");
  EXPECT_EQ(c.dtype, CostDtype::BF16);
  EXPECT_EQ(c.batch, 3);
  EXPECT_EQ(flops(c, CostDtype::BF16), 2 * 3 * 4 * 16 * 8);
  EXPECT_EQ(flops(c, CostDtype::F32), 0);
}

TEST_F(KernelCosts, convolutionIsTheProductOfItsWindows) {
  KernelCost c = cost(R"(
    func.func @k(%x: tensor<2x3x10x10xf32>, %w: tensor<8x3x3x3xf32>, %d: tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32> {
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%d : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
      %y = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x3x10x10xf32>, tensor<8x3x3x3xf32>) outs(%f : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
      return %y : tensor<2x8x8x8xf32>
    })");
  EXPECT_EQ(c.kind, KernelKind::Matmul);
  EXPECT_EQ(c.m, 2 * 8 * 8);
  EXPECT_EQ(c.n, 8);
  EXPECT_EQ(c.k, 3 * 3 * 3);
}

TEST_F(KernelCosts, elementwiseCountsEachIteration) {
  KernelCost c = cost(R"(
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (j)>
    func.func @k(%x: tensor<4x8xf32>, %b: tensor<8xf32>, %unused: tensor<64xf32>, %d: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
          ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%d : tensor<4x8xf32>) {
      ^bb0(%a: f32, %c: f32, %o: f32):
        %1 = arith.addf %a, %c : f32
        %2 = math.exp %1 : f32
        linalg.yield %2 : f32
      } -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    })");
  EXPECT_EQ(c.kind, KernelKind::Vector);
  EXPECT_EQ(flops(c, CostDtype::F32), 4 * 8 * (1 + 8));
  // What is not read costs nothing, nor does the destination's old content.
  EXPECT_EQ(c.bytes, 4 * (4 * 8 + 8 + 4 * 8));
}

TEST_F(KernelCosts, castsOnlyMove) {
  KernelCost c = cost(R"(
    #id = affine_map<(i) -> (i)>
    func.func @k(%x: tensor<32xf32>, %d: tensor<32xbf16>) -> tensor<32xbf16> {
      %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
          ins(%x : tensor<32xf32>) outs(%d : tensor<32xbf16>) {
      ^bb0(%a: f32, %o: bf16):
        %1 = arith.truncf %a : f32 to bf16
        linalg.yield %1 : bf16
      } -> tensor<32xbf16>
      return %0 : tensor<32xbf16>
    })");
  EXPECT_EQ(c.kind, KernelKind::Copy);
  EXPECT_EQ(c.bytes, 32 * (4 + 2));
}

/// Rows of a table, picked by numbers; @rows of them in the table.
static std::string makeLookup(int64_t rows) {
  return (R"(
    #out = affine_map<(i, j) -> (i, j)>
    #in = affine_map<(i, j) -> (i)>
    func.func @k(%n: tensor<6xi64>, %t: tensor<)" +
          llvm::Twine(rows) +
          R"(x8xf32>, %d: tensor<6x8xf32>) -> tensor<6x8xf32> {
      %0 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel"]}
          ins(%n : tensor<6xi64>) outs(%d : tensor<6x8xf32>) {
      ^bb0(%a: i64, %o: f32):
        %i = arith.index_cast %a : i64 to index
        %j = linalg.index 1 : index
        %v = tensor.extract %t[%i, %j] : tensor<)" +
          llvm::Twine(rows) + R"(x8xf32>
        linalg.yield %v : f32
      } -> tensor<6x8xf32>
      return %0 : tensor<6x8xf32>
    })")
      .str();
}

TEST_F(KernelCosts, tableCountsWhatIsRead) {
  EXPECT_EQ(cost(makeLookup(1000)).bytes, 6 * 8 + 4 * (6 * 8) + 4 * (6 * 8));
  EXPECT_EQ(cost(makeLookup(2)).bytes, 6 * 8 + 4 * (2 * 8) + 4 * (6 * 8));
}

TEST_F(KernelCosts, scatterInALoopTouchesItsRows) {
  KernelCost c = cost(R"(
    #id = affine_map<(i) -> (i)>
    func.func @k(%tied: tensor<1000x8xf32>, %n: tensor<6xi64>, %x: tensor<6x8xf32>, %d: tensor<1000x8xf32>) -> tensor<1000x8xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c6 = arith.constant 6 : index
      %0 = scf.for %i = %c0 to %c6 step %c1 iter_args(%t = %d) -> (tensor<1000x8xf32>) {
        %n0 = tensor.extract %n[%i] : tensor<6xi64>
        %r = arith.index_cast %n0 : i64 to index
        %s = tensor.extract_slice %x[%i, 0] [1, 8] [1, 1] : tensor<6x8xf32> to tensor<8xf32>
        %o = tensor.extract_slice %t[%r, 0] [1, 8] [1, 1] : tensor<1000x8xf32> to tensor<8xf32>
        %sum = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
            ins(%s : tensor<8xf32>) outs(%o : tensor<8xf32>) {
        ^bb0(%a: f32, %b: f32):
          %1 = arith.addf %a, %b : f32
          linalg.yield %1 : f32
        } -> tensor<8xf32>
        %w = tensor.insert_slice %sum into %t[%r, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<1000x8xf32>
        scf.yield %w : tensor<1000x8xf32>
      }
      return %0 : tensor<1000x8xf32>
    })");
  EXPECT_EQ(flops(c, CostDtype::F32), 6 * 8);
  // Numbers, rows added, and the table's rows read and written.
  EXPECT_EQ(c.bytes, 6 * 8 + 3 * 4 * (6 * 8));
}

TEST_F(KernelCosts, attentionWithSharedKeys) {
  KernelCost c = cost(R"(
    func.func @k(%q: tensor<2x6x8x4xbf16>, %k: tensor<2x3x16x4xbf16>, %v: tensor<2x3x16x4xbf16>, %d: tensor<2x6x8x4xbf16>, %e: tensor<192xf32>) -> (tensor<2x6x8x4xbf16>, tensor<192xf32>) {
      %o, %s = fsdp.attention <batch = [2, 3, 2], queries = 8, keys = 16, head = 4, value = 4>
          q(%q <0, [192, 64, 32, 4, 1]> : tensor<2x6x8x4xbf16>)
          k(%k <0, [192, 64, 0, 4, 1]> : tensor<2x3x16x4xbf16>)
          v(%v <0, [192, 64, 0, 4, 1]> : tensor<2x3x16x4xbf16>)
          captured() [] scale 0.5 causal {
      ^bb0(%x: f32, %b0: index, %b1: index, %b2: index, %i: index, %j: index):
        fsdp.yield %x : f32
      } out(<0, [192, 64, 32, 4, 1]>) : tensor<2x6x8x4xbf16>, tensor<192xf32>
      %0 = bufferization.materialize_in_destination %o in %d : (tensor<2x6x8x4xbf16>, tensor<2x6x8x4xbf16>) -> tensor<2x6x8x4xbf16>
      %1 = bufferization.materialize_in_destination %s in %e : (tensor<192xf32>, tensor<192xf32>) -> tensor<192xf32>
      return %0, %1 : tensor<2x6x8x4xbf16>, tensor<192xf32>
    })");
  EXPECT_EQ(c.kind, KernelKind::Attention);
  EXPECT_EQ(c.dtype, CostDtype::BF16);
  EXPECT_EQ(c.batch, 12);
  EXPECT_EQ(c.m, 8);
  EXPECT_EQ(c.n, 16);
  EXPECT_EQ(c.k, 4);
  // Two products, half of them behind the mask.
  EXPECT_EQ(flops(c, CostDtype::BF16), 12 * 2 * (8 * 16 * 4));
  EXPECT_EQ(c.bytes, 2 * (2 * 2 * 6 * 8 * 4 + 2 * 2 * 3 * 16 * 4) + 4 * 192);
}

TEST_F(KernelCosts, integersAreNoArithmetic) {
  KernelCost c = cost(R"(
    func.func @k(%x: tensor<4xi64>, %d: tensor<8xi64>) -> tensor<8xi64> {
      %z = arith.constant 0 : i64
      %p = tensor.pad %x low[0] high[4] {
      ^bb0(%i: index):
        tensor.yield %z : i64
      } : tensor<4xi64> to tensor<8xi64>
      %0 = bufferization.materialize_in_destination %p in %d : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
      return %0 : tensor<8xi64>
    })");
  EXPECT_EQ(c.kind, KernelKind::Copy);
  EXPECT_EQ(c.bytes, 8 * (4 + 8));
}
