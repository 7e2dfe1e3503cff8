//===- Attention.cpp - Attention by tiles ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Attention.h"

#include "core/Dtype.h"
#include "core/NarrowFloat.h"
#include "core/Reduce.h"
#include "core/ThreadPool.h"
#include "fsdp-rt/cpu-attention.h"
#include "hal/ComputeRules.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

namespace fsdp::rt {

namespace {

using hal::maxCaptured;
using View = hal::AttentionView;

/// A rows x columns matrix of floats, or its transpose in memory.
struct Matrix {
  const float *data;
  int64_t ld;
  bool transposed;
};

template <typename T>
void packStrided(const T *from, int64_t row, int64_t column, int64_t rows,
                 int64_t columns, float *to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[r * columns + c] = toFloat(from[r * row + c * column]);
}

/// Copies a part of a tensor to `buffer`, as a dense matrix of floats.
void packMatrix(const View &view, const char *arena, int64_t element,
                int64_t rows, int64_t columns, float *buffer) {
  int64_t size = dtypeSize(view.dtype);
  const char *from = arena + view.offset + element * size;
  if (view.dtype == FSDP_RT_F32 && view.column == 1) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(buffer + r * columns, from + r * view.row * size,
                  columns * sizeof(float));
  } else if (view.dtype == FSDP_RT_F32) {
    packStrided(reinterpret_cast<const float *>(from), view.row, view.column,
                rows, columns, buffer);
  } else if (view.column == 1) {
    for (int64_t r = 0; r < rows; ++r)
      narrowToFloat(from + r * view.row * size, buffer + r * columns, columns,
                    view.dtype);
  } else if (view.dtype == FSDP_RT_BF16) {
    packStrided(reinterpret_cast<const BFloat16 *>(from), view.row, view.column,
                rows, columns, buffer);
  } else {
    packStrided(reinterpret_cast<const Float16 *>(from), view.row, view.column,
                rows, columns, buffer);
  }
}

/// A part of a tensor as floats: where it lies, or copied to `buffer`.
Matrix readMatrix(const View &view, const char *arena, int64_t element,
                  int64_t rows, int64_t columns, float *buffer) {
  if (view.dtype == FSDP_RT_F32) {
    auto floats = reinterpret_cast<const float *>(arena + view.offset);
    if (view.column == 1 && view.row >= columns)
      return {floats + element, view.row, false};
    if (view.row == 1 && view.column >= rows)
      return {floats + element, view.column, true};
  }
  packMatrix(view, arena, element, rows, columns, buffer);
  return {buffer, columns, false};
}

template <typename T>
void writeStrided(T *to, const View &view, int64_t rows, int64_t columns,
                  const float *from) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      fromFloat(from[r * columns + c], to[r * view.row + c * view.column]);
}

/// Rounds a dense matrix into a part of a tensor.
void writeMatrix(const View &view, char *arena, int64_t element, int64_t rows,
                 int64_t columns, const float *from) {
  int64_t size = dtypeSize(view.dtype);
  char *to = arena + view.offset + element * size;
  if (view.column == 1 && view.dtype == FSDP_RT_F32) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to + r * view.row * size, from + r * columns,
                  columns * sizeof(float));
  } else if (view.column == 1) {
    for (int64_t r = 0; r < rows; ++r)
      floatToNarrow(from + r * columns, to + r * view.row * size, columns,
                    view.dtype);
  } else if (view.dtype == FSDP_RT_F32) {
    writeStrided(reinterpret_cast<float *>(to), view, rows, columns, from);
  } else if (view.dtype == FSDP_RT_BF16) {
    writeStrided(reinterpret_cast<BFloat16 *>(to), view, rows, columns, from);
  } else {
    writeStrided(reinterpret_cast<Float16 *>(to), view, rows, columns, from);
  }
}

void multiplyRow(float *row, float factor, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c)
    row[c] *= factor;
}

