//===- AssignReductionHooks.cpp - Which hook reduces which gradients ------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReductionTarget.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/UnitSettings.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/StringExtras.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ASSIGNREDUCTIONHOOKS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// A hook works on what a rank has before the reduction over replicas.
static LogicalResult checkReplicas(FlatParamOp flat, MeshOp mesh,
                                   StringRef hook) {
  if (mesh.getGroupSize(flat.getReplicateAxes()) > 1)
    return success();
  InFlightDiagnostic diag = emitInputError(
      flat, "expected replicas to reduce over beside reduction-hook ");
  diag << hook << ", got unit '" << getUnitTitle(flat.getUnit()) << "' ";
  if (mesh.getGroupSize(flat.getShardAxes()) == 1)
    diag << "on one rank";
  else
    diag
        << "with shards alone: a reduce_scatter leaves a rank the mean of its "
           "piece, and nothing that a hook could reduce (strategy no_shard, or "
           "a mesh with a replicate axis, has replicas)";
  diag.attachNote(mesh.getLoc()) << "the mesh is here";
  return diag;
}

namespace {
struct AssignReductionHooks
    : fsdp::impl::AssignReductionHooksBase<AssignReductionHooks> {
  using AssignReductionHooksBase::AssignReductionHooksBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    AssignReductionHooksBase::getDependentDialects(registry);
    addBuiltinHooks(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (hook.empty() || module.getOps<FlatParamOp>().empty())
      return markAllAnalysesPreserved();
    StringRef type = getCompressedType(hook);
    if (!type.empty() && !reduceDtype.empty()) {
      emitInputError(module, "expected no reduce-dtype beside reduction-hook ")
          << hook << ", which is reduce-dtype " << type << ", got "
          << reduceDtype;
      return signalPassFailure();
    }
    if (!type.empty())
      return markAllAnalysesPreserved();
    if (failed(checkUnits(module)))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (auto flat : module.getOps<FlatParamOp>())
      if (flat.getTrainable() && !flat.isRankOwn() &&
          failed(assign(flat, symbols.lookup<MeshOp>(flat.getMesh()))))
        return signalPassFailure();
  }

private:
  /// A run may be resumed with other numbers than it was saved with: what a
  /// hook kept of gradients in one unit is no summand of those in another.
  /// (Whether it keeps anything beside a dynamic scale
  /// fsdp-apply-reduction-hooks asks.)
  LogicalResult checkUnits(ModuleOp module) {
    bool isFixed =
        !lossScale.empty() && !StringRef(lossScale).starts_with("dynamic");
    if (!isFixed && gradientDivideFactor.empty())
      return success();
    return emitInputError(module, "expected no ")
           << (isFixed ? "loss-scale" : "gradient-divide-factor")
           << " beside reduction-hook " << hook << ", got "
           << (isFixed ? lossScale : gradientDivideFactor)
           << ": what the hook keeps of gradients would be in that unit, and "
              "a resumed run may have another";
  }

  LogicalResult assign(FlatParamOp flat, MeshOp mesh) {
    if (failed(checkReplicas(flat, mesh, hook)) ||
        failed(readHook(flat, hook, getHookTarget(flat, mesh))))
      return failure();
    flat.setReductionHook(StringRef(hook));
    return success();
  }
};
} // namespace
