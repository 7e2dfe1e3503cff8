//===- OptionsTest.cpp - Command lines ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/CheckpointOrigin.h"
#include "main/Console.h"
#include "main/OptionTable.h"
#include "main/Options.h"
#include "main/SharedSettings.h"
#include "registry/Registry.h"

#include <cmath>

using namespace fsdp::rt;
using namespace fsdp::rt::data;

namespace {

using Words = std::vector<std::string>;

Words enough(const Words &more) {
  Words words = {"--init", "seed=0", "--data", "x", "--steps", "5"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Options, ReadsAll) {
  Result<Options> o = parseOptions({"-n4",
                                    "--backend=mpi",
                                    "--params",
                                    "p",
                                    "--cast-params",
                                    "--data=d",
                                    "--steps=7",
                                    "--lr",
                                    "1e-3",
                                    "--clip-norm=2",
                                    "--scalar",
                                    "a=-1",
                                    "--scalar=b=inf",
                                    "--threads",
                                    "3",
                                    "--blas=openblas",
                                    "--queue-threads=on",
                                    "--reduction=nccl",
                                    "--metrics=m",
                                    "--log-every=2",
                                    "--save=s",
                                    "--save-every",
                                    "50",
                                    "--keep=1",
                                    "--stop-on-nan",
                                    "--run-ahead=off",
                                    "--profile=f",
                                    "--trace=t",
                                    "--quiet"});
  ASSERT_OK(o.status());
  EXPECT_EQ(o->ranks, 4);
  EXPECT_EQ(o->backend, "mpi");
  EXPECT_EQ(o->params, std::vector<std::string>{"p"});
  EXPECT_TRUE(o->castParams && o->stopOnNan && o->quiet);
  EXPECT_EQ(o->runAhead, RunAhead::Off);
  EXPECT_EQ(o->steps, 7);
  EXPECT_EQ(o->scalars,
            (std::vector<std::pair<std::string, double>>{
                {"lr", 1e-3}, {"clip_norm", 2}, {"a", -1}, {"b", INFINITY}}));
  EXPECT_EQ(o->threads, 3);
  EXPECT_EQ(o->deviceSettings.at("blas"), "openblas");
  EXPECT_EQ(o->saveEvery, 50);
  EXPECT_EQ(o->keep, 1);
  EXPECT_EQ(o->logEvery, 2);
  EXPECT_EQ(o->deviceSettings.at("queue-threads"), "on");
  EXPECT_EQ(o->deviceSettings.at("reduction"), "nccl");
  o = parseOptions(enough({"-n", "2", "--link", "1e9,0.5"}));
  ASSERT_OK(o.status());
  EXPECT_EQ(*o->seed, 0u);
  EXPECT_EQ(o->link->bytesPerSecond, 1e9);
  EXPECT_EQ(o->link->latencySeconds, 0.5);
}

TEST(Options, HelpAndDescribeNeedNothingElse) {
  EXPECT_TRUE(parseOptions({"--help"})->help);
  EXPECT_TRUE(parseOptions({"--describe"})->describe);
}

struct Bad {
  Words words;
  const char *message;
};

std::ostream &operator<<(std::ostream &out, const Bad &bad) {
  return out << bad.message;
}

class BadOptions : public testing::TestWithParam<Bad> {};

TEST_P(BadOptions, AreRefused) {
  EXPECT_CONTAINS(messageOf(parseOptions(GetParam().words)),
                  GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Options, BadOptions,
    testing::Values(
        Bad{{},
            "expected --params FILE, --init seed=K or both, or --resume DIR, "
            "got none"},
        Bad{enough({"--omit-text", "x"}), "--omit-text: expected --params"},
        Bad{enough({"--params="}), "--params: expected a value, got none"},
        Bad{enough({"--params=p", "--omit-text="}),
            "--omit-text: expected a value, got none"},
        Bad{{"--init", "seed=0"}, "expected --data FILE or --data random"},
        Bad{{"--init", "seed=0", "--data", "x"}, "expected --steps N"},
        Bad{enough({"--resume", "auto"}), "--resume auto: expected --save DIR"},
        Bad{{"--resume", "auto", "--save", "s", "--data", "x", "--steps", "5"},
            "to begin with where it has none, got none of the two"},
        Bad{enough({"--token-bits", "8"}), "expected 16 or 32, got '8'"},
        Bad{enough({"--data-ranks", "2"}), "expected first or all, got '2'"},
        Bad{enough({"--setps", "4"}), "'--setps'; did you mean --steps?"},
        Bad{enough({"--hlep"}), "did you mean --help?"},
        Bad{enough({"--saveevery=4"}), "did you mean --save-every?"},
        Bad{enough({"--qwertyuiop"}), "'--qwertyuiop'; --help lists them"},
        Bad{enough({"-x"}), "unknown option '-x'"},
        Bad{enough({"file"}), "expected an option, got 'file'"},
        Bad{enough({""}), "expected an option, got ''"},
        Bad{enough({"--steps", "6"}), "--steps: expected once, got twice"},
        Bad{enough({"--lr"}), "--lr: expected X, got nothing"},
        Bad{enough({"--metrics", "--quiet"}), "got the option --quiet"},
        Bad{enough({"--metrics="}), "--metrics: expected a value, got none"},
        Bad{enough({"--quiet=1"}), "--quiet: expected no value, got '1'"},
        Bad{enough({"-n", "0"}), "-n: expected an integer from 1"},
        Bad{enough({"-n", "two"}), "got 'two'"},
        Bad{enough({"--threads", "0"}), "--threads: expected an integer"},
        Bad{enough({"--save-every", "2"}), "--save-every: expected --save DIR"},
        Bad{enough({"--keep", "2"}), "--keep: expected --save DIR"},
        Bad{enough({"--save=x", "--keep", "0"}), "--keep: expected an integer"},
        Bad{enough({"--save-trained"}), "--save-trained: expected --save DIR"},
        Bad{enough({"--cast-params"}), "--cast-params: expected --params"},
        Bad{enough({"--device", "tpu"}),
            "--device: expected cpu or cuda, got 'tpu'"},
        Bad{enough({"--blas", "mkl"}), "--blas: expected"},
        Bad{enough({"--queue-threads", "4"}),
            "--queue-threads: expected auto, off or on, got '4'"},
        Bad{enough({"--reduction", "mean"}),
            "--reduction: expected auto, exact or nccl, got 'mean'"},
        Bad{enough({"--backend", "nccl"}),
            "--backend: expected local, mpi or tcp, got 'nccl'"},
        Bad{enough({"--backend", "gloo"}),
            "expected local, mpi or tcp, got 'gloo'"},
        Bad{enough({"--backend=mpi", "--link=1"}),
            "--link: expected the local"},
        Bad{enough({"--link", "0"}), "--link: expected BYTES_PER_SECOND"},
        Bad{enough({"--link", "1,x"}), "--link: expected BYTES_PER_SECOND"},
        Bad{enough({"--lr", "nan"}),
            "--lr: expected a number from 0 to 3.4e38"},
        Bad{enough({"--lr", "-1"}), "--lr: expected a number from 0 to 3.4e38"},
        Bad{enough({"--lr", "1e40"}),
            "--lr: expected a number from 0 to 3.4e38"},
        Bad{enough({"--lr=1", "--scalar", "lr=1"}),
            "expected one value for scalar 'lr'"},
        Bad{enough({"--clip-norm", "0"}), "expected a number above 0"},
        Bad{enough({"--scalar", "x"}), "expected NAME=VALUE, got 'x'"},
        Bad{enough({"--scalar", "=1"}), "expected NAME=VALUE"},
        Bad{enough({"--scalar", "x=y"}), "expected a number, got 'y'"},
        Bad{{"--init", "0"}, "--init: expected seed=K"},
        Bad{{"--init", "seed=1.5"}, "--init: expected seed=K"}));

/// An evaluation of the initial state, and what it is asked for besides.
std::string refusalOfEvaluation(const Words &more) {
  Words words = {"--init", "seed=0", "--eval-data", "x"};
  words.insert(words.end(), more.begin(), more.end());
  return messageOf(parseOptions(words));
}

TEST(Options, WithoutStepsNothingOfStepsIsAskedFor) {
  for (const Words &more : std::vector<Words>{{"--accumulate", "1"},
                                              {"--eval-every", "2"},
                                              {"--lr", "0.1"},
                                              {"--clip-norm", "1"},
                                              {"--scalar", "decay=1"},
                                              {"--log-every", "1"},
                                              {"--save", "there"},
                                              {"--save-every", "2"},
                                              {"--keep", "2"},
                                              {"--stop-on-nan"},
                                              {"--run-ahead", "off"},
                                              {"--profile", "p"},
                                              {"--trace", "t"}})
    EXPECT_EQ(refusalOfEvaluation(more),
              "expected --data SOURCE and --steps N with '" + more[0] +
                  "', got neither");
  EXPECT_EQ(refusalOfEvaluation({"--trace", "t", "--lr", "1"}),
            "expected --data SOURCE and --steps N with '--lr', '--trace', got "
            "neither");
  EXPECT_CONTAINS(refusalOfEvaluation({"--lr", "1", "--steps", "2"}),
                  "expected --data FILE");
  // What an evaluation reads.
  EXPECT_OK(parseOptions({"--params",
                          "p",
                          "--cast-params",
                          "--strip-prefix",
                          "a",
                          "--add-prefix",
                          "b",
                          "--omit-text",
                          "c",
                          "-n",
                          "2",
                          "--backend",
                          "local",
                          "--eval-data",
                          "x",
                          "--eval-steps",
                          "2",
                          "--save-outputs",
                          "o",
                          "--threads",
                          "1",
                          "--queue-threads",
                          "off",
                          "--blas",
                          "auto",
                          "--metrics",
                          "m",
                          "--link",
                          "1e9",
                          "--quiet"})
                .status());
}

const hal::DeviceKind &firstDevice() {
  return *findDevice("", {"cpu"})->device;
}

TEST(Registry, RefusesWithWhatThereIs) {
  EXPECT_CONTAINS(messageOf(findDevice("tpu", {"cpu"}).status()),
                  "expected cpu or cuda, got 'tpu'");
  EXPECT_CONTAINS(
      messageOf(findDevice("cpu", {"cuda"}).status()),
      "expected a program compiled for cpu, which is what cpu runs, "
      "got cuda");
  EXPECT_CONTAINS(messageOf(findDevice("", {"npu", "tpu"}).status()),
                  "expected a program compiled for cpu or cuda, which is what "
                  "this runtime runs, got npu, tpu");
  EXPECT_STREQ(findDevice("", {"cuda"})->device->name, "cuda");
  EXPECT_EQ(findDevice("cpu", {"cuda", "cpu"})->target, 1);
  EXPECT_CONTAINS(messageOf(checkSetting("clock", "fast")),
                  "expected a setting of processors");
  EXPECT_OK(checkSetting("blas", "auto"));
  EXPECT_CONTAINS(messageOf(checkSetting("blas", "mkl")),
                  "expected auto, openblas or onednn, got 'mkl'");
  EXPECT_OK(checkSetting("graph", "off"));
  EXPECT_CONTAINS(messageOf(checkSetting("graph", "maybe")),
                  "expected auto, off or on, got 'maybe'");
  EXPECT_CONTAINS(
      messageOf(
          findDevice("cpu", {"cpu"})->device->settings().check("graph", "on")),
      "expected a setting of processors");
  EXPECT_CONTAINS(messageOf(findBackend("nccl").status()),
                  "expected local, mpi or tcp, got 'nccl'");
  EXPECT_STREQ(defaultBackend(/*isRankPerProcess=*/true).name, "mpi");
  EXPECT_STREQ(defaultBackend(/*isRankPerProcess=*/false).name, "local");
}

TEST(Registry, SettingsAreOptionsWhoseHelpSaysTheirInitialValue) {
  for (const hal::DeviceSetting *setting : deviceSettings()) {
    const std::string option = std::string("--") + setting->name;
    auto found = std::find_if(
        optionTable().begin(), optionTable().end(),
        [&](const OptionSpec &spec) { return spec.name == option; });
    ASSERT_NE(found, optionTable().end()) << option;
    EXPECT_EQ(found->value, setting->values);
    EXPECT_CONTAINS(found->help, std::string("default: ") + setting->initial);
    EXPECT_OK(checkSetting(setting->name, setting->initial));
    Options options;
    EXPECT_OK(found->set(options, setting->initial));
    EXPECT_EQ(options.deviceSettings[setting->name], setting->initial);
  }
}

TEST(Registry, RanksAgreeOnSettingsThatMust) {
  const hal::DeviceKind &cuda = *findDevice("cuda", {"cuda"})->device;
  std::map<std::string, std::string> agreed;
  for (const Setting &setting :
       agreedSettings(cuda, {{"channel", "host"}, {"graph", "off"}}))
    agreed[setting.name] = setting.value;
  EXPECT_EQ(agreed,
            (std::map<std::string, std::string>{{"--device", "cuda"},
                                                {"--attention", "auto"},
                                                {"--channel", "host"},
                                                {"--reduction", "auto"}}));
}

TEST(Options, WhatFollowsFromAccumulateIsNotSet) {
  Manifest manifest;
  manifest.mesh = {{"shard", 1}};
  manifest.programs.resize(3);
  manifest.programs[0].scalars = {{"lr", FSDP_RT_F32, 0, 0.001}};
  auto refusal = [&](const char *scalar) {
    Result<Options> options = parseOptions(enough({"--scalar", scalar}));
    EXPECT_OK(options.status());
    return messageOf(checkOptions(*options, manifest, firstDevice()));
  };
  Result<Options> trained =
      parseOptions(enough({"--save", "s", "--save-trained"}));
  EXPECT_OK(trained.status());
  EXPECT_CONTAINS(messageOf(checkOptions(*trained, manifest, firstDevice())),
                  "--save-trained: expected a program with frozen parameters, "
                  "got one that trains all");
  // Of a program that accumulates nothing, they are names like others.
  for (const char *scalar : {"accumulated=1", "accumulation_weight=2"})
    EXPECT_CONTAINS(refusal(scalar),
                    "expected one of the program's scalars 'lr', got 'accumul");
  manifest.programs[1].kind = Program::Kind::Accumulate;
  manifest.programs[1].scalars = {{"accumulated", FSDP_RT_F32, 256, 0}};
  manifest.programs[2].kind = Program::Kind::TrainAccumulated;
  manifest.programs[2].scalars = {{"lr", FSDP_RT_F32, 0, 0.001},
                                  {"accumulated", FSDP_RT_F32, 256, 0},
                                  {"accumulation_weight", FSDP_RT_F32, 512, 1}};
  EXPECT_EQ(refusal("accumulated=1"),
            "--scalar accumulated: expected a scalar that users set, got one "
            "that follows from --accumulate");
  EXPECT_EQ(refusal("accumulation_weight=2"),
            "--scalar accumulation_weight: expected a scalar that users set, "
            "got one that follows from --accumulate");
}

/// The option that the table names is there, and sets what users may set.
TEST(Options, ScalarsOfTheTableHaveTheirOptions) {
  for (const scalars::Traits *known : scalars::all) {
    SCOPED_TRACE(known->name);
    // Which every run is given.
    if (std::string(known->option) == "--steps")
      continue;
    Result<Options> options = parseOptions(enough({known->option, "2"}));
    ASSERT_OK(options.status());
    bool isOfUsers = known->setter == scalars::Setter::User;
    EXPECT_EQ(options->hasScalar(known->name), isOfUsers);
    EXPECT_EQ(optionOf(known->name),
              isOfUsers ? known->option
                        : std::string("--scalar ") + known->name);
  }
}

TEST(Console, Bar) {
  EXPECT_EQ(progressBar(0, 10, 3599.9),
            "[>                             ] 0/10 59:59 left");
  EXPECT_EQ(progressBar(10, 10, 0),
            "[==============================] 10/10 0:00 left");
  EXPECT_EQ(progressBar(1, 3, 36000),
            "[==========>                   ] 1/3 10:00:00 left");
}

/// What differs between a run and one with other or further words.
std::string difference(const Words &more) {
  Manifest manifest;
  manifest.programs.resize(1);
  manifest.programs[0].scalars = {{"lr", FSDP_RT_F32, 0, 0.001},
                                  {"clip_norm", FSDP_RT_F32, 256, INFINITY},
                                  {"decay", FSDP_RT_F32, 512, 0.5}};
  Words all = {"--data", "x", "--steps", "5", "--save", "here"};
  all.insert(all.end(), more.begin(), more.end());
  bool hasStart = false;
  for (const std::string &word : more)
    hasStart = hasStart || word == "--params" || word == "--resume";
  if (!hasStart)
    all.insert(all.end(), {"--init", "seed=0"});
  Result<Options> one = parseOptions(enough({"--save", "there"}));
  Result<Options> other = parseOptions(all);
  EXPECT_OK(one.status());
  EXPECT_OK(other.status());
  std::vector<Setting> expected = sharedSettings(*one, manifest);
  std::vector<Setting> got = sharedSettings(*other, manifest);
  EXPECT_EQ(expected.size(), got.size());
  std::string text;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].name, got[i].name);
    if (expected[i].value != got[i].value)
      text +=
          got[i].name + ": " + expected[i].value + " -> " + got[i].value + "\n";
  }
  return text;
}

