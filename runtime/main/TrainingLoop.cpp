//===- TrainingLoop.cpp - The steps, and what lies between them -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Metrics.h"
#include "data/Names.h"
#include "data/Numbers.h"
#include "main/Interrupt.h"
#include "main/Trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace fsdp::rt {

using namespace data;

/// Runs follow each other on the device: the next one is issued before the last
/// one's numbers are read, but where these decide what comes next (holdsAfter).
Status Trainer::loop() {
  if (Status s = settleRunAhead())
    return s;
  // The inputs of a step are read before any rank begins it: where they cannot
  // be, the state is still that of the step before, on all ranks.
  const int64_t microBatches = options_.microBatches();
  if (Status s = ranks_->agree(loader_->next(programOf({start_.firstStep})))) {
    run_.record.setStep(start_.firstStep);
    return s;
  }
  Status end = Status::ok();
  stepBegin_ = Clock::now();
  for (MicroBatch at{start_.firstStep}; at.step <= *options_.steps && !end;) {
    if (Status s = issue(at))
      return s;
    bool holds = holdsAfter(at);
    if (Status s = finishRuns(holds ? 0 : 1))
      return s;
    bool isLast = at.number == microBatches;
    if (Status s =
            isLast ? passStep(at.step, holds, end) : passMicroBatch(at, end))
      return s;
    at = isLast ? MicroBatch{at.step + 1} : MicroBatch{at.step, at.number + 1};
  }
  return finish(end);
}

const Program &Trainer::programOf(const MicroBatch &at) const {
  return manifest_.programOf(at.number, options_.microBatches());
}

size_t Trainer::indexOf(const Program &program) const {
  return static_cast<size_t>(&program - manifest_.programs.data());
}

/// Ranks that do not run ahead, or record, do not read each other's flags when
/// others do: all or none. Collective.
Status Trainer::settleRunAhead() {
  const bool isRecorded = !options_.profile.empty() || !options_.trace.empty();
  bool isAble = true;
  for (int64_t number : {int64_t(1), options_.microBatches()})
    isAble &=
        rank_->maxPending(indexOf(programOf({start_.firstStep, number}))) > 1;
  if (options_.runAhead == RunAhead::On)
    if (Status s = ranks_->agree(
            isAble ? Status::ok()
                   : Status::failed(
                         "--run-ahead: expected auto or off where runs of the "
                         "device " +
                         rank_->executor().device().facts().name +
                         " are waited for one by one, got on")))
      return s;
  Result<uint32_t> any =
      ranks_->any(!isAble || isRecorded || options_.stopOnNan ||
                  options_.runAhead == RunAhead::Off);
  if (!any.isOk())
    return any.status();
  runsAhead_ = *any == 0;
  return Status::ok();
}

/// Whether the run of `at` is read before the next one is issued: its numbers
/// decide about that, or the state after it is read or saved.
bool Trainer::holdsAfter(const MicroBatch &at) const {
  if (!runsAhead_)
    return true;
  if (at.number < options_.microBatches())
    // The next one is told what this one counted.
    return programOf({at.step, at.number + 1})
               .findScalar(scalars::accumulatedCount.name) != nullptr;
  bool isLast = at.step == *options_.steps;
  return isLast || isSaveDue(at.step) || mayPrune_ ||
         (evaluation_ && evaluation_->isDue(at.step, isLast));
}

Status Trainer::issue(const MicroBatch &at) {
  const Program &program = programOf(at);
  if (at.number == 1) {
    setRates(at.step);
    setScalar(scalars::randomStep.name, double(at.step - 1));
  }
  rank_->setCheckNote(loader_->unusualValue());
  allowedCounts_.add(loader_->allowed());
  setScalar(scalars::accumulated.name, double(at.number - 1));
  setScalar(scalars::accumulatedCount.name, at.number == 1 ? 0 : sum_.count);
  if (Status s = rank_->issue(indexOf(program))) {
    // Runs before it are complete, or why it failed.
    if (Status before = finishRuns(0))
      return before;
    run_.record.setStep(at.step);
    return s;
  }
  issued_.push_back(at);
  return Status::ok();
}

/// Until so many are `left`, the last ones.
Status Trainer::finishRuns(size_t left) {
  while (issued_.size() > left)
    if (Status s = finishOldest())
      return s;
  return Status::ok();
}

