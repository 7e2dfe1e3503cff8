//===- FSDPSymbols.cpp - Meshes and flat parameters -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verification.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// MeshOp
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  int64_t world = 1;
  llvm::StringMap<bool> seen;
  for (auto axis : getAxes().getAsRange<MeshAxisAttr>()) {
    // mesh_c1
    if (axis.getName().empty())
      return emitOpError("expected axes with names, got an empty one");
    if (!seen.try_emplace(axis.getName().getValue(), true).second)
      return emitOpError("expected axes with names of their own, got ")
             << axis.getName() << " twice";
    // mesh_c2
    if (axis.getSize() < 1)
      return emitOpError("expected at least one rank on axis ")
             << axis.getName() << ", got " << axis.getSize();
    if (axis.getSize() > std::numeric_limits<int32_t>::max() / world)
      return emitOpError("expected at most ")
             << std::numeric_limits<int32_t>::max()
             << " ranks in all, got more with axis " << axis.getName() << " = "
             << axis.getSize();
    world *= axis.getSize();
  }
  return success();
}

std::optional<int64_t> MeshOp::getAxisSize(StringRef name) {
  for (auto axis : getAxes().getAsRange<MeshAxisAttr>())
    if (axis.getName() == name)
      return axis.getSize();
  return std::nullopt;
}

int64_t MeshOp::getGroupSize(ArrayAttr axes) {
  int64_t size = 1;
  for (auto name : axes.getAsValueRange<StringAttr>())
    size *= getAxisSize(name).value_or(1);
  return size;
}

int64_t MeshOp::getWorldSize() {
  int64_t size = 1;
  for (auto axis : getAxes().getAsRange<MeshAxisAttr>())
    size *= axis.getSize();
  return size;
}

ArrayAttr MeshOp::sortAxes(ArrayAttr axes) {
  SmallVector<Attribute> sorted;
  for (auto axis : getAxes().getAsRange<MeshAxisAttr>())
    if (llvm::is_contained(axes, axis.getName()))
      sorted.push_back(axis.getName());
  return ArrayAttr::get(getContext(), sorted);
}

//===----------------------------------------------------------------------===//
// FlatParamOp
//===----------------------------------------------------------------------===//

LogicalResult FlatParamOp::verify() {
  // flat_param_c6
  if (getMembers().empty())
    return emitOpError("expected at least one member, got none");
  llvm::StringMap<MemberAttr> names;
  Type elementType;
  int64_t end = 0;
  for (MemberAttr member : getMemberRange()) {
    // flat_param_c3
    RankedTensorType type = member.getType();
    if (elementType && type.getElementType() != elementType)
      return emitOpError("expected members of one element type, got ")
             << type.getElementType() << " for " << member.getFqn() << " after "
             << elementType;
    elementType = type.getElementType();
    if (member.getOffset() < end)
      return emitOpError("expected ")
             << member.getFqn() << " at or after element " << end << ", got "
             << member.getOffset();
    end = member.getEnd();
    // flat_param_c4
    auto insert = [&](StringRef name) -> LogicalResult {
      if (names.try_emplace(name, member).second)
        return success();
      return emitOpError("expected members with names of their own, got '")
             << name << "' twice";
    };
    if (failed(insert(member.getFqn())))
      return failure();
    if (member.getTied())
      for (auto tied : member.getTied().getAsValueRange<StringAttr>())
        if (failed(insert(tied)))
          return failure();
  }
  // flat_param_c5, first half
  if (static_cast<int64_t>(getNumel()) < end)
    return emitOpError("expected numel of at least ")
           << end << ", the end of the last member, got " << getNumel();
  // flat_param_c10
  if (getPersistent() && (!getKeep() || getShardAxes().empty()))
    return emitOpError("expected ") << (getKeep() ? "shard axes" : "keep")
                                    << " beside persistent, got none";
  return success();
}

/// No two flat parameters in the block of @first, which is the first of them,
/// have members of one name: the parameter would be kept, updated and saved in
/// two places. Linear in the number of members.
static LogicalResult verifyMembersApart(FlatParamOp first) {
  llvm::DenseMap<Attribute, FlatParamOp> owners;
  for (auto flat : first->getBlock()->getOps<FlatParamOp>())
    for (MemberAttr member : flat.getMemberRange()) {
      SmallVector<Attribute> names{member.getFqn()};
      if (member.getTied())
        llvm::append_range(names, member.getTied());
      for (Attribute name : names) {
        auto [it, isNew] = owners.try_emplace(name, flat);
        if (isNew || it->second == flat)
          continue;
        InFlightDiagnostic diag =
            flat.emitOpError("expected members that no other flat parameter "
                             "has, got ")
            << name << " of @" << it->second.getSymName();
        diag.attachNote(it->second.getLoc()) << "it is here";
        return diag;
      }
    }
  return success();
}

