//===- ScheduleStep.cpp - Order, queues and waits of a step ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/Schedule/ClusterCost.h"
#include "fsdp/Analysis/Schedule/FSDPSchedules.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Analysis/Schedule/StepProblem.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_SCHEDULESTEP
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// @program in the order that @order names.
static llvm::Expected<StepProgram> reorder(const StepProgram &program,
                                           const Cluster &cluster,
                                           StringRef order, int64_t budget) {
  if (order == "in_order")
    return program;
  llvm::Expected<ClusterCost> cost = createClusterCost(cluster, program);
  if (!cost)
    return cost.takeError();
  llvm::Expected<StepProblem> step = getStepProblem(
      program, addTimes(program, *cost->model, cost->placements));
  if (!step)
    return step.takeError();
  if (order == "fsdp")
    return applySchedule(program, *step,
                         scheduleLikeFSDP(step->problem, FSDPOptions()));
  step->problem.budget = budget ? budget : cluster.device.getUsableBytes();
  if (std::optional<Schedule> found = schedule(step->problem))
    return applySchedule(program, *step, *found);
  return llvm::createStringError("expected a budget of at least " +
                                 llvm::Twine(getLeastBudget(step->problem)) +
                                 " bytes, got " +
                                 llvm::Twine(step->problem.budget));
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Brings a block into a program's order.
class Rewriter {
public:
  /// @origins: by op of the original program.
  Rewriter(func::FuncOp step, ArrayRef<Operation *> origins)
      : block(step.getBody().front()), builder(block.getTerminator()),
        origins(origins) {}

  void apply(const StepProgram &program);

private:
  void place(Operation *op);
  void placeViews(ValueRange values);
  void start(const StepOp &op);
  void wait(const StepOp &op);

  Block &block;
  OpBuilder builder;
  ArrayRef<Operation *> origins;
  llvm::DenseSet<Operation *> placed;
  /// By event.
  llvm::DenseMap<Id, StartOp> starts;
  llvm::DenseMap<Id, Operation *> collectives;
};
} // namespace

/// Views follow what they are views of.
void Rewriter::placeViews(ValueRange values) {
  for (Value value : values) {
    Operation *def = value.getDefiningOp();
    if (def && isView(def) && !placed.contains(def))
      place(def);
  }
}

void Rewriter::place(Operation *op) {
  placeViews(op->getOperands());
  op->moveBefore(block.getTerminator());
  placed.insert(op);
}

void Rewriter::start(const StepOp &op) {
  Operation *original = origins[op.source];
  auto collective = cast<CollectiveOpInterface>(original);
  SmallVector<Value> tokens, inputs;
  SmallVector<Value> brought;
  for (Id event : op.after) {
    tokens.push_back(starts.lookup(event).getToken());
    brought.push_back(
        cast<CollectiveOpInterface>(collectives.lookup(event)).getResult());
  }
  // What a transfer in `after` brings comes through its token: compute does not
  // know of it yet.
  auto source = llvm::find(brought, collective.getInput());
  bool isThroughToken = source != brought.end();
  if (!isThroughToken) {
    placeViews(collective.getInput());
    inputs.push_back(collective.getInput());
  }
  auto token =
      TokenType::get(original->getContext(), collective.getResult().getType());
  auto start = StartOp::create(builder, original->getLoc(), token, inputs,
                               TransferQueue(op.queue), op.event, tokens);
  Block &body = start.getBody().emplaceBlock();
  SmallVector<Value> arguments;
  for (Value value : llvm::concat<Value>(inputs, brought))
    arguments.push_back(body.addArgument(value.getType(), original->getLoc()));
  IRMapping mapping;
  mapping.map(collective.getInput(), isThroughToken
                                         ? arguments[source - brought.begin()]
                                         : arguments.front());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  Operation *clone = inside.clone(*original, mapping);
  YieldOp::create(inside, original->getLoc(), clone->getResults());
  starts[op.event] = start;
  collectives[op.event] = original;
}

void Rewriter::wait(const StepOp &op) {
  StartOp start = starts.lookup(op.event);
  Operation *original = collectives.lookup(op.event);
  auto wait = WaitOp::create(builder, start.getLoc(),
                             original->getResultTypes(), start.getToken());
  original->replaceAllUsesWith(wait);
}

void Rewriter::apply(const StepProgram &program) {
  for (const StepOp &op : program.ops) {
    switch (op.kind) {
    case StepOpKind::Start:
      start(op);
      break;
    case StepOpKind::Wait:
      wait(op);
      break;
    default:
      // Copies of the end belong to the return.
      if (origins[op.source] != block.getTerminator())
        place(origins[op.source]);
    }
  }
  placeViews(block.getTerminator()->getOperands());
  for (auto &[event, op] : collectives)
    op->dropAllReferences();
  for (auto &[event, op] : collectives)
    op->erase();
  // Views that nothing needs stay behind.
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isView(&op) && op.use_empty())
      op.erase();
}

/// They hold for another order.
static void removePlaces(func::FuncOp step) {
  step->removeAttr(names::kArena);
  for (unsigned i = 0, e = step.getNumArguments(); i != e; ++i)
    step.removeArgAttr(i, names::kOffset);
  step.walk([](Operation *op) { op->removeAttr(names::kOffsets); });
}

namespace {
struct ScheduleStep : fsdp::impl::ScheduleStepBase<ScheduleStep> {
  using ScheduleStepBase::ScheduleStepBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(names::kStep);
    if (!step)
      return markAllAnalysesPreserved();
    if (failed(run(module, step)))
      signalPassFailure();
  }

  LogicalResult run(ModuleOp module, func::FuncOp step) {
    auto fail = [&](llvm::Error error) -> LogicalResult {
      return emitError(step.getLoc()) << llvm::toString(std::move(error));
    };
    if (order != "scheduled" && order != "fsdp" && order != "in_order")
      return emitError(step.getLoc())
             << "expected scheduled, fsdp or in_order as order, got '" << order
             << "'";
    SmallVector<Operation *> origins;
    FailureOr<StepProgram> program = extractStepProgram(module, &origins);
    if (failed(program))
      return failure();
    Cluster description;
    if (order != "in_order") {
      auto loaded = loadCluster(cluster);
      if (!loaded)
        return fail(loaded.takeError());
      description = std::move(*loaded);
    }
    llvm::Expected<StepProgram> changed =
        reorder(*program, description, order, budget);
    if (!changed)
      return fail(changed.takeError());
    if (std::string error = findBrokenDependency(*program, *changed);
        !error.empty())
      return emitError(step.getLoc()) << "internal error: " << error;
    removePlaces(step);
    Rewriter(step, origins).apply(*changed);
    return success();
  }
};
} // namespace
