//===- PitchRows.cpp - Rows of matrices begin at aligned addresses --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value that a library multiplies, or writes, and whose rows do not all begin
// at multiples of `alignment` bytes, gets longer ones (PitchedRows.h), if only
// kernels read and write it whose code takes strides: products of a library,
// and loops. Parameters and gradients lie where collectives want them, and keep
// their rows.
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Kernels/KernelLoops.h"
#include "fsdp/Analysis/Kernels/PitchedRows.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_PITCHROWS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// An argument of a kernel and the type that it gets.
using PitchedArgument = std::pair<unsigned, RankedTensorType>;
/// By value, in the order of the module.
using PitchedValues = llvm::MapVector<Value, RankedTensorType>;
} // namespace

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Makes arguments @pitched of @kernel, which has a body, tensors of those
/// types, with its elements as a slice. Of destinations, the result changes as
/// well; each must be stored (getResultStore).
static void pitchArguments(func::FuncOp kernel,
                           ArrayRef<PitchedArgument> pitched) {
  Block &body = kernel.getBody().front();
  Operation *ret = body.getTerminator();
  OpBuilder builder(kernel.getContext());
  unsigned inputs = kernel.getNumArguments() - kernel.getNumResults();
  for (auto [index, type] : pitched) {
    BlockArgument arg = kernel.getArgument(index);
    auto rows = cast<RankedTensorType>(arg.getType());
    Location loc = arg.getLoc();
    SmallVector<OpFoldResult> offsets(rows.getRank(), builder.getIndexAttr(0)),
        strides(rows.getRank(), builder.getIndexAttr(1)),
        sizes = getAsIndexOpFoldResult(kernel.getContext(), rows.getShape());
    builder.setInsertionPointToStart(&body);
    auto slice = tensor::ExtractSliceOp::create(builder, loc, rows, arg,
                                                offsets, sizes, strides);
    arg.setType(type);
    arg.replaceAllUsesExcept(slice, slice);
    if (index < inputs)
      continue;
    builder.setInsertionPoint(ret);
    OpOperand &result = ret->getOpOperand(index - inputs);
    result.set(tensor::InsertSliceOp::create(builder, loc, result.get(), arg,
                                             offsets, sizes, strides));
  }
  kernel.setType(FunctionType::get(kernel.getContext(),
                                   TypeRange(body.getArgumentTypes()),
                                   ret->getOperandTypes()));
}

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether nothing but launches touches @value, and none in place.
static bool isBetweenKernels(OpResult value) {
  auto producer = dyn_cast<LaunchOp>(value.getOwner());
  if (!producer || producer.getTiedInput(value.getResultNumber()) >= 0)
    return false;
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    auto launch = dyn_cast<LaunchOp>(use.getOwner());
    if (!launch)
      return false;
    for (unsigned i = 0; i != launch.getNumResults(); ++i)
      if (launch.getTiedInput(i) == use.getOperandNumber())
        return false;
    return true;
  });
}

/// The arguments of @launch's kernel that stand for values of @pitched.
static SmallVector<PitchedArgument>
getPitchedArguments(LaunchOp launch, const PitchedValues &pitched) {
  SmallVector<PitchedArgument> arguments;
  auto add = [&](Value value, unsigned index) {
    if (RankedTensorType type = pitched.lookup(value))
      arguments.push_back({index, type});
  };
  for (auto [i, input] : llvm::enumerate(launch.getInputs()))
    add(input, i);
  for (auto [i, result] : llvm::enumerate(launch.getResults()))
    add(result, launch.getInputs().size() + i);
  return arguments;
}

static SmallVector<unsigned> getIndices(ArrayRef<PitchedArgument> arguments) {
  return llvm::map_to_vector(arguments, [](const PitchedArgument &argument) {
    return argument.first;
  });
}

/// Whether argument @index of @kernel, the product of @plan, is a matrix that a
/// library reads or writes, whose leading dimension is no multiple of
/// @alignment bytes.
static bool isUnaligned(func::FuncOp kernel, const ContractionPlan &plan,
                        unsigned index, int64_t alignment) {
  Value arg = kernel.getArgument(index);
  auto isWrong = [&](int64_t leading, int64_t rows) {
    int64_t bits =
        cast<RankedTensorType>(arg.getType()).getElementTypeBitWidth();
    return rows > 1 && leading * (bits / 8) % alignment != 0;
  };
  const MatmulShape &shape = plan.shape;
  int64_t rowsA = shape.transA ? shape.k : shape.m,
          rowsB = shape.transB ? shape.n : shape.k;
  bool isResult = index + 1 == kernel.getNumArguments();
  return (plan.sourceA == arg && isWrong(shape.lda, rowsA)) ||
         (plan.sourceB == arg && isWrong(shape.ldb, rowsB)) ||
         ((isResult || plan.addend == arg) && isWrong(shape.ldc, shape.m));
}

