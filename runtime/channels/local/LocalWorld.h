//===- LocalWorld.h - What rank threads share -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_LOCAL_LOCALWORLD_H
#define FSDP_RT_CHANNELS_LOCAL_LOCALWORLD_H

#include "LocalBackend.h"
#include "LocalGroup.h"
#include "SharedLink.h"
#include "control/Backend.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// One run of a program: its groups and its first failure. Thread-safe.
class LocalProgram {
public:
  LocalProgram(const LocalBackendOptions &options, bool spin)
      : options_(options), spin_(spin), hasLeft_(options.ranks, false),
        links_(std::make_unique<SharedLink[]>(options.ranks)),
        hostLinks_(std::make_unique<SharedLink[]>(2 * options.ranks)) {}

  const LocalBackendOptions &options() const { return options_; }
  int size() const { return options_.ranks; }

  /// The `nth` group over these ranks; the first to ask creates it.
  std::shared_ptr<LocalGroup> group(const std::vector<int> &ranks, int nth);
  void abort(int rank, const Status &why);
  /// The rank's body has ended: nobody may wait for it any more.
  void leave(int rank);
  /// The first failure, or ok.
  Status failure() const;
  /// The rank's own.
  SharedLink &link(int rank) { return links_[rank]; }
  /// To its host and back: one for each direction.
  SharedLink &hostLink(int rank, bool isBack) {
    return hostLinks_[2 * rank + isBack];
  }

private:
  LocalBackendOptions options_;
  bool spin_;
  mutable std::mutex mutex_;
  Status failure_;
  std::vector<bool> hasLeft_;
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<LocalGroup>>
      groups_;
  std::unique_ptr<SharedLink[]> links_, hostLinks_;
};

class LocalWorld final : public World {
public:
  LocalWorld(LocalProgram &program, int rank)
      : program_(program), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return program_.size(); }
  int localRank() const override { return rank_; }
  int localSize() const override { return program_.size(); }
  Result<std::unique_ptr<hal::HostChannel>>
  openChannel(const std::vector<int> &ranks, ThreadPool *pool) override;
  bool hasLink() const override { return program_.options().hasLink(); }
  void crossHostLink(int32_t kind, int64_t bytes, int64_t begin) override;
  int64_t waitLimit() const override { return program_.options().waitLimit; }
  void abort(const Status &why) override { program_.abort(rank_, why); }
  Status failure() override { return program_.failure(); }

private:
  LocalProgram &program_;
  int rank_;
  /// How many channels this rank has opened over the same ranks.
  std::map<std::vector<int>, int> created_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_LOCAL_LOCALWORLD_H
