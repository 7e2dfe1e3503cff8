//===- StackPieces.cpp - Pieces of a dimension become points of a loop ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor whose dimension consists of n pieces of h elements has the same
// memory as one with dimensions [n, h] in its place. A concatenation of n such
// pieces, or an insertion of one, is elementwise on that: at a point (p, j) it
// takes element j of piece p.
//
//     concat(a, b)           ->  collapse(generic (p, j): p == 0 ? a[j] : b[j])
//     insert x into 0 at h   ->  collapse(generic (p, j): p == 1 ? x[j] : 0)
//
// Loop kernels fuse the elementwise form with what makes the pieces and with
// what reads the whole; a concatenation or insertion as such is a kernel that
// copies. Rotary embeddings, and the gradients of slices, consist of these.
//
// Slices of an elementwise result are computed of slices of its operands where
// nothing reads the whole: a loop kernel reads slices of memory, but not of
// what it computes. What a product's call computes as it stores the product
// (its rounding) is in memory.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_STACKPIECES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Every point loads an element of each piece and uses one, so that each
/// element of a piece is loaded once for each piece of the stack. The loads
/// after the first one hit a cache where few points of few pieces lie between
/// them.
constexpr int64_t kMostPieces = 4, kMostPieceElements = 1024;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

namespace {
/// Dimension `dim` of a tensor is `count` pieces of `size` elements.
struct Stack {
  int64_t dim, count, size;
};
} // namespace

/// @type as pieces of @size elements along @dim; nullopt where that does not
/// divide it, or where a piece has too many elements.
static std::optional<Stack> getStack(RankedTensorType type, int64_t dim,
                                     int64_t size) {
  if (!type.hasStaticShape() || type.getNumElements() == 0 || size == 0 ||
      type.getDimSize(dim) % size != 0)
    return std::nullopt;
  Stack stack{dim, type.getDimSize(dim) / size, size};
  int64_t elements =
      size * ShapedType::getNumElements(type.getShape().drop_front(dim + 1));
  return elements <= kMostPieceElements ? std::optional(stack) : std::nullopt;
}

static std::optional<Stack> getStack(tensor::ConcatOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getInputs().front().getType());
  if (!type || !type.hasStaticShape() ||
      !llvm::all_equal(op.getInputs().getTypes()))
    return std::nullopt;
  if (int64_t(op.getInputs().size()) > kMostPieces)
    return std::nullopt;
  return getStack(op.getResultType(), op.getDim(),
                  type.getDimSize(op.getDim()));
}

