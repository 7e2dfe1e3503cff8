//===- SoftmaxPatterns.cpp - Softmax and its gradient ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SoftmaxPatterns.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fsdp;

using Kind = PointNode::Kind;

void fsdp::visitPoints(const PointExpressions &points, int root,
                       llvm::function_ref<bool(int)> visit) {
  llvm::DenseSet<int> seen;
  SmallVector<int> worklist{root};
  while (!worklist.empty()) {
    int node = worklist.pop_back_val();
    if (seen.insert(node).second && visit(node))
      llvm::append_range(worklist, points[node].operands);
  }
}

namespace {
/// Looks at nodes through casts.
class Matcher {
public:
  explicit Matcher(const PointExpressions &points) : points(points) {}

  template <typename OpTy>
  const PointNode *get(int node) const {
    const PointNode &found = points[points.stripCasts(node)];
    return found.kind == Kind::Op && isa<OpTy>(found.op) ? &found : nullptr;
  }
  /// A reduction over the keys by `OpTy`.
  template <typename... OpTy>
  const PointNode *getReduce(int node) const {
    const PointNode &found = points[points.stripCasts(node)];
    return found.kind == Kind::RowReduce && isa<OpTy...>(found.op) ? &found
                                                                   : nullptr;
  }
  bool same(int a, int b) const {
    return points.stripCasts(a) == points.stripCasts(b);
  }
  std::optional<APFloat> getFloat(int node) const {
    const PointNode &found = points[points.stripCasts(node)];
    if (auto attr = dyn_cast_or_null<FloatAttr>(found.constant);
        attr && found.kind == Kind::Constant)
      return attr.getValue();
    return std::nullopt;
  }
  std::optional<bool> getBool(int node) const {
    const PointNode &found = points[node];
    if (auto attr = dyn_cast_or_null<IntegerAttr>(found.constant);
        attr && found.kind == Kind::Constant && attr.getType().isInteger(1))
      return attr.getValue().getBoolValue();
    return std::nullopt;
  }
  bool isZero(int node) const {
    auto value = getFloat(node);
    return value && value->isZero();
  }
  static bool isMinusInfinity(const APFloat &value) {
    return value.isInfinity() && value.isNegative();
  }

  /// What a negation is of.
  std::optional<int> getNegated(int node) const {
    if (auto *compare = get<arith::CmpIOp>(node);
        compare && cast<arith::CmpIOp>(compare->op).getPredicate() ==
                       arith::CmpIPredicate::eq)
      for (unsigned i : {0u, 1u})
        if (getBool(compare->operands[i]) == std::optional<bool>(false))
          return compare->operands[1 - i];
    if (auto *exclusive = get<arith::XOrIOp>(node))
      for (unsigned i : {0u, 1u})
        if (getBool(exclusive->operands[i]) == std::optional<bool>(true))
          return exclusive->operands[1 - i];
    return std::nullopt;
  }

  /// Whether a condition says that `input` is minus infinity (or is not).
  bool isMaskTest(int node, int input, bool masked) const {
    if (auto inner = getNegated(node))
      return isMaskTest(*inner, input, !masked);
    auto *compare = get<arith::CmpFOp>(node);
    if (!compare)
      return false;
    auto predicate = cast<arith::CmpFOp>(compare->op).getPredicate();
    bool matches = masked ? predicate == arith::CmpFPredicate::OEQ
                          : predicate == arith::CmpFPredicate::UNE;
    auto constant = getFloat(compare->operands[1]);
    return matches && constant && isMinusInfinity(*constant) &&
           same(compare->operands[0], input);
  }
  /// Whether a condition says that all inputs of a row are minus infinity.
  bool isRowMasked(int node, int input) const {
    if (auto inner = getNegated(node)) {
      auto *any = getReduce<arith::OrIOp>(*inner);
      return any && isMaskTest(any->operands[0], input, /*masked=*/false);
    }
    auto *all = getReduce<arith::AndIOp>(node);
    return all && isMaskTest(all->operands[0], input, /*masked=*/true);
  }

  const PointExpressions &points;
};
} // namespace

/// Of a node that computes a number.
static Type getNumberType(const PointNode &node) {
  switch (node.kind) {
  case Kind::Constant:
    return node.constant.getType();
  case Kind::Op:
  case Kind::RowReduce:
    return node.op->getResult(0).getType();
  case Kind::Index:
    break;
  case Kind::Captured:
  case Kind::Product:
    return getElementTypeOrSelf(node.value.getType());
  }
  llvm_unreachable("a coordinate is no number of floats");
}

