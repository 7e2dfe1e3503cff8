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

/// Words that are no default; of options of other types, all are.
static StringRef getOtherValue(const cl::Option &option) {
  if (option.ArgStr == "attention")
    return "decomposed";
  if (option.ArgStr == "accumulate-in")
    return "whole";
  return option.getValueExpectedFlag() == cl::ValueOptional ? "true" : "7";
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
  ASSERT_FALSE(option.addOccurrence(0, option.ArgStr, getOtherValue(option)));
  if (printGiven(*changed.option).empty())
    ASSERT_FALSE(option.addOccurrence(0, option.ArgStr, "false"));
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

TEST(PipelineOptions, AreNamedOnce) {
  const StepOptions step;
  llvm::StringSet<> names;
  for (ListedOption *option : step.getListed())
    EXPECT_TRUE(names.insert(option->get().ArgStr).second)
        << option->get().ArgStr.str();
}

TEST(PipelineOptions, OtherKeysForOtherKernelsOnly) {
  StepOptions a, b;
  b.schedule.recompute = "full";
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
