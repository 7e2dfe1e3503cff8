//===- ExpandRandomWords.cpp - Philox's rounds as arithmetic --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10, as fsdp-rt/random.h computes it. A block takes 20 products of
// 32 by 32 bits, 40 exclusive ors and, once for all blocks of a key, 18
// additions. Words of one block in one place have these in common, by CSE.
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/random.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_EXPANDRANDOMWORDS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace rng = fsdp_rt::rng;

namespace {
/// Emits words, or vectors of them.
class WordEmitter {
public:
  WordEmitter(OpBuilder &builder, RandomWordOp op)
      : builder(builder), loc(op.getLoc()), type(op.getType()) {}

  /// The word of which @number is the number.
  Value choose(Value number, ArrayRef<Value> block);
  void advance(MutableArrayRef<Value> counter, MutableArrayRef<Value> key);

private:
  Value constant(uint32_t value) {
    TypedAttr attr = builder.getI32IntegerAttr(int32_t(value));
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return arith::ConstantOp::create(builder, loc, attr);
  }
  template <typename Op>
  Value make(Value a, Value b) {
    return Op::create(builder, loc, a, b);
  }
  /// The lower and the upper words of products with @factor.
  std::pair<Value, Value> multiply(Value words, uint32_t factor);
  /// Those of a vector of an even number of words, of which even and odd ones
  /// are multiplied as parts of 64-bit lanes: processors have an instruction
  /// for the lower halves of such, and none for 32-bit lanes.
  std::pair<Value, Value> multiplyPairs(Value words, uint32_t factor);

  OpBuilder &builder;
  Location loc;
  Type type;
};
} // namespace

std::pair<Value, Value> WordEmitter::multiplyPairs(Value words,
                                                   uint32_t factor) {
  auto vector = cast<VectorType>(type);
  SmallVector<int64_t> shape(vector.getShape());
  shape.back() /= 2;
  auto wide = VectorType::get(shape, builder.getI64Type());
  auto splat = [&](uint64_t value) -> Value {
    return arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(wide,
                               builder.getI64IntegerAttr(int64_t(value))));
  };
  constexpr uint64_t low = 0xFFFFFFFF;
  Value pairs = vector::BitCastOp::create(builder, loc, wide, words);
  Value even = make<arith::MulIOp>(make<arith::AndIOp>(pairs, splat(low)),
                                   splat(factor));
  Value odd = make<arith::MulIOp>(make<arith::ShRUIOp>(pairs, splat(32)),
                                  splat(factor));
  Value lower = make<arith::OrIOp>(make<arith::AndIOp>(even, splat(low)),
                                   make<arith::ShLIOp>(odd, splat(32)));
  Value upper = make<arith::OrIOp>(make<arith::ShRUIOp>(even, splat(32)),
                                   make<arith::AndIOp>(odd, splat(~low)));
  return {vector::BitCastOp::create(builder, loc, type, lower),
          vector::BitCastOp::create(builder, loc, type, upper)};
}

std::pair<Value, Value> WordEmitter::multiply(Value words, uint32_t factor) {
  auto vector = dyn_cast<VectorType>(type);
  if (vector && vector.getRank() != 0 && !vector.isScalable() &&
      vector.getShape().back() % 2 == 0)
    return multiplyPairs(words, factor);
  auto product =
      arith::MulUIExtendedOp::create(builder, loc, words, constant(factor));
  return {product.getLow(), product.getHigh()};
}

void WordEmitter::advance(MutableArrayRef<Value> counter,
                          MutableArrayRef<Value> key) {
  auto [aLow, aHigh] = multiply(counter[0], rng::multiplier0);
  auto [bLow, bHigh] = multiply(counter[2], rng::multiplier2);
  auto mix = [&](Value high, Value word, Value keyWord) {
    return make<arith::XOrIOp>(make<arith::XOrIOp>(high, word), keyWord);
  };
  counter[0] = mix(bHigh, counter[1], key[0]);
  counter[1] = bLow;
  counter[2] = mix(aHigh, counter[3], key[1]);
  counter[3] = aLow;
  key[0] = make<arith::AddIOp>(key[0], constant(rng::keyStep0));
  key[1] = make<arith::AddIOp>(key[1], constant(rng::keyStep1));
}

Value WordEmitter::choose(Value number, ArrayRef<Value> block) {
  auto hasBit = [&](uint32_t bit) {
    return make<arith::AndIOp>(number, constant(bit));
  };
  auto select = [&](Value bit, Value set, Value clear) -> Value {
    Value isClear = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, bit, constant(0));
    return arith::SelectOp::create(builder, loc, isClear, clear, set);
  };
  Value low = hasBit(1), high = hasBit(2);
  return select(high, select(low, block[3], block[2]),
                select(low, block[1], block[0]));
}

namespace {
struct ExpandWord : OpRewritePattern<RandomWordOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RandomWordOp op,
                                PatternRewriter &rewriter) const override {
    WordEmitter emitter(rewriter, op);
    SmallVector<Value, 4> counter = {op.getCounter0(), op.getCounter1(),
                                     op.getCounter2(), op.getCounter3()};
    SmallVector<Value, 2> key = {op.getKey0(), op.getKey1()};
    for (int round = 0; round < rng::rounds; ++round)
      emitter.advance(counter, key);
    rewriter.replaceOp(op, emitter.choose(op.getWord(), counter));
    return success();
  }
};

struct ExpandRandomWords
    : fsdp::impl::ExpandRandomWordsBase<ExpandRandomWords> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandWord>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
