//===- LaunchStages.cpp - What devices run one after another --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchStages.h"
#include "CudaKernels.h"
#include "Kernels/Common/BufferizedKernels.h"
#include "ParallelLoops.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Ops that every stage may execute
//===----------------------------------------------------------------------===//

/// Whether all that happens to @memory, by any name, are loads.
static bool isOnlyLoaded(Value memory) {
  return llvm::all_of(memory.getUsers(), [](Operation *user) {
    return isa<memref::LoadOp>(user) ||
           (isa<ViewLikeOpInterface>(user) && user->getNumResults() == 1 &&
            isOnlyLoaded(user->getResult(0)));
  });
}

/// Whether @load finds the same wherever it stands.
static bool isOfConstantMemory(memref::LoadOp load) {
  Value memory = load.getMemRef();
  while (auto view = memory.getDefiningOp<ViewLikeOpInterface>())
    memory = view.getViewSource();
  if (memory.getDefiningOp<memref::GetGlobalOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(memory);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()) &&
         isOnlyLoaded(memory);
}

static bool isRepeatable(Operation *op) {
  auto load = dyn_cast<memref::LoadOp>(op);
  return isMemoryEffectFree(op) || (load && isOfConstantMemory(load));
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Adds those ops of @op's block whose results @op uses, itself or through
/// others that are repeatable.
static void addNeeded(Operation *op, llvm::SetVector<Operation *> &needed) {
  Block *block = op->getBlock();
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *def = operand.getDefiningOp();
      def = def ? block->findAncestorOpInBlock(*def) : nullptr;
      if (def && def != op && needed.insert(def) && isRepeatable(def))
        addNeeded(def, needed);
    }
  });
}

SmallVector<Operation *> fsdp::getNeeded(ArrayRef<Operation *> ops) {
  llvm::SetVector<Operation *> needed;
  for (Operation *op : ops)
    addNeeded(op, needed);
  needed.remove_if([&](Operation *op) { return llvm::is_contained(ops, op); });
  SmallVector<Operation *> inOrder = needed.takeVector();
  llvm::sort(inOrder,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return inOrder;
}

/// @op as a loop whose points a grid may run at a time.
static scf::ParallelOp getGrid(Operation *op) {
  auto loop = dyn_cast<scf::ParallelOp>(op);
  std::optional<int64_t> points = loop ? getPointCount(loop) : std::nullopt;
  if (!points || loop.getNumReductions() != 0 ||
      llvm::divideCeil(*points, kPointThreads) > kMostBlocks)
    return nullptr;
  return loop;
}

LaunchStage fsdp::joinStages(ArrayRef<LaunchStage> stages) {
  LaunchStage all;
  for (const LaunchStage &stage : stages)
    llvm::append_range(all.ops, stage.ops);
  return all;
}

/// The place in @stages of the first that must be one with @stage, which comes
/// after them: results of ops pass within a stage alone, and neighbours on one
/// block are launched together. Their number where there is none.
static size_t findFirstOfStage(ArrayRef<LaunchStage> stages,
                               const LaunchStage &stage) {
  SmallVector<Operation *> needed = getNeeded(stage.ops);
  for (auto [i, other] : llvm::enumerate(stages))
    for (Operation *op : other.ops)
      if (llvm::is_contained(needed, op))
        return i;
  bool areNeighbours = !stages.empty() && !stages.back().grid && !stage.grid;
  return stages.size() - areNeighbours;
}

SmallVector<LaunchStage> fsdp::cutIntoStages(func::FuncOp body) {
  SmallVector<LaunchStage> stages;
  for (Operation &op : body.getBody().front().without_terminator()) {
    scf::ParallelOp grid = getGrid(&op);
    if (isa<memref::AllocOp>(op) || isRepeatable(&op) ||
        (grid && *getPointCount(grid) == 0))
      continue;
    stages.push_back({{&op}, grid});
    ArrayRef<LaunchStage> earlier = ArrayRef(stages).drop_back();
    size_t first = findFirstOfStage(earlier, stages.back());
    if (first == earlier.size())
      continue;
    LaunchStage joined = joinStages(ArrayRef(stages).drop_front(first));
    stages.truncate(first);
    stages.push_back(std::move(joined));
  }
  return stages;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<memref::AllocOp>>
fsdp::getSharedBuffers(ArrayRef<memref::AllocOp> buffers,
                       ArrayRef<LaunchStage> stages, int64_t blockBytes) {
  SmallVector<SmallVector<Operation *>> needed;
  for (const LaunchStage &stage : stages)
    needed.push_back(getNeeded(stage.ops));
  SmallVector<memref::AllocOp> shared;
  SmallVector<int64_t> used(stages.size());
  for (memref::AllocOp buffer : buffers) {
    FailureOr<int64_t> bytes = getBufferBytes(buffer);
    if (failed(bytes))
      return failure();
    SmallVector<size_t> users;
    for (auto [i, stage] : llvm::enumerate(stages))
      if (llvm::is_contained(needed[i], buffer) ||
          llvm::any_of(stage.ops, [&](Operation *op) {
            return op->isProperAncestor(buffer);
          }))
        users.push_back(i);
    if (users.empty())
      continue;
    bool isOfBlock = users.size() == 1 && !stages[users.front()].grid;
    int64_t &end = used[users.front()];
    if (int64_t next = llvm::alignTo(end + *bytes, kBufferAlignment);
        isOfBlock && next <= blockBytes)
      end = next;
    else
      shared.push_back(buffer);
  }
  return shared;
}
