//===- IsolateStep.cpp - The step and nothing else ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/IsolateStep.h"
#include "fsdp/Analysis/Contract/BodyContract.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/ModuleContract.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ISOLATESTEP
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static bool isHelper(func::FuncOp func) {
  return !isTraced(func) && func.getName() != names::kOptimizer;
}

bool fsdp::hasHelpers(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), isHelper);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Puts the body of @callee, which has one block, in the place of @call. Each
/// op says where it was called from.
static void inlineCall(func::CallOp call, func::FuncOp callee) {
  OpBuilder builder(call);
  IRMapping mapping;
  Block &body = callee.getBody().front();
  mapping.map(body.getArguments(), call.getOperands());
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping)->walk([&](Operation *copy) {
      copy->setLoc(CallSiteLoc::get(copy->getLoc(), call.getLoc()));
    });
  for (auto [result, value] :
       llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  call.erase();
}

namespace {
/// Inlines calls, of helpers first: what is inlined has no calls of its own.
/// The calls end (input_c17).
class Inliner {
public:
  explicit Inliner(ModuleOp module) : symbols(module) {}

  void run(func::FuncOp root);

private:
  struct Frame {
    func::FuncOp func;
    SmallVector<func::CallOp> calls;
    size_t next = 0;
  };
  void enter(func::FuncOp func);

  SymbolTable symbols;
  SmallVector<Frame> frames;
  llvm::DenseSet<func::FuncOp> done;
};
} // namespace

void Inliner::enter(func::FuncOp func) {
  Frame frame{func, {}};
  func.walk([&](func::CallOp call) { frame.calls.push_back(call); });
  frames.push_back(std::move(frame));
}

void Inliner::run(func::FuncOp root) {
  enter(root);
  while (!frames.empty()) {
    Frame &frame = frames.back();
    if (frame.next == frame.calls.size()) {
      done.insert(frame.func);
      frames.pop_back();
      continue;
    }
    func::CallOp call = frame.calls[frame.next];
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!done.contains(callee)) {
      enter(callee);
      continue;
    }
    inlineCall(call, callee);
    ++frame.next;
  }
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static bool isOfContract(NamedAttribute attr) {
  return attr.getName().getValue().starts_with("fsdp.");
}

static DictionaryAttr keepContract(MLIRContext *context, DictionaryAttr attrs) {
  return DictionaryAttr::get(
      context, llvm::to_vector(llvm::make_filter_range(attrs, isOfContract)));
}

/// Constants whose bytes are in a resource of the file, as others are.
static void readResources(func::FuncOp func) {
  func.walk([](arith::ConstantOp op) {
    auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue());
    if (DenseElementsAttr values =
            resource ? readResource(resource) : DenseElementsAttr())
      op.setValueAttr(values);
  });
}

/// Integers wrap, divisions have a rest and floats may be NaN: what a file
/// promises of them, LLVM would believe where it is not so, and an index out of
/// range would seem to be none.
static void dropPromises(func::FuncOp func) {
  func.walk([](Operation *op) {
    MLIRContext *context = op->getContext();
    if (auto wraps = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op))
      op->setAttr(wraps.getIntegerOverflowAttrName(),
                  arith::IntegerOverflowFlagsAttr::get(
                      context, arith::IntegerOverflowFlags::none));
    llvm::TypeSwitch<Operation *>(op)
        .Case<arith::DivSIOp, arith::DivUIOp, arith::ShRSIOp, arith::ShRUIOp>(
            [](auto exact) { exact.setIsExact(false); });
    auto floats = dyn_cast<arith::ArithFastMathInterface>(op);
    if (arith::FastMathFlagsAttr flags =
            floats ? floats.getFastMathFlagsAttr() : nullptr)
      op->setAttr(
          floats.getFastMathAttrName(),
          arith::FastMathFlagsAttr::get(
              context, flags.getValue() & ~(arith::FastMathFlags::nnan |
                                            arith::FastMathFlags::ninf)));
  });
}

/// Those of ops that nobody here knows are their own.
static void dropAttributes(Operation *op) {
  if (op->isRegistered() && !op->getDiscardableAttrDictionary().empty())
    op->setDiscardableAttrs(
        keepContract(op->getContext(), op->getDiscardableAttrDictionary()));
}

static void dropAttributes(func::FuncOp func) {
  MLIRContext *context = func.getContext();
  for (unsigned i = 0, e = func.getNumArguments(); i != e; ++i)
    if (DictionaryAttr attrs = func.getArgAttrDict(i))
      func.setArgAttrs(i, keepContract(context, attrs));
  for (unsigned i = 0, e = func.getNumResults(); i != e; ++i)
    if (DictionaryAttr attrs = func.getResultAttrDict(i))
      func.setResultAttrs(i, keepContract(context, attrs));
  func.walk([](Operation *op) { dropAttributes(op); });
}

void fsdp::isolateStep(ModuleOp module) {
  if (hasHelpers(module)) {
    Inliner inliner(module);
    SmallVector<func::FuncOp> helpers;
    for (auto func : module.getOps<func::FuncOp>()) {
      if (isHelper(func))
        helpers.push_back(func);
      else
        inliner.run(func);
    }
    for (func::FuncOp helper : helpers)
      helper.erase();
  }
  dropAttributes(module.getOperation());
  for (auto func : module.getOps<func::FuncOp>()) {
    dropAttributes(func);
    dropPromises(func);
    readResources(func);
  }
}

namespace {
struct IsolateStep : fsdp::impl::IsolateStepBase<IsolateStep> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol<func::FuncOp>(names::kForwardBackward) &&
        !module.lookupSymbol<func::FuncOp>(names::kOptimizer))
      return markAllAnalysesPreserved();
    if (failed(verifyInputModule(module)))
      return signalPassFailure();
    isolateStep(module);
  }
};
} // namespace
