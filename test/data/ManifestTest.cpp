//===- ManifestTest.cpp - Every rule of docs/manifest.md ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "data/Sha256.h"
#include "main/Main.h"
#include "main/SharedSettings.h"

#include <cmath>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

json good() {
  json manifest = makeManifest(2, 2,
                               {{"a", "F32", {{"a.w", {3, 2}}, {"a.b", {1}}}},
                                {"b", "BF16", {{"b.w", {4}}}}});
  addBuffer(manifest, "buf", "F32", {2},
            {{"kind", "values"}, {"values", {1.5, "-inf"}}});
  addInput(manifest, "input_ids", "I64", {2, 3}, 0, 10, 1);
  json &program = manifest["programs"][0];
  program["arena"]["segments"].push_back(
      {{"name", "state"}, {"offset", 0}, {"bytes", 512}});
  program["arena"]["segments"].push_back(
      {{"name", "rest"}, {"offset", 512}, {"bytes", 512}});
  program["events"] = 7;
  program["queues"] = {"all_gather", "all_reduce"};
  program["traffic"].push_back(
      {{"group", 1}, {"kind", "all_gather"}, {"calls", 1}, {"bytes", 2}});
  return manifest;
}

TEST(Manifest, NamesWhatThereIsCodeFor) {
  json m = good();
  m["targets"].push_back(
      {{"kind", "cuda"}, {"cpu", "sm_80"}, {"features", {"+ptx80"}}});
  Manifest read = parsed(m);
  ASSERT_EQ(read.targets.size(), 2u);
  EXPECT_EQ(read.targets[1].kind, "cuda");
  EXPECT_EQ(read.targets[1].cpu, "sm_80");
  EXPECT_EQ(read.targets[1].features, std::vector<std::string>{"+ptx80"});
}

TEST(Manifest, ReadsEverything) {
  Manifest m = parsed(good());
  EXPECT_EQ(m.worldSize(), 4);
  ASSERT_EQ(m.flatParams.size(), 2u);
  const FlatParam &a = m.flatParams[0];
  EXPECT_EQ(a.numel, 8);
  EXPECT_EQ(a.shardNumel, 4);
  EXPECT_EQ(a.shardAxes, std::vector<int>{1});
  EXPECT_EQ(a.members[1].offset, 6);
  EXPECT_EQ(a.states[1].scalar, true);
  EXPECT_EQ(a.states[0].memory, FSDP_RT_DEVICE);
  EXPECT_EQ(m.hostStateBytes, 0);
  EXPECT_EQ(m.flatParams[1].dtype, FSDP_RT_BF16);
  ASSERT_EQ(m.buffers[0].init.values.size(), 8u);
  float values[2];
  memcpy(values, m.buffers[0].init.values.data(), 8);
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(values[1], -INFINITY);
  EXPECT_EQ(m.train().inputs[0].shift, 1);
  EXPECT_EQ(*m.train().inputs[0].high, 10);
  EXPECT_EQ(m.groups[1], std::vector<int>{0});
  EXPECT_EQ(m.train().traffic[0].group, 1);
  EXPECT_EQ(m.train().events, 7);
  EXPECT_EQ(m.train().queues, (std::vector<int32_t>{FSDP_RT_QUEUE_ALL_GATHER,
                                                    FSDP_RT_QUEUE_ALL_REDUCE}));
  EXPECT_NE(m.train().findInput("input_ids"), nullptr);
  EXPECT_EQ(m.train().findScalar("clip_norm"), nullptr);
}

TEST(Manifest, SaysWhoAddsUp) {
  json m = good();
  EXPECT_FALSE(parsed(m).sums.byLibrary);
  EXPECT_EQ(parsed(m).sums.ranksPerNode, 0);
  m["reduction"] = {{"by", "nccl"}, {"ranks_per_node", 8}};
  EXPECT_TRUE(parsed(m).sums.byLibrary);
  EXPECT_EQ(parsed(m).sums.ranksPerNode, 8);
  m["reduction"]["by"] = "mpi";
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())),
                  "reduction.by: expected exact or nccl, got 'mpi'");
  m["reduction"] = {{"by", "exact"}, {"ranks_per_node", -1}};
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())),
                  "reduction.ranks_per_node: expected");
}

