//===- Compiler.cpp - From a traced step to an executable -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Compiler.h"
#include "DiagnosticPrinter.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Target/CodeGen.h"
#include "fsdp/Target/InputFile.h"
#include "fsdp/Target/Linker.h"
#include "fsdp/Target/Manifest.h"
#include "fsdp/Target/OutputFile.h"
#include "fsdp/Target/ProgramHeader.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

#include <chrono>

using namespace mlir;
using namespace mlir::fsdp;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

void fsdp::registerCompilerDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registry.insert<FSDPDialect>();
}

namespace {
/// Says how long the part since the last call took.
class Stopwatch {
public:
  explicit Stopwatch(bool enabled) : enabled(enabled) {}
  void lap(StringRef what) {
    auto now = std::chrono::steady_clock::now();
    if (enabled)
      llvm::errs() << llvm::format(
                          "%8.3f s  ",
                          std::chrono::duration<double>(now - last).count())
                   << what << "\n";
    last = now;
  }

private:
  bool enabled;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

class Compiler {
public:
  explicit Compiler(const CompileOptions &options)
      : options(options), watch(options.timing) {}

  llvm::Error compile();

private:
  llvm::Expected<OwningOpRef<ModuleOp>> parse(StringRef file);
  llvm::Error addOptimizer(ModuleOp module);
  llvm::Error runPipeline(ModuleOp module, StringRef what,
                          llvm::function_ref<void(OpPassManager &)> build);
  llvm::Error openOutput();
  llvm::Error writeProgram(ModuleOp module, const TargetCpu &cpu,
                           StringRef manifest);

  const CompileOptions &options;
  Stopwatch watch;
  OutputFile output, header;
  MLIRContext context;
  /// Keeps texts alive for diagnostics, which print the line they speak of.
  llvm::SourceMgr sources;
};
} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> Compiler::parse(StringRef file) {
  auto buffer = readInputFile(file);
  if (!buffer)
    return buffer.takeError();
  unsigned id = sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  // The parser reads the main buffer; a source manager of its own for each
  // file.
  llvm::SourceMgr fileSources;
  fileSources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(*sources.getMemoryBuffer(id)),
      llvm::SMLoc());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(fileSources, &context);
  if (!module)
    return makeError("expected " + file + " to hold an MLIR module");
  return module;
}

/// The optimizer may come in a file of its own.
llvm::Error Compiler::addOptimizer(ModuleOp module) {
  if (options.optimizerFile.empty())
    return llvm::Error::success();
  if (!options.optimizer.empty())
    return makeError("expected either --optimizer or --optimizer-file, got "
                     "both");
  if (module.lookupSymbol(names::kOptimizer))
    return makeError("expected a step without @optimizer beside "
                     "--optimizer-file, got one in " +
                     options.input);
  auto other = parse(options.optimizerFile);
  if (!other)
    return other.takeError();
  auto func = (*other)->lookupSymbol<func::FuncOp>(names::kOptimizer);
  if (!func)
    return makeError("expected a function @optimizer in " +
                     options.optimizerFile);
  func->moveAfter(&module.getBody()->back());
  return llvm::Error::success();
}

llvm::Error
Compiler::runPipeline(ModuleOp module, StringRef what,
                      llvm::function_ref<void(OpPassManager &)> build) {
  PassManager pm(&context);
  // Passes verify what they made; between them the work is not repeated.
  pm.enableVerifier(true);
  build(pm);
  bool failedToRun = failed(pm.run(module));
  watch.lap(what);
  if (failedToRun)
    return makeError("could not compile " + options.input);
  return llvm::Error::success();
}

/// What would fail at the end is refused before it takes time.
llvm::Error Compiler::openOutput() {
  using Emit = CompileOptions::Emit;
  bool isLibrary = options.emit == Emit::SharedLibrary;
  bool isProgram = isLibrary || options.emit == Emit::Executable;
  if (isProgram)
    if (auto driver = findLinkDriver(); !driver)
      return driver.takeError();
  auto file = OutputFile::create(options.output, isProgram);
  if (!file)
    return file.takeError();
  output = std::move(*file);
  if (!isLibrary)
    return llvm::Error::success();
  auto path = getProgramHeaderPath(options.output);
  if (!path)
    return path.takeError();
  auto beside = OutputFile::create(*path);
  if (!beside)
    return beside.takeError();
  header = std::move(*beside);
  return llvm::Error::success();
}