/// Factors are as rounded as they are traced, and are multiplied in f32.
FactoredPattern fsdp::matchFactors(const PointExpressions &points, int node) {
  Matcher match(points);
  FactoredPattern pattern{points.stripCasts(node), {}};
  while (auto *multiply = match.get<arith::MulFOp>(pattern.point)) {
    int a = multiply->operands[0], b = multiply->operands[1];
    if (points[a].hasProduct == points[b].hasProduct)
      break;
    if (!points[a].hasProduct)
      std::swap(a, b);
    if (getNumberType(points[b]).isF64())
      break;
    pattern.point = points.stripCasts(a);
    pattern.factors.push_back(b);
  }
  // Widening changes no value; a product in f32 is as good as its factors.
  for (size_t i = 0; i != pattern.factors.size(); ++i)
    while (true) {
      const PointNode &factor = points[pattern.factors[i]];
      if (factor.kind == Kind::Op && isa<arith::ExtFOp>(factor.op)) {
        pattern.factors[i] = factor.operands[0];
      } else if (factor.kind == Kind::Op && isa<arith::MulFOp>(factor.op) &&
                 getNumberType(factor).isF32()) {
        pattern.factors.push_back(factor.operands[1]);
        pattern.factors[i] = factor.operands[0];
      } else {
        break;
      }
    }
  llvm::sort(pattern.factors);
  return pattern;
}

std::optional<SoftmaxPattern> fsdp::matchSoftmax(const PointExpressions &points,
                                                 int node) {
  if (node < 0)
    return std::nullopt;
  Matcher match(points);
  SoftmaxPattern pattern;
  pattern.probability = points.stripCasts(node);
  int quotient = pattern.probability;
  int masked = -1;
  if (auto *select = match.get<arith::SelectOp>(quotient))
    if (match.isZero(select->operands[1])) {
      masked = select->operands[0];
      quotient = points.stripCasts(select->operands[2]);
    }
  auto *divide = match.get<arith::DivFOp>(quotient);
  if (!divide)
    return std::nullopt;
  int exponential = points.stripCasts(divide->operands[0]);
  auto *sum = match.getReduce<arith::AddFOp>(divide->operands[1]);
  auto *exp = match.get<math::ExpOp>(exponential);
  if (!sum || !exp || !match.same(sum->operands[0], exponential))
    return std::nullopt;
  auto init = dyn_cast<FloatAttr>(sum->constant);
  auto *difference = match.get<arith::SubFOp>(exp->operands[0]);
  if (!init || !init.getValue().isZero() || !difference)
    return std::nullopt;
  auto *maximum = match.getReduce<arith::MaximumFOp, arith::MaxNumFOp>(
      difference->operands[1]);
  if (!maximum || !match.same(maximum->operands[0], difference->operands[0]))
    return std::nullopt;
  auto lowest = dyn_cast<FloatAttr>(maximum->constant);
  if (!lowest || !lowest.getValue().isNegative() ||
      !(lowest.getValue().isInfinity() || lowest.getValue().isLargest()))
    return std::nullopt;
  pattern.input = difference->operands[0];
  if (masked >= 0) {
    if (!match.isRowMasked(masked, pattern.input))
      return std::nullopt;
    pattern.zeroMasked = true;
  }
  return pattern;
}

//===----------------------------------------------------------------------===//
// The gradient
//===----------------------------------------------------------------------===//

/// p * (dp - sum p * dp), in the forms that frameworks write it.
static std::optional<SoftmaxGradientPattern>
matchGradient(const PointExpressions &points, int node, int probability,
              ArrayRef<int> factors) {
  Matcher match(points);
  // The other factor of a product with the probabilities.
  auto getFactor = [&](int product) -> std::optional<int> {
    if (auto *multiply = match.get<arith::MulFOp>(product))
      for (unsigned i : {0u, 1u})
        if (match.same(multiply->operands[i], probability))
          return multiply->operands[1 - i];
    return std::nullopt;
  };
  // dp, where a sum over the row is that of p * dp.
  auto getSummed = [&](int sum) -> std::optional<int> {
    auto *reduce = match.getReduce<arith::AddFOp>(sum);
    if (!reduce)
      return std::nullopt;
    auto init = dyn_cast<FloatAttr>(reduce->constant);
    if (!init || !init.getValue().isZero())
      return std::nullopt;
    return getFactor(reduce->operands[0]);
  };
  auto getResult =
      [&](std::optional<int> direct,
          std::optional<int> summed) -> std::optional<SoftmaxGradientPattern> {
    if (!direct || !summed || !match.same(*direct, *summed))
      return std::nullopt;
    FactoredPattern gradient = matchFactors(points, *direct);
    if (points[gradient.point].kind != Kind::Product ||
        ArrayRef<int>(gradient.factors) != factors)
      return std::nullopt;
    return SoftmaxGradientPattern{node, gradient.point};
  };
  // The sum of a term that takes p * sum away.
  auto getNegativeTerm = [&](int term) -> std::optional<int> {
    auto *multiply = match.get<arith::MulFOp>(term);
    if (!multiply)
      return std::nullopt;
    for (unsigned i : {0u, 1u})
      if (auto *negated = match.get<arith::NegFOp>(multiply->operands[i]);
          negated && match.same(negated->operands[0], probability))
        return multiply->operands[1 - i];
    return std::nullopt;
  };

  // p * dp - p * sum
  if (auto *difference = match.get<arith::SubFOp>(node))
    if (auto sum = getFactor(difference->operands[1]))
      return getResult(getFactor(difference->operands[0]), getSummed(*sum));
  // p * (dp - sum)
  if (auto factor = getFactor(node))
    if (auto *difference = match.get<arith::SubFOp>(*factor))
      return getResult(difference->operands[0],
                       getSummed(difference->operands[1]));
  // -p * sum + p * dp, as one operation or two
  if (auto *fused = match.get<math::FmaOp>(node))
    for (unsigned i : {0u, 1u})
      if (auto *negated = match.get<arith::NegFOp>(fused->operands[i]);
          negated && match.same(negated->operands[0], probability))
        return getResult(getFactor(fused->operands[2]),
                         getSummed(fused->operands[1 - i]));
  if (auto *sum = match.get<arith::AddFOp>(node))
    for (unsigned i : {0u, 1u})
      if (auto term = getNegativeTerm(sum->operands[i]))
        return getResult(getFactor(sum->operands[1 - i]), getSummed(*term));
  return std::nullopt;
}