Status Trainer::finishOldest() {
  const MicroBatch at = issued_.front();
  issued_.pop_front();
  const Program &program = programOf(at);
  if (at.number == 1)
    sum_ = LossSum();
  Status status = rank_->finish();
  if (status.isOk())
    status = rank_->addLoss(program, sum_);
  const bool isLast = at.number == options_.microBatches();
  if (status.isOk() && isLast)
    status = rank_->load(*program.findOutput("grad_norm"), gradNorm_);
  if (status.isOk() && isLast && manifest_.lossScale)
    status = rank_->load(*program.findOutput("loss_scale"), lossScale_);
  if (status) {
    // Of another rank, the World has told it.
    run_.record.setStep(at.step, status.message() != host_.failure().message());
    return status;
  }
  if (!isLast)
    return Status::ok();
  loss_ = sum_.mean();
  nonfinite_ = nonfiniteText();
  const Clock::time_point end = Clock::now();
  std::chrono::duration<double> seconds = end - std::exchange(stepBegin_, end);
  report(at.step, seconds.count());
  return Status::ok();
}

/// What this rank found in the step that was finished last; 0: in none.
uint32_t Trainer::foundNonfinite() const {
  uint32_t found = 0;
  // --stop-on-nan leaves norms to a scale that tries how large they may be.
  bool isNormAllowed = manifest_.lossScale && options_.stopOnNan;
  if (!std::isfinite(loss_) || !(std::isfinite(gradNorm_) || isNormAllowed))
    found |= NotFinite;
  if (!std::isfinite(gradNorm_))
    found |= NormNotFinite;
  return found;
}

/// From a micro-batch of a step to the next one. Where that cannot be read on
/// any rank, the step does not take place, and `end` is why. Collective.
Status Trainer::passMicroBatch(const MicroBatch &at, Status &end) {
  // The inputs of the last micro-batch have the places of its own program.
  Status batch = loader_->next(programOf({at.step, at.number + 1}));
  Result<uint32_t> any = ranks_->any(batch ? BatchFailed : 0);
  if (!any.isOk())
    return any.status();
  if (!(*any & BatchFailed))
    return Status::ok();
  if (Status s = finishRuns(0))
    return s;
  end = ranks_->agree(batch);
  run_.record.setStep(at.step);
  Result<uint32_t> before = ranks_->any(foundNonfinite());
  if (!before.isOk())
    return before.status();
  return saveBefore(at.step, *before);
}

/// From a step to the next one. Where the run `holds`, all of the step is known
/// and what ranks found in it goes with the flags that they exchange; else it
/// still computes, and nothing depends on that. Collective.
Status Trainer::passStep(int64_t step, bool holds, Status &end) {
  const int64_t last = *options_.steps;
  if (holds) {
    const Clock::time_point begin = Clock::now();
    if (Status s = evaluateAfter(step, step == last)) {
      run_.record.setStep(step);
      return s;
    }
    stepBegin_ += Clock::now() - begin;
  }
  uint32_t found = holds ? foundNonfinite() : 0;
  // Evaluations and the next inputs take the outputs' place.
  Status batch =
      step < last ? loader_->next(programOf({step + 1})) : Status::ok();
  if (batch)
    found |= BatchFailed;
  if (reports_->isUnread())
    found |= OutputGone;
  if (!collapse_.empty())
    found |= ScaleCollapsed;
  // A signal may have come to one process only, and to the ranks of one
  // process at different steps: they must all stop at the same one.
  if (InterruptGuard::wasRequested())
    found |= Interrupted;
  Result<uint32_t> any = ranks_->any(found | allowedCounts_.takeFlags());
  if (!any.isOk())
    return any.status();
  noteUnequalCounts(step, *any);
  uint32_t all = *any & FlagsOfRun;
  if (!holds) {
    if (!(all & (BatchFailed | OutputGone | Interrupted | ScaleCollapsed)))
      return Status::ok();
    // The step is the last one: what was found in it decides what is saved.
    if (Status s = finishRuns(0))
      return s;
    Result<uint32_t> ofStep = ranks_->any(foundNonfinite());
    if (!ofStep.isOk())
      return ofStep.status();
    all |= *ofStep;
  }
  end = endOf(step, all, batch);
  const Clock::time_point begin = Clock::now();
  Status saved = saveAfter(step, all, step == last || end);
  stepBegin_ += Clock::now() - begin;
  return saved;
}

