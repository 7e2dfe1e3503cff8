//===- CudaErrorsTest.cpp - What a CUDA device refuses --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Backends.h"
#include "devices/cuda/run/CudaDevice.h"
#include "devices/cuda/driver/DriverApi.h"
#include "devices/cuda/driver/Library.h"
#include "devices/cuda/driver/LibraryVersions.h"
#include "devices/cuda/nccl/RankCards.h"

#include <chrono>
#include <mutex>
#include <tuple>

namespace fsdp::test {
namespace {

using rt::Status;

TestRankOptions options() {
  TestRankOptions wanted;
  wanted.arenaBytes = 64 << 10;
  return wanted;
}

std::string messageOf(const Status &status) {
  EXPECT_FALSE(status.isOk());
  return status.message();
}

/// Of a program of one launch.
std::string failureOf(const CudaLaunch &launch) {
  return messageOf(onCuda(options(), [&](TestRank &rank) {
    return runStep(rank, [&](fsdp_rt_context *ctx) {
      return fsdp_rt_launch(ctx, &launch.desc);
    });
  }));
}

TEST(CudaErrors, DriversThatAreOfNoUse) {
  const std::string drivers = FSDP_TEST_BROKEN_DRIVERS;
  auto open = [&](const char *name) {
    return messageOf(rt::DriverApi::open({drivers + "/" + name}).status());
  };
  EXPECT_HAS(open("old"), "old/libcuda.so.1: expected a driver of CUDA 12.0 or "
                          "later, got 11.8");
  EXPECT_HAS(open("partial"), "partial/libcuda.so.1: expected a function "
                              "cuLaunchKernel, found none");
  EXPECT_HAS(open("empty"),
             "empty/libcuda.so.1: expected a CUDA device, got none");
  EXPECT_HAS(open("unfit"),
             "unfit/libcuda.so.1: cuInit: CUDA_ERROR_NO_DEVICE (no "
             "CUDA-capable device is detected)");
}

TEST(CudaErrors, LibrariesThatAreNowhere) {
  auto opened = rt::Library::open(
      "cuBLASLt", {"libfsdp-nowhere.so.13", "libfsdp-nowhere.so.12"},
      {"/nowhere", "/neither"});
  std::string message = messageOf(opened.status());
  EXPECT_HAS(message, "cannot open cuBLASLt: expected libfsdp-nowhere.so.13 or "
                      "libfsdp-nowhere.so.12 in /nowhere, /neither, or where "
                      "the system looks for libraries, got: "
                      "libfsdp-nowhere.so.13: cannot open shared object file");
}

TEST(CudaErrors, MemoryThatIsTooSmall) {
  TestRankOptions wanted = options();
  wanted.arenaBytes = int64_t(1) << 45;
  std::string message =
      messageOf(onCuda(wanted, [](TestRank &) { return Status::ok(); }));
  EXPECT_HAS(message, "expected an arena that fits the ");
  EXPECT_HAS(message, " free bytes (of ");
  EXPECT_HAS(message, "of device 0 (");
  EXPECT_HAS(message, "got 35184372088832 bytes");
}

TEST(CudaErrors, ImagesThatDoNotLoad) {
  fsdp_rt_cuda_image_desc broken = {"this is no PTX", 80, nullptr, 0, 0};
  std::string message =
      failureOf(CudaLaunch("broken", {{"add", 1, 1}}, {}, &broken));
  EXPECT_HAS(message, "launch 'broken': cannot load code on CUDA device 0 (");
  EXPECT_HAS(message, "cuModuleLoadDataEx: ");
  EXPECT_HAS(message, "; its log: ");
  fsdp_rt_cuda_image_desc later = {testKernels().ptx, 1000, nullptr, 0, 0};
  EXPECT_HAS(failureOf(CudaLaunch("later", {{"add", 1, 1}}, {}, &later)),
             "launch 'later': expected a CUDA device of sm_1000 or later, got "
             "sm_");
  EXPECT_HAS(failureOf(CudaLaunch("absent", {{"subtract", 1, 1}}, {})),
             "launch 'absent': function 'subtract': cuModuleGetFunction: "
             "CUDA_ERROR_NOT_FOUND");
}

/// PTX takes the place of machine code that is for another card, or that the
/// driver refuses, and it is told once.
TEST(CudaErrors, MachineCodeThatIsOfNoUse) {
  EXPECT_CUDA_OK(onCuda(options(), [&](TestRank &rank) -> Status {
    auto driver = rt::DriverApi::ofProcess();
    auto context = rt::CudaContext::create(**driver, 0);
    const int own = (*context)->capability();
    const std::string processor = "sm_" + std::to_string(own);
    fsdp_rt_cuda_image_desc refused = {testKernels().ptx, 80, "no code", own,
                                       0};
    fsdp_rt_cuda_image_desc other = {testKernels().ptx, 80, "no code", 70, 0};
    CudaLaunch first("first", {{"add", 1, 1}}, {0, 4, 8}, &refused);
    CudaLaunch second("second", {{"add", 1, 1}}, {0, 4, 8}, &other);
    for (int run = 0; run < 2; ++run)
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_launch(ctx, &first.desc) ||
                   fsdp_rt_launch(ctx, &second.desc);
          }))
        return s;
    std::vector<std::string> notes = rank.executor().device().facts().notes;
    EXPECT_EQ(notes.size(), 2u);
    EXPECT_HAS(notes.at(0), "PTX compiled by the driver for " + processor +
                                ": it refuses the program's machine code "
                                "(cuModuleLoadDataEx: ");
    EXPECT_EQ(notes.at(1), "PTX compiled by the driver for " + processor +
                               ": the program's machine code is for sm_70");
    return Status::ok();
  }));
}

