//===- PointerArrays.cpp - Addresses in a device's memory -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/PointerArrays.h"

#include <algorithm>

namespace fsdp::rt {

Result<cu::Pointer>
PointerArrays::add(const std::vector<cu::Pointer> &addresses) {
  auto bytes = static_cast<int64_t>(addresses.size() * sizeof(cu::Pointer));
  if (blocks_.empty() || blocks_.back()->size() - used_ < bytes) {
    Result<std::unique_ptr<DeviceArena>> block =
        DeviceArena::map(context_, copies_, std::max(bytes, blockBytes),
                         "addresses of products");
    if (!block.isOk())
      return block.status();
    blocks_.push_back(std::move(*block));
    used_ = 0;
  }
  cu::Pointer place = blocks_.back()->base() + static_cast<cu::Pointer>(used_);
  if (Status s = copies_.upload(place, addresses.data(), bytes))
    return s;
  if (Status s = copies_.finish())
    return s;
  used_ = std::min(blocks_.back()->size(), used_ + alignPart(bytes));
  return place;
}

int64_t PointerArrays::mappedBytes() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<DeviceArena> &block : blocks_)
    bytes += block->mappedBytes();
  return bytes;
}

} // namespace fsdp::rt
