//===- FSDP.h - The fsdp dialect ----------------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDP_H
#define FSDP_DIALECT_FSDP_IR_FSDP_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fsdp-rt/programs.h"
#include "fsdp/ABI/Transfers.h"

#include "llvm/Support/MathExtras.h"

#include <optional>

#include "fsdp/Dialect/FSDP/IR/FSDPDialect.h.inc"

#include "fsdp/Dialect/FSDP/IR/FSDPEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPTypes.h.inc"

#include "fsdp/Dialect/FSDP/IR/FSDPInterfaces.h.inc"

namespace mlir::fsdp {
/// What programs of that kind do: fsdp-rt/programs.h.
constexpr const fsdp_rt::ProgramTraits &getTraits(ProgramKind kind) {
  return fsdp_rt::programTraits[unsigned(kind)];
}

/// "a, b or c": the words of an enum of this dialect, for errors.
template <typename Enum>
std::string listWords(Enum last, StringRef quote = "") {
  std::string list;
  for (uint32_t i = 0; i <= uint32_t(last); ++i) {
    list += i == 0 ? "" : i == uint32_t(last) ? " or " : ", ";
    list += (Twine(quote) + stringifyEnum(Enum(i)) + quote).str();
  }
  return list;
}

/// The type of elements that are drawn.
Type getRandomType(RandomKind kind, MLIRContext *context);

/// The order in which a step's ops are issued.
struct IssueOrder : SideEffects::Resource::Base<IssueOrder> {
  StringRef getName() final { return "fsdp.issue_order"; }
};

/// Targets in fsdp.impl and in the manifest: a host's processors, CUDA devices.
constexpr llvm::StringLiteral kCpuTarget = "cpu";
constexpr llvm::StringLiteral kCudaTarget = "cuda";

/// The gpu.module that holds the functions which #fsdp.cuda_code names.
constexpr llvm::StringLiteral kCudaModule = "cuda_kernels";

/// What PTX is made for: compute capability 8.0, in the words of LLVM, and the
/// least version of PTX, which CUDA 12.0 brought.
constexpr int64_t kPtxCapability = 80;
constexpr llvm::StringLiteral kPtxProcessor = "sm_80";
constexpr llvm::StringLiteral kPtxFeature = "ptx80";

/// What machine code is made for, where the toolkit's assembler is found.
constexpr int64_t kCubinCapability = 90;
constexpr llvm::StringLiteral kCubinProcessor = "sm_90";

/// Globals with an artifact's PTX and machine code, which
/// Target::serializeKernels defines.
constexpr llvm::StringLiteral kPtxGlobal = "fsdp_cuda_ptx";
constexpr llvm::StringLiteral kCubinGlobal = "fsdp_cuda_cubin";

/// A kernel's code for @target, that of fsdp.impl: machine code or a library's
/// product; null where it has none.
Attribute getImplementation(Operation *kernel, llvm::StringRef target);

/// A kernel's code for processors, its `cpu` of fsdp.impl; null where it has
/// none.
CpuKernelAttr getCpuKernel(Operation *kernel);

/// A kernel's code for CUDA devices, its `cuda` of fsdp.impl; null where it has
/// none.
CudaCodeAttr getCudaCode(Operation *kernel);

/// Bytes of the arena's workspace that a launch of @kernel may use: those of
/// the target that needs most.
int64_t getWorkspaceBytes(Operation *kernel);

/// Gives a kernel code for @target, beside what it has for others.
void setImplementation(Operation *kernel, StringRef target, Attribute code);

/// Whether @op has a place in the arena (fsdp.offsets): it stands where it was
/// put.
bool isPlaced(Operation *op);

/// Of a placed op: reads and writes the issue order.
void addEffectsIfPlaced(
    Operation *op, SmallVectorImpl<MemoryEffects::EffectInstance> &effects);
} // namespace mlir::fsdp

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPOps.h.inc"

namespace mlir::fsdp {
/// Whether @op is a collective that takes what kernels made, gradients mostly,
/// to the ranks that need it: one of a queue that fetches nothing.
bool isReduction(Operation *op);
} // namespace mlir::fsdp

#endif // FSDP_DIALECT_FSDP_IR_FSDP_H
