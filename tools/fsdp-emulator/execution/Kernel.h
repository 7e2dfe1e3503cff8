//===- Kernel.h - A kernel as the executor reads it -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A register holds one value for each of the 32 lanes of a warp, side by side,
// so that an instruction is a loop over them. What is the same for all lanes
// and launches (literals, addresses of variables) lies beside the registers in
// the same form, once for the kernel. A predicate is one bit a lane.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_KERNEL_H
#define FSDP_EMULATOR_EXECUTION_KERNEL_H

#include "ptx/Syntax.h"

#include <string>
#include <vector>

namespace fsdp::emulator {

constexpr unsigned warpSize = 32;
/// One bit for each lane of a warp.
using LaneMask = uint32_t;
constexpr LaneMask allLanes = ~LaneMask{0};

/// Where the 32 values of an operand lie: an offset among the registers of the
/// warp, or among the constants of the kernel.
class Slot {
public:
  Slot() = default;
  static Slot ofRegister(uint32_t offset) { return Slot(offset); }
  static Slot ofConstant(uint32_t offset) { return Slot(offset | 1); }

  explicit operator bool() const { return code >= 0; }
  bool isConstant() const { return code & 1; }
  uint32_t offset() const { return code & ~1; }

private:
  explicit Slot(uint32_t code) : code(static_cast<int32_t>(code)) {}

  /// Offsets are even.
  int32_t code = -1;
};

struct Instruction;
struct Warp;

enum class Flow : uint8_t {
  Next,
  Branch,
  /// To the immediate-th of the kernel's branch tables.
  IndexedBranch,
  Exit,
  /// Executes when all lanes that `members` names are there.
  Synchronize,
  /// Lanes wait; see Barriers.h.
  Barrier,
};

struct Instruction {
  /// Computes for the lanes of `mask`, of which there is one at least.
  using Execute = void (*)(Warp &warp, const Instruction &instruction,
                           LaneMask mask);

  Execute execute = nullptr;
  Flow flow = Flow::Next;
  /// Lanes that took other ways may join here.
  bool isLabelled = false;
  bool isGuardNegated = false;
  Slot guard;
  Slot result;
  /// The q of p|q.
  Slot secondResult;
  Slot sources[4];
  /// Of Synchronize: a mask of lanes for each lane.
  Slot members;
  /// Registers of a vector operand; for mma, those of d, a, b and c.
  Slot vector[14];
  uint8_t vectorLength = 1;

  /// Of an access to memory.
  Space space = Space::Generic;
  uint8_t accessBytes = 0;
  uint8_t registerBytes = 4;
  bool isSignExtended = false;
  /// Of an access: volatile, relaxed, acquire, ..; no race with its like.
  bool isStrong = false;
  /// Of a strong access: acquire or release.
  bool isFence = false;
  /// Of the register that holds an address: 4 or 8.
  uint8_t addressBytes = 8;

  /// What else an opcode needs; each says what it keeps here.
  uint8_t mode = 0;
  bool flag = false;
  int64_t immediate = 0;
  /// Of a branch.
  int32_t target = -1;
  int line = 0;
};

/// A register that depends on the thread or the launch.
enum class Special : uint8_t {
  ThreadIndex,
  BlockSize,
  BlockIndex,
  GridSize,
  Lane,
  WarpIndex,
  WarpCount,
  LaneMaskEqual,
  LaneMaskLess,
  LaneMaskLessEqual,
  LaneMaskGreater,
  LaneMaskGreaterEqual,
  DynamicSharedBytes,
  TotalSharedBytes,
  GridId,
  MultiprocessorIndex,
  MultiprocessorCount,
  Clock,
  GlobalTimer,
};

struct SpecialRegister {
  Special special;
  unsigned axis = 0;
  unsigned bytes = 4;
  Slot slot;
};

struct Parameter {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

/// Storage for `bytes` at 64-byte boundaries, for loops over lanes.
class AlignedBytes {
public:
  void resize(size_t bytes) { storage.resize(bytes + 64, 0xff); }
  size_t size() const { return storage.empty() ? 0 : storage.size() - 64; }
  uint8_t *data() {
    auto address = reinterpret_cast<uintptr_t>(storage.data());
    return storage.data() + (64 - address % 64) % 64;
  }
  const uint8_t *data() const {
    return const_cast<AlignedBytes *>(this)->data();
  }

private:
  std::vector<uint8_t> storage;
};

struct Kernel {
  std::string name;
  const ModuleSyntax *module = nullptr;
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  Dimensions maxThreads = {0, 0, 0};
  Dimensions requiredThreads = {0, 0, 0};

  std::vector<Instruction> code;
  std::vector<std::vector<int32_t>> branchTables;
  uint32_t registerBytes = 0;
  AlignedBytes constants;
  std::vector<SpecialRegister> specials;
  /// Without what a launch adds to it, which follows.
  uint32_t staticSharedBytes = 0;
  uint32_t localBytes = 0;
  /// The smallest access to shared memory: races are looked for in pieces of
  /// so many bytes.
  uint32_t sharedGranule = 16;
  /// The same of global memory.
  uint32_t globalGranule = 16;
  /// Blocks may wait for each other's writes, which is not followed.
  bool hasFences = false;
  /// Threads of a block may do so, which is followed roughly; see ThreadOrder.
  bool hasThreadFences = false;
  /// Some barriers are for a part of the block.
  bool hasPartialBarriers = false;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_KERNEL_H
