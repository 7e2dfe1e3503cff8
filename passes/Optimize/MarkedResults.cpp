//===- MarkedResults.cpp - Values that a plan names on launches -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MarkedResults.h"

using namespace mlir;
using namespace mlir::fsdp;

SmallVector<Value> fsdp::getMarkedResults(Operation *op, StringRef name) {
  SmallVector<Value> marked;
  if (auto results = op->getAttrOfType<DenseI64ArrayAttr>(name))
    for (int64_t result : results.asArrayRef())
      marked.push_back(op->getResult(result));
  return marked;
}

FailureOr<llvm::SetVector<Value>>
fsdp::getMarkedResults(Block &block, Operation *loss, StringRef name) {
  llvm::SetVector<Value> marked;
  for (Operation &op : block) {
    if (!op.hasAttr(name))
      continue;
    if (!loss || !op.isBeforeInBlock(loss)) {
      auto error = op.emitOpError("expected ")
                   << name << " in forward, got it behind it";
      if (loss)
        error.attachNote(loss->getLoc()) << "forward ends here";
      return error;
    }
    marked.insert_range(getMarkedResults(&op, name));
  }
  return marked;
}

Value fsdp::cloneViews(Value value, OpBuilder &builder, IRMapping &views) {
  if (Value again = views.lookupOrNull(value))
    return again;
  Operation *view = value.getDefiningOp();
  cloneViews(view->getOperand(0), builder, views);
  builder.clone(*view, views);
  return views.lookup(value);
}