TEST(Manifest, ScalarsWithoutDefaultHaveThatOfTheTable) {
  for (const scalars::Traits *known : scalars::all) {
    EXPECT_EQ(scalars::find(known->name), known);
    json m = good();
    m["programs"][0]["scalars"] = {{{"name", known->name},
                                    {"dtype", "F32"},
                                    {"offset", m["arena"]["bytes"]},
                                    {"default", nullptr}}};
    setArenaBytes(m, m["arena"]["bytes"].get<int>() + 256);
    // JSON writes any other: null says that there is none.
    std::optional<double> init;
    if (known == &scalars::clipNorm)
      init = INFINITY;
    EXPECT_EQ(parsed(m).train().findScalar(known->name)->init, init)
        << known->name;
  }
  EXPECT_EQ(scalars::find("total"), nullptr);
}

TEST(Manifest, QueuesAndEventsBelongTogether) {
  auto refuse = [](json events, json queues, const std::string &message) {
    json m = good();
    m["programs"][0]["events"] = std::move(events);
    m["programs"][0]["queues"] = std::move(queues);
    EXPECT_CONTAINS(messageOf(parseManifest(m.dump())),
                    "manifest: programs[0]." + message);
  };
  refuse(3, json::array(), "queues: expected a queue for 3 events, got none");
  refuse(0, {"reduce"}, "queues: expected no queue without events, got 1");
  refuse(-1, {"reduce"}, "events: expected");
  refuse(int64_t(1) << 40, {"reduce"}, "events: expected");
  refuse(3, {"compute"},
         "queues[0]: expected one of all_gather, reduce, "
         "all_reduce, d2h, h2d, got 'compute'");
  for (json queues : {json{"reduce", "reduce"}, json{"reduce", "all_gather"}})
    refuse(3, queues, "queues[1]: expected distinct queues in the order");
  json m = good();
  m["programs"][0]["events"] = 0;
  m["programs"][0]["queues"] = json::array();
  EXPECT_TRUE(parsed(m).train().queues.empty());
}

json certified() {
  json manifest = good();
  json transfers = json::array();
  for (int event = 0; event < 7; ++event)
    transfers.push_back({{"unit", event ? "layers.0" : ""},
                         {"phase", event < 4 ? "forward" : "backward"}});
  manifest["programs"][0]["certificate"] = {
      {"program", std::string(64, 'a')},
      {"issue", std::string(64, '0')},
      {"order", "scheduled"},
      {"peak_bytes", manifest["arena"]["bytes"]},
      {"host_bytes", 0},
      {"transfers", transfers}};
  return manifest;
}

TEST(Manifest, ACertificateSaysWhatTheCodeIs) {
  EXPECT_FALSE(parsed(good()).train().certificate.has_value());
  Program m = parsed(certified()).train();
  ASSERT_TRUE(m.certificate.has_value());
  EXPECT_EQ(m.certificate->program, std::string(64, 'a'));
  EXPECT_EQ(m.certificate->order, "scheduled");
  ASSERT_EQ(m.certificate->transfers.size(), 7u);
  EXPECT_EQ(m.certificate->transfers[0].unit, "");
  EXPECT_EQ(m.certificate->transfers[6].unit, "layers.0");
  EXPECT_FALSE(m.certificate->transfers[3].isBackward);
  EXPECT_TRUE(m.certificate->transfers[4].isBackward);
}

TEST(Manifest, RefusesACertificateThatDoesNotFit) {
  auto refuse = [](const char *part, auto change) {
    json manifest = certified();
    change(manifest["programs"][0]["certificate"]);
    EXPECT_CONTAINS(messageOf(parseManifest(manifest.dump())), part);
  };
  refuse("certificate.peak_bytes: expected the",
         [](json &c) { c["peak_bytes"] = int64_t(c["peak_bytes"]) - 64; });
  refuse("certificate.host_bytes: expected the 0 bytes of the host's arena, "
         "got 64",
         [](json &c) { c["host_bytes"] = 64; });
  refuse("certificate.transfers: expected one for each of 7 events, got 6",
         [](json &c) { c["transfers"].erase(6); });
  refuse("expected 64 hexadecimal digits, got 'abc'",
         [](json &c) { c["program"] = "abc"; });
  refuse("expected 64 hexadecimal digits",
         [](json &c) { c["issue"] = std::string(64, 'g'); });
  refuse("expected forward or backward, got 'sideways'",
         [](json &c) { c["transfers"][2]["phase"] = "sideways"; });
  refuse("order", [](json &c) { c["order"] = ""; });
  for (const char *key :
       {"program", "issue", "order", "peak_bytes", "host_bytes", "transfers"})
    refuse(key, [&](json &c) { c.erase(key); });
}

