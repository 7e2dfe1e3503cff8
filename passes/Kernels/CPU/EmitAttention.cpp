//===- EmitAttention.cpp - CPU code for attention -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "CpuKernels.h"
#include "Kernels/Common/KernelMemory.h"
#include "Kernels/Common/KernelUtils.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_EMITATTENTION
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct EmitAttention : fsdp::impl::EmitAttentionBase<EmitAttention> {
  void runOnOperation() override {
    for (func::FuncOp kernel : getKernels(getOperation())) {
      if (hasCodeFor(kernel, kCpuTarget))
        continue;
      for (Operation &op : kernel.getBody().front())
        if (isa<AttentionOp, AttentionBackwardOp>(op)) {
          emit(kernel, op);
          break;
        }
    }
  }

private:
  void emit(func::FuncOp kernel, Operation &op) {
    OpBuilder builder(kernel);
    builder.setInsertionPointAfter(kernel);
    auto backward = dyn_cast<AttentionBackwardOp>(op);
    ValueRange captured = backward
                              ? ValueRange(backward.getCaptured())
                              : ValueRange(cast<AttentionOp>(op).getCaptured());
    AttentionShapeAttr shape =
        backward ? backward.getShape() : cast<AttentionOp>(op).getShape();
    SmallVector<Type> memory =
        llvm::map_to_vector(captured, [](Value tensor) -> Type {
          return getFlatMemRef(tensor.getType());
        });
    SmallVector<Type> types{builder.getIndexType(), builder.getIndexType(),
                            getScratchType(&getContext(), 0)};
    llvm::append_range(types, getTileOperandTypes(&op, memory));
    auto impl = createCpuKernel(
        kernel, builder, types, /*grid=*/shape.getBatchSize(), /*grain=*/1,
        getAttentionScratch(shape, bool(backward)), getArgumentBytes(kernel));
    Block *body = impl.addEntryBlock();
    builder.setInsertionPointToStart(body);
    Operation *ret = func::ReturnOp::create(builder, kernel.getLoc());
    builder.setInsertionPoint(ret);
    emitAttentionTile(&op, builder, body->getArgument(0), body->getArgument(1),
                      body->getArguments().drop_front(3));
  }
};
} // namespace
