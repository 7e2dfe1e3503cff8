//===- StepStructureTest.cpp - Phases and parameter-only values -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepStructure.h"

#include "ModuleTest.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

#include <random>

using namespace mlir;
using namespace mlir::fsdp;

namespace {

class StepStructure : public ModuleTest {
protected:
  /// The body of @f.
  Block &parseBody(llvm::StringRef text) {
    func = *parse(text).getOps<func::FuncOp>().begin();
    return func.getBody().front();
  }
  /// The op with attribute `name`.
  Operation *get(llvm::StringRef name) {
    Operation *found = nullptr;
    func.walk([&](Operation *op) {
      if (op->hasAttr(name))
        found = op;
    });
    EXPECT_TRUE(found) << name.str();
    return found;
  }
  /// Names of the ops among `ops`' attributes a, b, c, ...; sorted.
  static std::string getNames(llvm::ArrayRef<Operation *> ops) {
    std::vector<std::string> names;
    for (Operation *op : ops)
      for (NamedAttribute attr : op->getDiscardableAttrs())
        names.push_back(attr.getName().str());
    llvm::sort(names);
    return llvm::join(names, " ");
  }

  func::FuncOp func;
};

constexpr llvm::StringLiteral kRegions = R"(
func.func @f(%t: tensor<4xf32>, %i: index, %c: i1) -> f32 {
  %other = "test.op"(%t) {outside} : (tensor<4xf32>) -> f32
  %r = scf.if %c -> f32 {
    %x = "test.nested"() ({
      %y = tensor.extract %t[%i] : tensor<4xf32>
      "test.yield"(%y) : (f32) -> ()
    }) : () -> f32
    scf.yield %x : f32
  } else {
    scf.yield %other : f32
  } {branch}
  return %r : f32
})";

TEST_F(StepStructure, RegionsReadForTheirOp) {
  Block &block = parseBody(kRegions);
  SmallVector<Value> read = getReadValues(get("branch"));
  EXPECT_EQ(read.size(), 4u);
  for (Value value :
       {Value(block.getArgument(0)), Value(block.getArgument(1)),
        Value(block.getArgument(2)), Value(get("outside")->getResult(0))})
    EXPECT_TRUE(llvm::is_contained(read, value));
  EXPECT_EQ(getNames(getReaders(block.getArgument(0), &block)),
            "branch outside");
  EXPECT_EQ(getNames(getReaders(block.getArgument(1), &block)), "branch");
}

TEST_F(StepStructure, ForwardIsWhatTheRootsNeed) {
  Block &block = parseBody(R"(
func.func @f(%x: f32) -> (f32, f32, f32) {
  %saved = "test.op"(%x) {fwd} : (f32) -> f32
  %grad = "test.op"(%saved) {bwd} : (f32) -> f32
  %loss = "test.op"(%saved) {fwd} : (f32) -> f32
  %dead = "test.op"(%x) {bwd} : (f32) -> f32
  %buffer = "test.op"(%x) {fwd} : (f32) -> f32
  // Assertions go where what they look at is.
  "test.assert"(%saved, %loss) {fwd} : (f32, f32) -> ()
  "test.assert"(%grad) {bwd} : (f32) -> ()
  "test.assert"(%saved, %grad) {bwd} : (f32, f32) -> ()
  "test.assert"(%x) {fwd} : (f32) -> ()
  return %loss, %grad, %buffer : f32, f32, f32
})");
  Operation *ret = block.getTerminator();
  StepPhases phases(&block, {ret->getOperand(0), ret->getOperand(2)});
  for (Operation &op : block.without_terminator())
    EXPECT_EQ(phases.isForward(&op), op.hasAttr("fwd"))
        << op.getName().getStringRef().str();
  EXPECT_FALSE(phases.isForward(ret));
}

TEST_F(StepStructure, WhatARegionReadsIsForwardToo) {
  Block &block = parseBody(kRegions);
  StepPhases phases(&block, {block.getTerminator()->getOperand(0)});
  EXPECT_TRUE(phases.isForward(get("outside")));
}

TEST_F(StepStructure, DerivedValuesStopAtTheBatchAndAtEffects) {
  Block &block = parseBody(R"(
func.func @f(%w: tensor<4xf32>, %x: tensor<4xf32>) {
  %c = arith.constant {no} dense<1.0> : tensor<4xf32>
  %two = arith.addf %c, %c {no} : tensor<4xf32>
  %a = math.sqrt %w {yes} : tensor<4xf32>
  %b = arith.addf %a, %two {yes} : tensor<4xf32>
  %m = arith.addf %a, %x {no} : tensor<4xf32>
  %o = "test.opaque"(%w) {no} : (tensor<4xf32>) -> tensor<4xf32>
  %k = func.call @g(%w) {no} : (tensor<4xf32>) -> tensor<4xf32>
  %i = arith.constant {no} 0 : index
  %e = tensor.extract %b[%i] {yes} : tensor<4xf32>
  return
}
func.func private @g(tensor<4xf32>) -> tensor<4xf32>)");
  DerivedValues derived(&block, block.getArgument(0));
  EXPECT_TRUE(derived.contains(block.getArgument(0)));
  EXPECT_FALSE(derived.contains(block.getArgument(1)));
  for (Operation &op : block.without_terminator())
    EXPECT_EQ(derived.contains(op.getResult(0)), op.hasAttr("yes"))
        << op.getName().getStringRef().str();
}

