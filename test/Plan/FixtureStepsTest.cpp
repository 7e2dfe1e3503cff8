//===- FixtureStepsTest.cpp - Programs of traced models -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The programs of the traced models: what they are made of, and that no
// schedule of theirs breaks a dependency.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Arena/SharedBuffers.h"
#include "fsdp/Arena/StepArena.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Driver/Frontend.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Passes/ProgramPlan.h"
#include "fsdp/Planning/StepPlan.h"
#include "fsdp/Schedule/ClusterCost.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"
#include "fsdp/Schedule/Scheduler.h"
#include "fsdp/Schedule/StepProblem.h"
#include "fsdp/Schedule/StepSchedule.h"

#include "gtest/gtest.h"

#include <map>
#include <optional>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
/// Kernels by their bytes, transfers by theirs: no two alike.
struct BytesCost : CostModel {
  Time kernel(const KernelCost &kernel) const override {
    return 1000 + kernel.bytes;
  }
  TransferCost transfer(const TransferKey &transfer) const override {
    return {5000, 4 * transfer.atomBytes.front(), Link::Inter};
  }
  int rate(Queue, QueueMask) const override { return kFullRate; }
};

struct Setting {
  const char *name, *fixture, *mesh;
  bool clip, narrow;
  Strategy strategy = Strategy::Auto;
};

/// In the names of tests.
void PrintTo(const Setting &setting, std::ostream *os) { *os << setting.name; }

class FixtureSteps : public ::testing::TestWithParam<Setting> {
protected:
  void SetUp() override {
    const Setting &setting = GetParam();
    std::string dir = std::string(FSDP_FIXTURES "/") + setting.fixture;
    options.input = dir + "/model.mlir";
    options.optimizerFile = dir + "/optimizer.mlir";
    options.partition.mesh = setting.mesh;
    options.partition.clip = setting.clip;
    options.partition.strategy = setting.strategy;
    if (setting.narrow)
      options.partition.paramDtype = options.partition.reduceDtype = "bf16";
    frontend.emplace(options);
    ASSERT_FALSE(bool(frontend->read()));
    Copyable<PartitionOptions> partition = frontend->getPartitionOptions();
    ASSERT_FALSE(bool(frontend->runPipeline("all", [&](OpPassManager &pm) {
      buildPartitionPipeline(pm, partition);
      buildKernelPipeline(pm);
      pm.addNestedPass<ProgramOp>(createPlanArena());
    })));
    FailureOr<StepProgram> extracted =
        extractStepProgram(getTrainProgram(frontend->getModule()), &origins);
    ASSERT_TRUE(succeeded(extracted));
    program = std::move(*extracted);
  }

  StepOptions options;
  std::optional<Frontend> frontend;
  SmallVector<Operation *> origins;
  StepProgram program;
  BytesCost cost;
};
} // namespace

TEST_P(FixtureSteps, memoryInUseAtOnceLiesApart) {
  ASSERT_EQ(checkProgram(program), "");
  struct Life {
    Id begin = -1, end = -1;
  };
  std::vector<Life> lives(program.buffers.size());
  for (size_t i = 0; i != program.ops.size(); ++i)
    for (const ByteRange &range : llvm::concat<const ByteRange>(
             program.ops[i].reads, program.ops[i].writes)) {
      Life &life = lives[program.values[range.value].buffer];
      if (life.begin < 0)
        life.begin = i;
      life.end = i;
    }
  for (size_t a = 0; a != lives.size(); ++a) {
    const StepBuffer &x = program.buffers[a];
    EXPECT_LE(x.offset + x.bytes, program.arenaBytes);
    if (x.isArgument)
      lives[a] = {0, Id(program.ops.size())};
    for (size_t b = 0; b != a; ++b) {
      const StepBuffer &y = program.buffers[b];
      bool apart =
          x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
      bool together =
          lives[a].begin <= lives[b].end && lives[b].begin <= lives[a].end;
      EXPECT_TRUE(apart || !together) << "buffers " << b << " and " << a;
    }
  }
}

