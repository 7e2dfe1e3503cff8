//===- Evaluator.h - What a small function computes -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of views, moves and sums of products, one index at a time: what
// analyses of strides are compared with.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_KERNELS_EVALUATOR_H
#define FSDP_TEST_KERNELS_EVALUATOR_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <random>
#include <vector>

namespace mlir::fsdp::test {

/// A tensor's elements, row-major.
using Elements = std::vector<double>;

/// Calls `visit` with every index of `shape`, in row-major order.
void forEachIndex(ArrayRef<int64_t> shape,
                  llvm::function_ref<void(ArrayRef<int64_t>)> visit);

/// The values of all ops of `func`; its arguments hold small whole numbers, so
/// that sums are exact.
llvm::DenseMap<Value, Elements> evaluate(func::FuncOp func,
                                         std::mt19937 &random);

/// A context with the dialects that tests write in.
class TestContext {
public:
  TestContext();
  /// Parses a module; null, with the error printed, where it is none.
  OwningOpRef<ModuleOp> parse(StringRef text);

private:
  MLIRContext context;
};

/// Text of a function, line by line; every value has a fresh name.
class FunctionText {
public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::string type() const;
  };
  Tensor addArgument(std::vector<int64_t> shape);
  Tensor add(const std::string &op, std::vector<int64_t> shape);
  Tensor addEmpty(std::vector<int64_t> shape);
  Tensor addFill(std::vector<int64_t> shape);
  /// A slice, reshape, transpose or broadcast of `source`, by chance.
  Tensor addView(Tensor source, std::mt19937 &random);
  /// The whole, returning `result`.
  std::string str(const Tensor &result) const;

private:
  std::string fresh();
  std::string arguments, body;
  unsigned count = 0;
};

/// A number of [low, high].
int64_t pick(std::mt19937 &random, int64_t low, int64_t high);

/// affine_map<(d0, ..) -> (d<results>..)> over `loops` loops.
std::string mapText(unsigned loops, ArrayRef<unsigned> results);

} // namespace mlir::fsdp::test

#endif // FSDP_TEST_KERNELS_EVALUATOR_H
