//===- MpiProgramTest.cpp - Programs and sessions under mpirun ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/File.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <sys/stat.h>

using namespace fsdp::rt::data;

namespace {

class MpiProgramTest : public LinearProgram {
protected:
  void SetUp() override {
    if (!HAS_MPI)
      GTEST_SKIP() << "this build has no mpi backend";
    if (std::system("command -v mpirun > /dev/null") != 0)
      GTEST_SKIP() << "there is no mpirun on the path";
    // Open MPI's own: memory that it keeps to its end, and locks that it takes
    // in two orders.
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);
    ::setenv("TSAN_OPTIONS",
             "ignore_noninstrumented_modules=1:detect_deadlocks=0", 0);
  }
  std::string params(const std::string &saves) {
    return readFile(saves + "/step-00000004/params.safetensors");
  }
};

TEST_F(MpiProgramTest, EqualsTheLocalBackend) {
  std::string metrics = dir.file("m");
  runWell("2", training(4, {"--save", dir.file("a"), "-n2", "--backend=mpi",
                            "--metrics", metrics, "--save-every=2"}));
  runWell("2", training(4, {"--save", dir.file("b")}));
  EXPECT_EQ(params(dir.file("a")), params(dir.file("b")));
  std::string lines = readFile(metrics);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
}

TEST_F(MpiProgramTest, QueuesEqualCalls) {
  for (const char *mesh : {"2", "2x2"}) {
    std::string name = mesh;
    Words environment = {"LINEAR_QUEUES=1"};
    if (name == "2x2")
      environment.push_back("LINEAR_HOST=1");
    runWell(name,
            training(4, {"--save", dir.file(name + "a"), "--backend=mpi",
                         "--save-every=2"}),
            environment);
    runWell(name, training(4, {"--save", dir.file(name + "b")}));
    EXPECT_EQ(params(dir.file(name + "a")), params(dir.file(name + "b")));
  }
}

