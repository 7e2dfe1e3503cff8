//===- CheckIndices.cpp - No lookup leaves its tensor ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An index that is computed from data may be anything. Unless its range is
// known to be that of the tensor, or the step asserts it, it is asserted here,
// and replaced by 0 where it is out of range: the memory beside a tensor is
// another's.
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Kernels/IndexRanges.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CHECKINDICES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// One index of an access: 0 <= index < size, of a dimension of @tensor.
struct Index {
  OpOperand *operand;
  int64_t size;
  RankedTensorType tensor;
  unsigned dim;
};
} // namespace

//===----------------------------------------------------------------------===//
// What is accessed
//===----------------------------------------------------------------------===//

static void collect(OperandRange indices, MutableOperandRange operands,
                    Type type, SmallVector<Index> &found) {
  auto tensor = cast<RankedTensorType>(type);
  for (unsigned i = 0, e = indices.size(); i != e; ++i)
    found.push_back({&operands[i], tensor.getDimSize(i), tensor, i});
}

/// Of @slice, a part of @tensor with static positive strides
/// (verifyStaticPlaces): the computed offsets, and how many offsets keep it
/// within the dimension (0: its size is not static, or it is larger). No offset
/// of a slice without elements, which accesses nothing.
template <typename SliceOp>
static void collectSlice(SliceOp slice, RankedTensorType tensor,
                         SmallVector<Index> &found) {
  if (llvm::is_contained(slice.getStaticSizes(), 0))
    return;
  unsigned next = 0;
  MutableOperandRange offsets = slice.getOffsetsMutable();
  for (unsigned i = 0; i != unsigned(tensor.getRank()); ++i) {
    if (!slice.isDynamicOffset(i))
      continue;
    int64_t room = 0, span;
    if (!slice.isDynamicSize(i) &&
        !llvm::MulOverflow<int64_t>(slice.getStaticSize(i) - 1,
                                    slice.getStaticStride(i), span))
      room = std::max<int64_t>(tensor.getDimSize(i) - span, 0);
    found.push_back({&offsets[next++], room, tensor, i});
  }
}

/// The indices of @op that are not constants, if it accesses elements or a
/// slice of a tensor.
static SmallVector<Index> getIndices(Operation *op) {
  SmallVector<Index> found;
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    collect(extract.getIndices(), extract.getIndicesMutable(),
            extract.getTensor().getType(), found);
  else if (auto insert = dyn_cast<tensor::InsertOp>(op))
    collect(insert.getIndices(), insert.getIndicesMutable(),
            insert.getDest().getType(), found);
  else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    collectSlice(slice, slice.getSourceType(), found);
  else if (auto slice = dyn_cast<tensor::InsertSliceOp>(op))
    collectSlice(slice, slice.getDestType(), found);
  else if (auto slice = dyn_cast<tensor::ParallelInsertSliceOp>(op))
    collectSlice(slice, slice.getDestType(), found);
  return found;
}

//===----------------------------------------------------------------------===//
// What is asserted
//===----------------------------------------------------------------------===//

/// What @value is the same number as, in an integer type that is no wider.
static Value stripCasts(Value value) {
  auto getWidth = [](Value value) {
    return ConstantIntRanges::getStorageBitwidth(value.getType());
  };
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::IndexCastOp, arith::ExtSIOp>(op) ||
        getWidth(op->getOperand(0)) > getWidth(value))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The tensor that holds every value that @value, a scalar, takes in a loop
/// over all its elements; or whose elements are looked up. Views are the tensor
/// that they are of. Null where @value is computed.
static Value getTensorOf(Value value) {
  value = stripCasts(value);
  Value tensor;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto op = dyn_cast<linalg::GenericOp>(arg.getOwner()->getParentOp());
    if (!op || arg.getArgNumber() >= op.getNumDpsInputs())
      return {};
    tensor = op.getInputs()[arg.getArgNumber()];
  } else if (auto extract = value.getDefiningOp<tensor::ExtractOp>()) {
    tensor = extract.getTensor();
  }
  return tensor ? lookThroughReshapes(tensor) : tensor;
}

/// Whether a loop of the generic around @value reads all of its tensor.
static bool readsWhole(Value value) {
  auto arg = cast<BlockArgument>(stripCasts(value));
  auto op = cast<linalg::GenericOp>(arg.getOwner()->getParentOp());
  return op.getMatchingIndexingMap(op.getDpsInputOperand(arg.getArgNumber()))
      .isProjectedPermutation();
}

namespace {
/// Bounds that cf.assert sets: 0 <= value, value < limit.
struct Bounds {
  bool isNonNegative = false;
  std::optional<int64_t> limit;

