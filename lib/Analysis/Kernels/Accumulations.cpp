//===- Accumulations.cpp - Where a step adds up narrow floats -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The graph has an edge from each float value to those that the same element
// goes on in: through arithmetic, moves between scalars and tensors, and
// control flow. Accumulations are the strongly connected components (Tarjan's
// algorithm) that hold a narrow value and an op that rounds.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/Accumulations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SCCIterator.h"

#include <deque>

using namespace mlir;
using namespace mlir::fsdp;

bool fsdp::isNarrowFloat(Type type) {
  if (isa<ShapedType>(type) && !isa<RankedTensorType>(type))
    return false;
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() < 32;
}

Type fsdp::withElementType(Type type, Type element) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? Type(shaped.clone(element)) : element;
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Float arithmetic, element by element: the types of all float operands follow
/// the result's. (A bitcast has the bits of its own type.)
static bool isArithmetic(Operation *op) {
  return op->getNumResults() == 1 && op->getNumOperands() > 0 &&
         isFloat(op->getResult(0)) &&
         (isa<arith::SelectOp, math::FPowIOp>(op) ||
          (op->hasTrait<OpTrait::SameOperandsAndResultType>() &&
           OpTrait::hasElementwiseMappableTraits(op)));
}

bool fsdp::isFloatCast(Operation *op) {
  return isa<arith::ExtFOp, arith::TruncFOp>(op);
}

/// Whether the result may be another number than an operand, or its negative.
static bool rounds(Operation *op) {
  return (isArithmetic(op) || isa<arith::TruncFOp>(op)) &&
         !isa<arith::SelectOp, arith::MaximumFOp, arith::MinimumFOp,
              arith::MaxNumFOp, arith::MinNumFOp, arith::NegFOp, math::AbsFOp,
              math::CopySignOp>(op);
}

/// Elements of the operands are those of the result, all of one type.
static bool movesElements(Operation *op) {
  return isa<tensor::ExtractOp, tensor::InsertOp, tensor::ExtractSliceOp,
             tensor::InsertSliceOp, tensor::ExpandShapeOp,
             tensor::CollapseShapeOp, tensor::CastOp, tensor::ReshapeOp,
             tensor::FromElementsOp, tensor::SplatOp, tensor::ConcatOp,
             tensor::PadOp, tensor::GenerateOp>(op);
}

/// A piece of a tensor.
static bool takesPiece(Operation *op) {
  return isa<tensor::ExtractOp, tensor::ExtractSliceOp, tensor::ExpandShapeOp,
             tensor::CollapseShapeOp>(op);
}

static bool reduces(linalg::LinalgOp op) {
  return op.getNumReductionLoops() != 0;
}

/// The result of the structured op whose body @yield ends that operand
/// @number gives; null where there is none.
static OpResult getYielded(linalg::YieldOp yield, unsigned number) {
  auto op = dyn_cast<linalg::LinalgOp>(yield->getParentOp());
  if (!op || number >= op->getNumResults())
    return {};
  return op->getResult(number);
}

/// Calls @visit for each value of control flow's: an operand of @op or of a
/// terminator in it, and the values that it becomes.
static void
visitControlFlow(RegionBranchOpInterface op,
                 llvm::function_ref<void(OpOperand &, ArrayRef<Value>)> visit) {
  RegionBranchSuccessorMapping mapping;
  op.getSuccessorOperandInputMapping(mapping);
  for (auto &[operand, inputs] : mapping)
    visit(*operand, inputs);
}

/// What combines value @number of a scf.parallel's; null where there is none.
static Block *getCombiner(scf::ParallelOp loop, unsigned number) {
  auto reduce = dyn_cast<scf::ReduceOp>(loop.getBody()->getTerminator());
  if (!reduce || number >= reduce.getReductions().size())
    return nullptr;
  return &reduce.getReductions()[number].front();
}