/// Whether @value is an elementwise result, maybe in another shape, that
/// nothing else reads.
static bool isOwnPointwiseResult(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (auto generic = dyn_cast_or_null<linalg::GenericOp>(op))
      return isPointwise(generic);
    if (!isReshape(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

/// The dimension along which @op inserts one of several equal pieces; -1 where
/// it does anything else.
static int64_t getInsertedDim(tensor::InsertSliceOp op) {
  RankedTensorType type = op.getType(), source = op.getSourceType();
  if (!source.hasStaticShape() || !type.hasStaticShape() ||
      source.getRank() != type.getRank() || !op.hasUnitStride() ||
      llvm::any_of(op.getStaticOffsets(), ShapedType::isDynamic))
    return -1;
  int64_t dim = -1;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (source.getDimSize(i) == type.getDimSize(i))
      continue;
    if (dim >= 0)
      return -1;
    dim = i;
  }
  if (dim < 0 || source.getDimSize(dim) == 0 ||
      op.getStaticOffset(dim) % source.getDimSize(dim) != 0)
    return -1;
  return dim;
}

namespace {
/// Insertions of equal pieces, each into the result of the one before, which
/// nothing else reads.
struct Insertions {
  Stack stack;
  /// First to last.
  SmallVector<tensor::InsertSliceOp> ops;
  /// What the first one inserts into.
  Value base;
};
} // namespace

/// The insertions of which @op is one. They go into a constant, or into an
/// elementwise result that is computed for them alone; into any other tensor
/// they go in place.
static std::optional<Insertions> getInsertions(tensor::InsertSliceOp op) {
  int64_t dim = getInsertedDim(op);
  if (dim < 0)
    return std::nullopt;
  auto getNext = [&](tensor::InsertSliceOp from) -> tensor::InsertSliceOp {
    if (!from->hasOneUse())
      return {};
    auto next = dyn_cast<tensor::InsertSliceOp>(*from->user_begin());
    return next && next.getDest() == from.getResult() ? next
                                                      : tensor::InsertSliceOp();
  };
  std::optional<Stack> stack =
      getStack(op.getType(), dim, op.getSourceType().getDimSize(dim));
  if (!stack)
    return std::nullopt;
  Insertions found{*stack, {op}, op.getDest()};
  while (tensor::InsertSliceOp next = getNext(found.ops.back())) {
    if (int64_t(found.ops.size()) == kMostPieces)
      return std::nullopt;
    found.ops.push_back(next);
  }
  while (auto before = found.base.getDefiningOp<tensor::InsertSliceOp>()) {
    if (getNext(before) != found.ops.front() ||
        int64_t(found.ops.size()) == kMostPieces)
      return std::nullopt;
    found.ops.insert(found.ops.begin(), before);
    found.base = before.getDest();
  }
  bool areAlike = llvm::all_of(found.ops, [&](tensor::InsertSliceOp other) {
    return other.getSourceType() == op.getSourceType() &&
           getInsertedDim(other) == dim;
  });
  if (!areAlike ||
      (!getSplatConstant(found.base) && !isOwnPointwiseResult(found.base)))
    return std::nullopt;
  return found;
}

static bool isStack(Operation *op) {
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return getStack(concat).has_value();
  auto insert = dyn_cast<tensor::InsertSliceOp>(op);
  return insert && getInsertions(insert).has_value();
}

/// Whether @op is part of a loop kernel and reads elements at its own points.
/// (What moves elements may become strides of a product.)
static bool isLoopReader(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic ? isPointwise(generic) && !getMove(op) : isStack(op);
}

/// Ops of @block that compute and that products do as they store their results.
/// (What only moves elements costs nothing in loop kernels, either.)
static llvm::DenseSet<Operation *> getStoredByProducts(Block &block) {
  llvm::DenseSet<Operation *> ops;
  ContractionPlans plans(&block);
  for (Operation &op : block)
    if (const ContractionPlan *plan = plans.lookup(&op))
      for (Operation *absorbed : plan->absorbed)
        if (!getMove(absorbed))
          ops.insert(absorbed);
  return ops;
}

/// The slices of @op's result that are to be computed of slices of its
/// operands. What only moves elements is read through strides at no cost, as
/// long as loop kernels alone read it. Anything else is computed in parts if
/// nothing reads the whole, and the parts have no more elements than that.
static SmallVector<tensor::ExtractSliceOp> getSlices(linalg::GenericOp op) {
  SmallVector<tensor::ExtractSliceOp> slices;
  if (op->getNumResults() != 1 || !isPointwise(op))
    return slices;
  bool isMove = getMove(op).has_value();
  int64_t elements = 0;
  for (Operation *user : op->getUsers()) {
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!slice && isMove && isLoopReader(user))
      continue;
    if (!slice || !isViewOp(slice) || !slice.hasUnitStride() ||
        slice.getDroppedDims().any() ||
        !llvm::all_of(slice->getUsers(), isLoopReader))
      return {};
    elements += slice.getType().getNumElements();
    slices.push_back(slice);
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!isMove && elements > type.getNumElements())
    slices.clear();
  return slices;
}

//===----------------------------------------------------------------------===//
// Application: slices
//===----------------------------------------------------------------------===//

/// @op for the points of @slice alone, of slices of its operands.
static Value createSliced(OpBuilder &builder, linalg::GenericOp op,
                          tensor::ExtractSliceOp slice) {
  Location loc = op.getLoc();
  SmallVector<int64_t> offsets(op.getNumLoops(), 0),
      sizes = op.getStaticLoopRanges();
  AffineMap out =
      op.getIndexingMapMatchingResult(cast<OpResult>(slice.getSource()));
  for (auto [i, expr] : llvm::enumerate(out.getResults()))
    if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
      offsets[loop.getPosition()] = slice.getStaticOffset(i);
      sizes[loop.getPosition()] = slice.getStaticSize(i);
    }
  auto getPart = [&](OpOperand &operand) -> Value {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type)
      return operand.get();
    SmallVector<OpFoldResult> partOffsets, partSizes,
        strides(type.getRank(), builder.getIndexAttr(1));
    SmallVector<int64_t> shape;
    for (auto [i, expr] :
         llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults())) {
      auto loop = dyn_cast<AffineDimExpr>(expr);
      shape.push_back(loop ? sizes[loop.getPosition()] : type.getDimSize(i));
      partOffsets.push_back(
          builder.getIndexAttr(loop ? offsets[loop.getPosition()] : 0));
      partSizes.push_back(builder.getIndexAttr(shape.back()));
    }
    if (operand.get().getDefiningOp<tensor::EmptyOp>())
      return tensor::EmptyOp::create(builder, loc, shape,
                                     type.getElementType());
    if (llvm::equal(shape, type.getShape()))
      return operand.get();
    return tensor::ExtractSliceOp::create(builder, loc, operand.get(),
                                          partOffsets, partSizes, strides);
  };
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands())
    operands.push_back(getPart(operand));
  auto sliced = cast<linalg::GenericOp>(
      clone(builder, op, TypeRange(operands.back().getType()), operands));
  // Indices count from the first element of the whole.
  for (auto index : llvm::make_early_inc_range(
           sliced.getBody()->getOps<linalg::IndexOp>())) {
    int64_t offset = offsets[index.getDim()];
    if (offset == 0)
      continue;
    OpBuilder inner(sliced.getBody(), std::next(index->getIterator()));
    Value first = arith::ConstantIndexOp::create(inner, loc, offset);
    Value shifted = arith::AddIOp::create(inner, loc, index, first);
    index.getResult().replaceAllUsesExcept(shifted, shifted.getDefiningOp());
  }
  return sliced->getResult(0);
}

