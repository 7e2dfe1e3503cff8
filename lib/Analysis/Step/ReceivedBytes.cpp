//===- ReceivedBytes.cpp - What sums over ranks receive -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ReceivedBytes.h"
#include "fsdp-rt/reductions.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Of a start with all its collectives, or of one that is not started.
static int64_t getBytesOf(Operation *transfer, MeshOp mesh) {
  int64_t bytes = 0;
  transfer->walk([&](CollectiveOpInterface op) {
    int64_t ranks = mesh.getGroupSize(op.getAxesAttr());
    if (!isa<ReduceScatterOp, AllReduceOp>(*op) || ranks == 1)
      return;
    Type element = op.getInput().getType().getElementType();
    auto plan = ::fsdp::rt::planSum(
        isa<AllReduceOp>(*op), op.getCount(ranks),
        ::fsdp::rt::SumBytes::of(
            isa<FloatType>(element),
            llvm::divideCeil(element.getIntOrFloatBitWidth(), 8)),
        {ranks, /*nodes=*/1});
    bytes += plan.memoryBytes();
  });
  return bytes;
}

std::map<StringRef, int64_t> mlir::fsdp::getReceivedBytes(ModuleOp module) {
  std::map<StringRef, int64_t> most;
  auto meshes = module.getOps<MeshOp>();
  if (meshes.empty())
    return most;
  MeshOp mesh = *meshes.begin();
  auto note = [&](StringRef queue, Operation *transfer) {
    if (int64_t bytes = getBytesOf(transfer, mesh))
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
