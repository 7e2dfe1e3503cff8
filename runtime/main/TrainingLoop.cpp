//===- TrainingLoop.cpp - The steps, and what is saved of them ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Names.h"
#include "main/Interrupt.h"
#include "main/Trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace fsdp::rt {

using namespace data;

Status Trainer::loop() {
  // The inputs of a step are read before any rank begins it: where they cannot
  // be, the state is still that of the step before, on all ranks.
  const Program &first = manifest_.programOf(1, options_.microBatches());
  if (Status s = ranks_->agree(loader_->next(first))) {
    run_.record.setStep(start_.firstStep);
    return s;
  }
  const int64_t last = *options_.steps;
  Status end = Status::ok();
  uint32_t foundBefore = 0; // in the step before, by any rank
  for (int64_t step = start_.firstStep; step <= last && !end; ++step) {
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
    Status batch = step < last ? loader_->next(first) : Status::ok();
    if (batch)
      found |= BatchFailed;
    if (reports_->isUnread())
      found |= OutputGone;
    // A signal may have come to one process only, and to the ranks of one
    // process at different steps: they must all stop at the same one.
    if (InterruptGuard::wasRequested())
      found |= Interrupted;
    Result<uint32_t> any = ranks_->any(found | allowedCounts_.takeFlags());
    if (!any.isOk())
      return any.status();
    noteUnequalCounts(step, *any);
    const uint32_t all = *any & FlagsOfRun;
    foundBefore = all;
    end = endOf(step, all, batch);
    if (Status s = saveAfter(step, all, step == last || end))
      return s;
  }
  return finish(end);
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
  const int64_t microBatches = options_.microBatches();
  LossSum sum;
  setRates(step);
  setScalar(scalars::randomStep.name, double(step - 1));
  for (int64_t done = 1; done <= microBatches; ++done) {
    const Program &program = manifest_.programOf(done, microBatches);
    rank_->setCheckNote(loader_->unusualValue());
    allowedCounts_.add(loader_->allowed());
    setScalar(scalars::accumulated.name, double(done - 1));
    setScalar(scalars::accumulatedCount.name, sum.count);
    if (Status s = rank_->run(&program - manifest_.programs.data()))
      return s;
    if (Status s = rank_->addLoss(program, sum))
      return s;
    if (done == microBatches)
      break;
    // The inputs of the last micro-batch have the places of its own program.
    Status batch = loader_->next(manifest_.programOf(done + 1, microBatches));
    Result<uint32_t> any = ranks_->any(batch ? BatchFailed : 0);
    if (!any.isOk())
      return any.status();
    if (*any & BatchFailed) {
      unread = ranks_->agree(batch);
      return Status::ok();
    }
  }
  std::chrono::duration<double> seconds = Clock::now() - begin;
  loss_ = sum.mean();
  const Program &last = manifest_.programOf(microBatches, microBatches);
  if (Status s = rank_->load(*last.findOutput("grad_norm"), gradNorm_))
    return s;
  nonfinite_ = nonfiniteText();
  report(step, seconds.count());
  return Status::ok();
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
  reports_->step(step, loss_, gradNorm_, learningRateOf(step), seconds,
                 rank_->executor().counters().lastStep);
  bool isSkipped = manifest_.skipsNonfinite && !std::isfinite(gradNorm_);
  skipped_ += isSkipped;
  if (!nonfinite_.empty() && !options_.stopOnNan)
    reports_->warnOnce("step " + std::to_string(step) + ": " + nonfinite_ +
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
      reports_->warnOnce(unsaved_.message());
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
  if (!saves_ || step == start_.firstStep || savedStep_ == step - 1)
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
  isEndSaved_ = isEnd;
  if (savedStep_ == step)
    return Status::ok();
  saves_->setTaken(unitsAfter(step));
  unsaved_ = saves_->save(step, rank_->memory());
  if (!unsaved_) {
    savedStep_ = step;
    mayPrune_ = true;
    return Status::ok();
  }
  if (!isEnd)
    reports_->warnOnce(unsaved_.message() + "; it is tried again");
  ranks_->forgetFailure();
  return ranks_->world().barrier();
}

void Trainer::removeOldOnes() {
  if (!mayPrune_ || !saves_ || !isFirst())
    return;
  mayPrune_ = false;
  if (Status s = saves_->removeOldOnes())
    reports_->warnOnce("--keep: " + s.message());
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
