//===- Executor.cpp - Runs the blocks of a launch -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Warps run one after another until each has exited or waits at a barrier.
// Among the lanes of a warp that are at different places, those at the lowest
// one run first, until they come to a label, where others may be. Where an
// instruction is for lanes that are not there, the others wait as long as any
// lane can come.
//
//===----------------------------------------------------------------------===//

#include "execution/Warp.h"

#include <algorithm>
#include <bit>
#include <chrono>

namespace fsdp::emulator {

void Statistics::add(const Statistics &other) {
  launches += other.launches;
  dependentLaunches += other.dependentLaunches;
  warpInstructions += other.warpInstructions;
  laneInstructions += other.laneInstructions;
  bytesLoaded += other.bytesLoaded;
  bytesStored += other.bytesStored;
  requests += other.requests;
  sectors += other.sectors;
  atomics += other.atomics;
  barriers += other.barriers;
  seconds += other.seconds;
}

std::string describe(const Dimensions &dimensions) {
  return "(" + std::to_string(dimensions[0]) + "," +
         std::to_string(dimensions[1]) + "," + std::to_string(dimensions[2]) +
         ")";
}

Dimensions threadIndex(const Launch &launch, uint32_t thread) {
  const Dimensions &size = launch.block;
  return {thread % size[0], thread / size[0] % size[1],
          thread / (size[0] * size[1])};
}

void fail(const Warp &warp, const Instruction &instruction, unsigned lane,
          FaultCode code, const std::string &message) {
  const Block &block = *warp.block;
  throw DeviceFault(
      code, "kernel " + block.kernel->name + ", block " +
                describe(block.index) + ", thread " +
                describe(threadIndex(*block.launch, warp.threadOf(lane))) +
                ", PTX line " + std::to_string(instruction.line) + ": " +
                message + ": " +
                block.kernel->module->lineText(instruction.line));
}

namespace {

/// A warp that has not come to a barrier after so many instructions lets the
/// others run: it may wait for one of them. A block that has none to wait for
/// never ends.
constexpr uint64_t turn = 1 << 20;
constexpr uint64_t longestBlock = uint64_t{1} << 34;
/// Lanes of a warp that go around in a loop so often may wait for lanes that
/// are behind it.
constexpr unsigned longestLoop = 1 << 16;

class Executor {
public:
  Executor(const Launch &launch, DeviceMemory &memory, const Checks &checks,
           uint32_t seed, Statistics &statistics);

  void run();

private:
  void layOutWarps();
  void setSpecials(Warp &warp, bool ofBlock);
  uint64_t specialOf(const SpecialRegister &special, const Warp &warp,
                     unsigned lane) const;
  void runBlock();
  void runWarp(Warp &warp);
  LaneMask chooseLanes(Warp &warp, int32_t &pc);
  /// What Flow says; false where the lanes that ran have to be chosen anew.
  bool branch(Warp &warp, const Instruction &instruction, LaneMask mask,
              LaneMask taken, int32_t &pc);
  void exit(Warp &warp, LaneMask exiting, LaneMask mask, int32_t pc);
  void arrive(Warp &warp, const Instruction &instruction, LaneMask mask,
              LaneMask arriving, int32_t pc);
  /// Whether lanes that are elsewhere may still come to `pc`, where `active`
  /// of `mask` wait for them then.
  bool waitForLanes(Warp &warp, const Instruction &instruction, LaneMask mask,
                    LaneMask active, int32_t pc);
  static void diverge(Warp &warp, LaneMask mask, int32_t pc);

  uint32_t nextRandom() {
    random = random * 1664525 + 1013904223;
    return random >> 8;
  }

