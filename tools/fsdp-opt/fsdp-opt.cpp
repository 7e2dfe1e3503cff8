//===- fsdp-opt.cpp - mlir-opt with the fsdp dialect and passes -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Driver/DiagnosticPrinter.h"
#include "fsdp/Driver/InputFile.h"
#include "fsdp/Driver/RemarkLog.h"
#include "fsdp/Driver/SourcePlaces.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Tool/CrashHandler.h"
#include "fsdp/Tool/OutputFile.h"
#include "fsdp/Tool/ToolProcess.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/ParseUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::fsdp;

static llvm::cl::opt<std::string> inputLimit(
    "input-limit", llvm::cl::value_desc("4GiB"), llvm::cl::init("1GiB"),
    llvm::cl::desc("Most bytes of the input, once it is decompressed "
                   "(default: 1GiB)"));

static bool isShown(const Diagnostic &diag, const MlirOptMainConfig &config) {
  switch (diag.getSeverity()) {
  case DiagnosticSeverity::Error:
    return true;
  case DiagnosticSeverity::Warning:
    return config.getDiagnosticVerbosityLevel() >=
           VerbosityLevel::ErrorsAndWarnings;
  case DiagnosticSeverity::Remark:
    return config.getDiagnosticVerbosityLevel() >=
           VerbosityLevel::ErrorsWarningsAndRemarks;
  case DiagnosticSeverity::Note:
    return config.shouldShowNotes();
  }
  llvm_unreachable("a severity that is none of the four");
}

namespace {
/// Prints as DiagnosticPrinter while a pass manager, and so before its context,
/// lives.
struct PrintingInstrumentation : PassInstrumentation {
  PrintingInstrumentation(llvm::SourceMgr &sources, MLIRContext *context,
                          DiagnosticPrinter::Filter shows,
                          const SourcePlaces *places)
      : printer(sources, context, std::move(shows)), places(places) {}

  /// Ops learn their places before the first pass changes any.
  void runBeforePass(Pass *, Operation *op) override {
    if (places)
      places->apply(op);
    places = nullptr;
  }

  DiagnosticPrinter printer;
  const SourcePlaces *places;
};

/// As upstream's main, but opens no file that the command line does not name,
/// and says what it runs where it crashes.
class Chunk {
public:
  Chunk(const llvm::MemoryBuffer &text, DialectRegistry &registry)
      : text(text), registry(registry),
        config(MlirOptMainConfig::createFromCLOptions()) {
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text),
                               llvm::SMLoc());
  }

  LogicalResult run(raw_ostream &os);

private:
  LogicalResult tryParsing();
  /// As upstream's options rule it.
  DiagnosticPrinter::Filter getFilter() const {
    return [this](const Diagnostic &diag) { return isShown(diag, config); };
  }

  const llvm::MemoryBuffer &text;
  DialectRegistry &registry;
  const MlirOptMainConfig config;
  llvm::SourceMgr sources;
  SourcePlaces places;
};
} // namespace

/// Fails, with errors printed, where the text cannot be parsed; else parsing it
/// again prints nothing. (Upstream's main would open the files that locations
/// name to show their lines.)
LogicalResult Chunk::tryParsing() {
  ParsingScope parsing(text.getBufferSize());
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects(config.shouldAllowUnregisteredDialects());
  DiagnosticPrinter printer(sources, &context, getFilter());
  auto parsed = std::make_shared<llvm::SourceMgr>();
  parsed->AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text),
                             llvm::SMLoc());
  FallbackAsmResourceMap resources;
  if (!config.shouldUseExplicitModule())
    return success(bool(places.parse(
        *parsed, &context, config.shouldVerifyOnParsing(), &resources)));
  ParserConfig parser(&context, config.shouldVerifyOnParsing(), &resources);
  return success(
      bool(parseSourceFileForTool(parsed, parser, /*insertImplicit=*/false)));
}

LogicalResult Chunk::run(raw_ostream &os) {
  // Only upstream's main knows dialects of an IRDL file.
  if (config.getIrdlFile().empty() && failed(tryParsing()))
    return failure();
  MlirOptMainConfig upstream = config;
  // Where locations are written, they are those of the input.
  bool writesLocations =
      config.shouldEmitBytecode() || OpPrintingFlags().shouldPrintDebugInfo();
  // Of this chunk.
  upstream.splitInputFile("").outputSplitMarker("");
  upstream.setPassPipelineSetupFn([&](PassManager &pm) {
    pm.addInstrumentation(createCrashInstrumentation());
    // After upstream's handler, and so asked first.
    pm.addInstrumentation(std::make_unique<PrintingInstrumentation>(
        sources, pm.getContext(), getFilter(),
        writesLocations ? nullptr : &places));
    return config.setupPassPipeline(pm);
  });
  return MlirOptMain(os, llvm::MemoryBuffer::getMemBuffer(text), registry,
                     upstream);
}

static LogicalResult process(raw_ostream &os,
                             std::unique_ptr<llvm::MemoryBuffer> input,
                             DialectRegistry &registry) {
  const MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  // Files that hold the diagnostics that they expect are of a test's author.
  if (config.shouldVerifyDiagnostics())
    return MlirOptMain(os, std::move(input), registry, config);
  return splitAndProcessBuffer(
      std::move(input),
      [&](std::unique_ptr<llvm::MemoryBuffer> chunk, raw_ostream &os) {
        return Chunk(*chunk, registry).run(os);
      },
      os, config.inputSplitMarker(), config.outputSplitMarker());
}

/// As upstream's, but reads gzip and says what it cannot write.
static int run(StringRef input, StringRef output, DialectRegistry &registry) {
  auto limit = parseInputLimit(inputLimit);
  if (!limit)
    return reportError(limit.takeError());
  auto file = OutputFile::create(output);
  if (!file)
    return reportError(file.takeError());
  setCrashFile(input);
  setCrashActivity("reading");
  auto buffer = readInputFile(input, *limit);
  if (!buffer)
    return reportError(buffer.takeError());
  bool hasRun = false;
  auto print = [&](raw_ostream &os) {
    hasRun = succeeded(process(os, std::move(*buffer), registry));
  };
  auto write = [&]() -> llvm::Error {
    // What was printed before a failure helps to find it.
    if (output == "-")
      return file->write(print);
    std::string text;
    llvm::raw_string_ostream os(text);
    print(os);
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

static int runOpt(int argc, char **argv) {
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

int main(int argc, char **argv) {
  prepareProcess();
  llvm::InitLLVM init(argc, argv);
  return runTool("fsdp-opt", [&] { return runOpt(argc, argv); });
}
