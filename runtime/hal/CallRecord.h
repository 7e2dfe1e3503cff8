//===- CallRecord.h - What a call of a program took -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_CALLRECORD_H
#define FSDP_RT_HAL_CALLRECORD_H

#include <cstdint>

namespace fsdp::rt {

/// The categories of calls.def.
enum class CallKind : int32_t {
#define FSDP_RT_CATEGORY(Name, spelling, time) Name,
#include "fsdp-rt/calls.def"
};

/// One call of a program that ran. Times are nanoseconds of the steady clock.
struct CallRecord {
  /// The descriptor: identifies the call site; constant data of the program.
  const void *site;
  const char *name;
  CallKind kind;
  int32_t step;
  int64_t begin;
  int64_t end;
  /// Of a collective: how much of it was waiting for other ranks. All of a
  /// wait.
  int64_t waiting;
  /// Operands read once and results written once; a collective's bytes.
  int64_t bytes;
  int64_t flops;
  /// Of a transfer, whose site is a start: its fsdp_rt_queue.
  int32_t queue = 0;
  /// Of a collective or a copy to or from the host: fsdp_rt_transfer_kind.
  int32_t transfer = 0;
  /// Of a transfer: when the program gave it to its queue.
  int64_t given = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_HAL_CALLRECORD_H
