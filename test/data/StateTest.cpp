//===- StateTest.cpp - Initial parameters, drawn and from files -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/Initialize.h"
#include "data/Parameters.h"
#include "data/Sharding.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

/// Three members of awkward sizes, in one unit or in three.
json model(int replicas, int shards, bool isSplit,
           const std::string &dtype = "F32") {
  std::vector<std::pair<std::string, Shape>> members = {
      {"w", {7, 3}}, {"b", {2}}, {"v", {5}}};
  std::vector<FlatSpec> flats;
  if (isSplit)
    for (auto it = members.rbegin(); it != members.rend(); ++it)
      flats.push_back({"unit." + it->first, dtype, {*it}});
  else
    flats.push_back({"all", dtype, members});
  return makeManifest(replicas, shards, flats);
}

/// Puts every rank's shards together again, by name; checks the padding.
std::map<std::string, std::vector<float>>
gathered(const Manifest &manifest, const std::vector<Arenas> &arenas) {
  std::map<std::string, std::vector<float>> whole;
  for (int rank = 0; rank < int(arenas.size()); ++rank)
    for (const FlatParam &flat : manifest.flatParams) {
      std::vector<float> shard(flat.shardNumel);
      std::memcpy(shard.data(), arenas[rank].device.data() + flat.offset,
                  shard.size() * 4);
      for (const Piece &piece :
           piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes))) {
        const Member &member = flat.members[piece.member];
        std::vector<float> &values = whole[member.fqn];
        values.resize(member.numel);
        for (int64_t i = 0; i < piece.count; ++i) {
          values[piece.memberBegin + i] = shard[piece.shardBegin + i];
          shard[piece.shardBegin + i] = 0;
        }
      }
      for (float rest : shard)
        EXPECT_EQ(rest, 0) << "padding of rank " << rank;
    }
  return whole;
}

std::vector<Arenas> dirtyArenas(const Manifest &manifest) {
  return std::vector<Arenas>(manifest.worldSize(), Arenas(manifest, '\x7f'));
}

float floatAt(const char *bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::map<std::string, std::vector<float>> drawn(const json &description,
                                                uint64_t seed, int threads) {
  Manifest manifest = parsed(description);
  auto arenas = dirtyArenas(manifest);
  for (size_t rank = 0; rank < arenas.size(); ++rank)
    EXPECT_OK(initializeFromSeed(manifest, rank, seed, threads,
                                 arenas[rank].memory()));
  return gathered(manifest, arenas);
}

TEST(Sharding, RanksOfGroups) {
  json description = model(2, 3, false);
  description["groups"].push_back({{"axes", {"shard", "replicate"}}});
  description["groups"].push_back({{"axes", json::array()}});
  Manifest m = parsed(description);
  EXPECT_EQ(groupRanks(m, 4), (std::vector<std::vector<int>>{
                                  {3, 4, 5}, {1, 4}, {0, 1, 2, 3, 4, 5}, {4}}));
  EXPECT_EQ(placeAlong(m, 4, {1}), 1);
  EXPECT_EQ(placeAlong(m, 4, {0}), 1);
  EXPECT_EQ(placeAlong(m, 5, {0, 1}), 5);
  // The first axis counts most: 5 is (1, 2) of 2 by 3.
  EXPECT_EQ(placeAlong(m, 5, {1, 0}), 5);
  EXPECT_EQ(placeAlong(m, 3, {1, 0}), 1);
  EXPECT_EQ(placeAlong(m, 1, {1, 0}), 2);
  EXPECT_TRUE(isFirstReplica(m, 2, {1}));
  EXPECT_FALSE(isFirstReplica(m, 3, {1}));
  EXPECT_TRUE(isFirstReplica(m, 0, {}));
  EXPECT_FALSE(isFirstReplica(m, 1, {}));
}

TEST(Sharding, PiecesStraddleBorders) {
  Manifest m = parsed(model(1, 3, false)); // 28 elements, shards of 10
  std::vector<Piece> pieces = piecesOf(m.flatParams[0], 2);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].member, 0u);
  EXPECT_EQ(pieces[0].memberBegin, 20);
  EXPECT_EQ(pieces[0].count, 1);
  EXPECT_EQ(pieces[2].shardBegin, 3);
  EXPECT_EQ(pieces[2].count, 5);
}

