//===- InstructionParser.cpp - Instructions and their operands ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/Parser.h"

namespace fsdp::emulator {

Token TokenCursor::take() {
  Token token = peek();
  if (!atEnd())
    ++position;
  return token;
}

bool TokenCursor::takeIf(std::string_view text) {
  if (!is(text))
    return false;
  take();
  return true;
}

void TokenCursor::expect(std::string_view text) {
  if (!takeIf(text))
    reject("'" + std::string(text) + "'");
}

std::string_view TokenCursor::expectName(const char *what) {
  if (peek().kind != Token::Kind::Word || peek().text[0] == '.')
    reject(what);
  return take().text;
}

uint64_t TokenCursor::expectInteger(const char *what) {
  if (peek().kind != Token::Kind::Integer)
    reject(what);
  return take().value;
}

Type TokenCursor::expectType() {
  std::string_view text = peek().text;
  Type type = text.size() > 1 && text[0] == '.' ? parseType(text.substr(1))
                                                : Type::None;
  if (type == Type::None)
    reject("a type");
  take();
  return type;
}

void TokenCursor::skipLine() {
  for (int line = peek().line; !atEnd() && peek().line == line;)
    take();
}

void TokenCursor::reject(const std::string &expected) const {
  std::string got = atEnd() ? "the end" : "'" + std::string(peek().text) + "'";
  throw LoadError(peek().line, "expected " + expected + ", got " + got);
}

namespace {

/// Splits ld.global.v4.b32 at its dots; `::` stays inside of a modifier.
void splitOpcode(std::string_view text, InstructionSyntax &instruction) {
  size_t dot = text.find('.');
  instruction.opcode = text.substr(0, dot);
  while (dot != std::string_view::npos) {
    size_t next = text.find('.', dot + 1);
    instruction.modifiers.push_back(text.substr(
        dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
}

OperandSyntax parseOperand(TokenCursor &cursor);

void parseNumber(TokenCursor &cursor, OperandSyntax &operand, bool isMinus) {
  Token token = cursor.take();
  operand.form = OperandSyntax::Form::Number;
  operand.numberKind = token.kind;
  operand.value = token.value;
  if (!isMinus)
    return;
  if (token.kind == Token::Kind::Float32)
    operand.value ^= 0x80000000u;
  else if (token.kind == Token::Kind::Float64)
    operand.value ^= uint64_t{1} << 63;
  else
    operand.value = 0 - operand.value;
}

void parseList(TokenCursor &cursor, OperandSyntax &operand,
               std::string_view end) {
  operand.form = OperandSyntax::Form::List;
  while (!cursor.is(end)) {
    operand.elements.push_back(parseOperand(cursor));
    if (!cursor.is(end))
      cursor.expect(",");
  }
  cursor.expect(end);
}

void parseAddress(TokenCursor &cursor, OperandSyntax &operand) {
  operand = parseOperand(cursor);
  if (operand.form != OperandSyntax::Form::Name &&
      operand.form != OperandSyntax::Form::Number)
    cursor.reject("an address");
  if (operand.form == OperandSyntax::Form::Number)
    operand.offset = static_cast<int64_t>(operand.value);
  operand.form = OperandSyntax::Form::Address;
  // + 4, + -4, or -4.
  bool isPlus = cursor.takeIf("+");
  bool isMinus = cursor.takeIf("-");
  if (isPlus || isMinus) {
    auto offset =
        static_cast<int64_t>(cursor.expectInteger("an offset in bytes"));
    operand.offset += isMinus ? -offset : offset;
  }
  cursor.expect("]");
}

OperandSyntax parseOperand(TokenCursor &cursor) {
  OperandSyntax operand;
  if (cursor.takeIf("{")) {
    parseList(cursor, operand, "}");
    return operand;
  }
  if (cursor.takeIf("(")) {
    parseList(cursor, operand, ")");
    return operand;
  }
  if (cursor.takeIf("[")) {
    parseAddress(cursor, operand);
    return operand;
  }
  operand.isNegated = cursor.takeIf("!");
  bool isMinus = cursor.takeIf("-");
  if (cursor.peek().isNumber()) {
    parseNumber(cursor, operand, isMinus);
    return operand;
  }
  if (isMinus)
    cursor.reject("a number");
  operand.name = cursor.expectName("an operand");
  if (operand.name == "_")
    operand.form = OperandSyntax::Form::Discard;
  if (cursor.takeIf("|"))
    operand.second = cursor.expectName("a predicate");
  return operand;
}

} // namespace

InstructionSyntax parseInstruction(TokenCursor &cursor) {
  InstructionSyntax instruction;
  instruction.line = cursor.peek().line;
  if (cursor.takeIf("@")) {
    instruction.isGuardNegated = cursor.takeIf("!");
    instruction.guard = cursor.expectName("a predicate");
  }
  splitOpcode(cursor.expectName("an instruction"), instruction);
  while (!cursor.is(";")) {
    instruction.operands.push_back(parseOperand(cursor));
    if (!cursor.is(";"))
      cursor.expect(",");
  }
  cursor.expect(";");
  return instruction;
}

} // namespace fsdp::emulator
