//===- CudaCopies.cpp - Between the host and the device -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaCopies.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fsdp::rt {

namespace {

/// Of what begins in the ring.
constexpr int64_t alignment = 64;

} // namespace

Result<std::unique_ptr<CudaCopies>>
CudaCopies::create(const CudaContext &context) {
  std::unique_ptr<CudaCopies> made(new CudaCopies(context));
  if (Status s = made->open())
    return s;
  return made;
}

Status CudaCopies::open() {
  Result<CudaStream> stream = CudaStream::create(context_);
  if (!stream.isOk())
    return stream.status();
  stream_.emplace(std::move(*stream));
  for (size_t i = 0; i < numSegments + 1; ++i) {
    Result<CudaEvent> event =
        CudaEvent::create(context_, cu::eventDisableTiming);
    if (!event.isOk())
      return event.status();
    if (i < numSegments)
      taken_.push_back(std::move(*event));
    else
      arrived_.emplace(std::move(*event));
  }
  isUsed_.resize(numSegments);
  void *pinned = nullptr;
  int64_t bytes = numSegments * segmentBytes;
  if (Status s =
          context_.check(api().hostAlloc(&pinned, static_cast<size_t>(bytes),
                                         cu::hostPortable),
                         "cuMemHostAlloc"))
    return s.withContext("memory for uploads of " + std::to_string(bytes) +
                         " bytes");
  pinned_ = static_cast<char *>(pinned);
  return Status::ok();
}

CudaCopies::~CudaCopies() {
  (void)context_.makeCurrent();
  if (stream_)
    (void)finish();
  if (pinned_)
    (void)api().hostFree(pinned_);
}

Status CudaCopies::nextSegment() {
  if (Status s = context_.check(
          api().eventRecord(taken_[segment_].get(), stream_->get()),
          "cuEventRecord"))
    return s;
  isUsed_[segment_] = true;
  segment_ = (segment_ + 1) % numSegments;
  filled_ = 0;
  if (!isUsed_[segment_])
    return Status::ok();
  return context_.check(api().eventSynchronize(taken_[segment_].get()),
                        "cuEventSynchronize");
}

void CudaCopies::setRunEnd(cu::Event event) {
  std::lock_guard<std::mutex> lock(mutex_);
  runEnd_ = event;
}

Status CudaCopies::comeAfterRun() {
  cu::Event end = std::exchange(runEnd_, nullptr);
  return end ? waitFor(end) : Status::ok();
}

Status CudaCopies::upload(cu::Pointer dst, const void *src, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Status s = comeAfterRun())
    return s;
  auto from = static_cast<const char *>(src);
  while (bytes > 0) {
    if (filled_ == segmentBytes)
      if (Status s = nextSegment())
        return s;
    int64_t now = std::min(bytes, segmentBytes - filled_);
    char *staged = pinned_ + segment_ * segmentBytes + filled_;
    std::memcpy(staged, from, static_cast<size_t>(now));
    isOnTheWay_ = true;
    if (Status s = context_.check(api().copyToDevice(dst, staged,
                                                     static_cast<size_t>(now),
                                                     stream_->get()),
                                  "cuMemcpyHtoDAsync"))
      return s;
    filled_ += (now + alignment - 1) / alignment * alignment;
    dst += static_cast<cu::Pointer>(now);
    from += now;
    bytes -= now;
  }
  return Status::ok();
}

Status CudaCopies::clear(cu::Pointer dst, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Status s = comeAfterRun())
    return s;
  isOnTheWay_ = true;
  return context_.check(
      api().fillBytes(dst, 0, static_cast<size_t>(bytes), stream_->get()),
      "cuMemsetD8Async");
}

Status CudaCopies::waitFor(cu::Event event) {
  return context_.check(api().streamWaitEvent(stream_->get(), event, 0),
                        "cuStreamWaitEvent");
}

Status CudaCopies::place(cu::Pointer dst, cu::Pointer src, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Status s = comeAfterRun())
    return s;
  isOnTheWay_ = true;
  return context_.check(
      api().copyOnDevice(dst, src, static_cast<size_t>(bytes), stream_->get()),
      "cuMemcpyDtoDAsync");
}

Status CudaCopies::record(cu::Event event) {
  return context_.check(api().eventRecord(event, stream_->get()),
                        "cuEventRecord");
}

Status CudaCopies::download(void *dst, cu::Pointer src, int64_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Status s = comeAfterRun())
      return s;
  }
  if (Status s =
          context_.check(api().copyToHost(dst, src, static_cast<size_t>(bytes),
                                          stream_->get()),
                         "cuMemcpyDtoHAsync"))
    return s;
  return finish();
}

Status CudaCopies::orderBefore(cu::Stream stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!isOnTheWay_)
    return Status::ok();
  isOnTheWay_ = false;
  if (Status s = context_.check(
          api().eventRecord(arrived_->get(), stream_->get()), "cuEventRecord"))
    return s;
  return context_.check(api().streamWaitEvent(stream, arrived_->get(), 0),
                        "cuStreamWaitEvent");
}

Status CudaCopies::finish() const {
  return context_.check(api().streamSynchronize(stream_->get()),
                        "cuStreamSynchronize");
}

} // namespace fsdp::rt
