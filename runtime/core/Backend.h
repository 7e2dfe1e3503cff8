//===- Backend.h - Ranks and their collectives ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend starts (or joins) the ranks of a program and lets them communicate.
// One conformance suite (test/conformance) runs over every backend.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_BACKEND_H
#define FSDP_RT_CORE_BACKEND_H

#include "core/Dtype.h"
#include "core/Status.h"
#include "fsdp-rt/abi.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

class ThreadPool;

/// Collectives among the ranks of one group.
///
/// Contract: every rank of the group makes the same calls in the same order,
/// one at a time. Several communicators may be used at once, each by a thread
/// of its own: a call that waits for other ranks keeps none of another
/// communicator from its end, so that ranks may come to those in different
/// orders. A call returns when this rank's `dst` is complete and its
/// `src` may be overwritten. Buffers lie in the rank's arena or on its stack.
/// Sums follow the fixed tree of abi.def in every backend, so that the bits of
/// a result depend on neither the backend nor the group's spread over hosts. A
/// failure on any rank of the program makes every pending and later call on all
/// others fail with that rank's number and reason.
class Communicator {
public:
  virtual ~Communicator() = default;
  /// This rank's place among `size()` ranks of the group.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// dst[i * bytes ..] = src of rank i. `src` may be dst + rank() * bytes.
  virtual Status allGather(const void *src, void *dst, int64_t bytes) = 0;
  /// dst = sum over ranks of src[rank() * count ..] / divisor.
  virtual Status reduceScatter(const void *src, void *dst, int64_t count,
                               Dtype dtype, int64_t divisor) = 0;
  /// dst = sum over ranks of src / divisor; src may equal dst.
  virtual Status allReduce(const void *src, void *dst, int64_t count,
                           Dtype dtype, int64_t divisor) = 0;
  /// dst = src of `root`; src may equal dst.
  virtual Status broadcast(const void *src, void *dst, int64_t bytes,
                           int root) = 0;
  virtual Status barrier() = 0;
  /// The calls in between are issued together: where a transport takes some
  /// time before the first byte, it takes it once.
  virtual void beginTogether() {}
  virtual void endTogether() {}
  /// Nanoseconds that this rank has been blocked in calls because others had
  /// not come to them, or were not done; the rest of a call moves and adds.
  virtual int64_t waitNanoseconds() const = 0;
};

/// What one rank sees of the running program.
class World {
public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks that share this host, and this rank's place among them.
  virtual int localRank() const = 0;
  virtual int localSize() const = 0;
  /// A communicator over `ranks` (world ranks, strictly increasing, this one
  /// among them). Collective over those ranks; called in the same order on all.
  /// It copies and adds on the threads of `pool`, where given, which must
  /// outlive it and must not be used during a call.
  virtual Result<std::unique_ptr<Communicator>>
  createCommunicator(const std::vector<int> &ranks,
                     ThreadPool *pool = nullptr) = 0;
  /// Whether collectives take time in which none of this host's cores works for
  /// them, as those between hosts do. Where not, they only copy and add in this
  /// host's memory.
  virtual bool hasLink() const = 0;
  /// Returns when a copy of `bytes` between this rank's device and its host
  /// (fsdp_rt_transfer_kind), which began at `begin` (nowNanoseconds()), would
  /// be over on a link as slow as the one of collectives. At once where nobody
  /// asked for such links. Callable from any thread.
  virtual void crossHostLink(int32_t kind, int64_t bytes, int64_t begin) {
    (void)kind, (void)bytes, (void)begin;
  }
  /// Makes every other rank fail with this rank's number and `why`. Idempotent;
  /// the first reason in the program wins. Callable from any thread.
  virtual void abort(const Status &why) = 0;
};

/// Runs `body` once per rank that this process hosts and returns the first
/// failure of the program (not the consequences of it on other ranks).
class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual Status run(const std::function<Status(World &)> &body) = 0;
  /// Whether this process is the one that should tell the user about the
  /// failure that run() returned: in a job of many processes all of them
  /// return the same failure. It should do so before this is destroyed: then
  /// its process may end, and with it the job.
  virtual bool reportsFailure() const = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_BACKEND_H
