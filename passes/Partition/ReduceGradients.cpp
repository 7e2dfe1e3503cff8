//===- ReduceGradients.cpp - Average gradients per flat parameter ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/DivideFactors.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Elementwise.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_REDUCEGRADIENTS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Results that are gradients, by parameter name.
static llvm::StringMap<unsigned> getGradResults(ProgramOp program) {
  llvm::StringMap<unsigned> grads;
  for (unsigned i : getResultsWith(program, names::kGrad)) {
    auto dict = program.getResultAttrOfType<DictionaryAttr>(i, names::kGrad);
    if (auto fqn = dict ? dict.getAs<StringAttr>("fqn") : StringAttr())
      grads[fqn.getValue()] = i;
  }
  return grads;
}

/// The last op that computes one of `values`; null where none does.
static Operation *getLastProducer(ValueRange values) {
  Operation *last = nullptr;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp())
      if (!last || last->isBeforeInBlock(op))
        last = op;
  return last;
}

/// Of a loss that is a sum: what it is a sum over, as the mean over all ranks,
/// which the program returns instead. Null where the loss is a mean.
static Value averageCount(ProgramOp program) {
  SmallVector<unsigned> counts = getResultsWith(program, names::kLossCount);
  if (counts.empty() || !getTraits(program.getKind()).hasBackward)
    return {};
  Value count = program.getReturn().getOperand(counts.front());
  OpBuilder builder(program.getContext());
  builder.setInsertionPointAfterValue(count);
  Location loc = count.getLoc();
  auto type = RankedTensorType::get({}, builder.getF64Type());
  if (count.getType() != type)
    count = createElementwise(
        builder, loc, type, count,
        [&](OpBuilder &b, Location l, ValueRange v) -> Value {
          return convertScalarToDtype(b, l, v[0], type.getElementType(),
                                      /*isUnsignedCast=*/false);
        });
  Value mean = AverageOp::create(builder, loc, count);
  replaceResult(program, counts.front(), mean);
  return mean;
}

/// The factors of a loss that is a mean; of a sum its count divides.
static FailureOr<DivideFactors> readFactors(ProgramOp program, StringRef text) {
  llvm::Expected<DivideFactors> factors = DivideFactors::parse(text);
  if (!factors)
    return emitInputError(program, llvm::toString(factors.takeError()));
  bool isSum = !getResultsWith(program, names::kLossCount).empty() &&
               !getResultsWith(program, names::kGrad).empty();
  if (isSum && !text.empty())
    return emitInputError(program, "expected a loss that is a mean beside "
                                   "gradient-divide-factor ")
           << text << ", got a sum that fsdp.loss_count divides";
  return *factors;
}

/// `grads` divided by `factor` in f32 or wider, and rounded to their types.
static SmallVector<Value> divideBefore(ValueRange grads, double factor) {
  if (factor == 1)
    return llvm::to_vector(grads);
  return llvm::map_to_vector(grads, [&](Value grad) {
    OpBuilder builder(grad.getContext());
    builder.setInsertionPointAfterValue(grad);
    return createElementwise(
        builder, grad.getLoc(), cast<RankedTensorType>(grad.getType()), grad,
        [&](OpBuilder &b, Location l, ValueRange v) -> Value {
          auto type = cast<FloatType>(v[0].getType());
          FloatType wide = type.getWidth() < 32 ? b.getF32Type() : type;
          Value grad = convertScalarToDtype(b, l, v[0], wide,
                                            /*isUnsignedCast=*/false);
          Value divisor =
              arith::ConstantOp::create(b, l, b.getFloatAttr(wide, factor));
          Value divided = arith::DivFOp::create(b, l, grad, divisor);
          return convertScalarToDtype(b, l, divided, type,
                                      /*isUnsignedCast=*/false);
        });
  });
}

/// `factor` as an operand of reduce_grad; null where it changes nothing.
static Value createOver(ProgramOp program, double factor) {
  if (factor == 1)
    return {};
  OpBuilder builder = OpBuilder::atBlockBegin(&program.getBody().front());
  return createScalar(builder, program.getLoc(), builder.getF64Type(), factor);
}

/// One reduce_grad right after the later of the last gradient of `flat`'s
/// members and of `over`.
static FailureOr<Value> reduceGradient(ProgramOp program, FlatParamOp flat,
                                       llvm::StringMap<unsigned> &results,
                                       double before, Value over) {
  Block &block = program.getBody().front();
  SmallVector<Value> grads;
  for (MemberAttr member : flat.getMemberRange()) {
    auto it = results.find(member.getFqn().getValue());
    if (it == results.end()) {
      InFlightDiagnostic diag =
          emitInputError(program, "expected a result that is the gradient of ")
          << member.getFqn();
      diag.attachNote(flat.getLoc()) << "its flat parameter is trainable";
      return diag;
    }
    grads.push_back(block.getTerminator()->getOperand(it->second));
  }
  grads = divideBefore(grads, before);
  OpBuilder builder(program.getContext());
  Operation *last = getLastProducer(grads);
  if (over && (!last || last->isBeforeInBlock(over.getDefiningOp())))
    last = over.getDefiningOp();
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(&block);
  return ReduceGradOp::create(builder, last ? last->getLoc() : flat.getLoc(),
                              flat.getShardedType(flat.getElementType()),
                              FlatSymbolRefAttr::get(flat), grads, over)
      .getResult();
}

namespace {
struct ReduceGradients : fsdp::impl::ReduceGradientsBase<ReduceGradients> {
  using ReduceGradientsBase::ReduceGradientsBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    FailureOr<DivideFactors> factors =
        readFactors(program, gradientDivideFactor);
    if (failed(factors))
      return signalPassFailure();
    Value over = averageCount(program);
    if (getResultsWith(program, names::kGrad).empty()) {
      if (!over)
        markAllAnalysesPreserved();
      return;
    }
    llvm::StringMap<unsigned> results = getGradResults(program);
    auto module = program->getParentOfType<ModuleOp>();
    Value left = over;
    if (!over)
      left = createOver(
          program,
          factors->getLeft((*module.getOps<MeshOp>().begin()).getWorldSize()));
    SmallVector<std::pair<FlatParamOp, Value>> shards;
    for (auto flat : module.getOps<FlatParamOp>()) {
      if (!flat.getTrainable())
        continue;
      // What ranks do not share is divided by counts alone.
      bool isShared = over || !flat.isRankOwn();
      FailureOr<Value> shard =
          reduceGradient(program, flat, results, isShared ? factors->before : 1,
                         isShared ? left : Value());
      if (failed(shard))
        return signalPassFailure();
      shards.push_back({flat, *shard});
    }
    eraseResults(program, getResultsWith(program, names::kGrad));
    for (auto &[flat, shard] : shards)
      appendResult(program, shard, names::kGradShard,
                   FlatSymbolRefAttr::get(flat));
  }
};
} // namespace
