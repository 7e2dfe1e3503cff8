//===- InlineLookups.cpp - Lookups compute the element that they need -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loss looks up the label's element of each row of log-probabilities. These
// are an elementwise function of logits and of two numbers of the row; a tensor
// as large as the logits would be written for the lookup alone. Where fewer
// elements are looked up than there are, the loop that does so computes them of
// looked up operands:
//
//     p = x - m - s;  generic (i): p[i, label[i]]
//  -> generic (i) ins(m, s): x[i, label[i]] - m - s
//
// An operand at the loop's own point, as m and s, becomes one of the loop,
// which can then be fused with the loop that computes it.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_INLINELOOKUPS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Operations that one lookup may take.
constexpr int64_t kMostOperations = 64;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether @op rounds what a product computes, which then writes nothing else.
static bool roundsProduct(linalg::GenericOp op) {
  if (op.getInputs().size() != 1)
    return false;
  Operation *def = lookThroughReshapes(op.getInputs()[0]).getDefiningOp();
  return def && isContraction(def) &&
         op.getBody()
             ->getTerminator()
             ->getOperand(0)
             .getDefiningOp<arith::TruncFOp>();
}

/// The elementwise op that computes @value, seen through reshapes; null where
/// there is none whose operands are in memory or computed by such ops.
static linalg::GenericOp getProducer(Value value) {
  auto op = lookThroughReshapes(value).getDefiningOp<linalg::GenericOp>();
  if (!op || op->getNumResults() != 1 || !isPointwise(op) ||
      op.payloadUsesValueFromOperand(op.getDpsInitOperand(0)) ||
      roundsProduct(op))
    return {};
  return op;
}

/// Operations that computing one element of @value takes, of elements in
/// memory; more than @most where it takes more.
static int64_t getElementCost(Value value, int64_t most) {
  linalg::GenericOp op = getProducer(value);
  if (!op)
    return 0;
  int64_t cost = std::max<int64_t>(1, getBodyCost(op));
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (cost > most)
      break;
    if (op.payloadUsesValueFromOperand(operand))
      cost += getElementCost(operand->get(), most - cost);
  }
  return cost;
}

/// Adds the lookups of @value, or of it in another shape, in loops of @block.
/// False where anything but loops reads it: then it is written in any case.
static bool collectLookups(Value value, Block *block,
                           SmallVectorImpl<tensor::ExtractOp> &lookups) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isReshape(user))
      return collectLookups(user->getResult(0), block, lookups);
    if (user->getBlock() == block)
      return isLoopOp(user);
    auto lookup = dyn_cast<tensor::ExtractOp>(user);
    auto loop = dyn_cast<linalg::GenericOp>(user->getParentOp());
    if (!lookup || !loop || loop->getBlock() != block || !isLoopOp(loop))
      return false;
    lookups.push_back(lookup);
    return true;
  });
}

/// The lookups of @op's result that compute their elements for less than all of
/// the result would be written for.
static SmallVector<tensor::ExtractOp> getLookups(linalg::GenericOp op) {
  SmallVector<tensor::ExtractOp> lookups;
  if (getProducer(op->getResult(0)) != op ||
      !collectLookups(op->getResult(0), op->getBlock(), lookups) ||
      lookups.empty())
    return {};
  int64_t cost = getElementCost(op->getResult(0), kMostOperations), work = 0;
  for (tensor::ExtractOp lookup : lookups) {
    auto loop = cast<linalg::GenericOp>(lookup->getParentOp());
    work += cost * ShapedType::getNumElements(loop.getStaticLoopRanges());
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (cost > kMostOperations || work > type.getNumElements())
    return {};
  return lookups;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Computes elements of tensors in the body of a loop.
class ElementBuilder {
public:
  ElementBuilder(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc) {}

  Value create(Value tensor, ArrayRef<Value> indices);

private:
  SmallVector<Value> getSourceIndices(Operation *reshape,
                                      ArrayRef<Value> indices);
  SmallVector<Value> split(Value index, ArrayRef<int64_t> sizes);
  Value join(ArrayRef<Value> indices, ArrayRef<int64_t> sizes);
  Value compute(linalg::GenericOp op, ArrayRef<Value> indices);
  Value getConstant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }

  OpBuilder &builder;
  Location loc;
};
} // namespace