TEST(Initialize, DependsOnNeitherMeshNorLayoutNorThreads) {
  auto reference = drawn(model(1, 1, false), 5, 1);
  ASSERT_EQ(reference.size(), 3u);
  EXPECT_NE(reference["w"][0], reference["w"][1]);
  EXPECT_NE(reference["w"][0], reference["v"][0]);
  for (int shards : {1, 2, 3, 4, 8})
    for (int replicas : {1, 2})
      for (bool isSplit : {false, true})
        EXPECT_EQ(drawn(model(replicas, shards, isSplit), 5, 1 + shards % 3),
                  reference);
  EXPECT_NE(drawn(model(1, 1, false), 6, 1), reference);
}

TEST(Initialize, ManyTasksOnManyThreads) {
  json big = makeManifest(1, 2, {{"u", "F32", {{"w", {300001}}, {"x", {7}}}}});
  EXPECT_EQ(drawn(big, 1, 1), drawn(big, 1, 3));
}

TEST(Initialize, EveryKind) {
  json m = makeManifest(
      1, 1, {{"u", "F32", {{"c", {2}}, {"u", {2}}, {"t", {2}}, {"v", {2}}}}});
  json &members = m["flat_params"][0]["members"];
  members[0]["init"] = {{"kind", "constant"}, {"value", 3}};
  members[1]["init"] = {{"kind", "uniform"}, {"low", 5}, {"high", 6}};
  members[2]["init"] = {{"kind", "truncated_normal"},
                        {"mean", 0},
                        {"std", 1},
                        {"low", 7},
                        {"high", 8}};
  members[3]["init"] = {{"kind", "values"}, {"values", {9, "nan"}}};
  addBuffer(m, "n", "I32", {2}, {{"kind", "values"}, {"values", {-4, 2}}});
  addBuffer(m, "flags", "BOOL", {2}, {{"kind", "constant"}, {"value", 1}});
  m["flat_params"][0]["states"][0]["init"] = 0.25;
  Manifest manifest = parsed(m);
  auto arenas = dirtyArenas(manifest);
  char *arena = arenas[0].device.data();
  ASSERT_OK(initializeFromSeed(manifest, 0, 1, 2, arenas[0].memory()));
  auto got = gathered(manifest, arenas);
  EXPECT_EQ(got["c"], (std::vector<float>{3, 3}));
  EXPECT_TRUE(got["u"][0] >= 5 && got["u"][0] <= 6);
  EXPECT_TRUE(got["t"][0] >= 7 && got["t"][0] <= 8);
  EXPECT_EQ(got["v"][0], 9);
  EXPECT_TRUE(std::isnan(got["v"][1]));
  int32_t n[2];
  std::memcpy(n, arena + manifest.buffers[0].offset, 8);
  EXPECT_EQ(n[0], -4);
  EXPECT_EQ(arena[manifest.buffers[1].offset], 1);
  float state[8];
  std::memcpy(state, arena + manifest.flatParams[0].states[0].offset, 32);
  EXPECT_EQ(state[7], 0.25f);
}

TEST(Initialize, NamesWhatHasNoInitialiser) {
  json m = model(1, 1, false);
  m["flat_params"][0]["members"][1]["init"] = nullptr;
  addBuffer(m, "buf", "F32", {1}, nullptr);
  Manifest manifest = parsed(m);
  auto arenas = dirtyArenas(manifest);
  std::string text =
      messageOf(initializeFromSeed(manifest, 0, 0, 1, arenas[0].memory()));
  EXPECT_CONTAINS(text, "got none for 'b', 'buf'");
  EXPECT_EQ(arenas[0].device[0], '\x7f');
  // What another file has needs none.
  ASSERT_OK(
      initializeFromSeed(manifest, 0, 0, 1, arenas[0].memory(), {"b", "buf"}));
  EXPECT_EQ(arenas[0].device[manifest.buffers[0].offset], '\x7f');
}

