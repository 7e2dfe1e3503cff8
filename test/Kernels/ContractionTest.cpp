//===- ContractionTest.cpp - Sums of products as calls of a BLAS ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "fsdp/Analysis/Kernels/Contraction.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

/// What the call computes, element by element, and the rules it must keep.
static void multiply(const MatmulShape &s, const Elements &a, const Elements &b,
                     Elements &c, bool accumulate) {
  // BLAS requires leading dimensions that hold a row.
  EXPECT_GE(s.lda, s.transA ? s.m : s.k);
  EXPECT_GE(s.ldb, s.transB ? s.k : s.n);
  EXPECT_GE(s.ldc, s.n);
  std::vector<bool> written(c.size());
  forEachIndex(s.batch, [&](ArrayRef<int64_t> batch) {
    int64_t at = s.offsetA, bt = s.offsetB, ct = s.offsetC;
    for (unsigned i = 0; i != 4; ++i) {
      at += batch[i] * s.strideA[i];
      bt += batch[i] * s.strideB[i];
      ct += batch[i] * s.strideC[i];
    }
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += a.at(at + (s.transA ? k * s.lda + i : i * s.lda + k)) *
                 b.at(bt + (s.transB ? j * s.ldb + k : k * s.ldb + j));
        int64_t position = ct + i * s.ldc + j;
        EXPECT_FALSE(written.at(position)) << "written twice";
        written[position] = true;
        c[position] = s.alpha * sum + (accumulate ? c[position] : 0.0);
      }
  });
  EXPECT_FALSE(llvm::is_contained(written, false)) << "not all is written";
}

namespace {
/// A random contraction and what is around it.
class RandomContraction {
public:
  explicit RandomContraction(unsigned seed) : random(seed) { build(); }

  std::string str() const { return text.str(result); }
  std::mt19937 random;

private:
  void build();
  FunctionText::Tensor addOperand(ArrayRef<unsigned> loops);
  FunctionText::Tensor addTranspose(FunctionText::Tensor value);

  FunctionText text;
  FunctionText::Tensor result;
  std::vector<int64_t> sizes;
};
} // namespace

FunctionText::Tensor
RandomContraction::addTranspose(FunctionText::Tensor value) {
  // Permutations only: the shape must stay that of the loops.
  unsigned rank = value.shape.size();
  std::vector<unsigned> in(rank), out(rank);
  for (unsigned i = 0; i != rank; ++i)
    in[i] = out[i] = i;
  std::shuffle(in.begin(), in.end(), random);
  std::vector<int64_t> shape(rank);
  std::string iterators;
  for (unsigned i = 0; i != rank; ++i) {
    shape[in[i]] = value.shape[i];
    iterators += std::string(i ? ", " : "") + "\"parallel\"";
  }
  FunctionText::Tensor empty = text.addEmpty(shape);
  return text.add("linalg.generic {indexing_maps = [" + mapText(rank, in) +
                      ", " + mapText(rank, out) + "], iterator_types = [" +
                      iterators + "]} ins(" + value.name + " : " +
                      value.type() + ") outs(" + empty.name + " : " +
                      empty.type() +
                      ") {\n  ^bb0(%a: f32, %o: f32):\n"
                      "    linalg.yield %a : f32\n  } -> " +
                      empty.type(),
                  shape);
}

/// An operand over `loops`: an argument, a transposed one, or a slice of a
/// larger one.
FunctionText::Tensor RandomContraction::addOperand(ArrayRef<unsigned> loops) {
  std::vector<int64_t> shape, larger, zeros, ones;
  for (unsigned loop : loops) {
    shape.push_back(sizes[loop]);
    larger.push_back(sizes[loop] + pick(random, 0, 2));
    zeros.push_back(larger.back() - sizes[loop]);
    ones.push_back(1);
  }
  auto list = [](ArrayRef<int64_t> values) {
    std::string s;
    for (int64_t value : values)
      s += (s.empty() ? "" : ", ") + std::to_string(value);
    return "[" + s + "]";
  };
  switch (pick(random, 0, 3)) {
  case 0: {
    FunctionText::Tensor source = text.addArgument(larger);
    FunctionText::Tensor to{"", shape};
    return text.add("tensor.extract_slice " + source.name + list(zeros) + " " +
                        list(shape) + " " + list(ones) + " : " + source.type() +
                        " to " + to.type(),
                    shape);
  }
  case 1: {
    // Transposed from an argument whose dimensions stand the other way round.
    std::vector<unsigned> out, in;
    for (unsigned i = 0, e = shape.size(); i != e; ++i) {
      out.push_back(i);
      in.push_back(e - 1 - i);
    }
    FunctionText::Tensor source =
        text.addArgument({shape.rbegin(), shape.rend()});
    FunctionText::Tensor empty = text.addEmpty(shape);
    std::string iterators;
    for (unsigned i = 0; i != shape.size(); ++i)
      iterators += std::string(i ? ", " : "") + "\"parallel\"";
    return text.add(
        "linalg.generic {indexing_maps = [" + mapText(shape.size(), in) + ", " +
            mapText(shape.size(), out) + "], iterator_types = [" + iterators +
            "]} ins(" + source.name + " : " + source.type() + ") outs(" +
            empty.name + " : " + empty.type() +
            ") {\n  ^bb0(%a: f32, %o: f32):\n"
            "    %c = arith.constant 0.5 : f32\n"
            "    %m = arith.mulf %a, %c : f32\n"
            "    linalg.yield %m : f32\n  } -> " +
            empty.type(),
        shape);
  }
  default:
    return text.addArgument(shape);
  }
}

