//===- ExpandRandom.cpp - Random numbers as arithmetic --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The counter of Philox4x32-10 is that of fsdp-rt/random.h. Box and Muller's
// method ("A note on the generation of random normal deviates", 1958) takes the
// words 2 i and 2 i + 1 of a block for its normals 2 i and 2 i + 1:
//
//   sqrt(-2 log u) cos(2 pi v), sqrt(-2 log u) sin(2 pi v)
//
// with u in (0, 1] and v in [0, 1), multiples of 2^-24. The sine is the cosine
// of a quarter turn less.
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp-rt/random.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_EXPANDRANDOM
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace rng = fsdp_rt::rng;

namespace {
/// Scalars of a program, of which an element is a function.
struct DrawScalars {
  Value seed, step;
  /// Null where nothing that is drawn depends on it.
  Value rank;
  /// The number of the micro-batch, in f32; null where a step has one.
  Value microBatch;
};

/// Emits the element of one op, in the body of its linalg.generic.
class ElementEmitter {
public:
  ElementEmitter(OpBuilder &builder, RandomOp op)
      : builder(builder), loc(op.getLoc()), op(op) {}

  /// @scalars: elements of those, as the body sees them.
  Value emit(const DrawScalars &scalars);

private:
  Value constant(int64_t value, Type type) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getIntegerAttr(type, value));
  }
  Value word(int64_t value) { return constant(value, builder.getI32Type()); }
  Value real(double value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(float(value)));
  }
  template <typename Op>
  Value make(Value a, Value b) {
    return Op::create(builder, loc, a, b);
  }
  Value toWord(Value wide) {
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(), wide);
  }
  /// The row-major number of the element: an i32 where those hold it.
  Value getNumber();
  /// Of the block, and which word of it the element is.
  void setCounter(const DrawScalars &scalars);
  Value draw(Value which) {
    return RandomWordOp::create(builder, loc, which, counter[0], counter[1],
                                counter[2], counter[3], key[0], key[1]);
  }
  /// The upper 24 bits of a word and @more, times 2^-24.
  Value toUniform(Value word, int64_t more = 0);
  Value createNormal();

  OpBuilder &builder;
  Location loc;
  RandomOp op;
  Value counter[4], key[2], place;
};
} // namespace

Value ElementEmitter::getNumber() {
  RankedTensorType type = op.getType();
  bool isNarrow = type.getNumElements() <= std::numeric_limits<int32_t>::max();
  Type numbers = isNarrow ? builder.getI32Type() : builder.getI64Type();
  Value number;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    if (size == 1)
      continue;
    Value index = arith::IndexCastOp::create(
        builder, loc, numbers,
        linalg::IndexOp::create(builder, loc, int64_t(dim)));
    if (number)
      index = make<arith::AddIOp>(
          make<arith::MulIOp>(number, constant(size, numbers)), index);
    number = index;
  }
  return number ? number : constant(0, numbers);
}

void ElementEmitter::setCounter(const DrawScalars &scalars) {
  Value number = getNumber();
  Type type = number.getType();
  auto bits = int64_t(llvm::Log2_64(rng::wordsOfBlock));
  Value block = make<arith::ShRUIOp>(number, constant(bits, type));
  place = make<arith::AndIOp>(number, constant(rng::wordsOfBlock - 1, type));
  Value rank = word(0), microBatch = word(0);
  if (!op.getShared())
    rank = make<arith::ShLIOp>(toWord(scalars.rank), word(rng::rankShift));
  if (scalars.microBatch)
    microBatch = make<arith::ShLIOp>(
        arith::FPToSIOp::create(builder, loc, builder.getI32Type(),
                                scalars.microBatch),
        word(rng::microBatchShift));
  counter[0] = block;
  counter[1] = rank;
  if (type.isInteger(64)) {
    counter[0] = toWord(block);
    place = toWord(place);
    Value upper = toWord(make<arith::ShRUIOp>(block, constant(32, type)));
    counter[1] = make<arith::OrIOp>(rank, upper);
  }
  counter[2] = make<arith::OrIOp>(microBatch, word(int64_t(op.getSite())));
  counter[3] = toWord(scalars.step);
  key[0] = toWord(scalars.seed);
  key[1] = toWord(
      make<arith::ShRUIOp>(scalars.seed, constant(32, scalars.seed.getType())));
}

Value ElementEmitter::toUniform(Value word, int64_t more) {
  Value bits = make<arith::ShRUIOp>(word, this->word(8));
  if (more != 0)
    bits = make<arith::AddIOp>(bits, this->word(more));
  // They are not negative: processors convert signed words alone at once.
  Value number =
      arith::SIToFPOp::create(builder, loc, builder.getF32Type(), bits);
  return make<arith::MulFOp>(number, real(1.0 / (1 << 24)));
}

