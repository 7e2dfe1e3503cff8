//===- Sha256.h - A digest of bytes -----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_SHA256_H
#define FSDP_RT_DATA_SHA256_H

#include <string>
#include <string_view>

namespace fsdp::rt::data {

/// SHA-256 (FIPS 180-4) of the bytes as 64 hexadecimal digits, in lower case.
std::string sha256(std::string_view bytes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_SHA256_H
