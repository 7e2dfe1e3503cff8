//===- Dtype.cpp - Element types ------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Dtype.h"

namespace fsdp::rt {

bool isDtype(int32_t value) {
  return value >= FSDP_RT_F32 && value <= FSDP_RT_BOOL;
}

int64_t dtypeSize(Dtype dtype) {
  switch (dtype) {
  case FSDP_RT_F64:
  case FSDP_RT_I64:
    return 8;
  case FSDP_RT_F32:
  case FSDP_RT_I32:
    return 4;
  case FSDP_RT_F16:
  case FSDP_RT_BF16:
  case FSDP_RT_I16:
    return 2;
  case FSDP_RT_I8:
  case FSDP_RT_U8:
  case FSDP_RT_BOOL:
    return 1;
  }
  return 0;
}

const char *dtypeName(Dtype dtype) {
  switch (dtype) {
  case FSDP_RT_F32:
    return "F32";
  case FSDP_RT_F64:
    return "F64";
  case FSDP_RT_F16:
    return "F16";
  case FSDP_RT_BF16:
    return "BF16";
  case FSDP_RT_I64:
    return "I64";
  case FSDP_RT_I32:
    return "I32";
  case FSDP_RT_I16:
    return "I16";
  case FSDP_RT_I8:
    return "I8";
  case FSDP_RT_U8:
    return "U8";
  case FSDP_RT_BOOL:
    return "BOOL";
  }
  return "unknown";
}

Dtype partialTypeOf(Dtype dtype) {
  return dtype == FSDP_RT_F16 || dtype == FSDP_RT_BF16 ? FSDP_RT_F32 : dtype;
}

} // namespace fsdp::rt
