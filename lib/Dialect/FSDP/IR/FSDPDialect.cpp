//===- FSDPDialect.cpp - Registration, attributes, types ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

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
