//===- Level.cpp - How far a module has been lowered ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/Level.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

static constexpr llvm::StringLiteral kNames[] = {"L0", "L1", "L2", "L3",
                                                 "llvm"};

StringRef fsdp::stringify(Level level) { return kNames[int(level)]; }

std::optional<Level> fsdp::parseLevel(StringRef text) {
  const auto *it = llvm::find(kNames, text);
  if (it == std::end(kNames))
    return std::nullopt;
  return Level(it - std::begin(kNames));
}

Level fsdp::getLevel(ModuleOp module) {
  auto programs = module.getOps<ProgramOp>();
  if (programs.empty())
    return module.lookupSymbol("fsdp_rt_artifact_entry") ? Level::LLVM
                                                         : Level::L0;
  if (llvm::any_of(module.getOps<StateOp>(),
                   [](StateOp state) { return !getTensor(state.getType()); }))
    return Level::L1;
  bool isPlaced = llvm::all_of(programs, [](ProgramOp program) {
    ArenaAttr arena = program.getArenaAttr();
    return arena && arena.getPeak();
  });
  return isPlaced ? Level::L3 : Level::L2;
}

llvm::Error fsdp::expectLevel(ModuleOp module, Level expected, StringRef file) {
  Level level = getLevel(module);
  if (level == expected)
    return llvm::Error::success();
  return llvm::createStringError("expected a module at " + stringify(expected) +
                                 " in " + file + " (--from), got one at " +
                                 stringify(level));
}
