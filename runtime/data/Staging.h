//===- Staging.h - Elements between a rank's memory and the host -*- C++ -*-==//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State may be larger than what the host can hold twice: it passes through one
// buffer of stagingBytes at most.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_STAGING_H
#define FSDP_RT_DATA_STAGING_H

#include "hal/Memory.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace fsdp::rt::data {

constexpr int64_t stagingBytes = int64_t(1) << 18;

/// Calls `pass(begin, count, buffer)` for consecutive pieces of `count`
/// elements of `size` bytes each, of which `buffer` has room for one piece,
/// until one fails.
template <typename Pass>
Status passElements(int64_t count, int64_t size, const Pass &pass) {
  int64_t most = std::max<int64_t>(1, stagingBytes / size);
  int64_t bytes = std::min(most, count) * size;
  std::unique_ptr<char[]> buffer(new (std::nothrow) char[size_t(bytes)]);
  if (!buffer)
    return Status::failed("cannot reserve " + std::to_string(bytes) +
                          " bytes to move state through");
  for (int64_t begin = 0; begin < count; begin += most)
    if (Status s = pass(begin, std::min(most, count - begin), buffer.get()))
      return s;
  return Status::ok();
}

/// Writes `count` elements of `size` bytes at `dst`; `fill(begin, count,
/// buffer)` makes those of each piece, or fails.
template <typename Fill>
Status uploadElements(hal::Location dst, int64_t count, int64_t size,
                      const Fill &fill) {
  return passElements(count, size,
                      [&](int64_t begin, int64_t now, char *buffer) -> Status {
                        if (Status s = fill(begin, now, buffer))
                          return s;
                        return (dst + begin * size).upload(buffer, now * size);
                      });
}

/// Reads `count` elements of `size` bytes at `src`; `use(begin, count, buffer)`
/// takes those of each piece, or fails.
template <typename Use>
Status downloadElements(hal::Location src, int64_t count, int64_t size,
                        const Use &use) {
  return passElements(
      count, size, [&](int64_t begin, int64_t now, char *buffer) -> Status {
        if (Status s = (src + begin * size).download(buffer, now * size))
          return s;
        return use(begin, now, static_cast<const char *>(buffer));
      });
}

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_STAGING_H
