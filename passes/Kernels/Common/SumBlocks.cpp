//===- SumBlocks.cpp - Which terms of a sum are a block -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/SumBlocks.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

/// The largest size of blocks, at most `most`, that divides `count`; `most`
/// where none of half of it or more does.
static int64_t chooseSize(int64_t count, int64_t most) {
  for (int64_t size = most; 2 * size >= most; --size)
    if (count % size == 0)
      return size;
  return most;
}

SumBlocks fsdp::planSumBlocks(int64_t iterations, int64_t terms) {
  SumBlocks blocks;
  terms = std::max<int64_t>(1, terms);
  auto cut = [&](int64_t size) {
    blocks.sizes.push_back(size);
    iterations = llvm::divideCeil(iterations, size);
    terms = 1;
  };
  int64_t first = std::max<int64_t>(1, kSumBlock / terms);
  if (iterations > 1 && iterations > first)
    cut(chooseSize(iterations, first));
  while (iterations > kSumBlock)
    cut(chooseSize(iterations, kSumBlock));
  blocks.terms = iterations * terms;
  return blocks;
}
