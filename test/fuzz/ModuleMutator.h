//===- ModuleMutator.h - Random changes of IR -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes a module as structure, not as text: what comes out can always be
// printed in the generic form and parsed, and often verifies.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_FUZZ_MODULEMUTATOR_H
#define FSDP_TEST_FUZZ_MODULEMUTATOR_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dominance.h"

#include <random>
#include <string>

namespace mlir::fsdp::test {

/// What changes may do.
enum class Changes {
  /// Anything: operands, ops, attributes and types.
  Any,
  /// Nothing to what is computed, bit by bit: pure ops are repeated and moved,
  /// operands of commutative ops swapped, values reshaped and back.
  Equal,
  /// Of a placed step: order, places, events and queues. What a verifier
  /// accepts of these computes the same bits.
  Schedule,
};

class ModuleMutator {
public:
  /// The same seed makes the same changes.
  ModuleMutator(ModuleOp module, uint64_t seed)
      : module(module), builder(module.getContext()), random(seed) {}

  /// One change; says which, or "" where the dice met nothing to change.
  std::string change(Changes kind);

private:
  using Change = std::string (ModuleMutator::*)();

  std::string replaceOperand();
  std::string swapOperands();
  std::string eraseAny();
  std::string repeatAny();
  std::string moveAny();
  std::string changeAttribute();
  std::string dropAttribute();
  std::string takeAttribute();
  std::string changeType();
  std::string changeTypeEverywhere();

  std::string repeatPure();
  std::string movePure();
  std::string commute();
  std::string reshape();

  std::string moveStep();
  std::string changePlace();

  uint64_t pick(uint64_t count) { return random() % count; }
  /// An op below the module that @isWanted; null if none is.
  Operation *pickOp(function_ref<bool(Operation *)> isWanted);
  /// A value that is there before @op and that @isWanted; null if none is.
  Value pickValueBefore(Operation *op, function_ref<bool(Value)> isWanted);
  /// A place in the block of @op where its operands are there and its results
  /// are not yet read: before the op that is returned; null if there is none.
  Operation *pickPlace(Operation *op);
  std::string repeat(Operation *op);
  std::string move(Operation *op);
  Attribute vary(Attribute attribute);
  Type vary(Type type);
  /// Sets what is kept in properties, too; fails where these cannot hold it.
  LogicalResult setAttribute(Operation *op, StringRef name, Attribute value);

  ModuleOp module;
  OpBuilder builder;
  std::mt19937_64 random;
};

/// Erases @op; its readers get values of their own.
void eraseAndReplace(Operation *op);

} // namespace mlir::fsdp::test

#endif // FSDP_TEST_FUZZ_MODULEMUTATOR_H
