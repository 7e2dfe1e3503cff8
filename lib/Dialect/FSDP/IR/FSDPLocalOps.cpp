//===- FSDPLocalOps.cpp - L2: view, pack, launch --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::fsdp;

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
  int64_t end = static_cast<int64_t>(getOffset()) + result.getNumElements();
  if (end > source.getNumElements())
    return emitOpError("expected a part inside the source's ")
           << source.getNumElements() << " elements, got one that ends at "
           << end;
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
    end = offset + type.getNumElements();
  }
  if (end > result.getNumElements())
    return emitOpError("expected parts inside the result's ")
           << result.getNumElements() << " elements, got one that ends at "
           << end;
  return success();
}

OpFoldResult PackOp::fold(FoldAdaptor) {
  if (getParts().size() == 1 && getParts()[0].getType() == getType())
    return getParts()[0];
  return {};
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // launch_c1
  auto kernel =
      symbolTable.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("expected a kernel named ")
           << getKernelAttr() << " in the module";
  // launch_c2
  SmallVector<Type> arguments(getInputs().getTypes());
  llvm::append_range(arguments, getResultTypes());
  auto expected = FunctionType::get(getContext(), arguments, getResultTypes());
  if (kernel.getFunctionType() != expected) {
    InFlightDiagnostic diag = emitOpError("expected a kernel of type ")
                              << expected << ", got "
                              << kernel.getFunctionType();
    diag.attachNote(kernel.getLoc()) << "the kernel is here";
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
    if (input < 0 || input >= static_cast<int64_t>(getInputs().size()) ||
        getInputs()[input].getType() != result.getType() ||
        !seen.insert(input).second)
      return emitOpError("expected result #")
             << result.getResultNumber() << " tied to an input of "
             << result.getType() << " of its own, got #" << input;
  }
  return success();
}

int64_t LaunchOp::getTiedInput(unsigned i) {
  return getTied() ? (*getTied())[i] : -1;
}
