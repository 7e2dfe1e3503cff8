//===- RateScheduleTest.cpp - Learning rates by step ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/RateSchedule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <sstream>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

RateSchedule parsed(const std::string &text) {
  Result<RateSchedule> schedule = RateSchedule::parse(text);
  EXPECT_TRUE(schedule.isOk()) << text << ": " << schedule.status().message();
  return schedule.isOk() ? *schedule : *RateSchedule::parse("constant");
}

/// `ratio` is of steps counted from 0, as the schedules of PyTorch's libraries
/// count them.
void expectRatios(const std::string &text, int64_t steps,
                  const std::function<double(double)> &ratio) {
  RateSchedule schedule = parsed(text);
  for (int64_t step = 1; step <= steps; ++step)
    EXPECT_NEAR(schedule.ratioOf(step), ratio(double(step - 1)), 1e-15)
        << text << ", step " << step;
}

TEST(RateSchedule, IsThatOfTransformers) {
  // get_constant_schedule_with_warmup
  expectRatios("constant:warmup=10", 30,
               [](double s) { return s < 10 ? s / 10 : 1.0; });
  // get_linear_schedule_with_warmup
  expectRatios("linear:warmup=10,steps=50", 70, [](double s) {
    return s < 10 ? s / 10 : std::max(0.0, (50 - s) / (50 - 10));
  });
  // get_cosine_schedule_with_warmup
  expectRatios("cosine:warmup=10,steps=50", 51, [](double s) {
    return s < 10 ? s / 10
                  : std::max(0.0, 0.5 * (1 + std::cos(M_PI * (s - 10) / 40)));
  });
  // get_wsd_schedule, whose decay is a cosine's unless it is given
  auto wsd = [](double (*shape)(double)) {
    return [=](double s) {
      // Its factor of the warm-up goes from 0 to 1 as that of the decay back.
      double factor = s < 10   ? s / 10
                      : s < 30 ? 1.0
                      : s < 50 ? shape((s - 30) / 20)
                               : 0.0;
      return std::max(0.0, factor * (1 - 0.1) + 0.1);
    };
  };
  expectRatios("wsd:warmup=10,start=0.1,steps=50,decay=20,min=0.1,shape=cosine",
               60,
               wsd([](double p) { return 0.5 * (1 + std::cos(M_PI * p)); }));
  expectRatios("wsd:warmup=10,start=0.1,steps=50,decay=20,min=0.1", 60,
               wsd([](double p) { return 1 - p; }));
  expectRatios("wsd:warmup=10,start=0.1,steps=50,decay=20,min=0.1,shape=sqrt",
               60, wsd([](double p) { return 1 - std::sqrt(p); }));
}

TEST(RateSchedule, IsThatOfNanoGPT) {
  // get_lr of train.py with warmup_iters 20, lr_decay_iters 80, min_lr a tenth.
  const double warmup = 20, end = 80, min = 0.1;
  RateSchedule schedule =
      parsed("cosine:warmup=20,start=0.047619047619047616,steps=80,min=0.1");
  for (int64_t it = 0; it < 100; ++it) {
    double ratio = min;
    if (it < warmup)
      ratio = (it + 1) / (warmup + 1);
    else if (it <= end)
      ratio = min + 0.5 *
                        (1 + std::cos(M_PI * (it - warmup) / (end - warmup))) *
                        (1 - min);
    EXPECT_NEAR(schedule.ratioOf(it + 1), ratio, 1e-15) << it;
  }
}

