//===- Attention.cpp - Attention in a traced step -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Attention/Attention.h"
#include "AttentionOperands.h"
#include "SoftmaxPatterns.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::fsdp;

using Kind = PointNode::Kind;

namespace {

/// Ops from an exponential to the product that reads its softmax, and from the
/// probabilities to the products of the backward pass: more is something else.
constexpr unsigned kMaxReach = 64;
constexpr unsigned kMaxBatchDims = 4;

/// Matches one attention, from the product of probabilities and values on.
class Finder {
public:
  Finder(Block &block, OpOperand *probabilities)
      : block(block), operand(probabilities),
        pointsOwner(std::make_unique<PointExpressions>()),
        points(*pointsOwner) {}

  /// Whether it is a softmax of something that depends on one product.
  bool isSoftmax();
  /// The attention; otherwise `why` says what it has that is not understood.
  std::optional<AttentionMatch> match(std::string &why);

private:
  bool matchForward(std::string &why);
  bool matchBackward(std::string &why);
  bool addBackwardProduct(OpOperand *read, const DimAtoms &dims,
                          std::string &why);
  bool matchGradient(std::string &why);
  void
  collectBackwardReads(SmallVector<std::pair<OpOperand *, DimAtoms>> &reads);
  bool checkBody(int root, int stop, std::string &why);
  bool resolveSizes(std::string &why);
  bool checkTypes(std::string &why);
  bool checkDead(std::string &why);
  bool place(std::string &why);
  AttentionTensor getTensor(const WalkedTensor &walked,
                            ArrayRef<IndexSpace::Atom> rows,
                            ArrayRef<IndexSpace::Atom> columns) const;
  SmallVector<WalkedTensor *> getAllTensors();

  Block &block;
  OpOperand *operand;
  std::unique_ptr<PointExpressions> pointsOwner;
  PointExpressions &points;

  WalkedProduct weighted, scored;
  int root = -1;
  SoftmaxPattern softmax;
  int product = -1;
  IndexSpace::AtomList head, value;
  WalkedTensor q, k, v, out;
  double scale = 1.0;

  // The backward pass.
  bool hasBackward = false;
  WalkedTensor dout, doutOfValues, keysOfGradient, queriesOfGradient,
      valuesOfGradient;
  std::optional<WalkedTensor> dq, dk, dv;
  std::optional<GradientProduct> dqProduct, dkProduct, dvProduct;
  linalg::LinalgOp dqOp, dkOp, dvOp, dpOp;
  int gradient = -1;
  SoftmaxGradientPattern softmaxGradient{-1, -1};

  SmallVector<int> captured;
  SmallVector<WalkedTensor, 2> capturedTensors;
  AttentionMatch result;
};

} // namespace

bool Finder::isSoftmax() {
  std::optional<WalkedProduct> loops = getProductLoops(operand->getOwner());
  if (!loops)
    return false;
  weighted = *loops;
  SmallVector<int64_t> sizes = weighted.op.getStaticLoopRanges();
  bool isFirst = operand->getOperandNumber() == 0;
  unsigned queryLoop = isFirst ? weighted.rows : weighted.columns;
  for (unsigned loop = 0; loop != sizes.size(); ++loop) {
    weighted.loops[loop] = points.space.create(sizes[loop]);
    if (loop == weighted.reduced)
      points.key = weighted.loops[loop];
    else if (loop == queryLoop)
      points.query = weighted.loops[loop];
    else if (loop != unsigned(isFirst ? weighted.columns : weighted.rows))
      points.batch.append(weighted.loops[loop]);
    else
      value = weighted.loops[loop];
  }
  if (sizes[weighted.reduced] < 2)
    return false;
  root = points.resolve(operand->get(), weighted.getDims(operand));
  auto pattern = matchSoftmax(points, root);
  if (!pattern)
    return false;
  softmax = *pattern;
  return true;
}

