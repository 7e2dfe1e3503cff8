//===- Types.cpp - Types of PTX -------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/Types.h"

#include <iterator>

namespace fsdp::emulator {

namespace {

struct TypeRow {
  const char *name;
  unsigned bits;
};

/// In the order of Type.
constexpr TypeRow rows[] = {
    {"none", 0}, {"pred", 1},   {"b8", 8},     {"b16", 16},    {"b32", 32},
    {"b64", 64}, {"b128", 128}, {"u8", 8},     {"u16", 16},    {"u32", 32},
    {"u64", 64}, {"s8", 8},     {"s16", 16},   {"s32", 32},    {"s64", 64},
    {"f16", 16}, {"bf16", 16},  {"f16x2", 32}, {"bf16x2", 32}, {"tf32", 32},
    {"f32", 32}, {"f64", 64}};

} // namespace

Type parseType(std::string_view name) {
  for (size_t i = 1; i < std::size(rows); ++i)
    if (name == rows[i].name)
      return static_cast<Type>(i);
  return Type::None;
}

const char *nameOf(Type type) { return rows[static_cast<size_t>(type)].name; }
unsigned bitsOf(Type type) { return rows[static_cast<size_t>(type)].bits; }

} // namespace fsdp::emulator
