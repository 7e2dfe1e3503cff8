//===- AsyncCopy.cpp - cp.async -------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A copy happens when its thread waits for it: what reads shared memory too
// early finds what was there before. Races are looked for where it begins, too,
// as a device may copy at any time between the two.
//
//===----------------------------------------------------------------------===//

#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"
#include "instructions/MemoryAccess.h"

#include <algorithm>
#include <cstring>

namespace fsdp::emulator {

namespace {

/// The copied bytes, with zeros after them, are put at `to`.
void readSource(Warp &warp, const Instruction &instruction,
                const AsyncCopy &copy, uint8_t *to) {
  Instruction access = instruction;
  access.space = Space::Global;
  std::memset(to, 0, copy.bytes);
  if (copy.sourceBytes == copy.bytes) {
    std::memcpy(
        to,
        resolve(warp, access, copy.lane, copy.source, copy.bytes, Access::Read),
        copy.bytes);
    return;
  }
  for (uint32_t i = 0; i < copy.sourceBytes; ++i)
    to[i] = *resolve(warp, access, copy.lane, copy.source + i, 1, Access::Read);
}

/// `mode`: bytes that are written; source 2: bytes that are read.
void begin(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneAddresses to(warp, instruction, instruction.sources[0],
                   static_cast<uint64_t>(instruction.immediate));
  const auto *from = warp.lanes<const uint64_t>(instruction.sources[1]);
  const auto *sizes = instruction.sources[2]
                          ? warp.lanes<const uint32_t>(instruction.sources[2])
                          : nullptr;
  uint32_t bytes = instruction.mode;
  // Of lanes that copy all of their bytes.
  LaneMask whole = 0;
  warp.block->order.nextInstruction();
  for (LaneMask left = mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    uint32_t sourceBytes = sizes ? sizes[lane] : bytes;
    if (sourceBytes > bytes)
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected at most " + std::to_string(bytes) +
               " bytes to copy, got " + std::to_string(sourceBytes));
    warp.copies.push_back(
        {static_cast<uint32_t>(to.of[lane] & ~sharedTag),
         from[lane] + static_cast<uint64_t>(instruction.target), bytes,
         sourceBytes, lane, warp.committedGroups[lane]});
    const AsyncCopy &copy = warp.copies.back();
    uint8_t ignored[16];
    readSource(warp, instruction, copy, ignored);
    expectStoreToShared(warp, instruction, lane, copy.destination, bytes);
    if (sourceBytes == bytes)
      whole |= LaneMask{1} << lane;
    else
      warp.block->statistics->bytesLoaded += sourceBytes;
  }
  if (whole)
    countRequest(warp, whole,
                 LaneAddresses(warp, instruction, instruction.sources[1],
                               static_cast<uint64_t>(instruction.target)),
                 bytes, Access::Read);
}

void commit(Warp &warp, const Instruction &, LaneMask mask) {
  for (LaneMask left = mask; left; left &= left - 1)
    ++warp.committedGroups[std::countr_zero(left)];
}

void finishCopy(Warp &warp, const Instruction &instruction,
                const AsyncCopy &copy) {
  Instruction access = instruction;
  uint8_t bytes[16];
  readSource(warp, instruction, copy, bytes);
  access.space = Space::Shared;
  std::memcpy(resolve(warp, access, copy.lane, copy.destination, copy.bytes,
                      Access::Write, bytes),
              bytes, copy.bytes);
}

/// All but the last `immediate` groups; all copies where it is negative.
void wait(Warp &warp, const Instruction &instruction, LaneMask mask) {
  warp.block->order.nextInstruction();
  auto isDue = [&](const AsyncCopy &copy) {
    if (!(mask >> copy.lane & 1))
      return false;
    return instruction.immediate < 0 ||
           copy.group + instruction.immediate < warp.committedGroups[copy.lane];
  };
  for (const AsyncCopy &copy : warp.copies)
    if (isDue(copy))
      finishCopy(warp, instruction, copy);
  std::erase_if(warp.copies, isDue);
}

void decodeCopy(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (!decoder.take("async"))
    decoder.reject("expected cp.async");
  if (decoder.take("commit_group")) {
    decoder.expectOperands(0);
    instruction.execute = commit;
    return;
  }
  if (decoder.take("wait_group") || decoder.take("wait_all")) {
    instruction.immediate = decoder.operandCount() ? decoder.immediate(0) : -1;
    instruction.execute = wait;
    return;
  }
  unsigned isCachedGlobally = decoder.expectOneOf({"ca", "cg"});
  decoder.expectOneOf({"shared", "shared::cta"});
  decoder.expectOneOf({"global"});
  decoder.ignore({"L2::64B", "L2::128B", "L2::256B"});
  decoder.expectOperands(3, 4);
  // The source first: what the instruction keeps of an address is then the
  // destination's.
  decoder.address(1, Space::Global);
  instruction.sources[1] = instruction.sources[0];
  instruction.target = static_cast<int32_t>(instruction.immediate);
  if (instruction.addressBytes != 8)
    decoder.reject("expected 64 bits for an address of global memory");
  decoder.address(0, Space::Shared);
  int64_t bytes = decoder.immediate(2);
  bool isSize =
      bytes == 16 || (!isCachedGlobally && (bytes == 4 || bytes == 8));
  if (!isSize)
    decoder.reject("expected 4, 8 or 16 bytes, or 16 with .cg, got " +
                   std::to_string(bytes));
  instruction.mode = static_cast<uint8_t>(bytes);
  if (decoder.operandCount() == 4)
    instruction.sources[2] = decoder.source(3, Type::B32);
  instruction.execute = begin;
  decoder.accesses(static_cast<unsigned>(bytes));
  // Of the source, a number of elements may be copied alone. Where these have
  // fewer than four bytes, the kernel stores such elements elsewhere, too.
  Kernel &kernel = decoder.builder.result();
  kernel.globalGranule = std::min(kernel.globalGranule, uint32_t{4});
}

constexpr Opcode opcodes[] = {{"cp", decodeCopy}};

} // namespace

std::span<const Opcode> asyncCopyOpcodes() { return opcodes; }

} // namespace fsdp::emulator
