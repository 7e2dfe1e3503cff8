//===- fsdp-plan.cpp - What a step will take, and why ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Plan/Planner.h"
#include "fsdp/Plan/Sweep.h"
#include "fsdp/Tool/CrashHandler.h"
#include "fsdp/Tool/ToolProcess.h"

#include "llvm/Support/InitLLVM.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

static cl::OptionCategory category("fsdp-plan options");

// Plans are compared with other orders, which --fsdp describes.
static StepCommandLine step(category,
                            {"order", "forward-prefetch", "backward-prefetch",
                             "limit-all-gathers", "guard"});
static cl::opt<std::string>
    target("target", cl::value_desc("cpu|cuda|cpu,cuda"),
           cl::desc("Make code for kernels, as fsdp-compile does, so that what "
                    "it needs of memory counts (default: none is made)"),
           cl::cat(category));
static cl::opt<std::string>
    computeDtype("compute-dtype", cl::value_desc("bf16"),
                 cl::desc("Cost products as if they were computed in this "
                          "type (default: as traced)"),
                 cl::cat(category));
static cl::opt<std::string> fsdpOptions(
    "fsdp", cl::value_desc("backward_prefetch=post,.."),
    cl::desc("FSDP as the plan is compared with it: forward_prefetch, "
             "backward_prefetch, limit_all_gathers, all_reduce_stream "
             "(default: true, pre, true, true)"),
    cl::cat(category));
static cl::opt<std::string>
    compare("compare", cl::value_desc("dir"),
            cl::desc("Show what an executable of this step wrote with --trace "
                     "beside the simulation of the program that was compiled"),
            cl::cat(category));
static cl::opt<std::string>
    timeline("timeline", cl::value_desc("out.json"),
             cl::desc("Write a Chrome trace, which Perfetto opens"),
             cl::cat(category));
static cl::opt<ShownOrder> order("order", cl::init(ShownOrder::Planned),
                                 cl::desc("With --timeline, what it shows:"),
                                 cl::cat(category));
static cl::opt<std::string> html("html", cl::value_desc("out.html"),
                                 cl::desc("Write a page for a browser"),
                                 cl::cat(category));
static cl::opt<bool>
    whatIf("what-if",
           cl::desc("Also plan what could make the step faster: other options, "
                    "faster links, .. (with --html in any case)"),
           cl::cat(category));
static cl::list<std::string> sweep(
    "sweep", cl::value_desc("mesh=A;B strategy=C;D .."),
    cl::desc(
        "Plan for all combinations of these values of mesh, strategy, "
        "wrap, cluster, memory-budget, recompute, offload and the dtypes, and "
        "compare"),
    cl::cat(category));
static cl::opt<bool> json("json", cl::desc("Print JSON instead of text"),
                          cl::cat(category));

/// What each option needs to have an effect, beside @axes of a sweep.
static llvm::SmallVector<OptionRule> getRules(llvm::ArrayRef<SweepAxis> axes) {
  llvm::StringRef swept = axes.empty() ? "" : "one";
  const cl::opt<std::string> &profile = step.get().schedule.profile;
  llvm::SmallVector<OptionRule> rules = {
      {&order, "--timeline", timeline, {}, "it says what a timeline shows"},
      {&profile, "--sweep", swept, {}, "a profile is of one program", true},
      step.getProfileRule(),
      {&computeDtype,
       "--profile",
       profile,
       {},
       "its products ran as traced",
       true},
      {&computeDtype,
       "--compare",
       compare,
       {},
       "what ran was computed as traced",
       true},
      {&compare, "--sweep", swept, {}, "a run is of one plan", true},
      {&timeline, "--sweep", swept, {}, "a timeline is of one plan", true},
      {&whatIf, "--sweep", swept, {}, "it asks about one plan", true}};
  for (const SweepAxis &axis : axes)
    if (cl::Option *option = cl::getRegisteredOptions().lookup(axis.name))
      rules.push_back({option,
                       "axis of that name in --sweep",
                       swept,
                       {},
                       "its values take the option's place",
                       true});
  return rules;
}

static int planStep(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Says what a training step takes on a cluster, and why\n");

  if (llvm::Error error = expectTexts(
          {&target, &computeDtype, &fsdpOptions, &compare, &timeline, &html}))
    return reportError(std::move(error));
  std::vector<SweepAxis> axes;
  if (sweep.getNumOccurrences()) {
    auto parsed = parseSweep(sweep);
    if (!parsed)
      return reportError(parsed.takeError());
    axes = std::move(*parsed);
  }
  if (llvm::Error error = step.check())
    return reportError(std::move(error));
  if (llvm::Error error = checkRules(getRules(axes)))
    return reportError(std::move(error));
  PlanOptions options;
  step.fill(options);
  if (llvm::Error error = checkTogether(options))
    return reportError(std::move(error));
  options.targets = target;
  options.computeDtype = computeDtype;
  options.compare = compare;
  options.fsdp = fsdpOptions;
  options.timeline = timeline;
  options.shownOrder = order;
  options.html = html;
  options.json = json;
  options.whatIf = whatIf;
  options.sweep.assign(sweep.begin(), sweep.end());
  options.toolDir = getToolDir(argv[0], &category);
  if (llvm::Error error = plan(options))
    return reportError(std::move(error));
  return 0;
}

int main(int argc, char **argv) {
  prepareProcess();
  llvm::InitLLVM init(argc, argv);
  return runTool("fsdp-plan", [&] { return planStep(argc, argv); });
}
