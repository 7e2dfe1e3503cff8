//===- CutSavedValues.cpp - Forward saves what a minimal cut needs --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A trace saves what the framework saved: a product's result, its activation,
// and what both were rounded to. This pass lets backward compute elementwise
// ops of forward again where that saves more memory than it costs. The ops are
// repeated as they are, roundings included, so that bits do not change.
//
// An op of the program counts as forward if it stands before the op that makes
// the loss, or is that op, and as backward if it stands after it.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/StepGraph.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Planning/SavedValues.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CUTSAVEDVALUES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// A clone of a repeated op serves its first reader and the readers that at
/// most so many products and attentions separate from that. Later readers get
/// another clone: one for all would be in memory for as long as a saved value.
constexpr unsigned kNeighbourhood = 8;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

namespace {
/// What forward hands to backward in one program.
class SavedValues {
public:
  SavedValues(ProgramOp step, Operation *loss);

  const StepGraph &getGraph() const { return graph; }
  /// Products and attentions of backward that stand before @op.
  unsigned getPlace(Operation *op) const { return places.lookup(op); }
  /// The gather in backward of what @gather brings in forward; null where
  /// backward reads that of forward, or none.
  AllGatherOp getLaterGather(AllGatherOp gather) const {
    return later.lookup(gather);
  }
  /// Op i is node i of the graph; there are as many as in forward.
  sched::SaveProblem makeProblem();

private:
  bool isForward(Operation *op) const {
    return op == loss || op->isBeforeInBlock(loss);
  }
  bool isInBackward(Value gathered) const;
  bool isKept(const StepGraph::Node &node, Value value) const;
  bool isRepeatable(const StepGraph::Node &node) const;
  bool isGatheredTooLate(const StepGraph::Node &node, unsigned place) const;
  void addOp(const StepGraph::Node &node);
  void setCosts();

  Operation *loss;
  StepGraph graph;
  llvm::DenseMap<Operation *, unsigned> places;
  llvm::DenseMap<AllGatherOp, AllGatherOp> later;
  sched::SaveProblem problem;
  /// The index of each value in the problem.
  llvm::DenseMap<Value, int> indices;
  /// By value: the places of loop kernels that read it in backward, and of
  /// anything else that does.
  std::vector<SmallVector<unsigned, 2>> loopReaders, otherReaders;
};
} // namespace

SavedValues::SavedValues(ProgramOp step, Operation *loss)
    : loss(loss), graph(step) {
  Block *block = loss->getBlock();
  for (auto gather : block->getOps<AllGatherOp>())
    if (!isForward(gather))
      if (AllGatherOp earlier = getEarlierGather(gather);
          earlier && isForward(earlier) &&
          earlier.getInput() == gather.getInput())
        later.try_emplace(earlier, gather);
  unsigned place = 0;
  for (const StepGraph::Node &node : graph.getNodes()) {
    if (isForward(node.op))
      continue;
    places[node.op] = place;
    place += node.kind == ComputeKind::Contraction ||
             node.kind == ComputeKind::Opaque;
  }
}

/// Whether what forward gathered is in memory in backward, or is gathered once
/// more.
bool SavedValues::isInBackward(Value gathered) const {
  auto gather = gathered.getDefiningOp<AllGatherOp>();
  return !gather || later.contains(gather) || isReadAfter(gathered, loss);
}

/// Whether the program returns @value, or all of it in another shape.
static bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>() ||
           (isReshape(user) && isReturned(user->getResult(0)));
  });
}

/// Whether @value, which @node makes, is in memory in backward in any case:
/// what the program takes, gathers or returns, and what backward reads of it.
/// (isRepeatable asks whether backward has what was gathered.)
bool SavedValues::isKept(const StepGraph::Node &node, Value value) const {
  if (auto view = dyn_cast<ViewOp>(node.op)) {
    Value unit = view.getSource();
    return isa<BlockArgument>(unit) || unit.getDefiningOp<AllGatherOp>() ||
           isReadAfter(unit, loss);
  }
  return isa<AllGatherOp>(node.op) || isReturned(value);
}

bool SavedValues::isRepeatable(const StepGraph::Node &node) const {
  auto op = dyn_cast<linalg::GenericOp>(node.op);
  return op && isPointwise(op) &&
         llvm::all_of(node.reads, [&](const StepGraph::Edge &edge) {
           Value unit = getUnitOf(edge.value);
           return !unit || isInBackward(unit);
         });
}

void SavedValues::addOp(const StepGraph::Node &node) {
  sched::SaveProblem::Op &op = problem.ops.emplace_back();
  op.isRepeatable = isRepeatable(node);
  for (const StepGraph::Edge &edge : node.reads)
    if (auto it = indices.find(edge.value);
        it != indices.end() && !llvm::is_contained(op.reads, it->second))
      op.reads.push_back(it->second);
  auto addResult = [&](Value value) {
    indices[value] = problem.values.size();
    op.results.push_back(problem.values.size());
    sched::SaveProblem::Value &result = problem.values.emplace_back();
    result.bytes =
        getTensor(value.getType()) ? getTensorBytes(value.getType()) : 0;
    result.isKept = isKept(node, value);
  };
  if (node.contraction)
    addResult(node.contraction->result);
  else
    llvm::for_each(node.op->getResults(), addResult);
}

