//===- RunStartTest.cpp - What a run takes from a checkpoint --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/File.h"

using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class RunStartTest : public LinearProgram {
protected:
  /// "--resume saves --steps N", and `more`.
  Words resuming(int steps, const Words &more = {}) const {
    Words words = {"--resume", saves, "--steps", std::to_string(steps)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// 16-bit tokens, of which no two sequences are alike.
  Words onTokens(Words words) const {
    std::string bytes;
    for (int i = 0; i < 4000; ++i)
      bytes += {char(i * i / 7 % 128), 0};
    writeFile(tokens, bytes);
    words[3] = tokens;
    return words;
  }
  std::string saves = dir.file("saves"), other = dir.file("other"),
              tokens = dir.file("tokens.bin");
};

TEST_F(RunStartTest, WhatIsNotGivenIsTheCheckpoints) {
  const Words options = {"--clip-norm", "0.25"};
  auto training = [&](int steps, Words more) {
    more.insert(more.end(), options.begin(), options.end());
    return onTokens(LinearProgram::training(steps, more));
  };
  runWell("2", training(5, {"--save", other}));
  runWell("2", training(3, {"--save", saves}));
  Outcome outcome = runWell("2", resuming(5, {"--save", saves}));
  EXPECT_CONTAINS(outcome.out, "note: goes on from " + pathAt(saves, 3) +
                                   ", as when it was saved with --clip-norm "
                                   "0.25");
  EXPECT_CONTAINS(outcome.out, "--data " + tokens);
  EXPECT_EQ(stateAt(saves, 5), stateAt(other, 5));
  json meta = metaAt(saves, 5);
  EXPECT_EQ(meta["scalars"], metaAt(other, 5)["scalars"]);
  EXPECT_EQ(meta["data"]["taken"],
            json({{"unit", "token"}, {"count", 5 * 2 * 4 * 5}}));
}

TEST_F(RunStartTest, WhatIsGivenOtherwiseIsNamedAndTaken) {
  runWell("2", training(3, {"--save", saves, "--clip-norm", "0.25"}));
  Outcome outcome = run(
      "2", resuming(4, {"--save", saves, "--lr", "0.5", "--data", batches}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "warning: --resume: " + pathAt(saves, 3) +
                             ": --lr: expected 0.001, with which the state was "
                             "saved, got 0.5\n");
  EXPECT_EQ(metaAt(saves, 4)["scalars"]["lr"], 0.5);
  EXPECT_EQ(metaAt(saves, 4)["scalars"]["clip_norm"], 0.25);
}

/// Each sequence is read once, whatever the numbers of ranks are.
TEST_F(RunStartTest, OtherRanksGoOnAtTheNextSample) {
  runWell("4", onTokens(training(2, {"--save", saves})));
  EXPECT_EQ(metaAt(saves, 2)["data"]["taken"]["count"], 2 * 4 * 20);
  for (const char *mesh : {"1", "2"}) {
    std::string again = dir.file(std::string("again") + mesh);
    Outcome outcome = run(mesh, resuming(3, {"--save", again}));
    EXPECT_EQ(outcome.status, 0);
    int64_t ranks = *mesh - '0';
    EXPECT_EQ(outcome.err,
              "warning: --resume: " + pathAt(saves, 2) +
                  ": the batch of a step: expected 16 samples of all ranks and "
                  "micro-batches, as when the state was saved, got " +
                  std::to_string(4 * ranks) + "\n");
    EXPECT_EQ(metaAt(again, 3)["data"]["taken"]["count"], 160 + ranks * 20);
  }
  // Checkpoints that do not say it tell steps and ranks.
  signAgain(pathAt(saves, 2), {{"scalars", nullptr},
                               {"data",
                                {{"taken", nullptr},
                                 {"source", nullptr},
                                 {"samples_per_step", nullptr}}}});
  Words words = resuming(3, {"--save", other, "--lr", "0.001"});
  EXPECT_CONTAINS(run("1", words).err, "expected --data FILE");
  words.insert(words.end(), {"--data", tokens});
  EXPECT_CONTAINS(run("1", words).err, "as when the state was saved, got 4\n");
  EXPECT_EQ(metaAt(other, 3)["data"]["taken"]["count"], 180);
}

TEST_F(RunStartTest, ACommandMayBeQueuedAgain) {
  const Words queued = {"--resume", "auto", "--save", saves};
  runWell("2", training(4, {"--save", other}));
  Outcome first = runWell("2", training(2, queued));
  EXPECT_CONTAINS(first.out, "note: --resume auto: '" + saves +
                                 "' holds no checkpoint: the run begins with "
                                 "--init\n");
  Outcome second = runWell("2", training(4, queued));
  EXPECT_CONTAINS(second.out,
                  "note: --resume auto: goes on from " + pathAt(saves, 2));
  EXPECT_EQ(second.out.find("step: 2 "), std::string::npos);
  EXPECT_EQ(stateAt(saves, 4), stateAt(other, 4));
  Outcome third = runWell("2", training(4, queued));
  EXPECT_EQ(third.out, "note: --resume auto: " + pathAt(saves, 4) +
                           " is the state after step 4: --steps 4 leaves "
                           "nothing to do\n");
  Words evaluated = queued;
  evaluated.insert(evaluated.end(), {"--eval-data", batches});
  EXPECT_CONTAINS(runWell("2", training(4, evaluated)).out,
                  "leaves nothing to do; --eval-data is not evaluated\n");
  // A checkpoint that is not whole is no reason to begin anew.
  writeFile(saves + "/latest", "step-00000009\n");
  expectRefusal("2", training(4, queued), "--resume auto: ");
}

/// The width of the tokens that are trained on is no claim on other files.
TEST_F(RunStartTest, EvaluationsReadTheirFileAsIfNothingWasTaken) {
  auto wide = [&](bool hasHeader) {
    std::string bytes;
    if (hasHeader) {
      const int32_t header[256] = {20240801, 7, 44};
      bytes.assign(reinterpret_cast<const char *>(header), sizeof header);
    }
    for (int i = 0; i < 44; ++i)
      bytes += {char(1 + i), 0, 0, 0};
    return bytes;
  };
  std::string eval = dir.file("eval.bin");
  runWell("1", onTokens(training(2, {"--save", saves})));
  const Words resumes = resuming(3, {"--eval-data", eval});
  writeFile(eval, wide(/*hasHeader=*/false));
  expectRefusal("1", resumes, "got a 0 in every second one");
  writeFile(eval, wide(/*hasHeader=*/true));
  EXPECT_CONTAINS(runWell("1", resumes).out, "eval_loss");
  // The other way round: without a header, other files are of 16 bits.
  std::string bytes;
  for (int i = 0; i < 4000; ++i)
    bytes += {char(i * i / 7 % 128), 0, 0, 0};
  Words words = training(2, {"--save", other, "--token-bits", "32"});
  writeFile(words[3] = dir.file("wide.bin"), bytes);
  runWell("1", words);
  std::string narrow;
  for (int i = 0; i < 44; ++i)
    narrow += {char(1 + i), 0};
  writeFile(eval, narrow);
  Words again = {"--resume", other, "--steps", "3", "--eval-data", eval};
  EXPECT_CONTAINS(runWell("1", again).out, "eval_loss");
}

TEST_F(RunStartTest, FailuresOfWhatWasTakenNameTheCheckpoint) {
  runWell("1", onTokens(training(2, {"--save", saves})));
  std::string moved = dir.file("moved.bin");
  ASSERT_EQ(std::rename(tokens.c_str(), moved.c_str()), 0);
  expectRefusal("1", resuming(3),
                " (--data " + tokens + " is that of checkpoint '" +
                    pathAt(saves, 2) +
                    "', since none is given: --data FILE names another)");
  Words named = resuming(3, {"--data", moved});
  EXPECT_EQ(run("1", named).status, 0);
  // As a program that accumulates saved it.
  signAgain(pathAt(saves, 2), {{"data", {{"batches_per_step", 4}}}});
  expectRefusal("1", named,
                "one that does not: compile it with --accumulate-in shard or "
                "whole (--accumulate 4 is that of checkpoint '" +
                    pathAt(saves, 2) +
                    "', since none is given: --accumulate 1 goes on without)");
  named.insert(named.end(), {"--accumulate", "1"});
  EXPECT_EQ(run("1", named).status, 0);
}

/// The fixture adds --data-ranks first to what names tensors itself.
TEST_F(RunStartTest, TheOrderOfRanksIsTheSameFilesOwn) {
  Words words = training(2, {"--save", saves});
  words[9] = "all";
  runWell("2", words);
  auto again = [&](const std::string &data) {
    return runProgram({LINEAR_EXE, "--resume", saves, "--steps", "3", "--save",
                       other, "--data", data},
                      {"LINEAR_MESH=2"});
  };
  std::string copy = dir.file("copy.safetensors"),
              changed = dir.file("changed.safetensors");
  std::string bytes = readFile(batches);
  writeFile(copy, bytes);
  bytes[bytes.size() - 8] ^= 1;
  writeFile(changed, bytes);
  Outcome same = again(copy);
  EXPECT_EQ(same.err, "");
  EXPECT_CONTAINS(same.out, "--data-ranks all");
  EXPECT_EQ(metaAt(other, 3)["data"]["ranks"], "all");
  EXPECT_EQ(metaAt(other, 3)["data"]["taken"],
            json({{"unit", "rank batch"}, {"count", 6}}));
  EXPECT_CONTAINS(again(changed).err,
                  "--data-ranks: expected all, with which the state was saved, "
                  "got none\n");
  EXPECT_CONTAINS(run("2", resuming(3, {"--data", batches})).err,
                  "--data-ranks: expected all, with which the state was saved, "
                  "got first\n");
}

} // namespace
