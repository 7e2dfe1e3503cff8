//===- MatmulTest.cpp - The matrix products of a step ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Matmul.h"
#include "Reference.h"
#include "core/Dtype.h"
#include "core/ThreadPool.h"
#include "hal/ComputeRules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

namespace {

using namespace fsdp::rt;
using fsdp::test::Bytes;
using fsdp::test::Random;

/// All elements of an arena as numbers, whatever their type.
std::vector<double> numbersOf(const Bytes &arena, int32_t dtype) {
  int64_t size = fsdp::test::sizeOf(Dtype(dtype));
  std::vector<double> numbers(arena.size() / size_t(size));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const char *at = arena.data() + int64_t(i) * size;
    float single;
    uint16_t half;
    if (dtype == FSDP_RT_F64) {
      std::memcpy(&numbers[i], at, sizeof(double));
    } else if (dtype == FSDP_RT_F32) {
      std::memcpy(&single, at, sizeof single);
      numbers[i] = single;
    } else {
      std::memcpy(&half, at, sizeof half);
      numbers[i] = dtype == FSDP_RT_F16 ? fsdp::test::fromFloat16(half)
                                        : fsdp::test::fromBFloat16(half);
    }
  }
  return numbers;
}

/// A descriptor with operands of its own in an arena of random numbers.
struct Problem {
  fsdp_rt_matmul_desc desc = {};
  Bytes arena;

  /// Leading dimensions are `pad` larger than needed. The result has the type
  /// of the factors, or `result`.
  Problem(Dtype dtype, int64_t m, int64_t n, int64_t k, bool transA,
          bool transB, int64_t batch = 1, int64_t pad = 0,
          std::optional<Dtype> result = std::nullopt) {
    desc.name = "product";
    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.lda = std::max<int64_t>((transA ? m : k) + pad, 1);
    desc.ldb = std::max<int64_t>((transB ? k : n) + pad, 1);
    desc.ldc = std::max<int64_t>(n + pad, 1);
    int64_t a = (transA ? k : m) * desc.lda, b = (transB ? n : k) * desc.ldb;
    int64_t c = m * desc.ldc;
    for (int d = 0; d < 4; ++d)
      desc.batch[d] = 1;
    desc.batch[1] = batch;
    desc.a_stride[1] = a;
    desc.b_stride[1] = b;
    desc.c_stride[1] = c;
    // Sums of float16 are to stay below its largest number.
    desc.alpha = dtype == FSDP_RT_F16 ? 0x1p-10 : 1;
    desc.trans_a = transA;
    desc.trans_b = transB;
    desc.dtype = dtype;
    desc.c_dtype = result.value_or(dtype);
    int64_t size = fsdp::test::sizeOf(dtype), factors = (a + b) * batch;
    desc.b = a * batch * size;
    if (!result) {
      desc.c = factors * size;
      arena = fsdp::test::randomElements(dtype, factors + c * batch, 5);
      return;
    }
    int64_t cSize = fsdp::test::sizeOf(*result);
    desc.c = (factors * size + cSize - 1) / cSize * cSize;
    arena = fsdp::test::randomElements(dtype, factors, 5);
    arena.resize(size_t(desc.c));
    Bytes added = fsdp::test::randomElements(*result, c * batch, 6);
    arena.insert(arena.end(), added.begin(), added.end());
  }

  int64_t aIndex(int64_t i, int64_t l) const {
    return desc.trans_a ? l * desc.lda + i : i * desc.lda + l;
  }
  int64_t bIndex(int64_t l, int64_t j) const {
    return desc.trans_b ? j * desc.ldb + l : l * desc.ldb + j;
  }