/// How many neighbourhoods the places in @places are of.
static int64_t countNeighbourhoods(const llvm::BitVector &places) {
  int64_t count = 0;
  for (int place = places.find_first(); place >= 0; ++count) {
    unsigned end = place + kNeighbourhood;
    place = end < places.size() ? places.find_next(end) : -1;
  }
  return count;
}

/// Whether @node reads a parameter that backward only gathers so long after
/// @place that the gather cannot move before it: it would be in memory for as
/// long as a saved value, while others need the memory.
bool SavedValues::isGatheredTooLate(const StepGraph::Node &node,
                                    unsigned place) const {
  return llvm::any_of(node.reads, [&](const StepGraph::Edge &edge) {
    Value unit = getUnitOf(edge.value);
    auto gather = unit ? unit.getDefiningOp<AllGatherOp>() : AllGatherOp();
    AllGatherOp again = gather ? getLaterGather(gather) : AllGatherOp();
    return again && getPlace(again) > place + kNeighbourhood;
  });
}

/// An op is repeated in each neighbourhood that reads it, directly or through
/// other ops that can be repeated.
void SavedValues::setCosts() {
  unsigned numPlaces = 1;
  for (auto [op, place] : places)
    numPlaces = std::max(numPlaces, place + 1);
  std::vector<llvm::BitVector> readAt(problem.ops.size(),
                                      llvm::BitVector(numPlaces));
  std::vector<int> maker(problem.values.size());
  for (auto [i, op] : llvm::enumerate(problem.ops))
    for (int v : op.results)
      maker[v] = i;
  for (int i = int(problem.ops.size()) - 1; i >= 0; --i) {
    sched::SaveProblem::Op &op = problem.ops[i];
    llvm::BitVector written(numPlaces);
    for (int v : op.results) {
      for (unsigned place : loopReaders[v])
        readAt[i].set(place);
      for (unsigned place : otherReaders[v])
        written.set(place);
      problem.values[v].isReadByLoops = !loopReaders[v].empty();
      problem.values[v].isNeeded =
          problem.values[v].isReadByLoops || !otherReaders[v].empty();
    }
    readAt[i] |= written;
    int first = readAt[i].find_first();
    if (op.isRepeatable && first >= 0 && isGatheredTooLate(graph[i], first))
      op.isRepeatable = false;
    if (!op.isRepeatable)
      continue;
    for (int v : op.reads)
      readAt[maker[v]] |= readAt[i];
    auto generic = cast<linalg::GenericOp>(graph[i].op);
    double bytes = 0;
    for (int v : op.results)
      bytes += double(problem.values[v].bytes);
    RankedTensorType type =
        cast<RankedTensorType>(generic->getResult(0).getType());
    double work = double(getBodyCost(generic)) * double(type.getNumElements());
    op.repeats = std::max<int64_t>(1, countNeighbourhoods(readAt[i]));
    // What is not computed for the loss is moved rather than repeated.
    op.cost = graph[i].forward || op.repeats > 1 ? work : 0;
    // A repetition that only loop kernels read is not written.
    op.cost += double(sched::SaveProblem::kMovedByte) * bytes *
               double(countNeighbourhoods(written)) / double(op.repeats);
  }
}

sched::SaveProblem SavedValues::makeProblem() {
  for (const StepGraph::Node &node : graph.getNodes()) {
    if (!isForward(node.op))
      break;
    addOp(node);
  }
  loopReaders.resize(problem.values.size());
  otherReaders.resize(problem.values.size());
  for (const StepGraph::Node &node :
       llvm::drop_begin(graph.getNodes(), problem.ops.size()))
    for (const StepGraph::Edge &edge : node.reads)
      if (auto it = indices.find(edge.value); it != indices.end())
        (edge.operand ? loopReaders : otherReaders)[it->second].push_back(
            getPlace(node.op));
  setCosts();
  return problem;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Repeats ops of forward where backward reads what they make.
class Repeater {
public:
  /// @block is that of the program's ops.
  Repeater(const SavedValues &saved, const std::vector<bool> &repeated,
           Block &block)
      : saved(saved), repeated(repeated) {
    for (auto [number, op] : llvm::enumerate(block))
      order[&op] = number;
  }

  /// Lets @reader, an op of backward, read repeated ops. Readers come in the
  /// order of the program.
  void visit(Operation *reader) { visit(reader, saved.getPlace(reader)); }

private:
  /// What stands for a value of forward, and the place of its first reader.
  struct Copy {
    Value value;
    unsigned place;
  };

  void visit(Operation *reader, unsigned place);
  bool isRepeated(Operation *op) const;
  bool isAtHand(Value value, unsigned place) const;
  SmallVector<Operation *> collect(Operation *reader, unsigned place) const;
  bool readsCopies(Operation *op, unsigned place) const;
  void copy(Operation *op, Operation *reader, unsigned place);
  void copyParameter(ViewOp view, Operation *reader, unsigned place);

  const SavedValues &saved;
  const std::vector<bool> &repeated;
  llvm::DenseMap<Value, Copy> copies;
  /// The ops that there were at first, numbered in their order; a gather that
  /// was moved has the number of the op that it was moved before. (An
  /// Operation's own order is computed anew for the whole block after a move.)
  llvm::DenseMap<Operation *, size_t> order;
};
} // namespace

