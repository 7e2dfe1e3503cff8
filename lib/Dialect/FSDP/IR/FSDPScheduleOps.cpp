//===- FSDPScheduleOps.cpp - Transfers in time ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;

LogicalResult TokenType::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<Type> types) {
  // token_c1
  if (types.empty())
    return emitError() << "expected at least one type, got none";
  for (Type type : types)
    if (!isa<RankedTensorType>(type))
      return emitError() << "expected tensors, got " << type;
  return success();
}

/// Whether transfers like @op run on @queue.
static bool isQueueOf(TransferQueue queue, Operation *op) {
  switch (queue) {
  case TransferQueue::all_gather:
    return isa<AllGatherOp, BroadcastOp>(op);
  case TransferQueue::reduce:
    return isa<ReduceScatterOp, AllReduceOp>(op);
  case TransferQueue::all_reduce:
    return isa<AllReduceOp>(op);
  }
  llvm_unreachable("no such queue");
}

LogicalResult StartOp::verify() {
  // start_c3
  TypeRange expected = getInputs().getTypes(),
            arguments = getBody().getArgumentTypes();
  if (expected != arguments)
    return emitOpError("expected a body with arguments of the inputs' types (")
           << expected << "), got (" << arguments << ")";
  return success();
}

LogicalResult StartOp::verifyRegions() {
  CollectiveOpInterface first;
  SmallVector<Value> results;
  for (Operation &op : getCollectives()) {
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    // start_c1
    if (!collective) {
      InFlightDiagnostic diag =
          emitOpError("expected only collectives in the body, got ")
          << op.getName();
      diag.attachNote(op.getLoc()) << "it is here";
      return diag;
    }
    if (!first)
      first = collective;
    if (op.getName() != first->getName() ||
        collective.getMeshAttr() != first.getMeshAttr() ||
        collective.getAxesAttr() != first.getAxesAttr()) {
      InFlightDiagnostic diag =
          emitOpError("expected collectives of one kind and one group, got ")
          << op.getName() << " on " << collective.getAxesAttr() << " beside "
          << first->getName() << " on " << first.getAxesAttr();
      diag.attachNote(op.getLoc()) << "it is here";
      return diag;
    }
    // start_c2
    if (!isQueueOf(getQueue(), &op))
      return emitOpError("expected a queue of ")
             << op.getName() << ", got " << stringifyTransferQueue(getQueue());
    results.push_back(collective.getResult());
  }
  if (!first)
    return emitOpError("expected a collective in the body, got none");
  // start_c4
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (!llvm::equal(yield.getValues(), results))
    return yield.emitOpError("expected the results of the ")
           << results.size() << " collectives in their order";
  TypeRange brought(yield.getValues());
  if (!llvm::equal(brought, getToken().getType().getTypes()))
    return emitOpError("expected a token of (")
           << brought << "), got " << getToken().getType();
  return success();
}

LogicalResult WaitOp::verify() {
  // wait_c1
  if (!llvm::equal(getResultTypes(), getToken().getType().getTypes()))
    return emitOpError("expected results of (")
           << TypeRange(getToken().getType().getTypes()) << "), got ("
           << getResultTypes() << ")";
  return success();
}
