//===- FuseAttention.cpp - Attention becomes one op -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Attention/Attention.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_FUSEATTENTION
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static constexpr llvm::StringLiteral kCategory = "fsdp-fuse-attention";

namespace {

/// Writes expressions of points into the bodies of the ops.
class BodyBuilder {
public:
  BodyBuilder(const AttentionMatch &match, ArrayRef<int> captured,
              OpBuilder &builder, Location loc)
      : points(*match.points), captured(captured), builder(builder), loc(loc) {}

  /// A body that yields the product of `roots`; `known` nodes are its first
  /// arguments.
  void build(Region &region, ArrayRef<int> roots, ArrayRef<int> known);

private:
  Value get(int node);
  Value getIndex(ArrayRef<IndexSpace::Atom> atoms);

  const PointExpressions &points;
  ArrayRef<int> captured;
  OpBuilder &builder;
  Location loc;
  llvm::DenseMap<int, Value> values;
  /// Of each atom of the batch, the query and the key.
  llvm::DenseMap<IndexSpace::Atom, Value> indices;
};

} // namespace

Value BodyBuilder::getIndex(ArrayRef<IndexSpace::Atom> atoms) {
  Value index;
  for (IndexSpace::Atom atom : points.space.resolve(atoms)) {
    Value part = indices.lookup(atom);
    if (index) {
      Value size = arith::ConstantIndexOp::create(builder, loc,
                                                  points.space.getSize(atom));
      index = arith::MulIOp::create(builder, loc, index, size);
      part = arith::AddIOp::create(builder, loc, index, part);
    }
    index = part;
  }
  if (!index)
    index = arith::ConstantIndexOp::create(builder, loc, 0);
  return index;
}

Value BodyBuilder::get(int node) {
  if (Value value = values.lookup(node))
    return value;
  const PointNode &at = points[node];
  Value value;
  if (at.kind == PointNode::Kind::Constant) {
    value = arith::ConstantOp::create(builder, loc, at.constant);
  } else if (at.kind == PointNode::Kind::Index) {
    value = getIndex(at.index);
  } else {
    assert(at.kind == PointNode::Kind::Op && "other nodes are arguments");
    SmallVector<Value> operands;
    for (int operand : at.operands)
      operands.push_back(get(operand));
    Operation *copy = builder.clone(*at.op);
    copy->setOperands(operands);
    copy->setLoc(loc);
    value = copy->getResult(0);
  }
  values[node] = value;
  return value;
}

void BodyBuilder::build(Region &region, ArrayRef<int> roots,
                        ArrayRef<int> known) {
  OpBuilder::InsertionGuard guard(builder);
  values.clear();
  indices.clear();
  Block *block = builder.createBlock(&region);
  Type f32 = builder.getF32Type();
  SmallVector<std::pair<int, Value>> scores;
  for (int node : known)
    scores.push_back({node, block->addArgument(f32, loc)});
  auto addIndex = [&](IndexSpace::Atom atom) {
    indices[atom] = block->addArgument(builder.getIndexType(), loc);
  };
  for (IndexSpace::Atom atom : points.space.resolve(points.batch))
    addIndex(atom);
  for (const IndexSpace::AtomList *list : {&points.query, &points.key}) {
    IndexSpace::AtomList resolved = points.space.resolve(*list);
    if (resolved.empty())
      block->addArgument(builder.getIndexType(), loc);
    else
      addIndex(resolved.front());
  }
  for (int node : captured) {
    auto type = cast<RankedTensorType>(points[node].value.getType());
    values[node] = block->addArgument(type.getElementType(), loc);
  }
  // What the trace computes in a narrower type is rounded to it.
  for (auto [node, arg] : scores) {
    Type type = points[node].kind == PointNode::Kind::Product
                    ? cast<RankedTensorType>(points[node].value.getType())
                          .getElementType()
                    : points[node].op->getResult(0).getType();
    values[node] =
        type == f32
            ? arg
            : arith::TruncFOp::create(builder, loc, type, arg).getResult();
  }
  Value result;
  for (int root : roots) {
    Value value = get(root);
    if (value.getType() != f32)
      value = arith::ExtFOp::create(builder, loc, f32, value);
    result =
        result ? arith::MulFOp::create(builder, loc, result, value).getResult()
               : value;
  }
  YieldOp::create(builder, loc, result);
}

namespace {
struct FuseAttention : fsdp::impl::FuseAttentionBase<FuseAttention> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    replaced.clear();
    AttentionMatches found = findAttentions(step.getBody().front());
    for (const AttentionRefusal &refusal : found.refusals)
      remark::missed(
          refusal.op->getLoc(),
          remark::RemarkOpts::name("Fused").category(kCategory).function(
              step.getSymName()))
          << remark::reason("{0}", refusal.reason);
    if (found.matches.empty())
      return markAllAnalysesPreserved();
    for (const AttentionMatch &match : found.matches)
      fuse(match);
    eraseDead(step);
  }

