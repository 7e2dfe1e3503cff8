//===- KernelCosts.cpp - What a kernel function does ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/KernelCosts.h"
#include "fsdp/Analysis/Code/LaunchCosts.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

std::optional<CostDtype> fsdp::getCostDtype(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  if (!element)
    return std::nullopt;
  if (element.isF64())
    return CostDtype::F64;
  if (element.isBF16())
    return CostDtype::BF16;
  if (element.isF16())
    return CostDtype::F16;
  if (element.getWidth() <= 8)
    return CostDtype::F8;
  return CostDtype::F32;
}

/// Of sizes: what does not fit is the most that does.
static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? INT64_MAX : product;
}

/// How often @op runs in one call: the loops around it, and for what stands in
/// the body of a linalg op that op's iterations.
static int64_t getExecutions(Operation *op) {
  int64_t times = 1;
  for (Operation *parent = op->getParentOp(); !isa<func::FuncOp>(parent);
       parent = parent->getParentOp()) {
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(parent)) {
      for (int64_t range : linalgOp.getStaticLoopRanges())
        times = multiply(times, ShapedType::isDynamic(range) ? 1 : range);
    } else if (auto generate = dyn_cast<tensor::GenerateOp>(parent)) {
      times = multiply(times, generate.getType().hasStaticShape()
                                  ? generate.getType().getNumElements()
                                  : 1);
    } else if (auto loop = dyn_cast<LoopLikeOpInterface>(parent)) {
      if (std::optional<APInt> count = loop.getStaticTripCount())
        times = multiply(times, count->getSExtValue());
    }
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// In simple operations. A processor's peak counts additions and
/// multiplications; what has special or iterative units runs at a fraction of
/// it: on GPUs 16 special-function lanes stand beside 128 for arithmetic, and
/// vector units of CPUs start a division or root about every eighth cycle. What
/// is made of several such steps (a power is a logarithm and an exponential)
/// counts as several.
static int64_t getFlops(Operation &op) {
  // Ten rounds, which vectors compute for each of a block's words.
  if (isa<RandomWordOp>(op))
    return 40;
  if (op.getNumResults() != 1)
    return 0;
  bool compares = isa<arith::CmpFOp>(op);
  Type type = compares ? op.getOperand(0).getType() : op.getResult(0).getType();
  if (!isa<FloatType>(type))
    return 0;
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp,
          arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
          arith::MinNumFOp, arith::CmpFOp, math::AbsFOp, math::CopySignOp,
          math::FloorOp, math::CeilOp, math::RoundOp, math::RoundEvenOp,
          math::TruncOp>(op))
    return 1;
  if (isa<math::FmaOp>(op))
    return 2;
  if (isa<arith::DivFOp, arith::RemFOp, math::SqrtOp, math::RsqrtOp,
          math::CbrtOp, math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op,
          math::Log10Op>(op))
    return 8;
  return isa<math::MathDialect>(op.getDialect()) ? 16 : 0;
}

namespace {
struct Product {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  int64_t getSize() const {
    return multiply(multiply(m, n), multiply(k, batch));
  }
};
} // namespace

static int64_t getProduct(linalg::LinalgOp op, ArrayRef<unsigned> dims) {
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  int64_t product = 1;
  for (unsigned dim : dims)
    product = multiply(product, ranges[dim]);
  return product;
}

