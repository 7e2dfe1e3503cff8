//===- RunTrace.cpp - What a rank did as a timeline -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ParseJson.h"
#include "fsdp/Plan/Report/PlanCompare.h"
#include "fsdp/Schedule/ProgramHash.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

/// Into which step an event of the trace falls is what its arguments say.
static llvm::Error readEvent(const json::Object &event, StringRef place,
                             std::map<int64_t, RunStep> &steps) {
  auto category = event.getString("cat");
  auto name = event.getString("name");
  auto begin = event.getNumber("ts"), duration = event.getNumber("dur");
  if (event.getString("ph") != "X" || category == "cuda_runtime")
    return llvm::Error::success();
  if (!category || !name || !begin || !duration)
    return llvm::createStringError(
        place + ": expected cat, name, ts and dur, got none of "
                "one of them");
  // A year: what times are counted in has room for it.
  constexpr double kMost = 365.0 * 24 * 3600 * 1e6;
  for (auto [key, time] : {std::pair("ts", *begin), {"dur", *duration}})
    if (!(time >= 0 && time <= kMost))
      return llvm::createStringError(place + ": expected " + key +
                                     " from 0 to " +
                                     llvm::formatv("{0}", kMost) + " us, got " +
                                     llvm::formatv("{0}", time));
  if (category == "user_annotation") {
    StringRef number = *name;
    int64_t step;
    if (!number.consume_front("ProfilerStep#") || number.getAsInteger(10, step))
      return llvm::createStringError(
          place + ": expected ProfilerStep#N, got '" + *name + "'");
    RunStep &it = steps[step];
    it.number = step;
    it.begin = *begin;
    it.end = *begin + *duration;
    return llvm::Error::success();
  }
  const json::Object *args = event.getObject("args");
  auto step = args ? args->getInteger("step") : std::nullopt;
  if (!step)
    return llvm::createStringError(place + ": expected args.step, got none");
  RunEvent read;
  read.name = name->str();
  read.begin = *begin;
  read.duration = *duration;
  auto transfer = args->getInteger("event");
  if (category == "cuda_sync")
    read.kind = RunEvent::Wait;
  else if (transfer)
    read.kind = RunEvent::Transfer;
  if (read.kind != RunEvent::Kernel) {
    if (!transfer)
      return llvm::createStringError(place + ": expected args.event, got none");
    read.event = *transfer;
    read.waiting = args->getNumber("waiting_us").value_or(0);
  }
  steps[*step].number = *step;
  steps[*step].events.push_back(std::move(read));
  return llvm::Error::success();
}

/// Of whole steps, what happened in each happened between its begin and end.
static llvm::Error checkTimes(const RunTrace &trace) {
  // Times are rounded.
  constexpr double kTouchUs = 1;
  for (const RunStep &step : trace.steps) {
    auto error = [&](const Twine &what) {
      return llvm::createStringError(trace.path + ": expected " + what);
    };
    if (step.end <= step.begin)
      return error("ProfilerStep#" + Twine(step.number) +
                   " to take time, as what ran in it did, got none");
    for (const RunEvent &event : step.events)
      if (event.begin < step.begin - kTouchUs ||
          event.begin + event.duration > step.end + kTouchUs)
        return error(event.name + " within ProfilerStep#" + Twine(step.number) +
                     ", " +
                     llvm::formatv("{0:f3} to {1:f3} us, got {2:f3} to {3:f3}",
                                   step.begin, step.end, event.begin,
                                   event.begin + event.duration)
                         .str());
  }
  return llvm::Error::success();
}

