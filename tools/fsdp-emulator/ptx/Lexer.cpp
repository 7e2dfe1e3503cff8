//===- Lexer.cpp - Words and numbers of PTX -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/Lexer.h"

#include "ptx/Types.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace fsdp::emulator {

namespace {

bool isWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '.' || c == '%';
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : source(source) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    while (skipBlanks())
      tokens.push_back(next());
    Token end;
    end.line = line;
    tokens.push_back(end);
    return tokens;
  }

private:
  char at(size_t index) const {
    return index < source.size() ? source[index] : '\0';
  }

  /// Moves to the next token; false at the end.
  bool skipBlanks() {
    while (position < source.size()) {
      char c = source[position];
      if (c == '\n') {
        ++line;
        ++position;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        ++position;
      } else if (c == '/' && at(position + 1) == '/') {
        position = std::min(source.find('\n', position), source.size());
      } else if (c == '/' && at(position + 1) == '*') {
        skipComment();
      } else {
        return c != '\0';
      }
    }
    return false;
  }

  void skipComment() {
    size_t end = source.find("*/", position + 2);
    if (end == std::string_view::npos)
      throw LoadError(line, "expected the end of a comment, got none");
    for (; position < end; ++position)
      line += source[position] == '\n';
    position = end + 2;
  }

  Token next() {
    Token token;
    token.line = line;
    size_t begin = position;
    char c = source[position];
    if (c == '"') {
      size_t end = source.find('"', position + 1);
      if (end == std::string_view::npos)
        throw LoadError(line, "expected the end of a string, got none");
      token.kind = Token::Kind::String;
      token.text = source.substr(begin + 1, end - begin - 1);
      position = end + 1;
      return token;
    }
    if (!isWordCharacter(c)) {
      token.kind = Token::Kind::Mark;
      token.text = source.substr(begin, 1);
      ++position;
      return token;
    }
    // A word may have `::` inside, as in `shared::cta`.
    while (isWordCharacter(at(position)) ||
           (at(position) == ':' && at(position + 1) == ':'))
      position += at(position) == ':' ? 2 : 1;
    token.text = source.substr(begin, position - begin);
    token.kind = Token::Kind::Word;
    // The version 8.7 stays a word.
    if (std::isdigit(static_cast<unsigned char>(c)) &&
        token.text.find('.') == std::string_view::npos)
      readNumber(token);
    return token;
  }

  void readNumber(Token &token) {
    std::string_view digits = token.text;
    int base = 10;
    token.kind = Token::Kind::Integer;
    char second = digits.size() > 1 ? digits[1] : '\0';
    if (digits[0] == '0' && second != '\0') {
      bool isFloat32 = second == 'f' || second == 'F';
      bool isFloat64 = second == 'd' || second == 'D';
      if (isFloat32 || isFloat64) {
        token.kind = isFloat32 ? Token::Kind::Float32 : Token::Kind::Float64;
        if (digits.size() != (isFloat32 ? 10u : 18u))
          reject(token);
        base = 16;
        digits.remove_prefix(2);
      } else if (second == 'x' || second == 'X') {
        base = 16;
        digits.remove_prefix(2);
      } else if (second == 'b' || second == 'B') {
        base = 2;
        digits.remove_prefix(2);
      } else if (second != 'U') {
        base = 8;
        digits.remove_prefix(1);
      }
    }
    if (digits.size() > 1 && digits.back() == 'U')
      digits.remove_suffix(1);
    const char *end = digits.data() + digits.size();
    auto result = std::from_chars(digits.data(), end, token.value, base);
    if (result.ec != std::errc() || result.ptr != end)
      reject(token);
  }

  [[noreturn]] static void reject(const Token &token) {
    throw LoadError(token.line,
                    "expected a number, got '" + std::string(token.text) + "'");
  }

  std::string_view source;
  size_t position = 0;
  int line = 1;
};

} // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

} // namespace fsdp::emulator
