//===- LogicalPatterns.h - Patterns from L1 to L2 ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_LOGICALPATTERNS_H
#define FSDP_PASSES_PARTITION_LOGICALPATTERNS_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fsdp {

/// The module's symbols, looked up once.
struct FlatParamSymbols {
  explicit FlatParamSymbols(ModuleOp module) {
    for (auto flat : module.getOps<FlatParamOp>())
      flatParams[FlatSymbolRefAttr::get(flat)] = flat;
    for (auto mesh : module.getOps<MeshOp>())
      meshes[FlatSymbolRefAttr::get(mesh)] = mesh;
  }
  FlatParamOp getFlatParam(FlatSymbolRefAttr name) const {
    return flatParams.lookup(name);
  }
  MeshOp getMesh(FlatParamOp flat) const {
    return meshes.lookup(flat.getMeshAttr());
  }

  llvm::DenseMap<Attribute, FlatParamOp> flatParams;
  llvm::DenseMap<Attribute, MeshOp> meshes;
};

/// The names of all axes of @mesh.
ArrayAttr getAllAxes(MeshOp mesh);

/// A pattern for ops whose types are local ones at L2.
template <typename Op>
struct LogicalPattern : OpConversionPattern<Op> {
  LogicalPattern(const TypeConverter &converter, MLIRContext *context,
                 const FlatParamSymbols &symbols)
      : OpConversionPattern<Op>(converter, context), symbols(symbols) {}

  RankedTensorType getLocalType(Type type) const {
    return cast<RankedTensorType>(this->getTypeConverter()->convertType(type));
  }

  const FlatParamSymbols &symbols;
};

/// Patterns for what reads the reduced gradients: fsdp.grad_norm, fsdp.update.
void populateUpdatePatterns(RewritePatternSet &patterns,
                            const TypeConverter &converter,
                            const FlatParamSymbols &symbols);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_LOGICALPATTERNS_H
