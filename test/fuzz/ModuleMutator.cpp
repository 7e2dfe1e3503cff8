//===- ModuleMutator.cpp - Random changes of IR ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModuleMutator.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

static std::string nameOf(Operation *op) {
  return op->getName().getStringRef().str();
}

static bool isTerminator(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>();
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

Operation *ModuleMutator::pickOp(function_ref<bool(Operation *)> isWanted) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (op != module && isWanted(op))
      ops.push_back(op);
  });
  return ops.empty() ? nullptr : ops[pick(ops.size())];
}

Value ModuleMutator::pickValueBefore(Operation *op,
                                     function_ref<bool(Value)> isWanted) {
  SmallVector<Value> values;
  auto add = [&](ValueRange range) {
    llvm::append_range(values, llvm::make_filter_range(range, isWanted));
  };
  for (Operation *at = op; at && at->getBlock(); at = at->getParentOp()) {
    add(at->getBlock()->getArguments());
    for (Operation &before : *at->getBlock()) {
      if (&before == at)
        break;
      add(before.getResults());
    }
    if (at->hasTrait<OpTrait::IsIsolatedFromAbove>())
      break;
  }
  return values.empty() ? Value() : values[pick(values.size())];
}

Operation *ModuleMutator::pickPlace(Operation *op) {
  Block *block = op->getBlock();
  SmallVector<Operation *> places;
  // Whether @reader, or an op in its regions, has a result of @before as an
  // operand.
  auto reads = [](Operation *reader, Operation *before) {
    return reader
        ->walk([&](Operation *inner) {
          return llvm::any_of(inner->getOperands(),
                              [&](Value value) {
                                return value.getDefiningOp() == before;
                              })
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  };
  for (Operation &other : *block) {
    places.push_back(&other);
    if (reads(&other, op) || isTerminator(&other))
      break;
    if (reads(op, &other))
      places.clear();
  }
  llvm::erase(places, op);
  return places.empty() ? nullptr : places[pick(places.size())];
}

//===----------------------------------------------------------------------===//
// Any change
//===----------------------------------------------------------------------===//

std::string ModuleMutator::replaceOperand() {
  Operation *op = pickOp([](Operation *op) { return op->getNumOperands(); });
  if (!op)
    return "";
  OpOperand &operand = op->getOpOperand(pick(op->getNumOperands()));
  bool isAlike = pick(4) != 0;
  Value value = pickValueBefore(op, [&](Value value) {
    return value != operand.get() &&
           (!isAlike || value.getType() == operand.get().getType());
  });
  if (!value)
    return "";
  operand.set(value);
  return "another operand " + std::to_string(operand.getOperandNumber()) +
         " of " + nameOf(op);
}

std::string ModuleMutator::swapOperands() {
  Operation *op =
      pickOp([](Operation *op) { return op->getNumOperands() > 1; });
  if (!op)
    return "";
  OpOperand &first = op->getOpOperand(pick(op->getNumOperands())),
            &second = op->getOpOperand(pick(op->getNumOperands()));
  Value value = first.get();
  first.set(second.get());
  second.set(value);
  return "operands of " + nameOf(op) + " swapped";
}

void test::eraseAndReplace(Operation *op) {
  OpBuilder builder(op);
  for (Value result : op->getResults()) {
    if (result.use_empty())
      continue;
    auto type = dyn_cast<RankedTensorType>(result.getType());
    Value other;
    for (Value operand : op->getOperands())
      if (operand.getType() == result.getType())
        other = operand;
    if (!other && type && type.hasStaticShape() && !type.getEncoding())
      other = tensor::EmptyOp::create(builder, op->getLoc(), type.getShape(),
                                      type.getElementType());
    if (!other)
      other = UnrealizedConversionCastOp::create(builder, op->getLoc(),
                                                 result.getType(), ValueRange())
                  .getResult(0);
    result.replaceAllUsesWith(other);
  }
  op->erase();
}

std::string ModuleMutator::eraseAny() {
  Operation *op = pickOp(
      [](Operation *op) { return !isTerminator(op) || op->getNumOperands(); });
  if (!op)
    return "";
  std::string name = nameOf(op);
  eraseAndReplace(op);
  return name + " erased";
}

std::string ModuleMutator::repeat(Operation *op) {
  builder.setInsertionPointAfter(op);
  Operation *copy = builder.clone(*op);
  for (auto [result, other] : llvm::zip(op->getResults(), copy->getResults()))
    for (OpOperand &use : llvm::make_early_inc_range(result.getUses()))
      if (pick(2))
        use.set(other);
  return nameOf(op) + " repeated";
}

std::string ModuleMutator::repeatAny() {
  Operation *op = pickOp([](Operation *op) { return !isTerminator(op); });
  return op ? repeat(op) : "";
}

std::string ModuleMutator::moveAny() {
  Operation *op = pickOp([](Operation *op) { return !isTerminator(op); });
  if (!op)
    return "";
  Operation *place = pickPlace(op);
  if (!place || pick(3) == 0) {
    SmallVector<Operation *> others;
    for (Operation &other : *op->getBlock())
      others.push_back(&other);
    place = others[pick(others.size())];
  }
  if (place != op)
    op->moveBefore(place);
  return nameOf(op) + " moved";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

Type ModuleMutator::vary(Type type) {
  Builder &b = builder;
  SmallVector<Type> elements = {
      b.getF32Type(), b.getF64Type(), b.getBF16Type(), b.getF16Type(),
      b.getI64Type(), b.getI32Type(), b.getI1Type(),   b.getIndexType()};
  if (!isa<RankedTensorType, MemRefType>(type)) {
    // One that another op has, or a number.
    Operation *op = pickOp([](Operation *op) { return op->getNumResults(); });
    return op && pick(2) ? op->getResult(0).getType()
                         : elements[pick(elements.size())];
  }
  auto shaped = cast<ShapedType>(type);
  SmallVector<int64_t> shape(shaped.getShape());
  int64_t sizes[] = {0, 1, 2, 3, 64, 65, ShapedType::kDynamic, 1ll << 40};
  switch (pick(5)) {
  case 0:
    return shaped.clone(elements[pick(elements.size() - 1)]);
  case 1:
    shape.push_back(sizes[pick(5)]);
    break;
  case 2:
    if (!shape.empty())
      shape.pop_back();
    break;
  default:
    if (!shape.empty())
      shape[pick(shape.size())] = sizes[pick(std::size(sizes))];
  }
  return shaped.clone(shape);
}

Attribute ModuleMutator::vary(Attribute attribute) {
  auto varyNumber = [&](int64_t value) -> int64_t {
    int64_t values[] = {0,          1,           2,         -1,
                        value + 1,  value - 1,   value * 2, value / 2,
                        value + 64, value + 256, 1ll << 31, INT64_MAX};
    return values[pick(std::size(values))];
  };
  if (auto number = dyn_cast<IntegerAttr>(attribute)) {
    if (number.getType().isIndex())
      return IntegerAttr::get(number.getType(),
                              varyNumber(number.getValue().getSExtValue()));
    unsigned width = number.getType().getIntOrFloatBitWidth();
    int64_t value = varyNumber(number.getValue().getSExtValue());
    return IntegerAttr::get(number.getType(),
                            APInt(64, value, true).sextOrTrunc(width));
  }
  if (auto number = dyn_cast<FloatAttr>(attribute)) {
    double values[] = {0.0, 1.0, -1.0, 1e300, 2 * number.getValueAsDouble()};
    return FloatAttr::get(number.getType(), values[pick(std::size(values))]);
  }
  if (auto list = dyn_cast<ArrayAttr>(attribute)) {
    SmallVector<Attribute> entries(list.getValue());
    if (entries.empty())
      return attribute;
    size_t i = pick(entries.size()), j = pick(entries.size());
    if (pick(3) == 0)
      entries.erase(entries.begin() + i);
    else if (pick(2))
      entries.insert(entries.begin() + i, entries[j]);
    else
      std::swap(entries[i], entries[j]);
    return ArrayAttr::get(list.getContext(), entries);
  }
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attribute)) {
    SmallVector<int64_t> values(list.asArrayRef());
    if (values.empty())
      return attribute;
    size_t i = pick(values.size());
    if (pick(4) == 0)
      values.erase(values.begin() + i);
    else if (pick(4) == 0)
      values.push_back(values[i]);
    else
      values[i] = varyNumber(values[i]);
    return DenseI64ArrayAttr::get(list.getContext(), values);
  }
  if (auto map = dyn_cast<AffineMapAttr>(attribute)) {
    AffineMap value = map.getValue();
    SmallVector<AffineExpr> results(value.getResults());
    if (results.size() > 1)
      std::swap(results.front(), results[pick(results.size())]);
    else if (value.getNumDims())
      results.assign(1, builder.getAffineDimExpr(pick(value.getNumDims())));
    return AffineMapAttr::get(AffineMap::get(
        value.getNumDims(), value.getNumSymbols(), results, map.getContext()));
  }
  if (auto type = dyn_cast<TypeAttr>(attribute))
    return TypeAttr::get(vary(type.getValue()));
  if (isa<UnitAttr>(attribute))
    return {};
  // Of its own kind: another name, another case of an enumeration.
  SmallVector<Attribute> others;
  AttrTypeWalker walker;
  walker.addWalk([&](Attribute other) {
    if (other.getTypeID() == attribute.getTypeID() && other != attribute &&
        !llvm::is_contained(others, other))
      others.push_back(other);
  });
  module.walk([&](Operation *op) { walker.walk(op->getAttrDictionary()); });
  return others.empty() ? attribute : others[pick(others.size())];
}

LogicalResult ModuleMutator::setAttribute(Operation *op, StringRef name,
                                          Attribute value) {
  if (!op->getPropertiesStorage() || !op->getInherentAttr(name)) {
    if (value)
      op->setDiscardableAttr(name, value);
    else
      op->removeDiscardableAttr(name);
    return success();
  }
  auto kept = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
  if (!kept)
    return failure();
  NamedAttrList entries(kept);
  if (value)
    entries.set(name, value);
  else
    entries.erase(name);
  DictionaryAttr changed = entries.getDictionary(op->getContext());
  auto fail = [&]() { return op->emitError(); };
  ScopedDiagnosticHandler quiet(op->getContext(),
                                [](Diagnostic &) { return success(); });
  return op->getName().setOpPropertiesFromAttribute(
      op->getName(), op->getPropertiesStorage(), changed, fail);
}

static bool hasAttributes(Operation *op) {
  return !op->getAttrDictionary().empty();
}

std::string ModuleMutator::changeAttribute() {
  Operation *op = pickOp(hasAttributes);
  if (!op)
    return "";
  ArrayRef<NamedAttribute> entries = op->getAttrDictionary().getValue();
  NamedAttribute entry = entries[pick(entries.size())];
  // One part of it: a member of a flat parameter, an axis of a mesh.
  SmallVector<Attribute> parts;
  AttrTypeWalker walker;
  walker.addWalk([&](Attribute part) {
    if (!isa<LocationAttr>(part))
      parts.push_back(part);
  });
  walker.walk(entry.getValue());
  if (parts.empty())
    return "";
  Attribute chosen = parts[pick(parts.size())], other = vary(chosen);
  if (other == chosen)
    return "";
  Attribute changed = other;
  if (chosen != entry.getValue()) {
    if (!other)
      return "";
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](Attribute part) -> std::optional<Attribute> {
      if (part == chosen)
        return other;
      return std::nullopt;
    });
    changed = replacer.replace(entry.getValue());
  }
  if (!changed && chosen != entry.getValue())
    return "";
  if (failed(setAttribute(op, entry.getName(), changed)))
    return "";
  return "another " + entry.getName().str() + " of " + nameOf(op);
}