  /// Largest error of `result` in units of what rounding may do.
  double error(const Bytes &result) const {
    double unit = desc.dtype == FSDP_RT_F64   ? 0x1p-52
                  : desc.dtype == FSDP_RT_F32 ? 0x1p-23
                                              : 0x1p-22;
    double last = desc.c_dtype == FSDP_RT_F16    ? 0x1p-10
                  : desc.c_dtype == FSDP_RT_BF16 ? 0x1p-7
                                                 : 0;
    double worst = 0;
    int64_t count = hal::matmulBatch(desc),
            bytes = fsdp::test::sizeOf(Dtype(desc.dtype)),
            cBytes = fsdp::test::sizeOf(Dtype(desc.c_dtype));
    std::vector<double> before = numbersOf(arena, desc.dtype);
    std::vector<double> added = numbersOf(arena, desc.c_dtype);
    std::vector<double> after = numbersOf(result, desc.c_dtype);
    for (int64_t item = 0; item < count; ++item) {
      int64_t at[4], rest = item;
      for (int d = 3; d >= 0; --d) {
        at[d] = rest % desc.batch[d];
        rest /= desc.batch[d];
      }
      int64_t a = 0, b = desc.b / bytes, c = desc.c / cBytes;
      for (int d = 0; d < 4; ++d) {
        a += at[d] * desc.a_stride[d];
        b += at[d] * desc.b_stride[d];
        c += at[d] * desc.c_stride[d];
      }
      for (int64_t i = 0; i < desc.m; ++i)
        for (int64_t j = 0; j < desc.n; ++j) {
          double sum = 0, size = 0;
          for (int64_t l = 0; l < desc.k; ++l) {
            double term = before[size_t(a + aIndex(i, l))] *
                          before[size_t(b + bIndex(l, j))];
            sum += term;
            size += std::fabs(term);
          }
          sum *= desc.alpha;
          size *= std::fabs(desc.alpha);
          auto to = size_t(c + i * desc.ldc + j);
          if (desc.accumulate) {
            sum += added[to];
            size += std::fabs(added[to]);
          }
          double allowed = size * unit * (2 + std::sqrt(double(desc.k))) +
                           std::fabs(sum) * last + 1e-300;
          worst = std::max(worst, std::fabs(after[to] - sum) / allowed);
        }
    }
    return worst;
  }
};

struct Workspace {
  Bytes memory;
  MatmulWorkspace view;
  explicit Workspace(int threads, int64_t bytes = minMatmulWorkspaceBytes)
      : memory(static_cast<size_t>((threads + 1) * bytes + 64)) {
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    view.base = memory.data() + (64 - address % 64) % 64;
    view.stride = view.bytes = bytes;
  }
};

Bytes multiply(const Problem &problem, const Blas &blas, int threads,
               int64_t workspaceBytes = minMatmulWorkspaceBytes) {
  Bytes arena = problem.arena;
  Status checked = checkMatmul(problem.desc, int64_t(arena.size()), blas);
  EXPECT_TRUE(checked.isOk()) << checked.message();
  ThreadPool pool;
  EXPECT_TRUE(pool.start(threads, false).isOk());
  Workspace workspace(threads, workspaceBytes);
  Status status =
      runMatmul(problem.desc, arena.data(), blas, pool, workspace.view);
  EXPECT_TRUE(status.isOk()) << status.message();
  return arena;
}

class Matmul : public testing::TestWithParam<BlasKind> {
protected:
  void SetUp() override {
    Result<const Blas *> blas = Blas::open(GetParam());
    if (!blas.isOk())
      GTEST_SKIP() << blas.status().message();
    blas_ = *blas;
  }
  std::vector<Dtype> types() const {
    std::vector<Dtype> all = {FSDP_RT_F32, FSDP_RT_BF16, FSDP_RT_F16};
    if (blas_->hasF64())
      all.push_back(FSDP_RT_F64);
    return all;
  }
  const Blas *blas_ = nullptr;
};

