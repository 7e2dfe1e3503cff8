//===- fsdp-compile.cpp - Sharded executables from traced steps -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestFault.h"
#include "fsdp/Driver/Compiler.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Tool/CrashHandler.h"
#include "fsdp/Tool/ToolProcess.h"

#include "mlir/IR/AsmState.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
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
static cl::opt<std::string>
    target("target", cl::init("cpu"),
           cl::desc("What kernels get code for: cpu, cuda, or both: cpu,cuda"),
           cl::cat(category));
static cl::opt<bool>
    tf32("tf32",
         cl::desc("Let CUDA devices round factors of f32 products to TF32, "
                  "whose products are several times as fast"),
         cl::cat(category));
static cl::opt<std::string> tuning(
    "tuning", cl::value_desc("file.json"),
    cl::desc("Give kernels for CUDA devices the shapes that this table of a "
             "card says are fast, as benchmarks/gpu.sh tune writes it"),
    cl::cat(category));
static cl::opt<MathMode>
    math("math",
         cl::desc("How CUDA devices compute exponentials, divisions and their "
                  "like:"),
         cl::init(MathMode::Fast), cl::cat(category));
static cl::opt<std::string>
    march("march", cl::init("native"),
          cl::desc("Processor to compile for (default: native)"),
          cl::cat(category));
static cl::opt<std::string>
    emit("emit", cl::init("exe"),
         cl::desc("exe | so | ir:L0 | ir:L1 | ir:L2 | ir:L3 | ir:llvm | llvm | "
                  "ptx (code for CUDA devices) | report (what was decided for "
                  "--cluster, and why)"),
         cl::cat(category));
static cl::opt<std::string>
    from("from", cl::init("L0"), cl::value_desc("level"),
         cl::desc("Go on from a module at L1, L2 or L3, as --emit ir:LEVEL "
                  "prints it (default: L0, a traced step)"),
         cl::cat(category));
static cl::opt<bool> printsPipeline(
    "print-pipeline",
    cl::desc("Compile nothing; print what fsdp-opt takes as --pass-pipeline "
             "to do the same"),
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

/// What each option that acts before a level needs: an input that is not there
/// yet.
static void addLevelRules(llvm::SmallVector<OptionRule> &rules) {
  using Values = std::initializer_list<llvm::StringRef>;
  auto needFrom = [&](const cl::Option &option, Values levels,
                      llvm::StringRef reason) {
    rules.push_back({&option, "--from", from, levels, reason});
  };
  auto allNeedFrom = [&](const PipelineOptions &options, Values levels,
                         llvm::StringRef reason) {
    for (ListedOption *option : getListed(options))
      needFrom(option->get(), levels, reason);
  };
  llvm::StringRef partitioned = "the step is partitioned already";
  needFrom(step.getOptimizerFile(), {"L0"}, partitioned);
  allNeedFrom(step.get().partition, {"L0"}, partitioned);
  allNeedFrom(step.get().kernels, {"L0", "L1"},
              "its kernels are there already");
  Values beforeL3 = {"L0", "L1", "L2"};
  llvm::StringRef placed = "its order and places are there already";
  allNeedFrom(step.get().schedule, beforeL3, placed);
  needFrom(step.getMemoryBudget(), beforeL3, placed);
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&tf32, &tuning, &math})
    needFrom(*option, beforeL3, "its kernels have their code already");
}

/// What each option needs to have an effect.
static llvm::SmallVector<OptionRule> getRules() {
  llvm::SmallVector<OptionRule> rules;
  addLevelRules(rules);
  const SchedulePipelineOptions &schedule = step.get().schedule;
  using Values = std::initializer_list<llvm::StringRef>;
  auto needEmit = [&](const cl::Option &option, Values emits,
                      llvm::StringRef reason) {
    rules.push_back({&option, "--emit", emit, emits, reason});
  };
  needEmit(tf32, {"exe", "so", "llvm", "ptx", "ir:L3", "ir:llvm"},
           "nothing else holds code of kernels");
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&tuning, &math})
    needEmit(*option,
             {"exe", "so", "llvm", "ptx", "ir:L3", "ir:llvm", "report"},
             "nothing else holds code of kernels");
  needEmit(target, {"exe", "so", "llvm", "ptx", "ir:L3", "ir:llvm", "report"},
           "there is no code for kernels yet");
  needEmit(march, {"exe", "so", "llvm", "ir:llvm"},
           "nothing else holds code for a processor");
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &remarks, &passedRemarks, &missedRemarks})
    needEmit(*option,
             {"exe", "so", "ir:L1", "ir:L2", "ir:L3", "ir:llvm", "llvm", "ptx"},
             "the report holds all remarks");
  needEmit(schedule.guard,
           {"exe", "so", "ir:L2", "ir:L3", "ir:llvm", "llvm", "ptx"},
           emit == "report" ? "the report is of the arena without borders"
                            : "there are neither kernels nor an arena yet");
  needEmit(step.get().kernels.attention,
           {"exe", "so", "ir:L2", "ir:L3", "ir:llvm", "llvm", "ptx", "report"},
           "there are no kernels yet");
  needEmit(step.get().kernels.checkpoint,
           {"exe", "so", "ir:L2", "ir:L3", "ir:llvm", "llvm", "ptx", "report"},
           "there are no kernels yet");
  Values placing = {"exe", "so", "ir:L3", "ir:llvm", "llvm", "ptx", "report"};
  needEmit(schedule.cluster, placing,
           "nothing has been planned or put in order there");
  needEmit(schedule.reduction, placing,
           "who adds up is decided for kernels that have code");

  auto needCluster = [&](const cl::Option &option, llvm::StringRef reason) {
    rules.push_back({&option, "--cluster", schedule.cluster, {}, reason});
  };
  auto needOrder = [&](const cl::Option &option, Order order,
                       llvm::StringRef reason) {
    rules.push_back({&option,
                     "--order",
                     getWord<Order>(schedule.order),
                     {getWord(order)},
                     reason});
  };
  needCluster(step.getMemoryBudget(), "without one nothing is chosen");
  needCluster(schedule.profile, "without one kernels' times do not matter");
  rules.push_back(step.getProfileRule());
  needCluster(schedule.order, "without one nothing is put in order");
  // Options of a plan are the first of a schedule's.
  llvm::SmallVector<ListedOption *> planning = getListed(schedule);
  planning.truncate(getListed(OptimizeOptions()).size());
  for (ListedOption *option : planning) {
    if (&option->get() == &schedule.cluster ||
        &option->get() == &schedule.profile)
      continue;
    // What is said, not chosen, needs no costs.
    using Rules = sched::PlanRules;
    if ((&option->get() == &schedule.recompute &&
         schedule.recompute != Rules::Recompute::Auto) ||
        (&option->get() == &schedule.reshardAfterForward &&
         schedule.reshardAfterForward != Rules::Keep::Auto)) {
      needEmit(option->get(), placing, "nothing has been planned there");
      continue;
    }
    needCluster(option->get(), "without one nothing is chosen");
    needOrder(option->get(), Order::scheduled, "nothing else makes a plan");
  }
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &schedule.forwardPrefetch, &schedule.backwardPrefetch,
           &schedule.limitAllGathers}) {
    needCluster(*option, "without one nothing is put in order");
    needOrder(*option, Order::fsdp, "it says how FSDP orders");
  }
  return rules;
}

