//===- FSDPLogicalOps.cpp - L1: unshard, reshard, reduce_grad, update -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verification.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::fsdp;

/// An error at `op` with a note at the flat parameter.
static InFlightDiagnostic emitAgainst(FlatParamOp param, Operation *op,
                                      const Twine &message) {
  InFlightDiagnostic diag = op->emitOpError(message);
  diag.attachNote(param.getLoc()) << "the flat parameter is here";
  return diag;
}

//===----------------------------------------------------------------------===//
// ReduceReplicasOp
//===----------------------------------------------------------------------===//

LogicalResult
ReduceReplicasOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // reduce_replicas_c1
  FailureOr<FlatParamOp> param =
      lookupFlatParam(*this, getFlatParamAttr(), symbolTable);
  if (failed(param))
    return failure();
  if (!param->getReductionHookAttr())
    return emitAgainst(*param, *this,
                       "expected a flat parameter with a reduction_hook, got "
                       "one without");
  // reduce_replicas_c2
  auto mesh =
      symbolTable.lookupNearestSymbolFrom<MeshOp>(*param, param->getMeshAttr());
  int64_t count = mesh ? param->getShardNumel(mesh) : 0;
  if (mesh && getGrad().getType().getNumElements() != count)
    return emitAgainst(*param, *this, "expected a gradient of ")
           << count << " elements, got " << getGrad().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// GatherSecondaryOp and UnshardOp
//===----------------------------------------------------------------------===//

/// The flat parameter that the types of a shard and of what @op gathers of it
/// name.
template <typename Piece, typename Gathered>
static FailureOr<FlatParamOp>
lookupGathered(Operation *op, Piece shard, Gathered result,
               SymbolTableCollection &symbolTable) {
  if (shard.getFlatParam() != result.getFlatParam())
    return op->emitOpError(
               "expected shard and result of one flat parameter, got ")
           << shard.getFlatParam() << " and " << result.getFlatParam();
  return lookupFlatParam(op, shard.getFlatParam(), symbolTable);
}

/// Checks that @op, which gathers @param, does so in one of its types.
static LogicalResult verifyGatherTypes(Operation *op, FlatParamOp param,
                                       ShardedType shard, Type result) {
  if (shard && shard.getElementType() != param.getElementType())
    return emitAgainst(param, op, "expected a shard of ")
           << param.getElementType() << ", got " << shard.getElementType();
  if (result == param.getParamType() || result == param.getElementType())
    return success();
  InFlightDiagnostic diag = emitAgainst(param, op, "expected a result of ");
  diag << param.getParamType();
  if (param.getElementType() != param.getParamType())
    diag << " or " << param.getElementType();
  return diag << ", got " << result;
}

LogicalResult
GatherSecondaryOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  ShardedType shard = getShard().getType();
  SecondaryType secondary = getResult().getType();
  // gather_secondary_c1
  FailureOr<FlatParamOp> param =
      lookupGathered(*this, shard, secondary, symbolTable);
  if (failed(param))
    return failure();
  if (!param->getSecondaryAxesAttr())
    return emitAgainst(*param, *this,
                       "expected a flat parameter with secondary axes, got ")
           << shard.getFlatParam();
  // gather_secondary_c2
  return verifyGatherTypes(*this, *param, shard, secondary.getElementType());
}

LogicalResult UnshardOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto shard = dyn_cast<ShardedType>(getShard().getType());
  auto secondary = dyn_cast<SecondaryType>(getShard().getType());
  UnshardedType whole = getResult().getType();
  // unshard_c1
  FailureOr<FlatParamOp> param =
      shard ? lookupGathered(*this, shard, whole, symbolTable)
            : lookupGathered(*this, secondary, whole, symbolTable);
  if (failed(param))
    return failure();
  // unshard_c2
  if (failed(verifyGatherTypes(*this, *param, shard, whole.getElementType())))
    return failure();
  if (secondary && secondary.getElementType() != whole.getElementType())
    return emitAgainst(*param, *this, "expected a secondary shard of ")
           << whole.getElementType() << ", the result's type, got "
           << secondary.getElementType();
  // unshard_c3
  if (bool(secondary) != bool(param->getSecondaryAxesAttr()))
    return emitAgainst(*param, *this,
                       secondary ? "expected a shard of what has no "
                                   "secondary axes, got "
                                 : "expected a secondary shard of "
                                   "what has secondary axes, got ")
           << getShard().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// MemberOp
//===----------------------------------------------------------------------===//