/// Whether a body computes everything below `root` but `stop` from elements of
/// tensors and at most the one product.
bool Finder::checkBody(int from, int stop, std::string &why) {
  bool ok = true;
  visitPoints(points, from, [&](int node) {
    const PointNode &at = points[node];
    if (node == stop || !ok)
      return false;
    switch (at.kind) {
    case Kind::RowReduce:
      why = "a row's reduction is part of the score function";
      ok = false;
      return false;
    case Kind::Product:
      if (product < 0)
        product = node;
      if (product == node)
        return false;
      why = points[product].value == at.value
                ? "the scores are read in two ways"
                : "scores are made of more than one product";
      ok = false;
      return false;
    case Kind::Captured: {
      if (llvm::is_contained(captured, node))
        return false;
      WalkedTensor walked;
      ViewedValue viewed = lookThroughViews(at.value);
      walked.tensor = viewed.source;
      walked.layout = viewed.layout;
      walked.dims = at.dims;
      Operation *def = walked.tensor.getDefiningOp();
      if (viewed.scale != 1.0 ||
          (def && getComputeKind(def) == ComputeKind::Constant)) {
        why = "the score function reads a constant tensor";
        ok = false;
        return false;
      }
      for (const IndexSpace::AtomList &list : at.dims)
        for (IndexSpace::Atom atom : points.space.resolve(list)) {
          auto isIn = [&](ArrayRef<IndexSpace::Atom> atoms) {
            return llvm::is_contained(points.space.resolve(atoms), atom);
          };
          if (isIn(points.batch) || isIn(points.query) || isIn(points.key))
            continue;
          why = "the score function reads more than one element of a tensor";
          ok = false;
          return false;
        }
      captured.push_back(node);
      capturedTensors.push_back(walked);
      return false;
    }
    default:
      return true;
    }
  });
  return ok;
}

