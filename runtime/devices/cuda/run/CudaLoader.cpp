//===- CudaLoader.cpp - From recorded calls to work -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/CudaLoader.h"

#include "core/Dtype.h"
#include "core/StableHash.h"
#include "devices/cuda/blas/ProductParts.h"
#include "hal/ComputeRules.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

namespace fsdp::rt {

namespace {

using hal::Function;

constexpr int64_t maxKernels = 1024;
/// What cuBLASLt's descriptors hold.
constexpr int64_t maxDimension = std::numeric_limits<int32_t>::max();

} // namespace

cu::Pointer CudaLoader::at(int64_t offset) const {
  return rank_.device().base() + static_cast<cu::Pointer>(offset);
}

/// A launch may begin before the one before it has ended where its stream was
/// given nothing between them (no copy, product or exchange, no event and no
/// wait for one) and the code of both waits: so what the first waits for is
/// over when it ends.
void CudaLoader::chainLaunches() {
  // Whether the work before waits; returns whether the call's last work does.
  auto chain = [&](const CudaCall &call, bool before) {
    for (size_t i = call.begin; i < call.end; ++i) {
      CudaWork &work = *made_.works_[i];
      work.isDependent = before && work.waitsForGrid();
      before = work.waitsForGrid();
    }
    return before;
  };
  bool before = false;
  for (const CudaCall &call : made_.calls_) {
    bool isOfOtherQueue =
        call.call.function == Function::start &&
        call.call.as<fsdp_rt_start_desc>().queue != FSDP_RT_QUEUE_COMPUTE;
    // A transfer's stream waits first, for an event of the compute queue.
    if (isOfOtherQueue)
      chain(call, false);
    if (isOfOtherQueue || call.call.function == Function::wait)
      before = false;
    if (!isOfOtherQueue)
      before = chain(call, before);
  }
}

void CudaLoader::findLastEvents() {
  constexpr int64_t none = -1;
  std::vector<int64_t> last(numQueues, none);
  for (const hal::Call &call : made_.recording().calls()) {
    if (call.function == Function::start) {
      const auto &start = call.as<fsdp_rt_start_desc>();
      if (start.queue != FSDP_RT_QUEUE_COMPUTE)
        last[start.queue] = start.event;
    }
    if (call.function == Function::wait)
      std::replace(last.begin(), last.end(), call.as<fsdp_rt_wait_desc>().event,
                   none);
  }
  std::copy_if(last.begin(), last.end(), std::back_inserter(made_.lastEvents_),
               [](int64_t event) { return event != none; });
}

/// By a kernel, not a fill: nobody has tried fills of the host's memory in
/// graphs, and a kernel may begin before the one before it has ended.
Status CudaLoader::addMark(size_t index) {
  char *mark = made_.progress_.markOf(index);
  if (!mark)
    return Status::ok();
  // The address of pinned memory is the same on the host and on the device.
  return addOwnKernel(markLaunch(reinterpret_cast<cu::Pointer>(mark)));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void CudaLoader::add(std::unique_ptr<CudaWork> work) {
  made_.works_.push_back(std::move(work));
}

void CudaLoader::add(CallWork::Call call) {
  add(std::make_unique<CallWork>(std::move(call)));
}

Status CudaLoader::addKernel(const fsdp_rt_cuda_kernel_desc &kernel,
                             std::shared_ptr<LaunchParameters> parameters) {
  Result<CudaKernel> found = rank_.images().find(kernel);
  if (!found.isOk())
    return found.status();
  // The driver refuses launches of no blocks.
  if (found->grid == 0)
    return Status::ok();
  add(std::make_unique<LaunchWork>(rank_.context(), *found,
                                   std::move(parameters)));
  return Status::ok();
}

Status CudaLoader::addOwnKernel(const OwnLaunch &launch) {
  return addKernel(launch.kernel, parametersOf(launch.parameters));
}

const fsdp_rt_cuda_code_desc *
CudaLoader::codeOf(const void *implementations) const {
  if (!implementations)
    return nullptr;
  auto byTarget = static_cast<const void *const *>(implementations);
  return static_cast<const fsdp_rt_cuda_code_desc *>(byTarget[rank_.target()]);
}

Status CudaLoader::addCode(const void *implementations,
                           std::vector<cu::Pointer> parameters,
                           Workspace workspace) {
  const fsdp_rt_cuda_code_desc *code = codeOf(implementations);
  if (!code || !code->kernels)
    return Status::internal("expected code for CUDA devices, got null");
  if (code->kernel_count < 1 || code->kernel_count > maxKernels)
    return Status::internal("expected 1 to " + std::to_string(maxKernels) +
                            " functions, got " +
                            std::to_string(code->kernel_count));
  if (code->workspace_bytes < 0 || code->workspace_bytes > workspace.bytes)
    return Status::internal(
        "expected code that needs a workspace of at most the call's " +
        std::to_string(workspace.bytes) + " bytes, got " +
        std::to_string(code->workspace_bytes));
  if (code->workspace_bytes != 0)
    parameters.push_back(at(workspace.offset));
  auto kept = parametersOf(std::move(parameters));
  auto kernels =
      static_cast<const fsdp_rt_cuda_kernel_desc *const *>(code->kernels);
  for (int64_t i = 0; i < code->kernel_count; ++i) {
    if (!kernels[i])
      return Status::internal("expected code for CUDA devices, got null");
    if (Status s = addKernel(*kernels[i], kept))
      return s;
  }
  return Status::ok();
}

template <>
Status CudaLoader::addCall(size_t, const fsdp_rt_launch_desc &desc) {
  auto operands = static_cast<const int64_t *>(desc.operands);
  std::vector<cu::Pointer> parameters;
  for (int64_t i = 0; i < desc.operand_count; ++i)
    parameters.push_back(at(operands[i]));
  return addCode(desc.implementations, std::move(parameters),
                 {desc.workspace, desc.workspace_bytes});
}

Status CudaLoader::chooseAttentions() {
  const std::vector<hal::Call> &calls = made_.recording().calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!isAttention(calls[i]))
      continue;
    if (Status s = hal::checkAttention(calls[i].as<fsdp_rt_attention_desc>(),
                                       isBackwardAttention(calls[i]),
                                       rank_.device().size(), maxDimension))
      return s.withContext(made_.recording().describeCall(i));
  }
  Result<ChosenAttentions> chosen = rank_.attentions().choose(
      made_.recording(), [&](size_t index) { return getOwnAttention(index); });
  if (!chosen.isOk())
    return chosen.status();
  attentions_ = std::move(*chosen);
  return Status::ok();
}

