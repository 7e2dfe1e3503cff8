//===- KernelImplementations.h - Kernels' code in descriptors ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_KERNELIMPLEMENTATIONS_H
#define FSDP_PASSES_LOWER_KERNELIMPLEMENTATIONS_H

#include "RuntimeDescriptors.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::fsdp {

/// Makes what `implementations` of launches and attentions point to. One for
/// all programs of a module.
class KernelImplementations {
public:
  /// `targets` are the manifest's, in its order.
  KernelImplementations(ModuleOp module, DescriptorBuilder &descriptors,
                        ArrayRef<std::string> targets)
      : module(module), symbols(module), descriptors(descriptors),
        targets(targets) {}

  /// The array of descriptors of `kernel`'s code, one per target; of an
  /// attention of `shape`. Refuses a kernel without code for one of them.
  FailureOr<FlatSymbolRefAttr> create(func::FuncOp kernel,
                                      AttentionShapeAttr shape = {});

private:
  FailureOr<FlatSymbolRefAttr> createFor(StringRef target, func::FuncOp kernel,
                                         AttentionShapeAttr shape);
  FlatSymbolRefAttr createCpu(func::FuncOp kernel, CpuKernelAttr code,
                              AttentionShapeAttr shape);
  FlatSymbolRefAttr createCuda(CudaCodeAttr code);
  FlatSymbolRefAttr getEntry(func::FuncOp kernel, CpuKernelAttr code);
  FlatSymbolRefAttr getImage();

  ModuleOp module;
  SymbolTable symbols;
  DescriptorBuilder &descriptors;
  ArrayRef<std::string> targets;
  llvm::DenseMap<Operation *, FlatSymbolRefAttr> known, entries;
  FlatSymbolRefAttr image;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWER_KERNELIMPLEMENTATIONS_H