/// @op as one batched product; nothing where it is none.
static std::optional<Product> getProduct(linalg::LinalgOp op) {
  if (op.getNumReductionLoops() == 0 || op.getNumDpsInputs() != 2 ||
      op.hasDynamicShape())
    return std::nullopt;
  Product product;
  if (linalg::isaContractionOpInterface(op)) {
    FailureOr<linalg::ContractionDimensions> dims =
        linalg::inferContractionDims(op);
    if (failed(dims))
      return std::nullopt;
    product.m = getProduct(op, dims->m);
    product.n = getProduct(op, dims->n);
    product.k = getProduct(op, dims->k);
    product.batch = getProduct(op, dims->batch);
    return product;
  }
  if (!linalg::isaConvolutionOpInterface(op))
    return std::nullopt;
  FailureOr<linalg::ConvolutionDimensions> dims =
      linalg::inferConvolutionDims(op);
  if (failed(dims) || dims->outputChannel.empty())
    return std::nullopt;
  product.m =
      multiply(getProduct(op, dims->batch), getProduct(op, dims->outputImage));
  product.n = getProduct(op, dims->outputChannel);
  product.k = multiply(getProduct(op, dims->filterLoop),
                       getProduct(op, dims->inputChannel));
  product.batch = getProduct(op, dims->depth);
  return product;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {
/// Bytes of one argument that a kernel reads, or of one result that it writes.
/// Sums may count an element twice; the caller caps them at the whole.
struct Traffic {
  int64_t read(Value value);
  int64_t written(Value value);

private:
  int64_t readBy(OpOperand &use);
  static int64_t getElementBytes(int64_t whole, Type type) {
    return whole /
           std::max<int64_t>(1, cast<ShapedType>(type).getNumElements());
  }
};
} // namespace

int64_t Traffic::read(Value value) {
  int64_t sum = 0;
  for (OpOperand &use : value.getUses()) {
    sum += readBy(use);
    sum = std::min(sum, getTensorBytes(value.getType()));
  }
  return sum;
}

int64_t Traffic::readBy(OpOperand &use) {
  Operation *user = use.getOwner();
  Value value = use.get();
  int64_t whole = getTensorBytes(value.getType());
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(user))
    return read(user->getResult(0));
  // A slice is an address; what reads it counts, once for each time it is
  // made.
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
      slice && slice.getType().hasStaticShape())
    return multiply(read(slice.getResult()), getExecutions(user));
  if (isa<tensor::ExtractOp>(user))
    return multiply(getElementBytes(whole, value.getType()),
                    getExecutions(user));
  // Written into: what is there already is kept, not read.
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(user);
      insert && use == insert.getDestMutable())
    return read(insert.getResult());
  if (isa<tensor::InsertOp>(user) && use.getOperandNumber() == 1)
    return read(user->getResult(0));
  if (auto store = dyn_cast<bufferization::MaterializeInDestinationOp>(user))
    return use == store.getDestMutable() ? 0 : whole;
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(user)) {
    if (!linalgOp.payloadUsesValueFromOperand(&use))
      return 0;
    // A slice that is made in a loop is another one each time, and is counted
    // with it; what comes from outside of the loop stays in the cache at best.
    return whole;
  }
  if (auto loop = dyn_cast<LoopLikeOpInterface>(user))
    if (BlockArgument arg = loop.getTiedLoopRegionIterArg(&use)) {
      // The body's value is the loop's: results are read behind it.
      int64_t after = 0;
      if (OpResult result = loop.getTiedLoopResult(&use))
        after = read(result);
      return read(arg) + after;
    }
  if (user->hasTrait<OpTrait::IsTerminator>())
    return 0;
  return whole;
}

int64_t Traffic::written(Value value) {
  int64_t whole = getTensorBytes(value.getType());
  Operation *op = value.getDefiningOp();
  if (!op)
    // A destination that is handed on as it is, or a loop's own value.
    return 0;
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op))
    return written(op->getOperand(0));
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op);
      insert && insert.getSourceType().hasStaticShape())
    return std::min(whole, multiply(getTensorBytes(insert.getSourceType()),
                                    getExecutions(op)) +
                               written(insert.getDest()));
  if (auto insert = dyn_cast<tensor::InsertOp>(op))
    return std::min(whole, multiply(getElementBytes(whole, insert.getType()),
                                    getExecutions(op)) +
                               written(insert.getDest()));
  if (auto loop = dyn_cast<LoopLikeOpInterface>(op))
    if (OpOperand *init = loop.getTiedLoopInit(cast<OpResult>(value)))
      if (OpOperand *yielded =
              loop.getTiedLoopYieldedValue(loop.getTiedLoopRegionIterArg(init)))
        return std::min(whole, written(init->get()) + written(yielded->get()));
  return whole;
}

