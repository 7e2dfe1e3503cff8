//===- Stage.cpp - A part of compiling, as a pipeline ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Stage.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace mlir::fsdp;

static std::string print(OpPassManager &pm) {
  std::string text;
  llvm::raw_string_ostream os(text);
  pm.printAsTextualPipeline(os);
  return text;
}

llvm::Expected<std::string> fsdp::printPipeline(ArrayRef<Stage> stages) {
  OpPassManager pm(ModuleOp::getOperationName());
  for (const Stage &stage : stages)
    stage.build(pm);
  std::string text = print(pm);
  // Blanks, quotes and braces in a value may end it early.
  std::string why;
  llvm::raw_string_ostream errors(why);
  FailureOr<OpPassManager> parsed = parsePassPipeline(text, errors);
  if (failed(parsed) || print(*parsed) != text)
    return llvm::createStringError(
        "expected values of options that the text of a pipeline can hold, got "
        "others" +
        (why.empty() ? "" : ": " + why));
  return text;
}
