//===- ConvertDeviceMath.cpp - Functions of math for CUDA devices ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What NVPTX has as an instruction, rounded as IEEE 754 says, becomes an
// intrinsic; other functions become calls of OpenCL's, which libclc defines. Of
// CUDA's libdevice nothing is used: convert-gpu-to-nvvm would call its square
// root, whose bits depend on flags. f16 and bf16 are computed in f32.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CONVERTDEVICEMATH
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The intrinsic for an op's name; empty where there is none.
static StringRef getIntrinsic(StringRef op) {
  static const llvm::StringMap<StringRef> intrinsics = {
      {"math.absf", "llvm.fabs"},
      {"math.ceil", "llvm.ceil"},
      {"math.copysign", "llvm.copysign"},
      {"math.floor", "llvm.floor"},
      {"math.fma", "llvm.fma"},
      {"math.round", "llvm.round"},
      {"math.roundeven", "llvm.roundeven"},
      {"math.rsqrt", "llvm.sqrt"},
      {"math.sqrt", "llvm.sqrt"},
      {"math.trunc", "llvm.trunc"},
  };
  return intrinsics.lookup(op);
}

/// OpenCL's function for an op's name; empty where there is none.
static StringRef getFunction(StringRef op) {
  static const llvm::StringMap<StringRef> functions = {
      {"arith.remf", "fmod"},  {"math.acos", "acos"},   {"math.acosh", "acosh"},
      {"math.asin", "asin"},   {"math.asinh", "asinh"}, {"math.atan", "atan"},
      {"math.atan2", "atan2"}, {"math.atanh", "atanh"}, {"math.cbrt", "cbrt"},
      {"math.cos", "cos"},     {"math.cosh", "cosh"},   {"math.erf", "erf"},
      {"math.erfc", "erfc"},   {"math.exp", "exp"},     {"math.exp2", "exp2"},
      {"math.expm1", "expm1"}, {"math.log", "log"},     {"math.log10", "log10"},
      {"math.log1p", "log1p"}, {"math.log2", "log2"},   {"math.powf", "pow"},
      {"math.sin", "sin"},     {"math.sinh", "sinh"},   {"math.tan", "tan"},
      {"math.tanh", "tanh"},
  };
  return functions.lookup(op);
}

/// `pow` of two doubles is `_Z3powdd` (Itanium C++ ABI).
static std::string mangle(StringRef function, Type type, unsigned arguments) {
  std::string code(arguments, type.isF64() ? 'd' : 'f');
  return ("_Z" + Twine(function.size()) + function + code).str();
}

static Value createCall(OpBuilder &builder, gpu::GPUModuleOp device,
                        Location loc, StringRef function, ValueRange args) {
  Type type = args.front().getType();
  std::string name = mangle(function, type, args.size());
  auto callee = device.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!callee) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(device.getBody());
    callee = LLVM::LLVMFuncOp::create(
        builder, loc, name,
        LLVM::LLVMFunctionType::get(type,
                                    SmallVector<Type>(args.size(), type)));
  }
  return LLVM::CallOp::create(builder, loc, callee, args).getResult();
}

/// The result of `op` on operands that are f32 or f64; null where neither an
/// instruction nor a function computes it.
static Value convert(Operation *op, OpBuilder &builder, gpu::GPUModuleOp device,
                     ValueRange args) {
  Location loc = op->getLoc();
  StringRef name = op->getName().getStringRef();
  if (StringRef function = getFunction(name); !function.empty())
    return createCall(builder, device, loc, function, args);
  StringRef intrinsic = getIntrinsic(name);
  if (intrinsic.empty())
    return nullptr;
  Type type = args.front().getType();
  Value result = LLVM::CallIntrinsicOp::create(
                     builder, loc, type, builder.getStringAttr(intrinsic), args)
                     .getResult(0);
  if (!isa<math::RsqrtOp>(op))
    return result;
  Value one =
      arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, 1.0));
  return arith::DivFOp::create(builder, loc, one, result);
}

static void convertOp(Operation *op, gpu::GPUModuleOp device) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return;
  auto type = dyn_cast<FloatType>(op->getResult(0).getType());
  if (!type || llvm::any_of(op->getOperandTypes(),
                            [&](Type other) { return other != type; }))
    return;
  StringRef name = op->getName().getStringRef();
  if (getFunction(name).empty() && getIntrinsic(name).empty())
    return;
  OpBuilder builder(op);
  bool isNarrow = type.getWidth() < 32;
  SmallVector<Value> args(op->getOperands());
  if (isNarrow)
    for (Value &arg : args)
      arg = arith::ExtFOp::create(builder, op->getLoc(), builder.getF32Type(),
                                  arg);
  Value result = convert(op, builder, device, args);
  if (isNarrow)
    result = arith::TruncFOp::create(builder, op->getLoc(), type, result);
  op->replaceAllUsesWith(ValueRange(result));
  op->erase();
}

namespace {
struct ConvertDeviceMath
    : fsdp::impl::ConvertDeviceMathBase<ConvertDeviceMath> {
  void runOnOperation() override {
    gpu::GPUModuleOp device = getOperation();
    device.walk([&](Operation *op) { convertOp(op, device); });
  }
};
} // namespace
