//===- FSDPDialect.cpp - Registration, attributes, types ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

#include "fsdp/Dialect/FSDP/IR/FSDPDialect.cpp.inc"

#include "fsdp/Dialect/FSDP/IR/FSDPEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPTypes.cpp.inc"

#include "fsdp/Dialect/FSDP/IR/FSDPInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Attributes and types
//===----------------------------------------------------------------------===//

/// Elements of `type`; nullopt where they are more than an int64_t counts.
static std::optional<int64_t> countElements(RankedTensorType type) {
  int64_t count = 1;
  for (int64_t size : type.getShape())
    if (llvm::MulOverflow(count, size, count))
      return std::nullopt;
  return count;
}

LogicalResult MemberAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr fqn, RankedTensorType type,
                                 int64_t offset, ArrayAttr tied, Attribute) {
  // member_attr_c1
  if (!type.hasStaticShape() || !isa<FloatType>(type.getElementType()))
    return emitError() << "expected a static shape and float elements for "
                       << fqn << ", got " << type;
  // member_attr_c2
  std::optional<int64_t> count = countElements(type);
  int64_t end;
  if (offset < 0 || !count || llvm::AddOverflow(offset, *count, end))
    return emitError() << "expected " << fqn
                       << " to lie between elements 0 and 2^63 - 1, got "
                       << type << " at " << offset;
  // member_attr_c3
  if (tied)
    for (Attribute name : tied)
      if (!isa<StringAttr>(name))
        return emitError() << "expected tied names of " << fqn
                           << " to be strings, got " << name;
  return success();
}

LogicalResult
KernelImplAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       FlatSymbolRefAttr function, int64_t grid, int64_t grain,
                       int64_t scratch, int64_t traffic) {
  // kernel_impl_c1
  if (grain < 1)
    return emitError() << "expected a grain of at least 1 for " << function
                       << ", got " << grain;
  std::pair<StringRef, int64_t> counts[] = {
      {"grid", grid}, {"scratch", scratch}, {"traffic", traffic}};
  for (auto [name, count] : counts)
    if (count < 0)
      return emitError() << "expected a " << name << " of at least 0 for "
                         << function << ", got " << count;
  return success();
}

LogicalResult MatmulAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t a, int64_t b, int64_t m, int64_t n,
                                 int64_t k, int64_t, int64_t, int64_t, bool,
                                 bool, bool, DenseI64ArrayAttr offsets,
                                 DenseI64ArrayAttr batch,
                                 DenseI64ArrayAttr strideA,
                                 DenseI64ArrayAttr strideB,
                                 DenseI64ArrayAttr strideC, FloatAttr) {
  // matmul_c1
  std::pair<StringRef, int64_t> counts[] = {
      {"a", a}, {"b", b}, {"m", m}, {"n", n}, {"k", k}};
  for (auto [name, count] : counts)
    if (count < 0)
      return emitError() << "expected " << name << " to be at least 0, got "
                         << count;
  // matmul_c2
  if (offsets.size() != 3)
    return emitError() << "expected offsets of A, B and C, got "
                       << offsets.size() << " of them";
  if (batch.size() > 4)
    return emitError() << "expected at most 4 batch dimensions, got "
                       << batch.size();
  std::pair<StringRef, DenseI64ArrayAttr> strides[] = {
      {"strideA", strideA}, {"strideB", strideB}, {"strideC", strideC}};
  for (auto [name, list] : strides)
    if (list.size() != batch.size())
      return emitError() << "expected an entry of " << name << " for each of "
                         << batch.size() << " batch dimensions, got "
                         << list.size();
  return success();
}

static LogicalResult
verifyElementType(function_ref<InFlightDiagnostic()> emitError,
                  FlatSymbolRefAttr flatParam, Type elementType) {
  if (isa<FloatType>(elementType))
    return success();
  return emitError() << "expected a float element type for " << flatParam
                     << ", got " << elementType;
}

