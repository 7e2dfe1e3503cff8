//===- Context.cpp - One rank of a running program ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"

#include "core/Clock.h"
#include "core/Host.h"
#include "core/Matmul.h"
#include "core/Reduce.h"

#include <alloca.h>

#include <cstring>
#include <exception>

namespace fsdp::rt {

namespace {

constexpr int64_t maxOperands = 4096;

int64_t roundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Whether ranges of the arena overlap without being the same bytes.
bool clash(int64_t a, int64_t aBytes, int64_t b, int64_t bBytes) {
  return a < b + bBytes && b < a + aBytes && !(a == b && aBytes == bBytes);
}

std::string callName(const char *kind, const char *name) {
  return std::string(kind) + " '" + (name ? name : "") + "'";
}

Status checkOptions(World &world, const ContextOptions &options) {
  // Bounds beyond any host, below which sums and products cannot overflow.
  constexpr int64_t maxThreads = 4096, maxBytes = int64_t(1) << 46;
  if (options.threads < 1 || options.threads > maxThreads)
    return Status::failed("expected 1 to " + std::to_string(maxThreads) +
                          " threads per rank, got " +
                          std::to_string(options.threads));
  if (options.scratchBytes < 0 || options.scratchBytes > maxBytes)
    return Status::failed("expected scratch of 0 to " +
                          std::to_string(maxBytes) + " bytes, got " +
                          std::to_string(options.scratchBytes));
  if (options.matmulWorkspaceBytes < minMatmulWorkspaceBytes ||
      options.matmulWorkspaceBytes > maxBytes)
    return Status::failed("expected a matmul workspace of " +
                          std::to_string(minMatmulWorkspaceBytes) + " to " +
                          std::to_string(maxBytes) + " bytes, got " +
                          std::to_string(options.matmulWorkspaceBytes));
  if (options.traceEvents < 0)
    return Status::failed("expected at least 0 trace events, got " +
                          std::to_string(options.traceEvents));
  // Every rank of this host is about to reserve as much.
  int64_t limit = memoryLimit();
  if (limit > 0 && options.arenaBytes > limit / world.localSize())
    return Status::failed(
        "expected arenas of " + std::to_string(world.localSize()) +
        " ranks that fit the " + std::to_string(limit) +
        " bytes of this host, got " + std::to_string(options.arenaBytes) +
        " bytes per rank");
  return Status::ok();
}

} // namespace

Context::Context(World &world, const ContextOptions &options, Arena arena,
                 Arena scratch, const Blas *blas)
    : world_(world), options_(options), arena_(std::move(arena)),
      scratch_(std::move(scratch)), blas_(blas),
      recorder_(options.profile, options.traceEvents) {
  counters_.groups.resize(options.groups.size());
}

Context::~Context() = default;

Result<std::unique_ptr<Context>>
Context::create(World &world, const ContextOptions &options) {
  if (Status s = checkOptions(world, options))
    return s;
  Result<const Blas *> blas = Blas::open(options.blas);
  if (!blas.isOk())
    return blas.status();
  Result<Arena> arena = Arena::map(options.arenaBytes, "arena");
  if (!arena.isOk())
    return arena.status();
  // A page apart, so that threads share no cache line at the seams.
  constexpr int64_t page = 4096;
  int64_t kernelScratch = roundUp(options.scratchBytes, page);
  int64_t stride = kernelScratch + roundUp(options.matmulWorkspaceBytes, page);
  Result<Arena> scratch = Arena::map(stride * options.threads, "scratch");
  if (!scratch.isOk())
    return scratch.status();

  std::unique_ptr<Context> context;
  try {
    context.reset(new Context(world, options, std::move(*arena),
                              std::move(*scratch), *blas));
  } catch (const std::exception &) {
    return Status::failed("cannot reserve memory for " +
                          std::to_string(options.traceEvents) +
                          " trace events");
  }
  context->scratchStride_ = stride;
  bool hasCores =
      int64_t(world.localSize()) * options.threads <= availableCores();
  if (Status s = context->pool_.start(options.threads, hasCores))
    return s;
  context->arena_.touch(context->pool_);
  context->scratch_.touch(context->pool_);
  for (const std::vector<int> &ranks : options.groups) {
    Result<std::unique_ptr<Communicator>> communicator =
        world.createCommunicator(ranks, &context->pool_);
    if (!communicator.isOk())
      return communicator.status();
    context->communicators_.push_back(std::move(*communicator));
  }
  return Result<std::unique_ptr<Context>>(std::move(context));
}

int32_t Context::fail(Status status) {
  if (failure_.isOk())
    failure_ = std::move(status);
  return static_cast<int32_t>(failure_.code());
}

bool Context::inArena(int64_t offset, int64_t bytes) const {
  return offset >= 0 && bytes >= 0 && bytes <= arena_.size() - offset;
}

Status Context::step(const fsdp_rt_program &program) {
  if (!failure_.isOk())
    return failure_;
  counters_.lastStep = StepTimes();
  StepTimes &times = counters_.lastStep;
  int64_t begin = nowNanoseconds();
  int32_t code = program.step(this);
  times.total = nowNanoseconds() - begin;
  times.other = times.total - times.matmul - times.kernels -
                times.communication - times.waiting;
  if (code == 0 && failure_.isOk()) {
    ++counters_.steps;
    StepTimes &all = counters_.allSteps;
    all.matmul += times.matmul;
    all.kernels += times.kernels;
    all.communication += times.communication;
    all.waiting += times.waiting;
    all.other += times.other;
    all.total += times.total;
    return Status::ok();
  }
  if (failure_.isOk())
    failure_ =
        Status::internal("the compiled step returned " + std::to_string(code) +
                         " although no call of it failed");
  world_.abort(failure_);
  return failure_;
}

int32_t Context::launch(const fsdp_rt_launch_desc &desc) {
  auto refuse = [&](const std::string &why) {
    return fail(Status::internal(callName("launch", desc.name) + ": " + why));
  };
  if (!desc.kernel || (!desc.operands && desc.operand_count > 0))
    return refuse("expected a kernel and operands, got null");
  if (desc.operand_count < 0 || desc.operand_count > maxOperands)
    return refuse("expected 0 to " + std::to_string(maxOperands) +
                  " operands, got " + std::to_string(desc.operand_count));
  if (desc.scratch_bytes < 0 || desc.scratch_bytes > options_.scratchBytes)
    return refuse("expected at most the " +
                  std::to_string(options_.scratchBytes) +
                  " bytes of scratch that the manifest names, got " +
                  std::to_string(desc.scratch_bytes));
  auto offsets = static_cast<const int64_t *>(desc.operands);
  auto operands =
      static_cast<char **>(alloca((desc.operand_count + 1) * sizeof(char *)));
  for (int64_t i = 0; i < desc.operand_count; ++i) {
    if (!inArena(offsets[i], 0))
      return refuse("operand " + std::to_string(i) +
                    ": expected an offset of at most " +
                    std::to_string(arena_.size()) + ", got " +
                    std::to_string(offsets[i]));
    operands[i] = arena_.data() + offsets[i];
  }
  auto kernel =
      reinterpret_cast<fsdp_rt_kernel_fn>(const_cast<void *>(desc.kernel));
  int64_t begin = nowNanoseconds();
  auto part = [&](int thread, int64_t from, int64_t to) {
    kernel(operands, scratch_.data() + thread * scratchStride_, from, to);
  };
  pool_.parallelFor(desc.grid, desc.grain, part);
  int64_t end = nowNanoseconds();
  counters_.lastStep.kernels += end - begin;
  record({&desc, desc.name, CallKind::Launch, 0, begin, end, 0,
          desc.traffic_bytes, 0});
  return 0;
}

int32_t Context::matmul(const fsdp_rt_matmul_desc &desc) {
  if (Status s = checkMatmul(desc, arena_.size(), *blas_))
    return fail(s.withContext(callName("matmul", desc.name)));
  int64_t begin = nowNanoseconds();
  MatmulWorkspace workspace;
  workspace.base = scratch_.data() + scratchStride_ -
                   options_.matmulWorkspaceBytes / 64 * 64;
  workspace.stride = scratchStride_;
  workspace.bytes = options_.matmulWorkspaceBytes / 64 * 64;
  Status status = runMatmul(desc, arena_.data(), *blas_, pool_, workspace);
  if (status)
    return fail(status.withContext(callName("matmul", desc.name)));
  int64_t end = nowNanoseconds();
  counters_.lastStep.matmul += end - begin;
  int64_t batch = matmulBatch(desc);
  int64_t elements = desc.m * desc.k + desc.k * desc.n +
                     desc.m * desc.n * (desc.accumulate ? 2 : 1);
  record({&desc, desc.name, CallKind::Matmul, 0, begin, end, 0,
          batch * elements * dtypeSize(static_cast<Dtype>(desc.dtype)),
          2 * batch * desc.m * desc.n * desc.k});
  return 0;
}

int32_t Context::collective(CollectiveKind kind,
                            const fsdp_rt_collective_desc &desc) {
  auto refuse = [&](const std::string &why) {
    return fail(Status::internal(callName(collectiveName(kind), desc.name) +
                                 ": " + why));
  };
  if (desc.group < 0 || desc.group >= static_cast<int>(communicators_.size()))
    return refuse("expected one of " + std::to_string(communicators_.size()) +
                  " groups, got " + std::to_string(desc.group));
  Communicator &group = *communicators_[desc.group];
  if (!isDtype(desc.dtype))
    return refuse("expected an element type, got " +
                  std::to_string(desc.dtype));
  auto dtype = static_cast<Dtype>(desc.dtype);
  int64_t size = dtypeSize(dtype);
  int64_t ranks = group.size();
  // Beyond this the products below would not fit 64 bits.
  if (desc.count < 0 || desc.count > arena_.size())
    return refuse("expected 0 to " + std::to_string(arena_.size()) +
                  " elements, got " + std::to_string(desc.count));
  int64_t bytes = desc.count * size;
  int64_t srcBytes =
      kind == CollectiveKind::ReduceScatter ? bytes * ranks : bytes;
  int64_t dstBytes = kind == CollectiveKind::AllGather ? bytes * ranks : bytes;
  if (!inArena(desc.src, srcBytes) || !inArena(desc.dst, dstBytes) ||
      desc.src % size != 0 || desc.dst % size != 0)
    return refuse("expected operands inside the arena of " +
                  std::to_string(arena_.size()) + " bytes, got src " +
                  std::to_string(desc.src) + " and dst " +
                  std::to_string(desc.dst) + " of " +
                  std::to_string(desc.count) + " elements");
  if (kind == CollectiveKind::Broadcast &&
      (desc.root < 0 || desc.root >= ranks))
    return refuse("expected a root below " + std::to_string(ranks) + ", got " +
                  std::to_string(desc.root));

  // Of the larger side, this rank's own part may be the smaller side.
  int64_t own = group.rank() * bytes;
  bool isApart = kind == CollectiveKind::AllGather
                     ? desc.src == desc.dst + own ||
                           !clash(desc.src, bytes, desc.dst, dstBytes)
                 : kind == CollectiveKind::ReduceScatter
                     ? desc.dst == desc.src + own ||
                           !clash(desc.src, srcBytes, desc.dst, bytes)
                     : !clash(desc.src, bytes, desc.dst, bytes);
  if (!isApart)
    return refuse("expected operands apart or in place, got src " +
                  std::to_string(desc.src) + " and dst " +
                  std::to_string(desc.dst) + " of " +
                  std::to_string(desc.count) + " elements");

  const char *src = arena_.data() + desc.src;
  char *dst = arena_.data() + desc.dst;
  int64_t waited = group.waitNanoseconds();
  int64_t begin = nowNanoseconds();
  Status status;
  switch (kind) {
  case CollectiveKind::AllGather:
    status = group.allGather(src, dst, bytes);
    break;
  case CollectiveKind::ReduceScatter:
    status = group.reduceScatter(src, dst, desc.count, dtype, desc.divisor);
    break;
  case CollectiveKind::AllReduce:
    status = group.allReduce(src, dst, desc.count, dtype, desc.divisor);
    break;
  case CollectiveKind::Broadcast:
    status = group.broadcast(src, dst, bytes, desc.root);
    break;
  }
  if (status)
    return fail(std::move(status));
  int64_t end = nowNanoseconds();
  waited = group.waitNanoseconds() - waited;
  counters_.lastStep.waiting += waited;
  counters_.lastStep.communication += end - begin - waited;
  int64_t moved = collectiveBytes(kind, ranks, desc.count, size,
                                  kind == CollectiveKind::Broadcast &&
                                      group.rank() == desc.root);
  CollectiveCounter &counter =
      counters_.groups[desc.group][static_cast<int>(kind)];
  ++counter.calls;
  counter.bytes += moved;
  record({&desc, desc.name, CallKind::Collective, 0, begin, end, waited, moved,
          0});
  return 0;
}

int32_t Context::copy(const fsdp_rt_copy_desc &desc) {
  if (!inArena(desc.dst, desc.bytes) ||
      (desc.src != -1 && !inArena(desc.src, desc.bytes)))
    return fail(Status::internal(
        callName("copy", desc.name) +
        ": expected operands inside the arena of " +
        std::to_string(arena_.size()) + " bytes, got src " +
        std::to_string(desc.src) + " and dst " + std::to_string(desc.dst) +
        " of " + std::to_string(desc.bytes) + " bytes"));
  if (desc.src != -1 && clash(desc.src, desc.bytes, desc.dst, desc.bytes))
    return fail(Status::internal(
        callName("copy", desc.name) + ": expected operands apart, got src " +
        std::to_string(desc.src) + " and dst " + std::to_string(desc.dst) +
        " of " + std::to_string(desc.bytes) + " bytes"));
  int64_t begin = nowNanoseconds();
  char *dst = arena_.data() + desc.dst;
  if (desc.src == -1)
    fillZero(&pool_, dst, desc.bytes);
  else
    copyBytes(&pool_, dst, arena_.data() + desc.src, desc.bytes);
  if (recorder_.isEnabled())
    record({&desc, desc.name, CallKind::Copy, 0, begin, nowNanoseconds(), 0,
            desc.bytes * (desc.src == -1 ? 1 : 2), 0});
  return 0;
}

int32_t Context::check(const fsdp_rt_check_desc &desc) {
  if (!inArena(desc.flag, 1))
    return fail(Status::internal("check: expected a flag inside the arena of " +
                                 std::to_string(arena_.size()) +
                                 " bytes, got offset " +
                                 std::to_string(desc.flag)));
  if (arena_.data()[desc.flag] != 1)
    return fail(Status::failed(desc.message ? desc.message
                                            : "a check of the step failed"));
  return 0;
}

void Context::record(CallRecord call) {
  if (!recorder_.isEnabled())
    return;
  call.step = static_cast<int32_t>(counters_.steps);
  if (!call.name)
    call.name = "";
  recorder_.record(call);
}

} // namespace fsdp::rt
