//===- CustomAssembly.h - Types and members, as text ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DIALECT_FSDP_IR_CUSTOMASSEMBLY_H
#define FSDP_LIB_DIALECT_FSDP_IR_CUSTOMASSEMBLY_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// What fsdp.unshard gathers: `<@h0, f32>` for a shard, other types whole.
inline ParseResult parsePieceType(OpAsmParser &parser, Type &type) {
  OptionalParseResult whole = parser.parseOptionalType(type);
  if (whole.has_value())
    return *whole;
  ShardedType shard;
  if (parser.parseCustomTypeWithFallback(shard))
    return failure();
  type = shard;
  return success();
}

inline void printPieceType(OpAsmPrinter &printer, Operation *, Type type) {
  if (auto shard = dyn_cast<ShardedType>(type))
    printer.printStrippedAttrOrType(shard);
  else
    printer << type;
}

/// One member per line:  <"h.0.weight", tensor<4xf32> at 0>,
inline ParseResult parseMembers(OpAsmParser &parser, ArrayAttr &members) {
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

inline void printMembers(OpAsmPrinter &printer, Operation *,
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

} // namespace mlir::fsdp

#endif // FSDP_LIB_DIALECT_FSDP_IR_CUSTOMASSEMBLY_H
