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
  // start_c6
  for (Value token : getAfter())
    if (!token.getDefiningOp<StartOp>())
      return emitOpError("expected the tokens of other starts, got ") << token;
  // start_c3
  SmallVector<Type> expected(getInputs().getTypes());
  for (Value token : getAfter())
    llvm::append_range(expected, cast<TokenType>(token.getType()).getTypes());
  if (!llvm::equal(expected, getBody().getArgumentTypes()))
    return emitOpError("expected a body with arguments of the types of inputs "
                       "and tokens (")
           << TypeRange(expected) << "), got ("
           << TypeRange(getBody().getArgumentTypes()) << ")";
  return success();
}

ValueRange StartOp::getYielded() {
  return getBody().front().getTerminator()->getOperands();
}

Value StartOp::getSource(BlockArgument arg) {
  unsigned i = arg.getArgNumber();
  if (i < getInputs().size())
    return getInputs()[i];
  i -= getInputs().size();
  for (Value token : getAfter()) {
    unsigned count = cast<TokenType>(token.getType()).getTypes().size();
    if (i < count)
      return token.getDefiningOp<StartOp>().getYielded()[i];
    i -= count;
  }
  llvm_unreachable("expected an argument of this body");
}

WaitOp StartOp::getWait() {
  for (Operation *user : getToken().getUsers())
    if (auto wait = dyn_cast<WaitOp>(user))
      return wait;
  return {};
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
