//===- OffloadAll.cpp - Compiles a step that offloads all it can ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: fsdp-compile, but that every result of forward's launches that may
// wait on the host does, whether it pays or not. Says on stdout how many there
// are and what the two arenas take. With --exchange, instead, every
// reduce_scatter becomes an all_to_all and a kernel that adds the parts up;
// says how many there were.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Passes/Manifest.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/CPU/CodeGen.h"
#include "fsdp/Target/Linker.h"

#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Target/TargetMachine.h"

namespace cl = llvm::cl;
using namespace mlir;
using namespace mlir::fsdp;

static cl::OptionCategory category("options");
static StepCommandLine step(category);
static cl::opt<std::string> output("o", cl::Required, cl::cat(category));
static cl::opt<bool> exchange("exchange", cl::cat(category));

/// Whether backward reads @value, and nothing keeps it on the device.
static bool canWait(Value value, Operation *loss, bool &isRead) {
  for (Operation *user : value.getUsers()) {
    if (isView(user)) {
      if (!canWait(user->getResult(0), loss, isRead))
        return false;
      continue;
    }
    if (isa<PackOp>(user) || user->hasTrait<OpTrait::IsTerminator>())
      return false;
    isRead |= loss->isBeforeInBlock(user);
  }
  return true;
}

/// Marks what it can; returns how many values.
static int64_t mark(ProgramOp step) {
  Operation *loss = getLossOp(step);
  int64_t count = 0;
  for (auto launch : step.getOps<LaunchOp>()) {
    if (!loss || !launch->isBeforeInBlock(loss))
      continue;
    SmallVector<int64_t> results;
    for (OpResult result : launch->getResults()) {
      bool isRead = false;
      if (canWait(result, loss, isRead) && isRead)
        results.push_back(result.getResultNumber());
    }
    if (!results.empty())
      launch->setAttr(names::kOffload,
                      Builder(step.getContext()).getDenseI64ArrayAttr(results));
    count += results.size();
  }
  return count;
}

/// Adds terms [@lo, @hi) up in the tree of abi.def; returns the sum's name.
static std::string addUp(raw_ostream &os, int64_t lo, int64_t hi) {
  if (hi - lo == 1)
    return "%term" + std::to_string(lo);
  int64_t mid = lo + (hi - lo + 1) / 2;
  std::string a = addUp(os, lo, mid), b = addUp(os, mid, hi),
              sum = "%sum" + std::to_string(lo) + "_" + std::to_string(hi);
  os << sum << " = arith.addf " << a << ", " << b << " : f32\n";
  return sum;
}

/// A kernel named @name of @ranks parts of type @part: their sum in f32,
/// divided and rounded once.
static std::string getSumKernel(StringRef name, int64_t ranks,
                                RankedTensorType part, int64_t divisor) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Type element = part.getElementType();
  auto join = [&](auto write) {
    llvm::interleaveComma(llvm::seq<int64_t>(0, ranks), os, write);
  };
  os << "func.func private @" << name << "(";
  join([&](int64_t i) { os << "%part" << i << ": " << part; });
  os << ", %out: " << part << ") -> " << part << " {\n"
     << "%empty = tensor.empty() : " << part << "\n"
     << "%divisor = arith.constant " << divisor << ".0 : f32\n"
     << "%mean = linalg.generic {indexing_maps = [";
  for (int64_t i = 0; i <= ranks; ++i)
    os << (i ? ", " : "") << "affine_map<(i) -> (i)>";
  os << "], iterator_types = [\"parallel\"]} ins(";
  join([&](int64_t i) { os << "%part" << i; });
  os << " : ";
  join([&](int64_t) { os << part; });
  os << ") outs(%empty : " << part << ") {\n^bb0(";
  StringRef in = element.isF32() ? "%term" : "%in";
  join([&](int64_t i) { os << in << i << ": " << element; });
  os << ", %before: " << element << "):\n";
  if (!element.isF32())
    for (int64_t i = 0; i < ranks; ++i)
      os << "%term" << i << " = arith.extf %in" << i << " : " << element
         << " to f32\n";
  std::string sum = addUp(os, 0, ranks);
  os << "%exact = arith.divf " << sum << ", %divisor : f32\n";
  if (!element.isF32())
    os << "%rounded = arith.truncf %exact : f32 to " << element << "\n";
  os << "linalg.yield " << (element.isF32() ? "%exact" : "%rounded") << " : "
     << element << "\n} -> " << part << "\n"
     << "%placed = bufferization.materialize_in_destination %mean in %out : ("
     << part << ", " << part << ") -> " << part << "\n"
     << "return %placed : " << part << "\n}\n";
  return text;
}

