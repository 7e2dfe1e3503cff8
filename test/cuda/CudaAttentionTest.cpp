//===- CudaAttentionTest.cpp - Attention by cuDNN on a CUDA device --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The double of cuDNN computes the graphs that the device composes, operation
// by operation: here against attention and its gradients in double.
//
//===----------------------------------------------------------------------===//

#include "AttentionDescriptor.h"
#include "CudaTest.h"

#include "core/Reduce.h"
#include "devices/cuda/dnn/CudnnAttention.h"
#include "hal/ComputeRules.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

namespace fsdp::test {
namespace {

using rt::Status;
using View = rt::hal::AttentionView;

/// A descriptor's tensors, every element by its place in the arena.
class Operands {
public:
  Operands(const AttentionDescriptor &attention)
      : attention_(attention), desc_(attention.get(true)),
        numbers_(size_t(attention.bytes / 2)) {}

  double &at(int tensor, int64_t b, int64_t head, int64_t row, int64_t column) {
    View view(desc_, tensor);
    int64_t group = attention_.group();
    int64_t index[4] = {0, b, head / group, head % group};
    return numbers_[size_t(view.offset / 2 + view.at(index) + row * view.row +
                           column)];
  }
  std::vector<uint16_t> encode() const {
    std::vector<float> floats(numbers_.begin(), numbers_.end());
    std::vector<uint16_t> narrow(numbers_.size());
    rt::floatToNarrow(floats.data(), narrow.data(), int64_t(floats.size()),
                      attention_.dtype);
    return narrow;
  }
  void decode(const std::vector<uint16_t> &narrow) {
    std::vector<float> floats(narrow.size());
    rt::narrowToFloat(narrow.data(), floats.data(), int64_t(narrow.size()),
                      attention_.dtype);
    numbers_.assign(floats.begin(), floats.end());
  }
  /// What the type holds of random numbers.
  void draw(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (double &number : numbers_)
      number = normal(random);
    decode(encode());
  }

private:
  const AttentionDescriptor &attention_;
  fsdp_rt_attention_desc desc_;
  std::vector<double> numbers_;
};

/// Fills out, dq, dk and dv from q, k, v and dout.
void computeExactly(const AttentionDescriptor &a, Operands &operands) {
  fsdp_rt_attention_desc desc = a.get(true);
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t j = 0; j < a.keys; ++j)
        for (int64_t c = 0; c < a.head; ++c)
          operands.at(View::Dk, b, h, j, c) =
              operands.at(View::Dv, b, h, j, c) = 0;
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.queries; ++i) {
        int64_t seen = a.causal ? std::min(a.keys, i + 1) : a.keys;
        auto dot = [&](int x, int64_t row, int y, int64_t other) {
          double sum = 0;
          for (int64_t c = 0; c < a.head; ++c)
            sum +=
                operands.at(x, b, h, row, c) * operands.at(y, b, h, other, c);
          return sum;
        };
        std::vector<double> p(static_cast<size_t>(seen));
        double total = 0;
        for (int64_t j = 0; j < seen; ++j)
          total += p[size_t(j)] =
              std::exp(desc.scale * dot(View::Q, i, View::K, j));
        for (int64_t c = 0; c < a.head; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < seen; ++j)
            sum += p[size_t(j)] / total * operands.at(View::V, b, h, j, c);
          operands.at(View::Out, b, h, i, c) = sum;
          operands.at(View::Dq, b, h, i, c) = 0;
        }
        double rowSum = dot(View::Dout, i, View::Out, i);
        for (int64_t j = 0; j < seen; ++j) {
          double weight = p[size_t(j)] / total;
          double ds =
              desc.scale * weight * (dot(View::Dout, i, View::V, j) - rowSum);
          for (int64_t c = 0; c < a.head; ++c) {
            operands.at(View::Dq, b, h, i, c) +=
                ds * operands.at(View::K, b, h, j, c);
            operands.at(View::Dk, b, h, j, c) +=
                ds * operands.at(View::Q, b, h, i, c);
            operands.at(View::Dv, b, h, j, c) +=
                weight * operands.at(View::Dout, b, h, i, c);
          }
        }
      }
}

/// Of every result, the largest difference in parts of its largest element.
double worst(const AttentionDescriptor &a, Operands &got, Operands &want) {
  double worst = 0;
  for (int tensor : {View::Out, View::Dq, View::Dk, View::Dv}) {
    bool isOfKeys = tensor >= View::Dk;
    double most = 0, wrong = 0;
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads; ++h)
        for (int64_t i = 0; i < (isOfKeys ? a.keys : a.queries); ++i)
          for (int64_t c = 0; c < a.head; ++c) {
            double one = got.at(tensor, b, h, i, c),
                   other = want.at(tensor, b, h, i, c);
            most = std::max(most, std::fabs(other));
            wrong = std::max(wrong, std::isfinite(one) ? std::fabs(one - other)
                                                       : INFINITY);
          }
    worst = std::max(worst, wrong / most);
  }
  return worst;
}

