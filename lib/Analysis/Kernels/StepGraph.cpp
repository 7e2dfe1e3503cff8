//===- StepGraph.cpp - Who computes what for whom, at L2 ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/StepGraph.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

Value fsdp::getUnitOf(Value value) {
  auto view = value.getDefiningOp<ViewOp>();
  return view ? Value(view.getSource()) : Value();
}

/// What the forward pass of an L2 step returns.
static SmallVector<Value> getForwardResults(ProgramOp step) {
  SmallVector<Value> values;
  ProgramStates states(step);
  Operation *ret = step.getBody().front().getTerminator();
  for (unsigned i = 0, e = step.getNumResults(); i != e; ++i)
    if (StateOp state = states.getWritten(i);
        step.getResultAttr(i, names::kLoss) ||
        step.getResultAttr(i, names::kLossCount) ||
        step.getResultAttr(i, names::kOutput) ||
        (state && state.getKind() == StateKind::buffer))
      values.push_back(ret->getOperand(i));
  return values;
}

void StepGraph::collectReads(Node &node, Value value, OpOperand *operand) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    node.reads.push_back({-1, value, operand});
    return;
  }
  // Part of the reader: look at what it is made of.
  if (!index.contains(op)) {
    for (Value read : getReadValues(op))
      collectReads(node, read, isReshape(op) ? operand : nullptr);
    return;
  }
  node.reads.push_back({index.lookup(op), value, operand});
}

StepGraph::StepGraph(ProgramOp step) {
  Block &block = step.getBody().front();
  StepPhases phases(&block, getForwardResults(step));

  // Needed ops, last to first, since a contraction decides what it reads.
  llvm::DenseSet<Operation *> needed;
  ContractionPlans contractions(&block);
  // Ops whose result a contraction writes directly.
  llvm::DenseMap<Operation *, Operation *> absorbedBy;
  for (Operation &op : block)
    if (const ContractionPlan *plan = contractions.lookup(&op))
      for (Operation *absorbed : plan->absorbed)
        absorbedBy[absorbed] = &op;
  for (Operation &op : llvm::reverse(block)) {
    if (!needed.contains(&op) && !op.hasTrait<OpTrait::IsTerminator>() &&
        isMemoryEffectFree(&op))
      continue;
    needed.insert(&op);
    auto need = [&](Value value) {
      if (Operation *def = value.getDefiningOp())
        needed.insert(def);
    };
    const ContractionPlan *plan = contractions.lookup(&op);
    if (!plan) {
      for (Value value : getReadValues(&op))
        need(value);
      continue;
    }
    for (Value read : {plan->sourceA, plan->sourceB, plan->bias, plan->addend})
      if (read)
        need(read);
    if (!plan->zeroInit)
      need(op.getOperand(2));
  }

  for (Operation &op : block) {
    ComputeKind kind = getComputeKind(&op);
    if (!needed.contains(&op) || absorbedBy.contains(&op) ||
        kind == ComputeKind::View || kind == ComputeKind::Constant ||
        kind == ComputeKind::Scalar)
      continue;
    const ContractionPlan *contraction = contractions.lookup(&op);
    if (kind == ComputeKind::Contraction && !contraction)
      kind = ComputeKind::Opaque;
    index[&op] = nodes.size();
    nodes.push_back({&op, kind, phases.isForward(&op), {}, {}, {}, {}});
    if (contraction)
      nodes.back().contraction = *contraction;
  }
  for (auto [absorbed, contraction] : absorbedBy)
    if (index.contains(contraction))
      index[absorbed] = index.lookup(contraction);

  for (auto [i, node] : llvm::enumerate(nodes)) {
    if (node.contraction) {
      const ContractionPlan &plan = *node.contraction;
      for (Value read : {plan.sourceA, plan.sourceB, plan.bias, plan.addend})
        if (read)
          collectReads(node, read, nullptr);
      if (!node.contraction->zeroInit)
        collectReads(node, node.contraction->op.getDpsInits()[0], nullptr);
    } else {
      bool loop = node.kind == ComputeKind::Elementwise ||
                  node.kind == ComputeKind::Reduction;
      llvm::SmallDenseSet<Value> direct;
      for (OpOperand &operand : node.op->getOpOperands()) {
        direct.insert(operand.get());
        collectReads(node, operand.get(), loop ? &operand : nullptr);
      }
      // Captured by a region: read at computed positions.
      for (Value value : getReadValues(node.op))
        if (!direct.contains(value))
          collectReads(node, value, nullptr);
    }
    for (Edge &edge : node.reads) {
      if (edge.producer >= 0)
        nodes[edge.producer].readers.push_back(i);
      if (Value unit = getUnitOf(edge.value)) {
        // Several: a unit of its own that equals no other.
        bool mixed = node.unit && node.unit != unit;
        node.unit =
            mixed && node.op->getNumResults() ? node.op->getResult(0) : unit;
      }
    }
  }
}
