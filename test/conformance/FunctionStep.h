//===- FunctionStep.h - A function of a test as a step ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step of a test is a function that makes calls. It is recorded, as every
// program is, and run once: descriptors must outlive the step, and what is to
// happen between two calls when it runs is a call itself, compute().
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CONFORMANCE_FUNCTIONSTEP_H
#define FSDP_TEST_CONFORMANCE_FUNCTIONSTEP_H

#include "devices/cpu/CpuRank.h"
#include "hal/Transfers.h"
#include "program/Executor.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace fsdp::test {

using Step = std::function<int32_t(fsdp_rt_context *)>;

struct TestRankOptions {
  int64_t arenaBytes = 0, hostBytes = 0, scratchBytes = 0;
  int threads = 1;
  std::vector<std::vector<int>> groups;
  int64_t events = 0;
  std::vector<int32_t> queues;
  std::optional<rt::Dtype> roundedSums;
  rt::QueueThreads queueThreads = rt::QueueThreads::Auto;
  rt::BlasKind blas = rt::BlasKind::Auto;
  int64_t matmulWorkspaceBytes = rt::defaultMatmulWorkspaceBytes;
  bool profile = false;
  int64_t traceEvents = 0;

  /// How much of the arena outlives a step: the rest may hold anything when
  /// one begins.
  std::optional<int64_t> stateBytes;

  rt::CpuOptions cpu() const {
    return {/*target=*/0, threads, queueThreads, blas, matmulWorkspaceBytes};
  }
  rt::hal::Layout layout() const {
    return {{arenaBytes, hostBytes},
            {stateBytes.value_or(arenaBytes), hostBytes},
            scratchBytes,
            groups,
            events,
            queues,
            roundedSums,
            {}};
  }
};

/// The device under test, and the address of its memory where the host may use
/// it. Defined by the program: CpuTestDevice.cpp, or a device's own tests.
struct TestDevice {
  std::unique_ptr<rt::hal::Device> device;
  char *arena = nullptr;
  /// Whether kernels may be functions of the test: compute().
  bool runsFunctions = true;
};
rt::Result<TestDevice> makeTestDevice(rt::World &world,
                                      const TestRankOptions &options);

/// A rank with a device of its own.
class TestRank {
public:
  static rt::Result<std::unique_ptr<TestRank>>
  create(rt::World &world, const TestRankOptions &options) {
    if (rt::Status s =
            rt::hal::checkLayout(options.layout(), world.rank(), world.size()))
      return s;
    auto device = makeTestDevice(world, options);
    return device.isOk() ? create(world, options, std::move(*device))
                         : device.status();
  }
  static rt::Result<std::unique_ptr<TestRank>>
  create(rt::World &world, const TestRankOptions &options, TestDevice device) {
    rt::ExecutorOptions wanted;
    wanted.layout = options.layout();
    wanted.profile = options.profile;
    wanted.traceEvents = options.traceEvents;
    auto executor =
        rt::Executor::create(world, std::move(device.device), wanted);
    if (!executor.isOk())
      return executor.status();
    return std::unique_ptr<TestRank>(
        new TestRank(std::move(*executor), device.arena, device.runsFunctions));
  }

  rt::Status step(const fsdp_rt_program &program) {
    auto loaded = executor_->load(program);
    return loaded.isOk() ? executor_->step(**loaded) : loaded.status();
  }

  /// The memory of a device that the host can address.
  char *arena() { return arena_; }
  bool runsFunctions() const { return runsFunctions_; }
  rt::hal::Memory &memory() {
    return executor_->device().memory(FSDP_RT_DEVICE);
  }
  rt::Executor &executor() { return *executor_; }
  rt::World &world() { return executor_->world(); }
  const rt::Counters &counters() const { return executor_->counters(); }
  const rt::Recorder &recorder() const { return executor_->recorder(); }
  std::vector<rt::ProfileRow> profile() const { return executor_->profile(); }

private:
  TestRank(std::unique_ptr<rt::Executor> executor, char *arena,
           bool runsFunctions)
      : executor_(std::move(executor)), arena_(arena),
        runsFunctions_(runsFunctions) {}
  std::unique_ptr<rt::Executor> executor_;
  char *arena_;
  bool runsFunctions_;
};

/// Records @step and runs it once.
inline rt::Status runStep(TestRank &rank, const Step &step) {
  static thread_local const Step *current = nullptr;
  current = &step;
  fsdp_rt_program program = {
      "step", [](fsdp_rt_context *ctx) -> int32_t { return (*current)(ctx); },
      nullptr};
  return rank.step(program);
}

/// Work of queue 0 on the device's memory, which begins at the address it is
/// given: a launch whose kernel finds @work by its number of items.
inline int32_t computeIn(fsdp_rt_context *ctx,
                         std::function<void(char *arena)> work) {
  struct Work {
    std::function<void(char *)> work;
    fsdp_rt_cpu_kernel_desc code;
    const void *implementations[1];
    fsdp_rt_launch_desc desc;
  };
  // For ever: recorded calls point into it.
  static auto *all = new std::deque<Work>;
  static std::mutex mutex;
  static const int64_t operands[] = {0};
  fsdp_rt_kernel_fn kernel = [](char *const *arena, char *, int64_t,
                                int64_t end) {
    const Work *mine;
    {
      std::lock_guard<std::mutex> lock(mutex);
      mine = &(*all)[size_t(end - 1)];
    }
    mine->work(arena[0]);
  };
  const fsdp_rt_launch_desc *desc;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto items = int64_t(all->size()) + 1;
    Work &mine = all->emplace_back();
    mine.work = std::move(work);
    mine.code = {reinterpret_cast<const void *>(kernel), items,
                 /*grain=*/items, 0};
    mine.implementations[0] = &mine.code;
    mine.desc = {"work", mine.implementations, operands, 1, 0, 0, 0};
    desc = &all->back().desc;
  }
  return fsdp_rt_launch(ctx, desc);
}

inline int32_t compute(fsdp_rt_context *ctx, std::function<void()> work) {
  return computeIn(ctx, [=](char *) { work(); });
}

/// The transfer @part of @kind in the order of the computation, as in a program
/// without events. Its descriptor is constant data, one for each kind and part.
inline int32_t inOrder(fsdp_rt_context *ctx, int32_t kind, const void *part) {
  struct Start {
    const void *parts[1];
    fsdp_rt_start_desc desc;
  };
  static thread_local std::map<std::pair<int32_t, const void *>, Start> starts;
  auto [it, isNew] = starts.try_emplace({kind, part});
  Start &start = it->second;
  if (isNew) {
    start.parts[0] = part;
    start.desc = {rt::transferName(kind), start.parts, 1,           nullptr, 0,
                  /*event=*/-1,           kind,        /*queue=*/0, nullptr};
  }
  return fsdp_rt_start(ctx, &start.desc);
}

/// A wait of the name "arrived".
inline int32_t waitFor(fsdp_rt_context *ctx, int64_t event) {
  static thread_local std::map<int64_t, fsdp_rt_wait_desc> waits;
  auto [it, isNew] = waits.try_emplace(event);
  it->second = {"arrived", event};
  return fsdp_rt_wait(ctx, &it->second);
}

} // namespace fsdp::test

#endif // FSDP_TEST_CONFORMANCE_FUNCTIONSTEP_H
