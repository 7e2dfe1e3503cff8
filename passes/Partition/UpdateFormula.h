//===- UpdateFormula.h - An optimizer, written as formulas ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A formula mixes numbers of three kinds: constants, numbers that a step has
// once (its rate, a bias correction), and numbers that each element of a
// parameter has. An operation's result is of the later kind of its operands'.
// Constants and numbers of the step are f64, as Python's are, and are rounded
// to f32 once, where a number of an element, f32, is computed from them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_UPDATEFORMULA_H
#define FSDP_PASSES_PARTITION_UPDATEFORMULA_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fsdp {

class UpdateFormula;

/// A number of a formula, or a truth that a comparison gave.
class Number {
public:
  Number(double constant) : constant(constant) {}

  friend Number operator-(Number a);
  friend Number operator+(Number a, Number b);
  friend Number operator-(Number a, Number b);
  friend Number operator*(Number a, Number b);
  friend Number operator/(Number a, Number b);
  friend Number sqrt(Number a);
  friend Number abs(Number a);
  friend Number pow(Number base, Number exponent);
  /// NaN where either is.
  friend Number max(Number a, Number b);
  friend Number isGreater(Number a, Number b);
  friend Number select(Number condition, Number a, Number b);

private:
  friend class UpdateFormula;
  Number(UpdateFormula &formula, Value value)
      : formula(&formula), value(value) {}

  /// An operation on numbers, one of which at least is no constant.
  using Create = llvm::function_ref<Value(OpBuilder &, Location, ValueRange)>;
  static Number apply(ArrayRef<Number> operands, Create create);

  UpdateFormula *formula = nullptr;
  /// Null for constants.
  Value value;
  double constant = 0;
};

/// Collects the formulas of one optimizer, and makes `@optimizer` of them: a
/// linalg.generic of rank 0 for the numbers of the step, and an elementwise one
/// that reads its results.
class UpdateFormula {
public:
  UpdateFormula(OpBuilder &builder, Location loc);

  Number getParam();
  Number getGrad();
  /// A state with an f32 for each element, or with one for all of them, which
  /// begins as @init.
  Number addState(StringRef name, double init = 0);
  Number addStepState(StringRef name, double init = 0);
  /// An argument of f32 or f64 that is given for each run.
  Number addScalar(StringRef name, FloatType type, double initial);

  /// The new value of a state: the number as it is stored.
  Number setState(StringRef name, Number value);
  void setParam(Number value);

  /// Where all states and the parameter have their new values; once.
  func::FuncOp create();

private:
  friend class Number;

  /// An argument of the function.
  struct Argument {
    OptimizerRole role;
    double init;
    /// Flat for numbers of elements, else of rank 0.
    RankedTensorType type;
    /// What stands for it in the body that reads it.
    BlockArgument read;
    /// What it becomes, in that body: of `param` and states.
    Value written = {};

    bool isWritten() const {
      return role == OptimizerRole::Param || role == OptimizerRole::State;
    }
  };

  Number add(StringRef name, OptimizerRole role, double init,
             RankedTensorType type);
  bool isOfElement(const Number &number) const;
  /// The operand of an operation on numbers of elements, or of the step.
  Value read(const Number &number, bool inElement);
  Value getConstant(double value, FloatType type);
  Value convert(Value ofStep, FloatType type);
  /// What each element reads of a number of the step, which is rounded first.
  Value import(Value ofStep);
  /// The attributes of an argument, or of the result that is its new value.
  DictionaryAttr getRole(StringRef name, const Argument &argument, bool isRead);
  /// Drops what nothing reads in a body with the results @written.
  SmallVector<BlockArgument> finish(Block &body, ValueRange written);

  /// `@optimizer`, with constants alone in its body.
  func::FuncOp createFunction();

  OpBuilder builder;
  Location loc;
  FloatType f32, f64;
  RankedTensorType flat, scalar;
  std::unique_ptr<Block> constants, step, element;
  llvm::MapVector<StringRef, Argument> arguments;
  llvm::DenseMap<Attribute, Value> known;
  llvm::DenseMap<std::pair<Value, Type>, Value> casts;
  /// From a number of the step to what elements read.
  llvm::MapVector<Value, BlockArgument> imports;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_UPDATEFORMULA_H