TEST(RateSchedule, IsThatOfTorchtitan) {
  // build_lr_schedulers counts a step more than it trains: 10 steps of warm-up,
  // 15 of decay, and what is left of 45 + 1 between them.
  const double steps = 45, warmup = 10, decay = 15;
  const double stable = steps + 1 - warmup - decay;
  expectRatios("wsd:first=1,warmup=10,steps=46,decay=15,shape=sqrt",
               int64_t(steps), [=](double s) {
                 if (s < warmup)
                   return (s + 1) / warmup;
                 if (s < warmup + stable)
                   return 1.0;
                 return 1 - std::sqrt((s + 1 - (warmup + stable)) / decay);
               });
  RateSchedule schedule =
      parsed("wsd:first=1,warmup=10,steps=46,decay=15,shape=sqrt");
  EXPECT_EQ(schedule.lastStep(), 45);
  EXPECT_GT(schedule.ratioOf(45), 0);
  EXPECT_EQ(schedule.ratioOf(46), 0);
}

TEST(RateSchedule, MayWarmUpToItsEnd) {
  // As transformers' does for num_training_steps = num_warmup_steps.
  RateSchedule schedule = parsed("linear:warmup=4,steps=4");
  EXPECT_EQ(schedule.ratioOf(4), 0.75);
  EXPECT_EQ(schedule.ratioOf(5), 0);
}

TEST(RateSchedule, LongTablesAreDescribedByTheirHash) {
  std::string text = "table:1=1";
  for (int step = 2; step <= 9; ++step)
    text += "," + std::to_string(step) + "=0.5";
  RateSchedule schedule = parsed(text), other = parsed(text + "1");
  EXPECT_EQ(schedule.text(), text);
  EXPECT_CONTAINS(schedule.describe(),
                  "table of 9 ratios, the last from step 9 on, hash ");
  EXPECT_NE(schedule.describe(), other.describe());
}

TEST(RateSchedule, IsATable) {
  RateSchedule schedule = parsed("table:1=0.5,4=1,7=0.25");
  const double ratios[] = {0.5, 0.5, 0.5, 1, 1, 1, 0.25, 0.25};
  for (int64_t step = 1; step <= 8; ++step)
    EXPECT_EQ(schedule.ratioOf(step), ratios[step - 1]);
  EXPECT_EQ(schedule.ratioOf(int64_t(1) << 60), 0.25);
  EXPECT_FALSE(schedule.lastStep());
}

TEST(RateSchedule, IsReadAsItIsWritten) {
  for (const std::string text :
       {"constant", "constant:warmup=3,start=0.25",
        "linear:warmup=3,steps=10,min=0.1", "cosine:first=1,steps=10",
        "sqrt:steps=5", "wsd:warmup=2,steps=10,decay=3,shape=sqrt",
        "wsd:warmup-tokens=4096,steps=10,decay=3", "table:1=0.5,3=1e-06"})
    EXPECT_EQ(parsed(text).text(), text);
}

TEST(RateSchedule, CountsTokensOfAWarmUp) {
  RateSchedule schedule = parsed("linear:warmup-tokens=1000,steps=50");
  ASSERT_TRUE(schedule.resolve(64).isOk());
  EXPECT_EQ(schedule.text(), "linear:warmup=16,steps=50");
  RateSchedule whole = parsed("linear:warmup-tokens=1024,steps=50");
  ASSERT_TRUE(whole.resolve(64).isOk());
  EXPECT_EQ(whole.text(), "linear:warmup=16,steps=50");
  RateSchedule late = parsed("linear:warmup-tokens=6400,steps=50");
  EXPECT_EQ(late.resolve(64).message(),
            "expected a warm-up within the schedule's 50 steps, got 100");
  RateSchedule none = parsed("constant:warmup-tokens=6400");
  EXPECT_EQ(none.resolve(0).message(),
            "warmup-tokens: expected a step that takes tokens, got one "
            "without: warmup counts steps");
}

