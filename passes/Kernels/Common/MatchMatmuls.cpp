//===- MatchMatmuls.cpp - Kernels that a BLAS does ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/TypeUtilities.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_MATCHMATMULS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static MatmulAttr getMatmul(MLIRContext *context, const ContractionPlan &plan) {
  const MatmulShape &shape = plan.shape;
  Builder builder(context);
  auto array = [&](ArrayRef<int64_t> values) {
    return builder.getDenseI64ArrayAttr(values);
  };
  auto getNumber = [](Value read) -> int64_t {
    return read ? int64_t(cast<BlockArgument>(read).getArgNumber()) : -1;
  };
  return MatmulAttr::get(
      context, getNumber(plan.sourceA), getNumber(plan.sourceB), shape.m,
      shape.n, shape.k, shape.lda, shape.ldb, shape.ldc, shape.transA,
      shape.transB, !plan.zeroInit,
      array({shape.offsetA, shape.offsetB, shape.offsetC}), array(shape.batch),
      array(shape.strideA), array(shape.strideB), array(shape.strideC),
      builder.getF64FloatAttr(shape.alpha), getNumber(plan.bias),
      getNumber(plan.addend));
}

/// Whether the product that @kernel is has factors of f32.
static bool isOfF32(func::FuncOp kernel, MatmulAttr matmul) {
  return getElementTypeOrSelf(kernel.getArgumentTypes()[matmul.getA()]).isF32();
}

namespace {
struct MatchMatmuls : fsdp::impl::MatchMatmulsBase<MatchMatmuls> {
  using MatchMatmulsBase::MatchMatmulsBase;

  void runOnOperation() override {
    for (func::FuncOp kernel : getKernels(getOperation())) {
      if (!hasImplementation(kernel)) {
        ContractionPlans plans(&kernel.getBody().front());
        if (const ContractionPlan *plan = getOnlyPlan(kernel, plans))
          kernel->setAttr(names::kMatmul, getMatmul(&getContext(), *plan));
      }
      // Another target may have found the product before.
      auto matmul = kernel->getAttrOfType<MatmulAttr>(names::kMatmul);
      if (tf32 && matmul && isOfF32(kernel, matmul))
        kernel->setAttr(names::kTF32, UnitAttr::get(&getContext()));
    }
  }
};
} // namespace
