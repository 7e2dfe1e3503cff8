//===- Session.h - A program under its caller's control ----------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What fsdp-rt.h offers, in C++; that page has the contracts.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_SESSION_H
#define FSDP_RT_MAIN_SESSION_H

#include "data/Manifest.h"
#include "data/RateSchedule.h"
#include "fsdp-rt/fsdp-rt.h"
#include "main/RankTeam.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fsdp::rt {

class Session {
public:
  static Result<std::unique_ptr<Session>>
  create(const fsdp_rt_artifact *program, const fsdp_session_options &options);

  ~Session();

  const data::Manifest &manifest() const { return manifest_; }
  int firstRank() const { return firstRank_; }
  int rankCount() const { return rankCount_; }

  /// A setting of the device (hal/DeviceSettings.h), or "lr-schedule", before
  /// the ranks start.
  Status setOption(const std::string &name, const std::string &value);
  /// The first of these starts the ranks.
  Status initializeFromSeed(uint64_t seed);
  Status initializeFromFile(const std::string &path, bool cast);
  Result<int64_t> resume(const std::string &directory);
  /// Here and below, `program` names one of the manifest's programs; empty
  /// stands for the one that trains.
  Status setInput(const std::string &program, int rank, const std::string &name,
                  const void *data, size_t bytes);
  Status setScalar(const std::string &name, double value);
  Status run(const std::string &program);
  Status step(double lr);
  Result<const data::Output *> findOutput(const std::string &program,
                                          const std::string &name) const;
  Status readOutput(const std::string &program, int rank,
                    const std::string &name, void *data, size_t bytes);
  Status results(double *loss, double *gradNorm) const;
  Status readParameter(const std::string &name, void *data, size_t bytes);
  Status writeParameter(const std::string &name, const void *data,
                        size_t bytes);
  Status save(const std::string &directory);

private:
  /// What the ranks are started from.
  struct Pending;

  Session();
  Status start();
  Status startRanks();
  /// That all ranks begin from the same; `mine` is what was wrong with that
  /// of this process.
  Status agreeOnStart(const Status &mine, const std::string &start);
  Status checkReady(size_t program) const;
  Result<size_t> findProgram(const std::string &name) const;
  Status checkRank(int rank) const;
  Result<NamedTensor> findSized(const std::string &name, size_t bytes) const;
  RankTeam::Call copyInputs(size_t program) const;
  void beginFrom(int64_t step);
  Status takeScalars(const data::CheckpointOrigin &origin);
  Status setSchedule(const std::string &text);
  /// Of the manifest's program of this number.
  struct RankScalar {
    size_t program;
    std::string name;
    double value;
  };
  Status setOnRanks(const RankScalar &scalar);
  Status putScalar(const std::string &name, double value);
  Status checkAccumulated(const std::string &what) const;
  Status checkGathered(const data::Program &program) const;

  /// A rank's input, kept outside the arena: a step may write over the inputs.
  struct StoredInput {
    std::vector<char> bytes;
    bool isSet = false;
  };

  data::Manifest manifest_;
  int firstRank_ = 0, rankCount_ = 0;
  /// By program and rank of this process.
  std::vector<std::vector<std::vector<StoredInput>>> inputs_;
  std::vector<std::vector<bool>> hasScalar_; // by program
  /// Those that the caller set, and what of them and the defaults is saved.
  std::set<std::string> givenScalars_;
  std::map<std::string, double> scalars_;
  /// Schedules of learning rates: the caller's (option lr-schedule), and the
  /// checkpoint's.
  std::optional<data::RateSchedule> givenSchedule_, rateSchedule_;
  /// The one in force, whose ratio multiplies each rate, or null: the caller's,
  /// else the checkpoint's as long as the caller sets no learning rate.
  const data::RateSchedule *schedule() const {
    if (givenSchedule_)
      return &*givenSchedule_;
    bool isRateGiven = givenScalars_.count(data::scalars::learningRate.name);
    return rateSchedule_ && !isRateGiven ? &*rateSchedule_ : nullptr;
  }
  std::optional<size_t> lastRun_; // whose outputs are in the arena
  bool hasState_ = false;
  int64_t steps_ = 0; // since the very first one
  /// Micro-batches since the last step, their losses and counts, added up, and
  /// what the next step divides by where it is not their number.
  int64_t accumulated_ = 0;
  LossSum accumulatedLoss_;
  std::optional<double> weight_;
  bool hasResults_ = false;
  double loss_ = 0, gradNorm_ = 0;
  std::vector<std::string> checkpoints_; // written or resumed
  /// By directory, for each rank of this process: they keep other runs out.
  std::map<std::string, std::vector<std::optional<data::CheckpointWriter>>>
      writers_;
  std::unique_ptr<Pending> pending_; // null once ranks were started
  Status started_;                   // how that ended
  std::unique_ptr<RankTeam> team_;   // last: ends before what it uses
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_SESSION_H
