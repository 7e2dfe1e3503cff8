//===- AttentionMatrixEmitter.h - Attention by tensor cores -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention in bf16 or f16. A warp has 16 rows and all columns of a tile: it
// multiplies its rows by the columns to scores, and rounds weights of the
// scores to the operands' type to multiply them by features (FlashAttention-2;
// Dao, 2023). Scores become weights in the registers that they are computed in:
// where C has the numbers of two products side by side, A has those of one.
// Sums and everything between the products are float32.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONMATRIXEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONMATRIXEMITTER_H

#include "AttentionBlockEmitter.h"
#include "AttentionMatrixTiles.h"
#include "MatrixInstructions.h"

namespace mlir::fsdp {

class AttentionMatrixEmitter : AttentionBlockEmitter {
public:
  /// `shared` (memref<?xi8>) lies in shared memory.
  AttentionMatrixEmitter(const AttentionParts &parts, AttentionRows rows,
                         OpBuilder &builder, Location loc, ValueRange arguments,
                         Value shared);

  void emitOut();
  void emitDq();
  void emitDkDv();

private:
  /// A tensor's part of a tile: where it lies in shared memory, in numbers of
  /// 16 bits, and how many features it has there at a time and in all.
  struct Part {
    unsigned tensor;
    int64_t at, chunk, features;
    int64_t getStride() const { return AttentionMatrixTiles::getStride(chunk); }
    bool isWhole() const { return features <= chunk; }
  };
  /// Features of a result that the block computes; `isMine` is null where all
  /// blocks compute some.
  struct Group {
    Value first, isMine;
    int64_t width = 0, features = 0;
    /// A thread's sums.
    int64_t getSums() const { return width / 2; }
  };
  /// A column of a thread: its number in the tile and, unless all tiles are
  /// full, whether it exists.
  struct Column {
    Value number, exists;
    Point point;
  };
  /// One row of a thread's two.
  using Rows = std::array<Value, 2>;

  // Where a thread is.
  /// Sets the members below.
  void enter(AttentionRows rows);
  /// What the block computes of a result whose features `groups` blocks divide.
  Group getGroup(int64_t features, int64_t groups);
  /// The number in the tile and the points of a thread's two rows.
  Value getThreadRow(int64_t which);
  std::array<Point, 2> getThreadRows();
  /// A thread's columns of the tile that begins at `first`, and which of its
  /// rows and columns a score is of.
  SmallVector<Column> getColumns(Value first);
  static int64_t getRowOf(int64_t score) { return score % 4 / 2; }
  static int64_t getColumnOf(int64_t score) {
    return score / 4 * 2 + score % 2;
  }

  // Memory.
  Value getPointer(unsigned tensor);
  /// `body(size)` where `tensors` begin at multiples of that many elements,
  /// which only the kernel sees, else `body(1)`.
  Values emitByVectors(ArrayRef<unsigned> tensors, TypeRange types,
                       llvm::function_ref<Values(int64_t)> body);
  /// `width` features of rows, or of the columns of `tile`, to shared memory,
  /// `size` at a time.
  void loadTile(const Part &part, const Tile &tile, Value firstFeature,
                int64_t width);
  void copyTile(const Part &part, const Tile &tile, Value firstFeature,
                int64_t width, int64_t size);
  /// Rows, and columns of a tile, whose features are in shared memory all at
  /// once: others come with the products. Columns go to their stage, where they
  /// may still be on their way (cp.async).
  void loadRows(ArrayRef<Part> rows);
  void loadColumns(ArrayRef<Part> columns, const Tile &tile,
                   bool withStatistics);
  void loadStatistics(const Tile &tile);
  /// Where the tile lies: what is added to the first stage's places, of which
  /// each has so many `numbers`.
  Value getStage(const Tile &tile, int64_t numbers);
  /// A loop over tiles of `columns`, each in shared memory when `body`, which
  /// gets its first column, multiplies it. With two stages a tile's copies
  /// begin before the tile before it is multiplied:
  ///
  ///     copy tile 0
  ///     each tile: wait for its copies, barrier, copy the next, multiply
  ///
  /// so one barrier both shows a tile to all threads and frees the other stage.
  Values emitTiles(ArrayRef<Part> columns, bool withStatistics, ValueRange init,
                   llvm::function_ref<Values(Value, ValueRange)> body);
  /// sum of dout * out over the features of a query, by `threads` neighbours,
  /// of which the thread is number `which`.
  Value emitDelta(const Point &query, Value which, int64_t threads);
  /// Begins to copy what the workspace and the statistics have of a tile's
  /// columns, or copies it where there is one stage.
  void copyRowValues(const Tile &tile);

