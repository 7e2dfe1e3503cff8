//===- TestSupport.cpp - What the data tests share ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/Digest.h"
#include "data/Elements.h"
#include "data/File.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

using nlohmann::json;

namespace fsdp::rt::data {

TempDir::TempDir() {
  // In memory where there is such a place: saves wait for the disk.
  for (std::string root : {std::string("/dev/shm"), testing::TempDir()}) {
    std::string pattern = root + "/fsdp-data-XXXXXX";
    if (::mkdtemp(pattern.data())) {
      path_ = pattern;
      return;
    }
  }
  ADD_FAILURE() << "cannot create a temporary directory";
}

TempDir::~TempDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void writeFile(const std::string &path, const std::string &contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> entriesOf(const std::string &directory) {
  Result<std::vector<std::string>> names = listDirectory(directory);
  EXPECT_TRUE(names.isOk());
  return names.isOk() ? *names : std::vector<std::string>{};
}

std::string safetensorsBytes(const std::string &header, const std::string &data,
                             int64_t length) {
  uint64_t bytes = length < 0 ? header.size() : uint64_t(length);
  return std::string(reinterpret_cast<const char *>(&bytes), sizeof bytes) +
         header + data;
}

void setArenaBytes(json &manifest, int64_t bytes) {
  manifest["arena"]["bytes"] = bytes;
  manifest["arena"]["state_bytes"] = bytes;
  manifest["programs"][0]["arena"]["bytes"] = bytes;
}

namespace {

/// Takes `bytes` of the arena, which grows.
int64_t reserve(json &manifest, int64_t bytes) {
  int64_t offset = manifest["arena"]["bytes"];
  int64_t end = (offset + bytes + 255) / 256 * 256;
  setArenaBytes(manifest, end);
  return offset;
}

int64_t bytesOf(const std::string &dtype, const Shape &shape) {
  return numelOf(shape) * dtypeSize(*dtypeFromName(dtype));
}

} // namespace

void moveStatesToHost(json &manifest) {
  int64_t end = 0;
  for (json &flat : manifest["flat_params"])
    for (json &state : flat["states"])
      if (!state["scalar"]) {
        state["memory"] = "host";
        state["offset"] = end;
        end +=
            (bytesOf(state["dtype"], {flat["shard_numel"]}) + 255) / 256 * 256;
      }
  manifest["arena"]["host_state_bytes"] = end;
  manifest["arena"]["host_bytes"] = end + 256;
  for (json &program : manifest["programs"])
    program["arena"]["host_bytes"] = end + 256;
}

json makeManifest(int replicas, int shards,
                  const std::vector<FlatSpec> &flats) {
  json manifest = {
      {"format", 3},
      {"name", "test"},
      {"fingerprint", "0123456789abcdef"},
      {"targets",
       {{{"kind", "cpu"}, {"cpu", "generic"}, {"features", json::array()}}}},
      {"mesh",
       {{{"axis", "replicate"}, {"size", replicas}},
        {{"axis", "shard"}, {"size", shards}}}},
      {"strategy", "hybrid_shard"},
      {"wrap", "blocks"},
      {"groups", {{{"axes", {"shard"}}}, {{"axes", {"replicate"}}}}},
      {"arena",
       {{"bytes", 0},
        {"host_bytes", 0},
        {"state_bytes", 0},
        {"host_state_bytes", 0},
        {"scratch_bytes", 0},
        {"budget_bytes", 0}}},
      {"flat_params", json::array()},
      {"buffers", json::array()},
  };
  json program = {
      {"name", "train"},
      {"kind", "train"},
      {"events", 0},
      {"queues", json::array()},
      {"arena", {{"bytes", 0}, {"host_bytes", 0}, {"segments", json::array()}}},
      {"plan",
       {{"parameters", 0},
        {"gradients", 0},
        {"optimizer", 0},
        {"gathered", 0},
        {"activations", 0},
        {"other", 0},
        {"workspace", 0}}},
      {"traffic", json::array()},
      {"inputs", json::array()},
      {"scalars", json::array()},
      {"outputs", json::array()},
  };
  manifest["programs"] = json::array({program});
  for (const FlatSpec &spec : flats) {
    json members = json::array();
    int64_t used = 0;
    for (const auto &[fqn, shape] : spec.members) {
      members.push_back({{"fqn", fqn},
                         {"tied", json::array()},
                         {"shape", shape},
                         {"offset", used},
                         {"init", spec.init}});
      used += numelOf(shape);
    }
    int64_t ranks = spec.isSharded ? shards : 1;
    int64_t shard = (used + ranks - 1) / ranks;
    int64_t size = dtypeSize(*dtypeFromName(spec.dtype));
    json axes = json::array();
    if (spec.isSharded)
      axes.push_back("shard");
    json flat = {{"name", spec.name},
                 {"unit", spec.name},
                 {"dtype", spec.dtype},
                 {"numel", shard * ranks},
                 {"shard_numel", shard},
                 {"shard_axes", axes},
                 {"trainable", true},
                 {"per_rank", false},
                 {"memory", "device"},
                 {"offset", reserve(manifest, shard * size)},
                 {"members", members}};
    flat["states"] = {{{"name", "exp_avg"},
                       {"dtype", "F32"},
                       {"scalar", false},
                       {"memory", "device"},
                       {"offset", reserve(manifest, shard * 4)},
                       {"init", 0.0}},
                      {{"name", "step"},
                       {"dtype", "F32"},
                       {"scalar", true},
                       {"memory", "device"},
                       {"offset", reserve(manifest, 4)},
                       {"init", 0.0}}};
    manifest["flat_params"].push_back(flat);
  }
  json &made = manifest["programs"][0];
  made["scalars"].push_back({{"name", "lr"},
                             {"dtype", "F32"},
                             {"offset", reserve(manifest, 4)},
                             {"default", 0.001}});
  for (const char *name : {"loss", "grad_norm"})
    made["outputs"].push_back({{"name", name},
                               {"dtype", "F32"},
                               {"shape", json::array()},
                               {"offset", reserve(manifest, 4)}});
  return manifest;
}

void addBuffer(json &manifest, const std::string &fqn, const std::string &dtype,
               const Shape &shape, json init) {
  manifest["buffers"].push_back(
      {{"fqn", fqn},
       {"dtype", dtype},
       {"shape", shape},
       {"per_rank", false},
       {"offset", reserve(manifest, bytesOf(dtype, shape))},
       {"init", std::move(init)}});
}

void addInput(json &manifest, const std::string &name, const std::string &dtype,
              const Shape &shape, json low, json high, int shift) {
  manifest["programs"][0]["inputs"].push_back(
      {{"name", name},
       {"dtype", dtype},
       {"shape", shape},
       {"offset", reserve(manifest, bytesOf(dtype, shape))},
       {"low", std::move(low)},
       {"high", std::move(high)},
       {"shift", shift}});
}

Manifest parsed(const json &manifest) {
  Result<Manifest> result = parseManifest(manifest.dump());
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result.isOk() ? *result : Manifest();
}

void signAgain(const std::string &checkpoint, const json &changes, bool isOld) {
  std::string path = checkpoint + "/meta.json";
  json meta = json::parse(readFile(path)), digests = json::object();
  for (const std::string &name : entriesOf(checkpoint)) {
    if (name.find(".safetensors") == std::string::npos)
      continue;
    std::string bytes = readFile(checkpoint + "/" + name);
    meta["files"][name] = bytes.size();
    if (!bytes.empty())
      digests[name] = {{0, bytes.size(), toHex(digestOf(bytes))}};
  }
  meta.merge_patch(changes);
  for (const char *key : {"digest", "digests"})
    meta.erase(key);
  std::string digestsPath = checkpoint + "/digests.json";
  if (isOld) {
    meta["format"] = 1;
    EXPECT_OK(removeTree(digestsPath));
  } else {
    writeFile(digestsPath, digests.dump());
    meta["digests"] = toHex(digestOf(digests.dump()));
    meta["digest"] = toHex(digestOf(meta.dump()));
  }
  writeFile(path, meta.dump());
}

std::vector<float> floatsOf(const std::string &path, const std::string &name) {
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  EXPECT_TRUE(file.isOk()) << file.status().message();
  const TensorInfo *tensor = file.isOk() ? file->find(name) : nullptr;
  EXPECT_NE(tensor, nullptr) << name;
  if (!tensor)
    return {};
  std::vector<float> values(numelOf(tensor->shape));
  EXPECT_OK(file->read(*tensor, 0, values.data(), tensor->bytes));
  return values;
}

} // namespace fsdp::rt::data
