//===- SourcePlaces.cpp - Where ops stand in their file -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/SourcePlaces.h"
#include "FileChecks.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mlir::fsdp;

OwningOpRef<ModuleOp> SourcePlaces::parse(const llvm::SourceMgr &sources,
                                          MLIRContext *context, bool verifies,
                                          FallbackAsmResourceMap *resources) {
  places.clear();
  const llvm::MemoryBuffer *text =
      sources.getMemoryBuffer(sources.getMainFileID());
  auto check = [&](ModuleOp module) {
    return success(!verifies || (succeeded(verifyFileOps(module)) &&
                                 succeeded(verify(module))));
  };
  // Verified once its ops know their places.
  ParserConfig config(context, /*verifyAfterParse=*/false, resources);
  if (isBytecode(text->getMemBufferRef())) {
    auto module = parseSourceFile<ModuleOp>(sources, config);
    return module && succeeded(check(*module)) ? std::move(module)
                                               : OwningOpRef<ModuleOp>();
  }
  file = text->getBufferIdentifier().str();
  Block block;
  AsmParserState state;
  if (failed(parseAsmSourceFile(sources, &block, config, &state)))
    return {};
  OwningOpRef<ModuleOp> module =
      detail::constructContainerOpForParserIfNecessary<ModuleOp>(
          &block, context, FileLineColLoc::get(context, file, 0, 0));
  if (!module)
    return {};
  llvm::DenseMap<Operation *, llvm::SMLoc> begins;
  for (const AsmParserState::OperationDefinition &def : state.getOpDefs())
    begins[def.op] = def.loc.Start;
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto begin = begins.find(op);
    places.push_back(begin == begins.end()
                         ? std::pair(0u, 0u)
                         : sources.getLineAndColumn(begin->second));
  });
  apply(*module);
  if (failed(check(*module)))
    return {};
  return module;
}

void SourcePlaces::apply(Operation *root) const {
  size_t count = 0;
  root->walk([&](Operation *) { ++count; });
  if (count != places.size())
    return;
  auto name = StringAttr::get(root->getContext(), file);
  size_t next = 0;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto [line, column] = places[next++];
    Location given = op->getLoc();
    // What is said of a whole function is about options as often.
    bool isWhole = op == root || op->getParentOp() == root;
    if (line == 0 || isWhole || given->findInstanceOf<FileLineColLoc>())
      return;
    Location place = FileLineColLoc::get(name, line, column);
    if (auto path = dyn_cast<NameLoc>(given))
      op->setLoc(NameLoc::get(path.getName(), place));
    else if (isa<UnknownLoc>(given))
      op->setLoc(place);
    else
      op->setLoc(FusedLoc::get(op->getContext(), {given, place}));
  });
}
