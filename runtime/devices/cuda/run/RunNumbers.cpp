//===- RunNumbers.cpp - Numbers that go in and out with a run -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/RunNumbers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fsdp::rt {

/// Of a slot, until a program has more.
static constexpr int64_t usualNumbers = 64;

Result<std::unique_ptr<RunNumbers>>
RunNumbers::create(const CudaContext &context, const DeviceArena &arena) {
  std::unique_ptr<RunNumbers> made(new RunNumbers(context, arena));
  if (Status s = made->open())
    return s;
  return made;
}

Status RunNumbers::open() {
  Result<std::unique_ptr<PinnedMemory>> current =
      PinnedMemory::allocate(context_, sizeof(uint64_t), "the number of a run");
  if (!current.isOk())
    return current.status();
  current_ = std::move(*current);
  std::memset(current_->data(), 0, sizeof(uint64_t));
  for (int i = 0; i < hal::mostPendingRuns; ++i) {
    Result<CudaEvent> end = CudaEvent::create(context_, cu::eventDisableTiming);
    if (!end.isOk())
      return end.status();
    slots_.push_back({std::move(*end), nullptr, 0});
    if (Status s = reserve(slots_.back(), usualNumbers))
      return s;
  }
  return Status::ok();
}

Status RunNumbers::reserve(Slot &slot, int64_t count) {
  if (count <= slot.capacity)
    return Status::ok();
  count = std::max(count, 2 * slot.capacity);
  Result<std::unique_ptr<PinnedMemory>> numbers = PinnedMemory::allocate(
      context_, 2 * count * int64_t(sizeof(PlacedNumber)),
      "scalars and results of runs");
  if (!numbers.isOk())
    return numbers.status();
  if (slot.numbers)
    outgrown_.push_back(std::move(slot.numbers));
  slot.numbers = std::move(*numbers);
  slot.capacity = count;
  return Status::ok();
}

const uint64_t *RunNumbers::current() const {
  return reinterpret_cast<const uint64_t *>(current_->data());
}

Status RunNumbers::prepare(CudaImages &images) {
  if (begin_.function)
    return Status::ok();
  for (auto [kernel, found] : {std::pair(beginRunKernel(), &begin_),
                               std::pair(endRunKernel(), &end_)}) {
    Result<CudaKernel> looked = images.find(kernel);
    if (!looked.isOk())
      return looked.status();
    *found = *looked;
  }
  return Status::ok();
}

template <size_t N>
Status RunNumbers::launch(CudaKernel kernel,
                          std::array<cu::Pointer, N> parameters,
                          cu::Stream stream) const {
  std::array<void *, N> addresses;
  for (size_t i = 0; i < N; ++i)
    addresses[i] = &parameters[i];
  auto blocks = static_cast<unsigned>((parameters.back() + kernel.block - 1) /
                                      kernel.block);
  return context_.check(context_.api().launch(kernel.function,
                                              std::max(1u, blocks), 1, 1,
                                              kernel.block, 1, 1, 0, stream,
                                              addresses.data(), nullptr),
                        "cuLaunchKernel");
}

/// Addresses of pinned memory are the same on the host and the device.
static cu::Pointer addressOf(const void *pinned) {
  return reinterpret_cast<cu::Pointer>(pinned);
}

Status RunNumbers::begin(uint64_t run, const hal::RunRequest &request,
                         cu::Stream stream) {
  if (Status s = hal::checkNumbers(request, arena_.size()))
    return s;
  Slot &slot = slotOf(run);
  if (Status s = reserve(slot, int64_t(std::max(request.scalars.size(),
                                                request.results.size()))))
    return s;
  for (auto [numbers, placed] : {std::pair(&request.scalars, scalarsOf(slot)),
                                 std::pair(&request.results, resultsOf(slot))})
    for (const hal::RunNumber &number : *numbers) {
      placed->offset = number.offset;
      placed->bytes = number.bytes;
      std::memcpy(placed->value, number.value, sizeof(number.value));
      ++placed;
    }
  return launch<5>(begin_,
                   {run, addressOf(current()), addressOf(scalarsOf(slot)),
                    arena_.base(), request.scalars.size()},
                   stream)
      .withContext("the begin of a run");
}

Status RunNumbers::end(uint64_t run, const hal::RunRequest &request,
                       cu::Stream stream) {
  Slot &slot = slotOf(run);
  if (!request.results.empty())
    if (Status s = launch<3>(
            end_,
            {addressOf(resultsOf(slot)), arena_.base(), request.results.size()},
            stream))
      return s.withContext("the end of a run");
  return context_.check(context_.api().eventRecord(slot.end.get(), stream),
                        "cuEventRecord");
}

void RunNumbers::take(uint64_t run, hal::RunRequest &request) const {
  const PlacedNumber *placed = resultsOf(slotOf(run));
  for (hal::RunNumber &number : request.results)
    std::memcpy(number.value, (placed++)->value, sizeof(number.value));
}

} // namespace fsdp::rt
