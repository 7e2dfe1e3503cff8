//===- SourcePlaces.h - Where ops stand in their file ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text of a traced step gives its ops locations of its own: the paths of
// modules. The parser then forgets where the ops themselves stand. Parsed here,
// they keep both: loc("h.0.attn"("model.mlir":12:5)).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_SOURCEPLACES_H
#define FSDP_DRIVER_SOURCEPLACES_H

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/SourceMgr.h"

#include <string>
#include <utility>
#include <vector>

namespace mlir::fsdp {

/// Line and column of every op of a parsed text, in pre-order; 0, 0 for what
/// the text does not hold, such as the module around it.
class SourcePlaces {
public:
  /// Parses the main buffer of @sources and, with @verifies, verifies it. Text
  /// or bytecode, which has no places. Null, with diagnostics, where that
  /// fails. Resources of unknown keys end in @resources.
  OwningOpRef<ModuleOp> parse(const llvm::SourceMgr &sources,
                              MLIRContext *context, bool verifies = true,
                              FallbackAsmResourceMap *resources = nullptr);

  /// Adds its place to each op inside functions of @root, parsed from the same
  /// text, that has none in any file. Nothing where @root has another number of
  /// ops.
  void apply(Operation *root) const;

private:
  std::string file;
  std::vector<std::pair<unsigned, unsigned>> places;
};

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_SOURCEPLACES_H
