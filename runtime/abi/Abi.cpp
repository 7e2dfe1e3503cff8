//===- Abi.cpp - The functions that compiled steps call -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function per line of abi.def. A new line there that has no `invoke` here
// does not compile.
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/abi.h"
#include "core/Context.h"

namespace fsdp::rt {

namespace {

/// The functions of abi.def as types, so that `invoke` is chosen by name where
/// descriptors are shared.
#define FSDP_RT_FUNCTION(name, desc)                                           \
  struct name##_call {};
#include "fsdp-rt/abi.def"

int32_t invoke(launch_call, Context &ctx, const fsdp_rt_launch_desc &desc) {
  return ctx.launch(desc);
}
int32_t invoke(matmul_call, Context &ctx, const fsdp_rt_matmul_desc &desc) {
  return ctx.matmul(desc);
}
int32_t invoke(attention_call, Context &ctx,
               const fsdp_rt_attention_desc &desc) {
  return ctx.attention(desc, /*backward=*/false);
}
int32_t invoke(attention_backward_call, Context &ctx,
               const fsdp_rt_attention_desc &desc) {
  return ctx.attention(desc, /*backward=*/true);
}
int32_t invoke(start_call, Context &ctx, const fsdp_rt_start_desc &desc) {
  return ctx.start(desc);
}
int32_t invoke(wait_call, Context &ctx, const fsdp_rt_wait_desc &desc) {
  return ctx.wait(desc);
}
int32_t invoke(copy_call, Context &ctx, const fsdp_rt_copy_desc &desc) {
  return ctx.copy(desc);
}
int32_t invoke(check_call, Context &ctx, const fsdp_rt_check_desc &desc) {
  return ctx.check(desc);
}
int32_t invoke(guard_call, Context &ctx, const fsdp_rt_guard_desc &desc) {
  return ctx.guard(desc);
}

} // namespace

} // namespace fsdp::rt

#define FSDP_RT_FUNCTION(name, desc)                                           \
  extern "C" int32_t fsdp_rt_##name(fsdp_rt_context *ctx,                      \
                                    const fsdp_rt_##desc##_desc *descriptor) { \
    return fsdp::rt::invoke(fsdp::rt::name##_call(),                           \
                            fsdp::rt::Context::from(ctx), *descriptor);        \
  }
#include "fsdp-rt/abi.def"
