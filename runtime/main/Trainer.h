//===- Trainer.h - One rank of a run ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_TRAINER_H
#define FSDP_RT_MAIN_TRAINER_H

#include "control/Consensus.h"
#include "data/BatchLoader.h"
#include "data/Checkpoint.h"
#include "main/AllowedCounts.h"
#include "main/Evaluation.h"
#include "main/Rank.h"
#include "main/Reports.h"
#include "main/RunStart.h"
#include "main/Training.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// A rank from its initial state to its last step: Training.cpp has what comes
/// before the first step, TrainingLoop.cpp the steps, TrainingSaves.cpp what is
/// saved of them.
class Trainer {
public:
  Trainer(World &host, const TrainingRun &run)
      : host_(host), run_(run), manifest_(run.manifest),
        program_(manifest_.train()), options_(start_.options) {}

  Status run();

private:
  Status prepare();
  Status loop();
  bool isFirst() const { return host_.rank() == 0; }
  Status findStart();
  Result<std::unique_ptr<data::BatchSource>>
  openData(std::vector<std::string> &notes);
  Status compareOrigin(const std::string &kindOfData);
  int64_t numBatches() const;
  int64_t unitsAfter(int64_t step) const;
  Status openSaves();
  Status createRank();
  void setScalar(const std::string &name, double value);
  std::optional<double> learningRateOf(int64_t step) const;
  void setRates(int64_t step);
  /// What there is to tell beside warnings is added to `remarks`.
  Status loadState(std::vector<std::string> &remarks);
  Status startLoader(std::unique_ptr<data::BatchSource> source);
  bool changesBuffers() const;
  using Clock = std::chrono::steady_clock;
  /// What one run takes: of a step, counted from 1.
  struct MicroBatch {
    int64_t step = 0, number = 1;
  };
  const data::Program &programOf(const MicroBatch &at) const;
  size_t indexOf(const data::Program &program) const;
  Status settleRunAhead();
  bool holdsAfter(const MicroBatch &at) const;
  Status issue(const MicroBatch &at);
  Status finishRuns(size_t left);
  Status finishOldest();
  uint32_t foundNonfinite() const;
  Status passMicroBatch(const MicroBatch &at, Status &end);
  Status passStep(int64_t step, bool holds, Status &end);
  Status evaluateAfter(int64_t step, bool isLast);
  Status evaluateOnly();
  void report(int64_t step, double seconds);
  std::string noteBackoff(int64_t step);
  /// What any rank found out in a step, as bits.
  enum : uint32_t {
    Interrupted = 1, // a signal came
    OutputGone = 2,  // nobody reads standard output
    BatchFailed = 4, // the next step has no inputs
    NotFinite = 8,   // loss or gradient norm
    NormNotFinite = 16,
    ScaleCollapsed = 32, // below what the program was compiled for
    FlagsOfRun = 63      // those of AllowedCounts follow
  };
  bool isSaveDue(int64_t step) const {
    return saves_ && options_.saveEvery && step % *options_.saveEvery == 0;
  }
  void noteUnequalCounts(int64_t step, uint32_t any);
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
  const data::Manifest &manifest_;
  const data::Program &program_; // the one that trains
  RunStart start_;
  const Options &options_; // in force
  std::optional<Reports> reports_;
  std::unique_ptr<hal::HostChannel> world_;
  std::optional<Consensus> ranks_;
  int64_t savedStep_ = 0;
  // Where in the data the run begins, and what a batch of each rank takes.
  int64_t unitsBefore_ = 0, unitsOfBatch_ = 0;
  std::string unit_;
  std::optional<data::DataIdentity> data_; // of rank 0
  std::optional<data::CheckpointWriter> saves_;
  Status unsaved_;          // why the last save failed
  bool isEndSaved_ = false; // the state with which the run ends
  bool mayPrune_ = false;   // a save since old checkpoints were removed
  bool isUnread_ = false;   // why the run ends
  int64_t skipped_ = 0;     // steps without an update
  /// Learning rates by name, which --lr-schedule makes parts of; empty without.
  std::map<std::string, double> baseRates_;
  std::unique_ptr<Rank> rank_;
  std::unique_ptr<data::BatchLoader> loader_;
  AllowedCounts allowedCounts_;
  std::unique_ptr<Evaluation> evaluation_; // null: none is asked for
  bool runsAhead_ = false;
  std::deque<MicroBatch> issued_; // and not finished
  LossSum sum_;                   // of the step whose runs are finished
  /// When the step before ended, later by what was evaluated and saved since.
  Clock::time_point stepBegin_;
  double loss_ = 0, gradNorm_ = 0; // of the last step
  double lossScale_ = 0;           // of it, where it changes
  int64_t skippedInRow_ = 0;
  std::string collapse_;  // why no scale of the loss is left to try
  std::string nonfinite_; // what of them is not finite
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_TRAINER_H
