//===- PlainScores.cpp - Score functions that only mask -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A body is evaluated for each way in which a key lies to its query. What it
// yields is then one of its arguments, a number, or something else.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Attention/PlainScores.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {

/// The key's index less the query's.
enum class KeyOrder { Before, Same, After };

/// Below it, no score can be told from minus infinity by its exponential.
constexpr double lowest = -1e30;

struct Known {
  enum class Kind { Nothing, Argument, Number, Bool, Query, Key };
  Kind kind = Kind::Nothing;
  unsigned argument = 0;
  double number = 0;
  bool isTrue = false;

  bool isArgument(unsigned which) const {
    return kind == Kind::Argument && argument == which;
  }
  bool isNumber() const { return kind == Kind::Number; }
  bool isMasked() const { return isNumber() && number <= lowest; }

  static Known ofNumber(double number) {
    Known known;
    known.kind = Kind::Number;
    known.number = number;
    return known;
  }
  static Known ofBool(bool isTrue) {
    Known known;
    known.kind = Kind::Bool;
    known.isTrue = isTrue;
    return known;
  }
};

class Evaluation {
public:
  /// The first `scores` arguments are scores; after them and the indices of a
  /// batch of `batchRank` dimensions are the query, the key and what is
  /// captured.
  Evaluation(Block &body, unsigned scores, unsigned batchRank, KeyOrder order)
      : order(order) {
    for (unsigned i = 0; i < scores; ++i) {
      Known &known = values[body.getArgument(i)];
      known.kind = Known::Kind::Argument;
      known.argument = i;
    }
    unsigned query = scores + batchRank;
    values[body.getArgument(query)].kind = Known::Kind::Query;
    values[body.getArgument(query + 1)].kind = Known::Kind::Key;
    for (Operation &op : body.without_terminator())
      if (op.getNumResults() == 1)
        values[op.getResult(0)] = evaluate(op);
    yielded = values.lookup(body.getTerminator()->getOperand(0));
  }

  Known yielded;

private:
  Known of(Value value) const { return values.lookup(value); }
  Known evaluate(Operation &op) const;
  Known compare(arith::CmpIOp op) const;

  KeyOrder order;
  llvm::DenseMap<Value, Known> values;
};

Known Evaluation::compare(arith::CmpIOp op) const {
  Known::Kind left = of(op.getLhs()).kind, right = of(op.getRhs()).kind;
  bool isKeyFirst = left == Known::Kind::Key && right == Known::Kind::Query;
  if (!isKeyFirst && !(left == Known::Kind::Query && right == Known::Kind::Key))
    return {};
  int difference = order == KeyOrder::Same     ? 0
                   : order == KeyOrder::Before ? -1
                                               : 1;
  APInt zero(8, 0), other(8, isKeyFirst ? difference : -difference,
                          /*isSigned=*/true);
  // Indices are not negative: both kinds of order are one.
  switch (op.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return Known::ofBool(other == zero);
  case arith::CmpIPredicate::ne:
    return Known::ofBool(other != zero);
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return Known::ofBool(other.slt(zero));
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return Known::ofBool(other.sle(zero));
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return Known::ofBool(other.sgt(zero));
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return Known::ofBool(other.sge(zero));
  }
  return {};
}

Known Evaluation::evaluate(Operation &op) const {
  APFloat number(0.0);
  if (matchPattern(&op, m_ConstantFloat(&number)))
    return Known::ofNumber(number.convertToDouble());
  APInt integer;
  if (matchPattern(&op, m_ConstantInt(&integer)))
    return integer.getBitWidth() == 1 ? Known::ofBool(!integer.isZero())
                                      : Known();
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
          arith::ExtUIOp>(op)) {
    Known index = of(op.getOperand(0));
    bool isIndex =
        index.kind == Known::Kind::Query || index.kind == Known::Kind::Key;
    return isIndex ? index : Known();
  }
  // Of scores a narrower type would be another number.
  if (isa<arith::ExtFOp>(op)) {
    Known value = of(op.getOperand(0));
    return value.isNumber() ? value : Known();
  }
  if (auto compared = dyn_cast<arith::CmpIOp>(op))
    return compare(compared);
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Known condition = of(select.getCondition());
    if (condition.kind != Known::Kind::Bool)
      return {};
    return of(condition.isTrue ? select.getTrueValue()
                               : select.getFalseValue());
  }
  if (op.getNumOperands() != 2)
    return {};
  Known a = of(op.getOperand(0)), b = of(op.getOperand(1));
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op)) {
    if (a.kind != Known::Kind::Bool || b.kind != Known::Kind::Bool)
      return {};
    return Known::ofBool(isa<arith::AndIOp>(op)  ? a.isTrue && b.isTrue
                         : isa<arith::OrIOp>(op) ? a.isTrue || b.isTrue
                                                 : a.isTrue != b.isTrue);
  }
  auto unchangedBy = [&](double neutral) -> Known {
    if (a.isNumber() && a.number == neutral)
      return b;
    return b.isNumber() && b.number == neutral ? a : Known();
  };
  if (isa<arith::AddFOp>(op)) {
    if (a.isMasked())
      return a;
    return b.isMasked() ? b : unchangedBy(0);
  }
  return isa<arith::MulFOp>(op) ? unchangedBy(1) : Known();
}

} // namespace

/// Argument 0 of the body is what it yields where nothing is masked.
template <typename IsMasked>
static bool isPlain(Region &region, unsigned scores, AttentionShapeAttr shape,
                    bool isCausal, IsMasked isMasked) {
  auto evaluate = [&](KeyOrder order) {
    return Evaluation(region.front(), scores, unsigned(shape.getBatch().size()),
                      order)
        .yielded;
  };
  for (KeyOrder order : {KeyOrder::Before, KeyOrder::Same})
    if (!evaluate(order).isArgument(0))
      return false;
  Known after = evaluate(KeyOrder::After);
  return isCausal ? isMasked(after) : after.isArgument(0);
}

template <typename Op>
static bool isScorePlain(Op attention) {
  return isPlain(attention.getScore(), 1, attention.getShape(),
                 attention.getCausal(),
                 [](const Known &known) { return known.isMasked(); });
}

bool mlir::fsdp::hasPlainScores(AttentionOp attention) {
  return isScorePlain(attention);
}

bool mlir::fsdp::hasPlainScores(AttentionBackwardOp attention) {
  // Of a masked score the gradient that the softmax hands back is 0 already.
  return isScorePlain(attention) &&
         isPlain(attention.getGradient(), 2, attention.getShape(),
                 attention.getCausal(), [](const Known &known) {
                   return known.isArgument(0) ||
                          (known.isNumber() && known.number == 0);
                 });
}
