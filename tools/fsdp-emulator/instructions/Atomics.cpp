//===- Atomics.cpp - atom, red --------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/FloatFormats.h"
#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"
#include "instructions/MemoryAccess.h"

#include <algorithm>
#include <cstring>

namespace fsdp::emulator {

namespace {

enum class Atomic : uint8_t {
  Add,
  Min,
  Max,
  Increment,
  Decrement,
  And,
  Or,
  Xor,
  Exchange,
  CompareAndSwap
};

/// Two f16 or bf16 in a register, as a type of its own; one is the low half.
template <bool isBrain>
struct NarrowPair {
  uint32_t bits;

  NarrowPair operator+(NarrowPair other) const {
    auto add = [](uint32_t a, uint32_t b) -> uint32_t {
      auto x = static_cast<uint16_t>(a), y = static_cast<uint16_t>(b);
      return isBrain ? bf16OfFloat(floatOfBF16(x) + floatOfBF16(y))
                     : f16OfFloat(floatOfF16(x) + floatOfF16(y));
    };
    return {add(bits >> 16, other.bits >> 16) << 16 | add(bits, other.bits)};
  }
};
template <bool isBrain>
struct NarrowOne {
  uint16_t bits;

  NarrowOne operator+(NarrowOne other) const {
    NarrowPair<isBrain> sum =
        NarrowPair<isBrain>{bits} + NarrowPair<isBrain>{other.bits};
    return {static_cast<uint16_t>(sum.bits)};
  }
};

template <typename T>
T wrappingAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

/// What memory becomes that holds `old`.
template <typename T>
T apply(Atomic operation, T old, T b, T c) {
  if (operation == Atomic::Add)
    return wrappingAdd(old, b);
  if (operation == Atomic::Exchange)
    return b;
  if (operation == Atomic::CompareAndSwap)
    return std::memcmp(&old, &b, sizeof(T)) == 0 ? c : old;
  if constexpr (std::is_integral_v<T>) {
    switch (operation) {
    case Atomic::Min:
      return std::min(old, b);
    case Atomic::Max:
      return std::max(old, b);
    case Atomic::Increment:
      return old >= b ? 0 : old + 1;
    case Atomic::Decrement:
      return old == 0 || old > b ? b : old - 1;
    case Atomic::And:
      return old & b;
    case Atomic::Or:
      return old | b;
    case Atomic::Xor:
      return old ^ b;
    default:
      break;
    }
  }
  return old;
}

/// atom.add.f32 of global memory flushes subnormal numbers.
template <typename T>
T flushed(T value, bool flushes) {
  if constexpr (std::is_same_v<T, float>)
    return flushes ? flush(value) : value;
  return value;
}

template <typename T>
void execute(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneAddresses addresses(warp, instruction, instruction.sources[0],
                          static_cast<uint64_t>(instruction.immediate));
  const T *b = warp.lanes<const T>(instruction.sources[1]);
  const T *c =
      instruction.sources[2] ? warp.lanes<const T>(instruction.sources[2]) : b;
  T *results = instruction.result ? warp.lanes<T>(instruction.result) : nullptr;
  auto operation = static_cast<Atomic>(instruction.mode);
  warp.block->order.nextInstruction();
  // An acquire is one after it, a release one before it.
  if (instruction.isFence)
    warp.block->order.fence(warp.index);
  warp.block->statistics->atomics += std::popcount(mask);
  for (LaneMask left = mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    uint64_t address = addresses.of[lane];
    uint8_t *place =
        resolve(warp, instruction, lane, address, sizeof(T), Access::Atomic);
    bool flushes = operation == Atomic::Add && address & deviceTag;
    T old;
    std::memcpy(&old, place, sizeof(T));
    T value = flushed(apply(operation, flushed(old, flushes),
                            flushed(b[lane], flushes), c[lane]),
                      flushes);
    std::memcpy(place, &value, sizeof(T));
    if (results)
      results[lane] = old;
  }
  if (instruction.isFence)
    warp.block->order.fence(warp.index);
}

Instruction::Execute chooseType(Decoder &decoder, Atomic operation, Type type) {
  bool isAdd = operation == Atomic::Add;
  bool isSwap =
      operation == Atomic::Exchange || operation == Atomic::CompareAndSwap;
  bool isLogic = operation == Atomic::And || operation == Atomic::Or ||
                 operation == Atomic::Xor;
  bool isCounter =
      operation == Atomic::Increment || operation == Atomic::Decrement;
  if (isUntyped(type) != (isLogic || isSwap))
    decoder.rejectType(type);
  if (isCounter && type != Type::U32)
    decoder.rejectType(type);
  switch (type) {
  case Type::B16:
    if (isSwap)
      return execute<uint16_t>;
    break;
  case Type::B32:
  case Type::U32:
    return execute<uint32_t>;
  case Type::S32:
    return execute<int32_t>;
  case Type::B64:
  case Type::U64:
    return execute<uint64_t>;
  case Type::S64:
    return execute<int64_t>;
  case Type::F32:
    if (isAdd)
      return execute<float>;
    break;
  case Type::F64:
    if (isAdd)
      return execute<double>;
    break;
  case Type::F16:
    if (isAdd)
      return execute<NarrowOne<false>>;
    break;
  case Type::BF16:
    if (isAdd)
      return execute<NarrowOne<true>>;
    break;
  case Type::F16x2:
    if (isAdd)
      return execute<NarrowPair<false>>;
    break;
  case Type::BF16x2:
    if (isAdd)
      return execute<NarrowPair<true>>;
    break;
  default:
    break;
  }
  decoder.rejectType(type);
}

void decodeAtomic(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  bool hasResult = decoder.syntax.opcode == "atom";
  instruction.isStrong = true;
  decoder.takeFence();
  decoder.ignore({"relaxed", "cta", "gpu", "sys", "cluster", "noftz"});
  int space = decoder.takeOneOf({"global", "shared", "shared::cta"});
  auto operation = static_cast<Atomic>(decoder.expectOneOf(
      {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}));
  Type type = decoder.expectType();
  instruction.mode = static_cast<uint8_t>(operation);
  size_t first = hasResult;
  decoder.expectOperands(first + (operation == Atomic::CompareAndSwap ? 3 : 2));
  decoder.address(first, space < 0    ? Space::Generic
                         : space == 0 ? Space::Global
                                      : Space::Shared);
  if (hasResult)
    instruction.result = decoder.result(decoder.operand(0), type);
  instruction.sources[1] = decoder.source(first + 1, type);
  if (operation == Atomic::CompareAndSwap)
    instruction.sources[2] = decoder.source(first + 2, type);
  instruction.execute = chooseType(decoder, operation, type);
  decoder.accesses(bytesOf(type));
}

constexpr Opcode opcodes[] = {{"atom", decodeAtomic}, {"red", decodeAtomic}};

} // namespace

std::span<const Opcode> atomicOpcodes() { return opcodes; }

} // namespace fsdp::emulator
