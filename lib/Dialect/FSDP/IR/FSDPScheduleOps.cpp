//===- FSDPScheduleOps.cpp - Transfers in time ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;

LogicalResult TokenType::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<Type> types) {
  // token_c1
  if (types.empty())
    return emitError() << "expected at least one type, got none";
  for (Type type : types)
    if (!isa<RankedTensorType, HostType>(type))
      return emitError() << "expected tensors, got " << type;
  return success();
}

/// The numbers that programs and the runtime use are those of the dialect.
#define FSDP_RT_QUEUE(number, NAME, Name, spelling)                            \
  static_assert(unsigned(TransferQueue::spelling) == number);
#include "fsdp-rt/transfers.def"
static_assert(getMaxEnumValForTransferQueue() + 1 == kNumQueues);

/// Whether one start may hold both: they are of one kind and, if they
/// communicate, of one group.
static bool isAlike(TransferOpInterface op, TransferOpInterface other) {
  if (op.getKind() != other.getKind())
    return false;
  auto collective = dyn_cast<CollectiveOpInterface>(*op);
  if (!collective)
    return true;
  auto of = cast<CollectiveOpInterface>(*other);
  return collective.getMeshAttr() == of.getMeshAttr() &&
         collective.getAxesAttr() == of.getAxesAttr();
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
  // start_c8
  if (Attribute cause = (*this)->getAttr(names::kHeldBy)) {
    auto name = dyn_cast<StringAttr>(cause);
    if (!name || !symbolizeHold(name))
      return emitOpError("expected ")
             << listWords(Hold(getMaxEnumValForHold()), "\"") << " as "
             << names::kHeldBy << ", got " << cause;
  }
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

static void describe(InFlightDiagnostic &diag, TransferOpInterface op) {
  diag << op->getName();
  if (auto collective = dyn_cast<CollectiveOpInterface>(op.getOperation()))
    diag << " on " << collective.getAxesAttr();
}

LogicalResult StartOp::verifyRegions() {
  TransferOpInterface first;
  SmallVector<Value> results;
  for (Operation &op : getTransfers()) {
    auto transfer = dyn_cast<TransferOpInterface>(op);
    // start_c1
    if (!transfer) {
      InFlightDiagnostic diag =
          emitOpError("expected only transfers in the body, got ")
          << op.getName();
      diag.attachNote(op.getLoc()) << "it is here";
      return diag;
    }
    if (!first)
      first = transfer;
    if (!isAlike(transfer, first)) {
      InFlightDiagnostic diag =
          emitOpError("expected transfers of one kind and one group, got ");
      describe(diag, transfer);
      diag << " beside ";
      describe(diag, first);
      diag.attachNote(op.getLoc()) << "it is here";
      return diag;
    }
    // start_c2
    if (!transfer.runsOn(getQueue()))
      return emitOpError("expected a queue of ")
             << op.getName() << ", got " << stringifyTransferQueue(getQueue());
    results.push_back(transfer.getBrought());
  }
  if (!first)
    return emitOpError("expected a transfer in the body, got none");
  // start_c4
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (!llvm::equal(yield.getValues(), results))
    return yield.emitOpError("expected the results of the ")
           << results.size() << " transfers in their order";
  TypeRange brought(yield.getValues());
  if (!llvm::equal(brought, getToken().getType().getTypes()))
    return emitOpError("expected a token of (")
           << brought << "), got " << getToken().getType();
  return success();
}

LogicalResult WaitOp::verify() {
  // wait_c2
  if (!getToken().getDefiningOp<StartOp>())
    return emitOpError("expected the token of a start, got ") << getToken();
  // wait_c1
  if (!llvm::equal(getResultTypes(), getToken().getType().getTypes()))
    return emitOpError("expected results of (")
           << TypeRange(getToken().getType().getTypes()) << "), got ("
           << getResultTypes() << ")";
  return success();
}
