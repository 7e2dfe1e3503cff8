//===- OptimizerSpecTest.cpp - Built-in optimizers as users write them ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/OptimizerSpec.h"

#include "TestSupport.h"

using namespace mlir::fsdp;

namespace {

OptimizerSpec makeSpec(llvm::StringRef text) {
  return llvm::cantFail(OptimizerSpec::parse(text));
}

TEST(OptimizerSpec, AdamWHasTorchDefaults) {
  for (llvm::StringRef text : {"adamw", "adamw:"}) {
    OptimizerSpec spec = makeSpec(text);
    EXPECT_EQ(spec.kind, OptimizerSpec::Kind::AdamW);
    EXPECT_EQ(spec.lr, 1e-3);
    EXPECT_EQ(spec.beta1, 0.9);
    EXPECT_EQ(spec.beta2, 0.999);
    EXPECT_EQ(spec.eps, 1e-8);
    EXPECT_EQ(spec.weightDecay, 1e-2);
  }
}

TEST(OptimizerSpec, SGDHasTorchDefaults) {
  OptimizerSpec spec = makeSpec("sgd");
  EXPECT_EQ(spec.kind, OptimizerSpec::Kind::SGD);
  EXPECT_EQ(spec.lr, 1e-3);
  EXPECT_EQ(spec.momentum, 0);
  EXPECT_EQ(spec.weightDecay, 0);
}

TEST(OptimizerSpec, ReadsEveryField) {
  OptimizerSpec adamw =
      makeSpec("adamw:weight_decay=0.1,eps=1e-6,beta2=0.95,beta1=0,lr=3e-4");
  EXPECT_EQ(adamw.lr, 3e-4);
  EXPECT_EQ(adamw.beta1, 0);
  EXPECT_EQ(adamw.beta2, 0.95);
  EXPECT_EQ(adamw.eps, 1e-6);
  EXPECT_EQ(adamw.weightDecay, 0.1);
  OptimizerSpec sgd = makeSpec("sgd:lr=1,momentum=1.5,weight_decay=5e-4");
  EXPECT_EQ(sgd.lr, 1);
  EXPECT_EQ(sgd.momentum, 1.5);
  EXPECT_EQ(sgd.weightDecay, 5e-4);
}

TEST(OptimizerSpec, RefusesOtherKinds) {
  for (llvm::StringRef kind : {"", "adam", "AdamW", "sgd ", "lion"})
    EXPECT_EQ(getError(OptimizerSpec::parse(kind)),
              "expected adamw or sgd as optimizer, got '" + kind.str() + "'");
}

TEST(OptimizerSpec, RefusesFieldsOfAnotherKind) {
  EXPECT_EQ(getError(OptimizerSpec::parse("adamw:momentum=0.9")),
            "expected one of lr, beta1, beta2, eps, weight_decay for adamw, "
            "got 'momentum=0.9'");
  EXPECT_EQ(getError(OptimizerSpec::parse("sgd:lr=1,beta1=0.9")),
            "expected one of lr, momentum, weight_decay for sgd, got "
            "'beta1=0.9'");
  EXPECT_EQ(getError(OptimizerSpec::parse("sgd:lr=1,")),
            "expected one of lr, momentum, weight_decay for sgd, got ''");
}

TEST(OptimizerSpec, RefusesAFieldGivenTwice) {
  EXPECT_EQ(getError(OptimizerSpec::parse("sgd:lr=1,momentum=0,lr=1")),
            "expected lr once, got 'lr=1,momentum=0,lr=1'");
}

TEST(OptimizerSpec, RefusesValuesOutOfRange) {
  auto expectRange = [](llvm::StringRef text, llvm::StringRef message) {
    EXPECT_EQ(getError(OptimizerSpec::parse(text)), message.str());
  };
  expectRange("adamw:beta1=1", "expected beta1 in [0, 1), got '1'");
  expectRange("adamw:beta2=-0.1", "expected beta2 in [0, 1), got '-0.1'");
  expectRange("adamw:lr=-1", "expected lr in [0, inf), got '-1'");
  expectRange("sgd:lr=inf", "expected lr in [0, inf), got 'inf'");
  expectRange("sgd:lr=nan", "expected lr in [0, inf), got 'nan'");
  expectRange("sgd:lr=1e400", "expected lr in [0, inf), got '1e400'");
  expectRange("sgd:lr", "expected lr in [0, inf), got ''");
  expectRange("sgd:lr=", "expected lr in [0, inf), got ''");
  expectRange("sgd:momentum=fast", "expected momentum in [0, inf), got 'fast'");
}

} // namespace
