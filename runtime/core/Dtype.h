//===- Dtype.h - Element types ----------------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_DTYPE_H
#define FSDP_RT_CORE_DTYPE_H

#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt {

using Dtype = fsdp_rt_dtype;

/// Whether a descriptor's number names a type, so that it may become a Dtype.
bool isDtype(int32_t value);

/// Bytes of one element.
int64_t dtypeSize(Dtype dtype);

/// "F32", "BF16", ...
const char *dtypeName(Dtype dtype);

/// What sums of `dtype` are that are added up further, with the bits of one sum
/// of all: narrow floats are added in F32, integers wrap around in any type.
Dtype partialTypeOf(Dtype dtype);

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_DTYPE_H
