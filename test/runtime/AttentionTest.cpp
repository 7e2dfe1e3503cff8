//===- AttentionTest.cpp - Attention by tiles -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime's walk over tiles against sums in double over whole rows. The
// tile functions, which programs bring with them, are written here in C++.
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Attention.h"
#include "Reference.h"
#include "core/ThreadPool.h"
#include "fsdp-rt/cpu-attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using namespace fsdp::rt;
using fsdp::test::Random;

constexpr float infinity = std::numeric_limits<float>::infinity();

double uniform(Random &random, double low, double high) {
  return low + (high - low) * double(random.below(1 << 20)) / (1 << 20);
}

/// What scores become: half of them plus a bias; nothing where a mask, of each
/// row of the outermost batch dimension, hides the key, or behind the query.
struct ScoreFunction {
  bool causal = false;
  bool hasMask = false;
  bool hasBias = false;

  double apply(double score, double bias, bool isSeen, int64_t query,
               int64_t key) const {
    if ((hasMask && !isSeen) || (causal && key > query))
      return -double(infinity);
    return hasBias ? 0.5 * score + bias : score;
  }
  double gradient() const { return hasBias ? 0.5 : 1.0; }
};

/// Of the case that runs; a tile function has no other arguments.
ScoreFunction currentFunction;
int64_t currentTileKeys, currentTileQueries, currentKeys;

float scoreAt(char *const *captured, const int64_t *position, int64_t row,
              int64_t column, float score) {
  int64_t query = position[kFirstQuery] + row,
          key = position[kFirstKey] + column;
  auto mask = reinterpret_cast<const uint8_t *>(captured[0]);
  auto bias = reinterpret_cast<const float *>(captured[1]);
  // The batch's second dimension has a mask each.
  bool isSeen = mask[position[1] * currentKeys + key] != 0;
  return float(currentFunction.apply(score, bias[query * currentKeys + key],
                                     isSeen, query, key));
}

void forwardTile(char *const *operands, char *, int64_t begin, int64_t end) {
  auto position = reinterpret_cast<const int64_t *>(operands[0]);
  auto scores = reinterpret_cast<float *>(operands[1]);
  auto rows = reinterpret_cast<float *>(operands[2]);
  for (int64_t r = begin; r < end; ++r) {
    float *row = scores + r * currentTileKeys;
    float before = rows[r], after = before, sum = 0;
    for (int64_t c = 0; c < position[kTileColumns]; ++c) {
      row[c] = scoreAt(operands + 3, position, r, c, row[c]);
      after = std::max(after, row[c]);
    }
    float reference = after == -infinity ? 0 : after;
    for (int64_t c = 0; c < position[kTileColumns]; ++c)
      sum += row[c] = std::exp(row[c] - reference);
    float correction = std::exp(before - reference);
    rows[r] = after;
    rows[currentTileQueries + r] =
        rows[currentTileQueries + r] * correction + sum;
    rows[2 * currentTileQueries + r] = correction;
  }
  // Whole vectors are written.
  for (int64_t r = end; r < roundUpToTile(end); ++r)
    for (int64_t field : {1, 2})
      rows[field * currentTileQueries + r] = std::nanf("");
}

void backwardTile(char *const *operands, char *, int64_t begin, int64_t end) {
  auto position = reinterpret_cast<const int64_t *>(operands[0]);
  auto scores = reinterpret_cast<float *>(operands[1]);
  auto gradients = reinterpret_cast<float *>(operands[2]);
  auto rows = reinterpret_cast<float *>(operands[3]);
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < position[kTileColumns]; ++c) {
      float &score = scores[r * currentTileKeys + c];
      float &gradient = gradients[r * currentTileKeys + c];
      float value = scoreAt(operands + 4, position, r, c, score);
      score = std::exp(value - rows[r]) * rows[currentTileQueries + r];
      gradient = float(currentFunction.gradient()) * score *
                 (gradient - rows[2 * currentTileQueries + r]);
    }
}

/// Sizes, and how tensors lie in memory.
struct Case {
  int64_t sequences, heads, sharing, queries, keys, head, value;
  fsdp_rt_dtype dtype = FSDP_RT_F32;
  ScoreFunction function;
  bool zeroMasked = true;
  /// Rows of all heads beside each other, as products leave them.
  bool interleaved = false;
  /// Features far from each other: no BLAS reads that.
  bool scattered = false;
};

