//===- BoundTest.cpp - What a step computes, and takes at least -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "data/StepWork.h"

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

json bounded() {
  json manifest = makeManifest(2, 2, {{"a", "F32", {{"a.w", {4}}}}});
  json &program = manifest["programs"][0];
  program["flops"] = 3000;
  program["bound"] = {{"ns", 1500},
                      {"limit", "compute"},
                      {"machine", "some-machine"},
                      {"peak_flops", 1000000000}};
  return manifest;
}

TEST(Bound, ABoundSaysWhatAStepTakesAtLeast) {
  EXPECT_FALSE(parsed(makeManifest(2, 2, {})).train().flops.has_value());
  EXPECT_FALSE(parsed(makeManifest(2, 2, {})).train().bound.has_value());
  Program m = parsed(bounded()).train();
  EXPECT_EQ(m.flops, 3000);
  ASSERT_TRUE(m.bound.has_value());
  EXPECT_EQ(m.bound->ns, 1500);
  EXPECT_EQ(m.bound->limit, "compute");
  EXPECT_EQ(m.bound->machine, "some-machine");
  EXPECT_EQ(m.bound->peakFlops, 1000000000);
}

TEST(Bound, RefusesABoundThatIsNone) {
  auto refuse = [](const char *pointer, json value, const char *message) {
    json manifest = bounded();
    manifest["programs"][0][json::json_pointer(pointer)] = std::move(value);
    EXPECT_CONTAINS(messageOf(parseManifest(manifest.dump())),
                    std::string("manifest: programs[0].") + message);
  };
  refuse("/flops", -1, "flops: expected");
  refuse("/flops", 1.5, "flops: expected");
  refuse("/bound", 1500, "bound");
  refuse("/bound/ns", -1, "bound.ns: expected");
  refuse("/bound/ns", "1500", "bound.ns: expected");
  refuse("/bound/limit", "", "bound.limit: expected");
  refuse("/bound/machine", nullptr, "bound.machine: expected");
  refuse("/bound/peak_flops", 0, "bound.peak_flops: expected");
  json incomplete = bounded();
  incomplete["programs"][0]["bound"].erase("limit");
  EXPECT_CONTAINS(messageOf(parseManifest(incomplete.dump())), "'limit'");
}

TEST(Bound, BoundsAreOfOneMachine) {
  json manifest = bounded();
  json other = manifest["programs"][0];
  other["name"] = "evaluate";
  other["kind"] = "eval";
  other["outputs"].erase(1);
  manifest["programs"].push_back(other);
  EXPECT_EQ(parsed(manifest).programs[1].bound->ns, 1500);
  manifest["programs"][1]["bound"]["machine"] = "other";
  EXPECT_CONTAINS(messageOf(parseManifest(manifest.dump())),
                  "manifest: programs[1].bound.machine: expected "
                  "'some-machine', as of train, got 'other'");
}

Program program(Program::Kind kind, int64_t flops, int64_t ns,
                const char *limit) {
  Program program;
  program.kind = kind;
  program.flops = flops;
  program.bound = Bound{ns, limit, "some-machine", 1000000000};
  return program;
}

Manifest accumulating() {
  Manifest manifest;
  manifest.programs = {
      program(Program::Kind::Train, 5000, 12300000, "compute"),
      program(Program::Kind::Accumulate, 4000, 10000000, "compute"),
      program(Program::Kind::TrainAccumulated, 5000, 21000000,
              "the reduce queue")};
  return manifest;
}

TEST(StepWork, OfOneBatch) {
  StepWork work = stepWork(accumulating(), 1);
  EXPECT_EQ(*work.flops, 5000);
  EXPECT_DOUBLE_EQ(*work.boundSeconds, 12.3e-3);
  EXPECT_DOUBLE_EQ(*work.secondsAtPeak, 5e-6);
  EXPECT_EQ(describeBound(work),
            "bound: 12.300 ms on some-machine, limited by compute");
}

TEST(StepWork, OfMicroBatchesIsTheirSum) {
  StepWork work = stepWork(accumulating(), 4);
  EXPECT_EQ(*work.flops, 3 * 4000 + 5000);
  EXPECT_DOUBLE_EQ(*work.boundSeconds, 51e-3);
  EXPECT_DOUBLE_EQ(*work.secondsAtPeak, 17e-6);
  EXPECT_EQ(describeBound(work),
            "bound: 51.000 ms on some-machine, limited by compute");
  // The limit of what takes most.
  EXPECT_EQ(stepWork(accumulating(), 2).limit, "the reduce queue");
  // The first one may have a program of its own, which gathers for the others.
  Manifest gathering = accumulating();
  gathering.programs.push_back(program(Program::Kind::AccumulateFirst, 4500,
                                       11000000, "the all_gather queue"));
  EXPECT_EQ(*stepWork(gathering, 4).flops, 4500 + 2 * 4000 + 5000);
  EXPECT_EQ(*stepWork(gathering, 2).flops, 4500 + 5000);
}

TEST(StepWork, IsUnknownWhereAPartIs) {
  Manifest manifest = accumulating();
  manifest.programs[2].bound->peakFlops.reset();
  StepWork work = stepWork(manifest, 2);
  EXPECT_TRUE(work.flops && work.boundSeconds);
  EXPECT_FALSE(work.secondsAtPeak);
  manifest.programs[2].bound.reset();
  work = stepWork(manifest, 2);
  EXPECT_TRUE(work.flops);
  EXPECT_FALSE(work.boundSeconds);
  EXPECT_EQ(describeBound(work), "");
  manifest.programs[2].flops.reset();
  EXPECT_FALSE(stepWork(manifest, 2).flops);
  // The other programs have both.
  EXPECT_TRUE(stepWork(manifest, 1).secondsAtPeak);
}

} // namespace
