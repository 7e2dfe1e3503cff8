//===- CudaMatmulTest.cpp - Products on a CUDA device ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "core/Reduce.h"
#include "devices/cuda/blas/CudaProducts.h"
#include "devices/cuda/blas/ProductParts.h"
#include "hal/ComputeRules.h"

#include <cmath>
#include <cstring>
#include <random>

namespace fsdp::test {
namespace {

using rt::Status;

constexpr int64_t matrixBytes = 64 << 10;
constexpr int64_t bAt = matrixBytes, cAt = 2 * matrixBytes,
                  addendAt = 3 * matrixBytes, biasAt = 4 * matrixBytes;

/// Numbers that every type of these tests holds exactly.
std::vector<double> randomNumbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double &value : values)
    value = int(random() % 17) - 8;
  return values;
}

std::vector<char> encode(const std::vector<double> &values, int32_t dtype) {
  auto count = int64_t(values.size());
  if (dtype == FSDP_RT_F64) {
    std::vector<char> bytes(values.size() * 8);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::vector<float> floats(values.begin(), values.end());
  std::vector<char> bytes(values.size() * (dtype == FSDP_RT_F32 ? 4 : 2));
  if (dtype == FSDP_RT_F32)
    std::memcpy(bytes.data(), floats.data(), bytes.size());
  else
    rt::floatToNarrow(floats.data(), bytes.data(), count, rt::Dtype(dtype));
  return bytes;
}

std::vector<double> decode(const std::vector<char> &bytes, int64_t count,
                           int32_t dtype) {
  std::vector<double> values(static_cast<size_t>(count));
  if (dtype == FSDP_RT_F64) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<float> floats(static_cast<size_t>(count));
  if (dtype == FSDP_RT_F32)
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  else
    rt::narrowToFloat(bytes.data(), floats.data(), count, rt::Dtype(dtype));
  return {floats.begin(), floats.end()};
}

/// Floats of narrow factors if `isWide`.
fsdp_rt_matmul_desc plain(int64_t m, int64_t n, int64_t k, int32_t dtype,
                          bool isWide = false) {
  fsdp_rt_matmul_desc desc = {};
  desc.name = "product";
  desc.b = bAt;
  desc.c = cAt;
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.lda = k;
  desc.ldb = desc.ldc = n;
  for (int d = 0; d < 4; ++d)
    desc.batch[d] = 1;
  desc.alpha = 1;
  desc.dtype = dtype;
  desc.c_dtype = isWide ? int32_t(FSDP_RT_F32) : dtype;
  return desc;
}

/// The types of factors and results that there are.
constexpr std::pair<int32_t, bool> types[] = {
    {FSDP_RT_F32, false}, {FSDP_RT_F64, false},  {FSDP_RT_F16, false},
    {FSDP_RT_F16, true},  {FSDP_RT_BF16, false}, {FSDP_RT_BF16, true}};

/// Every product of the batch by three loops, on numbers.
void multiply(const fsdp_rt_matmul_desc &desc, const std::vector<double> &a,
              const std::vector<double> &b, const std::vector<double> &added,
              std::vector<double> &c) {
  for (int64_t item = 0; item < rt::hal::matmulBatch(desc); ++item) {
    int64_t rest = item, aFrom = 0, bFrom = 0, cFrom = 0;
    for (int d = 3; d >= 0; --d) {
      int64_t i = rest % desc.batch[d];
      rest /= desc.batch[d];
      aFrom += i * desc.a_stride[d];
      bFrom += i * desc.b_stride[d];
      cFrom += i * desc.c_stride[d];
    }
    for (int64_t i = 0; i < desc.m; ++i)
      for (int64_t j = 0; j < desc.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < desc.k; ++l)
          sum += a[size_t(aFrom + (desc.trans_a ? l * desc.lda + i
                                                : i * desc.lda + l))] *
                 b[size_t(bFrom + (desc.trans_b ? j * desc.ldb + l
                                                : l * desc.ldb + j))];
        double &to = c[size_t(cFrom + i * desc.ldc + j)];
        to = desc.alpha * sum + (desc.accumulate ? to : 0);
        if (desc.epilogue & FSDP_RT_EPILOGUE_BIAS)
          to += added[size_t(j)];
        if (desc.epilogue & FSDP_RT_EPILOGUE_ADDEND)
          to += added[size_t(cFrom + i * desc.ldc + j)];
      }
  }
}

