//===- ModuleCalls.cpp - Calls about modules, functions and launches ------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Graph.h"
#include "driver/Platform.h"

#include <cstring>

using namespace fsdp::emulator;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// The log that an option of cuModuleLoadDataEx gives room for.
static void writeLog(unsigned count, const int *options, void **values,
                     const std::string &text) {
  char *log = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == cuda::JitErrorLog)
      log = static_cast<char *>(values[i]);
    if (options[i] == cuda::JitErrorLogBytes)
      bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
  }
  if (!log || bytes == 0)
    return;
  std::strncpy(log, text.c_str(), bytes - 1);
  log[bytes - 1] = '\0';
}

static void checkOptions(const char *call, unsigned count, const int *options) {
  for (unsigned i = 0; i < count; ++i)
    switch (options[i]) {
    case cuda::JitMaxRegisters:
    case cuda::JitInfoLog:
    case cuda::JitInfoLogBytes:
    case cuda::JitErrorLog:
    case cuda::JitErrorLogBytes:
    case cuda::JitOptimizationLevel:
    case cuda::JitDebug:
    case cuda::JitVerbose:
    case cuda::JitLineInfo:
      break;
    default:
      failUnmodeled(call, "JIT option " + std::to_string(options[i]));
    }
}

static std::shared_ptr<ModuleObject>
loadModule(Device &device, const void *image, unsigned optionCount,
           const int *options, void **values) {
  expectPointer(image, "image");
  expectSafe();
  const auto *text = static_cast<const char *>(image);
  constexpr unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba};
  if (std::memcmp(text, "\177ELF", 4) == 0 || std::memcmp(text, fatbin, 4) == 0)
    throw Refusal(cuda::NoBinaryForGpu,
                  "expected PTX, got machine code; programs that have both "
                  "load PTX where FSDP_EMULATOR_CAPABILITY is another one than "
                  "the code's");
  try {
    auto object = std::make_shared<ModuleObject>();
    object->device = &device;
    object->module =
        std::make_unique<LoadedModule>(text, device.settings, device.memory());
    device.addModule(object->module.get());
    return object;
  } catch (const LoadError &error) {
    writeLog(optionCount, options, values, error.what());
    throw Refusal(cuda::InvalidPtx, error.what());
  } catch (const ModuleRefusal &refusal) {
    writeLog(optionCount, options, values, refusal.what());
    throw Refusal(refusal.code, refusal.what());
  }
}

template <typename Handle>
static Handle insertFunction(const std::shared_ptr<ModuleObject> &module,
                             const char *name) {
  expectPointer(name, "name");
  LoadedKernel *kernel = module->module->findKernel(name);
  if (!kernel)
    throw Refusal(cuda::NotFound, "expected a kernel of the module, got '" +
                                      std::string(name) + "'");
  auto function = std::make_shared<FunctionObject>();
  function->module = module;
  function->kernel = kernel;
  return Platform::get().functions.insert<Handle>(function);
}

