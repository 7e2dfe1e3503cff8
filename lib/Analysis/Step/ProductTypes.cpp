//===- ProductTypes.cpp - Types in which products are computed ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ProductTypes.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/UnitSettings.h"

using namespace mlir;
using namespace mlir::fsdp;

SmallVector<StringRef> fsdp::getModulePaths(Location loc) {
  SmallVector<StringRef> paths;
  loc->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part))
      paths.push_back(name.getName().getValue());
    return WalkResult::advance();
  });
  return paths;
}

/// Whether @flat is gathered in another type than what products have anyway:
/// one that its members were not traced in, or one wider than @usual.
static bool hasOwnType(FlatParamOp flat, FloatType usual) {
  auto type = cast<FloatType>(flat.getParamType());
  MemberAttr member = *flat.getMemberRange().begin();
  auto traced = cast<FloatType>(member.getType().getElementType());
  return !flat.isRankOwn() && type != usual &&
         (type.getWidth() < traced.getWidth() ||
          usual.getWidth() < type.getWidth());
}

ProductTypes::ProductTypes(ProgramOp program, FloatType usual)
    : usual(usual), all({usual}) {
  ProgramStates states(program);
  llvm::DenseSet<Attribute> read;
  for (BlockArgument arg : program.getArguments())
    if (Attribute name = states.getParameter(arg.getArgNumber()))
      read.insert(name);
  for (auto flat : program->getParentOfType<ModuleOp>().getOps<FlatParamOp>()) {
    Unit &unit = units.try_emplace(flat.getUnit(), Unit{flat, usual, false})
                     .first->second;
    if (!hasOwnType(flat, usual))
      continue;
    unit = {flat, cast<FloatType>(flat.getParamType()),
            read.contains(FlatSymbolRefAttr::get(flat))};
    if (llvm::is_contained(all, unit.type))
      continue;
    auto *wider = llvm::find_if(all, [&](FloatType other) {
      return other.getWidth() > unit.type.getWidth();
    });
    all.insert(wider, unit.type);
  }
}

const ProductTypes::Unit *ProductTypes::find(StringRef path) const {
  while (true) {
    if (auto unit = units.find(path); unit != units.end())
      return &unit->second;
    if (path.empty())
      return nullptr;
    path = path.contains('.') ? path.rsplit('.').first : StringRef();
  }
}

FloatType ProductTypes::get(Location loc) const {
  SmallVector<StringRef> paths = getModulePaths(loc);
  if (paths.empty())
    paths.push_back("");
  FloatType widest;
  for (StringRef path : paths) {
    const Unit *unit = find(path);
    FloatType type = unit ? unit->type : usual;
    if (!widest || type.getWidth() > widest.getWidth())
      widest = type;
  }
  return widest;
}

LogicalResult ProductTypes::verifyLocations(ProgramOp program) const {
  // Where there is but the root, all is of it.
  if (units.size() == 1 && units.contains(""))
    return success();
  llvm::DenseSet<const Unit *> named;
  program.getBody().walk([&](Operation *op) {
    for (StringRef path : getModulePaths(op->getLoc()))
      named.insert(find(path));
  });
  for (const auto &entry : units)
    if (const Unit &unit = entry.second; unit.isOwn && !named.contains(&unit)) {
      InFlightDiagnostic diag =
          emitInputError(program, "expected locations that name modules, since "
                                  "products of unit '")
          << getUnitTitle(entry.first()) << "' are in " << unit.type
          << ", got none inside of it";
      diag.attachNote(FlatParamOp(unit.flat).getLoc())
          << "it is gathered in that type";
      return diag;
    }
  return success();
}
