//===- GuardedProgramTest.cpp - Wrong plans are caught at run time --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a traced model with --guard, but without fsdp-verify-schedule and
// with places that are wrong, and runs it.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/GuardPlan.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/Frontend.h"
#include "fsdp/Passes/Manifest.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/CPU/CodeGen.h"
#include "fsdp/Target/Linker.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Target/TargetMachine.h"
#include "gtest/gtest.h"

#include <optional>

using namespace mlir;
using namespace mlir::fsdp;

/// Whether @value has its memory for itself, from its launch to its last
/// reader, each of them an op of the step.
static bool isAlone(Value value) {
  auto launch = value.getDefiningOp<LaunchOp>();
  if (!launch || launch->getNumResults() != 1 || launch.getTiedInput(0) >= 0 ||
      value.use_empty())
    return false;
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    auto reader = dyn_cast<LaunchOp>(use.getOwner());
    if (!reader)
      return false;
    for (OpResult result : reader->getResults())
      if (reader.getTiedInput(result.getResultNumber()) ==
          int64_t(use.getOperandNumber()))
        return false;
    return true;
  });
}

namespace {
/// Removed when it goes.
struct TemporaryPath {
  explicit TemporaryPath(StringRef suffix) {
    int descriptor = -1;
    EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("fsdp-guarded", suffix,
                                                    descriptor, path));
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true).flush();
  }
  ~TemporaryPath() { llvm::sys::fs::remove(path); }
  llvm::SmallString<128> path;
};

class GuardedProgram : public ::testing::Test {
protected:
  void SetUp() override { build(/*offloads=*/false); }

  void build(bool offloads) {
    options.input = FSDP_FIXTURES "/gpt2/model.mlir";
    options.optimizerFile = FSDP_FIXTURES "/gpt2/optimizer.mlir";
    frontend.emplace(options);
    check(frontend->read());
    Copyable<PartitionOptions> partition = frontend->getPartitionOptions();
    check(frontend->runPipeline("kernels", [&](OpPassManager &pm) {
      buildPartitionPipeline(pm, partition);
      buildKernelPipeline(pm);
    }));
    step = getTrainProgram(frontend->getModule());
    if (offloads)
      markActivations();
    check(frontend->runPipeline("all", [&](OpPassManager &pm) {
      pm.addNestedPass<ProgramOp>(createOffloadActivations());
      buildCpuKernelPipeline(pm);
      buildArenaPipeline(pm, /*guard=*/true);
    }));
    step = getTrainProgram(frontend->getModule());
  }

  static void check(llvm::Error error) {
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  }
  static void place(Value value, int64_t offset) {
    value.getDefiningOp()->setAttr(
        names::kOffsets,
        Builder(value.getContext()).getDenseI64ArrayAttr({offset}));
  }

  /// What has its memory for itself and is read in backward goes to the host.
  void markActivations() {
    Operation *loss = getLossOp(step);
    for (auto launch : step.getOps<LaunchOp>())
      if (launch->isBeforeInBlock(loss) && isAlone(launch->getResult(0)) &&
          isReadAfter(launch->getResult(0), loss))
        launch->setAttr(names::kOffload,
                        Builder(step.getContext()).getDenseI64ArrayAttr({0}));
  }

  /// Lowers the step as it is, links and runs it; returns its exit status.
  int run();

  StepOptions options;
  std::optional<Frontend> frontend;
  ProgramOp step;
  std::string output;
};
} // namespace

int GuardedProgram::run() {
  auto cpu = TargetCpu::parse("native");
  EXPECT_TRUE(bool(cpu));
  ManifestOptions manifest;
  manifest.targets = {{"cpu", cpu->name, cpu->features}};
  FailureOr<std::string> text = createManifest(frontend->getModule(), manifest);
  EXPECT_TRUE(succeeded(text));
  check(frontend->runPipeline("lower", [&](OpPassManager &pm) {
    ConvertFSDPToRuntimeOptions convert;
    convert.manifest = *text;
    pm.addPass(createConvertFSDPToRuntime(convert));
    buildLowerToLLVMPipeline(pm, /*expandBf16=*/true);
  }));
  auto machine = createTargetMachine(*cpu);
  EXPECT_TRUE(bool(machine));
  llvm::LLVMContext context;
  auto code = translateToLLVM(frontend->getModule(), context, **machine, *cpu);
  EXPECT_TRUE(bool(code));
  TemporaryPath object("o"), program("exe"), log("txt");
  {
    std::error_code error;
    llvm::raw_fd_ostream os(object.path, error);
    EXPECT_FALSE(error);
    check(emitObject(**code, **machine, os));
  }
  auto runtime = findRuntime(FSDP_BIN);
  EXPECT_TRUE(bool(runtime));
  LinkOptions linking;
  linking.objects = {object.path.str().str()};
  linking.runtimeDir = *runtime;
  check(link(linking, program.path));
  llvm::StringRef args[] = {program.path,
                            "-n",
                            "1",
                            "--threads",
                            "1",
                            "--params",
                            FSDP_FIXTURES "/gpt2/params.safetensors",
                            "--data",
                            FSDP_FIXTURES "/gpt2/batches.safetensors",
                            "--steps",
                            "2"};
  std::optional<llvm::StringRef> redirects[] = {"", log.path.str(),
                                                log.path.str()};
  int status = llvm::sys::ExecuteAndWait(program.path, args, std::nullopt,
                                         redirects, /*SecondsToWait=*/60);
  auto read = llvm::MemoryBuffer::getFile(log.path);
  EXPECT_TRUE(bool(read));
  output = (*read)->getBuffer().str();
  return status;
}

