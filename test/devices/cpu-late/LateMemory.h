//===- LateMemory.h - Memory that the host cannot reach ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Its pages cannot be accessed but while somebody holds it open: transfers of
// data, for as long as they copy, and the device, while it runs. A host that
// keeps an address and reads later dies.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DEVICES_CPU_LATE_LATEMEMORY_H
#define FSDP_TEST_DEVICES_CPU_LATE_LATEMEMORY_H

#include "Fault.h"
#include "hal/Memory.h"

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp::rt {

class LateMemory final : public hal::Memory {
public:
  /// Closes `inner`, whose bytes begin at `base`, a page's. The first `state`
  /// bytes outlive programs.
  LateMemory(hal::Memory &inner, char *base, int64_t state, Fault &fault);
  ~LateMemory() override;

  int64_t size() const override { return inner_.size(); }
  Status upload(int64_t offset, const void *src, int64_t bytes) override;
  Status download(int64_t offset, void *dst, int64_t bytes) const override;

  void open() const;
  void close() const;

  /// From execute() to the end of synchronize(): reading and writing are
  /// refused.
  void setPending(bool isPending);

  /// Of an open memory: bytes that neither outlive programs nor were uploaded
  /// since the last call become those of NaN.
  void poison();

private:
  Status checkIdle(const char *what) const;

  hal::Memory &inner_;
  char *base_;
  int64_t state_;
  Fault &fault_;
  mutable std::mutex mutex_;
  mutable int users_ = 0;
  bool isPending_ = false;
  /// Begin and end of what was uploaded since poison().
  std::vector<std::pair<int64_t, int64_t>> uploaded_;
};

} // namespace fsdp::rt

#endif // FSDP_TEST_DEVICES_CPU_LATE_LATEMEMORY_H
