//===- Decoder.cpp - One instruction on its way into a kernel -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/Decoder.h"

#include "instructions/KernelBuilder.h"

#include <algorithm>
#include <unordered_map>

namespace fsdp::emulator {

//===----------------------------------------------------------------------===//
// Modifiers
//===----------------------------------------------------------------------===//

bool Decoder::take(std::string_view modifier) {
  for (size_t i = 0; i < isTaken.size(); ++i) {
    if (isTaken[i] || syntax.modifiers[i] != modifier)
      continue;
    isTaken[i] = true;
    return true;
  }
  return false;
}

void Decoder::ignore(std::initializer_list<std::string_view> modifiers) {
  for (std::string_view modifier : modifiers)
    take(modifier);
}

int Decoder::takeOneOf(std::initializer_list<std::string_view> names) {
  int number = 0;
  for (std::string_view name : names) {
    if (take(name))
      return number;
    ++number;
  }
  return -1;
}

unsigned Decoder::expectOneOf(std::initializer_list<std::string_view> names) {
  int number = takeOneOf(names);
  if (number >= 0)
    return static_cast<unsigned>(number);
  std::string list;
  for (std::string_view name : names)
    list += (list.empty() ? "." : ", .") + std::string(name);
  reject("expected one of " + list);
}

Type Decoder::takeType() {
  for (size_t i = 0; i < isTaken.size(); ++i) {
    Type type = parseType(syntax.modifiers[i]);
    if (isTaken[i] || type == Type::None)
      continue;
    isTaken[i] = true;
    return type;
  }
  return Type::None;
}

Type Decoder::expectType() {
  Type type = takeType();
  if (type == Type::None)
    reject("expected a type, got none");
  return type;
}

unsigned Decoder::takeNumber(std::string_view prefix,
                             std::initializer_list<unsigned> values) {
  for (unsigned value : values)
    if (take(std::string(prefix) + std::to_string(value)))
      return value;
  return 0;
}

void Decoder::finish() const {
  for (size_t i = 0; i < isTaken.size(); ++i)
    if (!isTaken[i])
      reject("expected modifiers that the emulator models, got '." +
             std::string(syntax.modifiers[i]) + "'");
}

void Decoder::reject(const std::string &message) const {
  throw LoadError(syntax.line,
                  message + ": " +
                      builder.result().module->lineText(syntax.line));
}

void Decoder::rejectType(Type type) const {
  reject("expected a type that '" + std::string(syntax.opcode) +
         "' has in the emulator, got '." + nameOf(type) + "'");
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

const OperandSyntax &Decoder::operand(size_t index) const {
  if (index >= operandCount())
    reject("expected more than " + std::to_string(operandCount()) +
           " operands");
  return syntax.operands[index];
}

void Decoder::expectOperands(size_t least, size_t most) const {
  if (operandCount() < least || operandCount() > most)
    reject("expected " + std::to_string(least) +
           (most > least ? " to " + std::to_string(most) : "") +
           " operands, got " + std::to_string(operandCount()));
}

bool Decoder::isRegister(const OperandSyntax &operand) const {
  const Symbol *symbol = operand.form == OperandSyntax::Form::Name
                             ? builder.find(operand.name)
                             : nullptr;
  return symbol && symbol->kind == Symbol::Kind::Register;
}

static const Symbol &expectRegister(const Decoder &decoder,
                                    std::string_view name) {
  const Symbol *symbol = decoder.builder.find(name);
  if (!symbol || symbol->kind != Symbol::Kind::Register)
    decoder.reject("expected a register, got '" + std::string(name) + "'");
  return *symbol;
}

static void expectBits(const Decoder &decoder, std::string_view name, Type type,
                       unsigned bits) {
  if (bits != bitsOf(type))
    decoder.reject("expected " + std::to_string(bitsOf(type)) + " bits in '" +
                   std::string(name) + "', got " + std::to_string(bits));
}

Slot Decoder::predicate(std::string_view name) const {
  const Symbol &symbol = expectRegister(*this, name);
  expectBits(*this, name, Type::Pred, bitsOf(symbol.type));
  return symbol.slot;
}

Slot Decoder::result(const OperandSyntax &operand, Type type) const {
  if (operand.form == OperandSyntax::Form::Discard)
    return {};
  if (operand.form != OperandSyntax::Form::Name || operand.isNegated)
    reject("expected a register for the result");
  const Symbol &symbol = expectRegister(*this, operand.name);
  expectBits(*this, operand.name, type, bitsOf(symbol.type));
  return symbol.slot;
}

Slot Decoder::result(size_t index, Type type) const {
  Slot slot = result(operand(index), type);
  if (!slot)
    reject("expected a register for the result, got '_'");
  return slot;
}

Slot Decoder::source(size_t index, Type type) const {
  return source(operand(index), type);
}

Slot Decoder::source(const OperandSyntax &operand, Type type) const {
  if (operand.isNegated)
    reject("expected an operand without '!'");
  unsigned bytes = std::max(2u, bytesOf(type));
  if (operand.form == OperandSyntax::Form::Number) {
    if (type == Type::Pred)
      return builder.predicateConstant(operand.value != 0);
    bool isFloat32 = operand.numberKind == Token::Kind::Float32;
    bool isFloat64 = operand.numberKind == Token::Kind::Float64;
    if ((isFloat32 && bytes != 4) || (isFloat64 && bytes != 8))
      reject(std::string("expected a literal of type .") + nameOf(type));
    return builder.constant(operand.value, bytes);
  }
  if (operand.form != OperandSyntax::Form::Name)
    reject("expected a register, a literal or a symbol");
  unsigned specialBytes = 0;
  if (auto special = builder.special(operand.name, specialBytes)) {
    expectBits(*this, operand.name, type, specialBytes * 8);
    return *special;
  }
  const Symbol *symbol = builder.find(operand.name);
  if (symbol && symbol->kind == Symbol::Kind::Variable) {
    if (bytes != 8 && !(bytes == 4 && symbol->space != Space::Global))
      reject("expected 64 bits for an address");
    return builder.addressOf(*symbol, bytes);
  }
  const Symbol &reg = expectRegister(*this, operand.name);
  expectBits(*this, operand.name, type, bitsOf(reg.type));
  return reg.slot;
}

Slot Decoder::wideRegister(const OperandSyntax &operand, Type type,
                           unsigned &bytes) const {
  bytes = std::max(2u, bytesOf(type));
  if (operand.form == OperandSyntax::Form::Discard)
    return {};
  if (operand.form == OperandSyntax::Form::Number)
    return source(operand, type);
  unsigned specialBytes = 0;
  if (auto special = builder.special(operand.name, specialBytes)) {
    bytes = specialBytes;
    return *special;
  }
  if (operand.form != OperandSyntax::Form::Name)
    reject("expected a register");
  const Symbol &symbol = expectRegister(*this, operand.name);
  if (bitsOf(symbol.type) < bitsOf(type) || symbol.type == Type::Pred)
    reject("expected " + std::to_string(bitsOf(type)) + " bits or more in '" +
           std::string(operand.name) + "', got " +
           std::to_string(bitsOf(symbol.type)));
  bytes = std::max(2u, bytesOf(symbol.type));
  return symbol.slot;
}

void Decoder::address(size_t index, Space space) {
  const OperandSyntax &from = operand(index);
  if (from.form != OperandSyntax::Form::Address)
    reject("expected an address in brackets");
  instruction.immediate = from.offset;
  instruction.space = space;
  instruction.addressBytes = 8;
  if (from.name.empty()) {
    instruction.sources[0] = builder.constant(0, 8);
    return;
  }
  const Symbol *symbol = builder.find(from.name);
  if (!symbol)
    reject("expected a register or a variable, got '" + std::string(from.name) +
           "'");
  if (symbol->kind == Symbol::Kind::Register) {
    if (bitsOf(symbol->type) != 64 && bitsOf(symbol->type) != 32)
      reject("expected an address of 32 or 64 bits");
    instruction.addressBytes = static_cast<uint8_t>(bytesOf(symbol->type));
    instruction.sources[0] = symbol->slot;
    return;
  }
  bool isLocalParameter =
      space == Space::Parameter && symbol->space == Space::Local;
  if (space == Space::Generic || isLocalParameter)
    instruction.space = symbol->space;
  else if (space != symbol->space)
    reject("expected a variable in " + std::string(nameOf(space)) +
           " memory, got one in " + nameOf(symbol->space));
  instruction.sources[0] = builder.addressOf(*symbol, 8);
}

void Decoder::accesses(unsigned bytes) const {
  Space space = instruction.space;
  Kernel &kernel = builder.result();
  if (space == Space::Shared || space == Space::Generic)
    kernel.sharedGranule = std::min(kernel.sharedGranule, bytes);
  if (space == Space::Global || space == Space::Constant ||
      space == Space::Generic)
    kernel.globalGranule = std::min(kernel.globalGranule, bytes);
}

void Decoder::takeFence() {
  if (takeOneOf({"acquire", "release", "acq_rel"}) < 0)
    return;
  instruction.isStrong = instruction.isFence = true;
  builder.result().hasFences = builder.result().hasThreadFences = true;
}

int64_t Decoder::immediate(size_t index) const {
  if (operand(index).form != OperandSyntax::Form::Number ||
      operand(index).numberKind != Token::Kind::Integer)
    reject("expected an integer literal");
  return static_cast<int64_t>(operand(index).value);
}

void Decoder::simpleOperands(Type type, size_t sources) {
  expectOperands(sources + 1);
  instruction.result = result(0, type);
  for (size_t i = 0; i < sources; ++i)
    instruction.sources[i] = source(i + 1, type);
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

static const auto &opcodeTable() {
  static const auto table = [] {
    std::unordered_map<std::string_view, void (*)(Decoder &)> all;
    for (auto opcodes :
         {controlOpcodes(), integerOpcodes(), multiplyOpcodes(), bitOpcodes(),
          floatOpcodes(), floatFunctionOpcodes(), compareOpcodes(),
          convertOpcodes(), moveOpcodes(), memoryOpcodes(), atomicOpcodes(),
          asyncCopyOpcodes(), warpOpcodes(), matrixOpcodes()})
      for (const Opcode &opcode : opcodes)
        all[opcode.name] = opcode.decode;
    return all;
  }();
  return table;
}

void decodeInstruction(KernelBuilder &builder, const InstructionSyntax &syntax,
                       Instruction &instruction) {
  Decoder decoder(builder, syntax, instruction);
  auto found = opcodeTable().find(syntax.opcode);
  if (found == opcodeTable().end())
    decoder.reject("expected an instruction that the emulator models, got '" +
                   std::string(syntax.opcode) + "'");
  if (!syntax.guard.empty()) {
    instruction.guard = decoder.predicate(syntax.guard);
    instruction.isGuardNegated = syntax.isGuardNegated;
  }
  found->second(decoder);
  decoder.finish();
}

} // namespace fsdp::emulator
