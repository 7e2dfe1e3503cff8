//===- StepOptions.cpp - Which step, and how it is compiled ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepOptions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::fsdp;

SmallVector<ListedOption *> fsdp::getListed(const PipelineOptions &options) {
  return llvm::filter_to_vector(options.getListed(), [](ListedOption *option) {
    return option->get().getOptionHiddenFlag() != kOfDriver;
  });
}

SmallVector<ListedOption *> StepOptions::getListed() const {
  SmallVector<ListedOption *> all;
  for (const PipelineOptions *options :
       std::initializer_list<const PipelineOptions *>{&partition, &kernels,
                                                      &schedule})
    llvm::append_range(all, fsdp::getListed(*options));
  return all;
}

std::string StepOptions::getKernelKey() const {
  std::string key;
  llvm::raw_string_ostream os(key);
  partition.print(os);
  kernels.print(os);
  return key;
}
