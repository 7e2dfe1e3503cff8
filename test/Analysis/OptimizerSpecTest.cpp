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

TEST(OptimizerSpec, HasTorchDefaults) {
  for (llvm::StringRef text : {"adamw", "adamw:"}) {
    OptimizerSpec spec = makeSpec(text);
    EXPECT_EQ(spec.getKind(), OptimizerKind::AdamW);
    EXPECT_EQ(spec.get("lr"), 1e-3);
    EXPECT_EQ(spec.printConstants(),
              "adamw:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0.01");
  }
  EXPECT_EQ(OptimizerSpec().getKind(), OptimizerKind::AdamW);
  auto expectConstants = [](llvm::StringRef name, double rate,
                            llvm::StringRef constants) {
    OptimizerSpec spec = makeSpec(name);
    EXPECT_EQ(spec.get("lr"), rate);
    EXPECT_EQ(spec.printConstants(), (name + ":" + constants).str());
  };
  expectConstants("adam", 1e-3,
                  "beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0");
  expectConstants("sgd", 1e-3, "momentum=0,weight_decay=0");
  expectConstants(
      "adagrad", 1e-2,
      "lr_decay=0,weight_decay=0,initial_accumulator_value=0,eps=1e-10");
  expectConstants("adadelta", 1, "rho=0.9,eps=1e-06,weight_decay=0");
  expectConstants("rmsprop", 1e-2,
                  "alpha=0.99,eps=1e-08,weight_decay=0,momentum=0");
  expectConstants(
      "nadam", 2e-3,
      "beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0,momentum_decay=0.004");
  expectConstants("radam", 1e-3,
                  "beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0");
  expectConstants("adamax", 2e-3,
                  "beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0");
  expectConstants("lion", 1e-4, "beta1=0.9,beta2=0.99,weight_decay=0");
}

TEST(OptimizerSpec, ReadsWhatItPrints) {
  for (llvm::StringRef text :
       {"adamw:beta1=0,beta2=0.95,eps=1e-06,weight_decay=0.1,amsgrad=true",
        "adam:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0,"
        "decoupled_weight_decay=true",
        "sgd:momentum=1.5,weight_decay=5e-04,dampening=0.5,maximize=true",
        "sgd:momentum=0.9,weight_decay=0,nesterov=true",
        "rmsprop:alpha=0.5,eps=0,weight_decay=0,momentum=0.5,centered=true"})
    EXPECT_EQ(makeSpec(text).printConstants(), text.str());
  OptimizerSpec spec = makeSpec("sgd:nesterov=false,momentum=0.5,lr=3");
  EXPECT_EQ(spec.get("lr"), 3);
  EXPECT_FALSE(spec.isSet("nesterov"));
  // A flag that others have.
  EXPECT_FALSE(spec.isSet("amsgrad"));
  EXPECT_TRUE(makeSpec("adamw:amsgrad=true").isSet("amsgrad"));
}

TEST(OptimizerSpec, RefusesOtherOptimizers) {
  auto expectReason = [](llvm::StringRef name, llvm::StringRef reason) {
    EXPECT_EQ(getError(OptimizerSpec::parse(name)),
              ("expected adamw, adam, sgd, adagrad, adadelta, rmsprop, nadam, "
               "radam, adamax or lion as optimizer, got '" +
               name + "': " + reason)
                  .str());
  };
  llvm::StringRef others = "--optimizer-file takes others as functions in MLIR";
  for (llvm::StringRef name : {"", "AdamW", "sgd ", "adamw2"})
    expectReason(name, others);
  expectReason("rprop", "--optimizer-file takes it as a function in MLIR");
  expectReason("adafactor",
               "its state is of whole matrices, of which a rank has pieces");
  expectReason(
      "muon", "it makes whole matrices orthogonal, of which a rank has pieces");
  expectReason("lbfgs", "it evaluates the loss several times in a step");
  expectReason("sparse_adam",
               "it is for sparse gradients, and there are none here");
}

TEST(OptimizerSpec, RefusesFieldsOfAnotherOptimizer) {
  EXPECT_EQ(getError(OptimizerSpec::parse("adamw:momentum=0.9")),
            "expected one of lr, beta1, beta2, eps, weight_decay, amsgrad, "
            "maximize for adamw, got 'momentum=0.9'");
  EXPECT_EQ(getError(OptimizerSpec::parse("sgd:lr=1,weightdecay=0.9")),
            "expected one of lr, momentum, weight_decay, dampening, nesterov, "
            "maximize for sgd, got 'weightdecay=0.9'; did you mean "
            "'weight_decay'?");
  EXPECT_EQ(getError(OptimizerSpec::parse("lion:lr=1,")),
            "expected one of lr, beta1, beta2, weight_decay for lion, got ''");
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
  expectRange("rmsprop:alpha=1", "expected alpha in [0, 1), got '1'");
  expectRange("adamw:amsgrad=1",
              "expected amsgrad=true or amsgrad=false, got '1'");
  expectRange("sgd:nesterov=true",
              "expected momentum above 0 and dampening of 0 beside nesterov, "
              "got momentum=0,dampening=0");
  expectRange("sgd:nesterov=true,momentum=0.9,dampening=0.5",
              "expected momentum above 0 and dampening of 0 beside nesterov, "
              "got momentum=0.9,dampening=0.5");
}

TEST(OptimizerSpec, NamesNumbersThatAreGivenAtRunTime) {
  OptimizerSpec spec = makeSpec("adagrad:eps=0.5");
  auto names =
      llvm::cantFail(spec.parseRunTimeScalars({"weight_decay,lr", "lr_decay"}));
  EXPECT_EQ(names, (llvm::SmallVector<llvm::StringRef>{"weight_decay", "lr",
                                                       "lr_decay"}));
  // The others are what a checkpoint has to have in common with a run.
  EXPECT_EQ(spec.printConstants(names),
            "adagrad:initial_accumulator_value=0,eps=0.5");
  EXPECT_EQ(getError(spec.parseRunTimeScalars({"eps", "weight_decay,eps"})),
            "expected eps once, got it twice");
  // Neither what a state begins with, nor a flag.
  for (llvm::StringRef name : {"initial_accumulator_value", "maximize", ""})
    EXPECT_EQ(getError(spec.parseRunTimeScalars({name.str()})),
              ("expected one of lr, lr_decay, weight_decay, eps for adagrad, "
               "got '" +
               name + "'")
                  .str());
  EXPECT_EQ(getError(spec.parseRunTimeScalars({"epsilon,lr_decy"})),
            "expected one of lr, lr_decay, weight_decay, eps for adagrad, got "
            "'epsilon'");
}

} // namespace
