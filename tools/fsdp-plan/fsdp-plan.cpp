//===- fsdp-plan.cpp - What a step will take, and why ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Planner.h"
#include "fsdp/Target/StepCommandLine.h"

#include "llvm/Support/InitLLVM.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

static cl::OptionCategory category("fsdp-plan options");

static StepCommandLine step(category);
static cl::opt<std::string>
    cluster("cluster", cl::Required, cl::value_desc("file.json|name"),
            cl::desc("Cluster file, or the name of one that is installed"),
            cl::cat(category));
static cl::opt<std::string>
    memoryBudget("memory-budget", cl::value_desc("24GiB"),
                 cl::desc("Bytes for the arena (default: the device's memory "
                          "less what it reserves)"),
                 cl::cat(category));
static cl::opt<std::string>
    computeDtype("compute-dtype", cl::value_desc("bf16"),
                 cl::desc("Cost products as if they were computed in this "
                          "type (default: as traced)"),
                 cl::cat(category));
static cl::opt<std::string>
    profile("profile", cl::value_desc("file.json"),
            cl::desc("Take kernels' times from what an executable of this "
                     "step wrote with --profile"),
            cl::cat(category));
static cl::opt<std::string>
    timeline("timeline", cl::value_desc("out.json"),
             cl::desc("Write a Chrome trace, which Perfetto opens"),
             cl::cat(category));
static cl::opt<std::string>
    order("order", cl::init("scheduled"),
          cl::desc("What --timeline shows: in_order | fsdp | scheduled"),
          cl::cat(category));
static cl::opt<std::string> html("html", cl::value_desc("out.html"),
                                 cl::desc("Write a page for a browser"),
                                 cl::cat(category));
static cl::opt<bool> json("json", cl::desc("Print JSON instead of text"),
                          cl::cat(category));

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Says what a training step takes on a cluster, and why\n");

  PlanOptions options;
  step.fill(options);
  options.cluster = cluster;
  options.memoryBudget = memoryBudget;
  options.computeDtype = computeDtype;
  options.profile = profile;
  options.timeline = timeline;
  options.order = order;
  options.html = html;
  options.json = json;
  options.toolDir = getToolDir(argv[0], &category);
  if (llvm::Error error = plan(options))
    return reportError(llvm::toString(std::move(error)));
  return 0;
}