TEST(Manifest, RanksCompareCertificates) {
  json other = certified();
  other["programs"][0]["certificate"]["program"] = std::string(64, 'b');
  EXPECT_NE(programSetting(parsed(certified())).value,
            programSetting(parsed(other)).value);
}

TEST(Manifest, Sha256IsTheStandards) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb924"
                        "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223"
                           "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

Status readStatus(const std::string &text, const char *certificate,
                  const char *digest) {
  fsdp_rt_program program = {"train", [](fsdp_rt_context *) { return 0; },
                             certificate};
  fsdp_rt_artifact artifact = {FSDP_RT_ABI_VERSION, 1, text.c_str(), &program,
                               digest};
  return readArtifact(&artifact).status();
}

std::string refusalOf(const json &description, const char *certificate,
                      const char *digest) {
  return readStatus(description.dump(), certificate, digest).message();
}

TEST(Manifest, BelongsToTheCodeThatItCameWith) {
  std::string code = std::string(64, 'a'), digest = sha256(certified().dump());
  EXPECT_EQ(refusalOf(certified(), code.c_str(), digest.c_str()), "");
  EXPECT_EQ(refusalOf(good(), nullptr, nullptr), "");
  // Changed since: another name, same program.
  json changed = certified();
  changed["name"] = "other";
  EXPECT_CONTAINS(refusalOf(changed, code.c_str(), digest.c_str()),
                  "expected the manifest that the code was lowered with");
  // What breaks a rule, or is no JSON, was changed all the same.
  json broken = certified();
  setArenaBytes(broken, int64_t(broken["arena"]["bytes"]) + 256);
  for (const std::string &text : {broken.dump(), std::string("{")}) {
    Status refused = readStatus(text, code.c_str(), digest.c_str());
    EXPECT_EQ(refused.code(), Code::Failed);
    EXPECT_CONTAINS(refused.message(),
                    "expected the manifest that the code was lowered with");
  }
  // So the compiler wrote it: its fault.
  Status wrong =
      readStatus(broken.dump(), code.c_str(), sha256(broken.dump()).c_str());
  EXPECT_EQ(wrong.code(), Code::Internal);
  EXPECT_CONTAINS(wrong.message(), "certificate.peak_bytes: expected the");
  // Left from before: another program.
  json stale = certified();
  stale["programs"][0]["certificate"]["program"] = std::string(64, 'b');
  for (const std::string &made : {sha256(stale.dump()), digest})
    EXPECT_CONTAINS(refusalOf(stale, code.c_str(), made.c_str()),
                    "expected a manifest of program " + code +
                        ", got one of program bbbb");
  EXPECT_CONTAINS(refusalOf(certified(), nullptr, digest.c_str()),
                  "got none in the code");
  EXPECT_CONTAINS(
      refusalOf(good(), code.c_str(), sha256(good().dump()).c_str()),
      "got none in the manifest");
  EXPECT_CONTAINS(refusalOf(certified(), code.c_str(), code.c_str()),
                  "of digest ");
}

TEST(Manifest, UnknownKeysAreIgnored) {
  json m = good();
  m["later"] = {1, 2};
  m["flat_params"][0]["members"][0]["comment"] = "x";
  parsed(m);
}

TEST(Manifest, RefusesWhatIsNoJson) {
  for (const char *text : {"", "{", "[1", "nul", "{\"a\": NaN}", "{} {}",
                           "\"\xff\"", "{\"a\":1e999}"})
    EXPECT_CONTAINS(messageOf(parseManifest(text)), "manifest: ");
  EXPECT_CONTAINS(messageOf(parseManifest("{\"a\":1,\"a\":1}")),
                  "duplicate key 'a'");
  EXPECT_CONTAINS(messageOf(parseManifest(std::string(100000, '['))),
                  "at most 64 nested");
  EXPECT_CONTAINS(messageOf(parseManifest("[]")), "expected an object, got []");
}

/// Every key that the page names is required: taking any one away is an error
/// that names it.
void removeEach(const json &whole, json::json_pointer at, int &removed) {
  const json &value = whole[at];
  if (value.is_object())
    for (auto it = value.begin(); it != value.end(); ++it) {
      json without = whole;
      without[at].erase(it.key());
      EXPECT_CONTAINS(messageOf(parseManifest(without.dump())),
                      "expected key '" + it.key() + "', got none");
      ++removed;
      removeEach(whole, at / it.key(), removed);
    }
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i)
      removeEach(whole, at / i, removed);
}