TEST(RateSchedule, IsRefused) {
  for (auto [text, message] : {
           std::pair("cosin:steps=3", "expected constant, linear, cosine, "
                                      "sqrt, wsd, table or file, got 'cosin'"),
           {"", "got ''"},
           {"cosine", "expected cosine:steps=N"},
           {"cosine:", "expected KEY=VALUE, got none"},
           {"cosine:steps", "expected KEY=VALUE, got 'steps'"},
           {"cosine:steps=0", "steps: expected"},
           {"cosine:steps=3,steps=4", "expected steps once, got it twice"},
           {"cosine:steps=3,decay=2",
            "decay: expected one of warmup, warmup-tokens, start, first, steps "
            "or min of cosine, got 'decay'"},
           {"constant:steps=3", "steps: expected one of warmup, "},
           {"wsd:steps=3", "expected wsd:decay=N"},
           {"wsd:steps=9,decay=3,shape=step",
            "shape: expected linear, cosine or sqrt, got 'step'"},
           {"linear:steps=3,min=-0.1",
            "min: expected a ratio from 0 to 1, got '-0.1'"},
           {"linear:steps=3,min=nan", "min: expected a ratio"},
           {"linear:steps=3,min=2", "min: expected a ratio from 0 to 1"},
           {"linear:warmup=4,steps=3",
            "expected a warm-up within the schedule's 3 steps, got 4"},
           {"wsd:warmup=5,steps=9,decay=5",
            "expected a warm-up and a decay within the schedule's 9 steps, got "
            "5 and 5"},
           {"constant:start=0.5", "beside start, got neither"},
           {"linear:warmup=1,warmup-tokens=1,steps=9", "got both"},
           {"table:2=1", "expected a ratio of step 1 first, got step 2"},
           {"table:1=1,1=2", "step: expected"},
           {"table:1=-1", "step 1: expected a ratio from 0 to 1e+06, got '-1'"},
           {"table:", "expected STEP=RATIO, got none"},
           {"file:/none/such", "cannot open '/none/such': No such file"},
           {"file", "expected file:PATH, got no path"},
           {"linear:steps=3,first=2", "first: expected"},
       }) {
    Result<RateSchedule> schedule = RateSchedule::parse(text);
    ASSERT_FALSE(schedule.isOk()) << text;
    EXPECT_CONTAINS(schedule.status().message(), message);
  }
}

