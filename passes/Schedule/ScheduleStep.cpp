//===- ScheduleStep.cpp - Order, queues and waits of a step ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/ProgramFlops.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Arena/SharedBuffers.h"
#include "fsdp/Arena/StepArena.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Schedule/ClusterCost.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"
#include "fsdp/Schedule/Scheduler.h"
#include "fsdp/Schedule/StepProblem.h"
#include "fsdp/Schedule/StepSchedule.h"
#include "fsdp/Schedule/TransferCauses.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

#include "llvm/Support/FormatVariadic.h"

#include <map>

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

namespace {
struct OrderedStep {
  StepProgram program;
  Timeline timeline;
  /// No order takes less, and the part of the machine that says so.
  Time bound = 0;
  std::string limit;
};
} // namespace

/// The order that @attr says, of as many transfers as it has.
static Schedule readOrder(StepOrderAttr attr) {
  Schedule schedule;
  for (int32_t op : attr.getLine().asArrayRef())
    schedule.line.push_back(op < 0 ? LineOp{true, -1 - op} : LineOp{false, op});
  auto read = [](DenseI32ArrayAttr list, std::vector<Id> &values) {
    values.assign(list.asArrayRef().begin(), list.asArrayRef().end());
  };
  read(attr.getIssue(), schedule.issue);
  read(attr.getPlace(), schedule.place);
  read(attr.getKnown(), schedule.known);
  schedule.after.resize(schedule.issue.size());
  ArrayRef<int32_t> after = attr.getAfter();
  for (size_t i = 0; i + 1 < after.size(); i += 2)
    if (after[i] >= 0 && size_t(after[i]) < schedule.after.size())
      schedule.after[after[i]].push_back(after[i + 1]);
  for (int32_t cause : attr.getCauses().asArrayRef())
    schedule.placeCause.push_back(Cause(cause));
  schedule.makespan = attr.getMakespan();
  schedule.peak = attr.getPeak();
  return schedule;
}

/// The order that was found for @problem; an error where it is another's. What
/// it takes is for its arena to say: that may be less than the problem knows
/// of.
static llvm::Expected<Schedule> readOrderOf(const ScheduleProblem &problem,
                                            StepOrderAttr attr) {
  Schedule schedule = readOrder(attr);
  if (std::string error = checkSchedule(problem, schedule); !error.empty())
    return llvm::createStringError(
        "expected fsdp.order to be an order of this program, got another: " +
        error);
  Time makespan = simulate(problem, schedule).step;
  if (makespan != schedule.makespan)
    return llvm::createStringError(
        "expected fsdp.order to take " + Twine(makespan) +
        " picoseconds on this cluster, got " + Twine(schedule.makespan));
  return std::move(schedule);
}

/// Why no order of @program fits in the budget of @step. What fits by the model
/// may take more when it is packed: a budget is named that this pass turns into
/// a step whose arena keeps to it.
static llvm::Error refuseBudget(const StepProgram &program, StepProblem step) {
  constexpr int kTries = 16;
  int64_t got = step.problem.budget, least = getLeastBudget(step.problem),
          budget = least;
  auto refuse = [&](int64_t needed, const char *note) {
    return llvm::createStringError("expected a budget of at least " +
                                   llvm::Twine(needed) + " bytes" + note +
                                   ", got " + llvm::Twine(got));
  };
  for (int i = 0; i != kTries; ++i) {
    step.problem.budget = budget;
    std::optional<Schedule> found = schedule(step.problem);
    if (!found)
      break;
    StepProgram ordered = applySchedule(program, step, *found);
    shareBuffers(ordered);
    int64_t bytes = placeBuffers(ordered).totalBytes;
    if (bytes <= budget)
      return refuse(budget, "");
    budget = bytes;
  }
  return refuse(least, " by the model of memory (packed it takes more)");
}

