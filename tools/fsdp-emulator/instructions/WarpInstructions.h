//===- WarpInstructions.h - What lanes of a warp execute together ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_WARPINSTRUCTIONS_H
#define FSDP_EMULATOR_INSTRUCTIONS_WARPINSTRUCTIONS_H

#include "instructions/Decoder.h"

namespace fsdp::emulator {

/// bar.warp.sync, behind .warp.
void decodeWarpBarrier(Decoder &decoder);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_WARPINSTRUCTIONS_H