/// The sum of products of two rows: eight partial sums, one after the other.
float multiplyRows(const Matrix &a, const Matrix &b, int64_t row,
                   int64_t columns) {
  constexpr int64_t lanes = 8;
  float sums[lanes] = {};
  int64_t aStep = a.transposed ? a.ld : 1, bStep = b.transposed ? b.ld : 1;
  const float *x = a.data + row * (a.transposed ? 1 : a.ld);
  const float *y = b.data + row * (b.transposed ? 1 : b.ld);
  int64_t whole = columns / lanes * lanes;
  if (aStep == 1 && bStep == 1) {
    for (int64_t c = 0; c < whole; c += lanes)
      for (int64_t i = 0; i < lanes; ++i)
        sums[i] += x[c + i] * y[c + i];
  } else {
    for (int64_t c = 0; c < whole; c += lanes)
      for (int64_t i = 0; i < lanes; ++i)
        sums[i] += x[(c + i) * aStep] * y[(c + i) * bStep];
  }
  for (int64_t c = whole; c < columns; ++c)
    sums[c - whole] += x[c * aStep] * y[c * bStep];
  float sum = 0.0f;
  for (float part : sums)
    sum += part;
  return sum;
}

/// Where a sum is made: in the tensor, where it is of floats, row by row.
struct Sum {
  float *data;
  int64_t ld;
  bool isInPlace;

  Sum(const View &view, char *arena, int64_t element, int64_t columns,
      float *buffer, bool isDense = true)
      : data(buffer), ld(columns), isInPlace(false) {
    if (isDense && view.exists() && view.dtype == FSDP_RT_F32 &&
        view.column == 1 && view.row >= columns) {
      data = reinterpret_cast<float *>(arena + view.offset) + element;
      ld = view.row;
      isInPlace = true;
    }
  }
  void fill(int64_t rows, int64_t columns) const {
    for (int64_t r = 0; r < rows; ++r)
      std::fill_n(data + r * ld, columns, 0.0f);
  }
};

/// Products along `dim` of the batch that are made as one, their queries one
/// below the other: they share keys and values, and one tile holds them all.
/// Where heads are small, that is most of what a call of the BLAS costs.
struct Group {
  int dim = 3;
  int64_t size = 1;

  Group(const fsdp_rt_attention_desc &desc,
        const fsdp_rt_cpu_attention_desc &code, bool backward);
  /// Steps that it takes to go through dimension `d`.
  int64_t steps(const fsdp_rt_attention_desc &desc, int d) const {
    return d == dim ? (desc.batch[d] + size - 1) / size : desc.batch[d];
  }
};

/// What one thread works with on one descriptor.
class Worker {
public:
  Worker(const fsdp_rt_attention_desc &desc,
         const fsdp_rt_cpu_attention_desc &code, bool backward, char *arena,
         const Blas &blas, char **operands, char *memory)
      : desc_(desc), code_(code), arena_(arena), blas_(blas),
        operands_(operands),
        at_(layOutAttention(backward, desc.keys, desc.head, desc.value,
                            code.tile_queries, code.tile_keys)),
        group_(desc, code, backward),
        memory_(reinterpret_cast<float *>(memory)), q_(desc, View::Q),
        k_(desc, View::K), v_(desc, View::V), out_(desc, View::Out) {
    operands_[0] = reinterpret_cast<char *>(position_);
  }

  /// A tile of queries of a product; false where the library failed.
  bool runForward(int64_t item);
  /// All products that share keys or values.
  bool runBackward(int64_t item);