/// Whether @kernel would have code with @arguments: still as a library's
/// product, if it is one, else as loops.
static bool takes(func::FuncOp kernel, ArrayRef<PitchedArgument> arguments,
                  int64_t alignment) {
  unsigned inputs = kernel.getNumArguments() - kernel.getNumResults();
  for (auto [index, type] : arguments)
    if (index >= inputs && !getResultStore(kernel, index - inputs))
      return false;
  OwningOpRef<func::FuncOp> trial = kernel.clone();
  pitchArguments(*trial, arguments);
  if (getOnlyPlan(kernel, ContractionPlans(&kernel.getBody().front()))) {
    ContractionPlans plans(&trial->getBody().front());
    const ContractionPlan *plan = getOnlyPlan(*trial, plans);
    return plan &&
           llvm::none_of(arguments, [&](const PitchedArgument &argument) {
             return isUnaligned(*trial, *plan, argument.first, alignment);
           });
  }
  std::string why;
  return KernelLoops::create(*trial, why).has_value();
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// Values between kernels that could have longer rows, where a product wants
/// it.
static PitchedValues getCandidates(ArrayRef<LaunchOp> launches,
                                   const SymbolTable &symbols,
                                   int64_t alignment) {
  // By kernel, the arguments that are unaligned.
  llvm::DenseMap<Operation *, llvm::SmallDenseSet<unsigned>> known;
  auto isWanted = [&](LaunchOp launch, unsigned index) {
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (!kernel || kernel.isExternal())
      return false;
    auto [it, isNew] = known.try_emplace(kernel);
    if (isNew) {
      ContractionPlans plans(&kernel.getBody().front());
      if (const ContractionPlan *plan = getOnlyPlan(kernel, plans))
        for (unsigned i = 0; i != kernel.getNumArguments(); ++i)
          if (isUnaligned(kernel, *plan, i, alignment))
            it->second.insert(i);
    }
    return it->second.contains(index);
  };
  PitchedValues candidates;
  for (LaunchOp launch : launches)
    for (OpResult result : launch->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      RankedTensorType pitched =
          type ? getPitchedType(type, alignment) : RankedTensorType();
      if (!pitched || !isBetweenKernels(result))
        continue;
      unsigned index = launch.getInputs().size() + result.getResultNumber();
      if (isWanted(launch, index) ||
          llvm::any_of(result.getUses(), [&](OpOperand &use) {
            return isWanted(cast<LaunchOp>(use.getOwner()),
                            use.getOperandNumber());
          }))
        candidates[result] = pitched;
    }
  return candidates;
}

/// The candidates that all their kernels take, together.
static PitchedValues decide(ArrayRef<LaunchOp> launches,
                            const SymbolTable &symbols, int64_t alignment) {
  PitchedValues pitched = getCandidates(launches, symbols, alignment);
  llvm::DenseMap<Operation *, std::map<SmallVector<unsigned>, bool>> known;
  for (bool changed = !pitched.empty(); changed;) {
    changed = false;
    for (LaunchOp launch : launches) {
      SmallVector<PitchedArgument> arguments =
          getPitchedArguments(launch, pitched);
      if (arguments.empty())
        continue;
      auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
      auto [it, isNew] = known[kernel].try_emplace(getIndices(arguments));
      if (isNew)
        it->second =
            !kernel.isExternal() && takes(kernel, arguments, alignment);
      if (it->second)
        continue;
      changed = true;
      for (Value input : launch.getInputs())
        pitched.erase(input);
      for (Value result : launch.getResults())
        pitched.erase(result);
    }
  }
  return pitched;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// Gives values their types, and launches of them a kernel that takes those: a
/// copy where other launches want other ones.
static void apply(ArrayRef<LaunchOp> launches, SymbolTable &symbols,
                  const PitchedValues &pitched) {
  // By kernel, then by what is pitched.
  llvm::MapVector<Operation *,
                  std::map<SmallVector<unsigned>, SmallVector<LaunchOp>>>
      variants;
  for (LaunchOp launch : launches)
    variants[symbols.lookup(launch.getKernel())]
            [getIndices(getPitchedArguments(launch, pitched))]
                .push_back(launch);
  // Clones are made of kernels before any argument is pitched.
  SmallVector<std::pair<func::FuncOp, LaunchOp>> functions;
  for (auto &[op, launchesOf] : variants)
    for (auto &[indices, ofVariant] : launchesOf) {
      if (indices.empty())
        continue;
      auto kernel = cast<func::FuncOp>(op);
      if (&indices != &launchesOf.begin()->first) {
        kernel = kernel.clone();
        symbols.insert(kernel, Block::iterator(op->getNextNode()));
        for (LaunchOp launch : ofVariant)
          launch.setKernelAttr(FlatSymbolRefAttr::get(kernel));
      }
      functions.push_back({kernel, ofVariant.front()});
    }
  for (auto [kernel, launch] : functions)
    pitchArguments(kernel, getPitchedArguments(launch, pitched));
  for (auto [value, type] : pitched)
    value.setType(type);
}

namespace {
struct PitchRows : fsdp::impl::PitchRowsBase<PitchRows> {
  using PitchRowsBase::PitchRowsBase;

  void runOnOperation() override {
    if (alignment < 1) {
      emitInputError(getOperation(),
                     "expected an alignment of at least 1 byte, got " +
                         Twine(int64_t(alignment)));
      return signalPassFailure();
    }
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](LaunchOp op) { launches.push_back(op); });
    SymbolTable symbols(getOperation());
    PitchedValues pitched = decide(launches, symbols, alignment);
    if (pitched.empty())
      return markAllAnalysesPreserved();
    apply(launches, symbols, pitched);
  }
};
} // namespace