LogicalResult MemberOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // member_c1
  FailureOr<FlatParamOp> param = lookupFlatParam(
      *this, getUnsharded().getType().getFlatParam(), symbolTable);
  if (failed(param))
    return failure();
  MemberAttr member = param->lookupMember(getFqn());
  if (!member)
    return emitAgainst(*param, *this, "expected the name of a member, got ")
           << getFqnAttr();
  // member_c2
  if (member.getType() != getType())
    return emitAgainst(*param, *this, "expected ")
           << member.getType() << " for " << getFqnAttr() << ", got "
           << getType();
  return success();
}

//===----------------------------------------------------------------------===//
// ReshardOp
//===----------------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  // reshard_c1
  auto unshard = getUnsharded().getDefiningOp<UnshardOp>();
  if (!unshard) {
    InFlightDiagnostic diag =
        emitOpError("expected the result of fsdp.unshard, got ");
    Operation *producer = getUnsharded().getDefiningOp();
    if (!producer)
      return diag << "a block argument";
    diag << "one of " << producer->getName();
    diag.attachNote(producer->getLoc()) << "it is here";
    return diag;
  }
  // reshard_c2
  for (Operation *user : unshard.getResult().getUsers()) {
    auto other = dyn_cast<ReshardOp>(user);
    if (!other || other == *this)
      continue;
    InFlightDiagnostic diag =
        emitOpError("expected one reshard of each unshard, got another");
    diag.attachNote(other.getLoc()) << "the other one is here";
    return diag;
  }
  // reshard_c3
  if (unshard->getBlock() != (*this)->getBlock()) {
    InFlightDiagnostic diag =
        emitOpError("expected a reshard in the block of its unshard, got one "
                    "in another block");
    diag.attachNote(unshard.getLoc()) << "the unshard is here";
    return diag;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ReduceGradOp
//===----------------------------------------------------------------------===//

/// Checks that `op` has a flat parameter that is trained.
static FailureOr<FlatParamOp>
lookupTrained(Operation *op, FlatSymbolRefAttr name,
              SymbolTableCollection &symbolTable) {
  FailureOr<FlatParamOp> param = lookupFlatParam(op, name, symbolTable);
  if (succeeded(param) && !param->getTrainable())
    return emitAgainst(*param, op,
                       "expected a trainable flat parameter, got a frozen one");
  return param;
}

/// Checks that there is one gradient for each member, of the member's type.
static LogicalResult verifyGrads(Operation *op, FlatParamOp param,
                                 ValueRange grads) {
  if (grads.size() != param.getMembers().size())
    return emitAgainst(param, op, "expected a gradient for each of ")
           << param.getMembers().size() << " members, got " << grads.size();
  for (auto [grad, member] : llvm::zip(grads, param.getMemberRange()))
    if (grad.getType() != member.getType())
      return emitAgainst(param, op, "expected a gradient of ")
             << member.getType() << " for " << member.getFqn() << ", got "
             << grad.getType();
  return success();
}

/// Checks that a reduced gradient is sharded in the state type.
static LogicalResult verifyReduced(Operation *op, FlatParamOp param,
                                   Type type) {
  ShardedType expected = param.getShardedType(param.getElementType());
  if (type != expected)
    return emitAgainst(param, op, "expected a result of type ")
           << expected << ", got " << type;
  return success();
}

LogicalResult
ReduceGradOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // reduce_grad_c1
  FailureOr<FlatParamOp> param =
      lookupTrained(*this, getFlatParamAttr(), symbolTable);
  if (failed(param))
    return failure();
  // reduce_grad_c2
  if (failed(verifyGrads(*this, *param, getGrads())))
    return failure();
  // reduce_grad_c3
  return verifyReduced(*this, *param, getResult().getType());
}

//===----------------------------------------------------------------------===//
// AccumulateGradOp
//===----------------------------------------------------------------------===//

static FlatSymbolRefAttr getAccumulated(Type type) {
  if (auto sharded = dyn_cast<ShardedType>(type))
    return sharded.getFlatParam();
  return cast<UnshardedType>(type).getFlatParam();
}

LogicalResult
AccumulateGradOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // accumulate_grad_c1
  FailureOr<FlatParamOp> param =
      lookupTrained(*this, getFlatParamAttr(), symbolTable);
  if (failed(param))
    return failure();
  // accumulate_grad_c2
  if (failed(verifyGrads(*this, *param, getGrads())))
    return failure();
  // accumulate_grad_c4
  FlatSymbolRefAttr named = getAccumulated(getAccumulator().getType());
  if (named != getFlatParamAttr())
    return emitAgainst(*param, *this, "expected an accumulator of ")
           << getFlatParamAttr() << ", got one of " << named;
  return success();
}

//===----------------------------------------------------------------------===//
// ReduceAccumulatedOp
//===----------------------------------------------------------------------===//

