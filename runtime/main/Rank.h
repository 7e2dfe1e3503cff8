//===- Rank.h - One rank, its program and its state --------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_RANK_H
#define FSDP_RT_MAIN_RANK_H

#include "control/Consensus.h"
#include "data/Checkpoint.h"
#include "data/Manifest.h"
#include "data/Parameters.h"
#include "data/StateMemory.h"
#include "program/Executor.h"
#include "registry/Registry.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

struct RankOptions {
  DeviceChoice device;
  /// hal::DeviceOptions.
  int threads = 1;
  std::map<std::string, std::string> settings;
  bool profile = false;
  int64_t traceEvents = 0;
};

/// What several losses come to: those of ranks, micro-batches or batches.
struct LossSum {
  double losses = 0;
  /// Over how many they are sums; 1 for each that is a mean.
  double count = 0;

  double mean() const { return losses / count; }
};

/// What a training loop and a session do with a rank. Lives on the rank's own
/// thread. Whatever is said to be collective is called by all ranks.
class Rank {
public:
  /// Collective. All but `options` must outlive the rank.
  static Result<std::unique_ptr<Rank>> create(World &host, Consensus &ranks,
                                              const fsdp_rt_artifact &artifact,
                                              const data::Manifest &manifest,
                                              const RankOptions &options);

  /// Each gives this rank its initial state. Collective in that a failure of
  /// one rank fails all, with the same status. The rank's own number of threads
  /// counts, not that of `source`.
  Status loadParameters(data::ParameterSource source, data::LoadNotes &notes);
  /// Where the checkpoint leaves something out, that comes from `base`, or is
  /// this rank's already where it is null; values with another digest than the
  /// checkpoint's are refused.
  Status resume(const data::CheckpointInfo &checkpoint,
                const data::ParameterSource *base, data::LoadNotes &notes);

  /// Sets a scalar of the manifest's program `program`, where it has it, for
  /// all further runs of it; `value` must be representable.
  void setScalar(size_t program, const std::string &name, double value);

  /// Runs the manifest's program `program` on the inputs in the arena; only
  /// training steps are counted, profiled and traced. Collective.
  Status run(size_t program);
  /// The same in two halves, between which other runs may be issued: as many as
  /// maxPending() says may be under way.
  Status issue(size_t program);
  Status finish() { return executor_->finish(); }
  /// Returns when no run is under way any more, however they went.
  void endRuns() {
    while (executor_->pending() > 0)
      (void)executor_->finish();
  }
  int maxPending(size_t program) const {
    return programs_[program]->maxPending();
  }
  /// Reads a number that the run which was finished last returned: its loss,
  /// what that counts, or a gradient norm.
  Status load(const data::Output &output, double &number) const;
  /// Adds the loss that `program`, which was finished last, returned.
  Status addLoss(const data::Program &program, LossSum &sum) const;

  /// Copies a whole parameter or buffer (of rank 0) between the ranks' memories
  /// and `whole`, row-major. Collective; where `whole` is null, a rank takes
  /// part in reading without keeping the result.
  Status readTensor(const std::string &name, char *whole);
  /// `whole` must hold the same bytes on every rank of this process's.
  Status writeTensor(const std::string &name, const char *whole);

  /// Copies `bytes` at `from` of rank `root`'s memory to `dst` of every rank
  /// that gives one. Collective.
  Status pass(int root, hal::Location from, char *dst, int64_t bytes);

  int number() const { return host_.rank(); }
  /// The device's memory, and both.
  hal::Memory &device() { return executor_->device().memory(FSDP_RT_DEVICE); }
  data::StateMemory memory() {
    return {&device(), &executor_->device().memory(FSDP_RT_HOST)};
  }
  /// What the message of a failing check of the next step adds.
  void setCheckNote(std::string note) {
    executor_->setCheckNote(std::move(note));
  }
  Consensus &ranks() { return ranks_; }
  const data::Manifest &manifest() const { return manifest_; }
  const Executor &executor() const { return *executor_; }

private:
  Rank(World &host, Consensus &ranks, const data::Manifest &manifest,
       std::unique_ptr<Executor> executor, int threads);
  World &host_;
  Consensus &ranks_;
  const data::Manifest &manifest_;
  std::unique_ptr<Executor> executor_;
  /// By program; they end before the device.
  std::vector<std::unique_ptr<hal::Executable>> programs_;
  int threads_;
  std::vector<std::vector<double>> scalars_; // by program
};

/// A parameter, under any of its names, or a buffer.
struct NamedTensor {
  const data::FlatParam *flat = nullptr; // null: a buffer
  size_t member = 0;
  const data::Buffer *buffer = nullptr;

  Dtype dtype() const { return flat ? flat->dtype : buffer->dtype; }
  const data::Shape &shape() const {
    return flat ? flat->members[member].shape : buffer->shape;
  }
  int64_t bytes() const;
};

/// Refuses a name that the program does not have.
Result<NamedTensor> findTensor(const data::Manifest &manifest,
                               const std::string &name);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_RANK_H
