//===- Call.cpp - One call of a program -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Call.h"

namespace fsdp::rt::hal {

template <typename Desc>
static const char *labelOf(const Desc &desc) {
  return desc.name;
}
static const char *labelOf(const fsdp_rt_check_desc &desc) {
  return desc.message;
}

const char *labelOf(const Call &call) {
  return visitCall(call, [](auto &desc) { return labelOf(desc); });
}

std::string nameOf(const Call &call) {
  static constexpr const char *verbs[] = {
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE) #name,
#include "fsdp-rt/calls.def"
  };
  const char *label = labelOf(call);
  return std::string(verbs[static_cast<size_t>(call.function)]) + " '" +
         (label ? label : "") + "'";
}

} // namespace fsdp::rt::hal
