//===- Compiler.cpp - From a traced step to an executable -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/Compiler.h"
#include "MakeCompileReport.h"
#include "StepChoices.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/OptimizerSpec.h"
#include "fsdp/Cost/TuningTable.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Driver/StepTargets.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Support/PrintableText.h"
#include "fsdp/Target/CPU/CodeGen.h"
#include "fsdp/Target/CUDA/CudaTarget.h"
#include "fsdp/Target/Linker.h"
#include "fsdp/Target/ProgramHeader.h"
#include "fsdp/Tool/OutputFile.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class Compiler {
public:
  explicit Compiler(const CompileOptions &options)
      : options(options), frontend(options) {}

  llvm::Error compile();

private:
  llvm::Error run();
  bool hasRules();
  SmallVector<Stage> getStages();
  llvm::Error runStages(ArrayRef<Stage> stages, const StepChoices &choices);
  llvm::Error createTargets();
  void checkManifest();
  llvm::Error write(const TargetCpu &cpu);
  void startRemarks();
  llvm::Error writeReport();
  llvm::Error openOutput();
  llvm::Error readSchedule();
  llvm::Error checkTuning() const;
  llvm::Error writePtx();
  llvm::Error writeProgram(const TargetCpu &cpu);

  /// With the wrap and the accumulators that were chosen, once they are.
  CompileOptions options;
  StepTargets targets;
  Frontend frontend;
  OutputFile output, header;
  /// Set where the step is scheduled.
  std::optional<StepScheduler> schedule;
};
} // namespace

Level fsdp::getLevel(CompileOptions::Emit emit) {
  using Emit = CompileOptions::Emit;
  switch (emit) {
  case Emit::L0:
    return Level::L0;
  case Emit::L1:
    return Level::L1;
  case Emit::L2:
    return Level::L2;
  case Emit::L3:
  case Emit::Report:
    return Level::L3;
  case Emit::LLVMDialect:
  case Emit::LLVM:
  case Emit::Ptx:
  case Emit::Executable:
  case Emit::SharedLibrary:
    return Level::LLVM;
  }
  llvm_unreachable("not an Emit");
}

