//===- ConsensusTest.cpp - Ranks that decide together ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "channels/local/LocalBackend.h"
#include "control/Consensus.h"
#include "data/Checkpoint.h"
#include "data/CheckpointBase.h"
#include "data/File.h"
#include "data/Initialize.h"
#include "data/Sharding.h"
#include "main/RankTeam.h"
#include "registry/Registry.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

std::unique_ptr<Backend> localRanks(int ranks) {
  LocalBackendOptions options;
  options.ranks = ranks;
  Result<std::unique_ptr<Backend>> backend = createLocalBackend(options);
  EXPECT_OK(backend.status());
  return std::move(*backend);
}

/// Runs `body` on every rank of a new program; true where none failed.
Status onRanks(int ranks, const std::function<Status(int, Consensus &)> &body) {
  return localRanks(ranks)->run([&](World &host) -> Status {
    std::vector<int> everyone(host.size());
    std::iota(everyone.begin(), everyone.end(), 0);
    auto world = host.openChannel(everyone);
    if (!world.isOk())
      return world.status();
    Consensus consensus(**world);
    return body(host.rank(), consensus);
  });
}

std::vector<std::string> outcomes(int ranks,
                                  const std::function<Status(int)> &mine) {
  std::vector<std::string> texts(ranks);
  EXPECT_OK(onRanks(ranks, [&](int rank, Consensus &consensus) {
    Status status = consensus.agree(mine(rank));
    texts[rank] = status.message();
    EXPECT_EQ(bool(status), bool(consensus.failure()));
    return Status::ok();
  }));
  return texts;
}

TEST(Consensus, AllWell) {
  for (int ranks : {1, 2, 5})
    EXPECT_EQ(outcomes(ranks, [](int) { return Status::ok(); }),
              std::vector<std::string>(ranks));
}

TEST(Consensus, TheLowestFailureIsEverybodys) {
  auto mine = [](int rank) {
    return rank == 2 || rank == 3 ? Status::failed("no " + std::to_string(rank))
                                  : Status::ok();
  };
  EXPECT_EQ(outcomes(5, mine), std::vector<std::string>(5, "rank 2: no 2"));
}

TEST(Consensus, WhatAllRanksMeetIsNobodys) {
  for (int ranks : {1, 3})
    EXPECT_EQ(outcomes(ranks, [](int) { return Status::failed("no file"); }),
              std::vector<std::string>(ranks, "no file"));
}

TEST(Consensus, LongMessagesAreCut) {
  auto mine = [](int rank) {
    return rank == 1 ? Status::failed(std::string(5000, 'x')) : Status::ok();
  };
  std::string text = outcomes(2, mine)[0];
  EXPECT_EQ(text, "rank 1: " + std::string(1019, 'x'));
}

TEST(Consensus, AnnounceAndAny) {
  EXPECT_OK(onRanks(3, [](int rank, Consensus &consensus) {
    EXPECT_OK(consensus.announce(Status::ok()));
    // What other ranks pass means nothing.
    EXPECT_OK(consensus.announce(rank == 1 ? Status::failed("x") : Status()));
    Status status = consensus.announce(rank == 0 ? Status::internal("broken")
                                                 : Status::ok());
    EXPECT_EQ(status.message(), "broken");
    EXPECT_EQ(status.code(), Code::Internal);
    EXPECT_EQ(*consensus.any(rank == 2 ? 4 : 0), 4u);
    EXPECT_EQ(*consensus.any(0), 0u);
    return Status::ok();
  }));
}

std::vector<std::string>
settingOutcomes(int ranks, const std::function<std::vector<Setting>(int)> &of) {
  std::vector<std::string> texts(ranks);
  EXPECT_OK(onRanks(ranks, [&](int rank, Consensus &consensus) {
    texts[rank] = consensus.agreeOn(of(rank)).message();
    return Status::ok();
  }));
  return texts;
}

