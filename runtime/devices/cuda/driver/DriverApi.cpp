//===- DriverApi.cpp - The CUDA driver, opened at run time ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/DriverApi.h"

#include "devices/cuda/driver/Library.h"

namespace fsdp::rt {

namespace {

std::string describeDriver(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

} // namespace

Result<DriverApi> DriverApi::open(const std::vector<std::string> &directories) {
  Result<Library> library =
      Library::open("the CUDA driver", {"libcuda.so.1"}, directories);
  if (!library.isOk())
    return library.status();
  DriverApi api;
#define FSDP_RT_CUDA_FIND(name, symbol, parameters)                            \
  if (Status s = library->find(#symbol, api.name))                             \
    return s;
  FSDP_RT_CUDA_FUNCTIONS(FSDP_RT_CUDA_FIND)
#undef FSDP_RT_CUDA_FIND

  const std::string &path = library->path();
  if (Status s =
          api.check(api.driverGetVersion(&api.version), "cuDriverGetVersion"))
    return s.withContext(path);
  if (api.version < leastVersion)
    return Status::failed(path + ": expected a driver of CUDA " +
                          describeDriver(leastVersion) + " or later, got " +
                          describeDriver(api.version));
  if (Status s = api.check(api.init(0), "cuInit"))
    return s.withContext(path);
  if (Status s =
          api.check(api.deviceGetCount(&api.deviceCount), "cuDeviceGetCount"))
    return s.withContext(path);
  if (api.deviceCount < 1)
    return Status::failed(path + ": expected a CUDA device, got none");
  return api;
}

Result<const DriverApi *> DriverApi::ofProcess() {
  static const Result<DriverApi> opened = open(cudaLibraryDirectories());
  if (!opened.isOk())
    return opened.status();
  return &*opened;
}

std::string DriverApi::describe() const {
  return "a driver of CUDA " + describeDriver(version);
}

Status DriverApi::check(cu::Error error, const char *call) const {
  if (error == cu::success)
    return Status::ok();
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(error, &name) != cu::success || !name)
    return Status::failed(std::string(call) + ": error " +
                          std::to_string(error));
  std::string message = std::string(call) + ": " + name;
  if (getErrorString(error, &text) == cu::success && text)
    message += std::string(" (") + text + ")";
  return Status::failed(message);
}

} // namespace fsdp::rt
