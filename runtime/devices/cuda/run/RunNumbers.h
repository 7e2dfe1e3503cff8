//===- RunNumbers.h - Numbers that go in and out with a run -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run's scalars and results lie in a slot of pinned memory. One kernel before
// its first call takes the scalars to their places, one after its last call
// brings the results, and then an event is complete: so the host neither copies
// a number by itself nor waits between two runs. Run n has slot n modulo the
// number of slots, and with it its event: as many runs may be pending.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_RUNNUMBERS_H
#define FSDP_RT_DEVICES_CUDA_RUN_RUNNUMBERS_H

#include "devices/cuda/driver/CudaImages.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/kernels/OwnKernels.h"
#include "hal/Device.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp::rt {

class RunNumbers {
public:
  /// Of the runs on `arena`, which must outlive it, as `context` must.
  static Result<std::unique_ptr<RunNumbers>> create(const CudaContext &context,
                                                    const DeviceArena &arena);
  /// Looks up its kernels, once: before the first run.
  Status prepare(CudaImages &images);

  /// Before the first call of run `run`, counted from 1, of which the slot is
  /// free.
  Status begin(uint64_t run, const hal::RunRequest &request, cu::Stream stream);
  /// After its last call, for which `stream` has waited.
  Status end(uint64_t run, const hal::RunRequest &request, cu::Stream stream);
  /// Complete when the run is.
  cu::Event endOf(uint64_t run) const { return slotOf(run).end.get(); }
  /// Of a run that is complete: its results' values.
  void take(uint64_t run, hal::RunRequest &request) const;

  /// The run that the device is in, for functions of the host on its streams.
  const uint64_t *current() const;

private:
  struct Slot {
    CudaEvent end;
    /// Scalars and then results: `capacity` of each.
    std::unique_ptr<PinnedMemory> numbers;
    int64_t capacity = 0;
  };

  RunNumbers(const CudaContext &context, const DeviceArena &arena)
      : context_(context), arena_(arena) {}
  Status open();
  /// Room for so many scalars, and as many results.
  Status reserve(Slot &slot, int64_t count);
  /// Of all `parameters`, whose last one is how many numbers there are.
  template <size_t N>
  Status launch(CudaKernel kernel, std::array<cu::Pointer, N> parameters,
                cu::Stream stream) const;
  Slot &slotOf(uint64_t run) { return slots_[run % slots_.size()]; }
  const Slot &slotOf(uint64_t run) const { return slots_[run % slots_.size()]; }
  static PlacedNumber *scalarsOf(const Slot &slot) {
    return reinterpret_cast<PlacedNumber *>(slot.numbers->data());
  }
  static PlacedNumber *resultsOf(const Slot &slot) {
    return scalarsOf(slot) + slot.capacity;
  }

  const CudaContext &context_;
  const DeviceArena &arena_;
  CudaKernel begin_, end_;
  std::vector<Slot> slots_;
  std::unique_ptr<PinnedMemory> current_;
  /// Slots that have become too small: freeing pinned memory waits for the
  /// device.
  std::vector<std::unique_ptr<PinnedMemory>> outgrown_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_RUNNUMBERS_H
