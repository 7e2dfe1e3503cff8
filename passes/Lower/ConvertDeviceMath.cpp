//===- ConvertDeviceMath.cpp - Functions of math for CUDA devices ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What NVPTX has as an instruction, rounded as IEEE 754 says, becomes an
// intrinsic; other functions, of f64 where fsdp-expand-math runs before, become
// calls of OpenCL's, which libclc defines. Of CUDA's libdevice nothing is used:
// convert-gpu-to-nvvm would call its square root, whose bits depend on flags.
// f16 and bf16 are computed in f32. Absolute values and powers of integers
// become arithmetic. Exponentials of base 2 and quotients with fastmath<afn>
// are approximate instructions (PTX ISA, "Floating-Point Instructions").
//
//===----------------------------------------------------------------------===//

#include "ApproxFunc.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

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

static Value createFloat(OpBuilder &builder, Location loc, Type type,
                         double value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getFloatAttr(type, value));
}

/// `y`, if finite, at most 2^32 of f32 and 2^64 of f64 on either side. There,
/// powers of all numbers but 1 and -1 are 0 or infinite as with larger
/// exponents, which are even, too, and overflow in libclc on their way to 0.
static Value limitExponent(OpBuilder &builder, Location loc, Value y) {
  Type type = y.getType();
  double most = type.isF64() ? 0x1p64 : 0x1p32;
  double infinity = std::numeric_limits<double>::infinity();
  Value limited = y;
  for (double sign : {1.0, -1.0}) {
    auto predicate =
        sign > 0 ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
    Value limit = createFloat(builder, loc, type, sign * most);
    Value end = createFloat(builder, loc, type, sign * infinity);
    Value isBeyond = arith::AndIOp::create(
        builder, loc, arith::CmpFOp::create(builder, loc, predicate, y, limit),
        arith::CmpFOp::create(builder, loc, predicate, end, y));
    limited = arith::SelectOp::create(builder, loc, isBeyond, limit, limited);
  }
  return limited;
}

/// Calls OpenCL's function; of odd ones, zeros keep their signs, which libclc's
/// drop.
static Value callFunction(Operation *op, OpBuilder &builder,
                          gpu::GPUModuleOp device, StringRef function,
                          ArrayRef<Value> args) {
  Location loc = op->getLoc();
  if (isa<math::PowFOp>(op))
    return createCall(builder, device, loc, function,
                      {args[0], limitExponent(builder, loc, args[1])});
  Value result = createCall(builder, device, loc, function, args);
  if (!isa<math::AsinOp, math::AsinhOp, math::AtanOp, math::AtanhOp,
           math::CbrtOp, math::ErfOp, math::ExpM1Op, math::Log1pOp, math::SinOp,
           math::SinhOp, math::TanOp, math::TanhOp>(op))
    return result;
  Value zero = createFloat(builder, loc, result.getType(), 0);
  Value isZero = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ,
                                       args[0], zero);
  return arith::SelectOp::create(builder, loc, isZero, args[0], result);
}

/// The result of `op` on operands that are f32 or f64; null where neither an
/// instruction nor a function computes it.
static Value convert(Operation *op, OpBuilder &builder, gpu::GPUModuleOp device,
                     ArrayRef<Value> args) {
  Location loc = op->getLoc();
  StringRef name = op->getName().getStringRef();
  if (StringRef function = getFunction(name); !function.empty())
    return callFunction(op, builder, device, function, args);
  StringRef intrinsic = getIntrinsic(name);
  if (intrinsic.empty())
    return nullptr;
  Type type = args.front().getType();
  Value result = LLVM::CallIntrinsicOp::create(
                     builder, loc, type, builder.getStringAttr(intrinsic), args)
                     .getResult(0);
  if (!isa<math::RsqrtOp>(op))
    return result;
  Value one = createFloat(builder, loc, type, 1);
  return arith::DivFOp::create(builder, loc, one, result);
}

/// |op|, whose least value has no positive one and stays.
static void convertAbs(math::AbsIOp op) {
  OpBuilder builder(op);
  Type type = op.getType();
  Value zero = arith::ConstantOp::create(builder, op.getLoc(), type,
                                         builder.getIntegerAttr(type, 0));
  Value negated =
      arith::SubIOp::create(builder, op.getLoc(), zero, op.getOperand());
  op.replaceAllUsesWith(
      arith::MaxSIOp::create(builder, op.getLoc(), op.getOperand(), negated)
          .getResult());
  op.erase();
}

