//===- ExpandRandomWords.cpp - Philox's rounds as arithmetic --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10, as fsdp-rt/random.h computes it. A block takes 20 products of
// 32 by 32 bits, 40 exclusive ors and, once for all blocks of a key, 18
// additions. Words of one block in one place have these in common, by CSE; in a
// vector of elements that follow each other each block is computed once.
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/random.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
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
/// Emits words in the type of counters and keys: i32, or vectors of it or of
/// i64. In 64 bits only the lower half of a word counts: the next product reads
/// no more, and it takes one instruction of processors for both halves.
class WordEmitter {
public:
  WordEmitter(OpBuilder &builder, Location loc, Type type)
      : builder(builder), loc(loc), type(type) {}

  /// Ten rounds, in place.
  void encrypt(MutableArrayRef<Value> counter, MutableArrayRef<Value> key);
  /// The word of which @number is the number.
  Value choose(Value number, ArrayRef<Value> block);

private:
  bool isWide() const { return getElementTypeOrSelf(type).isInteger(64); }
  Value constant(uint32_t value) {
    TypedAttr attr =
        builder.getIntegerAttr(getElementTypeOrSelf(type), int64_t(value));
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
  void advance(MutableArrayRef<Value> counter, MutableArrayRef<Value> key);

  OpBuilder &builder;
  Location loc;
  Type type;
};
} // namespace

std::pair<Value, Value> WordEmitter::multiply(Value words, uint32_t factor) {
  if (!isWide()) {
    auto product =
        arith::MulUIExtendedOp::create(builder, loc, words, constant(factor));
    return {product.getLow(), product.getHigh()};
  }
  Value lower = make<arith::AndIOp>(words, constant(0xFFFFFFFF));
  Value product = make<arith::MulIOp>(lower, constant(factor));
  return {product, make<arith::ShRUIOp>(product, constant(32))};
}

void WordEmitter::advance(MutableArrayRef<Value> counter,
                          MutableArrayRef<Value> key) {
  auto [aLow, aHigh] = multiply(counter[0], rng::multiplier0);
  auto [bLow, bHigh] = multiply(counter[2], rng::multiplier2);
  auto mix = [&](Value high, Value word, Value keyWord) {
    return make<arith::XOrIOp>(high, make<arith::XOrIOp>(word, keyWord));
  };
  counter[0] = mix(bHigh, counter[1], key[0]);
  counter[1] = bLow;
  counter[2] = mix(aHigh, counter[3], key[1]);
  counter[3] = aLow;
  key[0] = make<arith::AddIOp>(key[0], constant(rng::keyStep0));
  key[1] = make<arith::AddIOp>(key[1], constant(rng::keyStep1));
}

