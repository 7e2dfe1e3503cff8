//===- Matmul.cpp - Batched matrix products over threads ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Matmul.h"

#include "core/Dtype.h"
#include "core/Reduce.h"
#include "core/ThreadPool.h"
#include "hal/ComputeRules.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace fsdp::rt {

namespace {

/// Work per block below which a cut costs more than it can bring, and from
/// which on a second dimension is cut too.
constexpr double minBlockFlops = 4e6, largeBlockFlops = 2e9;
constexpr int64_t maxPartsPerSide = 8, maxBlocks = 32;
/// Sides below which packing takes a noticeable share: packing a block's rows
/// of A once more for every block of columns costs the more the deeper they
/// are. Of a shallow product most of the work is writing C, which goes best
/// in whole rows.
constexpr int64_t shallow = 256, deep = 8192;
constexpr int64_t minRows = 128, minShallowRows = 384;
constexpr int64_t minColumns = 192, minDeepColumns = 384;
/// Whole register tiles of the libraries' kernels.
constexpr int64_t rowUnit = 16, columnUnit = 48;
/// Work that is worth waking a thread for.
constexpr double grainFlops = 1e6;
/// Largest tile of C that is kept in float32 for narrow types.
constexpr int64_t maxTileRows = 256, maxTileColumns = 192;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t roundUp(int64_t a, int64_t unit) { return ceilDiv(a, unit) * unit; }

/// What one call handles: block (row, column) of product `item`.
struct Block {
  int64_t row, column, rows, columns;
  int64_t a, b, c; // elements from the operands' starts
};

/// Everything about a descriptor that its blocks share.
class Product {
public:
  Product(const fsdp_rt_matmul_desc &desc, MatmulCut cut)
      : desc_(desc), batch_(hal::matmulBatch(desc)), cut_(cut),
        columnBlocks_(ceilDiv(desc.n, cut_.columns)),
        blocks_(ceilDiv(desc.m, cut_.rows) * columnBlocks_) {}

  /// Blocks in all products.
  int64_t size() const { return batch_ * blocks_; }
  int64_t grain() const {
    double flops = 2.0 * cut_.rows * cut_.columns * desc_.k;
    return static_cast<int64_t>(grainFlops / std::max(flops, 1.0)) + 1;
  }

  Block block(int64_t index) const {
    int64_t item = index / blocks_, at = index % blocks_;
    Block block = {};
    block.row = at / columnBlocks_ * cut_.rows;
    block.column = at % columnBlocks_ * cut_.columns;
    block.rows = std::min(cut_.rows, desc_.m - block.row);
    block.columns = std::min(cut_.columns, desc_.n - block.column);
    for (int d = 3; d >= 0; --d) {
      int64_t i = item % desc_.batch[d];
      item /= desc_.batch[d];
      block.a += i * desc_.a_stride[d];
      block.b += i * desc_.b_stride[d];
      block.c += i * desc_.c_stride[d];
    }
    block.c += block.row * desc_.ldc + block.column;
    return block;
  }

