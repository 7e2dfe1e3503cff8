//===- CompareTest.cpp - Runs read back as timelines ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/PlanCompare.h"
#include "fsdp/Schedule/ProgramHash.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

StepOp launch(Id kernel, std::string name) {
  StepOp op;
  op.kind = StepOpKind::Launch;
  op.kernel = kernel;
  op.name = std::move(name);
  return op;
}

/// A gather beside one kernel of three, and a reduction that is waited for at
/// once. One kernel runs twice.
StepProgram makeProgram() {
  StepProgram program;
  program.worldSize = 2;
  program.groups = {{2, 1}};
  program.units = {"layers.0"};
  program.kernels.resize(2);
  program.kernels[0].name = "k0";
  program.kernels[1].name = "k1";
  program.transfers = {{TransferKind::AllGather, {1000}, 0, {"f32"}, {1}},
                       {TransferKind::ReduceScatter, {2000}, 0, {"f32"}, {1}}};
  auto start = [&](Id event, Queue queue) {
    StepOp op;
    op.kind = StepOpKind::Start;
    op.queue = queue;
    op.event = op.transfer = event;
    op.unit = 0;
    op.name = event ? "reduce_scatter" : "all_gather";
    program.ops.push_back(op);
  };
  auto wait = [&](Id event) {
    StepOp op;
    op.kind = StepOpKind::Wait;
    op.event = event;
    program.ops.push_back(op);
  };
  start(0, Queue::AllGather);
  program.ops.push_back(launch(0, "k0"));
  wait(0);
  program.ops.push_back(launch(1, "k1"));
  program.ops.push_back(launch(0, "k0"));
  start(1, Queue::Reduce);
  wait(1);
  for (auto [i, op] : llvm::enumerate(program.ops))
    op.source = i;
  return program;
}

struct TestCost : CostModel {
  Time kernel(const KernelCost &) const override { return toTime(3e-6); }
  TransferCost transfer(const TransferKey &transfer) const override {
    return {toTime(1e-6), toTime(transfer.atomBytes[0] * 5e-9), Link::Intra};
  }
  int rate(Queue, QueueMask) const override { return kFullRate; }
};

PlanVariant simulate(const StepProgram &program) {
  static const TestCost cost;
  PlanVariant variant;
  variant.name = "compiled";
  variant.title = "as simulated";
  variant.program = program;
  variant.timeline = play(addTimes(program, cost, {GroupPlacement()}));
  return variant;
}

std::string printTrace(const PlanVariant &variant) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printPlanTrace(PlanReport(), variant, os);
  return text;
}

std::string replace(std::string text, llvm::StringRef from,
                    llvm::StringRef to) {
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return at == std::string::npos ? text
                                 : text.replace(at, from.size(), to.str());
}

template <typename T>
std::string messageOf(llvm::Expected<T> value) {
  return value ? "" : llvm::toString(value.takeError());
}

TEST(Compare, aSimulationReadBackIsItself) {
  StepProgram program = makeProgram();
  PlanVariant simulated = simulate(program);
  // 6 us of gather, 3 hidden; 11 us of reduction.
  EXPECT_EQ(simulated.timeline.exposed, toTime(14e-6));
  auto trace = parseRunTrace(printTrace(simulated), "trace.json");
  ASSERT_TRUE(bool(trace)) << messageOf(std::move(trace));
  EXPECT_EQ(trace->issue, getIssueHash(program));
  auto run = makeRunVariant(program, *trace);
  ASSERT_TRUE(bool(run)) << messageOf(std::move(run));
  EXPECT_EQ(run->timeline.step, simulated.timeline.step);
  EXPECT_EQ(run->timeline.compute, simulated.timeline.compute);
  EXPECT_EQ(run->timeline.exposed, simulated.timeline.exposed);
  for (size_t i = 0; i != program.ops.size(); ++i) {
    EXPECT_EQ(run->timeline.spans[i].begin, simulated.timeline.spans[i].begin)
        << i;
    EXPECT_EQ(run->timeline.spans[i].end, simulated.timeline.spans[i].end) << i;
    EXPECT_EQ(run->timeline.exposedBy[i], simulated.timeline.exposedBy[i]) << i;
  }

  PlanReport report;
  report.compared.push_back(std::move(simulated));
  report.compared.push_back(std::move(*run));
  std::string text;
  llvm::raw_string_ostream os(text);
  printComparison(report, os);
  EXPECT_NE(text.find("layers.0 all_gather (forward)"), std::string::npos);
  // Nothing differs.
  EXPECT_TRUE(llvm::StringRef(text).ends_with("largest differences\n")) << text;
}

