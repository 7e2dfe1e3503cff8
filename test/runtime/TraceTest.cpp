//===- TraceTest.cpp - Files that show where a step's time went -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/Trace.h"

#include "FunctionStep.h"
#include "channels/local/LocalBackend.h"
#include "program/Recorder.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace {

using namespace fsdp::rt;
using fsdp::test::inOrder;
using fsdp::test::TestRank;
using fsdp::test::TestRankOptions;
using Json = nlohmann::json;

CallRecord call(const void *site, const char *name, CallKind kind,
                int64_t begin, int64_t end, int64_t flops = 0) {
  return {site, name, kind, 0, begin, end, 0, 100, flops};
}

class TraceTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/fsdp-trace-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string &name) const {
    return directory_ + "/" + name;
  }
  Json read(const std::string &name) const {
    std::ifstream file(path(name));
    return Json::parse(file);
  }
  size_t filesLeft() const {
    size_t count = 0;
    for (auto &entry : std::filesystem::directory_iterator(directory_))
      count += entry.exists();
    return count;
  }
  std::string directory_;
};

TEST(Recorder, AddsUpByNameInOrderOfFirstCall) {
  Recorder recorder(true, 0);
  ASSERT_TRUE(recorder.isEnabled());
  int a = 0, b = 0, c = 0;
  recorder.record(call(&a, "late", CallKind::Launch, 0, 10));
  recorder.record(call(&b, "early", CallKind::Matmul, 10, 30, 500));
  recorder.record(call(&c, "late", CallKind::Launch, 30, 33));
  recorder.record(call(&a, "late", CallKind::Launch, 40, 45));
  std::vector<ProfileRow> rows = recorder.profile();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "late");
  EXPECT_EQ(rows[0].calls, 3);
  EXPECT_EQ(rows[0].nanoseconds, 18);
  // The fastest call of each site: 5 of a, 3 of c.
  EXPECT_EQ(rows[0].best, 8);
  EXPECT_EQ(rows[0].bytes, 300);
  EXPECT_EQ(rows[1].name, "early");
  EXPECT_EQ(rows[1].flops, 500);
  EXPECT_EQ(rows[1].kind, CallKind::Matmul);
  EXPECT_TRUE(recorder.trace().empty());
}

TEST(Recorder, CallSitesBeyondTheTableShareARow) {
  Recorder recorder(true, 0);
  std::vector<char> sites(size_t(Recorder::maxSites) + 10);
  for (char &site : sites)
    recorder.record(call(&site, "x", CallKind::Copy, 0, 1));
  recorder.record(call(&sites[0], "x", CallKind::Copy, 0, 1));
  std::vector<ProfileRow> rows = recorder.profile();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].calls, Recorder::maxSites + 1);
  EXPECT_EQ(rows[1].name, "(other call sites)");
  EXPECT_EQ(rows[1].calls, 10);
}

TEST(Recorder, KeepsTheFirstEventsAndCountsTheRest) {
  Recorder recorder(false, 3);
  ASSERT_TRUE(recorder.isEnabled());
  for (int i = 0; i < 5; ++i)
    recorder.record(call(&recorder, "x", CallKind::Launch, i, i + 1));
  EXPECT_EQ(recorder.trace().size(), 3u);
  EXPECT_EQ(recorder.droppedEvents(), 2);
  EXPECT_TRUE(recorder.profile().empty());
  EXPECT_FALSE(Recorder(false, 0).isEnabled());
}

TraceHeader ofRank(int rank) {
  TraceHeader header;
  header.rank = rank;
  header.worldSize = 4;
  return header;
}