  Block block;
  std::vector<Warp> warps;
  /// Kept from launch to launch: pages are slow to come.
  static thread_local AlignedBytes registers;
  static thread_local std::vector<uint8_t> local;
  static thread_local GlobalAccesses accesses;
  uint32_t random;
  uint64_t blockInstructions = 0;
  unsigned backwardBranches = 0;
  /// The lanes that run wait for others that cannot come.
  bool isLastResort = false;
};

thread_local AlignedBytes Executor::registers;
thread_local std::vector<uint8_t> Executor::local;
thread_local GlobalAccesses Executor::accesses;

Executor::Executor(const Launch &launch, DeviceMemory &memory,
                   const Checks &checks, uint32_t seed, Statistics &statistics)
    : random(seed) {
  block.launch = &launch;
  block.kernel = launch.kernel;
  block.memory = &memory;
  block.checks = checks;
  block.accessor.operation = launch.operation;
  block.statistics = &statistics;
  block.hasThreadRaces = checks.races && launch.threads() > 1;
  block.global = &accesses;
}

void Executor::layOutWarps() {
  const Kernel &kernel = *block.kernel;
  uint32_t threads = block.launch->threads();
  warps.resize((threads + warpSize - 1) / warpSize);
  size_t registerBytes = size_t{kernel.registerBytes} * warps.size();
  if (registers.size() < registerBytes)
    registers.resize(registerBytes);
  local.assign(size_t{kernel.localBytes} * warpSize * warps.size(), 0xff);
  for (uint32_t i = 0; i < warps.size(); ++i) {
    Warp &warp = warps[i];
    warp.block = &block;
    warp.index = i;
    warp.bases[0] = registers.data() + size_t{kernel.registerBytes} * i;
    warp.bases[1] = const_cast<uint8_t *>(kernel.constants.data());
    warp.local = local.data() + size_t{kernel.localBytes} * warpSize * i;
    uint32_t count = std::min(threads - i * warpSize, warpSize);
    warp.threads = count == warpSize ? allLanes : (LaneMask{1} << count) - 1;
    setSpecials(warp, false);
  }
}

uint64_t Executor::specialOf(const SpecialRegister &special, const Warp &warp,
                             unsigned lane) const {
  const Launch &launch = *block.launch;
  LaneMask bit = LaneMask{1} << lane;
  switch (special.special) {
  case Special::ThreadIndex:
    return threadIndex(launch, warp.threadOf(lane))[special.axis];
  case Special::BlockSize:
    return launch.block[special.axis];
  case Special::BlockIndex:
    return block.index[special.axis];
  case Special::GridSize:
    return launch.grid[special.axis];
  case Special::Lane:
    return lane;
  case Special::WarpIndex:
    return warp.index;
  case Special::WarpCount:
    return warps.size();
  case Special::LaneMaskEqual:
    return bit;
  case Special::LaneMaskLess:
    return bit - 1;
  case Special::LaneMaskLessEqual:
    return bit | (bit - 1);
  case Special::LaneMaskGreater:
    return ~(bit | (bit - 1));
  case Special::LaneMaskGreaterEqual:
    return ~(bit - 1);
  case Special::DynamicSharedBytes:
    return launch.dynamicSharedBytes;
  case Special::TotalSharedBytes:
    return block.kernel->staticSharedBytes + launch.dynamicSharedBytes;
  case Special::GridId:
    return launch.operation;
  case Special::MultiprocessorIndex:
    return 0;
  case Special::MultiprocessorCount:
    return 1;
  case Special::Clock:
  case Special::GlobalTimer:
    // An instruction reads these.
    return 0;
  }
  return 0;
}

/// Those that depend on the block, or the others.
void Executor::setSpecials(Warp &warp, bool ofBlock) {
  for (const SpecialRegister &special : block.kernel->specials) {
    if ((special.special == Special::BlockIndex) != ofBlock)
      continue;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      uint64_t value = specialOf(special, warp, lane);
      if (special.bytes == 8)
        warp.lanes<uint64_t>(special.slot)[lane] = value;
      else
        warp.lanes<uint32_t>(special.slot)[lane] = static_cast<uint32_t>(value);
    }
  }
}

void Executor::run() {
  const Launch &launch = *block.launch;
  layOutWarps();
  block.order.start(*block.kernel, static_cast<uint32_t>(warps.size()));
  block.global->start(*block.kernel, block.order);
  block.shared.start(*block.kernel,
                     block.kernel->staticSharedBytes +
                         launch.dynamicSharedBytes,
                     block.hasThreadRaces ? &block.order : nullptr);
  for (uint32_t z = 0; z < launch.grid[2]; ++z)
    for (uint32_t y = 0; y < launch.grid[1]; ++y)
      for (uint32_t x = 0; x < launch.grid[0]; ++x) {
        block.index = {x, y, z};
        runBlock();
      }
  // Kernels after it wait for this one alone.
  if (launch.isDependent && !block.hasGridWaited)
    throw DeviceFault(FaultCode::LaunchFailed,
                      "kernel " + block.kernel->name +
                          ": expected griddepcontrol.wait in a kernel that may "
                          "begin before the one before it has ended, got none "
                          "until its end");
}

void Executor::runBlock() {
  block.order.startBlock();
  block.global->startBlock();
  block.shared.startBlock();
  block.barriers.reset();
  if (!block.kernel->hasFences)
    ++block.accessor.block;
  blockInstructions = 0;
  for (Warp &warp : warps) {
    warp.alive = warp.threads;
    warp.waiting = warp.synchronizing = 0;
    warp.gridWaited = block.launch->isDependent ? 0 : allLanes;
    warp.isDiverged = false;
    warp.pc = 0;
    warp.carry = 0;
    warp.copies.clear();
    warp.committedGroups.fill(0);
    setSpecials(warp, true);
  }
  auto count = static_cast<uint32_t>(warps.size());
  for (;;) {
    // Any order is legal; kernels that need one would pass with a fixed one.
    uint32_t first = count > 1 ? nextRandom() % count : 0;
    bool hasRun = false;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t index = first + i;
      Warp &warp = warps[index < count ? index : index - count];
      if (!(warp.alive & ~warp.waiting))
        continue;
      hasRun = true;
      runWarp(warp);
    }
    if (hasRun)
      continue;
    for (const Warp &warp : warps)
      if (warp.alive)
        block.barriers.failForever(block, warps);
    return;
  }
}