  // Scores.
  /// Whether the score function is evaluated at each point. Else scores are
  /// products of q and k times the scale, and minus infinity where masked.
  bool evaluatesScores() const;
  /// Whether the scale is part of what turns scores into exponents of base 2,
  /// getFactor().
  bool isFolded() const { return parts.isFast && !evaluatesScores(); }
  float getFactor() const;
  /// The softmax's scores of products; where the scale is folded, without it.
  Values getScores(Values raw, Value first, const std::array<Point, 2> &rows);
  /// Plain scores, minus infinity where masked or beyond the last column.
  Values maskScores(ValueRange raw, Value first,
                    const std::array<Point, 2> &rows);
  /// What is added to exponents of scores whose maximum is `maximum`; null
  /// where the scale is not folded.
  Value getShift(Value maximum);
  /// The exponential of a difference of scores. A weight below 2^-126 may be 0:
  /// beside 1, the largest one, it is nothing.
  Value exponentiate(Value difference);
  /// That of `score` less `maximum`, of which `shift` is what getShift gives.
  Value exponentiate(Value score, Value maximum, Value shift);
  /// What sums so far are multiplied by; 1 if the maximum is the same.
  Value getCorrection(Value before, Value maximum, Value shift);
  /// -log(sum of exponentials) of base 2, of a row's statistics.
  Value getNegatedLogarithm(Value maximum, Value inverse);
  Value getProbability(Value score, const Statistics &statistics);
  /// Statistics of a query that the block's rows are.
  Statistics loadRowStatistics(const Point &query);
  void storeRowValues(const std::array<Point, 2> &queries,
                      const std::array<Statistics, 2> &ofRows);
  /// Of a thread's columns of the tile that is multiplied.
  SmallVector<Statistics> loadColumnStatistics();
  /// Of the thread's scores the factors of the probabilities; empty: there are
  /// none.
  Values getFactors(Value first, const std::array<Point, 2> &rows);
  void multiplyAll(Values &values, ValueRange factors);
  /// Probabilities times their factors, and gradients of q k^T, in place of
  /// `products`, q k^T, and `gradients`, dout v^T. `getStatistics` is given a
  /// score's number.
  void differentiate(Values &products, Values &gradients, Value first,
                     const std::array<Point, 2> &rows,
                     llvm::function_ref<Statistics(int64_t)> getStatistics);

  // Products. All threads of the block come to each.
  /// The thread's scores: C's registers for each 8 columns.
  Values multiply(const Part &rows, const Part &columns, Value firstColumn);
  /// Adds weights times columns to the thread's sums: C's registers for each 8
  /// features of the group.
  Values accumulate(ArrayRef<Value> weights, const Part &columns,
                    Value firstColumn, const Group &group, ValueRange sums);
  /// Adds to `sums`, four of either, the products of A (16 x 16, four
  /// registers) with two neighbours B (16 x 8), two registers of `b` each.
  void multiplyPair(ArrayRef<Value> a, ArrayRef<Value> b,
                    MutableArrayRef<Value> sums);
  /// The scores' registers of C as those of A.
  Values packWeights(ArrayRef<Value> weights);
  /// Stores sums times their row's scale.
  void storeGroup(unsigned tensor, const std::array<Point, 2> &rows,
                  const Group &group, ValueRange sums, const Rows &scales);

  const AttentionMatrixTiles tiles;
  Type type;
  /// Shared memory: all of it, its first byte, what columns have of statistics,
  /// and the first byte of that.
  Value memory, shared, statistics, statisticsPointer;
  /// The block's number among those of its rows.
  Value groupNumber;
  /// The warp in the block, the lane in the warp, and what of a fragment the
  /// lane has (MatrixInstructions.h).
  Value warp, lane, laneGroup, pair;
  Part q, k, v, dout;
  /// What is added to places in the first stage for those of the tile that is
  /// multiplied, of numbers and of statistics; null: 0.
  Value stage, statisticsStage;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONMATRIXEMITTER_H
