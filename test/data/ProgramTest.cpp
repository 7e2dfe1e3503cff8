//===- ProgramTest.cpp - A whole program, as its users run it -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/File.h"
#include "fsdp-rt/memory.h"
#include "main/Main.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <regex>
#include <sys/mount.h>
#include <sys/stat.h>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

std::vector<json> linesOf(const std::string &path) {
  std::vector<json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    lines.push_back(json::parse(line));
  return lines;
}

class ProgramTest : public LinearProgram {};

TEST_F(ProgramTest, TrainsOnEveryMesh) {
  json reference;
  for (const char *mesh : {"1", "2", "4", "2x1", "2x2"}) {
    std::string metrics = dir.file("metrics.jsonl");
    Outcome outcome = runWell(mesh, training(29, {"--metrics", metrics}));
    std::regex line("step: [0-9]+ loss: [0-9.]+ grad_norm: [0-9.]+ memory: "
                    "[0-9.]+[KMG]iB tps: [0-9,]+");
    std::stringstream out(outcome.out);
    std::string text;
    for (const char *note :
         {"4 ranks; those of the first",
          "7 batches of each rank: batch 8 begins it again"}) {
      if (note[0] == '4' &&
          (mesh == std::string("4") || mesh == std::string("2x2")))
        continue;
      std::getline(out, text);
      EXPECT_EQ(text.compare(0, 6, "note: "), 0) << text;
      EXPECT_CONTAINS(text, note);
    }
    for (int i = 0; i < 29; ++i) {
      std::getline(out, text);
      EXPECT_TRUE(std::regex_match(text, line)) << text;
    }
    std::getline(out, text);
    EXPECT_EQ(text.compare(0, 16, "done: 29 steps i"), 0) << text;
    EXPECT_EQ(outcome.out.find('\r'), std::string::npos);

    std::vector<json> lines = linesOf(metrics);
    ASSERT_EQ(lines.size(), 29u);
    json losses;
    for (int i = 0; i < 29; ++i) {
      EXPECT_EQ(lines[i]["step"], i + 1);
      EXPECT_GT(lines[i]["mem_bytes"], 1 << 20);
      EXPECT_GT(lines[i]["tokens_per_s"], 0);
      EXPECT_EQ(lines[i].size(), 7u);
      losses.push_back(lines[i]["loss"]);
    }
    EXPECT_LT(losses[28], losses[0]); // step 29 sees the batch of step 1
    if (reference.is_null())
      reference = losses;
    EXPECT_EQ(losses, reference) << mesh;
  }
}

TEST_F(ProgramTest, QueuesGiveTheSameBits) {
  for (const char *mesh : {"1", "2", "4", "2x2"}) {
    for (const char *queues : {"", "LINEAR_QUEUES=1"}) {
      Words environment;
      if (*queues)
        environment.push_back(queues);
      std::string name = std::string(mesh) + queues;
      runWell(mesh,
              training(9, {"--metrics", dir.file(name), "--save",
                           dir.file(name + "-save"), "--clip-norm", "0.5"}),
              environment);
    }
    std::string name = mesh, other = name + "LINEAR_QUEUES=1";
    for (const char *file : {"params", "optimizer"}) {
      std::string path =
          std::string("-save/step-00000009/") + file + ".safetensors";
      ASSERT_TRUE(pathExists(dir.file(name + path))) << path;
      EXPECT_EQ(readFile(dir.file(name + path)),
                readFile(dir.file(other + path)))
          << mesh << path;
    }
    std::vector<json> a = linesOf(dir.file(name)), b = linesOf(dir.file(other));
    ASSERT_EQ(a.size(), 9u);
    ASSERT_EQ(b.size(), 9u);
    for (size_t i = 0; i < 9; ++i)
      for (const char *key : {"loss", "grad_norm"})
        EXPECT_EQ(a[i][key], b[i][key]) << mesh << " step " << i;
  }
}

TEST_F(ProgramTest, ReadsEveryKindOfData) {
  writeFile(dir.file("text"), std::string(500, 'x'));
  std::string bin;
  for (int i = 0; i < 300; ++i)
    bin += {char(i % 100), 0};
  writeFile(dir.file("tokens.bin"), bin);
  for (std::string data :
       {dir.file("text"), dir.file("tokens.bin"), std::string("random:seed=4")})
    runWell("2", {"-n2", "--init=seed=1", "--data", data, "--steps=3"});
}

