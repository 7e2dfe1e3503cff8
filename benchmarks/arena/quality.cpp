//===- quality.cpp - How full arenas are ----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints, for each model, mesh and order, how many buffers share the arena's
// moving part, the least bytes that they can need, those that they got, and
// how long it took to place them. Exits 1 where they got too many: 1.005 times
// the least up to 3,000 buffers, 1.02 times above. In the order "offloaded" all
// is in the host's memory that can be, and the order needs as little as
// possible: where that does not pack, ever more room is left but at the fullest
// moments, as fitStep does.
//
//   fsdp-arena-quality [--mesh MESH]... [FOLDER | MODEL.mlir[.gz]]...
//
// Without models: those of test/fixtures; without meshes: shard=2 and
// shard=2,replicate=2. A model that cannot be read is reported once, and the
// others are still measured (exit 1). Exits with 2 and does nothing where an
// option is not known or has no value.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/ArenaPlan.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/Frontend.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlir;
using namespace mlir::fsdp;
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

static std::string getFile(StringRef folder, const llvm::Twine &name) {
  llvm::SmallString<256> file(folder);
  path::append(file, name);
  return file.str().str();
}

/// The step of @options, in @order, before it has places. "offloaded": all that
/// can be is in the host's memory, and the order needs as little as possible,
/// and leaves @room bytes free where it can.
static llvm::Error build(Frontend &frontend, StringRef order, int64_t room) {
  Copyable<PartitionOptions> partition = frontend.getPartitionOptions();
  ScheduleStepOptions schedule;
  schedule.cluster = FSDP_CLUSTER_DIR "/h100-sxm.json";
  bool isOffloaded = order == "offloaded";
  schedule.order = isOffloaded ? Order::scheduled : *parseWord<Order>(order);
  // Whether it fits is not the question here.
  schedule.budget = isOffloaded ? 1 : int64_t(1) << 50;
  schedule.shrink = isOffloaded;
  schedule.room = room;
  OptimizeOptions optimize;
  optimize.cluster = schedule.cluster;
  optimize.budget = int64_t(1) << 50;
  optimize.offload = sched::PlanRules::Offload::Full;
  // What is kept gathered would hide the rest.
  optimize.reshardAfterForward = sched::PlanRules::Keep::Never;
  if (llvm::Error error = frontend.runPipeline("plan", [&](OpPassManager &pm) {
        buildPartitionPipeline(pm, partition);
        buildKernelPipeline(pm);
        if (isOffloaded)
          buildOptimizePipeline(pm, optimize);
      }))
    return error;
  // Another order is what is packed here.
  for (auto program : frontend.getModule().getOps<ProgramOp>())
    program->removeAttr(names::kOrder);
  return frontend.runPipeline("order", [&](OpPassManager &pm) {
    pm.addNestedPass<ProgramOp>(createPlanArena());
    pm.addNestedPass<ProgramOp>(createScheduleStep(schedule));
  });
}

enum class Outcome {
  Good,
  TooLarge,
  /// There is no such step of this model on this mesh.
  NoStep,
  /// There is no such model.
  NoModel
};

static Outcome report(llvm::Error error, Outcome outcome) {
  llvm::errs() << "error: " << llvm::toString(std::move(error)) << "\n";
  return outcome;
}

namespace {
struct Arena {
  int64_t buffers = 0, bound = 0, bytes = 0;
  double milliseconds = 0;

  double getRatio() const { return bound ? double(bytes) / bound : 1; }
  bool isGood() const { return getRatio() <= (buffers <= 3000 ? 1.005 : 1.02); }
};
} // namespace

