//===- BatchLoader.h - Batches read ahead ------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_BATCHLOADER_H
#define FSDP_RT_DATA_BATCHLOADER_H

#include "core/Status.h"
#include "data/Batches.h"
#include "hal/Memory.h"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::rt::data {

/// Reads the next batch, and sends it to the device, on a thread of its own
/// while the current one computes. Two batches are held outside the arena,
/// reserved at start.
class BatchLoader {
public:
  /// Starts to read batches firstBatch to lastBatch, counted from 1: one for
  /// each step, or for each micro-batch. `program` and `memory`, the device's,
  /// must outlive the loader.
  static Result<std::unique_ptr<BatchLoader>>
  start(std::unique_ptr<BatchSource> source, const Program &program,
        int64_t firstBatch, int64_t lastBatch, hal::Memory &memory);
  /// Ends the thread, after the read that it is in.
  ~BatchLoader();

  /// Copies the next batch to the places in the device's memory of the inputs
  /// of `program`, which are those of the one that start() was given; waits for
  /// it if it has not been read yet. A batch that could not be read or sent
  /// fails here. At most once per batch up to lastBatch.
  Status next(const Program &program);
  /// findUnusualValue of the batch that `next` copied last.
  const std::string &unusualValue() const { return unusualValue_; }
  /// countAllowed of that batch.
  int64_t allowed() const { return allowed_; }

private:
  struct Slot {
    std::unique_ptr<hal::UploadBuffer> buffer;
    Status status;
    std::string unusualValue;
    int64_t allowed = 0;
    bool isFull = false;
  };

  BatchLoader(std::unique_ptr<BatchSource> source, const Program &program,
              int64_t firstBatch, int64_t lastBatch);
  Status reserve(hal::Memory &memory);
  void readAhead();
  Status load(int64_t batch, Slot &slot);

  std::unique_ptr<BatchSource> source_;
  const Program &program_;
  int64_t nextBatch_, lastBatch_;
  const int64_t firstBatch_;
  /// Where each input begins in a slot's buffer.
  std::vector<int64_t> begins_;
  Slot slots_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isEnding_ = false;
  std::string unusualValue_;
  int64_t allowed_ = 0;
  std::thread thread_;
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_BATCHLOADER_H