TEST(CudaErrors, LaunchesThatNoDeviceTakes) {
  EXPECT_HAS(failureOf(CudaLaunch("wide", {{"trap", 1, 4096}}, {})),
             "launch 'wide': function 'trap': expected 1 to 1024 threads of a "
             "block, as its registers allow, got 4096");
  EXPECT_HAS(failureOf(CudaLaunch("long", {{"trap", int64_t(1) << 31, 1}}, {})),
             "expected 0 to 2147483647 blocks, got 2147483648");
  EXPECT_HAS(failureOf(CudaLaunch("deep", {{"trap", 1, 1, 1 << 20}}, {})),
             "bytes of a block's shared memory, got 1048576");
  EXPECT_HAS(failureOf(CudaLaunch("none", {}, {})),
             "launch 'none': expected code for CUDA devices, got null");
  CudaLaunch other("other", {{"trap", 1, 1}}, {});
  const void *implementations[] = {nullptr};
  other.desc.implementations = implementations;
  EXPECT_HAS(failureOf(other),
             "launch 'other': expected code for CUDA devices, got null");
}

TEST(CudaErrors, MoreRanksThanDevices) {
  auto driver = rt::DriverApi::ofProcess();
  ASSERT_TRUE(driver.isOk()) << driver.status().message();
  int devices = (*driver)->deviceCount;
  // They share one until something has to be exchanged.
  EXPECT_CUDA_OK(runLocally(devices + 1, [&](rt::World &world) -> Status {
    rt::Result<rt::RankCards> cards =
        rt::RankCards::find(world, **driver, rt::CudaSettings());
    if (!cards.isOk())
      return cards.status();
    int rank = world.rank();
    EXPECT_EQ(cards->ordinal(), rank % devices);
    EXPECT_EQ(cards->mostSharers(), 2);
    EXPECT_EQ(cards->sharers(), rank % devices == 0
                                    ? (std::vector<int>{0, devices})
                                    : std::vector<int>{rank});
    return Status::ok();
  }));
}