TEST(Consensus, SettingsAreRankZeros) {
  for (int ranks : {1, 2, 5}) {
    auto same = [](int) {
      return std::vector<Setting>{{"--a", ""}, {"--b", std::string(3000, 'x')}};
    };
    EXPECT_EQ(settingOutcomes(ranks, same), std::vector<std::string>(ranks));
  }
  // The lowest rank that differs, and what it differs in first.
  auto different = [](int rank) {
    return std::vector<Setting>{{"--a", "1"},
                                {"--b", rank < 2 ? "" : "longer"},
                                {"--c", std::to_string(rank / 2)}};
  };
  EXPECT_EQ(settingOutcomes(4, different),
            std::vector<std::string>(
                4, "rank 2: --b: expected  as on rank 0, got longer"));
  auto named = [](int rank) {
    return std::vector<Setting>{{rank ? "--a" : "--b", "1"}};
  };
  EXPECT_EQ(settingOutcomes(3, named),
            std::vector<std::string>(
                3, "rank 1: expected --b as on rank 0, got --a"));
  auto fewer = [](int rank) {
    return std::vector<Setting>(rank ? 1 : 2, {"--a", "1"});
  };
  EXPECT_EQ(settingOutcomes(2, fewer),
            std::vector<std::string>(
                2, "rank 1: expected 2 settings as on rank 0, got 1"));
}

class CheckpointTest : public testing::Test {
protected:
  /// Draws the state of every rank and saves it.
  Status save(const json &description, int64_t step) {
    Manifest manifest = parsed(description);
    return onRanks(manifest.worldSize(), [&](int rank, Consensus &ranks) {
      Arenas arenas(manifest);
      StateMemory memory = arenas.memory();
      EXPECT_OK(initializeFromSeed(manifest, rank, 3, 1, memory));
      for (const FlatParam &flat : manifest.flatParams) {
        if (flat.states.empty())
          continue;
        fillState(manifest, rank, flat, arenas.at(flat.states[0]));
        std::memcpy(arenas.at(flat.states[1]), &scalar, 4);
      }
      CheckpointWriter::Options options;
      options.directory = dir.file("saves");
      options.trainedOnly = trainedOnly;
      std::vector<std::string> notes;
      auto writer =
          CheckpointWriter::create(manifest, rank, ranks, options, notes);
      return writer.isOk() ? writer->save(step, memory) : writer.status();
    });
  }
  /// With values that tell where they stand in the whole; of what each rank has
  /// for itself, whose it is.
  void fillState(const Manifest &manifest, int rank, const FlatParam &flat,
                 char *state) const {
    int64_t begin = flat.perRank ? 100 * rank
                                 : placeAlong(manifest, rank, flat.shardAxes) *
                                       flat.shardNumel;
    for (int64_t i = 0; i < flat.shardNumel; ++i) {
      float value = i == flawed ? NAN : float(begin + i);
      std::memcpy(state + i * 4, &value, 4);
    }
  }
  /// Loads what save() saved for every rank and compares it with that.
  void expectSaved(const json &description) {
    Manifest manifest = parsed(description);
    auto found = findCheckpoint(dir.file("saves"));
    ASSERT_OK(found.status());
    for (int rank = 0; rank < manifest.worldSize(); ++rank) {
      Arenas drawn(manifest), read(manifest);
      ASSERT_OK(initializeFromSeed(manifest, rank, 3, 1, drawn.memory()));
      std::vector<std::string> notes;
      ASSERT_OK(loadWhole(*found, manifest, rank, read.memory(), notes));
      EXPECT_TRUE(notes.empty());
      for (const FlatParam &flat : manifest.flatParams) {
        EXPECT_EQ(std::memcmp(drawn.device.data() + flat.offset,
                              read.device.data() + flat.offset,
                              flat.shardNumel * dtypeSize(flat.dtype)),
                  0);
        std::vector<char> saved(flat.shardNumel * 4);
        fillState(manifest, rank, flat, saved.data());
        for (const Piece &piece :
             piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes)))
          EXPECT_EQ(std::memcmp(saved.data() + piece.shardBegin * 4,
                                read.at(flat.states[0]) + piece.shardBegin * 4,
                                piece.count * 4),
                    0)
              << flat.name << " of rank " << rank;
        EXPECT_EQ(std::memcmp(read.at(flat.states[1]), &scalar, 4), 0);
      }
    }
  }
  static Status loadWhole(const CheckpointInfo &checkpoint,
                          const Manifest &manifest, int rank,
                          const StateMemory &memory,
                          std::vector<std::string> &warnings) {
    LeftOut leftOut;
    LoadNotes notes;
    Status status =
        loadCheckpoint(checkpoint, manifest, rank, memory, leftOut, notes);
    warnings = notes.warnings;
    return status;
  }
  TempDir dir;
  float scalar = 5;
  int64_t flawed = -1; // element of each state that is no number
  bool trainedOnly = false;
};

