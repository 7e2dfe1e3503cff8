//===- Attention.cpp - Attention in a traced step -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each product that an exponential reaches is tried as that of probabilities
// and values: from there the scores are followed back to queries and keys, and
// the probabilities on to the products of the backward pass
// (AttentionBackward.h).
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Attention/Attention.h"
#include "AttentionBackward.h"
#include "AttentionOperands.h"
#include "SoftmaxPatterns.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::fsdp;

using Kind = PointNode::Kind;

namespace {
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
  bool checkBody(int root, int stop, std::string &why);
  bool resolveSizes(std::string &why);
  bool checkTypes(std::string &why);
  bool checkDead(std::string &why);
  bool place(std::string &why);
  bool describeBackward(std::string &why);
  AttentionTensor getTensor(const WalkedTensor &walked,
                            ArrayRef<IndexSpace::Atom> rows,
                            ArrayRef<IndexSpace::Atom> columns) const;
  SmallVector<WalkedTensor *> getAllTensors();

  Block &block;
  OpOperand *operand;
  std::unique_ptr<PointExpressions> pointsOwner;
  PointExpressions &points;

  WalkedProduct weighted, scored;
  SoftmaxPattern softmax;
  SmallVector<int> factors;
  int product = -1;
  IndexSpace::AtomList head, value;
  WalkedTensor q, k, v, out;
  double scale = 1.0;
  std::optional<BackwardPass> backward;

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
  int root = points.resolve(operand->get(), weighted.getDims(operand));
  if (root < 0)
    return false;
  FactoredPattern weights = matchFactors(points, root);
  auto pattern = matchSoftmax(points, weights.point);
  if (!pattern)
    return false;
  softmax = *pattern;
  factors = std::move(weights.factors);
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
  for (int factor : factors)
    if (!checkBody(factor, /*stop=*/-1, why))
      return false;
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

bool Finder::matchBackward(std::string &why) {
  ForwardProducts forward = {operand, softmax.probability, factors, head,
                             value};
  auto isUnderstood = [&](int from, int stop) {
    return checkBody(from, stop, why);
  };
  FailureOr<std::optional<BackwardPass>> pass =
      matchBackwardPass(points, block, forward, isUnderstood, why);
  if (failed(pass))
    return false;
  backward = std::move(*pass);
  return true;
}

//===----------------------------------------------------------------------===//
// Sizes, strides, checks
//===----------------------------------------------------------------------===//

SmallVector<WalkedTensor *> Finder::getAllTensors() {
  SmallVector<WalkedTensor *> all{&q, &k, &v, &out};
  for (WalkedTensor &walked : capturedTensors)
    all.push_back(&walked);
  if (backward)
    llvm::append_range(all, backward->getTensors());
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
  if (backward)
    for (auto *gradient : {&backward->dq, &backward->dk, &backward->dv})
      if (*gradient)
        replaced.push_back((*gradient)->tensor);
  Liveness liveness(replaced);
  if (liveness.isDead(points[product].value) &&
      (!backward || liveness.isDead(backward->dpOp->getResult(0))))
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
    auto visit = [&](int i) {
      isForward |= i == node;
      return true;
    };
    visitPoints(points, softmax.input, visit);
    for (int factor : factors)
      visitPoints(points, factor, visit);
    if (isForward)
      result.forward.captured.push_back(node);
  }
  for (auto [node, walked] : llvm::zip(captured, capturedTensors))
    if (llvm::is_contained(result.forward.captured, node))
      forwardReads.push_back(walked.tensor);
  result.forward.place =
      findPlace(block, forwardReads, {out.tensor}, weighted.op);
  if (backward) {
    reads.push_back(backward->dout.tensor);
    SmallVector<Value> replaced;
    Operation *first = backward->dpOp;
    for (auto &[slot, op] : {std::pair{&backward->dq, backward->dqOp},
                             {&backward->dk, backward->dkOp},
                             {&backward->dv, backward->dvOp}}) {
      if (!*slot)
        continue;
      replaced.push_back((*slot)->tensor);
      if (op->isBeforeInBlock(first))
        first = op;
    }
    result.backward->place = findPlace(block, reads, replaced, first);
  }
  if (result.forward.place && (!backward || result.backward->place))
    return true;
  why = "an operand is computed behind the first reader of the result";
  return false;
}

/// Fills in the backward pass of the result, whose forward pass is there.
bool Finder::describeBackward(std::string &why) {
  const AttentionForward &forward = result.forward;
  const auto &[dq, dk, dv] = std::tie(backward->dq, backward->dk, backward->dv);
  AttentionBackward &made = *result.backward;
  made.dout = getTensor(backward->dout, points.query, value);
  made.gradient = backward->gradient;
  made.softmaxGradient = backward->softmaxGradient.node;
  auto isOther = [&](const WalkedTensor &walked, const AttentionTensor &as,
                     ArrayRef<IndexSpace::Atom> rows,
                     ArrayRef<IndexSpace::Atom> columns) {
    return !(getTensor(walked, rows, columns) == as);
  };
  if (isOther(backward->valuesOfGradient, forward.v, points.key, value) ||
      (dv && isOther(backward->doutOfValues, made.dout, points.query, value)) ||
      (dq && isOther(backward->keysOfGradient, forward.k, points.key, head)) ||
      (dk &&
       isOther(backward->queriesOfGradient, forward.q, points.query, head))) {
    why = "the backward pass reads other queries, keys or values";
    return false;
  }
  if (dq)
    made.dq = {getTensor(*dq, points.query, head), dq->scale};
  if (dk)
    made.dk = {getTensor(*dk, points.key, head), dk->scale};
  if (dv) {
    made.dv = {getTensor(*dv, points.key, value), dv->scale};
    if (dv->scale != 1.0) {
      why = "the values' gradient is multiplied by a constant";
      return false;
    }
  }
  if (dk && dv)
    for (auto [size, ofKeys, ofValues] : llvm::zip(
             result.batch, made.dk->result.strides, made.dv->result.strides))
      if (size > 1 && (ofKeys == 0) != (ofValues == 0)) {
        why = "keys and values are shared by different parts of the batch";
        return false;
      }
  if (dq)
    for (auto [size, stride] : llvm::zip(result.batch, made.dq->result.strides))
      if (size > 1 && stride == 0) {
        why = "queries are shared by parts of the batch";
        return false;
      }
  return true;
}

std::optional<AttentionMatch> Finder::match(std::string &why) {
  if (!matchForward(why) || !matchBackward(why) || !resolveSizes(why) ||
      !checkTypes(why) || !checkDead(why))
    return std::nullopt;
  if (backward)
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
  forward.factors = factors;
  forward.zeroMasked = softmax.zeroMasked;
  forward.causal = isMaskedBehindQuery(points, softmax.input);
  forward.allCaptured = captured;
  for (const WalkedTensor &walked : capturedTensors)
    forward.capturedTensors.push_back(
        getTensor(walked, points.query, points.key));
  if (backward && !describeBackward(why))
    return std::nullopt;
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
        else if ((kind == ComputeKind::Elementwise || isReshape(user)) &&
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
