//===- BufferizedKernels.cpp - Functions that become kernels' code --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/BufferizedKernels.h"
#include "Kernels/Common/KernelUtils.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace mlir::fsdp;

func::FuncOp fsdp::getBufferized(ModuleOp nested, func::FuncOp kernel,
                                 StringRef target) {
  auto body =
      nested.lookupSymbol<func::FuncOp>(getFallbackName(kernel, target));
  if (!body)
    nested.emitError() << "expected an implementation of @"
                       << kernel.getSymName() << " in @" << kFallbackModule
                       << ", got none";
  return body;
}

/// Whether a buffer that is made in a loop is still in use when the next
/// iteration makes its own: then one place for all of them is not enough.
static bool outlivesIteration(Value buffer) {
  return llvm::any_of(buffer.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (!user->hasTrait<OpTrait::IsTerminator>())
      return llvm::any_of(user->getResults(), [](Value result) {
        return isa<BaseMemRefType>(result.getType()) &&
               outlivesIteration(result);
      });
    // What a branch yields stays in the iteration.
    Operation *parent = user->getParentOp();
    if (isa<scf::IfOp, scf::IndexSwitchOp, scf::ExecuteRegionOp>(parent))
      return outlivesIteration(parent->getResult(use.getOperandNumber()));
    return true;
  });
}

SmallVector<memref::AllocOp> fsdp::getBuffers(Operation *op) {
  SmallVector<memref::AllocOp> buffers;
  op->walk([&](memref::AllocOp buffer) { buffers.push_back(buffer); });
  return buffers;
}

FailureOr<int64_t> fsdp::getBufferBytes(memref::AllocOp op) {
  MemRefType type = op.getType();
  if (!type.hasStaticShape() || !type.getLayout().isIdentity())
    return op.emitOpError("expected a buffer of static size in a kernel, got ")
           << type;
  if (op->getParentOfType<LoopLikeOpInterface>() && outlivesIteration(op))
    return op.emitOpError("expected a buffer that is not handed from one "
                          "iteration to the next");
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// Each buffer has a place of its own.
FailureOr<int64_t> fsdp::placeBuffers(
    ArrayRef<memref::AllocOp> buffers, int64_t alignment,
    llvm::function_ref<Value(OpBuilder &, MemRefType, Value)> createBuffer) {
  int64_t end = 0;
  for (memref::AllocOp op : buffers) {
    FailureOr<int64_t> bytes = getBufferBytes(op);
    if (failed(bytes))
      return failure();
    OpBuilder builder(op);
    Value offset = arith::ConstantIndexOp::create(builder, op.getLoc(), end);
    end = llvm::alignTo(end + *bytes, alignment);
    op.replaceAllUsesWith(createBuffer(builder, op.getType(), offset));
    op.erase();
  }
  return end;
}

/// Results are the destinations; callers know those.
static LogicalResult dropResults(func::FuncOp func) {
  Operation *ret = func.getBody().front().getTerminator();
  unsigned inputs = func.getNumArguments() - func.getNumResults();
  for (auto [i, value] : llvm::enumerate(ret->getOperands()))
    if (value != func.getArgument(inputs + i))
      return func.emitError("expected result #")
             << i << " of kernel to lie in its destination";
  ret->setOperands({});
  func.setType(
      FunctionType::get(func.getContext(), func.getArgumentTypes(), {}));
  return success();
}

void fsdp::flattenEmpty(FunctionOpInterface func) {
  for (BlockArgument arg : func.getArguments()) {
    auto type = dyn_cast<MemRefType>(arg.getType());
    if (type && arg.use_empty() && type.getNumElements() == 0)
      arg.setType(MemRefType::get({0}, type.getElementType()));
  }
  // A gpu.func's own memory comes behind.
  SmallVector<Type> types(func.getFunctionBody().getArgumentTypes());
  types.truncate(func.getNumArguments());
  func.setType(FunctionType::get(func.getContext(), types, {}));
}

/// The first op that no later pass lowers.
static Operation *findUnlowered(func::FuncOp func) {
  Operation *found = nullptr;
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    static constexpr StringLiteral kLowered[] = {
        "arith", "math",   "memref", "scf",   "cf",
        "func",  "vector", "affine", "index", "ub"};
    if (!llvm::is_contained(kLowered, op->getName().getDialectNamespace())) {
      found = op;
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return found;
}

LogicalResult fsdp::prepareBufferized(func::FuncOp func) {
  if (Operation *op = findUnlowered(func))
    return op->emitOpError("cannot be lowered for this target");
  if (failed(dropResults(func)))
    return failure();
  flattenEmpty(func);
  return success();
}

void fsdp::moveConstants(ModuleOp nested, Operation *table) {
  Block &body = table->getRegion(0).front();
  for (auto global :
       llvm::make_early_inc_range(nested.getOps<memref::GlobalOp>())) {
    global.setSymName(("fallback_" + global.getSymName()).str());
    global->moveBefore(&body, body.begin());
  }
  table->walk([&](memref::GetGlobalOp op) {
    std::string name = ("fallback_" + op.getName()).str();
    if (!SymbolTable::lookupSymbolIn(table, op.getName()) &&
        SymbolTable::lookupSymbolIn(table, name))
      op.setName(name);
  });
}
