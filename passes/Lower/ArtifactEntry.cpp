//===- ArtifactEntry.cpp - The symbol that loaders look for ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the constants by which an executable or a loader finds the programs of
// the code, their certificates and the manifest.
//
//===----------------------------------------------------------------------===//

#include "ArtifactEntry.h"
#include "fsdp-rt/abi.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace mlir::fsdp;

/// SHA-256 in hexadecimal.
static std::string getDigest(StringRef text) {
  llvm::SHA256 hash;
  hash.update(text);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

void fsdp::createEntry(ModuleOp module, StringRef manifest,
                       ArrayRef<LoweredProgram> programs,
                       DescriptorBuilder &descriptors) {
  OpBuilder builder(module.getBodyRegion());
  builder.setInsertionPointToEnd(module.getBody());
  MLIRContext *context = module.getContext();
  Location loc = module.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i32 = builder.getI32Type();
  auto createGlobal = [&](StringRef name, LLVM::Linkage linkage, Type type,
                          auto fill) {
    auto global =
        LLVM::GlobalOp::create(builder, loc, type,
                               /*isConstant=*/true, linkage, name, Attribute());
    OpBuilder body(context);
    body.createBlock(&global.getInitializerRegion());
    Value value = LLVM::UndefOp::create(body, loc, type);
    auto insert = [&](Value field, ArrayRef<int64_t> at) {
      value = LLVM::InsertValueOp::create(body, loc, value, field, at);
    };
    auto getAddress = [&](FlatSymbolRefAttr symbol) -> Value {
      if (!symbol)
        return LLVM::ZeroOp::create(body, loc, pointer);
      return LLVM::AddressOfOp::create(body, loc, pointer, symbol);
    };
    fill(body, insert, getAddress);
    LLVM::ReturnOp::create(body, loc, value);
    return FlatSymbolRefAttr::get(global);
  };
  auto createText = [&](StringRef text) {
    return text.empty() ? FlatSymbolRefAttr() : descriptors.createString(text);
  };

  bool isCertified = llvm::any_of(programs, [](const LoweredProgram &program) {
    return !program.certificate.empty();
  });
  FlatSymbolRefAttr text = descriptors.createString(manifest);
  FlatSymbolRefAttr digest =
      createText(isCertified ? getDigest(manifest) : std::string());
  SmallVector<FlatSymbolRefAttr> names, certificates;
  for (const LoweredProgram &program : programs) {
    names.push_back(descriptors.createString(program.name));
    certificates.push_back(createText(program.certificate));
  }
  auto entry =
      LLVM::LLVMStructType::getLiteral(context, {pointer, pointer, pointer});
  FlatSymbolRefAttr list = createGlobal(
      "fsdp_rt_programs", LLVM::Linkage::Private,
      LLVM::LLVMArrayType::get(entry, programs.size()),
      [&](OpBuilder &, auto insert, auto getAddress) {
        for (auto [i, program] : llvm::enumerate(programs)) {
          int64_t at = i;
          insert(getAddress(names[i]), {at, 0});
          insert(getAddress(FlatSymbolRefAttr::get(context, program.function)),
                 {at, 1});
          insert(getAddress(certificates[i]), {at, 2});
        }
      });
  createGlobal("fsdp_rt_artifact_entry", LLVM::Linkage::External,
               LLVM::LLVMStructType::getLiteral(
                   context, {i32, i32, pointer, pointer, pointer}),
               [&](OpBuilder &body, auto insert, auto getAddress) {
                 auto createNumber = [&](int32_t number) -> Value {
                   return LLVM::ConstantOp::create(
                       body, loc, i32, body.getI32IntegerAttr(number));
                 };
                 insert(createNumber(FSDP_RT_ABI_VERSION), {0});
                 insert(createNumber(programs.size()), {1});
                 insert(getAddress(text), {2});
                 insert(getAddress(list), {3});
                 insert(getAddress(digest), {4});
               });
}
