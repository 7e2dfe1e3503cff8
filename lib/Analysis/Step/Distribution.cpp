//===- Distribution.cpp - What ranks hold of one value --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/Distribution.h"
#include "fsdp/Analysis/Step/StepArguments.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"

#include <tuple>

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// A mean says nothing; of two that are not means nobody knows what the result
/// is, whichever comes first.
static void joinSums(Distribution &to, const Distribution &other) {
  bool isConflict =
      !to.sum.isMean() && !other.sum.isMean() && !(to.sum == other.sum);
  auto getKey = [](const Distribution &d) {
    return std::make_tuple(d.sum.isMean(), d.sum.ranks, d.sum.divisor);
  };
  const Distribution &first = getKey(to) <= getKey(other) ? to : other;
  const Distribution &second = &first == &to ? other : to;
  if (isConflict && !to.fault)
    to.fault = Distribution::Fault{Distribution::Fault::Sums,
                                   0,
                                   first.inputs,
                                   second.inputs,
                                   first.sum,
                                   second.sum};
  to.sum = first.sum;
}

Distribution Distribution::join(ArrayRef<Distribution> parts) {
  Distribution result;
  result.isZero = !parts.empty();
  // What was wrong before stays what is said.
  for (const Distribution &part : parts)
    if (!result.fault)
      result.fault = part.fault;
  for (const Distribution &part : parts) {
    joinSums(result, part);
    result.batch |= part.batch;
    result.shard |= part.shard;
    result.partial |= part.partial;
    result.reduced |= part.reduced;
    result.isZero &= part.isZero;
    result.inputs |= part.inputs;
  }
  return result;
}

Distribution Distribution::getUnknown(ArrayRef<Distribution> operands) {
  Distribution result = join(operands);
  result.shard = result.partial = result.shard | result.partial;
  result.isZero = false;
  return result;
}

/// Says of @result that it is wrong along @axes, if anybody knows what it is.
static void blame(Distribution &result, Distribution::Fault::Kind kind,
                  Axes axes, const Distribution &partial,
                  const Distribution &other) {
  axes &= ~result.batch;
  if (axes && !result.fault)
    result.fault = Distribution::Fault{
        kind, axes, partial.inputs, other.inputs, partial.sum, other.sum};
}

Distribution Distribution::add(const Distribution &a, const Distribution &b) {
  Distribution result = join({a, b});
  auto isComplete = [](const Distribution &d) {
    return d.isZero ? Axes(0) : ~d.partial;
  };
  blame(result, Fault::Mixed, a.getPartial() & isComplete(b), a, b);
  blame(result, Fault::Mixed, b.getPartial() & isComplete(a), b, a);
  return result;
}

Distribution Distribution::multiply(const Distribution &a,
                                    const Distribution &b) {
  Distribution result = join({a, b});
  result.isZero = a.isZero || b.isZero;
  blame(result, Fault::NotLinear, a.getPartial() & b.getPartial(), a, b);
  blame(result, Fault::Mixed, a.getPartial() & b.getShard(), a, b);
  blame(result, Fault::Mixed, b.getPartial() & a.getShard(), b, a);
  return result;
}

Distribution Distribution::apply(ArrayRef<Distribution> operands) {
  Distribution result = join(operands);
  result.isZero = false;
  for (const Distribution &operand : operands)
    blame(result, Fault::NotLinear, operand.getPartial(), operand, {});
  return result;
}

Distribution Distribution::reduce() const {
  Distribution result = *this;
  Axes parts = getShard();
  result.shard &= ~parts;
  result.partial |= parts;
  return result;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {
class KernelWalk {
public:
  SmallVector<Distribution> run(func::FuncOp kernel,
                                ArrayRef<Distribution> inputs,
                                ArrayRef<int64_t> tied);

private:
  Distribution get(Value value) const { return values.lookup(value); }
  void visit(Operation &op);
  void visitLinalg(linalg::LinalgOp op);
  Distribution visitElementwise(Operation &op);
  Distribution getYielded(linalg::LinalgOp op, OpOperand &yielded);
  Distribution getUnknown(Operation &op);

  llvm::DenseMap<Value, Distribution> values;
};
} // namespace

static bool isZeroConstant(Operation &op) {
  return matchPattern(&op, m_AnyZeroFloat()) || matchPattern(&op, m_Zero());
}

/// Ops that give elements other places, or make them of others' as they are.
static bool isCopy(Operation &op) {
  return isView(&op) ||
         isa<tensor::CastOp, tensor::ExtractOp, tensor::ExtractSliceOp,
             tensor::FromElementsOp, tensor::SplatOp>(op);
}

Distribution KernelWalk::visitElementwise(Operation &op) {
  SmallVector<Distribution, 3> operands;
  for (Value operand : op.getOperands())
    operands.push_back(get(operand));
  return llvm::TypeSwitch<Operation *, Distribution>(&op)
      .Case<arith::AddFOp, arith::AddIOp, arith::SubFOp, arith::SubIOp>(
          [&](auto) { return Distribution::add(operands[0], operands[1]); })
      .Case<arith::MulFOp, arith::MulIOp>([&](auto) {
        return Distribution::multiply(operands[0], operands[1]);
      })
      .Case<arith::DivFOp>([&](auto) {
        return Distribution::multiply(operands[0],
                                      Distribution::apply(operands[1]));
      })
      .Case<math::FmaOp>([&](auto) {
        return Distribution::add(
            Distribution::multiply(operands[0], operands[1]), operands[2]);
      })
      .Case<arith::SelectOp>([&](auto) {
        Distribution condition = Distribution::apply(operands[0]);
        return Distribution::join(
            {condition, Distribution::add(operands[1], operands[2])});
      })
      .Case<arith::NegFOp, arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return Distribution::join(operands); })
      .Default([&](auto) { return Distribution::apply(operands); });
}

