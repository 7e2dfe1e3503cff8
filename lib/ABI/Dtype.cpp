//===- Dtype.cpp - Element types at run time ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/ABI/Dtype.h"
#include "fsdp-rt/abi.h"

using namespace mlir;

std::optional<int> fsdp::getRuntimeDtype(Type type) {
  if (type.isF32())
    return FSDP_RT_F32;
  if (type.isF64())
    return FSDP_RT_F64;
  if (type.isF16())
    return FSDP_RT_F16;
  if (type.isBF16())
    return FSDP_RT_BF16;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return std::nullopt;
  switch (integer.getWidth()) {
  case 64:
    return FSDP_RT_I64;
  case 32:
    return FSDP_RT_I32;
  case 16:
    return FSDP_RT_I16;
  case 8:
    return integer.isUnsigned() ? FSDP_RT_U8 : FSDP_RT_I8;
  case 1:
    return FSDP_RT_BOOL;
  default:
    return std::nullopt;
  }
}

llvm::StringRef fsdp::getDtypeName(Type type) {
  static constexpr llvm::StringLiteral kNames[] = {
      "F32", "F64", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};
  std::optional<int> dtype = getRuntimeDtype(type);
  return dtype ? llvm::StringRef(kNames[*dtype]) : llvm::StringRef();
}