/// Runs @calls on the device, twice where @desc does not accumulate, and
/// compares with @desc.
void expectProduct(const fsdp_rt_matmul_desc &desc,
                   const std::vector<fsdp_rt_matmul_desc> &calls) {
  TestRankOptions options;
  options.arenaBytes = 5 * matrixBytes;
  int64_t count = 8192;
  // The bias and the addend have the same numbers.
  std::vector<double> a = randomNumbers(count, 1), b = randomNumbers(count, 2),
                      c = randomNumbers(count, 3), expected = c,
                      added = randomNumbers(count, 4);
  multiply(desc, a, b, added, expected);
  EXPECT_CUDA_OK(onCuda(options, [&](TestRank &rank) -> Status {
    for (const auto &[offset, values, dtype] :
         {std::tuple(desc.a, &a, desc.dtype),
          {desc.b, &b, desc.dtype},
          {desc.c, &c, desc.c_dtype},
          {addendAt, &added, desc.c_dtype},
          {biasAt, &added, desc.c_dtype}})
      if (Status s = put(rank, offset, encode(*values, dtype)))
        return s;
    for (int step = 0; step < (desc.accumulate ? 1 : 2); ++step)
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            int32_t code = 0;
            for (const fsdp_rt_matmul_desc &call : calls)
              code = code ? code : fsdp_rt_matmul(ctx, &call);
            return code;
          }))
        return s;
    std::vector<char> bytes = encode(c, desc.c_dtype);
    if (Status s = get(rank, desc.c, bytes))
      return s;
    std::vector<double> found = decode(bytes, count, desc.c_dtype);
    double tolerance = desc.c_dtype == FSDP_RT_BF16  ? 1. / 128
                       : desc.c_dtype == FSDP_RT_F16 ? 1. / 1024
                                                     : 1e-6;
    for (size_t i = 0; i < found.size(); ++i) {
      double allowed = tolerance * std::fabs(expected[i]);
      EXPECT_NEAR(found[i], expected[i], allowed) << "element " << i;
      if (std::fabs(found[i] - expected[i]) > allowed)
        break;
    }
    return Status::ok();
  }));
}

void expectProduct(const fsdp_rt_matmul_desc &desc) {
  expectProduct(desc, {desc});
}

TEST(CudaMatmul, EveryTypeAndOrder) {
  for (auto [dtype, isWide] : types)
    for (int transA : {0, 1})
      for (int transB : {0, 1}) {
        SCOPED_TRACE(testing::Message() << dtype << " " << isWide << " "
                                        << transA << " " << transB);
        fsdp_rt_matmul_desc desc = plain(17, 23, 31, dtype, isWide);
        desc.trans_a = transA;
        desc.trans_b = transB;
        desc.lda = transA ? 20 : 40;
        desc.ldb = transB ? 33 : 24;
        desc.ldc = 29;
        desc.alpha = 0.5;
        desc.accumulate = transA;
        expectProduct(desc);
      }
}

TEST(CudaMatmul, EpiloguesAddABiasAndAMatrix) {
  for (auto [dtype, isWide] : types)
    for (int epilogue :
         {int(FSDP_RT_EPILOGUE_BIAS), int(FSDP_RT_EPILOGUE_ADDEND),
          FSDP_RT_EPILOGUE_BIAS | FSDP_RT_EPILOGUE_ADDEND}) {
      // The library has no bias of double precision; nor does the compiler.
      if (dtype == FSDP_RT_F64 && epilogue != FSDP_RT_EPILOGUE_ADDEND)
        continue;
      SCOPED_TRACE(testing::Message()
                   << dtype << " " << isWide << " " << epilogue);
      fsdp_rt_matmul_desc desc = plain(17, 23, 31, dtype, isWide);
      desc.ldc = 24;
      desc.alpha = 0.5;
      desc.epilogue = epilogue;
      desc.bias = biasAt;
      desc.addend = addendAt;
      expectProduct(desc);
      // A batch has one bias, and an addend for each product.
      desc.m = 4;
      desc.batch[3] = 3;
      desc.a_stride[3] = 4 * 31;
      desc.c_stride[3] = 4 * 24;
      expectProduct(desc);
    }
}

