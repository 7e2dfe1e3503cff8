//===- Approximations.cpp - Functions by a device's instructions ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of results that are rounded to 16 bits: 2^x and quotients are a device's
// instructions, which math.exp2 and arith.divf with fastmath<afn> name.
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

static constexpr double kLog2E = 0x1.71547652b82fep0;

static Float createExp2(Float x) {
  Emitter *emitter = x.getEmitter();
  return {emitter, emitter->create<math::Exp2Op>(x.get(*emitter),
                                                 arith::FastMathFlags::afn)};
}

static Float createReciprocal(Float x) {
  Emitter *emitter = x.getEmitter();
  return {emitter, emitter->create<arith::DivFOp>(Float(1).get(*emitter),
                                                  x.get(*emitter),
                                                  arith::FastMathFlags::afn)};
}

Float approximate::exp(Float x) { return createExp2(x * kLog2E); }

/// 1 - 2 / (exp(2 |x|) + 1), which loses digits near 0.
Float approximate::tanh(Float x) {
  Float size = abs(x);
  Float power = createExp2(size * (2 * kLog2E));
  Float large = fma(createReciprocal(power + 1), -2, 1);
  return copySign(select(size < 0.4, evaluateTanhNearZero(size), large), x);
}

Float approximate::erf(Float x) {
  Float size = abs(x);
  Float power = createExp2(evaluateErfcLogarithm(size) * kLog2E);
  Float large = fma(power, -1, 1);
  return select(size < kErfNearZero, evaluateErfNearZero(x),
                copySign(large, x));
}
