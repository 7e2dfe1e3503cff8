//===- GuardTest.cpp - Memory outside of its planned life -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Guard.h"
#include "FunctionStep.h"
#include "channels/local/LocalBackend.h"
#include "hal/CallRules.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>

namespace {

using namespace fsdp::rt;
using fsdp::test::compute;
using fsdp::test::runStep;
using fsdp::test::TestRank;
using fsdp::test::TestRankOptions;
using hal::checkCall;
using hal::Layout;

constexpr int64_t arenaBytes = 1 << 14, border = 256, count = 64;
constexpr int64_t bytes = count * 4;
/// State, and the place of what moves.
constexpr int64_t stateAt = 0, bufferAt = 4096;

/// A guard of some buffers, and the memory of its descriptors.
class Guard {
public:
  explicit Guard(const char *name) { desc.name = name; }
  Guard &add(int32_t action, const char *name, int64_t offset,
             int64_t size = bytes, int64_t behind = border,
             int32_t memory = FSDP_RT_DEVICE) {
    parts.push_back({name, offset, size, behind, action, memory});
    return *this;
  }
  fsdp_rt_guard_desc &get() {
    pointers.clear();
    for (fsdp_rt_guarded_desc &part : parts)
      pointers.push_back(&part);
    desc.buffers = pointers.data();
    desc.buffer_count = int64_t(pointers.size());
    return desc;
  }
  int32_t operator()(fsdp_rt_context *ctx) {
    return fsdp_rt_guard(ctx, &get());
  }

private:
  fsdp_rt_guard_desc desc = {};
  std::vector<fsdp_rt_guarded_desc> parts;
  std::vector<fsdp_rt_guarded_desc *> pointers;
};

/// The guards of two buffers that take one place in turn.
struct Program {
  Guard entry{"the step's begin"}, first{"k1 (op 1)"}, afterFirst{"k2 (op 2)"},
      second{"k3 (op 3)"}, afterSecond{"k4 (op 4)"};

