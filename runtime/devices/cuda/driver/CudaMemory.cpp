//===- CudaMemory.cpp - The memories of a rank with a CUDA device ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaMemory.h"

#include "core/Host.h"

#include <cstring>
#include <string>

namespace fsdp::rt {

Status checkRange(int64_t offset, int64_t bytes, int64_t size) {
  if (offset >= 0 && bytes >= 0 && bytes <= size - offset)
    return Status::ok();
  return Status::internal("expected bytes inside the " + std::to_string(size) +
                          " of a memory, got " + std::to_string(bytes) +
                          " at " + std::to_string(offset));
}

//===----------------------------------------------------------------------===//
// The device's
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<DeviceArena>>
DeviceArena::map(const CudaContext &context, CudaCopies &copies, int64_t bytes,
                 const std::string &what) {
  std::unique_ptr<DeviceArena> made(new DeviceArena(context, copies, bytes));
  if (bytes > 0)
    if (Status s = made->open(what))
      return s;
  return made;
}

Status DeviceArena::open(const std::string &name) {
  const DriverApi &api = context_.api();
  size_t free = 0, total = 0;
  if (Status s = context_.check(api.memGetInfo(&free, &total), "cuMemGetInfo"))
    return s;
  const cu::AllocationProperties &what = context_.allocation();
  size_t page = 0;
  if (Status s = context_.check(
          api.memGetGranularity(&page, &what, cu::granularityMinimum),
          "cuMemGetAllocationGranularity"))
    return s;
  if (page == 0)
    return Status::failed("expected allocations of whole pages, got pages of 0 "
                          "bytes");
  mapped_ = (static_cast<size_t>(size_) + page - 1) / page * page;
  auto wanted = static_cast<size_t>(size_);
  const std::string bytes =
      std::to_string(mapped_) + " bytes" +
      (mapped_ == wanted
           ? ""
           : " (" + std::to_string(wanted) + " in whole pages of " +
                 std::to_string(page) + ")");
  if (mapped_ > free)
    return Status::failed("expected " + name + " that fits the " +
                          std::to_string(free) + " free bytes (of " +
                          std::to_string(total) + ") of " +
                          context_.describe() + ", got " + bytes);
  if (Status s = context_.check(api.memReserve(&base_, mapped_, 0, 0, 0),
                                "cuMemAddressReserve"))
    return s;
  if (Status s = context_.check(api.memCreate(&handle_, mapped_, &what, 0),
                                "cuMemCreate"))
    return s.withContext(name + " of " + bytes + " on " + context_.describe());
  hasHandle_ = true;
  if (Status s =
          context_.check(api.memMap(base_, mapped_, 0, handle_, 0), "cuMemMap"))
    return s;
  isMapped_ = true;
  cu::Access own = {what.location, cu::accessReadWrite};
  if (Status s = context_.check(api.memSetAccess(base_, mapped_, &own, 1),
                                "cuMemSetAccess"))
    return s;
  for (cu::Device peer : context_.peers()) {
    cu::Access access = {{cu::locationDevice, peer}, cu::accessReadWrite};
    if (Status s = context_.check(api.memSetAccess(base_, mapped_, &access, 1),
                                  "cuMemSetAccess"))
      return s.withContext("access of device " + std::to_string(peer) +
                           ", which another rank of this process has, to " +
                           name +
                           "; run each rank as a process (--backend "
                           "tcp)");
  }
  return Status::ok();
}

DeviceArena::~DeviceArena() {
  // A device that has failed refuses all of these: the process's end frees
  // them.
  const DriverApi &api = context_.api();
  (void)context_.makeCurrent();
  (void)copies_.finish();
  if (isMapped_)
    (void)api.memUnmap(base_, mapped_);
  if (hasHandle_)
    (void)api.memRelease(handle_);
  if (base_)
    (void)api.memFreeReserved(base_, mapped_);
}

Status DeviceArena::upload(int64_t offset, const void *src, int64_t bytes) {
  if (Status s = checkRange(offset, bytes, size_))
    return s;
  if (bytes == 0)
    return Status::ok();
  if (Status s = context_.makeCurrent())
    return s;
  return copies_.upload(base_ + static_cast<cu::Pointer>(offset), src, bytes);
}

Status DeviceArena::download(int64_t offset, void *dst, int64_t bytes) const {
  if (Status s = checkRange(offset, bytes, size_))
    return s;
  if (bytes == 0)
    return Status::ok();
  if (Status s = context_.makeCurrent())
    return s;
  return copies_.download(dst, base_ + static_cast<cu::Pointer>(offset), bytes);
}

//===----------------------------------------------------------------------===//
// The host's
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<PinnedMemory>>
PinnedMemory::allocate(const CudaContext &context, int64_t bytes,
                       const char *what) {
  std::unique_ptr<PinnedMemory> made(new PinnedMemory(context, bytes));
  if (bytes == 0)
    return made;
  int64_t limit = memoryLimit();
  if (limit > 0 && bytes > limit)
    return Status::failed(std::string("expected ") + what + " that fits the " +
                          std::to_string(limit) + " bytes of this host, got " +
                          std::to_string(bytes));
  void *data = nullptr;
  if (Status s =
          context.check(context.api().hostAlloc(&data, bytes, cu::hostPortable),
                        "cuMemHostAlloc"))
    return s.withContext(std::string(what) + " of " + std::to_string(bytes) +
                         " bytes");
  made->data_ = static_cast<char *>(data);
  return made;
}

PinnedMemory::~PinnedMemory() {
  if (!data_)
    return;
  (void)context_.makeCurrent();
  (void)context_.api().hostFree(data_);
}

Status PinnedMemory::upload(int64_t offset, const void *src, int64_t bytes) {
  if (Status s = checkRange(offset, bytes, size_))
    return s;
  if (bytes > 0)
    std::memcpy(data_ + offset, src, bytes);
  return Status::ok();
}

Status PinnedMemory::download(int64_t offset, void *dst, int64_t bytes) const {
  if (Status s = checkRange(offset, bytes, size_))
    return s;
  if (bytes > 0)
    std::memcpy(dst, data_ + offset, bytes);
  return Status::ok();
}

} // namespace fsdp::rt
