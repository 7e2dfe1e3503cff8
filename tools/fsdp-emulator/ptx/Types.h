//===- ptx/Types.h - Types of PTX -----------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_PTX_TYPES_H
#define FSDP_EMULATOR_PTX_TYPES_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fsdp::emulator {

/// A fundamental or packed type, as an instruction or a variable names it.
enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F16x2,
  BF16x2,
  TF32,
  F32,
  F64,
};

/// The type that `name`, without its dot, stands for; None if for none.
Type parseType(std::string_view name);
const char *nameOf(Type type);
/// 1 for predicates.
unsigned bitsOf(Type type);
inline unsigned bytesOf(Type type) { return bitsOf(type) / 8; }

inline bool isSigned(Type type) {
  return type >= Type::S8 && type <= Type::S64;
}
inline bool isUnsigned(Type type) {
  return type >= Type::U8 && type <= Type::U64;
}
inline bool isInteger(Type type) { return isSigned(type) || isUnsigned(type); }
inline bool isUntyped(Type type) {
  return type >= Type::B8 && type <= Type::B128;
}
/// f16, bf16 or two of them.
inline bool isNarrowFloat(Type type) {
  return type >= Type::F16 && type <= Type::BF16x2;
}
inline bool isFloat(Type type) { return type >= Type::F16; }

/// What keeps a module from being loaded: one line of its PTX.
class LoadError : public std::runtime_error {
public:
  LoadError(int line, const std::string &message)
      : std::runtime_error("PTX line " + std::to_string(line) + ": " +
                           message) {}
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_PTX_TYPES_H