TEST_F(StepStructure, DerivedValuesAgreeWithAFixpointOnRandomSteps) {
  std::mt19937 random(3);
  auto below = [&](size_t n) { return random() % n; };
  size_t found = 0;
  for (int round = 0; round < 50; ++round) {
    // %v0 and %v1 are the sources, %v2 and %v3 other arguments.
    std::string text =
        "func.func @f(%v0: f32, %v1: f32, %v2: f32, %v3: f32) {\n";
    for (size_t i = 4; i < 60; ++i) {
      // Mostly recent or early values, so that chains are long.
      auto pick = [&] {
        return "%v" + std::to_string(below(3) ? below(i) : below(2));
      };
      text += "%v" + std::to_string(i) + " = ";
      switch (below(8)) {
      case 0:
        text += "arith.constant 1.0 : f32\n";
        break;
      case 1:
        text += "\"test.opaque\"(" + pick() + ") : (f32) -> f32\n";
        break;
      default:
        text += "arith.addf " + pick() + ", " + pick() + " : f32\n";
      }
    }
    Block &block = parseBody(text + "return\n}");

    // The definition, repeated until nothing changes.
    llvm::DenseSet<Value> constant,
        expected{block.getArgument(0), block.getArgument(1)};
    for (bool changed = true; changed;) {
      changed = false;
      for (Operation &op : block.without_terminator()) {
        if (!isMemoryEffectFree(&op))
          continue;
        Value result = op.getResult(0);
        if (llvm::all_of(op.getOperands(),
                         [&](Value v) { return constant.contains(v); }))
          changed |= constant.insert(result).second;
        else if (llvm::all_of(op.getOperands(), [&](Value v) {
                   return constant.contains(v) || expected.contains(v);
                 }))
          changed |= expected.insert(result).second;
      }
    }
    DerivedValues derived(&block, {block.getArgument(0), block.getArgument(1)});
    for (Operation &op : block.without_terminator())
      ASSERT_EQ(derived.contains(op.getResult(0)),
                expected.contains(op.getResult(0)))
          << "round " << round;
    EXPECT_EQ(derived.getValues().size(), expected.size());
    found += expected.size() - 2;
    // Each value comes after one that it is computed from.
    llvm::DenseSet<Value> before;
    for (Value value : derived.getValues()) {
      if (Operation *op = value.getDefiningOp())
        EXPECT_TRUE(llvm::any_of(op->getOperands(),
                                 [&](Value v) { return before.contains(v); }));
      before.insert(value);
    }
  }
  EXPECT_GT(found, 100u);
}

TEST_F(StepStructure, KindsOfOps) {
  Block &block = parseBody(R"(
func.func @f(%w: tensor<2x4xf32>, %n: index) {
  %c = arith.constant {constant} 0.0 : f32
  %e = tensor.empty() {constant} : tensor<4x2xf32>
  %d = tensor.empty(%n) {neither} : tensor<?xf32>
  %f = linalg.fill {constant} ins(%c : f32) outs(%e : tensor<4x2xf32>) -> tensor<4x2xf32>
  %g = linalg.fill {neither} ins(%c : f32) outs(%w : tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = linalg.transpose ins(%w : tensor<2x4xf32>) outs(%e : tensor<4x2xf32>) permutation = [1, 0] {view}
  %s = tensor.extract_slice %w[0, 0] [1, 4] [1, 1] {view} : tensor<2x4xf32> to tensor<1x4xf32>
  %k = tensor.collapse_shape %w [[0, 1]] {view} : tensor<2x4xf32> into tensor<8xf32>
  %b = tensor.empty() {constant} : tensor<2x4xbf16>
  %narrow = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<2x4xf32>) outs(%b : tensor<2x4xbf16>) attrs = {view} {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<2x4xbf16>
  %scaled = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<2x4xf32>) outs(%g : tensor<2x4xf32>) attrs = {neither} {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %x : f32
    linalg.yield %y : f32
  } -> tensor<2x4xf32>
  %r = math.sqrt %w {neither} : tensor<2x4xf32>
  return
})");
  for (Operation &op : block.without_terminator()) {
    EXPECT_EQ(isConstantValue(&op), op.hasAttr("constant"))
        << op.getName().getStringRef().str();
    EXPECT_EQ(isViewOrCast(&op), op.hasAttr("view"))
        << op.getName().getStringRef().str();
  }
}

} // namespace
