//===- Ptx.cpp - PTX of kernels by LLVM's NVPTX ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"
#include "fsdp/Target/CUDA/Libclc.h"
#include "fsdp/Target/MachineCode.h"

#include "fsdp-rt/dependent-launch.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/Internalize.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace rt = ::fsdp::rt;

extern "C" void LLVMInitializeNVPTXTarget();
extern "C" void LLVMInitializeNVPTXTargetInfo();
extern "C" void LLVMInitializeNVPTXTargetMC();
extern "C" void LLVMInitializeNVPTXAsmPrinter();

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createPtxMachine() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  return createMachine(llvm::Triple("nvptx64-nvidia-cuda"), kPtxProcessor,
                       ("+" + kPtxFeature).str());
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

/// libclc lets some of its divisions be approximated (flag afn, !fpmath), as
/// OpenCL allows. Without, they are rounded as IEEE 754 says.
static void roundDivisions(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      instruction.setMetadata(llvm::LLVMContext::MD_fpmath, nullptr);
      if (llvm::isa<llvm::FPMathOperator>(instruction))
        instruction.setHasApproxFunc(false);
    }
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

/// What is not a kernel may be inlined and dropped.
static void hideFunctions(llvm::Module &module) {
  llvm::internalizeModule(module, [](const llvm::GlobalValue &value) {
    auto *function = llvm::dyn_cast<llvm::Function>(&value);
    return function &&
           function->getCallingConv() == llvm::CallingConv::PTX_Kernel;
  });
}

/// Inserts `line`, which all memory accesses stay on their side of.
static void insertLine(llvm::Instruction *before, StringRef line) {
  llvm::LLVMContext &context = before->getContext();
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  auto *code = llvm::InlineAsm::get(type, line, "~{memory}",
                                    /*hasSideEffects=*/true);
  llvm::CallInst::Create(type, code, "", before->getIterator());
}

/// Kernels let their dependents begin as soon as all of their blocks have, and
/// wait in their first block, which all threads execute, after what needs no
/// memory: arithmetic on indices.
static void addDependentLaunch(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.getCallingConv() != llvm::CallingConv::PTX_Kernel ||
        function.isDeclaration())
      continue;
    llvm::BasicBlock &entry = function.getEntryBlock();
    llvm::Instruction *first = &*entry.getFirstNonPHIOrDbgOrAlloca();
    llvm::Instruction *access = first;
    while (!access->isTerminator() && !access->mayReadOrWriteMemory())
      access = access->getNextNode();
    insertLine(access, rt::waitForGridLine);
    insertLine(first == access ? access->getPrevNode() : first,
               rt::launchDependentsLine);
  }
}

llvm::Expected<std::string> mlir::fsdp::createPtx(ModuleOp module) {
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
  roundDivisions(*llvmModule);
  declareDynamicShared(*llvmModule);
  hideFunctions(*llvmModule);
  optimize(*llvmModule, **machine);
  addDependentLaunch(*llvmModule);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  if (llvm::Error error = emitCode(*llvmModule, **machine,
                                   llvm::CodeGenFileType::AssemblyFile, os))
    return std::move(error);
  return text.str().str();
}
