//===- StridedLayoutTest.cpp - A tensor as a view of another --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/StridedLayout.h"

#include "ModuleTest.h"
#include "llvm/ADT/SmallBitVector.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace mlir;
using namespace mlir::fsdp;

namespace {

/// Where each element of a layout lies in the source, row-major.
std::vector<int64_t> enumerate(const StridedLayout &layout) {
  std::vector<int64_t> places{layout.offset};
  for (const StridedLayout::Dim &dim : layout.dims)
    for (StridedDim piece : dim) {
      std::vector<int64_t> next;
      for (int64_t place : places)
        for (int64_t i = 0; i < piece.size; ++i)
          next.push_back(place + i * piece.stride);
      places = std::move(next);
    }
  return places;
}

/// A tensor whose elements are their own places in the source: what views do
/// to it is what they must do to a layout.
struct Reference {
  std::vector<int64_t> shape, places;

  explicit Reference(std::vector<int64_t> shape) : shape(std::move(shape)) {
    places.resize(getNumElements());
    std::iota(places.begin(), places.end(), 0);
  }
  int64_t getNumElements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                           std::multiplies<>());
  }
  /// Element `i` of a result of `newShape` is the one at `map(coordinates)`.
  void
  rebuild(std::vector<int64_t> newShape,
          llvm::function_ref<std::vector<int64_t>(ArrayRef<int64_t>)> map) {
    std::vector<int64_t> old = shape, result;
    shape = std::move(newShape);
    for (int64_t i = 0, e = getNumElements(); i < e; ++i) {
      std::vector<int64_t> at(shape.size());
      for (int64_t d = shape.size(), rest = i; d-- > 0; rest /= shape[d])
        at[d] = rest % shape[d];
      std::vector<int64_t> from = map(at);
      int64_t linear = 0;
      for (auto [size, index] : llvm::zip(old, from))
        linear = linear * size + index;
      result.push_back(places[linear]);
    }
    places = std::move(result);
  }
};

TEST(StridedLayout, ContiguousOfAnyShape) {
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{}, {1}, {5}, {2, 3, 4}, {2, 1, 3}, {1, 1}}) {
    StridedLayout layout = StridedLayout::getContiguous(shape);
    EXPECT_EQ(layout.dims.size(), shape.size());
    EXPECT_TRUE(layout.isContiguous());
    EXPECT_EQ(enumerate(layout), Reference(shape).places);
  }
}

/// Draws views one after another and applies each to both.
class RandomViews {
public:
  explicit RandomViews(unsigned seed) : random(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random() % n); }

  /// Applies a random view to layout and reference; false where strides cannot
  /// tell (the reference is then ahead).
  bool apply(StridedLayout &layout, Reference &reference) {
    switch (below(5)) {
    case 0:
      return transpose(layout, reference);
    case 1:
      return collapse(layout, reference);
    case 2:
      return expand(layout, reference);
    case 3:
      return slice(layout, reference);
    default:
      return drop(layout, reference);
    }
  }

private:
  bool transpose(StridedLayout &layout, Reference &reference) {
    std::vector<int64_t> order(reference.shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    StridedLayout moved;
    moved.offset = layout.offset;
    std::vector<int64_t> shape;
    for (int64_t dim : order) {
      moved.dims.push_back(layout.dims[dim]);
      shape.push_back(reference.shape[dim]);
    }
    layout = moved;
    reference.rebuild(shape, [&](ArrayRef<int64_t> at) {
      std::vector<int64_t> from(at.size());
      for (auto [i, dim] : llvm::enumerate(order))
        from[dim] = at[i];
      return from;
    });
    return true;
  }

  bool collapse(StridedLayout &layout, Reference &reference) {
    SmallVector<SmallVector<int64_t, 2>> groups;
    std::vector<int64_t> shape;
    for (auto [i, size] : llvm::enumerate(reference.shape)) {
      if (groups.empty() || below(2)) {
        groups.emplace_back();
        shape.push_back(1);
      }
      groups.back().push_back(i);
      shape.back() *= size;
    }
    layout = layout.collapse(groups);
    reference.shape = shape;
    return true;
  }

  bool expand(StridedLayout &layout, Reference &reference) {
    SmallVector<SmallVector<int64_t, 2>> groups;
    std::vector<int64_t> shape;
    for (int64_t size : reference.shape) {
      groups.emplace_back();
      for (int64_t factor : {2, 3, 1})
        if (size % factor == 0 && below(2)) {
          groups.back().push_back(shape.size());
          shape.push_back(factor);
          size /= factor;
        }
      groups.back().push_back(shape.size());
      shape.push_back(size);
    }
    reference.shape = shape;
    std::optional<StridedLayout> expanded = layout.expand(groups, shape);
    if (expanded)
      layout = *expanded;
    return expanded.has_value();
  }

  bool slice(StridedLayout &layout, Reference &reference) {
    SmallVector<int64_t> offsets, sizes, strides;
    for (int64_t size : reference.shape) {
      offsets.push_back(below(3) ? 0 : below(size));
      strides.push_back(below(2) ? 1 : 1 + below(3));
      int64_t most = (size - offsets.back() - 1) / strides.back() + 1;
      sizes.push_back(below(2) ? most : 1 + below(most));
    }
    reference.rebuild({sizes.begin(), sizes.end()}, [&](ArrayRef<int64_t> at) {
      std::vector<int64_t> from;
      for (auto [i, index] : llvm::enumerate(at))
        from.push_back(offsets[i] + index * strides[i]);
      return from;
    });
    std::optional<StridedLayout> sliced = layout.slice(offsets, sizes, strides);
    if (sliced)
      layout = *sliced;
    return sliced.has_value();
  }

  bool drop(StridedLayout &layout, Reference &reference) {
    llvm::SmallBitVector dropped(reference.shape.size());
    std::vector<int64_t> shape;
    for (auto [i, size] : llvm::enumerate(reference.shape)) {
      if (size == 1 && below(2))
        dropped.set(i);
      else
        shape.push_back(size);
    }
    layout = layout.drop(dropped);
    reference.shape = shape;
    return true;
  }

  std::mt19937 random;
};

