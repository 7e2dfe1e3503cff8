//===- Attention.h - Attention by tiles -------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks over (batch, queries, keys) in tiles, so that no more than one tile of
// scores per thread is ever in memory. Products go to the BLAS; what happens to
// scores between them is a compiled function (fsdp-rt/cpu-attention.h).
//
// Forward, work items are the tiles of queries of each product of the batch;
// backward, those products themselves, with all that share keys in one item:
// sums have the same order for every number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_ATTENTION_H
#define FSDP_RT_DEVICES_CPU_ATTENTION_H

#include "core/Status.h"
#include "devices/cpu/Blas.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt {

class ThreadPool;

/// Memory that every thread has for itself: thread t's begins at
/// base + t * stride, 64-byte aligned.
struct AttentionMemory {
  char *base = nullptr;
  int64_t stride = 0;
};

/// Refuses a descriptor whose tensors do not lie in an arena of `arenaBytes`,
/// or that needs more than `scratchBytes` per thread.
Status checkAttention(const fsdp_rt_attention_desc &desc,
                      const fsdp_rt_cpu_attention_desc &code, bool backward,
                      int64_t arenaBytes, int64_t scratchBytes,
                      const Blas &blas);

/// Runs a descriptor that checkAttention accepts. Fails only where the library
/// does.
Status runAttention(const fsdp_rt_attention_desc &desc,
                    const fsdp_rt_cpu_attention_desc &code, bool backward,
                    char *arena, const Blas &blas, ThreadPool &pool,
                    const AttentionMemory &memory);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_ATTENTION_H
