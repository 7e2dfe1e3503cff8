//===- PrintableText.cpp - Names from files, on terminals -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Support/PrintableText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

using namespace mlir::fsdp;
using llvm::StringRef;

/// Length of the printable character that @text begins with, in bytes; 0 where
/// it begins with none.
static size_t getPrintablePrefix(StringRef text) {
  unsigned char first = text.front();
  if (first < 0x80)
    return llvm::isPrint(first) || first == '\t';
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  const llvm::UTF8 *end = begin;
  llvm::UTF32 point;
  if (llvm::convertUTF8Sequence(&end, begin + text.size(), &point,
                                llvm::strictConversion) != llvm::conversionOK ||
      !llvm::sys::unicode::isPrintable(int(point)) ||
      llvm::sys::unicode::isFormatting(int(point)))
    return 0;
  return end - begin;
}

std::string mlir::fsdp::makePrintable(StringRef text, Newlines newlines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    size_t length = getPrintablePrefix(text);
    if (length == 0 && text.front() == '\n' && newlines == Newlines::Kept)
      length = 1;
    if (length) {
      result += text.take_front(length);
    } else {
      unsigned char byte = text.front();
      result += '\\';
      result += llvm::hexdigit(byte >> 4);
      result += llvm::hexdigit(byte & 15);
      length = 1;
    }
    text = text.drop_front(length);
  }
  return result;
}

void mlir::fsdp::printPrintable(
    llvm::raw_ostream &os,
    llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  print(stream);
  os << makePrintable(text, Newlines::Kept);
}

bool mlir::fsdp::isPrintable(StringRef text) {
  while (!text.empty()) {
    size_t length = getPrintablePrefix(text);
    if (length == 0)
      return false;
    text = text.drop_front(length);
  }
  return true;
}