TEST(CudaMatmul, RefusesEpiloguesThatDoNotFit) {
  auto run = [](auto change) {
    TestRankOptions options;
    options.arenaBytes = 3 * matrixBytes;
    fsdp_rt_matmul_desc desc = plain(5, 7, 3, FSDP_RT_F32);
    desc.epilogue = FSDP_RT_EPILOGUE_BIAS | FSDP_RT_EPILOGUE_ADDEND;
    change(desc);
    return onCuda(options, [&](TestRank &rank) {
      return runStep(rank, [&](fsdp_rt_context *ctx) {
        return fsdp_rt_matmul(ctx, &desc);
      });
    });
  };
  EXPECT_CUDA_OK(run([](fsdp_rt_matmul_desc &) {}));
  EXPECT_HAS(run([](fsdp_rt_matmul_desc &d) { d.epilogue = 4; }).message(),
             "expected an epilogue of bits 3, got 4");
  EXPECT_HAS(run([](fsdp_rt_matmul_desc &d) { d.accumulate = 1; }).message(),
             "expected no epilogue of a product that is added to C, got 3");
  EXPECT_HAS(run([](fsdp_rt_matmul_desc &d) { d.bias = -16; }).message(),
             "operand bias: expected it inside an arena");
  EXPECT_HAS(run([](fsdp_rt_matmul_desc &d) { d.bias = 8; }).message(),
             "expected a bias at a multiple of 16 bytes, got offset 8");
  EXPECT_HAS(run([](fsdp_rt_matmul_desc &d) {
               d.addend = 3 * matrixBytes - 136;
             }).message(),
             "operand addend: expected it inside an arena");
  EXPECT_HAS(run([](fsdp_rt_matmul_desc &d) {
               d.k = 0;
               d.lda = 1;
             }).message(),
             "expected a product over at least 1 element before an epilogue");
}

TEST(CudaMatmul, TF32RoundsFactorsWhereItIsAskedFor) {
  constexpr float fine = 1 + 1.0f / 4096;
  for (bool isRounded : {false, true}) {
    TestRankOptions options;
    options.arenaBytes = 3 * matrixBytes;
    fsdp_rt_matmul_desc desc = plain(1, 1, 2, FSDP_RT_F32);
    desc.tf32 = isRounded;
    EXPECT_CUDA_OK(onCuda(options, [&](TestRank &rank) -> Status {
      if (Status s = put(rank, 0, std::vector<float>{fine, 0.5f}))
        return s;
      if (Status s = put(rank, bAt, std::vector<float>{1, 1}))
        return s;
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_matmul(ctx, &desc);
          }))
        return s;
      std::vector<float> got(1);
      if (Status s = get(rank, cAt, got))
        return s;
      EXPECT_EQ(got[0], (isRounded ? 1 : fine) + 0.5f);
      return Status::ok();
    }));
  }
}

TEST(CudaMatmul, TF32IsOfF32Alone) {
  TestRankOptions options;
  options.arenaBytes = 3 * matrixBytes;
  fsdp_rt_matmul_desc desc = plain(5, 7, 3, FSDP_RT_BF16);
  desc.tf32 = 1;
  Status status = onCuda(options, [&](TestRank &rank) {
    return runStep(
        rank, [&](fsdp_rt_context *ctx) { return fsdp_rt_matmul(ctx, &desc); });
  });
  EXPECT_HAS(status.message(), "expected tf32 to be 0, or 1 of F32, got 1 of "
                               "BF16");
}

TEST(CudaMatmul, OffsetsOfFewBytes) {
  fsdp_rt_matmul_desc desc = plain(5, 7, 3, FSDP_RT_BF16);
  desc.a = 2;
  desc.b = bAt + 6;
  desc.c = cAt + 4;
  expectProduct(desc);
}

