//===- WordParser.h - Parses options of words -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_WORDPARSER_H
#define FSDP_SUPPORT_WORDPARSER_H

#include "fsdp/Support/OptionWords.h"

#include "llvm/Support/CommandLine.h"

namespace mlir::fsdp {

/// Prints that @option was to be one of @words, but is @text. Returns true, as
/// parsers do that fail.
bool refuseWord(const llvm::cl::Option &option, llvm::StringRef words,
                llvm::StringRef text);

/// llvm::cl::parser of an enumeration, with getWords and refuseWord. MLIR reads
/// `Values` to print options.
template <typename Enum>
class WordParser : public llvm::cl::generic_parser_base {
  using StringRef = llvm::StringRef;

public:
  using parser_data_type = Enum;

  explicit WordParser(llvm::cl::Option &option) : generic_parser_base(option) {
    for (const OptionWord<Enum> &it : getWords<Enum>())
      Values.push_back({it.word, it.help, it.value});
  }
  unsigned getNumOptions() const override { return Values.size(); }
  StringRef getOption(unsigned n) const override { return Values[n].Name; }
  StringRef getDescription(unsigned n) const override { return Values[n].help; }
  const llvm::cl::GenericOptionValue &
  getOptionValue(unsigned n) const override {
    return Values[n].V;
  }
  bool parse(llvm::cl::Option &option, StringRef, StringRef text, Enum &value) {
    std::optional<Enum> parsed = parseWord<Enum>(text);
    value = parsed.value_or(value);
    return !parsed && refuseWord(option, listWords<Enum>(), text);
  }

protected:
  struct Value {
    StringRef Name, help;
    llvm::cl::OptionValue<Enum> V;
  };
  llvm::SmallVector<Value> Values;
};

} // namespace mlir::fsdp

/// Options of this enumeration are parsed by WordParser.
#define FSDP_WORD_OPTION(ENUM)                                                 \
  template <>                                                                  \
  class llvm::cl::parser<ENUM> : public mlir::fsdp::WordParser<ENUM> {         \
    using WordParser::WordParser;                                              \
  };

#endif // FSDP_SUPPORT_WORDPARSER_H