void WordEmitter::encrypt(MutableArrayRef<Value> counter,
                          MutableArrayRef<Value> key) {
  for (int round = 0; round < rng::rounds; ++round)
    advance(counter, key);
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

//===----------------------------------------------------------------------===//
// Elements that follow each other
//===----------------------------------------------------------------------===//

/// What all lanes of @vector hold; null: they may differ.
static Value getSplat(OpBuilder &builder, Value vector) {
  if (auto broadcast = vector.getDefiningOp<vector::BroadcastOp>();
      broadcast && !isa<VectorType>(broadcast.getSourceType()))
    return broadcast.getSource();
  SplatElementsAttr splat;
  if (!matchPattern(vector, m_Constant(&splat)))
    return {};
  return arith::ConstantOp::create(builder, vector.getLoc(),
                                   splat.getSplatValue<TypedAttr>());
}

static bool isSplatOf(Value vector, int64_t value) {
  APInt splat;
  return matchPattern(vector, m_ConstantInt(&splat)) && splat == value;
}

/// The first lane of @vector, where each holds 1 more than the one before;
/// null: that is not known.
static Value getFirst(OpBuilder &builder, Value vector) {
  Operation *def = vector.getDefiningOp();
  Location loc = vector.getLoc();
  Type element = getElementTypeOrSelf(vector.getType());
  if (isa_and_present<vector::StepOp>(def))
    return arith::ConstantIndexOp::create(builder, loc, 0);
  if (isa_and_present<arith::AddIOp>(def))
    for (unsigned i : {0u, 1u})
      if (Value first = getFirst(builder, def->getOperand(i)))
        if (Value more = getSplat(builder, def->getOperand(1 - i)))
          return arith::AddIOp::create(builder, loc, first, more);
  // Narrower integers may begin anew within a vector.
  bool isWide = !element.isInteger() || element.getIntOrFloatBitWidth() >= 32;
  if (isWide && isa_and_present<arith::IndexCastOp, arith::TruncIOp>(def))
    if (Value first = getFirst(builder, def->getOperand(0)))
      return builder
          .create(loc, def->getName().getIdentifier(), first, element)
          ->getResult(0);
  DenseIntElementsAttr numbers;
  if (!matchPattern(vector, m_Constant(&numbers)) || numbers.isSplat())
    return {};
  auto values = llvm::to_vector(numbers.getValues<APInt>());
  for (size_t i = 1; i != values.size(); ++i)
    if (values[i] != values[0] + i)
      return {};
  return arith::ConstantOp::create(builder, loc,
                                   builder.getIntegerAttr(element, values[0]));
}

namespace {
/// Words of elements that follow each other: one block for four of them.
class RowEmitter {
public:
  RowEmitter(OpBuilder &builder, RandomWordOp op)
      : builder(builder), loc(op.getLoc()), op(op) {}

  /// Null where the elements are not known to follow each other.
  Value emit();

private:
  bool match();
  Value scalar(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  }
  /// All words of @blocks blocks from @first on, one word after the other.
  Value emitBlocks(Value first, int64_t blocks);

  OpBuilder &builder;
  Location loc;
  RandomWordOp op;
  /// The number of the first element; what all have in common.
  Value first, counter[3], key[2];
};
} // namespace

bool RowEmitter::match() {
  // word = number & 3, counter0 = number >> 2.
  auto place = op.getWord().getDefiningOp<arith::AndIOp>();
  auto block = op.getCounter0().getDefiningOp<arith::ShRUIOp>();
  auto bits = int64_t(llvm::Log2_64(rng::wordsOfBlock));
  if (!place || !block || place.getLhs() != block.getLhs() ||
      !isSplatOf(place.getRhs(), rng::wordsOfBlock - 1) ||
      !isSplatOf(block.getRhs(), bits))
    return false;
  Value common[] = {op.getCounter1(), op.getCounter2(), op.getCounter3(),
                    op.getKey0(), op.getKey1()};
  Value *splats[] = {&counter[0], &counter[1], &counter[2], &key[0], &key[1]};
  for (auto [vector, splat] : llvm::zip_equal(common, splats))
    if (!(*splat = getSplat(builder, vector)))
      return false;
  return (first = getFirst(builder, place.getLhs())) != nullptr;
}

Value RowEmitter::emitBlocks(Value firstBlock, int64_t blocks) {
  auto narrow = VectorType::get({blocks}, builder.getI32Type());
  auto wide = VectorType::get({blocks}, builder.getI64Type());
  auto widen = [&](Value splat) -> Value {
    return vector::BroadcastOp::create(
        builder, loc, wide,
        arith::ExtUIOp::create(builder, loc, builder.getI64Type(), splat));
  };
  Value numbers = arith::AddIOp::create(
      builder, loc,
      vector::BroadcastOp::create(builder, loc, narrow, firstBlock),
      arith::IndexCastOp::create(
          builder, loc, narrow,
          vector::StepOp::create(
              builder, loc,
              VectorType::get({blocks}, builder.getIndexType()))));
  SmallVector<Value, 4> words = {
      arith::ExtUIOp::create(builder, loc, wide, numbers)};
  SmallVector<Value, 2> keys;
  llvm::append_range(words, llvm::map_range(counter, widen));
  llvm::append_range(keys, llvm::map_range(key, widen));
  WordEmitter(builder, loc, wide).encrypt(words, keys);
  for (Value &word : words)
    word = arith::TruncIOp::create(builder, loc, narrow, word);
  auto weave = [&](Value even, Value odd) -> Value {
    return vector::InterleaveOp::create(builder, loc, even, odd);
  };
  return weave(weave(words[0], words[2]), weave(words[1], words[3]));
}

Value RowEmitter::emit() {
  auto type = cast<VectorType>(op.getType());
  int64_t lanes = type.getNumElements();
  if (lanes % rng::wordsOfBlock != 0 || !match())
    return {};
  int64_t blocks = lanes / rng::wordsOfBlock;
  Value bits = scalar(int64_t(llvm::Log2_64(rng::wordsOfBlock)));
  Value block = arith::ShRUIOp::create(builder, loc, first, bits);
  Value words = emitBlocks(block, blocks);
  // Where the first element is no first word, the last ones are of a further
  // block.
  Value skipped =
      arith::AndIOp::create(builder, loc, first, scalar(rng::wordsOfBlock - 1));
  SmallVector<int64_t> cases;
  for (int64_t word = 1; word < rng::wordsOfBlock; ++word)
    cases.push_back(word);
  auto choice = scf::IndexSwitchOp::create(
      builder, loc, type,
      arith::IndexCastOp::create(builder, loc, builder.getIndexType(), skipped),
      cases, int(cases.size()));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&choice.getDefaultRegion());
  scf::YieldOp::create(builder, loc, words);
  for (auto [number, region] :
       llvm::zip_equal(cases, choice.getCaseRegions())) {
    builder.createBlock(&region);
    Value last = emitBlocks(
        arith::AddIOp::create(builder, loc, block, scalar(blocks)), 1);
    SmallVector<int64_t> moved;
    for (int64_t lane = 0; lane < lanes; ++lane)
      moved.push_back(lane + number);
    scf::YieldOp::create(
        builder, loc,
        vector::ShuffleOp::create(builder, loc, words, last, moved)
            .getResult());
  }
  return choice.getResult(0);
}

namespace {
struct ExpandWord : OpRewritePattern<RandomWordOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RandomWordOp op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    Value word = op.getWord();
    SmallVector<Value, 4> counter = {op.getCounter0(), op.getCounter1(),
                                     op.getCounter2(), op.getCounter3()};
    SmallVector<Value, 2> key = {op.getKey0(), op.getKey1()};
    auto vector = dyn_cast<VectorType>(type);
    bool isRow = vector && vector.getRank() == 1 && !vector.isScalable();
    if (!isRow) {
      WordEmitter emitter(rewriter, op.getLoc(), type);
      emitter.encrypt(counter, key);
      rewriter.replaceOp(op, emitter.choose(word, counter));
      return success();
    }
    if (Value words = RowEmitter(rewriter, op).emit()) {
      rewriter.replaceOp(op, words);
      return success();
    }
    Type wide = vector.clone(rewriter.getI64Type());
    auto widen = [&](Value &words) {
      words = arith::ExtUIOp::create(rewriter, op.getLoc(), wide, words);
    };
    widen(word);
    llvm::for_each(counter, widen);
    llvm::for_each(key, widen);
    WordEmitter emitter(rewriter, op.getLoc(), wide);
    emitter.encrypt(counter, key);
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, type,
                                                 emitter.choose(word, counter));
    return success();
  }
};

struct ExpandRandomWords
    : fsdp::impl::ExpandRandomWordsBase<ExpandRandomWords> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, scf::SCFDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandWord>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
