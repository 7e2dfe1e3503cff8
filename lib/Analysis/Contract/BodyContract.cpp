//===- BodyContract.cpp - What the ops of L0 may be -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of docs/input-contract.md that speak of ops instead of arguments
// and results. They walk whole bodies, so only fsdp-verify-input asks for them.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/BodyContract.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fsdp;

/// One broken exporter breaks every op: so many errors say enough.
static constexpr unsigned kMaxErrors = 5;

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// What speaks of functions, memory, devices or code: this compiler's levels
/// below L0, and those of others.
static constexpr StringLiteral kLowDialects[] = {
    "fsdp",          "func",      "llvm",       "vector",  "memref",
    "bufferization", "gpu",       "nvgpu",      "nvvm",    "rocdl",
    "amdgpu",        "xegpu",     "xevm",       "spirv",   "emitc",
    "async",         "omp",       "acc",        "mpi",     "ptr",
    "x86vector",     "amx",       "arm_neon",   "arm_sve", "arm_sme",
    "vcix",          "wasmssa",   "ml_program", "irdl",    "pdl",
    "pdl_interp",    "transform", "builtin"};

/// Anything that is not a shaped type counts as static.
static bool isStatic(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.hasStaticShape();
  return true;
}

/// Wider ones take LLVM hours to multiply, and nobody has any.
static constexpr unsigned kMostElementBits = 128;

static bool hasPlainElements(Type type) {
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  return !integer || integer.getWidth() <= kMostElementBits;
}

/// What is wrong with a constant: its bytes must be in the file, as many as the
/// type says. Empty where nothing is.
static StringRef getConstantFault(Attribute value) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value))
    return readResource(resource) ? ""
                                  : "a resource of other bytes than its type's";
  return isa<ElementsAttr>(value) && !isa<DenseElementsAttr>(value)
             ? "elements that are not dense"
             : "";
}

DenseElementsAttr fsdp::readResource(DenseResourceElementsAttr resource) {
  AsmResourceBlob *blob = resource.getRawHandle().getBlob();
  bool isSplat = false;
  if (!blob || !resource.getElementType().isIntOrFloat() ||
      !isOfCountableBytes(resource.getType()) ||
      !DenseElementsAttr::isValidRawBuffer(resource.getType(), blob->getData(),
                                           isSplat) ||
      (isSplat && resource.getType().getNumElements() != 1))
    return {};
  return DenseElementsAttr::getFromRawBuffer(resource.getType(),
                                             blob->getData());
}

LogicalResult fsdp::verifyStepBody(func::FuncOp func) {
  unsigned errors = 0;
  func.getBody().walk([&](Operation *op) {
    // input_c13
    for (Type type : op->getResultTypes()) {
      bool isRanked = isOfCountableRank(type), isPlain = hasPlainElements(type);
      if (isRanked && isPlain && isStatic(type) && isOfCountableBytes(type))
        continue;
      InFlightDiagnostic diag = op->emitOpError("input_c13: expected results ");
      if (!isPlain)
        diag << "with elements of at most " << kMostElementBits << " bits";
      else if (!isRanked)
        diag << "of at most " << kMostRank << " dimensions";
      else if (isStatic(type))
        diag << "of at most " << kMostTensorBytes << " bytes";
      else
        diag << "of static shape";
      diag << " in @forward_backward, got " << type;
      ++errors;
      break;
    }
    // input_c20
    for (NamedAttribute attr : op->getAttrs())
      if (StringRef fault = getConstantFault(attr.getValue()); !fault.empty()) {
        op->emitOpError(
            "input_c20: expected constants as dense elements, of as "
            "many bytes as their type has, got ")
            << fault;
        ++errors;
      }
    // input_c19
    StringRef dialect = op->getName().getDialectNamespace();
    if (llvm::is_contained(kLowDialects, dialect) && !isa<func::ReturnOp>(op)) {
      op->emitOpError("input_c19: expected ops that compute on tensors and "
                      "their elements in @forward_backward, got this one");
      ++errors;
      return errors < kMaxErrors ? WalkResult::advance()
                                 : WalkResult::interrupt();
    }
    // input_c15. A function's call says nothing about its effects. Nor do ops
    // that nobody here knows; whoever lets them in vouches for them.
    bool known = isa<cf::AssertOp>(op) || !op->isRegistered() ||
                 op->hasTrait<OpTrait::IsTerminator>();
    if (!known && !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() &&
        !isMemoryEffectFree(op)) {
      op->emitOpError("input_c15: expected ops without side effects, or "
                      "cf.assert, in @forward_backward, got this one");
      ++errors;
    }
    return errors < kMaxErrors ? WalkResult::advance()
                               : WalkResult::interrupt();
  });
  return success(errors == 0);
}

//===----------------------------------------------------------------------===//
// The optimizer
//===----------------------------------------------------------------------===//

/// A flat tensor: its size is the shard's, which differs between meshes.
static bool isFlat(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type && !type.hasStaticShape();
}

/// The size may make tensors and be asserted equal to another, nothing else: it
/// would bring the mesh into the result.
static bool isUsedAsSizeOnly(tensor::DimOp dim) {
  return llvm::all_of(dim->getUsers(), [](Operation *user) {
    return isa<tensor::EmptyOp, tensor::SplatOp>(user) ||
           (isa<arith::CmpIOp>(user) &&
            llvm::all_of(user->getUsers(), llvm::IsaPred<cf::AssertOp>));
  });
}

/// One loop over the elements, reading and writing flat tensors at its own
/// index and the rest at none.
static bool isElementwiseOnFlat(linalg::LinalgOp op) {
  if (op.getNumLoops() != 1 || op.getNumParallelLoops() != 1)
    return false;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (isFlat(operand.get()) ? !map.isIdentity() : map.getNumResults() != 0)
      return false;
  }
  bool local = true;
  for (Region &region : op->getRegions()) {
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(region, captured);
    local &= llvm::none_of(captured, isFlat);
    region.walk([&](linalg::IndexOp) { local = false; });
  }
  return local;
}

static bool isElementwiseOnFlat(Operation *op) {
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return isElementwiseOnFlat(linalgOp);
  if (auto dim = dyn_cast<tensor::DimOp>(op))
    return isUsedAsSizeOnly(dim);
  // Of ops that nobody here knows, their types must tell.
  if (!op->isRegistered())
    return llvm::all_of(op->getResults(), isFlat);
  return isa<tensor::EmptyOp, tensor::SplatOp>(op) ||
         OpTrait::hasElementwiseMappableTraits(op);
}

LogicalResult fsdp::verifyOptimizerBody(func::FuncOp func) {
  unsigned errors = 0;
  for (Operation &op : func.getBody().front().without_terminator()) {
    llvm::SetVector<Value> values(op.operand_begin(), op.operand_end());
    getUsedValuesDefinedAbove(op.getRegions(), values);
    values.insert(op.result_begin(), op.result_end());
    // optimizer_c7
    if (llvm::none_of(values, isFlat) || isElementwiseOnFlat(&op))
      continue;
    op.emitOpError("optimizer_c7: expected ops of @optimizer that treat each "
                   "element of a flat tensor alone, got this one");
    if (++errors == kMaxErrors)
      break;
  }
  return success(errors == 0);
}
