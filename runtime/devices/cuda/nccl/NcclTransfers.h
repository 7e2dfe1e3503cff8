//===- NcclTransfers.h - Transfers among devices ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCL_NCCLTRANSFERS_H
#define FSDP_RT_DEVICES_CUDA_NCCL_NCCLTRANSFERS_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/driver/CudaWork.h"
#include "devices/cuda/nccl/NcclChannel.h"
#include "devices/cuda/nccl/NcclEnds.h"
#include "devices/cuda/nccl/RankCards.h"
#include "fsdp-rt/reductions.h"
#include "hal/Layout.h"
#include "hal/Recording.h"
#include "hal/World.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// What a rank asks NCCL for. Of copies, elements are bytes.
struct NcclCall {
  enum class Kind { AllGather, ReduceScatter, AllReduce, Send, Receive };
  Kind kind;
  cu::Pointer src, dst;
  size_t count;
  int type;
  int peer;
  /// Of sums: nccl::sum, or NcclChannel::meanOf().
  int operation = nccl::sum;
};

/// Calls of one communicator that are issued together, as work of a stream.
class NcclExchange final : public CudaWork {
public:
  NcclExchange(const NcclChannel &channel, const CudaContext &context,
               cu::Event order)
      : channel_(channel), context_(context), order_(order) {}

  void add(const NcclCall &call) { calls_.push_back(call); }
  bool isEmpty() const { return calls_.empty(); }
  int32_t queue() const { return channel_.queue(); }

  /// Communicators of one device have to be used in one order on all ranks:
  /// that of the program. An exchange on another queue than the one before
  /// waits for it.
  void waitForLast() { waits_ = true; }
  void letNextWait() { records_ = true; }

  Status enqueue(cu::Stream stream) const override;
  /// The same calls on memory of their own: collectives of at most
  /// mostRehearsedBytes together, sends and receives of a byte each. For what
  /// NCCL does for the first call of a kind and size: it connects with other
  /// ranks, for sends with a peer on all channels, for collectives by the
  /// algorithm that it chooses by size.
  Status rehearse(cu::Stream stream, cu::Pointer memory) const;
  /// The memory that this takes.
  int64_t rehearsalBytes() const;

private:
  /// All ranks' parts of all calls. NCCL's tables choose the same algorithm for
  /// larger messages; a plugin's may not.
  static constexpr int64_t mostRehearsedBytes = int64_t(64) << 20;

  Status issue(const std::vector<NcclCall> &calls, cu::Stream stream) const;
  NcclCall rehearsalOf(const NcclCall &call) const;
  int64_t rehearsalBytesOf(const NcclCall &call) const;
  nccl::Error issueCall(const NcclCall &call, cu::Stream stream) const;

  const NcclChannel &channel_;
  const CudaContext &context_;
  cu::Event order_;
  std::vector<NcclCall> calls_;
  bool waits_ = false, records_ = false;
};

/// The channels of a rank, and memory for what they exchange.
class NcclTransfers {
public:
  /// `world`, `context`, `cards` and `layout` must outlive it; `copies` clear
  /// memory.
  NcclTransfers(World &world, const CudaContext &context,
                const RankCards &cards, CudaCopies &copies,
                const hal::Layout &layout, const CudaSettings &settings)
      : world_(world), context_(context), cards_(cards), copies_(copies),
        layout_(layout), settings_(settings) {}
  /// Programs have ended before.
  ~NcclTransfers();

  /// As the settings say, or else the program.
  Reduction reduction() const {
    return settings_.reduction.value_or(
        layout_.sums.byLibrary ? Reduction::Nccl : Reduction::Exact);
  }

  /// Opens what a program needs and is not open yet: collective over its ranks.
  Status prepare(const hal::Recording &recording);
  /// Of a group of more than one rank; after prepare().
  NcclChannel &channel(int32_t group, int32_t queue) const;
  /// How sums over these world ranks are placed.
  SumPlacement placeSums(const std::vector<int> &ranks) const;
  /// The same on the nodes that the program was compiled for.
  SumPlacement planSums(const std::vector<int> &ranks) const;
  /// Of a reduce_scatter or an all_reduce.
  static SumPlan planSum(int32_t kind, const fsdp_rt_collective_desc &desc,
                         SumPlacement placement);
  /// Memory beside the arena for the starts of a queue, one at a time. An
  /// executable keeps it.
  std::shared_ptr<DeviceArena> scratch(int32_t queue) const {
    return scratch_.at(queue);
  }

  /// Next in the program's order, on the channel's queue.
  std::unique_ptr<NcclExchange> makeExchange(const NcclChannel &channel) const;
  /// Whether NCCL itself keeps the order of several communicators.
  bool ordersThemselves() const;

  Status poll() const;
  /// Begins to end all communicators: their work on the device ends soon, they
  /// themselves when this rank's graphs have been destroyed. False: that could
  /// not be begun.
  bool abort();
  /// For communicators that were aborted.
  NcclEnds::Outcome waitForEnds(int64_t nanoseconds) {
    return ends_.wait(nanoseconds);
  }
  /// Returns when NCCL's threads of no channel issue anything any more; false:
  /// one still does after `nanoseconds`.
  bool settle(int64_t nanoseconds) const;

  bool hasChannels() const { return !channels_.empty(); }
  /// CTAs of a communicator, the most that NCCL_MAX_CTAS allows on any rank; 0:
  /// some rank has NCCL's default, which it does not tell, or no more
  /// multiprocessors than that. The same on all ranks. After prepare().
  int maxCtas() const { return maxCtas_; }
  /// Of the device's memory, beside the arena.
  int64_t mappedBytes() const;
  /// For the user to read.
  const std::vector<std::string> &notes() const { return notes_; }

private:
  Status openLibrary();
  Status compareDrivers();
  Status compareCtas();
  Status open(int32_t group, int32_t queue);
  /// Of sums that are the runtime's.
  int64_t getSumMemory(const fsdp_rt_start_desc &start,
                       SumPlacement placement) const;
  Status checkReceived(int32_t queue, int64_t bytes) const;
  /// Tells where sums over `ranks` send more between nodes than a ring, or have
  /// other levels than where the program was compiled for.
  void noteNodes(const std::vector<int> &ranks);

  World &world_;
  const CudaContext &context_;
  const RankCards &cards_;
  CudaCopies &copies_;
  const hal::Layout &layout_;
  CudaSettings settings_;
  std::vector<std::string> notes_;
  std::set<std::vector<int>> noted_;
  const NcclApi *api_ = nullptr;
  int maxCtas_ = 0;
  /// How far the last exchange is.
  std::optional<CudaEvent> order_;
  std::map<std::vector<int>, std::unique_ptr<hal::HostChannel>> hosts_;
  std::map<std::pair<std::vector<int>, int32_t>, std::unique_ptr<NcclChannel>>
      channels_;
  NcclEnds ends_;
  std::map<int32_t, std::shared_ptr<DeviceArena>> scratch_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCL_NCCLTRANSFERS_H
