//===- PlacedStepMutantsTest.cpp - Changed steps are refused --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes the L3 of compiled models (StepChanger.h), and asks the ops'
// verifiers and fsdp-verify-schedule.
//
//===----------------------------------------------------------------------===//

#include "../Schedule/MutantCounts.h"
#include "StepChanger.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/Frontend.h"
#include "fsdp/Driver/StepScheduler.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

namespace {
struct ChangeClass {
  const char *name;
  bool (StepChanger::*change)();
  bool isHarmful;
};

constexpr ChangeClass kClasses[] = {
    {"dropped waits", &StepChanger::dropWait, true},
    {"waits before their starts", &StepChanger::waitBeforeStart, true},
    {"waits behind readers", &StepChanger::waitBehindUse, true},
    {"waits twice", &StepChanger::waitTwice, true},
    {"waits for each other's starts", &StepChanger::waitForAnother, true},
    {"transfers twice", &StepChanger::startTwice, true},
    {"transfers without waits", &StepChanger::startUnwaited, true},
    {"swapped transfers", &StepChanger::startBehindWhatComesAfter, true},
    {"dropped reductions", &StepChanger::dropReduction, true},
    {"resized transfers", &StepChanger::resize, true},
    {"retyped transfers", &StepChanger::retype, true},
    {"wrong groups", &StepChanger::changeGroup, true},
    {"wrong divisors", &StepChanger::changeDivisor, true},
    {"wrong queues", &StepChanger::changeQueue, true},
    {"swapped results", &StepChanger::swapBrought, true},
    {"dropped from buckets", &StepChanger::dropFromBucket, true},
    {"summands twice", &StepChanger::countAnother, true},
    {"buckets over themselves", &StepChanger::placeTogether, true},
    {"written while transferred", &StepChanger::overwriteWhileRunning, true},
    {"overlapped buffers", &StepChanger::placeOverLive, true},
    {"places outside", &StepChanger::placeOutside, true},
    {"places of names", &StepChanger::placeWhatIsNamed, true},
    {"dropped ties", &StepChanger::dropTie, true},
    {"products over their factors", &StepChanger::tieToFactor, true},
    {"earlier waits", &StepChanger::waitEarlier, false},
    {"later transfers", &StepChanger::startLater, false},
    {"more to come after", &StepChanger::startAfterMore, false},
    {"places apart", &StepChanger::placeApart, false},
    {"one more transfer", &StepChanger::transferMore, false},
    {"other events", &StepChanger::renumberEvents, false},
    {"split buckets", &StepChanger::splitBucket, false},
    {"buckets in another order", &StepChanger::reorderBucket, false},
};

struct Setting {
  const char *name, *mesh, *wrap;
  sched::PlanRules::Offload offload;
  Focus focus;
};

void PrintTo(const Setting &setting, std::ostream *os) { *os << setting.name; }

class PlacedStepMutants : public ::testing::TestWithParam<Setting> {
protected:
  static void check(llvm::Error error) {
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  }
  void compile(Frontend &frontend, const StepOptions &options) {
    check(frontend.read());
    check(frontend.partition(frontend.getModule(), options));
    check(frontend.makeKernels(frontend.getModule(), options));
    auto scheduler = StepScheduler::create(options, /*toolDir=*/"");
    ASSERT_TRUE(bool(scheduler)) << llvm::toString(scheduler.takeError());
    check(scheduler->run(frontend));
  }
  /// What the first to refuse it says, or nothing.
  static std::string getRefusal(ModuleOp module) {
    std::string message;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diag) {
      if (message.empty())
        message = diag.str();
      return success();
    });
    if (failed(verify(module)))
      return message;
    PassManager pm(module.getContext());
    pm.enableVerifier(false);
    pm.addNestedPass<ProgramOp>(createVerifySchedule());
    return failed(pm.run(module)) ? message : "";
  }
};
} // namespace

TEST_P(PlacedStepMutants, HarmfulOnesAreRefusedAndNoOthers) {
  StepOptions options;
  options.input = FSDP_FIXTURES "/gpt2/model.mlir";
  options.optimizerFile = FSDP_FIXTURES "/gpt2/optimizer.mlir";
  options.partition.mesh = GetParam().mesh;
  options.partition.wrap = GetParam().wrap;
  options.schedule.offload = GetParam().offload;
  options.schedule.cluster = FSDP_CLUSTERS "/h100-sxm.json";
  Frontend frontend(options);
  ASSERT_NO_FATAL_FAILURE(compile(frontend, options));
  ModuleOp module = frontend.getModule();
  ASSERT_EQ(getRefusal(module), "");
  auto original = getTrainProgram(module);
  original->remove();

  int harmful = 0, harmless = 0, rejected = 0, accepted = 0;
  for (const ChangeClass &kind : kClasses) {
    int found = 0;
    for (unsigned seed = 0; seed != 400 && found != 24; ++seed) {
      ProgramOp step = original.clone();
      module.push_back(step);
      StepChanger changer(module, GetParam().focus, seed);
      if ((changer.*kind.change)()) {
        ++found;
        std::string refusal = getRefusal(module);
        EXPECT_EQ(kind.isHarmful, !refusal.empty())
            << kind.name << ", seed " << seed << ": " << refusal;
        ++(kind.isHarmful ? harmful : harmless);
        ++(refusal.empty() ? accepted : rejected);
      }
      step.erase();
    }
  }
  module.push_back(original);
  sched::test::reportCounts({{"mutants", harmful + harmless},
                             {"harmful", harmful},
                             {"harmless", harmless},
                             {"rejected", rejected},
                             {"accepted", accepted}},
                            std::string(" (gpt2, ") + GetParam().name + ")");
  EXPECT_GT(harmful, 300);
  EXPECT_GT(harmless, 100);
}

INSTANTIATE_TEST_SUITE_P(
    GPT2, PlacedStepMutants,
    ::testing::Values(
        Setting{"shard=2", "shard=2", "blocks", sched::PlanRules::Offload::Auto,
                Focus::All},
        Setting{"shard=2,replicate=2", "shard=2,replicate=2", "blocks",
                sched::PlanRules::Offload::Auto, Focus::All},
        Setting{"starts of several transfers", "shard=2,replicate=2",
                "size:2000", sched::PlanRules::Offload::Auto, Focus::Buckets},
        Setting{"copies to and from the host", "shard=2", "blocks",
                sched::PlanRules::Offload::Full, Focus::Copies}));
