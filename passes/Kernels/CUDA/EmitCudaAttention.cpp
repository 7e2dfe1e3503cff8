//===- EmitCudaAttention.cpp - Code of attention for CUDA devices ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixTiles.h"
#include "CudaKernels.h"
#include "Kernels/Common/KernelMemory.h"
#include "Kernels/Common/KernelUtils.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_EMITCUDAATTENTION
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Parameters in the order of fsdp_rt_attention. A tensor that is not wanted is
/// an address that nothing reads.
static SmallVector<Type> getParameters(const AttentionParts &parts) {
  MLIRContext *context = parts.statsType.getContext();
  Attribute space = getGlobalSpace(context);
  SmallVector<Type> types;
  for (RankedTensorType type : parts.types)
    types.push_back(getFlatMemRef(type ? type : parts.statsType, space));
  types.push_back(getFlatMemRef(parts.statsType, space));
  for (Value captured : parts.captured)
    types.push_back(getFlatMemRef(captured.getType(), space));
  if (int64_t values = parts.getRowValues())
    types.push_back(
        getFlatMemRef(RankedTensorType::get({values * parts.getRowCount()},
                                            Float32Type::get(context)),
                      space));
  return types;
}

static FailureOr<CudaKernelAttr>
emitFunction(const AttentionParts &parts, AttentionRows rows, StringRef name,
             func::FuncOp kernel, gpu::GPUModuleOp device) {
  Location loc = kernel.getLoc();
  if (canUseTensorCores(parts)) {
    if (std::string why = findUnfitTuning(parts, rows); !why.empty())
      return kernel.emitError("@") << name << ", fsdp.tuning: " << why;
    if (std::string shape = describeTuning(parts, rows); !shape.empty())
      remark::passed(loc, remark::RemarkOpts::name("Tuned")
                              .category("fsdp-emit-cuda-attention")
                              .function(name))
          << shape;
  }
  AttentionLaunch launch = getAttentionLaunch(parts, rows);
  if (launch.grid > kMostBlocks)
    return kernel.emitError(
               "expected an attention of at most 2^31 - 1 tiles on "
               "CUDA devices, got ")
           << launch.grid;
  gpu::GPUFuncOp function = createCudaFunction(
      device, loc, name, getParameters(parts), launch.threads);
  // One block a multiprocessor is enough: ptxas keeps sums in registers, where
  // it would else put some of them into memory for a second block.
  if (launch.usesTensorCores)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      Builder(kernel).getI32IntegerAttr(1));
  Block *body = &function.getBody().front();
  OpBuilder builder(body->getTerminator());
  emitAttentionTiles(parts, rows, builder, loc, body->getArguments(),
                     createDynamicShared(builder, loc));
  return getCudaLaunch(function, launch.grid, launch.threads,
                       launch.sharedBytes);
}

static LogicalResult emitKernel(func::FuncOp kernel, Operation *op,
                                gpu::GPUModuleOp device, MathMode math) {
  AttentionParts parts(op, math);
  SmallVector<CudaKernelAttr> launches;
  auto emit = [&](AttentionRows rows, StringRef suffix) -> LogicalResult {
    FailureOr<CudaKernelAttr> launch = emitFunction(
        parts, rows, (kernel.getSymName() + suffix).str(), kernel, device);
    if (succeeded(launch))
      launches.push_back(*launch);
    return launch;
  };
  if (!parts.isBackward() && failed(emit(AttentionRows::Out, "")))
    return failure();
  if (parts.isBackward() && parts.exists(kDq) &&
      failed(emit(AttentionRows::Dq, "_dq")))
    return failure();
  if (parts.isBackward() && (parts.exists(kDk) || parts.exists(kDv)) &&
      failed(emit(AttentionRows::DkDv, "_dkdv")))
    return failure();
  setImplementation(
      kernel, kCudaTarget,
      CudaCodeAttr::get(kernel.getContext(), launches, getArgumentBytes(kernel),
                        parts.getRowValues() * parts.getRowCount() *
                            int64_t(sizeof(float))));
  return success();
}

namespace {
struct EmitCudaAttention
    : fsdp::impl::EmitCudaAttentionBase<EmitCudaAttention> {
  using EmitCudaAttentionBase::EmitCudaAttentionBase;

  void runOnOperation() override {
    for (func::FuncOp kernel : getKernels(getOperation())) {
      if (hasCodeFor(kernel, kCudaTarget))
        continue;
      Operation *attention = nullptr;
      for (Operation &op : kernel.getBody().front())
        if (isa<AttentionOp, AttentionBackwardOp>(op))
          attention = &op;
      if (!attention)
        continue;
      gpu::GPUModuleOp device = getCudaModule(getOperation());
      if (!device || failed(emitKernel(kernel, attention, device, math)))
        return signalPassFailure();
    }
  }
};
} // namespace
