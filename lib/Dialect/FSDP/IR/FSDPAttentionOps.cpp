//===- FSDPAttentionOps.cpp - Attention as one op -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

int64_t AttentionShapeAttr::getBatchSize() const {
  int64_t size = 1;
  for (int64_t extent : getBatch().asArrayRef())
    size *= extent;
  return size;
}

// attention_c1, attention_backward_c1
static LogicalResult verifyShape(Operation *op, AttentionShapeAttr shape) {
  ArrayRef<int64_t> batch = shape.getBatch();
  if (batch.size() > 4)
    return op->emitOpError("expected at most 4 batch dimensions, got ")
           << batch.size();
  for (int64_t extent : batch)
    if (extent < 1)
      return op->emitOpError("expected batch dimensions of at least 1, got ")
             << extent;
  if (shape.getKeys() < 2)
    return op->emitOpError("expected at least 2 keys, got ") << shape.getKeys();
  for (int64_t size : {shape.getQueries(), shape.getHead(), shape.getValue()})
    if (size < 1)
      return op->emitOpError("expected sizes of at least 1, got ") << size;
  return success();
}

namespace {
/// What a view is of: the sizes of its dimensions behind the batch.
struct Viewed {
  StringRef name;
  StridedAttr view;
  RankedTensorType type;
  int64_t rows, columns;
};
} // namespace

// attention_c2, attention_backward_c2
static LogicalResult verifyView(Operation *op, AttentionShapeAttr shape,
                                const Viewed &viewed) {
  SmallVector<int64_t> sizes(shape.getBatch().asArrayRef());
  sizes.append({viewed.rows, viewed.columns});
  ArrayRef<int64_t> strides = viewed.view.getStrides();
  if (strides.size() != sizes.size())
    return op->emitOpError("expected ")
           << sizes.size() << " strides of " << viewed.name << ", got "
           << strides.size();
  int64_t last = viewed.view.getOffset();
  if (last < 0)
    return op->emitOpError("expected ")
           << viewed.name << " to begin at 0 or behind, got " << last;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    int64_t reach;
    if (stride < 0)
      return op->emitOpError("expected strides of ")
             << viewed.name << " of at least 0, got " << stride;
    if (llvm::MulOverflow(size - 1, stride, reach) ||
        llvm::AddOverflow(last, reach, last))
      return op->emitOpError("expected ") << viewed.name << " to end";
  }
  if (last >= viewed.type.getNumElements())
    return op->emitOpError("expected ")
           << viewed.name << " inside the " << viewed.type.getNumElements()
           << " elements of its tensor, got element " << last;
  return success();
}

/// Whether a view with these sizes reaches every element of its tensor once;
/// strides of 0 repeat it as a whole. (attention_c3, attention_backward_c3)
static LogicalResult verifyWritten(Operation *op, AttentionShapeAttr shape,
                                   const Viewed &viewed, bool mayRepeat) {
  SmallVector<int64_t> sizes(shape.getBatch().asArrayRef());
  sizes.append({viewed.rows, viewed.columns});
  SmallVector<std::pair<int64_t, int64_t>> dims;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    int64_t stride = viewed.view.getStrides()[i];
    if (size == 1)
      continue;
    if (stride == 0 && mayRepeat && i + 2 < sizes.size())
      continue;
    dims.push_back({stride, size});
  }
  llvm::sort(dims);
  int64_t covered = 1;
  for (auto [stride, size] : dims) {
    if (stride != covered)
      covered = -1;
    if (covered < 0)
      break;
    covered *= size;
  }
  if (covered != viewed.type.getNumElements() || viewed.view.getOffset() != 0)
    return op->emitOpError("expected ")
           << viewed.name << " to write each of the "
           << viewed.type.getNumElements() << " elements of its tensor once";
  return success();
}

// attention_c5, attention_backward_c5
static LogicalResult verifyBody(Operation *op, AttentionShapeAttr shape,
                                OperandRange captured, Region &body,
                                unsigned scores) {
  if (body.empty())
    return success();
  Builder builder(op->getContext());
  SmallVector<Type> expected(scores, builder.getF32Type());
  expected.append(shape.getBatch().size() + 2, builder.getIndexType());
  for (Value value : captured)
    expected.push_back(
        cast<RankedTensorType>(value.getType()).getElementType());
  if (!llvm::equal(expected, body.getArgumentTypes()))
    return op->emitOpError("expected a body with arguments (")
           << TypeRange(expected) << "), got ("
           << TypeRange(body.getArgumentTypes()) << ")";
  auto yield = dyn_cast<YieldOp>(body.front().getTerminator());
  if (!yield || yield.getNumOperands() != 1 ||
      !yield.getOperand(0).getType().isF32())
    return op->emitOpError("expected a body that yields one f32");
  return success();
}