  bool areWithin(int64_t size) const {
    return isNonNegative && limit && *limit <= size;
  }
};

/// Of scalars where they are asserted, and of all elements of tensors.
class Assertions {
public:
  explicit Assertions(ProgramOp step);

  /// Whether it fails the step if @value is not within, wherever that stands.
  bool fail(Value value, int64_t size) const {
    Value tensor = getTensorOf(value);
    return tensor && tensors.lookup(tensor).areWithin(size);
  }
  /// Whether assertions in the block of @op, before it, say so.
  static bool standBefore(Operation *op, Value value, int64_t size);

private:
  llvm::DenseMap<Value, Bounds> tensors;
};
} // namespace

/// What `assertion` says, of which value; null where it is another thing.
static Value readAssertion(cf::AssertOp assertion, Bounds &bounds) {
  auto compare = assertion.getArg().getDefiningOp<arith::CmpIOp>();
  APInt constant;
  // fsdp-hoist-checks drops these.
  if (assertion.getMsg() == kReciprocalGuard)
    return {};
  if (!compare || !matchPattern(compare.getRhs(), m_ConstantInt(&constant)) ||
      constant.getSignificantBits() > 64)
    return {};
  int64_t number = constant.getSExtValue();
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::slt:
    bounds.limit = number;
    break;
  case arith::CmpIPredicate::sle:
    bounds.limit = number == INT64_MAX ? number : number + 1;
    break;
  case arith::CmpIPredicate::sge:
    bounds.isNonNegative = number >= 0;
    break;
  case arith::CmpIPredicate::sgt:
    bounds.isNonNegative = number >= -1;
    break;
  case arith::CmpIPredicate::ult:
    // As an unsigned number, a negative one is no limit.
    if (number < 0)
      return {};
    bounds.isNonNegative = true;
    bounds.limit = number;
    break;
  default:
    return {};
  }
  return stripCasts(compare.getLhs());
}

static void merge(Bounds &into, const Bounds &more) {
  into.isNonNegative |= more.isNonNegative;
  if (more.limit)
    into.limit = into.limit ? std::min(*into.limit, *more.limit) : *more.limit;
}

Assertions::Assertions(ProgramOp step) {
  step.walk([&](cf::AssertOp assertion) {
    auto generic = dyn_cast<linalg::GenericOp>(assertion->getParentOp());
    if (!generic || generic->getParentOp() != step)
      return;
    Bounds bounds;
    Value value = readAssertion(assertion, bounds);
    if (value && isa<BlockArgument>(value) && getTensorOf(value) &&
        readsWhole(value))
      merge(tensors[getTensorOf(value)], bounds);
  });
}

bool Assertions::standBefore(Operation *op, Value value, int64_t size) {
  Bounds all;
  for (auto assertion : op->getBlock()->getOps<cf::AssertOp>()) {
    if (!assertion->isBeforeInBlock(op))
      break;
    Bounds bounds;
    if (readAssertion(assertion, bounds) == stripCasts(value))
      merge(all, bounds);
  }
  return all.areWithin(size);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

namespace {
/// A condition in the body of a loop or branch, and the message where it fails.
struct Condition {
  Value holds;
  std::string message;
};

class Checker {
public:
  Checker(ProgramOp step, bool all)
      : step(step), ranges(step), assertions(step), all(all) {}

  LogicalResult run();

private:
  bool isToCheck(const Index &index);
  LogicalResult check(Operation *op, const Index &index);
  void checkInControlFlow(ArrayRef<Condition> conditions);

  ProgramOp step;
  IndexRanges ranges;
  Assertions assertions;
  /// Whether what is proven is checked, too, unless it is plain to see, or in a
  /// loop or branch: a flag that these carry would change how they are fused,
  /// and so the order of sums.
  bool all;
  /// By the block that they are in.
  llvm::MapVector<Block *, SmallVector<Condition>> inControlFlow;
  /// By block and value, those that were compared, with 0 where they are out of
  /// range, and the size that they were compared with.
  llvm::DenseMap<std::pair<Block *, Value>, std::pair<Value, int64_t>> safe;
};
} // namespace

/// A constant or the index of a loop, as it is.
static bool isPlain(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<LoopLikeOpInterface>(arg.getOwner()->getParentOp());
    auto inductionVars = loop ? loop.getLoopInductionVars() : std::nullopt;
    return inductionVars && llvm::is_contained(*inductionVars, value);
  }
  Operation *op = value.getDefiningOp();
  return isa<linalg::IndexOp>(op) || op->hasTrait<OpTrait::ConstantLike>();
}

/// "index 0 of tensor<4xf32> must be from 0 to 3".
static std::string describe(const Index &index, Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "index " << index.dim << " of " << index.tensor << " must be from 0 to "
     << index.size - 1;
  // Where the file lies is none of the program's business.
  if (auto path = op->getLoc()->findInstanceOf<NameLoc>())
    os << " (" << path.getName().getValue() << ")";
  else if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    os << " (" << llvm::sys::path::filename(file.getFilename().getValue())
       << ":" << file.getLine() << ":" << file.getColumn() << ")";
  return text;
}

