//===- OptionsTest.cpp - Command lines ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "main/Console.h"
#include "main/OptionTable.h"
#include "main/Options.h"

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
                                    "--metrics=m",
                                    "--log-every=2",
                                    "--save=s",
                                    "--save-every",
                                    "50",
                                    "--keep=1",
                                    "--stop-on-nan",
                                    "--profile=f",
                                    "--trace=t",
                                    "--quiet"});
  ASSERT_OK(o.status());
  EXPECT_EQ(o->ranks, 4);
  EXPECT_EQ(o->backend, Options::BackendKind::Mpi);
  EXPECT_EQ(o->params, "p");
  EXPECT_TRUE(o->castParams && o->stopOnNan && o->quiet);
  EXPECT_EQ(o->steps, 7);
  EXPECT_EQ(o->scalars,
            (std::vector<std::pair<std::string, double>>{
                {"lr", 1e-3}, {"clip_norm", 2}, {"a", -1}, {"b", INFINITY}}));
  EXPECT_EQ(o->threads, 3);
  EXPECT_EQ(o->blas, BlasKind::OpenBlas);
  EXPECT_EQ(o->saveEvery, 50);
  EXPECT_EQ(o->keep, 1);
  EXPECT_EQ(o->logEvery, 2);
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
            "expected one of --params FILE, --init seed=K and --resume "
            "DIR, got none"},
        Bad{{"--init", "seed=0", "--params", "p"}, "got '--params', '--init'"},
        Bad{{"--init", "seed=0"}, "expected --data FILE or --data random"},
        Bad{{"--init", "seed=0", "--data", "x"}, "expected --steps N"},
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
        Bad{enough({"--cast-params"}), "--cast-params: expected --params"},
        Bad{enough({"--backend", "nccl"}), "nccl moves data between GPUs"},
        Bad{enough({"--backend", "gloo"}), "expected local or mpi, got 'gloo'"},
        Bad{enough({"--backend=mpi", "--link=1"}),
            "--link: expected the local"},
        Bad{enough({"--link", "0"}), "--link: expected BYTES_PER_SECOND"},
        Bad{enough({"--link", "1,x"}), "--link: expected BYTES_PER_SECOND"},
        Bad{enough({"--blas", "mkl"}), "mkl"},
        Bad{enough({"--lr", "nan"}), "--lr: expected a number of at least 0"},
        Bad{enough({"--lr", "-1"}), "--lr: expected a number of at least 0"},
        Bad{enough({"--lr=1", "--scalar", "lr=1"}),
            "expected one value for scalar 'lr'"},
        Bad{enough({"--clip-norm", "0"}), "expected a number above 0"},
        Bad{enough({"--scalar", "x"}), "expected NAME=VALUE, got 'x'"},
        Bad{enough({"--scalar", "=1"}), "expected NAME=VALUE"},
        Bad{enough({"--scalar", "x=y"}), "expected a number, got 'y'"},
        Bad{{"--init", "0"}, "--init: expected seed=K"},
        Bad{{"--init", "seed=1.5"}, "--init: expected seed=K"}));

TEST(Console, Bar) {
  EXPECT_EQ(progressBar(0, 10, 3599.9),
            "[>                             ] 0/10 59:59 left");
  EXPECT_EQ(progressBar(10, 10, 0),
            "[==============================] 10/10 0:00 left");
  EXPECT_EQ(progressBar(1, 3, 36000),
            "[==========>                   ] 1/3 10:00:00 left");
}

} // namespace
