//===- OutlineKernels.cpp - Kernels become functions and launches ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <queue>

namespace mlir::fsdp {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Erases an op, and those it read that nothing else reads and that are no
/// kernel's.
static void eraseWithOperands(Operation *op) {
  llvm::SmallSetVector<Operation *, 8> worklist;
  auto erase = [&](Operation *dead) {
    for (Value read : getReadValues(dead))
      if (Operation *def = read.getDefiningOp())
        worklist.insert(def);
    dead->erase();
  };
  erase(op);
  while (!worklist.empty()) {
    Operation *def = worklist.pop_back_val();
    if (!def->hasAttr(names::kKernel) && isOpTriviallyDead(def))
      erase(def);
  }
}

namespace {

/// The ops of one kernel, in program order.
using KernelOps = SmallVector<Operation *>;

/// Builds the function of one kernel.
class Outliner {
public:
  Outliner(ModuleOp module, SymbolTable &symbols, const KernelOps &ops,
           ArrayRef<Value> stops, unsigned number)
      : module(module), symbols(symbols), ops(ops),
        members(ops.begin(), ops.end()), number(number),
        builder(module.getContext()), stops(stops.begin(), stops.end()) {}

  void outline();

private:
  bool isReadOutside(Value value);
  void collectResults();
  Value getInside(Value value);
  void cloneInside(Operation *op);
  func::FuncOp createFunction();

  ModuleOp module;
  SymbolTable &symbols;
  const KernelOps &ops;
  llvm::DenseSet<Operation *> members;
  unsigned number;
  OpBuilder builder;

  /// What a contraction reads, with strides: transposes between it and these
  /// are repeated inside, even if another kernel computes them too.
  llvm::SmallDenseSet<Value> stops;
  llvm::SetVector<Value> inputs;
  SmallVector<Value> results;
  func::FuncOp func;
  IRMapping mapping;
};

} // namespace

/// Whether anything but the kernel reads `value`. Repeatable ops in between are
/// read through: what they make for the kernel is repeated inside it.
bool Outliner::isReadOutside(Value value) {
  Block *block = ops.front()->getBlock();
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    Operation *reader = block->findAncestorOpInBlock(*user);
    if (members.contains(reader))
      return false;
    ComputeKind kind = getComputeKind(reader);
    if (kind != ComputeKind::View && kind != ComputeKind::Scalar)
      return true;
    return llvm::any_of(reader->getResults(),
                        [&](Value v) { return isReadOutside(v); });
  });
}

void Outliner::collectResults() {
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (isReadOutside(result))
        results.push_back(result);
}

/// `value` as the kernel's body sees it: an argument, or a repeated op.
Value Outliner::getInside(Value value) {
  if (Value inside = mapping.lookupOrNull(value))
    return inside;
  Operation *op = value.getDefiningOp();
  bool isInput = !op || stops.contains(value);
  if (!isInput) {
    ComputeKind kind = getComputeKind(op);
    bool free = kind == ComputeKind::View || kind == ComputeKind::Constant ||
                kind == ComputeKind::Scalar;
    // Before a stop there may be transposes on the way.
    isInput = !free && (stops.empty() || !getMove(op));
  }
  if (isInput) {
    inputs.insert(value);
    unsigned index = inputs.size() - 1;
    (void)func.insertArgument(index, value.getType(), {}, value.getLoc());
    Value arg = func.getArgument(index);
    mapping.map(value, arg);
    return arg;
  }
  cloneInside(op);
  return mapping.lookup(value);
}

void Outliner::cloneInside(Operation *op) {
  for (Value read : getReadValues(op))
    (void)getInside(read);
  Operation *copy = builder.clone(*op, mapping);
  copy->removeAttr(names::kKernel);
}

/// Names a kernel after what it mainly does, for traces.
static std::string getName(const KernelOps &ops, unsigned number) {
  StringRef what = "elementwise";
  for (Operation *op : ops) {
    ComputeKind kind = getComputeKind(op);
    if (kind == ComputeKind::Contraction)
      what = "matmul";
    else if (kind == ComputeKind::Reduction)
      what = "reduce";
    else if (kind == ComputeKind::Opaque)
      what = op->getName().stripDialect();
  }
  return ("k" + Twine(number) + "_" + what).str();
}

func::FuncOp Outliner::createFunction() {
  OpBuilder outside = OpBuilder::atBlockEnd(module.getBody());
  auto function =
      func::FuncOp::create(outside, ops.front()->getLoc(), getName(ops, number),
                           FunctionType::get(module.getContext(), {}, {}));
  function.setPrivate();
  function.addEntryBlock();
  // Numbers are those of one program: another may have taken the name.
  symbols.insert(function);
  return function;
}