/// The lanes that run next, and where they are.
LaneMask Executor::chooseLanes(Warp &warp, int32_t &pc) {
  isLastResort = false;
  if (!warp.isDiverged) {
    pc = warp.pc;
    return warp.alive;
  }
  LaneMask ready = warp.alive & ~warp.waiting & ~warp.synchronizing;
  // Where no others can come, those that wait for them tell.
  isLastResort = !ready;
  if (isLastResort)
    ready = warp.synchronizing;
  // Lowest first; in turn where that has led nowhere for long.
  bool takesHighest = backwardBranches > longestLoop;
  if (takesHighest)
    backwardBranches = 0;
  pc = takesHighest ? -1 : INT32_MAX;
  for (LaneMask left = ready; left; left &= left - 1) {
    int32_t at = warp.lanePc[std::countr_zero(left)];
    pc = takesHighest ? std::max(pc, at) : std::min(pc, at);
  }
  LaneMask mask = 0;
  for (LaneMask left = ready | warp.synchronizing; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    if (warp.lanePc[lane] == pc)
      mask |= LaneMask{1} << lane;
  }
  warp.synchronizing &= ~mask;
  if (mask == warp.alive) {
    warp.isDiverged = false;
    warp.pc = pc;
  }
  return mask;
}

void Executor::diverge(Warp &warp, LaneMask mask, int32_t pc) {
  if (!warp.isDiverged) {
    warp.isDiverged = true;
    warp.lanePc.fill(warp.pc);
  }
  for (LaneMask left = mask; left; left &= left - 1)
    warp.lanePc[std::countr_zero(left)] = pc;
}

bool Executor::branch(Warp &warp, const Instruction &instruction, LaneMask mask,
                      LaneMask taken, int32_t &pc) {
  if (instruction.flow == Flow::IndexedBranch) {
    const auto &table = block.kernel->branchTables[instruction.immediate];
    const auto *indices = warp.lanes<uint32_t>(instruction.sources[0]);
    diverge(warp, mask & ~taken, pc + 1);
    for (LaneMask left = taken; left; left &= left - 1) {
      auto lane = static_cast<unsigned>(std::countr_zero(left));
      if (indices[lane] >= table.size())
        fail(warp, instruction, lane, FaultCode::LaunchFailed,
             "expected an index below " + std::to_string(table.size()) +
                 ", got " + std::to_string(indices[lane]));
      diverge(warp, LaneMask{1} << lane, table[indices[lane]]);
    }
    return false;
  }
  backwardBranches += instruction.target <= pc;
  if (taken == mask || !taken) {
    pc = taken ? instruction.target : pc + 1;
    return true;
  }
  diverge(warp, mask & ~taken, pc + 1);
  diverge(warp, taken, instruction.target);
  return false;
}