TEST_F(MpiProgramTest, ALibraryIsStartedAgainAsItWas) {
  Words words = {FSDP_RUN, LINEAR_SO};
  for (const std::string &word :
       training(4, {"--save", dir.file("a"), "--backend", "mpi"}))
    words.push_back(word);
  Outcome outcome = runProgram(words, {"LINEAR_MESH=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.out, "done: 4 steps");
  EXPECT_EQ(outcome.out.find('\r' + std::string("\x1b")), std::string::npos);
  EXPECT_TRUE(pathExists(dir.file("a/latest")));
}

TEST_F(MpiProgramTest, FailuresAreToldOnce) {
  for (auto [flaw, message] : std::vector<std::pair<std::string, std::string>>{
           {"check:2", "step 2: rank"},
           {"interrupt:2", "interrupted at step 2"}})
    for (bool hasQueues : {false, true}) {
      Words environment = {"LINEAR_FLAW=" + flaw};
      if (hasQueues)
        environment.push_back("LINEAR_QUEUES=1");
      Outcome outcome = run("2", training(3, {"--backend=mpi"}), environment);
      EXPECT_EQ(outcome.status, 1);
      EXPECT_CONTAINS(outcome.err, message);
      size_t first = outcome.err.find("error: ");
      EXPECT_NE(first, std::string::npos);
      EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos)
          << outcome.err;
    }
}

/// Two programs in one job, with a flaw and words of their own.
Outcome runTwo(const std::vector<std::string> &first,
               const std::vector<std::string> &second,
               const std::string &flawOfSecond = "none") {
  std::vector<std::string> words = {
      "/usr/bin/env",        "mpirun", "--oversubscribe",
      "--allow-run-as-root", "-n",     "1"};
  words.insert(words.end(), first.begin(), first.end());
  for (const std::string &word :
       {std::string(":"), std::string("-n"), std::string("1"),
        std::string("-x"), "LINEAR_FLAW=" + flawOfSecond})
    words.push_back(word);
  words.insert(words.end(), second.begin(), second.end());
  return runProgram(words, {"LINEAR_MESH=2"});
}

TEST_F(MpiProgramTest, RanksThatWereGivenDifferentThingsAreRefused) {
  using Options = std::map<std::string, std::string>;
  auto command = [](const Options &options) {
    Words words = {LINEAR_EXE};
    for (const auto &[name, value] : options) {
      words.push_back(name);
      if (!value.empty())
        words.push_back(value);
    }
    return words;
  };
  const Options both = {{"--init", "seed=0"},      {"--data", batches},
                        {"--data-ranks", "first"}, {"--steps", "4"},
                        {"--lr", "0.001"},         {"--save", dir.file("s")},
                        {"--save-every", "2"}};
  writeFile(dir.file("text"), std::string(500, 'x'));
  struct Case {
    std::string option, value, message, flaw = "none";
  };
  const std::vector<Case> cases = {
      {"--lr", "0.001",
       "program: expected fingerprint abc as on rank 0, got fingerprint abd",
       "other"},
      {"--steps", "5", "--steps: expected 4 as on rank 0, got 5"},
      {"--lr", "0.002", "--lr: expected 0.001 as on rank 0, got 0.002"},
      {"--data", dir.file("text"),
       "--data: expected safetensors as on rank 0, got text"},
  };
  const std::vector<std::string> before = entriesOf(dir.path());
  for (const Case &each : cases) {
    Options mine = both;
    mine[each.option] = each.value;
    Outcome outcome = runTwo(command(both), command(mine), each.flaw);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_CONTAINS(outcome.err, "error: rank 1: " + each.message + "\n");
    EXPECT_EQ(outcome.err.find("internal"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(entriesOf(dir.path()), before);
  }
  // Both are checkpoints of this program.
  runWell("2", training(4, {"--save", dir.file("old"), "--save-every", "2"}));
  Options early = both, late = both;
  early.erase("--init");
  late.erase("--init");
  early["--steps"] = late["--steps"] = "6";
  early["--resume"] = dir.file("old/step-00000002");
  late["--resume"] = dir.file("old");
  EXPECT_CONTAINS(runTwo(command(early), command(late)).err,
                  "error: rank 1: --resume: expected step 2 as on rank 0, got "
                  "step 4\n");
  // What hosts may differ in, they may.
  Options mine = both;
  ASSERT_OK(replaceFile(dir.file("other.safetensors"), readFile(batches)));
  mine["--data"] = dir.file("other.safetensors");
  mine["--threads"] = "2";
  mine["--log-every"] = "3";
  mine["--metrics"] = dir.file("m");
  Outcome outcome = runTwo(command(both), command(mine));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.out, "done: 4 steps");
}

TEST_F(MpiProgramTest, AMistakeOfOneRankAloneIsTold) {
  Words good = {LINEAR_EXE}, bad = {LINEAR_EXE};
  for (const std::string &word : training(1))
    good.push_back(word);
  for (const std::string &word : training(1, {"--threads", "x"}))
    bad.push_back(word);
  Outcome outcome = runTwo(good, bad);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: rank 1: --threads: expected an integer");
}

TEST_F(MpiProgramTest,
       PlacesThatOneRankCannotWriteToAreFoundBeforeTheFirstStep) {
  auto command = [&](const std::string &option, const std::string &place) {
    Words words = {LINEAR_EXE};
    for (const std::string &word : training(2, {option, place}))
      words.push_back(word);
    return words;
  };
  // Hosts without a common file system.
  ASSERT_EQ(::mkdir(dir.file("mine").c_str(), 0700), 0);
  Outcome outcome = runTwo(command("--save", dir.file("a")),
                           command("--save", dir.file("mine")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: rank 1: --save: expected '" +
                                   dir.file("mine") +
                                   "' to be one directory of all ranks, got "
                                   "one without what rank 0 has just written");
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(pathExists(dir.file("a")));

  writeFile(dir.file("file"), "");
  outcome = runTwo(command("--trace", dir.file("t")),
                   command("--trace", dir.file("file")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err,
                  "error: rank 1: --trace: cannot create directory");
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(pathExists(dir.file("t")));

  // Traces need no common place.
  outcome = runTwo(command("--trace", dir.file("t")),
                   command("--trace", dir.file("u")));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(pathExists(dir.file("t/rank-0.json")));
  EXPECT_TRUE(pathExists(dir.file("u/rank-1.json")));
}

TEST_F(MpiProgramTest, AMistakeOfAllRanksIsToldByTheFirst) {
  Words bad = {LINEAR_EXE};
  for (const std::string &word : training(1, {"--threads", "x"}))
    bad.push_back(word);
  Outcome outcome = runTwo(bad, bad);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: --threads: expected an integer");
  // How soon mpirun ends the others is its affair: here nobody does.
  auto runAs = [&](const std::string &rank) {
    return runProgram(bad, {"LINEAR_MESH=2", "OMPI_COMM_WORLD_SIZE=2",
                            "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                            "OMPI_COMM_WORLD_RANK=" + rank,
                            "OMPI_COMM_WORLD_LOCAL_RANK=" + rank});
  };
  outcome = runAs("0");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err.rfind("error: --threads: expected an integer", 0), 0u)
      << outcome.err;
  // Time for mpirun to end it.
  auto began = std::chrono::steady_clock::now();
  outcome = runAs("1");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(
      outcome.err.rfind("error: rank 1: --threads: expected an integer", 0), 0u)
      << outcome.err;
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
}

TEST_F(MpiProgramTest, SessionsOfDifferentProgramsAreRefused) {
  Words session = {SESSION_TEST, LINEAR_EXE, dir.file("shared")};
  Outcome outcome = runTwo(session, session, "other");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "rank 1: program: expected fingerprint abc");
}

TEST_F(MpiProgramTest, SessionsAreRanks) {
  Outcome outcome = runProgram({"/usr/bin/env", "mpirun", "--oversubscribe",
                                "--allow-run-as-root", "-n", "2", SESSION_TEST,
                                LINEAR_EXE, dir.file("shared")},
                               {"LINEAR_MESH=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

/// Starts $@ in the background, waits for its first step, prints what `look`
/// prints, where $program is the process and $mpirun its mpirun, and ends it.
std::string whileItRuns(const std::string &look) {
  return "\"$0\" \"$@\" & program=$!\n"
         "until [ -s \"$METRICS\" ] || ! kill -0 $program; do sleep 0.1; done\n"
         "children() { cat /proc/$1/task/*/children; }\n"
         "mpirun=$(children $program)\n" +
         look + "\nkill -INT $program; wait $program; echo \"status $?\"\n";
}

/// What `ss` says that processes listen on, of which "mine: PID PID" follows.
std::vector<std::string> listenersOfMine(const std::string &out) {
  std::string mark = "\nmine:";
  size_t end = ("\n" + out).find(mark);
  EXPECT_NE(end, std::string::npos) << out;
  std::stringstream said(out), mine(out.substr(end + mark.size() - 1));
  std::vector<std::string> found, processes;
  std::string word, line;
  std::getline(mine, line);
  mine.str(line);
  mine.clear();
  while (mine >> word)
    processes.push_back("pid=" + word + ",");
  EXPECT_GE(processes.size(), 2u) << line;
  while (std::getline(said, line) && line.rfind("mine:", 0) != 0)
    for (const std::string &process : processes)
      if (line.find(process) != std::string::npos)
        found.push_back(line);
  return found;
}

TEST_F(MpiProgramTest, NobodyElseCanConnect) {
  if (std::system("command -v ss > /dev/null") != 0)
    GTEST_SKIP() << "there is no ss on the path";
  if (std::system("unshare -n true 2> /dev/null || "
                  "unshare -Urn true 2> /dev/null") != 0)
    GTEST_SKIP() << "network namespaces are not permitted here";
  std::string metrics = dir.file("m");
  Words words = {"/bin/sh", "-c",
                 whileItRuns("ss -Hltnp\n"
                             "ranks=$(children $mpirun)\n"
                             "echo mine: $mpirun $ranks\n"
                             "for rank in $ranks; do readlink "
                             "/proc/$rank/exe; done"),
                 LINEAR_EXE};
  for (const std::string &word :
       training(100000000, {"--backend=mpi", "--quiet", "--metrics", metrics}))
    words.push_back(word);
  Outcome outcome = runProgram(words, {"LINEAR_MESH=2", "METRICS=" + metrics});
  EXPECT_CONTAINS(outcome.out,
                  "\n" + std::string(LINEAR_EXE) + "\n" + LINEAR_EXE + "\n");
  EXPECT_CONTAINS(outcome.out, "status 1\n");
  EXPECT_CONTAINS(outcome.err, "error: interrupted at step ");
  EXPECT_EQ(listenersOfMine(outcome.out), std::vector<std::string>());
}

TEST_F(MpiProgramTest, RanksOfOneHostListenOnNoPort) {
  if (std::system("command -v ss > /dev/null") != 0)
    GTEST_SKIP() << "there is no ss on the path";
  // Under an mpirun of the user's.
  std::string metrics = dir.file("m");
  Words words = {"/bin/sh",
                 "-c",
                 whileItRuns("ss -Hltnp; echo mine: $mpirun"),
                 "/usr/bin/env",
                 "mpirun",
                 "--oversubscribe",
                 "--allow-run-as-root",
                 "-n",
                 "2",
                 LINEAR_EXE};
  for (const std::string &word :
       training(100000000, {"--quiet", "--metrics", metrics}))
    words.push_back(word);
  Outcome outcome = runProgram(words, {"LINEAR_MESH=2", "METRICS=" + metrics});
  // Here mpirun is the process, and the ranks its children.
  EXPECT_EQ(listenersOfMine(outcome.out), std::vector<std::string>());
}

TEST_F(MpiProgramTest, AKilledMpirunLeavesNoSharedMemory) {
  std::string metrics = dir.file("m");
  Words words = {"/bin/sh", "-c",
                 whileItRuns("ranks=$(children $mpirun)\n"
                             "for rank in $ranks; do grep -h vader_segment "
                             "/proc/$rank/maps; done\n"
                             "kill -KILL $mpirun; wait $program\n"
                             "for rank in $ranks; do while kill -0 $rank 2> "
                             "/dev/null; do sleep 0.1; done; done\n"
                             "echo gone"),
                 LINEAR_EXE};
  for (const std::string &word :
       training(100000000, {"--backend=mpi", "--quiet", "--metrics", metrics}))
    words.push_back(word);
  Outcome outcome = runProgram(words, {"LINEAR_MESH=2", "METRICS=" + metrics});
  EXPECT_CONTAINS(outcome.out, "gone\n");
  EXPECT_CONTAINS(outcome.err, "error: mpirun was killed by signal 9");
  int segments = 0;
  std::stringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line) && line != "gone";) {
    ++segments;
    EXPECT_CONTAINS(line, " (deleted)");
    std::string path = line.substr(line.find('/'));
    EXPECT_FALSE(pathExists(path.substr(0, path.find(' ')))) << line;
  }
  EXPECT_EQ(segments, 4); // each rank's, in both
}

} // namespace
