//===- AttentionBackward.cpp - The backward pass of an attention ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With probabilities p, values v and the gradient of the result dout, the
// backward pass is
//
//   dv = (f p)^T dout, dp = f * dout v^T, ds = p * (dp - sum p * dp),
//   dq = g(ds) k, dk = g(ds)^T q
//
// where f are the factors of the probabilities after the softmax (1 where
// there are none) and g is the gradient of the score function. Its products are
// found from the probabilities on, each by which dimension it sums over.
//
//===----------------------------------------------------------------------===//

#include "AttentionBackward.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class BackwardMatcher {
public:
  BackwardMatcher(PointExpressions &points, Block &block,
                  const ForwardProducts &forward,
                  llvm::function_ref<bool(int, int)> checkBody)
      : points(points), block(block), forward(forward), checkBody(checkBody) {}

  FailureOr<std::optional<BackwardPass>> run(std::string &why);

private:
  void
  collectBackwardReads(SmallVector<std::pair<OpOperand *, DimAtoms>> &reads);
  bool addBackwardProduct(OpOperand *read, const DimAtoms &dims,
                          std::string &why);
  bool matchGradient(std::string &why);

  PointExpressions &points;
  Block &block;
  const ForwardProducts &forward;
  llvm::function_ref<bool(int, int)> checkBody;
  std::optional<GradientProduct> dqProduct, dkProduct, dvProduct;
  BackwardPass pass;
};
} // namespace

/// Products that read something which is computed from the probabilities
/// element by element.
void BackwardMatcher::collectBackwardReads(
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
    if (known.node >= 0 && points.stripCasts(known.node) == forward.probability)
      starts.push_back({known.tensor, known.dims});
  for (auto &[tensor, dims] : starts)
    visit(tensor, dims);
  for (unsigned i = 0; i != worklist.size(); ++i) {
    auto [tensor, dims] = worklist[i];
    for (OpOperand &use : tensor.getUses()) {
      Operation *user = use.getOwner();
      if (user->getBlock() != &block)
        continue;
      if (isReshape(user)) {
        DimAtoms result;
        if (points.getResultDims(user, dims, result))
          visit(user->getResult(0), result);
        continue;
      }
      ComputeKind kind = getComputeKind(user);
      if (kind == ComputeKind::Contraction) {
        if (&use != forward.probabilities)
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

bool BackwardMatcher::addBackwardProduct(OpOperand *read, const DimAtoms &dims,
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
  FactoredPattern weights = matchFactors(points, node);
  bool isWeights = weights.point == forward.probability &&
                   ArrayRef<int>(weights.factors) == forward.factors;
  unsigned free = read->getOperandNumber() == 0 ? walked.columns : walked.rows;
  IndexSpace::AtomList features = walked.loops[free];
  auto unifies = [&](const IndexSpace::AtomList &with) {
    IndexSpace trial = points.space;
    if (!trial.unify(features, with))
      return false;
    points.space = std::move(trial);
    return true;
  };
  if (isWeights) {
    if (overKeys || dvProduct || !unifies(forward.value)) {
      why = "the probabilities are read by another product";
      return false;
    }
    pass.doutOfValues = other;
    pass.dvOp = walked.op;
    dvProduct = GradientProduct{produced, walked.getResultDims(), other.scale};
    return true;
  }
  std::optional<GradientProduct> &slot = overKeys ? dqProduct : dkProduct;
  if (slot || !unifies(forward.head)) {
    why = "the gradient of the scores is read by another product";
    return false;
  }
  if (pass.gradient >= 0 &&
      points.stripCasts(pass.gradient) != points.stripCasts(node)) {
    why = "queries and keys have different gradients of the scores";
    return false;
  }
  pass.gradient = points.stripCasts(node);
  slot = GradientProduct{produced, walked.getResultDims(), other.scale};
  (overKeys ? pass.keysOfGradient : pass.queriesOfGradient) = other;
  (overKeys ? pass.dqOp : pass.dkOp) = walked.op;
  return true;
}

bool BackwardMatcher::matchGradient(std::string &why) {
  auto pattern = findSoftmaxGradient(points, pass.gradient, forward.probability,
                                     forward.factors);
  if (!pattern) {
    why = "the gradient of the softmax is not p * (dp - sum p * dp)";
    return false;
  }
  pass.softmaxGradient = *pattern;
  if (!checkBody(pass.gradient, pattern->node))
    return false;
  const PointNode &node = points[pattern->product];
  std::optional<WalkedProduct> loops =
      getProductLoops(node.value.getDefiningOp());
  if (!loops) {
    why = "the probabilities' gradient is more than one product per head";
    return false;
  }
  WalkedProduct walked = *loops;
  pass.dpOp = walked.op;
  auto op = walked.op;
  AffineMap map = op.getIndexingMapMatchingResult(cast<OpResult>(node.value));
  for (auto [expr, list] : llvm::zip(map.getResults(), node.dims))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      walked.loops[dim.getPosition()] = list;
  IndexSpace::AtomList features =
      points.space.create(op.getStaticLoopRanges()[walked.reduced]);
  IndexSpace trial = points.space;
  if (!trial.unify(features, forward.value)) {
    why = "the probabilities' gradient is not of the values' size";
    return false;
  }
  points.space = std::move(trial);
  walked.loops[walked.reduced] = features;
  bool rowsAreQueries = points.equal(walked.loops[walked.rows], points.query);
  OpOperand *gradients = op.getDpsInputOperand(rowsAreQueries ? 0 : 1);
  OpOperand *values = op.getDpsInputOperand(rowsAreQueries ? 1 : 0);
  pass.dout = walkBack(points, gradients->get(), walked.getDims(gradients));
  pass.valuesOfGradient =
      walkBack(points, values->get(), walked.getDims(values));
  if (pass.dout.scale != 1.0 || pass.valuesOfGradient.scale != 1.0) {
    why = "the result's gradient is multiplied by a constant";
    return false;
  }
  return true;
}

FailureOr<std::optional<BackwardPass>> BackwardMatcher::run(std::string &why) {
  SmallVector<std::pair<OpOperand *, DimAtoms>> reads;
  collectBackwardReads(reads);
  if (reads.empty())
    return std::optional<BackwardPass>();
  for (auto &[read, dims] : reads)
    if (!addBackwardProduct(read, dims, why))
      return failure();
  if (dqProduct)
    pass.dq = walkGradient(points, *dqProduct, Through::Factors);
  std::tie(pass.dk, pass.dv) = walkKeysAndValues(points, dkProduct, dvProduct);
  if (pass.gradient < 0) {
    why = "only the values have a gradient";
    return failure();
  }
  if (!matchGradient(why))
    return failure();
  return std::optional<BackwardPass>(std::move(pass));
}

FailureOr<std::optional<BackwardPass>> fsdp::matchBackwardPass(
    PointExpressions &points, Block &block, const ForwardProducts &forward,
    llvm::function_ref<bool(int, int)> checkBody, std::string &why) {
  return BackwardMatcher(points, block, forward, checkBody).run(why);
}

SmallVector<WalkedTensor *> BackwardPass::getTensors() {
  SmallVector<WalkedTensor *> all{&dout, &valuesOfGradient};
  if (dq)
    all.append({&*dq, &keysOfGradient});
  if (dk)
    all.append({&*dk, &queriesOfGradient});
  if (dv)
    all.append({&*dv, &doutOfValues});
  return all;
}