static Value createNumber(OpBuilder &builder, Location loc, Type type,
                          int64_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getIntegerAttr(type, value));
}

/// `base` to the power of an integer without sign, by squaring.
static Value createPower(OpBuilder &builder, Location loc, Value base,
                         Value exponent) {
  Type type = base.getType();
  Value zero = createNumber(builder, loc, type, 0);
  Value one = createNumber(builder, loc, type, 1);
  auto loop = scf::WhileOp::create(
      builder, loc, TypeRange{type, type, type},
      ValueRange{one, base, exponent},
      [&](OpBuilder &inner, Location, ValueRange args) {
        Value goesOn = arith::CmpIOp::create(
            inner, loc, arith::CmpIPredicate::ne, args[2], zero);
        scf::ConditionOp::create(inner, loc, goesOn, args);
      },
      [&](OpBuilder &inner, Location, ValueRange args) {
        Value bit = arith::AndIOp::create(inner, loc, args[2], one);
        Value isSet = arith::CmpIOp::create(
            inner, loc, arith::CmpIPredicate::ne, bit, zero);
        Value more = arith::MulIOp::create(inner, loc, args[0], args[1]);
        Value power = arith::SelectOp::create(inner, loc, isSet, more, args[0]);
        Value square = arith::MulIOp::create(inner, loc, args[1], args[1]);
        Value rest = arith::ShRUIOp::create(inner, loc, args[2], one);
        scf::YieldOp::create(inner, loc, ValueRange{power, square, rest});
      });
  return loop.getResult(0);
}

/// A power of an integer with an integer. One below 0 gives 1 / base^-exponent,
/// rounded towards 0: the power itself where the base is 1 or -1, else 0.
static void convertPower(math::IPowIOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value base = op.getLhs(), exponent = op.getRhs();
  Type type = base.getType();
  Value zero = createNumber(builder, loc, type, 0);
  Value isNegative = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::slt, exponent, zero);
  Value negated = arith::SubIOp::create(builder, loc, zero, exponent);
  Value power = createPower(
      builder, loc, base,
      arith::SelectOp::create(builder, loc, isNegative, negated, exponent));
  Value one = createNumber(builder, loc, type, 1);
  Value minusOne = createNumber(builder, loc, type, -1);
  Value isUnit = arith::OrIOp::create(
      builder, loc,
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, base, one),
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, base,
                            minusOne));
  Value inverse = arith::SelectOp::create(builder, loc, isUnit, power, zero);
  Value result =
      arith::SelectOp::create(builder, loc, isNegative, inverse, power);
  op.replaceAllUsesWith(result);
  op.erase();
}

/// Maxima and minima of f32, which MLIR would expand to comparisons: one
/// instruction, which keeps NaN or does not, as the op says.
static StringRef getMaximumIntrinsic(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case<arith::MaxNumFOp>([](auto) { return "llvm.maxnum"; })
      .Case<arith::MinNumFOp>([](auto) { return "llvm.minnum"; })
      .Case<arith::MaximumFOp>([](auto) { return "llvm.maximum"; })
      .Case<arith::MinimumFOp>([](auto) { return "llvm.minimum"; })
      .Default(StringRef());
}

static Value callIntrinsic(OpBuilder &builder, Location loc, StringRef name,
                           ValueRange args) {
  return LLVM::CallIntrinsicOp::create(builder, loc, args.front().getType(),
                                       builder.getStringAttr(name), args)
      .getResult(0);
}

/// The constant that `value` is.
static std::optional<double> getFloat(Value value) {
  APFloat constant(0.0f);
  if (!matchPattern(value, m_ConstantFloat(&constant)))
    return std::nullopt;
  return constant.convertToDouble();
}

/// Below it, f32 is subnormal; the least number that is not changed by one.
static constexpr double kLeastNormal = 0x1p-126, kLeastSum = 0x1p-100;

/// Whether results do not depend on which number below 2^-126 `value` is: it is
/// only added to larger constants, or multiplied by small ones before.
static bool canFlush(Value value) {
  auto isLarge = [](Value added) {
    std::optional<double> constant = getFloat(added);
    return constant && std::fabs(*constant) >= kLeastSum;
  };
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<arith::AddFOp, arith::SubFOp>(user))
      return isLarge(user->getOperand(1 - use.getOperandNumber()));
    if (!isa<math::FmaOp>(user) || use.getOperandNumber() == 2 ||
        !isLarge(user->getOperand(2)))
      return false;
    std::optional<double> factor =
        getFloat(user->getOperand(1 - use.getOperandNumber()));
    return factor && std::fabs(*factor) <= 2;
  });
}