TEST(SharedSettings, NameWhatChangesARun) {
  EXPECT_EQ(difference({"--lr", "0.5"}), "--lr: 0.001 -> 0.5\n");
  EXPECT_EQ(difference({"--scalar", "lr=0.5"}), "--lr: 0.001 -> 0.5\n");
  EXPECT_EQ(difference({"--clip-norm", "1"}), "--clip-norm: inf -> 1\n");
  EXPECT_EQ(difference({"--scalar", "decay=0.25"}),
            "--scalar decay: 0.5 -> 0.25\n");
  EXPECT_EQ(difference({"--save-every", "2"}), "--save-every: none -> 2\n");
  EXPECT_EQ(difference({"--keep", "1"}), "--keep: none -> 1\n");
  EXPECT_EQ(difference({"--stop-on-nan"}), "--stop-on-nan: off -> on\n");
  EXPECT_EQ(difference({"--run-ahead", "off"}), "--run-ahead: auto -> off\n");
  EXPECT_EQ(difference({"--run-ahead", "on"}), "--run-ahead: auto -> on\n");
  EXPECT_EQ(difference({"--trace", "t"}), "--trace: none -> a directory\n");
  EXPECT_EQ(difference({"--params", "p"}),
            "initial state: --init seed=0 -> --params\n");
  EXPECT_EQ(difference({"--params", "p", "--params", "q", "--init", "seed=1"}),
            "initial state: --init seed=0 -> --params and --init seed=1\n");
  EXPECT_EQ(difference({"--resume", "r"}),
            "initial state: --init seed=0 -> --resume\n");
  EXPECT_EQ(difference({"--resume", "r", "--params", "p"}),
            "initial state: --init seed=0 -> --resume, beside --params\n");
  EXPECT_EQ(difference({"--save-trained"}), "--save-trained: off -> on\n");
}

TEST(SharedSettings, LeaveToAHostWhatIsItsOwn) {
  // A default that is given is no difference, and neither are paths.
  EXPECT_EQ(difference({"--lr", "1e-3", "--clip-norm", "inf"}), "");
  EXPECT_EQ(difference({"--threads", "3", "--blas", "openblas", "--metrics",
                        "m", "--profile", "p", "--log-every", "2", "--quiet",
                        "--queue-threads", "off"}),
            "");
}

} // namespace
