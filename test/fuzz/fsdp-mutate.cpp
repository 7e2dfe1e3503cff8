//===- fsdp-mutate.cpp - Random changes of a file of IR -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fsdp-mutate FILE --seed S --count N --prefix P [--changes any|equal|schedule]
//   writes P0.mlir .. of one to four changes each, in the generic form, with
//   the changes as comments.
// fsdp-mutate FILE --reduce COMMAND --prefix P
//   writes the smallest file that it finds, by erasing ops, for which COMMAND
//   (run by the shell, with the file's name as its last argument) ends with
//   status 0.
//
//===----------------------------------------------------------------------===//

#include "ModuleMutator.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"

#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::fsdp::test;
namespace cl = llvm::cl;

static cl::opt<std::string> input(cl::Positional, cl::Required);
static cl::opt<std::string> prefix("prefix", cl::Required);
static cl::opt<unsigned> count("count", cl::init(1));
static cl::opt<unsigned> firstSeed("seed", cl::init(0));
static cl::opt<std::string> command("reduce");
static cl::opt<Changes> changes(
    "changes", cl::init(Changes::Any),
    cl::values(clEnumValN(Changes::Any, "any", "of anything"),
               clEnumValN(Changes::Equal, "equal", "that compute the same"),
               clEnumValN(Changes::Schedule, "schedule", "of a placed step")));

static LogicalResult write(const Twine &path, ArrayRef<std::string> comments,
                           ModuleOp module) {
  std::error_code error;
  llvm::raw_fd_ostream os(path.str(), error);
  if (error) {
    llvm::errs() << "error: expected to write " << path << ", got "
                 << error.message() << "\n";
    return failure();
  }
  for (const std::string &comment : comments)
    os << "// " << comment << "\n";
  module.print(os, OpPrintingFlags().printGenericOpForm());
  os << "\n";
  return success();
}

/// Number @i makes the same file whatever the others are.
static LogicalResult mutateOnce(ModuleOp original, unsigned i) {
  OwningOpRef<ModuleOp> module = original.clone();
  std::seed_seq seeds{unsigned(firstSeed), i};
  std::mt19937_64 random(seeds);
  ModuleMutator mutator(*module, random());
  SmallVector<std::string> made;
  // Most verifiers refuse one of several: half of the files have one.
  unsigned wanted = random() % 2 ? 1 : 2 + random() % 3;
  for (unsigned tries = 0; made.size() < wanted && tries != 40; ++tries)
    if (std::string said = mutator.change(changes); !said.empty())
      made.push_back(said);
  return write(prefix + Twine(i) + ".mlir", made, *module);
}

/// Each file in a process of its own: what MLIR cannot hold or print, such as
/// an attribute of parameters that its own verifier would refuse, may end that,
/// and makes no file.
static LogicalResult mutate(ModuleOp original) {
  for (unsigned i = 0; i != count; ++i) {
    pid_t child = fork();
    if (child < 0)
      return failure();
    if (child == 0)
      _exit(succeeded(mutateOnce(original, i)) ? 0 : 1);
    int status = 0;
    if (waitpid(child, &status, 0) != child ||
        (WIFEXITED(status) && WEXITSTATUS(status)))
      return failure();
  }
  return success();
}

/// Erases runs of ops, last ones first, half as long in each round. Each trial
/// runs the command once.
static LogicalResult reduce(OwningOpRef<ModuleOp> module) {
  std::string path = prefix + ".mlir";
  auto isWanted = [&](ModuleOp candidate) {
    return succeeded(write(path, {}, candidate)) &&
           std::system((command + " " + path).c_str()) == 0;
  };
  if (!isWanted(*module)) {
    llvm::errs() << "error: expected status 0 of the command for " << input
                 << " as it is\n";
    return failure();
  }
  auto countOps = [](ModuleOp module) {
    size_t ops = 0;
    module.walk([&](Operation *) { ++ops; });
    return ops;
  };
  for (size_t length = countOps(*module) / 2; length; length /= 2) {
    size_t end = countOps(*module) - 1;
    while (end > 0) {
      size_t begin = end > length ? end - length : 0;
      OwningOpRef<ModuleOp> candidate = module->clone();
      SmallVector<Operation *> ops;
      candidate->walk([&](Operation *op) {
        if (op != *candidate)
          ops.push_back(op);
      });
      // Ops inside come first, so those around them are there until then.
      bool isAny = false;
      for (size_t i = begin; i != std::min(end, ops.size()); ++i)
        if (!ops[i]->hasTrait<OpTrait::IsTerminator>()) {
          eraseAndReplace(ops[i]);
          isAny = true;
        }
      if (isAny && isWanted(*candidate))
        module = std::move(candidate);
      end = begin;
    }
  }
  return success(isWanted(*module));
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registry.insert<mlir::fsdp::FSDPDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  // What is reduced need not verify.
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  auto module = parseSourceFile<ModuleOp>(input, config);
  if (!module)
    return 1;
  bool isDone = command.empty() ? succeeded(mutate(*module))
                                : succeeded(reduce(std::move(module)));
  return isDone ? 0 : 1;
}
