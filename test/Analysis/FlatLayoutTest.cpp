//===- FlatLayoutTest.cpp - Which parameters share a flat parameter -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/FlatLayout.h"

#include "ModuleTest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <random>
#include <set>
#include <tuple>

using namespace mlir;
using namespace mlir::fsdp;

namespace {

/// A parameter to be, as the property test draws it.
struct ParamSpec {
  std::string type;
  bool trainable;
  std::string unit;
  Treatment treatment = Treatment::Sharded;
};

class FlatLayout : public ModuleTest {
protected:
  /// A step with these parameters, named p0, p1, ...; gradients are the
  /// parameters themselves.
  TracedStep makeStep(llvm::ArrayRef<ParamSpec> params) {
    std::string args, results = "tensor<f32> {fsdp.loss}", values = "%x",
                      types = "tensor<f32>";
    for (auto [i, param] : llvm::enumerate(params)) {
      std::string n = std::to_string(i);
      args += "%p" + n + ": " + param.type + " {fsdp.param = {fqn = \"p" + n +
              "\", requires_grad = " + (param.trainable ? "true" : "false") +
              "}}, ";
      if (!param.trainable)
        continue;
      results += ", " + param.type + " {fsdp.grad = {fqn = \"p" + n + "\"}}";
      values += ", %p" + n;
      types += ", " + param.type;
    }
    ModuleOp module =
        parse("func.func private @taken()\n"
              "func.func @forward_backward(" +
              args +
              "%x: tensor<f32> {fsdp.input = {name = \"x\"}}) "
              "-> (" +
              results + ") {\n return " + values + " : " + types + "\n}");
    FailureOr<TracedStep> step = readTracedStep(module);
    EXPECT_TRUE(succeeded(step));
    return *step;
  }

  std::vector<FlatPlan> plan(llvm::ArrayRef<ParamSpec> params,
                             int64_t shardRanks) {
    TracedStep step = makeStep(params);
    std::vector<std::string> units;
    std::vector<Treatment> treatments;
    for (const ParamSpec &param : params) {
      units.push_back(param.unit);
      treatments.push_back(param.treatment);
    }
    return planFlatParams(step, units, treatments,
                          [&](llvm::StringRef) { return shardRanks; });
  }
};

TEST_F(FlatLayout, MembersStartAtCacheLines) {
  std::vector<FlatPlan> plans = plan({{"tensor<3x5xf32>", true, "a"},
                                      {"tensor<32xf32>", true, "a"},
                                      {"tensor<f32>", true, "a"},
                                      {"tensor<2xf32>", true, "a"}},
                                     /*shardRanks=*/2);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].params, (SmallVector<unsigned>{0, 1, 2, 3}));
  EXPECT_EQ(plans[0].offsets, (SmallVector<int64_t>{0, 32, 64, 96}));
  // 98 elements: two pieces of 49, each rounded up to 64.
  EXPECT_EQ(plans[0].numel, 128);
}

TEST_F(FlatLayout, SplitsByUnitTypeTreatmentAndTrainability) {
  std::vector<FlatPlan> plans =
      plan({{"tensor<4xf32>", true, ""},
            {"tensor<4xf32>", true, "m"},
            {"tensor<4xbf16>", true, "m"},
            {"tensor<4xf32>", false, "m"},
            {"tensor<4xf32>", true, "", Treatment::Replicated},
            {"tensor<4xf32>", true, "", Treatment::Ignored},
            {"tensor<4xf32>", true, "m"}},
           /*shardRanks=*/4);
  std::vector<std::string> names;
  for (const FlatPlan &flat : plans)
    names.push_back(flat.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"root", "m.f32", "m.bf16", "m.f32.frozen",
                                      "root.replicated", "root.ignored"}));
  EXPECT_EQ(plans[1].params, (SmallVector<unsigned>{1, 6}));
  // Only what is sharded is cut into pieces.
  EXPECT_EQ(plans[0].numel, 4 * 32);
  EXPECT_EQ(plans[4].numel, 32);
  EXPECT_EQ(plans[5].numel, 32);
}