Result<OwnCode> CudaLoader::getOwnAttention(size_t index) {
  const hal::Call &call = made_.recording().calls()[index];
  const auto &desc = call.as<fsdp_rt_attention_desc>();
  size_t begin = made_.works_.size();
  Status status = addOwnAttention(desc, isBackwardAttention(call));
  auto works = std::make_shared<std::vector<std::unique_ptr<CudaWork>>>();
  std::move(made_.works_.begin() + static_cast<std::ptrdiff_t>(begin),
            made_.works_.end(), std::back_inserter(*works));
  made_.works_.resize(begin);
  if (status)
    return status;
  OwnCode code;
  // A call's code is launches alone.
  for (const std::unique_ptr<CudaWork> &work : *works)
    code.shape += (code.shape.empty() ? "" : " + ") +
                  static_cast<const LaunchWork &>(*work).describeShape();
  // Of another compiler's code, which may have the same shape, times differ.
  auto kernel = static_cast<const fsdp_rt_cuda_kernel_desc *const *>(
      codeOf(desc.implementations)->kernels)[0];
  auto image = static_cast<const fsdp_rt_cuda_image_desc *>(kernel->image);
  code.shape += ", code " + std::to_string(stableHash(image->ptx));
  code.issue = [works](cu::Stream stream) {
    for (const std::unique_ptr<CudaWork> &work : *works)
      if (Status s = work->enqueue(stream))
        return s;
    return Status::ok();
  };
  return code;
}