/// Whether there is such an arena, which @arena is then.
static Outcome measure(const StepOptions &options, StringRef order,
                       int64_t room, Arena &arena) {
  Frontend frontend(options);
  if (llvm::Error error = frontend.read())
    return report(std::move(error), Outcome::NoModel);
  if (llvm::Error error = build(frontend, order, room))
    return report(std::move(error), Outcome::NoStep);
  ProgramOp step = getTrainProgram(frontend.getModule());
  auto from = std::chrono::steady_clock::now();
  ArenaPlan plan = *planArena(step);
  arena.milliseconds += std::chrono::duration<double, std::milli>(
                            std::chrono::steady_clock::now() - from)
                            .count();
  arena.buffers = plan.bufferCount;
  arena.bound = plan.bound;
  arena.bytes = plan.totalBytes - plan.segmentOffset[2];
  return Outcome::Good;
}

/// Whether the arena is small enough. Where memory is short and it is not,
/// orders with more room are tried, as within a budget.
static Outcome print(StringRef model, StringRef mesh, StringRef order) {
  StepOptions options;
  options.input = fs::is_directory(model)
                      ? getFile(model, fs::exists(getFile(model, "model.mlir"))
                                           ? "model.mlir"
                                           : "model.mlir.gz")
                      : model.str();
  options.partition.mesh = mesh.str();
  std::string optimizer =
      getFile(path::parent_path(options.input), "optimizer.mlir");
  if (fs::exists(optimizer))
    options.optimizerFile = optimizer;
  else
    options.partition.optimizer = "adamw:lr=1e-3";
  // A folder's model has the folder's name.
  StringRef name = path::filename(options.input).split('.').first;
  if (name == "model")
    name = path::filename(path::parent_path(options.input));
  Arena arena;
  for (int64_t part : {0, 16, 8, 4}) {
    int64_t room = part ? arena.bytes / part : 0;
    Outcome outcome = measure(options, order, room, arena);
    if (outcome != Outcome::Good)
      return outcome;
    if (arena.isGood() || order != "offloaded")
      break;
  }
  llvm::outs() << llvm::left_justify(name, 18) << llvm::left_justify(mesh, 20)
               << llvm::left_justify(order, 10)
               << llvm::format("%6lld %10.2f MiB %10.2f MiB  %.4f %7.1f ms%s\n",
                               (long long)arena.buffers,
                               arena.bound / 1048576.0, arena.bytes / 1048576.0,
                               arena.getRatio(), arena.milliseconds,
                               arena.isGood() ? "" : "  too large");
  llvm::outs().flush();
  return arena.isGood() ? Outcome::Good : Outcome::TooLarge;
}

/// What stands in the way of one model is said once, of one mesh once a model.
static bool printAll(StringRef model, ArrayRef<std::string> meshes) {
  bool areGood = true;
  for (StringRef mesh : meshes)
    for (StringRef order : {"in_order", "fsdp", "scheduled", "offloaded"}) {
      Outcome outcome = print(model, mesh, order);
      areGood &= outcome == Outcome::Good;
      if (outcome == Outcome::NoModel)
        return false;
      if (outcome == Outcome::NoStep)
        break;
    }
  return areGood;
}

static int refuse(const llvm::Twine &what) {
  llvm::errs() << "error: expected " << what << "\n";
  return 2;
}

int main(int argc, char **argv) {
  std::vector<std::string> models, meshes;
  for (int i = 1; i < argc; ++i) {
    StringRef word = argv[i];
    if (word == "--mesh" && i + 1 == argc)
      return refuse("a mesh behind --mesh, got none");
    if (word == "--mesh")
      meshes.push_back(argv[++i]);
    else if (word.starts_with("-"))
      return refuse("--mesh, folders and models, got '" + word + "'");
    else
      models.push_back(word.str());
  }
  if (models.empty())
    for (StringRef name :
         {"bert", "gpt2", "llama", "mixed", "resnet", "t5", "transformer"})
      models.push_back(getFile(FSDP_FIXTURES, name));
  if (meshes.empty())
    meshes = {"shard=2", "shard=2,replicate=2"};
  llvm::outs() << llvm::left_justify("model", 18)
               << llvm::left_justify("mesh", 20)
               << llvm::left_justify("order", 10)
               << "buffers        bound          arena   ratio       time\n";
  bool isGood = true;
  for (const std::string &model : models)
    isGood &= printAll(model, meshes);
  return isGood ? 0 : 1;
}
