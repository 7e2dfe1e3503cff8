//===- Abi.cpp - The functions that compiled steps call -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/abi.h"
#include "hal/Recording.h"

#define FSDP_RT_CALL(name, desc, Category, WORKSPACE)                          \
  extern "C" int32_t fsdp_rt_##name(fsdp_rt_context *ctx,                      \
                                    const fsdp_rt_##desc##_desc *descriptor) { \
    using namespace fsdp::rt::hal;                                             \
    return recordCall(ctx, Function::name, descriptor);                        \
  }
#include "fsdp-rt/calls.def"