bool Finder::matchForward(std::string &why) {
  if (!checkBody(softmax.input, /*stop=*/-1, why))
    return false;
  if (product < 0) {
    why = "no product makes the scores";
    return false;
  }
  // The product of queries and keys.
  const PointNode &scores = points[product];
  std::optional<WalkedProduct> loops =
      getProductLoops(scores.value.getDefiningOp());
  if (!loops) {
    why = "the scores' product is more than one product per head";
    return false;
  }
  scored = *loops;
  auto scoredOp = scored.op;
  AffineMap map =
      scoredOp.getIndexingMapMatchingResult(cast<OpResult>(scores.value));
  for (auto [expr, list] : llvm::zip(map.getResults(), scores.dims))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      scored.loops[dim.getPosition()] = list;
  head = points.space.create(scoredOp.getStaticLoopRanges()[scored.reduced]);
  scored.loops[scored.reduced] = head;
  bool rowsAreQueries = points.equal(scored.loops[scored.rows], points.query) &&
                        points.equal(scored.loops[scored.columns], points.key);
  bool rowsAreKeys = points.equal(scored.loops[scored.rows], points.key) &&
                     points.equal(scored.loops[scored.columns], points.query);
  if (!rowsAreQueries && !rowsAreKeys) {
    why = "the scores' product is not one of queries and keys";
    return false;
  }
  OpOperand *queries = scoredOp.getDpsInputOperand(rowsAreQueries ? 0 : 1);
  OpOperand *keys = scoredOp.getDpsInputOperand(rowsAreQueries ? 1 : 0);
  q = walkBack(points, queries->get(), scored.getDims(queries));
  k = walkBack(points, keys->get(), scored.getDims(keys));
  scale = q.scale * k.scale;

  OpOperand *values =
      weighted.op.getDpsInputOperand(1 - operand->getOperandNumber());
  v = walkBack(points, values->get(), weighted.getDims(values));
  out = walkForward(points, weighted.op->getResult(0), weighted.getResultDims(),
                    Through::Nothing);
  if (v.scale != 1.0) {
    why = "values are multiplied by a constant";
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The backward pass
//===----------------------------------------------------------------------===//

/// Products that read something which is computed from the probabilities
/// element by element.
void Finder::collectBackwardReads(
    SmallVector<std::pair<OpOperand *, DimAtoms>> &reads) {
  SmallVector<std::pair<Value, DimAtoms>> worklist;
  llvm::DenseSet<Value> seen;
  auto visit = [&](Value tensor, const DimAtoms &dims) {
    if (seen.size() < kMaxReach && points.contains(dims, points.query) &&
        points.contains(dims, points.key) && seen.insert(tensor).second)
      worklist.push_back({tensor, dims});
  };
  SmallVector<std::pair<Value, DimAtoms>> starts;
  for (const PointExpressions::Known &known : points.getKnown())
    if (known.node >= 0 && points.stripCasts(known.node) == softmax.probability)
      starts.push_back({known.tensor, known.dims});
  for (auto &[tensor, dims] : starts)
    visit(tensor, dims);
  for (unsigned i = 0; i != worklist.size(); ++i) {
    auto [tensor, dims] = worklist[i];
    for (OpOperand &use : tensor.getUses()) {
      Operation *user = use.getOwner();
      if (user->getBlock() != &block)
        continue;
      if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(user)) {
        DimAtoms result;
        if (points.getResultDims(user, dims, result))
          visit(user->getResult(0), result);
        continue;
      }
      ComputeKind kind = getComputeKind(user);
      if (kind == ComputeKind::Contraction) {
        if (&use != operand)
          reads.push_back({&use, dims});
        continue;
      }
      auto generic = dyn_cast<linalg::GenericOp>(user);
      if (!generic || kind != ComputeKind::Elementwise)
        continue;
      SmallVector<IndexSpace::AtomList> loops(generic.getNumLoops());
      for (auto [expr, list] :
           llvm::zip(generic.getMatchingIndexingMap(&use).getResults(), dims))
        if (auto dim = dyn_cast<AffineDimExpr>(expr))
          loops[dim.getPosition()] = list;
      for (OpResult opResult : generic->getResults()) {
        DimAtoms produced;
        AffineMap map = generic.getIndexingMapMatchingResult(opResult);
        for (AffineExpr expr : map.getResults()) {
          auto dim = dyn_cast<AffineDimExpr>(expr);
          produced.push_back(dim ? loops[dim.getPosition()]
                                 : IndexSpace::AtomList());
        }
        visit(opResult, produced);
      }
    }
  }
}

bool Finder::addBackwardProduct(OpOperand *read, const DimAtoms &dims,
                                std::string &why) {
  std::optional<WalkedProduct> loops = getProductLoops(read->getOwner());
  if (!loops || !walkOperand(points, *loops, read, dims)) {
    why = "a gradient's product is more than one product per head";
    return false;
  }
  WalkedProduct walked = *loops;
  bool overQueries = points.equal(walked.loops[walked.reduced], points.query);
  bool overKeys = points.equal(walked.loops[walked.reduced], points.key);
  int node = points.resolve(read->get(), walked.getDims(read));
  if ((!overQueries && !overKeys) || node < 0) {
    why = "the probabilities are read by another product";
    return false;
  }
  OpOperand *otherOperand =
      walked.op.getDpsInputOperand(1 - read->getOperandNumber());
  WalkedTensor other =
      walkBack(points, otherOperand->get(), walked.getDims(otherOperand));
  Value produced = walked.op->getResult(0);
  bool isProbability = points.stripCasts(node) == softmax.probability;
  unsigned free = read->getOperandNumber() == 0 ? walked.columns : walked.rows;
  IndexSpace::AtomList features = walked.loops[free];
  auto unifies = [&](const IndexSpace::AtomList &with) {
    IndexSpace trial = points.space;
    if (!trial.unify(features, with))
      return false;
    points.space = std::move(trial);
    return true;
  };
  if (isProbability) {
    if (overKeys || dvProduct || !unifies(value)) {
      why = "the probabilities are read by another product";
      return false;
    }
    doutOfValues = other;
    dvOp = walked.op;
    dvProduct = GradientProduct{produced, walked.getResultDims(), other.scale};
    return true;
  }
  std::optional<GradientProduct> &slot = overKeys ? dqProduct : dkProduct;
  if (slot || !unifies(head)) {
    why = "the gradient of the scores is read by another product";
    return false;
  }
  if (gradient >= 0 && points.stripCasts(gradient) != points.stripCasts(node)) {
    why = "queries and keys have different gradients of the scores";
    return false;
  }
  gradient = points.stripCasts(node);
  slot = GradientProduct{produced, walked.getResultDims(), other.scale};
  (overKeys ? keysOfGradient : queriesOfGradient) = other;
  (overKeys ? dqOp : dkOp) = walked.op;
  return true;
}

bool Finder::matchGradient(std::string &why) {
  auto pattern = findSoftmaxGradient(points, gradient, softmax.probability);
  if (!pattern) {
    why = "the gradient of the softmax is not p * (dp - sum p * dp)";
    return false;
  }
  softmaxGradient = *pattern;
  if (!checkBody(gradient, softmaxGradient.node, why))
    return false;
  const PointNode &node = points[softmaxGradient.product];
  std::optional<WalkedProduct> loops =
      getProductLoops(node.value.getDefiningOp());
  if (!loops) {
    why = "the probabilities' gradient is more than one product per head";
    return false;
  }
  WalkedProduct walked = *loops;
  dpOp = walked.op;
  auto op = walked.op;
  AffineMap map = op.getIndexingMapMatchingResult(cast<OpResult>(node.value));
  for (auto [expr, list] : llvm::zip(map.getResults(), node.dims))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      walked.loops[dim.getPosition()] = list;
  IndexSpace::AtomList features =
      points.space.create(op.getStaticLoopRanges()[walked.reduced]);
  IndexSpace trial = points.space;
  if (!trial.unify(features, value)) {
    why = "the probabilities' gradient is not of the values' size";
    return false;
  }
  points.space = std::move(trial);
  walked.loops[walked.reduced] = features;
  bool rowsAreQueries = points.equal(walked.loops[walked.rows], points.query);
  OpOperand *gradients = op.getDpsInputOperand(rowsAreQueries ? 0 : 1);
  OpOperand *values = op.getDpsInputOperand(rowsAreQueries ? 1 : 0);
  dout = walkBack(points, gradients->get(), walked.getDims(gradients));
  valuesOfGradient = walkBack(points, values->get(), walked.getDims(values));
  if (dout.scale != 1.0 || valuesOfGradient.scale != 1.0) {
    why = "the result's gradient is multiplied by a constant";
    return false;
  }
  return true;
}

bool Finder::matchBackward(std::string &why) {
  SmallVector<std::pair<OpOperand *, DimAtoms>> reads;
  collectBackwardReads(reads);
  for (auto &[read, dims] : reads)
    if (!addBackwardProduct(read, dims, why))
      return false;
  hasBackward = !reads.empty();
  if (!hasBackward)
    return true;
  if (dqProduct)
    dq = walkGradient(points, *dqProduct, Through::Factors);
  std::tie(dk, dv) = walkKeysAndValues(points, dkProduct, dvProduct);
  if (gradient < 0) {
    why = "only the values have a gradient";
    return false;
  }
  return matchGradient(why);
}

//===----------------------------------------------------------------------===//
// Sizes, strides, checks
//===----------------------------------------------------------------------===//

SmallVector<WalkedTensor *> Finder::getAllTensors() {
  SmallVector<WalkedTensor *> all{&q, &k, &v, &out};
  for (WalkedTensor &walked : capturedTensors)
    all.push_back(&walked);
  if (!hasBackward)
    return all;
  all.append({&dout, &valuesOfGradient});
  if (dq)
    all.append({&*dq, &keysOfGradient});
  if (dk)
    all.append({&*dk, &queriesOfGradient});
  if (dv)
    all.append({&*dv, &doutOfValues});
  return all;
}

AttentionTensor Finder::getTensor(const WalkedTensor &walked,
                                  ArrayRef<IndexSpace::Atom> rows,
                                  ArrayRef<IndexSpace::Atom> columns) const {
  AttentionTensor tensor;
  tensor.tensor = walked.tensor;
  tensor.offset = walked.layout.offset;
  for (int64_t stride : getStrides(points, walked, points.batch))
    tensor.strides.push_back(stride);
  auto append = [&](ArrayRef<IndexSpace::Atom> atoms) {
    SmallVector<int64_t> strides = getStrides(points, walked, atoms);
    tensor.strides.push_back(strides.empty() ? 0 : strides.front());
  };
  append(rows);
  append(columns);
  return tensor;
}

bool Finder::resolveSizes(std::string &why) {
  for (WalkedTensor *walked : getAllTensors())
    if (!splitAtLayout(points, *walked)) {
      why = "no strides describe a tensor";
      return false;
    }
  for (IndexSpace::Atom atom : points.space.resolve(points.batch))
    result.batch.push_back(points.space.getSize(atom));
  auto getSize = [&](const IndexSpace::AtomList &atoms, int64_t &size) {
    IndexSpace::AtomList resolved = points.space.resolve(atoms);
    size = points.space.getTotalSize(resolved);
    return resolved.size() <= 1;
  };
  if (result.batch.size() > kMaxBatchDims ||
      !getSize(points.query, result.queries) ||
      !getSize(points.key, result.keys) || !getSize(head, result.head) ||
      !getSize(value, result.value)) {
    why = "queries, keys, features or the batch lie in memory in too many "
          "pieces";
    return false;
  }
  return true;
}

/// Elements that the op's products widen.
static bool isNarrowOrSingle(Value tensor) {
  Type type = cast<RankedTensorType>(tensor.getType()).getElementType();
  return type.isF32() || type.isBF16() || type.isF16();
}

bool Finder::checkTypes(std::string &why) {
  for (WalkedTensor *walked : getAllTensors()) {
    bool isCaptured = llvm::any_of(
        capturedTensors, [&](WalkedTensor &other) { return &other == walked; });
    auto type = cast<RankedTensorType>(walked->tensor.getType());
    Operation *def = walked->tensor.getDefiningOp();
    if (!isCaptured && !isNarrowOrSingle(walked->tensor)) {
      why = "elements are neither f32, bf16 nor f16";
      return false;
    }
    if (!type.hasStaticShape() || type.getEncoding() ||
        (def && getComputeKind(def) == ComputeKind::Constant)) {
      why = "an operand is a constant";
      return false;
    }
  }
  return true;
}

namespace {
/// Which ops go once some values are replaced.
class Liveness {
public:
  explicit Liveness(ArrayRef<Value> replacedValues)
      : replaced(replacedValues.begin(), replacedValues.end()) {}

  bool isDead(Value value, unsigned depth = 0) {
    if (replaced.contains(value))
      return true;
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (isDead(user, depth + 1))
        return true;
      if (!reader)
        reader = user;
      return false;
    });
  }
  /// The first op found to stay.
  Operation *reader = nullptr;

private:
  bool isDead(Operation *op, unsigned depth) {
    if (auto it = known.find(op); it != known.end())
      return it->second;
    if (depth > kMaxReach || op->hasTrait<OpTrait::IsTerminator>() ||
        op->getNumResults() == 0 || !isMemoryEffectFree(op))
      return known[op] = false;
    known[op] = false;
    for (Value result : op->getResults())
      if (!isDead(result, depth))
        return false;
    return known[op] = true;
  }
  llvm::DenseSet<Value> replaced;
  llvm::DenseMap<Operation *, bool> known;
};
} // namespace

