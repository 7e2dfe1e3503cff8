//===- NarrowProducts.cpp - Products in the type of parameters ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a program with a product type T, a product of wider floats becomes
//
//   C = ext(T(A) x T(B) + T(C0))
//
// where T() rounds to T: what torch.autocast does to the operations of its list
// for narrow types: products, convolutions, attention. All else stays as wide
// as it was traced. Source: torch.amp, "CUDA Ops that can autocast to float16";
// FSDP's MixedPrecisionPolicy(param_dtype=T).
//
// T(ext(x)) is x for an x in T, whatever moves elements in between: gathered
// parameters are read as they are, and a product's result by the next one.
//
// A frequency times a position is as exact as it was traced, too, and so is its
// gradient: PositionProducts.h says why. All products by positions of a program
// that makes angles of some stay wide.
//
// A unit with a param-dtype of its own has a product type of its own, too:
// that of products inside of its module, which locations name. What was fused
// across a border of units is in the wider of their types.
//
// A program that computes such a product in narrow floats as it was traced, of
// a model in them or under autocast, is left alone: it says itself what is
// wide. The type that attention was traced in is that of its result: its
// queries, keys and values are read before they are widened, as a gathered
// parameter is.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/PositionProducts.h"
#include "fsdp/Analysis/Step/ProductTypes.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Elementwise.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_NARROWPRODUCTS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Whether the elements of @type are floats of more bits than @narrow's.
static bool isWider(Type type, FloatType narrow) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return isa<RankedTensorType>(type) && element &&
         element.getWidth() > narrow.getWidth();
}

/// Whether @op multiplies two tensors of floats and adds up: a contraction or a
/// convolution, but no pooling, whose window nobody reads.
static bool isProduct(linalg::LinalgOp op) {
  if ((!linalg::isaConvolutionOpInterface(op) &&
       !linalg::isaContractionOpInterface(op)) ||
      op.getNumDpsInputs() != 2 || op->getNumResults() != 1 ||
      !op.hasPureTensorSemantics())
    return false;
  return llvm::all_of(op->getOpOperands(),
                      [&](OpOperand &operand) {
                        Type type = operand.get().getType();
                        return isa<RankedTensorType>(type) &&
                               isa<FloatType>(getElementTypeOrSelf(type)) &&
                               op.payloadUsesValueFromOperand(&operand);
                      }) &&
         llvm::all_of(
             *op.getBlock(),
             llvm::IsaPred<arith::MulFOp, arith::AddFOp, linalg::YieldOp>);
}

/// The tensors that @op multiplies; empty where it is no product.
static SmallVector<Value> getFactors(Operation *op) {
  if (isa<AttentionOp, AttentionBackwardOp>(op))
    return llvm::to_vector(op->getOperands().take_front(3));
  auto product = dyn_cast<linalg::LinalgOp>(op);
  return product && isProduct(product) ? product.getDpsInputs()
                                       : SmallVector<Value>();
}

/// The type that the product @op was traced in. A contraction's factors are of
/// it, too; those of attention may be narrower, since it widens them itself.
static Type getTracedType(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getOut().getType();
  if (auto backward = dyn_cast<AttentionBackwardOp>(op))
    return backward.getOut().getType();
  return op->getResult(0).getType();
}

/// The values of @program that are computed from states of @kinds.
static llvm::DenseSet<Value> getValuesOf(ArrayRef<StateKind> kinds,
                                         ProgramOp program) {
  llvm::DenseSet<Value> found;
  ProgramStates states(program);
  for (BlockArgument arg : program.getArguments())
    if (StateOp state = states.getRead(arg.getArgNumber());
        state && llvm::is_contained(kinds, state.getKind()))
      found.insert(arg);
  if (found.empty())
    return found;
  program.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (llvm::none_of(getReadValues(op),
                      [&](Value value) { return found.contains(value); }))
      return;
    found.insert_range(op->getResults());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        found.insert_range(block.getArguments());
  });
  return found;
}

namespace {
class Narrower {
public:
  explicit Narrower(FloatType type) : type(type), builder(type.getContext()) {}

  void narrowProduct(linalg::LinalgOp op);
  void narrowAttention(Operation *op);
  /// Replaces a rounding to the type of what was widened from it; returns
  /// whether @op was one.
  bool dropRounding(linalg::GenericOp op);

private:
  RankedTensorType getNarrow(Value value) {
    return cast<RankedTensorType>(value.getType()).clone(type);
  }
  Value narrow(Value value, Location loc);
  Value getUnwidened(Value value);
  Value copy(Value source, linalg::GenericOp op);
  Value view(Value source, Operation *op);
  void widen(Value narrowed, Value wide, Location loc);
  void widen(Operation *narrowed, Operation *wide);

  FloatType type;
  OpBuilder builder;
};
} // namespace