TEST(Manifest, NamesEveryMissingKey) {
  int removed = 0;
  removeEach(good(), json::json_pointer(), removed);
  EXPECT_GT(removed, 90);
}

/// Every value of a type that fits nowhere is refused with its path.
TEST(Manifest, NamesEveryWrongType) {
  json flat = good().flatten();
  int checked = 0;
  for (auto it = flat.begin(); it != flat.end(); ++it) {
    json broken = good();
    json::json_pointer at(it.key());
    if (broken[at].empty()) // an empty list in good()
      continue;
    broken[at] = {{"no", "such"}};
    std::string message = messageOf(parseManifest(broken.dump()));
    EXPECT_CONTAINS(message, it.key().substr(1, it.key().find('/', 1) - 1));
    ++checked;
  }
  EXPECT_GT(checked, 90);
}

TEST(Manifest, NeverCrashesOnDamage) {
  std::string text = good().dump();
  int refused = 0;
  for (size_t i = 0; i < text.size(); i += 3)
    for (char damage : {'"', '9', '-', '\xff'}) {
      std::string bad = text;
      bad[i] = damage;
      refused += !parseManifest(bad).isOk();
    }
  EXPECT_GT(refused, int(text.size() / 2));
}

struct Broken {
  const char *pointer;
  json value;
  const char *message;
};

std::ostream &operator<<(std::ostream &out, const Broken &broken) {
  return out << broken.pointer;
}

class Rule : public testing::TestWithParam<Broken> {};