TEST_F(ProgramTest, ParametersFromAFile) {
  float weight[] = {1, 0, 0, 0, 0}, bias = 0, gain = 1;
  int64_t count = 5;
  std::string params = dir.file("params.safetensors");
  // Under its tied name, which is as good.
  ASSERT_OK(writeSafetensors(params,
                             {{"head.weight", FSDP_RT_F32, {5}},
                              {"bias", FSDP_RT_F32, {1}},
                              {"gain", FSDP_RT_F32, {}},
                              {"count", FSDP_RT_I64, {}}},
                             {weight, &bias, &gain, &count}));
  Words words = {"--params", params, "--data", "random:seed=0",  "--lr", "0",
                 "--steps",  "2",    "--save", dir.file("saved")};
  runWell("4", words);
  std::string saved = dir.file("saved/step-00000002/params.safetensors");
  EXPECT_EQ(floatsOf(saved, "weight"), std::vector<float>(weight, weight + 5));
  auto file = SafetensorsReader::open(saved);
  ASSERT_OK(file.status());
  ASSERT_OK(file->read(*file->find("count"), 0, &count, 8));
  EXPECT_EQ(count, 7);

  uint16_t narrow[] = {0x3f80, 0, 0, 0, 0};
  ASSERT_OK(writeSafetensors(params,
                             {{"weight", FSDP_RT_BF16, {5}},
                              {"bias", FSDP_RT_F32, {1}},
                              {"gain", FSDP_RT_F32, {}}},
                             {narrow, &bias, &gain}));
  words[9] = dir.file("again");
  expectRefusal("2", words, "'weight': expected F32, got BF16");
  words.push_back("--cast-params");
  Outcome outcome = run("2", words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "warning: " + params +
                             ": no buffer 'count': set to the initial value "
                             "instead\n");
  EXPECT_EQ(
      floatsOf(dir.file("again/step-00000002/params.safetensors"), "weight"),
      std::vector<float>(weight, weight + 5));
}

TEST_F(ProgramTest, DescribesItself) {
  Outcome outcome = runWell("2x2", {"--describe"});
  json manifest = json::parse(outcome.out);
  EXPECT_EQ(manifest["mesh"][0]["axis"], "replicate");
  EXPECT_EQ(outcome.out.compare(0, 15, "{\n  \"format\": 3"), 0);
  EXPECT_EQ(runProgram({LINEAR_EXE, "--describe"}, {}, "/dev/full").err,
            "error: cannot write to standard output\n");
}

TEST_F(ProgramTest, HelpNamesEveryOption) {
  Outcome outcome = runWell("1", {"--help"});
  for (const char *option :
       {"-n N",           "--backend",       "--params",    "--init",
        "--resume",       "--data",          "--steps",     "--lr",
        "--clip-norm",    "--threads",       "--metrics",   "--trace",
        "--save DIR",     "--save-every",    "--describe",  "--profile",
        "--blas",         "--log-every",     "--scalar",    "--cast-params",
        "--strip-prefix", "--add-prefix",    "--keep",      "--quiet",
        "--stop-on-nan",  "--queue-threads", "--omit-text", "--save-trained",
        "--run-ahead"})
    EXPECT_CONTAINS(outcome.out, option);
}

TEST_F(ProgramTest, QuietAndLogEvery) {
  EXPECT_EQ(runWell("2", training(4, {"--quiet"})).out, "");
  std::string out = runWell("1", training(7, {"--log-every", "3"})).out;
  std::smatch match;
  for (const char *step : {"step: 1 ", "step: 3 ", "step: 6 ", "step: 7 "})
    EXPECT_CONTAINS(out, step);
  EXPECT_EQ(out.find("step: 2 "), std::string::npos);
}

TEST_F(ProgramTest, ATerminalGetsABar) {
  Words words = {LINEAR_EXE};
  for (const std::string &word : training(4))
    words.push_back(word);
  Outcome outcome = runProgram(words, {}, "", /*onTerminal=*/true);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.out, "\n[===============>              ] 2/4 0:00 "
                               "left\r\x1b[Kstep: 3");
  EXPECT_CONTAINS(outcome.out, "done: 4 steps");
}

TEST_F(ProgramTest, StandardOutputThatIsFullIsAnError) {
  Words words = {LINEAR_EXE};
  for (const std::string &word : training(2))
    words.push_back(word);
  Outcome outcome = runProgram(words, {}, "/dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: cannot write to standard output");
}

