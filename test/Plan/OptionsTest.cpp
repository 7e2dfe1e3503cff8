//===- OptionsTest.cpp - Options of pipelines reach all that they should --===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each option of the pipelines, found in their lists: what a test names would
// be one more place to forget a new option in.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepCommandLine.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fsdp;
namespace cl = llvm::cl;
using sched::PlanRules;

static cl::OptionCategory category("options of the test");
static StepCommandLine commandLine(category);

namespace {
/// A step whose options differ in one from those of another.
struct Changed {
  StepOptions step;
  ListedOption *option = nullptr;
};
} // namespace

static ArrayRef<ListedOption *> getPart(const StepOptions &step, int part) {
  const PipelineOptions *parts[] = {&step.partition, &step.kernels,
                                    &step.schedule};
  return parts[part]->getListed();
}

template <typename... Enums>
static std::vector<StringRef> getLastWords() {
  return {getWords<Enums>().back().word...};
}

/// Values that are no default, one of them for each option.
static std::vector<StringRef> getOtherValues(const cl::Option &option) {
  if (option.getValueExpectedFlag() == cl::ValueOptional)
    return {"true", "false"};
  auto values =
      getLastWords<Strategy, Order, sched::BackwardPrefetch, AttentionMode,
                   AccumulateIn, ReductionMode, PlanRules::Keep,
                   PlanRules::Recompute, PlanRules::Group>();
  values.push_back("7");
  return values;
}

static std::string printGiven(ListedOption &option) {
  std::string text;
  llvm::raw_string_ostream os(text);
  option.printGiven(os);
  return text;
}

/// The @index-th option of a part has another value.
static void change(Changed &changed, int part, size_t index) {
  changed.option = getPart(changed.step, part)[index];
  cl::Option &option = changed.option->get();
  testing::internal::CaptureStderr();
  bool hasOther = llvm::any_of(getOtherValues(option), [&](StringRef value) {
    return !option.addOccurrence(0, option.ArgStr, value) &&
           !printGiven(*changed.option).empty();
  });
  std::string refused = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(hasOther) << option.ArgStr.str() << ": " << refused;
}

/// All passes from L0 to L3, with their options.
static std::string printPasses(const StepOptions &step) {
  MLIRContext context;
  PassManager pm(&context);
  buildPartitionPipeline(pm, step.partition);
  buildKernelPipeline(pm, step.kernels);
  buildSchedulePipeline(pm, step.schedule);
  std::string text;
  llvm::raw_string_ostream os(text);
  pm.printAsTextualPipeline(os);
  return text;
}

TEST(PipelineOptions, EachReachesToolsReportsKeysCopiesAndPasses) {
  const StepOptions unset;
  for (int part : {0, 1, 2})
    for (size_t i = 0, e = getPart(unset, part).size(); i != e; ++i) {
      Changed changed;
      ASSERT_NO_FATAL_FAILURE(change(changed, part, i));
      const cl::Option &option = changed.option->get();
      SCOPED_TRACE(option.ArgStr.str());
      std::string given = printGiven(*changed.option);
      EXPECT_TRUE(StringRef(given).starts_with((" --" + option.ArgStr).str()));
      EXPECT_NE(printPasses(changed.step), printPasses(unset));
      if (part != 2)
        EXPECT_NE(changed.step.getKernelKey(), unset.getKernelKey());
      StepOptions copy = changed.step;
      EXPECT_EQ(printGiven(*getPart(copy, part)[i]), given);
      StepOptions assigned;
      assigned = changed.step;
      EXPECT_EQ(printGiven(*getPart(assigned, part)[i]), given);
      bool isOfDriver = option.getOptionHiddenFlag() == kOfDriver;
      const cl::Option *registered =
          cl::getRegisteredOptions().lookup(option.ArgStr);
      EXPECT_EQ(registered == &getPart(commandLine.get(), part)[i]->get(),
                !isOfDriver);
    }
}

/// @option, in the text of a pipeline, takes the words of @Enum alone.
template <typename Enum, typename Option>
static void expectWords(Option &option) {
  SCOPED_TRACE(option.ArgStr.str());
  for (const OptionWord<Enum> &it : getWords<Enum>()) {
    EXPECT_FALSE(option.addOccurrence(0, option.ArgStr, it.word));
    EXPECT_EQ(option.getValue(), it.value);
    EXPECT_EQ(parseWord<Enum>(getWord(it.value)), it.value);
  }
  Enum last = option;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(option.addOccurrence(0, option.ArgStr, "odd\x1b"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: expected " + option.ArgStr.str() + " to be " +
                listWords<Enum>() + ", got 'odd\\1B'\n");
  EXPECT_EQ(option.getValue(), last);
}

TEST(PipelineOptions, TakeTheirWordsAlone) {
  StepOptions step;
  expectWords<Strategy>(step.partition.strategy);
  expectWords<AccumulateIn>(step.partition.accumulateIn);
  expectWords<AttentionMode>(step.kernels.attention);
  expectWords<PlanRules::Keep>(step.schedule.reshardAfterForward);
  expectWords<PlanRules::Recompute>(step.schedule.recompute);
  expectWords<PlanRules::Offload>(step.schedule.offload);
  expectWords<PlanRules::Group>(step.schedule.bucket);
  expectWords<Order>(step.schedule.order);
  expectWords<ReductionMode>(step.schedule.reduction);
  expectWords<sched::BackwardPrefetch>(step.schedule.backwardPrefetch);
}

TEST(PipelineOptions, AreNamedOnce) {
  const StepOptions step;
  llvm::StringSet<> names;
  for (ListedOption *option : step.getListed())
    EXPECT_TRUE(names.insert(option->get().ArgStr).second)
        << option->get().ArgStr.str();
}

TEST(PipelineOptions, OtherKeysForOtherKernelsOnly) {
  StepOptions a, b;
  b.schedule.recompute = PlanRules::Recompute::Full;
  b.schedule.cluster = "other";
  EXPECT_EQ(a.getKernelKey(), b.getKernelKey());
}

TEST(PipelineOptions, TextsOfToolsAreOneEach) {
  const char *words[] = {"tool", "step.mlir", "--ignore", "[a,b]",
                         "--ignore=c"};
  ASSERT_TRUE(cl::ParseCommandLineOptions(5, words));
  StepOptions step;
  commandLine.fill(step);
  EXPECT_EQ(llvm::join(*step.partition.ignore, " "), "[a,b] c");
  StepOptions other;
  other.partition.ignore.addOccurrence(0, "ignore", "d,e");
  EXPECT_EQ(llvm::join(*other.partition.ignore, " "), "d e");
}
