//===- SymbolsTest.cpp - Meshes, flat parameters, their users -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DialectTest.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {

using SymbolsTest = DialectTest;

constexpr StringLiteral kFlatParam = R"mlir(
fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate ["replicate"]
    state f32 gather bf16 reduce f32 numel 1152 [
      <"weight", tensor<32x32xf32> at 0 tied ["head"]>,
      <"bias", tensor<32xf32> at 1024>
    ] {trainable, unit = "h.0"}
fsdp.program @step(%shard: !fsdp.sharded<@h0, f32>, %a: tensor<4xf32>) {
  %w = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, bf16>
  %b = fsdp.member %w["bias"] : <@h0, bf16> -> tensor<32xf32>
  fsdp.reshard %w : <@h0, bf16>
  %s = fsdp.all_reduce %a on @mesh["shard"] : tensor<4xf32>
  fsdp.return
}
)mlir";

TEST_F(SymbolsTest, MeshCountsRanks) {
  parse(kFlatParam);
  auto mesh = get<MeshOp>();
  Builder builder(&context);
  EXPECT_EQ(mesh.getWorldSize(), 8);
  EXPECT_EQ(mesh.getAxisSize("shard"), 4);
  EXPECT_EQ(mesh.getAxisSize("tensor"), std::nullopt);
  EXPECT_EQ(mesh.getGroupSize(builder.getStrArrayAttr({"replicate"})), 2);
  EXPECT_EQ(mesh.getGroupSize(builder.getStrArrayAttr({"replicate", "shard"})),
            8);
  EXPECT_EQ(mesh.getGroupSize(builder.getArrayAttr({})), 1);
}

TEST_F(SymbolsTest, MeshWithoutAxesIsOneRank) {
  parse("fsdp.mesh @mesh []");
  EXPECT_EQ(get<MeshOp>().getWorldSize(), 1);
}

TEST_F(SymbolsTest, FlatParamKnowsItsMembersAndTypes) {
  parse(kFlatParam);
  auto flat = get<FlatParamOp>();
  MemberAttr bias = flat.lookupMember("bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias.getOffset(), 1024);
  EXPECT_EQ(bias.getNumElements(), 32);
  EXPECT_EQ(bias.getEnd(), 1056);
  // A tied name is another name of a member, not a member.
  EXPECT_FALSE(flat.lookupMember("head"));
  EXPECT_EQ(flat.getShardNumel(get<MeshOp>()), 288);
  auto name = FlatSymbolRefAttr::get(&context, "h0");
  EXPECT_EQ(flat.getShardedType(Float64Type::get(&context)),
            ShardedType::get(&context, name, Float64Type::get(&context)));
  EXPECT_EQ(flat.getUnshardedType(flat.getParamType()),
            UnshardedType::get(&context, name, BFloat16Type::get(&context)));
}

TEST_F(SymbolsTest, RenamingAMeshReachesItsUsers) {
  ModuleOp top = parse(kFlatParam);
  auto mesh = get<MeshOp>();
  EXPECT_FALSE(SymbolTable::symbolKnownUseEmpty(mesh, top));
  ASSERT_TRUE(succeeded(SymbolTable::replaceAllSymbolUses(
      mesh, StringAttr::get(&context, "grid"), top)));
  SymbolTable::setSymbolName(mesh, "grid");
  EXPECT_EQ(get<FlatParamOp>().getMesh(), "grid");
  EXPECT_EQ(get<AllReduceOp>().getMesh(), "grid");
  EXPECT_TRUE(succeeded(verify(top)));
}

TEST_F(SymbolsTest, UsersOfAMissingSymbolAreRefused) {
  ModuleOp top = parse(kFlatParam);
  SmallVector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors.push_back(diagnostic.str());
    return success();
  });
  get<FlatParamOp>().erase();
  EXPECT_TRUE(failed(verify(top)));
  ASSERT_FALSE(errors.empty());
  EXPECT_NE(errors[0].find("expected a flat parameter named @h0 in the module, "
                           "got none"),
            std::string::npos)
      << errors[0];
}

TEST_F(SymbolsTest, AttributesAndTypesCheckThemselves) {
  ScopedDiagnosticHandler handler(&context,
                                  [](Diagnostic &) { return success(); });
  auto emitError = [&] { return mlir::emitError(UnknownLoc::get(&context)); };
  auto name = FlatSymbolRefAttr::get(&context, "h0");
  Type i32 = IntegerType::get(&context, 32);
  Type f32 = Float32Type::get(&context);
  EXPECT_FALSE(ShardedType::getChecked(emitError, &context, name, i32));
  EXPECT_TRUE(ShardedType::getChecked(emitError, &context, name, f32));
  auto fqn = StringAttr::get(&context, "w");
  auto matrix = RankedTensorType::get({2, 3}, f32);
  EXPECT_FALSE(MemberAttr::getChecked(emitError, &context, fqn, matrix,
                                      int64_t(-1), ArrayAttr(), Attribute(),
                                      StringAttr()));
  EXPECT_TRUE(MemberAttr::getChecked(emitError, &context, fqn, matrix,
                                     int64_t(0), ArrayAttr(), Attribute(),
                                     StringAttr()));
}

} // namespace
