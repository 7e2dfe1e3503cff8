//===- Training.cpp - The loop over the steps -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Training.h"

#include "core/data/BatchLoader.h"
#include "core/data/Checkpoint.h"
#include "core/data/Consensus.h"
#include "core/data/DirectoryClaim.h"
#include "core/data/File.h"
#include "core/data/Metrics.h"
#include "main/Console.h"
#include "main/Interrupt.h"
#include "main/Main.h"
#include "main/Rank.h"
#include "main/SharedSettings.h"
#include "trace/Trace.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <numeric>

namespace fsdp::rt {

using namespace data;

namespace {

/// Calls that --trace keeps per rank.
constexpr int64_t traceEvents = 1 << 18;

class Trainer {
public:
  Trainer(World &host, const TrainingRun &run)
      : host_(host), run_(run), options_(run.options), manifest_(run.manifest) {
  }

  Status run();

private:
  Status prepare();
  Status loop();
  bool isFirst() const { return host_.rank() == 0; }
  Status findStart();
  Status openOutputs();
  Status openTrace();
  std::string traceFile() const;
  Status openSaves();
  Status createRank();
  Status loadState();
  Status startLoader(std::unique_ptr<BatchSource> source);
  Status runStep(int64_t step);
  Status report(int64_t step, double seconds);
  Status save(int64_t step);
  Status writeRecords();
  void tell(const std::vector<std::string> &notes);