TEST_F(FlatLayout, NamesKeepClearOfSymbols) {
  std::vector<FlatPlan> plans = plan({{"tensor<4xf32>", true, "mesh"},
                                      {"tensor<4xf32>", true, "train"},
                                      {"tensor<4xf32>", true, "optimizer"},
                                      {"tensor<4xf32>", true, "taken"},
                                      {"tensor<4xf32>", true, "root"},
                                      {"tensor<4xf32>", true, "root_1"},
                                      {"tensor<4xf32>", true, ""}},
                                     /*shardRanks=*/1);
  std::vector<std::string> names;
  for (const FlatPlan &flat : plans)
    names.push_back(flat.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"mesh_1", "train_1", "optimizer_1",
                                      "taken_1", "root", "root_1", "root_2"}));
}

TEST_F(FlatLayout, EmptyMembersLeaveAPieceForEachRank) {
  std::vector<FlatPlan> plans =
      plan({{"tensor<0x8xf32>", true, ""}}, /*shardRanks=*/3);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].numel, 96);
}

TEST_F(FlatLayout, HoldsItsPropertiesOnRandomParameters) {
  std::mt19937 random(11);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 60; ++round) {
    std::vector<ParamSpec> params;
    std::vector<int64_t> numels;
    for (int64_t i = 0, e = 1 + below(20); i < e; ++i) {
      int64_t numel = 1;
      std::string type = "tensor<";
      for (int64_t dim = 0, rank = below(4); dim < rank; ++dim) {
        int64_t size = below(3) ? 1 + below(40) : 1 + below(3000);
        numel *= size;
        type += std::to_string(size) + "x";
      }
      params.push_back({type + (below(4) ? "f32>" : "bf16>"), below(4) != 0,
                        below(3) ? "u" + std::to_string(below(3)) : "",
                        static_cast<Treatment>(below(5) ? 0 : below(3))});
      numels.push_back(numel);
    }
    int64_t shardRanks = 1 + below(17);
    std::vector<FlatPlan> plans = plan(params, shardRanks);

    std::set<unsigned> placed;
    std::set<std::string> names;
    std::set<std::tuple<std::string, bool, bool, int>> kinds;
    unsigned lastFirst = 0;
    for (const FlatPlan &flat : plans) {
      SCOPED_TRACE("round " + std::to_string(round) + ", " + flat.name);
      ASSERT_FALSE(flat.params.empty());
      EXPECT_TRUE(names.insert(flat.name).second);
      // Plans stand in the order of their first members.
      EXPECT_GE(flat.params.front(), lastFirst);
      lastFirst = flat.params.front();
      EXPECT_TRUE(
          kinds
              .insert({flat.unit, flat.trainable, flat.elementType.isF32(),
                       static_cast<int>(flat.treatment)})
              .second);
      int64_t end = 0;
      for (auto [index, offset] : llvm::zip_equal(flat.params, flat.offsets)) {
        EXPECT_TRUE(placed.insert(index).second);
        EXPECT_EQ(params[index].unit, flat.unit);
        EXPECT_EQ(params[index].trainable, flat.trainable);
        EXPECT_EQ(params[index].treatment, flat.treatment);
        EXPECT_EQ(llvm::StringRef(params[index].type).ends_with("xf32>") ||
                      params[index].type == "tensor<f32>",
                  flat.elementType.isF32());
        // Behind the member before it, at the next multiple and no further.
        EXPECT_EQ(offset % kMemberAlignment, 0);
        EXPECT_GE(offset, end);
        EXPECT_LT(offset, end + kMemberAlignment);
        end = offset + numels[index];
      }
      int64_t ranks = flat.treatment == Treatment::Sharded ? shardRanks : 1;
      ASSERT_EQ(flat.numel % ranks, 0);
      EXPECT_GE(flat.numel, end);
      // A rank's piece is padded to a multiple that adds at most a hundredth
      // of it, or to the least there is.
      int64_t piece = flat.numel / ranks;
      int64_t needed = llvm::divideCeil(end, ranks);
      EXPECT_EQ(piece % kMemberAlignment, 0);
      EXPECT_LT(piece - needed, std::max(kMemberAlignment, needed / 100));
    }
    EXPECT_EQ(placed.size(), params.size());
  }
}