std::optional<SoftmaxGradientPattern>
fsdp::findSoftmaxGradient(const PointExpressions &points, int root,
                          int probability, ArrayRef<int> factors) {
  std::optional<SoftmaxGradientPattern> found;
  bool isOnly = true;
  visitPoints(points, root, [&](int node) {
    if (points[node].kind == Kind::Op && points.stripCasts(node) == node)
      if (auto pattern = matchGradient(points, node, probability, factors)) {
        isOnly &= !found;
        found = pattern;
        return false;
      }
    return true;
  });
  return isOnly ? found : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Causality
//===----------------------------------------------------------------------===//

namespace {
/// What is known of elements at keys behind the query.
class BehindQuery {
public:
  explicit BehindQuery(const PointExpressions &points)
      : points(points), match(points) {}

  std::optional<APFloat> getFloat(int node) const;
  std::optional<bool> getBool(int node) const;

private:
  /// -1 for the query's index, 1 for the key's, 0 for anything else.
  int getSide(int node) const;

  const PointExpressions &points;
  Matcher match;
};
} // namespace

int BehindQuery::getSide(int node) const {
  while (points[node].kind == Kind::Op &&
         isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
             arith::ExtUIOp>(points[node].op))
    node = points[node].operands[0];
  if (points[node].kind != Kind::Index)
    return 0;
  if (points.equal(points[node].index, points.key))
    return 1;
  return points.equal(points[node].index, points.query) ? -1 : 0;
}

std::optional<bool> BehindQuery::getBool(int node) const {
  if (auto constant = match.getBool(node))
    return constant;
  const PointNode &at = points[node];
  if (at.kind != Kind::Op)
    return std::nullopt;
  if (auto inner = match.getNegated(node)) {
    auto value = getBool(*inner);
    return value ? std::optional<bool>(!*value) : std::nullopt;
  }
  if (isa<arith::AndIOp, arith::OrIOp>(at.op)) {
    bool decides = isa<arith::OrIOp>(at.op);
    auto a = getBool(at.operands[0]), b = getBool(at.operands[1]);
    if ((a && *a == decides) || (b && *b == decides))
      return decides;
    return a && b ? std::optional<bool>(!decides) : std::nullopt;
  }
  auto compare = dyn_cast<arith::CmpIOp>(at.op);
  if (!compare)
    return std::nullopt;
  int left = getSide(at.operands[0]), right = getSide(at.operands[1]);
  if (left * right != -1)
    return std::nullopt;
  bool leftIsLarger = left == 1;
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return false;
  case arith::CmpIPredicate::ne:
    return true;
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ult:
  case arith::CmpIPredicate::ule:
    return !leftIsLarger;
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::ugt:
  case arith::CmpIPredicate::uge:
    return leftIsLarger;
  }
  return std::nullopt;
}

std::optional<APFloat> BehindQuery::getFloat(int node) const {
  if (auto constant = match.getFloat(node))
    return constant;
  node = points.stripCasts(node);
  const PointNode &at = points[node];
  if (at.kind != Kind::Op)
    return std::nullopt;
  if (isa<arith::SelectOp>(at.op)) {
    auto condition = getBool(at.operands[0]);
    if (!condition)
      return std::nullopt;
    return getFloat(at.operands[*condition ? 1 : 2]);
  }
  // Scores are finite: minus infinity stays what it is.
  if (isa<arith::AddFOp>(at.op))
    for (int operand : at.operands)
      if (auto value = getFloat(operand);
          value && Matcher::isMinusInfinity(*value))
        return value;
  return std::nullopt;
}

bool fsdp::isMaskedBehindQuery(const PointExpressions &points, int node) {
  auto value = BehindQuery(points).getFloat(node);
  return value && Matcher::isMinusInfinity(*value);
}