private:
  StridedAttr getView(const AttentionTensor &tensor) {
    return StridedAttr::get(
        &getContext(), tensor.offset,
        DenseI64ArrayAttr::get(&getContext(), tensor.strides));
  }

  void fuse(const AttentionMatch &match) {
    const AttentionForward &forward = match.forward;
    // What it returns may be laid out for the module that reads it.
    Location loc = (*match.points)[forward.product].value.getLoc();
    OpBuilder builder(forward.place);
    auto shape = AttentionShapeAttr::get(
        &getContext(), builder.getDenseI64ArrayAttr(match.batch), match.queries,
        match.keys, match.head, match.value);
    auto stats =
        RankedTensorType::get({2 * shape.getRows()}, builder.getF32Type());
    SmallVector<Value> tensors, forwardTensors;
    SmallVector<Attribute> views, forwardViews;
    SmallVector<int> forwardNodes;
    for (auto [node, tensor] :
         llvm::zip(forward.allCaptured, forward.capturedTensors)) {
      tensors.push_back(current(tensor));
      views.push_back(getView(tensor));
      if (!llvm::is_contained(forward.captured, node))
        continue;
      forwardNodes.push_back(node);
      forwardTensors.push_back(current(tensor));
      forwardViews.push_back(views.back());
    }
    auto attention = AttentionOp::create(
        builder, loc, forward.out.tensor.getType(), stats, shape,
        current(forward.q), getView(forward.q), current(forward.k),
        getView(forward.k), current(forward.v), getView(forward.v),
        forwardTensors, builder.getArrayAttr(forwardViews),
        builder.getF64FloatAttr(forward.scale),
        getUnit(builder, forward.causal), getUnit(builder, forward.zeroMasked),
        getView(forward.out));
    BodyBuilder(match, forwardNodes, builder, loc)
        .build(attention.getScore(), forward.score, {forward.product});
    if (!forward.factors.empty())
      BodyBuilder(match, forwardNodes, builder, loc)
          .build(attention.getFactor(), forward.factors, {});
    replace(forward.out.tensor, attention.getOut());
    if (!match.backward)
      return report(loc, "forward");

    const AttentionBackward &backward = *match.backward;
    builder.setInsertionPoint(backward.place);
    auto getType = [](const std::optional<AttentionGradient> &gradient) {
      return gradient ? gradient->result.tensor.getType() : Type();
    };
    auto getGradientView = [&](const std::optional<AttentionGradient> &g) {
      return g ? getView(g->result) : StridedAttr();
    };
    auto getScale = [&](const std::optional<AttentionGradient> &g) {
      return builder.getF64FloatAttr(g ? g->scale : 1.0);
    };
    auto gradients = AttentionBackwardOp::create(
        builder, loc, getType(backward.dq), getType(backward.dk),
        getType(backward.dv), shape, current(forward.q), getView(forward.q),
        current(forward.k), getView(forward.k), current(forward.v),
        getView(forward.v), attention.getOut(), getView(forward.out),
        current(backward.dout), getView(backward.dout), attention.getStats(),
        tensors, builder.getArrayAttr(views),
        builder.getF64FloatAttr(forward.scale),
        getUnit(builder, forward.causal), getGradientView(backward.dq),
        getScale(backward.dq), getGradientView(backward.dk),
        getScale(backward.dk), getGradientView(backward.dv));
    BodyBuilder(match, forward.allCaptured, builder, loc)
        .build(gradients.getScore(), forward.score, {forward.product});
    BodyBuilder(match, forward.allCaptured, builder, loc)
        .build(gradients.getGradient(), backward.gradient,
               {backward.softmaxGradient, forward.product});
    if (!forward.factors.empty())
      BodyBuilder(match, forward.allCaptured, builder, loc)
          .build(gradients.getFactor(), forward.factors, {});
    if (backward.dq)
      replace(backward.dq->result.tensor, gradients.getDq());
    if (backward.dk)
      replace(backward.dk->result.tensor, gradients.getDk());
    if (backward.dv)
      replace(backward.dv->result.tensor, gradients.getDv());
    report(loc, "forward and backward");
  }

  /// Another attention may read what one has just replaced.
  Value current(const AttentionTensor &tensor) {
    Value value = tensor.tensor;
    while (Value next = replaced.lookup(value))
      value = next;
    return value;
  }
  void replace(Value old, Value with) {
    old.replaceAllUsesWith(with);
    replaced[old] = with;
  }

  UnitAttr getUnit(OpBuilder &builder, bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  }

  void report(Location loc, StringRef what) {
    remark::passed(loc, remark::RemarkOpts::name("Fused").category(kCategory))
        << what;
  }

  void eraseDead(ProgramOp step) {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(step.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  llvm::DenseMap<Value, Value> replaced;
};
} // namespace
