//===- InstructionUnits.cpp - Which units execute an op -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstructionUnits.h"
#include "MemoryAccess.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Whether @op has fastmath<afn>: the device may compute it by approximate
/// instructions.
static bool hasApproxFunc(Operation &op) {
  auto floats = dyn_cast<arith::ArithFastMathInterface>(op);
  arith::FastMathFlagsAttr flags =
      floats ? floats.getFastMathFlagsAttr() : nullptr;
  return flags &&
         bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::afn);
}

/// Of a function of math, as fsdp-expand-math and the conversion to NVVM write
/// it: a polynomial with its reduction of the argument, or a few instructions.
static int64_t getMathInstructions(Operation &op) {
  if (isa<math::AbsFOp, math::CopySignOp, math::FloorOp, math::CeilOp,
          math::RoundEvenOp, math::TruncOp, math::FmaOp, math::SqrtOp>(op))
    return 1;
  if (isa<math::RsqrtOp>(op))
    return 2;
  if (isa<math::ExpOp, math::Exp2Op>(op))
    return hasApproxFunc(op) ? 5 : 22;
  if (isa<math::TanhOp>(op) && hasApproxFunc(op))
    return 14;
  if (isa<math::LogOp, math::Log2Op, math::SinOp, math::CosOp, math::TanhOp>(
          op))
    return 24;
  return 40;
}

/// Of a word of Philox4x32-10, where a thread has the four words of a block: a
/// quarter of 20 products and 20 exclusive ors of three words, and a choice.
constexpr int64_t kRandomWordInstructions = 13;

int64_t fsdp::getInstructions(Operation &op) {
  if (isa<RandomWordOp>(op))
    return kRandomWordInstructions * getLanes(op.getResult(0).getType());
  if (isa<math::MathDialect>(op.getDialect()))
    return getMathInstructions(op) * getLanes(op.getResult(0).getType());
  if (isa<arith::ArithDialect>(op.getDialect())) {
    if (isa<arith::ConstantOp, arith::IndexCastOp, arith::IndexCastUIOp,
            arith::BitcastOp>(op))
      return 0;
    // Of f32 from bf16 and back: a shift, a conversion.
    return getLanes(op.getResult(0).getType());
  }
  // Of a block's memory most addresses are a register and a constant; others
  // are a product and a sum.
  if (isa<memref::LoadOp, memref::StoreOp, vector::LoadOp, vector::StoreOp>(op))
    return getAccess(op) ? 3 : 1;
  if (isa<LLVM::LoadOp, LLVM::StoreOp, LLVM::GEPOp, NVVM::LdMatrixOp,
          NVVM::MmaOp, NVVM::CpAsyncOp, NVVM::CpAsyncCommitGroupOp,
          NVVM::CpAsyncWaitGroupOp, NVVM::VoteSyncOp, gpu::BarrierOp,
          gpu::ShuffleOp, gpu::ThreadIdOp, gpu::BlockIdOp>(op))
    return 1;
  return isa<scf::IfOp>(op) ? 1 : 0;
}

namespace {
/// Results of an element.
struct Results {
  double ofFloat = 0, ofInteger = 0, ofSpecial = 0;
};
} // namespace

/// A polynomial in f32, its argument's reduction (a rounding and a conversion
/// to an integer), clamps and special cases; a quotient where one is in it.
static Results getMathResults(Operation &op) {
  if (isa<math::AbsFOp, math::CopySignOp>(op))
    return {0, 1, 0};
  if (isa<math::FmaOp>(op))
    return {1, 0, 0};
  if (isa<math::FloorOp, math::CeilOp, math::RoundEvenOp, math::TruncOp>(op))
    return {0, 0, 1};
  if (isa<math::RsqrtOp, math::SqrtOp>(op))
    return {4, 2, 1};
  // What rounds the product with log2 e, and 2 to its power.
  if (isa<math::ExpOp, math::Exp2Op>(op) && hasApproxFunc(op))
    return {2, 1, 1};
  if (isa<math::TanhOp>(op) && hasApproxFunc(op))
    return {7, 3, 2};
  if (isa<math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op, math::SinOp,
          math::CosOp>(op))
    return {10, 6, 2};
  return {30, 8, 2};
}