/// An index for each of @sizes, row-major.
SmallVector<Value> ElementBuilder::split(Value index, ArrayRef<int64_t> sizes) {
  SmallVector<Value> parts(sizes.size());
  for (int64_t i = int64_t(sizes.size()) - 1; i >= 0; --i) {
    bool isOutermost = llvm::all_of(sizes.take_front(i),
                                    [](int64_t size) { return size == 1; });
    if (sizes[i] == 1) {
      parts[i] = getConstant(0);
    } else if (isOutermost) {
      parts[i] = index;
    } else {
      Value size = getConstant(sizes[i]);
      parts[i] = arith::RemUIOp::create(builder, loc, index, size);
      index = arith::DivUIOp::create(builder, loc, index, size);
    }
  }
  return parts;
}

/// The row-major number of a point.
Value ElementBuilder::join(ArrayRef<Value> indices, ArrayRef<int64_t> sizes) {
  Value number;
  for (auto [index, size] : llvm::zip(indices, sizes)) {
    if (size == 1)
      continue;
    if (number) {
      number = arith::MulIOp::create(builder, loc, number, getConstant(size));
      number = arith::AddIOp::create(builder, loc, number, index);
    } else {
      number = index;
    }
  }
  return number ? number : getConstant(0);
}

SmallVector<Value> ElementBuilder::getSourceIndices(Operation *reshape,
                                                    ArrayRef<Value> indices) {
  SmallVector<Value> found;
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(reshape)) {
    ArrayRef<int64_t> shape = collapse.getSrcType().getShape();
    for (auto [index, group] :
         llvm::zip(indices, collapse.getReassociationIndices()))
      llvm::append_range(
          found, split(index, shape.slice(group.front(), group.size())));
    return found;
  }
  auto expand = cast<tensor::ExpandShapeOp>(reshape);
  ArrayRef<int64_t> shape = expand.getResultType().getShape();
  for (const ReassociationIndices &group : expand.getReassociationIndices())
    found.push_back(join(indices.slice(group.front(), group.size()),
                         shape.slice(group.front(), group.size())));
  return found;
}

/// @op's result at @indices.
Value ElementBuilder::compute(linalg::GenericOp op, ArrayRef<Value> indices) {
  SmallVector<Value> loops(op.getNumLoops());
  AffineMap out =
      op.getIndexingMapMatchingResult(cast<OpResult>(op->getResult(0)));
  for (auto [expr, index] : llvm::zip(out.getResults(), indices))
    if (auto loop = dyn_cast<AffineDimExpr>(expr))
      loops[loop.getPosition()] = index;
  // The others have one iteration.
  for (Value &loop : loops)
    if (!loop)
      loop = getConstant(0);
  IRMapping mapping;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (!op.payloadUsesValueFromOperand(operand))
      continue;
    SmallVector<Value> at;
    for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
      auto loop = dyn_cast<AffineDimExpr>(expr);
      at.push_back(loop ? loops[loop.getPosition()] : getConstant(0));
    }
    mapping.map(op.getMatchingBlockArgument(operand),
                create(operand->get(), at));
  }
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      mapping.map(index.getResult(), loops[index.getDim()]);
    else
      builder.clone(inner, mapping);
  }
  return mapping.lookupOrDefault(op.getBody()->getTerminator()->getOperand(0));
}

Value ElementBuilder::create(Value tensor, ArrayRef<Value> indices) {
  Operation *def = tensor.getDefiningOp();
  if (getProducer(tensor)) {
    if (isReshape(def))
      return create(def->getOperand(0), getSourceIndices(def, indices));
    return compute(cast<linalg::GenericOp>(def), indices);
  }
  if (TypedAttr splat = getSplatConstant(tensor))
    return arith::ConstantOp::create(builder, loc, splat);
  return tensor::ExtractOp::create(builder, loc, tensor, indices);
}