TEST_F(ProgramTest, ProfileAndTrace) {
  runWell("2", training(3, {"--profile", dir.file("profile.json"), "--trace",
                            dir.file("trace")}));
  EXPECT_CONTAINS(readFile(dir.file("profile.json")), "forward_backward");
  EXPECT_EQ(entriesOf(dir.file("trace")),
            (std::vector<std::string>{"rank-0.json", "rank-1.json"}));
  EXPECT_CONTAINS(readFile(dir.file("trace/rank-1.json")), "forward_backward");
}

TEST_F(ProgramTest, ClippingAndScalars) {
  std::string a = dir.file("a"), b = dir.file("b"), c = dir.file("c");
  runWell("1", training(3, {"--save", a, "--clip-norm", "0.5"}));
  runWell("1", training(3, {"--save", b, "--scalar", "clip_norm=0.5"}));
  runWell("1", training(3, {"--save", c}));
  std::string params = "/step-00000003/params.safetensors";
  EXPECT_EQ(readFile(a + params), readFile(b + params));
  EXPECT_NE(readFile(a + params), readFile(c + params));
}

TEST_F(ProgramTest, ALinkDelaysTheLocalBackend) {
  std::string metrics = dir.file("m");
  runWell("2", training(2, {"--link", "1e9,0.002", "--metrics", metrics}));
  // Four collectives wait for the link, whatever the machine's speed.
  EXPECT_GE(linesOf(metrics)[1]["step_ms"], 8);
}

