//===- Evaluate.h - What graphs of operations compute -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each operation by itself, in float32, rounded to the type of its result. An
// engine of the library computes the same without the tensors in between.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_CUDNN_EVALUATE_H
#define FSDP_EMULATOR_LIBRARIES_CUDNN_EVALUATE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp::emulator::dnn {

/// cudnnDataType_t.
constexpr int real32 = 0, real16 = 2, int32 = 4, brain16 = 9, boolean = 11;

struct Tensor {
  int64_t id = 0;
  int type = 0;
  std::array<int64_t, 4> sizes = {}, strides = {};
  int64_t alignment = 0;
  bool isVirtual = false, isScalar = false;

  int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  bool operator==(const Tensor &other) const;
};

struct Operation {
  enum class Kind { Matmul, Pointwise, Reduction, Reshape };
  Kind kind = Kind::Matmul;
  /// cudnnPointwiseMode_t or cudnnReduceTensorOp_t.
  int mode = 0;
  int64_t axis = 0;
  /// Tensors, by id; 0: none. A product's are x, b and y.
  int64_t x = 0, b = 0, t = 0, y = 0;
};

struct Graph {
  std::map<int64_t, Tensor> tensors;
  std::vector<Operation> operations;

  /// Products: two forward, five backward.
  int64_t products() const;
  bool isWritten(int64_t id) const;
};

/// Bytes of an element.
size_t sizeOf(int type);

/// Why the library would not take it; empty: it would. Operations come in an
/// order in which each finds what it reads.
std::string check(const Graph &graph);

/// Where a tensor's first element lies on the host, and what a scalar is.
struct Operand {
  char *memory = nullptr;
  float scalar = 0;
};

/// Sums of products go backwards where `isReversed`.
void evaluate(const Graph &graph, const std::map<int64_t, Operand> &operands,
              bool isReversed);

} // namespace fsdp::emulator::dnn

#endif // FSDP_EMULATOR_LIBRARIES_CUDNN_EVALUATE_H