/// Levels are reached in their order, and a report is of decisions that the
/// input does not hold yet.
static llvm::Error checkLevels(const CompileOptions &options) {
  bool isReport = options.emit == CompileOptions::Emit::Report;
  Level to = getLevel(options.emit);
  if (to < options.from)
    return llvm::createStringError("expected --emit of " + from +
                                   " or a later level beside --from " + from +
                                   ", got " + emit);
  if (isReport && options.from == Level::L3)
    return llvm::createStringError(
        "expected --from L0, L1 or L2 beside --emit report, got L3: what was "
        "decided before is not said again");
  return llvm::Error::success();
}

static int compileStep(int argc, char **argv) {
  // The linker's driver looks for its parts there.
  setenv("PATH", "/usr/local/bin:/usr/bin:/bin", /*overwrite=*/0);
  mlir::registerAllPasses();
  registerAllPasses();
  mlir::registerAsmPrinterCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Compiles a traced training step for all ranks of a mesh\n");

  CompileOptions options;
  using Emit = CompileOptions::Emit;
  std::pair<llvm::StringRef, Emit> kinds[] = {{"exe", Emit::Executable},
                                              {"so", Emit::SharedLibrary},
                                              {"ir:L0", Emit::L0},
                                              {"ir:L1", Emit::L1},
                                              {"ir:L2", Emit::L2},
                                              {"ir:L3", Emit::L3},
                                              {"ir:llvm", Emit::LLVMDialect},
                                              {"llvm", Emit::LLVM},
                                              {"ptx", Emit::Ptx},
                                              {"report", Emit::Report}};
  if (llvm::Error error =
          expectOneOf(emit, llvm::to_vector(llvm::make_first_range(kinds))))
    return reportError(std::move(error));
  options.emit = llvm::find_if(kinds, [](auto &kind) {
                   return kind.first == emit;
                 })->second;
  if (llvm::Error error = expectTexts(
          {&output, &tuning, &remarks, &passedRemarks, &missedRemarks}))
    return reportError(std::move(error));
  if (llvm::Error error = step.check())
    return reportError(std::move(error));
  if (llvm::Error error = expectOneOf(from, {"L0", "L1", "L2", "L3"}))
    return reportError(std::move(error));
  options.from = *parseLevel(from);
  const SchedulePipelineOptions &schedule = step.get().schedule;
  if (llvm::Error error = checkRules(getRules()))
    return reportError(std::move(error));
  if (llvm::Error error = checkLevels(options))
    return reportError(std::move(error));
  options.printsPipeline = printsPipeline;
  if (output.empty() && options.emit != Emit::Report && !printsPipeline)
    return reportError("expected -o, the file to write, beside --emit " + emit +
                       ", got none");
  step.fill(options);
  if (llvm::Error error = checkTogether(options))
    return reportError(std::move(error));
  options.output = output.empty() ? "-" : output.getValue();
  auto fillFilter = [](std::optional<std::string> &filter,
                       const cl::opt<std::string> &option) {
    if (option.getNumOccurrences())
      filter = option;
  };
  fillFilter(options.remarks.all, remarks);
  fillFilter(options.remarks.passed, passedRemarks);
  fillFilter(options.remarks.missed, missedRemarks);
  options.targets = target;
  options.march = march;
  options.tf32 = tf32;
  options.tuning = tuning;
  if (math.getNumOccurrences())
    options.math = math;
  options.kernels.checkAll = schedule.guard;
  options.findManifestFault = findManifestFault;
  options.toolDir = getToolDir(argv[0], &category);
  if (llvm::Error error = compile(options))
    return reportError(std::move(error));
  return 0;
}

int main(int argc, char **argv) {
  prepareProcess();
  llvm::InitLLVM init(argc, argv);
  return runTool("fsdp-compile", [&] { return compileStep(argc, argv); });
}