template <>
Status CudaLoader::addCall(size_t index, const fsdp_rt_attention_desc &desc) {
  auto chosen = attentions_.find(index);
  if (chosen == attentions_.end())
    return addOwnAttention(
        desc, isBackwardAttention(made_.recording().calls()[index]));
  add(std::move(chosen->second));
  return Status::ok();
}

Status CudaLoader::addOwnAttention(const fsdp_rt_attention_desc &desc,
                                   bool backward) {
  std::vector<cu::Pointer> parameters;
  auto add = [&](int64_t offset) {
    parameters.push_back(offset < 0 ? 0 : at(offset));
  };
  for (int tensor = 0; tensor < hal::attentionTensors(backward); ++tensor)
    add(hal::AttentionView(desc, tensor).offset);
  add(desc.stats);
  auto captured = static_cast<const int64_t *>(desc.captured);
  for (int64_t i = 0; i < desc.captured_count; ++i)
    add(captured[i]);
  return addCode(desc.implementations, std::move(parameters),
                 {desc.workspace, desc.workspace_bytes});
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

template <>
Status CudaLoader::addCall(size_t, const fsdp_rt_matmul_desc &desc) {
  if (Status s = hal::checkMatmul(desc, rank_.device().size(), maxDimension))
    return s;
  if (desc.m == 0 || desc.n == 0 || hal::matmulBatch(desc) == 0)
    return Status::ok();
  if (desc.k == 0) {
    // A sum of nothing.
    if (desc.epilogue != 0)
      return Status::failed("expected a product over at least 1 element before "
                            "an epilogue, got k = 0");
    if (desc.accumulate)
      return Status::ok();
    if (desc.ldc != desc.n || hal::matmulBatch(desc) != 1)
      return Status::failed("expected a product over at least 1 element, or "
                            "one whose result lies in one piece, got k = 0");
    int64_t size = dtypeSize(static_cast<Dtype>(desc.c_dtype));
    addFill(at(desc.c), 0, desc.m * desc.n * size);
    return Status::ok();
  }
  std::vector<fsdp_rt_matmul_desc> parts = cutExtents(desc);
  if (areFaster(parts, desc))
    rank_.products().countCut();
  else
    parts = {desc};
  for (const fsdp_rt_matmul_desc &part : parts) {
    Result<std::unique_ptr<CudaProduct>> product =
        rank_.products().prepare(part, !openTransfers_.empty());
    if (!product.isOk())
      return product.status();
    products_.push_back(product->get());
    add(std::move(*product));
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Transfers, copies, checks
//===----------------------------------------------------------------------===//

void CudaLoader::addFill(cu::Pointer dst, unsigned char value, int64_t bytes) {
  if (bytes == 0)
    return;
  add([&context = rank_.context(), dst, value,
       bytes = static_cast<size_t>(bytes)](cu::Stream stream) {
    return context.check(context.api().fillBytes(dst, value, bytes, stream),
                         "cuMemsetD8Async");
  });
}

void CudaLoader::addCopyOnDevice(cu::Pointer dst, cu::Pointer src,
                                 int64_t bytes) {
  if (bytes == 0 || dst == src)
    return;
  add([&context = rank_.context(), dst, src,
       bytes = static_cast<size_t>(bytes)](cu::Stream stream) {
    return context.check(context.api().copyOnDevice(dst, src, bytes, stream),
                         "cuMemcpyDtoDAsync");
  });
}

void CudaLoader::addCopyToHost(void *dst, cu::Pointer src, int64_t bytes) {
  add([&context = rank_.context(), dst, src,
       bytes = static_cast<size_t>(bytes)](cu::Stream stream) {
    return context.check(context.api().copyToHost(dst, src, bytes, stream),
                         "cuMemcpyDtoHAsync");
  });
}

void CudaLoader::addCopyToDevice(cu::Pointer dst, const void *src,
                                 int64_t bytes) {
  add([&context = rank_.context(), dst, src,
       bytes = static_cast<size_t>(bytes)](cu::Stream stream) {
    return context.check(context.api().copyToDevice(dst, src, bytes, stream),
                         "cuMemcpyHtoDAsync");
  });
}

template <>
Status CudaLoader::addCall(size_t, const fsdp_rt_copy_desc &desc) {
  if (desc.src == -1)
    addFill(at(desc.dst), 0, desc.bytes);
  else
    addCopyOnDevice(at(desc.dst), at(desc.src), desc.bytes);
  return Status::ok();
}

template <>
Status CudaLoader::addCall(size_t index, const fsdp_rt_check_desc &desc) {
  CudaReport report;
  report.check = &desc;
  report.unit = made_.recording().unitOf(index);
  return addOwnKernel(checkLaunch(
      at(desc.flag), reinterpret_cast<cu::Pointer>(addReport(report))));
}

template <>
Status CudaLoader::addCall(size_t, const fsdp_rt_guard_desc &desc) {
  return addGuards(desc, /*before=*/true, /*after=*/true);
}

/// The device waits when it issues the call.
template <>
Status CudaLoader::addCall(size_t, const fsdp_rt_wait_desc &desc) {
  openTransfers_.erase(desc.event);
  return Status::ok();
}

void CudaLoader::addHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc) {
  if (desc.bytes == 0)
    return;
  char *host = rank_.host().data();
  if (sidesOf(kind).to == FSDP_RT_HOST)
    addCopyToHost(host + desc.dst, at(desc.src), desc.bytes);
  else
    addCopyToDevice(at(desc.dst), host + desc.src, desc.bytes);
}

Status CudaLoader::addTransfers(const fsdp_rt_start_desc &desc) {
  if (isHostCopy(desc.kind)) {
    auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
    for (int64_t i = 0; i < desc.part_count; ++i)
      addHostCopy(desc.kind, *parts[i]);
    return Status::ok();
  }
  return addCollectives(desc);
}

template <>
Status CudaLoader::addCall(size_t index, const fsdp_rt_start_desc &desc) {
  auto guard = static_cast<const fsdp_rt_guard_desc *>(desc.guard);
  if (guard)
    if (Status s = addGuards(*guard, /*before=*/true, /*after=*/false))
      return s;
  if (hal::getExchange(made_.recording().calls()[index], rank_.layout()) &&
      desc.queue != FSDP_RT_QUEUE_COMPUTE)
    openTransfers_.insert(desc.event);
  if (Status s = addTransfers(desc))
    return s;
  return guard ? addGuards(*guard, /*before=*/false, /*after=*/true)
               : Status::ok();
}

//===----------------------------------------------------------------------===//
// All calls
//===----------------------------------------------------------------------===//

Status CudaLoader::load() {
  const std::vector<hal::Call> &calls = made_.recording().calls();
  if (Status s = makeReports())
    return s;
  Result<std::shared_ptr<PinnedMemory>> marks =
      rank_.lendPinned(made_.progress_.choose(made_.recording()));
  if (!marks.isOk())
    return marks.status();
  made_.progress_.use(std::move(*marks));
  if (StagedTransfers *staged = rank_.staged()) {
    if (Status s = staged->prepare(made_.recording()))
      return s;
  } else if (Status s = rank_.transfers().prepare(made_.recording())) {
    return s;
  }
  rank_.products().reserve(rank_.transfers().maxCtas());
  if (Status s = chooseAttentions())
    return s;
  made_.calls_.reserve(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    CudaCall mine;
    mine.call = calls[i];
    mine.begin = made_.works_.size();
    if (Status s =
            visitCall(calls[i], [&](auto &desc) { return addCall(i, desc); }))
      return s.withContext(made_.recording().describeCall(i));
    // Behind no work a mark would tell nothing, but where a queue waits.
    if (made_.works_.size() == mine.begin &&
        calls[i].function != Function::wait)
      made_.progress_.drop(i);
    if (Status s = addMark(i))
      return s;
    mine.end = made_.works_.size();
    made_.calls_.push_back(mine);
  }
  findLastEvents();
  if (rank_.usesDependentLaunch())
    chainLaunches();
  return rank_.products().choose(products_);
}

} // namespace fsdp::rt