json twoUnits(int replicas, int shards) {
  return makeManifest(replicas, shards,
                      {{"u", "BF16", {{"u.a", {3, 3}}, {"u.b", {5}}}},
                       {"v", "F32", {{"v.a", {7}}}}});
}

TEST_F(CheckpointTest, HoldsWholeTensorsByName) {
  ASSERT_OK(save(twoUnits(2, 3), 12));
  std::string path = dir.file("saves/step-00000012");
  EXPECT_EQ(floatsOf(path + "/optimizer.safetensors", "u.b.exp_avg"),
            (std::vector<float>{9, 10, 11, 12, 13}));
  EXPECT_EQ(floatsOf(path + "/optimizer.safetensors", "v.a.step"),
            std::vector<float>{5});
  // Other meshes and another layout of the units read the same.
  json merged = makeManifest(1, 2,
                             {{"all", "BF16", {{"u.a", {3, 3}}, {"u.b", {5}}}},
                              {"v", "F32", {{"v.a", {7}}}}});
  EXPECT_EQ(findCheckpoint(dir.file("saves"))->step, 12);
  for (const json &description :
       {twoUnits(1, 1), twoUnits(1, 4), twoUnits(4, 2), merged})
    expectSaved(description);
}

json onHost(json description) {
  moveStatesToHost(description);
  return description;
}

/// A parameter that is trained at one time and frozen at another
/// (pytorch/pytorch#104186).
TEST_F(CheckpointTest, KeepsTheStatesOfWhatBothTrain) {
  json both = twoUnits(1, 2), one = twoUnits(1, 1);
  one["flat_params"][1]["states"] = json::array(); // v is frozen
  Manifest trained = parsed(both), frozen = parsed(one);
  auto load = [&](const Manifest &manifest, Arenas &arenas) {
    auto found = findCheckpoint(dir.file("saves"));
    EXPECT_OK(found.status());
    std::vector<std::string> notes;
    EXPECT_OK(loadWhole(*found, manifest, 0, arenas.memory(), notes));
    return notes;
  };
  std::string path = dir.file("saves/step-00000003");
  // States of what is frozen now are left out, and that is said.
  ASSERT_OK(save(both, 3));
  Arenas without(frozen);
  EXPECT_EQ(load(frozen, without),
            (std::vector<std::string>{
                path + ": the optimizer states of 'v.a', which the program "
                       "does not train, are left out"}));
  const OptimizerState &kept = frozen.flatParams[0].states[0];
  float third;
  std::memcpy(&third, without.at(kept) + 3 * 4, 4);
  EXPECT_EQ(third, 3);
  // Those of what was frozen begin anew.
  ASSERT_OK(removeTree(dir.file("saves")));
  std::string name = dir.file("saves");
  ASSERT_OK(onRanks(1, [&](int rank, Consensus &ranks) {
    Arenas arenas(frozen);
    EXPECT_OK(initializeFromSeed(frozen, rank, 3, 1, arenas.memory()));
    fillState(frozen, 0, frozen.flatParams[0], arenas.at(kept));
    CheckpointWriter::Options options;
    options.directory = name;
    std::vector<std::string> notes;
    auto writer = CheckpointWriter::create(frozen, rank, ranks, options, notes);
    return writer.isOk() ? writer->save(3, arenas.memory()) : writer.status();
  }));
  Arenas with(trained, /*fill=*/1);
  EXPECT_EQ(load(trained, with),
            (std::vector<std::string>{
                path + ": has no optimizer states of 'v.a', not trained when "
                       "it was saved: they begin anew"}));
  float value;
  std::memcpy(&value, with.at(trained.flatParams[1].states[0]), 4);
  EXPECT_EQ(value, 0);
  std::memcpy(&value, with.at(trained.flatParams[0].states[0]) + 3 * 4, 4);
  EXPECT_EQ(value, 3);
}

TEST_F(CheckpointTest, StatesComeFromAndGoToEitherArena) {
  ASSERT_OK(save(twoUnits(2, 3), 12));
  std::string path = dir.file("saves/step-00000012/optimizer.safetensors");
  std::string reference = readFile(path);
  expectSaved(onHost(twoUnits(1, 4)));
  ASSERT_OK(removeTree(dir.file("saves")));
  ASSERT_OK(save(onHost(twoUnits(2, 2)), 12));
  EXPECT_EQ(readFile(path), reference);
  expectSaved(onHost(twoUnits(2, 2)));
  expectSaved(twoUnits(1, 3));
}