/// Whether every op between @op and the step is an scf.for, scf.while or
/// scf.if, and there is one.
static bool isInControlFlow(Operation *op, ProgramOp step) {
  Operation *parent = op->getParentOp();
  while (parent != step && isa<scf::ForOp, scf::WhileOp, scf::IfOp>(parent))
    parent = parent->getParentOp();
  return parent == step && op->getParentOp() != step;
}

bool Checker::isToCheck(const Index &index) {
  Value value = index.operand->get();
  bool isProven = ranges.isWithin(value, index.size);
  return !isProven || (all && !isPlain(value) &&
                       !isInControlFlow(index.operand->getOwner(), step));
}

/// Appends @value to the operands of @block's terminator, an scf.yield or
/// scf.condition, that become results or arguments.
static void appendYielded(Block *block, Value value) {
  Operation *last = block->getTerminator();
  if (auto condition = dyn_cast<scf::ConditionOp>(last))
    condition.getArgsMutable().append(value);
  else
    cast<scf::YieldOp>(last).getResultsMutable().append(value);
}

/// Replaces @op by an op with its regions and one more result, of the type of
/// @flag: the one that @create makes from the types of all results.
template <typename OpTy>
static OpTy
addResult(OpTy op, Value flag,
          llvm::function_ref<OpTy(OpBuilder &, SmallVector<Type>)> create) {
  OpBuilder builder(op);
  SmallVector<Type> types(op->getResultTypes());
  types.push_back(flag.getType());
  OpTy added = create(builder, types);
  added->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (auto [to, from] : llvm::zip(added->getRegions(), op->getRegions()))
    to.takeBody(from);
  op->replaceAllUsesWith(added->getResults().drop_back());
  op->erase();
  return added;
}

/// Makes @flag, a value from before the op around @block, an operand that every
/// iteration of a loop gets and yields, or that every branch yields. @block
/// yields @now, which it computes from @flag; other blocks yield what they got.
/// Returns the new result of the op.
static Value carry(Block *block, Value flag, Value now) {
  // Uses of the flag in a loop's body become uses of the block argument.
  auto replaceIn = [&](Block *in, Value begin) {
    flag.replaceUsesWithIf(begin, [&](OpOperand &use) {
      return in->findAncestorOpInBlock(*use.getOwner());
    });
  };
  Operation *parent = block->getParentOp();
  Location loc = parent->getLoc();
  if (auto loop = dyn_cast<scf::ForOp>(parent)) {
    loop = addResult<scf::ForOp>(
        loop, flag, [&](OpBuilder &builder, const SmallVector<Type> &) {
          SmallVector<Value> inits(loop.getInits());
          inits.push_back(flag);
          return scf::ForOp::create(builder, loc, loop.getLowerBound(),
                                    loop.getUpperBound(), loop.getStep(), inits,
                                    nullptr, loop.getUnsignedCmp());
        });
    replaceIn(block, block->addArgument(flag.getType(), loc));
    appendYielded(block, now);
    return loop.getResults().back();
  }
  if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
    loop = addResult<scf::WhileOp>(
        loop, flag, [&](OpBuilder &builder, const SmallVector<Type> &types) {
          SmallVector<Value> inits(loop.getInits());
          inits.push_back(flag);
          return scf::WhileOp::create(builder, loc, types, inits);
        });
    for (Block *part : {loop.getBeforeBody(), loop.getAfterBody()}) {
      Value begin = part->addArgument(flag.getType(), loc);
      replaceIn(part, begin);
      appendYielded(part, part == block ? now : begin);
    }
    return loop.getResults().back();
  }
  auto branch = addResult<scf::IfOp>(
      cast<scf::IfOp>(parent), flag,
      [&](OpBuilder &builder, const SmallVector<Type> &types) {
        return scf::IfOp::create(builder, loc, types,
                                 cast<scf::IfOp>(parent).getCondition());
      });
  if (branch.getElseRegion().empty()) {
    OpBuilder builder(branch.getContext());
    builder.createBlock(&branch.getElseRegion());
    scf::YieldOp::create(builder, loc);
  }
  for (Block *part : {branch.thenBlock(), branch.elseBlock()})
    appendYielded(part, part == block ? now : flag);
  return branch.getResults().back();
}