TEST(Compare, kernelsBesideTheRoof) {
  StepProgram program = makeProgram();
  PlanReport report;
  report.compared = {simulate(program), simulate(program)};
  std::string without;
  llvm::raw_string_ostream withoutRoofs(without);
  printComparison(report, withoutRoofs);
  EXPECT_EQ(without.find("the roof"), std::string::npos);
  // k0 runs twice: 2 us of 6; k1, which has no roof, is left out.
  KernelRoof roof;
  roof.time = toTime(1e-6);
  roof.limit = KernelLimit::Launch;
  roof.amount = 2;
  report.compared[0].roofs = report.compared[1].roofs = {roof, {}};
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.kernel == 0) {
      OpSpan &span = report.compared[1].timeline.spans[i];
      span.end = span.begin + toTime(4e-6);
    }
  std::string text;
  llvm::raw_string_ostream os(text);
  printComparison(report, os);
  EXPECT_NE(text.find("part of it\n"
                      "      +0.006 ms   33.3 %   25.0 %  k0: 2 launches\n"
                      "collectives\n"),
            std::string::npos)
      << text;
}

TEST(Compare, saysWhatDiffers) {
  StepProgram program = makeProgram();
  PlanReport report;
  report.compared = {};
  report.compared.push_back(simulate(program));
  PlanVariant slow = simulate(program);
  // The gather takes 4 us more, 3 of them until the other rank came.
  slow.timeline.spans[0].end += toTime(4e-6);
  slow.timeline.spans[0].stall = toTime(3e-6);
  slow.timeline.spans[5].end += toTime(2e-6);
  slow.timeline.spans[5].stall = 0;
  slow.timeline.compute += toTime(1e-6);
  slow.reasons = getRunReasons(report.compared.front(), slow);
  // In the other forms, too, it is no cause in a simulation's words.
  std::vector<ReportedTransfer> transfers = getTransfers(slow);
  ASSERT_EQ(transfers.size(), 2u);
  for (const ReportedTransfer &transfer : transfers) {
    llvm::StringRef cause = transfer.cause;
    EXPECT_TRUE(transfer.op == 0 ? cause == "it waited for other ranks"
                                 : cause.starts_with("its link, or the cores"))
        << transfer.cause;
  }
  report.compared.push_back(std::move(slow));
  std::string text;
  llvm::raw_string_ostream os(text);
  printComparison(report, os);
  EXPECT_NE(text.find("+0.004 ms  layers.0 all_gather (forward): it waited for "
                      "other ranks"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("+0.002 ms  layers.0 reduce_scatter: its link, or the "
                      "cores"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("compute: kernels are slower"), std::string::npos);
}

TEST(Compare, transfersThatBlockTheStepAreExposed) {
  StepProgram program = makeProgram();
  RunTrace trace;
  trace.worldSize = 2;
  trace.issue = getIssueHash(program);
  RunStep &step = trace.steps.emplace_back();
  double now = 0;
  auto add = [&](RunEvent::Kind kind, std::string name, double duration,
                 int64_t event = -1) {
    step.events.push_back({kind, std::move(name), now, duration, event, 0});
    now += duration;
  };
  // Calls that return when they are done; waits find nothing left.
  add(RunEvent::Transfer, "all_gather", 6, 0);
  add(RunEvent::Kernel, "k0", 3);
  add(RunEvent::Wait, "wait", 0.5, 0);
  add(RunEvent::Kernel, "k1", 3);
  add(RunEvent::Kernel, "k0", 3);
  add(RunEvent::Transfer, "reduce_scatter", 11, 1);
  add(RunEvent::Wait, "wait", 0.5, 1);
  step.end = now + 1;
  auto run = makeRunVariant(program, trace);
  ASSERT_TRUE(bool(run)) << messageOf(std::move(run));
  EXPECT_EQ(run->timeline.exposed, toTime(18e-6));
  EXPECT_EQ(run->timeline.exposedBy[0], toTime(6.5e-6));
  EXPECT_EQ(run->timeline.step, toTime(28e-6));
  // Beside a kernel it blocks nothing: only the wait counts.
  step.events[0].begin = 5;
  run = makeRunVariant(program, trace);
  ASSERT_TRUE(bool(run)) << messageOf(std::move(run));
  EXPECT_EQ(run->timeline.exposedBy[0], toTime(0.5e-6));
}

std::string printCompute(Time more, bool comparesFirstStep) {
  PlanReport report;
  report.comparesFirstStep = comparesFirstStep;
  for (Time extra : {Time(0), more}) {
    report.compared.push_back(simulate(makeProgram()));
    report.compared.back().timeline.compute += extra;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  printComparison(report, os);
  return text;
}

TEST(Compare, blamesNoKernelsForWhatTheFirstStepSetsUp) {
  auto contains = [](const std::string &text, llvm::StringRef part) {
    return llvm::StringRef(text).contains(part);
  };
  Time more = toTime(1e-6);
  EXPECT_TRUE(contains(printCompute(more, false), "kernels are slower than"));
  std::string first = printCompute(more, true);
  EXPECT_FALSE(contains(first, "kernels are slower")) << first;
  EXPECT_TRUE(contains(first, "compute: the first step also sets things up"));
  EXPECT_TRUE(contains(printCompute(-more, true), "kernels are faster than"));
}

RunTrace makeTrace(int64_t rank, std::vector<int64_t> steps) {
  RunTrace trace;
  trace.rank = rank;
  for (int64_t number : steps)
    trace.steps.emplace_back().number = number;
  return trace;
}

TEST(Compare, saysWhenOnlyTheFirstStepIsThere) {
  EXPECT_EQ(getRunNotes(makeTrace(0, {1, 2}), 1), std::vector<std::string>());
  RunTrace one = makeTrace(0, {1});
  std::vector<std::string> notes = getRunNotes(one, 1);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(llvm::StringRef(notes[0]).starts_with(
      "only step 1 is in the trace: its first-time costs count"))
      << notes[0];
  EXPECT_NE(notes[0].find("--steps"), std::string::npos) << notes[0];
  // More of them would not help.
  one.isCut = true;
  notes = getRunNotes(one, 1);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].find("--steps"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("the trace was full"), std::string::npos);
}

TEST(Compare, saysWhichRanksAreAbsent) {
  auto getAbsent = [](std::vector<int64_t> ranks, int64_t worldSize) {
    std::vector<RunTrace> traces;
    for (int64_t rank : ranks)
      traces.push_back(makeTrace(rank, {1, 2}));
    std::vector<std::string> notes = getRunNotes(traces, worldSize);
    EXPECT_LE(notes.size(), 1u);
    return notes.empty() ? "" : notes.front();
  };
  EXPECT_EQ(getAbsent({0, 1}, 2), "");
  EXPECT_EQ(getAbsent({0}, 2),
            "of 2 ranks, these have no trace in the folder: 1");
  EXPECT_TRUE(
      llvm::StringRef(getAbsent({1, 4}, 10)).ends_with(": 0, 2, 3, 5 to 9"))
      << getAbsent({1, 4}, 10);
}

TEST(Compare, refusesWhatIsNoTraceOfTheProgram) {
  StepProgram program = makeProgram();
  std::string good = printTrace(simulate(program));
  auto refuse = [&](std::string text, llvm::StringRef part) {
    std::string message = messageOf(parseRunTrace(text, "t.json"));
    EXPECT_NE(message.find(part.str()), std::string::npos) << message;
  };
  refuse("{", "t.json: ");
  refuse("[]", "expected a trace that an executable wrote with --trace");
  refuse(replace(good, "\"issue\"", "\"tissue\""),
         "expected a trace that an executable wrote");
  refuse(replace(good, "ProfilerStep#1", "Step"), "expected ProfilerStep#N");
  refuse(replace(good, "\"step\": 1", "\"stop\": 1"),
         "expected args.step, got none");
  refuse(replace(good, "\"dur\":", "\"door\":"),
         "expected cat, name, ts and dur");
  refuse(replace(good, "\"dur\": ", "\"dur\": 1e300, \"was\": "),
         "expected dur from 0 to 31536000000000");
  refuse(replace(good, "\"ts\": ", "\"ts\": -1e300, \"was\": "),
         "expected ts from 0 to 31536000000000");
  refuse(replace(good, "\"world_size\"", "\"size\""),
         "distributedInfo.world_size");
  refuse(
      replace(good, "\"rank\": 0", "\"rank\": 2"),
      "distributedInfo.rank: expected 0 to world_size - 1, which is 1, got 2");
  refuse(replace(good, "\"traceEvents\"",
                 "\"droppedEvents\": -1, \"traceEvents\""),
         "droppedEvents: expected a number of events, got -1");
  refuse(replace(good, "ProfilerStep#1", "ProfilerStep#2"),
         "expected ProfilerStep#1 to take time");
  refuse(replace(good, "\"dur\": 3", "\"dur\": 30003"),
         "within ProfilerStep#1, ");

  auto refuseRun = [&](std::string text, llvm::StringRef part) {
    auto trace = parseRunTrace(text, "t.json");
    ASSERT_TRUE(bool(trace));
    std::string message = messageOf(makeRunVariant(program, *trace));
    EXPECT_NE(message.find(part.str()), std::string::npos) << message;
  };
  refuseRun(replace(good, "\"name\": \"k1\"", "\"name\": \"k2\""),
            "t.json: expected kernel k1 in step 1, got none");
  refuseRun(replace(good, "\"event\": 1", "\"event\": 3"),
            "expected the transfer of event 1 in step 1, got none");
  refuseRun(replace(good, "\"world_size\": 2", "\"world_size\": 4"),
            "distributedInfo.world_size: expected 2, as the mesh has ranks, "
            "got 4");
}

TEST(Compare, whatIsPackedIsThereWhenItIsPacked) {
  // A pack between the last kernel and the reduction has no event of its own.
  StepProgram program = makeProgram();
  program.buffers.resize(2);
  program.buffers[0].bytes = 100;
  program.buffers[1] = {program.buffers[0]};
  program.buffers[1].offset = 256;
  program.arenaBytes = 512;
  program.values = {{0, 0, 100, false, {}}, {1, 256, 100, false, {}}};
  program.ops[4].writes = {{0, 0, 100}};
  StepOp pack;
  pack.kind = StepOpKind::Copy;
  pack.name = "pack";
  pack.reads = {{0, 0, 100}};
  pack.places = {256};
  pack.writes = {{1, 256, 100}};
  program.ops.insert(program.ops.begin() + 5, pack);
  program.ops[6].reads = {{1, 256, 100}};
  PlanVariant simulated = simulate(program);
  auto trace = parseRunTrace(printTrace(simulated), "t.json");
  ASSERT_TRUE(bool(trace)) << messageOf(std::move(trace));
  auto run = makeRunVariant(program, *trace);
  ASSERT_TRUE(bool(run)) << messageOf(std::move(run));
  EXPECT_EQ(run->timeline.spans[5].begin, run->timeline.spans[4].end);
  ASSERT_FALSE(run->memory.empty());
  EXPECT_GT(run->memory.front().time, 0);
}

TEST(Compare, refusesTracesOfAnotherProgram) {
  llvm::SmallString<128> dir;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("compare", dir));
  StepProgram program = makeProgram();
  EXPECT_NE(messageOf(readRunTraces(dir)).find("expected rank-0.json"),
            std::string::npos);
  llvm::SmallString<128> file(dir);
  llvm::sys::path::append(file, "rank-0.json");
  {
    std::error_code error;
    llvm::raw_fd_ostream os(file, error);
    ASSERT_FALSE(error);
    os << printTrace(simulate(program));
  }
  auto traces = readRunTraces(dir);
  ASSERT_TRUE(bool(traces)) << messageOf(std::move(traces));
  EXPECT_EQ(traces->size(), 1u);
  StepProgram other = program;
  std::swap(other.ops[3], other.ops[4]);
  EXPECT_NE(messageOf(makeRunVariant(other, traces->front()))
                .find("expected a trace of the program that these options "
                      "give"),
            std::string::npos);
  // Ranks of one run ran one program, and each is another.
  llvm::SmallString<128> second(dir);
  llvm::sys::path::append(second, "rank-1.json");
  auto writeSecond = [&](const std::string &text) {
    std::error_code error;
    llvm::raw_fd_ostream os(second, error);
    ASSERT_FALSE(error);
    os << text;
  };
  writeSecond(printTrace(simulate(program)));
  EXPECT_NE(messageOf(readRunTraces(dir)).find("got rank 0 again"),
            std::string::npos);
  writeSecond(replace(printTrace(simulate(program)), "\"world_size\": 2",
                      "\"world_size\": 4"));
  EXPECT_NE(messageOf(readRunTraces(dir)).find("world_size: expected 2, as in"),
            std::string::npos);
  writeSecond(printTrace(simulate(other)));
  EXPECT_NE(
      messageOf(readRunTraces(dir)).find("expected a trace of the program of"),
      std::string::npos);
  EXPECT_NE(messageOf(readRunTraces((dir + "/no").str())).find("expected"),
            std::string::npos);
  llvm::sys::fs::remove_directories(dir);
}

TEST(ProgramHash, changesWithWhatAStepDoes) {
  StepProgram program = makeProgram();
  std::string issue = getIssueHash(program), whole = getProgramHash(program);
  EXPECT_EQ(issue.size(), 64u);
  EXPECT_EQ(getIssueHash(makeProgram()), issue);
  // Places are no part of the order, nor is what the reader sees.
  StepProgram moved = program;
  moved.ops[1].reads.push_back({0, 64, 64});
  moved.ops[0].unit = -1;
  EXPECT_EQ(getIssueHash(moved), issue);
  EXPECT_NE(getProgramHash(moved), whole);
  // Nor is what a kernel's result starts from, and where packs put parts.
  StepProgram tied = program, packed = program;
  tied.ops[1].inPlace.push_back({0, 0});
  packed.ops[1].places.push_back(64);
  // Nor is what kernels of these names do.
  StepProgram recoded = program;
  recoded.kernelCode = "other";
  for (const StepProgram &other : {tied, packed, recoded}) {
    EXPECT_EQ(getIssueHash(other), issue);
    EXPECT_NE(getProgramHash(other), whole);
  }
  auto differs = [&](auto change) {
    StepProgram changed = makeProgram();
    change(changed);
    EXPECT_NE(getIssueHash(changed), issue);
    EXPECT_NE(getProgramHash(changed), whole);
  };
  differs([](StepProgram &p) { std::swap(p.ops[3], p.ops[4]); });
  differs([](StepProgram &p) { std::swap(p.ops[1], p.ops[2]); });
  differs([](StepProgram &p) { p.ops[5].after.push_back(0); });
  differs([](StepProgram &p) { p.transfers[0].atomBytes[0] += 4; });
  differs(
      [](StepProgram &p) { p.transfers[1].kind = TransferKind::AllReduce; });
  differs([](StepProgram &p) { p.transfers[1].dtypes.front() = "bf16"; });
  differs([](StepProgram &p) { p.transfers[1].divisors.front() = 8; });
  differs([](StepProgram &p) { p.groups[0].stride = 2; });
  differs([](StepProgram &p) { p.ops[0].queue = Queue::Reduce; });
  differs([](StepProgram &p) { p.ops[1].name = "k9"; });
}

} // namespace
