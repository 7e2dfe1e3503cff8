//===- ExpandMath.cpp - Math functions as arithmetic ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApproxFunc.h"
#include "Lower/Math/Functions.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_EXPANDMATH
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
using Unary = expand::Float (*)(expand::Float);
using Binary = expand::Float (*)(expand::Float, expand::Float);

/// Whether the function is expanded for f64, too.
enum class Widths { Single, All };

/// Which ops of a kind a pattern takes: all, those that may not be
/// approximated, or those that may be.
enum class Which { All, Exact, Relaxed };

/// An op on floats of 32 bits, or also of 64, becomes `function`'s arithmetic.
template <typename Op, auto function, Widths widths = Widths::Single>
struct Expand : OpRewritePattern<Op> {
  Expand(MLIRContext *context, Which which = Which::All)
      : OpRewritePattern<Op>(context), which(which) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType(), element = getElementTypeOrSelf(type);
    if (!element.isF32() && !(widths == Widths::All && element.isF64()))
      return failure();
    if (which != Which::All && (which == Which::Relaxed) != hasApproxFunc(op))
      return failure();
    expand::Emitter emitter(rewriter, op.getLoc(), type);
    SmallVector<expand::Float, 2> operands;
    for (Value operand : op->getOperands())
      operands.emplace_back(&emitter, operand);
    expand::Float result = [&] {
      if constexpr (std::is_same_v<decltype(function), Unary>)
        return function(operands[0]);
      else
        return function(operands[0], operands[1]);
    }();
    rewriter.replaceOp(op, result.get(emitter));
    return success();
  }

private:
  Which which;
};

/// A power with an integer is one with a float, as in PyTorch; of narrower
/// floats one in f32.
struct ConvertExponent : OpRewritePattern<math::FPowIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FPowIOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Type type = op.getType(), wide = type;
    Value base = op.getLhs();
    bool isNarrow = getElementTypeOrSelf(type).getIntOrFloatBitWidth() < 32;
    if (isNarrow) {
      wide = rewriter.getF32Type();
      if (auto vector = dyn_cast<VectorType>(type))
        wide = vector.clone(wide);
      base = arith::ExtFOp::create(rewriter, loc, wide, base);
    }
    Value exponent = arith::SIToFPOp::create(rewriter, loc, wide, op.getRhs());
    Value power = math::PowFOp::create(rewriter, loc, base, exponent);
    if (isNarrow)
      power = arith::TruncFOp::create(rewriter, loc, type, power);
    rewriter.replaceOp(op, power);
    return success();
  }
};

struct ExpandMath : fsdp::impl::ExpandMathBase<ExpandMath> {
  using ExpandMathBase::ExpandMathBase;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<Expand<math::AcosOp, Unary(expand::acos)>,
                 Expand<math::AcoshOp, Unary(expand::acosh)>,
                 Expand<math::AsinOp, Unary(expand::asin)>,
                 Expand<math::AsinhOp, Unary(expand::asinh)>,
                 Expand<math::AtanOp, Unary(expand::atan)>,
                 Expand<math::Atan2Op, Binary(expand::atan2)>,
                 Expand<math::AtanhOp, Unary(expand::atanh)>,
                 Expand<math::CbrtOp, Unary(expand::cbrt)>,
                 Expand<math::CosOp, Unary(expand::cos)>,
                 Expand<math::CoshOp, Unary(expand::cosh)>,
                 Expand<math::ErfcOp, Unary(expand::erfc), Widths::All>,
                 Expand<math::ExpM1Op, Unary(expand::expm1), Widths::All>,
                 Expand<math::LogOp, Unary(expand::log)>,
                 Expand<math::Log10Op, Unary(expand::log10)>,
                 Expand<math::Log1pOp, Unary(expand::log1p)>,
                 Expand<math::Log2Op, Unary(expand::log2)>,
                 Expand<math::PowFOp, Binary(expand::pow)>,
                 Expand<math::SinOp, Unary(expand::sin)>,
                 Expand<math::SinhOp, Unary(expand::sinh)>,
                 Expand<math::TanOp, Unary(expand::tan)>, ConvertExponent>(
        context);
    patterns.add<Expand<math::ErfOp, Unary(expand::erf)>,
                 Expand<math::ExpOp, Unary(expand::exp)>,
                 Expand<math::Exp2Op, Unary(expand::exp2)>,
                 Expand<math::TanhOp, Unary(expand::tanh)>>(
        context, approximate ? Which::Exact : Which::All);
    if (approximate)
      patterns.add<Expand<math::ErfOp, Unary(expand::approximate::erf)>,
                   Expand<math::ExpOp, Unary(expand::approximate::exp)>,
                   Expand<math::TanhOp, Unary(expand::approximate::tanh)>>(
          context, Which::Relaxed);
    // Narrower floats are computed in f32 and rounded once.
    populateMathF32ExpansionPatterns(patterns, [](StringRef) { return true; });
    // Of f64 what is left is libm's: there is nothing to refuse.
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
  }
};
} // namespace