bool Repeater::isRepeated(Operation *op) const {
  int node = saved.getGraph().lookup(op);
  return node >= 0 && node < int(repeated.size()) && repeated[node];
}

bool Repeater::isAtHand(Value value, unsigned place) const {
  auto it = copies.find(value);
  return it != copies.end() && place <= it->second.place + kNeighbourhood;
}

/// The ops that may have to be copied before @reader, which stands at @place:
/// repeated ones, with the views, constants and scalars on the way to them, and
/// views of parameters that they read. In the order of the program.
SmallVector<Operation *> Repeater::collect(Operation *reader,
                                           unsigned place) const {
  llvm::SmallSetVector<Operation *, 16> found;
  auto add = [&](Operation *of, bool withParameters) {
    for (Value value : getReadValues(of)) {
      Operation *def = value.getDefiningOp();
      if (!def || isAtHand(value, place))
        continue;
      bool isNode = saved.getGraph().lookup(def) >= 0;
      if (!isNode || isRepeated(def) || (withParameters && isa<ViewOp>(def)))
        found.insert(def);
    }
  };
  add(reader, /*withParameters=*/false);
  for (size_t i = 0; i != found.size(); ++i)
    if (!isa<ViewOp>(found[i]))
      add(found[i], /*withParameters=*/true);
  SmallVector<Operation *> ops = found.takeVector();
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return order.lookup(a) < order.lookup(b);
  });
  return ops;
}

bool Repeater::readsCopies(Operation *op, unsigned place) const {
  return llvm::any_of(getReadValues(op),
                      [&](Value value) { return isAtHand(value, place); });
}

/// A view of a parameter that is gathered again in backward. The gather has to
/// stand before the first op that reads it.
void Repeater::copyParameter(ViewOp view, Operation *reader, unsigned place) {
  auto gather = view.getSource().getDefiningOp<AllGatherOp>();
  AllGatherOp later = gather ? saved.getLaterGather(gather) : nullptr;
  if (!later)
    return;
  if (order.lookup(later) > order.lookup(reader)) {
    later->moveBefore(reader);
    order[later] = order.lookup(reader);
    // Now, while all copies that there are stand before it: what it sends may
    // have been made of repeated ops.
    visit(later, place);
  }
  OpBuilder builder(reader);
  IRMapping mapping;
  mapping.map(view.getSource(), later.getResult());
  copies[view.getResult()] = {builder.clone(*view, mapping)->getResult(0),
                              place};
}

/// A copy of @op before @reader that reads copies where there are any.
void Repeater::copy(Operation *op, Operation *reader, unsigned place) {
  IRMapping mapping;
  for (Value value : getReadValues(op))
    if (isAtHand(value, place))
      mapping.map(value, copies.lookup(value).value);
  Operation *clone = OpBuilder(reader).clone(*op, mapping);
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
    copies[from] = {to, place};
}

void Repeater::visit(Operation *reader, unsigned place) {
  for (Operation *op : collect(reader, place)) {
    if (auto view = dyn_cast<ViewOp>(op))
      copyParameter(view, reader, place);
    else if (isRepeated(op) || readsCopies(op, place))
      copy(op, reader, place);
  }
  reader->walk([&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands())
      if (isAtHand(operand.get(), place))
        operand.set(copies.lookup(operand.get()).value);
  });
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct CutSavedValues : fsdp::impl::CutSavedValuesBase<CutSavedValues> {
  using CutSavedValuesBase::CutSavedValuesBase;

  void runOnOperation() override {
    ProgramOp step = getOperation();
    Operation *loss = getForwardEnd(step);
    if (!loss || loss->getBlock() != &step.getBody().front())
      return markAllAnalysesPreserved();
    SavedValues saved(step, loss);
    sched::SaveProblem problem = saved.makeProblem();
    problem.savedByte = savedByte;
    std::vector<bool> repeated = sched::chooseRepeatedOps(problem);
    if (llvm::none_of(repeated, [](bool is) { return is; }))
      return markAllAnalysesPreserved();

    Repeater repeater(saved, repeated, *loss->getBlock());
    SmallVector<Operation *> readers;
    for (const StepGraph::Node &node :
         llvm::drop_begin(saved.getGraph().getNodes(), repeated.size()))
      if (!node.op->hasTrait<OpTrait::IsTerminator>())
        readers.push_back(node.op);
    for (Operation *reader : readers)
      repeater.visit(reader);
    // Ops that only backward needed, and views of what was repeated.
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(*loss->getBlock())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};
} // namespace