class ParametersTest : public testing::Test {
protected:
  void SetUp() override {
    for (int i = 0; i < 32; ++i)
      numbers.push_back(i + 1);
    specs = {{"w", FSDP_RT_F32, {7, 3}},
             {"b", FSDP_RT_F32, {2}},
             {"v", FSDP_RT_F32, {5}}};
  }
  void write() {
    std::vector<const void *> data;
    for (size_t i = 0; i < specs.size(); ++i)
      data.push_back(numbers.data() + i);
    ASSERT_OK(writeSafetensors(path, specs, data));
  }
  Status load(const json &description, int rank, bool cast = false) {
    manifest = parsed(description);
    if (arenas.size() != size_t(manifest.worldSize()))
      arenas = dirtyArenas(manifest);
    arenas[rank].device.resize(manifest.arenaBytes);
    source.files = {path};
    source.cast = cast;
    return loadParameters(manifest, rank, source, arenas[rank].memory(), notes);
  }
  std::string refusal(const json &description, bool cast = false) {
    write();
    std::string text = messageOf(load(description, 0, cast));
    EXPECT_CONTAINS(text, path);
    return text;
  }
  TempDir dir;
  std::string path = dir.file("params.safetensors");
  std::vector<float> numbers;
  std::vector<TensorSpec> specs;
  Manifest manifest;
  std::vector<Arenas> arenas;
  ParameterSource source;
  LoadNotes notes;
};

// Each from the file, by itself: no rank sends values to others, once or, for
// each level of wrapping, again (pytorch/pytorch#89217).
TEST_F(ParametersTest, EveryRankGetsItsShards) {
  write();
  for (int shards : {1, 2, 3, 8})
    for (bool isSplit : {false, true}) {
      arenas.clear();
      json description = model(2, shards, isSplit);
      if (shards > 2)
        moveStatesToHost(description);
      for (int rank = 0; rank < 2 * shards; ++rank)
        ASSERT_OK(load(description, rank));
      auto got = gathered(manifest, arenas);
      EXPECT_EQ(got["w"],
                std::vector<float>(numbers.begin(), numbers.begin() + 21));
      EXPECT_EQ(got["b"], (std::vector<float>{2, 3}));
      EXPECT_EQ(got["v"], (std::vector<float>{3, 4, 5, 6, 7}));
      for (const FlatParam &flat : manifest.flatParams)
        for (const OptimizerState &state : flat.states)
          EXPECT_EQ(floatAt(arenas[0].at(state)), 0);
    }
}

TEST_F(ParametersTest, ListsMissingAndUnexpected) {
  specs = {{"w", FSDP_RT_F32, {7, 3}},
           {"x", FSDP_RT_F32, {1}},
           {"y", FSDP_RT_F32, {1}}};
  EXPECT_CONTAINS(
      refusal(model(1, 1, false)),
      "missing 2 tensors: 'b', 'v'; unexpected 2 tensors: 'x', 'y'");
  specs = {};
  for (int i = 0; i < 9; ++i)
    specs.push_back({"x" + std::to_string(i), FSDP_RT_F32, {1}});
  EXPECT_CONTAINS(refusal(model(1, 1, false)),
                  "unexpected 9 tensors: 'x0', 'x1', 'x2', 'x3', 'x4' and 4 "
                  "more");
}

TEST_F(ParametersTest, NamesWrongShapes) {
  specs[0].shape = {3, 7};
  specs[1].shape = {2, 1};
  EXPECT_CONTAINS(refusal(model(1, 1, false)),
                  "'w': expected shape [7, 3], got [3, 7]; 'b': expected shape "
                  "[2], got [2, 1]");
}

TEST_F(ParametersTest, CastsOnlyWhenAsked) {
  EXPECT_CONTAINS(refusal(model(1, 1, false, "BF16")),
                  "'w': expected BF16, got F32 (--cast-params converts it)");
  arenas.clear();
  EXPECT_OK(load(model(1, 1, false, "BF16"), 0, /*cast=*/true));
  uint16_t first;
  std::memcpy(&first, arenas[0].device.data(), 2);
  EXPECT_EQ(first, 0x3f80);

  specs[1].dtype = FSDP_RT_I32;
  EXPECT_CONTAINS(refusal(model(1, 1, false), /*cast=*/true),
                  "'b': expected F32, got I32");
}