/// A mean over ranks and micro-batches of means over labels is not the mean
/// over the labels where ranks or micro-batches have more or fewer of them.
void Trainer::noteUnequalCounts(int64_t step, uint32_t any) {
  if (program_.findOutput("loss_count") || !AllowedCounts::differs(any))
    return;
  std::vector<std::string> texts;
  for (const Input &input : program_.inputs)
    for (int64_t value : input.allowed)
      texts.push_back(std::to_string(value) + " in " + input.name);
  reports_->warnOnce(
      "step " + std::to_string(step) +
      ": ranks or micro-batches have different numbers of " + listNames(texts) +
      ": the loss is the mean of their losses, whatever each of them counts "
      "(a step that is exported with --loss sum/count counts over all of "
      "them)");
}

/// Why `step` is the last one, before --steps. Collective.
Status Trainer::endOf(int64_t step, uint32_t found, const Status &batch) {
  const int64_t last = *options_.steps;
  if ((found & NotFinite) && options_.stopOnNan) {
    run_.record.setStep(step);
    return ranks_->announce(Status::failed(nonfinite_ + " (--stop-on-nan)"));
  }
  if (found & ScaleCollapsed) {
    run_.record.setStep(step);
    return ranks_->announce(Status::failed(collapse_));
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
  if (result->isInterrupted || !result->loss)
    return Status::ok();
  reports_->evaluation(step, *result->loss,
                       evaluation_->program().findOutput("loss")->dtype,
                       result->batches);
  if (result->countsNothing)
    reports_->warnOnce("--eval-data: expected a loss_count above 0, got none: "
                       "no label counts, and the loss is nan");
  return Status::ok();
}

/// Of the state that the run began with.
Status Trainer::evaluateOnly() {
  if (Status s = evaluateAfter(start_.firstStep - 1, /*isLast=*/true))
    return s;
  return finish(Status::ok());
}

void Trainer::report(int64_t step, double seconds) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss_;
  metrics.gradNorm = gradNorm_;
  if (manifest_.lossScale)
    metrics.lossScale = lossScale_;
  metrics.learningRate = learningRateOf(step);
  reports_->step(std::move(metrics), seconds,
                 rank_->executor().counters().lastStep);
  bool isSkipped = manifest_.skipsNonfinite && !std::isfinite(gradNorm_);
  skipped_ += isSkipped;
  skippedInRow_ = isSkipped ? skippedInRow_ + 1 : 0;
  std::string what = isSkipped ? ": its update was skipped" : "";
  if (isSkipped && manifest_.lossScale)
    what += noteBackoff(step);
  if (!nonfinite_.empty() && !options_.stopOnNan)
    reports_->warnOnce("step " + std::to_string(step) + ": " + nonfinite_ +
                       what);
}

/// What the scale of the loss becomes after a skipped step. One that falls
/// without end was not too large: every further step would be skipped.
std::string Trainer::noteBackoff(int64_t step) {
  // As the program computes it: in f64, rounded to f32.
  double next = double(float(lossScale_ * manifest_.lossScale->backoff));
  if (next < manifest_.lossScale->least && collapse_.empty())
    collapse_ = "step " + std::to_string(step) +
                ": expected a loss scale of at least " +
                formatNumber(manifest_.lossScale->least) +
                " (min of fsdp-compile --loss-scale), got " +
                formatNumber(next) + ": gradients of " +
                std::to_string(skippedInRow_) +
                " steps in a row were not finite, whatever the scale";
  return ", the loss scale falls from " + formatNumber(lossScale_) + " to " +
         formatNumber(next);
}

/// `end` is why the run ended early, where it did. What was recorded is kept as
/// the state is.
Status Trainer::finish(Status end) {
  if (skipped_ > 1)
    reports_->tell({std::to_string(skipped_) +
                    " steps had a gradient that was not "
                    "finite: their updates were skipped"});
  Status records =
      reports_->writeRecords(rank_->executor(), [this](int64_t step) {
        return learningRateOf(start_.firstStep + step);
      });
  if (isUnread_ && !unsaved_)
    run_.record.setUnread();
  if (end && unsaved_)
    end = Status::failed(end.message() + "; " + unsaved_.message());
  else if (end && isEndSaved_)
    end = Status::failed(end.message() + "; saved step " +
                         std::to_string(savedStep_) + " to " + options_.save);
  if (end) {
    // What was agreed on before does not say that the state was not saved.
    ranks_->forgetFailure();
    return ranks_->agree(end);
  }
  if (Status s = ranks_->agree(unsaved_))
    return s;
  if (Status s = ranks_->agree(records))
    return s;
  if (Status s = ranks_->announce(reports_->checkMetrics()))
    return s;
  Status summary = ranks_->announce(reports_->finish());
  if (summary && reports_->isUnread())
    run_.record.setUnread();
  return summary;
}

} // namespace fsdp::rt
