//===- MarkedResults.cpp - Values that a plan names on launches -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MarkedResults.h"

using namespace mlir;
using namespace mlir::fsdp;

FailureOr<SmallVector<Value>>
fsdp::getMarkedResults(Operation *op, StringRef name, StringRef other) {
  SmallVector<Value> marked;
  Attribute attr = op->getAttr(name);
  if (!attr)
    return marked;
  auto results = dyn_cast<DenseI64ArrayAttr>(attr);
  if (!results)
    return op->emitOpError("expected ")
           << name << " with an array of numbers of results, got " << attr;
  auto others = op->getAttrOfType<DenseI64ArrayAttr>(other);
  for (int64_t result : results.asArrayRef()) {
    if (result < 0 || result >= op->getNumResults())
      return op->emitOpError("expected a result below ")
             << op->getNumResults() << " in " << name << ", got " << result;
    if (others && llvm::is_contained(others.asArrayRef(), result))
      return op->emitOpError("expected result ")
             << result << " in one of " << name << " and " << other
             << ", got it in both";
    if (llvm::is_contained(marked, op->getResult(result)))
      return op->emitOpError("expected each result once in ")
             << name << ", got " << result << " twice";
    marked.push_back(op->getResult(result));
  }
  return marked;
}

FailureOr<llvm::SetVector<Value>> fsdp::getMarkedResults(Block &block,
                                                         Operation *loss,
                                                         StringRef name,
                                                         StringRef other) {
  llvm::SetVector<Value> marked;
  for (Operation &op : block) {
    if (!op.hasAttr(name))
      continue;
    FailureOr<SmallVector<Value>> results = getMarkedResults(&op, name, other);
    if (failed(results))
      return failure();
    if (!loss || !op.isBeforeInBlock(loss)) {
      auto error = op.emitOpError("expected ")
                   << name << " in forward, got it behind it";
      if (loss)
        error.attachNote(loss->getLoc()) << "forward ends here";
      return error;
    }
    marked.insert(results->begin(), results->end());
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