bool Finder::checkDead(std::string &why) {
  SmallVector<Value> replaced{out.tensor};
  for (auto *gradientOf : {&dq, &dk, &dv})
    if (*gradientOf)
      replaced.push_back((*gradientOf)->tensor);
  Liveness liveness(replaced);
  if (liveness.isDead(points[product].value) &&
      (!hasBackward || liveness.isDead(dpOp->getResult(0))))
    return true;
  why = "scores or probabilities are read by something else";
  if (liveness.reader)
    why += ", " + liveness.reader->getName().getStringRef().str();
  return false;
}

/// A place behind all that the op reads and before all that reads it.
static Operation *findPlace(Block &block, ArrayRef<Value> reads,
                            ArrayRef<Value> replaced, Operation *wished) {
  Operation *place = wished;
  for (Value read : reads)
    if (Operation *def = read.getDefiningOp();
        def && !def->isBeforeInBlock(place))
      place = def->getNextNode();
  for (Value old : replaced)
    for (Operation *user : old.getUsers()) {
      Operation *reader = block.findAncestorOpInBlock(*user);
      if (reader->isBeforeInBlock(place))
        return nullptr;
    }
  return place;
}

bool Finder::place(std::string &why) {
  SmallVector<Value> reads{q.tensor, k.tensor, v.tensor};
  for (WalkedTensor &walked : capturedTensors)
    reads.push_back(walked.tensor);
  // What only the backward pass captures may not be there yet.
  SmallVector<Value> forwardReads{q.tensor, k.tensor, v.tensor};
  for (int node : captured) {
    bool isForward = false;
    visitPoints(points, softmax.input, [&](int i) {
      isForward |= i == node;
      return true;
    });
    if (isForward)
      result.forward.captured.push_back(node);
  }
  for (auto [node, walked] : llvm::zip(captured, capturedTensors))
    if (llvm::is_contained(result.forward.captured, node))
      forwardReads.push_back(walked.tensor);
  result.forward.place =
      findPlace(block, forwardReads, {out.tensor}, weighted.op);
  if (hasBackward) {
    reads.push_back(dout.tensor);
    SmallVector<Value> replaced;
    Operation *first = dpOp;
    for (auto &[slot, op] : {std::pair{&dq, dqOp}, {&dk, dkOp}, {&dv, dvOp}}) {
      if (!*slot)
        continue;
      replaced.push_back((*slot)->tensor);
      if (op->isBeforeInBlock(first))
        first = op;
    }
    result.backward->place = findPlace(block, reads, replaced, first);
  }
  if (result.forward.place && (!hasBackward || result.backward->place))
    return true;
  why = "an operand is computed behind the first reader of the result";
  return false;
}

