//===- PositionProducts.h - Angles made of positions ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Positions are integers that are computed with as floats. A frequency times a
// position is an angle, of which a sine takes what is left of whole turns: an
// error of one part in 2^8, harmless in any other factor of a product, is one
// of whole turns from position 256 on. The same holds for exponents, of which
// exp makes factors.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_POSITIONPRODUCTS_H
#define FSDP_ANALYSIS_STEP_POSITIONPRODUCTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// A multiplication of `factor` by positions, or a division of them by it,
/// whose result is an angle or an exponent.
struct PositionProduct {
  /// A contraction, a convolution, or an op of arith on elements.
  Operation *op;
  Value factor;
};

/// What is made of positions in an op and everything nested in it, which is not
/// changed while this is used.
class PositionProducts {
public:
  /// Integers that @type holds exactly are no positions here: masks, bytes.
  PositionProducts(Operation *root, FloatType type);

  /// Products whose result goes, through additions and other multiplications,
  /// into a sine, an exponential or another function that makes of its
  /// operand's error a relative one of its result.
  ArrayRef<PositionProduct> getProducts() const { return products; }

  /// Whether the elements of @value, a tensor or an element, are integers as
  /// floats, or computed from such and constants by arithmetic.
  bool isPosition(Value value) { return evaluate(value) == Kind::Position; }

  /// The arguments of @block, which is not nested in an op of linalg, that
  /// @factor is computed from by arithmetic on single elements.
  static SmallVector<BlockArgument> getSources(Value factor, Block *block);

private:
  enum class Kind { Other, Constant, Position };
  Kind evaluate(Value value);
  Kind evaluateOp(OpResult value);
  Kind join(ValueRange values);

  unsigned precision;
  unsigned width;
  llvm::DenseMap<Value, Kind> kinds;
  SmallVector<PositionProduct> products;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_POSITIONPRODUCTS_H
