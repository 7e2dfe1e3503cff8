//===- LossScaleArgument.cpp - What scales a traced loss ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossScaleArgument.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"

#include "mlir/Support/DebugStringHelper.h"

using namespace mlir;
using namespace mlir::fsdp;

std::string fsdp::takeLossScale(BlockArgument arg, DictionaryAttr attrs,
                                TracedStep &step) {
  std::string where = "argument #" + std::to_string(arg.getArgNumber());
  if (attrs.size() != 1 || !isa<UnitAttr>(attrs.get(names::kLossScale)))
    return "nothing beside fsdp.loss_scale, and no value, for " + where +
           ", got " + debugString(attrs);
  if (step.kind == ProgramKind::eval)
    return "an evaluation that scales no loss, got " + where +
           " with fsdp.loss_scale";
  auto type = dyn_cast<RankedTensorType>(arg.getType());
  if (!type || type.getRank() != 0 || !type.getElementType().isF32())
    return "'tensor<f32>' for the loss's scale, " + where + ", got '" +
           debugString(arg.getType()) + "'";
  if (step.lossScale)
    return "one scale of the loss, got argument #" +
           std::to_string(step.lossScale.getArgNumber()) + " and " + where;
  step.lossScale = arg;
  return "";
}