  /// Whether products of that dimension share dk or dv.
  static bool isShared(const fsdp_rt_attention_desc &desc, int dim);
  static int64_t backwardItems(const fsdp_rt_attention_desc &desc);
  static int64_t forwardItems(const fsdp_rt_attention_desc &desc,
                              const fsdp_rt_cpu_attention_desc &code);

private:
  bool runQueries(const int64_t *index, int64_t query, const Sum &dkSum,
                  const Sum &dvSum);
  /// Products of the group that starts at `index`.
  int64_t productsAt(const int64_t *index) const {
    return std::min(group_.size, desc_.batch[group_.dim] - index[group_.dim]);
  }
  /// Whether rows of products follow each other like rows of one.
  bool isDense(const View &view, int64_t rows, int64_t products) const {
    return products == 1 || view.batch[group_.dim] == rows * view.row;
  }
  /// `rows` of each of so many products, one below the other.
  Matrix readRows(const View &view, const int64_t *index, int64_t query,
                  int64_t rows, int64_t products, int64_t columns,
                  float *buffer) const {
    int64_t element = view.at(index) + query * view.row;
    if (isDense(view, rows, products))
      return readMatrix(view, arena_, element, rows * products, columns,
                        buffer);
    for (int64_t i = 0; i < products; ++i)
      packMatrix(view, arena_, element + i * view.batch[group_.dim], rows,
                 columns, buffer + i * rows * columns);
    return {buffer, columns, false};
  }
  Sum sumRows(const View &view, const int64_t *index, int64_t query,
              int64_t rows, int64_t products, int64_t columns, float *buffer) {
    return Sum(view, arena_, view.at(index) + query * view.row, columns, buffer,
               isDense(view, rows, products));
  }
  void writeRows(const View &view, const int64_t *index, int64_t query,
                 int64_t rows, int64_t products, int64_t columns,
                 const Sum &sum) {
    if (sum.isInPlace)
      return;
    int64_t element = view.at(index) + query * view.row;
    for (int64_t i = 0; i < products; ++i)
      writeMatrix(view, arena_, element + i * view.batch[group_.dim], rows,
                  columns, sum.data + i * rows * columns);
  }
  /// op(A) * op(B) of `rows` x `columns`, summed over `depth`.
  bool multiply(int64_t rows, int64_t columns, int64_t depth, double alpha,
                Matrix a, Matrix b, bool accumulate, float *c, int64_t ldc) {
    GemmShape shape;
    shape.m = rows;
    shape.n = columns;
    shape.k = depth;
    shape.lda = a.ld;
    shape.ldb = b.ld;
    shape.ldc = ldc;
    shape.transA = a.transposed;
    shape.transB = b.transposed;
    shape.alpha = alpha;
    shape.accumulate = accumulate;
    return blas_.gemm(shape, a.data, b.data, c);
  }
  static Matrix transpose(Matrix m) { return {m.data, m.ld, !m.transposed}; }
  Matrix tile(const float *data) const {
    return {data, code_.tile_keys, false};
  }
  void setPosition(const int64_t *index, int64_t product, int64_t query) {
    std::copy_n(index, 4, position_);
    position_[group_.dim] += product;
    position_[kFirstQuery] = query;
  }
  void callTile(int64_t key, int64_t rows, int64_t columns) {
    position_[kFirstKey] = key;
    position_[kTileColumns] = columns;
    auto function =
        reinterpret_cast<fsdp_rt_kernel_fn>(const_cast<void *>(code_.tile));
    function(operands_, nullptr, 0, rows);
  }
  /// One past the last key that the queries see.
  int64_t keysOf(int64_t query, int64_t rows) const {
    return desc_.causal ? std::min(desc_.keys, query + rows) : desc_.keys;
  }
  /// Of a product of the group at `index`.
  float *stats(const int64_t *index, int64_t product, int64_t query) const {
    int64_t number = 0;
    for (int d = 0; d < 4; ++d)
      number =
          number * desc_.batch[d] + index[d] + (d == group_.dim ? product : 0);
    return reinterpret_cast<float *>(arena_ + desc_.stats) +
           number * desc_.queries + query;
  }
  int64_t batchRows() const {
    return hal::attentionBatch(desc_) * desc_.queries;
  }

  const fsdp_rt_attention_desc &desc_;
  const fsdp_rt_cpu_attention_desc &code_;
  char *arena_;
  const Blas &blas_;
  char **operands_;
  AttentionScratch at_;
  Group group_;
  float *memory_;
  View q_, k_, v_, out_;
  int64_t position_[kPositionSize] = {};
};

Group::Group(const fsdp_rt_attention_desc &desc,
             const fsdp_rt_cpu_attention_desc &code, bool backward) {
  // The function of a tile writes whole vectors of rows.
  int64_t room = code.tile_queries - roundUpToTile(desc.queries);
  if (desc.keys > code.tile_keys || room < desc.queries)
    return;
  View k(desc, View::K), v(desc, View::V);
  for (int d = 3; d >= 0; --d) {
    if (desc.batch[d] == 1 || k.batch[d] != 0 || v.batch[d] != 0 ||
        (backward && !Worker::isShared(desc, d)))
      continue;
    dim = d;
    size = std::min(desc.batch[d], 1 + room / desc.queries);
    return;
  }
}