/// Of everything that @op reads, also in its regions.
Distribution KernelWalk::getUnknown(Operation &op) {
  SmallVector<Distribution> operands;
  op.walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (!op.isAncestor(operand.getParentBlock()->getParentOp()))
        operands.push_back(get(operand));
  });
  return Distribution::getUnknown(operands);
}

/// Where the body adds something to what a reduction has so far, that is summed
/// over the dimension first.
Distribution KernelWalk::getYielded(linalg::LinalgOp op, OpOperand &yielded) {
  BlockArgument sum = op.getRegionOutputArgs()[yielded.getOperandNumber()];
  if (op.getNumReductionLoops() == 0)
    return get(yielded.get());
  Operation *def = yielded.get().getDefiningOp();
  if (isa_and_nonnull<arith::AddFOp, arith::AddIOp>(def))
    for (unsigned i : {0, 1})
      if (def->getOperand(i) == sum)
        return Distribution::add(get(sum),
                                 get(def->getOperand(1 - i)).reduce());
  return Distribution::getUnknown(get(yielded.get()));
}

void KernelWalk::visitLinalg(linalg::LinalgOp op) {
  Block &body = *op.getBlock();
  for (BlockArgument arg : body.getArguments())
    values[arg] = get(op.getMatchingOpOperand(arg)->get());
  for (Operation &inner : body.without_terminator())
    visit(inner);
  for (OpOperand &yielded : body.getTerminator()->getOpOperands()) {
    unsigned i = yielded.getOperandNumber();
    if (i < op->getNumResults())
      values[op->getResult(i)] = getYielded(op, yielded);
  }
}

void KernelWalk::visit(Operation &op) {
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return visitLinalg(structured);
  Distribution result;
  if (auto copy = dyn_cast<bufferization::MaterializeInDestinationOp>(op)) {
    result = get(copy.getSource());
  } else if (isCopy(op)) {
    SmallVector<Distribution, 3> operands;
    for (Value operand : op.getOperands())
      operands.push_back(get(operand));
    result = Distribution::join(operands);
  } else if (op.hasTrait<OpTrait::Elementwise>()) {
    result = visitElementwise(op);
  } else if (op.hasTrait<OpTrait::ConstantLike>()) {
    result.isZero = isZeroConstant(op);
  } else {
    result = getUnknown(op);
  }
  for (Value value : op.getResults())
    values[value] = result;
}

SmallVector<Distribution> KernelWalk::run(func::FuncOp kernel,
                                          ArrayRef<Distribution> inputs,
                                          ArrayRef<int64_t> tied) {
  SmallVector<Distribution> known;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    known.push_back(input);
    known.back().fault.reset();
    known.back().inputs = llvm::SmallBitVector(inputs.size());
    known.back().inputs.set(i);
  }
  // Nobody reads what is not tied, unless the kernel does not say what it does.
  Distribution unknown = Distribution::getUnknown(known);
  SmallVector<Distribution> results(kernel.getNumResults(), unknown);
  if (kernel.isDeclaration() || !kernel.getBody().hasOneBlock())
    return results;
  for (BlockArgument arg : kernel.getArguments()) {
    size_t i = arg.getArgNumber();
    int64_t source = i < inputs.size() ? int64_t(i)
                     : tied.empty()    ? -1
                                       : tied[i - inputs.size()];
    values[arg] = source < 0 ? unknown : known[source];
  }
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator())
    visit(op);
  for (OpOperand &result : body.getTerminator()->getOpOperands())
    results[result.getOperandNumber()] = get(result.get());
  return results;
}

SmallVector<Distribution> fsdp::distribute(func::FuncOp kernel,
                                           ArrayRef<Distribution> inputs,
                                           ArrayRef<int64_t> tied) {
  return KernelWalk().run(kernel, inputs, tied);
}
