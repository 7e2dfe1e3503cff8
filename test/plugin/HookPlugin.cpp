//===- HookPlugin.cpp - Reduction hooks of somebody else's ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a library outside of the compiler needs for --reduction-hook: one
// header, MLIR, and an entry for dialect plugins. Beside a hook that can be
// used there are those that the compiler has to refuse.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/ReductionHook.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"

using namespace mlir;
using namespace mlir::fsdp;

static Value createNumber(HookedReduction &reduction, RankedTensorType type,
                          double value) {
  auto number = FloatAttr::get(type.getElementType(), value);
  return arith::ConstantOp::create(reduction.builder, reduction.loc,
                                   DenseElementsAttr::get(type, number));
}

namespace {
/// Each rank sends +1 or -1 for each element of its gradient and of what it has
/// not sent yet, times one number. What that leaves is sent by later steps.
/// Source: Karimireddy et al., Error Feedback Fixes SignSGD, arXiv:1901.09847,
/// with a constant for the mean of the magnitudes.
class SignHook : public ReductionHook {
public:
  static constexpr StringRef kName = "sign";

  llvm::Error setOption(StringRef key, StringRef value) override {
    if (key == "magnitude" && !value.getAsDouble(magnitude) && magnitude > 0)
      return llvm::Error::success();
    return llvm::createStringError("expected magnitude=NUMBER above 0, got '" +
                                   key + "=" + value + "'");
  }

  Value reduce(HookedReduction &reduction, Value gradient) const override {
    OpBuilder &b = reduction.builder;
    Location loc = reduction.loc;
    auto type = cast<RankedTensorType>(gradient.getType());
    std::string name = reduction.target.name + ".sign_error";
    Value error = reduction.getState(
        name, type,
        b.getDictionaryAttr(
            {b.getNamedAttr("kind", b.getStringAttr("constant")),
             b.getNamedAttr("value", b.getF64FloatAttr(0))}));
    Value sum = arith::AddFOp::create(b, loc, gradient, error);
    Value isNegative =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, sum,
                              createNumber(reduction, type, 0));
    Value sent = arith::SelectOp::create(
        b, loc, isNegative, createNumber(reduction, type, -magnitude),
        createNumber(reduction, type, magnitude));
    reduction.setState(name, arith::SubFOp::create(b, loc, sum, sent));
    return reduction.allReduce(sent);
  }

private:
  double magnitude = 0.0009765625;
};

/// Forgets to reduce.
struct LocalHook : ReductionHook {
  static constexpr StringRef kName = "local";
  Value reduce(HookedReduction &, Value gradient) const override {
    return gradient;
  }
};

/// Counts in a state that it also reads through a view.
struct ViewHook : ReductionHook {
  static constexpr StringRef kName = "view";
  Value reduce(HookedReduction &reduction, Value gradient) const override {
    OpBuilder &b = reduction.builder;
    Location loc = reduction.loc;
    auto type = cast<RankedTensorType>(gradient.getType());
    auto half = RankedTensorType::get({type.getDimSize(0) / 2, 2},
                                      type.getElementType());
    std::string name = reduction.target.name + ".view";
    Value old = reduction.getState(
        name, type,
        b.getDictionaryAttr(
            {b.getNamedAttr("kind", b.getStringAttr("constant")),
             b.getNamedAttr("value", b.getF64FloatAttr(0))}));
    Value more =
        arith::AddFOp::create(b, loc, reduction.view(old, 0, half.getShape()),
                              createNumber(reduction, half, 1));
    Value flat = tensor::CollapseShapeOp::create(
        b, loc, type, more, ArrayRef<ReassociationIndices>{{0, 1}});
    reduction.setState(name, flat);
    return reduction.allReduce(gradient);
  }
};

/// Returns nothing.
struct EmptyHook : ReductionHook {
  static constexpr StringRef kName = "empty";
  Value reduce(HookedReduction &, Value) const override { return {}; }
};

/// Reduces what is reduced.
struct TwiceHook : ReductionHook {
  static constexpr StringRef kName = "twice";
  Value reduce(HookedReduction &reduction, Value gradient) const override {
    Value mean = reduction.allReduce(gradient);
    return reduction.allReduce(mean);
  }
};

/// Writes a state that it has not read.
struct BrokenHook : ReductionHook {
  static constexpr StringRef kName = "broken";
  Value reduce(HookedReduction &reduction, Value gradient) const override {
    reduction.setState("nobody's", gradient);
    return reduction.allReduce(gradient);
  }
};

/// Has the name of one of the compiler's.
struct OtherPowerSGD : LocalHook {
  static constexpr StringRef kName = "powersgd";
};
} // namespace

extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Hooks", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) {
            addReductionHook<SignHook>(*registry);
            addReductionHook<LocalHook>(*registry);
            addReductionHook<ViewHook>(*registry);
            addReductionHook<EmptyHook>(*registry);
            addReductionHook<TwiceHook>(*registry);
            addReductionHook<BrokenHook>(*registry);
            addReductionHook<OtherPowerSGD>(*registry);
          }};
}