std::string ModuleMutator::dropAttribute() {
  Operation *op = pickOp(hasAttributes);
  if (!op)
    return "";
  ArrayRef<NamedAttribute> entries = op->getAttrDictionary().getValue();
  NamedAttribute entry = entries[pick(entries.size())];
  std::string name = entry.getName().str();
  if (failed(setAttribute(op, name, {})))
    return "";
  return "no " + name + " on " + nameOf(op);
}

std::string ModuleMutator::takeAttribute() {
  Operation *from = pickOp(hasAttributes),
            *op = pickOp([](Operation *) { return true; });
  if (!from || !op)
    return "";
  ArrayRef<NamedAttribute> entries = from->getAttrDictionary().getValue();
  NamedAttribute entry = entries[pick(entries.size())];
  if (failed(setAttribute(op, entry.getName(), entry.getValue())))
    return "";
  return entry.getName().str() + " of " + nameOf(from) + " on " + nameOf(op);
}

std::string ModuleMutator::changeType() {
  Operation *op = pickOp([](Operation *op) {
    return op->getNumResults() ||
           (op->getNumRegions() && !op->getRegion(0).empty() &&
            op->getRegion(0).getNumArguments());
  });
  if (!op)
    return "";
  Value value = op->getNumResults()
                    ? Value(op->getResult(pick(op->getNumResults())))
                    : Value(op->getRegion(0).getArgument(
                          pick(op->getRegion(0).getNumArguments())));
  value.setType(vary(value.getType()));
  return "another type in " + nameOf(op);
}

