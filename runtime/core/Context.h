//===- Context.h - One rank of a running program ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `fsdp_rt_context *` points at: the rank's memory, threads,
// communicators and counters. Everything is reserved when the context is
// created; a step allocates nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_CONTEXT_H
#define FSDP_RT_CORE_CONTEXT_H

#include "core/Arena.h"
#include "core/Backend.h"
#include "core/Blas.h"
#include "core/Counters.h"
#include "core/Recorder.h"
#include "core/Status.h"
#include "core/ThreadPool.h"
#include "core/TransferQueues.h"
#include "fsdp-rt/abi.h"
#include "fsdp-rt/memory.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Completes the ABI's opaque type; Context is its only derived class.
struct fsdp_rt_context {};

namespace fsdp::rt {

struct ContextOptions {
  /// Bytes of the arena: the manifest's `arena.bytes`.
  int64_t arenaBytes = 0;
  /// Bytes of the arena of what is offloaded: the manifest's
  /// `arena.host_bytes`.
  int64_t hostBytes = 0;
  /// Bytes of kernel scratch per thread: the manifest's `arena.scratch_bytes`.
  int64_t scratchBytes = 0;
  /// Threads of this rank, the caller of step() included; at least 1.
  int threads = 1;
  /// For every group of the manifest, in its order: the world ranks of the
  /// instance that this rank belongs to, strictly increasing.
  std::vector<std::vector<int>> groups;
  /// The manifest's `events` and `queues` (fsdp_rt_queue, increasing). Of a
  /// program without, whose transfers are in the order of the computation: 0
  /// and none.
  int64_t events = 0;
  std::vector<int32_t> queues;
  /// They have threads if one rank says so: all ranks do alike.
  QueueThreads queueThreads = QueueThreads::Auto;
  /// Which BLAS library multiplies matrices.
  BlasKind blas = BlasKind::Auto;
  /// Bytes per thread for converting the panels of bf16 and f16 products.
  int64_t matmulWorkspaceBytes = defaultMatmulWorkspaceBytes;
  /// Keeps, per call site, calls, nanoseconds, bytes and flops: profile().
  bool profile = false;
  /// Records up to so many calls with their times: trace(). 0: none.
  int64_t traceEvents = 0;
};

/// One rank. Create, use and destroy it on the rank's own thread.
class Context final : public fsdp_rt_context {
public:
  /// Reserves and touches all memory, starts the threads, opens the BLAS
  /// library and joins the communicators. Collective over the ranks of every
  /// group. `world` must outlive the context.
  static Result<std::unique_ptr<Context>> create(World &world,
                                                 const ContextOptions &options);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  /// The context behind the ABI's pointer.
  static Context &from(fsdp_rt_context *ctx) {
    return *static_cast<Context *>(ctx);
  }

  /// Base of the arena: 2 MiB aligned, zero at creation, arenaBytes() long.
  /// Lives as long as the context.
  char *arena() { return arena_.data(); }
  const char *arena() const { return arena_.data(); }
  int64_t arenaBytes() const { return arena_.size(); }

  /// Bytes of the second arena, which of a program's calls only copies reach.
  int64_t hostBytes() const { return host_.size(); }

  /// Runs one step. The first call or transfer that fails becomes the returned
  /// status and is reported to World::abort; after a failure every further step
  /// fails with the same status. No transfer is under way when it returns. A
  /// step of several micro-batches calls it for each, and says of which it is
  /// the first and the last: counters().lastStep has the times of all of them.
  Status step(const fsdp_rt_program &program, bool isFirst = true,
              bool isLast = true);
  /// The same of a program that is no step: counters, profile and trace stay as
  /// they were.
  Status run(const fsdp_rt_program &program);

  /// What the message of a failing check says beside its own text.
  void setCheckNote(std::string note) { checkNote_ = std::move(note); }

  /// What data moves through: the device's memory, and the host's.
  hal::Memory &deviceMemory() { return deviceMemory_; }
  hal::Memory &hostMemory() { return hostMemory_; }

  World &world() { return world_; }
  /// The communicator of the manifest's group `index`, of a program without
  /// queues.
  Communicator &communicator(int index) { return *communicators_[index]; }
  ThreadPool &pool() { return pool_; }
  int threads() const { return pool_.threads(); }
  const Blas &blas() const { return *blas_; }

  /// Totals since creation; read them between steps.
  const Counters &counters() const { return counters_; }
  /// One row per name, in order of first call. Empty unless asked for.
  std::vector<ProfileRow> profile() const { return recorder_.profile(); }
  const Recorder &recorder() const { return recorder_; }

  /// The calls of abi.def. Each returns the code of its status; the first
  /// failure is kept for step(). Only on the thread that entered the step.
  int32_t launch(const fsdp_rt_launch_desc &desc);
  int32_t matmul(const fsdp_rt_matmul_desc &desc);
  int32_t attention(const fsdp_rt_attention_desc &desc, bool backward);
  int32_t start(const fsdp_rt_start_desc &desc);
  int32_t wait(const fsdp_rt_wait_desc &desc);
  int32_t copy(const fsdp_rt_copy_desc &desc);
  int32_t check(const fsdp_rt_check_desc &desc);
  int32_t guard(const fsdp_rt_guard_desc &desc);

private:
  Context(World &world, const ContextOptions &options, Arena arena, Arena host,
          Arena scratch, const Blas *blas);

  Status openQueues();
  int32_t fail(Status status);
  /// Whether a transfer has failed: then every further call does.
  bool hasTransferFailed() const { return queues_ && queues_->hasFailed(); }
  int32_t failOfTransfer();
  const Communicator *groupOf(int index) const {
    return queues_ ? queues_->group(index) : communicators_[index].get();
  }
  RankMemory memory() const {
    return {arena_.data(), arena_.size(), host_.data(), host_.size()};
  }
  Status checkPart(int32_t kind, const fsdp_rt_collective_desc &desc) const;
  Status checkParts(const fsdp_rt_start_desc &desc) const;
  Status checkHostCopies(const fsdp_rt_start_desc &desc) const;
  Status checkStart(const fsdp_rt_start_desc &desc) const;
  /// Runs transfers of queue 0.
  Status runInOrder(const fsdp_rt_start_desc &desc);
  /// Counts a collective, a copy, or what a start gives out; returns its bytes.
  int64_t count(int32_t kind, const fsdp_rt_collective_desc &desc);
  int64_t count(int32_t kind, const fsdp_rt_host_copy_desc &desc);
  int64_t count(const fsdp_rt_start_desc &desc);
  bool inArena(int64_t offset, int64_t bytes) const;
  /// Adds the running step's number; nothing where no record is kept.
  void record(CallRecord call);
  void record(const TransferRecord &done);
  /// Adds a transfer that ran on the step's thread to the step's times.
  void addToStep(const TransferRecord &done);

  World &world_;
  ContextOptions options_;
  Arena arena_;
  Arena host_;
  Arena scratch_;
  ArenaMemory deviceMemory_{arena_}, hostMemory_{host_};
  int64_t scratchStride_ = 0;
  const Blas *blas_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  Counters counters_;
  /// Programs that were begun: events of each are told from those before.
  uint32_t runs_ = 0;
  Recorder recorder_;
  Status failure_;
  std::string checkNote_;
  /// Last, so that its threads end first. Null without queues.
  std::unique_ptr<TransferQueues> queues_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_CONTEXT_H