void RandomContraction::build() {
  // Up to two loops of every kind, in any order.
  std::vector<unsigned> a, b, c;
  std::string iterators;
  for (char kind : {'b', 'm', 'n', 'k'})
    for (int64_t i = pick(random, kind == 'k' ? 1 : 0, 2); i > 0; --i) {
      unsigned loop = sizes.size();
      sizes.push_back(pick(random, 1, 4));
      if (kind != 'n')
        a.push_back(loop);
      if (kind != 'm')
        b.push_back(loop);
      if (kind != 'k')
        c.push_back(loop);
      iterators += std::string(loop ? ", " : "") +
                   (kind == 'k' ? "\"reduction\"" : "\"parallel\"");
    }
  // Often as they stand, else shuffled.
  for (auto *loops : {&a, &b, &c})
    if (pick(random, 0, 1))
      std::shuffle(loops->begin(), loops->end(), random);
  FunctionText::Tensor lhs = addOperand(a), rhs = addOperand(b);
  std::vector<int64_t> shape;
  for (unsigned loop : c)
    shape.push_back(sizes[loop]);
  bool accumulates = pick(random, 0, 3) == 0;
  FunctionText::Tensor init =
      accumulates ? text.addArgument(shape) : text.addFill(shape);
  unsigned loops = sizes.size();
  result =
      text.add("linalg.generic {indexing_maps = [" + mapText(loops, a) + ", " +
                   mapText(loops, b) + ", " + mapText(loops, c) +
                   "], iterator_types = [" + iterators + "]} ins(" + lhs.name +
                   ", " + rhs.name + " : " + lhs.type() + ", " + rhs.type() +
                   ") outs(" + init.name + " : " + init.type() +
                   ") {\n  ^bb0(%a: f32, %b: f32, %o: f32):\n"
                   "    %p = arith.mulf %a, %b : f32\n"
                   "    %s = arith.addf %o, %p : f32\n"
                   "    linalg.yield %s : f32\n  } -> " +
                   init.type(),
               shape);
  // What stands behind it may become strides of the result.
  for (int64_t i = pick(random, 0, 2); i > 0 && shape.size() > 1; --i)
    result = addTranspose(result);
}

TEST(ContractionTest, PlansComputeWhatTheOpsDo) {
  TestContext context;
  unsigned planned = 0, absorbed = 0, batched = 0, accumulated = 0;
  constexpr unsigned kSeeds = 1500;
  for (unsigned seed = 0; seed != kSeeds; ++seed) {
    RandomContraction random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + random.str());
    auto module = context.parse(random.str());
    ASSERT_TRUE(module);
    auto func = *module->getOps<func::FuncOp>().begin();
    auto values = evaluate(func, random.random);
    ContractionPlans plans(&func.getBody().front());
    for (Operation &op : func.getBody().front()) {
      const ContractionPlan *plan = plans.lookup(&op);
      if (!plan)
        continue;
      ++planned;
      absorbed += !plan->absorbed.empty();
      batched +=
          llvm::any_of(plan->shape.batch, [](int64_t n) { return n > 1; });
      accumulated += !plan->zeroInit;
      Elements c(values[plan->result].size());
      if (!plan->zeroInit)
        c = values[op.getOperand(2)];
      multiply(plan->shape, values[plan->sourceA], values[plan->sourceB], c,
               !plan->zeroInit);
      EXPECT_EQ(c, values[plan->result]);
      if (HasFailure())
        return;
    }
  }
  // The cases that are hard happen.
  EXPECT_GT(planned, kSeeds / 4);
  EXPECT_GT(absorbed, 50u);
  EXPECT_GT(batched, 50u);
  EXPECT_GT(accumulated, 50u);
}