TEST_P(Matmul, IsTheProductForAllTransposesAndTypes) {
  struct {
    int64_t m, n, k;
  } shapes[] = {{1, 1, 1},    {1, 40, 7},    {33, 1, 65},   {5, 6, 7},
                {64, 48, 32}, {31, 130, 77}, {130, 31, 200}};
  for (Dtype dtype : types())
    for (auto [m, n, k] : shapes)
      for (bool transA : {false, true})
        for (bool transB : {false, true})
          for (bool accumulate : {false, true}) {
            Problem problem(dtype, m, n, k, transA, transB, 1, accumulate * 3);
            problem.desc.accumulate = accumulate;
            if (accumulate)
              problem.desc.alpha *= -0.5;
            Bytes result = multiply(problem, *blas_, 2);
            EXPECT_LT(problem.error(result), 1.0)
                << fsdp::test::nameOf(dtype) << " " << m << " " << n << " " << k
                << " " << transA << transB << accumulate;
            // Operands and what lies between the rows of C stay.
            EXPECT_EQ(std::memcmp(result.data(), problem.arena.data(),
                                  size_t(problem.desc.c)),
                      0);
            int64_t size = fsdp::test::sizeOf(dtype);
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = n; j < problem.desc.ldc; ++j) {
                size_t at =
                    size_t(problem.desc.c + (i * problem.desc.ldc + j) * size);
                EXPECT_EQ(result[at], problem.arena[at]);
              }
          }
}

TEST_P(Matmul, FloatsOfNarrowFactors) {
  for (Dtype dtype : {FSDP_RT_BF16, FSDP_RT_F16})
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (bool accumulate : {false, true}) {
          // More than a tile's rows, columns and depth.
          Problem problem(dtype, 70, 300, 500, transA, transB, 3, 3,
                          FSDP_RT_F32);
          problem.desc.accumulate = accumulate;
          Bytes one = multiply(problem, *blas_, 1);
          EXPECT_LT(problem.error(one), 1.0)
              << fsdp::test::nameOf(dtype) << transA << transB << accumulate;
          EXPECT_EQ(one, multiply(problem, *blas_, 3));
          EXPECT_EQ(std::memcmp(one.data(), problem.arena.data(),
                                size_t(problem.desc.c)),
                    0);
          for (int64_t item = 0; item < 3; ++item)
            for (int64_t i = 0; i < problem.desc.m; ++i)
              for (int64_t j = problem.desc.n; j < problem.desc.ldc; ++j) {
                auto at =
                    size_t(problem.desc.c + (item * problem.desc.c_stride[1] +
                                             i * problem.desc.ldc + j) *
                                                4);
                EXPECT_EQ(one[at], problem.arena[at]);
              }
          problem.desc.k = 0;
          EXPECT_LT(problem.error(multiply(problem, *blas_, 2)), 1.0);
          // One B for the whole batch.
          problem.desc.k = 33;
          problem.desc.b_stride[1] = 0;
          EXPECT_LT(problem.error(multiply(problem, *blas_, 2)), 1.0);
        }
}

TEST_P(Matmul, BatchesBroadcastAndInterleave) {
  // Heads of an attention: [batch, rows, heads, width] without a transpose,
  // and one B for all of the first dimension.
  for (Dtype dtype : types()) {
    constexpr int64_t batch = 3, rows = 5, heads = 4, width = 6, out = 7;
    Problem problem(dtype, rows, out, width, false, false, batch * heads);
    fsdp_rt_matmul_desc &d = problem.desc;
    d.batch[0] = batch;
    d.batch[1] = heads;
    d.lda = heads * width;
    d.a_stride[0] = rows * heads * width;
    d.a_stride[1] = width;
    d.b_stride[0] = 0;
    d.b_stride[1] = width * out;
    d.ldc = heads * out;
    d.c_stride[0] = rows * heads * out;
    d.c_stride[1] = out;
    for (int threads : {1, 2, 5})
      EXPECT_LT(problem.error(multiply(problem, *blas_, threads)), 1.0);
  }
}

TEST_P(Matmul, BitsDoNotDependOnThreads) {
  struct {
    int64_t m, n, k, batch;
  } shapes[] = {{128, 768, 768, 1}, {768, 2999, 65, 1}, {1999, 768, 64, 1},
                {300, 2000, 33, 2}, {64, 64, 64, 24},   {128, 64, 128, 5},
                {1, 5000, 999, 1},  {4999, 1, 500, 1},  {257, 801, 900, 1},
                {17, 33, 9000, 3}};
  int trans = 0;
  for (auto [m, n, k, batch] : shapes)
    for (int i = 0; i < 2; ++i, trans = (trans + 1) % 4) {
      Problem problem(FSDP_RT_F32, m, n, k, trans & 1, trans & 2, batch);
      Bytes one = multiply(problem, *blas_, 1);
      for (int threads : {2, 3, 8})
        ASSERT_EQ(one, multiply(problem, *blas_, threads))
            << m << " " << n << " " << k << " x" << batch << " " << trans
            << " with " << threads << " threads";
    }
}

