//===- Compiler.cpp - From a traced step to an executable -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/Compiler.h"
#include "MakeCompileReport.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/AccumulateChoice.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Driver/Trials.h"
#include "fsdp/Driver/WrapChoice.h"
#include "fsdp/Passes/LowerWithManifest.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Target/CodeGen.h"
#include "fsdp/Target/Linker.h"
#include "fsdp/Target/Manifest.h"
#include "fsdp/Target/ProgramHeader.h"
#include "fsdp/Tool/OutputFile.h"
#include "fsdp/Tool/PrintableText.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Path.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A part of compiling, with its passes that remark.
struct Stage {
  std::function<llvm::Error()> run;
  SmallVector<RemarkingPass> remarking = {};
};

class Compiler {
public:
  explicit Compiler(const CompileOptions &options)
      : options(options), frontend(options), watch(frontend.getWatch()) {}

  llvm::Error compile();

private:
  llvm::Error run();
  SmallVector<Stage> getStages(const TargetCpu &cpu);
  llvm::Error makeLogical();
  llvm::Error makeKernelCode(ModuleOp module, StepScheduler *scheduler);
  /// 0: whatever it takes. The borders of a guarded arena come on top of what
  /// it was packed for.
  int64_t getArenaBudget() const {
    return schedule && !options.guard ? schedule->getBudget() : 0;
  }
  llvm::Error makeArena();
  llvm::Error print();
  llvm::Error lowerAndWrite(const TargetCpu &cpu);
  void startRemarks();
  llvm::Error writeReport();
  llvm::Error openOutput();
  llvm::Error readSchedule();
  bool hasCode() const {
    return options.emit == CompileOptions::Emit::Executable ||
           options.emit == CompileOptions::Emit::SharedLibrary ||
           options.emit == CompileOptions::Emit::LLVM;
  }
  bool choosesWrap() const {
    return options.wrap == kChosenWrap && !options.schedule.cluster.empty();
  }
  bool choosesAccumulators() const {
    return options.accumulateIn == AccumulateIn::Auto &&
           !options.schedule.cluster.empty();
  }
  /// What came of planning programs of a copy of the step.
  struct Trial {
    StepScheduler::Choices choices;
    /// A memory budget that would do for all of them, in bytes.
    int64_t leastBudget = 0;
  };
  llvm::Expected<Trial> tryStep(const StepOptions &changed,
                                llvm::function_ref<bool(ProgramOp)> isTried);
  llvm::Error tryWrap(StringRef wrap);
  void chooseWrap();
  llvm::Error tryAccumulators(AccumulateIn in);
  void chooseAccumulators();
  void reportChoices();
  llvm::Error writeProgram(ModuleOp module, const TargetCpu &cpu,
                           StringRef manifest);

  /// With the wrap and the accumulators that were chosen, once they are.
  CompileOptions options;
  Frontend frontend;
  Stopwatch &watch;
  OutputFile output, header;
  /// Set where the step is scheduled.
  std::optional<StepScheduler> schedule;
  /// Wraps and accumulators that were tried, and what was planned for each; the
  /// ones that were taken, and what was planned for these.
  SmallVector<WrapTrial> wraps;
  SmallVector<AccumulateTrial> accumulators;
  SmallVector<StepScheduler::Choices> planned;
  size_t wrap = 0, accumulator = 0;
  StepScheduler::Choices choices;
};
} // namespace

/// Borders come on top of what was packed within the budget: they are for
/// finding mistakes, so what they take beyond it is said, not refused.
static void reportGuarded(ModuleOp module, int64_t budget) {
  int64_t bytes = 0;
  for (auto program : module.getOps<ProgramOp>())
    bytes = std::max(bytes, program.getArenaAttr().getBytes());
  if (bytes > budget)
    llvm::errs() << "guarded arena " << bytes << " bytes, " << bytes - budget
                 << " over the budget\n";
}

