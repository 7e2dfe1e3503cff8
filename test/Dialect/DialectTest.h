//===- DialectTest.h - A context and a module to look at --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DIALECT_DIALECTTEST_H
#define FSDP_TEST_DIALECT_DIALECTTEST_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace mlir::fsdp {

class DialectTest : public ::testing::Test {
protected:
  DialectTest() { context.loadDialect<FSDPDialect, func::FuncDialect>(); }

  /// The module, verified; the test fails where it does not parse.
  ModuleOp parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
    return *module;
  }

  /// The only op of that class.
  template <typename Op>
  Op get() {
    Op found;
    module->walk([&](Op op) {
      EXPECT_FALSE(found) << "more than one";
      found = op;
    });
    EXPECT_TRUE(found) << "none";
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace mlir::fsdp

#endif // FSDP_TEST_DIALECT_DIALECTTEST_H
