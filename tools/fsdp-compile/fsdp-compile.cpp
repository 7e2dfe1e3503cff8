//===- fsdp-compile.cpp - Sharded executables from traced steps -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Compiler.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

static cl::OptionCategory category("fsdp-compile options");

static cl::opt<std::string> input(cl::Positional, cl::Required,
                                  cl::desc("<model.mlir[.gz]>"),
                                  cl::cat(category));
static cl::opt<std::string> output("o", cl::Required, cl::desc("Output file"),
                                   cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string> optimizerFile("optimizer-file",
                                          cl::desc("File with @optimizer"),
                                          cl::value_desc("optimizer.mlir"),
                                          cl::cat(category));
static cl::opt<std::string> optimizer(
    "optimizer",
    cl::desc("adamw:lr=..,beta1=..,beta2=..,eps=..,weight_decay=.. or "
             "sgd:lr=..,momentum=..,weight_decay=.. (default: the step's own, "
             "else adamw)"),
    cl::cat(category));
static cl::opt<std::string> mesh("mesh", cl::init("shard=1"),
                                 cl::desc("shard=N or shard=N,replicate=M"),
                                 cl::cat(category));
static cl::opt<std::string>
    strategy("strategy", cl::init("auto"),
             cl::desc("full_shard | shard_grad_op | no_shard | hybrid_shard | "
                      "hybrid_shard_zero2 (default: full_shard, or "
                      "hybrid_shard where the mesh has a replicate axis)"),
             cl::cat(category));
static cl::opt<std::string>
    wrap("wrap", cl::init("blocks"),
         cl::desc("module:CLASS[,CLASS..] | size:N | blocks | none"),
         cl::cat(category));
static cl::list<std::string>
    ignore("ignore", cl::value_desc("pattern"),
           cl::desc("Parameters that are left whole, gradients not reduced"),
           cl::cat(category));
static cl::list<std::string>
    replicate("replicate", cl::value_desc("pattern"),
              cl::desc("Parameters that are left whole, gradients averaged"),
              cl::cat(category));
static cl::opt<std::string>
    paramDtype("param-dtype", cl::desc("Gather parameters in f32, bf16, .."),
               cl::cat(category));
static cl::opt<std::string>
    reduceDtype("reduce-dtype", cl::desc("Reduce gradients in f32, bf16, .."),
                cl::cat(category));
static cl::opt<std::string>
    bufferDtype("buffer-dtype", cl::desc("Keep float buffers in f32, bf16, .."),
                cl::cat(category));
static cl::opt<bool>
    clip("clip-norm",
         cl::desc("Compile in gradient clipping (the executable's --clip-norm "
                  "gives the norm)"),
         cl::cat(category));
static cl::opt<std::string> target("target", cl::init("cpu"), cl::desc("cpu"),
                                   cl::cat(category));
static cl::opt<std::string>
    march("march", cl::init("native"),
          cl::desc("Processor to compile for (default: native)"),
          cl::cat(category));
static cl::opt<std::string> emit("emit", cl::init("exe"),
                                 cl::desc("exe | so | ir:L1 | ir:L2 | llvm"),
                                 cl::cat(category));
static cl::opt<bool> timing("timing", cl::desc("Say how long each part takes"),
                            cl::cat(category));

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error() << message << "\n";
  return 1;
}

/// The directory this tool was started from.
static std::string getToolDir(const char *argv0) {
  std::string path = llvm::sys::fs::getMainExecutable(
      argv0, reinterpret_cast<void *>(&getToolDir));
  return llvm::sys::path::parent_path(path).str();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // The linker's driver looks for its parts there.
  setenv("PATH", "/usr/local/bin:/usr/bin:/bin", /*overwrite=*/0);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Compiles a traced training step for all ranks of a mesh\n");

  CompileOptions options;
  using Emit = CompileOptions::Emit;
  std::pair<llvm::StringRef, Emit> kinds[] = {{"exe", Emit::Executable},
                                              {"so", Emit::SharedLibrary},
                                              {"ir:L1", Emit::L1},
                                              {"ir:L2", Emit::L2},
                                              {"llvm", Emit::LLVM}};
  auto kind = llvm::find_if(kinds, [](auto &k) { return k.first == emit; });
  if (kind == std::end(kinds))
    return fail("expected --emit exe, so, ir:L1, ir:L2 or llvm, got '" + emit +
                "'");
  if (target != "cpu")
    return fail("expected --target cpu, got '" + target +
                "' (no other target is supported)");
  options.emit = kind->second;
  options.input = input;
  options.output = output;
  options.optimizerFile = optimizerFile;
  options.optimizer = optimizer;
  options.mesh = mesh;
  options.strategy = strategy;
  options.wrap = wrap;
  options.ignore = ignore;
  options.replicate = replicate;
  options.paramDtype = paramDtype;
  options.reduceDtype = reduceDtype;
  options.bufferDtype = bufferDtype;
  options.clip = clip;
  options.march = march;
  options.timing = timing;
  options.toolDir = getToolDir(argv[0]);
  if (llvm::Error error = compile(options))
    return fail(llvm::toString(std::move(error)));
  return 0;
}