  Program() {
    entry.add(FSDP_RT_GUARD_FILL, "all", bufferAt, arenaBytes - bufferAt, 0);
    first.add(FSDP_RT_GUARD_BEGIN, "result 0 of k1 (op 1)", bufferAt);
    afterFirst.add(FSDP_RT_GUARD_END, "result 0 of k1 (op 1)", bufferAt);
    second.add(FSDP_RT_GUARD_BEGIN, "result 0 of k3 (op 3)", bufferAt);
    afterSecond.add(FSDP_RT_GUARD_END, "result 0 of k3 (op 3)", bufferAt);
  }
};

using Act = std::function<void(char *arena)>;

/// Runs two steps of it; `inLife` and `between` touch the arena while the first
/// buffer lives and while none does.
Status run(const Act &inLife, const Act &between) {
  LocalBackendOptions local;
  local.ranks = 1;
  auto backend = createLocalBackend(local);
  EXPECT_TRUE(backend.isOk());
  return (*backend)->run([&](World &world) -> Status {
    TestRankOptions options;
    options.arenaBytes = arenaBytes;
    options.groups = {{0}};
    auto context = TestRank::create(world, options);
    if (!context.isOk())
      return context.status();
    char *arena = (*context)->arena();
    Program program;
    for (int step = 0; step < 2; ++step)
      if (Status s = runStep(**context, [&](fsdp_rt_context *ctx) -> int32_t {
            if (program.entry(ctx) || program.first(ctx))
              return 1;
            compute(ctx, [=] {
              std::memset(arena + bufferAt, 1, bytes);
              inLife(arena);
            });
            if (program.afterFirst(ctx))
              return 1;
            compute(ctx, [=] { between(arena); });
            if (program.second(ctx))
              return 1;
            compute(ctx, [=] { std::memset(arena + bufferAt, 2, bytes); });
            return program.afterSecond(ctx);
          }))
        return s;
    return Status::ok();
  });
}

void expectFailure(const Status &status, const std::string &message) {
  EXPECT_EQ(status.code(), Code::Failed);
  EXPECT_EQ(status.message(), message);
}

TEST(Guard, LetsWhatKeepsToItsLifePass) {
  Status status = run([](char *) {}, [](char *) {});
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Guard, FillsWhatHasDiedWithNaN) {
  bool seen = false;
  Status status = run([](char *) {},
                      [&](char *arena) {
                        for (int64_t i = 0; i < count; ++i) {
                          float value;
                          std::memcpy(&value, arena + bufferAt + 4 * i, 4);
                          EXPECT_TRUE(std::isnan(value)) << i;
                        }
                        seen = true;
                      });
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_TRUE(seen);
}

TEST(Guard, FindsAWriteAfterDeath) {
  // The last byte, and a single bit.
  expectFailure(
      run([](char *) {},
          [](char *arena) { arena[bufferAt + bytes - 1] = '\xfe'; }),
      "guard at k3 (op 3): expected nobody to write to result 0 of k3 (op 3) "
      "(256 bytes at 4096 of the arena) before its life begins, got byte 0xfe "
      "at 4351");
}

TEST(Guard, FindsAnOverrun) {
  const char *message =
      "guard at k2 (op 2): expected nobody to write to the 256 bytes behind "
      "result 0 of k1 (op 1) (256 bytes at 4096 of the arena), got byte 0x07 "
      "at ";
  for (int64_t at : {bufferAt + bytes, bufferAt + bytes + border - 1})
    expectFailure(run([&](char *arena) { arena[at] = 7; }, [](char *) {}),
                  message + std::to_string(at));
  // What lies behind the border is another's.
  Status status = run([](char *arena) { arena[bufferAt + bytes + border] = 7; },
                      [](char *) {});
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Guard, KeepsWhatTheNextStepNeeds) {
  std::vector<char> arena(arenaBytes, 3);
  RankMemory memory = {arena.data()};
  Guard fill("begin"), keep("end");
  fill.add(FSDP_RT_GUARD_FILL, "border", stateAt + bytes, border, 0);
  keep.add(FSDP_RT_GUARD_KEEP, "argument 0", stateAt);
  ASSERT_TRUE(runGuard(fill.get(), memory).isOk());
  ASSERT_TRUE(runGuard(keep.get(), memory).isOk());
  for (int64_t i = 0; i < bytes; ++i)
    EXPECT_EQ(arena[size_t(stateAt + i)], 3);
  arena[size_t(stateAt + bytes)] = 3;
  expectFailure(runGuard(keep.get(), memory),
                "guard at end: expected nobody to write to the 256 bytes "
                "behind argument 0 (256 bytes at 0 of the arena), got byte "
                "0x03 at 256");
}

TEST(Guard, LooksIntoTheMemoryOfTheHost) {
  std::vector<char> arena(arenaBytes, 3), host(1024, 3);
  RankMemory memory = {arena.data(), host.data()};
  Layout layout;
  layout.memory = {arenaBytes, 1024};
  Guard fill("begin"), begin("offload"), end("reload");
  fill.add(FSDP_RT_GUARD_FILL, "all", 0, 1024, 0, FSDP_RT_HOST);
  begin.add(FSDP_RT_GUARD_BEGIN, "one", 256, 256, 256, FSDP_RT_HOST);
  end.add(FSDP_RT_GUARD_END, "one", 256, 256, 256, FSDP_RT_HOST);
  ASSERT_TRUE(checkCall(begin.get(), layout).isOk());
  ASSERT_TRUE(runGuard(fill.get(), memory).isOk());
  EXPECT_EQ(arena[256], 3);
  ASSERT_TRUE(runGuard(begin.get(), memory).isOk());
  host[256] = 3;
  ASSERT_TRUE(runGuard(end.get(), memory).isOk());
  EXPECT_EQ(host[256], char(0xff));
  host[512] = 3;
  expectFailure(runGuard(end.get(), memory),
                "guard at reload: expected nobody to write to the 256 bytes "
                "behind one (256 bytes at 256 of the host's arena), got byte "
                "0x03 at 512");
  Guard outside("op"), nowhere("op");
  outside.add(FSDP_RT_GUARD_FILL, "all", 0, 1025, 0, FSDP_RT_HOST);
  EXPECT_EQ(checkCall(outside.get(), layout).code(), Code::Internal);
  nowhere.add(FSDP_RT_GUARD_FILL, "all", 0, 1, 0, 2);
  EXPECT_EQ(checkCall(nowhere.get(), layout).message(),
            "expected memory of the device or the host, got 2");
}

TEST(Guard, RefusesWhatIsOutsideOfTheArena) {
  Layout layout;
  layout.memory = {arenaBytes};
  for (auto [offset, size, behind] : {std::array<int64_t, 3>{-1, 1, 0},
                                      {arenaBytes, 1, 0},
                                      {0, arenaBytes, 1},
                                      {0, -1, 0},
                                      {0, 1, -1},
                                      {arenaBytes + 1, 0, 0}}) {
    Guard guard("op");
    guard.add(FSDP_RT_GUARD_FILL, "buffer", offset, size, behind);
    Status status = checkCall(guard.get(), layout);
    EXPECT_EQ(status.code(), Code::Internal) << offset;
  }
  Guard guard("op");
  guard.add(4, "buffer", 0);
  EXPECT_EQ(checkCall(guard.get(), layout).message(),
            "expected an action from 0 to 3, got 4");
  Guard whole("op");
  whole.add(FSDP_RT_GUARD_FILL, "buffer", 0, arenaBytes, 0);
  EXPECT_TRUE(checkCall(whole.get(), layout).isOk());
}

//===----------------------------------------------------------------------===//
// Around transfers
//===----------------------------------------------------------------------===//

constexpr int64_t gatheredAt = 8192;

/// Two gathers of one queue, of two ranks, before compute waits for either.
/// `shift` moves the second one's result, `late` does what compute does
/// meanwhile.
Status runTransfers(QueueThreads threads, int64_t shift, const Act &late) {
  LocalBackendOptions local;
  local.ranks = 2;
  auto backend = createLocalBackend(local);
  EXPECT_TRUE(backend.isOk());
  return (*backend)->run([&](World &world) -> Status {
    TestRankOptions options;
    options.arenaBytes = arenaBytes;
    options.groups = {{0, 1}};
    options.events = 2;
    options.queues = {FSDP_RT_QUEUE_ALL_GATHER};
    options.queueThreads = threads;
    auto context = TestRank::create(world, options);
    if (!context.isOk())
      return context.status();
    char *arena = (*context)->arena();
    fsdp_rt_collective_desc part = {};
    part.name = "all_gather";
    part.src = stateAt;
    part.dst = gatheredAt;
    part.count = count;
    part.divisor = 1;
    part.dtype = FSDP_RT_F32;
    fsdp_rt_collective_desc other = part;
    other.src = gatheredAt;
    other.dst = gatheredAt + 4 * bytes - shift;
    const fsdp_rt_collective_desc *parts[] = {&part, &other};
    fsdp_rt_start_desc start[2] = {};
    for (int i : {0, 1}) {
      start[i].name = "all_gather";
      start[i].parts = &parts[i];
      start[i].part_count = 1;
      start[i].event = i;
      start[i].kind = FSDP_RT_ALL_GATHER;
      start[i].queue = FSDP_RT_QUEUE_ALL_GATHER;
    }
    // The first one's result dies with the second transfer, which reads it.
    Guard entry("the step's begin"), first("all_gather (op 0)"),
        second("all_gather (op 1)"), end("wait (op 3)");
    entry.add(FSDP_RT_GUARD_FILL, "all", gatheredAt, arenaBytes - gatheredAt,
              0);
    first.add(FSDP_RT_GUARD_BEGIN, "one", part.dst, 2 * bytes);
    second.add(FSDP_RT_GUARD_BEGIN, "two", other.dst, 2 * bytes);
    second.add(FSDP_RT_GUARD_END, "one", part.dst, 2 * bytes);
    end.add(FSDP_RT_GUARD_BEGIN, "one's place", part.dst, 2 * bytes);
    end.add(FSDP_RT_GUARD_END, "two", other.dst, 2 * bytes);
    start[0].guard = &first.get();
    start[1].guard = &second.get();
    for (int step = 0; step < 3; ++step) {
      std::memset(arena + stateAt, 5, bytes);
      fsdp_rt_wait_desc wait = {"all_gather", 1}, before = {"all_gather", 0};
      if (Status s = runStep(**context, [&](fsdp_rt_context *ctx) -> int32_t {
            if (int32_t code = entry(ctx))
              return code;
            if (int32_t code = fsdp_rt_start(ctx, &start[0]))
              return code;
            if (int32_t code = fsdp_rt_start(ctx, &start[1]))
              return code;
            if (int32_t code = fsdp_rt_wait(ctx, &before))
              return code;
            if (int32_t code = fsdp_rt_wait(ctx, &wait))
              return code;
            compute(ctx, [=] {
              // The second came behind the first's end of its life.
              EXPECT_EQ(arena[other.dst], 5);
              EXPECT_EQ(arena[part.dst], '\xff');
              late(arena);
            });
            return end(ctx);
          }))
        return s;
    }
    return Status::ok();
  });
}

TEST(Guard, BeginsAndEndsLivesOnQueues) {
  for (QueueThreads threads : {QueueThreads::Off, QueueThreads::On}) {
    Status status = runTransfers(threads, 0, [](char *) {});
    EXPECT_TRUE(status.isOk()) << status.message();
    // Of whichever rank is first.
    status = runTransfers(threads, 0,
                          [](char *arena) { arena[gatheredAt + 1] = 0; });
    EXPECT_EQ(status.code(), Code::Failed);
    EXPECT_NE(status.message().find(
                  "guard at wait (op 3): expected nobody to write to one's "
                  "place (512 bytes at 8192 of the arena) before its life "
                  "begins, got byte 0x00 at 8193"),
              std::string::npos)
        << status.message();
  }
}

TEST(Guard, FindsTransfersThatShareBytes) {
  // The second one's result overlaps the first one's, which it reads.
  for (QueueThreads threads : {QueueThreads::Off, QueueThreads::On}) {
    Status status = runTransfers(threads, 2 * bytes + 256, [](char *) {});
    EXPECT_EQ(status.code(), Code::Failed);
    EXPECT_NE(status.message().find("guard at all_gather (op 1): expected "
                                    "nobody to write to two (512 bytes at 8448 "
                                    "of the arena) before its life begins, got "
                                    "byte 0x05 at 8448"),
              std::string::npos)
        << status.message();
  }
}

TEST(Guard, RefusesStartsThatGuardWhatIsNotThere) {
  LocalBackendOptions local;
  local.ranks = 1;
  auto backend = createLocalBackend(local);
  ASSERT_TRUE(backend.isOk());
  Status status = (*backend)->run([&](World &world) -> Status {
    TestRankOptions options;
    options.arenaBytes = arenaBytes;
    options.groups = {{0}};
    auto context = TestRank::create(world, options);
    if (!context.isOk())
      return context.status();
    Guard guard("op");
    guard.add(FSDP_RT_GUARD_BEGIN, "one", arenaBytes - bytes);
    fsdp_rt_collective_desc part = {};
    part.name = "all_gather";
    part.dst = gatheredAt;
    part.count = count;
    part.divisor = 1;
    const fsdp_rt_collective_desc *parts[] = {&part};
    fsdp_rt_start_desc start = {};
    start.name = "all_gather";
    start.parts = parts;
    start.part_count = 1;
    start.event = -1;
    start.guard = &guard.get();
    return runStep(**context, [&](fsdp_rt_context *ctx) {
      return fsdp_rt_start(ctx, &start);
    });
  });
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("start 'all_gather': guard: expected a "
                                  "buffer and"),
            std::string::npos)
      << status.message();
}

} // namespace
