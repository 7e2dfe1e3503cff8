//===- Memory.cpp - Memory of a rank --------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Memory.h"

#include <new>
#include <string>
#include <vector>

namespace fsdp::rt::hal {

namespace {

class HostUploadBuffer final : public UploadBuffer {
public:
  HostUploadBuffer(Memory &memory, int64_t bytes)
      : memory_(memory), bytes_(static_cast<size_t>(bytes)) {}

  Result<char *> begin() override { return bytes_.data(); }
  Status send() override { return Status::ok(); }
  Status place(int64_t begin, int64_t offset, int64_t bytes) override {
    return memory_.upload(offset, bytes_.data() + begin, bytes);
  }

private:
  Memory &memory_;
  std::vector<char> bytes_;
};

} // namespace

Result<std::unique_ptr<UploadBuffer>>
Memory::createUploadBuffer(int64_t bytes) {
  try {
    return std::unique_ptr<UploadBuffer>(
        std::make_unique<HostUploadBuffer>(*this, bytes));
  } catch (const std::bad_alloc &) {
    return Status::failed("expected memory of the host for " +
                          std::to_string(bytes) + " bytes, got none");
  }
}

} // namespace fsdp::rt::hal