int64_t sizeOf(int32_t dtype) { return dtype == FSDP_RT_F32 ? 4 : 2; }

class Problem {
public:
  explicit Problem(const Case &c) : c(c) {
    // Batch: 1, sequences, groups of heads, heads that share keys.
    desc.name = "attention";
    int64_t batch[] = {1, c.sequences, c.heads / c.sharing, c.sharing};
    std::copy_n(batch, 4, desc.batch);
    desc.queries = c.queries;
    desc.keys = c.keys;
    desc.head = c.head;
    desc.value = c.value;
    code.tile_queries = getQueryTile(c.queries, c.sequences * c.heads);
    code.tile_keys = getTileSize(c.keys, kMaxTileKeys);
    desc.scale = 0.3;
    desc.dq_scale = 0.3;
    desc.dk_scale = 0.3;
    desc.causal = c.function.causal;
    desc.zero_masked = c.zeroMasked;
    int64_t groups = c.heads / c.sharing;
    addTensor(c.queries, c.heads, c.head, false);
    addTensor(c.keys, groups, c.head, true);
    addTensor(c.keys, groups, c.value, true);
    addTensor(c.queries, c.heads, c.value, false);
    addTensor(c.queries, c.heads, c.value, false);
    addTensor(c.queries, c.heads, c.head, false);
    addTensor(c.keys, groups, c.head, true);
    addTensor(c.keys, groups, c.value, true);
    stats = add(2 * c.sequences * c.heads * c.queries * 4);
    captured = {add(c.sequences * c.keys), add(c.queries * c.keys * 4)};
    arena.assign(size_t(end), 0);
    Random random(11);
    for (int tensor : {0, 1, 2, 4})
      for (int64_t i = 0; i < elements[tensor]; ++i)
        set(tensor, i, float(uniform(random, -1, 1)));
    for (int64_t i = 0; i < c.sequences * c.keys; ++i)
      arena[size_t(captured[0] + i)] = uniform(random, 0, 1) < 0.7;
    // One sequence in which nothing is seen.
    if (c.function.hasMask && c.sequences > 1)
      std::fill_n(arena.begin() + captured[0] + c.keys, c.keys, char(0));
    for (int64_t i = 0; i < c.queries * c.keys; ++i) {
      float bias = float(uniform(random, -1, 1));
      std::memcpy(arena.data() + captured[1] + i * 4, &bias, 4);
    }
    // Results begin as something else than what they become.
    for (int tensor : {3, 5, 6, 7})
      for (int64_t i = 0; i < elements[tensor]; ++i)
        set(tensor, i, 77.0f);
    desc.tensors = tensors.data();
    desc.captured = captured.data();
    desc.captured_count = 2;
    desc.stats = stats;
    setScratch(true);
  }

  void setScratch(bool backward) {
    code.scratch_bytes = layOutAttention(backward, c.keys, c.head, c.value,
                                         code.tile_queries, code.tile_keys)
                             .size *
                         4;
  }

  Status run(bool backward, int threads) {
    currentFunction = c.function;
    currentTileKeys = code.tile_keys;
    currentTileQueries = code.tile_queries;
    currentKeys = c.keys;
    code.tile =
        reinterpret_cast<const void *>(backward ? &backwardTile : &forwardTile);
    ThreadPool pool;
    if (Status s = pool.start(threads, false))
      return s;
    const Blas *blas = *Blas::open(BlasKind::Auto);
    setScratch(backward);
    if (Status s = checkAttention(desc, code, backward, int64_t(arena.size()),
                                  code.scratch_bytes, *blas))
      return s;
    std::vector<float> scratch(size_t(code.scratch_bytes / 4 * threads));
    AttentionMemory memory;
    memory.base = reinterpret_cast<char *>(scratch.data());
    memory.stride = code.scratch_bytes;
    return runAttention(desc, code, backward, arena.data(), *blas, pool,
                        memory);
  }