/// Calls @visit for each edge of the graph that @op makes.
static void visitEdges(Operation *op,
                       llvm::function_ref<void(Value, Value)> visit) {
  if (isArithmetic(op) || isFloatCast(op) || movesElements(op)) {
    for (Value operand : op->getOperands())
      if (isFloat(operand))
        visit(operand, op->getResult(0));
    return;
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    // What a reduction reads is another element than what it writes.
    for (OpOperand &operand : op->getOpOperands())
      if (!reduces(linalgOp) || linalgOp.isDpsInit(&operand))
        visit(operand.get(), linalgOp.getMatchingBlockArgument(&operand));
    return;
  }
  if (auto yield = dyn_cast<linalg::YieldOp>(op)) {
    auto parent = dyn_cast<linalg::LinalgOp>(op->getParentOp());
    for (OpOperand &operand : op->getOpOperands()) {
      OpResult result = getYielded(yield, operand.getOperandNumber());
      if (!result)
        continue;
      visit(operand.get(), result);
      if (reduces(parent))
        visit(operand.get(),
              parent.getMatchingBlockArgument(
                  parent.getDpsInitOperand(result.getResultNumber())));
    }
    return;
  }
  if (isa<tensor::YieldOp>(op)) {
    if (movesElements(op->getParentOp()))
      visit(op->getOperand(0), op->getParentOp()->getResult(0));
    return;
  }
  if (auto loop = dyn_cast<scf::ParallelOp>(op)) {
    auto reduce = dyn_cast<scf::ReduceOp>(loop.getBody()->getTerminator());
    for (auto [i, init] : llvm::enumerate(loop.getInitVals())) {
      Block *combiner = getCombiner(loop, i);
      if (!combiner)
        continue;
      Value combined = combiner->getTerminator()->getOperand(0);
      visit(init, combiner->getArgument(0));
      visit(reduce.getOperands()[i], combiner->getArgument(1));
      // In any order: what was combined may stand on either side.
      for (BlockArgument arg : combiner->getArguments())
        visit(combined, arg);
      visit(combined, loop.getResult(i));
    }
    return;
  }
  if (auto branch = dyn_cast<RegionBranchOpInterface>(op))
    visitControlFlow(branch, [&](OpOperand &operand, ArrayRef<Value> inputs) {
      for (Value input : inputs)
        visit(operand.get(), input);
    });
}

//===----------------------------------------------------------------------===//
// Cycles
//===----------------------------------------------------------------------===//

namespace {
struct FlowNode {
  Value value;
  SmallVector<FlowNode *, 2> next;
};

/// Float values and the edges between them; `entry` leads to all.
class FlowGraph {
public:
  explicit FlowGraph(Operation *root) {
    root->walk([&](Operation *op) {
      visitEdges(op, [&](Value from, Value to) {
        if (isFloat(from) && isFloat(to))
          get(from)->next.push_back(get(to));
      });
    });
    for (FlowNode &node : nodes)
      entry.next.push_back(&node);
  }

  FlowNode entry;

private:
  FlowNode *get(Value value) {
    FlowNode *&node = byValue[value];
    if (!node) {
      nodes.push_back({value, {}});
      node = &nodes.back();
    }
    return node;
  }

  std::deque<FlowNode> nodes;
  llvm::DenseMap<Value, FlowNode *> byValue;
};
} // namespace

template <>
struct llvm::GraphTraits<const FlowGraph *> {
  using NodeRef = const FlowNode *;
  using ChildIteratorType = FlowNode *const *;
  static NodeRef getEntryNode(const FlowGraph *graph) { return &graph->entry; }
  static ChildIteratorType child_begin(NodeRef node) {
    return node->next.begin();
  }
  static ChildIteratorType child_end(NodeRef node) { return node->next.end(); }
};

void AccumulatorTypes::addCycles() {
  FlowGraph graph(root);
  const FlowGraph *entry = &graph;
  for (auto it = llvm::scc_begin(entry); !it.isAtEnd(); ++it) {
    if (!it.hasCycle() || llvm::none_of(*it, [](const FlowNode *node) {
          Operation *def = node->value.getDefiningOp();
          return def && rounds(def);
        }))
      continue;
    for (const FlowNode *node : *it)
      if (isNarrowFloat(node->value.getType()))
        add(node->value);
  }
}

//===----------------------------------------------------------------------===//
// What goes with them
//===----------------------------------------------------------------------===//

void AccumulatorTypes::add(Value value) {
  wide.try_emplace(value, value.getType());
}

