//===- ProcAddress.cpp - cuGetProcAddress ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Platform.h"

#include <dlfcn.h>

using namespace fsdp::emulator;

/// A function of this library; the newest version of it.
static void *findFunction(const std::string &name) {
  Dl_info own;
  static char anchor;
  if (!dladdr(&anchor, &own))
    return nullptr;
  void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  // A program that is linked statically has them itself.
  void *scope = library ? library : RTLD_DEFAULT;
  void *function = nullptr;
  for (const char *version : {"_v3", "_v2", ""}) {
    function = dlsym(scope, (name + version).c_str());
    if (function)
      break;
  }
  if (library)
    dlclose(library);
  return function;
}

FSDP_EMULATOR_API cuGetProcAddress_v2(const char *symbol, void **function,
                                      int version, uint64_t flags,
                                      int *status) {
  return runCall(__func__, [&] {
    expectPointer(symbol, "symbol");
    expectPointer(function, "function");
    if (version > Platform::get().settings.driverVersion)
      throw Refusal(cuda::InvalidValue,
                    "expected a version that the driver has, got " +
                        std::to_string(version));
    // 0 and 1: the legacy stream is the default one.
    if (flags > 1)
      failUnmodeled("cuGetProcAddress", "flags " + std::to_string(flags));
    *function = findFunction(symbol);
    if (status)
      *status = *function ? 0 : 1;
    return *function ? cuda::Success : cuda::NotFound;
  });
}
FSDP_EMULATOR_API cuGetProcAddress(const char *symbol, void **function,
                                   int version, uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
