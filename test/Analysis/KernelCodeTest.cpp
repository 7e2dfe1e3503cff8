//===- KernelCodeTest.cpp - Digests of kernels ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/KernelCode.h"
#include "ModuleTest.h"
#include "fsdp/Analysis/Step/StepExtraction.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class KernelCode : public ModuleTest {
protected:
  std::string get(llvm::StringRef text) { return getKernelCode(parse(text)); }
};

/// A kernel that multiplies by @factor, with @attributes.
std::string makeKernel(llvm::StringRef factor,
                       llvm::StringRef attributes = "") {
  return ("func.func private @k(%x: tensor<2xf32>, %o: tensor<2xf32>) -> "
          "tensor<2xf32> " +
          attributes +
          " {\n"
          "  %c = arith.constant " +
          factor +
          " : tensor<2xf32>\n"
          "  %y = arith.mulf %x, %c : tensor<2xf32>\n"
          "  return %y : tensor<2xf32>\n"
          "}\n")
      .str();
}
} // namespace

TEST_F(KernelCode, changesWithBodiesAndDescriptions) {
  std::string kernel = makeKernel("dense<2.0>");
  std::string code = get(kernel);
  EXPECT_EQ(code.size(), 64u);
  EXPECT_EQ(get(kernel), code);
  EXPECT_NE(get(makeKernel("dense<3.0>")), code);
  EXPECT_NE(
      get(makeKernel("dense<2.0>",
                     "attributes {fsdp.impl = {cpu = #fsdp.cpu_kernel<@k_cpu, "
                     "grid = 1, grain = 1, scratch = 0, traffic = 8>}}")),
      code);
  // What it calls.
  EXPECT_NE(get(kernel + "func.func private @k_cpu()"), code);
}

TEST_F(KernelCode, isOfKernelsAlone) {
  std::string kernel = makeKernel("dense<2.0>");
  std::string code = get(kernel);
  // Another step, and other names of values.
  EXPECT_EQ(
      get("fsdp.program @step(%x: tensor<2xf32>) { fsdp.return }\n" + kernel),
      code);
  std::string renamed = kernel;
  for (size_t at; (at = renamed.find("%y")) != std::string::npos;)
    renamed.replace(at, 2, "%z");
  EXPECT_EQ(get(renamed), code);
}

TEST_F(KernelCode, isOfTheBytesOfResources) {
  std::string kernel = makeKernel("dense_resource<table>");
  auto with = [&](llvm::StringRef bytes) {
    // A context of its own: names of resources are made unique in one.
    MLIRContext other;
    other.loadDialect<arith::ArithDialect, func::FuncDialect>();
    OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(
        kernel + "{-#\n  dialect_resources: { builtin: { table: \"0x" +
            bytes.str() + "\" } }\n#-}\n",
        &other);
    EXPECT_TRUE(parsed);
    return parsed ? getKernelCode(*parsed) : "";
  };
  std::string code = with("040000000000803F0000803F");
  EXPECT_EQ(with("040000000000803F0000803F"), code);
  EXPECT_NE(with("040000000000803F00000040"), code);
}
