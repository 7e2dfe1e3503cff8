//===- TrainingSaves.cpp - What is saved of the steps ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Trainer.h"

#include <algorithm>
#include <utility>

namespace fsdp::rt {

using namespace data;

/// Forward changes buffers, whatever becomes of the step.
bool Trainer::changesBuffers() const {
  return std::any_of(manifest_.buffers.begin(), manifest_.buffers.end(),
                     [](const Buffer &buffer) { return buffer.perRank; });
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
  if (!saves_ || (!isSaveDue(step) && !isEnd))
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
  if (!std::exchange(mayPrune_, false) || !saves_ || !isFirst())
    return;
  if (Status s = saves_->removeOldOnes())
    reports_->warnOnce("--keep: " + s.message());
}

} // namespace fsdp::rt
