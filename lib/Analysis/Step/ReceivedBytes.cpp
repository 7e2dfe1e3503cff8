//===- ReceivedBytes.cpp - What sums over ranks receive -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ReceivedBytes.h"
#include "fsdp-rt/reductions.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;
using ::fsdp::rt::SumPlacement;

/// How sums over @axes are placed on nodes of @ranksPerNode consecutive ranks:
/// each way that one of the groups has. 0: all ranks are on one node.
static SmallVector<SumPlacement> getPlacements(MeshOp mesh, ArrayAttr axes,
                                               int64_t ranksPerNode) {
  int64_t ranks = mesh.getGroupSize(axes);
  SmallVector<SumPlacement> all;
  std::optional<sched::RankGroup> group = getRankGroup(mesh, axes);
  if (!group || ranksPerNode == 0)
    return {{ranks, 1}};
  int64_t stride = group->stride;
  for (int64_t g = 0, e = mesh.getWorldSize() / ranks; g < e; ++g) {
    int64_t first = g / stride * stride * ranks + g % stride;
    SumPlacement placement = ::fsdp::rt::placeSums(
        ranks, [&](int64_t i) { return (first + i * stride) / ranksPerNode; });
    if (llvm::none_of(all, [&](const SumPlacement &other) {
          return other.nodes == placement.nodes;
        }))
      all.push_back(placement);
  }
  return all;
}

/// Of one collective; 0 where it adds nothing up.
static int64_t getBytesOf(CollectiveOpInterface op, int64_t ranks,
                          SumPlacement placement) {
  if (!isa<ReduceScatterOp, AllReduceOp>(*op))
    return 0;
  Type element = op.getInput().getType().getElementType();
  auto bytes = ::fsdp::rt::SumBytes::of(
      isa<FloatType>(element),
      llvm::divideCeil(element.getIntOrFloatBitWidth(), 8));
  return ::fsdp::rt::planSum(isa<AllReduceOp>(*op), op.getCount(ranks), bytes,
                             placement)
      .memoryBytes();
}

/// Of a start with all its collectives, which are of one group, or of one that
/// is not started.
static int64_t getBytesOf(Operation *transfer, MeshOp mesh,
                          int64_t ranksPerNode) {
  SmallVector<CollectiveOpInterface> parts;
  transfer->walk([&](CollectiveOpInterface op) { parts.push_back(op); });
  if (parts.empty())
    return 0;
  ArrayAttr axes = parts.front().getAxesAttr();
  int64_t ranks = mesh.getGroupSize(axes), most = 0;
  if (ranks == 1)
    return 0;
  for (SumPlacement placement : getPlacements(mesh, axes, ranksPerNode)) {
    int64_t bytes = 0;
    for (CollectiveOpInterface part : parts)
      bytes += getBytesOf(part, ranks, placement);
    most = std::max(most, bytes);
  }
  return most;
}

std::map<StringRef, int64_t> mlir::fsdp::getReceivedBytes(ModuleOp module) {
  std::map<StringRef, int64_t> most;
  auto meshes = module.getOps<MeshOp>();
  if (meshes.empty())
    return most;
  MeshOp mesh = *meshes.begin();
  auto reduction = module->getAttrOfType<ReductionAttr>(names::kReduction);
  int64_t ranksPerNode = reduction ? reduction.getRanksPerNode() : 0;
  auto note = [&](StringRef queue, Operation *transfer) {
    if (int64_t bytes = getBytesOf(transfer, mesh, ranksPerNode))
      most[queue] = std::max(most[queue], bytes);
  };
  for (auto program : module.getOps<ProgramOp>()) {
    for (auto start : program.getOps<StartOp>())
      note(stringifyTransferQueue(start.getQueue()), start);
    for (auto collective : program.getOps<CollectiveOpInterface>())
      note("compute", collective);
  }
  return most;
}
