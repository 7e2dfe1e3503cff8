//===- LossScale.h - What a loss is multiplied by ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_LOSSSCALE_H
#define FSDP_ANALYSIS_STEP_LOSSSCALE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>

namespace mlir::fsdp {

/// What the cotangent of a loss is multiplied by. One that is dynamic begins
/// with `init` and follows torch.amp.GradScaler: times `backoff` after a step
/// whose gradient is not finite, times `growth` after `interval` finite ones in
/// a row.
struct LossScale {
  bool isDynamic = false;
  double init = 65536;
  double growth = 2, backoff = 0.5;
  int64_t interval = 2000;
  /// A run ends whose scale falls below: that of a loss in f16 has fewer bits
  /// there, since f16's least normal number is 2^-14. 0: it never ends.
  double least = 1.0 / (1 << 14);

  /// `NUMBER`, `dynamic` or `dynamic:key=value,..` with the keys init, growth,
  /// backoff, interval and min.
  static llvm::Expected<LossScale> parse(llvm::StringRef text);
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_LOSSSCALE_H
