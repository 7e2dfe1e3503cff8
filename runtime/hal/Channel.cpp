//===- Channel.cpp - How ranks exchange -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Channel.h"

#include "core/Reduce.h"
#include "hal/Transfers.h"

namespace fsdp::rt::hal {

Status checkCollective(const HostCollective &what) {
  if (!isCollective(what.kind))
    return Status::internal("expected a kind of collective, got " +
                            std::to_string(what.kind));
  if (shapeOf(what.kind).isSum)
    if (Status s = checkReduction(what.dtype, what.divisor))
      return s.withContext(transferName(what.kind));
  return Status::ok();
}

} // namespace fsdp::rt::hal
