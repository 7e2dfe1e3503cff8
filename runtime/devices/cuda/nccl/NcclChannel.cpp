//===- NcclChannel.cpp - Communicators of NCCL ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/nccl/NcclChannel.h"

#include "core/Clock.h"
#include "core/Group.h"
#include "core/NarrowFloat.h"
#include "core/WaitLimit.h"
#include "hal/Transfers.h"

#include <chrono>
#include <thread>
#include <utility>

namespace fsdp::rt {

namespace {

/// For so long the host asks again and again; then it leaves its core to others
/// in between.
constexpr int64_t spinNanoseconds = 200'000;
constexpr std::chrono::microseconds pause(50);

/// What the first rank of a group tells the others.
struct Invitation {
  nccl::UniqueId id;
  Reduction reduction;
};

} // namespace

Result<std::unique_ptr<NcclChannel>>
NcclChannel::open(const NcclApi &api, World &world, hal::HostChannel &host,
                  const std::vector<int> &ranks, int32_t queue,
                  Reduction reduction, int maxCtas) {
  std::unique_ptr<NcclChannel> made(
      new NcclChannel(api, world, ranks, queue, reduction));
  if (Status s = made->connect(host, maxCtas))
    return s.withContext(made->describe());
  return made;
}

Status NcclChannel::connect(hal::HostChannel &host, int maxCtas) {
  rank_ = host.rank();
  Invitation invitation = {};
  invitation.reduction = reduction_;
  if (rank_ == 0)
    if (Status s =
            api_.check(api_.getUniqueId(&invitation.id), "ncclGetUniqueId"))
      return s;
  if (Status s =
          host.broadcast(&invitation, &invitation, sizeof(invitation), 0))
    return s;
  if (invitation.reduction != reduction_)
    return Status::failed(std::string("expected --reduction ") +
                          nameOf(invitation.reduction) + ", as on rank " +
                          std::to_string(ranks_[0]) + ", got " +
                          nameOf(reduction_));
  nccl::Config config;
  config.maxCtas = maxCtas;
  if (Status s = api_.check(
          api_.commInit(&comm_, size(), invitation.id, rank_, &config),
          "ncclCommInitRankConfig", comm_))
    return s;
  return settle();
}

hal::Numerics NcclChannel::numerics() const {
  if (reduction_ == Reduction::Exact)
    return {};
  return {hal::Numerics::Order::Unordered, hal::Numerics::Rounding::EachHop};
}

std::string NcclChannel::describe() const {
  std::string text = "the communicator of " + describeRanks(ranks_);
  const char *name = queueName(queue_);
  return text + (name ? std::string(" for queue ") + name : "");
}

Result<int> NcclChannel::meanOf(int64_t divisor) {
  auto [found, isNew] = means_.try_emplace(divisor, 0);
  if (!isNew)
    return found->second;
  Float16 factor;
  fromFloat(1.0f / static_cast<float>(divisor), factor);
  if (Status s =
          api_.check(api_.createMean(&found->second, &factor, nccl::float16,
                                     nccl::scalarOfHost, comm_),
                     "ncclRedOpCreatePreMulSum", comm_)) {
    means_.erase(found);
    return s;
  }
  return found->second;
}

Status NcclChannel::poll() const {
  if (!comm_)
    return Status::ok();
  nccl::Error error = nccl::success;
  if (Status s = api_.check(api_.commGetAsyncError(comm_, &error),
                            "ncclCommGetAsyncError", comm_))
    return s.withContext(describe());
  return api_.check(error, "ncclCommGetAsyncError", comm_)
      .withContext(describe());
}

Status NcclChannel::settle() const { return settle(world_.waitLimit()); }

Status NcclChannel::settle(int64_t nanoseconds) const {
  WaitLimit limit(nanoseconds);
  for (int64_t begin = nowNanoseconds();;) {
    nccl::Error error = nccl::success;
    if (Status s = api_.check(api_.commGetAsyncError(comm_, &error),
                              "ncclCommGetAsyncError", comm_))
      return s;
    if (error != nccl::inProgress)
      return api_.check(error, "ncclCommGetAsyncError", comm_);
    // Who has failed does not come.
    if (Status s = world_.failure())
      return s;
    if (limit.isExceeded())
      return limit.failure("NCCL to end a call, in which it may wait for other "
                           "ranks,",
                           "a call in progress");
    if (nowNanoseconds() - begin > spinNanoseconds)
      std::this_thread::sleep_for(pause);
  }
}

nccl::Comm NcclChannel::release() { return std::exchange(comm_, nullptr); }

bool NcclChannel::isInProgress() const {
  nccl::Error error = nccl::success;
  return comm_ && api_.commGetAsyncError(comm_, &error) == nccl::success &&
         error == nccl::inProgress;
}

bool NcclChannel::finalize() const {
  return world_.failure().isOk() && poll().isOk() &&
         api_.check(api_.commFinalize(comm_), "").isOk() &&
         settle(endLimit).isOk();
}

NcclChannel::~NcclChannel() {
  // One that could not connect, of which no graph has work.
  if (comm_)
    (void)api_.commAbort(comm_);
}

} // namespace fsdp::rt