/// The one op in the body of @op that is not its yield; null where there are
/// others, or none, or @op has more than one input.
static Operation *getOnlyOp(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 1 || op->getNumResults() != 1 ||
      !llvm::hasNItems(*op.getBody(), 2) || op.getNumReductionLoops() != 0)
    return nullptr;
  Operation &only = op.getBody()->front();
  return only.getNumOperands() == 1 &&
                 only.getOperand(0) == op.getBody()->getArgument(0) &&
                 op.getBody()->getTerminator()->getOperand(0) ==
                     only.getResult(0)
             ? &only
             : nullptr;
}

/// Whether @op only gives elements other places.
static bool isCopy(linalg::GenericOp op) {
  return op.getNumDpsInputs() == 1 && op->getNumResults() == 1 &&
         op.getNumReductionLoops() == 0 &&
         op.getBody()->getTerminator()->getOperand(0) ==
             op.getBody()->getArgument(0);
}

/// A linalg.generic that copies @source, of the narrow type, by the indexing
/// maps of @op, which has one input.
Value Narrower::copy(Value source, linalg::GenericOp op) {
  RankedTensorType narrowed = getNarrow(op->getResult(0));
  Value empty =
      tensor::EmptyOp::create(builder, op.getLoc(), narrowed.getShape(), type);
  return linalg::GenericOp::create(
             builder, op.getLoc(), narrowed, source, empty,
             op.getIndexingMapsArray(), op.getIteratorTypesArray(),
             [](OpBuilder &b, Location loc, ValueRange args) {
               linalg::YieldOp::create(b, loc, args[0]);
             })
      .getResult(0);
}

/// The view or reshape @op of @source, which has the narrow type, in place of
/// @op's first operand.
Value Narrower::view(Value source, Operation *op) {
  SmallVector<Value> operands(op->getOperands());
  operands[0] = source;
  return mlir::clone(builder, op, getNarrow(op->getResult(0)), operands)
      ->getResult(0);
}

/// A tensor of the narrow type whose widened elements are those of @value; null
/// where there is none.
Value Narrower::getUnwidened(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    Value source;
    if (auto ext = dyn_cast_or_null<arith::ExtFOp>(getOnlyOp(generic))) {
      if (ext.getIn().getType() != type)
        return {};
      source = generic.getDpsInputOperand(0)->get();
    } else if (isCopy(generic)) {
      source = getUnwidened(generic.getDpsInputOperand(0)->get());
    }
    if (!source)
      return {};
    AffineMap in = generic.getIndexingMapsArray()[0],
              out = generic.getIndexingMapsArray()[1];
    if (in == out && source.getType() == getNarrow(value))
      return source;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op);
    return copy(source, generic);
  }
  if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
           tensor::ExtractSliceOp>(op))
    return {};
  Value source = getUnwidened(op->getOperand(0));
  if (!source)
    return {};
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  return view(source, op);
}

/// @value in elements of the type, at the insertion point. What is transposed,
/// repeated or reshaped is rounded before: a product reads it so by strides,
/// and products that read it otherwise share the rounded tensor.
Value Narrower::narrow(Value value, Location loc) {
  if (getElementTypeOrSelf(value) == type)
    return value;
  if (Value source = getUnwidened(value))
    return source;
  RankedTensorType narrowed = getNarrow(value);
  auto fill = value.getDefiningOp<linalg::FillOp>();
  if (fill && matchPattern(fill.getInputs()[0], m_AnyZeroFloat())) {
    Value empty =
        tensor::EmptyOp::create(builder, loc, narrowed.getShape(), type);
    Value zero = arith::ConstantOp::create(builder, loc,
                                           builder.getFloatAttr(type, 0.0));
    return linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
  }
  Operation *op = value.getDefiningOp();
  if (auto generic = dyn_cast_if_present<linalg::GenericOp>(op);
      generic && isCopy(generic))
    return copy(narrow(generic.getDpsInputOperand(0)->get(), loc), generic);
  if (isReshape(op))
    return view(narrow(op->getOperand(0), loc), op);
  return createCast(builder, loc, value, narrowed);
}

/// Gives readers of @wide what @narrowed is, widened. Slices and reshapes
/// become those of @narrowed, and are widened themselves: no kernel writes all
/// of it in the wide type for a reader of a slice.
void Narrower::widen(Value narrowed, Value wide, Location loc) {
  OpBuilder::InsertionGuard guard(builder);
  for (Operation *user : llvm::make_early_inc_range(wide.getUsers())) {
    if (!isViewOp(user))
      continue;
    builder.setInsertionPoint(user);
    widen(view(narrowed, user), user->getResult(0), user->getLoc());
    user->erase();
  }
  if (wide.use_empty())
    return;
  builder.setInsertionPointAfterValue(narrowed);
  wide.replaceAllUsesWith(createCast(builder, loc, narrowed,
                                     cast<RankedTensorType>(wide.getType())));
}