TEST(StridedLayout, AgreesWithTheReferenceOnRandomViews) {
  RandomViews views(13);
  int told = 0, contiguous = 0, scattered = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> shape;
    for (int64_t i = 0, e = 1 + views.below(4); i < e; ++i)
      shape.push_back(1 + views.below(6));
    StridedLayout layout = StridedLayout::getContiguous(shape);
    Reference reference(shape);
    for (int step = 0; step < 8 && views.apply(layout, reference); ++step) {
      ASSERT_EQ(layout.dims.size(), reference.shape.size());
      ASSERT_EQ(enumerate(layout), reference.places) << "round " << round;
      std::vector<int64_t> whole(reference.places.size());
      std::iota(whole.begin(), whole.end(), 0);
      ASSERT_EQ(layout.isContiguous(), reference.places == whole)
          << "round " << round;
      ++told;
      ++(layout.isContiguous() ? contiguous : scattered);
    }
  }
  // The rounds did not all end at once.
  EXPECT_GT(told, 1000);
  EXPECT_GT(contiguous, 200);
  EXPECT_GT(scattered, 200);
}

TEST(StridedLayout, RowMajorReshapesNeverFail) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    int64_t a = 1 + random() % 6, b = 1 + random() % 6, c = 1 + random() % 6;
    StridedLayout layout = StridedLayout::getContiguous({a, b, c});
    std::optional<StridedLayout> split =
        layout.collapse({{0, 1, 2}}).expand({{0, 1}}, {a * b, c});
    ASSERT_TRUE(split.has_value());
    EXPECT_TRUE(split->isContiguous());
  }
}

using Views = ModuleTest;

TEST_F(Views, LooksThroughReshapesSlicesAndMoves) {
  ModuleOp parsed = parse(R"(
func.func @f(%w: tensor<4x6xf32>) -> tensor<3x2xf32> {
  %s = tensor.extract_slice %w[1, 0] [2, 3] [1, 2] : tensor<4x6xf32> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%s : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %c = tensor.collapse_shape %t [[0, 1]] : tensor<3x2xf32> into tensor<6xf32>
  %x = tensor.expand_shape %c [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  return %x : tensor<3x2xf32>
})");
  auto func = *parsed.getOps<func::FuncOp>().begin();
  Value result = func.getBody().front().getTerminator()->getOperand(0);
  // Views alone end at the transpose.
  ViewedValue viewed = lookThroughViews(result);
  EXPECT_TRUE(viewed.source.getDefiningOp<linalg::TransposeOp>());
  EXPECT_TRUE(viewed.layout.isContiguous());
  // With moves, everything is memory of the argument.
  SmallVector<ViewedValue> sources = lookThroughMoves(result, {});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].source, func.getArgument(0));
  EXPECT_EQ(enumerate(sources[0].layout),
            (std::vector<int64_t>{6, 12, 8, 14, 10, 16}));
  EXPECT_EQ(lookThroughMoves(result, {Value(func.getArgument(0))}).size(), 1u);
}

TEST_F(Views, MovesScaleAndBroadcast) {
  ModuleOp parsed = parse(R"(
func.func @f(%b: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<2x3xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.mulf %x, %half : f32
    linalg.yield %y : f32
  } -> tensor<2x3xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.mulf %x, %x : f32
    linalg.yield %y : f32
  } -> tensor<2x3xf32>
  return %m, %n : tensor<2x3xf32>, tensor<2x3xf32>
})");
  auto func = *parsed.getOps<func::FuncOp>().begin();
  Operation *ret = func.getBody().front().getTerminator();
  std::optional<Move> move = getMove(ret->getOperand(0).getDefiningOp());
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->dims, (SmallVector<int64_t>{-1, 0}));
  EXPECT_EQ(move->scale, 0.5);
  EXPECT_FALSE(move->isPermutation());
  EXPECT_FALSE(getMove(ret->getOperand(1).getDefiningOp()).has_value());
  SmallVector<ViewedValue> sources = lookThroughMoves(ret->getOperand(0), {});
  EXPECT_EQ(sources[0].scale, 0.5);
  EXPECT_EQ(enumerate(sources[0].layout),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
}

} // namespace
