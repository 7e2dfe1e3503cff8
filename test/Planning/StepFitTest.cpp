//===- StepFitTest.cpp - The plan and order whose arena fits --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/StepFit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

/// Plans that need ever less by the model and take ever longer. Packed, each
/// takes somewhat more than that, one more than the other.
class Plans : public StepTrials {
public:
  /// @far: some could take much less than they do.
  explicit Plans(unsigned seed, bool far = false) {
    std::mt19937 random(seed);
    int64_t need = 1'000'000'000;
    Time time = 1000;
    for (int i = 0; i != 30; ++i) {
      double gaps = 1 + 0.01 * (random() % 12);
      Time slack = far && random() % 2 ? time / 16 : 0;
      all.push_back({need, int64_t(need * gaps) / 256 * 256, time, slack});
      need -= need / 100 * (1 + random() % 8);
      time += 1 + random() % 50;
    }
  }

  llvm::Expected<Planned> plan(int64_t budget) override {
    ++planned;
    last = all.size() - 1;
    for (size_t i = all.size(); i-- != 0;)
      if (all[i].need <= budget)
        last = i;
    return Planned{all[last].need <= budget,
                   all[last].time,
                   plain.time,
                   plain.need,
                   isPlain,
                   kinds};
  }
  llvm::Expected<Planned> planWithout(PlanDecision::Kind kind,
                                      int64_t budget) override {
    leftOut.push_back(kind);
    last = kWithout;
    Planned planned;
    planned.fits = without.need <= budget;
    planned.time = without.time;
    return planned;
  }
  llvm::Error planPlainly(int64_t) override {
    last = all.size();
    return llvm::Error::success();
  }
  llvm::Expected<std::optional<Outcome>> orderLikeFSDP(int64_t most,
                                                       Time below) override {
    if (last != all.size() || fsdp.bytes > most || fsdp.time >= below)
      return std::nullopt;
    return number(fsdp);
  }
  /// Orders for less memory take less and longer, in steps, down to the need;
  /// so do those that leave room.
  llvm::Expected<Outcome> order(const OrderLimits &limits) override {
    const Plan &plan = last == all.size() ? plain
                       : last == kWithout ? without
                                          : all[last];
    int64_t step = std::max<int64_t>(plan.need - limits.budget, 0) / 20'000'000;
    int64_t saved = std::min((plan.packed - plan.need) / 2,
                             step * 3'000'000 + limits.room / 8);
    mostRoom = std::max(mostRoom, limits.room);
    return number({(plan.packed - saved) / 256 * 256,
                   plan.time + 5 * step + limits.room / 20'000'000,
                   plan.time - plan.slack});
  }
  /// As if what takes as much were the same order.
  Outcome number(Outcome outcome) {
    auto known = std::find(outcomes.begin(), outcomes.end(),
                           std::make_pair(last, outcome));
    outcome.number = known - outcomes.begin();
    if (known == outcomes.end())
      outcomes.push_back({last, outcome});
    return outcome;
  }
  void keep() override { kept = last; }
  /// As it was, or as given for its plan.
  Outcome refine(size_t number) override {
    ++refinements;
    last = outcomes[number].first;
    return last < refined.size() ? this->number(refined[last])
                                 : outcomes[number].second;
  }

  struct Plan {
    int64_t need, packed;
    Time time;
    /// What another order might save.
    Time slack = 0;
  };
  std::vector<Plan> all;
  /// Without changes, and that as FSDP orders it: as last and kept, one more
  /// than there are plans.
  Plan plain = {kHuge, kHuge, kNever};
  Outcome fsdp = {kHuge, kNever};
  /// That is all that is planned.
  bool isPlain = false;
  /// What plans do, what was left out, and the plan without it, whatever it is.
  llvm::SmallVector<PlanDecision::Kind> kinds, leftOut;
  Plan without = {kHuge, kHuge, kNever};
  static constexpr size_t kWithout = 1'000'000;
  static constexpr int64_t kHuge = 1'000'000'000'000;
  size_t last = 0, kept = 0;
  std::vector<std::pair<size_t, Outcome>> outcomes;
  std::vector<Outcome> refined;
  int refinements = 0;
  int planned = 0;
  int64_t mostRoom = 0;
};

StepFit fit(Plans &plans, int64_t budget) {
  auto result = fitStep(plans, budget);
  EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError());
  return *result;
}

