//===- Elements.h - Elements of stored tensors -------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elements of any dtype as numbers. Addresses need not be aligned.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_ELEMENTS_H
#define FSDP_RT_DATA_ELEMENTS_H

#include "core/Dtype.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace fsdp::rt::data {

/// The dtype that manifests and safetensors files call `name`: "F32".
std::optional<Dtype> dtypeFromName(std::string_view name);

/// F64, F32, F16, BF16.
bool isFloat(Dtype dtype);

/// The signed integers and U8; BOOL is neither float nor integer.
bool isInteger(Dtype dtype);

/// The range of an integer dtype; [0, 1] for BOOL. Not for floats.
int64_t minOf(Dtype dtype);
int64_t maxOf(Dtype dtype);

/// One element of a float dtype, rounded to nearest even (F16 and BF16 by way
/// of float32, as PyTorch rounds).
void storeFloat(Dtype dtype, double value, char *dst);
/// Exactly.
double loadFloat(Dtype dtype, const char *src);

/// One element of an integer dtype or BOOL; the value must be in range.
void storeInteger(Dtype dtype, int64_t value, char *dst);
int64_t loadInteger(Dtype dtype, const char *src);

/// Whether a number is an element of the dtype: any for floats, a whole number
/// in range for the others.
bool isRepresentable(Dtype dtype, double value);

/// One element of any dtype; the value must be representable.
void storeNumber(Dtype dtype, double value, char *dst);
double loadNumber(Dtype dtype, const char *src);

/// `count` elements from one float dtype to another. The arrays must not
/// overlap.
void convertFloats(Dtype from, const char *src, Dtype to, char *dst,
                   int64_t count);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_ELEMENTS_H