  /// Element (row, inner) of op(A) and (inner, column) of op(B).
  int64_t aAt(const Block &block, int64_t row, int64_t inner) const {
    return block.a +
           (desc_.trans_a ? inner * desc_.lda + row : row * desc_.lda + inner);
  }
  int64_t bAt(const Block &block, int64_t inner, int64_t column) const {
    return block.b + (desc_.trans_b ? column * desc_.ldb + inner
                                    : inner * desc_.ldb + column);
  }

private:
  const fsdp_rt_matmul_desc &desc_;
  int64_t batch_;
  MatmulCut cut_;
  int64_t columnBlocks_;
  int64_t blocks_;
};

GemmShape shapeOf(const fsdp_rt_matmul_desc &desc, const Block &block) {
  GemmShape shape;
  shape.m = block.rows;
  shape.n = block.columns;
  shape.k = desc.k;
  shape.lda = desc.lda;
  shape.ldb = desc.ldb;
  shape.ldc = desc.ldc;
  shape.transA = desc.trans_a != 0;
  shape.transB = desc.trans_b != 0;
  shape.alpha = desc.alpha;
  shape.accumulate = desc.accumulate != 0;
  return shape;
}

template <typename T>
bool runBlock(const fsdp_rt_matmul_desc &desc, const Product &product,
              const Block &block, char *arena, const Blas &blas) {
  auto a = reinterpret_cast<const T *>(arena + desc.a);
  auto b = reinterpret_cast<const T *>(arena + desc.b);
  auto c = reinterpret_cast<T *>(arena + desc.c) + block.c;
  return blas.gemm(shapeOf(desc, block), a + product.aAt(block, block.row, 0),
                   b + product.bAt(block, 0, block.column), c);
}

/// Widened panels: a tile of C and the parts of A and B that one call
/// multiplies. Their sizes follow from the workspace's and C's alone.
struct Panels {
  Panels(int64_t workspaceBytes, int64_t m, int64_t n) {
    int64_t floats = workspaceBytes / int64_t(sizeof(float));
    rows = maxTileRows;
    columns = maxTileColumns;
    // At most a quarter for C: deep panels keep the products efficient.
    while (rows * columns > floats / 4) {
      rows /= 2;
      columns /= 2;
    }
    rows = std::min(rows, m);
    columns = std::min(columns, n);
    depth = (floats - rows * columns) / (rows + columns);
  }

  int64_t rows, columns, depth;
};

/// Widens a rows x columns part of a row-major matrix into a dense one.
void widen(const char *matrix, int64_t at, int64_t ld, int64_t rows,
           int64_t columns, Dtype dtype, float *out) {
  for (int64_t r = 0; r < rows; ++r)
    narrowToFloat(matrix + (at + r * ld) * 2, out + r * columns, columns,
                  dtype);
}

/// `block` is one tile; `memory` is the thread's workspace. A result in float32
/// is added up where it lies.
bool runNarrowBlock(const fsdp_rt_matmul_desc &desc, const Product &product,
                    const Block &block, char *arena, const Blas &blas,
                    const Panels &panels, char *memory) {
  auto dtype = static_cast<Dtype>(desc.dtype);
  float *c = reinterpret_cast<float *>(memory);
  float *a = c + panels.rows * panels.columns;
  float *b = a + panels.rows * panels.depth;
  bool isWide = desc.c_dtype == FSDP_RT_F32;
  char *result = arena + desc.c + block.c * (isWide ? 4 : 2);
  if (isWide)
    c = reinterpret_cast<float *>(result);
  else if (desc.accumulate)
    widen(result, 0, desc.ldc, block.rows, block.columns, dtype, c);
  for (int64_t at = 0; at < desc.k; at += panels.depth) {
    GemmShape shape = shapeOf(desc, block);
    shape.k = std::min(panels.depth, desc.k - at);
    shape.lda = shape.transA ? block.rows : shape.k;
    shape.ldb = shape.transB ? shape.k : block.columns;
    shape.ldc = isWide ? desc.ldc : block.columns;
    shape.accumulate = desc.accumulate || at > 0;
    widen(arena + desc.a, product.aAt(block, block.row, at), desc.lda,
          shape.transA ? shape.k : block.rows, shape.lda, dtype, a);
    widen(arena + desc.b, product.bAt(block, at, block.column), desc.ldb,
          shape.transB ? block.columns : shape.k, shape.ldb, dtype, b);
    if (!blas.gemm(shape, a, b, c))
      return false;
  }
  for (int64_t r = 0; !isWide && r < block.rows; ++r)
    floatToNarrow(c + r * block.columns, result + r * desc.ldc * 2,
                  block.columns, dtype);
  return true;
}

/// Nothing to add up: C is zero, or stays.
void clear(const fsdp_rt_matmul_desc &desc, const Block &block, char *arena) {
  int64_t size = dtypeSize(static_cast<Dtype>(desc.c_dtype));
  if (!desc.accumulate)
    for (int64_t r = 0; r < block.rows; ++r)
      std::memset(arena + desc.c + (block.c + r * desc.ldc) * size, 0,
                  block.columns * size);
}

} // namespace