/// Of factors of @dtype, with one B for all of a dimension.
void multiplyBatches(int32_t dtype) {
  fsdp_rt_matmul_desc desc = plain(4, 5, 6, dtype, /*isWide=*/true);
  // q k^T of [batch, rows, heads, 6]: heads lie inside rows.
  desc.trans_b = 1;
  desc.lda = desc.ldb = 18;
  desc.ldc = 5;
  int64_t batch[4] = {2, 1, 5, 3};
  int64_t aStride[4] = {1000, 7, 90, 6}, bStride[4] = {500, 7, 0, 6},
          cStride[4] = {300, 7, 60, 20};
  std::memcpy(desc.batch, batch, sizeof(batch));
  std::memcpy(desc.a_stride, aStride, sizeof(batch));
  std::memcpy(desc.b_stride, bStride, sizeof(batch));
  std::memcpy(desc.c_stride, cStride, sizeof(batch));
  expectProduct(desc);
  // The longest dimension is the library's.
  rt::BatchCalls calls = rt::cutBatch(desc);
  EXPECT_EQ(calls.count, 5);
  EXPECT_EQ(calls.stride, (std::array<int64_t, 3>{90, 0, 60}));
  EXPECT_EQ(calls.starts.size(), 6u);
  // Others are found by addresses, where the library has such batches: without
  // epilogues in the test's, and not before version 13.
  rt::BatchCalls items = rt::expandBatch(calls);
  EXPECT_EQ(items.count, 1);
  EXPECT_EQ(items.starts.size(), 30u);
  EXPECT_EQ(items.starts[29],
            (std::array<int64_t, 3>{1000 + 4 * 90 + 2 * 6, 500 + 2 * 6,
                                    300 + 4 * 60 + 2 * 20}));
  desc.accumulate = 1;
  expectProduct(desc);
  desc.accumulate = 0;
  desc.epilogue = FSDP_RT_EPILOGUE_BIAS | FSDP_RT_EPILOGUE_ADDEND;
  desc.bias = biasAt;
  desc.addend = addendAt;
  expectProduct(desc);
  desc.epilogue = 0;
  setenv("FSDP_CUBLASLT_VERSION", "12", 1);
  expectProduct(desc);
  unsetenv("FSDP_CUBLASLT_VERSION");
}

TEST(CudaMatmul, BatchesOfFourDimensions) {
  multiplyBatches(FSDP_RT_F32);
  multiplyBatches(FSDP_RT_BF16);
}

TEST(CudaMatmul, AddressesOfABatchAreAccountedFor) {
  fsdp_rt_matmul_desc desc = plain(4, 5, 6, FSDP_RT_F32);
  desc.lda = 24;
  int64_t batch[4] = {1, 1, 5, 4}, aStride[4] = {0, 0, 96, 6},
          cStride[4] = {0, 0, 80, 20};
  std::memcpy(desc.batch, batch, sizeof(batch));
  std::memcpy(desc.a_stride, aStride, sizeof(batch));
  std::memcpy(desc.c_stride, cStride, sizeof(batch));
  for (const char *version : {"13", "12"}) {
    setenv("FSDP_CUBLASLT_VERSION", version, 1);
    TestRankOptions options;
    options.arenaBytes = 5 * matrixBytes;
    EXPECT_CUDA_OK(onCuda(options, [&](TestRank &rank) -> Status {
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_matmul(ctx, &desc);
          }))
        return s;
      bool isNamed = false;
      for (const auto &part : rank.executor().device().facts().memory) {
        isNamed |= part.what == "addresses of products" && part.bytes > 0;
        if (part.what == "code and libraries")
          EXPECT_EQ(part.bytes, 0);
      }
      EXPECT_EQ(isNamed, version == std::string("13"));
      return Status::ok();
    }));
  }
  unsetenv("FSDP_CUBLASLT_VERSION");
}

TEST(CudaMatmul, DimensionsThatAreOneInMemoryBecomeOne) {
  fsdp_rt_matmul_desc desc = plain(4, 5, 6, FSDP_RT_F32);
  int64_t batch[4] = {2, 3, 1, 5};
  int64_t aStride[4] = {15 * 24, 5 * 24, 0, 24}, bStride[4] = {0, 0, 0, 0},
          cStride[4] = {15 * 20, 5 * 20, 0, 20};
  std::memcpy(desc.batch, batch, sizeof(batch));
  std::memcpy(desc.a_stride, aStride, sizeof(batch));
  std::memcpy(desc.b_stride, bStride, sizeof(batch));
  std::memcpy(desc.c_stride, cStride, sizeof(batch));
  rt::BatchCalls calls = rt::cutBatch(desc);
  EXPECT_EQ(calls.count, 30);
  EXPECT_EQ(calls.starts.size(), 1u);
  expectProduct(desc);
}