TEST(CudaErrors, LibrariesThatDifferBetweenRanks) {
  const std::vector<std::string> versions = {"NCCL 2.28.9", "NCCL 2.28.9",
                                             "NCCL 2.27.3", "NCCL 2.26.2"};
  for (int ranks : {1, 2, 3, 4}) {
    std::mutex mutex;
    std::vector<std::string> messages;
    (void)runLocally(ranks, [&](rt::World &world) -> Status {
      Status status = rt::agreeOnVersion(world, versions[size_t(world.rank())]);
      std::lock_guard<std::mutex> lock(mutex);
      messages.push_back(status.message());
      return status;
    });
    ASSERT_EQ(messages.size(), size_t(ranks));
    for (const std::string &message : messages)
      if (ranks < 3) {
        EXPECT_EQ(message, "");
      } else {
        EXPECT_HAS(message, "expected NCCL 2.28.9 on all ranks, as on rank 0 "
                            "(host ");
        EXPECT_HAS(message, "), got NCCL 2.27.3 on rank 2 (host ");
      }
  }
}

TEST(CudaErrors, VariablesOfNccl) {
  auto driver = rt::DriverApi::ofProcess();
  ASSERT_TRUE(driver.isOk()) << driver.status().message();
  constexpr const char *name = "FSDP_TEST_VARIABLE";
  auto set = [&](const rt::NcclVariables &variables, std::string *told) {
    return runLocally(4, [&](rt::World &world) -> Status {
      rt::Result<rt::RankCards> cards =
          rt::RankCards::find(world, **driver, rt::CudaSettings());
      if (!cards.isOk())
        return cards.status();
      std::vector<std::string> notes;
      Status status = cards->setVariables(world, variables, notes);
      if (world.rank() == 0)
        for (const std::string &note : notes)
          *told += note;
      return status;
    });
  };
  std::string told;
  EXPECT_CUDA_OK(set({{name, "1"}}, &told));
  EXPECT_STREQ(std::getenv(name), "1");
  EXPECT_EQ(told, "");
  EXPECT_CUDA_OK(set({{name, "2"}}, &told));
  EXPECT_STREQ(std::getenv(name), "1");
  EXPECT_EQ(told, "the environment says FSDP_TEST_VARIABLE=1 to NCCL, where 2 "
                  "is wanted");
  unsetenv(name);
  EXPECT_HAS(messageOf(set({{"NCCL_ALGO=RING", "1"}}, &told)),
             "expected the name of a variable of NCCL, got 'NCCL_ALGO=RING'");
}

TEST(CudaErrors, SettingsAndTargets) {
  EXPECT_HAS(messageOf(rt::cudaDevice.settings().check("blas", "auto")),
             "expected a setting of CUDA devices, graph, dependent-launch, "
             "algorithms, attention, channel or reduction, got 'blas'");
  EXPECT_HAS(messageOf(rt::cudaDevice.settings().check("algorithms", "best")),
             "expected first or fastest, got 'best'");
  EXPECT_HAS(messageOf(rt::cudaDevice.settings().check("graph", "maybe")),
             "expected auto, off or on, got 'maybe'");
  for (const char *value : {"auto", "off", "on"})
    for (const char *name : {"graph", "dependent-launch"})
      EXPECT_CUDA_OK(rt::cudaDevice.settings().check(name, value));
  EXPECT_HAS(
      messageOf(rt::cudaDevice.settings().check("dependent-launch", "yes")),
      "expected auto, off or on, got 'yes'");
  EXPECT_HAS(messageOf(rt::cudaDevice.checkHost("sapphirerapids", {})),
             "expected a program compiled for CUDA devices of sm_N, got "
             "'sapphirerapids'");
  EXPECT_CUDA_OK(rt::cudaDevice.checkHost("sm_80", {"+ptx80"}));
}

/// Ends within seconds, with the driver's reason; which call it was is known
/// where the host waits after each. A failure lasts as long as the process:
/// each case has one of its own.
class CudaFailure
    : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(CudaFailure, EndsTheRun) {
  const auto &[function, isBlocking] = GetParam();
  std::vector<int64_t> operands;
  if (function == "outside")
    operands.push_back(0);
  CudaLaunch launch("bad", {{function.c_str(), 1, 1}}, operands);
  auto begin = std::chrono::steady_clock::now();
  if (isBlocking)
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  std::string message = failureOf(launch);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_HAS(message, "CUDA_ERROR_");
  EXPECT_HAS(message,
             isBlocking
                 ? "launch 'bad': "
                 : ", in a run of program 'step': queue compute has not passed "
                   "call 1 of 1, launch 'bad'; run with CUDA_LAUNCH_BLOCKING=1 "
                   "to have the failing call named");
}