Status checkMatmul(const fsdp_rt_matmul_desc &desc, int64_t arenaBytes,
                   const Blas &blas) {
  if (desc.dtype == FSDP_RT_F64 && !blas.hasF64())
    return Status::failed("expected OpenBLAS for a product in F64, got " +
                          blas.name());
  if (desc.epilogue != 0)
    return Status::failed("expected a product without epilogue for a "
                          "processor, got epilogue " +
                          std::to_string(desc.epilogue));
  return hal::checkMatmul(desc, arenaBytes, blas.maxDimension());
}

MatmulCut cutMatmul(int64_t m, int64_t n, int64_t k, int64_t batch) {
  // Powers of two load 2, 4 or 8 threads evenly. Where the batch alone does,
  // its products stay whole.
  double flops = 2.0 * m * n * k;
  double rowsToCut = double(m) / (k > shallow ? minRows : minShallowRows);
  double columnsToCut = double(n) / (k > deep ? minDeepColumns : minColumns);
  int64_t rowParts = 1, columnParts = 1;
  bool cutsRows = rowsToCut > columnsToCut || (k <= shallow && rowsToCut >= 2);
  auto cut = [&](int64_t &parts, double room, double blockFlops) {
    while (parts < maxPartsPerSide && 2 * parts <= room &&
           2 * rowParts * columnParts <= flops / blockFlops &&
           rowParts * columnParts * batch < maxBlocks)
      parts *= 2;
  };
  cut(cutsRows ? rowParts : columnParts, cutsRows ? rowsToCut : columnsToCut,
      minBlockFlops);
  cut(cutsRows ? columnParts : rowParts, cutsRows ? columnsToCut : rowsToCut,
      largeBlockFlops);
  return {roundUp(ceilDiv(m, rowParts), rowUnit),
          roundUp(ceilDiv(n, columnParts), columnUnit)};
}

Status runMatmul(const fsdp_rt_matmul_desc &desc, char *arena, const Blas &blas,
                 ThreadPool &pool, const MatmulWorkspace &workspace) {
  int64_t batch = hal::matmulBatch(desc);
  if (desc.m == 0 || desc.n == 0 || batch == 0)
    return Status::ok();
  Panels panels(workspace.bytes, desc.m, desc.n);
  MatmulCut cut;
  if (desc.dtype == FSDP_RT_F32 || desc.dtype == FSDP_RT_F64)
    cut = cutMatmul(desc.m, desc.n, desc.k, batch);
  else
    cut = {panels.rows, panels.columns};

  Product product(desc, cut);
  std::atomic<bool> hasFailed{false};
  auto part = [&](int thread, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Block block = product.block(i);
      bool ok = true;
      if (desc.k == 0)
        clear(desc, block, arena);
      else if (desc.dtype == FSDP_RT_F32)
        ok = runBlock<float>(desc, product, block, arena, blas);
      else if (desc.dtype == FSDP_RT_F64)
        ok = runBlock<double>(desc, product, block, arena, blas);
      else
        ok = runNarrowBlock(desc, product, block, arena, blas, panels,
                            workspace.base + thread * workspace.stride);
      if (!ok)
        hasFailed.store(true, std::memory_order_relaxed);
    }
  };
  pool.parallelFor(product.size(), product.grain(), part);
  if (hasFailed.load(std::memory_order_relaxed))
    return Status::failed(blas.name() + " failed: out of memory");
  return Status::ok();
}

} // namespace fsdp::rt