int64_t Worker::forwardItems(const fsdp_rt_attention_desc &desc,
                             const fsdp_rt_cpu_attention_desc &code) {
  Group group(desc, code, /*backward=*/false);
  int64_t items = (desc.queries + code.tile_queries - 1) / code.tile_queries;
  for (int d = 0; d < 4; ++d)
    items *= group.steps(desc, d);
  return items;
}

bool Worker::runForward(int64_t item) {
  int64_t tiles = (desc_.queries + code_.tile_queries - 1) / code_.tile_queries;
  int64_t query = item % tiles * code_.tile_queries, rest = item / tiles;
  int64_t index[4];
  for (int d = 3; d >= 0; --d) {
    int64_t steps = group_.steps(desc_, d);
    index[d] = rest % steps * (d == group_.dim ? group_.size : 1);
    rest /= steps;
  }
  int64_t rows = std::min(code_.tile_queries, desc_.queries - query);
  int64_t products = productsAt(index), allRows = rows * products;
  float *scores = memory_ + at_.scores;
  Sum sum = sumRows(out_, index, query, rows, products, desc_.value,
                    memory_ + at_.out);
  float *maxima = memory_ + at_.rows, *sums = maxima + code_.tile_queries,
        *corrections = sums + code_.tile_queries;
  constexpr float infinity = std::numeric_limits<float>::infinity();

  Matrix q =
      readRows(q_, index, query, rows, products, desc_.head, memory_ + at_.q);
  int64_t end = keysOf(query, rows);
  for (int64_t key = 0; key < end; key += code_.tile_keys) {
    int64_t columns = std::min(code_.tile_keys, end - key);
    Matrix k = readMatrix(k_, arena_, k_.at(index) + key * k_.row, columns,
                          desc_.head, memory_ + at_.k);
    if (!multiply(allRows, columns, desc_.head, desc_.scale, q, transpose(k),
                  /*accumulate=*/false, scores, code_.tile_keys))
      return false;
    for (int64_t i = 0; i < products; ++i) {
      // Behind its last row the function may write into the next product's.
      if (key == 0) {
        std::fill_n(maxima + i * rows, rows, -infinity);
        std::fill_n(sums + i * rows, rows, 0.0f);
      }
      setPosition(index, i, query);
      operands_[1] =
          reinterpret_cast<char *>(scores + i * rows * code_.tile_keys);
      operands_[2] = reinterpret_cast<char *>(maxima + i * rows);
      callTile(key, rows, columns);
    }
    if (key > 0)
      for (int64_t r = 0; r < rows; ++r)
        if (corrections[r] != 1.0f)
          multiplyRow(sum.data + r * sum.ld, corrections[r], desc_.value);
    Matrix v = readMatrix(v_, arena_, v_.at(index) + key * v_.row, columns,
                          desc_.value, memory_ + at_.v);
    if (!multiply(allRows, desc_.value, columns, 1.0, tile(scores), v,
                  /*accumulate=*/key > 0, sum.data, sum.ld))
      return false;
  }
  for (int64_t r = 0; r < allRows; ++r) {
    // A score that is no number makes the sum one, not the maximum.
    bool isMasked = maxima[r] == -infinity && sums[r] == 0.0f;
    float inverse = 1.0f / sums[r];
    if (isMasked) {
      // No key is seen: 0 or, as 0 / 0 is, not a number.
      inverse =
          desc_.zero_masked ? 0.0f : std::numeric_limits<float>::quiet_NaN();
      maxima[r] = 0.0f;
    }
    multiplyRow(sum.data + r * sum.ld, inverse, desc_.value);
    sums[r] = inverse;
  }
  writeRows(out_, index, query, rows, products, desc_.value, sum);
  if (desc_.stats >= 0)
    for (int64_t i = 0; i < products; ++i) {
      float *to = stats(index, i, query);
      std::copy_n(maxima + i * rows, rows, to);
      std::copy_n(sums + i * rows, rows, to + batchRows());
    }
  return true;
}

