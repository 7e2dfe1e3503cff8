//===- AddOptimizer.cpp - Built-in AdamW and SGD --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/OptimizerSpec.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ADDOPTIMIZER
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

// torch.optim.AdamW: decoupled decay, bias correction from the step count.
// {0} lr, {1} beta1, {2} beta2, {3} eps, {4} weight_decay
static constexpr StringLiteral kAdamW = R"mlir(
#scalar = affine_map<() -> ()>
#all = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>
func.func @optimizer(
    %p: tensor<?xf32> {{fsdp.optimizer = {{role = "param", name = "param"}},
    %g: tensor<?xf32> {{fsdp.optimizer = {{role = "grad", name = "grad"}},
    %m: tensor<?xf32> {{fsdp.optimizer = {{role = "state", name = "exp_avg", init = 0.0 : f64}},
    %v: tensor<?xf32> {{fsdp.optimizer = {{role = "state", name = "exp_avg_sq", init = 0.0 : f64}},
    %step: tensor<f32> {{fsdp.optimizer = {{role = "state", name = "step", init = 0.0 : f64}},
    %lr: tensor<f32> {{fsdp.optimizer = {{role = "scalar", name = "lr", default = {0} : f64}})
    -> (tensor<?xf32> {{fsdp.optimizer = {{role = "param", name = "param"}},
        tensor<?xf32> {{fsdp.optimizer = {{role = "state", name = "exp_avg"}},
        tensor<?xf32> {{fsdp.optimizer = {{role = "state", name = "exp_avg_sq"}},
        tensor<f32> {{fsdp.optimizer = {{role = "state", name = "step"}}) {{
  %one = arith.constant 1.0 : f32
  %beta1 = arith.constant {1} : f32
  %beta2 = arith.constant {2} : f32
  %rest1 = arith.constant {5} : f32
  %rest2 = arith.constant {6} : f32
  %eps = arith.constant {3} : f32
  %decay = arith.constant {4} : f32
  %e = tensor.empty() : tensor<f32>
  %scalars:4 = linalg.generic {{indexing_maps = [#scalar, #scalar, #scalar, #scalar, #scalar, #scalar], iterator_types = []}
      ins(%step, %lr : tensor<f32>, tensor<f32>) outs(%e, %e, %e, %e : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {{
  ^bb0(%s: f32, %rate: f32, %o0: f32, %o1: f32, %o2: f32, %o3: f32):
    %next = arith.addf %s, %one : f32
    %power1 = math.powf %beta1, %next : f32
    %power2 = math.powf %beta2, %next : f32
    %correction1 = arith.subf %one, %power1 : f32
    %correction2 = arith.subf %one, %power2 : f32
    %size = arith.divf %rate, %correction1 : f32
    %root = math.sqrt %correction2 : f32
    %shrink = arith.mulf %rate, %decay : f32
    %keep = arith.subf %one, %shrink : f32
    linalg.yield %next, %size, %root, %keep : f32, f32, f32, f32
  } -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %flat = tensor.empty(%n) : tensor<?xf32>
  %r:3 = linalg.generic {{indexing_maps = [#all, #all, #all, #all, #one, #one, #one, #all, #all, #all], iterator_types = ["parallel"]}
      ins(%p, %g, %m, %v, %scalars#1, %scalars#2, %scalars#3 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>)
      outs(%flat, %flat, %flat : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {{
  ^bb0(%x: f32, %dx: f32, %avg: f32, %sq: f32, %size: f32, %root: f32, %keep: f32, %o0: f32, %o1: f32, %o2: f32):
    %avg0 = arith.mulf %avg, %beta1 : f32
    %avg1 = arith.mulf %dx, %rest1 : f32
    %newavg = arith.addf %avg0, %avg1 : f32
    %dx2 = arith.mulf %dx, %dx : f32
    %sq0 = arith.mulf %sq, %beta2 : f32
    %sq1 = arith.mulf %dx2, %rest2 : f32
    %newsq = arith.addf %sq0, %sq1 : f32
    %sqrt = math.sqrt %newsq : f32
    %scaled = arith.divf %sqrt, %root : f32
    %denom = arith.addf %scaled, %eps : f32
    %ratio = arith.divf %newavg, %denom : f32
    %change = arith.mulf %ratio, %size : f32
    %kept = arith.mulf %x, %keep : f32
    %new = arith.subf %kept, %change : f32
    linalg.yield %new, %newavg, %newsq : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %r#0, %r#1, %r#2, %scalars#0 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>
}
)mlir";

// torch.optim.SGD without momentum. {0} lr, {1} weight_decay
static constexpr StringLiteral kPlainSGD = R"mlir(
#all = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>
func.func @optimizer(
    %p: tensor<?xf32> {{fsdp.optimizer = {{role = "param", name = "param"}},
    %g: tensor<?xf32> {{fsdp.optimizer = {{role = "grad", name = "grad"}},
    %lr: tensor<f32> {{fsdp.optimizer = {{role = "scalar", name = "lr", default = {0} : f64}})
    -> (tensor<?xf32> {{fsdp.optimizer = {{role = "param", name = "param"}}) {{
  %decay = arith.constant {1} : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %flat = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {{indexing_maps = [#all, #all, #one, #all], iterator_types = ["parallel"]}
      ins(%p, %g, %lr : tensor<?xf32>, tensor<?xf32>, tensor<f32>) outs(%flat : tensor<?xf32>) {{
  ^bb0(%x: f32, %dx: f32, %rate: f32, %o0: f32):
    %pull = arith.mulf %x, %decay : f32
    %sum = arith.addf %dx, %pull : f32
    %change = arith.mulf %sum, %rate : f32
    %new = arith.subf %x, %change : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
)mlir";

// torch.optim.SGD with momentum. Its buffer starts as the first gradient, which
// is what a buffer of zeros gives without dampening.
// {0} lr, {1} weight_decay, {2} momentum
static constexpr StringLiteral kMomentumSGD = R"mlir(
#all = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>
func.func @optimizer(
    %p: tensor<?xf32> {{fsdp.optimizer = {{role = "param", name = "param"}},
    %g: tensor<?xf32> {{fsdp.optimizer = {{role = "grad", name = "grad"}},
    %b: tensor<?xf32> {{fsdp.optimizer = {{role = "state", name = "momentum_buffer", init = 0.0 : f64}},
    %lr: tensor<f32> {{fsdp.optimizer = {{role = "scalar", name = "lr", default = {0} : f64}})
    -> (tensor<?xf32> {{fsdp.optimizer = {{role = "param", name = "param"}},
        tensor<?xf32> {{fsdp.optimizer = {{role = "state", name = "momentum_buffer"}}) {{
  %decay = arith.constant {1} : f32
  %momentum = arith.constant {2} : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %flat = tensor.empty(%n) : tensor<?xf32>
  %r:2 = linalg.generic {{indexing_maps = [#all, #all, #all, #one, #all, #all], iterator_types = ["parallel"]}
      ins(%p, %g, %b, %lr : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>) outs(%flat, %flat : tensor<?xf32>, tensor<?xf32>) {{
  ^bb0(%x: f32, %dx: f32, %old: f32, %rate: f32, %o0: f32, %o1: f32):
    %pull = arith.mulf %x, %decay : f32
    %sum = arith.addf %dx, %pull : f32
    %kept = arith.mulf %old, %momentum : f32
    %buffer = arith.addf %kept, %sum : f32
    %change = arith.mulf %buffer, %rate : f32
    %new = arith.subf %x, %change : f32
    linalg.yield %new, %buffer : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %r#0, %r#1 : tensor<?xf32>, tensor<?xf32>
}
)mlir";

/// A float as MLIR reads it back exactly.
static std::string print(double value) {
  return llvm::formatv("{0:e16}", value).str();
}

static std::string getSource(const OptimizerSpec &spec) {
  if (spec.kind == OptimizerSpec::Kind::AdamW)
    return llvm::formatv(kAdamW.data(), print(spec.lr), print(spec.beta1),
                         print(spec.beta2), print(spec.eps),
                         print(spec.weightDecay), print(1.0 - spec.beta1),
                         print(1.0 - spec.beta2));
  if (spec.momentum == 0)
    return llvm::formatv(kPlainSGD.data(), print(spec.lr),
                         print(spec.weightDecay));
  return llvm::formatv(kMomentumSGD.data(), print(spec.lr),
                       print(spec.weightDecay), print(spec.momentum));
}

namespace {
struct AddOptimizer : fsdp::impl::AddOptimizerBase<AddOptimizer> {
  using AddOptimizerBase::AddOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol(names::kForwardBackward))
      return markAllAnalysesPreserved();
    if (Operation *present = module.lookupSymbol(names::kOptimizer)) {
      if (optimizer.empty())
        return markAllAnalysesPreserved();
      InFlightDiagnostic diag =
          emitInputError(module, "expected a module without "
                                 "@optimizer to add ")
          << optimizer << " to";
      diag.attachNote(present->getLoc()) << "it is here";
      return signalPassFailure();
    }
    auto spec = OptimizerSpec::parse(optimizer.empty() ? StringRef("adamw")
                                                       : StringRef(optimizer));
    if (!spec) {
      emitInputError(module, llvm::toString(spec.takeError()));
      return signalPassFailure();
    }
    OwningOpRef<ModuleOp> parsed =
        parseSourceString<ModuleOp>(getSource(*spec), &getContext());
    if (!parsed)
      return signalPassFailure();
    auto func = *parsed->getOps<func::FuncOp>().begin();
    func->setAttr(names::kOptimizerSpec,
                  StringAttr::get(&getContext(), spec->printConstants()));
    func->moveAfter(&module.getBody()->back());
  }
};
} // namespace
