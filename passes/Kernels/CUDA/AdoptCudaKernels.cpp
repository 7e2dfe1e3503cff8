//===- AdoptCudaKernels.cpp - Bufferized functions become device code -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"
#include "Kernels/Common/BufferizedKernels.h"
#include "Kernels/Common/KernelUtils.h"
#include "ParallelLoops.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ADOPTCUDAKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Threads of a block with a point each, and of one that runs a whole function.
constexpr int64_t kPointThreads = 128, kBlockThreads = 1024;

/// The loops of a function that does nothing else in memory: each may be a
/// function of its own. Empty where it does, or where a loop's points are not
/// known or too many for a grid.
static SmallVector<scf::ParallelOp> getLoops(func::FuncOp body) {
  SmallVector<scf::ParallelOp> loops;
  for (Operation &op : body.getBody().front().without_terminator()) {
    auto loop = dyn_cast<scf::ParallelOp>(op);
    if (!loop) {
      if (!isMemoryEffectFree(&op))
        return {};
      continue;
    }
    std::optional<int64_t> points = getPointCount(loop);
    if (!points || loop.getNumReductions() != 0 || allocates(loop) ||
        llvm::divideCeil(*points, kPointThreads) > kMostBlocks)
      return {};
    loops.push_back(loop);
  }
  return loops;
}

/// `op` and what it is computed from, in `function`, whose arguments are those
/// of `op`'s.
static Operation *cloneWithOperands(Operation *op, func::FuncOp from,
                                    gpu::GPUFuncOp function) {
  IRMapping mapping;
  mapping.map(from.getArguments(), function.getArguments());
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  options.omitUsesFromAbove = false;
  (void)getBackwardSlice(op, &slice, options);
  OpBuilder builder(function.getBody().front().getTerminator());
  for (Operation *other : slice)
    if (other->getBlock() == op->getBlock())
      builder.clone(*other, mapping);
  return builder.clone(*op, mapping);
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
    SmallVector<CudaKernelAttr> launches;
    for (auto [i, loop] : llvm::enumerate(getLoops(body)))
      if (*getPointCount(loop) != 0)
        launches.push_back(adoptLoop(
            loop, body, device, (kernel.getSymName() + "_" + Twine(i)).str()));
    if (launches.empty()) {
      FailureOr<CudaKernelAttr> launch = adoptWhole(kernel, body, device);
      if (failed(launch))
        return failure();
      launches.push_back(*launch);
    }
    setImplementation(
        kernel, kCudaTarget,
        CudaCodeAttr::get(&getContext(), launches, getArgumentBytes(kernel)));
    return success();
  }

  /// A thread per point.
  CudaKernelAttr adoptLoop(scf::ParallelOp loop, func::FuncOp body,
                           gpu::GPUModuleOp device, StringRef name) {
    Location loc = loop.getLoc();
    int64_t points = *getPointCount(loop);
    gpu::GPUFuncOp function = createCudaFunction(
        device, loc, name, body.getArgumentTypes(), kPointThreads);
    auto copy = cast<scf::ParallelOp>(cloneWithOperands(loop, body, function));
    OpBuilder builder(copy);
    Value block = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
    Value thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
    Value size = arith::ConstantIndexOp::create(builder, loc, kPointThreads);
    Value first = arith::MulIOp::create(builder, loc, block, size);
    Value number = arith::AddIOp::create(builder, loc, first, thread);
    runPoint(copy, number);
    return getCudaLaunch(function, llvm::divideCeil(points, kPointThreads),
                         kPointThreads, /*shared=*/0);
  }

  /// One block for all.
  FailureOr<CudaKernelAttr> adoptWhole(func::FuncOp kernel, func::FuncOp body,
                                       gpu::GPUModuleOp device) {
    Location loc = kernel.getLoc();
    gpu::GPUFuncOp function =
        createCudaFunction(device, loc, kernel.getSymName(),
                           body.getArgumentTypes(), kBlockThreads);
    Block &block = function.getBody().front();
    OpBuilder builder(block.getTerminator());
    Value thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
    if (failed(distribute(body.getBody(), thread, kBlockThreads)))
      return failure();
    FailureOr<int64_t> bytes = placeInShared(body);
    if (failed(bytes))
      return failure();
    if (*bytes > kMostShared)
      return kernel.emitError("expected at most ")
             << kMostShared
             << " bytes of temporary buffers in a kernel for CUDA devices, got "
             << *bytes;
    Block &source = body.getBody().front();
    source.getTerminator()->erase();
    block.getOperations().splice(block.getTerminator()->getIterator(),
                                 source.getOperations());
    for (auto [from, to] :
         llvm::zip(source.getArguments(), function.getArguments()))
      from.replaceAllUsesWith(to);
    return getCudaLaunch(function, /*grid=*/1, kBlockThreads, *bytes);
  }

  FailureOr<int64_t> placeInShared(func::FuncOp body) {
    OpBuilder entry(&body.getBody().front(), body.getBody().front().begin());
    Location loc = body.getLoc();
    Attribute space = getSharedSpace(&getContext());
    Value shared = createDynamicShared(entry, loc);
    FailureOr<int64_t> bytes = placeBuffers(
        body, [&](OpBuilder &builder, MemRefType type, Value offset) -> Value {
          auto inShared =
              MemRefType::get(type.getShape(), type.getElementType(),
                              MemRefLayoutAttrInterface(), space);
          Value view = memref::ViewOp::create(builder, loc, inShared, shared,
                                              offset, ValueRange{});
          return memref::MemorySpaceCastOp::create(builder, loc, type, view);
        });
    if (succeeded(bytes) && *bytes == 0)
      shared.getDefiningOp()->erase();
    return bytes;
  }
};
} // namespace
