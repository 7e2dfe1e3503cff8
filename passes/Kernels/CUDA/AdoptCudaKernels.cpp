//===- AdoptCudaKernels.cpp - Bufferized functions become device code -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"
#include "Kernels/Common/BufferizedKernels.h"
#include "Kernels/Common/KernelUtils.h"
#include "LaunchStages.h"
#include "ParallelLoops.h"
#include "RowUpdates.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ADOPTCUDAKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Threads of a block that runs ops by itself, and points of its loops that are
/// too few to be worth a launch of their own.
constexpr int64_t kBlockThreads = 1024, kMostBlockPoints = 4 * kBlockThreads;

/// Whether one block with all `buffers` in its own memory is faster than a
/// launch for each stage.
static bool fitsOneBlock(ArrayRef<LaunchStage> stages,
                         ArrayRef<memref::AllocOp> shared) {
  return shared.empty() && llvm::all_of(stages, [](const LaunchStage &stage) {
           return !stage.grid || *getPointCount(stage.grid) <= kMostBlockPoints;
         });
}

/// Clones the ops of a stage of `from`, and what they need, into `function`,
/// whose arguments are those of `from`. Returns the last one; null: there is
/// none.
static Operation *cloneStage(const LaunchStage &stage, func::FuncOp from,
                             gpu::GPUFuncOp function) {
  SmallVector<Operation *> ops = getNeeded(stage.ops);
  llvm::append_range(ops, stage.ops);
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  IRMapping mapping;
  mapping.map(from.getArguments(), function.getArguments());
  OpBuilder builder(function.getBody().front().getTerminator());
  Operation *last = nullptr;
  for (Operation *op : ops)
    last = builder.clone(*op, mapping);
  return last;
}

namespace {
struct AdoptCudaKernels : fsdp::impl::AdoptCudaKernelsBase<AdoptCudaKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto nested = module.lookupSymbol<ModuleOp>(kFallbackModule);
    if (!nested)
      return markAllAnalysesPreserved();
    gpu::GPUModuleOp device = getCudaModule(module);
    if (!device)
      return signalPassFailure();
    for (func::FuncOp kernel : getKernels(module)) {
      if (hasCodeFor(kernel, kCudaTarget))
        continue;
      func::FuncOp body = getBufferized(nested, kernel, kCudaTarget);
      if (!body || failed(adopt(kernel, body, device)))
        return signalPassFailure();
    }
    moveConstants(nested, device);
    nested.erase();
  }

