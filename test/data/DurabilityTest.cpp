//===- DurabilityTest.cpp - What a run leaves when things go wrong --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "core/Printable.h"
#include "data/File.h"
#include "data/FiniteState.h"
#include "data/MetricsLog.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <future>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class DurabilityTest : public LinearProgram {
protected:
  Words resuming(int steps, const Words &more = {}) {
    Words words = training(steps, more);
    words[0] = "--resume";
    words[1] = saves;
    return words;
  }
  std::vector<int> stepsIn(const std::string &path) {
    std::vector<int> steps;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);)
      steps.push_back(json::parse(line)["step"]);
    return steps;
  }
  /// Whether `isTrue` became so within half a minute.
  template <typename Condition>
  bool comesTrue(const Condition &isTrue) {
    for (int i = 0; i < 3000; ++i) {
      if (isTrue())
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  std::string saves = dir.file("saves"), metrics = dir.file("metrics");
};

using Names = std::vector<std::string>;

TEST_F(DurabilityTest, TwoRunsDoNotShareADirectory) {
  auto first = std::async(std::launch::async, [&] {
    return run("2", training(9, {"--save", saves, "--save-every", "1"}),
               {"LINEAR_DELAY=300000"});
  });
  ASSERT_TRUE(comesTrue([&] { return pathExists(saves + "/latest"); }));
  std::string host, process;
  std::ifstream(saves + "/.lock") >> host >> process;
  Outcome second = run("1", training(3, {"--save", saves}));
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.err, "error: --save: expected no other run that saves to '" +
                            saves + "', got process " + process + " on host " +
                            host +
                            ": wait for its end, or name another directory\n");
  // To go on from it elsewhere is no harm.
  Outcome reader = run("1", resuming(9, {"--save", dir.file("other")}));
  EXPECT_EQ(reader.status, 0) << reader.err;
  EXPECT_EQ(first.get().status, 0);
  EXPECT_EQ(entriesOf(saves).size(), 10u);
  EXPECT_EQ(stateAt(saves, 9), stateAt(dir.file("other"), 9));
}

