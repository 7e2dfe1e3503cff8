//===- Memory.cpp - ld, ldu, st, prefetch ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/MemoryAccess.h"

#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fsdp::emulator {

namespace {

/// Lanes of one access are of one space, as compilers make them.
bool isGlobal(const Instruction &instruction, LaneMask mask,
              const LaneAddresses &addresses) {
  if (instruction.space == Space::Generic)
    return !(addresses.of[std::countr_zero(mask)] &
             (sharedTag | localTag | parameterTag));
  return instruction.space == Space::Global ||
         instruction.space == Space::Constant;
}

/// Element of the type in memory, Register as the destination has it.
template <typename Element, typename Register>
void load(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneAddresses addresses(warp, instruction, instruction.sources[0],
                          static_cast<uint64_t>(instruction.immediate));
  uint32_t bytes = uint32_t{sizeof(Element)} * instruction.vectorLength;
  if (isGlobal(instruction, mask, addresses))
    countRequest(warp, mask, addresses, bytes, Access::Read);
  const uint8_t *from[warpSize];
  if (const uint8_t *first = resolveContiguous(
          warp, instruction, mask, addresses, bytes, Access::Read)) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      from[lane] = first + size_t{lane} * bytes;
  } else {
    alignas(16) static constexpr uint8_t nothing[32] = {};
    for (unsigned lane = 0; lane < warpSize; ++lane)
      from[lane] = mask >> lane & 1
                       ? resolve(warp, instruction, lane, addresses.of[lane],
                                 bytes, Access::Read)
                       : nothing;
  }
  if (instruction.isFence)
    warp.block->order.fence(warp.index);
  for (unsigned i = 0; i < instruction.vectorLength; ++i) {
    if (!instruction.vector[i])
      continue;
    Register values[warpSize];
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      Element element;
      std::memcpy(&element, from[lane] + sizeof(Element) * i, sizeof element);
      values[lane] = static_cast<Register>(element);
    }
    storeLanes(warp.lanes<Register>(instruction.vector[i]), values, mask);
  }
}

template <typename Element, typename Register>
void store(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneAddresses addresses(warp, instruction, instruction.sources[0],
                          static_cast<uint64_t>(instruction.immediate));
  uint32_t bytes = uint32_t{sizeof(Element)} * instruction.vectorLength;
  warp.block->order.nextInstruction();
  if (instruction.isFence)
    warp.block->order.fence(warp.index);
  if (isGlobal(instruction, mask, addresses))
    countRequest(warp, mask, addresses, bytes, Access::Write);
  uint8_t *first = resolveContiguous(warp, instruction, mask, addresses, bytes,
                                     Access::Write);
  Element elements[8][warpSize];
  for (unsigned i = 0; i < instruction.vectorLength; ++i) {
    const auto *lanes = warp.lanes<const Register>(instruction.vector[i]);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      elements[i][lane] = static_cast<Element>(lanes[lane]);
  }
  for (LaneMask left = mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    Element values[8];
    for (unsigned i = 0; i < instruction.vectorLength; ++i)
      values[i] = elements[i][lane];
    const auto *value = reinterpret_cast<const uint8_t *>(values);
    uint8_t *to = first ? first + size_t{lane} * bytes
                        : resolve(warp, instruction, lane, addresses.of[lane],
                                  bytes, Access::Write, value);
    std::memcpy(to, value, bytes);
  }
}

template <typename Element>
Instruction::Execute withRegister(bool isLoad, unsigned bytes) {
  if constexpr (sizeof(Element) <= 2)
    if (bytes == 2)
      return isLoad ? load<Element, uint16_t> : store<Element, uint16_t>;
  if constexpr (sizeof(Element) <= 4)
    if (bytes == 4)
      return isLoad ? load<Element, uint32_t> : store<Element, uint32_t>;
  return isLoad ? load<Element, uint64_t> : store<Element, uint64_t>;
}

