//===- SaveTrainedTest.cpp - Checkpoints without what is frozen -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

using namespace fsdp::rt::data;

namespace {

/// The program trains weight and bias, and changes count; gain is frozen.
class SaveTrainedTest : public LinearProgram {
protected:
  SaveTrainedTest() {
    writeBase(7, {});
    float weight[] = {1, 2, 3, 4, 5}, bias = 6;
    EXPECT_OK(writeSafetensors(
        adapters, {{"weight", FSDP_RT_F32, {5}}, {"bias", FSDP_RT_F32, {1}}},
        {weight, &bias}));
  }
  void writeBase(float gain, const Shape &shape) {
    int64_t count = 0;
    EXPECT_OK(writeSafetensors(
        base, {{"gain", FSDP_RT_F32, shape}, {"count", FSDP_RT_I64, {}}},
        {&gain, &count}));
  }
  Words with(Words start, int steps, const Words &more = {}) const {
    start.insert(start.end(), {"--data", batches, "--lr", "0.001", "--steps",
                               std::to_string(steps)});
    start.insert(start.end(), more.begin(), more.end());
    return start;
  }
  /// On as many ranks; a warning says where a step takes another batch.
  void train(const std::string &mesh, const Words &words) {
    Outcome outcome = run(mesh, words, own);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  void refuse(const Words &words, const std::string &message) {
    expectRefusal("2", words, message, own);
  }
  const std::string base = dir.file("base.safetensors"),
                    adapters = dir.file("adapters.safetensors"),
                    saves = dir.file("saves");
  const Words own = {"LINEAR_FLAW=own"};
  const Words anew = {"--params", base, "--params", adapters};
};

TEST_F(SaveTrainedTest, GoesOnAsAWholeOneOnAnyMesh) {
  const std::string whole = dir.file("whole"), trained = dir.file("trained");
  train("1", with(anew, 6, {"--save", whole}));
  train("1", with(anew, 6, {"--save", trained, "--save-trained"}));
  const std::string params = pathAt(trained, 6) + "/params.safetensors";
  EXPECT_EQ(readFile(params).find("gain"), std::string::npos);
  EXPECT_EQ(floatsOf(params, "weight"),
            floatsOf(pathAt(whole, 6) + "/params.safetensors", "weight"));
  EXPECT_EQ(metaAt(trained, 6)["base"]["tensors"], 1);
  EXPECT_FALSE(metaAt(whole, 6).contains("base"));
  for (auto [before, after] :
       std::vector<std::pair<const char *, const char *>>{
           {"1", "2"}, {"2", "2"}, {"2", "4"}, {"2x2", "1"}}) {
    const std::string half = dir.file(std::string(before) + after),
                      merged = half + "-merged";
    train(before, with(anew, 3, {"--save", half, "--save-trained"}));
    EXPECT_EQ(pathExists(pathAt(half, 3) + "/ranks.safetensors"),
              *before != '1');
    // Without the option the next ones are whole again.
    train(after,
          with({"--resume", half, "--params", base}, 6, {"--save", merged}));
    EXPECT_EQ(stateAt(merged, 6), stateAt(whole, 6)) << before << after;
    train(after, with({"--resume", half, "--params", base}, 6,
                      {"--save", half, "--save-trained", "--keep", "1"}));
    EXPECT_EQ(stateAt(half, 6), stateAt(trained, 6)) << before << after;
    EXPECT_EQ(entriesOf(half),
              (std::vector<std::string>{"latest", "step-00000006"}));
  }
}

TEST_F(SaveTrainedTest, WantsTheBaseThatItWasTrainedOn) {
  train("2", with(anew, 2, {"--save", saves, "--save-trained"}));
  const Words from = {"--resume", saves};
  refuse(with(from, 4), "--resume: expected --params FILE or --init seed=K, as "
                        "the run began with, for the parameters that " +
                            pathAt(saves, 2) +
                            " of --save-trained leaves out, got none");
  const Words withBase = {"--resume", saves, "--params", base};
  refuse(with({"--resume", saves, "--params", adapters}, 4),
         adapters + ": missing 1 tensor: 'gain' (--init seed=K beside --params "
                    "draws what is missing)");
  // Of gain's initialiser.
  refuse(with({"--resume", saves, "--init", "seed=0"}, 4),
         pathAt(saves, 2) + ": expected the parameters and buffers that it "
                            "leaves out to be those of the run that saved it");
  writeBase(7.5f, {});
  refuse(with(withBase, 4), "got others, of digest ");
  writeBase(7, {1});
  refuse(with(withBase, 4), "'gain': expected shape [], got [1]");
  writeBase(7, {});
  train("2", with(withBase, 4));
  // The files that the run began with do as well.
  train("2",
        with({"--resume", saves, "--params", base, "--params", adapters}, 4));
}

TEST_F(SaveTrainedTest, GoesOnFromItsOwnKindAlone) {
  train("2", with(anew, 2, {"--save", saves}));
  refuse(with({"--resume", saves, "--params", base}, 4),
         "--resume: expected neither --params nor --init beside " +
             pathAt(saves, 2) + ", which holds all parameters, got --params");
  Words automatic = {"--resume", "auto"};
  automatic.insert(automatic.end(), anew.begin(), anew.end());
  refuse(with(automatic, 4, {"--save", saves, "--save-trained"}),
         "--save-trained: expected to go on from a checkpoint of "
         "--save-trained, got " +
             pathAt(saves, 2));
  // The same command begins, goes on and goes on again.
  const std::string queued = dir.file("queued");
  for (int steps : {2, 4, 6})
    train("2", with(automatic, steps, {"--save", queued, "--save-trained"}));
  train("2", with(anew, 6, {"--save", dir.file("once"), "--save-trained"}));
  EXPECT_EQ(stateAt(queued, 6), stateAt(dir.file("once"), 6));
}

TEST_F(SaveTrainedTest, WhatWasTrainedIsNotLeftOut) {
  train("1", with(anew, 2, {"--save", saves, "--save-trained"}));
  // As a run saves it that trained gain, too.
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7};
  const int64_t count = 0;
  EXPECT_OK(writeSafetensors(
      pathAt(saves, 2) + "/params.safetensors",
      {{"weight", FSDP_RT_F32, {5}},
       {"bias", FSDP_RT_F32, {1}},
       {"gain", FSDP_RT_F32, {}},
       {"count", FSDP_RT_I64, {}}},
      {values.data(), values.data() + 5, values.data() + 6, &count}));
  signAgain(pathAt(saves, 2));
  expectRefusal("1",
                with({"--resume", saves, "--params", base}, 4,
                     {"--save", saves, "--save-trained"}),
                "--save-trained: expected a program that trains 'gain', as the "
                "one that saved " +
                    pathAt(saves, 2) + " did",
                own);
}

TEST_F(SaveTrainedTest, DrawnParametersAreDrawnAgain) {
  const Words drawn = {"--params", adapters, "--init", "seed=4"};
  train("2", with(drawn, 4, {"--save", dir.file("whole"), "--save-trained"}));
  train("2", with(drawn, 2, {"--save", saves, "--save-trained"}));
  train("4", with({"--resume", saves, "--init", "seed=4"}, 4,
                  {"--save", saves, "--save-trained"}));
  EXPECT_EQ(stateAt(saves, 4), stateAt(dir.file("whole"), 4));
}

} // namespace
