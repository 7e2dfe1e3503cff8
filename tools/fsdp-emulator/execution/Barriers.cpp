//===- Barriers.cpp - Where threads of a block wait for each other --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/Barriers.h"

#include "execution/Warp.h"

#include <bit>

namespace fsdp::emulator {

void Barriers::reset() {
  for (Barrier &barrier : barriers) {
    barrier.expected = barrier.arrived = 0;
    barrier.waiters.clear();
  }
}

namespace {

/// A 32-bit operand that has to be the same in all lanes.
uint32_t uniform(const Warp &warp, const Instruction &instruction, Slot slot,
                 LaneMask mask, const char *what) {
  const auto *values = warp.lanes<uint32_t>(slot);
  auto first = static_cast<unsigned>(std::countr_zero(mask));
  for (LaneMask left = mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    if (values[lane] != values[first])
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           std::string("expected one ") + what + " for all lanes, got " +
               std::to_string(values[first]) + " and " +
               std::to_string(values[lane]));
  }
  return values[first];
}

} // namespace

void Barriers::arrive(Block &block, Warp &warp, const Instruction &instruction,
                      LaneMask mask) {
  auto lane = static_cast<unsigned>(std::countr_zero(mask));
  if (instruction.flag && mask != warp.threads)
    fail(warp, instruction, lane, FaultCode::LaunchFailed,
         "expected all " + std::to_string(std::popcount(warp.threads)) +
             " threads of the warp at the barrier, got " +
             std::to_string(std::popcount(mask)));
  uint32_t number = uniform(warp, instruction, instruction.sources[0], mask,
                            "number of a barrier");
  if (number >= barriers.size())
    fail(warp, instruction, lane, FaultCode::LaunchFailed,
         "expected a barrier below 16, got " + std::to_string(number));
  Barrier &barrier = barriers[number];

  uint32_t expected = block.launch->threads();
  auto arriving = static_cast<uint32_t>(std::popcount(mask));
  if (instruction.sources[1]) {
    expected = uniform(warp, instruction, instruction.sources[1], mask,
                       "number of threads");
    if (expected == 0 || expected % warpSize != 0)
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected a number of threads that is a multiple of 32, got " +
               std::to_string(expected));
    // It counts warps, also one that has fewer threads.
    if (mask == warp.threads)
      arriving = warpSize;
  }
  if (barrier.expected && barrier.expected != expected)
    fail(warp, instruction, lane, FaultCode::LaunchFailed,
         "expected " + std::to_string(barrier.expected) +
             " threads at barrier " + std::to_string(number) +
             ", as other threads do, got " + std::to_string(expected));
  barrier.expected = expected;
  barrier.arrived += arriving;
  bool waits =
      static_cast<BarrierMode>(instruction.mode) != BarrierMode::Arrive;
  if (waits)
    warp.waiting |= mask;
  barrier.waiters.push_back({&warp, &instruction, mask, waits});
  if (barrier.arrived > expected)
    fail(warp, instruction, lane, FaultCode::LaunchFailed,
         "expected " + std::to_string(expected) + " threads at barrier " +
             std::to_string(number) + ", got " +
             std::to_string(barrier.arrived));
  if (barrier.arrived == expected)
    release(block, barrier);
}

void Barriers::release(Block &block, Barrier &barrier) {
  ++block.statistics->barriers;
  uint32_t trueCount = 0;
  bool areAllTrue = true;
  std::vector<uint32_t> arrived, waiting;
  for (const Waiter &waiter : barrier.waiters) {
    arrived.push_back(waiter.warp->index);
    if (waiter.waits)
      waiting.push_back(waiter.warp->index);
    if (!waiter.instruction->sources[2])
      continue;
    LaneMask bits = waiter.warp->predicate(waiter.instruction->sources[2]);
    trueCount += std::popcount(bits & waiter.mask);
    areAllTrue &= (bits & waiter.mask) == waiter.mask;
  }
  block.order.synchronize(arrived, waiting);
  for (const Waiter &waiter : barrier.waiters) {
    if (!waiter.waits)
      continue;
    waiter.warp->waiting &= ~waiter.mask;
    Slot result = waiter.instruction->result;
    switch (static_cast<BarrierMode>(waiter.instruction->mode)) {
    case BarrierMode::Synchronize:
    case BarrierMode::Arrive:
      break;
    case BarrierMode::CountTrue:
      for (unsigned lane = 0; lane < warpSize; ++lane)
        if (waiter.mask >> lane & 1)
          waiter.warp->lanes<uint32_t>(result)[lane] = trueCount;
      break;
    case BarrierMode::AllTrue:
      waiter.warp->setPredicate(result, areAllTrue ? allLanes : 0, waiter.mask);
      break;
    case BarrierMode::AnyTrue:
      waiter.warp->setPredicate(result, trueCount ? allLanes : 0, waiter.mask);
      break;
    }
  }
  barrier.expected = barrier.arrived = 0;
  barrier.waiters.clear();
}

void Barriers::failForever(Block &block, const std::vector<Warp> &warps) const {
  // Of threads that exited or wait elsewhere, the first is named.
  for (size_t number = 0; number < barriers.size(); ++number) {
    const Barrier &barrier = barriers[number];
    for (const Waiter &waiter : barrier.waiters) {
      if (!waiter.waits)
        continue;
      std::string missing;
      for (const Warp &warp : warps) {
        LaneMask away = warp.threads;
        for (const Waiter &other : barrier.waiters)
          if (other.warp == &warp)
            away &= ~other.mask;
        if (!away || !missing.empty())
          continue;
        auto lane = static_cast<unsigned>(std::countr_zero(away));
        missing = "; thread " +
                  describe(threadIndex(*block.launch, warp.threadOf(lane))) +
                  (warp.alive >> lane & 1 ? " waits elsewhere" : " has exited");
      }
      fail(*waiter.warp, *waiter.instruction,
           static_cast<unsigned>(std::countr_zero(waiter.mask)),
           FaultCode::LaunchFailed,
           "expected " + std::to_string(barrier.expected) +
               " threads at barrier " + std::to_string(number) + ", got " +
               std::to_string(barrier.arrived) + missing);
    }
  }
  throw DeviceFault(FaultCode::LaunchFailed,
                    block.kernel->name + ": no thread can go on");
}

} // namespace fsdp::emulator
