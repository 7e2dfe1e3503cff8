//===- Rounding.cpp - What is rounded to narrower types -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rounding.h"
#include "PartitionUtils.h"
#include "fsdp/Analysis/Step/PositionProducts.h"

using namespace mlir;
using namespace mlir::fsdp;

bool fsdp::roundBuffers(TracedStep &step, FloatType type,
                        const llvm::DenseSet<Attribute> &ignored) {
  bool isAny = false;
  for (BufferInfo &buffer : step.buffers) {
    auto traced = cast<RankedTensorType>(buffer.arg.getType());
    auto element = dyn_cast<FloatType>(traced.getElementType());
    if (!element || element.getWidth() <= type.getWidth() ||
        ignored.contains(buffer.fqn))
      continue;
    OpBuilder builder = OpBuilder::atBlockBegin(&step.func.getBody().front());
    Location loc = buffer.arg.getLoc();
    Value narrow = createCast(builder, loc, buffer.arg, traced.clone(type));
    Value rounded = createCast(builder, loc, narrow, traced);
    buffer.arg.replaceAllUsesExcept(rounded, narrow.getDefiningOp());
    isAny = true;
  }
  return isAny;
}

void fsdp::castOutputs(TracedStep &step, FloatType type) {
  Operation *ret = step.func.getBody().front().getTerminator();
  OpBuilder builder(ret);
  for (OpOperand &result : ret->getOpOperands()) {
    auto traced = dyn_cast<RankedTensorType>(result.get().getType());
    if (traced && isa<FloatType>(traced.getElementType()) &&
        step.func.getResultAttr(result.getOperandNumber(), names::kOutput))
      result.set(
          createCast(builder, ret->getLoc(), result.get(), traced.clone(type)));
  }
}

namespace {
class RoundingReporter {
public:
  /// `params`, `buffers`: the types they are rounded to, null where they are
  /// not.
  RoundingReporter(TracedStep &step, ArrayRef<FloatType> params,
                   FloatType buffers, ArrayRef<Treatment> bufferTreatments)
      : block(&step.func.getBody().front()) {
    for (auto [param, type] : llvm::zip(step.params, params))
      add(param.arg, param.fqn, type, /*isParam=*/true);
    for (auto [buffer, treatment] : llvm::zip(step.buffers, bufferTreatments))
      if (treatment != Treatment::Ignored)
        add(buffer.arg, buffer.fqn, buffers, /*isParam=*/false);
  }

  void report() {
    if (rounded.empty())
      return;
    // The first of the two types is as good as the other: neither holds
    // positions of long sequences.
    PositionProducts positions(block->getParentOp(),
                               rounded.front().second.type);
    for (const PositionProduct &product : positions.getProducts())
      for (BlockArgument source :
           PositionProducts::getSources(product.factor, block))
        if (auto found = rounded.find(source); found != rounded.end()) {
          report(source.getLoc(), found->second);
          rounded.erase(found);
        }
  }

private:
  struct Rounded {
    StringAttr fqn;
    FloatType type;
    bool isParam;
  };

  void add(BlockArgument arg, StringAttr fqn, FloatType type, bool isParam) {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(arg));
    if (type && element && element.getWidth() > type.getWidth())
      rounded.insert({arg, {fqn, type, isParam}});
  }

  void report(Location loc, const Rounded &value) {
    InFlightDiagnostic diag =
        value.isParam ? emitRemark(loc) : emitWarning(loc);
    diag << (value.isParam ? "parameter " : "buffer ") << value.fqn
         << " is rounded to " << value.type << " ("
         << (value.isParam ? "param-dtype, as FSDP rounds it" : "buffer-dtype")
         << ") before it is multiplied by positions: angles are off by up to "
            "1/"
         << (int64_t(1) << APFloat::semanticsPrecision(
                 value.type.getFloatSemantics()))
         << " of themselves; "
         << (value.isParam ? "a buffer is not rounded"
                           : "under ignore it is not rounded");
  }

  Block *block;
  llvm::MapVector<Value, Rounded> rounded;
};
} // namespace

void fsdp::reportRoundedPositions(TracedStep &step, ArrayRef<FloatType> params,
                                  FloatType buffers,
                                  ArrayRef<Treatment> bufferTreatments) {
  RoundingReporter(step, params, buffers, bufferTreatments).report();
}
