//===- CudaTarget.cpp - Code of kernels for CUDA devices ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"

#include "fsdp-rt/dependent-launch.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fsdp;

/// A block computes what is too little to be worth a second launch, which takes
/// as long as some rounds of its threads. A large card has 132 to 148
/// multiprocessors of 2048 threads: a quarter of these, of which each sums a
/// few columns, have enough loads under way. cuBLASLt's code for tensor cores
/// wants rows at multiples of 16 bytes (cuBLAS, "Tensor Core Usage"). A saved
/// byte costs its transfers: what a card's memory does not hold, the plan
/// recomputes by units, which frees more.
KernelLimits CudaTarget::getKernelLimits() const {
  return {getCpuKernelLimits().minItems,
          /*smallWork=*/4096,
          /*sumItems=*/65536,
          /*rowAlignment=*/16,
          /*savedByte=*/8,
          /*epilogues=*/true,
          /*sweeps=*/true};
}

Stage CudaTarget::getKernelStage() const {
  return {kKernelCodeStage,
          [this](OpPassManager &pm) {
            CudaKernelOptions options;
            options.tf32 = tf32;
            options.tuning = tuning;
            options.math = math;
            buildCudaKernelPipeline(pm, options);
          },
          {{"fsdp-emit-cuda-attention", true, false},
           {"fsdp-emit-cuda-kernels", true, true}}};
}

void CudaTarget::describe(LowerOptions &options) const {
  options.cuda = kPtxProcessor.str();
}

/// Gives the declared global `name` its bytes.
static void define(ModuleOp module, StringRef name, StringRef bytes) {
  auto global = module.lookupSymbol<LLVM::GlobalOp>(name);
  OpBuilder builder(global);
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
  LLVM::GlobalOp::create(builder, global.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::Internal, name,
                         builder.getStringAttr(bytes), /*alignment=*/16);
  global.erase();
}

/// Makes all that points to the declared global `name` null.
static void drop(ModuleOp module, StringRef name) {
  module.walk([&](LLVM::AddressOfOp address) {
    if (address.getGlobalName() != name)
      return;
    OpBuilder builder(address);
    Value null =
        LLVM::ZeroOp::create(builder, address.getLoc(), address.getType());
    address.replaceAllUsesWith(null);
    address.erase();
  });
  module.lookupSymbol(name)->erase();
}

llvm::Error CudaTarget::serializeKernels(ModuleOp module) {
  auto ptx = createPtx(module);
  if (!ptx)
    return ptx.takeError();
  if (Operation *device = module.lookupSymbol(kCudaModule))
    device->erase();
  // Without launches nobody names it.
  if (!module.lookupSymbol(kPtxGlobal))
    return llvm::Error::success();
  define(module, kPtxGlobal, *ptx + '\0');
  note = ("cuda: PTX for " + kPtxProcessor + " and later cards, ").str();
  const std::string ptxas = findPtxas();
  const std::string tool = ptxas.empty() ? findNvJitLink() : ptxas;
  std::string why = "neither ptxas nor libnvJitLink was found";
  if (!tool.empty()) {
    static_assert(kCubinCapability >= ::fsdp::rt::dependentLaunchCapability);
    const std::string text = ::fsdp::rt::withDependentLaunch(*ptx);
    auto cubin = ptxas.empty() ? linkPtx(tool, text, kCubinProcessor)
                               : assemblePtx(tool, text, kCubinProcessor);
    if (cubin) {
      define(module, kCubinGlobal, *cubin);
      note += ("machine code for " + kCubinProcessor + " by " + tool).str();
      return llvm::Error::success();
    }
    why = tool + ": " + llvm::toString(cubin.takeError());
  }
  drop(module, kCubinGlobal);
  note += "which the driver compiles when a program is loaded (" + why + ")";
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Target>>
mlir::fsdp::createCudaTarget(const TargetOptions &options) {
  return std::make_unique<CudaTarget>(options.tf32, options.tuning,
                                      options.math.value_or(MathMode::Fast));
}
