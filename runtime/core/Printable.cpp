//===- Printable.cpp - Text that a terminal may show ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Printable.h"

#include <cstdint>
#include <cstdio>

namespace fsdp::rt {

namespace {

/// Bytes of the UTF-8 character that `text` begins with, and the character;
/// 0 bytes where it begins with none.
size_t decode(std::string_view text, uint32_t &character) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = at(0);
  if (first < 0x80) {
    character = first;
    return 1;
  }
  size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes)
    return 0;
  character = first & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80)
      return 0;
    character = character << 6 | (at(i) & 0x3f);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isSurrogate = character >= 0xd800 && character <= 0xdfff;
  return character < least[bytes] || character > 0x10ffff || isSurrogate
             ? 0
             : bytes;
}

/// Control characters, those that end lines or change the direction of what
/// follows, and those that show nothing.
bool isObeyed(uint32_t character) {
  return (character < 0x20 && character != '\n') ||
         (character >= 0x7f && character < 0xa0) || character == 0x61c ||
         (character >= 0x200b && character <= 0x200f) ||
         (character >= 0x2028 && character <= 0x202e) ||
         (character >= 0x2060 && character <= 0x206f) || character == 0xfeff;
}

} // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    uint32_t character = 0;
    size_t bytes = decode(text, character);
    bool isShown = bytes > 0 && !isObeyed(character);
    if (bytes == 0)
      bytes = 1;
    for (size_t i = 0; i < bytes; ++i) {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(text[i])));
      shown += isShown ? std::string(1, text[i]) : escaped;
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

} // namespace fsdp::rt
