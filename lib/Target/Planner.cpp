//===- Planner.cpp - From a traced step to a plan -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Planner.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/Schedule/ClusterCost.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/OutputFile.h"
#include "fsdp/Target/Plan.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<int64_t> fsdp::parseBytes(StringRef text) {
  std::pair<StringRef, double> units[] = {{"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"B", 1},
                                          {"", 1}};
  StringRef number = text.trim();
  double factor = 1;
  for (auto [unit, size] : units)
    if (number.consume_back(unit)) {
      factor = size;
      break;
    }
  double value;
  if (number.trim().getAsDouble(value) || !(value > 0) || value * factor > 9e18)
    return makeError("expected bytes such as 24GiB, got '" + text + "'");
  return int64_t(std::llround(value * factor));
}

/// Where cluster files lie for a tool in @toolDir, in a build tree or an
/// installation.
static std::string getClusterDir(StringRef toolDir) {
  llvm::SmallString<256> dir(path::parent_path(toolDir));
  path::append(dir, "share", "fsdp", "clusters");
  return dir.str().str();
}

llvm::Expected<std::string> fsdp::findCluster(StringRef cluster,
                                              StringRef toolDir) {
  if (cluster.ends_with(".json") || cluster.contains('/'))
    return cluster.str();
  std::string dir = getClusterDir(toolDir);
  llvm::SmallString<256> file(dir);
  path::append(file, cluster + ".json");
  if (fs::exists(file))
    return file.str().str();
  SmallVector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; it != end && !error;
       it.increment(error))
    if (path::extension(it->path()) == ".json")
      names.push_back(path::stem(it->path()).str());
  llvm::sort(names);
  return makeError(
      "expected --cluster to be a file (with .json) or one of " +
      (names.empty() ? "those in " + dir : llvm::join(names, ", ")) +
      ", got '" + cluster + "'");
}

static llvm::Expected<std::optional<OutputFile>> open(StringRef path) {
  if (path.empty())
    return std::optional<OutputFile>();
  auto file = OutputFile::create(path);
  if (!file)
    return file.takeError();
  return std::optional<OutputFile>(std::move(*file));
}

static llvm::Error readSettings(const PlanOptions &options,
                                PlanSettings &settings) {
  static constexpr StringLiteral orders[] = {"in_order", "fsdp", "scheduled"};
  if (!llvm::is_contained(orders, options.order))
    return makeError("expected --order in_order, fsdp or scheduled, got '" +
                     options.order + "'");
  if (!options.memoryBudget.empty()) {
    auto bytes = parseBytes(options.memoryBudget);
    if (!bytes)
      return bytes.takeError();
    settings.budget = *bytes;
  }
  if (!options.computeDtype.empty()) {
    settings.computeDtype = parseCostDtype(options.computeDtype);
    if (!settings.computeDtype)
      return makeError("expected --compute-dtype " +
                       llvm::join(kCostDtypeNames, ", ") + ", got '" +
                       options.computeDtype + "'");
  }
  return llvm::Error::success();
}

static llvm::Error write(std::optional<OutputFile> &file,
                         llvm::function_ref<void(raw_ostream &)> print) {
  return file ? file->write(print) : llvm::Error::success();
}

llvm::Error fsdp::plan(const PlanOptions &options) {
  // What would fail at the end is refused before it takes time.
  PlanSettings settings;
  if (llvm::Error error = readSettings(options, settings))
    return error;
  auto clusterFile = findCluster(options.cluster, options.toolDir);
  if (!clusterFile)
    return clusterFile.takeError();
  auto cluster = loadCluster(*clusterFile);
  if (!cluster)
    return cluster.takeError();
  auto timeline = open(options.timeline);
  if (!timeline)
    return timeline.takeError();
  auto html = open(options.html);
  if (!html)
    return html.takeError();

  Frontend frontend(options);
  Stopwatch &watch = frontend.getWatch();
  if (llvm::Error error = frontend.read())
    return error;
  PartitionOptions partition;
  frontend.fill(partition);
  if (llvm::Error error =
          frontend.runPipeline("partition", [&](OpPassManager &pm) {
            buildPartitionPipeline(pm, partition);
          }))
    return error;
  KernelOptions kernels;
  frontend.fill(kernels);
  if (llvm::Error error =
          frontend.runPipeline("kernels", [&](OpPassManager &pm) {
            buildKernelPipeline(pm, kernels);
          }))
    return error;
  if (llvm::Error error = frontend.runPipeline(
          "arena", [](OpPassManager &pm) { pm.addPass(createPlanArena()); }))
    return error;
  ModuleOp module = frontend.getModule();
  FailureOr<StepProgram> program = extractStepProgram(module);
  if (failed(program))
    return makeError("could not plan " + options.input);

  auto cost = createClusterCost(*cluster, *program);
  if (!cost)
    return cost.takeError();
  PlanReport report;
  StringRef model = path::filename(options.input);
  // DIR/model.mlir is called like its folder.
  report.model =
      (model.starts_with("model.") && path::has_parent_path(options.input)
           ? path::filename(path::parent_path(options.input))
           : model)
          .str();
  report.mesh = options.mesh;
  if (auto strategy = module->getAttrOfType<StringAttr>(names::kStrategy))
    report.strategy = strategy.str();
  report.cluster = cluster->name;
  report.device = cluster->device.name;
  report.budget = cluster->device.getUsableBytes();
  watch.lap("program and costs");
  if (llvm::Error error = makePlan(std::move(*program), std::move(cost->model),
                                   cost->placements, settings, report))
    return error;
  watch.lap("schedule and simulate");

  if (llvm::Error error = write(*timeline, [&](raw_ostream &os) {
        for (const PlanVariant &variant : report.variants)
          if (variant.name == options.order)
            printPlanTrace(report, variant, os);
      }))
    return error;
  if (llvm::Error error =
          write(*html, [&](raw_ostream &os) { printPlanHtml(report, os); }))
    return error;
  if (options.json)
    printPlanJson(report, llvm::outs());
  else
    printPlanText(report, llvm::outs());
  llvm::outs().flush();
  watch.lap("write");
  return llvm::Error::success();
}
