//===- HostStateTest.cpp - Optimizer states in the host's memory ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/Initialize.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

/// States have 512 bytes of the host's arena, programs 768.
json hosted() {
  json manifest = makeManifest(2, 2,
                               {{"a", "F32", {{"a.w", {3, 2}}, {"a.b", {1}}}},
                                {"b", "BF16", {{"b.w", {4}}}}});
  moveStatesToHost(manifest);
  return manifest;
}

TEST(HostState, IsRead) {
  Manifest m = parsed(hosted());
  EXPECT_EQ(m.hostBytes, 768);
  EXPECT_EQ(m.hostStateBytes, 512);
  EXPECT_EQ(m.flatParams[0].states[0].memory, FSDP_RT_HOST);
  EXPECT_EQ(m.flatParams[0].states[0].offset, 0);
  EXPECT_EQ(m.flatParams[1].states[0].memory, FSDP_RT_HOST);
  EXPECT_EQ(m.flatParams[1].states[0].offset, 256);
  EXPECT_EQ(m.flatParams[1].states[1].memory, FSDP_RT_DEVICE);
}

TEST(HostState, EveryProgramHasItsBytesAndMayHaveNoOthers) {
  json manifest = hosted();
  manifest["programs"].push_back(manifest["programs"][0]);
  manifest["programs"][1]["name"] = "other";
  json &bytes = manifest["programs"][1]["arena"]["host_bytes"];
  bytes = 512;
  EXPECT_EQ(parsed(manifest).programs[1].hostBytes, 512);
  bytes = 256;
  EXPECT_CONTAINS(messageOf(parseManifest(manifest.dump())),
                  "programs[1].arena.host_bytes: expected an integer from 512 "
                  "to 768, got 256");
}

TEST(HostState, RulesAreChecked) {
  auto refuse = [](const char *pointer, const json &value,
                   const char *message) {
    json manifest = hosted();
    manifest[json::json_pointer(pointer)] = value;
    EXPECT_CONTAINS(messageOf(parseManifest(manifest.dump())), message);
  };
  refuse("/flat_params/0/states/0/memory", "disk",
         "flat_params[0].states[0].memory: expected device or host, got "
         "'disk'");
  refuse("/flat_params/0/states/0/memory", 1,
         "flat_params[0].states[0].memory: expected a string");
  refuse("/flat_params/0/states/1/memory", "host",
         "flat_params[0].states[1].memory: expected device for a scalar state, "
         "got 'host'");
  // Two states of the host's arena, in one place.
  refuse("/flat_params/1/states/0/offset", 0,
         "of the host's arena: overlaps flat_params[");
  // A state where a parameter is: in the other arena it may be there.
  refuse("/flat_params/0/states/0/memory", "device",
         "at bytes 0 to 16: overlaps flat_params[0]");
  refuse("/flat_params/1/states/0/offset", 512,
         "flat_params[1].states[0] at bytes 512 to 520 of the host's arena: "
         "expected it to end within 512 bytes of arena.host_state_bytes");
  refuse("/flat_params/1/states/0/offset", 8,
         "flat_params[1].states[0].offset: expected a multiple of 256, got 8");
  refuse("/arena/host_state_bytes", 256,
         "expected it to end within 256 bytes of arena.host_state_bytes");
  refuse("/arena/host_state_bytes", 1024,
         "arena.host_state_bytes: expected an integer from 0 to 768, got 1024");
  refuse("/arena/host_state_bytes", -1,
         "arena.host_state_bytes: expected an integer from 0");
  refuse("/programs/0/arena/host_bytes", 256,
         "programs[0].arena.host_bytes: expected an integer from 512 to 768, "
         "got 256");
}

/// Nothing else of either arena is written.
TEST(HostState, IsInitialisedInItsArenaAlone) {
  json description = hosted();
  for (json &flat : description["flat_params"])
    flat["states"][0]["init"] = 0.25;
  Manifest manifest = parsed(description);
  const float quarter = 0.25f;
  Arenas arenas(manifest, '\x7f');
  std::vector<char> device = arenas.device, host = arenas.host;
  ASSERT_OK(initializeStates(manifest, arenas.memory()));
  for (const FlatParam &flat : manifest.flatParams) {
    for (int64_t i = 0; i < flat.shardNumel; ++i)
      std::memcpy(host.data() + flat.states[0].offset + 4 * i, &quarter, 4);
    std::fill_n(device.begin() + flat.states[1].offset, 4, '\0');
  }
  EXPECT_EQ(arenas.host, host);
  EXPECT_EQ(arenas.device, device);
  // The parameters are those of a program with all states on the device.
  Manifest other =
      parsed(makeManifest(2, 2,
                          {{"a", "F32", {{"a.w", {3, 2}}, {"a.b", {1}}}},
                           {"b", "BF16", {{"b.w", {4}}}}}));
  Arenas drawn(manifest), reference(other);
  ASSERT_OK(initializeFromSeed(manifest, 1, 3, 1, drawn.memory()));
  ASSERT_OK(initializeFromSeed(other, 1, 3, 1, reference.memory()));
  EXPECT_EQ(drawn.device, reference.device);
}

} // namespace
