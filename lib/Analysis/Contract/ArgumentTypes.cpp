//===- ArgumentTypes.cpp - Types of a traced step's arguments -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArgumentTypes.h"
#include "Initialiser.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"

#include "mlir/Support/DebugStringHelper.h"

using namespace mlir;
using namespace mlir::fsdp;

std::string fsdp::findArgumentFault(Type type, const std::string &argument,
                                    bool isParameter) {
  auto tell = [&](const std::string &rule, const std::string &expected,
                  const std::string &got) {
    return rule + ": expected " + expected + " for " + argument + ", got " +
           got;
  };
  std::string quoted = "'" + debugString(type) + "'";
  // input_c5
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return tell("input_c5", "a tensor of static shape", quoted);
  if (!isOfCountableRank(type))
    return tell("input_c5",
                "a tensor of at most " + std::to_string(kMostRank) +
                    " dimensions",
                std::to_string(tensor.getRank()));
  if (!isOfCountableBytes(type))
    return tell("input_c5",
                "a tensor of at most " + std::to_string(kMostTensorBytes) +
                    " bytes",
                quoted);
  // input_c6
  Type element = tensor.getElementType();
  if (isParameter && !isStoredFloat(element))
    return tell("input_c6", "f32, f64, f16 or bf16 elements", quoted);
  if (!isStoredFloat(element) && !isStoredInteger(element))
    return tell("input_c6",
                "f32, f64, f16, bf16, i1, i8, i16, i32 or i64 elements",
                quoted);
  return "";
}