TEST_P(Rule, IsChecked) {
  json m = good();
  m[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, Rule,
    testing::Values(
        Broken{"/format", 1, "format: expected 3, got 1"},
        Broken{"/name", "", "name: expected a string that is not empty"},
        Broken{"/targets", json::array(),
               "targets: expected what there is code for"},
        Broken{"/targets/0/kind", "",
               "targets[0].kind: expected a string that is not empty"},
        Broken{"/targets/0/cpu", 80, "targets[0].cpu: expected a string"},
        Broken{"/mesh/0/size", 0, "mesh[0].size: expected an integer from 1"},
        Broken{"/mesh/0/size", 9007199254740993, "mesh[0].size"},
        Broken{"/mesh/0/axis", "shard", "expected distinct axes"},
        Broken{"/groups/0/axes/0", "tensor",
               "groups[0].axes[0]: expected an axis of the mesh"},
        Broken{"/groups/0/axes/1", "shard",
               "groups[0].axes: expected distinct"},
        Broken{"/arena/bytes", 1 << 20,
               "arena.bytes: expected 2816, what the largest program takes, "
               "got 1048576"},
        Broken{"/arena/host_bytes", 256, "arena.host_bytes: expected 0"},
        Broken{"/arena/state_bytes", 256, "expected it to end within 256"},
        Broken{"/programs/0/arena/segments/0/bytes", 1 << 20,
               "programs[0].arena.segments[0] at bytes 0 to 1048576"},
        Broken{"/programs/0/arena/bytes", 1 << 20,
               "programs[0].arena.bytes: expected an integer"},
        Broken{"/programs/0/kind", "test",
               "programs[0].kind: expected one of train, eval, accumulate, "
               "train_accumulated, accumulate_first, got 'test'"},
        Broken{"/programs/0/kind", "eval", "expected one of kind train"},
        Broken{"/programs", json::array(), "expected one of kind train"},
        Broken{"/programs/0/outputs/1/name", "loss",
               "programs[0].outputs[1].name: expected distinct names"},
        Broken{"/programs/0/outputs/1/name", "other",
               "programs[0].outputs: expected one named 'grad_norm'"},
        Broken{"/programs/0/outputs/0/shape", json::array({2}),
               "programs[0].outputs[0].shape: expected one number, got shape "
               "[2]"},
        Broken{"/arena/bytes", -1, "arena.bytes: expected an integer from 0"},
        Broken{"/programs/0/arena/segments/1/offset", 256,
               "arena.segments[1] at bytes 256 to 768: overlaps"},
        Broken{"/programs/0/arena/segments/1/offset", 300,
               "expected a multiple of 256"},
        Broken{"/programs/0/arena/segments/1/name", "state",
               "expected distinct names"},
        Broken{"/programs/0/traffic/0/group", 2,
               "traffic[0].group: expected an integer"},
        Broken{"/programs/0/traffic/0/kind", "all",
               "traffic[0].kind: expected a kind of collective"},
        Broken{"/flat_params/0/dtype", "F8", "flat_params[0].dtype"},
        Broken{"/flat_params/0/dtype", "I64",
               "flat_params[0].members[0].init.kind: expected constant or"},
        Broken{"/flat_params/0/numel", 9,
               "flat_params[0].numel: expected shard_numel 4 times 2 ranks"},
        Broken{"/flat_params/0/shard_numel", 1LL << 61, "shard_numel"},
        Broken{"/flat_params/0/offset", 100, "expected a multiple of 256"},
        Broken{"/flat_params/0/offset", 256, "overlaps"},
        Broken{"/flat_params/0/offset", 1 << 20, "expected it to end within"},
        Broken{"/flat_params/0/name", "b", "expected distinct names, got 'b'"},
        Broken{"/flat_params/0/members/1/offset", 5,
               "members[1].offset: expected at least 6"},
        Broken{"/flat_params/0/members/1/offset", 8,
               "expected 'a.b' to end within 8 elements, got 9"},
        Broken{"/flat_params/0/members/1/fqn", "b.w", "got 'b.w' also at"},
        Broken{"/flat_params/0/members/1/tied/0", "a.w", "got 'a.w' also at"},
        Broken{"/flat_params/0/members/0/shape/0", -3, "shape[0]"},
        Broken{"/flat_params/0/members/0/shape",
               {1 << 30, 1 << 30, 1 << 30},
               "expected a shape of at most 2^57 elements"},
        Broken{"/flat_params/0/members/0/init/kind", "magic",
               "init.kind: expected one of constant"},
        Broken{"/flat_params/0/members/0/init/std", -1.0, "init.std"},
        Broken{"/flat_params/0/per_rank", true,
               "flat_params[0].per_rank: expected true only for what is "
               "trainable and has no shard_axes"},
        Broken{"/flat_params/0/states/1/name", "exp_avg", "got 'exp_avg' also"},
        Broken{"/flat_params/0/states/0/offset", 0, "overlaps"},
        Broken{"/flat_params/0/states/0/memory", "host",
               "of the host's arena: expected it to end within 0 bytes of "
               "arena.host_state_bytes"},
        Broken{"/arena/host_state_bytes", 256,
               "arena.host_state_bytes: expected an integer from 0 to 0"},
        Broken{"/buffers/0/fqn", "a.w", "got 'a.w' also at"},
        Broken{"/buffers/0/init/values", {1.0}, "expected 2 values, got 1"},
        Broken{"/buffers/0/init/values/1", "minus", "init.values[1]"},
        Broken{"/buffers/0/dtype", "U8", "init.values[0]: expected an integer"},
        Broken{"/programs/0/inputs/0/low", 10,
               "expected low < high, got 10 and 10"},
        Broken{"/programs/0/inputs/0/shift", -1, "inputs[0].shift"},
        Broken{"/programs/0/inputs/0/draw", json::array({3, 3}),
               "inputs[0].draw: expected [low, high) of values that I64 holds"},
        Broken{"/programs/0/inputs/0/draw", json::array({3}),
               "inputs[0].draw: expected"},
        Broken{"/programs/0/inputs/0/allowed", json::array({"x"}),
               "inputs[0].allowed[0]: expected an integer"},
        Broken{"/programs/0/inputs/0/dtype", "F32",
               "low: expected null for dtype F32"},
        Broken{"/programs/0/inputs/0/offset", 0, "overlaps"},
        Broken{"/programs/0/scalars/0/offset", 0, "overlaps"},
        Broken{"/programs/0/outputs/0/dtype", "I32",
               "programs[0].outputs[0].dtype"},
        Broken{"/programs/0/outputs/0/offset", 0,
               "outputs[0] at bytes 0 to 4"}));

TEST(Manifest, ProgramsShareTheArena) {
  json m = good();
  json other = m["programs"][0];
  other["name"] = "evaluate";
  other["kind"] = "eval";
  other["events"] = 9;
  other["queues"] = {"reduce"};
  other["outputs"].erase(1);
  m["programs"].push_back(other);
  Manifest both = parsed(m);
  EXPECT_EQ(both.train().name, "train");
  EXPECT_EQ(both.evaluation()->name, "evaluate");
  EXPECT_EQ(both.findProgram("evaluate"), &both.programs[1]);
  EXPECT_EQ(both.findProgram("other"), nullptr);
  EXPECT_EQ(both.mostEvents(), 9);
  EXPECT_EQ(both.allQueues(), (std::vector<int32_t>{FSDP_RT_QUEUE_ALL_GATHER,
                                                    FSDP_RT_QUEUE_REDUCE,
                                                    FSDP_RT_QUEUE_ALL_REDUCE}));
  EXPECT_EQ(parsed(good()).evaluation(), nullptr);
  m["programs"][1]["outputs"] = json::array();
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())),
                  "programs[1].outputs: expected at least one, got none");
  m["programs"][1]["name"] = "train";
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())),
                  "programs[1].name: expected distinct names, got 'train'");
}