TEST_F(ParametersTest, TiedNamesAreAliases) {
  json description = model(1, 1, false);
  description["flat_params"][0]["members"][1]["tied"] = {"b2", "b3"};
  specs[1].name = "b2";
  write();
  EXPECT_OK(load(description, 0));
  specs.push_back({"b", FSDP_RT_F32, {2}});
  write(); // other values
  EXPECT_CONTAINS(messageOf(load(description, 0)),
                  "expected equal values of 'b' and 'b2'");
  specs[1].shape = {3};
  EXPECT_CONTAINS(refusal(description), "'b2': expected shape [2], got [3]");
}

TEST_F(ParametersTest, BuffersMayBeAbsentWhereTheyHaveAnInitialiser) {
  json description = model(1, 1, false);
  addBuffer(description, "inv_freq", "F32", {2},
            {{"kind", "values"}, {"values", {0.5, 0.25}}});
  addBuffer(description, "mean", "F32", {1}, nullptr);
  EXPECT_CONTAINS(refusal(description), "missing 1 tensor: 'mean'");
  specs.push_back({"mean", FSDP_RT_F32, {1}});
  write();
  EXPECT_OK(load(description, 0));
  ASSERT_EQ(notes.warnings.size(), 1u);
  EXPECT_CONTAINS(notes.warnings[0], "no buffer 'inv_freq'");
  const char *arena = arenas[0].device.data();
  EXPECT_EQ(floatAt(arena + manifest.buffers[0].offset), 0.5f);
  EXPECT_EQ(floatAt(arena + manifest.buffers[1].offset), 4.0f);
}

/// A layer as peft wraps it, and the file of the model before.
class WrappedTest : public ParametersTest {
protected:
  void SetUp() override {
    ParametersTest::SetUp();
    specs = {{"model.q.weight", FSDP_RT_F32, {3}},
             {"model.norm.weight", FSDP_RT_F32, {2}}};
  }
  json wrapped(std::vector<std::pair<std::string, Shape>> more = {}) {
    std::vector<std::pair<std::string, Shape>> members = {
        {"base.model.q.base_layer.weight", {3}},
        {"base.model.norm.weight", {2}}};
    members.insert(members.end(), more.begin(), more.end());
    return makeManifest(1, 1, {{"u", "F32", members}});
  }
  float first(const std::string &name) {
    return gathered(manifest, arenas)[name][0];
  }
};

TEST_F(WrappedTest, TextsOfTheProgramsNamesAreOmitted) {
  EXPECT_CONTAINS(refusal(wrapped()),
                  "names of the program without '.base_layer' are the file's "
                  "after 'base.': --add-prefix base. --omit-text .base_layer");
  source.renaming.add = "base.";
  EXPECT_CONTAINS(refusal(wrapped()),
                  "names of the program without '.base_layer' are the file's: "
                  "--omit-text .base_layer");
  source.renaming.omit = {".base_layer"};
  EXPECT_OK(load(wrapped(), 0));
  EXPECT_EQ(first("base.model.q.base_layer.weight"), 1);
  EXPECT_EQ(first("base.model.norm.weight"), 2);
  // Several texts, after a prefix of the file's own.
  specs[0].name = "module.model.q.weight";
  specs.push_back({"base.model.q.lora.weight", FSDP_RT_F32, {1}});
  source.renaming.strip = "module.";
  json lora = wrapped({{"base.model.q.lora.default.weight", {1}}});
  EXPECT_CONTAINS(refusal(lora), "--omit-text .default");
  source.renaming.omit.push_back(".default");
  EXPECT_OK(load(lora, 0));
  EXPECT_EQ(first("base.model.q.base_layer.weight"), 1);
  EXPECT_EQ(first("base.model.q.lora.default.weight"), 3);
  source.renaming.omit.push_back(".other");
  EXPECT_CONTAINS(refusal(lora), "expected names of the program that have "
                                 "'.other' (--omit-text), got none");
}

TEST_F(WrappedTest, OneTensorIsOneParameters) {
  source.renaming = {"", "base.", {".base_layer"}};
  EXPECT_CONTAINS(refusal(wrapped({{"base.model.q.weight", {3}}})),
                  "'model.q.weight': expected one parameter of the program, "
                  "got 'base.model.q.base_layer.weight' and "
                  "'base.model.q.weight'");
  // Of which the file has one under its own name as well.
  specs.push_back({"base.model.q.base_layer.weight", FSDP_RT_F32, {3}});
  write();
  EXPECT_OK(load(wrapped({{"base.model.q.weight", {3}}}), 0));
  EXPECT_EQ(first("base.model.q.base_layer.weight"), 3);
  EXPECT_EQ(first("base.model.q.weight"), 1);
  // Names of one parameter are one.
  specs.pop_back();
  json tied = wrapped();
  tied["flat_params"][0]["members"][0]["tied"] = {"base.model.q.weight"};
  write();
  EXPECT_OK(load(tied, 0));
}

