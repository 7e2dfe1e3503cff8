//===- HostTest.cpp - What the machine offers -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Host.h"
#include "core/ThreadPool.h"
#include "core/Arena.h"

#include <gtest/gtest.h>

#include <sched.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace {

using namespace fsdp::rt;

TEST(Host, CoresAreThoseOfTheAffinityMask) {
  EXPECT_GE(availableCores(), 1);
  EXPECT_LE(availableCores(), int(std::thread::hardware_concurrency()));
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(availableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Host, MemoryIsPositive) { EXPECT_GT(memoryLimit(), int64_t(1) << 20); }

#if defined(__x86_64__)
TEST(Cpu, AcceptsWhatEveryX8664Has) {
  EXPECT_TRUE(checkCpu({}).isOk());
  EXPECT_TRUE(checkCpu({"64bit", "sse2", "cmov", "cx8", "fxsr", "x87"}).isOk());
}

TEST(Cpu, AgreesWithTheCompiler) {
  auto has = [](const char *name) { return checkCpu({name}).isOk(); };
  __builtin_cpu_init();
  EXPECT_EQ(has("avx2"), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(has("fma"), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(has("bmi2"), __builtin_cpu_supports("bmi2") != 0);
  EXPECT_EQ(has("popcnt"), __builtin_cpu_supports("popcnt") != 0);
  EXPECT_EQ(has("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(has("avx512bw"), __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(has("avx512vl"), __builtin_cpu_supports("avx512vl") != 0);
  EXPECT_EQ(has("avx512vnni"), __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(has("fma4"), __builtin_cpu_supports("fma4") != 0);
  EXPECT_EQ(has("xop"), __builtin_cpu_supports("xop") != 0);
}

TEST(Cpu, ListsAllThatIsMissingOrUnknown) {
  // Of two vendors: no processor has both.
  Status status =
      checkCpu({"sse2", "xop", "hreset", "no-such-thing", "", "lwp", "uintr"});
  ASSERT_FALSE(status.isOk());
  EXPECT_EQ(status.code(), Code::Failed);
  for (const char *part : {"lacks ", "no-such-thing", "unknown"})
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message();
  EXPECT_EQ(status.message().find("sse2"), std::string::npos);
}

TEST(Cpu, TuningIsNoFeature) {
  EXPECT_FALSE(checkCpu({"prefer-256-bit"}).isOk());
  EXPECT_FALSE(checkCpu({"+sse2"}).isOk());
}
#endif

TEST(Arena, IsAlignedZeroAndWritable) {
  for (int64_t bytes : {int64_t(1), int64_t(4096), int64_t(5) << 20}) {
    Result<Arena> arena = Arena::map(bytes, "arena");
    ASSERT_TRUE(arena.isOk()) << arena.status().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % (2 << 20), 0u);
    EXPECT_EQ(arena->size(), bytes);
    ThreadPool pool;
    ASSERT_TRUE(pool.start(2, false).isOk());
    arena->touch(pool);
    for (int64_t i = 0; i < bytes; ++i)
      ASSERT_EQ(arena->data()[i], 0);
    arena->data()[bytes - 1] = 1;
    Arena moved = std::move(*arena);
    EXPECT_EQ(moved.data()[bytes - 1], 1);
  }
}

#ifdef __linux__
TEST(Arena, AsksForHugePages) {
  // "never" refuses them; nobody has them where the file is not.
  std::ifstream modes("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string mode((std::istreambuf_iterator<char>(modes)), {});
  if (mode.empty() || mode.find("[never]") != std::string::npos)
    GTEST_SKIP() << "this system has no huge pages";
  Result<Arena> arena = Arena::map(int64_t(8) << 20, "arena");
  ASSERT_TRUE(arena.isOk()) << arena.status().message();
  // The mapping that begins at the arena, or around it, up to its flags.
  auto address = reinterpret_cast<uintptr_t>(arena->data());
  std::ifstream maps("/proc/self/smaps");
  bool isInside = false;
  std::string line, flags;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      isInside = begin <= address && address < end;
    else if (isInside && line.rfind("VmFlags:", 0) == 0)
      flags = line + " ";
  }
  EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
}
#endif

TEST(Arena, MayBeEmpty) {
  Result<Arena> arena = Arena::map(0, "arena");
  ASSERT_TRUE(arena.isOk());
  EXPECT_EQ(arena->size(), 0);
  ThreadPool pool;
  arena->touch(pool);
}

TEST(Arena, RefusesWhatTheHostCannotHold) {
  for (int64_t bytes : {int64_t(-1), int64_t(1) << 60}) {
    Result<Arena> arena = Arena::map(bytes, "arena");
    ASSERT_FALSE(arena.isOk());
    EXPECT_NE(arena.status().message().find("for the arena"), std::string::npos)
        << arena.status().message();
  }
}

} // namespace
