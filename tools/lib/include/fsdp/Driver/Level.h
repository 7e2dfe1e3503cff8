//===- Level.h - How far a module has been lowered --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_LEVEL_H
#define FSDP_DRIVER_LEVEL_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace mlir::fsdp {

/// The levels of docs/architecture.md, in their order; the last one is the LLVM
/// dialect.
enum class Level { L0, L1, L2, L3, LLVM };

/// "L1", as on the command line; and back.
llvm::StringRef stringify(Level level);
std::optional<Level> parseLevel(llvm::StringRef text);

/// The level that @module is at: L0 without programs, L1 with states that are
/// not local yet, L3 where every program has a packed arena, else L2.
Level getLevel(ModuleOp module);

/// Refuses @module, read from @file, that is not at @expected.
llvm::Error expectLevel(ModuleOp module, Level expected, llvm::StringRef file);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_LEVEL_H
