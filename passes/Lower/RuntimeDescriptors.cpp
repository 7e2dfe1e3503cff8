//===- RuntimeDescriptors.cpp - Constants that the runtime reads ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RuntimeDescriptors.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::fsdp;

std::string DescriptorBuilder::getFreshName(StringRef stem) {
  return ("fsdp_" + stem + "_" + Twine(count++)).str();
}

Type DescriptorBuilder::getType(FieldKind kind) {
  switch (kind) {
  case FieldKind::PTR:
  case FieldKind::STR:
    return LLVM::LLVMPointerType::get(builder.getContext());
  case FieldKind::I32:
    return builder.getI32Type();
  case FieldKind::I64:
    return builder.getI64Type();
  case FieldKind::F64:
    return builder.getF64Type();
  case FieldKind::I64x4:
    return LLVM::LLVMArrayType::get(builder.getI64Type(), 4);
  }
  llvm_unreachable("every kind has a type");
}

FlatSymbolRefAttr DescriptorBuilder::createString(StringRef text) {
  FlatSymbolRefAttr &symbol = strings[text];
  if (symbol)
    return symbol;
  std::string bytes = text.str();
  bytes.push_back('\0');
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
  std::string name = getFreshName("text");
  LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::Internal, name,
                         builder.getStringAttr(bytes));
  return symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
}

FlatSymbolRefAttr DescriptorBuilder::createArray(ArrayRef<int64_t> values) {
  auto type = LLVM::LLVMArrayType::get(builder.getI64Type(), values.size());
  std::string name = getFreshName("array");
  LLVM::GlobalOp::create(
      builder, module.getLoc(), type, /*isConstant=*/true,
      LLVM::Linkage::Internal, name,
      DenseElementsAttr::get(
          RankedTensorType::get(int64_t(values.size()), builder.getI64Type()),
          values));
  return FlatSymbolRefAttr::get(builder.getContext(), name);
}

FlatSymbolRefAttr DescriptorBuilder::createAggregate(
    StringRef stem, Type type, int64_t count,
    llvm::function_ref<Value(int64_t, OpBuilder &, Location)> create) {
  Location loc = module.getLoc();
  std::string name = getFreshName(stem);
  auto global =
      LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                             LLVM::Linkage::Internal, name, Attribute());
  OpBuilder body(builder.getContext());
  body.createBlock(&global.getInitializerRegion());
  Value value = LLVM::UndefOp::create(body, loc, type);
  for (int64_t i = 0; i != count; ++i)
    value =
        LLVM::InsertValueOp::create(body, loc, value, create(i, body, loc), i);
  LLVM::ReturnOp::create(body, loc, value);
  return FlatSymbolRefAttr::get(builder.getContext(), name);
}

FlatSymbolRefAttr
DescriptorBuilder::createPointerArray(ArrayRef<FlatSymbolRefAttr> symbols) {
  Type pointer = getType(FieldKind::PTR);
  return createAggregate(
      "pointers", LLVM::LLVMArrayType::get(pointer, symbols.size()),
      symbols.size(), [&](int64_t i, OpBuilder &body, Location loc) -> Value {
        return LLVM::AddressOfOp::create(body, loc, pointer, symbols[i]);
      });
}

Value DescriptorBuilder::createField(const FieldInfo &info,
                                     const Descriptor::Field *field,
                                     OpBuilder &body, Location loc) {
  Type type = getType(info.kind);
  auto getInteger = [&] { return field ? std::get<int64_t>(*field) : 0; };
  auto constant = [&](Attribute attr) -> Value {
    return LLVM::ConstantOp::create(body, loc, type, attr);
  };
  switch (info.kind) {
  case FieldKind::PTR:
  case FieldKind::STR: {
    if (!field)
      return LLVM::ZeroOp::create(body, loc, type);
    auto *text = std::get_if<std::string>(field);
    return LLVM::AddressOfOp::create(
        body, loc, type,
        text ? createString(*text) : std::get<FlatSymbolRefAttr>(*field));
  }
  case FieldKind::I32:
    return constant(body.getI32IntegerAttr(getInteger()));
  case FieldKind::I64:
    return constant(body.getI64IntegerAttr(getInteger()));
  case FieldKind::F64:
    return constant(
        body.getF64FloatAttr(field ? std::get<double>(*field) : 0.0));
  case FieldKind::I64x4: {
    std::array<int64_t, 4> values{};
    if (field)
      values = std::get<std::array<int64_t, 4>>(*field);
    return constant(body.getI64TensorAttr(values));
  }
  }
  llvm_unreachable("every kind has a value");
}

FlatSymbolRefAttr
DescriptorBuilder::createDescriptor(const Descriptor &descriptor) {
  ArrayRef<FieldInfo> fields = getDescriptorFields(descriptor.getName());
  SmallVector<Type> types;
  for (const FieldInfo &info : fields)
    types.push_back(getType(info.kind));
  // Texts come first, so that the global's initializer finds them.
  for (const FieldInfo &info : fields)
    if (auto *field = descriptor.lookup(info.name))
      if (auto *text = std::get_if<std::string>(field))
        (void)createString(*text);
  return createAggregate(
      descriptor.getName(),
      LLVM::LLVMStructType::getLiteral(builder.getContext(), types),
      fields.size(), [&](int64_t i, OpBuilder &body, Location loc) {
        return createField(fields[i], descriptor.lookup(fields[i].name), body,
                           loc);
      });
}