TEST_P(FixtureSteps, rolesAreThoseOfFSDP) {
  TimedProgram times = addTimes(
      program, cost, std::vector<GroupPlacement>(program.groups.size()));
  auto step = getStepProblem(program, times);
  ASSERT_TRUE(bool(step)) << llvm::toString(step.takeError());
  std::vector<bool> fromReduction(program.values.size());
  for (size_t i = 0; i != program.ops.size(); ++i) {
    const StepOp &op = program.ops[i];
    // Copies of the end are behind all else.
    bool behind = op.replaces >= 0;
    for (const ByteRange &range : op.reads)
      behind |= fromReduction[range.value];
    bool isTail =
        op.kind != StepOpKind::Wait &&
        (step->roles[i] == OpRole::Tail || step->roles[i] == OpRole::Epilogue);
    if (op.kind != StepOpKind::Wait && op.kind != StepOpKind::Start) {
      EXPECT_EQ(isTail, behind) << op.name;
    }
    bool reduces = op.kind == StepOpKind::Start && op.queue != Queue::AllGather;
    for (const ByteRange &range : op.writes)
      fromReduction[range.value] = behind || reduces;
    // Updates are tails: what replaces a parameter's shard.
    for (const ByteRange &range : op.writes)
      if (program.buffers[program.values[range.value].buffer].purpose ==
          Purpose::Parameters) {
        EXPECT_TRUE(isTail) << op.name;
      }
  }
  // With narrow gathers there is one cast for each.
  auto isCast = [](const FloatingOp &op) { return op.before >= 0; };
  auto gathers = llvm::count_if(step->problem.transfers, [](const Transfer &t) {
    return t.queue == Queue::AllGather;
  });
  EXPECT_EQ(llvm::count_if(step->problem.floating, isCast),
            GetParam().narrow ? gathers : 0);
  // Reductions follow each other through backward; none waits for the end but
  // the last.
  Id last = step->problem.spine.size() - 1;
  std::vector<Id> reductions = getQueueOrder(step->problem, Queue::Reduce);
  for (Id t : reductions) {
    if (t != reductions.back()) {
      EXPECT_LT(step->problem.transfers[t].ready, last);
    }
  }
}

TEST_P(FixtureSteps, noScheduleBreaksADependency) {
  std::vector<GroupPlacement> placements(program.groups.size());
  TimedProgram times = addTimes(program, cost, placements);
  auto step = getStepProblem(program, times);
  ASSERT_TRUE(bool(step)) << llvm::toString(step.takeError());
  Time bound = getStepBound(program, *step, times);
  EXPECT_GE(play(times).step, bound);
  auto check = [&](const Schedule &schedule) {
    ASSERT_EQ(checkSchedule(step->problem, schedule), "");
    StepProgram changed = applySchedule(program, *step, schedule);
    EXPECT_EQ(checkProgram(changed), "");
    EXPECT_EQ(findBrokenDependency(program, changed), "");
    Timeline timeline = play(addTimes(changed, cost, placements));
    EXPECT_EQ(timeline.step,
              simulate(step->problem, schedule).step + step->epilogueTime);
    EXPECT_GE(timeline.step, bound);
  };
  for (bool forward : {false, true})
    for (BackwardPrefetch backward :
         {BackwardPrefetch::None, BackwardPrefetch::Pre,
          BackwardPrefetch::Post}) {
      FSDPOptions options;
      options.forwardPrefetch = forward;
      options.backwardPrefetch = backward;
      check(scheduleLikeFSDP(step->problem, options));
      options.allReduceOnReduceQueue = true;
      check(scheduleLikeFSDP(step->problem, options));
    }
  for (int64_t budget : {kNoBudget, getLeastBudget(step->problem)}) {
    step->problem.budget = budget;
    std::optional<Schedule> best = schedule(step->problem);
    ASSERT_TRUE(best);
    check(*best);
  }
}

/// Ops in order with what they touch; values have the number of their first
/// mention, so that two programs that differ in names alone are equal.
static std::vector<std::string> describe(const StepProgram &program) {
  llvm::DenseMap<Id, size_t> numbers;
  std::vector<std::string> lines;
  for (const StepOp &op : program.ops) {
    std::string &line = lines.emplace_back();
    llvm::raw_string_ostream os(line);
    if (op.kind == StepOpKind::Wait) {
      os << "wait";
      continue;
    }
    os << op.name << (op.backward ? " backward" : " forward");
    if (op.transfer >= 0)
      for (int64_t bytes : program.transfers[op.transfer].atomBytes)
        os << " " << bytes;
    for (const ByteRange &range :
         llvm::concat<const ByteRange>(op.reads, op.writes))
      os << " v"
         << numbers.try_emplace(range.value, numbers.size()).first->second
         << "+" << range.offset - program.values[range.value].offset << ":"
         << range.bytes;
  }
  return lines;
}

/// Of all that ops read and write, what is copied beside them, and results.
static std::vector<int64_t> getAddresses(const StepProgram &program) {
  std::vector<int64_t> addresses;
  for (const StepOp &op : program.ops) {
    for (const ByteRange &range :
         llvm::concat<const ByteRange>(op.reads, op.writes))
      addresses.push_back(range.offset);
    llvm::append_range(addresses, op.places);
    addresses.push_back(op.copiedBytes);
  }
  for (const ByteRange &range : program.results)
    addresses.push_back(range.offset);
  return addresses;
}