/// Carries whether @conditions, of one block, held whenever it ran, through the
/// ops around it, in a tensor of rank 0.
void Checker::checkInControlFlow(ArrayRef<Condition> conditions) {
  Operation *first = conditions[0].holds.getDefiningOp();
  Location loc = first->getLoc();
  Block *block = first->getBlock();
  OpBuilder builder(step.getBody().front().findAncestorOpInBlock(*first));
  Value yes =
      arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
  Value empty = tensor::EmptyOp::create(builder, loc, ArrayRef<int64_t>{},
                                        builder.getI1Type());
  Value flag = linalg::FillOp::create(builder, loc, yes, empty).getResult(0);

  builder.setInsertionPoint(block->getTerminator());
  Value all = tensor::ExtractOp::create(builder, loc, flag, ValueRange());
  std::string message;
  for (const Condition &condition : conditions) {
    all = arith::AndIOp::create(builder, loc, all, condition.holds);
    message += (message.empty() ? "" : "; ") + condition.message;
  }
  Value now = tensor::InsertOp::create(builder, loc, all, flag, ValueRange());
  while (block->getParentOp() != step) {
    now = carry(block, flag, now);
    block = now.getParentBlock();
  }
  builder.setInsertionPointAfterValue(now);
  CheckOp::create(builder, loc, now, message);
}

/// Asserts it, unless the step does, and replaces it by 0 where it fails.
LogicalResult Checker::check(Operation *op, const Index &index) {
  Value value = index.operand->get();
  Operation *parent = op->getParentOp();
  bool isInBody =
      isa<linalg::GenericOp>(parent) && parent->getParentOp() == step;
  bool isNested = isInControlFlow(op, step);
  bool canCheck = parent == step || isInBody || isNested;
  if (!canCheck && ranges.isWithin(value, index.size))
    return success();
  if (!canCheck || index.size <= 0)
    return op->emitOpError("expected index ")
           << index.dim << " of " << index.tensor
           << " to be one that is known to be in range (bound it with "
              "arith.maxsi and arith.minsi), or an access at the top of the "
              "step, or in linalg.generic, scf.for, scf.while or scf.if there, "
              "got an unknown one in "
           << parent->getName();
  // fsdp-hoist-checks makes lookups after an assertion safe.
  bool isLookup = isInBody && isa<tensor::ExtractOp>(op);
  bool isAsserted = (isInBody || parent == step) &&
                    Assertions::standBefore(op, value, index.size);
  if (isAsserted && isLookup)
    return success();
  auto &[known, size] = safe[{op->getBlock(), value}];
  if (known && size <= index.size) {
    index.operand->set(known);
    return success();
  }

  OpBuilder builder(op);
  Location loc = op->getLoc();
  // As unsigned numbers, those below 0 are large.
  Value holds = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::ult, value,
      arith::ConstantIndexOp::create(builder, loc, index.size));
  bool asserts = !isAsserted && !assertions.fail(value, index.size);
  if (asserts && isNested)
    inControlFlow[op->getBlock()].push_back({holds, describe(index, op)});
  else if (asserts)
    cf::AssertOp::create(builder, loc, holds, describe(index, op));
  if (asserts && isLookup)
    return success();
  known =
      arith::SelectOp::create(builder, loc, holds, value,
                              arith::ConstantIndexOp::create(builder, loc, 0));
  size = index.size;
  index.operand->set(known);
  return success();
}

/// Refuses strides of slices that are not static and positive, and widths of
/// padding that are not static: at run time, offsets and indices are checked.
static LogicalResult verifyStaticPlaces(Operation *op) {
  if (auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op))
    if (isa<tensor::TensorDialect>(op->getDialect()) &&
        llvm::any_of(slice.getMixedStrides(), [](OpFoldResult stride) {
          return getConstantIntValue(stride).value_or(0) < 1;
        }))
      return op->emitOpError(
          "expected constant strides of at least 1, got other ones");
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    if (!pad.getLow().empty() || !pad.getHigh().empty())
      return op->emitOpError(
          "expected constant widths of padding, got computed ones");
  return success();
}

LogicalResult Checker::run() {
  // First all questions, then all changes.
  SmallVector<std::pair<Operation *, Index>> unproven;
  WalkResult walked = step.walk([&](Operation *op) {
    if (failed(verifyStaticPlaces(op)))
      return WalkResult::interrupt();
    for (const Index &index : getIndices(op))
      if (isToCheck(index))
        unproven.push_back({op, index});
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  for (auto &[op, index] : unproven)
    if (failed(check(op, index)))
      return failure();
  for (auto &[block, conditions] : inControlFlow)
    checkInControlFlow(conditions);
  return success();
}

namespace {
struct CheckIndices : fsdp::impl::CheckIndicesBase<CheckIndices> {
  using CheckIndicesBase::CheckIndicesBase;

  void runOnOperation() override {
    ProgramOp step = getOperation();
    if (failed(Checker(step, all).run()))
      signalPassFailure();
  }
};
} // namespace
