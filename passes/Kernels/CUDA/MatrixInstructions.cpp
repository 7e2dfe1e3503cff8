//===- MatrixInstructions.cpp - Products of a warp ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatrixInstructions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fsdp;

Value fsdp::createPointer(OpBuilder &builder, Location loc, Value memory) {
  auto space = cast<gpu::AddressSpaceAttr>(
      cast<MemRefType>(memory.getType()).getMemorySpace());
  unsigned number = space.getValue() == gpu::AddressSpace::Workgroup
                        ? unsigned(NVVM::NVVMMemorySpace::Shared)
                        : unsigned(NVVM::NVVMMemorySpace::Global);
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, memory);
  address =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), address);
  return LLVM::IntToPtrOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext(), number),
      address);
}

Value fsdp::isAligned(OpBuilder &builder, Location loc, Value pointer,
                      int64_t bytes) {
  Value address =
      LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), pointer);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI64IntegerAttr(value));
  };
  Value rest =
      arith::AndIOp::create(builder, loc, address, constant(bytes - 1));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rest,
                               constant(0));
}

static Value createI32(OpBuilder &builder, Location loc, int32_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getI32IntegerAttr(value));
}

/// The address of the element of 16 bits number `index`.
static Value getElement(OpBuilder &builder, Location loc, Value pointer,
                        Value index) {
  Value number =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), index);
  return LLVM::GEPOp::create(builder, loc, pointer.getType(),
                             builder.getI16Type(), pointer, number);
}

/// An integer or a vector of i32.
static Type getBitsType(OpBuilder &builder, int64_t count) {
  if (count <= 2)
    return builder.getIntegerType(16 * count);
  return VectorType::get({count / 2}, builder.getI32Type());
}

static unsigned getBytes(Type bits) {
  if (auto vector = dyn_cast<VectorType>(bits))
    return 4 * vector.getNumElements();
  return bits.getIntOrFloatBitWidth() / 8;
}

Value fsdp::loadBits(OpBuilder &builder, Location loc, Value pointer,
                     Value index, int64_t count) {
  Type type = getBitsType(builder, count);
  return LLVM::LoadOp::create(builder, loc, type,
                              getElement(builder, loc, pointer, index),
                              getBytes(type));
}

void fsdp::storeBits(OpBuilder &builder, Location loc, Value bits,
                     Value pointer, Value index) {
  LLVM::StoreOp::create(builder, loc, bits,
                        getElement(builder, loc, pointer, index),
                        getBytes(bits.getType()));
}

void fsdp::beginCopy(OpBuilder &builder, Location loc, Value global, Value from,
                     Value shared, Value to, Value exists, int32_t bytes) {
  Value read;
  if (exists)
    read = arith::SelectOp::create(builder, loc, exists,
                                   createI32(builder, loc, bytes),
                                   createI32(builder, loc, 0));
  // Past the L1 cache, as whole pieces of 16 bytes go: no other thread of the
  // block reads them.
  NVVM::CpAsyncOp::create(builder, loc, getElement(builder, loc, shared, to),
                          getElement(builder, loc, global, from), bytes,
                          bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                                      : NVVM::LoadCacheModifierKind::CA,
                          read);
}

std::array<Value, 2> fsdp::loadFloatPair(OpBuilder &builder, Location loc,
                                         Value pointer, Value index) {
  Value number =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), index);
  Value address = LLVM::GEPOp::create(builder, loc, pointer.getType(),
                                      builder.getF32Type(), pointer, number);
  Value pair = LLVM::LoadOp::create(
      builder, loc, VectorType::get({2}, builder.getF32Type()), address,
      /*alignment=*/8);
  return {LLVM::ExtractElementOp::create(builder, loc, pair,
                                         createI32(builder, loc, 0)),
          LLVM::ExtractElementOp::create(builder, loc, pair,
                                         createI32(builder, loc, 1))};
}

Value fsdp::approximateExp2(OpBuilder &builder, Location loc, Value x) {
  return LLVM::CallIntrinsicOp::create(
             builder, loc, x.getType(),
             builder.getStringAttr("llvm.nvvm.ex2.approx.ftz"), x)
      .getResult(0);
}

