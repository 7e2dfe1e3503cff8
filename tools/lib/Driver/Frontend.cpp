//===- Frontend.cpp - From files to a partitioned step --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/Frontend.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Driver/DiagnosticPrinter.h"
#include "fsdp/Driver/InputFile.h"
#include "fsdp/Driver/SourcePlaces.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Tool/CrashHandler.h"

#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::fsdp;

void fsdp::registerCompilerDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registry.insert<FSDPDialect>();
}

char ReportedError::ID;

Frontend::Frontend(const StepOptions &options) : options(options) {
  DialectRegistry registry;
  registerCompilerDialects(registry);
  context.appendDialectRegistry(registry);
  // Sources are printed with what is wrong in them; a whole step is too long to
  // be printed with it.
  context.printOpOnDiagnostic(false);
  // With threads each type and attribute is looked up behind a lock. A step is
  // one function, and of its kernels, which are many, two threads take 1.1 to
  // 1.5 times as long to the LLVM dialect as one (gpt2, resnet-eval).
  context.disableMultithreading();
  diagnostics = std::make_unique<DiagnosticPrinter>(sources, &context);
  applyDefaultTimingManagerCLOptions(timing);
  timesPasses = timing.isEnabled();
  timing.setEnabled(timesPasses || options.timing);
  total = timing.getRootScope();
}

Frontend::~Frontend() = default;

void Frontend::logRemarks(const RemarkFilters &filters) {
  remarks.attach(context, filters);
}

void Frontend::printRemarks() {
  for (const LoggedRemark &remark : remarks.take())
    emitRemark(remark.loc) << remark.full;
}

llvm::Expected<OwningOpRef<ModuleOp>> Frontend::parse(StringRef file) {
  setCrashFile(file);
  setCrashActivity("reading");
  auto buffer = readInputFile(file, options.inputLimit);
  if (!buffer)
    return buffer.takeError();
  unsigned id = sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  // The parser reads the main buffer; a source manager of its own for each
  // file.
  llvm::SourceMgr fileSources;
  fileSources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(*sources.getMemoryBuffer(id)),
      llvm::SMLoc());
  OwningOpRef<ModuleOp> module;
  {
    ParsingScope parsing(sources.getMemoryBuffer(id)->getBufferSize());
    module = SourcePlaces().parse(fileSources, &context);
  }
  if (!module)
    return llvm::createStringError("expected " + file +
                                   " to hold an MLIR module");
  return module;
}

/// The optimizer may come in a file of its own.
llvm::Error Frontend::addOptimizer() {
  if (options.optimizerFile.empty())
    return llvm::Error::success();
  if (!options.partition.optimizer.empty())
    return llvm::createStringError(
        "expected either --optimizer or --optimizer-file, got "
        "both");
  if (options.input == "-" && options.optimizerFile == "-")
    return llvm::createStringError(
        "expected the step or --optimizer-file from the standard input, got "
        "both");
  if (module->lookupSymbol(names::kOptimizer))
    return llvm::createStringError("expected a step without @optimizer beside "
                                   "--optimizer-file, got one in " +
                                   options.input);
  auto other = parse(options.optimizerFile);
  if (!other)
    return other.takeError();
  auto func = (*other)->lookupSymbol<func::FuncOp>(names::kOptimizer);
  if (!func)
    return llvm::createStringError("expected a function @optimizer in " +
                                   options.optimizerFile + ", got none");
  if ((*other)->lookupSymbol(names::kForwardBackward))
    return llvm::createStringError(
        "expected no step beside @optimizer in " + options.optimizerFile +
        " (name it as the input alone), got @forward_backward");
  // Its helpers are its own: names of the step's may be the same.
  if (llvm::Error error =
          runPipeline(**other, "optimizer", [](OpPassManager &pm) {
            pm.addPass(createIsolateStep());
          }))
    return error;
  setCrashFile(options.input);
  func->remove();
  module->getBody()->push_back(func);
  return llvm::Error::success();
}

/// MLIR's options for pass managers, of tools that have them.
static LogicalResult applyOptions(PassManager &pm) {
  if (!llvm::cl::getRegisteredOptions().contains("mlir-pass-statistics"))
    return success();
  return applyPassManagerCLOptions(pm);
}

llvm::Error
Frontend::runPipeline(StringRef what,
                      llvm::function_ref<void(OpPassManager &)> build) {
  return runPipeline(*module, what, build);
}