void Outliner::outline() {
  collectResults();
  func = createFunction();
  builder.setInsertionPointToStart(&func.getBody().front());
  for (Operation *op : ops)
    cloneInside(op);

  // Destinations: what the caller wants filled.
  SmallVector<Value> returned;
  Location loc = ops.back()->getLoc();
  for (Value result : results) {
    unsigned index = func.getNumArguments();
    (void)func.insertArgument(index, result.getType(), {}, loc);
    returned.push_back(bufferization::MaterializeInDestinationOp::create(
                           builder, loc, result.getType(),
                           mapping.lookup(result), func.getArgument(index),
                           /*restrict=*/false, /*writable=*/false)
                           ->getResult(0));
  }
  func::ReturnOp::create(builder, loc, returned);
  func.setType(FunctionType::get(module.getContext(), func.getArgumentTypes(),
                                 TypeRange(ValueRange(returned))));

  // All modules that the results are of.
  SmallVector<Location> places = {loc};
  for (Value result : results)
    places.push_back(result.getDefiningOp()->getLoc());
  OpBuilder outside(ops.back());
  auto launch = LaunchOp::create(
      outside, outside.getFusedLoc(places), TypeRange(ValueRange(results)),
      func.getSymName(), inputs.getArrayRef(), DenseI64ArrayAttr());
  for (auto [from, to] : llvm::zip(results, launch.getResults()))
    from.replaceUsesWithIf(to, [&](OpOperand &use) {
      return !members.contains(
          launch->getBlock()->findAncestorOpInBlock(*use.getOwner()));
    });
  for (Operation *op : llvm::reverse(ops))
    eraseWithOperands(op);
}

/// Orders ops behind what they read, and otherwise as they stand: of the ops
/// that are ready, the first comes first. False on a cycle.
static bool sortInPlace(Block &block) {
  llvm::DenseMap<Operation *, unsigned> position, missing;
  llvm::DenseMap<Operation *, SmallVector<Operation *, 4>> readers;
  SmallVector<Operation *> ops;
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
  for (Operation &op : block.without_terminator()) {
    position[&op] = ops.size();
    ops.push_back(&op);
  }
  for (Operation *op : ops) {
    llvm::SmallPtrSet<Operation *, 8> producers;
    for (Value read : getReadValues(op))
      if (Operation *def = read.getDefiningOp())
        if (producers.insert(def).second)
          readers[def].push_back(op);
    missing[op] = producers.size();
    if (producers.empty())
      ready.push(position[op]);
  }
  unsigned placed = 0;
  for (; !ready.empty(); ++placed) {
    Operation *op = ops[ready.top()];
    ready.pop();
    op->moveBefore(block.getTerminator());
    for (Operation *reader : readers[op])
      if (--missing[reader] == 0)
        ready.push(position[reader]);
  }
  return placed == ops.size();
}

namespace {
struct OutlineKernels : fsdp::impl::OutlineKernelsBase<OutlineKernels> {
  void runOnOperation() override {
    bool changed = false;
    SymbolTable symbols(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>()) {
      FailureOr<bool> outlined = outline(getOperation(), symbols, program);
      if (failed(outlined))
        return signalPassFailure();
      changed |= *outlined;
    }
    if (!changed)
      markAllAnalysesPreserved();
  }

private:
  /// Whether @step had kernels to outline.
  static FailureOr<bool> outline(ModuleOp module, SymbolTable &symbols,
                                 ProgramOp step) {
    Block &block = step.getBody().front();
    // A view that nothing reads would count as a reader.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (!op.hasAttr(names::kKernel) && isOpTriviallyDead(&op))
        op.erase();
    llvm::MapVector<int64_t, KernelOps> kernels;
    for (Operation &op : block)
      if (auto number = op.getAttrOfType<IntegerAttr>(names::kKernel))
        kernels[number.getInt()].push_back(&op);
    if (kernels.empty())
      return false;
    // Before any op moves: a contraction's plan looks at what is around it.
    llvm::DenseMap<int64_t, SmallVector<Value>> stops;
    ContractionPlans plans(&block);
    for (auto &[number, ops] : kernels)
      for (Operation *op : ops)
        if (const ContractionPlan *plan = plans.lookup(op))
          stops[number] = {plan->sourceA, plan->sourceB, plan->bias,
                           plan->addend};
    // Readers first, so that what a kernel reads is still what it was.
    for (auto &[number, ops] : llvm::reverse(kernels))
      Outliner(module, symbols, ops, stops[number], number).outline();
    // Launches stand where their last op stood, which may be behind readers.
    if (!sortInPlace(block)) {
      step.emitError("expected kernels that no path leaves and enters again, "
                     "got a cycle (was fsdp.kernel edited?)");
      return failure();
    }
    // An op that was no part of a kernel, and that only kernels can do.
    for (Operation &op : block) {
      ComputeKind kind = getComputeKind(&op);
      if (kind != ComputeKind::Boundary && kind != ComputeKind::View &&
          kind != ComputeKind::Constant) {
        op.emitOpError("expected fsdp.kernel on every compute op");
        return failure();
      }
    }
    return true;
  }
};
} // namespace