/// The schedule that the options name; an error where the budget is too small.
/// @known: the one that was found with the plan, or null.
static llvm::Expected<Schedule>
choose(const StepProgram &program, StepProblem &step, const Cluster &cluster,
       const ScheduleStepOptions &options, StepOrderAttr known) {
  ScheduleProblem &problem = step.problem;
  if (options.order == Order::fsdp) {
    FSDPOptions fsdp;
    fsdp.forwardPrefetch = options.forwardPrefetch;
    fsdp.limitAllGathers = options.limitAllGathers;
    fsdp.backwardPrefetch = options.backwardPrefetch;
    return scheduleLikeFSDP(problem, fsdp);
  }
  if (known)
    return readOrderOf(problem, known);
  problem.budget =
      options.budget ? options.budget : cluster.device.getUsableBytes();
  problem.room = options.room;
  if (options.shrink)
    problem.budget = std::max(problem.budget, getLeastBudget(problem));
  if (std::optional<Schedule> found = schedule(problem))
    return std::move(*found);
  return refuseBudget(program, step);
}

static llvm::Expected<OrderedStep> reorder(const StepProgram &program,
                                           const Cluster &cluster,
                                           const ScheduleStepOptions &options,
                                           StepOrderAttr known) {
  llvm::Expected<ClusterCost> cost = createClusterCost(cluster, program);
  if (!cost)
    return cost.takeError();
  TimedProgram times = addTimes(program, *cost->model, cost->placements);
  llvm::Expected<StepProblem> step = getStepProblem(program, times);
  if (!step)
    return step.takeError();
  OrderedStep result;
  int64_t peak = 0;
  if (options.order == Order::in_order) {
    result.program = program;
  } else {
    llvm::Expected<Schedule> chosen =
        choose(program, *step, cluster, options, known);
    if (!chosen)
      return chosen.takeError();
    result.program = applySchedule(program, *step, *chosen);
    peak = chosen->peak;
  }
  result.timeline =
      play(addTimes(result.program, *cost->model, cost->placements));
  if (options.available)
    step->problem.budget =
        std::max({options.available, getLeastBudget(step->problem), peak});
  StepProgram placed = result.program;
  shareBuffers(placed);
  result.bound = getStepBound(program, *step, times, placed,
                              addTimes(placed, *cost->model, cost->placements));
  result.limit =
      describeLimit(step->problem, lowerBound(step->problem), result.bound);
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

/// A remark for each transfer: how far ahead it begins, whether it is hidden
/// behind compute, or why not.
static void report(const OrderedStep &step, ArrayRef<Operation *> origins) {
  auto inMilliseconds = [](Time time) -> std::string {
    return llvm::formatv("{0:f3} ms", toSeconds(time) * 1e3);
  };
  std::vector<Id> wait = getEventOps(step.program).wait;
  for (auto [i, op] : llvm::enumerate(step.program.ops)) {
    if (op.kind != StepOpKind::Start)
      continue;
    Location loc = origins[op.source]->getLoc();
    auto options =
        remark::RemarkOpts::name("Overlap").category("fsdp-schedule-step");
    const OpSpan &span = step.timeline.spans[i];
    Time exposed = step.timeline.exposedBy[i],
         slowed = step.timeline.slowedBy[i];
    Time ahead = step.timeline.spans[wait[op.event]].begin - span.begin;
    std::string title = getOpTitle(step.program, i) + " of " +
                        inMilliseconds(span.end - span.begin) + ", begun " +
                        inMilliseconds(std::max<Time>(ahead, 0)) +
                        " before it is waited for";
    if (exposed <= slowed)
      remark::passed(loc, options)
          << title << ", runs beside compute, which takes "
          << inMilliseconds(slowed) << " longer for it";
    else
      remark::missed(loc, options)
          << title
          << remark::reason("{0} exposed: {1}", inMilliseconds(exposed),
                            getCause(step.program, step.timeline, i));
  }
}

/// The rate at which @device does the arithmetic of @step's products and
/// attention at the peak of its units; 0 where there is none.
static int64_t getPeakFlops(ProgramOp step, const Device &device) {
  FlopsAttr attr = step.getFlopsAttr();
  if (!attr)
    return 0;
  ModelFlops flops = getModelFlops(attr);
  double seconds = getSecondsAtPeak(flops, device.getPeakFlops());
  return seconds > 0 ? std::llround(double(getTotal(flops)) / seconds) : 0;
}

/// For the reader and the manifest.
static void record(ProgramOp step, Order order, const OrderedStep &ordered,
                   const Cluster &cluster) {
  Builder builder(step.getContext());
  step.setScheduleAttr(ScheduleAttr::get(
      step.getContext(), order, ordered.bound, ordered.timeline.step,
      builder.getStringAttr(cluster.name), builder.getStringAttr(ordered.limit),
      getPeakFlops(step, cluster.device)));
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Brings a block into a program's order.
class Rewriter {
public:
  /// @origins: by op of the original program.
  Rewriter(ProgramOp step, ArrayRef<Operation *> origins)
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
  std::map<Id, SmallVector<TransferOpInterface>> groups;
};
} // namespace

/// What a transfer brings reaches another one through its token, where views
/// have no place: before the wait @program starts none that reads a view of it.
static LogicalResult expectWholeSources(const StepProgram &program,
                                        ArrayRef<Operation *> origins) {
  // By event that is not waited for yet.
  std::map<Id, SmallVector<TransferOpInterface>> groups;
  for (const StepOp &op : program.ops) {
    if (op.kind == StepOpKind::Wait)
      groups.erase(op.event);
    if (op.kind != StepOpKind::Start)
      continue;
    SmallVector<TransferOpInterface> &group = groups[op.event];
    group = getGroupFrom(cast<TransferOpInterface>(origins[op.source]));
    for (TransferOpInterface transfer : group)
      for (Id event : op.after)
        for (TransferOpInterface other : groups[event]) {
          Value source = transfer.getSource();
          if (source == other.getBrought() ||
              getWholeValue(source) != other.getBrought())
            continue;
          InFlightDiagnostic diag = transfer->emitOpError(
              "expected to send what another transfer brings whole, got a "
              "view");
          diag.attachNote(other->getLoc()) << "the other transfer is here";
          return diag;
        }
  }
  return success();
}

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
  SmallVector<TransferOpInterface> &group = groups[op.event];
  group = getGroupFrom(cast<TransferOpInterface>(origins[op.source]));
  Location loc = group.front().getLoc();
  // What a transfer in `after` brings comes through its token: compute does not
  // know of it yet.
  SmallVector<Value> tokens, inputs, brought;
  for (Id event : op.after) {
    tokens.push_back(starts.lookup(event).getToken());
    for (TransferOpInterface other : groups[event])
      brought.push_back(other.getBrought());
  }
  for (TransferOpInterface transfer : group)
    if (!llvm::is_contained(brought, transfer.getSource())) {
      placeViews(transfer.getSource());
      inputs.push_back(transfer.getSource());
    }
  SmallVector<Type> types;
  for (TransferOpInterface transfer : group)
    types.push_back(transfer.getBrought().getType());
  auto start =
      StartOp::create(builder, loc, TokenType::get(builder.getContext(), types),
                      inputs, TransferQueue(op.queue), op.event, tokens);
  if (std::optional<Hold> hold = getHold(op.heldBy))
    start->setAttr(names::kHeldBy, builder.getStringAttr(stringifyHold(*hold)));
  Block &body = start.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value value : llvm::concat<Value>(inputs, brought)) {
    BlockArgument arg = body.addArgument(value.getType(), loc);
    mapping.map(value, arg);
  }
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  SmallVector<Value> yielded;
  for (TransferOpInterface transfer : group) {
    Operation *clone = inside.clone(*transfer, mapping);
    clone->removeAttr(names::kGroup);
    yielded.push_back(clone->getResult(0));
  }
  YieldOp::create(inside, loc, yielded);
  starts[op.event] = start;
}

