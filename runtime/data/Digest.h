//===- Digest.h - Digests of what is stored ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// XXH3 with 128 bits finds what disks, memory and mistakes change. It is no
// defence against somebody who means to forge a file.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_DIGEST_H
#define FSDP_RT_DATA_DIGEST_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace fsdp::rt::data {

/// 128 bits, equal for equal bytes.
struct DigestValue {
  uint64_t high = 0, low = 0;
  bool operator==(const DigestValue &other) const {
    return high == other.high && low == other.low;
  }
  bool operator!=(const DigestValue &other) const { return !(*this == other); }
};

/// The digest of bytes that come piece by piece.
class Digest {
public:
  Digest();
  ~Digest();
  void add(const void *bytes, int64_t count);
  DigestValue value() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

DigestValue digestOf(std::string_view bytes);

/// 32 hexadecimal digits, in lower case.
std::string toHex(const DigestValue &digest);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_DIGEST_H