  /// Element of a tensor at a place of the batch.
  double get(int tensor, int64_t sequence, int64_t head, int64_t row,
             int64_t column) const {
    return get(tensor, at(tensor, sequence, head, row, column));
  }
  int64_t at(int tensor, int64_t sequence, int64_t head, int64_t row,
             int64_t column) const {
    const int64_t *fields = tensors.data() + tensor * kTensorFields;
    return sequence * fields[3] + head / c.sharing * fields[4] +
           head % c.sharing * fields[5] + row * fields[6] + column * fields[7];
  }
  double get(int tensor, int64_t element) const {
    const char *from = arena.data() + tensors[size_t(tensor * kTensorFields)] +
                       element * sizeOf(c.dtype);
    if (c.dtype == FSDP_RT_F32) {
      float value;
      std::memcpy(&value, from, sizeof value);
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return c.dtype == FSDP_RT_BF16 ? fsdp::test::fromBFloat16(bits)
                                   : fsdp::test::fromFloat16(bits);
  }

  /// Compares all results with sums in double.
  void check() const;

  Case c;
  fsdp_rt_attention_desc desc = {};
  fsdp_rt_cpu_attention_desc code = {};
  std::vector<int64_t> tensors;
  std::vector<int64_t> captured;
  std::vector<char> arena;
  int64_t stats = 0;

private:
  int64_t add(int64_t bytes) {
    int64_t begin = end;
    end += (bytes + 63) / 64 * 64;
    return begin;
  }
  void addTensor(int64_t rows, int64_t heads, int64_t columns, bool shared) {
    // Sequence, group, sharing head, row, column.
    int64_t row = columns, column = 1, head = rows * columns,
            sequence = heads * rows * columns;
    if (c.interleaved) {
      head = columns;
      row = heads * columns;
    }
    if (c.scattered) {
      row *= 2;
      column = 2;
      head *= 2;
      sequence *= 2;
    }
    int64_t within = shared ? 0 : head,
            group = shared ? head : head * c.sharing;
    int64_t count = sequence * c.sequences;
    elements.push_back(count);
    int64_t offset = add(count * sizeOf(c.dtype));
    for (int64_t field : {offset, int64_t(c.dtype), int64_t(0), sequence, group,
                          within, row, column})
      tensors.push_back(field);
  }
  void set(int tensor, int64_t element, float value) {
    char *to = arena.data() + tensors[size_t(tensor * kTensorFields)] +
               element * sizeOf(c.dtype);
    if (c.dtype == FSDP_RT_F32) {
      std::memcpy(to, &value, sizeof value);
      return;
    }
    uint16_t bits = c.dtype == FSDP_RT_BF16 ? fsdp::test::nearestBFloat16(value)
                                            : fsdp::test::nearestFloat16(value);
    std::memcpy(to, &bits, sizeof bits);
  }

  int64_t end = 0;
  std::vector<int64_t> elements;
};

void Problem::check() const {
  enum { Q, K, V, Out, Dout, Dq, Dk, Dv };
  // Products of the inputs as rounded; results are rounded once more.
  double unit = c.dtype == FSDP_RT_F32    ? 2e-5
                : c.dtype == FSDP_RT_BF16 ? 2e-2
                                          : 3e-3;
  auto near = [&](double got, double want, const char *what) {
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got)) << what;
    else
      EXPECT_NEAR(got, want, unit * std::max(1.0, std::abs(want))) << what;
  };
  auto isSeen = [&](int64_t sequence, int64_t key) {
    return arena[size_t(captured[0] + sequence * c.keys + key)] != 0;
  };
  auto biasAt = [&](int64_t query, int64_t key) {
    float bias;
    std::memcpy(&bias, arena.data() + captured[1] + (query * c.keys + key) * 4,
                4);
    return double(bias);
  };
  for (int64_t s = 0; s < c.sequences; ++s)
    for (int64_t g = 0; g < c.heads / c.sharing; ++g) {
      std::vector<double> dk(size_t(c.keys * c.head)),
          dv(size_t(c.keys * c.value));
      for (int64_t h = g * c.sharing; h < (g + 1) * c.sharing; ++h)
        for (int64_t i = 0; i < c.queries; ++i) {
          std::vector<double> p(static_cast<size_t>(c.keys));
          double highest = -double(infinity), sum = 0, delta = 0;
          for (int64_t j = 0; j < c.keys; ++j) {
            double score = 0;
            for (int64_t d = 0; d < c.head; ++d)
              score += get(Q, s, h, i, d) * get(K, s, h, j, d);
            p[size_t(j)] =
                c.function.apply(0.3 * score, biasAt(i, j), isSeen(s, j), i, j);
            highest = std::max(highest, p[size_t(j)]);
          }
          for (double &x : p)
            sum += x = std::exp(x - highest);
          for (double &x : p)
            x = highest == -double(infinity) && c.zeroMasked ? 0 : x / sum;
          std::vector<double> dp(static_cast<size_t>(c.keys));
          for (int64_t e = 0; e < c.value; ++e) {
            double out = 0;
            for (int64_t j = 0; j < c.keys; ++j) {
              out += p[size_t(j)] * get(V, s, h, j, e);
              dp[size_t(j)] += get(Dout, s, h, i, e) * get(V, s, h, j, e);
            }
            near(get(Out, s, h, i, e), out, "out");
          }
          for (int64_t j = 0; j < c.keys; ++j)
            delta += p[size_t(j)] * dp[size_t(j)];
          for (int64_t j = 0; j < c.keys; ++j) {
            double gradient = c.function.gradient() * p[size_t(j)] *
                              (dp[size_t(j)] - delta) * 0.3;
            dp[size_t(j)] = gradient;
            for (int64_t d = 0; d < c.head; ++d)
              dk[size_t(j * c.head + d)] += gradient * get(Q, s, h, i, d);
            for (int64_t e = 0; e < c.value; ++e)
              dv[size_t(j * c.value + e)] +=
                  p[size_t(j)] * get(Dout, s, h, i, e);
          }
          for (int64_t d = 0; d < c.head; ++d) {
            double dq = 0;
            for (int64_t j = 0; j < c.keys; ++j)
              dq += dp[size_t(j)] * get(K, s, h, j, d);
            near(get(Dq, s, h, i, d), dq, "dq");
          }
        }
      for (int64_t j = 0; j < c.keys; ++j) {
        for (int64_t d = 0; d < c.head; ++d)
          near(get(Dk, s, g * c.sharing, j, d), dk[size_t(j * c.head + d)],
               "dk");
        for (int64_t e = 0; e < c.value; ++e)
          near(get(Dv, s, g * c.sharing, j, e), dv[size_t(j * c.value + e)],
               "dv");
      }
    }
}