template <typename Op>
static LogicalResult verifyInputs(Op op) {
  AttentionShapeAttr shape = op.getShape();
  if (failed(verifyShape(op, shape)))
    return failure();
  auto typeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType());
  };
  SmallVector<Viewed> views{
      {"q", op.getQView(), typeOf(op.getQ()), shape.getQueries(),
       shape.getHead()},
      {"k", op.getKView(), typeOf(op.getK()), shape.getKeys(), shape.getHead()},
      {"v", op.getVView(), typeOf(op.getV()), shape.getKeys(),
       shape.getValue()},
      {"out", op.getOutView(), typeOf(op.getOut()), shape.getQueries(),
       shape.getValue()}};
  // attention_c6, attention_backward_c6
  if (op.getCaptured().size() != op.getCapturedViews().size())
    return op.emitOpError("expected ")
           << op.getCaptured().size() << " captured views, got "
           << op.getCapturedViews().size();
  for (auto [value, view] : llvm::zip(op.getCaptured(), op.getCapturedViews()))
    views.push_back({"a captured tensor", cast<StridedAttr>(view),
                     typeOf(value), shape.getQueries(), shape.getKeys()});
  for (const Viewed &viewed : views)
    if (failed(verifyView(op, shape, viewed)))
      return failure();
  // attention_c4, attention_backward_c4
  if (typeOf(op.getStats()).getNumElements() != 2 * shape.getRows())
    return op.emitOpError("expected statistics of ")
           << 2 * shape.getRows() << " elements, got "
           << typeOf(op.getStats()).getNumElements();
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyInputs(*this)))
    return failure();
  AttentionShapeAttr shape = getShape();
  return verifyWritten(*this, shape,
                       {"out", getOutView(),
                        cast<RankedTensorType>(getOut().getType()),
                        shape.getQueries(), shape.getValue()},
                       /*mayRepeat=*/false);
}

LogicalResult AttentionOp::verifyRegions() {
  if (failed(verifyBody(*this, getShape(), getCaptured(), getScore(), 1)))
    return failure();
  return verifyBody(*this, getShape(), getCaptured(), getFactor(), 0);
}

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyInputs(*this)))
    return failure();
  AttentionShapeAttr shape = getShape();
  if (failed(verifyView(*this, shape,
                        {"dout", getDoutView(),
                         cast<RankedTensorType>(getDout().getType()),
                         shape.getQueries(), shape.getValue()})))
    return failure();
  struct Gradient {
    Value value;
    StridedAttr view;
    StringRef name;
    int64_t rows, columns;
    bool mayRepeat;
  };
  Gradient gradients[] = {
      {getDq(), getDqViewAttr(), "dq", shape.getQueries(), shape.getHead(),
       false},
      {getDk(), getDkViewAttr(), "dk", shape.getKeys(), shape.getHead(), true},
      {getDv(), getDvViewAttr(), "dv", shape.getKeys(), shape.getValue(),
       true}};
  for (const Gradient &gradient : gradients) {
    // attention_backward_c6
    if (bool(gradient.value) != bool(gradient.view))
      return emitOpError("expected a view of ")
             << gradient.name << " where it is computed";
    if (!gradient.value)
      continue;
    Viewed viewed{gradient.name, gradient.view,
                  cast<RankedTensorType>(gradient.value.getType()),
                  gradient.rows, gradient.columns};
    if (failed(verifyView(*this, shape, viewed)) ||
        failed(verifyWritten(*this, shape, viewed, gradient.mayRepeat)))
      return failure();
  }
  // attention_backward_c3
  if (!getDk() || !getDv())
    return success();
  for (auto [i, size] : llvm::enumerate(shape.getBatch().asArrayRef()))
    if (size > 1 && (getDkView()->getStrides()[i] == 0) !=
                        (getDvView()->getStrides()[i] == 0))
      return emitOpError("expected dk and dv to sum over the same dimensions, "
                         "got batch dimension #")
             << i << " in one of them";
  return success();
}

LogicalResult AttentionBackwardOp::verifyRegions() {
  if (failed(verifyBody(*this, getShape(), getCaptured(), getScore(), 1)))
    return failure();
  if (failed(verifyBody(*this, getShape(), getCaptured(), getGradient(), 2)))
    return failure();
  return verifyBody(*this, getShape(), getCaptured(), getFactor(), 0);
}
