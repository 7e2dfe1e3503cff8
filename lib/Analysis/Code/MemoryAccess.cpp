//===- MemoryAccess.cpp - What code for GPUs loads and stores -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryAccess.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fsdp;

int64_t fsdp::getLanes(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

/// Whether @memory is an operand of the function: a block's and a thread's own
/// memory is allocated in it, or comes as one of its attributions.
static bool isGlobal(Value memory) {
  auto argument = dyn_cast<BlockArgument>(memory);
  if (!argument || !isa<MemRefType>(memory.getType()))
    return false;
  auto function = dyn_cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp());
  return function && argument.getArgNumber() < function.getNumArguments();
}

int64_t fsdp::getBytes(Type type) {
  unsigned width = getElementTypeOrSelf(type).isIndex()
                       ? 64
                       : getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  return llvm::divideCeil(width, 8) * getLanes(type);
}

/// The memory that @value, a view or an address, points into.
static Value getMemory(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (op->getNumOperands() == 0)
      break;
    if (!isa<ViewLikeOpInterface, memref::ExtractAlignedPointerAsIndexOp,
             memref::ExtractStridedMetadataOp, arith::IndexCastOp,
             LLVM::IntToPtrOp, LLVM::GEPOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

std::optional<Access> fsdp::getAccess(Operation &op) {
  Value address;
  Type moved;
  bool isStore = false;
  auto set = [&](Value of, Type type, bool stores) {
    address = of;
    moved = type;
    isStore = stores;
  };
  if (auto load = dyn_cast<memref::LoadOp>(op))
    set(load.getMemRef(), load.getType(), false);
  else if (auto store = dyn_cast<memref::StoreOp>(op))
    set(store.getMemRef(), store.getValueToStore().getType(), true);
  else if (auto load = dyn_cast<vector::LoadOp>(op))
    set(load.getBase(), load.getType(), false);
  else if (auto store = dyn_cast<vector::StoreOp>(op))
    set(store.getBase(), store.getValueToStore().getType(), true);
  else if (auto load = dyn_cast<LLVM::LoadOp>(op))
    set(load.getAddr(), load.getType(), false);
  else if (auto store = dyn_cast<LLVM::StoreOp>(op))
    set(store.getAddr(), store.getValue().getType(), true);
  else if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op))
    set(copy.getSrc(),
        VectorType::get({copy.getSize()}, IntegerType::get(op.getContext(), 8)),
        false);
  else
    return std::nullopt;
  Value memory = getMemory(address);
  if (!isGlobal(memory))
    return std::nullopt;
  return Access{memory, getBytes(moved), isStore};
}