FSDP_EMULATOR_API cuModuleLoadDataEx(cuda::Module *module, const void *image,
                                     unsigned optionCount, int *options,
                                     void **values) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(module, "module");
    checkOptions("cuModuleLoadDataEx", optionCount, options);
    *module = Platform::get().modules.insert<cuda::Module>(
        loadModule(device, image, optionCount, options, values));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuModuleLoadData(cuda::Module *module, const void *image) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(module, "module");
    *module = Platform::get().modules.insert<cuda::Module>(
        loadModule(device, image, 0, nullptr, nullptr));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuModuleUnload(cuda::Module module) {
  return runOnDevice(__func__, [&](Device &device) {
    // Launches that are waiting need it.
    expectSafe();
    device.synchronizeAll();
    Platform::get().modules.remove(module)->isUnloaded = true;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuModuleGetFunction(cuda::Function *function,
                                      cuda::Module module, const char *name) {
  return runOnDevice(__func__, [&](Device &) {
    expectPointer(function, "function");
    *function = insertFunction<cuda::Function>(
        Platform::get().modules.find(module), name);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuModuleGetGlobal_v2(cuda::DevicePointer *pointer,
                                       size_t *bytes, cuda::Module module,
                                       const char *name) {
  return runOnDevice(__func__, [&](Device &) {
    expectPointer(name, "name");
    uint64_t address = 0, size = 0;
    if (!Platform::get().modules.find(module)->module->findVariable(
            name, address, size))
      throw Refusal(cuda::NotFound, "expected a variable of the module, got '" +
                                        std::string(name) + "'");
    if (pointer)
      *pointer = address;
    if (bytes)
      *bytes = size;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuLibraryLoadData(cuda::Library *library, const void *image,
                                    int *options, void **values,
                                    unsigned optionCount, int *, void **,
                                    unsigned libraryOptionCount) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(library, "library");
    checkOptions("cuLibraryLoadData", optionCount, options);
    if (libraryOptionCount)
      failUnmodeled("cuLibraryLoadData", "library options");
    *library = Platform::get().modules.insert<cuda::Library>(
        loadModule(device, image, optionCount, options, values));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuLibraryGetKernel(cuda::Kernel *kernel,
                                     cuda::Library library, const char *name) {
  return runOnDevice(__func__, [&](Device &) {
    expectPointer(kernel, "kernel");
    *kernel = insertFunction<cuda::Kernel>(
        Platform::get().modules.find(library), name);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuKernelGetFunction(cuda::Function *function,
                                      cuda::Kernel kernel) {
  return runOnDevice(__func__, [&](Device &) {
    expectPointer(function, "function");
    Platform::get().functions.find(kernel);
    *function = reinterpret_cast<cuda::Function>(kernel);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuLibraryUnload(cuda::Library library) {
  return runOnDevice(__func__, [&](Device &device) {
    expectSafe();
    device.synchronizeAll();
    Platform::get().modules.remove(library)->isUnloaded = true;
    return cuda::Success;
  });
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Of a block: without asking, and at most.
static constexpr uint32_t sharedBytes = 49152, sharedBytesOptIn = 232448;

FSDP_EMULATOR_API cuFuncGetAttribute(int *value, int attribute,
                                     cuda::Function handle) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(value, "value");
    auto function = Platform::get().functions.find(handle);
    const LoadedKernel &kernel = *function->kernel;
    switch (attribute) {
    case cuda::FunctionMaxThreads:
      *value = static_cast<int>(kernel.maxThreads());
      break;
    case cuda::FunctionSharedBytes:
      *value = static_cast<int>(kernel.kernel.staticSharedBytes);
      break;
    case cuda::FunctionConstantBytes:
      *value = 0;
      break;
    case cuda::FunctionLocalBytes:
      *value = static_cast<int>(kernel.kernel.localBytes);
      break;
    case cuda::FunctionRegisters:
      // The emulator does not allocate them.
      *value = 32;
      break;
    case cuda::FunctionPtxVersion:
      *value = static_cast<int>(kernel.target);
      break;
    case cuda::FunctionBinaryVersion:
      *value = static_cast<int>(device.settings.capabilityMajor * 10 +
                                device.settings.capabilityMinor);
      break;
    case cuda::FunctionMaxDynamicShared:
      *value =
          static_cast<int>(kernel.maxDynamicShared
                               ? kernel.maxDynamicShared
                               : sharedBytes - kernel.kernel.staticSharedBytes);
      break;
    default:
      failUnmodeled("cuFuncGetAttribute",
                    "attribute " + std::to_string(attribute));
    }
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuFuncSetAttribute(cuda::Function handle, int attribute,
                                     int value) {
  return runOnDevice(__func__, [&](Device &) {
    auto function = Platform::get().functions.find(handle);
    LoadedKernel &kernel = *function->kernel;
    if (attribute == cuda::FunctionCarveout)
      return cuda::Success;
    if (attribute != cuda::FunctionMaxDynamicShared)
      failUnmodeled("cuFuncSetAttribute",
                    "attribute " + std::to_string(attribute));
    uint32_t most = sharedBytesOptIn - kernel.kernel.staticSharedBytes;
    if (value < 0 || static_cast<uint32_t>(value) > most)
      throw Refusal(cuda::InvalidValue,
                    "kernel " + kernel.kernel.name + ": expected at most " +
                        std::to_string(most) +
                        " bytes of dynamic shared memory, got " +
                        std::to_string(value));
    kernel.maxDynamicShared = static_cast<uint32_t>(value);
    return cuda::Success;
  });
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static void checkDimension(const std::string &kernel, const char *what,
                           const Dimensions &got, const Dimensions &most) {
  for (unsigned axis = 0; axis < 3; ++axis)
    if (got[axis] == 0 || got[axis] > most[axis])
      throw Refusal(cuda::InvalidValue,
                    kernel + "expected a " + what + " from (1,1,1) to " +
                        describe(most) + ", got " + describe(got));
}

/// What a device would refuse of a launch.
static void checkLaunch(const LoadedKernel &loaded, const Launch &launch) {
  const Kernel &kernel = loaded.kernel;
  std::string name = "kernel " + kernel.name + ": ";
  checkDimension(name, "grid", launch.grid, {0x7fffffff, 65535, 65535});
  checkDimension(name, "block", launch.block, {1024, 1024, 64});
  if (kernel.requiredThreads[0] && kernel.requiredThreads != launch.block)
    throw Refusal(cuda::InvalidValue, name + "expected a block of " +
                                          describe(kernel.requiredThreads) +
                                          ", as .reqntid says, got " +
                                          describe(launch.block));
  if (launch.threads() > loaded.maxThreads())
    throw Refusal(cuda::InvalidValue, name + "expected at most " +
                                          std::to_string(loaded.maxThreads()) +
                                          " threads in a block, got " +
                                          std::to_string(launch.threads()));
  uint32_t most = loaded.maxDynamicShared
                      ? loaded.maxDynamicShared
                      : sharedBytes - kernel.staticSharedBytes;
  if (launch.dynamicSharedBytes > most)
    throw Refusal(cuda::InvalidValue,
                  name + "expected at most " + std::to_string(most) +
                      " bytes of dynamic shared memory, which "
                      "cuFuncSetAttribute may raise, got " +
                      std::to_string(launch.dynamicSharedBytes));
}

/// From an array of pointers, or from a buffer in `extra`.
static std::vector<uint8_t> copyParameters(const Kernel &kernel, void **values,
                                           void **extra) {
  std::vector<uint8_t> bytes(kernel.parameterBytes);
  std::string name = "kernel " + kernel.name + ": ";
  if (extra) {
    const void *buffer = nullptr;
    size_t size = 0;
    // CU_LAUNCH_PARAM_END, _BUFFER_POINTER and _BUFFER_SIZE.
    for (; *extra; extra += 2) {
      auto kind = reinterpret_cast<uintptr_t>(*extra);
      if (kind == 1)
        buffer = extra[1];
      else if (kind == 2)
        size = *static_cast<size_t *>(extra[1]);
      else
        failUnmodeled("cuLaunchKernel", "extra " + std::to_string(kind));
    }
    if (!buffer || size != bytes.size())
      throw Refusal(cuda::InvalidValue,
                    name + "expected " + std::to_string(bytes.size()) +
                        " bytes of parameters, got " + std::to_string(size));
    std::memcpy(bytes.data(), buffer, size);
    return bytes;
  }
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (!values || !values[i])
      throw Refusal(cuda::InvalidValue,
                    name + "expected " +
                        std::to_string(kernel.parameters.size()) +
                        " parameters, got no number " + std::to_string(i));
    std::memcpy(bytes.data() + kernel.parameters[i].offset, values[i],
                kernel.parameters[i].bytes);
  }
  return bytes;
}

static void launchKernel(Device &device, cuda::Function handle, Launch launch,
                         cuda::Stream streamHandle, void **values,
                         void **extra) {
  auto function = Platform::get().functions.find(handle);
  StreamPtr stream = findStream(device, streamHandle);
  if (function->module->device != &device)
    throw Refusal(cuda::InvalidHandle,
                  "expected a function of device " +
                      std::to_string(device.ordinal) + ", got one of " +
                      std::to_string(function->module->device->ordinal));
  launch.kernel = &function->kernel->kernel;
  checkLaunch(*function->kernel, launch);
  launch.parameters = copyParameters(*launch.kernel, values, extra);
  auto run = [&device, function, launch](OperationId id) mutable {
    if (function->module->isUnloaded)
      throw DeviceFault(FaultCode::LaunchFailed,
                        launch.kernel->name +
                            ": expected a module that is loaded, got one that "
                            "was unloaded behind the capture");
    launch.operation = id;
    execute(launch, device.memory(), device.settings.checks,
            device.settings.seed + id, function->kernel->statistics);
    return true;
  };
  issueOrCapture(device, *stream, {launch.kernel->name, run});
  stream->isBehindKernel = true;
}

/// Programmatic stream serialization: whether the kernel may begin before the
/// one before it in its stream has ended.
static bool readDependence(Device &device, const cuda::LaunchConfig &config) {
  bool isDependent = false;
  for (unsigned i = 0; i < config.attributeCount; ++i) {
    const cuda::LaunchAttribute &attribute = config.attributes[i];
    if (attribute.id != cuda::attributeProgrammaticStreamSerialization)
      failUnmodeled("cuLaunchKernelEx",
                    "attribute " + std::to_string(attribute.id));
    isDependent = attribute.value.programmaticStreamSerialization != 0;
  }
  if (!isDependent)
    return false;
  const Settings &settings = device.settings;
  if (settings.capabilityMajor < 9)
    throw Refusal(cuda::NotSupported,
                  "expected a device of sm_90 or later for programmatic stream "
                  "serialization");
  Stream &stream = *findStream(device, config.stream);
  // Edges of graphs have types from CUDA 12.3 on.
  if (stream.capture && settings.driverVersion < 12030)
    invalidate(*stream.capture, cuda::StreamCaptureUnsupported,
               "expected a driver of CUDA 12.3 or later for programmatic "
               "stream serialization in a capture");
  if (!stream.isBehindKernel)
    failUnmodeled(
        "cuLaunchKernelEx",
        "programmatic stream serialization where the call before gave "
        "the stream no kernel");
  return true;
}

FSDP_EMULATOR_API cuLaunchKernel(cuda::Function function, unsigned gridX,
                                 unsigned gridY, unsigned gridZ,
                                 unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes,
                                 cuda::Stream stream, void **parameters,
                                 void **extra) {
  return runOnDevice(__func__, [&](Device &device) {
    Launch launch;
    launch.grid = {gridX, gridY, gridZ};
    launch.block = {blockX, blockY, blockZ};
    launch.dynamicSharedBytes = sharedBytes;
    launchKernel(device, function, launch, stream, parameters, extra);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuLaunchKernelEx(const cuda::LaunchConfig *config,
                                   cuda::Function function, void **parameters,
                                   void **extra) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(config, "config");
    Launch launch;
    launch.isDependent = readDependence(device, *config);
    launch.grid = {config->gridX, config->gridY, config->gridZ};
    launch.block = {config->blockX, config->blockY, config->blockZ};
    launch.dynamicSharedBytes = config->sharedBytes;
    launchKernel(device, function, launch, config->stream, parameters, extra);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuLaunchHostFunc(cuda::Stream handle,
                                   cuda::HostFunction function, void *data) {
  return runOnDevice(__func__, [&](Device &device) {
    if (!function)
      throw Refusal(cuda::InvalidValue, "expected a function, got null");
    StreamPtr stream = findStream(device, handle);
    auto run = [function, data](OperationId) {
      isInHostFunction() = true;
      function(data);
      isInHostFunction() = false;
      return true;
    };
    issueOrCapture(device, *stream, {"a function of the host", run});
    return cuda::Success;
  });
}
