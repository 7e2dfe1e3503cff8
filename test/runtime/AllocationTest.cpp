//===- AllocationTest.cpp - A step allocates nothing ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program of its own: it replaces the allocation functions of the process.
//
//===----------------------------------------------------------------------===//

#include "FunctionStep.h"
#include "channels/local/LocalBackend.h"
#include "channels/mpi/MpiBackend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>

namespace {

std::atomic<int64_t> allocations{0};

void *counted(std::size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}

void *countedAligned(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  auto unit = static_cast<std::size_t>(alignment);
  if (void *memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit))
    return memory;
  throw std::bad_alloc();
}

} // namespace

void *operator new(std::size_t size) { return counted(size); }
void *operator new[](std::size_t size) { return counted(size); }
void *operator new(std::size_t size, std::align_val_t alignment) {
  return countedAligned(size, alignment);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

using namespace fsdp::rt;
using fsdp::test::inOrder;
using fsdp::test::TestRank;
using fsdp::test::TestRankOptions;

constexpr int64_t srcAt = 0, dstAt = 1 << 20, flagAt = (4 << 20) - 1;
constexpr int64_t count = 50'000;
const int64_t operands[] = {srcAt, dstAt};

void kernel(char *const *addresses, char *, int64_t begin, int64_t end) {
  auto out = reinterpret_cast<float *>(addresses[1]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = 1;
}

const fsdp_rt_cpu_kernel_desc kernelCode = {
    reinterpret_cast<const void *>(kernel), count, 64, 0};
const void *const implementations[] = {&kernelCode};
const fsdp_rt_launch_desc launchDesc = {
    "kernel", implementations, operands, 2, 0, 0, 0};
const fsdp_rt_copy_desc copyDesc = {"copy", srcAt, dstAt, count * 4};
const fsdp_rt_check_desc checkDesc = {"check", flagAt};
const fsdp_rt_collective_desc collectiveDesc = {
    "bucket", srcAt, dstAt, count, 3, 0, FSDP_RT_F32};

const fsdp_rt_host_copy_desc offloadDesc = {"offload", srcAt, 64, count * 4},
                             reloadDesc = {"reload", 64, dstAt, count * 4};

fsdp_rt_matmul_desc matmulDesc(int32_t dtype) {
  fsdp_rt_matmul_desc desc = {};
  desc.name = "product";
  desc.b = dstAt;
  desc.c = 2 << 20;
  desc.m = 128;
  desc.n = 300;
  desc.k = 200;
  desc.lda = 200;
  desc.ldb = desc.ldc = 300;
  for (int64_t &extent : desc.batch)
    extent = 1;
  desc.alpha = 1;
  desc.dtype = desc.c_dtype = dtype;
  return desc;
}
const fsdp_rt_matmul_desc matmulDescs[] = {matmulDesc(FSDP_RT_F32),
                                           matmulDesc(FSDP_RT_BF16)};

int32_t step(fsdp_rt_context *ctx) {
  return fsdp_rt_launch(ctx, &launchDesc) ||
         fsdp_rt_matmul(ctx, &matmulDescs[0]) ||
         fsdp_rt_matmul(ctx, &matmulDescs[1]) ||
         inOrder(ctx, FSDP_RT_ALL_GATHER, &collectiveDesc) ||
         inOrder(ctx, FSDP_RT_REDUCE_SCATTER, &collectiveDesc) ||
         inOrder(ctx, FSDP_RT_ALL_REDUCE, &collectiveDesc) ||
         fsdp_rt_copy(ctx, &copyDesc) ||
         inOrder(ctx, FSDP_RT_OFFLOAD, &offloadDesc) ||
         inOrder(ctx, FSDP_RT_RELOAD, &reloadDesc) ||
         fsdp_rt_check(ctx, &checkDesc);
}

const fsdp_rt_program program = {"step", step, nullptr};

fsdp_rt_collective_desc partDesc(int64_t src, int64_t dst) {
  return {"part", src, dst, count / 4, 3, 0, FSDP_RT_F32};
}
const fsdp_rt_collective_desc gatherParts[] = {partDesc(0, 1 << 20),
                                               partDesc(1 << 19, 2 << 20)},
                              sumPart = partDesc(1 << 20, 3 << 20),
                              scatterPart = partDesc(0, 15 << 18);
const fsdp_rt_collective_desc
    *const gathers[] = {&gatherParts[0], &gatherParts[1]},
           *const sums[] = {&sumPart}, *const scatters[] = {&scatterPart};
const fsdp_rt_host_copy_desc *const offloads[] = {&offloadDesc},
                                    *const reloads[] = {&reloadDesc};
const int64_t afterGathers[] = {0}, afterScatter[] = {0, 1, 2},
              afterOffload[] = {3};
const fsdp_rt_start_desc startDescs[] = {
    {"gathers", gathers, 2, nullptr, 0, 0, FSDP_RT_ALL_GATHER,
     FSDP_RT_QUEUE_ALL_GATHER, nullptr},
    {"sum", sums, 1, afterGathers, 1, 1, FSDP_RT_ALL_REDUCE,
     FSDP_RT_QUEUE_ALL_REDUCE, nullptr},
    {"scatter", scatters, 1, nullptr, 0, 2, FSDP_RT_REDUCE_SCATTER,
     FSDP_RT_QUEUE_REDUCE, nullptr},
    {"offload", offloads, 1, afterScatter, 3, 3, FSDP_RT_OFFLOAD,
     FSDP_RT_QUEUE_D2H, nullptr},
    {"reload", reloads, 1, afterOffload, 1, 4, FSDP_RT_RELOAD,
     FSDP_RT_QUEUE_H2D, nullptr}};
const fsdp_rt_wait_desc waitDescs[] = {
    {"gathers", 0}, {"sum", 1}, {"scatter", 2}, {"offload", 3}, {"reload", 4}};

int32_t queuedStep(fsdp_rt_context *ctx) {
  return fsdp_rt_start(ctx, &startDescs[0]) ||
         fsdp_rt_start(ctx, &startDescs[1]) ||
         fsdp_rt_start(ctx, &startDescs[2]) ||
         fsdp_rt_start(ctx, &startDescs[3]) ||
         fsdp_rt_start(ctx, &startDescs[4]) ||
         fsdp_rt_wait(ctx, &waitDescs[0]) || fsdp_rt_check(ctx, &checkDesc) ||
         fsdp_rt_wait(ctx, &waitDescs[2]) || fsdp_rt_wait(ctx, &waitDescs[1]) ||
         fsdp_rt_wait(ctx, &waitDescs[3]) || fsdp_rt_wait(ctx, &waitDescs[4]);
}

const fsdp_rt_program queuedProgram = {"step", queuedStep, nullptr};

/// In a job of mpirun with three ranks the mpi backend, which a process can
/// have once, else three threads.
class BackendOfTests : public testing::Environment {
public:
  static Result<std::unique_ptr<Backend>> &get() {
    static Result<std::unique_ptr<Backend>> backend = make();
    return backend;
  }
  /// MPI has to end before the process does.
  void TearDown() override { get() = Status::failed("ended"); }

private:
  static Result<std::unique_ptr<Backend>> make() {
    Result<LaunchInfo> launch = detectLaunch(currentEnvironment());
    if (launch.isOk() && launch->canUseMpi)
      return createMpiBackend(*launch, MpiBackendOptions());
    LocalBackendOptions options;
    options.ranks = 3;
    return createLocalBackend(options);
  }
};
[[maybe_unused]] testing::Environment *const environment =
    testing::AddGlobalTestEnvironment(new BackendOfTests);

void expectNoAllocations(BlasKind blas, bool isRecorded,
                         std::optional<QueueThreads> queues = std::nullopt) {
  int64_t before = -1, after = -1;
  auto &backend = BackendOfTests::get();
  ASSERT_TRUE(backend.isOk()) << backend.status().message();
  // Ranks that are threads share the count, and one of them reads it.
  bool isMpi = (*backend)->name() == "mpi";
  Status status = (*backend)->run([&](World &world) -> Status {
    bool counts = isMpi || world.rank() == 0;
    TestRankOptions options;
    options.arenaBytes = 4 << 20;
    options.hostBytes = 1 << 20;
    options.threads = 2;
    options.blas = blas;
    options.groups = {{0, 1, 2}};
    if (queues) {
      options.queueThreads = *queues;
      options.events = 5;
      options.queues = {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE,
                        FSDP_RT_QUEUE_ALL_REDUCE, FSDP_RT_QUEUE_D2H,
                        FSDP_RT_QUEUE_H2D};
    }
    const fsdp_rt_program &tested = queues ? queuedProgram : program;
    options.profile = isRecorded;
    options.traceEvents = isRecorded ? 50 : 0;
    auto made = world.openChannel({0, 1, 2});
    auto context = TestRank::create(world, options);
    if (!context.isOk() || !made.isOk())
      return context.isOk() ? made.status() : context.status();
    (*context)->arena()[flagAt] = 1;
    Executor &executor = (*context)->executor();
    auto loaded = executor.load(tested);
    if (!loaded.isOk())
      return loaded.status();
    // Libraries set up what they need in their first call.
    if (Status s = executor.step(**loaded))
      return s;
    hal::HostChannel &group = **made;
    if (Status s = group.barrier())
      return s;
    if (counts)
      before = allocations;
    for (int i = 0; i < 10; ++i)
      if (Status s = executor.step(**loaded))
        return s;
    if (Status s = group.barrier())
      return s;
    if (counts)
      after = allocations;
    return group.barrier();
  });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(after, before);
  EXPECT_GT(before, 0);
}

TEST(Allocation, AStepMakesNoneWithOpenBlas) {
  Result<const Blas *> blas = Blas::open(BlasKind::OpenBlas);
  if (!blas.isOk())
    GTEST_SKIP() << blas.status().message();
  expectNoAllocations(BlasKind::OpenBlas, false);
}

TEST(Allocation, AStepMakesNoneWithOneDnn) {
  Result<const Blas *> blas = Blas::open(BlasKind::OneDnn);
  if (!blas.isOk())
    GTEST_SKIP() << blas.status().message();
  expectNoAllocations(BlasKind::OneDnn, false);
}

TEST(Allocation, NorDoesARecordedStep) {
  expectNoAllocations(BlasKind::Auto, true);
}

TEST(Allocation, NorDoesOneThatStartsTransfers) {
  for (QueueThreads queues : {QueueThreads::On, QueueThreads::Off}) {
    expectNoAllocations(BlasKind::Auto, false, queues);
    expectNoAllocations(BlasKind::Auto, true, queues);
  }
}

} // namespace