private:
  LogicalResult adopt(func::FuncOp kernel, func::FuncOp body,
                      gpu::GPUModuleOp device) {
    if (failed(prepareBufferized(body)))
      return failure();
    runAllocatingLoopsInOrder(body.getBody());
    FailureOr<SmallVector<LaunchStage>> stages = chooseStages(body);
    if (failed(stages))
      return failure();
    FailureOr<int64_t> workspace = placeInWorkspace(body, *stages);
    if (failed(workspace))
      return failure();
    SmallVector<CudaKernelAttr> launches;
    for (auto [i, stage] : llvm::enumerate(*stages)) {
      std::string name = kernel.getSymName().str();
      if (stages->size() != 1)
        name += "_" + std::to_string(i);
      FailureOr<CudaKernelAttr> launch = adoptStage(stage, body, device, name);
      if (failed(launch))
        return failure();
      launches.push_back(*launch);
    }
    setImplementation(kernel, kCudaTarget,
                      CudaCodeAttr::get(&getContext(), launches,
                                        getArgumentBytes(kernel), *workspace));
    return success();
  }

  /// At least one, since a kernel without effects is launched, too.
  FailureOr<SmallVector<LaunchStage>> chooseStages(func::FuncOp body) {
    SmallVector<LaunchStage> stages = cutIntoStages(body);
    LaunchStage all = joinStages(stages);
    SmallVector<memref::AllocOp> buffers = getBuffers(body);
    FailureOr<SmallVector<memref::AllocOp>> shared =
        getSharedBuffers(buffers, all, kMostShared);
    if (failed(shared))
      return failure();
    if (stages.empty() || (!buffers.empty() && fitsOneBlock(stages, *shared)))
      return SmallVector<LaunchStage>{std::move(all)};
    return stages;
  }

  /// What no block's own memory can hold goes to the workspace, which becomes
  /// the last argument.
  FailureOr<int64_t> placeInWorkspace(func::FuncOp body,
                                      SmallVector<LaunchStage> &stages) {
    FailureOr<SmallVector<memref::AllocOp>> shared =
        getSharedBuffers(getBuffers(body), stages, kMostShared);
    if (failed(shared) || shared->empty())
      return failed(shared) ? FailureOr<int64_t>() : 0;
    Block &block = body.getBody().front();
    Type byte = IntegerType::get(&getContext(), 8);
    Value workspace =
        block.addArgument(MemRefType::get({0}, byte), body.getLoc());
    FailureOr<int64_t> bytes = placeBuffers(
        *shared, kWorkspaceAlignment,
        [&](OpBuilder &builder, MemRefType type, Value offset) -> Value {
          return memref::ViewOp::create(builder, body.getLoc(), type, workspace,
                                        offset, ValueRange{});
        });
    if (failed(bytes))
      return failure();
    workspace.setType(MemRefType::get({*bytes}, byte));
    body.setType(
        FunctionType::get(&getContext(), block.getArgumentTypes(), {}));
    return bytes;
  }

  /// A thread per point, or one block for all.
  FailureOr<CudaKernelAttr> adoptStage(const LaunchStage &stage,
                                       func::FuncOp body,
                                       gpu::GPUModuleOp device,
                                       StringRef name) {
    Location loc = body.getLoc();
    int64_t threads = stage.grid ? kPointThreads : kBlockThreads;
    std::optional<RowUpdates> updates =
        stage.grid ? matchRowUpdates(stage.grid) : std::nullopt;
    std::optional<int64_t> owners =
        updates ? chooseRowOwners(*updates) : std::nullopt;
    gpu::GPUFuncOp function =
        createCudaFunction(device, loc, name, body.getArgumentTypes(), threads,
                           owners ? getRowSlots(*updates) : 0);
    Operation *last = cloneStage(stage, body, function);
    flattenEmpty(function);
    if (owners) {
      int64_t blocks = getRowBlocks(*updates, *owners);
      emitRowUpdates(*matchRowUpdates(cast<scf::ParallelOp>(last)), function,
                     *owners);
      return getCudaLaunch(function, blocks, threads, /*shared=*/0);
    }
    if (stage.grid) {
      auto loop = cast<scf::ParallelOp>(last);
      OpBuilder builder(loop);
      Value block = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
      Value thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
      Value size = arith::ConstantIndexOp::create(builder, loc, threads);
      Value first = arith::MulIOp::create(builder, loc, block, size);
      runPoint(loop, arith::AddIOp::create(builder, loc, first, thread));
      int64_t points = *getPointCount(stage.grid);
      return getCudaLaunch(function, llvm::divideCeil(points, threads), threads,
                           /*shared=*/0);
    }
    Block &entry = function.getBody().front();
    OpBuilder builder(&entry, entry.begin());
    Value thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
    if (failed(distribute(function.getBody(), thread, threads)))
      return failure();
    FailureOr<int64_t> bytes = placeInShared(function);
    if (failed(bytes))
      return failure();
    return getCudaLaunch(function, /*grid=*/1, threads, *bytes);
  }

  FailureOr<int64_t> placeInShared(gpu::GPUFuncOp function) {
    SmallVector<memref::AllocOp> buffers = getBuffers(function);
    if (buffers.empty())
      return 0;
    Block &block = function.getBody().front();
    OpBuilder entry(&block, block.begin());
    Location loc = function.getLoc();
    Attribute space = getSharedSpace(&getContext());
    Value shared = createDynamicShared(entry, loc);
    return placeBuffers(
        buffers, kBufferAlignment,
        [&](OpBuilder &builder, MemRefType type, Value offset) -> Value {
          auto inShared =
              MemRefType::get(type.getShape(), type.getElementType(),
                              MemRefLayoutAttrInterface(), space);
          Value view = memref::ViewOp::create(builder, loc, inShared, shared,
                                              offset, ValueRange{});
          return memref::MemorySpaceCastOp::create(builder, loc, type, view);
        });
  }
};
} // namespace