/// The loop of @op that each dimension of @lookup's tensor is walked by, where
/// it is looked up at the loop's own point; -1 for a dimension of size 1.
static std::optional<SmallVector<int64_t>>
getOwnPoint(linalg::GenericOp op, tensor::ExtractOp lookup) {
  auto type = cast<RankedTensorType>(lookup.getTensor().getType());
  SmallVector<int64_t> sizes = op.getStaticLoopRanges(), loops;
  for (auto [index, size] : llvm::zip(lookup.getIndices(), type.getShape())) {
    auto loop = index.getDefiningOp<linalg::IndexOp>();
    if (size == 1 && (loop || matchPattern(index, m_Zero())))
      loops.push_back(-1);
    else if (loop && sizes[loop.getDim()] == size &&
             !llvm::is_contained(loops, int64_t(loop.getDim())))
      loops.push_back(loop.getDim());
    else
      return std::nullopt;
  }
  return loops;
}

/// @tensor without the dimensions of size 1 that no loop walks.
static Value dropUnitDims(OpBuilder &builder, Location loc, Value tensor,
                          ArrayRef<int64_t> loops) {
  if (!llvm::is_contained(loops, -1))
    return tensor;
  SmallVector<ReassociationIndices> groups;
  bool isWalked = true;
  for (auto [dim, loop] : llvm::enumerate(loops)) {
    if (groups.empty() || (loop >= 0 && isWalked)) {
      groups.emplace_back();
      isWalked = false;
    }
    groups.back().push_back(dim);
    isWalked |= loop >= 0;
  }
  // All of them: a single number.
  if (!isWalked)
    groups.clear();
  return tensor::CollapseShapeOp::create(builder, loc, tensor, groups);
}

/// Makes operands of those tensors that @op looks up at its own point.
static void addOperands(linalg::GenericOp op) {
  Block *body = op.getBody();
  OpBuilder builder(op);
  SmallVector<Value> inputs(op.getInputs());
  SmallVector<AffineMap> maps(op.getIndexingMapsArray());
  struct Operand {
    Value tensor;
    SmallVector<int64_t> loops;
    BlockArgument arg;
  };
  SmallVector<Operand> known;
  for (auto lookup :
       llvm::make_early_inc_range(body->getOps<tensor::ExtractOp>())) {
    Value tensor = lookup.getTensor();
    std::optional<SmallVector<int64_t>> loops = getOwnPoint(op, lookup);
    if (!loops)
      continue;
    auto it = llvm::find_if(known, [&](const Operand &operand) {
      return operand.tensor == tensor && operand.loops == *loops;
    });
    if (it == known.end()) {
      SmallVector<AffineExpr> exprs;
      for (int64_t loop : *loops)
        if (loop >= 0)
          exprs.push_back(builder.getAffineDimExpr(loop));
      unsigned place = inputs.size();
      maps.insert(maps.begin() + place,
                  AffineMap::get(op.getNumLoops(), 0, exprs, op.getContext()));
      inputs.push_back(dropUnitDims(builder, op.getLoc(), tensor, *loops));
      it = known.insert(
          known.end(),
          {tensor, *loops,
           body->insertArgument(place, lookup.getType(), op.getLoc())});
    }
    lookup.replaceAllUsesWith(it->arg);
    lookup.erase();
  }
  if (known.empty())
    return;
  auto wider = linalg::GenericOp::create(
      builder, op.getLoc(), op->getResultTypes(), inputs, op.getOutputs(), maps,
      op.getIteratorTypesArray());
  wider->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  wider.getRegion().takeBody(op.getRegion());
  op->replaceAllUsesWith(wider);
  op->erase();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct InlineLookups : fsdp::impl::InlineLookupsBase<InlineLookups> {
  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    llvm::SetVector<Operation *> changed;
    // Backwards: what an element is computed of may be looked up elsewhere,
    // too.
    for (Operation &op : llvm::reverse(block)) {
      auto generic = dyn_cast<linalg::GenericOp>(op);
      if (!generic || generic->getNumResults() != 1)
        continue;
      for (tensor::ExtractOp lookup : getLookups(generic)) {
        changed.insert(lookup->getParentOp());
        OpBuilder builder(lookup);
        ElementBuilder elements(builder, lookup.getLoc());
        lookup.replaceAllUsesWith(elements.create(
            lookup.getTensor(), llvm::to_vector(lookup.getIndices())));
        lookup.erase();
      }
    }
    for (Operation *op : changed)
      addOperands(cast<linalg::GenericOp>(op));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};
} // namespace