class ScheduledRun : public LinearProgram {
protected:
  Words resuming(int steps, Words more) const {
    Words words = {"--resume", saves, "--steps", std::to_string(steps),
                   "--save",   saves};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string saves = dir.file("saves"), other = dir.file("other");
};

const char *const schedule = "cosine:warmup=2,steps=6,min=0.125";

/// Of a step, counted from 1, at a rate of 1.
double ratioOf(int step) {
  return step <= 2
             ? (step - 1) / 2.0
             : 0.125 + 0.875 * 0.5 * (1 + std::cos(M_PI * (step - 3) / 4));
}

TEST_F(ScheduledRun, IsThatOfStepsWithTheirRates) {
  runWell("2", training(6, {"--save", saves, "--lr-schedule", schedule}));
  for (int step = 1; step <= 6; ++step) {
    char rate[40];
    std::snprintf(rate, sizeof rate, "%.17g", 0.001 * ratioOf(step));
    Words words = training(step, {"--save", other});
    *(std::find(words.begin(), words.end(), "--lr") + 1) = rate;
    if (step > 1) {
      auto init = std::find(words.begin(), words.end(), "--init");
      init[0] = "--resume";
      init[1] = other;
    }
    EXPECT_EQ(run("2", words).status, 0);
  }
  EXPECT_EQ(stateAt(saves, 6), stateAt(other, 6));
}

TEST_F(ScheduledRun, GoesOnAsItWasSaved) {
  runWell("2", training(6, {"--save", other, "--lr-schedule", schedule}));
  runWell("2", training(3, {"--save", saves, "--lr-schedule", schedule}));
  EXPECT_EQ(metaAt(saves, 3)["lr_schedule"], schedule);
  EXPECT_EQ(metaAt(saves, 3)["scalars"]["lr"], 0.001);
  Outcome outcome = runWell("2", resuming(6, {}));
  EXPECT_CONTAINS(outcome.out, "--lr-schedule cosine:warmup=2,steps=6,");
  EXPECT_CONTAINS(outcome.out, "note: learning rate by cosine:warmup=2,");
  EXPECT_EQ(stateAt(saves, 6), stateAt(other, 6));
  // Another one is taken, and named.
  outcome = run("2", resuming(7, {"--lr-schedule", "constant:warmup=2"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_CONTAINS(outcome.err, "--lr-schedule: expected cosine:warmup=2,steps="
                               "6,min=0.125, with which the state was saved, "
                               "got constant:warmup=2");
  EXPECT_EQ(metaAt(saves, 7)["lr_schedule"], "constant:warmup=2");
}

TEST_F(ScheduledRun, SaysEachRate) {
  const std::string metrics = dir.file("metrics.jsonl");
  Outcome outcome = runWell(
      "2", training(4, {"--lr-schedule", schedule, "--metrics", metrics}));
  EXPECT_CONTAINS(outcome.out, " lr: 0 memory: ");
  EXPECT_CONTAINS(outcome.out, " lr: 0.0005 memory: ");
  std::istringstream lines(readFile(metrics));
  int step = 0;
  for (std::string line; std::getline(lines, line);) {
    ++step;
    EXPECT_EQ(json::parse(line)["lr"], 0.001 * ratioOf(step));
  }
  EXPECT_EQ(step, 4);
}

TEST_F(ScheduledRun, IsTraced) {
  const std::string trace = dir.file("trace");
  // 20 tokens of each of 2 ranks.
  Outcome outcome = runWell(
      "2", training(3, {"--lr-schedule", "linear:warmup-tokens=79,steps=8",
                        "--trace", trace}));
  EXPECT_CONTAINS(outcome.out, "learning rate by linear:warmup=2,steps=8");
  std::vector<double> traced;
  const json written = json::parse(readFile(trace + "/rank-0.json"));
  for (const json &event : written["traceEvents"])
    if (event["name"].get<std::string>().rfind("ProfilerStep#", 0) == 0)
      traced.push_back(event["args"]["lr"]);
  EXPECT_EQ(traced, (std::vector<double>{0, 0.0005, 0.001}));
}

TEST_F(ScheduledRun, OfACheckpointIsNamedWhereItIsRefused) {
  runWell("2",
          training(3, {"--save", saves, "--lr-schedule", "linear:steps=6"}));
  Outcome outcome = run("2", resuming(9, {}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "(--lr-schedule linear:steps=6 is that of "
                               "checkpoint '" +
                                   saves);
}

TEST_F(ScheduledRun, IsRefusedWhereItEndsBefore) {
  Outcome outcome = run("2", training(9, {"--lr-schedule", "linear:steps=6"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err,
                  "--lr-schedule: expected one of at least the 9 steps of "
                  "--steps, or a min above 0, got 6 steps, after which the "
                  "learning rate is 0");
  outcome = runWell("2", training(9, {"--lr-schedule", schedule}));
  EXPECT_CONTAINS(outcome.out, ": it stays from step 7 on");
}

TEST_F(ScheduledRun, ReadsATable) {
  const std::string path = dir.file("rates.txt");
  writeFile(path, "# step ratio\n1 0\n\n2 0.5  # warm\n3 1\n");
  runWell("2", training(3, {"--save", saves, "--lr-schedule", "file:" + path}));
  EXPECT_EQ(metaAt(saves, 3)["lr_schedule"], "table:1=0,2=0.5,3=1");
  writeFile(path, "1 0\n3\n");
  Outcome outcome = run("2", training(3, {"--lr-schedule", "file:" + path}));
  EXPECT_CONTAINS(outcome.err, "--lr-schedule: " + path +
                                   ":2: expected STEP RATIO, got '3'");
}

} // namespace