/// What would fail at the end is refused before it takes time.
llvm::Error Compiler::openOutput() {
  using Emit = CompileOptions::Emit;
  bool isLibrary = options.emit == Emit::SharedLibrary;
  bool isProgram = isLibrary || options.emit == Emit::Executable;
  if (options.printsPipeline)
    isLibrary = isProgram = false;
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

/// The manifest that the entry of @module, which is at LLVM, points to.
static std::string getManifest(ModuleOp module) {
  auto entry = module.lookupSymbol<LLVM::GlobalOp>("fsdp_rt_artifact_entry");
  constexpr int64_t kManifestField = 2;
  std::string manifest;
  entry.walk([&](LLVM::InsertValueOp insert) {
    auto address = insert.getValue().getDefiningOp<LLVM::AddressOfOp>();
    if (insert.getPosition() != ArrayRef<int64_t>(kManifestField) || !address)
      return;
    auto text = module.lookupSymbol<LLVM::GlobalOp>(address.getGlobalName());
    manifest = cast<StringAttr>(text.getValueOrNull()).getValue().rtrim('\0');
  });
  return manifest;
}

/// A program that would not start is not written: that is a fault of ours.
void Compiler::checkManifest() {
  if (!options.findManifestFault || getLevel(options.emit) != Level::LLVM)
    return;
  Frontend::TimedPart timed(frontend, "read the manifest");
  std::string fault =
      options.findManifestFault(getManifest(frontend.getModule()));
  if (!fault.empty())
    llvm::reportFatalInternalError(Twine("the program would not start: ") +
                                   fault);
}

llvm::Error Compiler::writePtx() {
  Frontend::TimedPart timed(frontend, "LLVM: PTX");
  auto ptx = createPtx(frontend.getModule());
  if (!ptx)
    return ptx.takeError();
  return output.write([&](raw_ostream &os) { os << *ptx; });
}

llvm::Error Compiler::writeProgram(const TargetCpu &cpu) {
  ModuleOp module = frontend.getModule();
  bool shared = options.emit == CompileOptions::Emit::SharedLibrary;
  auto machine = createTargetMachine(cpu);
  if (!machine)
    return machine.takeError();
  std::optional<Frontend::TimedPart> timed;
  timed.emplace(frontend, "LLVM: kernels of other targets");
  for (const std::unique_ptr<Target> &target : targets) {
    if (llvm::Error error = target->serializeKernels(module))
      return error;
    if (std::string note = target->getNote(); !note.empty())
      llvm::errs() << note << "\n";
  }
  timed.emplace(frontend, "LLVM: translate and optimize");
  llvm::LLVMContext llvmContext;
  auto llvmModule = translateToLLVM(module, llvmContext, **machine, cpu);
  if (!llvmModule)
    return llvmModule.takeError();
  if (options.emit == CompileOptions::Emit::LLVM)
    return output.write(
        [&](raw_ostream &os) { (*llvmModule)->print(os, nullptr); });
  if (shared)
    addProgramFunction(**llvmModule, getProgramPrefix(options.output));

  timed.emplace(frontend, "LLVM: generate code");
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
  timed.emplace(frontend, "link");
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
  if (llvm::Error error = output.commit())
    return error;
  if (!shared)
    return llvm::Error::success();
  return header.write([&](raw_ostream &os) {
    os << createProgramHeader(options.output, getManifest(module));
  });
}

static llvm::Error expectCluster(StringRef option) {
  return llvm::createStringError("expected --cluster beside " + option +
                                 ", got none: without one nothing is chosen");
}

llvm::Error Compiler::readSchedule() {
  using Emit = CompileOptions::Emit;
  const SchedulePipelineOptions &wanted = options.schedule;
  bool isUnplanned = getLevel(options.emit) < Level::L3;
  if (wanted.cluster.empty()) {
    if (options.emit == Emit::Report)
      return expectCluster("--emit report");
    if (options.partition.wrap == kChosenWrap && !isUnplanned)
      return expectCluster("--wrap auto");
    if (options.partition.accumulateIn == AccumulateIn::Auto)
      return expectCluster("--accumulate-in auto");
    return llvm::Error::success();
  }
  auto created = StepScheduler::create(options, options.toolDir);
  if (!created)
    return created.takeError();
  schedule = std::move(*created);
  for (auto [isChosen, option] :
       {std::pair(options.partition.wrap == kChosenWrap, "--wrap auto"),
        std::pair(options.partition.accumulateIn == AccumulateIn::Auto,
                  "--accumulate-in auto")})
    if (isChosen && !wanted.hasPlan())
      return llvm::createStringError(
          "expected --order " + getWord(Order::scheduled) + " beside " +
          option + ", got " + getWord<Order>(wanted.order) +
          ": nothing else makes a plan");
  if (!options.memoryBudget.empty())
    warnAboveDevice(schedule->getMemoryBudget(), schedule->getCluster());
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

llvm::Error Compiler::compile() {
  llvm::Error error = run();
  // Also of a step that failed: they may say why. Nobody asked for those that
  // only a report would have held.
  if (!options.remarks.isEmpty())
    frontend.printRemarks();
  return error;
}

/// What an input that goes on from a level may break by an edit.
static std::optional<Stage> getVerifyStage(Level from) {
  if (from == Level::L1)
    return Stage{"verify lifetimes", [](OpPassManager &pm) {
                   pm.addNestedPass<ProgramOp>(createVerifyLifetimes());
                 }};
  if (from == Level::L3)
    return Stage{"verify schedule", [](OpPassManager &pm) {
                   pm.addNestedPass<ProgramOp>(createVerifySchedule());
                 }};
  return std::nullopt;
}

/// The exporter writes an optimizer into a file of its own: a step that is
/// compiled without it has the built-in one.
static void warnOfUnreadOptimizer(const CompileOptions &options,
                                  ModuleOp module) {
  if (options.from != Level::L0 || options.input == "-" ||
      !options.partition.optimizer.empty() || !options.optimizerFile.empty() ||
      module.lookupSymbol(names::kOptimizer))
    return;
  SmallString<128> beside(llvm::sys::path::parent_path(options.input));
  llvm::sys::path::append(beside, "optimizer.mlir");
  if (llvm::sys::fs::exists(beside))
    llvm::WithColor::warning()
        << makePrintable(beside) << " is not read: the step has "
        << OptimizerSpec().printConstants()
        << "; --optimizer-file reads it, --optimizer adamw says so\n";
}

static Stage getLowerStage(const StepTargets &targets) {
  return {"lower to LLVM", [&](OpPassManager &pm) {
            LowerOptions lower;
            for (const std::unique_ptr<Target> &target : targets)
              target->describe(lower);
            buildLowerPipeline(pm, lower);
          }};
}

/// A table is of one card: what is fast there need not be elsewhere.
llvm::Error Compiler::checkTuning() const {
  if (options.tuning.empty())
    return llvm::Error::success();
  auto table = TuningTable::load(options.tuning);
  if (!table)
    return table.takeError();
  if (!schedule)
    return llvm::Error::success();
  const Device &device = schedule->getCluster().device;
  if (device.isCalled(table->device))
    return llvm::Error::success();
  std::string alias =
      device.driverName.empty() ? "" : " (" + device.driverName + ")";
  return llvm::createStringError(
      "--tuning: expected a table of the cluster's device, " + device.name +
      alias + ", got one of " + table->device);
}

llvm::Error Compiler::createTargets() {
  auto created =
      fsdp::createTargets(options.targets, {options.march, options.tf32,
                                            options.tuning, options.math});
  if (!created)
    return created.takeError();
  targets = std::move(*created);
  if (options.emit == CompileOptions::Emit::Ptx &&
      llvm::none_of(targets, [](const std::unique_ptr<Target> &target) {
        return target->getKind() == kCudaTarget;
      }))
    return llvm::createStringError("expected cuda among the targets (--target) "
                                   "for --emit ptx, got " +
                                   options.targets);
  options.kernels.setLimits(getKernelLimits(targets));
  return llvm::Error::success();
}

/// Whether the trace says that a module was checkpointed.
static bool hasCheckpointedModule(ModuleOp module) {
  auto modules = module->getAttrOfType<ArrayAttr>(names::kModules);
  return modules && llvm::any_of(modules, [](Attribute entry) {
           auto module = dyn_cast<DictionaryAttr>(entry);
           auto checkpoint =
               module ? module.getAs<BoolAttr>("checkpoint") : BoolAttr();
           return checkpoint && checkpoint.getValue();
         });
}

/// Whether something is kept or repeated without a cluster: options, the trace
/// or what a text at L2 is marked with may say so.
bool Compiler::hasRules() {
  StringRef checkpoint = options.kernels.checkpoint.getValue();
  ModuleOp module = frontend.getModule();
  return options.schedule.hasRules() || options.from == Level::L2 ||
         (checkpoint.empty() ? module && hasCheckpointedModule(module)
                             : checkpoint != "none");
}

/// From the level of the input to that of the output.
SmallVector<Stage> Compiler::getStages() {
  Level to = getLevel(options.emit);
  SmallVector<Stage> stages;
  if (std::optional<Stage> verify = getVerifyStage(options.from))
    stages.push_back(*verify);
  llvm::append_range(stages, getPartitionStages(options, options.from, to));
  // Wraps that were not taken.
  if (schedule && options.partition.wrap == kChosenWrap)
    stages.front().remarking.push_back({"fsdp-assign-units", false, true});
  if (options.from < Level::L3 && to >= Level::L3) {
    llvm::append_range(stages, getKernelCodeStages(targets));
    if (schedule) {
      llvm::append_range(stages, schedule->getStages());
    } else {
      bool isForCuda =
          llvm::any_of(targets, [](const std::unique_ptr<Target> &target) {
            return target->getKind() == kCudaTarget;
          });
      if (isForCuda || options.schedule.reduction == ReductionMode::Nccl)
        stages.push_back({"choose reduction", [&](OpPassManager &pm) {
                            addChooseReduction(pm, options.schedule);
                          }});
      // Every collective stands where its result is needed.
      if (hasRules())
        stages.push_back({kRulesStage,
                          [&](OpPassManager &pm) {
                            buildRulesPipeline(pm, options.schedule);
                          },
                          {{"fsdp-follow-rules", true, false}}});
      stages.push_back(getArenaStage(options.schedule.guard));
    }
  }
  if (to == Level::LLVM)
    stages.push_back(getLowerStage(targets));
  return stages;
}

llvm::Error Compiler::runStages(ArrayRef<Stage> stages,
                                const StepChoices &choices) {
  for (const Stage &stage : stages) {
    // What was planned for a choice is not planned again.
    if (stage.what == kPlanStage)
      if (llvm::Error error =
              schedule->writePlans(frontend, choices.getPlans()))
        return error;
    if (llvm::Error error = frontend.runStage(frontend.getModule(), stage))
      return error;
    if (schedule)
      schedule->report(frontend.getModule(), stage.what);
    else if (stage.what == kArenaStage)
      llvm::errs() << "not planned: collectives run where they stand; with "
                      "--cluster they are ordered, and step and bound said\n";
  }
  return llvm::Error::success();
}

llvm::Error Compiler::write(const TargetCpu &cpu) {
  using Emit = CompileOptions::Emit;
  switch (options.emit) {
  case Emit::Report:
    return writeReport();
  case Emit::Ptx:
    return writePtx();
  case Emit::LLVM:
  case Emit::Executable:
  case Emit::SharedLibrary:
    return writeProgram(cpu);
  default:
    return output.write([&](raw_ostream &os) {
      OpPrintingFlags flags;
      // As what was read has them.
      if (options.emit == Emit::L0)
        flags.enableDebugInfo();
      frontend.getModule().print(os, flags);
      os << "\n";
    });
  }
}

llvm::Error Compiler::run() {
  auto cpu = TargetCpu::parse(options.march);
  if (!cpu)
    return cpu.takeError();
  if (llvm::Error error = createTargets())
    return error;
  if (llvm::Error error = readSchedule())
    return error;
  if (llvm::Error error = checkTuning())
    return error;
  SmallVector<RemarkingPass> remarking;
  for (const Stage &stage : getStages())
    llvm::append_range(remarking, stage.remarking);
  if (llvm::Error error = options.remarks.check(remarking))
    return error;
  if (llvm::Error error = openOutput())
    return error;
  if (llvm::Error error = frontend.read())
    return error;
  if (llvm::Error error =
          expectLevel(frontend.getModule(), options.from, options.input))
    return error;
  StepChoices choices(options, targets, frontend,
                      schedule ? &*schedule : nullptr);
  choices.choose();
  startRemarks();
  choices.report();
  SmallVector<Stage> stages = getStages();
  if (options.printsPipeline) {
    auto text = printPipeline(stages);
    if (!text)
      return text.takeError();
    return output.write([&](raw_ostream &os) { os << *text << "\n"; });
  }
  if (getLevel(options.emit) == Level::LLVM)
    warnOfUnreadOptimizer(options, frontend.getModule());
  if (llvm::Error error = runStages(stages, choices))
    return error;
  checkManifest();
  return write(*cpu);
}

llvm::Error fsdp::compile(const CompileOptions &options) {
  return Compiler(options).compile();
}