/// The plan of the only contraction in `body`.
static std::optional<MatmulShape> planOf(TestContext &context,
                                         const std::string &text) {
  auto module = context.parse(text);
  EXPECT_TRUE(module);
  auto func = *module->getOps<func::FuncOp>().begin();
  ContractionPlans plans(&func.getBody().front());
  for (Operation &op : func.getBody().front())
    if (const ContractionPlan *plan = plans.lookup(&op))
      return plan->shape;
  return std::nullopt;
}

/// linalg.matmul-like text over operands of the given maps and types.
static std::string product(const std::string &maps, const std::string &a,
                           const std::string &b, const std::string &body,
                           const std::string &type = "f32") {
  return "func.func @f(%a: tensor<" + a + type + ">, %b: tensor<" + b + type +
         ">) -> tensor<5x6x" + type + "> {\n  %z = arith.constant " +
         (type == "i32" ? "0" : "0.0") + " : " + type +
         "\n  %e = tensor.empty() : tensor<5x6x" + type +
         ">\n  %f = linalg.fill ins(%z : " + type + ") outs(%e : tensor<5x6x" +
         type + ">) -> tensor<5x6x" + type +
         ">\n  %r = linalg.generic {indexing_maps = [" + maps +
         ", affine_map<(i, j, k) -> (i, j)>], iterator_types = [\"parallel\", "
         "\"parallel\", \"reduction\"]} ins(%a, %b : tensor<" +
         a + type + ">, tensor<" + b + type + ">) outs(%f : tensor<5x6x" +
         type + ">) {\n  ^bb0(%x: " + type + ", %y: " + type + ", %o: " + type +
         "):\n" + body + "  } -> tensor<5x6x" + type +
         ">\n  return %r : tensor<5x6x" + type + ">\n}\n";
}

static constexpr const char *kPlain = "    %p = arith.mulf %x, %y : f32\n"
                                      "    %s = arith.addf %o, %p : f32\n"
                                      "    linalg.yield %s : f32\n";

TEST(ContractionTest, TransposesBecomeFlags) {
  TestContext context;
  for (bool transA : {false, true})
    for (bool transB : {false, true}) {
      auto shape = planOf(
          context,
          product(std::string(transA ? "affine_map<(i, j, k) -> (k, i)>, "
                                     : "affine_map<(i, j, k) -> (i, k)>, ") +
                      (transB ? "affine_map<(i, j, k) -> (j, k)>"
                              : "affine_map<(i, j, k) -> (k, j)>"),
                  transA ? "7x5x" : "5x7x", transB ? "6x7x" : "7x6x", kPlain));
      ASSERT_TRUE(shape);
      EXPECT_EQ(shape->m, 5);
      EXPECT_EQ(shape->n, 6);
      EXPECT_EQ(shape->k, 7);
      EXPECT_EQ(shape->transA, transA);
      EXPECT_EQ(shape->transB, transB);
      EXPECT_FALSE(shape->swapped);
    }
}

TEST(ContractionTest, OtherBodiesAreNoProducts) {
  TestContext context;
  const std::string maps =
      "affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>";
  EXPECT_TRUE(planOf(context, product(maps, "5x7x", "7x6x", kPlain)));
  // A function of an operand, one operand twice, a negated product.
  for (const char *body :
       {"    %n = arith.negf %x : f32\n    %p = arith.mulf %n, %y : f32\n"
        "    %s = arith.addf %o, %p : f32\n    linalg.yield %s : f32\n",
        "    %p = arith.mulf %x, %x : f32\n    %s = arith.addf %o, %p : f32\n"
        "    linalg.yield %s : f32\n",
        "    %p = arith.mulf %x, %y : f32\n    %n = arith.negf %p : f32\n"
        "    %s = arith.addf %o, %n : f32\n    linalg.yield %s : f32\n",
        "    %p = arith.addf %x, %y : f32\n    %s = arith.maximumf %o, %p : "
        "f32\n    linalg.yield %s : f32\n"})
    EXPECT_FALSE(planOf(context, product(maps, "5x7x", "7x6x", body))) << body;
  EXPECT_FALSE(planOf(context, product(maps, "5x7x", "7x6x",
                                       "    %p = arith.muli %x, %y : i32\n"
                                       "    %s = arith.addi %o, %p : i32\n"
                                       "    linalg.yield %s : i32\n",
                                       "i32")))
      << "no BLAS multiplies integers";
}
