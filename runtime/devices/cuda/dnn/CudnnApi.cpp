//===- CudnnApi.cpp - cuDNN, opened at run time ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/CudnnApi.h"

#include "devices/cuda/driver/Library.h"

#include <algorithm>
#include <cstring>

namespace fsdp::rt {

Result<CudnnApi> CudnnApi::open(const std::vector<std::string> &directories) {
  Result<Library> library = Library::open("cuDNN, which computes attention",
                                          {"libcudnn.so.9"}, directories);
  if (!library.isOk())
    return library.status();
  CudnnApi api;
#define FSDP_RT_CUDNN_FIND(name, symbol, result, parameters)                   \
  if (Status s = library->find(#symbol, api.name))                             \
    return s;
  FSDP_RT_CUDNN_FUNCTIONS(FSDP_RT_CUDNN_FIND)
#undef FSDP_RT_CUDNN_FIND
  return api;
}

Result<const CudnnApi *> CudnnApi::ofProcess() {
  static const Result<CudnnApi> opened = open(cudaWheelDirectories());
  if (!opened.isOk())
    return opened.status();
  return &*opened;
}

Status CudnnApi::check(dnn::Error error, const char *call) const {
  if (error == dnn::success)
    return Status::ok();
  const char *name = getErrorString(error);
  char more[256] = {};
  getLastErrorString(more, sizeof(more));
  std::string text = std::string(call) + ": " +
                     (name ? name : "error " + std::to_string(error));
  std::string why(more, strnlen(more, sizeof(more)));
  why.resize(std::min(why.find_last_not_of(" \n\t") + 1, why.size()));
  return Status::failed(why.empty() ? text : text + " (" + why + ")");
}

std::string CudnnApi::version() const { return describeVersion(getVersion()); }

} // namespace fsdp::rt