TEST_F(CheckpointTest, StatesOfEachRankComeFromAndGoToEitherArena) {
  FlatSpec own{"u", "F32", {{"a", {2}}, {"b", {3}}}};
  own.isSharded = false;
  json description = makeManifest(1, 2, {own, {"v", "F32", {{"c", {2}}}}});
  description["flat_params"][0]["per_rank"] = true;
  for (bool isSavedOnHost : {false, true}) {
    ASSERT_OK(save(isSavedOnHost ? onHost(description) : description, 1));
    for (const json &loaded : {description, onHost(description)})
      expectSaved(loaded);
    ASSERT_OK(removeTree(dir.file("saves")));
  }
}

TEST_F(CheckpointTest, StatesThatAreNotFiniteAreNotSaved) {
  flawed = 1;
  for (const json &description : {twoUnits(1, 2), onHost(twoUnits(1, 2))})
    EXPECT_CONTAINS(messageOf(save(description, 4)),
                    "cannot save step 4: 'u.a.exp_avg': expected finite state, "
                    "got nan at element 1");
}

TEST_F(CheckpointTest, EveryByteIsChecked) {
  ASSERT_OK(save(twoUnits(2, 2), 12));
  std::string path = dir.file("saves/step-00000012");
  Manifest manifest = parsed(twoUnits(1, 3)); // not the mesh that saved
  auto load = [&]() -> Status {
    auto found = findCheckpoint(dir.file("saves"));
    if (!found.isOk())
      return found.status();
    for (int rank = 0; rank < manifest.worldSize(); ++rank) {
      Arenas arenas(manifest);
      std::vector<std::string> notes;
      if (Status s = loadWhole(*found, manifest, rank, arenas.memory(), notes))
        return s;
    }
    return Status::ok();
  };
  ASSERT_OK(load());
  ASSERT_EQ(entriesOf(path).size(), 4u);
  for (const std::string &name : entriesOf(path)) {
    std::string whole = readFile(path + "/" + name);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string flipped = whole;
      flipped[i] ^= 1 << i % 8;
      writeFile(path + "/" + name, flipped);
      Status status = load();
      // Sizes and digests stand in other files than what they are of.
      ASSERT_TRUE(bool(status)) << name << " byte " << i;
      EXPECT_CONTAINS(status.message(), path + "/" + name);
    }
    writeFile(path + "/" + name, whole);
  }
  ASSERT_OK(load());
}

/// v is frozen, and rests where the optimizer does not look.
json frozenUnit(int replicas, int shards) {
  json description = twoUnits(replicas, shards);
  json &v = description["flat_params"][1];
  v["trainable"] = false;
  v["states"] = json::array();
  addBuffer(description, "constant", "F64", {3},
            {{"kind", "normal"}, {"mean", 0.0}, {"std", 1.0}});
  addBuffer(description, "changing", "F32", {2},
            {{"kind", "values"}, {"values", {3, 4}}});
  description["buffers"][1]["per_rank"] = true;
  return description;
}

TEST_F(CheckpointTest, ADigestOfTheBaseDependsOnItsValuesAlone) {
  auto digest = [](const json &description, uint64_t seed, int64_t changed) {
    Manifest manifest = parsed(description);
    std::string text;
    EXPECT_OK(onRanks(manifest.worldSize(), [&](int rank, Consensus &ranks) {
      Arenas arenas(manifest, char(rank));
      EXPECT_OK(initializeFromSeed(manifest, rank, seed, 1, arenas.memory()));
      if (changed >= 0)
        arenas.device[changed] ^= 1;
      Result<std::string> found =
          digestOfBase(ranks, sumOfBase(manifest, rank, arenas.memory(),
                                        namesOfBase(manifest)));
      EXPECT_OK(found.status());
      if (rank == manifest.worldSize() - 1)
        text = *found;
      return Status::ok();
    }));
    return text;
  };
  const json one = frozenUnit(1, 1);
  const std::string reference = digest(one, 3, -1);
  EXPECT_EQ(reference.size(), 16u);
  for (auto [replicas, shards] :
       std::vector<std::pair<int, int>>{{1, 2}, {2, 3}, {4, 1}, {1, 8}})
    EXPECT_EQ(digest(frozenUnit(replicas, shards), 3, -1), reference);
  EXPECT_NE(digest(one, 4, -1), reference);
  Manifest manifest = parsed(one);
  EXPECT_NE(digest(one, 3, manifest.flatParams[1].offset), reference);
  EXPECT_NE(digest(one, 3, manifest.buffers[0].offset + 8), reference);
  // Of what steps change nothing counts.
  EXPECT_EQ(digest(one, 3, manifest.flatParams[0].offset), reference);
  EXPECT_EQ(digest(one, 3, manifest.buffers[1].offset), reference);
}