/// Whether `value` is an exponential that was converted before.
static bool isExponential(Value value) {
  auto call = value.getDefiningOp<LLVM::CallIntrinsicOp>();
  return call && call.getIntrin().starts_with("llvm.nvvm.ex2.");
}

/// Whether `value` is at least 2^-100, or NaN: an exponential and a constant.
static bool isLargeSum(Value value) {
  auto sum = value.getDefiningOp<arith::AddFOp>();
  if (!sum)
    return false;
  Value left = sum.getLhs(), right = sum.getRhs();
  if (isExponential(right))
    std::swap(left, right);
  std::optional<double> constant = getFloat(right);
  return isExponential(left) && constant && *constant >= kLeastSum;
}

/// A quotient of f32, at most 2 units in the last place off. Of 1 by what is
/// left an instruction remains that LLVM knows.
static Value approximateQuotient(arith::DivFOp op, OpBuilder &builder,
                                 Value left, Value right) {
  Location loc = op.getLoc();
  Type type = left.getType();
  if (std::optional<double> divisor = getFloat(right)) {
    double inverse = 1 / *divisor;
    bool isNormal = std::isfinite(*divisor) && std::isfinite(inverse) &&
                    std::fabs(inverse) >= kLeastNormal &&
                    std::fabs(*divisor) >= kLeastNormal;
    if (isNormal)
      return arith::MulFOp::create(builder, loc, left,
                                   createFloat(builder, loc, type, inverse));
  }
  if (getFloat(left) != 1.0)
    return callIntrinsic(builder, loc, "llvm.nvvm.div.full", {left, right});
  if (isLargeSum(right) && canFlush(op.getResult()))
    return callIntrinsic(builder, loc, "llvm.nvvm.rcp.approx.ftz.f", right);
  return arith::DivFOp::create(builder, loc, left, right,
                               arith::FastMathFlags::afn);
}

/// What a function that may be approximated becomes; null where it is computed
/// as others are.
static Value approximate(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> args) {
  if (!hasApproxFunc(op) || !args.front().getType().isF32())
    return nullptr;
  if (isa<math::Exp2Op>(op))
    return callIntrinsic(builder, op->getLoc(),
                         canFlush(op->getResult(0)) ? "llvm.nvvm.ex2.approx.ftz"
                                                    : "llvm.nvvm.ex2.approx",
                         args);
  if (auto quotient = dyn_cast<arith::DivFOp>(op))
    return approximateQuotient(quotient, builder, args[0], args[1]);
  return nullptr;
}

static void convertOp(Operation *op, gpu::GPUModuleOp device) {
  if (auto abs = dyn_cast<math::AbsIOp>(op);
      abs && abs.getType().isIntOrIndex())
    return convertAbs(abs);
  if (auto power = dyn_cast<math::IPowIOp>(op);
      power && power.getType().isIntOrIndex())
    return convertPower(power);
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return;
  auto type = dyn_cast<FloatType>(op->getResult(0).getType());
  if (!type || llvm::any_of(op->getOperandTypes(),
                            [&](Type other) { return other != type; }))
    return;
  StringRef name = op->getName().getStringRef();
  OpBuilder builder(op);
  if (StringRef maximum = getMaximumIntrinsic(op);
      !maximum.empty() && type.isF32()) {
    op->replaceAllUsesWith(ValueRange(
        callIntrinsic(builder, op->getLoc(), maximum, op->getOperands())));
    return op->erase();
  }
  bool isQuotient =
      isa<arith::DivFOp>(op) && type.getWidth() <= 32 && hasApproxFunc(op);
  if (!isQuotient && getFunction(name).empty() && getIntrinsic(name).empty())
    return;
  bool isNarrow = type.getWidth() < 32;
  SmallVector<Value> args(op->getOperands());
  if (isNarrow)
    for (Value &arg : args)
      arg = arith::ExtFOp::create(builder, op->getLoc(), builder.getF32Type(),
                                  arg);
  Value result = approximate(op, builder, args);
  if (!result)
    result = convert(op, builder, device, args);
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