TEST_F(DurabilityTest, OldCheckpointsAreResumedWithAWarning) {
  runWell("2", training(4, {"--save", dir.file("whole")}));
  runWell("1", training(2, {"--save", saves}));
  signAgain(saves + "/step-00000002", json::object(), /*isOld=*/true);
  Outcome outcome = run("2", resuming(4, {"--save", saves}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "warning: " + saves +
                             "/step-00000002: it has no digests, as an older "
                             "version saved it: its bytes are not checked\n");
  EXPECT_EQ(stateAt(saves, 4), stateAt(dir.file("whole"), 4));
}

TEST_F(DurabilityTest, AnotherProgramOrOtherDataIsToldAtResume) {
  runWell("2", training(2, {"--save", saves}));
  std::string from = "warning: --resume: " + saves + "/step-00000002: ";
  auto errorsOf = [&](const Words &words, const std::string &flaw) {
    Outcome outcome = run("2x1", words, {"LINEAR_FLAW=" + flaw});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_EQ(errorsOf(resuming(3), "none"), ""); // on another mesh
  EXPECT_EQ(errorsOf(resuming(3), "step"),
            from + "expected the traced step that the state was saved by "
                   "(0000000000000000), got another (0000000000000000)\n");
  EXPECT_EQ(errorsOf(resuming(3), "optimizer"),
            from + "expected the optimizer's constants 0.5, with which the "
                   "state was saved, got 0.9\n");
  Words words = resuming(3);
  words[3] = "random:seed=3";
  std::string size = std::to_string(readFile(batches).size());
  EXPECT_EQ(errorsOf(words, "none"),
            from + "--data: expected 'batches.safetensors' (safetensors, " +
                size +
                " bytes), with which the state was saved, got "
                "random:seed=3, read from batch 2 on\n");
  // The same file elsewhere is the same; another one of its name is not.
  ASSERT_OK(makeDirectories(dir.file("d")));
  words[3] = dir.file("d/batches.safetensors");
  std::string bytes = readFile(batches);
  writeFile(words[3], bytes);
  EXPECT_EQ(errorsOf(words, "none"), "");
  bytes[bytes.size() - 8] ^= 1;
  writeFile(words[3], bytes);
  EXPECT_EQ(errorsOf(words, "none"),
            from +
                "--data: expected the contents of 'batches.safetensors' "
                "(safetensors, " +
                size +
                " bytes) as they were when the state was saved, got "
                "others, read from rank batch 8 on\n");
}

TEST_F(DurabilityTest, AnOptimizerWithANameIsNamed) {
  Outcome outcome =
      run("2", training(2, {"--save", saves}), {"LINEAR_FLAW=named"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("optimizer own:k=0.5\n"), std::string::npos)
      << outcome.out;
  outcome = run("2", resuming(3), {"LINEAR_FLAW=renamed"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err,
            "warning: --resume: " + saves +
                "/step-00000002: expected the optimizer own:k=0.5, with which "
                "the state was saved, got own:k=0.9\n");
}

TEST_F(DurabilityTest, WhatIsNotFiniteIsNotSaved) {
  for (const char *mesh : {"1", "2"}) {
    std::string saves = dir.file(mesh), steps = metrics + mesh;
    Outcome outcome = run(mesh,
                          training(6, {"--save", saves, "--save-every", "1",
                                       "--keep", "2", "--metrics", steps}),
                          {"LINEAR_FLAW=norm:4"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_CONTAINS(outcome.err, "warning: step 4: grad_norm is inf\n");
    EXPECT_CONTAINS(outcome.err, "warning: cannot save step 4: expected a "
                                 "finite gradient, got grad_norm is inf\n");
    EXPECT_CONTAINS(outcome.err, "error: cannot save step 6: ");
    // The third was never followed by a step that was finite.
    EXPECT_EQ(entriesOf(saves), (Names{"latest", "step-00000001",
                                       "step-00000002", "step-00000003"}));
    EXPECT_EQ(readFile(saves + "/latest"), "step-00000003\n");
    EXPECT_EQ(stepsIn(steps).size(), 6u);
  }
}

TEST_F(DurabilityTest, StopOnNanLooksAtTheNormToo) {
  for (const char *keep : {"1", "2"}) {
    std::string saves = dir.file(keep);
    Outcome outcome = run("2",
                          training(6, {"--save", saves, "--save-every", "1",
                                       "--keep", keep, "--stop-on-nan"}),
                          {"LINEAR_FLAW=norm:4"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, "error: step 4: grad_norm is inf (--stop-on-nan)\n");
    EXPECT_EQ(readFile(saves + "/latest"), "step-00000003\n");
    // The one before may go once a step after the newest was finite.
    EXPECT_TRUE(pathExists(saves + "/step-00000002"));
  }
}

TEST_F(DurabilityTest, AProgramThatSkipsStepsKeepsItsState) {
  Outcome outcome =
      run("2", training(4, {"--save", saves}), {"LINEAR_FLAW=skip"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "warning: step 3: grad_norm is inf: its update was "
                         "skipped\n");
  EXPECT_EQ(
      floatsOf(saves + "/step-00000004/optimizer.safetensors", "weight.step"),
      std::vector<float>{3});
  std::string stopped = dir.file("stopped"), whole = dir.file("whole");
  outcome = run("2", training(4, {"--save", stopped, "--stop-on-nan"}),
                {"LINEAR_FLAW=skip"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "error: step 3: grad_norm is inf (--stop-on-nan); "
                         "saved step 2 to " +
                             stopped + "\n");
  runWell("1", training(2, {"--save", whole}));
  EXPECT_EQ(readFile(stopped + "/latest"), "step-00000002\n");
  EXPECT_EQ(readFile(stopped + "/step-00000002/optimizer.safetensors"),
            readFile(whole + "/step-00000002/optimizer.safetensors"));
}

TEST_F(DurabilityTest, ARunWhoseDataEndsSavesFirst) {
  std::string text = dir.file("text");
  writeFile(text, std::string(4000, 'x'));
  Words words = training(900, {"--save", saves, "--metrics", metrics});
  words[3] = text;
  auto first = std::async(std::launch::async, [&] {
    return run("2", words, {"LINEAR_DELAY=30000"});
  });
  ASSERT_TRUE(comesTrue(
      [&] { return pathExists(metrics) && stepsIn(metrics).size() > 2; }));
  ASSERT_EQ(::truncate(text.c_str(), 10), 0);
  Outcome outcome = first.get();
  EXPECT_EQ(outcome.status, 1);
  std::vector<int> steps = stepsIn(metrics);
  EXPECT_CONTAINS(outcome.err,
                  "error: step " + std::to_string(steps.back() + 1) + ": ");
  EXPECT_CONTAINS(outcome.err, "text");
  json meta = json::parse(readFile(
      saves + "/" + readFile(saves + "/latest").substr(0, 13) + "/meta.json"));
  EXPECT_EQ(meta["step"], steps.back());
}

TEST_F(DurabilityTest, ARunThatNobodyReadsSavesFirst) {
  std::string command = "(" LINEAR_EXE;
  for (const std::string &word : training(1000000, {"--save", saves}))
    command += " '" + word + "'";
  command += "; echo $? > " + dir.file("status") + ") | head -n 1";
  Outcome outcome = runProgram({"/bin/sh", "-c", command}, {"LINEAR_MESH=2"});
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(readFile(dir.file("status")), std::to_string(128 + SIGPIPE) + "\n");
  EXPECT_TRUE(pathExists(saves + "/latest"));
}

TEST_F(DurabilityTest, MetricsGoOnWithoutRepeats) {
  runWell("1", training(2, {"--save", saves}));
  runWell("1", training(5, {"--metrics", metrics}));
  std::string five = readFile(metrics);
  // As a crash leaves them: more steps than the checkpoint has, and half a
  // line.
  for (const char *rest : {"", "{\"step\":6,\"lo", "\0\0\0"}) {
    writeFile(metrics, five + rest);
    runWell("1", resuming(4, {"--metrics", metrics}));
    EXPECT_EQ(stepsIn(metrics), (std::vector<int>{1, 2, 3, 4})) << rest;
  }
  writeFile(metrics, five.substr(0, five.find('\n') + 20));
  runWell("1", resuming(3, {"--metrics", metrics}));
  EXPECT_EQ(stepsIn(metrics), (std::vector<int>{1, 3}));
  // What is refused leaves them alone.
  writeFile(metrics, five);
  ASSERT_OK(removeTree(saves + "/step-00000002/optimizer.safetensors"));
  EXPECT_EQ(run("1", resuming(4, {"--metrics", metrics})).status, 1);
  EXPECT_EQ(readFile(metrics), five);
}

TEST_F(DurabilityTest, LinesThatCannotBeWrittenAreTriedAgain) {
  Result<MetricsLog> log = MetricsLog::open(metrics);
  ASSERT_OK(log.status());
  ASSERT_OK(log->append("{\"step\":1}"));
  auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {}, small = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 15; // in the middle of the second line
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status second = log->append("{\"step\":2}"),
         third = log->append("{\"step\":3}");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, before);
  EXPECT_CONTAINS(messageOf(second), "File too large");
  EXPECT_CONTAINS(messageOf(third), "File too large");
  EXPECT_EQ(log->missing(), 2);
  EXPECT_EQ(stepsIn(metrics), std::vector<int>{1});
  ASSERT_OK(log->append("{\"step\":4}"));
  EXPECT_EQ(log->missing(), 0);
  EXPECT_EQ(stepsIn(metrics), (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(DurabilityTest, LinksInADirectoryOfCheckpointsAreNotFollowed) {
  std::string victim = dir.file("victim"), precious(300, 'p');
  writeFile(victim, precious);
  ASSERT_OK(makeDirectories(saves));
  ASSERT_EQ(::symlink(victim.c_str(), (saves + "/latest").c_str()), 0);
  expectRefusal("1", training(2, {"--save", saves}),
                "expected no symbolic link");
  expectRefusal("1", resuming(3), "expected no symbolic link");
  ASSERT_EQ(::unlink((saves + "/latest").c_str()), 0);
  ASSERT_EQ(::symlink(victim.c_str(), (saves + "/.lock").c_str()), 0);
  EXPECT_EQ(run("1", training(2, {"--save", saves})).status, 1);
  ASSERT_EQ(::unlink((saves + "/.lock").c_str()), 0);
  // A checkpoint, or a file of one, that stands elsewhere.
  runWell("1", training(2, {"--save", saves}));
  std::string path = saves + "/step-00000002", away = dir.file("away");
  for (const std::string &file :
       {path, path + "/params.safetensors", path + "/meta.json",
        path + "/digests.json"}) {
    ASSERT_EQ(::rename(file.c_str(), away.c_str()), 0);
    ASSERT_EQ(::symlink(away.c_str(), file.c_str()), 0);
    expectRefusal("1", resuming(3), "expected no symbolic link");
    ASSERT_EQ(::unlink(file.c_str()), 0);
    ASSERT_EQ(::rename(away.c_str(), file.c_str()), 0);
  }
  // Saving over one replaces the link.
  ASSERT_EQ(
      ::symlink(dir.file("d").c_str(), (saves + "/step-00000003").c_str()), 0);
  ASSERT_OK(makeDirectories(dir.file("d")));
  writeFile(dir.file("d/meta.json"), precious);
  runWell("1", resuming(3, {"--save", saves}));
  EXPECT_EQ(readFile(dir.file("d/meta.json")), precious);
  EXPECT_EQ(readFile(victim), precious);
  runWell("1", resuming(4));
}

TEST_F(DurabilityTest, AFailedSaveIsTriedAgain) {
  // The first save's calls fail for a while, as on a disk that fills.
  runWell("1", training(4, {"--save", dir.file("whole")}));
  Outcome outcome =
      run("2", training(4, {"--save", saves, "--save-every", "2"}),
          {"LD_PRELOAD=" FAULT_SHIM, "FAULT_AT=8", "FAULT_COUNT=2",
           "FAULT_ERRNO=28"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.err, "warning: cannot save step 2: ");
  EXPECT_CONTAINS(outcome.err, "No space left on device; it is tried again\n");
  EXPECT_EQ(entriesOf(saves), (Names{"latest", "step-00000004"}));
  EXPECT_EQ(stateAt(saves, 4), stateAt(dir.file("whole"), 4));
  ASSERT_OK(removeTree(saves));
  // One that never succeeds is an error at the end, after all steps.
  outcome = run("2", training(4, {"--save", saves, "--save-every", "2"}),
                {"LD_PRELOAD=" FAULT_SHIM, "FAULT_AT=8", "FAULT_COUNT=100000",
                 "FAULT_ERRNO=28"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: cannot save step 4: ");
  EXPECT_CONTAINS(outcome.out, "step: 4 ");
}

TEST(FiniteState, IsFoundInEveryFloat) {
  for (Dtype dtype : {FSDP_RT_F64, FSDP_RT_F32, FSDP_RT_F16, FSDP_RT_BF16}) {
    std::vector<char> values(3000 * dtypeSize(dtype));
    for (int i = 0; i < 3000; ++i)
      storeFloat(dtype, i % 7 - 3, &values[i * dtypeSize(dtype)]);
    EXPECT_EQ(findNonfinite(dtype, values.data(), 3000), -1);
    for (double bad : {INFINITY, -INFINITY, NAN})
      for (int at : {0, 1023, 1024, 2999}) {
        std::vector<char> changed = values;
        storeFloat(dtype, bad, &changed[at * dtypeSize(dtype)]);
        EXPECT_EQ(findNonfinite(dtype, changed.data(), 3000), at);
      }
  }
  EXPECT_EQ(findNonfinite(FSDP_RT_I64, "\xff\xff\xff\xff\xff\xff\xff\xff", 1),
            -1);
}

TEST(Printable, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("plain, \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\n"),
            "plain, \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\n");
  EXPECT_EQ(printable("a\x1b[2Jb\r\t\x7f"), "a\\x1b[2Jb\\x0d\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");                              // CSI
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae"); // right to left
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80\xe2\x82"),
            "\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xe2\\x82");
}

TEST_F(DurabilityTest, NamesOutOfFilesAreShownEscaped) {
  std::string params = dir.file("p.safetensors");
  float one = 1;
  ASSERT_OK(
      writeSafetensors(params, {{"\x1b[31mred", FSDP_RT_F32, {}}}, {&one}));
  Outcome outcome = run("1", {"--params", params, "--data", batches, "--steps",
                              "1", "--lr", "0"});
  EXPECT_CONTAINS(outcome.err, "unexpected 1 tensor: '\\x1b[31mred'");
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
}

} // namespace