TEST_P(Matmul, BitsOfNarrowAndWideTypesDoNotDependOnThreads) {
  for (Dtype dtype : types()) {
    Problem problem(dtype, 300, 500, 400, false, true, 2);
    problem.desc.accumulate = 1;
    Bytes one = multiply(problem, *blas_, 1);
    for (int threads : {2, 3, 8})
      ASSERT_EQ(one, multiply(problem, *blas_, threads)) << threads;
  }
}

TEST_P(Matmul, NarrowTypesWorkInAnyWorkspace) {
  for (Dtype dtype : {FSDP_RT_BF16, FSDP_RT_F16})
    for (int64_t bytes :
         {int64_t(64) << 10, int64_t(200) << 10, int64_t(4) << 20}) {
      Problem problem(dtype, 70, 300, 1000, true, true);
      problem.desc.accumulate = 1;
      EXPECT_LT(problem.error(multiply(problem, *blas_, 2, bytes)), 1.0);
    }
}

TEST_P(Matmul, NothingToAddUpIsZeroOrStays) {
  for (Dtype dtype : types()) {
    Problem problem(dtype, 5, 6, 0, false, false, 2, 2);
    Bytes result = multiply(problem, *blas_, 2);
    EXPECT_EQ(problem.error(result), 0);
    problem.desc.accumulate = 1;
    EXPECT_EQ(multiply(problem, *blas_, 2), problem.arena);
  }
  for (int dimension = 0; dimension < 3; ++dimension) {
    Problem problem(FSDP_RT_F32, dimension == 0 ? 0 : 4, dimension == 1 ? 0 : 4,
                    4, false, false, dimension == 2 ? 0 : 1);
    EXPECT_EQ(multiply(problem, *blas_, 2), problem.arena);
  }
}

TEST_P(Matmul, ManyRanksMultiplyAtOnce) {
  Problem problem(FSDP_RT_F32, 128, 768, 256, false, true);
  Bytes expected = multiply(problem, *blas_, 1);
  std::vector<std::thread> ranks;
  std::vector<int> wrong(6);
  for (int rank = 0; rank < 6; ++rank)
    ranks.emplace_back([&, rank] {
      for (int i = 0; i < 10; ++i)
        wrong[size_t(rank)] += multiply(problem, *blas_, 2) != expected;
    });
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_EQ(wrong, std::vector<int>(6));
}

INSTANTIATE_TEST_SUITE_P(, Matmul,
                         testing::Values(BlasKind::OpenBlas, BlasKind::OneDnn),
                         [](const testing::TestParamInfo<BlasKind> &info) {
                           return info.param == BlasKind::OpenBlas ? "OpenBlas"
                                                                   : "OneDnn";
                         });

TEST(Blas, AutoMultipliesBothWideTypes) {
  Result<const Blas *> blas = Blas::open(BlasKind::Auto);
  ASSERT_TRUE(blas.isOk()) << blas.status().message();
  for (Dtype dtype : {FSDP_RT_F32, FSDP_RT_F64}) {
    if (dtype == FSDP_RT_F64 && !(*blas)->hasF64())
      continue;
    Problem problem(dtype, 31, 130, 77, false, true);
    EXPECT_LT(problem.error(multiply(problem, **blas, 2)), 1.0);
  }
}