void Rewriter::wait(const StepOp &op) {
  StartOp start = starts.lookup(op.event);
  auto wait =
      WaitOp::create(builder, start.getLoc(),
                     start.getToken().getType().getTypes(), start.getToken());
  for (auto [transfer, result] : llvm::zip(groups[op.event], wait.getResults()))
    transfer.getBrought().replaceAllUsesWith(result);
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
  for (auto &[event, group] : groups)
    for (TransferOpInterface transfer : group)
      transfer->dropAllReferences();
  for (auto &[event, group] : groups)
    for (TransferOpInterface transfer : group)
      transfer->erase();
  // Views that nothing needs stay behind.
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isView(&op) && op.use_empty())
      op.erase();
}

namespace {
struct ScheduleStep : fsdp::impl::ScheduleStepBase<ScheduleStep> {
  using ScheduleStepBase::ScheduleStepBase;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

  LogicalResult checkOptions(ProgramOp step, StepOrderAttr known) {
    auto fail = [&](const Twine &message) -> LogicalResult {
      return emitError(step.getLoc()) << message;
    };
    if (budget < 0)
      return fail("expected a budget of at least 0 bytes (0: what the device "
                  "has), got " +
                  Twine(int64_t(budget)));
    if (room < 0)
      return fail("expected room of at least 0 bytes, got " +
                  Twine(int64_t(room)));
    auto failBeside = [&](StringRef other) {
      return fail("expected order " + getWord(Order::scheduled) + " beside " +
                  other + ", got " + getWord<Order>(order));
    };
    if (room && order != Order::scheduled)
      return failBeside("room");
    if (available < 0)
      return fail("expected available bytes of at least 0, got " +
                  Twine(int64_t(available)));
    if (known && order != Order::scheduled)
      return failBeside(names::kOrder);
    if (known && (budget || room || shrink))
      return fail("expected no budget, room and shrink beside fsdp.order, got "
                  "one: the order has been found");
    return success();
  }