/// Loads of signed numbers into wider registers extend their sign.
Instruction::Execute chooseAccess(Type type, bool isLoad, unsigned bytes) {
  bool hasSign = isSigned(type);
  switch (bytesOf(type)) {
  case 1:
    return hasSign ? withRegister<int8_t>(isLoad, bytes)
                   : withRegister<uint8_t>(isLoad, bytes);
  case 2:
    return hasSign ? withRegister<int16_t>(isLoad, bytes)
                   : withRegister<uint16_t>(isLoad, bytes);
  case 4:
    return hasSign ? withRegister<int32_t>(isLoad, bytes)
                   : withRegister<uint32_t>(isLoad, bytes);
  default:
    return withRegister<uint64_t>(isLoad, bytes);
  }
}

Space takeSpace(Decoder &decoder) {
  static constexpr Space spaces[] = {
      Space::Global, Space::Constant,  Space::Shared,    Space::Shared,
      Space::Local,  Space::Parameter, Space::Parameter, Space::Parameter};
  int number =
      decoder.takeOneOf({"global", "const", "shared", "shared::cta", "local",
                         "param", "param::entry", "param::func"});
  return number < 0 ? Space::Generic : spaces[number];
}

/// Orders, scopes and caches. The emulator's memory is in order, whatever they
/// say; races are looked for as they say.
void takeOrder(Decoder &decoder) {
  decoder.instruction.isStrong =
      decoder.takeOneOf({"volatile", "relaxed", "mmio"}) >= 0;
  decoder.takeFence();
  decoder.ignore({"weak", "cta", "gpu", "sys", "cluster"});
  decoder.ignore({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"});
  decoder.ignore({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                  "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B",
                  "L2::256B"});
}

void decodeAccess(Decoder &decoder, bool isLoad) {
  Instruction &instruction = decoder.instruction;
  takeOrder(decoder);
  Space space = takeSpace(decoder);
  unsigned length = decoder.takeNumber("v", {2, 4, 8});
  Type type = decoder.expectType();
  if (bitsOf(type) < 8 || bitsOf(type) > 64)
    decoder.rejectType(type);
  if (bytesOf(type) * std::max(length, 1u) > 32)
    decoder.reject("expected an access of at most 32 bytes");
  decoder.expectOperands(2);
  decoder.address(isLoad ? 1 : 0, space);

  const OperandSyntax &data = decoder.operand(isLoad ? 0 : 1);
  bool isList = data.form == OperandSyntax::Form::List;
  if (isList != (length > 0) || (isList && data.elements.size() != length))
    decoder.reject("expected as many registers as the vector has elements");
  instruction.vectorLength = static_cast<uint8_t>(std::max(length, 1u));
  unsigned bytes = 0;
  for (unsigned i = 0; i < instruction.vectorLength; ++i) {
    const OperandSyntax &element = isList ? data.elements[i] : data;
    unsigned elementBytes = 0;
    instruction.vector[i] = decoder.wideRegister(element, type, elementBytes);
    if (isLoad && instruction.vector[i] && !decoder.isRegister(element))
      decoder.reject("expected registers for the result");
    if (!isLoad && !instruction.vector[i])
      decoder.reject("expected values to store, got '_'");
    if (!instruction.vector[i])
      continue;
    if (bytes && elementBytes != bytes)
      decoder.reject("expected registers of one size");
    bytes = elementBytes;
  }
  if (!bytes)
    decoder.reject("expected a register for the result, got '_'");
  instruction.execute = chooseAccess(type, isLoad, bytes);
  decoder.accesses(bytesOf(type));
}

void decodeLoad(Decoder &decoder) { decodeAccess(decoder, true); }
void decodeStore(Decoder &decoder) { decodeAccess(decoder, false); }

void decodePrefetch(Decoder &decoder) {
  Space space = takeSpace(decoder);
  decoder.expectOneOf({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  decoder.expectOperands(1);
  decoder.address(0, space);
  decoder.instruction.execute = [](Warp &, const Instruction &, LaneMask) {};
}

constexpr Opcode opcodes[] = {
    {"ld", decodeLoad},
    {"ldu", decodeLoad},
    {"st", decodeStore},
    {"prefetch", decodePrefetch},
};

} // namespace

std::span<const Opcode> memoryOpcodes() { return opcodes; }

} // namespace fsdp::emulator
