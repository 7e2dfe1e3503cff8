//===- TuningTable.h - Shapes of kernels that are fast on a card *- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of format fsdp-tuning/1: what was measured on one card of how many
// rows, columns and threads make its kernels fast (docs/cuda.md).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_TUNINGTABLE_H
#define FSDP_COST_TUNINGTABLE_H

#include "fsdp/Cost/CostModel.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// The functions of an attention: forward; backward, one for the gradient of q
/// and one for those of k and v.
constexpr llvm::StringLiteral kAttentionDirections[] = {"forward", "dq",
                                                        "dkdv"};

struct TuningTable {
  struct Attention {
    int64_t headSize;
    CostDtype dtype;
    /// Among kAttentionDirections.
    unsigned direction;
    /// Of a tile, at most; tiles of columns in shared memory, at most.
    int64_t rows, columns, stages;
  };

  /// Refuses what is no such table, and shapes that no kernel can have.
  static llvm::Expected<TuningTable> parse(llvm::StringRef text,
                                           llvm::StringRef path);
  static llvm::Expected<TuningTable> load(llvm::StringRef path);

  const Attention *find(int64_t headSize, CostDtype dtype,
                        unsigned direction) const;

  std::string device;
  /// "9.0".
  std::string capability;
  /// SHA-256 of the file, in hexadecimal digits.
  std::string digest;
  std::vector<Attention> attention;
  /// Threads, at most: of a row whose points are reduced, and of a block that
  /// reduces columns.
  std::optional<int64_t> rowThreads, columnThreads;
};

} // namespace mlir::fsdp

#endif // FSDP_COST_TUNINGTABLE_H