TEST_F(GuardedProgram, runsAsPlanned) { EXPECT_EQ(run(), 0) << output; }

TEST_F(GuardedProgram, findsLiveBuffersThatOverlap) {
  // The second one is written while the first one is still to be read. Both are
  // equally large, so that the border after them is whole.
  Value first, second;
  Block &block = step.getBody().front();
  for (auto launch : block.getOps<LaunchOp>()) {
    if (!isAlone(launch->getResult(0)))
      continue;
    for (auto other : block.getOps<LaunchOp>()) {
      Value a = launch->getResult(0), b = other->getResult(0);
      bool isWritten =
          launch->isBeforeInBlock(other) && isAlone(b) &&
          !llvm::is_contained(other.getInputs(), a) && isReadAfter(a, other) &&
          getTensorBytes(b.getType()) == getTensorBytes(a.getType());
      if (isWritten && !first)
        first = a, second = b;
    }
  }
  ASSERT_TRUE(first);
  place(second, getArenaOffset(first));
  auto kernel = [](Value value) {
    return value.getDefiningOp<LaunchOp>().getKernel().str();
  };
  std::string expected = "guard at " + kernel(second) + " (op ",
              name = "result 0 of " + kernel(second) + " (op ",
              place = " bytes at " + std::to_string(getArenaOffset(first)) +
                      " of the arena) before its life begins";
  EXPECT_EQ(run(), 1);
  EXPECT_NE(output.find(expected), std::string::npos) << output;
  EXPECT_NE(output.find(name), std::string::npos) << output;
  EXPECT_NE(output.find(place), std::string::npos) << output;
}

TEST_F(GuardedProgram, findsKernelsThatWriteTooFar) {
  // A product that puts each row of its result one element too far. What reads
  // it finds NaN in the first one, and what lies behind it is none of its own.
  std::string name;
  for (auto launch : step.getBody().front().getOps<LaunchOp>()) {
    auto kernel =
        frontend->getModule().lookupSymbol<func::FuncOp>(launch.getKernel());
    auto matmul = kernel->getAttrOfType<MatmulAttr>(names::kMatmul);
    if (!matmul || !isAlone(launch->getResult(0)))
      continue;
    SmallVector<int64_t> offsets(matmul.getOffsets().asArrayRef());
    ++offsets[2];
    kernel->setAttr(
        names::kMatmul,
        MatmulAttr::get(
            matmul.getContext(), matmul.getA(), matmul.getB(), matmul.getM(),
            matmul.getN(), matmul.getK(), matmul.getLda(), matmul.getLdb(),
            matmul.getLdc(), matmul.getTransA(), matmul.getTransB(),
            matmul.getAccumulate(),
            Builder(matmul.getContext()).getDenseI64ArrayAttr(offsets),
            matmul.getBatch(), matmul.getStrideA(), matmul.getStrideB(),
            matmul.getStrideC(), matmul.getAlpha(), matmul.getBias(),
            matmul.getAddend()));
    name = "bytes behind result 0 of " + kernel.getSymName().str() + " (op ";
    break;
  }
  ASSERT_FALSE(name.empty());
  EXPECT_EQ(run(), 1);
  EXPECT_NE(output.find(name), std::string::npos) << output;
}

class GuardedOffload : public GuardedProgram {
protected:
  void SetUp() override { build(/*offloads=*/true); }
};

TEST_F(GuardedOffload, runsAsPlanned) {
  EXPECT_GT(step.getArenaAttr().getHost(), 0);
  EXPECT_EQ(run(), 0) << output;
}

TEST_F(GuardedOffload, findsBuffersOfTheHostThatOverlap) {
  // The second one is stored over the first one, which is still to be fetched.
  OffloadOp first, second;
  for (auto offload : step.getOps<OffloadOp>())
    for (auto other : step.getOps<OffloadOp>())
      if (!first && offload->isBeforeInBlock(other) &&
          isReadAfter(offload.getResult(), other) &&
          getTensorBytes(other.getResult().getType()) <=
              getTensorBytes(offload.getResult().getType()))
        first = offload, second = other;
  ASSERT_TRUE(first);
  int64_t at = getArenaOffset(first.getResult());
  place(second.getResult(), at);
  EXPECT_EQ(run(), 1);
  std::string place = " bytes at " + std::to_string(at) +
                      " of the host's arena) before its life begins";
  for (StringRef part : {StringRef("guard at offload (op "),
                         StringRef("result 0 of offload"), StringRef(place)})
    EXPECT_NE(output.find(part), std::string::npos) << output;
}