/// Extents of the parts, "m x n x k", of a product of any size.
std::vector<std::string> partsOf(const fsdp_rt_matmul_desc &desc) {
  std::vector<std::string> extents;
  for (const fsdp_rt_matmul_desc &part : rt::cutExtents(desc))
    extents.push_back(std::to_string(part.m) + " x " + std::to_string(part.n) +
                      " x " + std::to_string(part.k) +
                      (part.accumulate ? " added" : ""));
  return extents;
}

/// With rows that begin at multiples of 16 bytes.
fsdp_rt_matmul_desc pitched(int64_t m, int64_t n, int64_t k, int32_t dtype,
                            bool transA, bool transB, bool isWide = false) {
  fsdp_rt_matmul_desc desc = plain(m, n, k, dtype, isWide);
  desc.trans_a = transA;
  desc.trans_b = transB;
  auto pad = [](int64_t elements) { return (elements + 7) / 8 * 8; };
  desc.lda = pad(transA ? m : k);
  desc.ldb = pad(transB ? k : n);
  desc.ldc = pad(n);
  return desc;
}

using Strings = std::vector<std::string>;

TEST(CudaMatmul, ExtentsThatBreakVectorsAreCut) {
  // Logits, and the gradients of what they are a product of.
  EXPECT_EQ(partsOf(pitched(16, 57, 24, FSDP_RT_BF16, false, true)),
            (Strings{"16 x 56 x 24", "16 x 1 x 24"}));
  EXPECT_EQ(partsOf(pitched(16, 24, 57, FSDP_RT_BF16, false, false)),
            (Strings{"16 x 24 x 1", "16 x 24 x 56 added"}));
  EXPECT_EQ(partsOf(pitched(57, 24, 16, FSDP_RT_BF16, true, false)),
            (Strings{"56 x 24 x 16", "1 x 24 x 16"}));
  // No elements are neighbours along m, nor along k.
  EXPECT_EQ(partsOf(pitched(13, 24, 16, FSDP_RT_BF16, false, false)),
            (Strings{"13 x 24 x 16"}));
  EXPECT_EQ(partsOf(pitched(16, 24, 13, FSDP_RT_BF16, true, false)),
            (Strings{"16 x 24 x 13"}));
  // Nothing is left of such an extent, and no part would be fast.
  EXPECT_EQ(partsOf(pitched(16, 7, 57, FSDP_RT_BF16, false, true)),
            (Strings{"16 x 7 x 57"}));
  EXPECT_EQ(partsOf(pitched(16, 57, 7, FSDP_RT_BF16, false, true)),
            (Strings{"16 x 57 x 7"}));
  // TF32 has four in 16 bytes, and other f32 products have no vectors.
  fsdp_rt_matmul_desc wide = pitched(16, 58, 24, FSDP_RT_F32, false, true);
  EXPECT_EQ(partsOf(wide), (Strings{"16 x 58 x 24"}));
  wide.tf32 = 1;
  EXPECT_EQ(partsOf(wide), (Strings{"16 x 56 x 24", "16 x 2 x 24"}));
}

TEST(CudaMatmul, ProductsThatACutWouldNotHelp) {
  fsdp_rt_matmul_desc desc = pitched(16, 57, 57, FSDP_RT_F16, false, false);
  EXPECT_EQ(partsOf(desc).size(), 4u);
  auto changed = [&](auto change) {
    fsdp_rt_matmul_desc other = desc;
    change(other);
    return partsOf(other).size();
  };
  using Desc = fsdp_rt_matmul_desc;
  EXPECT_EQ(changed([](Desc &d) { d.ldb = 57; }), 1u);
  EXPECT_EQ(changed([](Desc &d) { d.c += 2; }), 1u);
  EXPECT_EQ(changed([](Desc &d) {
              d.batch[3] = 2;
              d.a_stride[3] = 57;
            }),
            1u);
  // Sums to which something is added are rounded once, so k stays whole, and
  // then a cut of n alone would not help.
  EXPECT_EQ(changed([](Desc &d) { d.accumulate = 1; }), 1u);
  EXPECT_EQ(changed([](Desc &d) { d.epilogue = FSDP_RT_EPILOGUE_BIAS; }), 1u);
  // A sum that is not rounded is cut whatever is added.
  EXPECT_EQ(changed([](Desc &d) {
              d.c_dtype = FSDP_RT_F32;
              d.accumulate = 1;
            }),
            4u);
  EXPECT_EQ(changed([](Desc &d) {
              d.accumulate = 1;
              d.k = 56;
            }),
            2u);
}