LogicalResult ShardedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                  FlatSymbolRefAttr flatParam,
                                  Type elementType) {
  // sharded_c1
  return verifyElementType(emitError, flatParam, elementType);
}

LogicalResult
UnshardedType::verify(function_ref<InFlightDiagnostic()> emitError,
                      FlatSymbolRefAttr flatParam, Type elementType) {
  // unsharded_c1
  return verifyElementType(emitError, flatParam, elementType);
}

//===----------------------------------------------------------------------===//
// Custom assembly
//===----------------------------------------------------------------------===//

/// One member per line:  <"h.0.weight", tensor<4xf32> at 0>,
static ParseResult parseMembers(OpAsmParser &parser, ArrayAttr &members) {
  SmallVector<Attribute> attrs;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        MemberAttr member;
        if (parser.parseCustomAttributeWithFallback(member))
          return failure();
        attrs.push_back(member);
        return success();
      }))
    return failure();
  members = parser.getBuilder().getArrayAttr(attrs);
  return success();
}

static void printMembers(OpAsmPrinter &printer, Operation *,
                         ArrayAttr members) {
  printer << '[';
  printer.increaseIndent();
  llvm::interleave(
      members.getAsRange<MemberAttr>(),
      [&](MemberAttr member) {
        printer.printNewline();
        printer.printStrippedAttrOrType(member);
      },
      [&] { printer << ','; });
  printer.decreaseIndent();
  printer.printNewline();
  printer << ']';
}

/// %gw at 0, %gb at 1024
static ParseResult
parsePackParts(OpAsmParser &parser,
               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &parts,
               DenseI64ArrayAttr &offsets) {
  SmallVector<int64_t> values;
  do {
    if (parser.parseOperand(parts.emplace_back()) ||
        parser.parseKeyword("at") || parser.parseInteger(values.emplace_back()))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  offsets = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}

static void printPackParts(OpAsmPrinter &printer, Operation *,
                           OperandRange parts, DenseI64ArrayAttr offsets) {
  llvm::interleaveComma(
      llvm::zip(parts, offsets.asArrayRef()), printer, [&](auto pair) {
        printer << std::get<0>(pair) << " at " << std::get<1>(pair);
      });
}

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPOps.cpp.inc"

//===----------------------------------------------------------------------===//
// FSDPDialect
//===----------------------------------------------------------------------===//

void FSDPDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/Dialect/FSDP/IR/FSDPAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fsdp/Dialect/FSDP/IR/FSDPTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/Dialect/FSDP/IR/FSDPOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Attributes on ops of other dialects
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kKnownAttributes[] = {
#define FSDP_ATTRIBUTE(constant, name) names::constant,
#include "fsdp/Dialect/FSDP/IR/AttributeNames.def"
};

/// A name that nothing reads says nothing, but its writer does not know that.
static LogicalResult verifyName(Operation *op, StringAttr name,
                                const Twine &place) {
  // discardable_c1
  if (llvm::is_contained(kKnownAttributes, name.getValue()))
    return success();
  auto distance = [&](StringRef known) {
    return known.edit_distance(name.getValue());
  };
  StringRef nearest =
      *llvm::min_element(kKnownAttributes, [&](StringRef a, StringRef b) {
        return distance(a) < distance(b);
      });
  InFlightDiagnostic diag =
      op->emitError("expected an attribute of the fsdp dialect")
      << place << ", got '" << name.getValue() << "'";
  // Of a short name two letters are too much.
  size_t typed = name.size() - FSDPDialect::getDialectNamespace().size() - 1;
  if (distance(nearest) <= std::max<size_t>(1, typed / 3))
    diag << "; did you mean '" << nearest << "'?";
  return diag;
}

LogicalResult FSDPDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  return verifyName(op, attr.getName(), "");
}

LogicalResult FSDPDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned arg,
                                                    NamedAttribute attr) {
  return verifyName(op, attr.getName(), " on argument " + Twine(arg));
}

LogicalResult FSDPDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned result,
                                                       NamedAttribute attr) {
  return verifyName(op, attr.getName(), " on result " + Twine(result));
}
