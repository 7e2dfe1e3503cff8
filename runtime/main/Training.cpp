//===- Training.cpp - The loop over the steps -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Training.h"

#include "control/Consensus.h"
#include "data/BatchLoader.h"
#include "data/Checkpoint.h"
#include "main/Evaluation.h"
#include "main/Interrupt.h"
#include "main/Main.h"
#include "main/Rank.h"
#include "main/Reports.h"
#include "main/SharedSettings.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

namespace fsdp::rt {

using namespace data;

namespace {

class Trainer {
public:
  Trainer(World &host, const TrainingRun &run)
      : host_(host), run_(run), options_(run.options), manifest_(run.manifest),
        program_(manifest_.train()), reports_(run, host.rank()) {}

  Status run();

private:
  Status prepare();
  Status loop();
  bool isFirst() const { return host_.rank() == 0; }
  Status findStart();
  Status compareOrigin(const std::string &kindOfData);
  Status openSaves();
  Status createRank();
  void setScalar(const std::string &name, double value);
  Status loadState();
  Status startLoader(std::unique_ptr<BatchSource> source);
  const Program &firstOfStep() const;
  const Program &lastOfStep() const;
  bool changesBuffers() const;
  Status runStep(int64_t step, Status &unread);
  Status evaluateAfter(int64_t step, bool isLast);
  Status evaluateOnly();
  void report(int64_t step, double seconds);
  /// What any rank found out in a step, as bits.
  enum : uint32_t {
    Interrupted = 1, // a signal came
    OutputGone = 2,  // nobody reads standard output
    BatchFailed = 4, // the next step has no inputs
    NotFinite = 8,   // loss or gradient norm
    NormNotFinite = 16,
  };
  Status endOf(int64_t step, uint32_t found, const Status &batch);
  Status saveAfter(int64_t step, uint32_t found, bool isEnd);
  Status saveBefore(int64_t step, uint32_t found);
  Status save(int64_t step, bool isEnd);
  void removeOldOnes();
  Status stopOnNonfinite(int64_t step, uint32_t found);
  std::string nonfiniteText() const;
  Status finish(Status end);

