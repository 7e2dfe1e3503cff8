//===- ResumeTest.cpp - Runs that end early and go on ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/File.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sys/mount.h>
#include <sys/stat.h>

using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class ResumeTest : public LinearProgram {
protected:
  Words resuming(const std::string &from, int steps, const Words &more = {}) {
    Words words = training(steps, more);
    words[0] = "--resume";
    words[1] = from;
    return words;
  }
  /// On as many ranks nothing is said; on others, that a step takes more or
  /// less.
  void resumeOn(const char *mesh, const char *before, const Words &words,
                const Words &environment = {}) {
    Outcome outcome = run(mesh, words, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    auto ranks = [](const std::string &mesh) {
      return mesh == "2x2" ? 4 : mesh[0] - '0';
    };
    if (ranks(mesh) == ranks(before))
      EXPECT_EQ(outcome.err, "");
    else
      EXPECT_CONTAINS(outcome.err,
                      "the batch of a step: expected " +
                          std::to_string(4 * ranks(before)) +
                          " samples of all ranks and micro-batches, as when "
                          "the state was saved, got " +
                          std::to_string(4 * ranks(mesh)) + "\n");
    EXPECT_LE(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
        << outcome.err;
  }
  std::string saves = dir.file("saves"), other = dir.file("other");
};

TEST_F(ResumeTest, EqualsAnUninterruptedRunOnAnyMesh) {
  runWell("1", training(8, {"--save", other, "--save-every", "3"}));
  EXPECT_EQ(entriesOf(other),
            (std::vector<std::string>{"latest", "step-00000003",
                                      "step-00000006", "step-00000008"}));
  std::string reference = stateAt(other, 8);
  int run = 0;
  for (auto [before, after] :
       std::vector<std::pair<const char *, const char *>>{{"1", "1"},
                                                          {"1", "2"},
                                                          {"2", "4"},
                                                          {"4", "2x2"},
                                                          {"2x2", "1"},
                                                          {"2x1", "4"}}) {
    std::string first = dir.file("first" + std::to_string(run));
    std::string second = dir.file("second" + std::to_string(run++));
    runWell(before, training(5, {"--save", first}));
    EXPECT_EQ(stateAt(first, 5).size(), reference.size());
    resumeOn(after, before, resuming(first, 8, {"--save", second}));
    EXPECT_EQ(stateAt(second, 8), reference) << before << " to " << after;
  }
}

/// Saved by a program with the momentum in one arena, resumed by one that has
/// it in the other, and in the same.
TEST_F(ResumeTest, StatesInTheHostsMemoryAreStatesAsAnyOthers) {
  runWell("1", training(8, {"--save", other}));
  std::string reference = stateAt(other, 8);
  const Words device, host = {"LINEAR_HOST=1"},
                      queues = {"LINEAR_HOST=1", "LINEAR_QUEUES=1"};
  int run = 0;
  for (const Words &before : {device, host, queues})
    for (const Words &after : {device, host, queues})
      for (auto [mesh, next] :
           std::vector<std::pair<const char *, const char *>>{{"1", "2"},
                                                              {"4", "2x2"}}) {
        std::string first = dir.file("first" + std::to_string(run));
        std::string second = dir.file("second" + std::to_string(run++));
        runWell(mesh, training(5, {"--save", first}), before);
        resumeOn(next, mesh, resuming(first, 8, {"--save", second}), after);
        EXPECT_EQ(stateAt(second, 8), reference) << mesh << " to " << next;
      }
}

TEST_F(ResumeTest, SamePlaceAndMetricsGoOn) {
  std::string metrics = dir.file("m");
  runWell("2", training(4, {"--save", saves, "--metrics", metrics}));
  runWell("2", resuming(saves, 6, {"--save", saves, "--metrics", metrics}));
  EXPECT_EQ(entriesOf(saves), (std::vector<std::string>{
                                  "latest", "step-00000004", "step-00000006"}));
  EXPECT_EQ(readFile(saves + "/latest"), "step-00000006\n");
  std::string lines = readFile(metrics);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 6);
  // An older one by its own name; the directory then holds a later one, too.
  runWell("2", resuming(saves + "/step-00000004", 6, {"--save", saves}));
  EXPECT_EQ(readFile(saves + "/latest"), "step-00000006\n");
}

/// The program's buffer is a sum of inputs, of which each rank has others.
class OwnTensorsTest : public ResumeTest {
protected:
  OwnTensorsTest() {
    constexpr int64_t steps = 7, ranks = 4, row = 20;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < steps * ranks * row; ++i)
      ids.push_back(i * i % 127);
    EXPECT_OK(
        writeSafetensors(batches,
                         {{"input_ids", FSDP_RT_I64, {steps, ranks, 4, 5}},
                          {"labels", FSDP_RT_I64, {steps, ranks, 4, 5}}},
                         {ids.data(), ids.data()}));
  }
  Outcome runOwn(const std::string &mesh, const Words &arguments) {
    return run(mesh, arguments, {"LINEAR_FLAW=own"});
  }
  std::string ranksFileAt(const std::string &saves, int step) {
    return saves + "/step-0000000" + std::to_string(step) +
           "/ranks.safetensors";
  }
};