void fsdp::endCopies(OpBuilder &builder, Location loc) {
  NVVM::CpAsyncCommitGroupOp::create(builder, loc);
}

void fsdp::waitForCopies(OpBuilder &builder, Location loc) {
  NVVM::CpAsyncWaitGroupOp::create(builder, loc, 0);
}

SmallVector<Value> fsdp::unpackFloats(OpBuilder &builder, Location loc,
                                      Value bits, int64_t count, Type type) {
  Value all = LLVM::BitcastOp::create(builder, loc,
                                      VectorType::get({count}, type), bits);
  SmallVector<Value> floats;
  for (int64_t i = 0; i != count; ++i) {
    Value narrow = LLVM::ExtractElementOp::create(builder, loc, all,
                                                  createI32(builder, loc, i));
    floats.push_back(
        arith::ExtFOp::create(builder, loc, builder.getF32Type(), narrow));
  }
  return floats;
}

Value fsdp::packFloats(OpBuilder &builder, Location loc, Value low, Value high,
                       Type type) {
  Type pair = VectorType::get({2}, builder.getF32Type());
  Value both = LLVM::PoisonOp::create(builder, loc, pair);
  both = LLVM::InsertElementOp::create(builder, loc, both, low,
                                       createI32(builder, loc, 0));
  both = LLVM::InsertElementOp::create(builder, loc, both, high,
                                       createI32(builder, loc, 1));
  Value narrow =
      arith::TruncFOp::create(builder, loc, VectorType::get({2}, type), both);
  return LLVM::BitcastOp::create(builder, loc, builder.getI32Type(), narrow);
}

static SmallVector<Value> getFields(OpBuilder &builder, Location loc,
                                    Value record) {
  SmallVector<Value> fields;
  auto type = cast<LLVM::LLVMStructType>(record.getType());
  for (int64_t i = 0, e = type.getBody().size(); i != e; ++i)
    fields.push_back(LLVM::ExtractValueOp::create(builder, loc, record, i));
  return fields;
}

static Type getRecordOfFour(OpBuilder &builder, Type field) {
  return LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                          SmallVector<Type>(4, field));
}

SmallVector<Value> fsdp::loadMatrices(OpBuilder &builder, Location loc,
                                      Value pointer, Value index,
                                      bool isTransposed) {
  MLIRContext *context = builder.getContext();
  Value matrices = NVVM::LdMatrixOp::create(
      builder, loc, getRecordOfFour(builder, builder.getI32Type()),
      getElement(builder, loc, pointer, index), /*num=*/4,
      isTransposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(context, 8, 8),
      NVVM::LdStMatrixEltType::B16);
  return getFields(builder, loc, matrices);
}

Value fsdp::createBallot(OpBuilder &builder, Location loc, Value condition) {
  Value all = arith::ConstantIntOp::create(builder, loc, -1, 32);
  return NVVM::VoteSyncOp::create(builder, loc, builder.getI32Type(), all,
                                  condition, NVVM::VoteSyncKind::ballot);
}

Value fsdp::countBits(OpBuilder &builder, Location loc, Value bits) {
  Value count = LLVM::CtPopOp::create(builder, loc, bits);
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(),
                                      count);
}

SmallVector<Value> fsdp::multiplyMatrices(OpBuilder &builder, Location loc,
                                          ValueRange a, ValueRange b,
                                          ValueRange c, Type type) {
  // Registers are i32 for bf16, pairs for f16.
  auto convert = [&](ValueRange registers) {
    SmallVector<Value> converted(registers);
    if (type.isF16())
      for (Value &value : converted)
        value = LLVM::BitcastOp::create(builder, loc,
                                        VectorType::get({2}, type), value);
    return converted;
  };
  NVVM::MMATypes kind =
      type.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  Value sums = NVVM::MmaOp::create(
      builder, loc, getRecordOfFour(builder, builder.getF32Type()), convert(a),
      convert(b), c, ArrayRef<int64_t>{16, 8, 16}, /*b1Op=*/std::nullopt,
      /*intOverflow=*/std::nullopt, std::array<NVVM::MMATypes, 2>{kind, kind},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                     NVVM::MMALayout::col});
  return getFields(builder, loc, sums);
}