TEST_F(ProgramTest, ALossThatIsNoNumberIsAWarning) {
  std::string metrics = dir.file("m");
  Outcome outcome =
      run("2", training(4, {"--metrics", metrics}), {"LINEAR_FLAW=nan:2"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "warning: step 2: loss is nan\n");
  json line = linesOf(metrics)[1];
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_EQ(line["nonfinite"], json({"loss"}));

  outcome = run("2", training(4, {"--stop-on-nan", "--metrics", metrics}),
                {"LINEAR_FLAW=nan:2"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "error: step 2: loss is nan (--stop-on-nan)\n");
  EXPECT_EQ(linesOf(metrics).size(), 2u);
}

TEST_F(ProgramTest, AStepThatFailsIsTold) {
  for (const char *mesh : {"1", "2", "4"}) {
    Outcome outcome = run(mesh, training(4, {"--save", dir.file("saves")}),
                          {"LINEAR_FLAW=check:3"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_CONTAINS(outcome.err, "the data is flawed");
    EXPECT_CONTAINS(outcome.err, "step 3");
    EXPECT_FALSE(pathExists(dir.file("saves")));
  }
}

TEST_F(ProgramTest, FaultsOfOurOwnAskForAReport) {
  Outcome outcome = run("1", training(1), {"LINEAR_FLAW=manifest"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_CONTAINS(outcome.err, "error: internal: manifest: ");
  EXPECT_CONTAINS(outcome.err, "Please report");
}

TEST_F(ProgramTest, RefusesWhatTheProgramIsNotFor) {
  expectRefusal("2", training(1, {"-n", "3"}),
                "expected -n 2, the size of the mesh replicate=1,shard=2 that "
                "the program was compiled for, got 3");
  for (const char *backend : {"local", "mpi"})
    expectRefusal("1025", training(1, {"--backend", backend}),
                  "expected at most 1024 ranks on one host, got a program "
                  "compiled for 1025");
  expectRefusal("1", training(1), "no-such-feature", {"LINEAR_FLAW=feature"});
  expectRefusal("1", training(1, {"--clip-norm", "1"}),
                "--clip-norm: expected a program compiled with --clip-norm",
                {"LINEAR_FLAW=noclip"});
  expectRefusal("1", training(1, {"--scalar", "beta=1"}),
                "expected one of the program's scalars 'lr', 'clip_norm', got "
                "'beta'");
  expectRefusal("1", {"--init", "seed=0", "--data", batches, "--steps", "1"},
                "expected --lr X, which has no default", {"LINEAR_FLAW=nolr"});
  expectRefusal("2", training(1), "got none for 'weight': --params gives them",
                {"LINEAR_FLAW=noinit"});
}

TEST_F(ProgramTest, AsManyThreadsAsTheBudgetHasRoomFor) {
  json manifest = json::parse(runWell("1", {"--describe"}).out);
  int64_t arena = manifest["arena"]["bytes"];
  int64_t each = getThreadBytes(manifest["arena"]["scratch_bytes"]);
  auto within = [&](int64_t budget) -> Words {
    return {"LINEAR_BUDGET=" + std::to_string(budget)};
  };
  auto manifestWith = [&](int64_t budget) {
    Manifest result;
    result.arenaBytes = arena;
    result.scratchBytes = manifest["arena"]["scratch_bytes"];
    result.budgetBytes = budget;
    return result;
  };
  runWell("1", training(1, {"--threads", "2"}), within(arena + each));
  expectRefusal("1", training(1, {"--threads", "2"}),
                "--threads: expected threads of at most 1: the memory budget "
                "leaves " +
                    std::to_string(each - 1) +
                    " bytes beside the arena and the first, and each takes " +
                    std::to_string(each) + "; got 2",
                within(arena + each - 1));
  runWell("1", training(1), within(arena));
  EXPECT_CONTAINS(runProgram({LINEAR_EXE, "--describe"}, within(arena - 1)).err,
                  "budget_bytes: expected 0 or at least " +
                      std::to_string(arena));
  for (auto [budget, expected] : {std::pair(arena, 1),
                                  {arena + each, 2},
                                  {arena + 9 * each, 4},
                                  {int64_t(0), 4}}) {
    Result<int> threads =
        chooseThreads(manifestWith(budget), 0, /*ranksOnHost=*/2, /*cores=*/8);
    EXPECT_TRUE(threads.isOk() && *threads == expected) << budget;
  }
}

TEST_F(ProgramTest, RefusesFarMoreThreadsThanCores) {
  Manifest manifest;
  EXPECT_TRUE(
      chooseThreads(manifest, 64, /*ranksOnHost=*/2, /*cores=*/2).isOk());
  EXPECT_CONTAINS(
      messageOf(chooseThreads(manifest, 65, /*ranksOnHost=*/2, /*cores=*/2)),
      "expected threads of at most 64 for each of 2 ranks, 64 for each of 2 "
      "cores, got 65");
  EXPECT_TRUE(
      chooseThreads(manifest, 1, /*ranksOnHost=*/1024, /*cores=*/1).isOk());
}

TEST_F(ProgramTest, RefusesFilesThatDoNotFit) {
  auto start = [&](const std::string &option, const std::string &path) {
    return Words{option, path, "--data", batches, "--steps", "1"};
  };
  expectRefusal("1", start("--params", dir.file("none")), "No such file");
  expectRefusal("2", start("--params", dir.path()), "got a directory");
  expectRefusal("2", start("--params", batches),
                "missing 3 tensors: 'weight', 'bias', 'gain'; unexpected 2 "
                "tensors: 'input_ids', 'labels'");
  writeFile(dir.file("x.safetensors"), std::string(40, 'x'));
  expectRefusal("2", start("--params", dir.file("x.safetensors")),
                "expected a safetensors header of at most");
  expectRefusal("1", start("--resume", dir.file("none")),
                "expected a checkpoint");

  Words words = training(1);
  words[3] = dir.file("x.safetensors");
  expectRefusal("1", words, "expected a safetensors header of at most");
  words[3] = dir.file("short");
  writeFile(dir.file("short"), "abc");
  expectRefusal("4", words, "expected at least 6 tokens");
  words[3] = dir.file("none.bin");
  expectRefusal("1", words, "No such file");
  words[3] = "random:seed=x";
  expectRefusal("1", words, "expected seed=K");
}

TEST_F(ProgramTest, ABadTokenIsNamedBeforeTheFirstStep) {
  std::string text(200, 'a');
  text[90] = '\xc3';
  writeFile(dir.file("text"), text);
  Words words = training(9);
  words[3] = dir.file("text");
  expectRefusal("2", words, "text: token 195 at byte 90, for input ");
  expectRefusal("2", words, "expected 0 <= token < 128");
}

TEST_F(ProgramTest, RefusesPlacesThatCannotBeWritten) {
  writeFile(dir.file("file"), "");
  expectRefusal("2", training(1, {"--metrics", dir.file("no/m")}),
                "--metrics: cannot write");
  expectRefusal("2", training(1, {"--save", dir.file("file")}),
                "cannot create directory");
  expectRefusal("2", training(1, {"--save", "/proc/none"}),
                "cannot create directory");
  expectRefusal("2", training(1, {"--trace", dir.file("file/x")}), "--trace");
  // Which there may be although nothing can be written into it.
  expectRefusal("2", training(1, {"--trace", "/proc/self"}),
                "--trace: cannot write to '/proc/");
  expectRefusal("2", training(1, {"--profile", dir.path()}),
                "--profile: expected a file to write to, got a directory");
  expectRefusal("2", training(1, {"--profile", dir.file("no/x")}),
                "--profile: cannot write to");
  Outcome outcome = run("2", training(2, {"--metrics", "/dev/full"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "warning: step 1: --metrics: cannot write '/dev/full': No space "
            "left on device; its lines are kept and tried again\n"
            "error: --metrics: expected a line for every step in '/dev/full', "
            "got none for 2 steps, which could not be written\n");
}

TEST_F(ProgramTest, AnOldFileOfMetricsSurvivesARefusal) {
  std::string metrics = dir.file("m");
  writeFile(metrics, "old\n");
  Words words = training(1, {"--metrics", metrics});
  words[3] = dir.file("none");
  expectRefusal("1", words, "No such file");
  EXPECT_EQ(readFile(metrics), "old\n");
  words[3] = batches;
  runWell("1", words);
  EXPECT_EQ(linesOf(metrics).size(), 1u);
}

TEST_F(ProgramTest, ARefusalTakesBackWhatItPrepared) {
  expectRefusal("2",
                {"--params", dir.file("none"), "--data", batches, "--steps",
                 "1", "--metrics", dir.file("m"), "--trace", dir.file("t"),
                 "--save", dir.file("a/b/c")},
                "No such file");
}

TEST_F(ProgramTest, AnotherAbiIsRefused) {
  Outcome outcome = runProgram({OTHER_ABI_EXE, "--describe"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "error: expected a program of abi version 16, "
                               "got version 99");
}

class FsdpRunTest : public LinearProgram {};

TEST_F(FsdpRunTest, RunsALibraryLikeTheExecutable) {
  Words words = {FSDP_RUN, LINEAR_SO};
  for (const std::string &word :
       training(3, {"--save", dir.file("a"), "-n", "2"}))
    words.push_back(word);
  Outcome outcome = runProgram(words, {"LINEAR_MESH=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  runWell("2", training(3, {"--save", dir.file("b")}));
  std::string params = "/step-00000003/params.safetensors";
  EXPECT_EQ(readFile(dir.file("a") + params), readFile(dir.file("b") + params));
  EXPECT_CONTAINS(runProgram({FSDP_RUN, LINEAR_SO, "--help"}).out,
                  "fsdp-run " LINEAR_SO " [-n N]");
}

TEST_F(FsdpRunTest, SaysWhatIsMissing) {
  auto error = [](const Words &arguments) {
    Words words = {FSDP_RUN};
    words.insert(words.end(), arguments.begin(), arguments.end());
    Outcome outcome = runProgram(words);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err.compare(0, 7, "error: "), 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_CONTAINS(error({}), "as the first argument, got none");
  EXPECT_CONTAINS(error({"--steps"}), "got '--steps'");
  EXPECT_CONTAINS(error({dir.file("none")}), "No such file");
  writeFile(dir.file("text"), "no library");
  EXPECT_CONTAINS(error({dir.file("text")}),
                  "expected a library compiled with --emit so");
  EXPECT_CONTAINS(error({dir.path()}), "expected a library compiled with");
  EXPECT_CONTAINS(error({FAULT_SHIM}),
                  "without the symbol fsdp_rt_artifact_entry");
  EXPECT_EQ(runProgram({FSDP_RUN, "--help"}).status, 0);
}

TEST_F(ProgramTest, ShowsThePartOfTheBoundThatAStepReached) {
  std::string metrics = dir.file("metrics.jsonl");
  Outcome outcome =
      runWell("2", training(2, {"--metrics", metrics}), {"LINEAR_BOUND=1"});
  EXPECT_CONTAINS(outcome.out, "\nnote: bound: 0.000 ms on some-machine, "
                               "limited by compute\nstep: 1 ");
  std::regex line("step: 1 .* tps: [0-9,]+ mfu: [0-9.]+ % of bound: [0-9.]+\n");
  EXPECT_TRUE(std::regex_search(outcome.out, line)) << outcome.out;
  std::vector<json> lines = linesOf(metrics);
  ASSERT_EQ(lines.size(), 2u);
  for (const json &step : lines) {
    double seconds = step["step_ms"].get<double>() / 1e3;
    EXPECT_NEAR(step["tflops"].get<double>() * seconds, 1e-6, 1e-13);
    EXPECT_NEAR(step["mfu"].get<double>() * seconds, 1e-9, 1e-16);
    EXPECT_NEAR(step["of_bound"].get<double>() * seconds, 1e-9, 1e-16);
  }
}

} // namespace