TEST_F(ParametersTest, SeveralFilesAreOne) {
  specs.pop_back();
  write();
  const std::string rest = dir.file("rest.safetensors");
  float values[5] = {9, 8, 7, 6, 5};
  ASSERT_OK(writeSafetensors(rest, {{"v", FSDP_RT_F32, {5}}}, {values}));
  auto loadBoth = [&](const json &description, int rank) {
    manifest = parsed(description);
    if (arenas.size() != size_t(manifest.worldSize()))
      arenas = dirtyArenas(manifest);
    source.files = {path, rest};
    return loadParameters(manifest, rank, source, arenas[rank].memory(), notes);
  };
  for (int shards : {1, 3}) {
    for (int rank = 0; rank < shards; ++rank)
      ASSERT_OK(loadBoth(model(1, shards, shards == 3), rank));
    auto got = gathered(manifest, arenas);
    EXPECT_EQ(got["w"][20], 21);
    EXPECT_EQ(got["v"], (std::vector<float>{9, 8, 7, 6, 5}));
  }
  ASSERT_OK(writeSafetensors(rest,
                             {{"v", FSDP_RT_F32, {5}}, {"b", FSDP_RT_F32, {2}}},
                             {values, values}));
  EXPECT_CONTAINS(messageOf(loadBoth(model(1, 1, false), 0)),
                  "expected one tensor 'b', got 'b' in '" + path +
                      "' and 'b' in '" + rest + "'");
  ASSERT_OK(writeSafetensors(rest, {{"v", FSDP_RT_F32, {4}}}, {values}));
  EXPECT_CONTAINS(messageOf(loadBoth(model(1, 1, false), 0)),
                  path + ", " + rest + ": 'v': expected shape [5], got [4]");
}

TEST_F(ParametersTest, ASeedDrawsWhatFilesLack) {
  auto reference = drawn(model(1, 1, false), 5, 1);
  specs.pop_back();
  EXPECT_CONTAINS(refusal(model(1, 1, false)),
                  "missing 1 tensor: 'v' (--init seed=K beside --params draws "
                  "what is missing)");
  source.seed = 5;
  source.threads = 2;
  for (int shards : {1, 3}) {
    arenas.clear();
    for (int rank = 0; rank < shards; ++rank)
      ASSERT_OK(load(model(1, shards, false), rank));
    auto got = gathered(manifest, arenas);
    EXPECT_EQ(got["w"][20], 21);
    EXPECT_EQ(got["v"], reference["v"]);
    EXPECT_EQ(floatAt(arenas[0].at(manifest.flatParams[0].states[0])), 0);
  }
  EXPECT_EQ(notes.warnings, std::vector<std::string>());
  EXPECT_EQ(notes.remarks[0], "--init: drew 1 parameter of 5 elements that "
                              "--params lacks: 'v'");
  // What has no initialiser is not drawn.
  json none = model(1, 1, false);
  none["flat_params"][0]["members"][2]["init"] = nullptr;
  EXPECT_EQ(refusal(none), path + ": missing 1 tensor: 'v'");
  source.seed.reset();
  EXPECT_EQ(refusal(none), path + ": missing 1 tensor: 'v'");
}

TEST_F(ParametersTest, RefusesBoolsThatAreNone) {
  json description = model(1, 1, false);
  addBuffer(description, "mask", "BOOL", {4}, nullptr);
  writeFile(path, "");
  specs.push_back({"mask", FSDP_RT_BOOL, {4}});
  EXPECT_CONTAINS(refusal(description),
                  "'mask', element 2: expected 0 or 1, got 128");
}

TEST_F(ParametersTest, RefusesATruncatedFile) {
  write();
  std::string bytes = readFile(path);
  writeFile(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_CONTAINS(messageOf(load(model(1, 1, false), 0)), path);
}

} // namespace
