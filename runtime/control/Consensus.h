//===- Consensus.h - One outcome for all ranks -------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CONTROL_CONSENSUS_H
#define FSDP_RT_CONTROL_CONSENSUS_H

#include "control/Backend.h"
#include "core/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// What a rank was given, as its user knows it: "--steps" and "3".
struct Setting {
  std::string name, value;
};

/// Lets the ranks of a program fail alike. Every call is collective: nobody
/// returns before everybody has called, so it is a barrier as well.
class Consensus {
public:
  /// `world` is a channel of all ranks and must outlive this.
  explicit Consensus(hal::HostChannel &world) : world_(world) {}

  /// Success if `mine` is success on all ranks, else, on all of them, the
  /// failure of the lowest rank that has one; with that rank's number, unless
  /// all ranks have one.
  Status agree(const Status &mine);

  /// The outcome of what rank 0 alone has done for all.
  Status announce(const Status &ofRankZero);

  /// Success where all ranks were given the same settings, in the same order,
  /// else a failure that names the lowest rank with others than rank 0, the
  /// first of them and both values.
  Status agreeOn(const std::vector<Setting> &mine);

  /// Of each bit below maxFlags, whether it is set on any rank.
  static constexpr int maxFlags = 17;
  Result<uint32_t> any(uint32_t mine);

  /// Rank 0's text, on all ranks.
  Result<std::string> share(const std::string &mine);

  /// On rank 0 the texts of all ranks, by rank; on the others nothing.
  Result<std::vector<std::string>> gather(const std::string &mine);

  /// The first failure that all ranks agreed on; none where they could not
  /// even talk to each other.
  const std::optional<Status> &failure() const { return failure_; }
  /// For a failure that the ranks can go on after.
  void forgetFailure() { failure_.reset(); }

  hal::HostChannel &world() const { return world_; }

private:
  Result<std::string> readFrom(int rank, const std::string &mine,
                               bool isWanted);
  Status broadcastFailure(const Status &mine, int rank, bool isNamed);

  hal::HostChannel &world_;
  std::optional<Status> failure_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CONTROL_CONSENSUS_H
