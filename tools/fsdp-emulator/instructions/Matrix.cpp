//===- Matrix.cpp - mma, ldmatrix, stmatrix, movmatrix --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Products are summed in float64 and rounded once. How a device orders and
// rounds them is not specified.
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

void expectWholeWarp(const Warp &warp, const Instruction &instruction,
                     LaneMask mask) {
  if (mask != allLanes)
    fail(warp, instruction, static_cast<unsigned>(std::countr_zero(mask)),
         FaultCode::LaunchFailed,
         "expected all lanes of the warp, got " + hexOf(mask));
}

void takeAligned(Decoder &decoder) {
  if (!decoder.take("sync") || !decoder.take("aligned"))
    decoder.reject("expected .sync.aligned");
  decoder.instruction.flow = Flow::Synchronize;
  decoder.instruction.members = decoder.builder.constant(allLanes, 4);
}

/// Registers of a list from `first` of the instruction's vector on.
void takeRegisters(Decoder &decoder, size_t index, size_t count, size_t first,
                   bool areResults) {
  const OperandSyntax &list = decoder.operand(index);
  bool isSingle = count == 1 && list.form == OperandSyntax::Form::Name;
  if (!isSingle &&
      (list.form != OperandSyntax::Form::List || list.elements.size() != count))
    decoder.reject("expected " + std::to_string(count) + " registers");
  for (size_t i = 0; i < count; ++i) {
    const OperandSyntax &element = isSingle ? list : list.elements[i];
    Slot &slot = decoder.instruction.vector[first + i];
    slot = areResults ? decoder.result(element, Type::B32)
                      : decoder.source(element, Type::B32);
    if (!slot)
      decoder.reject("expected a register, got '_'");
  }
}

//===----------------------------------------------------------------------===//
// mma: D = A B + C, where A has 16 rows and B 8 columns
//===----------------------------------------------------------------------===//

enum class Element : uint8_t { F16, BF16, TF32 };

float loadElement(Element element, uint32_t bits) {
  switch (element) {
  case Element::F16:
    return floatOfF16(static_cast<uint16_t>(bits));
  case Element::BF16:
    return floatOfBF16(static_cast<uint16_t>(bits));
  case Element::TF32:
    return std::bit_cast<float>(bits & 0xffffe000u);
  }
  return 0;
}

/// Register i of A holds rows of its group, or those 8 below, and the i / 2-th
/// part of the columns; of B, the i-th part of the rows.
template <Element element, unsigned depth>
struct Operands {
  static constexpr unsigned perRegister = element == Element::TF32 ? 1 : 2;
  static constexpr unsigned part = 4 * perRegister;
  static constexpr unsigned ofA = 2 * depth / part;
  static constexpr unsigned ofB = depth / part;

  float a[16][depth];
  float b[depth][8];

  Operands(const Warp &warp, const Slot *slots) {
    for (unsigned i = 0; i < ofA + ofB; ++i) {
      const auto *lanes = warp.lanes<const uint32_t>(slots[i]);
      for (unsigned lane = 0; lane < warpSize; ++lane)
        for (unsigned k = 0; k < perRegister; ++k) {
          unsigned group = lane / 4, at = lane % 4 * perRegister + k;
          float value = loadElement(element, lanes[lane] >> 16 * k);
          if (i < ofA)
            a[group + 8 * (i % 2)][at + part * (i / 2)] = value;
          else
            b[at + part * (i - ofA)][group] = value;
        }
    }
  }
};

/// vector: D, A, B, C. Lane's i-th number of C and D.
unsigned rowOf(unsigned lane, unsigned i) { return lane / 4 + 8 * (i / 2); }
unsigned columnOf(unsigned lane, unsigned i) { return lane % 4 * 2 + i % 2; }

