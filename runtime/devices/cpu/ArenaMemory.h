//===- ArenaMemory.h - An arena as a memory of the HAL ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_ARENAMEMORY_H
#define FSDP_RT_DEVICES_CPU_ARENAMEMORY_H

#include "core/Arena.h"
#include "core/Status.h"
#include "hal/Memory.h"

#include <cstdint>

namespace fsdp::rt {

/// An arena as what programs name by offsets.
class ArenaMemory final : public hal::Memory {
public:
  /// `arena` must outlive it.
  explicit ArenaMemory(const Arena &arena) : arena_(arena) {}

  int64_t size() const override { return arena_.size(); }
  Status upload(int64_t offset, const void *src, int64_t bytes) override;
  Status download(int64_t offset, void *dst, int64_t bytes) const override;

private:
  Status check(int64_t offset, int64_t bytes) const;
  const Arena &arena_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_ARENAMEMORY_H