llvm::Error Compiler::writeProgram(ModuleOp module, const TargetCpu &cpu,
                                   StringRef manifest) {
  bool shared = options.emit == CompileOptions::Emit::SharedLibrary;
  auto machine = createTargetMachine(cpu);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext llvmContext;
  auto llvmModule = translateToLLVM(module, llvmContext, **machine, cpu);
  if (!llvmModule)
    return llvmModule.takeError();
  watch.lap("LLVM: translate and optimize");
  if (options.emit == CompileOptions::Emit::LLVM)
    return output.write(
        [&](raw_ostream &os) { (*llvmModule)->print(os, nullptr); });
  if (shared)
    addProgramFunction(**llvmModule, getProgramPrefix(options.output));

  auto object = TemporaryFile::create(output.getTemporaryPath());
  if (!object)
    return object.takeError();
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream codeStream(code);
  if (llvm::Error error = emitObject(**llvmModule, **machine, codeStream))
    return error;
  std::error_code written =
      writeAll(object->getPath(), [&](raw_ostream &os) { os << code; });
  if (written)
    return makeError("expected to write beside " + options.output + ", got " +
                     written.message());
  watch.lap("LLVM: generate code");
  auto runtime = findRuntime(options.toolDir);
  if (!runtime)
    return runtime.takeError();
  LinkOptions linkOptions;
  linkOptions.objects = {object->getPath().str()};
  linkOptions.runtimeDir = *runtime;
  linkOptions.shared = shared;
  linkOptions.soname = llvm::sys::path::filename(options.output).str();
  if (llvm::Error error = link(linkOptions, output.getTemporaryPath()))
    return error;
  watch.lap("link");
  if (llvm::Error error = output.commit())
    return error;
  if (!shared)
    return llvm::Error::success();
  return header.write([&](raw_ostream &os) {
    os << createProgramHeader(options.output, manifest);
  });
}

llvm::Error Compiler::compile() {
  using Emit = CompileOptions::Emit;
  DialectRegistry registry;
  registerCompilerDialects(registry);
  context.appendDialectRegistry(registry);
  // Sources are printed with what is wrong in them; a whole step is too long to
  // be printed with it.
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter diagnostics(sources, &context);
  auto cpu = TargetCpu::parse(options.march);
  if (!cpu)
    return cpu.takeError();
  if (llvm::Error error = openOutput())
    return error;
  auto parsed = parse(options.input);
  if (!parsed)
    return parsed.takeError();
  ModuleOp module = **parsed;
  if (llvm::Error error = addOptimizer(module))
    return error;
  watch.lap("read");

  PartitionOptions partition;
  partition.mesh = options.mesh;
  partition.strategy = options.strategy;
  partition.wrap = options.wrap;
  partition.paramDtype = options.paramDtype;
  partition.reduceDtype = options.reduceDtype;
  partition.bufferDtype = options.bufferDtype;
  partition.optimizer = options.optimizer;
  partition.clip = options.clip;
  for (const std::string &pattern : options.ignore)
    partition.ignore.push_back(pattern);
  for (const std::string &pattern : options.replicate)
    partition.replicate.push_back(pattern);
  auto print = [&] {
    return output.write([&](raw_ostream &os) { module.print(os); });
  };
  if (llvm::Error error =
          runPipeline(module, "partition", [&](OpPassManager &pm) {
            if (options.emit == Emit::L1)
              buildLogicalPipeline(pm, partition);
            else
              buildPartitionPipeline(pm, partition);
          }))
    return error;
  if (options.emit == Emit::L1)
    return print();
  if (llvm::Error error = runPipeline(module, "kernels", buildKernelPipeline))
    return error;
  if (options.emit == Emit::L2)
    return print();
  if (llvm::Error error = runPipeline(module, "code for kernels, arena",
                                      [&](OpPassManager &pm) {
                                        buildCpuKernelPipeline(pm);
                                        pm.addPass(createPlanArena());
                                      }))
    return error;
  ManifestOptions manifest;
  manifest.name = llvm::sys::path::stem(options.input).str();
  manifest.cpu = cpu->name;
  manifest.features = cpu->features;
  ConvertFSDPToRuntimeOptions convert;
  convert.manifest = createManifest(module, manifest);
  if (llvm::Error error =
          runPipeline(module, "lower to LLVM", [&](OpPassManager &pm) {
            pm.addPass(createConvertFSDPToRuntime(convert));
            buildLowerToLLVMPipeline(
                pm, !llvm::is_contained(cpu->features, "avx512bf16"));
          }))
    return error;
  return writeProgram(module, *cpu, convert.manifest);
}

llvm::Error fsdp::compile(const CompileOptions &options) {
  return Compiler(options).compile();
}
