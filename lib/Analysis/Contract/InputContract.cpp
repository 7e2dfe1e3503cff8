//===- InputContract.cpp - Reading and checking L0 ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the traced functions of a module: which functions are, what each is
// for, and what they have in common. Rules carry the labels of
// docs/input-contract.md (input_c1, ...).
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "TracedStepReader.h"

using namespace mlir;
using namespace mlir::fsdp;

InFlightDiagnostic fsdp::emitInputError(Operation *op, const Twine &message) {
  Location place = UnknownLoc::get(op->getContext());
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    place = file;
  return mlir::emitError(place, message);
}

SmallVector<StringRef> fsdp::getNames(StringAttr fqn, ArrayAttr tied) {
  SmallVector<StringRef> names{fqn.getValue()};
  if (tied)
    llvm::append_range(names, tied.getAsValueRange<StringAttr>());
  return names;
}

llvm::BitVector TracedStep::getForwardResults() {
  llvm::BitVector results(
      func.getBody().front().getTerminator()->getNumOperands());
  if (loss)
    results.set(*loss);
  if (lossCount)
    results.set(*lossCount);
  for (const OutputInfo &output : outputs)
    results.set(output.result);
  for (const BufferInfo &buffer : buffers)
    if (buffer.update)
      results.set(*buffer.update);
  return results;
}

SmallVector<Value> TracedStep::getForwardRoots() {
  Operation *ret = func.getBody().front().getTerminator();
  return llvm::map_to_vector(getForwardResults().set_bits(),
                             [&](unsigned i) { return ret->getOperand(i); });
}

bool fsdp::isTraced(func::FuncOp func) {
  return func.getName() == names::kForwardBackward ||
         func->hasAttr(names::kProgram);
}

FailureOr<TracedStep> fsdp::readTracedStep(ModuleOp module) {
  // input_c1
  auto func = module.lookupSymbol<func::FuncOp>(names::kForwardBackward);
  if (!func)
    return emitInputError(
        module, "input_c1: expected a function @forward_backward, got none");
  return readTracedFunction(func, ProgramKind::train, names::kTrain);
}

/// What a function's fsdp.program says.
static FailureOr<ProgramKind> readKind(func::FuncOp func) {
  Attribute attr = func->getAttr(names::kProgram);
  auto word = dyn_cast<StringAttr>(attr);
  std::optional<ProgramKind> kind =
      word ? symbolizeProgramKind(word) : std::nullopt;
  // input_c22
  if (!kind || !getTraits(*kind).isTraced) {
    unsigned last =
        llvm::count_if(fsdp_rt::programTraits,
                       [](const auto &traits) { return traits.isTraced; }) -
        1;
    return emitInputError(func, "input_c22: expected fsdp.program with ")
           << listWords(ProgramKind(last), "'") << " on @" << func.getName()
           << ", got " << attr;
  }
  if (func.getName() == names::kOptimizer || func.getName() == names::kTrain ||
      func.getName() == names::kMesh || func.getName().starts_with("fsdp_"))
    return emitInputError(func, "input_c22: expected fsdp.program on functions "
                                "of their own, got it on @")
           << func.getName();
  return *kind;
}

namespace {
/// What a name stands for in the function that trains.
struct Known {
  DictionaryAttr entries;
  Type type;
};
} // namespace

/// An argument of @func stands for what @known says: entries that it repeats
/// are equal.
static LogicalResult checkAgrees(func::FuncOp func, func::FuncOp train,
                                 StringRef what, StringAttr fqn,
                                 BlockArgument arg, DictionaryAttr entries,
                                 const Known &known) {
  // input_c23
  auto error = [&] {
    InFlightDiagnostic diag = emitInputError(func, "input_c23: expected ");
    diag << what << " " << fqn << " of @" << func.getName() << " to be ";
    return diag;
  };
  if (arg.getType() != known.type) {
    InFlightDiagnostic diag = error()
                              << known.type << " as in @" << train.getName()
                              << ", got " << arg.getType();
    diag.attachNote(train.getLoc()) << "that is here";
    return diag;
  }
  for (NamedAttribute entry : entries)
    if (known.entries.get(entry.getName()) != entry.getValue())
      return error() << "what it is in @" << train.getName() << ", got another "
                     << entry.getName();
  return success();
}

/// The parameters and buffers of @step are those of the function that trains;
/// buffers may be its own.
static LogicalResult checkAgreement(TracedStep &step, TracedStep &train) {
  llvm::DenseMap<Attribute, Known> params, buffers;
  auto getEntries = [](TracedStep &of, BlockArgument arg, StringRef name) {
    return of.func.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(), name);
  };
  for (ParamInfo &param : train.params)
    params[param.fqn] = {getEntries(train, param.arg, names::kParam),
                         param.arg.getType()};
  for (BufferInfo &buffer : train.buffers)
    buffers[buffer.fqn] = {getEntries(train, buffer.arg, names::kBuffer),
                           buffer.arg.getType()};
  for (ParamInfo &param : step.params) {
    auto known = params.find(param.fqn);
    // input_c23
    if (known == params.end())
      return emitInputError(step.func, "input_c23: expected parameters of @" +
                                           train.func.getName() + " in @" +
                                           step.func.getName() + ", got ")
             << param.fqn;
    if (failed(checkAgrees(
            step.func, train.func, "parameter", param.fqn, param.arg,
            getEntries(step, param.arg, names::kParam), known->second)))
      return failure();
  }
  for (BufferInfo &buffer : step.buffers)
    if (auto known = buffers.find(buffer.fqn);
        known != buffers.end() &&
        failed(checkAgrees(
            step.func, train.func, "buffer", buffer.fqn, buffer.arg,
            getEntries(step, buffer.arg, names::kBuffer), known->second)))
      return failure();
  return success();
}

FailureOr<std::vector<TracedStep>> fsdp::readTracedSteps(ModuleOp module) {
  std::vector<TracedStep> steps;
  FailureOr<TracedStep> train = readTracedStep(module);
  if (failed(train))
    return failure();
  steps.push_back(*train);
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func->hasAttr(names::kProgram))
      continue;
    FailureOr<ProgramKind> kind = readKind(func);
    if (failed(kind))
      return failure();
    if (func == train->func) {
      // input_c22
      if (!getTraits(*kind).isStep)
        return emitInputError(func, "input_c22: expected @forward_backward to "
                                    "train, got fsdp.program = ")
               << func->getAttr(names::kProgram);
      continue;
    }
    FailureOr<TracedStep> step =
        readTracedFunction(func, *kind, func.getName());
    if (failed(step) || failed(checkAgreement(*step, steps.front())))
      return failure();
    steps.push_back(*step);
  }
  return steps;
}
