//===- Ptx.cpp - PTX of kernels by LLVM's NVPTX ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"
#include "fsdp/Target/CUDA/Libclc.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/Internalize.h"

using namespace mlir;
using namespace mlir::fsdp;

extern "C" void LLVMInitializeNVPTXTarget();
extern "C" void LLVMInitializeNVPTXTargetInfo();
extern "C" void LLVMInitializeNVPTXTargetMC();
extern "C" void LLVMInitializeNVPTXAsmPrinter();

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createPtxMachine() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  llvm::TargetOptions options;
  // Multiplications and additions of different ops are rounded apart, whatever
  // kernel they are in.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, kPtxProcessor, ("+" + kPtxFeature).str(), options,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Adds those functions of libclc that `module` calls.
static llvm::Error linkMath(llvm::Module &module) {
  bool callsOthers = llvm::any_of(module, [](const llvm::Function &function) {
    return function.isDeclaration() && !function.isIntrinsic();
  });
  if (!callsOthers)
    return llvm::Error::success();
  auto math = llvm::getLazyBitcodeModule(
      llvm::MemoryBufferRef(getLibclc(), "libclc"), module.getContext());
  if (!math)
    return math.takeError();
  (*math)->setTargetTriple(module.getTargetTriple());
  (*math)->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(module, std::move(*math),
                                llvm::Linker::LinkOnlyNeeded))
    return llvm::createStringError("expected libclc to link");
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic())
      return llvm::createStringError("expected device code that calls "
                                     "functions of libclc, got a call of " +
                                     function.getName());
  return llvm::Error::success();
}

/// Dynamic shared memory is an array of unknown size in PTX, `.extern`. MLIR
/// makes it an internal one without elements, which would be a byte among the
/// static ones.
static void declareDynamicShared(llvm::Module &module) {
  constexpr unsigned kSharedSpace = 3;
  for (llvm::GlobalVariable &global : module.globals()) {
    auto *array = llvm::dyn_cast<llvm::ArrayType>(global.getValueType());
    if (global.getAddressSpace() != kSharedSpace || !array ||
        array->getNumElements() != 0)
      continue;
    global.setInitializer(nullptr);
    global.setLinkage(llvm::GlobalValue::ExternalLinkage);
  }
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::internalizeModule(module, [](const llvm::GlobalValue &value) {
    auto *function = llvm::dyn_cast<llvm::Function>(&value);
    return function &&
           function->getCallingConv() == llvm::CallingConv::PTX_Kernel;
  });
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

llvm::Expected<std::string> fsdp::createPtx(ModuleOp module) {
  auto device = module.lookupSymbol<gpu::GPUModuleOp>(kCudaModule);
  if (!device)
    return std::string();
  MLIRContext &context = *module.getContext();
  registerBuiltinDialectTranslation(context);
  registerGPUDialectTranslation(context);
  registerLLVMDialectTranslation(context);
  registerNVVMDialectTranslation(context);
  auto machine = createPtxMachine();
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(device, llvmContext, kCudaModule);
  if (!llvmModule)
    return llvm::createStringError("expected kernels that LLVM IR can express");
  llvmModule->setTargetTriple((*machine)->getTargetTriple());
  llvmModule->setDataLayout((*machine)->createDataLayout());
  if (llvm::Error error = linkMath(*llvmModule))
    return std::move(error);
  declareDynamicShared(*llvmModule);
  optimize(*llvmModule, **machine);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, os, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("expected a target that can write PTX");
  passes.run(*llvmModule);
  return text.str().str();
}