void runAndCheck(const Case &c) {
  Problem one(c);
  ASSERT_TRUE(one.run(/*backward=*/false, 1).isOk());
  ASSERT_TRUE(one.run(/*backward=*/true, 1).isOk());
  one.check();
  // The same bits on three threads.
  Problem three(c);
  ASSERT_TRUE(three.run(false, 3).isOk());
  ASSERT_TRUE(three.run(true, 3).isOk());
  EXPECT_EQ(std::memcmp(one.arena.data(), three.arena.data(), one.arena.size()),
            0);
}

ScoreFunction causal() { return {true, false, false}; }
ScoreFunction masked() { return {false, true, false}; }
ScoreFunction biased() { return {false, false, true}; }

TEST(AttentionTest, ShapesAndTiles) {
  for (int64_t queries : {1, 5, 16, 127, 128, 129, 200})
    for (int64_t keys : {2, 15, 16, 17, 128, 131, 257}) {
      SCOPED_TRACE(testing::Message() << queries << " x " << keys);
      runAndCheck({2, 2, 1, queries, keys, 8, 6, FSDP_RT_F32, {}});
    }
}

TEST(AttentionTest, FeaturesOfAnySize) {
  for (int64_t head : {1, 3, 64})
    for (int64_t value : {1, 7, 80})
      runAndCheck({1, 3, 1, 33, 40, head, value, FSDP_RT_F32, {}});
}

TEST(AttentionTest, CausalSkipsKeysOnly) {
  for (int64_t size : {2, 16, 130, 260}) {
    runAndCheck({2, 2, 1, size, size, 16, 16, FSDP_RT_F32, causal()});
    runAndCheck({1, 2, 1, size, size + 33, 16, 16, FSDP_RT_F32, causal()});
    runAndCheck({1, 2, 1, size + 40, size, 16, 16, FSDP_RT_F32, causal()});
  }
}

TEST(AttentionTest, SharedKeysAreSummed) {
  for (bool interleaved : {false, true}) {
    Case c = {2, 6, 3, 50, 140, 12, 10, FSDP_RT_F32, causal()};
    c.interleaved = interleaved;
    runAndCheck(c);
  }
}

