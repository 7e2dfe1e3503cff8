//===- ModelConfigTest.cpp - Parameters beside a configuration ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/ModelConfig.h"

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class ModelConfigTest : public testing::Test {
protected:
  const json traced = {{"model_type", "llama"},
                       {"eps", 1e-6},
                       {"layers", {"full", "sliding"}},
                       {"hidden_act", "silu"},
                       {"rope_parameters", {{"rope_theta", 10000}}},
                       {"vision_config",
                        {{"hidden_act", "quick_gelu"},
                         {"rope_parameters", {{"rope_theta", 100}}}}}};

  Manifest manifest() {
    json manifest = makeManifest(1, 1, {{"all", "F32", {{"w", {4}}}}});
    manifest["config"] = traced;
    return parsed(manifest);
  }
  Status check(const std::string &config) {
    writeFile(dir.file("config.json"), config);
    return checkModelConfig(manifest(), dir.path() + "/", notes);
  }
  /// With these entries instead of, or beside, those that were traced.
  Status checkWith(const json &changes) {
    json config = traced;
    config.update(changes);
    return check(config.dump());
  }

  TempDir dir;
  std::vector<std::string> notes;
};

TEST_F(ModelConfigTest, TheSameModel) {
  EXPECT_OK(checkModelConfig(manifest(), dir.path() + "/", notes));
  // Numbers are compared by value; of other entries nothing is known.
  EXPECT_OK(checkWith(
      {{"dropout", 0.1}, {"rope_parameters", {{"rope_theta", 10000.0}}}}));
  EXPECT_OK(check(json{{"model_type", "llama"}}.dump()));
  EXPECT_TRUE(notes.empty());
}

TEST_F(ModelConfigTest, AnotherModel) {
  std::string path = dir.file("config.json");
  EXPECT_EQ(messageOf(checkWith(
                {{"eps", 0.01}, {"rope_parameters", {{"rope_theta", 100}}}})),
            "expected parameters of the model that was exported, got '" + path +
                "' with eps 0.01 instead of 1e-06, rope_parameters.rope_theta "
                "100 instead of 10000; export that model (fsdp-export hf:" +
                dir.path() +
                "/), or give the parameters without their config.json");
  EXPECT_NE(messageOf(checkWith({{"layers", {"full", "full"}}}))
                .find("layers [\"full\",\"full\"] instead of "
                      "[\"full\",\"sliding\"]"),
            std::string::npos);
  EXPECT_NE(messageOf(checkWith({{"model_type", "mistral"}}))
                .find("model_type \"mistral\" instead of \"llama\""),
            std::string::npos);
  EXPECT_NE(messageOf(checkWith({{"eps", nullptr}}))
                .find("eps null instead of 1e-06"),
            std::string::npos);
}

TEST_F(ModelConfigTest, EntriesWhereOlderFilesHaveThem) {
  EXPECT_OK(check(json{{"model_type", "llama"}, {"rope_theta", 1e4}}.dump()));
  EXPECT_NE(
      messageOf(check(json{{"model_type", "llama"}, {"rope_theta", 1}}.dump()))
          .find("rope_parameters.rope_theta 1 instead of 10000"),
      std::string::npos);
}

TEST_F(ModelConfigTest, EntriesThatOneObjectLacks) {
  // The top's entries of these names are others.
  EXPECT_OK(
      checkWith({{"rope_theta", 10000}, {"vision_config", {{"depth", 2}}}}));
  EXPECT_OK(checkWith({{"vision_config", json::object()}}));
  EXPECT_NE(messageOf(checkWith({{"vision_config", {{"hidden_act", "silu"}}}}))
                .find("vision_config.hidden_act \"silu\" instead of "
                      "\"quick_gelu\""),
            std::string::npos);
  EXPECT_NE(messageOf(checkWith({{"vision_config", nullptr}}))
                .find("vision_config null instead of {"),
            std::string::npos);
}

TEST_F(ModelConfigTest, WhatIsNotCompared) {
  EXPECT_OK(check(json{{"eps", 0.01}}.dump()));
  EXPECT_OK(check("[1]"));
  EXPECT_TRUE(notes.empty());
  // Python writes it so.
  EXPECT_OK(check("{\"model_type\": \"llama\", \"eps\": Infinity}"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(": not compared with the configuration"),
            std::string::npos);
  notes.clear();
  EXPECT_OK(checkModelConfig(
      parsed(makeManifest(1, 1, {{"all", "F32", {{"w", {4}}}}})),
      dir.path() + "/", notes));
  EXPECT_TRUE(notes.empty());
}

} // namespace
