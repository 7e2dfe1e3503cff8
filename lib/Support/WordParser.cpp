//===- WordParser.cpp - Parses options of words ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Support/WordParser.h"
#include "fsdp/Support/PrintableText.h"

#include "llvm/Support/WithColor.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

bool mlir::fsdp::refuseWord(const cl::Option &option, llvm::StringRef words,
                            llvm::StringRef text) {
  // An option of a pass or pipeline stands in its text; one of a tool may stand
  // empty where a variable of the shell is not set.
  bool isOfTool = option.Subs.empty() ||
                  option.Subs.contains(&cl::SubCommand::getTopLevel());
  std::string name = option.ArgStr.str();
  std::string message =
      isOfTool && text.empty()
          ? "expected a value of --" + name + ", got an empty one"
          : "expected " + (isOfTool ? "--" + name + " " : name + " to be ") +
                words.str() + ", got '" + text.str() + "'";
  llvm::WithColor::error() << makePrintable(message) << "\n";
  return true;
}
