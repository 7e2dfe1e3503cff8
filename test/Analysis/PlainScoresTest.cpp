//===- PlainScoresTest.cpp - Score functions that only mask ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Attention/PlainScores.h"
#include "ModuleTest.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class PlainScores : public ModuleTest {
protected:
  /// Whether a body that yields %r from the score %s and the indices %i and %j
  /// is plain.
  bool isPlain(const std::string &body, bool isCausal) {
    ModuleOp parsed = parse(
        "func.func @f(%q: tensor<8x4x8xf32>) -> tensor<8x4x8xf32> {\n"
        "  %out, %stats = fsdp.attention <batch = [8], queries = 4, keys = 4, "
        "head = 8, value = 8> q(%q <0, [32, 8, 1]> : tensor<8x4x8xf32>) k(%q "
        "<0, [32, 8, 1]> : tensor<8x4x8xf32>) v(%q <0, [32, 8, 1]> : "
        "tensor<8x4x8xf32>) captured() [] scale 0.5 " +
        std::string(isCausal ? "causal" : "") +
        " {\n  ^bb0(%s: f32, %b: index, %i: index, %j: index):\n" + constants +
        body +
        "\n    fsdp.yield %r : f32\n  } out(<0, [32, 8, 1]>) : "
        "tensor<8x4x8xf32>, tensor<64xf32>\n"
        "  return %out : tensor<8x4x8xf32>\n}\n");
    bool plain = false;
    parsed.walk([&](AttentionOp op) { plain = hasPlainScores(op); });
    return plain;
  }

  /// The same with a body for the gradient, %r of %g.
  bool isBackwardPlain(const std::string &gradient) {
    ModuleOp parsed = parse(
        "func.func @f(%q: tensor<8x4x8xf32>, %m: tensor<64xf32>) -> "
        "tensor<8x4x8xf32> {\n"
        "  %dq = fsdp.attention_backward <batch = [8], queries = 4, keys = 4, "
        "head = 8, value = 8> q(%q <0, [32, 8, 1]> : tensor<8x4x8xf32>) k(%q "
        "<0, [32, 8, 1]> : tensor<8x4x8xf32>) v(%q <0, [32, 8, 1]> : "
        "tensor<8x4x8xf32>) out(%q <0, [32, 8, 1]> : tensor<8x4x8xf32>) "
        "dout(%q <0, [32, 8, 1]> : tensor<8x4x8xf32>) stats(%m : "
        "tensor<64xf32>) captured() [] scale 0.5 causal {\n"
        "  ^bb0(%s: f32, %b: index, %i: index, %j: index):\n" +
        constants + causal +
        "\n    fsdp.yield %r : f32\n  } gradient {\n"
        "  ^bb0(%g: f32, %s: f32, %b: index, %i: index, %j: index):\n" +
        constants + gradient +
        "\n    fsdp.yield %r : f32\n  } dq(<0, [32, 8, 1]> scale 0.5 : "
        "tensor<8x4x8xf32>)\n  return %dq : tensor<8x4x8xf32>\n}\n");
    bool plain = false;
    parsed.walk([&](AttentionBackwardOp op) { plain = hasPlainScores(op); });
    return plain;
  }

  const std::string constants =
      "    %zero = arith.constant 0.0 : f32\n"
      "    %one = arith.constant 1.0 : f32\n"
      "    %low = arith.constant 0xFF800000 : f32\n"
      "    %isSeen = arith.cmpi ule, %j, %i : index\n";
  const std::string causal = "    %r = arith.select %isSeen, %s, %low : f32\n";
};
} // namespace

TEST_F(PlainScores, nothing) {
  EXPECT_TRUE(isPlain("    %r = arith.addf %s, %zero : f32", false));
  EXPECT_TRUE(isPlain("    %r = arith.mulf %one, %s : f32", false));
  EXPECT_FALSE(isPlain("    %r = arith.addf %s, %one : f32", false));
  EXPECT_FALSE(isPlain("    %r = math.tanh %s : f32", false));
  EXPECT_FALSE(isPlain("    %r = arith.addf %zero, %one : f32", false));
}

TEST_F(PlainScores, causal) {
  EXPECT_TRUE(isPlain(causal, true));
  // What is said of the op is what the body does.
  EXPECT_FALSE(isPlain(causal, false));
  EXPECT_FALSE(isPlain("    %r = arith.addf %s, %zero : f32", true));
  EXPECT_TRUE(isPlain("    %m = arith.select %isSeen, %zero, %low : f32\n"
                      "    %r = arith.addf %s, %m : f32",
                      true));
  // As models write it: casts, a narrow mask, the other order, a number that is
  // as good as minus infinity.
  EXPECT_TRUE(isPlain("    %a = arith.index_cast %i : index to i64\n"
                      "    %c = arith.index_cast %j : index to i64\n"
                      "    %isHidden = arith.cmpi sgt, %c, %a : i64\n"
                      "    %n = arith.constant 0.0 : bf16\n"
                      "    %l = arith.constant 0xFF7F : bf16\n"
                      "    %m = arith.select %isHidden, %l, %n : bf16\n"
                      "    %w = arith.extf %m : bf16 to f32\n"
                      "    %r = arith.addf %w, %s : f32",
                      true));
  EXPECT_TRUE(isPlain("    %true = arith.constant true\n"
                      "    %both = arith.andi %isSeen, %true : i1\n"
                      "    %r = arith.select %both, %s, %low : f32",
                      true));
}

TEST_F(PlainScores, otherMasks) {
  // Keys before the query's own alone.
  EXPECT_FALSE(isPlain("    %before = arith.cmpi ult, %j, %i : index\n"
                       "    %r = arith.select %before, %s, %low : f32",
                       true));
  // A window.
  EXPECT_FALSE(isPlain("    %two = arith.constant 2 : index\n"
                       "    %end = arith.addi %j, %two : index\n"
                       "    %isNear = arith.cmpi ugt, %end, %i : index\n"
                       "    %both = arith.andi %isNear, %isSeen : i1\n"
                       "    %r = arith.select %both, %s, %low : f32",
                       true));
  // A finite number that shows.
  EXPECT_FALSE(isPlain("    %some = arith.constant -1.0e4 : f32\n"
                       "    %r = arith.select %isSeen, %s, %some : f32",
                       true));
}

TEST_F(PlainScores, gradients) {
  EXPECT_TRUE(isBackwardPlain("    %r = arith.addf %g, %zero : f32"));
  EXPECT_TRUE(
      isBackwardPlain("    %r = arith.select %isSeen, %g, %zero : f32"));
  EXPECT_FALSE(
      isBackwardPlain("    %r = arith.select %isSeen, %g, %one : f32"));
  EXPECT_FALSE(isBackwardPlain("    %r = arith.mulf %g, %s : f32"));
  EXPECT_FALSE(isBackwardPlain("    %r = arith.addf %s, %zero : f32"));
}