TEST_F(TraceTest, TraceIsWhatBrowsersOpen) {
  Recorder recorder(false, 2);
  recorder.record(call(this, "ln \"1\"\n\xff", CallKind::Launch, 5000, 7500));
  recorder.record(call(this, "mm", CallKind::Matmul, 8000, 9000, 4000));
  recorder.record(call(this, "lost", CallKind::Copy, 9000, 9001));
  ASSERT_TRUE(writeTrace(path("rank-3.json"), ofRank(3), recorder).isOk());
  Json trace = read("rank-3.json");
  EXPECT_EQ(trace["droppedEvents"], 1);
  EXPECT_EQ(trace["distributedInfo"]["rank"], 3);
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 4);
  EXPECT_EQ(trace["baseTimeNanoseconds"], 5000);
  std::vector<Json> kernels;
  for (const Json &event : trace["traceEvents"])
    if (event["ph"] == "X" && event.value("cat", "") == "kernel")
      kernels.push_back(event);
    else if (event.value("cat", "") == "user_annotation")
      EXPECT_EQ(event["name"], "ProfilerStep#1");
  ASSERT_EQ(kernels.size(), 2u);
  const Json &first = kernels[0];
  EXPECT_EQ(first["name"], "ln \"1\"\n\xef\xbf\xbd");
  EXPECT_EQ(first["ph"], "X");
  EXPECT_EQ(first["ts"], 0.0);
  EXPECT_EQ(first["dur"], 2.5);
  EXPECT_EQ(first["pid"], 3);
  EXPECT_EQ(first["args"]["stream"], 0);
  EXPECT_EQ(first["args"]["correlation"], 1 << 17);
  const Json &second = kernels[1];
  EXPECT_EQ(second["ts"], 3.0);
  EXPECT_EQ(second["args"]["gflops_per_s"], 4.0);
  EXPECT_EQ(filesLeft(), 1u);
  // Readable by others, and an empty one is a file too.
  struct stat info;
  ASSERT_EQ(stat(path("rank-3.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  ASSERT_TRUE(
      writeTrace(path("rank-3.json"), ofRank(3), Recorder(false, 0)).isOk());
  EXPECT_TRUE(read("rank-3.json")["traceEvents"].empty());
}

/// A gather for event `event`, on a queue of its own unless that is negative.
struct Gather {
  explicit Gather(int64_t event) {
    desc.event = event;
    desc.kind = FSDP_RT_ALL_GATHER;
    desc.queue = event < 0 ? FSDP_RT_QUEUE_COMPUTE : FSDP_RT_QUEUE_ALL_GATHER;
    desc.parts = &parts;
    desc.part_count = 1;
  }
  CallRecord record(int64_t begin, int64_t end) const {
    return {&desc, "gather",   CallKind::Collective, 0,    begin, end, 0, 100,
            0,     desc.queue, FSDP_RT_ALL_GATHER,   begin};
  }

  fsdp_rt_collective_desc part = {"part", 0, 0, 1, 1, 0, FSDP_RT_F32};
  const void *parts = &part;
  fsdp_rt_start_desc desc = {};
};

TEST_F(TraceTest, KernelsAreOfTheUnitThatWasGatheredLast) {
  Gather first(0), last(-1);
  fsdp_rt_wait_desc wait = {"gathered", 0};
  Recorder recorder(false, 10);
  recorder.record(call(this, "early", CallKind::Launch, 0, 1));
  // A transfer is recorded where it is waited for.
  recorder.record(first.record(0, 2));
  recorder.record(call(&wait, "gathered", CallKind::Wait, 1, 2));
  recorder.record(call(this, "forward", CallKind::Matmul, 2, 3));
  recorder.record(last.record(3, 4));
  recorder.record(call(this, "backward", CallKind::Launch, 4, 5));
  TraceHeader header = ofRank(0);
  header.groupSizes = {4};
  header.certificate.emplace();
  header.certificate->transfers = {{"h.0", false}, {"h.1", true}};
  ASSERT_TRUE(writeTrace(path("rank-0.json"), header, recorder).isOk());
  std::map<std::string, Json> kernels;
  Json trace = read("rank-0.json");
  for (const Json &event : trace["traceEvents"])
    if (event.value("cat", "") == "kernel")
      kernels[event["name"]] = event["args"];
  EXPECT_FALSE(kernels["early"].contains("unit"));
  EXPECT_FALSE(kernels["early"].contains("phase"));
  EXPECT_EQ(kernels["forward"]["unit"], "h.0");
  EXPECT_EQ(kernels["forward"]["phase"], "forward");
  EXPECT_EQ(kernels["backward"]["unit"], "h.1");
  EXPECT_EQ(kernels["backward"]["phase"], "backward");
}

TEST_F(TraceTest, NothingIsLeftWhereNothingCanBeWritten) {
  Recorder recorder(false, 1);
  Status status = writeTrace(path("no/such/file"), {}, recorder);
  EXPECT_NE(status.message().find("no/such/file"), std::string::npos)
      << status.message();
  // A directory cannot be replaced by a file.
  ASSERT_EQ(mkdir(path("taken").c_str(), 0755), 0);
  EXPECT_FALSE(writeTrace(path("taken"), {}, recorder).isOk());
  EXPECT_EQ(filesLeft(), 1u);
}

TEST_F(TraceTest, LinksAndPipesStayWhatTheyAre) {
  ASSERT_EQ(symlink("behind.json", path("link.json").c_str()), 0);
  ASSERT_TRUE(writeTrace(path("link.json"), {}, Recorder(false, 1)).isOk());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.json")));
  EXPECT_EQ(read("behind.json")["droppedEvents"], 0);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(writeTrace(path("pipe"), {}, Recorder(false, 1)).isOk());
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  EXPECT_EQ(filesLeft(), 3u);
}

int32_t stepOf(fsdp_rt_context *ctx) {
  static const fsdp_rt_copy_desc copy = {"move", 0, 4096, 1024};
  static const fsdp_rt_collective_desc sum = {"bucket", 0, 4096,       256,
                                              2,        0, FSDP_RT_F32};
  return fsdp_rt_copy(ctx, &copy) || fsdp_rt_copy(ctx, &copy) ||
         inOrder(ctx, FSDP_RT_ALL_REDUCE, &sum);
}

TEST_F(TraceTest, ProfileNamesWhatTookTheTime) {
  LocalBackendOptions backendOptions;
  backendOptions.ranks = 2;
  auto backend = createLocalBackend(backendOptions);
  ASSERT_TRUE(backend.isOk());
  Status status = (*backend)->run([&](World &world) -> Status {
    TestRankOptions options;
    options.arenaBytes = 16384;
    options.groups = {{0, 1}};
    options.profile = true;
    options.traceEvents = 4;
    auto context = TestRank::create(world, options);
    if (!context.isOk())
      return context.status();
    fsdp_rt_program program = {"step", stepOf, nullptr};
    for (int i = 0; i < 3; ++i)
      if (Status s = (*context)->step(program))
        return s;
    EXPECT_EQ((*context)->recorder().trace().size(), 4u);
    EXPECT_EQ((*context)->recorder().trace()[3].step, 1);
    EXPECT_EQ((*context)->recorder().droppedEvents(), 5);
    std::string file =
        path("profile-" + std::to_string(world.rank()) + ".json");
    return writeProfile(file, world.rank(), (*context)->executor());
  });
  ASSERT_TRUE(status.isOk()) << status.message();
  Json profile = read("profile-1.json");
  EXPECT_EQ(profile["rank"], 1);
  EXPECT_EQ(profile["steps"], 3);
  EXPECT_GT(profile["times"]["total_ns"], 0);
  ASSERT_EQ(profile["traffic"].size(), 1u);
  EXPECT_EQ(profile["traffic"][0]["kind"], "all_reduce");
  EXPECT_EQ(profile["traffic"][0]["bytes"], 3 * 2 * 128 * 4);
  ASSERT_EQ(profile["calls"].size(), 2u);
  EXPECT_GE(profile["calls"][0]["ns"], profile["calls"][1]["ns"]);
  for (const Json &row : profile["calls"])
    EXPECT_EQ(row["calls"], row["name"] == "move" ? 6 : 3);
}

} // namespace
