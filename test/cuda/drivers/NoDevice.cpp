//===- NoDevice.cpp - A libcuda.so.1 without a device ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What cuDNN needs of a driver to build plans for a device that is described to
// it: code can be loaded, and that is all. The driver cannot be initialised, so
// that the CUDA runtime inside cuDNN asks no more of it.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int unknownDriver = 34; // CUDA_ERROR_STUB_LIBRARY
int object;

int set(void **made) {
  *made = &object;
  return 0;
}
int succeed() { return 0; }

} // namespace

API int cuInit(unsigned) { return unknownDriver; }
API int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
API int cuLibraryLoadData(void **library, const void *, void *, void *,
                          unsigned, void *, void *, unsigned) {
  return set(library);
}
API int cuLibraryGetKernel(void **kernel, void *, const char *) {
  return set(kernel);
}
API int cuLibraryGetModule(void **module, void *) { return set(module); }
API int cuKernelGetFunction(void **function, void *) { return set(function); }
API int cuModuleLoadData(void **module, const void *) { return set(module); }
API int cuModuleGetFunction(void **function, void *, const char *) {
  return set(function);
}
API int cuKernelGetAttribute(int *value, int, void *, int) {
  *value = 0;
  return 0;
}
API int cuFuncGetAttribute(int *value, int, void *) {
  *value = 0;
  return 0;
}
API int cuGetErrorString(int, const char **text) {
  *text = "there is no device";
  return 0;
}
API int cuGetErrorName(int, const char **text) {
  *text = "CUDA_ERROR_STUB_LIBRARY";
  return 0;
}

#define FUNCTIONS(X)                                                           \
  X(cuLibraryUnload)                                                           \
  X(cuLibraryLoadFromFile)                                                     \
  X(cuKernelSetAttribute)                                                      \
  X(cuFuncSetAttribute)                                                        \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetLimit)                                                             \
  X(cuCtxPopCurrent)                                                           \
  X(cuCtxPushCurrent)                                                          \
  X(cuStreamGetCtx)                                                            \
  X(cuLinkCreate)                                                              \
  X(cuLinkAddData)                                                             \
  X(cuLinkComplete)                                                            \
  X(cuLinkDestroy)                                                             \
  X(cuLaunchKernel)                                                            \
  X(cuLaunchKernelEx)                                                          \
  X(cuLaunchCooperativeKernel)                                                 \
  X(cuDeviceGetCount)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuOccupancyMaxPotentialClusterSize)
#define DEFINE(name)                                                           \
  API int name() { return succeed(); }
FUNCTIONS(DEFINE)
#undef DEFINE

API int cuGetProcAddress_v2(const char *name, void **found, int, uint64_t,
                            int *result) {
  struct {
    const char *name;
    void *function;
  } const own[] = {
#define ENTRY(name) {#name, reinterpret_cast<void *>(&name)},
      FUNCTIONS(ENTRY)
#undef ENTRY
#define ENTRY(name) {#name, reinterpret_cast<void *>(&name)}
          ENTRY(cuInit),
      ENTRY(cuDriverGetVersion),
      ENTRY(cuLibraryLoadData),
      ENTRY(cuLibraryGetKernel),
      ENTRY(cuLibraryGetModule),
      ENTRY(cuKernelGetFunction),
      ENTRY(cuModuleLoadData),
      ENTRY(cuModuleGetFunction),
      ENTRY(cuKernelGetAttribute),
      ENTRY(cuFuncGetAttribute),
      ENTRY(cuGetErrorString),
      ENTRY(cuGetErrorName),
  };
  *found = reinterpret_cast<void *>(&succeed);
  for (const auto &entry : own)
    if (std::strcmp(entry.name, name) == 0)
      *found = entry.function;
  if (result)
    *result = 0;
  return 0;
}
