//===- PartitionUtils.cpp - Arguments and results of programs -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

Value fsdp::createScalar(OpBuilder &builder, Location loc, Type type,
                         double value) {
  auto tensor = RankedTensorType::get({}, type);
  return arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(tensor, builder.getFloatAttr(type, value)));
}

Value fsdp::createIsFinite(OpBuilder &builder, Location loc, Value number) {
  auto type = cast<FloatType>(number.getType());
  Value limit = arith::ConstantOp::create(
      builder, loc,
      builder.getFloatAttr(type, APFloat::getInf(type.getFloatSemantics())));
  Value size = math::AbsFOp::create(builder, loc, number);
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, size,
                               limit);
}

Value fsdp::selectIfFinite(OpBuilder &builder, Location loc, Value norm,
                           Value updated, Value old) {
  return createElementwise(builder, loc,
                           cast<RankedTensorType>(updated.getType()),
                           {updated, old, norm},
                           [](OpBuilder &b, Location l, ValueRange v) -> Value {
                             return arith::SelectOp::create(
                                 b, l, createIsFinite(b, l, v[2]), v[0], v[1]);
                           });
}

SmallVector<unsigned> fsdp::getResultsWith(ProgramOp program, StringRef name) {
  SmallVector<unsigned> results;
  for (unsigned i = 0, e = program.getNumResults(); i != e; ++i)
    if (program.getResultAttr(i, name))
      results.push_back(i);
  return results;
}

void fsdp::eraseResults(ProgramOp program, ArrayRef<unsigned> results) {
  llvm::BitVector erased(program.getNumResults());
  for (unsigned i : results)
    erased.set(i);
  Operation *ret = program.getBody().front().getTerminator();
  (void)program.eraseResults(erased);
  ret->eraseOperands(erased);
}

void fsdp::replaceResult(ProgramOp program, unsigned index, Value value) {
  program.getReturn()->setOperand(index, value);
  SmallVector<Type> types(program.getResultTypes());
  types[index] = value.getType();
  program.setFunctionType(FunctionType::get(program.getContext(),
                                            program.getArgumentTypes(), types));
}

void fsdp::appendResult(ProgramOp program, Value value, StringRef attrName,
                        Attribute attr) {
  Builder builder(program.getContext());
  auto attrs = builder.getDictionaryAttr(builder.getNamedAttr(attrName, attr));
  unsigned index = program.getNumResults();
  (void)program.insertResult(index, value.getType(), attrs);
  program.getBody().front().getTerminator()->insertOperands(index, value);
}

BlockArgument fsdp::addStateArgument(ProgramOp program, StateOp state) {
  Builder builder(program.getContext());
  auto attrs = builder.getDictionaryAttr(
      builder.getNamedAttr(names::kState, FlatSymbolRefAttr::get(state)));
  unsigned index = program.getNumArguments();
  (void)program.insertArgument(index, state.getType(), attrs, program.getLoc());
  return program.getArgument(index);
}

BlockArgument fsdp::addScalarArgument(ProgramOp program, StringAttr name,
                                      Type type, Attribute init) {
  Builder builder(program.getContext());
  NamedAttrList entry;
  entry.set("name", name);
  if (init)
    entry.set("default", init);
  auto attrs = builder.getDictionaryAttr(builder.getNamedAttr(
      names::kScalar, entry.getDictionary(program.getContext())));
  unsigned index = program.getNumArguments();
  (void)program.insertArgument(index, type, attrs, program.getLoc());
  return program.getArgument(index);
}

BlockArgument fsdp::addScalarArgument(ProgramOp program,
                                      const scalars::Traits &scalar,
                                      Type type) {
  Builder builder(program.getContext());
  return addScalarArgument(program, builder.getStringAttr(scalar.name), type,
                           scalar.omitted == scalars::infinity
                               ? Attribute()
                               : builder.getF64FloatAttr(scalar.omitted));
}
