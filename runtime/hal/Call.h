//===- Call.h - One call of a program -------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_CALL_H
#define FSDP_RT_HAL_CALL_H

#include "fsdp-rt/abi.h"

#include <cstdint>
#include <string>
#include <utility>

namespace fsdp::rt::hal {

/// The functions of calls.def.
enum class Function : int32_t {
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE) name,
#include "fsdp-rt/calls.def"
};

struct Call {
  Function function;
  /// The descriptor that the function takes, constant data of the program.
  const void *desc;
  /// Of a start: bytes that its transfers move (TransferCounter).
  int64_t bytes = 0;

  template <typename Desc>
  const Desc &as() const {
    return *static_cast<const Desc *>(desc);
  }
};

/// Calls `visitor` with the call's descriptor as the type that calls.def gives
/// it. `call.function` must be one of the table's.
template <typename Visitor>
decltype(auto) visitCall(const Call &call, Visitor &&visitor) {
  switch (call.function) {
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE)                          \
  case Function::name:                                                         \
    return visitor(call.as<fsdp_rt_##desc##_desc>());
#include "fsdp-rt/calls.def"
  }
  __builtin_unreachable();
}

/// The name that the program gave the call, of a check its message; may be
/// null.
const char *labelOf(const Call &call);

/// "launch 'name'" of a call.
std::string nameOf(const Call &call);

/// Whether the call is an attention's backward pass, or either of its passes.
inline bool isBackwardAttention(const Call &call) {
  return call.function == Function::attention_backward;
}
inline bool isAttention(const Call &call) {
  return call.function == Function::attention || isBackwardAttention(call);
}

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_CALL_H