/// What would fail at the end is refused before it takes time.
llvm::Error Compiler::openOutput() {
  using Emit = CompileOptions::Emit;
  bool isLibrary = options.emit == Emit::SharedLibrary;
  bool isProgram = isLibrary || options.emit == Emit::Executable;
  if (isProgram)
    if (auto driver = findLinkDriver(); !driver)
      return driver.takeError();
  if (llvm::Error error =
          expectApart({{"-o", options.output}}, options,
                      options.schedule.cluster, options.schedule.profile))
    return error;
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
    return llvm::createStringError("expected to write beside " +
                                   options.output + ", got " +
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

static llvm::Error expectCluster(StringRef option) {
  return llvm::createStringError("expected --cluster beside " + option +
                                 ", got none: without one nothing is chosen");
}

llvm::Error Compiler::readSchedule() {
  using Emit = CompileOptions::Emit;
  const ScheduleOptions &wanted = options.schedule;
  bool isUnplanned = options.emit == Emit::L1 || options.emit == Emit::L2;
  if (wanted.cluster.empty()) {
    if (options.emit == Emit::Report)
      return expectCluster("--emit report");
    if (options.wrap == kChosenWrap && !isUnplanned)
      return expectCluster("--wrap auto");
    if (options.accumulateIn == AccumulateIn::Auto)
      return expectCluster("--accumulate-in auto");
    return llvm::Error::success();
  }
  auto created = StepScheduler::create(wanted, options, options.toolDir);
  if (!created)
    return created.takeError();
  schedule = std::move(*created);
  for (auto [isChosen, option] :
       {std::pair(choosesWrap(), "--wrap auto"),
        std::pair(choosesAccumulators(), "--accumulate-in auto")})
    if (isChosen && !wanted.hasPlan())
      return llvm::createStringError(llvm::Twine("expected --order scheduled "
                                                 "beside ") +
                                     option + ", got " + wanted.order +
                                     ": nothing else makes a plan");
  if (!wanted.memoryBudget.empty()) {
    const Cluster &cluster = schedule->getCluster();
    warnAboveDevice(schedule->getBudget() + cluster.device.reservedBytes,
                    cluster);
  }
  return llvm::Error::success();
}

void Compiler::startRemarks() {
  RemarkFilters filters = options.remarks;
  if (options.emit == CompileOptions::Emit::Report)
    filters.all = ".*";
  if (!filters.isEmpty())
    frontend.logRemarks(filters);
}

llvm::Error Compiler::writeReport() {
  auto report = makeCompileReport(frontend.getModule(), options, *schedule,
                                  frontend.getRemarks().take());
  if (!report)
    return report.takeError();
  return output.write([&](raw_ostream &os) {
    printPrintable(os,
                   [&](raw_ostream &os) { printCompileReport(*report, os); });
  });
}

/// Plans programs of a copy of the step as they would be compiled with these
/// options. Says nothing: where one choice cannot be, others can.
llvm::Expected<Compiler::Trial>
Compiler::tryStep(const StepOptions &changed,
                  llvm::function_ref<bool(ProgramOp)> isTried) {
  OwningOpRef<ModuleOp> module = frontend.getModule().clone();
  ScopedDiagnosticHandler quiet(module->getContext(),
                                [](Diagnostic &) { return success(); });
  if (llvm::Error error = frontend.partition(*module, changed))
    return std::move(error);
  if (llvm::Error error = frontend.makeKernels(*module, changed))
    return std::move(error);
  StepScheduler scheduler = *schedule;
  if (hasCode())
    if (llvm::Error error = makeKernelCode(*module, &scheduler))
      return std::move(error);
  Trial trial;
  for (auto program : module->getOps<ProgramOp>()) {
    if (!isTried(program))
      continue;
    auto choice = scheduler.choose(frontend, program);
    if (!choice)
      return choice.takeError();
    trial.leastBudget =
        std::max(trial.leastBudget, scheduler.getBudgetFor(choice->leastBytes));
    trial.choices[program.getSymName()] = std::move(*choice);
  }
  return trial;
}

/// Plans the program that trains with that wrap.
llvm::Error Compiler::tryWrap(StringRef wrap) {
  CompileOptions changed = options;
  changed.wrap = wrap.str();
  // What is chosen afterwards takes at least as much memory.
  if (choosesAccumulators())
    changed.accumulateIn = AccumulateIn::Shard;
  auto trial = tryStep(changed, [](ProgramOp program) {
    return program.getKind() == ProgramKind::train;
  });
  if (!trial)
    return trial.takeError();
  const StepScheduler::Choice &choice = trial->choices.begin()->second;
  wraps.push_back(
      {wrap.str(), choice.fits(), choice.outcome.time, trial->leastBudget});
  planned.push_back(std::move(trial->choices));
  return llvm::Error::success();
}

void Compiler::chooseWrap() {
  std::vector<std::string> all = getWraps(frontend.getModule());
  for (const std::string &wrap : all)
    llvm::consumeError(tryWrap(wrap));
  // Where none can be, compiling the first says why.
  options.wrap = all.front();
  if (wraps.empty())
    return;
  wrap = pickWrap(wraps);
  options.wrap = wraps[wrap].wrap;
  choices = planned[wrap];
}

/// Makes a remark @name of @pass for each trial, and prints all trials to
/// stderr in a line. The reason of a trial that fits and was not taken is @why,
/// a format string, with @takenName in it.
template <typename Trial>
static void reportTrials(Location loc, StringRef name, StringRef pass,
                         ArrayRef<Trial> trials, size_t taken, const char *why,
                         StringRef takenName) {
  auto remarkOn = remark::RemarkOpts::name(name).category(pass);
  for (auto [i, trial] : llvm::enumerate(trials)) {
    if (i == taken && trial.fits) {
      remark::passed(loc, remarkOn) << describe(trial);
      continue;
    }
    auto missed = remark::missed(loc, remarkOn);
    missed << describe(trial);
    if (trial.fits)
      missed << remark::reason(why, takenName);
  }
  llvm::errs() << makePrintable(describeTrials(trials, taken)) << "\n";
}

void Compiler::reportChoices() {
  Location loc = frontend.getModule().getLoc();
  // One wrap alone was no choice.
  if (wraps.size() > 1)
    reportTrials(loc, "Wrap", "fsdp-assign-units", ArrayRef(wraps), wrap,
                 "{0} is no slower", wraps[wrap].wrap);
  if (!accumulators.empty())
    reportTrials(loc, "AccumulateIn", "fsdp-add-accumulation",
                 ArrayRef(accumulators), accumulator,
                 "micro-batches in {0} are no slower",
                 stringify(accumulators[accumulator].in));
}

/// Plans all programs with such accumulators, whose memory each of them needs.
llvm::Error Compiler::tryAccumulators(AccumulateIn in) {
  CompileOptions changed = options;
  changed.accumulateIn = in;
  auto trial = tryStep(changed, [](ProgramOp) { return true; });
  if (!trial)
    return trial.takeError();
  AccumulateTrial tried;
  tried.in = in;
  tried.fits = llvm::all_of(trial->choices,
                            [](const auto &it) { return it.second.fits(); });
  tried.leastBudget = trial->leastBudget;
  for (const auto &[name, choice] : trial->choices)
    tried.add(choice.kind, choice.outcome.time, choice.outcome.bytes);
  accumulators.push_back(tried);
  planned.push_back(std::move(trial->choices));
  return llvm::Error::success();
}

void Compiler::chooseAccumulators() {
  planned.clear();
  // Where none can be, compiling the first says why.
  choices.clear();
  for (AccumulateIn in : {AccumulateIn::Shard, AccumulateIn::Whole})
    llvm::consumeError(tryAccumulators(in));
  options.accumulateIn = AccumulateIn::Shard;
  if (accumulators.empty())
    return;
  accumulator = pickAccumulate(accumulators);
  options.accumulateIn = accumulators[accumulator].in;
  choices = planned[accumulator];
}

llvm::Error Compiler::compile() {
  llvm::Error error = run();
  // Also of a step that failed: they may say why. Nobody asked for those that
  // only a report would have held.
  if (!options.remarks.isEmpty())
    frontend.printRemarks();
  return error;
}

llvm::Error Compiler::makeLogical() {
  PartitionOptions partition;
  frontend.fill(partition);
  return frontend.runPipeline("partition", [&](OpPassManager &pm) {
    buildLogicalPipeline(pm, partition);
  });
}

/// Before the step is planned: what code needs beside the arena is known then.
llvm::Error Compiler::makeKernelCode(ModuleOp module,
                                     StepScheduler *scheduler) {
  if (llvm::Error error = frontend.runPipeline(module, "code for kernels",
                                               buildCpuKernelPipeline))
    return error;
  if (scheduler)
    scheduler->reserveScratch(module);
  return llvm::Error::success();
}

llvm::Error Compiler::makeArena() {
  bool isGuardedPlan = schedule && options.guard;
  StringRef what = !schedule       ? "arena"
                   : isGuardedPlan ? "guarded arena"
                                   : "verify schedule";
  auto build = [&](OpPassManager &pm) {
    // The scheduler has packed it within the budget; borders come on top.
    if (!schedule || options.guard)
      buildArenaPipeline(pm, options.guard);
    VerifyScheduleOptions verify;
    verify.budget = getArenaBudget();
    pm.addNestedPass<ProgramOp>(createVerifySchedule(verify));
  };
  if (llvm::Error error = frontend.runPipeline(what, build))
    return error;
  if (isGuardedPlan)
    reportGuarded(frontend.getModule(), schedule->getBudget());
  if (!schedule)
    llvm::errs() << "not planned: collectives run where they stand; with "
                    "--cluster they are ordered, and step and bound said\n";
  return llvm::Error::success();
}

llvm::Error Compiler::print() {
  return output.write([&](raw_ostream &os) { frontend.getModule().print(os); });
}

llvm::Error Compiler::lowerAndWrite(const TargetCpu &cpu) {
  ManifestOptions manifest;
  std::string text;
  manifest.name = llvm::sys::path::stem(options.input).str();
  manifest.cpu = cpu.name;
  manifest.features = cpu.features;
  manifest.budgetBytes = getArenaBudget();
  if (schedule)
    manifest.order = options.schedule.order;
  auto writeManifest = [&](ModuleOp module,
                           ArrayRef<sched::StepProgram> programs) {
    return text = createManifest(module, programs, manifest);
  };
  if (llvm::Error error =
          frontend.runPipeline("lower to LLVM", [&](OpPassManager &pm) {
            pm.addPass(createConvertFSDPToRuntime(writeManifest));
            buildLowerToLLVMPipeline(
                pm, !llvm::is_contained(cpu.features, "avx512bf16"));
          }))
    return error;
  return writeProgram(frontend.getModule(), cpu, text);
}

/// From the step that was read to the output that was asked for.
SmallVector<Stage> Compiler::getStages(const TargetCpu &cpu) {
  using Emit = CompileOptions::Emit;
  SmallVector<RemarkingPass> choosing = {
      {"fsdp-assign-units", true, choosesWrap()}};
  if (choosesAccumulators())
    choosing.push_back({"fsdp-add-accumulation", true, true});
  if (options.emit == Emit::L1)
    return {{[&] { return makeLogical(); }, choosing},
            {[&] { return print(); }}};

  SmallVector<Stage> stages;
  stages.push_back(
      {[&] { return frontend.partition(frontend.getModule(), options); },
       choosing});
  Stage kernels{
      [&] { return frontend.makeKernels(frontend.getModule(), options); }};
  if (options.attention == AttentionMode::Fused)
    kernels.remarking.push_back({"fsdp-fuse-attention", true, true});
  stages.push_back(std::move(kernels));
  if (options.emit == Emit::L2) {
    stages.push_back({[&] { return print(); }});
    return stages;
  }

  if (hasCode())
    stages.push_back({[&] {
                        return makeKernelCode(frontend.getModule(),
                                              schedule ? &*schedule : nullptr);
                      },
                      {{"fsdp-vectorize-kernels", false, true}}});
  if (!options.schedule.cluster.empty())
    stages.push_back({[&]() -> llvm::Error {
                        if (llvm::Error error =
                                schedule->run(frontend, choices))
                          return error;
                        schedule->report(frontend.getModule());
                        return llvm::Error::success();
                      },
                      StepScheduler::getRemarkingPasses(options.schedule)});
  stages.push_back({[&] { return makeArena(); }});
  if (hasCode())
    stages.push_back({[&] { return lowerAndWrite(cpu); }});
  else
    stages.push_back(
        {[&] { return options.emit == Emit::L3 ? print() : writeReport(); }});
  return stages;
}

llvm::Error Compiler::run() {
  auto cpu = TargetCpu::parse(options.march);
  if (!cpu)
    return cpu.takeError();
  SmallVector<Stage> stages = getStages(*cpu);
  SmallVector<RemarkingPass> remarking;
  for (const Stage &stage : stages)
    llvm::append_range(remarking, stage.remarking);
  if (llvm::Error error = options.remarks.check(remarking))
    return error;
  if (llvm::Error error = readSchedule())
    return error;
  if (llvm::Error error = openOutput())
    return error;
  if (llvm::Error error = frontend.read())
    return error;
  if (choosesWrap())
    chooseWrap();
  if (choosesAccumulators())
    chooseAccumulators();
  startRemarks();
  reportChoices();
  for (const Stage &stage : stages)
    if (llvm::Error error = stage.run())
      return error;
  return llvm::Error::success();
}

llvm::Error fsdp::compile(const CompileOptions &options) {
  return Compiler(options).compile();
}