  World &host_;
  const TrainingRun &run_;
  const Options &options_;
  const Manifest &manifest_;
  std::unique_ptr<Communicator> world_;
  std::optional<Consensus> ranks_;
  std::optional<CheckpointInfo> resumed_;
  int64_t firstStep_ = 1, savedStep_ = 0;
  std::optional<CheckpointWriter> saves_;
  std::unique_ptr<Rank> rank_;
  std::unique_ptr<BatchLoader> loader_;
  LineFile metrics_;
  DirectoryClaim traces_;
  std::unique_ptr<Console> console_;
  bool hasWarned_ = false;
};

/// What can be refused without the arena comes first: a run with gigabytes of
/// parameters should not load them to say that a path is wrong.
Status Trainer::prepare() {
  std::vector<int> everyone(host_.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  Result<std::unique_ptr<Communicator>> world =
      host_.createCommunicator(everyone);
  if (!world.isOk())
    return world.status();
  world_ = std::move(*world);
  ranks_.emplace(*world_);

  // Before anything else that the ranks do together: it depends on these.
  if (Status s = ranks_->agreeOn(sharedSettings(options_, manifest_)))
    return s;
  // On every rank: hosts of one job may differ.
  if (Status s = ranks_->agree(checkMachine(manifest_)))
    return s;
  if (Status s = ranks_->agree(findStart()))
    return s;
  std::vector<std::string> notes;
  Result<std::unique_ptr<BatchSource>> batches =
      openBatches(options_.data, manifest_, host_.rank(), host_.size(), notes);
  if (Status s = ranks_->agree(batches.status()))
    return s;
  if (Status s = ranks_->agreeOn(
          {{"--resume", "step " + std::to_string(firstStep_ - 1)},
           {"--data", (*batches)->kind()}}))
    return s;
  tell(notes);
  std::vector<std::string> remarks = (*batches)->remarks(*options_.steps);
  if (Status s = ranks_->announce(isFirst() ? openOutputs() : Status::ok()))
    return s;
  if (Status s = ranks_->agree(openTrace()))
    return s;
  if (Status s = openSaves())
    return s;
  if (Status s = createRank())
    return s;
  if (Status s = loadState())
    return s;
  if (Status s = ranks_->agree(startLoader(std::move(*batches))))
    return s;
  if (isFirst()) {
    // Only now that the run will take place is an older one's file emptied.
    if (!options_.metrics.empty() && !resumed_)
      if (Status s = metrics_.clear())
        return s;
    Console::Options look;
    look.firstStep = firstStep_;
    look.lastStep = *options_.steps;
    look.logEvery = options_.logEvery;
    look.isQuiet = options_.quiet;
    look.isTerminal = run_.isOnTerminal;
    console_ = std::make_unique<Console>(stdout, look);
    for (const std::string &remark : remarks)
      console_->note(remark);
  }
  return Status::ok();
}

Status Trainer::findStart() {
  if (options_.resume.empty())
    return Status::ok();
  Result<CheckpointInfo> found = findCheckpoint(options_.resume);
  if (!found.isOk())
    return found.status().withContext("--resume");
  resumed_ = std::move(*found);
  firstStep_ = resumed_->step + 1;
  if (*options_.steps < firstStep_)
    return Status::failed("--steps: expected more than " +
                          std::to_string(resumed_->step) +
                          ", the step of checkpoint '" + resumed_->path +
                          "', got " + std::to_string(*options_.steps) +
                          " (steps are counted from the very first one)");
  return Status::ok();
}

Status Trainer::openOutputs() {
  if (!options_.metrics.empty()) {
    Result<LineFile> file = LineFile::open(options_.metrics);
    if (!file.isOk())
      return file.status().withContext("--metrics");
    metrics_ = std::move(*file);
  }
  if (!options_.profile.empty())
    if (Status s = checkReplaceable(options_.profile))
      return s.withContext("--profile");
  return Status::ok();
}

std::string Trainer::traceFile() const {
  return options_.trace + "/rank-" + std::to_string(host_.rank()) + ".json";
}

/// On every rank: each writes a file, maybe on a host of its own.
Status Trainer::openTrace() {
  if (options_.trace.empty())
    return Status::ok();
  Status status = traces_.create(options_.trace);
  if (!status)
    status = checkReplaceable(traceFile());
  return status.withContext("--trace");
}

Status Trainer::openSaves() {
  if (options_.save.empty())
    return Status::ok();
  CheckpointWriter::Options wanted;
  wanted.directory = options_.save;
  wanted.keep = options_.keep.value_or(0);
  if (resumed_)
    wanted.resumedFrom = resumed_->path;
  Result<CheckpointWriter> writer =
      CheckpointWriter::create(manifest_, host_.rank(), *ranks_, wanted);
  if (!writer.isOk())
    return writer.status();
  saves_ = std::move(*writer);
  return Status::ok();
}

Status Trainer::createRank() {
  RankOptions wanted;
  wanted.threads = run_.threadsPerRank;
  wanted.blas = options_.blas;
  wanted.queueThreads = options_.queueThreads;
  wanted.profile = !options_.profile.empty() && isFirst();
  wanted.traceEvents = options_.trace.empty() ? 0 : traceEvents;
  Result<std::unique_ptr<Rank>> rank =
      Rank::create(host_, *ranks_, run_.program, manifest_, wanted);
  if (!rank.isOk())
    return rank.status();
  rank_ = std::move(*rank);
  for (const auto &[name, value] : options_.scalars)
    rank_->setScalar(manifest_.findScalar(name) - manifest_.scalars.data(),
                     value);
  return Status::ok();
}

Status Trainer::loadState() {
  if (options_.seed && !resumed_)
    return rank_->initialize(*options_.seed).withContext("--init");
  std::vector<std::string> notes;
  if (Status s = resumed_ ? rank_->resume(*resumed_, notes)
                          : rank_->loadParameters(options_.params,
                                                  options_.castParams, notes))
    return s;
  tell(notes);
  return Status::ok();
}

Status Trainer::startLoader(std::unique_ptr<BatchSource> source) {
  Result<std::unique_ptr<BatchLoader>> loader = BatchLoader::start(
      std::move(source), manifest_, firstStep_, *options_.steps);
  if (!loader.isOk())
    return loader.status();
  loader_ = std::move(*loader);
  return Status::ok();
}

Status Trainer::run() {
  Status status = prepare();
  if (!status)
    status = loop();
  if (!status)
    return status;
  if (ranks_ && ranks_->failure())
    run_.record.setFailure(*ranks_->failure());
  else
    // Before the communicators go: the others should hear why, not that this
    // rank is gone.
    host_.abort(status);
  return status;
}

void Trainer::tell(const std::vector<std::string> &notes) {
  if (isFirst())
    for (const std::string &note : notes)
      std::fprintf(stderr, "warning: %s\n", note.c_str());
}

Status Trainer::loop() {
  const int64_t last = *options_.steps;
  Status end = Status::ok();
  for (int64_t step = firstStep_; step <= last; ++step) {
    if (Status s = runStep(step)) {
      run_.record.setStep(step);
      return s;
    }
    // A signal may have come to one process only, and to the ranks of one
    // process at different steps: they must all stop at the same one.
    Result<bool> interrupted = ranks_->any(InterruptGuard::wasRequested());
    if (!interrupted.isOk())
      return interrupted.status();
    bool isDue = options_.saveEvery && step % *options_.saveEvery == 0;
    if (isDue || step == last || *interrupted)
      if (Status s = save(step))
        return s;
    if (*interrupted && step < last) {
      end = Status::failed("interrupted at step " + std::to_string(step));
      break;
    }
  }
  // As the state, records of the steps that ran are kept.
  if (Status s = ranks_->agree(writeRecords()))
    return s;
  if (Status s = ranks_->agree(end))
    return s;
  return ranks_->announce(isFirst() ? console_->finish() : Status::ok());
}

Status Trainer::runStep(int64_t step) {
  using Clock = std::chrono::steady_clock;
  if (Status s = loader_->next(rank_->arena()))
    return s;
  Clock::time_point begin = Clock::now();
  if (Status s = rank_->step())
    return s;
  std::chrono::duration<double> seconds = Clock::now() - begin;
  if (!isFirst())
    return Status::ok();
  Status status = report(step, seconds.count());
  if (status)
    run_.record.setFailure(status);
  return status;
}

Status Trainer::report(int64_t step, double seconds) {
  const StepTimes &times = rank_->context().counters().lastStep;
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = rank_->loss();
  metrics.gradNorm = rank_->gradNorm();
  metrics.stepMs = seconds * 1e3;
  metrics.tokensPerSecond =
      seconds > 0 ? double(tokensPerStep(manifest_)) / seconds : 0;
  metrics.exposedCommMs = double(times.communication + times.waiting) / 1e6;
  metrics.memBytes = residentBytes() / run_.ranksPerProcess;
  if (!options_.metrics.empty())
    if (Status s = metrics_.append(toJsonLine(metrics, manifest_.loss.dtype,
                                              manifest_.gradNorm.dtype)))
      return s.withContext("--metrics");
  console_->step(metrics);
  if (std::isfinite(metrics.loss))
    return Status::ok();
  std::string text = "loss is " + std::to_string(metrics.loss);
  if (options_.stopOnNan)
    return Status::failed(text + " (--stop-on-nan)");
  if (!hasWarned_)
    console_->warn("step " + std::to_string(step) + ": " + text);
  hasWarned_ = true;
  return Status::ok();
}

Status Trainer::save(int64_t step) {
  if (!saves_ || savedStep_ == step)
    return Status::ok();
  savedStep_ = step;
  return saves_->save(step, rank_->arena());
}

Status Trainer::writeRecords() {
  if (!options_.profile.empty() && isFirst())
    if (Status s =
            writeProfile(options_.profile, host_.rank(), rank_->context()))
      return s.withContext("--profile");
  if (options_.trace.empty())
    return Status::ok();
  const Recorder &recorder = rank_->context().recorder();
  if (isFirst() && recorder.droppedEvents() > 0)
    tell({"--trace: only the first " + std::to_string(traceEvents) +
          " calls of each rank were kept, " +
          std::to_string(recorder.droppedEvents()) + " came later"});
  return writeTrace(traceFile(), traceHeader(manifest_, host_.rank()), recorder)
      .withContext("--trace");
}

} // namespace

void FailureRecord::setFailure(const Status &failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_)
    failure_ = failure;
}

void FailureRecord::setStep(int64_t step) {
  std::lock_guard<std::mutex> lock(mutex_);
  step_ = step_ == 0 ? step : std::min(step_, step);
}

Status FailureRecord::explain(const Status &ofBackend) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Status &status = failure_ ? *failure_ : ofBackend;
  return step_ > 0 ? status.withContext("step " + std::to_string(step_))
                   : status;
}

Status train(World &host, const TrainingRun &run) {
  // Beyond this function there is C, and threads that must not throw.
  try {
    return Trainer(host, run).run();
  } catch (const std::bad_alloc &) {
    return Status::failed("rank " + std::to_string(host.rank()) +
                          ": out of memory");
  } catch (const std::exception &error) {
    return Status::internal("rank " + std::to_string(host.rank()) + ": " +
                            error.what());
  }
}

} // namespace fsdp::rt