void Executor::exit(Warp &warp, LaneMask exiting, LaneMask mask, int32_t pc) {
  warp.alive &= ~exiting;
  LaneMask others = mask & ~exiting;
  if (warp.isDiverged)
    diverge(warp, others, pc + 1);
  else
    warp.pc = pc + 1;
}

void Executor::arrive(Warp &warp, const Instruction &instruction, LaneMask mask,
                      LaneMask arriving, int32_t pc) {
  if (warp.isDiverged || arriving != warp.alive)
    diverge(warp, mask, pc + 1);
  else
    warp.pc = pc + 1;
  if (arriving)
    block.barriers.arrive(block, warp, instruction, arriving);
}

bool Executor::waitForLanes(Warp &warp, const Instruction &instruction,
                            LaneMask mask, LaneMask active, int32_t pc) {
  LaneMask named = warp.threads;
  if (instruction.flow == Flow::Synchronize)
    named = warp.lanes<LaneMask>(instruction.members)[std::countr_zero(active)];
  else if (!instruction.flag)
    return false;
  if (isLastResort || !(named & warp.alive & ~active))
    return false;
  diverge(warp, mask & ~active, pc + 1);
  diverge(warp, active, pc);
  warp.synchronizing |= active;
  return true;
}

void Executor::runWarp(Warp &warp) {
  const Instruction *code = block.kernel->code.data();
  uint64_t warpInstructions = 0, laneInstructions = 0;
  while (warpInstructions < turn && (warp.alive & ~warp.waiting)) {
    int32_t pc;
    LaneMask mask = chooseLanes(warp, pc);
    for (;;) {
      const Instruction &instruction = code[pc];
      LaneMask active = mask;
      if (instruction.guard) {
        LaneMask bits = warp.predicate(instruction.guard);
        active &= instruction.isGuardNegated ? ~bits : bits;
      }
      if (instruction.flow >= Flow::Synchronize && active != warp.alive &&
          active && waitForLanes(warp, instruction, mask, active, pc))
        break;
      ++warpInstructions;
      laneInstructions += std::popcount(active);
      if (instruction.flow == Flow::Next ||
          instruction.flow == Flow::Synchronize) {
        if (active)
          instruction.execute(warp, instruction, active);
        ++pc;
      } else if (instruction.flow == Flow::Exit) {
        exit(warp, active, mask, pc);
        break;
      } else if (instruction.flow == Flow::Barrier) {
        arrive(warp, instruction, mask, active, pc);
        break;
      } else if (!branch(warp, instruction, mask, active, pc)) {
        break;
      }
      if (code[pc].isLabelled) {
        // Others may be there, or have had no turn for long.
        if (warp.isDiverged) {
          diverge(warp, mask, pc);
          break;
        }
        if (warpInstructions >= turn) {
          warp.pc = pc;
          break;
        }
      }
      warp.pc = pc;
    }
  }
  block.statistics->warpInstructions += warpInstructions;
  block.statistics->laneInstructions += laneInstructions;
  blockInstructions += warpInstructions;
  if (blockInstructions > longestBlock)
    throw DeviceFault(FaultCode::LaunchTimeout,
                      "kernel " + block.kernel->name + ", block " +
                          describe(block.index) + ": expected it to end, got " +
                          std::to_string(blockInstructions) +
                          " instructions of its warps");
}

} // namespace

void execute(const Launch &launch, DeviceMemory &memory, const Checks &checks,
             uint32_t seed, Statistics &statistics) {
  auto begin = std::chrono::steady_clock::now();
  Executor(launch, memory, checks, seed, statistics).run();
  ++statistics.launches;
  statistics.dependentLaunches += launch.isDependent;
  statistics.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
}

} // namespace fsdp::emulator