TEST_F(CheckpointTest, WhatIsTrainedIsReadOverTheBase) {
  trainedOnly = true;
  ASSERT_OK(save(frozenUnit(2, 3), 4));
  auto found = findCheckpoint(dir.file("saves"));
  ASSERT_OK(found.status());
  ASSERT_TRUE(found->base);
  EXPECT_EQ(*parametersIn(*found),
            (std::set<std::string>{"u.a", "u.b", "changing"}));
  for (auto [replicas, shards] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 3}, {1, 4}}) {
    Manifest manifest = parsed(frozenUnit(replicas, shards));
    EXPECT_OK(onRanks(manifest.worldSize(), [&](int rank, Consensus &ranks) {
      Arenas drawn(manifest), read(manifest);
      EXPECT_OK(initializeFromSeed(manifest, rank, 3, 1, drawn.memory()));
      for (uint64_t seed : {3, 5}) {
        ParameterSource source;
        source.seed = seed;
        LeftOut leftOut = {&source, 0};
        LoadNotes notes;
        EXPECT_OK(loadCheckpoint(*found, manifest, rank, read.memory(), leftOut,
                                 notes));
        Result<std::string> digest = digestOfBase(ranks, leftOut.sum);
        EXPECT_OK(digest.status());
        EXPECT_EQ(*digest == *found->base, seed == 3);
        for (const FlatParam &flat : manifest.flatParams)
          EXPECT_EQ(std::memcmp(drawn.device.data() + flat.offset,
                                read.device.data() + flat.offset,
                                flat.shardNumel * dtypeSize(flat.dtype)) == 0,
                    flat.trainable || seed == 3 || flat.shardNumel == 0);
      }
      return Status::ok();
    }));
  }
}

TEST_F(CheckpointTest, AFileOfAnotherStepIsRefused) {
  scalar = 7;
  ASSERT_OK(save(twoUnits(2, 2), 11));
  std::string path = dir.file("saves/step-00000011/optimizer.safetensors");
  std::string early = readFile(path);
  ASSERT_OK(removeTree(dir.file("saves")));
  scalar = 8;
  ASSERT_OK(save(twoUnits(2, 2), 11));
  writeFile(path, early);
  auto found = findCheckpoint(dir.file("saves"));
  ASSERT_OK(found.status());
  Manifest manifest = parsed(twoUnits(1, 1));
  Arenas arenas(manifest);
  std::vector<std::string> notes;
  EXPECT_CONTAINS(
      messageOf(loadWhole(*found, manifest, 0, arenas.memory(), notes)),
      path + ": 'u.a.step': expected bytes ");
}

TEST_F(CheckpointTest, OneThatIsRemovedMeanwhileIsTold) {
  ASSERT_OK(save(twoUnits(1, 1), 3));
  auto found = findCheckpoint(dir.file("saves"));
  ASSERT_OK(found.status());
  ASSERT_OK(removeTree(found->path));
  Manifest manifest = parsed(twoUnits(1, 1));
  Arenas arenas(manifest);
  std::vector<std::string> notes;
  EXPECT_CONTAINS(
      messageOf(loadWhole(*found, manifest, 0, arenas.memory(), notes)),
      "removed meanwhile, as --keep of a run that saves there does");
}

TEST_F(CheckpointTest, MembersOfAUnitMustShareItsScalars) {
  ASSERT_OK(
      save(makeManifest(
               1, 1, {{"u", "F32", {{"a", {2}}}}, {"v", "F32", {{"b", {2}}}}}),
           1));
  // What the optimizer counts for each of them differs.
  std::string checkpoint = dir.file("saves/step-00000001");
  std::vector<float> zeros(2);
  float one = 1, two = 2;
  ASSERT_OK(writeSafetensors(checkpoint + "/optimizer.safetensors",
                             {{"a.exp_avg", FSDP_RT_F32, {2}},
                              {"b.exp_avg", FSDP_RT_F32, {2}},
                              {"a.step", FSDP_RT_F32, {}},
                              {"b.step", FSDP_RT_F32, {}}},
                             {zeros.data(), zeros.data(), &one, &two}));
  signAgain(checkpoint);
  Manifest merged =
      parsed(makeManifest(1, 1, {{"uv", "F32", {{"a", {2}}, {"b", {2}}}}}));
  auto found = findCheckpoint(dir.file("saves"));
  ASSERT_OK(found.status());
  Arenas arenas(merged);
  std::vector<std::string> notes;
  EXPECT_CONTAINS(
      messageOf(loadWhole(*found, merged, 0, arenas.memory(), notes)),
      "expected one value of 'step' for all of unit 'uv', got "
      "1.000000 for 'a' and 2.000000 for 'b'");
}