//===----------------------------------------------------------------------===//
// Application: stacks
//===----------------------------------------------------------------------===//

/// The dimensions of a tensor of rank @rank, those of @dim's pieces together.
static SmallVector<ReassociationIndices> getReassociation(int64_t rank,
                                                          int64_t dim) {
  SmallVector<ReassociationIndices> groups;
  for (int64_t i = 0, next = 0; i < rank; ++i) {
    ReassociationIndices &group = groups.emplace_back();
    group.push_back(next++);
    if (i == dim)
      group.push_back(next++);
  }
  return groups;
}

/// A tensor of @type whose element at a point is what @body makes of the
/// elements there of @pieces and, if it is not null, of @whole, a tensor of
/// @type.
static Value
createStack(OpBuilder &builder, Location loc, RankedTensorType type,
            Stack stack, ArrayRef<Value> pieces, Value whole,
            llvm::function_ref<Value(OpBuilder &, ValueRange)> body) {
  SmallVector<int64_t> shape(type.getShape());
  shape[stack.dim] = stack.size;
  shape.insert(shape.begin() + stack.dim, stack.count);
  auto stacked = RankedTensorType::get(shape, type.getElementType());
  AffineMap all = builder.getMultiDimIdentityMap(shape.size());
  AffineMap one = all.dropResult(stack.dim);
  SmallVector<ReassociationIndices> groups =
      getReassociation(type.getRank(), stack.dim);

  SmallVector<Value> inputs(pieces);
  SmallVector<AffineMap> maps(pieces.size(), one);
  if (whole) {
    inputs.push_back(
        tensor::ExpandShapeOp::create(builder, loc, stacked, whole, groups));
    maps.push_back(all);
  }
  maps.push_back(all);
  Value empty =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  SmallVector<utils::IteratorType> loops(shape.size(),
                                         utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      builder, loc, stacked, inputs, empty, maps, loops,
      [&](OpBuilder &inner, Location, ValueRange args) {
        linalg::YieldOp::create(inner, loc, body(inner, args.drop_back()));
      });
  return tensor::CollapseShapeOp::create(builder, loc, type,
                                         generic->getResult(0), groups);
}