/// Gives readers of @wide's results those of @narrowed.
void Narrower::widen(Operation *narrowed, Operation *wide) {
  for (auto [from, to] : llvm::zip(narrowed->getResults(), wide->getResults()))
    if (from.getType() == to.getType())
      to.replaceAllUsesWith(from);
    else
      widen(from, to, wide->getLoc());
  wide->erase();
}

void Narrower::narrowProduct(linalg::LinalgOp op) {
  builder.setInsertionPoint(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(narrow(operand, op.getLoc()));
  Operation *product =
      mlir::clone(builder, op, getNarrow(op->getResult(0)), operands);
  // Its body adds and multiplies, and nothing else.
  Block &body = product->getRegion(0).front();
  for (BlockArgument arg : body.getArguments())
    arg.setType(type);
  for (Operation &inner : body)
    for (Value result : inner.getResults())
      result.setType(type);
  widen(product, op);
}

/// Statistics, and what the score function reads, are as they were.
void Narrower::narrowAttention(Operation *op) {
  builder.setInsertionPoint(op);
  SmallVector<Value> operands(op->getOperands());
  SmallVector<Type> results(op->getResultTypes());
  auto narrowAll = [&](std::initializer_list<OpOperand *> multiplied) {
    for (OpOperand *operand : multiplied)
      operands[operand->getOperandNumber()] =
          narrow(operand->get(), op->getLoc());
  };
  if (auto forward = dyn_cast<AttentionOp>(op)) {
    narrowAll({&forward.getQMutable(), &forward.getKMutable(),
               &forward.getVMutable()});
    results[0] = getNarrow(forward.getOut());
  } else {
    auto backward = cast<AttentionBackwardOp>(op);
    narrowAll({&backward.getQMutable(), &backward.getKMutable(),
               &backward.getVMutable(), &backward.getOutMutable(),
               &backward.getDoutMutable()});
    for (auto [type, value] : llvm::zip(results, op->getResults()))
      type = getNarrow(value);
  }
  widen(mlir::clone(builder, op, results, operands), op);
}

bool Narrower::dropRounding(linalg::GenericOp op) {
  auto trunc = dyn_cast_or_null<arith::TruncFOp>(getOnlyOp(op));
  if (!trunc || trunc.getType() != type)
    return false;
  AffineMap in = op.getIndexingMapsArray()[0],
            out = op.getIndexingMapsArray()[1];
  Value source = getUnwidened(op.getDpsInputOperand(0)->get());
  if (!source || in != out || source.getType() != op->getResult(0).getType())
    return false;
  op->getResult(0).replaceAllUsesWith(source);
  op.erase();
  return true;
}

namespace {
struct NarrowProducts : fsdp::impl::NarrowProductsBase<NarrowProducts> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    std::optional<Type> wanted = program.getProductType();
    if (!wanted)
      return markAllAnalysesPreserved();
    ProductTypes types(program, cast<FloatType>(*wanted));
    if (types.getAll().size() > 1 && failed(types.verifyLocations(program)))
      return signalPassFailure();
    FloatType narrowest = types.getAll().front();
    llvm::DenseSet<Value> trained =
        getValuesOf({StateKind::parameter, StateKind::gathered}, program);
    llvm::DenseSet<Value> kept = getValuesOf(StateKind::residual, program);
    auto isTrained = [&](Value value) { return trained.contains(value); };
    auto isKept = [&](Value value) { return kept.contains(value); };
    SmallVector<Operation *> wide;
    bool isTracedNarrow = false;
    program.getBody().walk([&](Operation *op) {
      // What is made of positions and constants alone, such as the angles of
      // rotary embeddings, is as exact as it was traced.
      // Nor are products of what a reduction hook keeps the model's.
      if (llvm::none_of(getFactors(op), isTrained) ||
          llvm::any_of(getFactors(op), isKept))
        return;
      if (isWider(getTracedType(op), types.get(op->getLoc())))
        wide.push_back(op);
      if (!isWider(getTracedType(op), narrowest))
        isTracedNarrow = true;
    });
    if (isTracedNarrow)
      return markAllAnalysesPreserved();
    PositionProducts positions(program, narrowest);
    if (!positions.getProducts().empty())
      llvm::erase_if(wide, [&](Operation *op) {
        return llvm::any_of(getFactors(op), [&](Value factor) {
          return positions.isPosition(factor);
        });
      });
    for (Operation *op : wide) {
      Narrower narrower(types.get(op->getLoc()));
      if (auto product = dyn_cast<linalg::LinalgOp>(op))
        narrower.narrowProduct(product);
      else
        narrower.narrowAttention(op);
    }
    SmallVector<linalg::GenericOp> generics;
    program.getBody().walk(
        [&](linalg::GenericOp op) { generics.push_back(op); });
    for (linalg::GenericOp op : generics)
      llvm::any_of(types.getAll(), [&](FloatType type) {
        return Narrower(type).dropRounding(op);
      });
    // Products that share an operand each rounded it.
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(program);
    eliminateCommonSubExpressions(rewriter, dominance, program);
  }
};
} // namespace