static Results getArithResults(Operation &op) {
  if (isa<arith::ConstantOp, arith::IndexCastOp, arith::IndexCastUIOp,
          arith::BitcastOp>(op))
    return {};
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp>(op))
    return {1, 0, 0};
  // A reciprocal, whether it may be used, and what corrects it.
  if (isa<arith::DivFOp>(op) && hasApproxFunc(op))
    return {3, 1, 1};
  if (isa<arith::DivFOp, arith::RemFOp>(op))
    return {6, 1, 2};
  if (isa<arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp, arith::FPToUIOp>(
          op))
    return {0, 0, 1};
  // By a constant: a product's upper half.
  if (isa<arith::DivUIOp, arith::DivSIOp, arith::RemUIOp, arith::RemSIOp>(op))
    return {2, 2, 0};
  // Products of integers go through the units of f32, at half their rate.
  if (isa<arith::MulIOp>(op))
    return {2, 0, 0};
  // Two narrow floats are rounded at once.
  if (isa<arith::TruncFOp>(op))
    return {0, 0.5, 0};
  return {0, 1, 0};
}

/// How many times 4 bytes an access of @type moves, at least one.
static double getWords(Type type) {
  return std::max<int64_t>(1, fsdp::getBytes(type) / 4);
}

std::array<double, kNumLaneUnits> fsdp::getUnitWork(Operation &op) {
  std::array<double, kNumLaneUnits> work = {};
  auto add = [&](LaneUnit unit, double results) {
    work[unsigned(unit)] += results;
  };
  if (isa<RandomWordOp>(op)) {
    // Each product has two words, which go through the units of f32 at half
    // their rate.
    double lanes = double(getLanes(op.getResult(0).getType()));
    add(LaneUnit::Float, 10 * lanes);
    add(LaneUnit::Integer, 8 * lanes);
    return work;
  }
  bool isMath = isa<math::MathDialect>(op.getDialect());
  if (isMath || isa<arith::ArithDialect>(op.getDialect())) {
    Results results = isMath ? getMathResults(op) : getArithResults(op);
    double lanes = double(getLanes(op.getResult(0).getType()));
    add(LaneUnit::Float, results.ofFloat * lanes);
    add(LaneUnit::Integer, results.ofInteger * lanes);
    add(LaneUnit::Special, results.ofSpecial * lanes);
    return work;
  }
  Type moved;
  if (isa<memref::LoadOp, vector::LoadOp, LLVM::LoadOp>(op))
    moved = op.getResult(0).getType();
  else if (isa<memref::StoreOp, vector::StoreOp, LLVM::StoreOp>(op))
    moved = op.getOperand(0).getType();
  if (moved) {
    add(LaneUnit::Memory, getWords(moved));
    // Of global memory: an address of 64 bits.
    if (getAccess(op))
      add(LaneUnit::Integer, 2);
    return work;
  }
  if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op))
    add(LaneUnit::Memory, std::max(1.0, double(copy.getSize()) / 4));
  else if (auto load = dyn_cast<NVVM::LdMatrixOp>(op))
    add(LaneUnit::Memory, double(load.getNum()));
  else if (isa<gpu::ShuffleOp>(op))
    add(LaneUnit::Memory, 1);
  else if (isa<NVVM::MmaOp>(op))
    add(LaneUnit::Matrix, 1);
  else if (isa<LLVM::GEPOp>(op))
    add(LaneUnit::Integer, 1);
  else if (isa<scf::IfOp>(op))
    add(LaneUnit::Integer, 1);
  return work;
}
