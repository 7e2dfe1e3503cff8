//===- HoistChecks.cpp - Assertions leave their loops ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "llvm/ADT/SmallBitVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_HOISTCHECKS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The name of the step's input that `value` is made from by views, casts and
/// other elementwise ops with one tensor operand; empty where it is none.
static StringRef getInputName(Value value, ProgramOp step) {
  while (Operation *op = value.getDefiningOp()) {
    Value next;
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      if (linalgOp.getNumDpsInputs() == 1)
        next = linalgOp.getDpsInputs()[0];
    } else if (op->getNumOperands() == 1) {
      next = op->getOperand(0);
    }
    if (!next)
      return {};
    value = next;
  }
  auto arg = cast<BlockArgument>(value);
  if (arg.getOwner() != &step.getBody().front())
    return {};
  auto input =
      step.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(), names::kInput);
  auto name = input ? input.getAs<StringAttr>("name") : StringAttr();
  return name ? name.getValue() : StringRef();
}

namespace {
/// One assertion in the body of a linalg.generic.
class Check {
public:
  Check(cf::AssertOp assertion, linalg::GenericOp op)
      : assertion(assertion), op(op) {}

  /// Computes the condition over all points and checks it before `op`.
  LogicalResult hoist(ProgramOp step);
  /// Makes lookups that rely on it safe in any order.
  void guardLookups();

private:
  LogicalResult collectSlice();
  Value createCondition(OpBuilder &builder);

  cf::AssertOp assertion;
  linalg::GenericOp op;
  /// Ops of the body that the condition is computed from, in order.
  llvm::SetVector<Operation *> slice;
  /// Inputs and loops that it depends on.
  SmallVector<unsigned> inputs;
  llvm::SmallBitVector loops;
};
} // namespace

LogicalResult Check::collectSlice() {
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  options.filter = [&](Operation *inner) {
    return inner->getBlock() == op.getBody();
  };
  (void)getBackwardSlice(assertion.getArg(), &slice, options);
  if (Operation *def = assertion.getArg().getDefiningOp())
    if (def->getBlock() == op.getBody())
      slice.insert(def);
  loops.resize(op.getNumLoops());
  llvm::SmallSetVector<unsigned, 4> used;
  bool readsResult = false;
  auto use = [&](Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    if (!arg || arg.getOwner() != op.getBody())
      return;
    if (arg.getArgNumber() < op.getNumDpsInputs())
      used.insert(arg.getArgNumber());
    else
      readsResult = true;
  };
  use(assertion.getArg());
  for (Operation *inner : slice) {
    llvm::for_each(inner->getOperands(), use);
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      loops.set(index.getDim());
  }
  if (readsResult)
    return assertion.emitOpError("expected a condition that is computed from "
                                 "inputs, got one that reads what is written");
  inputs = used.takeVector();
  for (unsigned i : inputs)
    for (AffineExpr expr :
         op.getMatchingIndexingMap(op.getDpsInputOperand(i)).getResults())
      expr.walk([&](AffineExpr part) {
        if (auto dim = dyn_cast<AffineDimExpr>(part))
          loops.set(dim.getPosition());
      });
  return success();
}