Value ElementEmitter::createNormal() {
  Value first = draw(make<arith::AndIOp>(place, word(2)));
  Value second = draw(make<arith::OrIOp>(place, word(1)));
  Value radius = math::SqrtOp::create(
      builder, loc,
      make<arith::MulFOp>(
          math::LogOp::create(builder, loc, toUniform(first, /*more=*/1)),
          real(-2)));
  Value turn = arith::SIToFPOp::create(builder, loc, builder.getF32Type(),
                                       make<arith::AndIOp>(place, word(1)));
  Value angle = make<arith::SubFOp>(toUniform(second),
                                    make<arith::MulFOp>(turn, real(0.25)));
  Value cosine = math::CosOp::create(
      builder, loc, make<arith::MulFOp>(angle, real(2 * llvm::numbers::pi)));
  return make<arith::MulFOp>(radius, cosine);
}

Value ElementEmitter::emit(const DrawScalars &scalars) {
  setCounter(scalars);
  switch (op.getKind()) {
  case RandomKind::bits:
    return draw(place);
  case RandomKind::uniform:
    return toUniform(draw(place));
  case RandomKind::normal:
    return createNormal();
  }
  llvm_unreachable("no other kinds");
}

static void expand(RandomOp op, const DrawScalars &scalars) {
  OpBuilder builder(op);
  RankedTensorType type = op.getType();
  SmallVector<Value> inputs = {scalars.seed, scalars.step};
  if (!op.getShared())
    inputs.push_back(scalars.rank);
  if (scalars.microBatch)
    inputs.push_back(scalars.microBatch);
  int64_t rank = type.getRank();
  SmallVector<AffineMap> maps(inputs.size(),
                              AffineMap::get(rank, 0, op.getContext()));
  maps.push_back(builder.getMultiDimIdentityMap(unsigned(rank)));
  Value empty = tensor::EmptyOp::create(builder, op.getLoc(), type.getShape(),
                                        type.getElementType());
  auto generic = linalg::GenericOp::create(
      builder, op.getLoc(), type, inputs, empty, maps,
      SmallVector<utils::IteratorType>(size_t(rank),
                                       utils::IteratorType::parallel),
      [&](OpBuilder &inner, Location loc, ValueRange args) {
        DrawScalars elements = {args[0], args[1], {}, {}};
        if (!op.getShared())
          elements.rank = args[2];
        if (scalars.microBatch)
          elements.microBatch = args[inputs.size() - 1];
        linalg::YieldOp::create(inner, loc,
                                ElementEmitter(inner, op).emit(elements));
      });
  op.replaceAllUsesWith(generic.getResult(0));
  op.erase();
}

/// The argument of @program that is the scalar of this name; null: none is.
static BlockArgument findScalar(ProgramOp program, StringRef name) {
  for (BlockArgument arg : program.getBody().getArguments()) {
    auto entry = program.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                          names::kScalar);
    if (entry && entry.getAs<StringAttr>("name").getValue() == name)
      return arg;
  }
  return {};
}

static DrawScalars addScalars(ProgramOp program, bool needsRank) {
  auto type =
      RankedTensorType::get({}, IntegerType::get(program.getContext(), 64));
  auto getOrAdd = [&](const scalars::Traits &scalar) -> Value {
    if (BlockArgument found = findScalar(program, scalar.name))
      return found;
    return addScalarArgument(program, scalar, type);
  };
  DrawScalars added;
  added.seed = getOrAdd(scalars::randomSeed);
  added.step = getOrAdd(scalars::randomStep);
  if (needsRank)
    added.rank = getOrAdd(scalars::randomRank);
  added.microBatch = findScalar(program, scalars::accumulated.name);
  return added;
}

namespace {
struct ExpandRandom : fsdp::impl::ExpandRandomBase<ExpandRandom> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto program : module.getOps<ProgramOp>()) {
      auto ops = llvm::to_vector(program.getOps<RandomOp>());
      if (ops.empty())
        continue;
      bool needsRank =
          llvm::any_of(ops, [](RandomOp op) { return !op.getShared(); });
      if (needsRank && failed(checkRanks(program)))
        return signalPassFailure();
      DrawScalars scalars = addScalars(program, needsRank);
      for (RandomOp op : ops)
        expand(op, scalars);
    }
  }

private:
  LogicalResult checkRanks(ProgramOp program) {
    for (auto mesh : getOperation().getOps<MeshOp>())
      if (int64_t ranks = mesh.getWorldSize(); ranks > rng::mostRanks)
        return emitInputError(program, "expected at most ")
               << rng::mostRanks
               << " ranks, each of which draws random numbers of its own, got "
               << ranks;
    return success();
  }
};
} // namespace
