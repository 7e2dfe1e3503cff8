//===- ParseJson.cpp - JSON of anybody's making ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ParseJson.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/StringSaver.h"

#include <array>
#include <string>

using namespace llvm;
using namespace mlir::fsdp;

namespace {
/// What the parser would not say, or not survive. What is no JSON for other
/// reasons is left to it.
struct Scan {
  size_t at = StringRef::npos;
  std::string mistake;
};
} // namespace

/// @string as others write it, in its quotes; one that is wrong as it is.
static StringRef unescape(StringRef string, BumpPtrAllocator &memory) {
  Expected<json::Value> value = json::parse(string);
  if (!value) {
    consumeError(value.takeError());
    return string;
  }
  return StringSaver(memory).save("\"" + *value->getAsString() + "\"");
}

static Scan scan(StringRef text) {
  // The keys of each object that is open.
  BumpPtrAllocator memory;
  std::array<SmallDenseSet<StringRef, 8>, kMostJsonLevels> keys;
  unsigned levels = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '[' || c == '{') {
      if (levels == kMostJsonLevels)
        return {i, "expected at most " + std::to_string(kMostJsonLevels) +
                       " levels of arrays and objects, got more"};
      keys[levels++].clear();
    } else if (c == ']' || c == '}') {
      levels -= levels != 0;
    } else if (c == '"') {
      size_t begin = i;
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
      StringRef string = text.slice(begin, i + 1);
      bool isKey = text.substr(i + 1).ltrim().starts_with(":");
      if (isKey && string.contains('\\'))
        string = unescape(string, memory);
      if (isKey && levels && !keys[levels - 1].insert(string).second)
        return {begin, "expected each key once, got " + string.str() +
                           " a second time"};
    }
  }
  return {};
}

Expected<json::Value> mlir::fsdp::parseJson(StringRef text) {
  if (Scan found = scan(text); found.at != StringRef::npos) {
    StringRef before = text.take_front(found.at);
    return createStringError(
        found.mistake + ", at line " + Twine(before.count('\n') + 1) +
        ", column " + Twine(before.size() - (before.rfind('\n') + 1) + 1));
  }
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return createStringError("expected JSON, got " +
                             toString(value.takeError()));
  return value;
}
