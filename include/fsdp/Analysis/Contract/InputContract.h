//===- InputContract.h - What a traced step must look like ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the L0 attributes of docs/input-contract.md into plain structs, and
// reports every breach with the argument's name and the rule. The structs view
// the IR: they are valid until it changes. The rules, in short:
//
// - input_c1: @forward_backward is there and has a body of one block.
// - input_c2: each argument and result is exactly one of the known kinds.
// - input_c3: its entries are the known ones, each of the right kind.
// - input_c4: names are distinct.
// - input_c5: arguments are tensors of static shape and countable bytes.
// - input_c6: their elements are of types that the runtime stores.
// - input_c7: parameters have no placement of their own.
// - input_c8: bounds are on integer inputs, low < high.
// - input_c9: there is one loss, a float of rank 0, and at most one count.
// - input_c10: every trained parameter has one gradient, of its type.
// - input_c11: an update is that of a buffer, of its type, and the only one.
// - input_c12: fsdp.modules lists names and classes, each module once.
// - input_c13: ops have results of static shape and countable bytes.
// - input_c14: initialisers are of a known kind and fit the tensor.
// - input_c15: ops have no side effects, except cf.assert.
// - input_c16: the module holds the two functions, further traced ones and
//   private ones, no more.
// - input_c17: calls are of those, end, and come to a countable number of ops.
// - input_c18: attributes of fsdp are the ones above; there are none of llvm.
// - input_c19: ops are of dialects that compute.
// - input_c20: constants are dense, and the file holds their bytes.
// - input_c21: fsdp.verified is a text.
// - input_c22: fsdp.program is "train" or "eval", on functions of their own.
// - input_c23: functions agree on parameters and buffers.
// - input_c24: an evaluation has no gradients and updates, and some output.
// - input_c25: what is drawn has a kind, elements of its type, and a site that
//   no other has; evaluations draw nothing.
// - input_c26: the loss's scale is one argument, a tensor<f32>; evaluations
//   have none.
// - input_c27: fsdp.notes is a list of texts.
// - optimizer_c1: @optimizer has a body of one block.
// - optimizer_c2: each argument and result has a role, a name and numbers.
// - optimizer_c3: types are flat float tensors of dynamic size, or of rank 0.
// - optimizer_c4: one param and one grad are taken, one param is returned.
// - optimizer_c5: what is returned, and every state, is also taken.
// - optimizer_c6: names are distinct and not reserved.
// - optimizer_c7: each element of a flat tensor is treated alone.
// - optimizer_c8: groups give numbers to the optimizer's scalars.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_INPUTCONTRACT_H
#define FSDP_ANALYSIS_CONTRACT_INPUTCONTRACT_H

#include "fsdp-rt/scalars.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/BitVector.h"

#include <optional>

namespace mlir::fsdp {

/// Names of functions that passes and tools share; those of attributes are in
/// fsdp/Dialect/FSDP/IR/AttributeNames.h.
namespace names {
constexpr llvm::StringLiteral kForwardBackward = "forward_backward";
constexpr llvm::StringLiteral kOptimizer = "optimizer";
/// The program that @forward_backward becomes.
constexpr llvm::StringLiteral kTrain = "train";
constexpr llvm::StringLiteral kMesh = "mesh";
} // namespace names

/// Scalars that passes add to programs.
namespace scalars = fsdp_rt::scalars;

/// All names of one storage: @fqn, and those of @tied, which may be null.
SmallVector<StringRef> getNames(StringAttr fqn, ArrayAttr tied);

/// A parameter of the model: one argument, one storage, one or more names.
struct ParamInfo {
  BlockArgument arg;
  StringAttr fqn;
  /// Further names of the same storage; may be null.
  ArrayAttr tied;
  /// How to make initial values; null where only a file can tell.
  Attribute init;
  bool requiresGrad = true;
  /// Trained in principle, but without influence on the loss: left untouched.
  bool unused = false;
  /// Of the optimizer's groups; null where it is in none.
  StringAttr group;
  /// The result that is its gradient; nullopt where it has none.
  std::optional<unsigned> grad;

  RankedTensorType getType() const {
    return cast<RankedTensorType>(arg.getType());
  }
  bool isTrainable() const { return grad.has_value(); }
};

/// A buffer of the model: per rank, equal at start.
struct BufferInfo {
  BlockArgument arg;
  StringAttr fqn;
  Attribute init;
  /// The result that replaces it after the step.
  std::optional<unsigned> update;
};

/// A tensor of the batch.
struct InputInfo {
  BlockArgument arg;
  StringAttr name;
  /// Bounds of integer values, low <= value < high.
  std::optional<int64_t> low, high;
  /// Values that are legal beside them.
  SmallVector<int64_t> allowed;
  /// The range [low, high) of random data where it is not that of the bounds.
  std::optional<std::pair<int64_t, int64_t>> draw;
};

/// A tensor of random numbers, which fsdp.random draws.
struct RandomInfo {
  BlockArgument arg;
  RandomKind kind;
  int64_t site;
  /// The same on all ranks.
  bool shared = false;
};

/// A result of an evaluation that the caller may ask for.
struct OutputInfo {
  unsigned result;
  StringAttr name;
};

/// A module of the model's tree, in traversal order; the root's fqn is "".
struct ModuleInfo {
  StringRef fqn;
  StringRef className;
  /// The trace computed it under torch.utils.checkpoint, or what is alike.
  bool isCheckpointed = false;
};

/// A traced function, read.
struct TracedStep {
  func::FuncOp func;
  ProgramKind kind = ProgramKind::train;
  /// Of the program that it becomes.
  StringRef name;
  SmallVector<ParamInfo> params;
  SmallVector<BufferInfo> buffers;
  SmallVector<InputInfo> inputs;
  SmallVector<RandomInfo> randoms;
  /// What the loss's cotangent is multiplied by; null: nothing.
  BlockArgument lossScale;
  SmallVector<OutputInfo> outputs;
  SmallVector<ModuleInfo> modules;
  /// The result that is the loss; an evaluation may have none.
  std::optional<unsigned> loss;
  /// The result that says over how many the loss is a sum; none: it is a mean.
  std::optional<unsigned> lossCount;

  /// Numbers of the results that forward makes: the loss and its count, new
  /// buffers, outputs.
  llvm::BitVector getForwardResults();
  /// Those, as the step returns them now.
  SmallVector<Value> getForwardRoots();
};

/// Begins an error about what the user gave as a whole: an option, the step,
/// the optimizer. It stands where `op` begins in a file, if it comes from one,
/// and does not print `op`, which may be the whole step.
InFlightDiagnostic emitInputError(Operation *op, const Twine &message = {});

/// Whether @func is traced: @forward_backward, or what fsdp.program stands on.
bool isTraced(func::FuncOp func);

/// Reads `@forward_backward` of `module`; on a breach of the contract emits an
/// error for the first few rules broken and fails. Rules about ops are left to
/// verifyStepBody.
FailureOr<TracedStep> readTracedStep(ModuleOp module);

/// The same of all traced functions, `@forward_backward` first; they agree on
/// what they share.
FailureOr<std::vector<TracedStep>> readTracedSteps(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_INPUTCONTRACT_H