TEST(CudaMatmul, CutsThatCostMoreThanTheyGain) {
  auto isFaster = [](int64_t m, int64_t n, int64_t k, bool transA,
                     bool transB) {
    fsdp_rt_matmul_desc desc = pitched(m, n, k, FSDP_RT_BF16, transA, transB);
    std::vector<fsdp_rt_matmul_desc> parts = rt::cutExtents(desc);
    EXPECT_GT(parts.size(), 1u);
    return rt::areFaster(parts, desc);
  };
  // Logits of GPT-2, and the gradients of their factors.
  EXPECT_TRUE(isFaster(8192, 50257, 768, false, true));
  EXPECT_TRUE(isFaster(8192, 768, 50257, false, false));
  EXPECT_TRUE(isFaster(50257, 768, 8192, true, false));
  // Nine classes of as many operations as a step has elsewhere: all is reading.
  EXPECT_FALSE(isFaster(16384, 9, 4096, false, true));
  EXPECT_FALSE(isFaster(16384, 4096, 9, false, false));
  EXPECT_FALSE(isFaster(9, 4096, 16384, true, false));
  // A launch more is longer than all of it.
  EXPECT_FALSE(isFaster(64, 57, 64, false, true));
}

TEST(CudaMatmul, PartsComputeTheProduct) {
  for (auto [dtype, isWide] : types)
    for (int transA : {0, 1})
      for (int transB : {0, 1})
        for (int64_t epilogue : {0, 3}) {
          SCOPED_TRACE(testing::Message()
                       << dtype << " " << isWide << " " << transA << " "
                       << transB << " " << epilogue);
          fsdp_rt_matmul_desc desc =
              pitched(27, 29, 37, dtype, transA, transB, isWide);
          if (dtype == FSDP_RT_F64)
            continue;
          desc.tf32 = dtype == FSDP_RT_F32;
          desc.alpha = 0.5;
          desc.epilogue = epilogue;
          desc.bias = biasAt;
          desc.addend = addendAt;
          desc.batch[3] = 2;
          desc.a_stride[3] = 40 * 40;
          desc.c_stride[3] = 40 * 32;
          // With something added, only what is not k can be cut.
          if (epilogue != 0 && desc.c_dtype != FSDP_RT_F32)
            desc.k = 40;
          std::vector<fsdp_rt_matmul_desc> parts = rt::cutExtents(desc);
          EXPECT_GT(parts.size(), 1u);
          expectProduct(desc, parts);
        }
}

TEST(CudaMatmul, ProductsOfNothing) {
  expectProduct(plain(0, 5, 6, FSDP_RT_F32));
  fsdp_rt_matmul_desc desc = plain(4, 5, 0, FSDP_RT_F32);
  desc.lda = 1;
  expectProduct(desc);
  desc.accumulate = 1;
  expectProduct(desc);
}

TEST(CudaMatmul, RefusesWhatDoesNotFit) {
  TestRankOptions options;
  options.arenaBytes = 3 * matrixBytes;
  Status status = onCuda(options, [&](TestRank &rank) -> Status {
    fsdp_rt_matmul_desc desc = plain(4, 5, 6, FSDP_RT_F32);
    desc.lda = 5;
    return runStep(
        rank, [&](fsdp_rt_context *ctx) { return fsdp_rt_matmul(ctx, &desc); });
  });
  EXPECT_HAS(status.message(), "matmul 'product': operand A: expected a "
                               "leading dimension of at least 6, got 5");
}

} // namespace
} // namespace fsdp::test