/// and-reduction over the loops that matter, as a tensor<i1>.
Value Check::createCondition(OpBuilder &builder) {
  Location loc = assertion.getLoc();
  MLIRContext *context = builder.getContext();
  llvm::SmallDenseMap<unsigned, unsigned> renumbered;
  SmallVector<AffineExpr> newDims(op.getNumLoops(),
                                  getAffineConstantExpr(0, context));
  for (unsigned loop : loops.set_bits()) {
    unsigned position = renumbered.size();
    renumbered[loop] = position;
    newDims[loop] = getAffineDimExpr(position, context);
  }
  unsigned rank = renumbered.size();
  SmallVector<AffineMap> maps;
  SmallVector<Value> operands;
  for (unsigned i : inputs) {
    OpOperand *operand = op.getDpsInputOperand(i);
    operands.push_back(operand->get());
    maps.push_back(op.getMatchingIndexingMap(operand).replaceDimsAndSymbols(
        newDims, {}, rank, 0));
  }
  maps.push_back(AffineMap::get(rank, 0, context));
  Value yes =
      arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
  Value init = tensor::EmptyOp::create(builder, loc, ArrayRef<int64_t>{},
                                       builder.getI1Type());
  init = linalg::FillOp::create(builder, loc, yes, init).getResult(0);
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::reduction);
  // A loop that no input spans (only linalg.index reads it) needs one that
  // does: an empty tensor of its size.
  llvm::SmallBitVector spanned(rank);
  for (AffineMap map : ArrayRef(maps).drop_back())
    for (AffineExpr expr : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        spanned.set(dim.getPosition());
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  for (unsigned loop : loops.set_bits()) {
    unsigned position = renumbered.lookup(loop);
    if (spanned.test(position))
      continue;
    operands.push_back(tensor::EmptyOp::create(
        builder, loc, ArrayRef<int64_t>{ranges[loop]}, builder.getI1Type()));
    maps.insert(maps.end() - 1,
                AffineMap::get(rank, 0, getAffineDimExpr(position, context)));
  }
  return linalg::GenericOp::create(
             builder, loc, init.getType(), operands, init, maps, iterators,
             [&](OpBuilder &b, Location l, ValueRange args) {
               IRMapping mapping;
               for (auto [position, i] : llvm::enumerate(inputs))
                 mapping.map(op.getBody()->getArgument(i), args[position]);
               for (Operation &inner : *op.getBody()) {
                 if (!slice.contains(&inner))
                   continue;
                 Operation *copy = b.clone(inner, mapping);
                 if (auto index = dyn_cast<linalg::IndexOp>(copy))
                   index.setDim(renumbered.lookup(index.getDim()));
               }
               Value all = arith::AndIOp::create(
                   b, l, args.back(),
                   mapping.lookupOrDefault(assertion.getArg()));
               linalg::YieldOp::create(b, l, all);
             })
      .getResult(0);
}

LogicalResult Check::hoist(ProgramOp step) {
  if (failed(collectSlice()))
    return failure();
  OpBuilder builder(op);
  std::string message = assertion.getMsg().str();
  for (unsigned i : inputs)
    if (StringRef name = getInputName(op.getInputs()[i], step); !name.empty())
      message += (" (input '" + name + "')").str();
  CheckOp::create(builder, assertion.getLoc(), createCondition(builder),
                  message);
  return success();
}

void Check::guardLookups() {
  Value zero;
  for (Operation &inner : *op.getBody()) {
    auto extract = dyn_cast<tensor::ExtractOp>(inner);
    if (!extract || extract->isBeforeInBlock(assertion))
      continue;
    OpBuilder builder(extract);
    if (!zero)
      zero = arith::ConstantIndexOp::create(builder, op.getLoc(), 0);
    for (OpOperand &index : extract.getIndicesMutable()) {
      Operation *def = index.get().getDefiningOp();
      if (def &&
          (isa<linalg::IndexOp>(def) || def->hasTrait<OpTrait::ConstantLike>()))
        continue;
      index.set(arith::SelectOp::create(builder, op.getLoc(),
                                        assertion.getArg(), index.get(), zero));
    }
  }
}

namespace {
struct HoistChecks : fsdp::impl::HoistChecksBase<HoistChecks> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    SmallVector<cf::AssertOp> assertions;
    step.walk([&](cf::AssertOp op) { assertions.push_back(op); });
    for (cf::AssertOp assertion : assertions) {
      auto generic = dyn_cast<linalg::GenericOp>(assertion->getParentOp());
      if (assertion.getMsg() == kReciprocalGuard) {
        assertion.erase();
        continue;
      }
      if (generic && generic.hasPureTensorSemantics() &&
          !generic.hasDynamicShape()) {
        Check check(assertion, generic);
        if (failed(check.hoist(step)))
          return signalPassFailure();
        check.guardLookups();
        assertion.erase();
      } else if (assertion->getParentOp() == step) {
        OpBuilder builder(assertion);
        auto type = RankedTensorType::get({}, builder.getI1Type());
        Value condition = tensor::FromElementsOp::create(
            builder, assertion.getLoc(), type, assertion.getArg());
        CheckOp::create(builder, assertion.getLoc(), condition,
                        assertion.getMsg());
        assertion.erase();
      } else {
        assertion.emitOpError("expected an assertion at the top of the step or "
                              "in a linalg.generic, got one inside ")
            << assertion->getParentOp()->getName();
        return signalPassFailure();
      }
    }
  }
};
} // namespace