struct Outcome {
  double wrong = 0;
  rt::hal::DeviceFacts facts;
};

Status train(const AttentionDescriptor &attention, Outcome &outcome) {
  TestRankOptions options;
  options.arenaBytes = attention.bytes;
  testAttention = "cudnn";
  Status status = onCuda(options, [&](TestRank &rank) -> Status {
    Operands operands(attention), want(attention);
    operands.draw(1);
    want.draw(1);
    if (Status s = put(rank, 0, operands.encode()))
      return s;
    fsdp_rt_attention_desc forward = attention.get(false),
                           backward = attention.get(true);
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          int32_t code = fsdp_rt_attention(ctx, &forward);
          return code ? code : fsdp_rt_attention_backward(ctx, &backward);
        }))
      return s;
    std::vector<uint16_t> narrow(size_t(attention.bytes / 2));
    if (Status s = get(rank, 0, narrow))
      return s;
    operands.decode(narrow);
    computeExactly(attention, want);
    outcome.wrong = worst(attention, operands, want);
    outcome.facts = rank.executor().device().facts();
    return Status::ok();
  });
  testAttention = "own";
  return status;
}

/// Roundings of probabilities, of gradients of scores and of results.
constexpr double tolerance = 1.0 / 64;

void check(const AttentionDescriptor &attention) {
  Outcome outcome;
  EXPECT_CUDA_OK(train(attention, outcome));
  EXPECT_LE(outcome.wrong, tolerance);
  ASSERT_EQ(outcome.facts.remarks.size(), 2u);
  EXPECT_EQ(outcome.facts.remarks[1], "attention: 2 of 2 by cuDNN 9.19.0");
}

TEST(CudaAttention, ViewsOfOneBuffer) {
  AttentionDescriptor attention;
  attention.batch = 2;
  attention.heads = attention.keyHeads = 3;
  attention.queries = attention.keys = 40;
  attention.head = 16;
  for (bool causal : {true, false}) {
    attention.causal = causal;
    attention.layOutAsOneBuffer();
    check(attention);
  }
}

TEST(CudaAttention, HeadsThatShareKeys) {
  AttentionDescriptor attention;
  attention.batch = 2;
  attention.heads = 6;
  attention.keyHeads = 2;
  attention.queries = 24;
  attention.keys = 33;
  attention.head = 24;
  attention.causal = false;
  attention.layOutSeparately();
  check(attention);
  attention.keys = 24;
  attention.causal = true;
  attention.layOutAsOneBuffer();
  check(attention);
}

TEST(CudaAttention, RotatedQueriesAndKeys) {
  AttentionDescriptor attention;
  attention.batch = 2;
  attention.heads = 4;
  attention.keyHeads = 2;
  attention.queries = attention.keys = 24;
  attention.head = 16;
  attention.layOutRotated();
  check(attention);
}

TEST(CudaAttention, F16) {
  AttentionDescriptor attention;
  attention.dtype = FSDP_RT_F16;
  attention.heads = attention.keyHeads = 2;
  attention.queries = attention.keys = 20;
  attention.head = 8;
  attention.layOutSeparately();
  check(attention);
}

/// Beside the arena, as large as the scores' gradients and the rows' sums.
TEST(CudaAttention, Workspace) {
  AttentionDescriptor attention;
  attention.queries = attention.keys = 64;
  attention.head = 8;
  attention.layOutSeparately();
  setenv("FSDP_CUDNN_WORKSPACE", "3000000", 1);
  Outcome outcome;
  EXPECT_CUDA_OK(train(attention, outcome));
  unsetenv("FSDP_CUDNN_WORKSPACE");
  EXPECT_LE(outcome.wrong, tolerance);
  bool isThere = false;
  for (const auto &part : outcome.facts.memory)
    if (part.what == "workspace of attention") {
      isThere = true;
      EXPECT_GE(part.bytes, 3000000 + 64 * 4);
      EXPECT_LT(part.bytes, 3000000 + (2 << 20) + 4096);
    }
  EXPECT_TRUE(isThere);
}

/// A forward pass may need none.
TEST(CudaAttention, WithoutWorkspace) {
  AttentionDescriptor attention;
  attention.layOutSeparately();
  TestRankOptions options;
  options.arenaBytes = attention.bytes;
  fsdp_rt_attention_desc desc = attention.get(false);
  testAttention = "cudnn";
  setenv("FSDP_CUDNN_WORKSPACE", "0", 1);
  EXPECT_CUDA_OK(onCuda(options, [&](TestRank &rank) -> Status {
    Operands operands(attention);
    operands.draw(1);
    if (Status s = put(rank, 0, operands.encode()))
      return s;
    Status status = runStep(rank, [&](fsdp_rt_context *ctx) {
      return fsdp_rt_attention(ctx, &desc);
    });
    EXPECT_EQ(rank.executor().device().facts().remarks.back(),
              "attention: 1 of 1 by cuDNN 9.19.0");
    return status;
  }));
  unsetenv("FSDP_CUDNN_WORKSPACE");
  testAttention = "own";
}