std::string ModuleMutator::changeTypeEverywhere() {
  Operation *op = pickOp([](Operation *op) { return op->getNumResults(); });
  if (!op)
    return "";
  Type type = op->getResult(pick(op->getNumResults())).getType(),
       other = vary(type);
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](Type found) -> std::optional<Type> {
    if (found == type)
      return other;
    return std::nullopt;
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  return "another type wherever it was";
}

//===----------------------------------------------------------------------===//
// What computes the same
//===----------------------------------------------------------------------===//

/// An op of a traced function, or within one, that can be repeated.
static bool isRepeatable(Operation *op) {
  return !isTerminator(op) && isPure(op) && op->getNumResults() &&
         op->getBlock() && !isa<ModuleOp>(op->getParentOp());
}

std::string ModuleMutator::repeatPure() {
  Operation *op = pickOp(isRepeatable);
  return op ? repeat(op) : "";
}

/// Moves `op`, if any, to another place in its block that its operands and
/// users allow.
std::string ModuleMutator::move(Operation *op) {
  Operation *place = op ? pickPlace(op) : nullptr;
  if (!place)
    return "";
  op->moveBefore(place);
  return nameOf(op) + " moved";
}

std::string ModuleMutator::movePure() {
  return move(pickOp(isRepeatable));
}

