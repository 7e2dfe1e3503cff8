//===- CodeGen.cpp - Objects for the processor at hand --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CPU/CodeGen.h"
#include "fsdp/Target/MachineCode.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace mlir;
using namespace mlir::fsdp;

/// The levels of the x86-64 psABI, best first.
static constexpr llvm::StringLiteral kLevels[] = {"x86-64-v4", "x86-64-v3",
                                                  "x86-64-v2", "x86-64"};

static std::vector<std::string> getFeatures(StringRef cpu) {
  SmallVector<StringRef> features;
  llvm::X86::getFeaturesForCPU(cpu, features);
  std::vector<std::string> names;
  for (StringRef feature : features)
    names.push_back(feature.str());
  llvm::sort(names);
  return names;
}

llvm::Expected<TargetCpu> TargetCpu::parse(StringRef march) {
  TargetCpu cpu;
  if (march != "native") {
    if (llvm::X86::parseArchX86(march, /*Only64Bit=*/true) ==
        llvm::X86::CK_None) {
      SmallVector<StringRef> known;
      llvm::X86::fillValidCPUArchList(known, /*Only64Bit=*/true);
      return llvm::createStringError(
          "expected native or a processor known to LLVM, got '" + march +
          "'; there are " + llvm::join(known, ", "));
    }
    cpu.name = cpu.tune = march.str();
    cpu.features = getFeatures(march);
    return cpu;
  }
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  cpu.tune = llvm::sys::getHostCPUName().str();
  for (StringRef level : kLevels) {
    std::vector<std::string> features = getFeatures(level);
    // What every x86-64 has is not among those the host reports.
    bool complete = llvm::all_of(features, [&](const std::string &feature) {
      auto it = host.find(feature);
      return it == host.end() || it->second;
    });
    if (!complete)
      continue;
    cpu.name = level.str();
    cpu.features = std::move(features);
    // Conversions from and to bf16 in one instruction.
    if (host.lookup("avx512bf16"))
      cpu.features.push_back("avx512bf16");
    return cpu;
  }
  return llvm::createStringError("expected an x86-64 processor");
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
fsdp::createTargetMachine(const TargetCpu &cpu) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::string features;
  for (const std::string &feature : cpu.features)
    features += (features.empty() ? "+" : ",+") + feature;
  return createMachine(llvm::Triple(llvm::sys::getDefaultTargetTriple()),
                       cpu.name, features);
}

llvm::Expected<std::unique_ptr<llvm::Module>>
fsdp::translateToLLVM(ModuleOp module, llvm::LLVMContext &context,
                      llvm::TargetMachine &machine, const TargetCpu &cpu) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(module, context, "fsdp_program");
  if (!llvmModule)
    return llvm::createStringError(
        "expected a module that LLVM IR can express");
  llvmModule->setTargetTriple(machine.getTargetTriple());
  llvmModule->setDataLayout(machine.createDataLayout());
  std::string features = machine.getTargetFeatureString().str();
  for (llvm::Function &function : *llvmModule) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu.name);
    function.addFnAttr("tune-cpu", cpu.tune);
    function.addFnAttr("target-features", features);
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  optimize(*llvmModule, machine);
  return llvmModule;
}

llvm::Error fsdp::emitObject(llvm::Module &module, llvm::TargetMachine &machine,
                             llvm::raw_pwrite_stream &os) {
  return emitCode(module, machine, llvm::CodeGenFileType::ObjectFile, os);
}
