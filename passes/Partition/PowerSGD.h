//===- PowerSGD.h - Low-rank approximations of gradients --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gradient of n x m elements is sent as n x r and m x r ones. With M the
// rank's gradient plus what it did not send before, and Q what is left of the
// step before:
//
//   Q := orthonormal(Q)   P := orthonormal(mean(M Q))   Q := mean(M^T P)
//   gradient = P Q^T      kept: M - P Q^T, and Q
//
// Source: Vogels, Karimireddy, Jaggi: PowerSGD, arXiv:1905.13727, algorithms 1
// and 2; torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook, whose
// defaults these are. Matrices here are transposed, so that columns of P and Q
// lie in rows.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_POWERSGD_H
#define FSDP_PASSES_PARTITION_POWERSGD_H

#include "fsdp/Dialect/FSDP/IR/ReductionHook.h"

namespace mlir::fsdp {

class PowerSGD : public ReductionHook {
public:
  static constexpr StringRef kName = "powersgd";

  llvm::Error setOption(StringRef key, StringRef value) override;
  llvm::Error check(const HookTarget &target) const override;
  Value reduce(HookedReduction &reduction, Value gradient) const override;

private:
  /// A member of the flat parameter, and what becomes of its gradient.
  struct Matrix {
    const HookTarget::Member *member = nullptr;
    /// Rows, columns and rank of the approximation.
    int64_t n = 0, m = 0, r = 0;
    /// Whether it is sent as it is.
    bool isWhole = false;
    /// What is to be approximated; columns of Q before this step, and of P, in
    /// rows.
    Value value, q, p;
    /// In the message that was made last.
    int64_t place = 0;

    std::string getErrorName() const { return member->fqn + ".powersgd_error"; }
    std::string getFactorName() const { return member->fqn + ".powersgd_q"; }
  };

  Matrix getMatrix(const HookTarget::Member &member) const;

  int64_t rank = 1;
  double minRate = 2, epsilon = 0;
  bool keepsError = true;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_POWERSGD_H