LogicalResult
FlatParamOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // flat_param_c9
  if (*(*this)->getBlock()->getOps<FlatParamOp>().begin() == *this &&
      failed(verifyMembersApart(*this)))
    return failure();
  // flat_param_c1
  FailureOr<MeshOp> mesh = lookupMesh(*this, getMeshAttr(), symbolTable);
  if (failed(mesh))
    return failure();
  // flat_param_c12
  ArrayAttr secondary = getSecondaryAxesAttr()
                            ? getSecondaryAxesAttr()
                            : ArrayAttr::get(getContext(), {});
  if (getSecondaryAxesAttr() &&
      (secondary.empty() || secondary.size() >= getShardAxes().size() ||
       !llvm::equal(secondary,
                    getShardAxes().getValue().take_front(secondary.size()))))
    return emitOpError("expected secondary axes that the axes of shard begin "
                       "with, some and not all of them, got ")
           << secondary << " beside " << getShardAxes();
  if (getSecondaryAxesAttr() && getKeep())
    return emitOpError("expected no keep beside secondary axes, got it: what "
                       "is kept gathered is gathered of nothing again");
  // flat_param_c2
  for (ArrayAttr axes : {secondary, getPrimaryAxes(), getReplicateAxes()})
    if (failed(verifyAxes(*this, *mesh, axes)))
      return failure();
  for (Attribute axis : getPrimaryAxes())
    if (llvm::is_contained(secondary, axis))
      return emitOpError("expected each axis of shard once, got ")
             << axis << " twice";
  for (Attribute axis : getShardAxes())
    if (llvm::is_contained(getReplicateAxes(), axis))
      return emitOpError("expected each axis either sharded or replicated, "
                         "got ")
             << axis << " in both";
  // flat_param_c5, second half
  int64_t ranks = mesh->getGroupSize(getShardAxes());
  if (getNumel() % ranks != 0) {
    InFlightDiagnostic diag =
        emitOpError("expected numel to be a multiple of the ")
        << ranks << " ranks it is sharded over, got " << getNumel();
    diag.attachNote(mesh->getLoc()) << "the mesh is here";
    return diag;
  }
  // flat_param_c11
  if (!getReductionHookAttr())
    return success();
  int64_t replicas = mesh->getGroupSize(getReplicateAxes());
  if (!getTrainable() || replicas < 2)
    return emitOpError("expected a trainable flat parameter with more than one "
                       "replica beside reduction_hook, got ")
           << (getTrainable() ? "" : "a frozen one with ") << replicas;
  return success();
}

MemberAttr FlatParamOp::lookupMember(StringRef fqn) {
  for (MemberAttr member : getMemberRange())
    if (member.getFqn() == fqn)
      return member;
  return {};
}

SmallVector<FlatParamOp::Run> FlatParamOp::getRuns() {
  SmallVector<Run> runs;
  for (MemberAttr member : getMemberRange())
    if (runs.empty())
      runs.push_back({member.getGroup(), 0});
    else if (member.getGroup() != runs.back().group)
      runs.push_back({member.getGroup(), member.getOffset()});
  return runs;
}

int64_t FlatParamOp::getShardNumel(MeshOp mesh) {
  return getNumel() / mesh.getGroupSize(getShardAxes());
}

int64_t FlatParamOp::getSecondaryNumel(MeshOp mesh) {
  return getNumel() / mesh.getGroupSize(getSecondaryAxesAttr());
}

ArrayAttr FlatParamOp::getPrimaryAxes() {
  size_t secondary = getSecondaryAxesAttr() ? getSecondaryAxesAttr().size() : 0;
  return ArrayAttr::get(getContext(),
                        getShardAxes().getValue().drop_front(secondary));
}

ShardedType FlatParamOp::getShardedType(Type elementType) {
  return ShardedType::get(getContext(), FlatSymbolRefAttr::get(*this),
                          elementType);
}

SecondaryType FlatParamOp::getSecondaryType(Type elementType) {
  return SecondaryType::get(getContext(), FlatSymbolRefAttr::get(*this),
                            elementType);
}

UnshardedType FlatParamOp::getUnshardedType(Type elementType) {
  return UnshardedType::get(getContext(), FlatSymbolRefAttr::get(*this),
                            elementType);
}

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

FailureOr<MeshOp> fsdp::lookupMesh(Operation *op, FlatSymbolRefAttr name,
                                   SymbolTableCollection &symbolTable) {
  return lookupSymbol<MeshOp>(op, name, symbolTable, "a mesh");
}

FailureOr<FlatParamOp>
fsdp::lookupFlatParam(Operation *op, FlatSymbolRefAttr name,
                      SymbolTableCollection &symbolTable) {
  return lookupSymbol<FlatParamOp>(op, name, symbolTable, "a flat parameter");
}

LogicalResult fsdp::verifyAxes(Operation *op, MeshOp mesh, ArrayAttr axes) {
  // Both lists follow one order, so one walk over the mesh's axes finds all.
  auto *axis = axes.begin();
  for (auto meshAxis : mesh.getAxes().getAsRange<MeshAxisAttr>())
    if (axis != axes.end() && *axis == meshAxis.getName())
      ++axis;
  if (axis == axes.end())
    return success();
  InFlightDiagnostic diag = op->emitOpError("expected axes of mesh ")
                            << mesh.getSymNameAttr()
                            << " in its order, each once, got " << axes;
  diag.attachNote(mesh.getLoc()) << "the mesh is here: " << mesh.getAxes();
  return diag;
}