llvm::Error
Frontend::runPipeline(Operation *op, StringRef what,
                      llvm::function_ref<void(OpPassManager &)> build) {
  PassManager pm(op->getName());
  // Builds with assertions verify the module behind each pass, as fsdp-opt does
  // in all builds. It takes half as long as the passes themselves, so others
  // verify what a stage leaves.
#ifdef NDEBUG
  pm.enableVerifier(false);
#endif
  TimedPart timed(*this, what);
  if (timesPasses)
    pm.enableTiming(*part);
  int64_t numErrors = diagnostics->getNumErrors();
  // Copies are tried and thrown away: nobody wants their dumps or reproducers.
  bool isCompiled = module && op == module->getOperation();
  bool failedToRun = isCompiled && failed(applyOptions(pm));
  if (!failedToRun) {
    pm.addInstrumentation(createCrashInstrumentation());
    build(pm);
    failedToRun = failed(pm.run(op)) || failed(verify(op));
  }
  if (!failedToRun)
    return llvm::Error::success();
  std::string message = "could not compile " + options.input;
  if (diagnostics->getNumErrors() > numErrors)
    return llvm::make_error<ReportedError>(std::move(message));
  return llvm::createStringError(message);
}

llvm::Error Frontend::loadPlugins() {
  DialectRegistry registry;
  for (const std::string &file : options.dialectPlugins) {
    auto plugin = DialectPlugin::load(file);
    if (!plugin)
      return llvm::createStringError("--load-dialect-plugin: " +
                                     llvm::toString(plugin.takeError()));
    plugin->registerDialectRegistryCallbacks(registry);
  }
  context.appendDialectRegistry(registry);
  return llvm::Error::success();
}

llvm::Error Frontend::read() {
  TimedPart timed(*this, "read");
  if (llvm::Error error = loadPlugins())
    return error;
  auto parsed = parse(options.input);
  if (!parsed)
    return parsed.takeError();
  module = std::move(*parsed);
  return addOptimizer();
}

/// The manifest calls a step as its file is called.
static Copyable<PartitionOptions> getNamed(const StepOptions &options) {
  Copyable<PartitionOptions> partition = options.partition;
  partition.name = llvm::sys::path::stem(options.input).str();
  return partition;
}

Copyable<PartitionOptions> Frontend::getPartitionOptions() const {
  return getNamed(options);
}

/// To verify a step takes about as long as to partition it: what passes L1 by
/// is one stage.
static Stage getPartitionStage(const StepOptions &options, Level from,
                               Level to) {
  if (from == Level::L1)
    return {"collectives", buildCollectivesPipeline};
  bool isLogical = to == Level::L1;
  return {isLogical ? "logical" : "partition",
          [=, &options](OpPassManager &pm) {
            Copyable<PartitionOptions> partition = getNamed(options);
            buildLogicalPipeline(pm, partition);
            if (!isLogical)
              buildCollectivesPipeline(pm);
          }};
}

static Stage getKernelStage(const StepOptions &options) {
  return {"kernels",
          [&](OpPassManager &pm) { buildKernelPipeline(pm, options.kernels); }};
}

SmallVector<Stage> fsdp::getPartitionStages(const StepOptions &options,
                                            Level from, Level to) {
  if (from >= Level::L2 || to == from)
    return {};
  Stage partition = getPartitionStage(options, from, to);
  if (from == Level::L0)
    partition.remarking.push_back({"fsdp-assign-units", true, false});
  if (options.partition.accumulateIn == AccumulateIn::Auto)
    partition.remarking.push_back({"fsdp-add-accumulation", true, true});
  if (to == Level::L1)
    return {partition};
  Stage kernels = getKernelStage(options);
  if (options.kernels.attention == AttentionMode::Fused)
    kernels.remarking.push_back({"fsdp-fuse-attention", true, true});
  return {partition, kernels};
}

llvm::Error Frontend::runStage(ModuleOp module, const Stage &stage) {
  return runPipeline(module, stage.what, stage.build);
}

llvm::Error Frontend::partition(ModuleOp module, const StepOptions &options) {
  return runStage(module, getPartitionStage(options, Level::L0, Level::L2));
}

llvm::Error Frontend::makeKernels(ModuleOp module, const StepOptions &options) {
  return runStage(module, getKernelStage(options));
}
