//===- AttentionTiles.cpp - Attention, a block per tile of rows -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixEmitter.h"
#include "AttentionTileEmitter.h"
#include "fsdp/Analysis/Attention/PlainScores.h"
#include "fsdp/Analysis/Contract/InputContract.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Whether a kernel hands out a value that it computes.
static bool isStored(Value value) {
  return llvm::any_of(value.getUsers(),
                      llvm::IsaPred<bufferization::MaterializeInDestinationOp>);
}

AttentionParts::AttentionParts(Operation *op, MathMode math)
    : captured(op->getOperands()) {
  tuning = op->getParentOfType<func::FuncOp>()->getAttrOfType<DictionaryAttr>(
      names::kTuning);
  auto add = [&](Value tensor, StridedAttr view) {
    bool isWanted = tensor && (!isa<OpResult>(tensor) || isStored(tensor));
    types.push_back(isWanted ? cast<RankedTensorType>(tensor.getType())
                             : RankedTensorType());
    views.push_back(view);
  };
  auto addCommon = [&](auto attention) {
    shape = attention.getShape();
    add(attention.getQ(), attention.getQView());
    add(attention.getK(), attention.getKView());
    add(attention.getV(), attention.getVView());
    add(attention.getOut(), attention.getOutView());
    statsType = cast<RankedTensorType>(attention.getStats().getType());
    captured = attention.getCaptured();
    capturedViews = attention.getCapturedViews();
    score = &attention.getScore();
    factor = &attention.getFactor();
    isPlain = hasPlainScores(attention);
    scale = attention.getScale().convertToDouble();
    isCausal = attention.getCausal();
  };
  if (auto forward = dyn_cast<AttentionOp>(op)) {
    addCommon(forward);
    hasStats = isStored(forward.getStats());
    isZeroMasked = forward.getZeroMasked();
    isFast = math == MathMode::Fast && areNarrow({kOut});
    return;
  }
  auto backward = cast<AttentionBackwardOp>(op);
  addCommon(backward);
  add(backward.getDout(), backward.getDoutView());
  add(backward.getDq(), backward.getDqViewAttr());
  add(backward.getDk(), backward.getDkViewAttr());
  add(backward.getDv(), backward.getDvViewAttr());
  gradient = &backward.getGradient();
  dqScale = backward.getDqScale().convertToDouble();
  dkScale = backward.getDkScale().convertToDouble();
  isFast = math == MathMode::Fast && areNarrow({kDq, kDk, kDv});
}

bool AttentionParts::areNarrow(ArrayRef<unsigned> results) const {
  return canUseTensorCores(*this) &&
         llvm::all_of(results, [&](unsigned tensor) {
           return !exists(tensor) ||
                  types[tensor].getElementTypeBitWidth() == 16;
         });
}

int64_t AttentionParts::getRowValues() const {
  bool isHandedOn = isBackward() && canUseTensorCores(*this) && exists(kDq) &&
                    (exists(kDk) || exists(kDv));
  return !isHandedOn ? 0 : isFast && isPlain && scale > 0 ? 2 : 1;
}

bool AttentionParts::isShared(unsigned dim) const {
  return llvm::any_of(ArrayRef<unsigned>{kDk, kDv}, [&](unsigned tensor) {
    return exists(tensor) && views[tensor].getBatchStrides()[dim] == 0;
  });
}

int64_t fsdp::countRowTiles(const AttentionParts &parts, AttentionRows rows,
                            int64_t tileRows) {
  bool isOfKeys = rows == AttentionRows::DkDv;
  int64_t tiles = llvm::divideCeil(
      isOfKeys ? parts.shape.getKeys() : parts.shape.getQueries(), tileRows);
  for (auto [dim, extent] :
       llvm::enumerate(parts.shape.getBatch().asArrayRef()))
    if (!isOfKeys || !parts.isShared(dim))
      tiles *= extent;
  return tiles;
}

//===----------------------------------------------------------------------===//
// Tensor cores or scalars
//===----------------------------------------------------------------------===//

AttentionLaunch fsdp::getAttentionLaunch(const AttentionParts &parts,
                                         AttentionRows rows) {
  return canUseTensorCores(parts) ? getMatrixLaunch(parts, rows)
                                  : getTileLaunch(parts, rows);
}

template <typename Emitter>
static void emitRows(Emitter emitter, AttentionRows rows) {
  switch (rows) {
  case AttentionRows::Out:
    return emitter.emitOut();
  case AttentionRows::Dq:
    return emitter.emitDq();
  case AttentionRows::DkDv:
    return emitter.emitDkDv();
  }
}

void fsdp::emitAttentionTiles(const AttentionParts &parts, AttentionRows rows,
                              OpBuilder &builder, Location loc,
                              ValueRange arguments, Value shared) {
  if (canUseTensorCores(parts))
    return emitRows(
        AttentionMatrixEmitter(parts, rows, builder, loc, arguments, shared),
        rows);
  emitRows(AttentionTileEmitter(parts, builder, loc, arguments, shared), rows);
}
