//===- StepGraph.h - Who computes what for whom, at L2 ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ops of a step that do something, and what they read from each other when
// views, constants and scalars are taken for what they are: part of the reader.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_STEPGRAPH_H
#define FSDP_ANALYSIS_KERNELS_STEPGRAPH_H

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include <vector>

namespace mlir::fsdp {

class StepGraph {
public:
  /// An op reads a value that another one produces.
  struct Edge {
    /// The producing node, or -1 for an argument of the step.
    int producer;
    Value value;
    /// The operand through which a loop op reads it element by element, in
    /// row-major order; null where it reads otherwise (a slice, a lookup).
    OpOperand *operand;
  };
  struct Node {
    Operation *op;
    ComputeKind kind;
    bool forward;
    SmallVector<Edge, 4> reads;
    /// Nodes that read its results; may repeat.
    SmallVector<int, 4> readers;
    /// For a contraction that a BLAS can do.
    std::optional<ContractionPlan> contraction;
    /// The gathered flat parameter (or its shard) that it reads members of;
    /// null where it reads none, itself where it reads several.
    Value unit;
  };

  /// Reads a step. Ops that nothing needs (transposes that became strides, for
  /// example) are no nodes.
  explicit StepGraph(ProgramOp step);

  ArrayRef<Node> getNodes() const { return nodes; }
  const Node &operator[](int i) const { return nodes[i]; }
  /// The node of an op, -1 where it is none.
  int lookup(Operation *op) const { return index.lookup_or(op, -1); }

private:
  void collectReads(Node &node, Value value, OpOperand *operand);
  void addNeeded(Operation *op);

  std::vector<Node> nodes;
  llvm::DenseMap<Operation *, int> index;
};

/// The flat parameter whose member `value` is: the gathered (or whole) tensor
/// that fsdp.view looks into. Null for any other value.
Value getUnitOf(Value value);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_STEPGRAPH_H
