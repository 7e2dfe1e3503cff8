//===- Parser.h - Tokens of PTX, and what instructions consist of ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_PTX_PARSER_H
#define FSDP_EMULATOR_PTX_PARSER_H

#include "ptx/Syntax.h"

#include <algorithm>

namespace fsdp::emulator {

/// Walks over tokens: what the parsers of instructions and of directives
/// share.
class TokenCursor {
public:
  explicit TokenCursor(std::vector<Token> tokens) : tokens(std::move(tokens)) {}

  const Token &peek(size_t ahead = 0) const {
    return tokens[std::min(position + ahead, tokens.size() - 1)];
  }
  bool atEnd() const { return peek().kind == Token::Kind::End; }
  bool is(std::string_view text) const { return peek().is(text); }
  Token take();
  /// Takes the next token if it is `text`.
  bool takeIf(std::string_view text);
  void expect(std::string_view text);
  std::string_view expectName(const char *what);
  /// An unsigned integer.
  uint64_t expectInteger(const char *what);
  /// A type directive: .b32.
  Type expectType();
  /// Everything up to the end of this line.
  void skipLine();
  [[noreturn]] void reject(const std::string &expected) const;

private:
  std::vector<Token> tokens;
  size_t position = 0;
};

/// One instruction with its guard, up to its semicolon.
InstructionSyntax parseInstruction(TokenCursor &cursor);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_PTX_PARSER_H
