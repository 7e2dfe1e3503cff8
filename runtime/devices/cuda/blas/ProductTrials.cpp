//===- ProductTrials.cpp - Which algorithm is fastest ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/blas/ProductTrials.h"

#include "devices/cuda/driver/CudaGraph.h"
#include "devices/cuda/driver/StreamTime.h"

#include <algorithm>

namespace fsdp::rt {

ProductTrials::~ProductTrials() {
  // What still runs uses the memory.
  if (stream_)
    (void)context_.api().streamSynchronize(stream_->get());
}

Status ProductTrials::open() {
  if (stream_)
    return Status::ok();
  Result<CudaStream> stream = CudaStream::create(context_);
  if (!stream.isOk())
    return stream.status();
  stream_.emplace(std::move(*stream));
  return Status::ok();
}

/// A call of @product whose operands lie one after another in memory of the
/// trials.
Result<ProductTrials::Placed> ProductTrials::place(const CudaProduct &product) {
  const CudaProduct::Footprint &bytes = product.footprint_;
  int64_t size = 0;
  auto take = [&](int64_t wanted) {
    int64_t at = size;
    size += alignPart(wanted);
    return static_cast<cu::Pointer>(at);
  };
  Placed placed;
  CudaProduct::Call &call = placed.call;
  call.a = take(bytes.a);
  call.b = take(bytes.b);
  call.c = take(bytes.c);
  placed.bias = take(bytes.bias);
  int64_t operands = size;
  call.d = product.isInPlace() ? call.c : take(bytes.c);
  call.workspace = take(static_cast<int64_t>(product.workspaceBytes_));
  std::vector<cu::Pointer> addresses = product.addresses({});
  cu::Pointer place =
      take(static_cast<int64_t>(addresses.size() * sizeof(cu::Pointer)));
  if (!memory_ || memory_->size() < size) {
    if (Status s =
            context_.check(context_.api().streamSynchronize(stream_->get()),
                           "cuStreamSynchronize"))
      return s;
    memory_.reset();
    Result<std::unique_ptr<DeviceArena>> mapped =
        DeviceArena::map(context_, copies_, size, "trials of products");
    if (!mapped.isOk())
      return mapped.status();
    memory_ = std::move(*mapped);
  }
  cu::Pointer base = memory_->base();
  for (cu::Pointer *at : {&call.a, &call.b, &call.c, &call.d, &placed.bias,
                          &call.workspace, &place})
    *at += base;
  if (Status s = context_.check(
          context_.api().fillBytes(
              base, operandByte, static_cast<size_t>(operands), stream_->get()),
          "cuMemsetD8Async"))
    return s;
  if (addresses.empty())
    return placed;
  // The product's matrices as they lie to each other, here.
  CudaProduct::Call move;
  for (auto operand : {&CudaProduct::Call::a, &CudaProduct::Call::b,
                       &CudaProduct::Call::c, &CudaProduct::Call::d})
    move.*operand = call.*operand - product.least_.*operand;
  addresses = product.addresses(move);
  if (Status s = copies_.upload(
          place, addresses.data(),
          static_cast<int64_t>(addresses.size() * sizeof(cu::Pointer))))
    return s;
  if (Status s = copies_.finish())
    return s;
  cu::Pointer workspace = call.workspace;
  call = product.callOfPointerArrays(place);
  call.workspace = workspace;
  return placed;
}

/// Microseconds of one run.
Result<double> ProductTrials::time(const CudaProduct &product,
                                   const CudaProduct::Call &call,
                                   const lt::Algorithm &algorithm) {
  Result<CudaGraph> graph =
      CudaGraph::capture(context_, stream_->get(), [&]() -> Status {
        for (int run = 0; run < runs; ++run)
          if (Status s = product.issue(call, algorithm, stream_->get()))
            return s;
        return Status::ok();
      });
  if (!graph.isOk())
    return graph.status();
  double fastest = 0;
  // The first launch brings code and clocks up.
  for (int round = 0; round <= rounds; ++round) {
    Result<double> taken = timeOnStream(context_, stream_->get(), [&] {
      return graph->launch(stream_->get());
    });
    if (!taken.isOk())
      return taken;
    fastest = round <= 1 ? *taken : std::min(fastest, *taken);
  }
  return fastest * 1e-3 / runs;
}

Result<std::vector<std::optional<double>>>
ProductTrials::measure(const CudaProduct &product,
                       const std::vector<lt::Algorithm> &algorithms) {
  if (Status s = open())
    return s;
  Result<Placed> placed = place(product);
  if (!placed.isOk())
    return placed.status();
  if (Status s = product.setBias(placed->bias))
    return s;
  std::vector<std::optional<double>> times;
  for (const lt::Algorithm &algorithm : algorithms) {
    Result<double> taken = time(product, placed->call, algorithm);
    times.push_back(taken.isOk() ? std::optional<double>(*taken)
                                 : std::nullopt);
  }
  // A failure of the device itself ends the run at its next call.
  if (Status s = product.setBias(product.bias_))
    return s;
  return times;
}

} // namespace fsdp::rt
