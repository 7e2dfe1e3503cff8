//===- ModuleTest.h - Tests on modules given as text ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_ANALYSIS_MODULETEST_H
#define FSDP_TEST_ANALYSIS_MODULETEST_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

namespace mlir::fsdp {

/// A context in which tests write modules as text. Ops of unknown dialects are
/// allowed: "test.op"() computes nothing in particular.
class ModuleTest : public ::testing::Test {
protected:
  ModuleTest() {
    context.allowUnregisteredDialects();
    context.loadDialect<FSDPDialect, arith::ArithDialect, func::FuncDialect,
                        linalg::LinalgDialect, math::MathDialect,
                        scf::SCFDialect, tensor::TensorDialect>();
  }

  ModuleOp parse(llvm::StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
    return *module;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace mlir::fsdp

#endif // FSDP_TEST_ANALYSIS_MODULETEST_H