template <Element element, unsigned depth, bool isNarrow>
void multiply(Warp &warp, const Instruction &instruction, LaneMask mask) {
  expectWholeWarp(warp, instruction, mask);
  constexpr unsigned ofD = isNarrow ? 2 : 4;
  using Inputs = Operands<element, depth>;
  const Slot *slots = instruction.vector;
  Inputs inputs(warp, slots + ofD);
  const Slot *slotsOfC = slots + ofD + Inputs::ofA + Inputs::ofB;
  double sums[16][8];
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      double &sum = sums[rowOf(lane, i)][columnOf(lane, i)];
      if constexpr (isNarrow)
        sum = floatOfF16(
            warp.lanes<const uint16_t>(slotsOfC[i / 2])[2 * lane + i % 2]);
      else
        sum = warp.lanes<const float>(slotsOfC[i])[lane];
    }
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned column = 0; column < 8; ++column)
        sums[row][column] += static_cast<double>(inputs.a[row][k]) *
                             static_cast<double>(inputs.b[k][column]);
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      double sum = sums[rowOf(lane, i)][columnOf(lane, i)];
      if constexpr (isNarrow)
        warp.lanes<uint16_t>(slots[i / 2])[2 * lane + i % 2] =
            f16OfFloat(roundToOdd(sum));
      else
        warp.lanes<float>(slots[i])[lane] = canonical(static_cast<float>(sum));
    }
}

template <Element element, unsigned depth, bool isNarrow>
void useMultiply(Decoder &decoder) {
  using Inputs = Operands<element, depth>;
  constexpr unsigned ofD = isNarrow ? 2 : 4;
  decoder.expectOperands(4);
  takeRegisters(decoder, 0, ofD, 0, true);
  takeRegisters(decoder, 1, Inputs::ofA, ofD, false);
  takeRegisters(decoder, 2, Inputs::ofB, ofD + Inputs::ofA, false);
  takeRegisters(decoder, 3, ofD, ofD + Inputs::ofA + Inputs::ofB, false);
  decoder.instruction.execute = multiply<element, depth, isNarrow>;
}

void decodeMma(Decoder &decoder) {
  takeAligned(decoder);
  unsigned shape = decoder.expectOneOf({"m16n8k16", "m16n8k8", "m16n8k4"});
  if (!decoder.take("row") || !decoder.take("col"))
    decoder.reject("expected .row.col");
  Type d = decoder.expectType(), a = decoder.expectType();
  Type b = decoder.expectType(), c = decoder.expectType();
  bool isTF32 = a == Type::TF32;
  bool isNarrow = d == Type::F16 && a == Type::F16;
  if (a != b || d != c || (d != Type::F32 && !isNarrow) ||
      isTF32 != (shape == 2 || (shape == 1 && isTF32)))
    decoder.reject("expected types and a shape that the emulator multiplies");
  if (isTF32 && shape == 1)
    useMultiply<Element::TF32, 8, false>(decoder);
  else if (isTF32)
    useMultiply<Element::TF32, 4, false>(decoder);
  else if (a == Type::BF16 && shape == 0)
    useMultiply<Element::BF16, 16, false>(decoder);
  else if (a == Type::BF16)
    useMultiply<Element::BF16, 8, false>(decoder);
  else if (a != Type::F16)
    decoder.rejectType(a);
  else if (isNarrow && shape == 0)
    useMultiply<Element::F16, 16, true>(decoder);
  else if (isNarrow)
    useMultiply<Element::F16, 8, true>(decoder);
  else if (shape == 0)
    useMultiply<Element::F16, 16, false>(decoder);
  else
    useMultiply<Element::F16, 8, false>(decoder);
}

//===----------------------------------------------------------------------===//
// Tiles of 8 rows of 8 numbers of 16 bits
//===----------------------------------------------------------------------===//

using Tile = uint16_t[8][8];

/// Lane's register has numbers 2 (lane % 4) and the next of row lane / 4, or
/// those of the column.
uint32_t registerOfTile(const Tile &tile, unsigned lane, bool isTransposed) {
  unsigned group = lane / 4, first = lane % 4 * 2;
  if (isTransposed)
    return tile[first][group] | uint32_t{tile[first + 1][group]} << 16;
  return tile[group][first] | uint32_t{tile[group][first + 1]} << 16;
}