std::optional<AttentionMatch> Finder::match(std::string &why) {
  if (!matchForward(why) || !matchBackward(why) || !resolveSizes(why) ||
      !checkTypes(why) || !checkDead(why))
    return std::nullopt;
  if (hasBackward)
    result.backward.emplace();
  if (!place(why))
    return std::nullopt;

  AttentionForward &forward = result.forward;
  forward.q = getTensor(q, points.query, head);
  forward.k = getTensor(k, points.key, head);
  forward.v = getTensor(v, points.key, value);
  forward.out = getTensor(out, points.query, value);
  forward.scale = scale;
  forward.score = softmax.input;
  forward.product = product;
  forward.zeroMasked = softmax.zeroMasked;
  forward.causal = isMaskedBehindQuery(points, softmax.input);
  forward.allCaptured = captured;
  for (const WalkedTensor &walked : capturedTensors)
    forward.capturedTensors.push_back(
        getTensor(walked, points.query, points.key));
  if (hasBackward) {
    AttentionBackward &backward = *result.backward;
    backward.dout = getTensor(dout, points.query, value);
    backward.gradient = gradient;
    backward.softmaxGradient = softmaxGradient.node;
    auto isOther = [&](const WalkedTensor &walked, const AttentionTensor &as,
                       ArrayRef<IndexSpace::Atom> rows,
                       ArrayRef<IndexSpace::Atom> columns) {
      return !(getTensor(walked, rows, columns) == as);
    };
    if (isOther(valuesOfGradient, forward.v, points.key, value) ||
        (dv && isOther(doutOfValues, backward.dout, points.query, value)) ||
        (dq && isOther(keysOfGradient, forward.k, points.key, head)) ||
        (dk && isOther(queriesOfGradient, forward.q, points.query, head))) {
      why = "the backward pass reads other queries, keys or values";
      return std::nullopt;
    }
    if (dq)
      backward.dq = {getTensor(*dq, points.query, head), dq->scale};
    if (dk)
      backward.dk = {getTensor(*dk, points.key, head), dk->scale};
    if (dv) {
      backward.dv = {getTensor(*dv, points.key, value), dv->scale};
      if (dv->scale != 1.0) {
        why = "the values' gradient is multiplied by a constant";
        return std::nullopt;
      }
    }
    if (dk && dv)
      for (auto [size, ofKeys, ofValues] :
           llvm::zip(result.batch, backward.dk->result.strides,
                     backward.dv->result.strides))
        if (size > 1 && (ofKeys == 0) != (ofValues == 0)) {
          why = "keys and values are shared by different parts of the batch";
          return std::nullopt;
        }
    if (dq)
      for (auto [size, stride] :
           llvm::zip(result.batch, backward.dq->result.strides))
        if (size > 1 && stride == 0) {
          why = "queries are shared by parts of the batch";
          return std::nullopt;
        }
  }
  result.points = std::move(pointsOwner);
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

/// Products that an exponential reaches through elementwise ops and reshapes.
static void collectCandidates(Operation *exponential,
                              llvm::SetVector<OpOperand *> &candidates) {
  SmallVector<Operation *> worklist{exponential};
  llvm::DenseSet<Operation *> seen{exponential};
  while (!worklist.empty() && seen.size() < kMaxReach) {
    Operation *op = worklist.pop_back_val();
    for (Value produced : op->getResults())
      for (OpOperand &use : produced.getUses()) {
        Operation *user = use.getOwner();
        if (user->getBlock() != op->getBlock())
          continue;
        ComputeKind kind = getComputeKind(user);
        if (kind == ComputeKind::Contraction)
          candidates.insert(&use);
        else if ((kind == ComputeKind::Elementwise ||
                  isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(user)) &&
                 seen.insert(user).second)
          worklist.push_back(user);
      }
  }
}

static bool computesExponential(Operation &op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && llvm::any_of(*generic.getBody(), [](Operation &inner) {
           return isa<math::ExpOp>(inner);
         });
}

AttentionMatches fsdp::findAttentions(Block &block) {
  llvm::SetVector<OpOperand *> candidates;
  for (Operation &op : block)
    if (computesExponential(op))
      collectCandidates(&op, candidates);
  SmallVector<OpOperand *> ordered = candidates.takeVector();
  llvm::sort(ordered, [](OpOperand *a, OpOperand *b) {
    if (a->getOwner() != b->getOwner())
      return a->getOwner()->isBeforeInBlock(b->getOwner());
    return a->getOperandNumber() < b->getOperandNumber();
  });
  AttentionMatches found;
  for (OpOperand *candidate : ordered) {
    Finder finder(block, candidate);
    if (!finder.isSoftmax())
      continue;
    std::string why;
    if (auto match = finder.match(why))
      found.matches.push_back(std::move(*match));
    else
      found.refusals.push_back({candidate->getOwner(), why});
  }
  return found;
}
