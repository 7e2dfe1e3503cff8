//===- FSDPCollectiveOps.cpp - L2: collectives ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verification.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// ReductionAttr
//===----------------------------------------------------------------------===//

LogicalResult
ReductionAttr::verify(function_ref<InFlightDiagnostic()> emitError, Adder,
                      int64_t ranksPerNode) {
  // reduction_c1
  if (ranksPerNode < 0)
    return emitError() << "expected at least 0 ranks per node in a reduction, "
                          "got "
                       << ranksPerNode;
  return success();
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// The mesh, once the axes have been checked against it.
static FailureOr<MeshOp> verifyGroup(CollectiveOpInterface op,
                                     SymbolTableCollection &symbolTable) {
  // all_gather_c1, reduce_scatter_c1, all_reduce_c1, all_to_all_c1
  FailureOr<MeshOp> mesh = lookupMesh(op, op.getMeshAttr(), symbolTable);
  // all_gather_c2, reduce_scatter_c2, all_reduce_c2, all_to_all_c2
  if (failed(mesh) || failed(verifyAxes(op, *mesh, op.getAxesAttr())))
    return failure();
  return mesh;
}

/// `whole` is as many times `part`, along the first dimension, as the group of
/// `axes` has ranks.
static LogicalResult verifyParts(Operation *op, RankedTensorType part,
                                 RankedTensorType whole, MeshOp mesh,
                                 ArrayAttr axes, StringRef wholeName) {
  int64_t ranks = mesh.getGroupSize(axes);
  SmallVector<int64_t> shape(part.getShape());
  if (shape.empty())
    return op->emitOpError("expected tensors with a first dimension, got ")
           << part;
  if (llvm::MulOverflow(shape[0], ranks, shape[0]))
    return op->emitOpError("expected ")
           << wholeName << " of fewer than 2^63 elements, got " << ranks
           << " times " << part;
  RankedTensorType expected =
      RankedTensorType::get(shape, part.getElementType());
  if (whole == expected)
    return success();
  InFlightDiagnostic diag = op->emitOpError("expected ")
                            << wholeName << " of " << expected << " on "
                            << ranks << " ranks, got " << whole;
  diag.attachNote(mesh.getLoc()) << "the mesh is here: " << mesh.getAxes();
  return diag;
}

LogicalResult
AllGatherOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  FailureOr<MeshOp> mesh = verifyGroup(*this, symbolTable);
  if (failed(mesh))
    return failure();
  // all_gather_c3
  return verifyParts(*this, getInput().getType(), getResult().getType(), *mesh,
                     getAxes(), "a result");
}

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  FailureOr<MeshOp> mesh = verifyGroup(*this, symbolTable);
  if (failed(mesh))
    return failure();
  // reduce_scatter_c3
  return verifyParts(*this, getResult().getType(), getInput().getType(), *mesh,
                     getAxes(), "an input");
}

LogicalResult
AllReduceOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return verifyGroup(*this, symbolTable);
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  FailureOr<MeshOp> mesh = verifyGroup(*this, symbolTable);
  if (failed(mesh))
    return failure();
  // all_to_all_c4
  RankedTensorType type = getInput().getType();
  int64_t ranks = mesh->getGroupSize(getAxes());
  if (type.getRank() > 0 && type.getDimSize(0) % ranks == 0)
    return success();
  InFlightDiagnostic diag =
      emitOpError("expected a first dimension that is a multiple of ")
      << ranks << " ranks, got " << type;
  diag.attachNote(mesh->getLoc()) << "the mesh is here: " << mesh->getAxes();
  return diag;
}

bool fsdp::isReduction(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && !isFetch(getQueue(collective.getKind()));
}

//===----------------------------------------------------------------------===//
// Canonicalization
//===----------------------------------------------------------------------===//

namespace {
/// Drops axes of one rank; where none is left, the op is the identity.
template <typename Op>
struct FoldUnitAxes : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (isPlaced(op))
      return failure();
    auto mesh =
        SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
    if (!mesh)
      return failure();
    SmallVector<Attribute> axes;
    for (auto axis : op.getAxes().template getAsRange<StringAttr>())
      if (mesh.getAxisSize(axis) != 1)
        axes.push_back(axis);
    // A reduction of one rank may still divide.
    if (axes.empty() && op.getDivisor() == 1) {
      rewriter.replaceOp(op, op.getInput());
      return success();
    }
    if (axes.size() == op.getAxes().size())
      return failure();
    rewriter.modifyOpInPlace(
        op, [&] { op.setAxesAttr(rewriter.getArrayAttr(axes)); });
    return success();
  }
};

/// all_reduce of one rank that still divides, after a reduction of its own:
/// the reduction can divide instead.
struct MergeDivisor : OpRewritePattern<AllReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AllReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto scatter = op.getInput().getDefiningOp<ReduceScatterOp>();
    if (isPlaced(op) || !op.getAxes().empty() || !scatter ||
        !scatter->hasOneUse() || scatter.getDivisor() != 1)
      return failure();
    rewriter.modifyOpInPlace(scatter,
                             [&] { scatter.setDivisor(op.getDivisor()); });
    rewriter.replaceOp(op, scatter.getResult());
    return success();
  }
};
} // namespace

void AllGatherOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<FoldUnitAxes<AllGatherOp>>(context);
}

void ReduceScatterOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                  MLIRContext *context) {
  patterns.add<FoldUnitAxes<ReduceScatterOp>>(context);
}

void AllToAllOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                             MLIRContext *context) {
  patterns.add<FoldUnitAxes<AllToAllOp>>(context);
}

void AllReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<FoldUnitAxes<AllReduceOp>, MergeDivisor>(context);
}