/// Values that the IR wants of one type with a wide one. Whether any was new.
bool AccumulatorTypes::addTied(Operation *op) {
  size_t before = wide.size();
  auto tie = [&](ArrayRef<Value> values) {
    if (llvm::any_of(values, [&](Value value) { return isWide(value); }))
      llvm::for_each(values, [&](Value value) { add(value); });
  };
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    for (OpResult result : op->getResults())
      tie({result, linalgOp.getMatchingBlockArgument(
                       linalgOp.getDpsInitOperand(result.getResultNumber()))});
  } else if (auto loop = dyn_cast<scf::ParallelOp>(op)) {
    for (OpResult result : op->getResults())
      if (Block *combiner = getCombiner(loop, result.getResultNumber()))
        tie({result, combiner->getArgument(0), combiner->getArgument(1)});
  } else if (auto branch = dyn_cast<RegionBranchOpInterface>(op)) {
    visitControlFlow(branch,
                     [&](OpOperand &, ArrayRef<Value> inputs) { tie(inputs); });
  }
  return wide.size() != before;
}

/// Inside loops, pieces of a wide tensor are wide: what is rounded is the piece
/// and not, once an iteration, the whole tensor. Whether any was new.
bool AccumulatorTypes::addMoved(Operation *op) {
  if (op == root)
    return false;
  size_t before = wide.size();
  if (takesPiece(op) && isWide(op->getOperand(0)))
    add(op->getResult(0));
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
      linalgOp && !reduces(linalgOp))
    for (OpOperand *input : linalgOp.getDpsInputOperands())
      if (isWide(input->get()))
        add(linalgOp.getMatchingBlockArgument(input));
  return wide.size() != before;
}

/// A number that nothing but accumulations read, a product that is added say,
/// is not rounded before. Whether it was new.
bool AccumulatorTypes::addTerm(Operation *op) {
  if (!isArithmetic(op) || !isa<FloatType>(op->getResult(0).getType()) ||
      !isNarrowFloat(op->getResult(0).getType()) || op->use_empty() ||
      isWide(op->getResult(0)) ||
      !llvm::all_of(op->getUses(),
                    [&](OpOperand &use) { return readsWide(use); }))
    return false;
  add(op->getResult(0));
  return true;
}

bool AccumulatorTypes::readsWide(OpOperand &use) const {
  Operation *op = use.getOwner();
  unsigned number = use.getOperandNumber();
  if (isArithmetic(op) || movesElements(op))
    return isWide(op->getResult(0));
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return isWide(linalgOp.getMatchingBlockArgument(&use));
  if (auto yield = dyn_cast<linalg::YieldOp>(op)) {
    OpResult result = getYielded(yield, number);
    return result && isWide(result);
  }
  if (isa<tensor::YieldOp>(op))
    return isWide(op->getParentOp()->getResult(0));
  if (isa<scf::ReduceOp, scf::ReduceReturnOp>(op)) {
    auto loop = op->getParentOfType<scf::ParallelOp>();
    if (isa<scf::ReduceReturnOp>(op))
      return isWide(op->getBlock()->getArgument(0));
    Block *combiner = getCombiner(loop, number);
    return combiner && isWide(combiner->getArgument(0));
  }
  if (auto loop = dyn_cast<scf::ParallelOp>(op)) {
    unsigned first = op->getNumOperands() - loop.getInitVals().size();
    return number >= first && isWide(loop.getResult(number - first));
  }
  bool isTerminator = op->hasTrait<OpTrait::IsTerminator>();
  auto branch = dyn_cast_or_null<RegionBranchOpInterface>(
      isTerminator ? op->getParentOp() : op);
  bool found = false;
  if (branch)
    visitControlFlow(branch, [&](OpOperand &operand, ArrayRef<Value> inputs) {
      if (&operand == &use)
        found = llvm::any_of(inputs, [&](Value v) { return isWide(v); });
    });
  return found;
}

AccumulatorTypes::AccumulatorTypes(Operation *root) : root(root) {
  addCycles();
  if (wide.empty())
    return;
  bool changed = true;
  while (changed) {
    changed = false;
    root->walk([&](Operation *op) {
      changed |= addTied(op);
      changed |= addMoved(op);
    });
    // Readers first: a chain of terms takes one walk.
    root->walk<WalkOrder::PostOrder, ReverseIterator>(
        [&](Operation *op) { changed |= addTerm(op); });
  }
}