/// All gathers kept, some launches repeated, some results of others on the
/// host, neighbours together: the passes make of the IR what applyPlan makes of
/// the program.
TEST_P(FixtureSteps, passesDoWhatThePlanSays) {
  PlanChoices choices = getPlanChoices(program);
  for (bool keep : {false, true}) {
    SCOPED_TRACE(keep ? "keep" : "gather again");
    SetUp();
    StepPlan plan(program);
    std::map<std::pair<Queue, bool>, Id> transfers;
    for (size_t i = 0; i != program.ops.size(); ++i) {
      const StepOp &op = program.ops[i];
      MLIRContext *context = origins[i]->getContext();
      if (keep && choices.earlierGather[i] >= 0) {
        plan.keep[i] = true;
        origins[i]->setAttr(names::kKeep, UnitAttr::get(context));
      }
      SmallVector<int64_t> again;
      for (size_t r = 0; r != op.writes.size() && choices.canRecompute[i]; ++r)
        // Two of three results.
        if ((i + r) % 3) {
          plan.recompute[op.writes[r].value] = true;
          again.push_back(r);
        }
      if (!again.empty())
        origins[i]->setAttr(names::kRecompute,
                            DenseI64ArrayAttr::get(context, again));
      if (op.kind == StepOpKind::Start && !plan.keep[i] &&
          (op.queue == Queue::AllGather || op.queue == Queue::Reduce)) {
        Id n = transfers[{op.queue, op.backward}]++ / 2;
        plan.group[i] = (n * 8 + int(op.queue)) * 2 + op.backward;
        origins[i]->setAttr(
            names::kGroup,
            IntegerAttr::get(IntegerType::get(context, 64), plan.group[i]));
      }
    }
    // Every second result that can be offloaded and that backward reads.
    std::vector<bool> isRead = getReadInBackward(program, plan);
    Id candidates = 0;
    for (size_t i = 0; i != program.ops.size(); ++i) {
      SmallVector<int64_t> offloaded;
      for (auto [r, range] : llvm::enumerate(program.ops[i].writes)) {
        if (!choices.canOffload[range.value] || plan.recompute[range.value] ||
            !isRead[range.value] || candidates++ % 2)
          continue;
        plan.offload[range.value] = true;
        offloaded.push_back(r);
      }
      if (!offloaded.empty())
        origins[i]->setAttr(
            names::kOffload,
            DenseI64ArrayAttr::get(origins[i]->getContext(), offloaded));
    }
    EXPECT_TRUE(llvm::is_contained(plan.offload, true));
    ASSERT_EQ(checkPlan(program, plan), "");
    ASSERT_FALSE(bool(frontend->runPipeline("plan", [](OpPassManager &pm) {
      pm.addNestedPass<ProgramOp>(createKeepGathered());
      pm.addNestedPass<ProgramOp>(createRecomputeActivations());
      pm.addNestedPass<ProgramOp>(createOffloadActivations());
      pm.addNestedPass<ProgramOp>(createGroupCollectives());
      pm.addNestedPass<ProgramOp>(createPlanArena());
    })));
    FailureOr<StepProgram> changed =
        extractStepProgram(getTrainProgram(frontend->getModule()));
    ASSERT_TRUE(succeeded(changed));
    StepProgram applied = applyPlan(program, plan);
    std::vector<std::string> real = describe(*changed),
                             planned = describe(applied);
    EXPECT_EQ(real.size(), planned.size());
    for (size_t i = 0; i != std::min(real.size(), planned.size()); ++i)
      ASSERT_EQ(real[i], planned[i]) << "op " << i;
    // Without IR, it lies where the pass has put it.
    shareBuffers(applied);
    placeBuffers(applied);
    EXPECT_EQ(applied.arenaBytes, changed->arenaBytes);
    EXPECT_EQ(applied.hostBytes, changed->hostBytes);
    EXPECT_EQ(getAddresses(applied), getAddresses(*changed));
    EXPECT_FALSE(bool(frontend->runPipeline("order", [](OpPassManager &pm) {
      ScheduleStepOptions options;
      options.order = Order::in_order;
      pm.addNestedPass<ProgramOp>(createScheduleStep(options));
      pm.addNestedPass<ProgramOp>(createPlanArena());
      pm.addNestedPass<ProgramOp>(createVerifySchedule());
    })));
  }
}