TEST(MatmulCheck, RefusesWhatLiesOutsideOrOverlaps) {
  Result<const Blas *> blas = Blas::open(BlasKind::Auto);
  ASSERT_TRUE(blas.isOk()) << blas.status().message();
  Problem good(FSDP_RT_F32, 8, 9, 10, false, false, 3);
  auto bytes = int64_t(good.arena.size());
  auto refused = [&](const char *part, auto change) {
    Problem bad = good;
    change(bad.desc);
    Status status = checkMatmul(bad.desc, bytes, **blas);
    EXPECT_NE(status.message().find(part), std::string::npos)
        << part << ": " << status.message();
    EXPECT_FALSE(status.isOk()) << part;
  };
  using Desc = fsdp_rt_matmul_desc;
  refused("expected a product without epilogue for a processor, got epilogue 1",
          [](Desc &d) { d.epilogue = FSDP_RT_EPILOGUE_BIAS; });
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(checkMatmul(good.desc, bytes, **blas).isOk());
  EXPECT_FALSE(checkMatmul(good.desc, bytes - 1, **blas).isOk());
  refused("operand A", [](Desc &d) { d.a = -4; });
  refused("operand A", [&](Desc &d) { d.a = bytes; });
  refused("operand A", [](Desc &d) { d.a = 2; });
  refused("operand B", [](Desc &d) { d.b = huge; });
  refused("operand C", [](Desc &d) { d.c += 4; });
  refused("operand A", [](Desc &d) { d.lda = 9; });
  refused("operand B", [](Desc &d) { d.ldb = 0; });
  refused("operand C", [](Desc &d) { d.ldc = -1; });
  refused("operand A", [](Desc &d) { d.a_stride[1] = -1; });
  refused("extents of at least 0", [](Desc &d) { d.m = -1; });
  refused("extents of at least 0", [](Desc &d) { d.batch[3] = -2; });
  refused("extents of at most", [](Desc &d) { d.k = huge; });
  refused("extents of at most", [](Desc &d) { d.ldc = int64_t(1) << 32; });
  refused("extents of at most", [](Desc &d) { d.batch[0] = huge; });
  refused("more products than", [](Desc &d) {
    for (int i = 0; i < 4; ++i) {
      d.batch[i] = std::numeric_limits<int>::max();
      d.c_stride[i] = 1;
    }
  });
  refused("strides of at most", [](Desc &d) { d.a_stride[1] = huge; });
  refused("apart", [](Desc &d) { d.c_stride[1] = 0; });
  refused("floating-point", [](Desc &d) { d.dtype = FSDP_RT_I32; });
  refused("element type, got -7", [](Desc &d) { d.dtype = -7; });
  refused("expected a result in F32, got BF16",
          [](Desc &d) { d.c_dtype = FSDP_RT_BF16; });
  refused("expected a result in BF16 or F32, got F64", [](Desc &d) {
    d.dtype = FSDP_RT_BF16;
    d.c_dtype = FSDP_RT_F64;
  });
  refused("expected a result in F16 or F32, got 99", [](Desc &d) {
    d.dtype = FSDP_RT_F16;
    d.c_dtype = 99;
  });
}

TEST(MatmulCut, CoversTheMatrixInFewWideBlocks) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    int64_t m = 1 + random.below(5000), n = 1 + random.below(5000);
    int64_t k = 1 + random.below(20000), batch = 1 + random.below(100);
    MatmulCut cut = cutMatmul(m, n, k, batch);
    int64_t blocks =
        ((m + cut.rows - 1) / cut.rows) * ((n + cut.columns - 1) / cut.columns);
    EXPECT_GE(blocks, 1);
    EXPECT_LE(blocks, 64);
    EXPECT_GE(cut.rows, std::min<int64_t>(m, 128));
    EXPECT_GE(cut.columns, std::min<int64_t>(n, 192));
  }
}

TEST(Blas, SecondOpeningIsTheFirst) {
  Result<const Blas *> first = Blas::open(BlasKind::Auto);
  ASSERT_TRUE(first.isOk());
  EXPECT_EQ(*first, *Blas::open(BlasKind::Auto));
  EXPECT_FALSE((*first)->name().empty());
}

TEST(Blas, OneDnnAloneHasNoF64) {
  Result<const Blas *> blas = Blas::open(BlasKind::OneDnn);
  if (!blas.isOk())
    GTEST_SKIP() << blas.status().message();
  Problem problem(FSDP_RT_F64, 2, 2, 2, false, false);
  Status status =
      checkMatmul(problem.desc, int64_t(problem.arena.size()), **blas);
  EXPECT_EQ(status.code(), Code::Failed);
  EXPECT_NE(status.message().find("expected OpenBLAS"), std::string::npos);
}

} // namespace