/// Replaces all; returns how many there were.
static int64_t exchangeAll(ModuleOp module) {
  SmallVector<ReduceScatterOp> scatters;
  module.walk([&](ReduceScatterOp op) { scatters.push_back(op); });
  for (auto [i, op] : llvm::enumerate(scatters)) {
    auto mesh = module.lookupSymbol<MeshOp>(op.getMesh());
    int64_t ranks = mesh.getGroupSize(op.getAxes());
    RankedTensorType part = op.getResult().getType();
    std::string name = "sum_of_parts_" + std::to_string(i);
    auto kernel = parseSourceString<ModuleOp>(
        getSumKernel(name, ranks, part, op.getDivisor()), module.getContext());
    OpBuilder builder(op);
    Value parts =
        AllToAllOp::create(builder, op.getLoc(), op.getInput(), op.getMesh(),
                           op.getAxes(), op.getDivisor());
    SmallVector<Value> views;
    for (int64_t rank = 0; rank < ranks; ++rank)
      views.push_back(ViewOp::create(builder, op.getLoc(), part, parts,
                                     rank * part.getNumElements()));
    auto launch = LaunchOp::create(builder, op.getLoc(), TypeRange(part), name,
                                   views, DenseI64ArrayAttr());
    op.replaceAllUsesWith(launch->getResult(0));
    op.erase();
    for (Operation &made : llvm::make_early_inc_range(*kernel->getBody())) {
      made.remove();
      module.push_back(&made);
    }
  }
  return scatters.size();
}

static llvm::Error plan(Frontend &frontend, StringRef toolDir) {
  const SchedulePipelineOptions &wanted = step.get().schedule;
  std::string file;
  if (!wanted.cluster.empty()) {
    auto found = findCluster(wanted.cluster, toolDir);
    if (!found)
      return found.takeError();
    file = *found;
  }
  return frontend.runPipeline("plan", [&](OpPassManager &pm) {
    pm.addNestedPass<ProgramOp>(createOffloadActivations());
    if (!file.empty()) {
      ScheduleStepOptions schedule;
      schedule.cluster = file;
      schedule.order = wanted.order;
      pm.addNestedPass<ProgramOp>(createPlanArena({/*draft=*/true}));
      pm.addNestedPass<ProgramOp>(createScheduleStep(schedule));
    }
    buildCpuKernelPipeline(pm);
    buildArenaPipeline(pm, wanted.guard);
    pm.addNestedPass<ProgramOp>(createVerifySchedule());
  });
}

static llvm::Error writeProgram(Frontend &frontend, const TargetCpu &cpu,
                                StringRef manifest, StringRef toolDir) {
  ConvertFSDPToRuntimeOptions convert;
  convert.manifest = manifest.str();
  if (llvm::Error error = frontend.runPipeline("lower", [&](OpPassManager &pm) {
        pm.addPass(createConvertFSDPToRuntime(convert));
        buildLowerToLLVMPipeline(pm, /*expandBf16=*/true);
      }))
    return error;
  auto machine = createTargetMachine(cpu);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto code = translateToLLVM(frontend.getModule(), context, **machine, cpu);
  if (!code)
    return code.takeError();
  std::string object = output + ".o";
  {
    std::error_code error;
    llvm::raw_fd_ostream os(object, error);
    if (error)
      return llvm::errorCodeToError(error);
    if (llvm::Error failure = emitObject(**code, **machine, os))
      return failure;
  }
  auto runtime = findRuntime(toolDir);
  if (!runtime)
    return runtime.takeError();
  LinkOptions options;
  options.objects = {object};
  options.runtimeDir = *runtime;
  llvm::Error error = link(options, output);
  llvm::sys::fs::remove(object);
  return error;
}

static llvm::Error run(const StepOptions &options, StringRef toolDir) {
  Frontend frontend(options);
  if (llvm::Error error = frontend.read())
    return error;
  ModuleOp module = frontend.getModule();
  if (llvm::Error error = frontend.partition(module, options))
    return error;
  if (llvm::Error error = frontend.makeKernels(module, options))
    return error;
  ProgramOp program = getTrainProgram(module);
  int64_t count = exchange ? exchangeAll(module) : mark(program);
  if (llvm::Error error = plan(frontend, toolDir))
    return error;
  ArenaAttr arena = program.getArenaAttr();
  llvm::outs() << count << (exchange ? " exchanges, " : " values, ")
               << arena.getBytes() << " bytes of the device, "
               << arena.getHost() << " of the host\n";
  auto cpu = TargetCpu::parse("native");
  if (!cpu)
    return cpu.takeError();
  ManifestOptions manifest;
  manifest.targets = {{"cpu", cpu->name, cpu->features}};
  FailureOr<std::string> text = createManifest(module, manifest);
  if (failed(text))
    return llvm::createStringError("expected a step that has a manifest");
  return writeProgram(frontend, *cpu, *text, toolDir);
}

int main(int argc, char **argv) {
  setenv("PATH", "/usr/local/bin:/usr/bin:/bin", /*overwrite=*/0);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv);
  StepOptions options;
  step.fill(options);
  if (llvm::Error error = run(options, getToolDir(argv[0], &category)))
    return reportError(llvm::toString(std::move(error)));
  return 0;
}
