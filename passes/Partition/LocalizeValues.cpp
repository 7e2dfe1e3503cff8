//===- LocalizeValues.cpp - Constants and parameter views near readers ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A traced step is CSE'd: one empty tensor serves every matmul of a shape, and
// a transposed weight made in forward is read again in backward. This pass
// gives readers their own copies again, before anything is partitioned.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/ReplaceInside.h"

#include "llvm/ADT/BitVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_LOCALIZEVALUES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Moves forward ops before backward ones; both keep their order.
static void orderPhases(Block &block, const StepPhases &phases) {
  Operation *firstBackward = nullptr;
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (!phases.isForward(&op)) {
      if (!firstBackward)
        firstBackward = &op;
    } else if (firstBackward) {
      op.moveBefore(firstBackward);
    }
  }
}

/// A splat of more than one element, as the fill it stands for. It is never
/// stored: llama-405b's trace has an 8 GB zero.
static void replaceSplats(Block &block) {
  for (auto constant :
       llvm::make_early_inc_range(block.getOps<arith::ConstantOp>())) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    auto type = dyn_cast<RankedTensorType>(constant.getType());
    if (!splat || !type || type.getNumElements() <= 1)
      continue;
    OpBuilder builder(constant);
    Location loc = constant.getLoc();
    Value scalar = arith::ConstantOp::create(
        builder, loc, cast<TypedAttr>(splat.getSplatValue<Attribute>()));
    Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                          type.getElementType());
    auto fill = linalg::FillOp::create(builder, loc, scalar, empty);
    constant.replaceAllUsesWith(fill.getResult(0));
    constant.erase();
  }
}

/// Tensors worth a copy per reader. Scalars are free to share.
static bool isLocalConstant(Operation *op) {
  return isa<tensor::EmptyOp, linalg::FillOp>(op) && isConstantValue(op);
}

namespace {
/// Repeats ops nearer to their readers and remembers the phase of each copy.
class Cloner {
public:
  Cloner(TracedStep &step, const StepPhases &phases)
      : block(step.func.getBody().front()) {
    for (Operation &op : block)
      if (phases.isForward(&op))
        forward.insert(&op);
    forwardResults = step.getForwardResults();
  }

  /// Repeats `op` before each of its readers.
  void cloneBeforeReaders(Operation *op) {
    Readers readers(*this, op);
    for (Operation *reader : readers.ops)
      clone(op, reader, reader);
    cloneForReturn(op, op, readers.forwardResults);
    cloneForReturn(op, block.getTerminator(), readers.otherResults);
    erase(op);
  }

  /// Repeats `op` before its first reader of each phase.
  void cloneForPhases(Operation *op) {
    Readers readers(*this, op);
    for (bool phase : {true, false}) {
      SmallVector<Operation *> inPhase =
          llvm::filter_to_vector(readers.ops, [&](Operation *reader) {
            return forward.contains(reader) == phase;
          });
      SmallVector<OpOperand *> &returned =
          phase ? readers.forwardResults : readers.otherResults;
      // What forward only returns stays where it was made.
      Operation *first = phase ? op : block.getTerminator();
      if (!inPhase.empty())
        first = *llvm::min_element(inPhase, [](Operation *a, Operation *b) {
          return a->isBeforeInBlock(b);
        });
      else if (returned.empty())
        continue;
      clone(op, first, inPhase, returned);
    }
    erase(op);
  }

private:
  /// Who reads an op's results: ops, and the return for either phase.
  struct Readers {
    Readers(Cloner &cloner, Operation *op) {
      Operation *ret = cloner.block.getTerminator();
      llvm::SmallSetVector<Operation *, 4> unique;
      for (Value result : op->getResults())
        for (Operation *reader : getReaders(result, &cloner.block))
          if (reader != ret)
            unique.insert(reader);
      ops = unique.takeVector();
      for (OpOperand &operand : ret->getOpOperands())
        if (operand.get().getDefiningOp() == op)
          (cloner.forwardResults.test(operand.getOperandNumber())
               ? forwardResults
               : otherResults)
              .push_back(&operand);
    }
    SmallVector<Operation *> ops;
    SmallVector<OpOperand *> forwardResults, otherResults;
  };

  void cloneForReturn(Operation *op, Operation *before,
                      ArrayRef<OpOperand *> returned) {
    if (!returned.empty())
      clone(op, before, {}, returned);
  }

  /// Forgets `op` too: the next copy may be made at its address.
  void erase(Operation *op) {
    forward.erase(op);
    op->erase();
  }

  void clone(Operation *op, Operation *before, ArrayRef<Operation *> readers,
             ArrayRef<OpOperand *> returned = {}) {
    Operation *copy = OpBuilder(before).clone(*op);
    if (forward.contains(before))
      forward.insert(copy);
    for (Operation *reader : readers)
      for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults()))
        replaceInside(reader, from, to);
    for (OpOperand *operand : returned)
      operand->set(
          copy->getResult(cast<OpResult>(operand->get()).getResultNumber()));
  }

  Block &block;
  llvm::DenseSet<Operation *> forward;
  /// Results of the step that forward makes.
  llvm::BitVector forwardResults;
};
} // namespace

namespace {
struct LocalizeValues : fsdp::impl::LocalizeValuesBase<LocalizeValues> {
  void runOnOperation() override {
    // Without a traced step there is nothing to do (another level, or a module
    // of somebody else's).
    if (!getOperation().lookupSymbol<func::FuncOp>(names::kForwardBackward))
      return markAllAnalysesPreserved();
    FailureOr<std::vector<TracedStep>> steps = readTracedSteps(getOperation());
    if (failed(steps))
      return signalPassFailure();
    for (TracedStep &step : *steps)
      localize(step);
  }

private:
  static void localize(TracedStep &step) {
    Block &block = step.func.getBody().front();

    replaceSplats(block);
    orderPhases(block, StepPhases(&block, step.getForwardRoots()));

    SmallVector<Value> params;
    for (ParamInfo &param : step.params)
      params.push_back(param.arg);
    Cloner cloner(step, StepPhases(&block, step.getForwardRoots()));
    DerivedValues derived(&block, params);
    SmallVector<Operation *> candidates;
    for (Operation &op : block.without_terminator())
      if (op.getNumResults() &&
          (isLocalConstant(&op) || derived.contains(op.getResult(0))))
        candidates.push_back(&op);
    // Last to first, so that a chain of views moves as a whole.
    for (Operation *op : llvm::reverse(candidates)) {
      if (isLocalConstant(op) || isViewOrCast(op))
        cloner.cloneBeforeReaders(op);
      else
        cloner.cloneForPhases(op);
    }
  }
};
} // namespace