TEST_F(CheckpointTest, NamesThatCollideAreRefused) {
  json description =
      makeManifest(1, 2, {{"u", "F32", {{"a", {2}}, {"a.exp", {2}}}}});
  for (json &state : description["flat_params"][0]["states"])
    state["name"] = state["name"] == "step" ? "exp.m" : "m";
  EXPECT_CONTAINS(messageOf(save(description, 1)), "got 'a.exp.m' twice");
  EXPECT_TRUE(entriesOf(dir.path()).empty());
}

TEST_F(CheckpointTest, FingerprintSeesShapesAlone) {
  std::string reference = shapesFingerprint(parsed(twoUnits(1, 1)));
  EXPECT_EQ(shapesFingerprint(parsed(twoUnits(2, 4))), reference);
  json changed = twoUnits(1, 1);
  changed["flat_params"][0]["members"][1]["shape"] = {5, 1};
  EXPECT_NE(shapesFingerprint(parsed(changed)), reference);
  changed = twoUnits(1, 1);
  changed["flat_params"][0]["states"][0]["name"] = "momentum";
  EXPECT_NE(shapesFingerprint(parsed(changed)), reference);
  changed = twoUnits(1, 1);
  addBuffer(changed, "buf", "F32", {1}, nullptr);
  EXPECT_NE(shapesFingerprint(parsed(changed)), reference);
}

/// A program whose arena no machine has: its ranks cannot be created.
RankOptions onFirstDevice() {
  RankOptions options;
  options.device = *findDevice("", {"cpu"});
  return options;
}

TEST(RankTeam, RanksThatCannotBeCreatedAreTold) {
  json description = makeManifest(1, 2, {});
  setArenaBytes(description, int64_t(1) << 55);
  std::string text = description.dump();
  fsdp_rt_program code = {"train", [](fsdp_rt_context *) { return 0; },
                          nullptr};
  fsdp_rt_artifact program = {FSDP_RT_ABI_VERSION, 1, text.c_str(), &code,
                              nullptr};
  Manifest manifest = parsed(description);
  EXPECT_CONTAINS(messageOf(RankTeam::start(localRanks(2), 2, program, manifest,
                                            onFirstDevice())),
                  "arena");
}

TEST(RankTeam, CallsReachEveryRank) {
  json description = makeManifest(1, 3, {});
  std::string text = description.dump();
  fsdp_rt_program code = {"train", [](fsdp_rt_context *) { return 0; },
                          nullptr};
  fsdp_rt_artifact program = {FSDP_RT_ABI_VERSION, 1, text.c_str(), &code,
                              nullptr};
  Manifest manifest = parsed(description);
  auto team =
      RankTeam::start(localRanks(3), 3, program, manifest, onFirstDevice());
  ASSERT_OK(team.status());
  using OnFailure = RankTeam::OnFailure;
  for (int i = 0; i < 50; ++i) {
    std::vector<int> called(3);
    EXPECT_OK((*team)->call(OnFailure::Continue, [&](Rank &rank) {
      ++called[rank.number()];
      return Status::ok();
    }));
    EXPECT_EQ(called, std::vector<int>(3, 1));
  }
  auto failing = [](Rank &rank) -> Status {
    if (rank.number() == 0)
      return Status::ok();
    if (rank.number() == 1)
      throw std::runtime_error("thrown");
    return Status::failed("returned");
  };
  EXPECT_EQ(messageOf((*team)->call(OnFailure::Continue, failing)), "thrown");
  EXPECT_OK(
      (*team)->call(OnFailure::Continue, [](Rank &) { return Status::ok(); }));
  EXPECT_TRUE(bool((*team)->call(OnFailure::End, failing)));
  EXPECT_CONTAINS(messageOf((*team)->call(OnFailure::Continue, failing)),
                  "the session ended");
}

} // namespace
