//===- ViewsTest.cpp - Views and moves as strides -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "fsdp/Analysis/Kernels/StridedLayout.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

/// The elements that a layout describes, in the value's own order.
static Elements readThrough(const ViewedValue &viewed, Value value,
                            const Elements &source) {
  Elements result;
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t position = viewed.layout.offset;
    for (auto [i, pieces] : llvm::zip(index, viewed.layout.dims)) {
      int64_t rest = i;
      for (StridedDim piece : llvm::reverse(pieces)) {
        position += rest % piece.size * piece.stride;
        rest /= piece.size;
      }
      EXPECT_EQ(rest, 0) << "a piece is missing";
    }
    result.push_back(source.at(position) * viewed.scale);
  });
  return result;
}

/// Random chains of views and moves; `check` sees every value of each.
static void forEachChain(
    llvm::function_ref<void(Value, llvm::DenseMap<Value, Elements> &)> check) {
  TestContext context;
  for (unsigned seed = 0; seed != 400; ++seed) {
    std::mt19937 random(seed);
    FunctionText text;
    std::vector<int64_t> shape;
    for (int64_t i = pick(random, 1, 4); i > 0; --i)
      shape.push_back(std::vector<int64_t>{1, 2, 3, 4, 6, 8}[random() % 6]);
    FunctionText::Tensor value = text.addArgument(shape);
    for (int64_t i = pick(random, 1, 5); i > 0; --i)
      value = text.addView(value, random);
    auto module = context.parse(text.str(value));
    ASSERT_TRUE(module) << text.str(value);
    auto func = *module->getOps<func::FuncOp>().begin();
    auto values = evaluate(func, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text.str(value));
    for (Operation &op : func.getBody().front())
      for (Value result : op.getResults())
        if (isa<RankedTensorType>(result.getType()))
          check(result, values);
    if (::testing::Test::HasFailure())
      return;
  }
}

TEST(ViewsTest, ViewsReadTheElementsOfTheirSource) {
  unsigned looked = 0;
  forEachChain([&](Value value, llvm::DenseMap<Value, Elements> &values) {
    ViewedValue viewed = lookThroughViews(value);
    EXPECT_EQ(viewed.scale, 1.0);
    EXPECT_EQ(readThrough(viewed, value, values[viewed.source]), values[value]);
    looked += viewed.source != value;
  });
  EXPECT_GT(looked, 200u);
}

TEST(ViewsTest, MovesReadTheElementsOfEverySource) {
  unsigned several = 0;
  forEachChain([&](Value value, llvm::DenseMap<Value, Elements> &values) {
    SmallVector<ViewedValue> all = lookThroughMoves(value, {});
    for (const ViewedValue &viewed : all)
      EXPECT_EQ(readThrough(viewed, value, values[viewed.source]),
                values[value]);
    several += all.size() > 1;
  });
  EXPECT_GT(several, 200u);
}

TEST(ViewsTest, HiddenSourcesAreLeftOut) {
  forEachChain([&](Value value, llvm::DenseMap<Value, Elements> &) {
    for (const ViewedValue &viewed : lookThroughMoves(value, {}))
      for (const ViewedValue &other : lookThroughMoves(value, {viewed.source}))
        EXPECT_NE(other.source, viewed.source);
  });
}

TEST(ViewsTest, ContiguousMeansInOrderFromTheFirst) {
  forEachChain([&](Value value, llvm::DenseMap<Value, Elements> &values) {
    ViewedValue viewed = lookThroughViews(value);
    if (!viewed.layout.isContiguous())
      return;
    Elements begin = values[viewed.source];
    ASSERT_LE(values[value].size(), begin.size());
    begin.resize(values[value].size());
    EXPECT_EQ(values[value], begin);
  });
}
