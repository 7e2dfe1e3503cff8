//===- RunProgress.h - How far a run has come -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After some calls a kernel on their queue writes a mark to memory of the host,
// also within a graph: the number of the run, since the next one may have begun
// before the host looks. The driver tells of a failure, or of work that does
// not end, neither the call nor the queue; the marks that are missing do, and
// the host can read them when the device answers no question any more.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_RUNPROGRESS_H
#define FSDP_RT_DEVICES_CUDA_RUN_RUNPROGRESS_H

#include "devices/cuda/driver/CudaMemory.h"
#include "hal/Recording.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

class RunProgress {
public:
  static constexpr size_t markBytes = 8;

  /// Chooses calls of the program: all starts and waits, and those between
  /// them of which mostUnmarked others come before. Returns the bytes of their
  /// marks.
  int64_t choose(const hal::Recording &recording);
  /// Call `index` has no work and writes no mark. Calls after it must not have
  /// been given theirs yet.
  void drop(size_t index);
  /// Memory for them, with the same address on the host and the device.
  void use(std::shared_ptr<PinnedMemory> marks);

  /// Where call `index` writes its mark, the number of its run; null: it writes
  /// none.
  char *markOf(size_t index) const;

  /// How many have been written in run `run`, or a later one.
  size_t count(uint64_t run) const;

  /// Of run `run`: "queue compute has passed call 3 of 9, wait 'gather'
  /// (forward h.0), but not call 5, launch 'gelu' (forward h.0)" for each queue
  /// that has not come to its end, the slowest first; empty where there is
  /// none.
  std::string describe(const hal::Recording &recording, uint64_t run) const;

private:
  static constexpr int mostUnmarked = 15;

  bool isWritten(size_t mark, uint64_t run) const;

  /// The marked calls, and a mark for each of them.
  std::vector<size_t> calls_;
  std::shared_ptr<PinnedMemory> marks_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_RUNPROGRESS_H