/// A kernel fails in a unit whose parameters have been gathered.
std::string failureInUnit() {
  TestRankOptions wanted = options();
  wanted.groups = {{0}};
  wanted.events = 1;
  wanted.queues = {FSDP_RT_QUEUE_ALL_GATHER};
  return messageOf(onCuda(wanted, [&](TestRank &rank) -> Status {
    static const fsdp_rt_collective_desc gather = {"weight", 0, 4096,       64,
                                                   1,        0, FSDP_RT_F32};
    static const void *const parts[] = {&gather};
    static const fsdp_rt_start_desc start = {"gather",
                                             parts,
                                             1,
                                             nullptr,
                                             0,
                                             0,
                                             FSDP_RT_ALL_GATHER,
                                             FSDP_RT_QUEUE_ALL_GATHER,
                                             nullptr};
    static const fsdp_rt_wait_desc wait = {"gather", 0};
    CudaLaunch trap("bad", {{"trap", 1, 1}}, {});
    static const CudaLaunch *current;
    current = &trap;
    fsdp_rt_program program = {"train",
                               [](fsdp_rt_context *ctx) -> int32_t {
                                 return fsdp_rt_start(ctx, &start) ||
                                        fsdp_rt_wait(ctx, &wait) ||
                                        fsdp_rt_launch(ctx, &current->desc);
                               },
                               nullptr};
    if (Status s = put(rank, 0, std::vector<float>(64)))
      return s;
    auto loaded = rank.executor().load(program, {"forward h.0"});
    return loaded.isOk() ? rank.executor().step(**loaded) : loaded.status();
  }));
}

TEST(CudaUnits, OfARun) {
  EXPECT_HAS(
      failureInUnit(),
      ", in a run of program 'train': queue compute has passed call 2 of "
      "3, wait 'gather' (forward h.0), but not call 3, launch 'bad' "
      "(forward h.0); run with CUDA_LAUNCH_BLOCKING=1 to have the "
      "failing call named");
}

TEST(CudaUnits, OfACall) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_HAS(failureInUnit(), "launch 'bad' (forward h.0): ");
}

/// The emulated driver knows what comes after what: in the order of the runs
/// that it draws, nothing need have gone wrong.
TEST(CudaRace, MissingWaitIsFound) {
  TestRankOptions wanted = options();
  wanted.hostBytes = 4096;
  wanted.events = 1;
  wanted.queues = {FSDP_RT_QUEUE_D2H};
  for (bool waits : {true, false}) {
    Status status = onCuda(wanted, [&](TestRank &rank) -> Status {
      fsdp_rt_host_copy_desc out = {"out", 0, 0, 4096};
      const void *outs[] = {&out};
      fsdp_rt_start_desc start = {
          "offload",         outs,   1, nullptr, 0, 0, FSDP_RT_OFFLOAD,
          FSDP_RT_QUEUE_D2H, nullptr};
      fsdp_rt_copy_desc clear = {"clear", -1, 0, 4096};
      if (Status s = put(rank, 0, std::vector<char>(4096)))
        return s;
      return runStep(rank, [&](fsdp_rt_context *ctx) {
        return fsdp_rt_start(ctx, &start) || (waits ? waitFor(ctx, 0) : 0) ||
               fsdp_rt_copy(ctx, &clear) || (waits ? 0 : waitFor(ctx, 0));
      });
    });
    EXPECT_EQ(status.isOk(), waits) << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(
    , CudaFailure,
    testing::Combine(testing::Values("trap", "outside"), testing::Bool()),
    [](const testing::TestParamInfo<CudaFailure::ParamType> &info) {
      return std::get<0>(info.param) +
             (std::get<1>(info.param) ? "Blocking" : "");
    });

} // namespace
} // namespace fsdp::test
