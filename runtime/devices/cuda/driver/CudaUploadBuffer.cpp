//===- CudaUploadBuffer.cpp - Uploads beside a run ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaUploadBuffer.h"

namespace fsdp::rt {

Result<std::unique_ptr<hal::UploadBuffer>>
DeviceArena::createUploadBuffer(int64_t bytes) {
  Result<std::unique_ptr<CudaUploadBuffer>> made =
      CudaUploadBuffer::create(*this, bytes);
  if (!made.isOk())
    return made.status();
  return std::unique_ptr<hal::UploadBuffer>(std::move(*made));
}

Result<std::unique_ptr<CudaUploadBuffer>>
CudaUploadBuffer::create(DeviceArena &arena, int64_t bytes) {
  std::unique_ptr<CudaUploadBuffer> made(new CudaUploadBuffer(arena));
  if (Status s = made->open(bytes))
    return s;
  return made;
}

Status CudaUploadBuffer::open(int64_t bytes) {
  if (Status s = context().makeCurrent())
    return s;
  Result<CudaStream> stream = CudaStream::create(context());
  if (!stream.isOk())
    return stream.status();
  stream_.emplace(std::move(*stream));
  for (std::optional<CudaEvent> *event : {&sent_, &placed_}) {
    Result<CudaEvent> made =
        CudaEvent::create(context(), cu::eventDisableTiming);
    if (!made.isOk())
      return made.status();
    event->emplace(std::move(*made));
  }
  Result<std::unique_ptr<PinnedMemory>> pinned =
      PinnedMemory::allocate(context(), bytes, "memory for batches");
  if (!pinned.isOk())
    return pinned.status();
  pinned_ = std::move(*pinned);
  Result<std::unique_ptr<DeviceArena>> device =
      DeviceArena::map(context(), arena_.copies_, bytes, "memory for batches");
  if (!device.isOk())
    return device.status();
  device_ = std::move(*device);
  arena_.uploadBytes_ += device_->mappedBytes();
  return Status::ok();
}

CudaUploadBuffer::~CudaUploadBuffer() {
  // Copies may still read and write both memories.
  (void)context().makeCurrent();
  if (stream_)
    (void)api().streamSynchronize(stream_->get());
  if (device_)
    arena_.uploadBytes_ -= device_->mappedBytes();
}

Result<char *> CudaUploadBuffer::begin() {
  if (Status s = context().makeCurrent())
    return s;
  if (isSent_)
    if (Status s = context().check(api().eventSynchronize(sent_->get()),
                                   "cuEventSynchronize"))
      return s;
  return pinned_->data();
}

Status CudaUploadBuffer::send() {
  if (pinned_->size() == 0)
    return Status::ok();
  if (Status s = context().makeCurrent())
    return s;
  if (isPlaced_)
    if (Status s = context().check(
            api().streamWaitEvent(stream_->get(), placed_->get(), 0),
            "cuStreamWaitEvent"))
      return s;
  if (Status s = context().check(
          api().copyToDevice(device_->base(), pinned_->data(),
                             static_cast<size_t>(pinned_->size()),
                             stream_->get()),
          "cuMemcpyHtoDAsync"))
    return s;
  isSent_ = true;
  isWaitedFor_ = false;
  return context().check(api().eventRecord(sent_->get(), stream_->get()),
                         "cuEventRecord");
}

Status CudaUploadBuffer::place(int64_t begin, int64_t offset, int64_t bytes) {
  if (Status s = checkRange(begin, bytes, pinned_->size()))
    return s;
  if (Status s = checkRange(offset, bytes, arena_.size()))
    return s;
  if (bytes == 0)
    return Status::ok();
  if (Status s = context().makeCurrent())
    return s;
  if (!isWaitedFor_)
    if (Status s = arena_.copies_.waitFor(sent_->get()))
      return s;
  isWaitedFor_ = true;
  if (Status s = arena_.copies_.place(
          arena_.base() + static_cast<cu::Pointer>(offset),
          device_->base() + static_cast<cu::Pointer>(begin), bytes))
    return s;
  isPlaced_ = true;
  return arena_.copies_.record(placed_->get());
}

} // namespace fsdp::rt
