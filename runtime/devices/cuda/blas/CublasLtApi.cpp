//===- CublasLtApi.cpp - cuBLASLt, opened at run time ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/blas/CublasLtApi.h"

#include "devices/cuda/driver/Library.h"

namespace fsdp::rt {

Result<CublasLtApi>
CublasLtApi::open(const std::vector<std::string> &directories) {
  Result<Library> library =
      Library::open("cuBLASLt, which multiplies matrices",
                    {"libcublasLt.so.13", "libcublasLt.so.12"}, directories);
  if (!library.isOk())
    return library.status();
  CublasLtApi api;
#define FSDP_RT_CUBLASLT_FIND(name, symbol, result, parameters)                \
  if (Status s = library->find(#symbol, api.name))                             \
    return s;
  FSDP_RT_CUBLASLT_FUNCTIONS(FSDP_RT_CUBLASLT_FIND)
#undef FSDP_RT_CUBLASLT_FIND
  return api;
}

Result<const CublasLtApi *> CublasLtApi::ofProcess() {
  static const Result<CublasLtApi> opened = open(cudaWheelDirectories());
  if (!opened.isOk())
    return opened.status();
  return &*opened;
}

Status CublasLtApi::check(lt::Error error, const char *call) const {
  if (error == lt::success)
    return Status::ok();
  const char *name = getStatusName(error), *text = getStatusString(error);
  return Status::failed(std::string(call) + ": " + (name ? name : "error") +
                        " (" + (text ? text : std::to_string(error)) + ")");
}

std::string CublasLtApi::version() const {
  return describeVersion(getVersion());
}

} // namespace fsdp::rt
