//===- Lexer.h - Words and numbers of PTX ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_PTX_LEXER_H
#define FSDP_EMULATOR_PTX_LEXER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace fsdp::emulator {

struct Token {
  enum class Kind : uint8_t {
    End,
    /// An identifier, a directive or an opcode with its modifiers.
    Word,
    Integer,
    /// 0f and eight digits.
    Float32,
    /// 0d and sixteen digits.
    Float64,
    String,
    /// One character.
    Mark,
  };

  Kind kind = Kind::End;
  std::string_view text;
  int line = 0;
  /// Of numbers: the value, or the bits of a float.
  uint64_t value = 0;

  bool is(std::string_view other) const {
    return text == other && kind != Kind::String;
  }
  bool isNumber() const {
    return kind == Kind::Integer || kind == Kind::Float32 ||
           kind == Kind::Float64;
  }
};

/// The tokens of `source`, which they point into; the last one is an End.
/// Throws LoadError.
std::vector<Token> tokenize(std::string_view source);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_PTX_LEXER_H