/// Two further programs, which add up 'a' as a shard and 'b' as a whole.
json accumulating() {
  json m = good();
  auto take = [&] {
    int64_t offset = m["arena"]["bytes"];
    setArenaBytes(m, offset + 256);
    return offset;
  };
  for (const char *flat : {"a", "b"})
    m["accumulators"].push_back({{"flat_param", flat},
                                 {"dtype", "F32"},
                                 {"numel", 4},
                                 {"offset", take()}});
  json count = {{"name", "accumulated"},
                {"dtype", "F32"},
                {"offset", take()},
                {"default", 0}};
  json weight = {{"name", "accumulation_weight"},
                 {"dtype", "F32"},
                 {"offset", take()},
                 {"default", 1}};
  json first = m["programs"][0], last = first;
  first["name"] = first["kind"] = "accumulate";
  first["outputs"].erase(1);
  last["name"] = last["kind"] = "train_accumulated";
  first["scalars"].push_back(count);
  last["scalars"].push_back(count);
  last["scalars"].push_back(weight);
  m["programs"].push_back(first);
  m["programs"].push_back(last);
  return m;
}

TEST(Manifest, ProgramsAccumulate) {
  Manifest m = parsed(accumulating());
  ASSERT_EQ(m.accumulators.size(), 2u);
  EXPECT_EQ(m.accumulators[0].flatParam, "a");
  EXPECT_EQ(m.accumulators[0].numel, m.flatParams[0].shardNumel);
  EXPECT_EQ(m.accumulators[1].numel, m.flatParams[1].numel);
  EXPECT_EQ(m.microBatch(), &m.programs[1]);
  EXPECT_EQ(m.lastMicroBatch(), &m.programs[2]);
  EXPECT_EQ(&m.programOf(1, 1), &m.programs[0]);
  EXPECT_EQ(&m.programOf(1, 3), &m.programs[1]);
  EXPECT_EQ(&m.programOf(2, 3), &m.programs[1]);
  EXPECT_EQ(&m.programOf(3, 3), &m.programs[2]);
  // Nobody adds up what they would hold.
  json without = accumulating();
  without["programs"].erase(2);
  without["programs"].erase(1);
  EXPECT_CONTAINS(messageOf(parseManifest(without.dump())),
                  "manifest: accumulators: expected none without a program of "
                  "kind accumulate, got 2");
}

TEST(Manifest, ReadsWhatAReductionHookKeeps) {
  json m = good();
  EXPECT_TRUE(parsed(m).residuals.empty());
  int64_t offset = m["arena"]["bytes"];
  setArenaBytes(m, offset + 256);
  json zeros = {{"kind", "constant"}, {"value", 0}};
  m["residuals"].push_back({{"name", "w.error"},
                            {"dtype", "F32"},
                            {"shape", {2, 3}},
                            {"offset", offset},
                            {"init", zeros}});
  Manifest read = parsed(m);
  ASSERT_EQ(read.residuals.size(), 1u);
  EXPECT_EQ(read.residuals[0].bytes(), 24);
  EXPECT_EQ(read.buffers.size(), parsed(good()).buffers.size());
  auto expect = [&](const char *pointer, const json &value,
                    const char *message) {
    json broken = m;
    broken[json::json_pointer(pointer)] = value;
    EXPECT_CONTAINS(messageOf(parseManifest(broken.dump())), message);
  };
  expect("/residuals/0/init", nullptr,
         "residuals[0].init: expected an initialiser of a residual, got none");
  expect("/residuals/0/offset", 0, "overlaps");
  expect("/residuals/1", m["residuals"][0],
         "residuals[1].name: expected distinct names, got 'w.error' also at "
         "residuals[0].name");
}

/// The first micro-batch gathers 'a' for the others.
json gathering() {
  json m = accumulating();
  json first = m["programs"][1];
  first["name"] = first["kind"] = "accumulate_first";
  m["programs"].push_back(first);
  int64_t offset = m["arena"]["bytes"];
  setArenaBytes(m, offset + 256);
  for (json &program : m["programs"])
    program["arena"] = m["programs"][0]["arena"];
  m["gathered"].push_back({{"flat_param", "a"},
                           {"dtype", "BF16"},
                           {"numel", 8},
                           {"offset", offset}});
  return m;
}