llvm::Expected<RunTrace> mlir::fsdp::parseRunTrace(StringRef text,
                                                   StringRef path) {
  llvm::Expected<json::Value> parsed = parseJson(text);
  if (!parsed)
    return llvm::createStringError(path + ": " +
                                   llvm::toString(parsed.takeError()));
  const json::Object *root = parsed->getAsObject();
  const json::Object *program = root ? root->getObject("fsdp") : nullptr;
  const json::Array *events = root ? root->getArray("traceEvents") : nullptr;
  const json::Object *info =
      root ? root->getObject("distributedInfo") : nullptr;
  auto rank = info ? info->getInteger("rank") : std::nullopt;
  auto worldSize = info ? info->getInteger("world_size") : std::nullopt;
  // Older traces do not say it: of one batch a step.
  int64_t accumulate =
      program ? program->getInteger("accumulate").value_or(1) : 1;
  if (accumulate != 1)
    return llvm::createStringError(
        path +
        ": expected a trace of steps of one batch, got one of "
        "--accumulate " +
        Twine(accumulate) +
        ", whose programs fsdp-plan does not simulate: trace a run without "
        "--accumulate");
  auto issue = program ? program->getString("issue") : std::nullopt;
  if (!events || !rank || !worldSize || !issue)
    return llvm::createStringError(
        path + ": expected a trace that an executable wrote with "
               "--trace (fsdp.issue, distributedInfo.rank, "
               "distributedInfo.world_size, traceEvents), got another file");
  if (*rank < 0 || *rank >= *worldSize)
    return llvm::createStringError(
        path +
        ": distributedInfo.rank: expected 0 to world_size - 1, which is " +
        Twine(*worldSize - 1) + ", got " + Twine(*rank));
  RunTrace trace;
  trace.path = path.str();
  trace.rank = *rank;
  trace.worldSize = *worldSize;
  trace.issue = issue->str();
  trace.order = program->getString("order").value_or("").str();
  std::map<int64_t, RunStep> steps;
  for (auto [i, value] : llvm::enumerate(*events)) {
    std::string place = (path + ": traceEvents[" + Twine(i) + "]").str();
    const json::Object *event = value.getAsObject();
    if (!event)
      return llvm::createStringError(place + ": expected an object");
    if (llvm::Error error = readEvent(*event, place, steps))
      return std::move(error);
  }
  // The last one ends where the trace was full.
  if (const json::Value *dropped = root->get("droppedEvents")) {
    auto count = dropped->getAsInteger();
    if (!count || *count < 0)
      return llvm::createStringError(
          path + ": droppedEvents: expected a number of events, got " +
          llvm::formatv("{0}", *dropped).str());
    trace.isCut = *count > 0;
  }
  if (trace.isCut && !steps.empty())
    steps.erase(std::prev(steps.end()));
  for (auto &[number, step] : steps)
    trace.steps.push_back(std::move(step));
  if (trace.steps.empty())
    return llvm::createStringError(
        path + ": expected at least one whole step, got none");
  if (llvm::Error error = checkTimes(trace))
    return std::move(error);
  return trace;
}

llvm::Expected<std::vector<RunTrace>>
mlir::fsdp::readRunTraces(StringRef directory) {
  namespace fs = llvm::sys::fs;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; it != end && !error;
       it.increment(error)) {
    StringRef name = llvm::sys::path::filename(it->path());
    if (name.starts_with("rank-") && name.ends_with(".json"))
      paths.push_back(it->path());
  }
  if (error)
    return llvm::createStringError(
        directory + ": expected a folder that --trace wrote, got " +
        error.message());
  if (paths.empty())
    return llvm::createStringError(
        directory + ": expected rank-0.json and others, as --trace "
                    "writes them, got none");
  std::vector<RunTrace> traces;
  for (const std::string &path : paths) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return llvm::createStringError(path + ": " + buffer.getError().message());
    auto trace = parseRunTrace((*buffer)->getBuffer(), path);
    if (!trace)
      return trace.takeError();
    if (!traces.empty() && (trace->issue != traces.front().issue ||
                            trace->order != traces.front().order))
      return llvm::createStringError(
          path + ": expected a trace of the program of " + traces.front().path +
          ", " + StringRef(traces.front().issue).take_front(16) +
          ", got one of " + StringRef(trace->issue).take_front(16));
    if (!traces.empty() && trace->worldSize != traces.front().worldSize)
      return llvm::createStringError(
          path + ": distributedInfo.world_size: expected " +
          Twine(traces.front().worldSize) + ", as in " + traces.front().path +
          ", got " + Twine(trace->worldSize));
    traces.push_back(std::move(*trace));
  }
  llvm::sort(traces, [](const RunTrace &a, const RunTrace &b) {
    return a.rank < b.rank;
  });
  auto twice = std::adjacent_find(
      traces.begin(), traces.end(),
      [](const RunTrace &a, const RunTrace &b) { return a.rank == b.rank; });
  if (twice != traces.end())
    return llvm::createStringError(
        twice[1].path + ": expected a trace of another rank than " +
        twice->path + " has, got rank " + Twine(twice->rank) + " again");
  return traces;
}

//===----------------------------------------------------------------------===//
// Timelines
//===----------------------------------------------------------------------===//

static const RunStep &getFastestStep(const RunTrace &trace) {
  llvm::ArrayRef<RunStep> steps = trace.steps;
  if (steps.size() > 1)
    steps = steps.drop_front();
  return *llvm::min_element(steps, [](const RunStep &a, const RunStep &b) {
    return a.end - a.begin < b.end - b.begin;
  });
}

