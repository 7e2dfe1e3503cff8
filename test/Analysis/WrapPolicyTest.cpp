//===- WrapPolicyTest.cpp - Which parameters form a unit ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/WrapPolicy.h"

#include "TestSupport.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <map>
#include <random>
#include <set>

using namespace mlir::fsdp;

namespace {

using Units = std::vector<std::string>;

/// The units of single-named parameters.
Units assign(llvm::ArrayRef<ModuleInfo> modules,
             std::vector<std::pair<std::string, int64_t>> params,
             llvm::StringRef policy) {
  std::vector<WrapParam> wrapped;
  for (auto &[name, numel] : params)
    wrapped.push_back({{name}, numel});
  return llvm::cantFail(
      assignUnits(modules, wrapped, llvm::cantFail(WrapPolicy::parse(policy))));
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

TEST(WrapPolicy, ReadsEveryForm) {
  EXPECT_EQ(llvm::cantFail(WrapPolicy::parse("blocks")).kind,
            WrapPolicy::Kind::Blocks);
  EXPECT_EQ(llvm::cantFail(WrapPolicy::parse("none")).kind,
            WrapPolicy::Kind::None);
  WrapPolicy classes = llvm::cantFail(WrapPolicy::parse("module:A,B"));
  EXPECT_EQ(classes.kind, WrapPolicy::Kind::Module);
  EXPECT_EQ(classes.classes, (std::vector<std::string>{"A", "B"}));
}

TEST(WrapPolicy, SizesCountInPowersOfThousand) {
  auto numel = [](llvm::StringRef text) {
    WrapPolicy policy = llvm::cantFail(WrapPolicy::parse(text));
    EXPECT_EQ(policy.kind, WrapPolicy::Kind::Size);
    return policy.minNumel;
  };
  EXPECT_EQ(numel("size:1"), 1);
  EXPECT_EQ(numel("size:5k"), 5000);
  EXPECT_EQ(numel("size:20M"), 20000000);
  EXPECT_EQ(numel("size:9223372036G"), 9223372036000000000);
}

TEST(WrapPolicy, RefusesOtherForms) {
  for (llvm::StringRef text : {"", "block", "Module:A", "size", "automatic"})
    EXPECT_EQ(getError(WrapPolicy::parse(text)),
              "expected module:CLASS[,CLASS..], size:N, blocks, pieces, none "
              "or auto as "
              "wrap policy, got '" +
                  text.str() + "'");
  for (llvm::StringRef count :
       {"", "0", "-1", "1.5M", "20m", "M", "9223372037G", "1 "})
    EXPECT_EQ(getError(WrapPolicy::parse(("size:" + count).str())),
              "expected a positive number of elements after 'size:', got '" +
                  count.str() + "'");
  for (llvm::StringRef text : {"module:", "module:,"})
    EXPECT_EQ(getError(WrapPolicy::parse(text)),
              "expected a class after 'module:', got nothing");
}

//===----------------------------------------------------------------------===//
// module:CLASS
//===----------------------------------------------------------------------===//

const ModuleInfo kNested[] = {
    {"", "Net"},        {"enc", "Stack"},         {"enc.0", "Block"},
    {"enc.0.a", "Mlp"}, {"enc.0.a.in", "Linear"}, {"enc.1", "Block"},
    {"enc.1.a", "Mlp"}, {"enc.1.a.in", "Linear"}, {"head", "Linear"},
};
const std::vector<std::pair<std::string, int64_t>> kNestedParams = {
    {"scale", 1},        {"enc.0.bias", 1},  {"enc.0.a.in.w", 1},
    {"enc.1.a.in.w", 1}, {"enc.1.a.out", 1}, {"head.w", 1},
};

TEST(WrapModule, OuterClassOwnsWhatIsBelow) {
  EXPECT_EQ(assign(kNested, kNestedParams, "module:Block"),
            (Units{"", "enc.0", "enc.0", "enc.1", "enc.1", ""}));
}

TEST(WrapModule, InnerUnitTakesItsPartOfAnOuterOne) {
  EXPECT_EQ(assign(kNested, kNestedParams, "module:Block,Mlp"),
            (Units{"", "enc.0", "enc.0.a", "enc.1.a", "enc.1.a", ""}));
  EXPECT_EQ(assign(kNested, kNestedParams, "module:Linear,Stack"),
            (Units{"", "enc", "enc.0.a.in", "enc.1.a.in", "enc", "head"}));
}

TEST(WrapModule, TheRootsOwnClassIsTheRoot) {
  EXPECT_EQ(assign(kNested, kNestedParams, "module:Net"),
            Units(kNestedParams.size(), ""));
}

TEST(WrapModule, UnknownClassListsThoseThereAre) {
  std::vector<WrapParam> params{{{"head.w"}, 1}};
  WrapPolicy policy = llvm::cantFail(WrapPolicy::parse("module:Mlp,GPT2Block"));
  EXPECT_EQ(getError(assignUnits(kNested, params, policy)),
            "expected classes of the model after 'module:', got 'GPT2Block'; "
            "there are Net, Stack, Block, Mlp, Linear");
  EXPECT_EQ(getError(assignUnits({}, params, policy)),
            "expected classes of the model after 'module:', got 'Mlp'; there "
            "are none: the step lists no modules");
}

//===----------------------------------------------------------------------===//
// blocks
//===----------------------------------------------------------------------===//

TEST(WrapBlocks, TwoKindsOfBlocks) {
  const ModuleInfo modules[] = {
      {"", "Seq2Seq"},      {"encoder", "ModuleList"}, {"encoder.0", "Enc"},
      {"encoder.1", "Enc"}, {"decoder", "ModuleList"}, {"decoder.0", "Dec"},
      {"decoder.1", "Dec"}, {"decoder.2", "Dec"},
  };
  EXPECT_EQ(assign(modules,
                   {{"encoder.0.w", 1},
                    {"encoder.1.w", 1},
                    {"decoder.0.w", 1},
                    {"decoder.1.w", 1},
                    {"decoder.2.w", 1},
                    {"out", 1}},
                   "blocks"),
            (Units{"encoder.0", "encoder.1", "decoder.0", "decoder.1",
                   "decoder.2", ""}));
}

TEST(WrapBlocks, MixedListWrapsOnlyWhatRepeats) {
  const ModuleInfo modules[] = {{"", "Net"},
                                {"0", "Conv"},
                                {"1", "Block"},
                                {"2", "Block"},
                                {"3", "Head"}};
  EXPECT_EQ(assign(modules, {{"0.w", 1}, {"1.w", 1}, {"2.w", 1}, {"3.w", 1}},
                   "blocks"),
            (Units{"", "1", "2", ""}));
}

TEST(WrapBlocks, OutermostRepetitionWins) {
  const ModuleInfo modules[] = {
      {"", "Net"},        {"s", "ModuleList"}, {"s.0", "Stage"},
      {"s.0.0", "Block"}, {"s.0.1", "Block"},  {"s.1", "Stage"},
      {"s.1.0", "Block"}, {"s.1.1", "Block"},
  };
  EXPECT_EQ(
      assign(modules,
             {{"s.0.0.w", 1}, {"s.0.1.w", 1}, {"s.1.0.w", 1}, {"s.1.1.w", 1}},
             "blocks"),
      (Units{"s.0", "s.0", "s.1", "s.1"}));
}

TEST(WrapBlocks, LooksBelowAListOfOne) {
  const ModuleInfo modules[] = {{"", "Net"},
                                {"s", "ModuleList"},
                                {"s.0", "Stage"},
                                {"s.0.0", "Block"},
                                {"s.0.1", "Block"}};
  EXPECT_EQ(assign(modules, {{"s.0.0.w", 1}, {"s.0.1.w", 1}}, "blocks"),
            (Units{"s.0.0", "s.0.1"}));
}

TEST(WrapBlocks, NothingRepeatsGivesTheRoot) {
  const ModuleInfo modules[] = {{"", "Net"},
                                {"a", "Linear"},
                                {"b", "Linear"},
                                {"l", "ModuleList"},
                                {"l.0", "Linear"},
                                // A second element without parameters.
                                {"l.1", "Linear"}};
  EXPECT_EQ(assign(modules, {{"a.w", 1}, {"b.w", 1}, {"l.0.w", 1}}, "blocks"),
            (Units{"", "", ""}));
}

TEST(WrapBlocks, NamesAloneTellWhereModulesAreNotListed) {
  EXPECT_EQ(assign({}, {{"emb", 1}, {"h.0.a.w", 1}, {"h.1.a.w", 1}}, "blocks"),
            (Units{"", "h.0", "h.1"}));
}

TEST(WrapPieces, CutsBlocksAndWhatIsLargeBesideThem) {
  const ModuleInfo modules[] = {
      {"", "Model"},
      {"embed", "Embedding"},
      {"layers", "ModuleList"},
      {"layers.0", "Layer"},
      {"layers.0.norm", "Norm"},
      {"layers.0.attn", "Attention"},
      {"layers.0.mlp", "Mlp"},
      {"layers.1", "Layer"},
      {"layers.1.norm", "Norm"},
      {"layers.1.attn", "Attention"},
      {"layers.1.mlp", "Mlp"},
      {"norm", "Norm"},
      {"head", "Linear"},
  };
  // The rest of a block is small, so attention stays with it; embedding and
  // head are units, the last norm is not.
  EXPECT_EQ(assign(modules,
                   {{"embed.w", 900},
                    {"layers.0.norm.w", 10},
                    {"layers.0.attn.w", 400},
                    {"layers.0.mlp.w", 600},
                    {"layers.1.norm.w", 10},
                    {"layers.1.attn.w", 400},
                    {"layers.1.mlp.w", 600},
                    {"norm.w", 10},
                    {"head.w", 900}},
                   "pieces"),
            (Units{"embed", "layers.0", "layers.0", "layers.0.mlp", "layers.1",
                   "layers.1", "layers.1.mlp", "", "head"}));
  // A block whose own parameters are many keeps them to itself.
  EXPECT_EQ(
      assign(modules,
             {{"layers.0.w", 400},
              {"layers.0.attn.w", 400},
              {"layers.1.w", 400},
              {"layers.1.attn.w", 400},
              {"head.w", 100}},
             "pieces"),
      (Units{"layers.0", "layers.0.attn", "layers.1", "layers.1.attn", ""}));
}

TEST(WrapPieces, IsWhatAutoIsWhereNothingIsPlanned) {
  EXPECT_EQ(assign(kNested, kNestedParams, "auto"),
            assign(kNested, kNestedParams, "pieces"));
  EXPECT_NE(assign(kNested, kNestedParams, "auto"),
            assign(kNested, kNestedParams, "none"));
}

TEST(WrapPieces, WithoutBlocksUnitsAreSixteenths) {
  EXPECT_EQ(
      assign(
          {},
          {{"a.b.w", 30}, {"a.c.w", 30}, {"a.w", 5}, {"d.w", 2}, {"e.w", 33}},
          "pieces"),
      (Units{"a.b", "a.c", "", "", "e"}));
}

TEST(WrapNone, EverythingIsTheRoot) {
  EXPECT_EQ(assign(kNested, kNestedParams, "none"),
            Units(kNestedParams.size(), ""));
}

//===----------------------------------------------------------------------===//
// Tied parameters
//===----------------------------------------------------------------------===//

TEST(WrapTied, BelongsToTheInnermostCommonUnit) {
  const ModuleInfo modules[] = {{"", "Net"},
                                {"m", "Inner"},
                                {"m.a", "Linear"},
                                {"m.b", "Linear"},
                                {"c", "Linear"}};
  std::vector<WrapParam> params{
      {{"m.a.w", "m.b.w"}, 4}, // within m
      {{"m.a.v", "c.v"}, 4},   // across
      {{"c.x"}, 4},
      {{"m.a.y", "m.a.z"}, 4}, // one module, two names
  };
  WrapPolicy policy = llvm::cantFail(WrapPolicy::parse("module:Inner,Linear"));
  EXPECT_EQ(llvm::cantFail(assignUnits(modules, params, policy)),
            (Units{"m", "", "c", "m.a"}));
}

//===----------------------------------------------------------------------===//
// size:N, against torch.distributed.fsdp.wrap
//===----------------------------------------------------------------------===//

TEST(WrapSize, ChildrenFirstThenTheRest) {
  // Children of 60 and 50 elements are units; what is left of their parent is
  // too small to be one.
  const ModuleInfo modules[] = {{"", "Net"},
                                {"m", "Mlp"},
                                {"m.in", "Linear"},
                                {"m.out", "Linear"},
                                {"tiny", "Linear"}};
  EXPECT_EQ(
      assign(modules,
             {{"m.in.w", 60}, {"m.out.w", 50}, {"m.b", 40}, {"tiny.w", 10}},
             "size:50"),
      (Units{"m.in", "m.out", "", ""}));
  // Together they reach it.
  EXPECT_EQ(
      assign(modules,
             {{"m.in.w", 30}, {"m.out.w", 20}, {"m.b", 10}, {"tiny.w", 10}},
             "size:50"),
      (Units{"m", "m", "m", ""}));
}

TEST(WrapSize, ListsAreNoUnitsAndAttentionIsNoParent) {
  const ModuleInfo modules[] = {{"", "Net"},
                                {"l", "ModuleList"},
                                {"l.0", "Linear"},
                                {"l.1", "Linear"},
                                {"attn", "MultiheadAttention"},
                                {"attn.out", "Linear"}};
  EXPECT_EQ(assign(modules, {{"l.0.w", 30}, {"l.1.w", 30}, {"attn.out.w", 80}},
                   "size:50"),
            (Units{"", "", ""}));
}

/// The policy as PyTorch states it, on a tree of its own.
struct ReferenceModule {
  std::string fqn, className;
  int64_t own = 0;
  std::vector<ReferenceModule> children;
  bool wrapped = false;

  int64_t count() const {
    int64_t all = own;
    for (const ReferenceModule &child : children)
      all += child.count();
    return all;
  }
  /// torch.distributed.fsdp.wrap._recursive_wrap; returns the elements wrapped.
  int64_t wrap(int64_t least, bool onlyChildren) {
    int64_t nonwrapped = count();
    if (nonwrapped < least || className == "MultiheadAttention")
      return 0;
    int64_t total = 0;
    for (ReferenceModule &child : children)
      total += child.wrap(least, /*onlyChildren=*/false);
    int64_t remainder = nonwrapped - total;
    if (onlyChildren || remainder < least || className == "ModuleList" ||
        className == "ModuleDict")
      return total;
    wrapped = true;
    return nonwrapped;
  }
};

TEST(WrapSize, AgreesWithTheReferenceOnRandomTrees) {
  std::mt19937 random(7);
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  const char *classes[] = {"Linear", "Block", "ModuleList", "ModuleDict",
                           "MultiheadAttention"};
  std::map<bool, int> seen;
  for (int round = 0; round < 300; ++round) {
    std::function<ReferenceModule(std::string, int)> grow = [&](std::string fqn,
                                                                int depth) {
      ReferenceModule module{fqn, classes[below(5)], below(60), {}};
      for (int i = 0, e = depth == 0 ? 0 : below(4); i < e; ++i)
        module.children.push_back(
            grow(fqn + (fqn.empty() ? "" : ".") + "m" + std::to_string(i),
                 depth - 1));
      return module;
    };
    ReferenceModule root = grow("", 4);
    std::vector<ModuleInfo> modules;
    std::vector<WrapParam> params;
    std::vector<std::string> expected;
    int64_t least = 1 + below(200);
    root.wrap(least, /*onlyChildren=*/true);
    std::function<void(const ReferenceModule &, std::string)> collect =
        [&](const ReferenceModule &module, std::string unit) {
          modules.push_back({module.fqn, module.className});
          if (module.wrapped)
            unit = module.fqn;
          seen[module.wrapped]++;
          params.push_back(
              {{module.fqn + (module.fqn.empty() ? "" : ".") + "w"},
               module.own});
          expected.push_back(unit);
          for (const ReferenceModule &child : module.children)
            collect(child, unit);
        };
    collect(root, "");
    WrapPolicy policy;
    policy.kind = WrapPolicy::Kind::Size;
    policy.minNumel = least;
    ASSERT_EQ(llvm::cantFail(assignUnits(modules, params, policy)), expected)
        << "round " << round;
  }
  // The trees were not trivial.
  EXPECT_GT(seen[true], 300);
  EXPECT_GT(seen[false], 300);
}

} // namespace
