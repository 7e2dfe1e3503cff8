//===- GroupCheck.cpp - Do collectives join the right ranks? --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows through the step along which axes of the mesh ranks hold different
// things: because their batches differ, or because each holds a shard. What is
// computed of several values differs where any of them does. Sums over batches
// end as means.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/PlacedStep.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// Axes of the mesh by bits.
using Axes = uint64_t;

struct Difference {
  Axes batch = 0, shard = 0;
  /// Along which what differed has been reduced.
  Axes reduced = 0;
  /// Along which parts that shards gave have been added up.
  Axes summed = 0;
  /// How many ranks' results have been added up, and what that has been divided
  /// by.
  int64_t ranks = 1, divisor = 1;

  bool isMean() const { return ranks == divisor; }
  /// What is computed of this and of @other.
  void join(const Difference &other) {
    batch |= other.batch;
    shard |= other.shard;
    reduced |= other.reduced;
    summed |= other.summed;
    if (isMean()) {
      ranks = other.ranks;
      divisor = other.divisor;
    }
  }
};

class GroupChecker {
public:
  GroupChecker(ModuleOp module, func::FuncOp step, MeshOp mesh)
      : module(module), step(step), mesh(mesh) {}
  LogicalResult run();

private:
  Axes getAxes(ArrayAttr names);
  int64_t countRanks(Axes axes);
  std::string describe(Axes axes);
  FlatParamOp getFlatParam(DictionaryAttr attrs);
  static bool isIgnored(FlatParamOp flat) {
    return flat && flat.getShardAxes().empty() &&
           flat.getReplicateAxes().empty();
  }
  void addArguments();
  LogicalResult visit(Operation &op);
  LogicalResult visitCollective(CollectiveOpInterface op);
  LogicalResult checkReturn(Operation &op);
  LogicalResult fail(Operation *op, const Twine &expected, Axes axes,
                     const Twine &got) {
    return op->emitOpError("expected ")
           << expected << " along " << describe(axes) << ", got " << got;
  }

  ModuleOp module;
  func::FuncOp step;
  MeshOp mesh;
  /// All with more than one rank.
  Axes all = 0;
  bool hasIgnored = false;
  llvm::DenseMap<Value, Difference> differences;
};
} // namespace

Axes GroupChecker::getAxes(ArrayAttr names) {
  Axes axes = 0;
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axis.getSize() > 1 && llvm::is_contained(names, axis.getName()))
      axes |= Axes(1) << i;
  return axes;
}

/// In a group along @axes.
int64_t GroupChecker::countRanks(Axes axes) {
  int64_t ranks = 1;
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axes >> i & 1)
      ranks *= axis.getSize();
  return ranks;
}

std::string GroupChecker::describe(Axes axes) {
  SmallVector<StringRef> names;
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axes >> i & 1)
      names.push_back(axis.getName().getValue());
  return names.empty() ? "no axis" : "'" + llvm::join(names, "', '") + "'";
}

/// The flat parameter that an argument or result is a shard or a state of.
FlatParamOp GroupChecker::getFlatParam(DictionaryAttr attrs) {
  if (!attrs)
    return nullptr;
  auto name = attrs.getAs<FlatSymbolRefAttr>(names::kShard);
  if (auto state = attrs.getAs<DictionaryAttr>(names::kState))
    name = state.getAs<FlatSymbolRefAttr>("flat_param");
  return name ? module.lookupSymbol<FlatParamOp>(name) : nullptr;
}

/// Shards are equal on replicas when the step begins; batches, and buffers of a
/// rank's own, differ everywhere. So do parameters whose gradients are not
/// reduced.
void GroupChecker::addArguments() {
  for (BlockArgument arg : step.getArguments()) {
    DictionaryAttr attrs = step.getArgAttrDict(arg.getArgNumber());
    if (!attrs)
      attrs = DictionaryAttr::get(step.getContext());
    Difference &difference = differences[arg];
    if (FlatParamOp flat = getFlatParam(attrs)) {
      difference.shard = getAxes(flat.getShardAxes());
      if (isIgnored(flat))
        difference.batch = all;
    } else if (attrs.contains(names::kInput) ||
               attrs.contains(names::kBuffer)) {
      difference.batch = all;
    } else if (!attrs.contains(names::kScalar) &&
               !attrs.contains(names::kState)) {
      // Nobody says what it is.
      difference.batch = difference.shard = all;
    }
  }
}

