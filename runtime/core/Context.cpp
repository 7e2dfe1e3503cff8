//===- Context.cpp - One rank of a running program ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"

#include "core/Attention.h"
#include "core/Clock.h"
#include "core/Collective.h"
#include "core/Guard.h"
#include "core/Host.h"
#include "core/HostCopy.h"
#include "core/Matmul.h"
#include "core/Reduce.h"

#include <alloca.h>

#include <cstring>
#include <exception>
#include <numeric>

namespace fsdp::rt {

namespace {

constexpr int64_t maxOperands = 4096;

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
  if (options.hostBytes < 0 || options.hostBytes > maxBytes)
    return Status::failed("expected 0 to " + std::to_string(maxBytes) +
                          " bytes of the host's arena, got " +
                          std::to_string(options.hostBytes));
  // Every rank of this host is about to reserve as much.
  int64_t limit = memoryLimit();
  int64_t share = limit / world.localSize();
  if (limit > 0 && (options.arenaBytes > share ||
                    options.hostBytes > share - options.arenaBytes))
    return Status::failed(
        "expected arenas of " + std::to_string(world.localSize()) +
        " ranks that fit the " + std::to_string(limit) +
        " bytes of this host, got " + std::to_string(options.arenaBytes) +
        " bytes per rank" +
        (options.hostBytes > 0 ? " and " + std::to_string(options.hostBytes) +
                                     " for what it offloads"
                               : ""));
  return Status::ok();
}

} // namespace

Context::Context(World &world, const ContextOptions &options, Arena arena,
                 Arena host, Arena scratch, const Blas *blas)
    : world_(world), options_(options), arena_(std::move(arena)),
      host_(std::move(host)), scratch_(std::move(scratch)), blas_(blas),
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
  Result<Arena> host = Arena::map(options.hostBytes, "arena of the host");
  if (!host.isOk())
    return host.status();
  int64_t stride =
      getThreadBytes(options.scratchBytes, options.matmulWorkspaceBytes);
  Result<Arena> scratch = Arena::map(stride * options.threads, "scratch");
  if (!scratch.isOk())
    return scratch.status();

  std::unique_ptr<Context> context;
  try {
    context.reset(new Context(world, options, std::move(*arena),
                              std::move(*host), std::move(*scratch), *blas));
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
  context->host_.touch(context->pool_);
  context->scratch_.touch(context->pool_);
  if (options.events > 0 || !options.queues.empty()) {
    if (Status s = context->openQueues())
      return s;
    return Result<std::unique_ptr<Context>>(std::move(context));
  }
  for (const std::vector<int> &ranks : options.groups) {
    Result<std::unique_ptr<Communicator>> communicator =
        world.createCommunicator(ranks, &context->pool_);
    if (!communicator.isOk())
      return communicator.status();
    context->communicators_.push_back(std::move(*communicator));
  }
  return Result<std::unique_ptr<Context>>(std::move(context));
}