/// Whether @transfer was a call that returned when it was done: the step did
/// nothing else while it ran.
static bool isBlocking(const RunEvent &transfer, const RunStep &step) {
  // Times are rounded: events that follow each other may touch.
  constexpr double kTouchUs = 0.005;
  return llvm::none_of(step.events, [&](const RunEvent &event) {
    double begin = std::max(event.begin, transfer.begin),
           end = std::min(event.begin + event.duration,
                          transfer.begin + transfer.duration);
    return event.kind != RunEvent::Transfer && end - begin > kTouchUs;
  });
}

llvm::Expected<PlanVariant>
mlir::fsdp::makeRunVariant(const StepProgram &program, const RunTrace &trace) {
  if (trace.worldSize != program.worldSize)
    return llvm::createStringError(
        trace.path + ": distributedInfo.world_size: expected " +
        Twine(program.worldSize) + ", as the mesh has ranks, got " +
        Twine(trace.worldSize));
  if (std::string issue = getIssueHash(program); trace.issue != issue)
    return llvm::createStringError(
        trace.path +
        ": expected a trace of the program that these options "
        "give, " +
        StringRef(issue).take_front(16) + ", got one of " +
        StringRef(trace.issue).take_front(16) +
        (trace.order.empty() ? "" : ", order " + trace.order) +
        "; give the options that it was compiled with");
  const RunStep &step = getFastestStep(trace);
  std::vector<const RunEvent *> kernels;
  std::map<int64_t, const RunEvent *> transfers, waits;
  for (const RunEvent &event : step.events) {
    if (event.kind == RunEvent::Kernel)
      kernels.push_back(&event);
    else
      // An event may be waited for again, to no end.
      (event.kind == RunEvent::Transfer ? transfers : waits)
          .try_emplace(event.event, &event);
  }
  auto toSpan = [&](const RunEvent &event) {
    OpSpan span;
    span.begin = toTime((event.begin - step.begin) * 1e-6);
    span.end = span.begin + toTime(event.duration * 1e-6);
    span.alone = span.end - span.begin;
    return span;
  };
  auto missing = [&](const Twine &what) {
    return llvm::createStringError(trace.path + ": expected " + what +
                                   " in step " + Twine(step.number) +
                                   ", got none");
  };

  PlanVariant variant;
  variant.name = "run";
  variant.title =
      ("as rank " + Twine(trace.rank) + " ran it, step " + Twine(step.number))
          .str();
  variant.program = program;
  Timeline &timeline = variant.timeline;
  timeline.spans.resize(program.ops.size());
  timeline.exposedBy.resize(program.ops.size());
  timeline.slowedBy.resize(program.ops.size());
  std::vector<Id> starts = getEventOps(program).start;
  size_t next = 0;
  // When compute got to an op.
  Time now = 0;
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    OpSpan &span = timeline.spans[i];
    if (op.kind == StepOpKind::Launch) {
      // Copies have names of their own.
      while (next < kernels.size() && kernels[next]->name != op.name)
        ++next;
      if (next == kernels.size())
        return missing("kernel " + op.name);
      span = toSpan(*kernels[next++]);
    } else if (op.kind == StepOpKind::Start) {
      auto found = transfers.find(op.event);
      if (found == transfers.end())
        return missing("the transfer of event " + Twine(op.event));
      span = toSpan(*found->second);
      span.stall = toTime(found->second->waiting * 1e-6);
      if (isBlocking(*found->second, step))
        timeline.exposedBy[i] += span.end - span.begin;
    } else if (op.kind == StepOpKind::Wait && !waits.empty()) {
      auto found = waits.find(op.event);
      if (found == waits.end())
        return missing("a wait for event " + Twine(op.event));
      span = toSpan(*found->second);
      timeline.exposedBy[starts[op.event]] += span.end - span.begin;
    } else {
      // A copy may be recorded, in parts and under other names: it was over
      // when the next kernel began.
      span.begin = span.end = now;
    }
    if (op.kind != StepOpKind::Start)
      now = std::max(now, span.end);
  }
  timeline.step = toTime((step.end - step.begin) * 1e-6);
  for (const RunEvent *kernel : kernels)
    timeline.compute += toTime(kernel->duration * 1e-6);
  timeline.exposed = 0;
  for (Time exposed : timeline.exposedBy)
    timeline.exposed += exposed;
  variant.memory = getMemory(program, timeline);
  variant.hostPeak = getHostPeak(program, timeline);
  return variant;
}
