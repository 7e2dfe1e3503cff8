//===- LoadedModule.cpp - Modules and kernels on a device -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/LoadedModule.h"

#include "instructions/KernelBuilder.h"

#include <cstring>

namespace fsdp::emulator {

uint32_t LoadedKernel::maxThreads() const {
  const Dimensions &size =
      kernel.requiredThreads[0] ? kernel.requiredThreads : kernel.maxThreads;
  return size[0] ? size[0] * size[1] * size[2] : 1024;
}

/// The first driver that knows a version of PTX.
static int driverFor(unsigned version) {
  int minor = static_cast<int>(version % 10);
  if (version >= 90)
    return 13000 + 10 * minor;
  if (version < 80)
    return 11000;
  // 12.6 has that of 12.5.
  return 12000 + 10 * (minor > 5 ? minor + 1 : minor);
}

cuda::Result LoadedModule::check(const ModuleSyntax &module,
                                 const Settings &settings,
                                 std::string &message) {
  int driver = driverFor(module.version);
  if (driver > settings.driverVersion) {
    message = "expected PTX that a driver " +
              std::to_string(settings.driverVersion) + " knows, got .version " +
              std::to_string(module.version / 10) + "." +
              std::to_string(module.version % 10);
    return cuda::UnsupportedPtxVersion;
  }
  unsigned capability =
      settings.capabilityMajor * 10 + settings.capabilityMinor;
  bool isExact = module.targetSuffix == 'a';
  bool isFamily = module.targetSuffix == 'f';
  if (module.target > capability || (isExact && module.target != capability) ||
      (isFamily && module.target / 10 != capability / 10)) {
    message = "expected code for sm_" + std::to_string(capability) +
              ", got .target sm_" + std::to_string(module.target) +
              (module.targetSuffix ? std::string(1, module.targetSuffix) : "");
    return cuda::NoBinaryForGpu;
  }
  return cuda::Success;
}

LoadedModule::LoadedModule(std::string source, const Settings &settings,
                           DeviceMemory &memory)
    : module(parseModule(std::move(source))), memory(memory) {
  std::string message;
  if (cuda::Result code = check(*module, settings, message))
    throw ModuleRefusal(code, message);
  placeVariables();
  SymbolTable symbols;
  for (const VariableSyntax &variable : module->variables) {
    auto found = variables.find(variable.name);
    if (found == variables.end())
      continue;
    Symbol symbol;
    symbol.space = variable.space;
    symbol.address = found->second.first;
    symbol.bytes = found->second.second;
    symbols.emplace(variable.name, symbol);
  }
  for (const auto &[name, function] : module->functions) {
    if (!function.isEntry || !function.isDefined)
      continue;
    auto kernel = std::make_unique<LoadedKernel>();
    kernel->target = module->target;
    KernelBuilder(*module, symbols, kernel->kernel).build(function);
    loaded.emplace(name, std::move(kernel));
  }
}

LoadedModule::~LoadedModule() {
  for (const auto &[name, place] : variables)
    memory.unmap(place.first);
}

void LoadedModule::placeVariables() {
  for (const VariableSyntax &variable : module->variables) {
    if (variable.space != Space::Global && variable.space != Space::Constant)
      continue;
    if (variable.isExtern)
      throw LoadError(variable.line,
                      "expected variables that the module defines, got '" +
                          std::string(variable.name) + "'");
    uint64_t bytes = variable.bytes();
    auto allocation = std::make_shared<Allocation>(
        Allocation::Kind::Variable, std::max<uint64_t>(bytes, 1), true);
    variables[variable.name] = {memory.map(allocation), bytes};
  }
  // Values may be addresses of any of them.
  for (const VariableSyntax &variable : module->variables)
    if (auto found = variables.find(variable.name); found != variables.end())
      initialize(variable, memory.find(found->second.first, 1).host);
}

void LoadedModule::initialize(const VariableSyntax &variable,
                              uint8_t *to) const {
  unsigned bytes = bytesOf(variable.type);
  for (const InitialValue &initial : variable.initial) {
    uint64_t value = initial.value;
    if (!initial.symbol.empty()) {
      auto found = variables.find(initial.symbol);
      if (found == variables.end() || bytes != 8)
        throw LoadError(variable.line,
                        "expected the address of a variable, got '" +
                            std::string(initial.symbol) + "'");
      value += found->second.first;
    }
    std::memcpy(to, &value, bytes);
    to += bytes;
  }
}

LoadedKernel *LoadedModule::findKernel(std::string_view name) {
  auto found = loaded.find(std::string(name));
  return found == loaded.end() ? nullptr : found->second.get();
}

bool LoadedModule::findVariable(std::string_view name, uint64_t &address,
                                uint64_t &bytes) const {
  auto found = variables.find(name);
  if (found == variables.end())
    return false;
  address = found->second.first;
  bytes = found->second.second;
  return true;
}

} // namespace fsdp::emulator