/// Whether queues have threads follows from facts of the host, which may be
/// others on each rank: one processor mask does not fit all. They have threads
/// if one rank gains by them.
static Result<bool> agreeOnThreads(World &world,
                                   const ContextOptions &options) {
  std::vector<int> everyone(static_cast<size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  Result<std::unique_ptr<Communicator>> ranks =
      world.createCommunicator(everyone);
  if (!ranks.isOk())
    return ranks.status();
  int32_t votes = decideQueueThreads(options.queueThreads, world.hasLink(),
                                     world.localSize(),
                                     options.threads) == QueueThreads::On;
  if (Status s = (*ranks)->allReduce(&votes, &votes, 1, FSDP_RT_I32, 1))
    return s;
  return votes > 0;
}

Status Context::openQueues() {
  Result<bool> hasThreads = agreeOnThreads(world_, options_);
  if (!hasThreads.isOk())
    return hasThreads.status();
  QueueOptions wanted;
  wanted.events = options_.events;
  wanted.queues = options_.queues;
  wanted.groups = options_.groups;
  if (!*hasThreads)
    wanted.stepPool = &pool_;
  auto threads = options_.threads + static_cast<int64_t>(wanted.queues.size());
  wanted.spin = int64_t(world_.localSize()) * threads <= availableCores();
  Result<std::unique_ptr<TransferQueues>> queues =
      TransferQueues::create(world_, memory(), wanted);
  if (!queues.isOk())
    return queues.status();
  queues_ = std::move(*queues);
  return Status::ok();
}

int32_t Context::fail(Status status) {
  if (failure_.isOk())
    failure_ = std::move(status);
  return static_cast<int32_t>(failure_.code());
}

int32_t Context::failOfTransfer() { return fail(queues_->failure()); }

bool Context::inArena(int64_t offset, int64_t bytes) const {
  return offset >= 0 && bytes >= 0 && bytes <= arena_.size() - offset;
}

Status Context::step(const fsdp_rt_program &program, bool isFirst,
                     bool isLast) {
  if (!failure_.isOk())
    return failure_;
  StepTimes &times = counters_.lastStep;
  if (isFirst)
    times = StepTimes();
  if (queues_)
    queues_->beginStep(++runs_);
  int64_t begin = nowNanoseconds();
  int32_t code = program.run(this);
  if (queues_ && code == 0 && failure_.isOk())
    if (Status s = queues_->endStep())
      code = fail(std::move(s));
  times.total += nowNanoseconds() - begin;
  times.other = times.total - times.matmul - times.kernels -
                times.communication - times.waiting;
  if (code == 0 && failure_.isOk()) {
    if (!isLast)
      return Status::ok();
    ++counters_.steps;
    StepTimes &all = counters_.allSteps;
    all.matmul += times.matmul;
    all.kernels += times.kernels;
    all.communication += times.communication;
    all.waiting += times.waiting;
    all.transfers += times.transfers;
    all.other += times.other;
    all.total += times.total;
    return Status::ok();
  }
  if (failure_.isOk())
    failure_ =
        Status::internal("the compiled step returned " + std::to_string(code) +
                         " although no call of it failed");
  world_.abort(failure_);
  if (queues_)
    queues_->cancel(failure_);
  return failure_;
}

Status Context::run(const fsdp_rt_program &program) {
  Counters counted = counters_;
  recorder_.pause();
  Status status = step(program);
  recorder_.resume();
  counters_ = std::move(counted);
  return status;
}

int32_t Context::launch(const fsdp_rt_launch_desc &desc) {
  if (hasTransferFailed())
    return failOfTransfer();
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
  if (hasTransferFailed())
    return failOfTransfer();
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

int32_t Context::attention(const fsdp_rt_attention_desc &desc, bool backward) {
  if (hasTransferFailed())
    return failOfTransfer();
  const char *kind = backward ? "attention_backward" : "attention";
  if (Status s = checkAttention(desc, backward, arena_.size(),
                                options_.scratchBytes, *blas_))
    return fail(s.withContext(callName(kind, desc.name)));
  int64_t begin = nowNanoseconds();
  AttentionMemory memory;
  memory.base = scratch_.data();
  memory.stride = scratchStride_;
  if (Status s =
          runAttention(desc, backward, arena_.data(), *blas_, pool_, memory))
    return fail(s.withContext(callName(kind, desc.name)));
  int64_t end = nowNanoseconds();
  counters_.lastStep.kernels += end - begin;
  record({&desc, desc.name, CallKind::Launch, 0, begin, end, 0,
          attentionBytes(desc, backward), attentionFlops(desc, backward)});
  return 0;
}

Status Context::checkPart(int32_t kind,
                          const fsdp_rt_collective_desc &desc) const {
  auto groups = static_cast<int64_t>(options_.groups.size());
  if (desc.group < 0 || desc.group >= groups)
    return Status::internal("expected one of " + std::to_string(groups) +
                            " groups, got " + std::to_string(desc.group));
  const Communicator *group = groupOf(desc.group);
  if (!group)
    return Status::internal("expected a queue of collectives in the manifest, "
                            "got none");
  return checkCollective(kind, desc, group->rank(), group->size(),
                         arena_.size());
}

int64_t Context::count(int32_t kind, const fsdp_rt_collective_desc &desc) {
  int64_t moved = collectiveBytes(kind, desc, groupOf(desc.group)->size());
  TransferCounter &counter = counters_.groups[desc.group][kind];
  ++counter.calls;
  counter.bytes += moved;
  return moved;
}

int64_t Context::count(int32_t kind, const fsdp_rt_host_copy_desc &desc) {
  TransferCounter &counter =
      kind == FSDP_RT_OFFLOAD ? counters_.offloads : counters_.reloads;
  ++counter.calls;
  counter.bytes += desc.bytes;
  return desc.bytes;
}

static Status ofPart(int64_t i, Status status) {
  return status.withContext("part " + std::to_string(i));
}

Status Context::checkHostCopies(const fsdp_rt_start_desc &desc) const {
  auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
  for (int64_t i = 0; i < desc.part_count; ++i) {
    if (!parts[i])
      return ofPart(i, Status::internal("expected a copy, got null"));
    if (Status s = checkHostCopy(desc.kind, *parts[i], memory()))
      return ofPart(i, std::move(s));
  }
  return Status::ok();
}

Status Context::checkParts(const fsdp_rt_start_desc &desc) const {
  auto parts = static_cast<const fsdp_rt_collective_desc *const *>(desc.parts);
  for (int64_t i = 0; i < desc.part_count; ++i) {
    if (!parts[i])
      return ofPart(i, Status::internal("expected a collective, got null"));
    if (Status s = checkPart(desc.kind, *parts[i]))
      return ofPart(i, std::move(s));
    if (parts[i]->group != parts[0]->group)
      return ofPart(i, Status::internal("expected group " +
                                        std::to_string(parts[0]->group) +
                                        " as of the first, got " +
                                        std::to_string(parts[i]->group)));
  }
  return Status::ok();
}

Status Context::checkStart(const fsdp_rt_start_desc &desc) const {
  bool isInOrder = desc.queue == FSDP_RT_QUEUE_COMPUTE;
  if (!isInOrder && !queues_)
    return Status::internal("expected a manifest with events, got none");
  if (isInOrder && queues_)
    return Status::internal(
        "expected a queue that the manifest names, got the computation's");
  if (isInOrder && (desc.event != -1 || desc.after_count != 0))
    return Status::internal("expected no events of a transfer in the order of "
                            "the computation, got event " +
                            std::to_string(desc.event) + " after " +
                            std::to_string(desc.after_count));
  if (!transferName(desc.kind))
    return Status::internal("expected a kind of transfer, got " +
                            std::to_string(desc.kind));
  if (!desc.parts || desc.part_count < 1)
    return Status::internal("expected at least 1 part, got " +
                            std::to_string(desc.parts ? desc.part_count : 0));
  if (auto guard = static_cast<const fsdp_rt_guard_desc *>(desc.guard))
    if (Status s = checkGuard(*guard, memory()))
      return s.withContext("guard");
  return isHostCopy(desc.kind) ? checkHostCopies(desc) : checkParts(desc);
}

int64_t Context::count(const fsdp_rt_start_desc &desc) {
  int64_t moved = 0;
  if (isHostCopy(desc.kind)) {
    auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
    for (int64_t i = 0; i < desc.part_count; ++i)
      moved += count(desc.kind, *parts[i]);
    return moved;
  }
  auto parts = static_cast<const fsdp_rt_collective_desc *const *>(desc.parts);
  for (int64_t i = 0; i < desc.part_count; ++i)
    moved += count(desc.kind, *parts[i]);
  return moved;
}

void Context::addToStep(const TransferRecord &done) {
  counters_.lastStep.waiting += done.waiting;
  counters_.lastStep.communication += done.end - done.begin - done.waiting;
}

Status Context::runInOrder(const fsdp_rt_start_desc &desc) {
  TransferRecord done;
  done.desc = &desc;
  done.bytes = count(desc);
  done.given = done.begin = nowNanoseconds();
  if (Status s =
          runTransfers(desc, world_, communicators_, memory(), &pool_, done))
    return s;
  done.end = nowNanoseconds();
  addToStep(done);
  record(done);
  return Status::ok();
}

int32_t Context::start(const fsdp_rt_start_desc &desc) {
  if (hasTransferFailed())
    return failOfTransfer();
  if (Status s = checkStart(desc))
    return fail(s.withContext(callName("start", desc.name)));
  if (desc.queue == FSDP_RT_QUEUE_COMPUTE) {
    Status status = runInOrder(desc);
    return status.isOk() ? 0 : fail(std::move(status));
  }
  if (Status s = queues_->start(desc, count(desc)))
    return fail(s.withContext(callName("start", desc.name)));
  if (queues_->hasThreads())
    return 0;
  if (hasTransferFailed())
    return failOfTransfer();
  addToStep(queues_->record(desc.event));
  return 0;
}

int32_t Context::wait(const fsdp_rt_wait_desc &desc) {
  if (!queues_)
    return fail(
        Status::internal(callName("wait", desc.name) +
                         ": expected a manifest with events, got none"));
  int64_t begin = nowNanoseconds();
  bool isFirst = false;
  Result<TransferRecord> done = queues_->wait(desc.event, isFirst);
  if (!done.isOk())
    return fail(done.status().withContext(callName("wait", desc.name)));
  if (hasTransferFailed())
    return failOfTransfer();
  int64_t end = nowNanoseconds();
  counters_.lastStep.waiting += end - begin;
  if (isFirst) {
    counters_.lastStep.transfers += done->end - done->begin;
    record(*done);
  }
  record({&desc, desc.name, CallKind::Wait, 0, begin, end, end - begin, 0, 0});
  return 0;
}

int32_t Context::copy(const fsdp_rt_copy_desc &desc) {
  if (hasTransferFailed())
    return failOfTransfer();
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
  if (hasTransferFailed())
    return failOfTransfer();
  if (!inArena(desc.flag, 1))
    return fail(Status::internal("check: expected a flag inside the arena of " +
                                 std::to_string(arena_.size()) +
                                 " bytes, got offset " +
                                 std::to_string(desc.flag)));
  if (arena_.data()[desc.flag] != 1)
    return fail(Status::failed(std::string(desc.message
                                               ? desc.message
                                               : "a check of the step failed") +
                               (checkNote_.empty() ? "" : "; " + checkNote_)));
  return 0;
}

int32_t Context::guard(const fsdp_rt_guard_desc &desc) {
  if (hasTransferFailed())
    return failOfTransfer();
  if (Status s = checkGuard(desc, memory()))
    return fail(s.withContext(callName("guard", desc.name)));
  if (Status s = runGuard(desc, memory()))
    return fail(std::move(s));
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

void Context::record(const TransferRecord &done) {
  const fsdp_rt_start_desc &desc = *done.desc;
  CallKind kind =
      isHostCopy(desc.kind) ? CallKind::HostCopy : CallKind::Collective;
  record({&desc, desc.name, kind, 0, done.begin, done.end, done.waiting,
          done.bytes, 0, desc.queue, desc.kind, done.given});
}

} // namespace fsdp::rt
