//===- TransferLoader.cpp - From transfers among ranks to work ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Dtype.h"
#include "devices/cuda/kernels/OwnKernels.h"
#include "devices/cuda/run/CudaLoader.h"
#include "devices/cuda/run/SumLoader.h"
#include "hal/Transfers.h"

#include <string>

namespace fsdp::rt {

namespace {

using Kind = NcclCall::Kind;

bool isNarrow(Dtype dtype) {
  return dtype == FSDP_RT_F16 || dtype == FSDP_RT_BF16;
}

/// Whether NCCL adds them up as it should.
Status checkSum(Dtype dtype, const hal::Layout &layout) {
  if (isNarrow(dtype) && layout.roundedSums != dtype)
    return Status::failed(
        std::string("expected sums of F32, F64 or integers with --reduction "
                    "nccl, which rounds each partial sum, got ") +
        dtypeName(dtype) +
        ": compile with --reduce-dtype f32, or with the type itself, which "
        "says "
        "that this is meant, or run with --reduction exact");
  if (!nccl::typeOf(dtype))
    return Status::failed(std::string("expected sums of types that NCCL has "
                                      "with --reduction nccl, got ") +
                          dtypeName(dtype) + ": run with --reduction exact");
  return Status::ok();
}

} // namespace

NcclExchange *CudaLoader::addExchange(const NcclChannel &channel) {
  std::unique_ptr<NcclExchange> made = rank_.transfers().makeExchange(channel);
  NcclExchange *exchange = made.get();
  made_.exchanges_.push_back({made_.calls_.size(), exchange});
  if (lastExchange_ && lastExchange_->queue() != exchange->queue() &&
      !rank_.transfers().ordersThemselves()) {
    lastExchange_->letNextWait();
    exchange->waitForLast();
  }
  lastExchange_ = exchange;
  add(std::move(made));
  return exchange;
}

Status CudaLoader::addDivision(const fsdp_rt_collective_desc &desc,
                               cu::Pointer src) {
  return addOwnKernel(sumLaunch({static_cast<Dtype>(desc.dtype), src,
                                 at(desc.dst), desc.count, desc.divisor}));
}

/// What one rank gathers, exchanges or adds up is its own part.
Status CudaLoader::addOwnPart(int32_t kind,
                              const fsdp_rt_collective_desc &desc) {
  auto dtype = static_cast<Dtype>(desc.dtype);
  if (shapeOf(kind).isSum && desc.divisor != 1 && desc.count != 0)
    return addDivision(desc, at(desc.src));
  addCopyOnDevice(at(desc.dst), at(desc.src), desc.count * dtypeSize(dtype));
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Copies, and sums in NCCL's order
//===----------------------------------------------------------------------===//

/// NCCL adds up float16 in float16, where a sum may be too large whose mean is
/// not: each rank's part is divided before.
static bool isDividedBefore(const fsdp_rt_collective_desc &desc) {
  return desc.dtype == FSDP_RT_F16 && desc.divisor != 1;
}

Status CudaLoader::addNcclSums(const fsdp_rt_start_desc &start,
                               NcclChannel &channel) {
  auto parts = collectivesOf(start);
  bool isScatter = start.kind == FSDP_RT_REDUCE_SCATTER;
  NcclExchange *exchange = addExchange(channel);
  for (int64_t i = 0; i < start.part_count; ++i) {
    const fsdp_rt_collective_desc &desc = *parts[i];
    auto dtype = static_cast<Dtype>(desc.dtype);
    if (Status s = checkSum(dtype, rank_.layout()))
      return s;
    if (desc.count == 0)
      continue;
    NcclCall call = {isScatter ? Kind::ReduceScatter : Kind::AllReduce,
                     at(desc.src),
                     at(desc.dst),
                     static_cast<size_t>(desc.count),
                     *nccl::typeOf(dtype),
                     0};
    if (isDividedBefore(desc)) {
      Result<int> mean = channel.meanOf(desc.divisor);
      if (!mean.isOk())
        return mean.status();
      call.operation = *mean;
    }
    exchange->add(call);
  }
  for (int64_t i = 0; i < start.part_count; ++i)
    if (parts[i]->divisor != 1 && parts[i]->count > 0 &&
        !isDividedBefore(*parts[i]))
      if (Status s = addDivision(*parts[i], at(parts[i]->dst)))
        return s;
  return Status::ok();
}

void CudaLoader::addGathers(const fsdp_rt_start_desc &start,
                            const NcclChannel &channel) {
  auto parts = collectivesOf(start);
  NcclExchange *exchange = addExchange(channel);
  for (int64_t i = 0; i < start.part_count; ++i) {
    const fsdp_rt_collective_desc &desc = *parts[i];
    int64_t bytes = desc.count * dtypeSize(static_cast<Dtype>(desc.dtype));
    if (bytes > 0)
      exchange->add({Kind::AllGather, at(desc.src), at(desc.dst),
                     static_cast<size_t>(bytes), nccl::uint8, 0});
  }
}

void CudaLoader::addAllToAlls(const fsdp_rt_start_desc &start,
                              const NcclChannel &channel) {
  auto parts = collectivesOf(start);
  auto bytesOf = [&](int64_t i) {
    return parts[i]->count * dtypeSize(static_cast<Dtype>(parts[i]->dtype));
  };
  for (int64_t i = 0; i < start.part_count; ++i) {
    int64_t own = channel.rank() * bytesOf(i);
    addCopyOnDevice(at(parts[i]->dst + own), at(parts[i]->src + own),
                    bytesOf(i));
  }
  NcclExchange *exchange = addExchange(channel);
  for (int64_t i = 0; i < start.part_count; ++i)
    for (int peer = 0; peer < channel.size(); ++peer) {
      if (peer == channel.rank() || bytesOf(i) == 0)
        continue;
      int64_t place = peer * bytesOf(i);
      auto bytes = static_cast<size_t>(bytesOf(i));
      exchange->add(
          {Kind::Send, at(parts[i]->src + place), 0, bytes, nccl::uint8, peer});
      exchange->add({Kind::Receive, 0, at(parts[i]->dst + place), bytes,
                     nccl::uint8, peer});
    }
}

void CudaLoader::addStagedExchange(const fsdp_rt_start_desc &start) {
  const StagedTransfers &staged = *rank_.staged();
  made_.memory_.push_back(staged.staging(start.queue));
  add(staged.makeExchange(start, rank_.device().base()));
}

Status CudaLoader::addCollectives(const fsdp_rt_start_desc &start) {
  auto parts = collectivesOf(start);
  if (start.part_count == 0)
    return Status::ok();
  int32_t group = parts[0]->group;
  if (rank_.layout().groups[group].size() == 1) {
    for (int64_t i = 0; i < start.part_count; ++i)
      if (Status s = addOwnPart(start.kind, *parts[i]))
        return s;
    return Status::ok();
  }
  if (rank_.staged()) {
    addStagedExchange(start);
    return Status::ok();
  }
  NcclChannel &channel = rank_.transfers().channel(group, start.queue);
  switch (static_cast<fsdp_rt_transfer_kind>(start.kind)) {
  case FSDP_RT_ALL_GATHER:
    addGathers(start, channel);
    return Status::ok();
  case FSDP_RT_ALL_TO_ALL:
    addAllToAlls(start, channel);
    return Status::ok();
  case FSDP_RT_REDUCE_SCATTER:
  case FSDP_RT_ALL_REDUCE:
    return rank_.transfers().reduction() == Reduction::Exact
               ? SumLoader(*this, start, channel).load()
               : addNcclSums(start, channel);
  case FSDP_RT_OFFLOAD:
  case FSDP_RT_RELOAD:
    break;
  }
  return Status::internal(std::string("expected a collective, got ") +
                          meetingName(start.kind));
}

} // namespace fsdp::rt