TEST_F(OwnTensorsTest, ComeBackOnAsManyRanks) {
  for (const char *mesh : {"1", "2", "2x2"}) {
    std::string whole = dir.file(std::string("whole") + mesh),
                half = dir.file(std::string("half") + mesh);
    EXPECT_EQ(runOwn(mesh, training(4, {"--save", whole})).err, "");
    EXPECT_EQ(runOwn(mesh, training(2, {"--save", half})).err, "");
    EXPECT_EQ(runOwn(mesh, resuming(half, 4, {"--save", half})).err, "");
    EXPECT_EQ(stateAt(half, 4), stateAt(whole, 4)) << mesh;
    // One rank's are all in the other files.
    EXPECT_EQ(pathExists(ranksFileAt(whole, 4)), *mesh != '1');
    if (*mesh != '1')
      EXPECT_EQ(readFile(ranksFileAt(half, 4)), readFile(ranksFileAt(whole, 4)))
          << mesh;
  }
  // Another mesh of as many ranks.
  Outcome outcome = runOwn(
      "4", resuming(dir.file("half2x2/step-00000002"), 4, {"--save", other}));
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(readFile(ranksFileAt(other, 4)),
            readFile(ranksFileAt(dir.file("whole2x2"), 4)));
}

TEST_F(OwnTensorsTest, AreRankZerosOnAnotherNumberOfRanks) {
  EXPECT_EQ(runOwn("2", training(2, {"--save", saves})).err, "");
  std::string path = saves + "/step-00000002";
  for (const char *mesh : {"1", "4"}) {
    std::string again = dir.file(std::string("again") + mesh);
    Outcome outcome = runOwn(mesh, resuming(saves, 3, {"--save", again}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_CONTAINS(outcome.err,
                    "warning: " + path + " (of 2 ranks): " +
                        (*mesh == '1' ? "the rank" : "each of 4 ranks") +
                        " starts from rank 0's 'params/count', which differ "
                        "between ranks\n");
  }
  // So does a program that changes its buffer alike on all ranks; where they
  // are equal, nothing is lost, on any number of ranks.
  EXPECT_CONTAINS(run("2", resuming(saves, 3, {"--save", other})).err,
                  "each of 2 ranks starts from rank 0's 'params/count'");
  EXPECT_FALSE(pathExists(ranksFileAt(other, 3)));
  EXPECT_EQ(runOwn("2", resuming(other, 4)).err, "");
  std::vector<int64_t> equal = {7, 7};
  ASSERT_OK(writeSafetensors(ranksFileAt(saves, 2),
                             {{"params/count", FSDP_RT_I64, {2}}},
                             {equal.data()}));
  signAgain(path);
  for (const char *mesh : {"1", "4"})
    EXPECT_EQ(runOwn(mesh, resuming(saves, 3)).err.find("rank 0's"),
              std::string::npos);
}

TEST_F(OwnTensorsTest, AreRefusedWhereTheyAreNotWhole) {
  EXPECT_EQ(runOwn("2", training(2, {"--save", saves})).err, "");
  std::string path = ranksFileAt(saves, 2), whole = readFile(path);
  auto refuse = [&](const std::string &message) {
    expectRefusal("2", resuming(saves, 4), message, {"LINEAR_FLAW=own"});
  };
  writeFile(path, whole.substr(0, whole.size() - 1));
  refuse("ranks.safetensors");
  ASSERT_OK(removeTree(path));
  refuse("No such file");
  std::string checkpoint = saves + "/step-00000002";
  auto rewrite = [&](TensorSpec spec) {
    std::vector<char> zeros(1000);
    ASSERT_OK(writeSafetensors(path, {std::move(spec)}, {zeros.data()}));
    signAgain(checkpoint);
  };
  rewrite({"params/count", FSDP_RT_I64, {3}});
  refuse("'params/count': expected shape [2], got [3]");
  rewrite({"params/count", FSDP_RT_F32, {2}});
  refuse("'params/count': expected I64, got F32");
  rewrite({"params/other", FSDP_RT_I64, {2}});
  refuse("unexpected 1 tensor: 'params/other'");
  signAgain(checkpoint, {{"files", {{"ranks.safetensors", "x"}}}});
  refuse("files.ranks.safetensors: expected an integer");
  signAgain(checkpoint, {{"ranks", 0}});
  refuse("ranks: expected");
}

TEST_F(ResumeTest, MetaTellsTheStep) {
  runWell("2x2", training(2, {"--save", saves}));
  json meta = json::parse(readFile(saves + "/step-00000002/meta.json"));
  EXPECT_EQ(meta["step"], 2);
  EXPECT_EQ(meta["ranks"], 4);
  EXPECT_EQ(meta["program"], "linear");
  EXPECT_EQ(
      floatsOf(saves + "/step-00000002/optimizer.safetensors", "weight.step"),
      std::vector<float>{2});
}

TEST_F(ResumeTest, KeepsTheNewestAlone) {
  runWell("2",
          training(9, {"--save", saves, "--save-every", "2", "--keep", "2"}));
  EXPECT_EQ(entriesOf(saves), (std::vector<std::string>{
                                  "latest", "step-00000008", "step-00000009"}));
  // Going back leaves the later ones alone, and the one just written as well.
  runWell("1", training(2, {"--save", other}));
  std::filesystem::rename(other + "/step-00000002", saves + "/step-00000002");
  runWell("1", resuming(saves + "/step-00000002", 3,
                        {"--save", saves, "--keep", "1"}));
  EXPECT_EQ(entriesOf(saves),
            (std::vector<std::string>{"latest", "step-00000003",
                                      "step-00000008", "step-00000009"}));
}

TEST_F(ResumeTest, AnInterruptSavesAfterTheRunningStep) {
  runWell("1", training(6, {"--save", other}));
  for (const char *mesh : {"1", "2"}) {
    std::string saves = dir.file(std::string("saves") + mesh);
    Outcome outcome =
        run(mesh, training(6, {"--save", saves}), {"LINEAR_FLAW=interrupt:3"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err,
              "error: interrupted at step 3; saved step 3 to " + saves + "\n");
    EXPECT_EQ(entriesOf(saves),
              (std::vector<std::string>{"latest", "step-00000003"}));
    resumeOn("2", mesh, resuming(saves, 6, {"--save", saves}));
    EXPECT_EQ(stateAt(saves, 6), stateAt(other, 6));
  }
  Outcome outcome = run("2", training(6), {"LINEAR_FLAW=interrupt:3"});
  EXPECT_EQ(outcome.err, "error: interrupted at step 3\n");
  // In the last step there is nothing left to interrupt.
  runWell("1", training(3), {"LINEAR_FLAW=interrupt:3"});
}

TEST_F(ResumeTest, AnInterruptKeepsWhatWasRecorded) {
  Outcome outcome = run("2",
                        training(9, {"--trace", dir.file("trace"), "--profile",
                                     dir.file("profile.json")}),
                        {"LINEAR_FLAW=interrupt:3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: interrupted at step 3");
  EXPECT_TRUE(pathExists(dir.file("trace/rank-1.json")));
  EXPECT_CONTAINS(readFile(dir.file("profile.json")), "\"steps\": 3");
}

TEST_F(ResumeTest, RefusesADirectoryOfAnotherRun) {
  runWell("1", training(2, {"--save", saves}));
  std::string before = stateAt(saves, 2);
  expectRefusal("1", training(2, {"--save", saves}),
                "holds checkpoint step-00000002 already: expected --resume");
  runWell("1", training(3, {"--save", other}));
  expectRefusal("1", resuming(other, 4, {"--save", saves}), "already");
  EXPECT_EQ(stateAt(saves, 2), before);
}

TEST_F(ResumeTest, RemovesWhatAnInterruptedSaveLeft) {
  ASSERT_OK(makeDirectories(saves + "/step-00000007.tmp"));
  ASSERT_OK(makeDirectories(saves + "/mine.tmp"));
  writeFile(saves + "/step-00000007.tmp/params.safetensors", "half");
  runWell("2", training(1, {"--save", saves}));
  EXPECT_EQ(entriesOf(saves),
            (std::vector<std::string>{"latest", "mine.tmp", "step-00000001"}));
}

TEST_F(ResumeTest, StepsAreCountedFromTheFirst) {
  runWell("1", training(4, {"--save", saves}));
  expectRefusal("1", resuming(saves, 4),
                "--steps: expected more than 4, the step of checkpoint");
}

TEST_F(ResumeTest, RefusesCheckpointsThatAreNotWhole) {
  runWell("2", training(2, {"--save", saves}));
  std::string path = saves + "/step-00000002";
  auto refuse = [&](const std::string &file, const std::string &contents,
                    const std::string &message) {
    std::string before = readFile(file);
    writeFile(file, contents);
    expectRefusal("2", resuming(saves, 4), message);
    writeFile(file, before);
  };
  std::string latest = saves + "/latest", meta = path + "/meta.json";
  refuse(latest, "../../etc\n", "expected a name like step-00000050, got '../");
  refuse(latest, "step-00000009\n", "step-00000009': No such file");
  refuse(latest, "", "expected a name like");
  refuse(meta, "{", "meta.json: ");
  refuse(meta, "{\"format\":1}", "expected key 'step'");
  std::string good = readFile(meta), digests = readFile(path + "/digests.json");
  json edited = json::parse(good);
  edited["step"] = 3;
  refuse(meta, edited.dump(), "the file was damaged or edited");
  edited.erase("digest");
  refuse(meta, edited.dump(), "expected key 'digest'");
  auto refuseSigned = [&](const json &changes, const std::string &message) {
    signAgain(path, changes);
    expectRefusal("2", resuming(saves, 4), message);
    writeFile(meta, good);
    writeFile(path + "/digests.json", digests);
  };
  refuseSigned({{"step", 3}}, "expected step 2, got 3");
  refuseSigned({{"format", 3}}, "format: expected 1 or 2, got 3");
  refuseSigned({{"shapes", "0"}}, "expected shapes ");
  refuseSigned({{"files", {{"params.safetensors", 1}}}},
               "expected 1 bytes as in meta.json, got");
  // The first step from which one could not count on.
  refuseSigned({{"step", std::numeric_limits<int64_t>::max() / 4 + 1}},
               "step: expected an integer from 0 to 2305843009213693951");
  for (json step : {json(-1), json(2.5), json("2"), json(nullptr), json(1e300),
                    json(18446744073709551615u), json::array({2})})
    refuseSigned({{"step", step}}, "meta.json: ");
  refuse(meta, std::string(100, '['), "expected at most 64 nested");
  refuse(meta, "{\"format\": 2, \"format\": 2}", "duplicate key 'format'");
  refuse(meta, "{\"format\": 1e999}", "meta.json: ");
  refuse(path + "/digests.json", "{}", "digests.json: expected contents of");
  for (const char *name : {"/params.safetensors", "/optimizer.safetensors"}) {
    std::string whole = readFile(path + name);
    refuse(path + name, whole.substr(0, whole.size() - 1), name);
    refuse(path + name, "", name);
    ASSERT_OK(removeTree(path + name));
    expectRefusal("2", resuming(saves, 4), "No such file");
    writeFile(path + name, whole);
  }
  runWell("2", resuming(saves, 4));
}

TEST_F(ResumeTest, RefusesAnotherModelAndAnotherOptimizer) {
  runWell("1", training(2, {"--save", saves}));
  std::string path = saves + "/step-00000002";
  auto rewrite = [&](const std::string &name, std::vector<TensorSpec> specs) {
    std::vector<char> zeros(1000);
    std::vector<const void *> data(specs.size(), zeros.data());
    ASSERT_OK(writeSafetensors(path + name, std::move(specs), data));
    signAgain(path);
  };
  rewrite("/optimizer.safetensors", {{"weight.exp_avg", FSDP_RT_F32, {5}}});
  expectRefusal("1", resuming(saves, 3),
                "missing 4 tensors: 'weight.momentum', 'bias.momentum', "
                "'weight.step', 'bias.step'; unexpected 1 tensor: "
                "'weight.exp_avg'");
  // One step count is that of both, which are one unit.
  rewrite("/optimizer.safetensors", {{"weight.momentum", FSDP_RT_F32, {5}},
                                     {"weight.step", FSDP_RT_F32, {}}});
  expectRefusal("1", resuming(saves, 3),
                "got one for 'weight' and none for 'bias', which was not "
                "trained when the state was saved");
  rewrite("/params.safetensors", {{"weight", FSDP_RT_F32, {6}},
                                  {"bias", FSDP_RT_BF16, {1}},
                                  {"gain", FSDP_RT_F32, {}},
                                  {"count", FSDP_RT_I64, {}}});
  expectRefusal("1", resuming(saves, 3),
                "'weight': expected shape [5], got [6]; 'bias': expected F32, "
                "got BF16");
}

TEST_F(ResumeTest, AFullDiskLeavesTheCheckpointBefore) {
  ASSERT_EQ(::mkdir(saves.c_str(), 0700), 0);
  if (::mount("tmpfs", saves.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount a small file system: needs root";
  runWell("2", training(2, {"--save", saves}));
  std::string before = stateAt(saves, 2);
  Outcome outcome =
      run("2", resuming(saves, 60, {"--save", saves, "--save-every", "1"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "No space left on device");
  std::string latest = readFile(saves + "/latest");
  for (const std::string &name : entriesOf(saves))
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
  EXPECT_EQ(stateAt(saves, 2), before);
  Outcome again = run("2", resuming(saves, 100));
  ::umount(saves.c_str());
  EXPECT_NE(latest, "step-00000002\n"); // some fit
  EXPECT_EQ(again.status, 0) << again.err;
}

/// Two saves, of which the n-th change to a file or directory fails.
class FaultTest : public ResumeTest {
protected:
  void SetUp() override {
    runWell("1", training(6, {"--save", other}));
    whole = stateAt(other, 6);
    runWell("1", training(4, {"--save", dir.file("half")}));
  }
  Outcome runWithFault(const char *mesh, int n, Words environment) {
    saves = dir.file("saves" + std::to_string(n));
    environment.insert(environment.end(), program.begin(), program.end());
    environment.push_back("LD_PRELOAD=" FAULT_SHIM);
    environment.push_back("FAULT_AT=" + std::to_string(n));
    return run(
        mesh,
        training(4, {"--save", saves, "--save-every", "2", "--keep", "1"}),
        environment);
  }
  /// Whatever happened, what `latest` names is complete, and the next run
  /// cleans up.
  void checkWhatIsLeft(const char *mesh, int n) {
    Words again = training(6, {"--save", saves, "--keep", "1"});
    if (pathExists(saves + "/latest"))
      again = resuming(saves, 6, {"--save", saves, "--keep", "1"});
    else
      EXPECT_EQ(run("1", resuming(saves, 6)).status, 1) << n;
    runWell(mesh, again, program);
    std::vector<std::string> expected = {"latest", "step-00000006"};
    EXPECT_EQ(entriesOf(saves), expected) << n;
    EXPECT_EQ(stateAt(saves, 6), whole) << n;
  }
  void killAtEveryMoment(const char *mesh) {
    int n = 1;
    for (; !HasFailure(); ++n) {
      Outcome outcome = runWithFault(mesh, n, {});
      if (outcome.status == 0)
        break;
      EXPECT_EQ(outcome.signal, SIGKILL) << n;
      checkWhatIsLeft(mesh, n);
    }
    EXPECT_GT(n, 40);
  }
  std::string whole;
  /// For the program itself.
  Words program;
};

TEST_F(FaultTest, KilledAtAnyMoment) { killAtEveryMoment("1"); }

TEST_F(FaultTest, KilledAtAnyMomentWithTwoRanks) { killAtEveryMoment("2"); }

TEST_F(FaultTest, KilledAtAnyMomentWithOwnTensors) {
  program = {"LINEAR_FLAW=own"};
  runWell("2", training(6, {"--save", dir.file("own")}), program);
  whole = stateAt(dir.file("own"), 6);
  killAtEveryMoment("2");
}

TEST_F(FaultTest, AnyChangeMayFail) {
  int failures = 0, survived = 0;
  // Some failures do no harm, such as that of taking an empty directory away;
  // after some, the next save makes up for one.
  for (int n = 1, harmless = 0; harmless < 5 && !HasFailure(); ++n) {
    Outcome outcome = runWithFault("2", n, {"FAULT_ERRNO=5"});
    bool isTold = outcome.err.find("Input/output error") != std::string::npos;
    harmless = isTold ? 0 : harmless + 1;
    failures += isTold;
    survived += isTold && outcome.status == 0;
    if (outcome.status == 0)
      EXPECT_EQ(stateAt(saves, 4), stateAt(dir.file("half"), 4)) << n;
    else
      EXPECT_CONTAINS(outcome.err, "error: ");
    EXPECT_TRUE(isTold || outcome.status == 0) << n << outcome.err;
    for (const std::string &name :
         pathExists(saves) ? entriesOf(saves) : std::vector<std::string>{})
      EXPECT_TRUE(name == "latest" || name.find(".tmp") == std::string::npos ||
                  isTold)
          << n << name;
    checkWhatIsLeft("2", n);
  }
  EXPECT_GT(failures, 30);
  EXPECT_GT(survived, 10);
}

} // namespace