bool Worker::isShared(const fsdp_rt_attention_desc &desc, int dim) {
  if (desc.batch[dim] == 1)
    return false;
  for (int tensor : {View::Dk, View::Dv})
    if (View view(desc, tensor); view.exists() && view.batch[dim] == 0)
      return true;
  return false;
}

int64_t Worker::backwardItems(const fsdp_rt_attention_desc &desc) {
  int64_t items = 1;
  for (int d = 0; d < 4; ++d)
    if (!isShared(desc, d))
      items *= desc.batch[d];
  return items;
}

bool Worker::runBackward(int64_t item) {
  int64_t index[4] = {}, sharing = 1;
  for (int d = 3; d >= 0; --d) {
    if (isShared(desc_, d)) {
      sharing *= group_.steps(desc_, d);
      continue;
    }
    index[d] = item % desc_.batch[d];
    item /= desc_.batch[d];
  }
  View dk(desc_, View::Dk), dv(desc_, View::Dv);
  Sum dkSum(dk, arena_, dk.at(index), desc_.head, memory_ + at_.dk);
  Sum dvSum(dv, arena_, dv.at(index), desc_.value, memory_ + at_.dv);
  dkSum.fill(desc_.keys, desc_.head);
  dvSum.fill(desc_.keys, desc_.value);
  for (int64_t i = 0; i < sharing; ++i) {
    int64_t rest = i;
    for (int d = 3; d >= 0; --d) {
      if (!isShared(desc_, d))
        continue;
      int64_t steps = group_.steps(desc_, d);
      index[d] = rest % steps * (d == group_.dim ? group_.size : 1);
      rest /= steps;
    }
    for (int64_t query = 0; query < desc_.queries; query += code_.tile_queries)
      if (!runQueries(index, query, dkSum, dvSum))
        return false;
  }
  if (dk.exists() && !dkSum.isInPlace)
    writeMatrix(dk, arena_, dk.at(index), desc_.keys, desc_.head, dkSum.data);
  if (dv.exists() && !dvSum.isInPlace)
    writeMatrix(dv, arena_, dv.at(index), desc_.keys, desc_.value, dvSum.data);
  return true;
}

/// Adds what a tile of queries contributes to dk and dv, and writes its dq.
bool Worker::runQueries(const int64_t *index, int64_t query, const Sum &dkSum,
                        const Sum &dvSum) {
  int64_t rows = std::min(code_.tile_queries, desc_.queries - query);
  int64_t products = productsAt(index), allRows = rows * products;
  View doutView(desc_, View::Dout), dq(desc_, View::Dq), dk(desc_, View::Dk),
      dv(desc_, View::Dv);
  float *scores = memory_ + at_.scores, *gradients = memory_ + at_.gradients;
  float *maxima = memory_ + at_.rows, *inverses = maxima + code_.tile_queries,
        *deltas = inverses + code_.tile_queries;
  Sum dqSum =
      sumRows(dq, index, query, rows, products, desc_.head, memory_ + at_.dq);
  for (int64_t i = 0; i < products; ++i) {
    const float *saved = stats(index, i, query);
    std::copy_n(saved, rows, maxima + i * rows);
    std::copy_n(saved + batchRows(), rows, inverses + i * rows);
  }

  Matrix q =
      readRows(q_, index, query, rows, products, desc_.head, memory_ + at_.q);
  Matrix dout = readRows(doutView, index, query, rows, products, desc_.value,
                         memory_ + at_.dout);
  Matrix out = readRows(out_, index, query, rows, products, desc_.value,
                        memory_ + at_.out);
  for (int64_t r = 0; r < allRows; ++r)
    deltas[r] = multiplyRows(dout, out, r, desc_.value);

  int64_t end = keysOf(query, rows);
  for (int64_t key = 0; key < end; key += code_.tile_keys) {
    int64_t columns = std::min(code_.tile_keys, end - key);
    Matrix k = readMatrix(k_, arena_, k_.at(index) + key * k_.row, columns,
                          desc_.head, memory_ + at_.k);
    Matrix v = readMatrix(v_, arena_, v_.at(index) + key * v_.row, columns,
                          desc_.value, memory_ + at_.v);
    if (!multiply(allRows, columns, desc_.head, desc_.scale, q, transpose(k),
                  /*accumulate=*/false, scores, code_.tile_keys) ||
        !multiply(allRows, columns, desc_.value, 1.0, dout, transpose(v),
                  /*accumulate=*/false, gradients, code_.tile_keys))
      return false;
    for (int64_t i = 0; i < products; ++i) {
      int64_t first = i * rows;
      setPosition(index, i, query);
      operands_[1] = reinterpret_cast<char *>(scores + first * code_.tile_keys);
      operands_[2] =
          reinterpret_cast<char *>(gradients + first * code_.tile_keys);
      operands_[3] = reinterpret_cast<char *>(maxima + first);
      callTile(key, rows, columns);
    }
    if (dv.exists() &&
        !multiply(columns, desc_.value, allRows, 1.0, transpose(tile(scores)),
                  dout, /*accumulate=*/true, dvSum.data + key * dvSum.ld,
                  dvSum.ld))
      return false;
    if (dk.exists() &&
        !multiply(columns, desc_.head, allRows, desc_.dk_scale,
                  transpose(tile(gradients)), q, /*accumulate=*/true,
                  dkSum.data + key * dkSum.ld, dkSum.ld))
      return false;
    if (dq.exists() && !multiply(allRows, desc_.head, columns, desc_.dq_scale,
                                 tile(gradients), k,
                                 /*accumulate=*/key > 0, dqSum.data, dqSum.ld))
      return false;
  }
  if (dq.exists())
    writeRows(dq, index, query, rows, products, desc_.head, dqSum);
  return true;
}

} // namespace