LogicalResult GroupChecker::visitCollective(CollectiveOpInterface op) {
  Axes axes = getAxes(op.getAxesAttr());
  Difference source = differences.lookup(getWholeValue(op.getInput()));
  if (isa<AllGatherOp>(*op)) {
    if (axes & ~source.shard)
      return fail(op, "to gather what is sharded", axes,
                  "shards along " + describe(source.shard));
    source.shard &= ~axes;
    source.batch &= ~axes;
  } else {
    // What was equal from the start may be averaged; what a reduction has made
    // equal would be counted several times. Parts of a sum over shards differ.
    Axes differs =
        isa<ReduceScatterOp>(*op) ? source.batch : source.batch | source.shard;
    if (axes & source.reduced & ~differs)
      return fail(op, "to reduce what differs", axes,
                  "what is reduced along " + describe(source.reduced) +
                      " already");
    if (isa<AllReduceOp>(*op) && (axes & source.batch) &&
        (axes & source.shard & ~source.batch))
      return fail(op, "to reduce batches or shards, not both", axes,
                  "shards along " + describe(source.shard));
    // Equal results count, too; parts of a sum over shards do not.
    Axes parts = isa<AllReduceOp>(*op) ? source.shard & ~source.batch : Axes(0);
    if (llvm::MulOverflow(source.ranks, countRanks(axes & ~parts),
                          source.ranks) ||
        llvm::MulOverflow(source.divisor, getDivisor(op), source.divisor))
      return op.emitOpError("expected divisors whose product is below 2^63");
    if (source.isMean())
      source.ranks = source.divisor = 1;
    source.summed |= axes & parts;
    source.batch &= ~axes;
    source.reduced |= axes & differs;
    source.shard =
        isa<ReduceScatterOp>(*op) ? source.shard | axes : source.shard & ~axes;
  }
  differences[op->getResult(0)] = source;
  return success();
}

LogicalResult GroupChecker::visit(Operation &op) {
  if (auto start = dyn_cast<StartOp>(op)) {
    for (Operation &transfer : start.getTransfers())
      if (failed(visit(transfer)))
        return failure();
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  if (isa<func::ReturnOp>(op))
    return checkReturn(op);
  if (isView(&op) || isa<WaitOp>(op))
    return success();
  Difference difference;
  for (Value operand : op.getOperands())
    difference.join(differences.lookup(getWholeValue(operand)));
  for (Value result : op.getResults())
    differences[result] = difference;
  return success();
}

/// Replicas that went their own ways would be so for ever, and a loss or a norm
/// is the one of all ranks. (A gradient norm over parameters that are not
/// reduced differs by itself.)
LogicalResult GroupChecker::checkReturn(Operation &op) {
  for (OpOperand &operand : op.getOpOperands()) {
    DictionaryAttr attrs = step.getResultAttrDict(operand.getOperandNumber());
    FlatParamOp flat = getFlatParam(attrs);
    Value whole = getWholeValue(operand.get());
    Difference difference = differences.lookup(whole);
    Operation *maker = whole.getDefiningOp() ? whole.getDefiningOp() : &op;
    bool isLoss = attrs && attrs.contains(names::kLoss);
    bool isNorm = attrs && attrs.contains(names::kGradNorm) && !hasIgnored;
    // The kernel that ends a norm may update shards as well.
    Axes parts = isNorm ? difference.shard & ~difference.summed : Axes(0);
    if (Axes differs = difference.batch | parts; (isLoss || isNorm) && differs)
      return maker->emitOpError("expected a ")
             << (isLoss ? "loss" : "gradient norm")
             << " that all ranks agree on, got one that differs along "
             << describe(differs);
    bool isShared = flat && !isIgnored(flat) && !hasIgnored;
    if (isShared && difference.batch)
      return maker->emitOpError("expected gradients that are reduced along all "
                                "axes before they update a shard of '")
             << flat.getSymName() << "', got ones that differ along "
             << describe(difference.batch);
    if ((isShared || isLoss || isNorm) && !difference.isMean())
      return maker->emitOpError("expected a sum over ")
             << difference.ranks << " ranks to be divided by "
             << difference.ranks << ", got divisor " << difference.divisor;
  }
  return success();
}

LogicalResult GroupChecker::run() {
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axis.getSize() > 1)
      all |= Axes(1) << i;
  for (auto flat : module.getOps<FlatParamOp>())
    hasIgnored |= all && isIgnored(flat);
  addArguments();
  for (Operation &op : step.getBody().front())
    if (failed(visit(op)))
      return failure();
  return success();
}

LogicalResult fsdp::checkGroups(func::FuncOp step) {
  auto module = step->getParentOfType<ModuleOp>();
  auto meshes = module.getOps<MeshOp>();
  if (meshes.empty())
    return success();
  return GroupChecker(module, step, *meshes.begin()).run();
}
