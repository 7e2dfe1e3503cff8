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

#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_LOCALIZEVALUES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// What the forward pass must produce: the loss and new buffers.
static SmallVector<Value> getForwardRoots(TracedStep &step) {
  Operation *ret = step.func.getBody().front().getTerminator();
  SmallVector<Value> roots{ret->getOperand(step.loss)};
  for (BufferInfo &buffer : step.buffers)
    if (buffer.update)
      roots.push_back(ret->getOperand(*buffer.update));
  return roots;
}

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
  Cloner(Block &block, const StepPhases &phases) : block(block) {
    for (Operation &op : block)
      if (phases.isForward(&op))
        forward.insert(&op);
  }

  /// Repeats `op` before each of its readers.
  void cloneBeforeReaders(Operation *op) {
    for (Operation *reader : getAllReaders(op))
      clone(op, reader, reader);
    erase(op);
  }

  /// Repeats `op` before its first reader of each phase.
  void cloneForPhases(Operation *op) {
    SmallVector<Operation *> readers = getAllReaders(op);
    for (bool phase : {true, false}) {
      SmallVector<Operation *> inPhase =
          llvm::filter_to_vector(readers, [&](Operation *reader) {
            return forward.contains(reader) == phase;
          });
      if (inPhase.empty())
        continue;
      Operation *first =
          *llvm::min_element(inPhase, [](Operation *a, Operation *b) {
            return a->isBeforeInBlock(b);
          });
      clone(op, first, inPhase);
    }
    erase(op);
  }

private:
  SmallVector<Operation *> getAllReaders(Operation *op) {
    llvm::SmallSetVector<Operation *, 4> readers;
    for (Value result : op->getResults())
      for (Operation *reader : getReaders(result, &block))
        readers.insert(reader);
    return readers.takeVector();
  }

  /// Forgets `op` too: the next copy may be made at its address.
  void erase(Operation *op) {
    forward.erase(op);
    op->erase();
  }

  void clone(Operation *op, Operation *before, ArrayRef<Operation *> readers) {
    Operation *copy = OpBuilder(before).clone(*op);
    if (forward.contains(before))
      forward.insert(copy);
    for (Operation *reader : readers)
      for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults()))
        replaceInside(reader, from, to);
  }

  Block &block;
  llvm::DenseSet<Operation *> forward;
};
} // namespace

namespace {
struct LocalizeValues : fsdp::impl::LocalizeValuesBase<LocalizeValues> {
  void runOnOperation() override {
    // Without a traced step there is nothing to do (another level, or a module
    // of somebody else's).
    if (!getOperation().lookupSymbol<func::FuncOp>(names::kForwardBackward))
      return markAllAnalysesPreserved();
    FailureOr<TracedStep> step = readTracedStep(getOperation());
    if (failed(step))
      return signalPassFailure();
    Block &block = step->func.getBody().front();

    replaceSplats(block);
    orderPhases(block, StepPhases(&block, getForwardRoots(*step)));

    SmallVector<Value> params;
    for (ParamInfo &param : step->params)
      params.push_back(param.arg);
    Cloner cloner(block, StepPhases(&block, getForwardRoots(*step)));
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