/// Of a backward pass, it may add up dq in no fixed order then.
TEST(CudaAttention, WorkspaceThatDoesNotHoldTheScoresGradients) {
  AttentionDescriptor attention;
  attention.layOutSeparately();
  setenv("FSDP_CUDNN_WORKSPACE", "256", 1);
  Outcome outcome;
  Status status = train(attention, outcome);
  unsetenv("FSDP_CUDNN_WORKSPACE");
  // The test's descriptors have no code of our own, which takes over.
  EXPECT_FALSE(status.isOk());
}

//===----------------------------------------------------------------------===//
// What it takes
//===----------------------------------------------------------------------===//

std::string refusal(const AttentionDescriptor &attention, bool backward,
                    size_t version = 91900, int capability = 90) {
  auto viewed = rt::viewForCudnn(attention.get(backward), backward,
                                 {version, capability});
  return viewed.isOk() ? "" : viewed.status().message();
}

TEST(CudaAttentionView, Strides) {
  AttentionDescriptor attention;
  attention.batch = 2;
  attention.heads = 8;
  attention.keyHeads = 2;
  attention.layOutAsOneBuffer();
  auto viewed = rt::viewForCudnn(attention.get(true), true, {91900, 90});
  ASSERT_TRUE(viewed.isOk()) << viewed.status().message();
  EXPECT_EQ(viewed->batch, 2);
  EXPECT_EQ(viewed->heads, 8);
  int64_t row = 12 * 64;
  const auto &q = viewed->tensors[View::Q], &k = viewed->tensors[View::K];
  EXPECT_EQ(q.heads, 8);
  EXPECT_EQ(q.headStride, 64);
  EXPECT_EQ(q.rowStride, row);
  EXPECT_EQ(q.batchStride, 128 * row);
  EXPECT_EQ(k.heads, 2);
  EXPECT_EQ(k.headStride, 64);
  EXPECT_EQ(k.offset, 8 * 64 * 2);
  EXPECT_EQ(viewed->kind, "BF16 16 x 128 x 128, head 64, causal");
}

TEST(CudaAttentionView, WhatItRefuses) {
  AttentionDescriptor good;
  good.batch = 2;
  good.heads = 4;
  good.keyHeads = 2;
  good.layOutSeparately();
  EXPECT_EQ(refusal(good, false), "");
  EXPECT_EQ(refusal(good, true), "");

  AttentionDescriptor bad = good;
  bad.plain = false;
  EXPECT_EQ(refusal(bad, false),
            "expected scores that are only scaled and masked behind the query, "
            "got a score function");
  bad = good;
  bad.head = 33;
  bad.layOutSeparately();
  EXPECT_EQ(refusal(bad, false),
            "expected a multiple of 8 features, at most 256, got 33");
  bad.head = 136;
  bad.layOutSeparately();
  EXPECT_EQ(refusal(bad, false), "");
  EXPECT_EQ(refusal(bad, false, 91900, 80),
            "expected a multiple of 8 features, at most 128, got 136");
  bad = good;
  bad.dtype = FSDP_RT_F32;
  bad.layOutSeparately();
  EXPECT_EQ(refusal(bad, false), "expected BF16 or F16, got F32");
  bad = good;
  bad.tensors[View::V * 8 + 1] = FSDP_RT_F16;
  EXPECT_EQ(refusal(bad, false),
            "expected tensors of one type, got v of F16 and q of BF16");
  bad = good;
  bad.tensors[View::Out * 8] += 8;
  EXPECT_HAS(refusal(bad, false),
             "expected out at multiples of 16 bytes, got ");
  bad = good;
  bad.tensors[View::K * 8 + 6] += 1;
  EXPECT_HAS(refusal(bad, false), "expected k at multiples of 16 bytes, got ");
  bad = good;
  bad.tensors[View::Q * 8 + 7] = 2;
  EXPECT_EQ(refusal(bad, false),
            "expected features of q behind one another, got every 2 elements");
  bad = good;
  bad.tensors[View::Dk * 8] = -1;
  EXPECT_EQ(refusal(bad, true),
            "expected gradients of q, k and v that are wanted, got none of k");
  bad = good;
  bad.tensors[View::Q * 8 + 4] += 8;
  EXPECT_HAS(refusal(bad, false),
             "expected a batch of one dimension and one of "
             "heads");
  bad = good;
  bad.keys = 100;
  EXPECT_EQ(refusal(bad, false, 91500), "");
  EXPECT_EQ(refusal(bad, true, 91500),
            "expected a multiple of 128 keys before version 9.15.1, got 100");
  EXPECT_EQ(refusal(bad, true, 91501), "");
  for (size_t version : {90703, 91000, 91001})
    EXPECT_HAS(refusal(good, false, version),
               "expected a version of 9.8.0 or later but 9.10.0 and 9.10.1, ");
}

} // namespace
} // namespace fsdp::test