/// @value where @piece is number @number, else @other.
static Value createChoice(OpBuilder &builder, Location loc, Value piece,
                          int64_t number, Value value, Value other) {
  Value isPiece = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::eq, piece,
      arith::ConstantIndexOp::create(builder, loc, number));
  return arith::SelectOp::create(builder, loc, isPiece, value, other);
}

static Value createStack(OpBuilder &builder, tensor::ConcatOp op, Stack stack) {
  Location loc = op.getLoc();
  SmallVector<Value> pieces(op.getInputs());
  if (llvm::all_equal(pieces))
    pieces.truncate(1);
  return createStack(
      builder, loc, op.getResultType(), stack, pieces, /*whole=*/Value(),
      [&](OpBuilder &inner, ValueRange elements) {
        Value chosen = elements.back();
        if (elements.size() == 1)
          return chosen;
        Value piece = linalg::IndexOp::create(inner, loc, stack.dim);
        for (int64_t p = int64_t(elements.size()) - 2; p >= 0; --p)
          chosen = createChoice(inner, loc, piece, p, elements[p], chosen);
        return chosen;
      });
}

static Value createStack(OpBuilder &builder, const Insertions &insertions) {
  tensor::InsertSliceOp last = insertions.ops.back();
  Location loc = last.getLoc();
  const Stack &stack = insertions.stack;
  TypedAttr splat = getSplatConstant(insertions.base);
  SmallVector<Value> pieces;
  for (tensor::InsertSliceOp op : insertions.ops)
    pieces.push_back(op.getSource());
  return createStack(
      builder, loc, last.getType(), stack, pieces,
      splat ? Value() : insertions.base,
      [&](OpBuilder &inner, ValueRange elements) {
        Value piece = linalg::IndexOp::create(inner, loc, stack.dim);
        Value chosen = splat
                           ? Value(arith::ConstantOp::create(inner, loc, splat))
                           : elements.back();
        for (auto [number, op] : llvm::enumerate(insertions.ops))
          chosen = createChoice(
              inner, loc, piece,
              tensor::InsertSliceOp(op).getStaticOffset(stack.dim) / stack.size,
              elements[number], chosen);
        return chosen;
      });
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct StackPieces : fsdp::impl::StackPiecesBase<StackPieces> {
  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    llvm::DenseSet<Operation *> stored = getStoredByProducts(block);
    // Backwards: slices of operands come before the op that has them. What was
    // replaced goes at once, since it would count as a reader of these.
    for (Operation *op = &block.back(), *previous; op; op = previous) {
      auto generic = dyn_cast<linalg::GenericOp>(op);
      if (generic && !stored.contains(op))
        for (tensor::ExtractSliceOp slice : getSlices(generic)) {
          OpBuilder builder(op);
          slice.replaceAllUsesWith(createSliced(builder, generic, slice));
          slice.erase();
        }
      previous = op->getPrevNode();
      if (generic && isOpTriviallyDead(op))
        op->erase();
    }
    for (Operation &op : block) {
      OpBuilder builder(&op);
      Value stacked;
      if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
        if (std::optional<Stack> stack = getStack(concat))
          stacked = createStack(builder, concat, *stack);
      } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
        std::optional<Insertions> found = getInsertions(insert);
        if (found && found->ops.back() == insert)
          stacked = createStack(builder, *found);
      }
      if (stacked)
        op.getResult(0).replaceAllUsesWith(stacked);
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};
} // namespace
