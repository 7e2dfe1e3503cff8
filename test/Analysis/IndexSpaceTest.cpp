//===- IndexSpaceTest.cpp - Loops that several ops have in common ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/IndexSpace.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir::fsdp;

namespace {

using AtomList = IndexSpace::AtomList;

/// Loops of these sizes, outermost first.
AtomList create(IndexSpace &space, llvm::ArrayRef<int64_t> sizes) {
  AtomList atoms;
  for (int64_t size : sizes)
    atoms.append(space.create(size));
  return atoms;
}

std::vector<int64_t> getSizes(const IndexSpace &space, const AtomList &atoms) {
  std::vector<int64_t> sizes;
  for (IndexSpace::Atom atom : space.resolve(atoms))
    sizes.push_back(space.getSize(atom));
  return sizes;
}

TEST(IndexSpace, LoopsOfOneVanish) {
  IndexSpace space;
  EXPECT_TRUE(space.create(1).empty());
  AtomList a = create(space, {1, 4, 1}), b = create(space, {4});
  EXPECT_TRUE(space.unify(a, b));
  EXPECT_EQ(space.resolve(a), space.resolve(b));
}

TEST(IndexSpace, ReshapesShareAtoms) {
  IndexSpace space;
  AtomList a = create(space, {4, 64, 128}), b = create(space, {256, 128}),
           c = create(space, {2, 2, 8192});
  ASSERT_TRUE(space.unify(a, b));
  ASSERT_TRUE(space.unify(b, c));
  EXPECT_EQ(getSizes(space, a), (std::vector<int64_t>{2, 2, 64, 128}));
  EXPECT_EQ(space.resolve(a), space.resolve(b));
  EXPECT_EQ(space.resolve(a), space.resolve(c));
}

TEST(IndexSpace, RefusesWhatDoesNotFit) {
  auto unify = [](llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
    IndexSpace space;
    AtomList left = create(space, a), right = create(space, b);
    return space.unify(left, right);
  };
  EXPECT_FALSE(unify({4}, {6}));       // neither divides the other
  EXPECT_FALSE(unify({4, 6}, {6, 4})); // same total, other borders
  EXPECT_FALSE(unify({2, 4}, {4}));    // one list is longer
  EXPECT_FALSE(unify({}, {2}));
  EXPECT_TRUE(unify({}, {}));
}

/// Sizes of neighbours multiplied together, at random.
std::vector<int64_t> group(llvm::ArrayRef<int64_t> factors,
                           std::mt19937 &random) {
  std::vector<int64_t> grouped;
  for (int64_t factor : factors)
    if (grouped.empty() || random() % 2)
      grouped.push_back(factor);
    else
      grouped.back() *= factor;
  return grouped;
}

std::vector<int64_t> drawFactors(std::mt19937 &random) {
  std::vector<int64_t> factors;
  for (unsigned i = 0, e = 1 + random() % 5; i < e; ++i)
    factors.push_back(1 + random() % 4);
  return factors;
}

TEST(IndexSpace, GroupingsOfTheSameFactorsAlwaysUnify) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> factors = drawFactors(random);
    IndexSpace space;
    std::vector<AtomList> lists;
    for (int i = 0; i < 4; ++i)
      lists.push_back(create(space, group(factors, random)));
    for (int i = 1; i < 4; ++i)
      ASSERT_TRUE(space.unify(lists[0], lists[i])) << "round " << round;
    int64_t total = 1;
    for (int64_t factor : factors)
      total *= factor;
    for (const AtomList &list : lists) {
      EXPECT_EQ(space.resolve(list), space.resolve(lists[0]));
      EXPECT_EQ(space.getTotalSize(list), total);
      int64_t product = 1;
      for (int64_t size : getSizes(space, list)) {
        EXPECT_GT(size, 1);
        product *= size;
      }
      EXPECT_EQ(product, total);
    }
  }
}

/// Where step `index` of a walk over `dims` (major to minor) lies.
int64_t walk(llvm::ArrayRef<StridedDim> dims, int64_t index) {
  int64_t offset = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    offset += index % dims[i].size * dims[i].stride;
    index /= dims[i].size;
  }
  return offset;
}

TEST(IndexSpace, StridesOfAtomsWalkTheSameMemory) {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> factors = drawFactors(random);
    IndexSpace space;
    AtomList atoms = create(space, group(factors, random));
    std::vector<StridedDim> dims;
    int64_t total = 1;
    for (int64_t size : group(factors, random)) {
      dims.push_back({size, static_cast<int64_t>(random() % 100)});
      total *= size;
    }
    ASSERT_TRUE(space.splitAt(atoms, dims)) << "round " << round;
    AtomList resolved = space.resolve(atoms);
    llvm::SmallVector<int64_t, 4> strides = space.getStrides(resolved, dims);
    std::vector<StridedDim> loops;
    for (size_t i = 0; i < resolved.size(); ++i)
      loops.push_back({space.getSize(resolved[i]), strides[i]});
    for (int64_t i = 0; i < total; ++i)
      ASSERT_EQ(walk(loops, i), walk(dims, i)) << "round " << round;
  }
}

TEST(IndexSpace, SplitAtRefusesOtherBorders) {
  IndexSpace space;
  AtomList atoms = create(space, {4, 6});
  EXPECT_FALSE(space.splitAt(atoms, {{6, 4}, {4, 1}}));
  IndexSpace other;
  EXPECT_FALSE(other.splitAt(create(other, {4}), {{2, 4}, {4, 1}}));
  IndexSpace third;
  EXPECT_FALSE(third.splitAt(create(third, {4, 2}), {{2, 1}}));
}

TEST(IndexSpace, AppendedAtomsKeepWhatTheyStandFor) {
  IndexSpace other;
  AtomList a = create(other, {4, 6}), b = create(other, {2, 12});
  ASSERT_TRUE(other.unify(a, b));
  IndexSpace space;
  AtomList own = create(space, {24});
  IndexSpace::Atom base = space.append(other);
  for (IndexSpace::Atom &atom : a)
    atom += base;
  for (IndexSpace::Atom &atom : b)
    atom += base;
  EXPECT_EQ(getSizes(space, a), (std::vector<int64_t>{2, 2, 6}));
  EXPECT_EQ(space.resolve(a), space.resolve(b));
  EXPECT_EQ(getSizes(space, own), (std::vector<int64_t>{24}));
  ASSERT_TRUE(space.unify(own, a));
  EXPECT_EQ(space.resolve(own), space.resolve(b));
}

} // namespace
