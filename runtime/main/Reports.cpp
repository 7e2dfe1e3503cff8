//===- Reports.cpp - What a run tells its user ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Reports.h"

#include "core/Printable.h"
#include "data/File.h"
#include "data/Metrics.h"
#include "data/Numbers.h"
#include "trace/Trace.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace fsdp::rt {

using namespace data;

int64_t traceCapacity(const Options &options) {
  return options.trace.empty() ? 0 : 1 << 18;
}

Reports::Reports(const TrainingRun &run, const Options &options, int rank)
    : run_(run), options_(options),
      work_(stepWork(run.manifest, options.microBatches())), rank_(rank) {}

std::string describeMemory(const hal::DeviceFacts &facts) {
  std::string text;
  for (const hal::DeviceFacts::Memory &part : facts.memory)
    text += (text.empty() ? "memory of the device: " : ", ") + part.what + " " +
            formatBytes(part.bytes);
  return text;
}

std::string findOtherTuning(const hal::DeviceFacts &facts,
                            const data::Manifest &manifest) {
  if (manifest.tunedFor.empty() || facts.capability.empty() ||
      facts.capability == manifest.tunedCapability)
    return "";
  return "warning: shapes of kernels are those that were fast on " +
         manifest.tunedFor + " (--tuning), a GPU of " +
         manifest.tunedCapability + "; this one is of " + facts.capability;
}

std::string findUnreserved(const hal::DeviceFacts &facts, int64_t arenaBytes,
                           int64_t reservedBytes) {
  int64_t beside = facts.memoryBytes() - arenaBytes;
  if (reservedBytes == 0 || beside <= reservedBytes)
    return "";
  return "warning: expected at most " + formatBytes(reservedBytes) +
         " of the device's memory beside the arena, which the memory budget "
         "leaves there (reserved_gib of the cluster file), got " +
         formatBytes(beside);
}

void Reports::setDevice(const hal::DeviceFacts &facts) {
  deviceBytes_ = facts.memoryBytes();
  tell(facts.notes);
}

Status Reports::open() {
  if (!isFirst())
    return Status::ok();
  if (!options_.metrics.empty()) {
    Result<MetricsLog> file = MetricsLog::open(options_.metrics);
    if (!file.isOk())
      return file.status().withContext("--metrics");
    metrics_ = std::move(*file);
  }
  if (!options_.profile.empty())
    if (Status s = checkReplaceable(options_.profile))
      return s.withContext("--profile");
  return Status::ok();
}

std::string Reports::traceFile() const {
  return options_.trace + "/rank-" + std::to_string(rank_) + ".json";
}

Status Reports::openTrace() {
  if (options_.trace.empty())
    return Status::ok();
  Status status = traces_.create(options_.trace);
  if (!status)
    status = checkReplaceable(traceFile());
  return status.withContext("--trace");
}

Status Reports::beginMetrics(int64_t firstStep) {
  if (!isFirst() || options_.metrics.empty())
    return Status::ok();
  Status status = options_.evaluatesOnly() ? metrics_.beginAtEnd()
                                           : metrics_.beginAfter(firstStep - 1);
  return status.withContext("--metrics");
}

void Reports::beginConsole(int64_t firstStep,
                           const std::vector<std::string> &remarks) {
  if (!isFirst())
    return;
  Console::Options look;
  look.firstStep = firstStep;
  look.lastStep = options_.steps.value_or(0);
  look.logEvery = options_.logEvery;
  look.isQuiet = options_.quiet;
  look.isTerminal = run_.isOnTerminal;
  console_ = std::make_unique<Console>(stdout, look);
  for (const auto *texts : {&run_.manifest.notes, &remarks})
    for (const std::string &text : *texts)
      console_->note(text);
  if (std::string bound = describeBound(work_);
      !bound.empty() && !options_.evaluatesOnly())
    console_->note(bound);
}

void Reports::tell(const std::vector<std::string> &notes) const {
  if (isFirst())
    for (const std::string &note : notes)
      std::fprintf(stderr, "warning: %s\n", printable(note).c_str());
}

void Reports::warnOnce(const std::string &text) {
  std::string kind;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kind),
               [](char c) { return c < '0' || c > '9'; });
  if (isFirst() && told_.insert(kind).second)
    console_->warn(text);
}

/// A file of metrics that cannot be written must not cost the run.
void Reports::log(int64_t step, const std::string &line) {
  if (options_.metrics.empty())
    return;
  if (Status s = metrics_.append(line))
    warnOnce("step " + std::to_string(step) + ": --metrics: " + s.message() +
             "; its lines are kept and tried again");
}

void Reports::step(StepMetrics metrics, double seconds,
                   const StepTimes &times) {
  if (!isFirst())
    return;
  const Manifest &manifest = run_.manifest;
  metrics.stepMs = seconds * 1e3;
  metrics.tokensPerSecond =
      seconds > 0
          ? double(tokensPerStep(manifest) * options_.microBatches()) / seconds
          : 0;
  metrics.exposedCommMs = double(times.communication + times.waiting) / 1e6;
  metrics.memBytes =
      deviceBytes_ > 0 ? deviceBytes_ : residentBytes() / run_.ranksPerProcess;
  metrics.setRates(work_);
  const Program &program = manifest.train();
  log(metrics.step, toJsonLine(metrics, program.findOutput("loss")->dtype,
                               program.findOutput("grad_norm")->dtype));
  console_->step(metrics);
}

void Reports::evaluation(int64_t step, double loss, Dtype dtype,
                         int64_t batches) {
  if (!isFirst())
    return;
  log(step, toJsonLine(step, loss, dtype, batches));
  console_->evaluation(step, loss, batches);
}

bool Reports::isUnread() const {
  return isFirst() && run_.endsWithOutput && console_->isUnread();
}

Status Reports::writeRecords(const Executor &executor,
                             LearningRates rates) const {
  if (!options_.profile.empty() && isFirst())
    if (Status s = writeProfile(options_.profile, rank_, executor))
      return s.withContext("--profile");
  if (options_.trace.empty())
    return Status::ok();
  const Recorder &recorder = executor.recorder();
  if (recorder.droppedEvents() > 0)
    tell({"--trace: only the first " + std::to_string(traceCapacity(options_)) +
          " calls of each rank were kept, " +
          std::to_string(recorder.droppedEvents()) + " came later"});
  TraceHeader header =
      traceHeader(run_.manifest, rank_, options_.microBatches());
  header.learningRateOf = std::move(rates);
  return writeTrace(traceFile(), header, recorder).withContext("--trace");
}

Status Reports::checkMetrics() const {
  if (metrics_.missing() == 0)
    return Status::ok();
  return Status::failed("--metrics: expected a line for every step in '" +
                        options_.metrics + "', got none for " +
                        std::to_string(metrics_.missing()) +
                        " steps, which could not be written");
}

Status Reports::finish() {
  return isFirst() ? console_->finish() : Status::ok();
}

} // namespace fsdp::rt