static const Setting kSettings[] = {
    {"gpt2", "gpt2", "shard=4", false, false},
    {"gpt2NarrowClipped", "gpt2", "shard=2", true, true},
    {"gpt2Hybrid", "gpt2", "shard=2,replicate=2", true, true},
    {"gpt2GradOp", "gpt2", "shard=4", false, true, Strategy::ShardGradOp},
    {"gpt2Whole", "gpt2", "shard=4", false, false, Strategy::NoShard},
    {"llama", "llama", "shard=4", false, false},
    {"llamaHybrid", "llama", "shard=2,replicate=4", false, true},
    {"resnet", "resnet", "shard=4", false, false},
    {"resnetClipped", "resnet", "shard=8", true, true},
    {"mixed", "mixed", "shard=2", true, false},
    {"t5", "t5", "shard=2", false, true},
};

INSTANTIATE_TEST_SUITE_P(, FixtureSteps, ::testing::ValuesIn(kSettings),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

namespace {
class Gpt2Step : public FixtureSteps {};
} // namespace

TEST_P(Gpt2Step, productsAreThoseOfTheModel) {
  // 64 tokens; two blocks of 12 d^2 weights, and the head over 256 words;
  // backward does each product twice.
  const int64_t tokens = 64, d = 64, heads = 8, length = 32, size = 16;
  int64_t expected = 3 * 2 * (2 * tokens * 12 * d * d + tokens * d * 256);
  int64_t flops = 0;
  std::map<KernelKind, int> calls;
  for (const StepOp &op : program.ops)
    if (op.kernel >= 0) {
      const KernelCost &k = program.kernels[op.kernel];
      ++calls[k.kind];
      if (k.kind == KernelKind::Matmul)
        flops += 2 * k.m * k.n * k.k * k.batch;
      // Products of heads are in attention, one of each kind for a block.
      if (k.kind == KernelKind::Attention ||
          k.kind == KernelKind::AttentionBackward) {
        EXPECT_EQ(k.m, length);
        EXPECT_EQ(k.n, length);
        EXPECT_EQ(k.k, size);
        EXPECT_EQ(k.batch, heads);
      }
    }
  EXPECT_EQ(flops, expected);
  EXPECT_EQ(calls[KernelKind::Attention], 2);
  EXPECT_EQ(calls[KernelKind::AttentionBackward], 2);
}

TEST_P(Gpt2Step, anOrderThatWasFoundIsFollowedWhereItIsOneOfTheStep) {
  ScheduleStepOptions options;
  options.cluster = FSDP_CLUSTERS "/h100-sxm.json";
  auto cluster = loadCluster(options.cluster);
  ASSERT_TRUE(bool(cluster));
  auto cost = createClusterCost(*cluster, program);
  ASSERT_TRUE(bool(cost));
  auto step = getStepProblem(program,
                             addTimes(program, *cost->model, cost->placements));
  ASSERT_TRUE(bool(step));
  // Nothing where it is refused.
  auto order = [&](const Schedule *known) -> std::vector<std::string> {
    OwningOpRef<ModuleOp> module = frontend->getModule().clone();
    if (known)
      getTrainProgram(*module)->setAttr(
          names::kOrder,
          writeOrder(module->getContext(), *known, /*arenaBytes=*/0));
    ScopedDiagnosticHandler quiet(module->getContext(),
                                  [](Diagnostic &) { return success(); });
    if (llvm::Error error =
            frontend->runPipeline(*module, "order", [&](OpPassManager &pm) {
              pm.addNestedPass<ProgramOp>(createScheduleStep(options));
              pm.addNestedPass<ProgramOp>(createPlanArena());
              pm.addNestedPass<ProgramOp>(createVerifySchedule());
            })) {
      llvm::consumeError(std::move(error));
      return {};
    }
    FailureOr<StepProgram> ordered =
        extractStepProgram(getTrainProgram(*module));
    EXPECT_TRUE(succeeded(ordered));
    return describe(*ordered);
  };
  Schedule known = scheduleLikeFSDP(step->problem, FSDPOptions());
  known.makespan = simulate(step->problem, known).step;
  std::vector<std::string> best = order(nullptr);
  EXPECT_FALSE(best.empty());
  EXPECT_EQ(order(&known), describe(applySchedule(program, *step, known)));
  EXPECT_NE(order(&known), best);
  // Of another step, and one that takes longer than it says.
  Schedule none;
  EXPECT_TRUE(order(&none).empty());
  --known.makespan;
  EXPECT_TRUE(order(&known).empty());
  ++known.makespan;
  // It has been found: there is nothing to search for within a budget.
  options.budget = getPeak(step->problem, known);
  EXPECT_TRUE(order(&known).empty());
}

INSTANTIATE_TEST_SUITE_P(, Gpt2Step, ::testing::Values(kSettings[0]));
