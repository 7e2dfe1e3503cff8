//===- Decoder.h - One instruction on its way into a kernel ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_DECODER_H
#define FSDP_EMULATOR_INSTRUCTIONS_DECODER_H

#include "execution/Kernel.h"

#include <initializer_list>
#include <span>

namespace fsdp::emulator {

class KernelBuilder;

/// What an opcode's function is given: it takes every modifier and operand that
/// it knows, and says how the instruction computes. What nobody took is an
/// error.
class Decoder {
public:
  Decoder(KernelBuilder &builder, const InstructionSyntax &syntax,
          Instruction &instruction)
      : builder(builder), syntax(syntax), instruction(instruction),
        isTaken(syntax.modifiers.size()) {}

  KernelBuilder &builder;
  const InstructionSyntax &syntax;
  Instruction &instruction;

  /// Takes `modifier` if it is there.
  bool take(std::string_view modifier);
  /// Takes any of `modifiers`, which change nothing here.
  void ignore(std::initializer_list<std::string_view> modifiers);
  /// Which of `names` is there, which it takes; -1 for none.
  int takeOneOf(std::initializer_list<std::string_view> names);
  /// The same, but one has to be there.
  unsigned expectOneOf(std::initializer_list<std::string_view> names);
  /// The first type that was not taken yet; None if there is none.
  Type takeType();
  Type expectType();
  /// The number behind `prefix` in a modifier, as in v4 or x2; 0 without one.
  unsigned takeNumber(std::string_view prefix,
                      std::initializer_list<unsigned> values);

  size_t operandCount() const { return syntax.operands.size(); }
  const OperandSyntax &operand(size_t index) const;
  void expectOperands(size_t count) const { expectOperands(count, count); }
  void expectOperands(size_t least, size_t most) const;

  /// A register that has as many bits as the type, or a predicate.
  Slot result(size_t index, Type type) const;
  /// The same; no slot for `_`.
  Slot result(const OperandSyntax &operand, Type type) const;
  /// A register, a literal or the address of a symbol.
  Slot source(size_t index, Type type) const;
  Slot source(const OperandSyntax &operand, Type type) const;
  /// A predicate without `!`.
  Slot predicate(std::string_view name) const;
  /// A register of `bytes` or more, as loads, stores and conversions have, and
  /// how many bytes it has.
  Slot wideRegister(const OperandSyntax &operand, Type type,
                    unsigned &bytes) const;
  bool isRegister(const OperandSyntax &operand) const;
  /// Fills in the slot, the offset and, where `space` is generic and the
  /// operand a symbol, the space of an address.
  void address(size_t index, Space space);
  /// The instruction accesses its space in pieces of `bytes` or more.
  void accesses(unsigned bytes) const;
  /// Takes .acquire, .release and .acq_rel, which order other accesses, too.
  void takeFence();
  /// A literal.
  int64_t immediate(size_t index) const;

  /// Result 0 and sources behind it, all of `type`.
  void simpleOperands(Type type, size_t sources);

  void finish() const;
  [[noreturn]] void reject(const std::string &message) const;
  /// For combinations of modifiers that are none.
  [[noreturn]] void rejectType(Type type) const;

private:
  std::vector<bool> isTaken;
};

struct Opcode {
  const char *name;
  void (*decode)(Decoder &decoder);
};

/// One for each file of instructions.
std::span<const Opcode> controlOpcodes();
std::span<const Opcode> integerOpcodes();
std::span<const Opcode> multiplyOpcodes();
std::span<const Opcode> bitOpcodes();
std::span<const Opcode> floatOpcodes();
std::span<const Opcode> floatFunctionOpcodes();
std::span<const Opcode> compareOpcodes();
std::span<const Opcode> convertOpcodes();
std::span<const Opcode> moveOpcodes();
std::span<const Opcode> memoryOpcodes();
std::span<const Opcode> atomicOpcodes();
std::span<const Opcode> asyncCopyOpcodes();
std::span<const Opcode> warpOpcodes();
std::span<const Opcode> matrixOpcodes();

/// Throws LoadError for instructions that the emulator does not model.
void decodeInstruction(KernelBuilder &builder, const InstructionSyntax &syntax,
                       Instruction &instruction);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_DECODER_H
