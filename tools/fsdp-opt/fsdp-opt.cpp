//===- fsdp-opt.cpp - mlir-opt with the fsdp dialect and passes -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Target/InputFile.h"
#include "fsdp/Target/OutputFile.h"
#include "fsdp/Target/RemarkLog.h"
#include "fsdp/Target/StepCommandLine.h"
#include "fsdp/Target/ToolProcess.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"

using namespace mlir;
using namespace mlir::fsdp;

/// As upstream's, but reads gzip and says what it cannot write.
static int run(StringRef input, StringRef output, DialectRegistry &registry) {
  auto file = OutputFile::create(output);
  if (!file)
    return reportError(file.takeError());
  auto buffer = readInputFile(input);
  if (!buffer)
    return reportError(buffer.takeError());
  bool hasRun = false;
  auto process = [&](raw_ostream &os) {
    hasRun = succeeded(MlirOptMain(os, std::move(*buffer), registry,
                                   MlirOptMainConfig::createFromCLOptions()));
  };
  auto write = [&]() -> llvm::Error {
    // What was printed before a failure helps to find it.
    if (output == "-")
      return file->write(process);
    std::string text;
    llvm::raw_string_ostream os(text);
    process(os);
    return hasRun ? file->write([&](raw_ostream &os) { os << text; })
                  : llvm::Error::success();
  };
  if (llvm::Error error = write())
    return reportError(std::move(error));
  return !hasRun;
}

/// Upstream, a filter that is no regular expression matches nothing. An empty
/// one is none.
static llvm::Error checkFilters(const MlirOptMainConfig &config) {
  std::pair<StringRef, std::string> filters[] = {
      {"--remarks-filter", config.getRemarksAllFilter()},
      {"--remarks-filter-passed", config.getRemarksPassedFilter()},
      {"--remarks-filter-missed", config.getRemarksMissedFilter()},
      {"--remarks-filter-failed", config.getRemarksFailedFilter()},
      {"--remarks-filter-analyse", config.getRemarksAnalyseFilter()}};
  for (auto &[option, filter] : filters) {
    if (filter.empty())
      continue;
    if (llvm::Error error = checkRegex(option, filter))
      return error;
  }
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  prepareProcess();
  llvm::InitLLVM init(argc, argv);
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registry.insert<FSDPDialect>();
  mlir::registerAllPasses();
  mlir::fsdp::registerAllPasses();
  auto [input, output] = registerAndParseCLIOptions(
      argc, argv, "fsdp-mlir optimizer: FSDP as a compiler\n", registry);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (llvm::Error error = checkFilters(config))
    return reportError(std::move(error));
  // These read no input.
  if (config.shouldShowDialects() || config.shouldListPasses())
    return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));
  return run(input, output, registry);
}