std::string ModuleMutator::commute() {
  Operation *op = pickOp([](Operation *op) {
    return isa<arith::AddFOp, arith::MulFOp, arith::AddIOp, arith::MulIOp>(op);
  });
  if (!op)
    return "";
  Value first = op->getOperand(0);
  op->setOperand(0, op->getOperand(1));
  op->setOperand(1, first);
  return "operands of " + nameOf(op) + " swapped";
}

std::string ModuleMutator::reshape() {
  Operation *op = pickOp([](Operation *op) {
    if (!isRepeatable(op) || !isa<FunctionOpInterface>(op->getParentOp()))
      return false;
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    return type && type.hasStaticShape() && type.getRank() > 0;
  });
  if (!op)
    return "";
  Value value = op->getResult(0);
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin(), 1);
  SmallVector<ReassociationIndices> groups(type.getRank());
  groups[0] = {0, 1};
  for (int64_t i = 1; i < type.getRank(); ++i)
    groups[i] = {i + 1};
  builder.setInsertionPointAfter(op);
  auto expand = tensor::ExpandShapeOp::create(
      builder, op->getLoc(),
      RankedTensorType::get(shape, type.getElementType()), value, groups);
  auto collapse = tensor::CollapseShapeOp::create(builder, op->getLoc(), type,
                                                  expand, groups);
  value.replaceAllUsesExcept(collapse, expand);
  return "a result of " + nameOf(op) + " reshaped and back";
}

//===----------------------------------------------------------------------===//
// Placed steps
//===----------------------------------------------------------------------===//

std::string ModuleMutator::moveStep() {
  return move(pickOp([](Operation *op) {
    return isa<ProgramOp>(op->getParentOp()) && !isTerminator(op);
  }));
}

std::string ModuleMutator::changePlace() {
  auto isPlace = [](NamedAttribute entry) {
    StringRef name = entry.getName().strref();
    return name == "fsdp.offsets" || name == "event" || name == "queue" ||
           name == "offset";
  };
  Operation *op = pickOp([&](Operation *op) {
    return isa<ProgramOp>(op->getParentOp()) && !isa<ViewOp>(op) &&
           llvm::any_of(op->getAttrDictionary(), isPlace);
  });
  if (!op)
    return "";
  for (NamedAttribute entry : op->getAttrDictionary())
    if (isPlace(entry)) {
      Attribute other = vary(entry.getValue());
      if (!other || failed(setAttribute(op, entry.getName(), other)))
        return "";
      return "another " + entry.getName().str() + " of " + nameOf(op);
    }
  return "";
}

std::string ModuleMutator::change(Changes kind) {
  static constexpr Change any[] = {&ModuleMutator::replaceOperand,
                                   &ModuleMutator::swapOperands,
                                   &ModuleMutator::eraseAny,
                                   &ModuleMutator::repeatAny,
                                   &ModuleMutator::moveAny,
                                   &ModuleMutator::changeAttribute,
                                   &ModuleMutator::changeAttribute,
                                   &ModuleMutator::dropAttribute,
                                   &ModuleMutator::takeAttribute,
                                   &ModuleMutator::changeType,
                                   &ModuleMutator::changeTypeEverywhere};
  static constexpr Change equal[] = {
      &ModuleMutator::repeatPure, &ModuleMutator::movePure,
      &ModuleMutator::commute, &ModuleMutator::reshape};
  static constexpr Change schedule[] = {&ModuleMutator::moveStep,
                                        &ModuleMutator::moveStep,
                                        &ModuleMutator::changePlace};
  ArrayRef<Change> changes = kind == Changes::Any ? ArrayRef<Change>(any)
                             : kind == Changes::Equal
                                 ? ArrayRef<Change>(equal)
                                 : ArrayRef<Change>(schedule);
  return (this->*changes[pick(changes.size())])();
}