LogicalResult
ReduceAccumulatedOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // reduce_accumulated_c1
  FailureOr<FlatParamOp> param = lookupTrained(
      *this, getAccumulated(getAccumulator().getType()), symbolTable);
  if (failed(param))
    return failure();
  // reduce_accumulated_c2, reduce_accumulated_c3
  return verifyReduced(*this, *param, getResult().getType());
}

//===----------------------------------------------------------------------===//
// GradNormOp
//===----------------------------------------------------------------------===//

LogicalResult GradNormOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // grad_norm_c2
  if (getGrads().empty())
    return emitOpError("expected at least one gradient, got none");
  // grad_norm_c1
  llvm::SmallPtrSet<Attribute, 16> seen;
  for (Value grad : getGrads()) {
    auto type = cast<ShardedType>(grad.getType());
    if (failed(lookupFlatParam(*this, type.getFlatParam(), symbolTable)))
      return failure();
    if (!seen.insert(type.getFlatParam()).second)
      return emitOpError("expected each flat parameter once, got ")
             << type.getFlatParam() << " twice";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// UpdateOp
//===----------------------------------------------------------------------===//

/// Whether `type` may stand where the optimizer has `formal`; `flatParam` is
/// what the shards seen so far belong to.
static bool fitsOptimizer(Type type, Type formal,
                          FlatSymbolRefAttr &flatParam) {
  auto shard = dyn_cast<ShardedType>(type);
  if (!shard)
    return type == formal;
  auto flat = dyn_cast<RankedTensorType>(formal);
  if (!flat || flat.getRank() != 1 || !flat.isDynamicDim(0))
    return false;
  if (!flatParam)
    flatParam = shard.getFlatParam();
  return flatParam == shard.getFlatParam();
}

/// Types of the optimizer's arguments whose role is "scalar", in their order.
static SmallVector<Type> getScalarTypes(func::FuncOp optimizer) {
  SmallVector<Type> types;
  for (auto [index, type] : llvm::enumerate(optimizer.getArgumentTypes())) {
    auto entries = optimizer.getArgAttrOfType<DictionaryAttr>(
        index, names::kOptimizerRole);
    auto role = entries ? entries.getAs<StringAttr>("role") : StringAttr();
    if (role && symbolizeOptimizerRole(role) == OptimizerRole::Scalar)
      types.push_back(type);
  }
  return types;
}

/// update_c4
static LogicalResult verifyRuns(UpdateOp op, FlatParamOp flat,
                                func::FuncOp optimizer) {
  SmallVector<Type> scalars = getScalarTypes(optimizer), expected;
  size_t runs = flat.getRuns().size();
  for (size_t run = 1; run < runs; ++run)
    llvm::append_range(expected, scalars);
  if (op.getRunScalars().getTypes() == TypeRange(expected) &&
      (runs > 1) == bool(op.getRank()))
    return success();
  return emitAgainst(
      flat, op,
      "expected " + Twine(runs > 1 ? "a rank and " : "no rank and ") +
          Twine(expected.size()) + " scalars of the types of those of @" +
          optimizer.getName() + " for " + Twine(runs) +
          " runs of groups, got " +
          (op.getRank() ? "a rank and " : "no rank and ") +
          Twine(op.getRunScalars().size()));
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // update_c1
  FailureOr<func::FuncOp> optimizer = lookupSymbol<func::FuncOp>(
      *this, getOptimizerAttr(), symbolTable, "a function");
  if (failed(optimizer))
    return failure();
  // update_c2
  FunctionType type = optimizer->getFunctionType();
  FlatSymbolRefAttr flatParam;
  auto fail = [&](const Twine &expected, const Twine &got) {
    InFlightDiagnostic diag = emitOpError("expected ")
                              << expected << ", got " << got;
    diag.attachNote(optimizer->getLoc()) << "the optimizer is here";
    return diag;
  };
  auto check = [&](StringRef what, TypeRange actual,
                   TypeRange formal) -> LogicalResult {
    if (actual.size() != formal.size())
      return fail(Twine(formal.size()) + " " + what + "s",
                  Twine(actual.size()));
    for (auto [index, a, f] : llvm::enumerate(actual, formal))
      if (!fitsOptimizer(a, f, flatParam))
        return fail(what + " #" + Twine(index) + " to fit " +
                        mlir::debugString(f),
                    mlir::debugString(a));
    return success();
  };
  if (failed(check("argument", getArgs().getTypes(), type.getInputs())) ||
      failed(check("result", getResultTypes(), type.getResults())))
    return failure();
  // update_c3
  if (!flatParam)
    return success();
  FailureOr<FlatParamOp> param = lookupFlatParam(*this, flatParam, symbolTable);
  if (failed(param))
    return failure();
  if (!param->getTrainable())
    return emitAgainst(*param, *this,
                       "expected a trainable flat parameter, got a frozen one");
  return verifyRuns(*this, *param, *optimizer);
}
