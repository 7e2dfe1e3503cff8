//===- LoadedModule.h - Modules and kernels on a device -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_LOADEDMODULE_H
#define FSDP_EMULATOR_DRIVER_LOADEDMODULE_H

#include "driver/Settings.h"
#include "execution/Warp.h"

#include <memory>

namespace fsdp::emulator {

/// A kernel of a loaded module, and what is set for its launches.
struct LoadedKernel {
  Kernel kernel;
  unsigned target = 0;
  /// What cuFuncSetAttribute asked for.
  uint32_t maxDynamicShared = 0;
  Statistics statistics;

  uint32_t maxThreads() const;
};

class LoadedModule {
public:
  /// Throws LoadError for what the emulator does not model, in any kernel.
  LoadedModule(std::string source, const Settings &settings,
               DeviceMemory &memory);
  ~LoadedModule();

  /// Whether a device of these settings may run it: Success, or why not.
  static cuda::Result check(const ModuleSyntax &module,
                            const Settings &settings, std::string &message);

  LoadedKernel *findKernel(std::string_view name);
  /// The address and size of a variable; false if there is none.
  bool findVariable(std::string_view name, uint64_t &address,
                    uint64_t &bytes) const;
  const std::map<std::string, std::unique_ptr<LoadedKernel>> &kernels() const {
    return loaded;
  }

private:
  void placeVariables();
  void initialize(const VariableSyntax &variable, uint8_t *to) const;

  std::unique_ptr<ModuleSyntax> module;
  DeviceMemory &memory;
  /// Names point into the module, as all of these do.
  std::map<std::string_view, std::pair<uint64_t, uint64_t>> variables;
  std::map<std::string, std::unique_ptr<LoadedKernel>> loaded;
};

/// What cuModuleLoadData throws beside LoadError.
class ModuleRefusal : public std::runtime_error {
public:
  ModuleRefusal(cuda::Result code, const std::string &message)
      : std::runtime_error(message), code(code) {}

  cuda::Result code;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_DRIVER_LOADEDMODULE_H