Status checkAttention(const fsdp_rt_attention_desc &desc,
                      const fsdp_rt_cpu_attention_desc &code, bool backward,
                      int64_t arenaBytes, int64_t scratchBytes,
                      const Blas &blas) {
  if (!code.tile)
    return Status::internal("expected a tile function, got null");
  if (Status s =
          hal::checkAttention(desc, backward, arenaBytes, blas.maxDimension()))
    return s;
  for (int64_t tile : {code.tile_queries, code.tile_keys})
    if (tile < kTileUnit || tile > kMaxTileQueries * kMaxTileKeys ||
        tile % kTileUnit != 0)
      return Status::internal("expected tiles of a multiple of " +
                              std::to_string(kTileUnit) + ", got " +
                              std::to_string(tile));
  AttentionScratch at =
      layOutAttention(backward, desc.keys, desc.head, desc.value,
                      code.tile_queries, code.tile_keys);
  int64_t bytes = at.size * int64_t(sizeof(float));
  if (bytes > code.scratch_bytes || code.scratch_bytes > scratchBytes)
    return Status::internal("expected at least " + std::to_string(bytes) +
                            " and at most the " + std::to_string(scratchBytes) +
                            " bytes of scratch that the manifest names, got " +
                            std::to_string(code.scratch_bytes));
  return Status::ok();
}

Status runAttention(const fsdp_rt_attention_desc &desc,
                    const fsdp_rt_cpu_attention_desc &code, bool backward,
                    char *arena, const Blas &blas, ThreadPool &pool,
                    const AttentionMemory &memory) {
  std::atomic<bool> hasFailed{false};
  auto captured = static_cast<const int64_t *>(desc.captured);
  int64_t first = backward ? 4 : 3;
  auto part = [&](int thread, int64_t begin, int64_t end) {
    char *operands[4 + maxCaptured];
    for (int64_t i = 0; i < desc.captured_count; ++i)
      operands[first + i] = arena + captured[i];
    Worker worker(desc, code, backward, arena, blas, operands,
                  memory.base + thread * memory.stride);
    for (int64_t i = begin; i < end; ++i)
      if (!(backward ? worker.runBackward(i) : worker.runForward(i)))
        hasFailed.store(true, std::memory_order_relaxed);
  };
  int64_t items =
      backward ? Worker::backwardItems(desc) : Worker::forwardItems(desc, code);
  pool.parallelFor(items, /*grain=*/1, part);
  if (hasFailed.load(std::memory_order_relaxed))
    return Status::failed(blas.name() + " failed: out of memory");
  return Status::ok();
}

} // namespace fsdp::rt
