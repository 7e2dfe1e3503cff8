//===- OptimizerSpec.h - Built-in optimizers as users write them -*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_OPTIMIZERSPEC_H
#define FSDP_ANALYSIS_CONTRACT_OPTIMIZERSPEC_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace mlir::fsdp {

/// `adamw:lr=1e-3,beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0.01` or
/// `sgd:lr=1e-2,momentum=0.9,weight_decay=0`. What is not given has
/// torch.optim's default.
struct OptimizerSpec {
  enum class Kind { AdamW, SGD };
  Kind kind = Kind::AdamW;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0.01;
  double momentum = 0;

  static llvm::Expected<OptimizerSpec> parse(llvm::StringRef text);
  /// All but the rate, which is a scalar of the step:
  /// "adamw:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0.01".
  std::string printConstants() const;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_OPTIMIZERSPEC_H
