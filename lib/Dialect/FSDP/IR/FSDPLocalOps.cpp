//===- FSDPLocalOps.cpp - L2: view, pack, launch --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verification.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::fsdp;

bool fsdp::isPlaced(Operation *op) { return op->hasAttr(names::kOffsets); }

void fsdp::addEffectsIfPlaced(
    Operation *op, SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (!isPlaced(op))
    return;
  effects.emplace_back(MemoryEffects::Read::get(), IssueOrder::get());
  effects.emplace_back(MemoryEffects::Write::get(), IssueOrder::get());
}

/// Whether elements [offset, offset + those of `part`) exist in `whole`. The
/// sum may overflow, so it is not formed.
static bool liesInside(int64_t offset, RankedTensorType part,
                       RankedTensorType whole) {
  return offset <= whole.getNumElements() - part.getNumElements();
}

//===----------------------------------------------------------------------===//
// ViewOp
//===----------------------------------------------------------------------===//

LogicalResult ViewOp::verify() {
  RankedTensorType source = getSource().getType(), result = getType();
  // view_c1
  if (source.getElementType() != result.getElementType())
    return emitOpError("expected a result of ")
           << source.getElementType() << ", got " << result.getElementType();
  // view_c2
  if (!liesInside(getOffset(), result, source))
    return emitOpError("expected a part inside the source's ")
           << source.getNumElements() << " elements, got "
           << result.getNumElements() << " from " << getOffset();
  return success();
}

OpFoldResult ViewOp::fold(FoldAdaptor) {
  if (getSource().getType() == getType())
    return getSource();
  return {};
}

//===----------------------------------------------------------------------===//
// PackOp
//===----------------------------------------------------------------------===//

LogicalResult PackOp::verify() {
  // pack_c1
  if (getParts().empty())
    return emitOpError("expected at least one part, got none");
  if (getOffsets().size() != getParts().size())
    return emitOpError("expected an offset for each of ")
           << getParts().size() << " parts, got " << getOffsets().size();
  RankedTensorType result = getType();
  int64_t end = 0;
  for (auto [part, offset] : llvm::zip(getParts(), getOffsets())) {
    auto type = cast<RankedTensorType>(part.getType());
    if (type.getElementType() != result.getElementType())
      return emitOpError("expected parts of ")
             << result.getElementType() << ", got " << type;
    // pack_c2
    if (offset < end)
      return emitOpError("expected a part at or after element ")
             << end << ", got " << offset;
    if (!liesInside(offset, type, result))
      return emitOpError("expected parts inside the result's ")
             << result.getNumElements() << " elements, got "
             << type.getNumElements() << " from " << offset;
    end = offset + type.getNumElements();
  }
  return success();
}

OpFoldResult PackOp::fold(FoldAdaptor) {
  // With a place it is a copy.
  if (!isPlaced(*this) && getParts().size() == 1 &&
      getParts()[0].getType() == getType())
    return getParts()[0];
  return {};
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // launch_c1
  FailureOr<func::FuncOp> kernel = lookupSymbol<func::FuncOp>(
      *this, getKernelAttr(), symbolTable, "a kernel");
  if (failed(kernel))
    return failure();
  // launch_c2
  SmallVector<Type> arguments(getInputs().getTypes());
  llvm::append_range(arguments, getResultTypes());
  auto expected = FunctionType::get(getContext(), arguments, getResultTypes());
  if (kernel->getFunctionType() != expected) {
    InFlightDiagnostic diag = emitOpError("expected a kernel of type ")
                              << expected << ", got "
                              << kernel->getFunctionType();
    diag.attachNote(kernel->getLoc()) << "the kernel is here";
    return diag;
  }
  // launch_c3
  if (!getTied())
    return success();
  if (getTied()->size() != getNumResults())
    return emitOpError("expected a tied entry for each of ")
           << getNumResults() << " results, got " << getTied()->size();
  llvm::SmallDenseSet<int64_t> seen;
  for (auto [result, input] : llvm::zip(getResults(), *getTied())) {
    if (input == -1)
      continue;
    bool known = input >= 0 && input < static_cast<int64_t>(getInputs().size());
    if (known && getInputs()[input].getType() == result.getType() &&
        seen.insert(input).second)
      continue;
    InFlightDiagnostic diag = emitOpError("expected result #")
                              << result.getResultNumber()
                              << " tied to an input of " << result.getType()
                              << " of its own, got #" << input;
    if (known)
      diag << " of " << getInputs()[input].getType();
    return diag;
  }
  return success();
}

int64_t LaunchOp::getTiedInput(unsigned i) {
  return getTied() ? (*getTied())[i] : -1;
}

void LaunchOp::setTiedInput(unsigned i, int64_t input) {
  SmallVector<int64_t> tied(getNumResults(), -1);
  if (getTied())
    tied.assign(getTied()->begin(), getTied()->end());
  tied[i] = input;
  setTied(tied);
}