/// Bytes that a call reads and writes.
static int64_t getBytes(func::FuncOp kernel) {
  Traffic traffic;
  int64_t bytes = 0;
  for (BlockArgument arg : kernel.getArguments())
    if (isa<RankedTensorType>(arg.getType()))
      bytes += traffic.read(arg);
  for (Value result : kernel.getBody().front().getTerminator()->getOperands())
    if (isa<RankedTensorType>(result.getType()))
      bytes += traffic.written(result);
  return bytes;
}

/// Attention in the type of its queries: that is what matrix units multiply,
/// whatever the sums are kept in.
template <typename Op>
static KernelCost getAttentionCost(Op op) {
  AttentionShapeAttr shape = op.getShape();
  int64_t heads = 1, keyHeads = 1;
  for (auto [size, stride] : llvm::zip(shape.getBatch().asArrayRef(),
                                       op.getKView().getBatchStrides())) {
    heads = multiply(heads, size);
    if (stride != 0)
      keyHeads = multiply(keyHeads, size);
  }
  CostDtype dtype = getCostDtype(op.getQ().getType()).value_or(CostDtype::F32);
  return makeAttention(std::is_same_v<Op, AttentionBackwardOp>, dtype,
                       /*batch=*/1, heads, keyHeads, shape.getQueries(),
                       shape.getKeys(), shape.getHead(), op.getCausal());
}

KernelCost fsdp::getKernelCost(func::FuncOp kernel) {
  for (Operation &op : kernel.getBody().front()) {
    std::optional<KernelCost> attention;
    if (auto forward = dyn_cast<AttentionOp>(op))
      attention = getAttentionCost(forward);
    else if (auto backward = dyn_cast<AttentionBackwardOp>(op))
      attention = getAttentionCost(backward);
    if (!attention)
      continue;
    attention->name = kernel.getSymName().str();
    attention->bytes = getBytes(kernel);
    attention->launches = getLaunchCosts(kernel);
    return *attention;
  }
  KernelCost cost;
  cost.name = kernel.getSymName().str();
  cost.kind = KernelKind::Copy;
  int64_t largest = 0;
  kernel.walk([&](linalg::LinalgOp op) {
    std::optional<Product> product = getProduct(op);
    std::optional<CostDtype> dtype = getCostDtype(op->getOperand(0).getType());
    int64_t size =
        product && dtype ? multiply(product->getSize(), getExecutions(op)) : 0;
    if (size <= largest)
      return;
    largest = size;
    cost.kind = KernelKind::Matmul;
    cost.dtype = *dtype;
    cost.m = product->m;
    cost.n = product->n;
    cost.k = product->k;
    cost.batch = product->batch;
  });
  kernel.walk([&](Operation *op) {
    int64_t flops = getFlops(*op);
    if (!flops)
      return;
    // A product's arithmetic is done in the type of its operands: widening
    // inside the body is the accumulator's.
    Value typed = isa<arith::CmpFOp>(op) ? op->getOperand(0) : op->getResult(0);
    std::optional<CostDtype> dtype = getCostDtype(typed.getType());
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op->getParentOp());
        linalgOp && getProduct(linalgOp))
      dtype = getCostDtype(linalgOp->getOperand(0).getType());
    if (!dtype)
      return;
    cost.flops[unsigned(*dtype)] += multiply(flops, getExecutions(op));
    if (cost.kind == KernelKind::Copy)
      cost.kind = KernelKind::Vector;
  });
  cost.bytes = getBytes(kernel);
  cost.launches = getLaunchCosts(kernel);
  return cost;
}
