//===- OptionWords.h - Values of options in words ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only list of an option's words is getWords of its enumeration: passes,
// command lines, help, messages and reports read it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_OPTIONWORDS_H
#define FSDP_SUPPORT_OPTIONWORDS_H

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>
#include <string>

namespace mlir::fsdp {

template <typename Enum>
struct OptionWord {
  Enum value;
  llvm::StringRef word, help;
};

/// All values of @Enum, in the order of help.
template <typename Enum>
llvm::ArrayRef<OptionWord<Enum>> getWords();

/// Defines getWords of ENUM, which rows of the table call E.
#define FSDP_WORDS(ENUM, ...)                                                  \
  template <>                                                                  \
  inline llvm::ArrayRef<OptionWord<ENUM>> getWords() {                         \
    using E = ENUM;                                                            \
    static const OptionWord<E> words[] = {__VA_ARGS__};                        \
    return words;                                                              \
  }

template <typename Enum>
llvm::StringRef getWord(Enum value) {
  for (const OptionWord<Enum> &it : getWords<Enum>())
    if (it.value == value)
      return it.word;
  llvm_unreachable("expected a word for each value");
}

template <typename Enum>
std::optional<Enum> parseWord(llvm::StringRef text) {
  for (const OptionWord<Enum> &it : getWords<Enum>())
    if (it.word == text)
      return it.value;
  return std::nullopt;
}

/// "exe, so or llvm".
inline std::string joinOr(llvm::ArrayRef<llvm::StringRef> words) {
  std::string last = words.back().str();
  if (words.size() == 1)
    return last;
  return llvm::join(words.drop_back(), ", ") + " or " + last;
}

template <typename Enum>
std::string listWords() {
  return joinOr(llvm::map_to_vector(
      getWords<Enum>(), [](const OptionWord<Enum> &it) { return it.word; }));
}

} // namespace mlir::fsdp

#endif // FSDP_SUPPORT_OPTIONWORDS_H