void setInTile(Tile &tile, unsigned lane, bool isTransposed, uint32_t bits) {
  unsigned group = lane / 4, first = lane % 4 * 2;
  for (unsigned k = 0; k < 2; ++k)
    (isTransposed ? tile[first + k][group] : tile[group][first + k]) =
        static_cast<uint16_t>(bits >> 16 * k);
}

/// Lanes 8 i to 8 i + 7 have the addresses of tile i's rows.
void loadTiles(Warp &warp, const Instruction &instruction, LaneMask mask) {
  expectWholeWarp(warp, instruction, mask);
  LaneAddresses addresses(warp, instruction, instruction.sources[0],
                          static_cast<uint64_t>(instruction.immediate));
  for (unsigned i = 0; i < instruction.vectorLength; ++i) {
    Tile tile;
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = 8 * i + row;
      std::memcpy(tile[row],
                  resolve(warp, instruction, lane, addresses.of[lane], 16,
                          Access::Read),
                  16);
    }
    auto *registers = warp.lanes<uint32_t>(instruction.vector[i]);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      registers[lane] = registerOfTile(tile, lane, instruction.flag);
  }
}

void storeTiles(Warp &warp, const Instruction &instruction, LaneMask mask) {
  expectWholeWarp(warp, instruction, mask);
  warp.block->order.nextInstruction();
  LaneAddresses addresses(warp, instruction, instruction.sources[0],
                          static_cast<uint64_t>(instruction.immediate));
  for (unsigned i = 0; i < instruction.vectorLength; ++i) {
    Tile tile;
    const auto *registers = warp.lanes<const uint32_t>(instruction.vector[i]);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      setInTile(tile, lane, instruction.flag, registers[lane]);
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = 8 * i + row;
      const auto *bytes = reinterpret_cast<const uint8_t *>(tile[row]);
      std::memcpy(resolve(warp, instruction, lane, addresses.of[lane], 16,
                          Access::Write, bytes),
                  bytes, 16);
    }
  }
}

void decodeTiles(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  bool isLoad = decoder.syntax.opcode == "ldmatrix";
  takeAligned(decoder);
  if (!decoder.take("m8n8"))
    decoder.reject("expected .m8n8");
  unsigned count = decoder.takeNumber("x", {1, 2, 4});
  instruction.flag = decoder.take("trans");
  int space = decoder.takeOneOf({"shared", "shared::cta"});
  if (decoder.expectType() != Type::B16 || !count)
    decoder.reject("expected tiles of b16");
  decoder.expectOperands(2);
  instruction.vectorLength = static_cast<uint8_t>(count);
  takeRegisters(decoder, isLoad ? 0 : 1, count, 0, isLoad);
  decoder.address(isLoad ? 1 : 0, space < 0 ? Space::Generic : Space::Shared);
  instruction.execute = isLoad ? loadTiles : storeTiles;
}

void decodeTranspose(Decoder &decoder) {
  takeAligned(decoder);
  if (!decoder.take("m8n8") || !decoder.take("trans"))
    decoder.reject("expected .m8n8.trans");
  if (decoder.expectType() != Type::B16)
    decoder.reject("expected tiles of b16");
  decoder.simpleOperands(Type::B32, 1);
  decoder.instruction.execute = [](Warp &warp, const Instruction &instruction,
                                   LaneMask mask) {
    expectWholeWarp(warp, instruction, mask);
    Tile tile;
    const auto *from = warp.lanes<const uint32_t>(instruction.sources[0]);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      setInTile(tile, lane, false, from[lane]);
    auto *to = warp.lanes<uint32_t>(instruction.result);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      to[lane] = registerOfTile(tile, lane, true);
  };
}

constexpr Opcode opcodes[] = {
    {"mma", decodeMma},
    {"ldmatrix", decodeTiles},
    {"stmatrix", decodeTiles},
    {"movmatrix", decodeTranspose},
};

} // namespace

std::span<const Opcode> matrixOpcodes() { return opcodes; }

} // namespace fsdp::emulator
