//===- DigestTrace.cpp - What was traced, as a digest ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/KernelCode.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_DIGESTTRACE
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// Digests what is printed to it, without keeping it.
class DigestStream : public llvm::raw_ostream {
public:
  ~DigestStream() override { flush(); }
  std::string finish() {
    flush();
    return llvm::toHex(hash.final(), /*LowerCase=*/true);
  }

private:
  void write_impl(const char *text, size_t size) override {
    hash.update(StringRef(text, size));
    position += size;
  }
  uint64_t current_pos() const override { return position; }

  llvm::SHA256 hash;
  uint64_t position = 0;
};
} // namespace

/// Text without locations and names of values: what two tracings of one module
/// have in common.
static void print(Operation &op, llvm::raw_ostream &os) {
  op.print(os, getHashedForm().useLocalScope());
  os << '\n';
}

/// Each float of the optimizer once, in the order of its text.
static ArrayAttr getConstants(func::FuncOp optimizer) {
  llvm::SetVector<Attribute> constants;
  Builder builder(optimizer.getContext());
  optimizer.walk([&](arith::ConstantOp op) {
    Attribute value = op.getValue();
    if (auto splat = dyn_cast<SplatElementsAttr>(value))
      value = splat.getSplatValue<Attribute>();
    // The shortest text of the float, as it was typed.
    if (auto number = dyn_cast<FloatAttr>(value)) {
      SmallString<32> text;
      number.getValue().toString(text);
      double typed;
      if (!StringRef(text).getAsDouble(typed))
        constants.insert(builder.getF64FloatAttr(typed));
    }
  });
  return builder.getArrayAttr(constants.getArrayRef());
}

namespace {
struct DigestTrace : fsdp::impl::DigestTraceBase<DigestTrace> {
  using DigestTraceBase::DigestTraceBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto optimizer = module.lookupSymbol<func::FuncOp>(names::kOptimizer);
    if (!module.lookupSymbol(names::kForwardBackward) || !optimizer)
      return markAllAnalysesPreserved();
    // A name changes nothing of what is computed.
    Attribute spec = optimizer->removeAttr(names::kOptimizerSpec);
    DigestStream step, update;
    // What is trained: further programs change nothing of it.
    for (Operation &op : *module.getBody())
      if (!op.hasAttr(names::kProgram))
        print(op, &op == optimizer ? update : step);
    Builder builder(module.getContext());
    if (!name.empty())
      module->setAttr(names::kName, builder.getStringAttr(name));
    NamedAttrList traced;
    traced.set("step", builder.getStringAttr(step.finish()));
    traced.set("optimizer", builder.getStringAttr(update.finish()));
    traced.set("constants", getConstants(optimizer));
    if (spec)
      traced.set("spec", spec);
    module->setAttr(names::kTraced, traced.getDictionary(&getContext()));
  }
};
} // namespace
