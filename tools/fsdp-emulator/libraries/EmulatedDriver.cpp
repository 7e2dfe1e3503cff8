//===- EmulatedDriver.cpp - What doubles of libraries call ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "libraries/EmulatedDriver.h"

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace fsdp::emulator {

namespace {

/// The path of the libcuda.so.1 of this process.
std::string findDriver() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        std::string path = info->dlpi_name ? info->dlpi_name : "";
        if (path.find("libcuda.so.1") != std::string::npos)
          *static_cast<std::string *>(data) = path;
        return 0;
      },
      &found);
  return found;
}

template <typename T>
void find(void *library, const char *name, T &symbol) {
  symbol = reinterpret_cast<T>(dlsym(library, name));
}

} // namespace

const EmulatedDriver *EmulatedDriver::get() {
  static const EmulatedDriver found = [] {
    EmulatedDriver driver = {};
    void *library = dlopen(findDriver().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!library)
      return driver;
    find(library, "fsdpEmulatorIssue", driver.issue);
    find(library, "fsdpEmulatorHostPointer", driver.hostPointer);
    find(library, "fsdpEmulatorDevice", driver.device);
    find(library, "fsdpEmulatorLoadCode", driver.loadCode);
    find(library, "fsdpEmulatorSharing", driver.sharing);
    find(library, "fsdpEmulatorIsAccessible", driver.isAccessible);
    find(library, "cuStreamIsCapturing", driver.isCapturing);
    return driver;
  }();
  bool isThere = found.issue && found.hostPointer && found.device &&
                 found.loadCode && found.sharing && found.isAccessible &&
                 found.isCapturing;
  return isThere ? &found : nullptr;
}

} // namespace fsdp::emulator