TEST(StepFit, WhereAllFitsTheFirstPlanIsKept) {
  Plans plans(1);
  plans.plain = {1'500'000'000, 1'500'000'000, 2000};
  StepFit found = fit(plans, 2'000'000'000);
  EXPECT_EQ(plans.kept, 0u);
  EXPECT_EQ(found.bytes, plans.all[0].packed);
  EXPECT_EQ(plans.planned, 1);
  EXPECT_EQ(plans.mostRoom, 0);
}

TEST(StepFit, APlanForLessMayBeFaster) {
  // Where the step without changes does not fit.
  Plans plans(1);
  constexpr int64_t kBudget = 1'000'000'000;
  plans.all[0].packed = kBudget / 256 * 256;
  size_t less = 0;
  while (plans.all[less].need > kBudget / 64 * 61)
    ++less;
  plans.all[less].time = 900;
  plans.all[less].packed = plans.all[less].need / 256 * 256;
  StepFit found = fit(plans, kBudget);
  EXPECT_TRUE(found.fits());
  EXPECT_EQ(plans.kept, less);
}

TEST(StepFit, RoomIsLeftWhereAnArenaDoesNotFit) {
  // A sixteenth of it saves what is missing, and is quicker than another plan.
  Plans plans(1);
  plans.all[0].packed = 1'040'000'000 / 256 * 256;
  int64_t budget = plans.all[0].packed - 5'000'000;
  StepFit found = fit(plans, budget);
  EXPECT_TRUE(found.fits());
  EXPECT_EQ(plans.kept, 0u);
  EXPECT_EQ(plans.mostRoom, plans.all[0].packed / 16);
}

/// Beside a plan whose order is far from what it could take, one for hardly
/// more memory, that fits all the same, is much faster.
TEST(StepFit, PlansBesideAreTriedWhereAnOrderIsFarFromItsBound) {
  for (Time slack : {10, 100}) {
    Plans plans(1);
    plans.all = {{1'001'000'000, 990'000'000, 1000, 10},
                 {980'000'000, 990'000'000, 1100, slack}};
    EXPECT_TRUE(fit(plans, 1'000'000'000).fits());
    EXPECT_EQ(plans.kept, slack == 100 ? 0u : 1u);
  }
}

/// How many plans are made where the first takes 1000, does not fit, and no
/// order of it does, but the second, for less, takes @time and fits.
int countPlans(Time time) {
  Plans plans(1);
  plans.all.resize(3);
  plans.all[0] = {980'000'000, 1'020'000'000, 1000};
  plans.all[1] = {800'000'000, 800'000'000, time};
  plans.all[2] = {600'000'000, 600'000'000, 2 * time};
  StepFit found = fit(plans, 990'000'000);
  EXPECT_EQ(plans.kept, 1u);
  EXPECT_EQ(found.bytes, plans.all[1].packed);
  return plans.planned;
}

TEST(StepFit, NothingIsLookedForBeyondWhatDidNotFit) {
  int settled = countPlans(1001), open = countPlans(1500);
  EXPECT_LT(settled, open);
}

/// What is planned for 990 MB takes 1000 and does not fit, nor does any order
/// of it; what is planned for less takes @less and fits. So does what does
/// without one of two kinds of decisions, and takes @without.
Plans getPlansWithout(Time less, Time without) {
  Plans plans(1);
  plans.all = {{980'000'000, 1'020'000'000, 1000},
               {800'000'000, 800'000'000, less}};
  plans.kinds = {PlanDecision::Recompute, PlanDecision::Offload};
  plans.without = {970'000'000, 980'000'000, without};
  return plans;
}

TEST(StepFit, WhatPlansDoIsLeftOutWhereTheyDoNotFit) {
  Plans plans = getPlansWithout(1200, 1010);
  EXPECT_TRUE(fit(plans, 990'000'000).fits());
  EXPECT_EQ(plans.kept, plans.kWithout);
  // With the first of them it is about as fast as it gets.
  EXPECT_EQ(plans.leftOut.size(), 1u);
}

TEST(StepFit, WhatDoesWithoutIsKeptOnlyWhereItIsFaster) {
  Plans plans = getPlansWithout(1200, 1201);
  EXPECT_TRUE(fit(plans, 990'000'000).fits());
  EXPECT_EQ(plans.kept, 1u);
  EXPECT_EQ(plans.leftOut, plans.kinds);
}

TEST(StepFit, NothingIsLeftOutWhereLittleCanBeGained) {
  Plans plans = getPlansWithout(1030, 1001);
  EXPECT_TRUE(fit(plans, 990'000'000).fits());
  EXPECT_EQ(plans.kept, 1u);
  EXPECT_TRUE(plans.leftOut.empty());
}

TEST(StepFit, TheStepWithoutChangesIsKeptWhereItIsFaster) {
  for (Time time : {999, 1001}) {
    Plans plans(1);
    plans.plain = {900'000'000, 900'000'000, time};
    EXPECT_TRUE(fit(plans, 2'000'000'000).fits());
    EXPECT_EQ(plans.kept, time < 1000 ? plans.all.size() : 0);
  }
}

TEST(StepFit, FSDPsOrderIsKeptWhereItPacksAndIsFaster) {
  // By the model it does not fit.
  for (int64_t bytes : {1'010'000'000, 1'020'000'000})
    for (Time time : {1000, 1100}) {
      Plans plans(1);
      plans.all = {{900'000'000, 900'000'000, 1050}};
      plans.plain.need = 1'020'000'000;
      plans.fsdp = {bytes, time};
      EXPECT_TRUE(fit(plans, 1'015'000'000).fits());
      bool isBetter = bytes < 1'015'000'000 && time < 1050;
      EXPECT_EQ(plans.kept, isBetter ? plans.all.size() : 0u);
    }
}

TEST(StepFit, FSDPsOrderIsKeptWhereNothingMayBePlanned) {
  for (Time time : {1000, 1100}) {
    Plans plans(1);
    plans.all = {{900'000'000, 900'000'000, 1050}};
    plans.plain = plans.all[0];
    plans.isPlain = true;
    plans.fsdp = {950'000'000, time};
    EXPECT_TRUE(fit(plans, 1'000'000'000).fits());
    EXPECT_EQ(plans.kept, time < 1050 ? plans.all.size() : 0u);
  }
}

/// Two plans fit; with more care they take less, the second even less than the
/// first, or do not pack any more.
TEST(StepFit, TheBestAreRefined) {
  constexpr int64_t kBudget = 1'000'000'000;
  for (int64_t bytes : {995'000'000, 1'001'000'000})
    for (Time first : {1040, 1060})
      for (Time second : {1030, 1050}) {
        Plans plans(1);
        plans.all = {{990'000'000, 990'000'000, 1050, 100},
                     {950'000'000, 950'000'000, 1055, 100}};
        plans.plain.need = 2 * kBudget;
        plans.refined = {{bytes, first}, {960'000'000, second}};
        StepFit found = fit(plans, kBudget);
        bool isFirst = bytes <= kBudget && first < second;
        bool isSecond = !isFirst && second < 1050;
        EXPECT_EQ(plans.kept, isSecond ? 1u : 0u);
        EXPECT_EQ(found.bytes, isFirst    ? bytes
                               : isSecond ? 960'000'000
                                          : plans.all[0].packed / 256 * 256);
      }
}

/// The step without changes may fit, and be the best, only when refined.
TEST(StepFit, TheStepWithoutChangesIsRefinedToo) {
  constexpr int64_t kBudget = 1'000'000'000;
  for (bool isPlain : {false, true}) {
    Plans plans(1);
    plans.all = {{990'000'000, 1'030'000'000, 1000, 100},
                 {900'000'000, 900'000'000, 1050, 100}};
    plans.isPlain = isPlain;
    plans.plain = {990'000'000, 1'030'000'000, 1000, 100};
    size_t place = isPlain ? 0 : plans.all.size();
    plans.refined.assign(place + 1, {2 * kBudget, 2000});
    plans.refined[place] = {995'000'000, 990};
    EXPECT_EQ(fit(plans, kBudget).bytes, 995'000'000);
    EXPECT_EQ(plans.kept, place);
  }
}

/// Whatever leads to what fits: also that a smaller budget did.
TEST(StepFit, WhatFitsIsRefined) {
  for (unsigned seed = 0; seed != 300; ++seed) {
    auto makePlans = [&] {
      Plans plans(seed, /*far=*/true);
      for (Plans::Plan &plan : plans.all)
        plan.slack = plan.time / 16;
      return plans;
    };
    Plans asked = makePlans();
    int64_t least = fit(asked, 1).leastBudget;
    for (int64_t budget : {least, least + least / 50}) {
      Plans plans = makePlans();
      StepFit found = fit(plans, budget);
      if (found.fits()) {
        EXPECT_GT(plans.refinements, 0) << "seed " << seed;
        EXPECT_LE(found.bytes, budget);
      }
    }
  }
}

TEST(StepFit, NothingIsRefinedWhereNothingFits) {
  Plans plans(1);
  EXPECT_FALSE(fit(plans, 1).fits());
  EXPECT_EQ(plans.refinements, 0);
}

TEST(StepFit, WhatIsKeptFits) {
  for (unsigned seed = 0; seed != 200; ++seed)
    for (int64_t budget = 400'000'000; budget <= 1'200'000'000;
         budget += 50'000'000) {
      Plans plans(seed, /*far=*/seed % 2);
      StepFit found = fit(plans, budget);
      if (!found.fits())
        continue;
      EXPECT_LE(found.bytes, plans.all[plans.kept].packed);
      EXPECT_LE(found.bytes, budget);
    }
}

TEST(StepFit, ARefusalDependsOnTheStepAloneAndNoBudgetAboveItIsRefused) {
  for (unsigned seed = 0; seed != 500; ++seed) {
    Plans plans(seed, /*far=*/seed % 2);
    int64_t least = fit(plans, 1).leastBudget;
    ASSERT_GT(least, 0);
    for (int64_t part : {1, 2, 4, 16, 64, 1000}) {
      int64_t budget = least - least / part;
      if (StepFit other = fit(plans, budget); !other.fits()) {
        EXPECT_EQ(other.leastBudget, least) << "seed " << seed;
      }
      budget = least + least / 2 / part;
      EXPECT_TRUE(fit(plans, budget).fits())
          << "seed " << seed << ", " << budget;
    }
    EXPECT_TRUE(fit(plans, least).fits()) << "seed " << seed;
    EXPECT_FALSE(fit(plans, least - 256).fits()) << "seed " << seed;
  }
}

} // namespace
