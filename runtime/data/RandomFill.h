//===- RandomFill.h - Random tensors, any part of them -----------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Element e of a tensor is drawn from word e % 4 of block e / 4 of the tensor's
// stream (Philox.h), a normal number from a pair of words. It depends on
// nothing else; logarithm, sine and cosine are computed here from additions and
// multiplications alone, so that every machine and compiler gives the same
// bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_RANDOMFILL_H
#define FSDP_RT_DATA_RANDOMFILL_H

#include "data/Elements.h"
#include "data/Philox.h"

#include <cstdint>

namespace fsdp::rt::data {

/// Each writes elements [begin, begin + count) of the tensor with that stream
/// to `dst`. Float dtypes; drawn in float64, rounded once.

/// mean + std * z by Box and Muller's transform of the words' pair.
void fillNormal(const RandomStream &stream, double mean, double std,
                Dtype dtype, int64_t begin, int64_t count, char *dst);

/// low + (high - low) * u, u in [0, 1) in units of 2^-32.
void fillUniform(const RandomStream &stream, double low, double high,
                 Dtype dtype, int64_t begin, int64_t count, char *dst);

/// A normal number given that it lies in [low, high] (in the tensor's units,
/// not in deviations), by the inverse of the distribution function.
void fillTruncatedNormal(const RandomStream &stream, double mean, double std,
                         double low, double high, Dtype dtype, int64_t begin,
                         int64_t count, char *dst);

/// Integers in [low, high), of an integer dtype or BOOL that holds both low
/// and high - 1. Two words make an element: e from half e % 2 of block e / 2.
void fillIntegers(const RandomStream &stream, int64_t low, int64_t high,
                  Dtype dtype, int64_t begin, int64_t count, char *dst);

/// The distribution function of the standard normal and its inverse, for
/// 0 <= p <= 1 (infinite at the ends).
double normalCdf(double x);
double normalQuantile(double p);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_RANDOMFILL_H