  World &host_;
  const TrainingRun &run_;
  const Options &options_;
  const Manifest &manifest_;
  const Program &program_; // the one that trains
  Reports reports_;
  std::unique_ptr<hal::HostChannel> world_;
  std::optional<Consensus> ranks_;
  std::optional<CheckpointInfo> resumed_;
  int64_t firstStep_ = 1, savedStep_ = 0;
  std::optional<DataIdentity> data_; // of rank 0
  std::optional<CheckpointWriter> saves_;
  Status unsaved_;        // why the last save failed
  bool mayPrune_ = false; // a save since old checkpoints were removed
  bool isUnread_ = false; // why the run ends
  int64_t skipped_ = 0;   // steps without an update
  std::unique_ptr<Rank> rank_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<Evaluation> evaluation_; // null: none is asked for
  double loss_ = 0, gradNorm_ = 0;         // of the last step
  std::string nonfinite_;                  // what of them is not finite
};

/// What can be refused without the arena comes first: a run with gigabytes of
/// parameters should not load them to say that a path is wrong.
Status Trainer::prepare() {
  Result<std::unique_ptr<hal::HostChannel>> world = host_.openChannelOfAll();
  if (!world.isOk())
    return world.status();
  world_ = std::move(*world);
  ranks_.emplace(*world_);

  // Before anything else that the ranks do together: it depends on these.
  std::vector<Setting> settings = sharedSettings(options_, manifest_);
  settings.push_back({"--device", run_.device.device->name});
  if (Status s = ranks_->agreeOn(settings))
    return s;
  // On every rank: hosts of one job may differ.
  if (Status s = ranks_->agree(checkHost(run_.device, manifest_)))
    return s;
  if (Status s = ranks_->agree(findStart()))
    return s;
  std::vector<std::string> notes;
  std::unique_ptr<BatchSource> batches;
  if (!options_.evaluatesOnly()) {
    Result<std::unique_ptr<BatchSource>> opened =
        openBatches(options_.data, program_, host_.rank(), host_.size(), notes);
    if (Status s = ranks_->agree(opened.status()))
      return s;
    batches = std::move(*opened);
  }
  const std::string kind = batches ? batches->kind() : "";
  Result<std::unique_ptr<Evaluation>> evaluation =
      Evaluation::create(manifest_, options_, host_.rank(), *ranks_, notes);
  if (!evaluation.isOk())
    return evaluation.status();
  evaluation_ = std::move(*evaluation);
  if (Status s = ranks_->agreeOn(
          {{"--resume", "step " + std::to_string(firstStep_ - 1)},
           {"--data", kind}}))
    return s;
  notes.insert(notes.end(), run_.notes.begin(), run_.notes.end());
  reports_.tell(notes);
  std::vector<std::string> remarks;
  if (batches)
    remarks = batches->remarks(*options_.steps * options_.accumulate);
  if (Status s = ranks_->announce(isFirst() && batches ? compareOrigin(kind)
                                                       : Status::ok()))
    return s;
  if (Status s = ranks_->announce(reports_.open()))
    return s;
  if (Status s = ranks_->agree(reports_.openTrace()))
    return s;
  if (Status s = openSaves())
    return s;
  if (Status s = createRank())
    return s;
  // The first batch is read while the state is loaded.
  if (batches)
    if (Status s = ranks_->agree(startLoader(std::move(batches))))
      return s;
  const hal::DeviceFacts facts = rank_->executor().device().facts();
  reports_.setDevice(facts);
  if (std::string memory = describeMemory(facts); !memory.empty())
    remarks.push_back(memory);
  remarks.insert(remarks.end(), facts.remarks.begin(), facts.remarks.end());
  if (std::string other = findOtherTuning(facts, manifest_); !other.empty())
    remarks.push_back(other);
  if (std::string unreserved =
          findUnreserved(facts, manifest_.arenaBytes, manifest_.reservedBytes);
      !unreserved.empty())
    remarks.push_back(unreserved);
  if (Status s = loadState())
    return s;
  // Only now that the run will take place is an older one's file changed.
  if (Status s = ranks_->announce(reports_.beginMetrics(firstStep_)))
    return s;
  reports_.beginConsole(firstStep_, remarks);
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
  if (options_.steps && *options_.steps < firstStep_)
    return Status::failed("--steps: expected more than " +
                          std::to_string(resumed_->step) +
                          ", the step of checkpoint '" + resumed_->path +
                          "', got " + std::to_string(*options_.steps) +
                          " (steps are counted from the very first one)");
  return Status::ok();
}

/// What makes the run, and what it does not have in common with the one that
/// saved the state: that fits, and the user may mean it.
Status Trainer::compareOrigin(const std::string &kindOfData) {
  if (options_.save.empty() && !resumed_)
    return Status::ok();
  Result<DataIdentity> data =
      identifyData(options_.data, kindOfData, options_.accumulate);
  if (!data.isOk())
    return data.status().withContext("--data");
  data_ = std::move(*data);
  if (resumed_)
    for (const std::string &line : differences(
             resumed_->origin, {manifest_.traced, data_}, resumed_->step))
      reports_.tell({"--resume: " + resumed_->path + ": " + line});
  return Status::ok();
}

Status Trainer::openSaves() {
  if (options_.save.empty())
    return Status::ok();
  CheckpointWriter::Options wanted;
  wanted.directory = options_.save;
  wanted.keep = options_.keep.value_or(0);
  wanted.data = data_;
  if (resumed_)
    wanted.resumedFrom = resumed_->path;
  std::vector<std::string> notes;
  Result<CheckpointWriter> writer =
      CheckpointWriter::create(manifest_, host_.rank(), *ranks_, wanted, notes);
  if (!writer.isOk())
    return writer.status();
  reports_.tell(notes);
  saves_ = std::move(*writer);
  return Status::ok();
}

Status Trainer::createRank() {
  RankOptions wanted;
  wanted.device = run_.device;
  wanted.threads = run_.threadsPerRank;
  wanted.settings = options_.deviceSettings;
  wanted.profile = !options_.profile.empty() && isFirst();
  wanted.traceEvents = traceCapacity(options_);
  Result<std::unique_ptr<Rank>> rank =
      Rank::create(host_, *ranks_, run_.artifact, manifest_, wanted);
  if (!rank.isOk())
    return rank.status();
  rank_ = std::move(*rank);
  for (const auto &[name, value] : options_.scalars)
    setScalar(name, value);
  setScalar(Manifest::weight, double(options_.accumulate));
  return Status::ok();
}

/// In every program that has it.
void Trainer::setScalar(const std::string &name, double value) {
  for (size_t i = 0; i < manifest_.programs.size(); ++i)
    rank_->setScalar(i, name, value);
}

Status Trainer::loadState() {
  if (options_.seed && !resumed_)
    return rank_->initialize(*options_.seed).withContext("--init");
  std::vector<std::string> notes;
  if (Status s = resumed_
                     ? rank_->resume(*resumed_, notes)
                     : rank_->loadParameters(options_.params, options_.renaming,
                                             options_.castParams, notes))
    return s;
  reports_.tell(notes);
  return Status::ok();
}

Status Trainer::startLoader(std::unique_ptr<BatchSource> source) {
  Result<std::unique_ptr<BatchLoader>> loader = BatchLoader::start(
      std::move(source), program_, (firstStep_ - 1) * options_.accumulate + 1,
      *options_.steps * options_.accumulate, rank_->device());
  if (!loader.isOk())
    return loader.status();
  loader_ = std::move(*loader);
  return Status::ok();
}

Status Trainer::run() {
  Status status = prepare();
  if (!status)
    status = options_.evaluatesOnly() ? evaluateOnly() : loop();
  if (!status)
    return status;
  if (ranks_ && ranks_->failure())
    run_.record.setFailure(*ranks_->failure());
  else
    // Before the channels go: the others should hear why, not that this
    // rank is gone.
    host_.abort(status);
  return status;
}

Status Trainer::loop() {
  // The inputs of a step are read before any rank begins it: where they cannot
  // be, the state is still that of the step before, on all ranks.
  if (Status s = ranks_->agree(loader_->next(firstOfStep()))) {
    run_.record.setStep(firstStep_);
    return s;
  }
  const int64_t last = *options_.steps;
  Status end = Status::ok();
  uint32_t foundBefore = 0; // in the step before, by any rank
  for (int64_t step = firstStep_; step <= last && !end; ++step) {
    if (Status s = runStep(step, end)) {
      run_.record.setStep(step);
      return s;
    }
    if (end) {
      run_.record.setStep(step);
      if (Status s = saveBefore(step, foundBefore))
        return s;
      break;
    }
    uint32_t found = 0;
    if (!std::isfinite(loss_) || !std::isfinite(gradNorm_))
      found |= NotFinite;
    if (!std::isfinite(gradNorm_))
      found |= NormNotFinite;
    if (Status s = evaluateAfter(step, step == last)) {
      run_.record.setStep(step);
      return s;
    }
    // Evaluations and the next inputs take the outputs' place.
    Status batch = step < last ? loader_->next(firstOfStep()) : Status::ok();
    if (batch)
      found |= BatchFailed;
    if (reports_.isUnread())
      found |= OutputGone;
    // A signal may have come to one process only, and to the ranks of one
    // process at different steps: they must all stop at the same one.
    if (InterruptGuard::wasRequested())
      found |= Interrupted;
    Result<uint32_t> all = ranks_->any(found);
    if (!all.isOk())
      return all.status();
    foundBefore = *all;
    end = endOf(step, *all, batch);
    if (Status s = saveAfter(step, *all, step == last || end))
      return s;
  }
  return finish(end);
}

/// Why `step` is the last one, before --steps. Collective.
Status Trainer::endOf(int64_t step, uint32_t found, const Status &batch) {
  const int64_t last = *options_.steps;
  if ((found & NotFinite) && options_.stopOnNan) {
    run_.record.setStep(step);
    return ranks_->announce(Status::failed(nonfinite_ + " (--stop-on-nan)"));
  }
  if (step == last)
    return Status::ok();
  if (found & BatchFailed) {
    run_.record.setStep(step + 1);
    return ranks_->agree(batch);
  }
  if (found & Interrupted)
    return Status::failed("interrupted at step " + std::to_string(step));
  isUnread_ = found & OutputGone;
  if (isUnread_)
    return Status::failed("nobody reads standard output any more: ended at "
                          "step " +
                          std::to_string(step));
  return Status::ok();
}

/// Where a micro-batch cannot be read on any rank, `unread` is why, and the
/// step does not take place. Collective.
Status Trainer::runStep(int64_t step, Status &unread) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  const Program &last = lastOfStep();
  double losses = 0;
  for (int64_t done = 1; done <= options_.accumulate; ++done) {
    bool isLast = done == options_.accumulate;
    const Program &program = isLast ? last : firstOfStep();
    rank_->setCheckNote(loader_->unusualValue());
    setScalar(Manifest::accumulated, double(done - 1));
    if (Status s = rank_->run(&program - manifest_.programs.data()))
      return s;
    double loss = 0;
    if (Status s = rank_->load(*program.findOutput("loss"), loss))
      return s;
    losses += loss;
    if (isLast)
      break;
    // The inputs of the last micro-batch have the places of its own program.
    const Program &next =
        done + 1 == options_.accumulate ? last : firstOfStep();
    Status batch = loader_->next(next);
    Result<uint32_t> any = ranks_->any(batch ? BatchFailed : 0);
    if (!any.isOk())
      return any.status();
    if (*any & BatchFailed) {
      unread = ranks_->agree(batch);
      return Status::ok();
    }
  }
  std::chrono::duration<double> seconds = Clock::now() - begin;
  loss_ = losses / double(options_.accumulate);
  if (Status s = rank_->load(*last.findOutput("grad_norm"), gradNorm_))
    return s;
  nonfinite_ = nonfiniteText();
  report(step, seconds.count());
  return Status::ok();
}

/// The program of a step's first batch, which is its last one, too, where
/// nothing is accumulated.
const Program &Trainer::firstOfStep() const {
  return options_.accumulate > 1
             ? *manifest_.findKind(Program::Kind::Accumulate)
             : program_;
}

const Program &Trainer::lastOfStep() const {
  return options_.accumulate > 1
             ? *manifest_.findKind(Program::Kind::TrainAccumulated)
             : program_;
}

/// Forward changes buffers, whatever becomes of the step.
bool Trainer::changesBuffers() const {
  return std::any_of(manifest_.buffers.begin(), manifest_.buffers.end(),
                     [](const Buffer &buffer) { return buffer.perRank; });
}

/// "loss is nan and grad_norm is inf"; empty where both are finite.
std::string Trainer::nonfiniteText() const {
  std::string text;
  for (auto [name, value] :
       {std::pair("loss", loss_), std::pair("grad_norm", gradNorm_)})
    if (!std::isfinite(value))
      text += (text.empty() ? "" : " and ") + std::string(name) + " is " +
              (std::isnan(value) ? "nan"
               : value > 0       ? "inf"
                                 : "-inf");
  return text;
}

/// Where an evaluation is due after `step`. The state is as if there were none.
/// Collective.
Status Trainer::evaluateAfter(int64_t step, bool isLast) {
  if (!evaluation_ || !evaluation_->isDue(step, isLast))
    return Status::ok();
  Result<EvaluationResult> result = evaluation_->run(*rank_, isLast);
  if (!result.isOk())
    return result.status();
  if (result->isInterrupted && options_.evaluatesOnly())
    return ranks_->agree(Status::failed("interrupted"));
  if (!result->isInterrupted && result->loss)
    reports_.evaluation(step, *result->loss,
                        evaluation_->program().findOutput("loss")->dtype,
                        result->batches);
  return Status::ok();
}

/// Of the state that the run began with.
Status Trainer::evaluateOnly() {
  if (Status s = evaluateAfter(firstStep_ - 1, /*isLast=*/true))
    return s;
  return finish(Status::ok());
}

void Trainer::report(int64_t step, double seconds) {
  reports_.step(step, loss_, gradNorm_, seconds,
                rank_->executor().counters().lastStep);
  bool isSkipped = manifest_.skipsNonfinite && !std::isfinite(gradNorm_);
  skipped_ += isSkipped;
  if (!nonfinite_.empty() && !options_.stopOnNan)
    reports_.warnOnce("step " + std::to_string(step) + ": " + nonfinite_ +
                      (isSkipped ? ": its update was skipped" : ""));
}

/// State that followed from numbers that are not finite does not take a good
/// checkpoint's place: it is not saved where the gradient was not finite, and
/// older checkpoints stay until a later step was finite. The last step of a run
/// has none after it; its own numbers decide.
Status Trainer::saveAfter(int64_t step, uint32_t found, bool isEnd) {
  bool isFinite = !(found & NotFinite);
  if (isFinite)
    removeOldOnes();
  if (!isFinite && options_.stopOnNan)
    return stopOnNonfinite(step, found);
  bool isDue = options_.saveEvery && step % *options_.saveEvery == 0;
  if (!saves_ || (!isDue && !isEnd))
    return Status::ok();
  if ((found & NormNotFinite) && !manifest_.skipsNonfinite) {
    unsaved_ =
        Status::failed("cannot save step " + std::to_string(step) +
                       ": expected a finite gradient, got " + nonfinite_);
    if (!isEnd)
      reports_.warnOnce(unsaved_.message());
    return Status::ok();
  }
  if (Status s = save(step, isEnd))
    return s;
  if (isEnd && isFinite)
    removeOldOnes();
  return Status::ok();
}

/// Where some micro-batches of `step` have run and the others never will: the
/// state is that of the step before, in which `found` was found, but for
/// buffers that forward changed. Collective.
Status Trainer::saveBefore(int64_t step, uint32_t found) {
  if (!saves_ || step == firstStep_ || savedStep_ == step - 1)
    return Status::ok();
  if (!changesBuffers())
    return saveAfter(step - 1, found, /*isEnd=*/true);
  unsaved_ = Status::failed("cannot save step " + std::to_string(step - 1) +
                            ": expected its buffers, got those that "
                            "micro-batches of step " +
                            std::to_string(step) + " have changed");
  return Status::ok();
}

/// A program that left its state alone still has that of the step before, but
/// for buffers that forward changed.
Status Trainer::stopOnNonfinite(int64_t step, uint32_t found) {
  bool isKept = manifest_.skipsNonfinite && (found & NormNotFinite);
  return saves_ && isKept && !changesBuffers() && step > 1
             ? save(step - 1, /*isEnd=*/true)
             : Status::ok();
}

/// Fails where the ranks cannot talk to each other. A checkpoint that could not
/// be written is a warning: the next one may be, and the last must.
Status Trainer::save(int64_t step, bool isEnd) {
  if (savedStep_ == step)
    return Status::ok();
  unsaved_ = saves_->save(step, rank_->memory());
  if (!unsaved_) {
    savedStep_ = step;
    mayPrune_ = true;
    return Status::ok();
  }
  if (!isEnd)
    reports_.warnOnce(unsaved_.message() + "; it is tried again");
  ranks_->forgetFailure();
  return ranks_->world().barrier();
}

void Trainer::removeOldOnes() {
  if (!mayPrune_ || !saves_ || !isFirst())
    return;
  mayPrune_ = false;
  if (Status s = saves_->removeOldOnes())
    reports_.warnOnce("--keep: " + s.message());
}

/// `end` is why the run ended early, where it did. What was recorded is kept as
/// the state is.
Status Trainer::finish(Status end) {
  if (skipped_ > 1)
    reports_.tell({std::to_string(skipped_) +
                   " steps had a gradient that was not "
                   "finite: their updates were skipped"});
  Status records = reports_.writeRecords(rank_->executor());
  if (isUnread_ && !unsaved_)
    run_.record.setUnread();
  if (end && unsaved_)
    end = Status::failed(end.message() + "; " + unsaved_.message());
  if (end) {
    // What was agreed on before does not say that the state was not saved.
    ranks_->forgetFailure();
    return ranks_->agree(end);
  }
  if (Status s = ranks_->agree(unsaved_))
    return s;
  if (Status s = ranks_->agree(records))
    return s;
  if (Status s = ranks_->announce(reports_.checkMetrics()))
    return s;
  Status summary = ranks_->announce(reports_.finish());
  if (summary && reports_.isUnread())
    run_.record.setUnread();
  return summary;
}

} // namespace

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
