//===- fsdp-compile.cpp - Sharded executables from traced steps -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Compiler.h"
#include "fsdp/Target/StepCommandLine.h"

#include "llvm/Support/InitLLVM.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

static cl::OptionCategory category("fsdp-compile options");

static StepCommandLine step(category);
static cl::opt<std::string>
    output("o", cl::value_desc("file"),
           cl::desc("Output file; - is the standard output, and the default "
                    "for a report"),
           cl::cat(category));
static cl::opt<std::string> target("target", cl::init("cpu"), cl::desc("cpu"),
                                   cl::cat(category));
static cl::opt<std::string>
    march("march", cl::init("native"),
          cl::desc("Processor to compile for (default: native)"),
          cl::cat(category));
static cl::opt<std::string>
    emit("emit", cl::init("exe"),
         cl::desc("exe | so | ir:L1 | ir:L2 | ir:L3 | llvm | report (what was "
                  "decided for --cluster, and why)"),
         cl::cat(category));
static cl::opt<std::string> cluster(
    "cluster", cl::value_desc("file.json | name"),
    cl::desc("Let transfers run beside the computation, as is best on this "
             "cluster (default: one after the other)"),
    cl::cat(category));
static cl::opt<std::string>
    order("order", cl::init("scheduled"),
          cl::desc("scheduled | fsdp (prefetch one unit ahead) | in_order"),
          cl::cat(category));
static cl::opt<std::string>
    memoryBudget("memory-budget", cl::value_desc("24GiB"),
                 cl::desc("What a rank may use (default: what the cluster's "
                          "device has)"),
                 cl::cat(category));
static cl::opt<bool> forwardPrefetch(
    "forward-prefetch", cl::init(true),
    cl::desc("With --order fsdp: gather the next unit of forward early"),
    cl::cat(category));
static cl::opt<std::string>
    backwardPrefetch("backward-prefetch", cl::init("pre"),
                     cl::desc("With --order fsdp: pre | post | none"),
                     cl::cat(category));
static cl::opt<bool> limitAllGathers(
    "limit-all-gathers", cl::init(true),
    cl::desc("With --order fsdp: at most two units are gathered at once"),
    cl::cat(category));
static cl::opt<std::string>
    remarks("remarks-filter", cl::value_desc("regex"),
            cl::desc("Print what passes of such names decided, and why, as "
                     "mlir-opt does ('.*': all)"),
            cl::cat(category));
static cl::opt<std::string>
    passedRemarks("remarks-filter-passed", cl::value_desc("regex"),
                  cl::desc("Print what passes of such names did"),
                  cl::cat(category));
static cl::opt<std::string>
    missedRemarks("remarks-filter-missed", cl::value_desc("regex"),
                  cl::desc("Print what passes of such names did not do"),
                  cl::cat(category));
static cl::opt<bool> guard(
    "guard",
    cl::desc("Debugging: poison memory outside of its planned life, and check "
             "at run time that nobody writes there or behind a buffer"),
    cl::cat(category));

/// What is given but could have no effect is a mistake.
static llvm::Error checkEffects() {
  auto refuse = [](llvm::StringRef expected, const cl::Option &option,
                   llvm::StringRef got, llvm::StringRef reason) {
    return llvm::createStringError("expected " + expected + " beside --" +
                                   option.ArgStr + ", got " + got + ": " +
                                   reason);
  };
  for (const cl::opt<std::string> *option :
       {&remarks, &passedRemarks, &missedRemarks}) {
    if (!option->getNumOccurrences())
      continue;
    if (emit == "report")
      return refuse("--emit exe, so, ir:L2, ir:L3 or llvm", *option, emit,
                    "the report holds all remarks");
    if (emit == "ir:L1")
      return refuse("--emit exe, so, ir:L2, ir:L3, llvm or report", *option,
                    emit, "passes remark on what comes behind it");
  }
  if (guard && emit == "report")
    return refuse("--emit exe, so, ir:L3 or llvm", guard, emit,
                  "the report is of the arena without borders");
  bool hasCluster = !cluster.empty();
  if (hasCluster && (emit == "ir:L1" || emit == "ir:L2"))
    return refuse("--emit exe, so, ir:L3, llvm or report", cluster, emit,
                  "nothing has been planned or put in order there");
  if (const cl::Option *option = step.findPlanOption()) {
    if (!hasCluster)
      return refuse("--cluster", *option, "none",
                    "without one nothing is chosen");
    if (order != "scheduled")
      return refuse("--order scheduled", *option, order,
                    "nothing else makes a plan");
  }
  if (order.getNumOccurrences() && !hasCluster)
    return refuse("--cluster", order, "none",
                  "without one nothing is put in order");
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &forwardPrefetch, &backwardPrefetch, &limitAllGathers}) {
    if (!option->getNumOccurrences())
      continue;
    if (!hasCluster)
      return refuse("--cluster and --order fsdp", *option, "no cluster",
                    "without one nothing is put in order");
    if (order != "fsdp")
      return refuse("--order fsdp", *option, order, "it says how FSDP orders");
  }
  return llvm::Error::success();
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
  std::pair<llvm::StringRef, Emit> kinds[] = {
      {"exe", Emit::Executable}, {"so", Emit::SharedLibrary},
      {"ir:L1", Emit::L1},       {"ir:L2", Emit::L2},
      {"ir:L3", Emit::L3},       {"llvm", Emit::LLVM},
      {"report", Emit::Report}};
  auto kind = llvm::find_if(kinds, [](auto &k) { return k.first == emit; });
  if (kind == std::end(kinds))
    return reportError(
        "expected --emit exe, so, ir:L1, ir:L2, ir:L3, llvm or report, got '" +
        emit + "'");
  if (target != "cpu")
    return reportError("expected --target cpu, got '" + target +
                       "' (no other target is supported)");
  if (llvm::Error error =
          expectTexts({&output, &cluster, &memoryBudget, &order, &remarks,
                       &passedRemarks, &missedRemarks}))
    return reportError(llvm::toString(std::move(error)));
  if (llvm::Error error = checkEffects())
    return reportError(llvm::toString(std::move(error)));
  if (output.empty() && kind->second != Emit::Report)
    return reportError("expected -o, the file to write, beside --emit " + emit +
                       ", got none");
  options.emit = kind->second;
  step.fill(options);
  options.output = output.empty() ? "-" : output.getValue();
  auto fillFilter = [](std::optional<std::string> &filter,
                       const cl::opt<std::string> &option) {
    if (option.getNumOccurrences())
      filter = option;
  };
  fillFilter(options.remarks.all, remarks);
  fillFilter(options.remarks.passed, passedRemarks);
  fillFilter(options.remarks.missed, missedRemarks);
  options.march = march;
  options.guard = guard;
  ScheduleOptions &schedule = options.schedule;
  schedule.cluster = cluster;
  schedule.order = order;
  schedule.memoryBudget = memoryBudget;
  schedule.forwardPrefetch = forwardPrefetch;
  schedule.backwardPrefetch = backwardPrefetch;
  schedule.limitAllGathers = limitAllGathers;
  options.toolDir = getToolDir(argv[0], &category);
  if (llvm::Error error = compile(options))
    return reportError(llvm::toString(std::move(error)));
  return 0;
}