TEST(Manifest, FirstMicroBatchesGather) {
  Manifest m = parsed(gathering());
  ASSERT_EQ(m.gathered.size(), 1u);
  EXPECT_EQ(m.gathered[0].bytes(), 16);
  EXPECT_EQ(m.firstMicroBatch(), &m.programs[3]);
  EXPECT_EQ(&m.programOf(1, 1), &m.programs[0]);
  EXPECT_EQ(&m.programOf(1, 2), &m.programs[3]);
  EXPECT_EQ(&m.programOf(2, 2), &m.programs[2]);
  EXPECT_EQ(&m.programOf(2, 3), &m.programs[1]);
  EXPECT_EQ(&m.programOf(3, 3), &m.programs[2]);
  EXPECT_TRUE(m.firstMicroBatch()->traits().isWithinStep());
}

TEST(Manifest, ReadsEveryKindOfTheTable) {
  json m = gathering();
  json evaluation = m["programs"][0];
  evaluation["name"] = "evaluate";
  evaluation["kind"] = "eval";
  m["programs"].push_back(evaluation);
  Manifest read = parsed(m);
  std::set<std::string> names;
  for (const Program &program : read.programs)
    names.insert(program.traits().name);
  EXPECT_EQ(names.size(), std::size(fsdp_rt::programTraits));
  for (const ProgramTraits &traits : fsdp_rt::programTraits) {
    EXPECT_TRUE(names.count(traits.name)) << traits.name;
    m["programs"][3]["kind"] = traits.name + std::string("s");
    EXPECT_CONTAINS(messageOf(parseManifest(m.dump())),
                    "kind: expected one of train, eval, accumulate, "
                    "train_accumulated, accumulate_first, got '" +
                        std::string(traits.name) + "s'");
  }
  EXPECT_TRUE(read.train().traits().isStep);
  EXPECT_FALSE(read.evaluation()->traits().writesStates);
  EXPECT_TRUE(read.microBatch()->traits().isWithinStep());
  EXPECT_TRUE(read.lastMicroBatch()->traits().updates);
}

class GatheringRule : public testing::TestWithParam<Broken> {};

