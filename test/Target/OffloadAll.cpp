//===- OffloadAll.cpp - Compiles a step that offloads all it can ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: fsdp-compile, but that every result of forward's launches that may
// wait on the host does, whether it pays or not. Says on stdout how many there
// are and what the two arenas take.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Passes/Manifest.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/CodeGen.h"
#include "fsdp/Target/Linker.h"

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
static cl::opt<std::string> cluster("cluster", cl::cat(category));
static cl::opt<std::string> order("order", cl::init("scheduled"),
                                  cl::cat(category));
static cl::opt<bool> guard("guard", cl::cat(category));

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

static llvm::Error plan(Frontend &frontend, StringRef toolDir) {
  std::string file;
  if (!cluster.empty()) {
    auto found = findCluster(cluster, toolDir);
    if (!found)
      return found.takeError();
    file = *found;
  }
  return frontend.runPipeline("plan", [&](OpPassManager &pm) {
    pm.addNestedPass<ProgramOp>(createOffloadActivations());
    if (!file.empty()) {
      ScheduleStepOptions schedule;
      schedule.cluster = file;
      schedule.order = order;
      pm.addNestedPass<ProgramOp>(createPlanArena({/*draft=*/true}));
      pm.addNestedPass<ProgramOp>(createScheduleStep(schedule));
    }
    buildCpuKernelPipeline(pm);
    buildArenaPipeline(pm, guard);
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
  int64_t count = mark(program);
  if (llvm::Error error = plan(frontend, toolDir))
    return error;
  ArenaAttr arena = program.getArenaAttr();
  llvm::outs() << count << " values, " << arena.getBytes()
               << " bytes of the device, " << arena.getHost()
               << " of the host\n";
  auto cpu = TargetCpu::parse("native");
  if (!cpu)
    return cpu.takeError();
  ManifestOptions manifest;
  manifest.cpu = cpu->name;
  manifest.features = cpu->features;
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