TEST_F(FlatLayout, IsTheSameEveryTime) {
  std::vector<ParamSpec> params{{"tensor<4xbf16>", true, "b"},
                                {"tensor<5xf32>", false, "a"},
                                {"tensor<6xf32>", true, "b"}};
  std::vector<FlatPlan> first = plan(params, 3), second = plan(params, 3);
  ASSERT_EQ(first.size(), second.size());
  for (auto [a, b] : llvm::zip(first, second)) {
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.params, b.params);
    EXPECT_EQ(a.offsets, b.offsets);
    EXPECT_EQ(a.numel, b.numel);
  }
}

TEST(ShardAlignment, IsTheLargestPowerOfTwoThatAddsAHundredth) {
  for (int64_t numel = 1; numel < 2000000; numel += 1 + numel / 50) {
    int64_t alignment = getShardAlignment(numel);
    EXPECT_TRUE(llvm::isPowerOf2_64(alignment));
    EXPECT_GE(alignment, kMemberAlignment);
    EXPECT_LE(alignment, 4096);
    EXPECT_TRUE(alignment == kMemberAlignment || alignment * 100 <= numel);
    EXPECT_TRUE(alignment == 4096 || 2 * alignment * 100 > numel);
  }
}

TEST_F(FlatLayout, DtypesFollowFSDP) {
  FloatType f32 = Float32Type::get(&context),
            bf16 = BFloat16Type::get(&context),
            f16 = Float16Type::get(&context);
  auto check = [&](FloatType traced, FloatType param, FloatType reduce,
                   std::array<FloatType, 3> expected,
                   Treatment treatment = Treatment::Sharded) {
    FlatDtypes types = getFlatDtypes(traced, param, reduce, treatment);
    EXPECT_EQ(types.state, expected[0]);
    EXPECT_EQ(types.gather, expected[1]);
    EXPECT_EQ(types.reduce, expected[2]);
  };
  check(f32, {}, {}, {f32, f32, f32});
  // reduce_dtype defaults to param_dtype.
  check(f32, bf16, {}, {f32, bf16, bf16});
  check(f32, bf16, f32, {f32, bf16, f32});
  check(f32, {}, f16, {f32, f32, f16});
  // A narrow trace is its own state until a gather type is asked for.
  check(bf16, {}, {}, {bf16, bf16, bf16});
  check(bf16, bf16, {}, {f32, bf16, bf16});
  // Replicated parameters are FSDP's; ignored ones are left alone.
  check(f32, bf16, {}, {f32, bf16, bf16}, Treatment::Replicated);
  check(f32, bf16, f16, {f32, f32, f32}, Treatment::Ignored);
  check(bf16, bf16, {}, {bf16, bf16, bf16}, Treatment::Ignored);
}

TEST_F(FlatLayout, ReadsFloatTypes) {
  EXPECT_TRUE(parseFloatType(&context, "f32").isF32());
  EXPECT_TRUE(parseFloatType(&context, "f64").isF64());
  EXPECT_TRUE(parseFloatType(&context, "bf16").isBF16());
  EXPECT_TRUE(parseFloatType(&context, "f16").isF16());
  for (llvm::StringRef text : {"", "F32", "fp16", "float32", "i32", "f8E4M3"})
    EXPECT_FALSE(parseFloatType(&context, text)) << text.str();
}

} // namespace
