//===- CpuRank.cpp - The part of a host that computes for one rank --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/CpuRank.h"

#include "core/Clock.h"
#include "core/Host.h"
#include "core/Reduce.h"
#include "devices/cpu/Attention.h"
#include "devices/cpu/Guard.h"
#include "devices/cpu/Matmul.h"
#include "hal/CallWork.h"

#include <string>

namespace fsdp::rt {

namespace {

using hal::Function;

Status checkOptions(const CpuOptions &options) {
  constexpr int64_t maxThreads = 4096, maxBytes = int64_t(1) << 46;
  if (options.threads < 1 || options.threads > maxThreads)
    return Status::failed("expected 1 to " + std::to_string(maxThreads) +
                          " threads per rank, got " +
                          std::to_string(options.threads));
  if (options.matmulWorkspaceBytes < minMatmulWorkspaceBytes ||
      options.matmulWorkspaceBytes > maxBytes)
    return Status::failed("expected a matmul workspace of " +
                          std::to_string(minMatmulWorkspaceBytes) + " to " +
                          std::to_string(maxBytes) + " bytes, got " +
                          std::to_string(options.matmulWorkspaceBytes));
  return Status::ok();
}

/// Every rank of this host is about to reserve as much.
Status checkFits(const hal::MemorySizes &memory, int localSize) {
  int64_t limit = memoryLimit();
  int64_t share = limit / localSize;
  if (limit == 0 ||
      (memory.device <= share && memory.host <= share - memory.device))
    return Status::ok();
  return Status::failed(
      "expected arenas of " + std::to_string(localSize) +
      " ranks that fit the " + std::to_string(limit) +
      " bytes of this host, got " + std::to_string(memory.device) +
      " bytes per rank" +
      (memory.host > 0
           ? " and " + std::to_string(memory.host) + " for what it offloads"
           : ""));
}

} // namespace

const hal::DeviceSettings &cpuSettings() {
  static const hal::DeviceSettings settings = {
      "processors",
      {{"queue-threads", "auto|off|on", "auto",
        "whether each queue of a scheduled step has a thread; default: auto, "
        "not where every core computes and transfers only copy memory"},
       {"blas", "auto|openblas|onednn", "auto",
        "library for matrix products; default: auto, onednn where it is "
        "there"}}};
  return settings;
}

Result<CpuOptions> parseCpuOptions(const hal::DeviceOptions &options) {
  Result<std::map<std::string, int>> places =
      cpuSettings().read(options.settings);
  if (!places.isOk())
    return places.status();
  CpuOptions wanted;
  wanted.target = options.target;
  wanted.threads = options.threads;
  wanted.queueThreads = static_cast<QueueThreads>(places->at("queue-threads"));
  wanted.blas = static_cast<BlasKind>(places->at("blas"));
  return wanted;
}

Status checkCpuHost(const std::string &cpu,
                    const std::vector<std::string> &features) {
  return checkCpu(features).withContext("this program was compiled for " + cpu);
}

int countBusyCpuThreads(const hal::DeviceOptions &options, bool hasLink,
                        int ranksOnHost) {
  Result<CpuOptions> wanted = parseCpuOptions(options);
  QueueThreads wish = wanted.isOk() ? wanted->queueThreads : QueueThreads::Auto;
  bool haveThreads = decideQueueThreads(wish, hasLink, ranksOnHost,
                                        options.threads) == QueueThreads::On;
  auto queues = static_cast<int>(options.layout.queues.size());
  return options.threads + (haveThreads ? queues : 0);
}

CpuRank::CpuRank(Arena arena, Arena host, Arena scratch, const Blas *blas,
                 int64_t scratchBytes, const CpuOptions &options)
    : arena_(std::move(arena)), host_(std::move(host)),
      scratch_(std::move(scratch)), blas_(blas), target_(options.target),
      scratchBytes_(scratchBytes),
      scratchStride_(
          getThreadBytes(scratchBytes, options.matmulWorkspaceBytes)),
      workspaceBytes_(options.matmulWorkspaceBytes / 64 * 64) {}

Result<std::unique_ptr<CpuRank>> CpuRank::create(int localSize,
                                                 const hal::Layout &layout,
                                                 const CpuOptions &options) {
  if (Status s = checkOptions(options))
    return s;
  if (Status s = checkFits(layout.memory, localSize))
    return s;
  Result<const Blas *> blas = Blas::open(options.blas);
  if (!blas.isOk())
    return blas.status();
  Result<Arena> arena = Arena::map(layout.memory.device, "arena");
  if (!arena.isOk())
    return arena.status();
  Result<Arena> host = Arena::map(layout.memory.host, "arena of the host");
  if (!host.isOk())
    return host.status();
  int64_t stride =
      getThreadBytes(layout.scratchBytes, options.matmulWorkspaceBytes);
  Result<Arena> scratch = Arena::map(stride * options.threads, "scratch");
  if (!scratch.isOk())
    return scratch.status();
  std::unique_ptr<CpuRank> rank(new CpuRank(std::move(*arena), std::move(*host),
                                            std::move(*scratch), *blas,
                                            layout.scratchBytes, options));
  bool hasCores = int64_t(localSize) * options.threads <= availableCores();
  if (Status s = rank->pool_.start(options.threads, hasCores))
    return s;
  rank->arena_.touch(rank->pool_);
  rank->host_.touch(rank->pool_);
  rank->scratch_.touch(rank->pool_);
  return rank;
}

hal::DeviceFacts CpuRank::facts(const char *name) const {
  hal::DeviceFacts facts;
  facts.name = name;
  facts.products = blas_->name();
  facts.threads = pool_.threads();
  return facts;
}

/// The descriptor of a kernel's code for target `target`; null: none.
static const void *findCode(const void *implementations, int target) {
  return implementations
             ? static_cast<const void *const *>(implementations)[target]
             : nullptr;
}

template <typename Desc>
Status CpuRank::resolve(CpuCall &, const Desc &) const {
  return Status::ok();
}

template <>
Status CpuRank::resolve(CpuCall &call, const fsdp_rt_launch_desc &desc) const {
  call.code = findCode(desc.implementations, target_);
  auto code = static_cast<const fsdp_rt_cpu_kernel_desc *>(call.code);
  if (!code || !code->function)
    return Status::internal("expected a kernel with code for processors, got "
                            "null");
  if (code->scratch_bytes < 0 || code->scratch_bytes > scratchBytes_)
    return Status::internal("expected at most the " +
                            std::to_string(scratchBytes_) +
                            " bytes of scratch that the manifest names, got " +
                            std::to_string(code->scratch_bytes));
  return Status::ok();
}

template <>
Status CpuRank::resolve(CpuCall &, const fsdp_rt_matmul_desc &desc) const {
  return checkMatmul(desc, arena_.size(), *blas_);
}

template <>
Status CpuRank::resolve(CpuCall &call,
                        const fsdp_rt_attention_desc &desc) const {
  call.code = findCode(desc.implementations, target_);
  auto code = static_cast<const fsdp_rt_cpu_attention_desc *>(call.code);
  if (!code)
    return Status::internal("expected attention with code for processors, got "
                            "null");
  return checkAttention(desc, *code, hal::isBackwardAttention(call.call),
                        arena_.size(), scratchBytes_, *blas_);
}

Result<std::unique_ptr<CpuExecutable>> CpuRank::load(hal::Recording recording) {
  auto made = std::make_unique<CpuExecutable>(std::move(recording));
  const std::vector<hal::Call> &calls = made->recording().calls();
  size_t operands = 0;
  for (const hal::Call &call : calls)
    if (call.function == Function::launch)
      operands += call.as<fsdp_rt_launch_desc>().operand_count;
  // Calls point into it: it does not grow.
  made->operands_.reserve(operands);
  made->calls_.reserve(calls.size());
  for (const hal::Call &call : calls) {
    CpuCall &mine = made->calls_.emplace_back();
    mine.call = call;
    Status resolved =
        visitCall(call, [&](auto &desc) { return resolve(mine, desc); });
    if (resolved)
      return resolved.withContext(nameOf(call));
    if (call.function != Function::launch)
      continue;
    auto &desc = call.as<fsdp_rt_launch_desc>();
    auto offsets = static_cast<const int64_t *>(desc.operands);
    mine.operands = made->operands_.data() + made->operands_.size();
    for (int64_t i = 0; i < desc.operand_count; ++i)
      made->operands_.push_back(arena_.data() + offsets[i]);
  }
  return made;
}

template <>
Status CpuRank::compute(const CpuCall &call, const fsdp_rt_launch_desc &,
                        const hal::RunRequest &) {
  auto &code = *static_cast<const fsdp_rt_cpu_kernel_desc *>(call.code);
  auto kernel =
      reinterpret_cast<fsdp_rt_kernel_fn>(const_cast<void *>(code.function));
  auto part = [&](int thread, int64_t from, int64_t to) {
    kernel(call.operands, scratch_.data() + thread * scratchStride_, from, to);
  };
  pool_.parallelFor(code.grid, code.grain, part);
  return Status::ok();
}

template <>
Status CpuRank::compute(const CpuCall &call, const fsdp_rt_matmul_desc &desc,
                        const hal::RunRequest &) {
  MatmulWorkspace workspace;
  workspace.base = scratch_.data() + scratchStride_ - workspaceBytes_;
  workspace.stride = scratchStride_;
  workspace.bytes = workspaceBytes_;
  Status s = runMatmul(desc, arena_.data(), *blas_, pool_, workspace);
  return s ? s.withContext(nameOf(call.call)) : s;
}

template <>
Status CpuRank::compute(const CpuCall &call, const fsdp_rt_attention_desc &desc,
                        const hal::RunRequest &) {
  auto &code = *static_cast<const fsdp_rt_cpu_attention_desc *>(call.code);
  AttentionMemory memory;
  memory.base = scratch_.data();
  memory.stride = scratchStride_;
  Status s = runAttention(desc, code, hal::isBackwardAttention(call.call),
                          arena_.data(), *blas_, pool_, memory);
  return s ? s.withContext(nameOf(call.call)) : s;
}

template <>
Status CpuRank::compute(const CpuCall &, const fsdp_rt_copy_desc &desc,
                        const hal::RunRequest &) {
  char *dst = arena_.data() + desc.dst;
  if (desc.src == -1)
    fillZero(&pool_, dst, desc.bytes);
  else
    copyBytes(&pool_, dst, arena_.data() + desc.src, desc.bytes);
  return Status::ok();
}

template <>
Status CpuRank::compute(const CpuCall &, const fsdp_rt_check_desc &desc,
                        const hal::RunRequest &request) {
  if (arena_.data()[desc.flag] == 1)
    return Status::ok();
  const std::string &note = request.checkNote;
  return Status::failed(
      std::string(desc.message ? desc.message : "a check of the step failed") +
      (note.empty() ? "" : "; " + note));
}

template <>
Status CpuRank::compute(const CpuCall &, const fsdp_rt_guard_desc &desc,
                        const hal::RunRequest &) {
  return runGuard(desc, memory());
}

static Status refuseTransfer() {
  return Status::internal("expected a call that computes, got a transfer's");
}

template <>
Status CpuRank::compute(const CpuCall &, const fsdp_rt_start_desc &,
                        const hal::RunRequest &) {
  return refuseTransfer();
}

template <>
Status CpuRank::compute(const CpuCall &, const fsdp_rt_wait_desc &,
                        const hal::RunRequest &) {
  return refuseTransfer();
}

Status CpuRank::run(const CpuCall &call, const hal::RunRequest &request,
                    hal::RunTimes &times) {
  int64_t begin = nowNanoseconds();
  if (Status s = visitCall(
          call.call, [&](auto &desc) { return compute(call, desc, request); }))
    return s;
  report(call.call, begin, nowNanoseconds(), times, request.log);
  return Status::ok();
}

} // namespace fsdp::rt
