//===- FSDPRandomOps.cpp - Random numbers of a step -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/random.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace rng = fsdp_rt::rng;

Type fsdp::getRandomType(RandomKind kind, MLIRContext *context) {
  if (kind == RandomKind::bits)
    return IntegerType::get(context, 32);
  return Float32Type::get(context);
}

LogicalResult RandomOp::verify() {
  // random_c1
  if (getSite() >= uint64_t(rng::mostSites))
    return emitOpError("expected a site from 0 to ")
           << rng::mostSites - 1 << ", got " << int64_t(getSite());
  RankedTensorType type = getType();
  // random_c2
  Type element = getRandomType(getKind(), getContext());
  if (type.getElementType() != element)
    return emitOpError("expected ")
           << element << " elements of kind " << stringifyRandomKind(getKind())
           << ", got " << type;
  // random_c3
  if (type.getNumElements() > rng::mostElements)
    return emitOpError("expected at most ")
           << rng::mostElements << " elements, got " << type.getNumElements();
  return success();
}