TEST(AttentionTest, FewQueriesThatShareKeysAreOneTile) {
  // Groups of all, of some and of one; the last keys are two tiles.
  for (int64_t sharing : {2, 3, 7})
    for (int64_t queries : {1, 5, 16, 33, 60, 90})
      for (int64_t keys : {2, 33, 128, 129})
        for (bool interleaved : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << sharing << " x " << queries << " x " << keys);
          Case c = {2,       2 * sharing, sharing,
                    queries, keys,        4,
                    6,       FSDP_RT_F32, queries % 2 ? causal() : masked()};
          c.interleaved = interleaved;
          runAndCheck(c);
        }
  for (fsdp_rt_dtype dtype : {FSDP_RT_BF16, FSDP_RT_F16})
    for (bool interleaved : {false, true}) {
      Case c = {2, 10, 5, 33, 33, 16, 8, dtype, causal()};
      c.interleaved = interleaved;
      runAndCheck(c);
    }
}

TEST(AttentionTest, MaskedKeysAndRows) {
  for (int64_t keys : {9, 140, 300}) {
    Case c = {3, 2, 1, 20, keys, 8, 8, FSDP_RT_F32, masked()};
    runAndCheck(c);
    // Rows without a key are no numbers.
    c.zeroMasked = false;
    runAndCheck(c);
  }
}

TEST(AttentionTest, ScoreFunctionsHaveGradients) {
  runAndCheck({2, 2, 1, 140, 150, 8, 8, FSDP_RT_F32, biased()});
}

TEST(AttentionTest, NarrowTypes) {
  for (fsdp_rt_dtype dtype : {FSDP_RT_BF16, FSDP_RT_F16}) {
    runAndCheck({2, 4, 2, 40, 140, 16, 24, dtype, causal()});
    runAndCheck({2, 2, 1, 17, 33, 16, 8, dtype, masked()});
  }
}

TEST(AttentionTest, AnyStrides) {
  for (fsdp_rt_dtype dtype : {FSDP_RT_F32, FSDP_RT_BF16, FSDP_RT_F16}) {
    Case c = {2, 4, 2, 20, 35, 6, 5, dtype, causal()};
    c.interleaved = true;
    c.scattered = true;
    runAndCheck(c);
  }
}

TEST(AttentionTest, LeavesOutWhatIsNotWanted) {
  Problem problem({2, 2, 1, 20, 30, 8, 8, FSDP_RT_F32, {}});
  problem.desc.stats = -1;
  ASSERT_TRUE(problem.run(false, 1).isOk());
  problem.desc.stats = problem.stats;
  ASSERT_TRUE(problem.run(false, 1).isOk());
  std::vector<char> before = problem.arena;
  for (int tensor : {5, 6, 7})
    problem.tensors[size_t(tensor * kTensorFields)] = -1;
  ASSERT_TRUE(problem.run(true, 1).isOk());
  EXPECT_EQ(problem.arena, before);
}

TEST(AttentionTest, RefusesWhatLiesOutside) {
  auto refuses = [](auto change, bool backward, const char *message) {
    Problem problem({2, 2, 1, 20, 30, 8, 8, FSDP_RT_F32, {}});
    change(problem);
    Status status = problem.run(backward, 1);
    EXPECT_FALSE(status.isOk());
    EXPECT_NE(status.message().find(message), std::string::npos)
        << status.message();
  };
  refuses([](Problem &p) { p.tensors[6] = int64_t(1) << 40; }, false,
          "q: expected strides");
  refuses([](Problem &p) { p.tensors[8] = int64_t(p.arena.size()) - 4; }, false,
          "k: expected it inside the arena");
  refuses([](Problem &p) { p.tensors[9] = FSDP_RT_I32; }, false,
          "k: expected F32, BF16 or F16");
  refuses([](Problem &p) { p.tensors[0] = -1; }, false,
          "q: expected an arena offset");
  refuses([](Problem &p) { p.desc.keys = 0; }, false, "expected sizes");
  refuses([](Problem &p) { p.desc.plain = 2; }, false,
          "expected plain to be 0 or 1, got 2");
  refuses([](Problem &p) { p.code.tile_keys = 24; }, false, "expected tiles");
  refuses([](Problem &p) { p.captured[1] = -8; }, false, "captured tensor 1");
  refuses([](Problem &p) { p.desc.stats = -1; }, true, "expected statistics");
  refuses([](Problem &p) { p.tensors[6 * 8 + 4] = 0; }, true,
          "expected dk and dv summed over the same dimensions");
}

} // namespace
