//===- BatchLoader.cpp - Batches read ahead -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/BatchLoader.h"

#include <csignal>
#include <system_error>

namespace fsdp::rt::data {

BatchLoader::BatchLoader(std::unique_ptr<BatchSource> source,
                         const Program &program, int64_t firstBatch,
                         int64_t lastBatch)
    : source_(std::move(source)), program_(program), nextBatch_(firstBatch),
      lastBatch_(lastBatch), firstBatch_(firstBatch) {}

Status BatchLoader::reserve(hal::Memory &memory) {
  // Copies on a device are fastest between addresses of this alignment.
  constexpr int64_t alignment = 256;
  int64_t bytes = 0;
  for (const Input &input : program_.inputs) {
    begins_.push_back(bytes);
    bytes += (input.bytes() + alignment - 1) / alignment * alignment;
  }
  for (Slot &slot : slots_) {
    Result<std::unique_ptr<hal::UploadBuffer>> buffer =
        memory.createUploadBuffer(bytes);
    if (!buffer.isOk())
      return buffer.status();
    slot.buffer = std::move(*buffer);
  }
  return Status::ok();
}

Result<std::unique_ptr<BatchLoader>>
BatchLoader::start(std::unique_ptr<BatchSource> source, const Program &program,
                   int64_t firstBatch, int64_t lastBatch, hal::Memory &memory) {
  std::unique_ptr<BatchLoader> loader(
      new BatchLoader(std::move(source), program, firstBatch, lastBatch));
  if (Status s = loader->reserve(memory))
    return s;
  // Signals are for the threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    loader->thread_ = std::thread([self = loader.get()] { self->readAhead(); });
  } catch (const std::system_error &error) {
    status = Status::failed(
        std::string("cannot start a thread to read data: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status)
    return status;
  return loader;
}

BatchLoader::~BatchLoader() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void BatchLoader::readAhead() {
  for (int64_t batch = firstBatch_; batch <= lastBatch_; ++batch) {
    Slot &slot = slots_[batch % 2];
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return isEnding_ || !slot.isFull; });
      if (isEnding_)
        return;
    }
    Status status;
    try {
      status = load(batch, slot);
    } catch (const std::exception &error) {
      status = Status::failed(std::string("cannot read batch ") +
                              std::to_string(batch) + ": " + error.what());
    }
    bool hasFailed = bool(status);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      slot.status = std::move(status);
      slot.isFull = true;
    }
    changed_.notify_all();
    if (hasFailed)
      return;
  }
}

Status BatchLoader::load(int64_t batch, Slot &slot) {
  Result<char *> bytes = slot.buffer->begin();
  if (!bytes.isOk())
    return bytes.status();
  std::vector<char *> inputs;
  for (int64_t begin : begins_)
    inputs.push_back(*bytes + begin);
  if (Status s = source_->read(batch, inputs.data()))
    return s;
  slot.unusualValue = findUnusualValue(program_, inputs.data());
  slot.allowed = countAllowed(program_, inputs.data());
  return slot.buffer->send();
}

Status BatchLoader::next(const Program &program) {
  Slot &slot = slots_[nextBatch_ % 2];
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return slot.isFull; });
    if (slot.status)
      return slot.status;
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Input &input = program.inputs[i];
    if (Status s = slot.buffer->place(begins_[i], input.offset, input.bytes()))
      return s;
  }
  unusualValue_ = std::move(slot.unusualValue);
  allowed_ = slot.allowed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    slot.isFull = false;
  }
  changed_.notify_all();
  ++nextBatch_;
  return Status::ok();
}

} // namespace fsdp::rt::data
