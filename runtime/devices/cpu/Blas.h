//===- Blas.h - The matrix products of a step -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens a BLAS library at run time, so that a program starts where only one of
// the two exists. The library runs single-threaded; Matmul.h cuts the work.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_BLAS_H
#define FSDP_RT_DEVICES_CPU_BLAS_H

#include "core/Status.h"

#include <cstdint>
#include <string>

namespace fsdp::rt {

/// In the order of the setting's values. `Auto` takes oneDNN where it is
/// installed, else OpenBLAS. float64 products always need OpenBLAS: oneDNN has
/// none.
enum class BlasKind { Auto, OpenBlas, OneDnn };

/// C = alpha * op(A) * op(B) (+ C if accumulate), row-major, leading
/// dimensions in elements; op transposes where asked.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool transA = false, transB = false;
  double alpha = 1.0;
  bool accumulate = false;
};

/// An opened library. Lives until the process ends; its functions may be
/// called from many threads at once and compute on the calling thread alone.
class Blas {
public:
  /// Opens what `kind` asks for; the second call for a kind is cheap. Fails
  /// naming the library where it is missing or lacks a function.
  static Result<const Blas *> open(BlasKind kind);

  virtual ~Blas() = default;
  /// "OpenBLAS 0.3.21" and the like.
  virtual const std::string &name() const = 0;
  virtual bool hasF64() const = 0;
  /// Dimensions and leading dimensions up to this are accepted.
  virtual int64_t maxDimension() const = 0;
  /// m, n and k are at least 1. False where the library failed, which it does
  /// only for want of memory; C is then undefined.
  virtual bool gemm(const GemmShape &shape, const float *a, const float *b,
                    float *c) const = 0;
  /// The same; only where hasF64().
  virtual bool gemm(const GemmShape &shape, const double *a, const double *b,
                    double *c) const = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_BLAS_H