  /// As the options say. What no budget is given for may take what the module's
  /// arenas may; an order that is not searched for takes what it takes.
  ScheduleStepOptions getOptions(ProgramOp step) {
    ScheduleStepOptions options;
    options.order = order;
    options.budget = budget;
    options.shrink = shrink;
    options.room = room;
    options.available = available;
    options.forwardPrefetch = forwardPrefetch;
    options.backwardPrefetch = backwardPrefetch;
    options.limitAllGathers = limitAllGathers;
    if (auto bytes = getArenaBudget(step->getParentOfType<ModuleOp>())) {
      // 0 would be what the device has.
      int64_t least = std::max<int64_t>(*bytes, 1);
      options.budget = budget ? int64_t(budget) : least;
      options.available = available ? int64_t(available) : least;
    }
    return options;
  }

  LogicalResult run(ProgramOp step) {
    auto fail = [&](llvm::Error error) -> LogicalResult {
      return emitInputError(step, llvm::toString(std::move(error)));
    };
    auto known = step->getAttrOfType<StepOrderAttr>(names::kOrder);
    if (failed(checkOptions(step, known)))
      return failure();
    if (failed(expectUnscheduled(step)) || failed(expectAppliedPlan(step)))
      return failure();
    SmallVector<Operation *> origins;
    FailureOr<StepProgram> program = extractStepProgram(step, &origins);
    if (failed(program))
      return failure();
    // In order and without a cluster nothing is asked of the cost model.
    OrderedStep ordered;
    if (order == Order::in_order && cluster.empty()) {
      ordered.program = *program;
    } else {
      if (cluster.empty())
        return emitError(step.getLoc())
               << "expected the option cluster to name a cluster file beside "
                  "order "
               << getWord<Order>(order) << ", got none";
      auto description = loadCluster(cluster);
      if (!description)
        return fail(description.takeError());
      description->stepProfile = profile;
      auto found = reorder(*program, *description, getOptions(step), known);
      if (!found)
        return fail(found.takeError());
      ordered = std::move(*found);
      report(ordered, origins);
      record(step, order, ordered, *description);
    }
    if (std::string error = findBrokenDependency(*program, ordered.program);
        !error.empty())
      return emitError(step.getLoc()) << "internal error: " << error;
    if (failed(expectWholeSources(ordered.program, origins)))
      return failure();
    // They hold for another order.
    removeArenaPlaces(step);
    Rewriter(step, origins).apply(ordered.program);
    return success();
  }
};
} // namespace