TEST_P(GatheringRule, IsChecked) {
  json m = gathering();
  m[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, GatheringRule,
    testing::Values(
        Broken{"/gathered", json::array(),
               "gathered: expected states beside a program of kind "
               "accumulate_first, got none"},
        Broken{"/programs/3/kind", "eval",
               "gathered: expected a program of kind accumulate_first beside 1 "
               "states, got none"},
        Broken{"/gathered/0/flat_param", "c",
               "gathered[0].flat_param: expected a flat parameter, got 'c'"},
        Broken{"/gathered/0/numel", 4,
               "gathered[0].numel: expected 8, numel of 'a', got 4"},
        Broken{"/gathered/0/dtype", "I64",
               "gathered[0].dtype: expected a float dtype, got I64"},
        Broken{"/gathered/0/offset", 0, "overlaps"},
        Broken{"/programs/3/scalars/1/name", "x",
               "programs: expected a scalar 'accumulated' of "
               "'accumulate_first', got none"}));

class AccumulationRule : public testing::TestWithParam<Broken> {};

TEST_P(AccumulationRule, IsChecked) {
  json m = accumulating();
  m[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, AccumulationRule,
    testing::Values(
        Broken{"/accumulators/0/flat_param", "c",
               "accumulators[0].flat_param: expected a trainable flat "
               "parameter, got 'c'"},
        Broken{"/flat_params/1/trainable", false,
               "accumulators[1].flat_param: expected a trainable flat "
               "parameter, got 'b'"},
        Broken{"/accumulators/1/flat_param", "a",
               "accumulators[1].flat_param: expected distinct names, got 'a' "
               "also at accumulators[0].flat_param"},
        Broken{"/accumulators/0/numel", 5,
               "accumulators[0].numel: expected 4 or 8, shard_numel or numel "
               "of 'a', got 5"},
        Broken{"/accumulators/0/dtype", "I64",
               "accumulators[0].dtype: expected a float dtype, got I64"},
        Broken{"/accumulators/0/offset", 0, "overlaps"},
        Broken{"/accumulators", json::array(),
               "accumulators: expected one for 'a', which is trainable, got "
               "none"},
        Broken{"/programs/1/scalars/1/name", "x",
               "programs: expected a scalar 'accumulated' of 'accumulate', got "
               "none"},
        Broken{"/programs/2/scalars/1/name", "x",
               "programs: expected a scalar 'accumulated' of "
               "'train_accumulated', got none"},
        Broken{"/programs/2/scalars/2/name", "x",
               "programs: expected a scalar 'accumulation_weight' of "
               "'train_accumulated', got none"},
        Broken{"/programs/1/kind", "eval",
               "programs: expected one of kind accumulate beside one of kind "
               "train_accumulated, got none"},
        Broken{"/programs/2/kind", "eval",
               "programs: expected one of kind train_accumulated beside one of "
               "kind accumulate, got none"},
        Broken{"/programs/1/inputs/0/name", "x",
               "programs: expected 'accumulate' to have the inputs of 'train', "
               "got others"}));

/// Of programs whose losses are sums.
json counting() {
  json m = accumulating();
  for (json &program : m["programs"]) {
    json place = program["inputs"][0]["offset"];
    program["outputs"].push_back({{"name", "loss_count"},
                                  {"dtype", "F64"},
                                  {"shape", json::array()},
                                  {"offset", place}});
  }
  m["programs"][2]["scalars"][2]["name"] = "accumulated_count";
  return m;
}

class CountRule : public testing::TestWithParam<Broken> {};

TEST_P(CountRule, IsChecked) {
  json m = counting();
  parsed(m);
  m[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, CountRule,
    testing::Values(Broken{"/programs/2/scalars/2/name", "accumulation_weight",
                           "programs: expected a scalar 'accumulated_count' of "
                           "'train_accumulated', got none"},
                    Broken{"/programs/0/outputs/2/name", "count",
                           "programs: expected 'accumulate' to have no output "
                           "'loss_count', as 'train', got one"},
                    Broken{"/programs/1/outputs/1/name", "count",
                           "programs: expected 'accumulate' to have an output "
                           "'loss_count', as 'train', got none"},
                    Broken{"/programs/0/outputs/2/dtype", "BF16",
                           "dtype: expected F32, F64, I32 or I64, got BF16"},
                    Broken{"/programs/0/outputs/2/shape",
                           {2},
                           "shape: expected one number, got shape [2]"}));

/// Of a program whose loss has a scale that changes.
json scaling() {
  json m = good();
  m["skips_nonfinite"] = true;
  m["loss_scale"] = {{"backoff", 0.25}, {"min", 2}};
  json &program = m["programs"][0];
  program["outputs"].push_back({{"name", "loss_scale"},
                                {"dtype", "F32"},
                                {"shape", json::array()},
                                {"offset", program["inputs"][0]["offset"]}});
  return m;
}

TEST(Manifest, ReadsHowALossScaleChanges) {
  Manifest read = parsed(scaling());
  ASSERT_TRUE(read.lossScale.has_value());
  EXPECT_EQ(read.lossScale->backoff, 0.25);
  EXPECT_EQ(read.lossScale->least, 2);
  EXPECT_FALSE(parsed(good()).lossScale.has_value());
}

class LossScaleRule : public testing::TestWithParam<Broken> {};

TEST_P(LossScaleRule, IsChecked) {
  json m = scaling();
  m[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_CONTAINS(messageOf(parseManifest(m.dump())), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, LossScaleRule,
    testing::Values(Broken{"/loss_scale/backoff", 1,
                           "loss_scale: expected a backoff between 0 and 1"},
                    Broken{"/loss_scale/min", -1,
                           "a min of at least 0, got 0.25"},
                    Broken{"/skips_nonfinite", false,
                           "loss_scale: expected it beside skips_nonfinite"},
                    Broken{"/programs/0/outputs/2/name", "scale",
                           "expected a number among the outputs of train, F32, "
                           "named 'loss_scale'"},
                    Broken{"/programs/0/outputs/2/dtype", "F64",
                           "F32, named 'loss_scale'"}));

TEST(Manifest, OutputsMayTakeTheInputsPlace) {
  json m = good();
  json &program = m["programs"][0];
  program["outputs"][0]["offset"] = program["inputs"][0]["offset"];
  parsed(m);
}

TEST(Manifest, IntegerValuesKeepAllTheirDigits) {
  json m = good();
  addBuffer(m, "big", "I64", {1},
            {{"kind", "values"}, {"values", {9007199254740993}}});
  Manifest parsedOne = parsed(m);
  int64_t value;
  memcpy(&value, parsedOne.buffers[1].init.values.data(), 8);
  EXPECT_EQ(value, 9007199254740993);
}

} // namespace
