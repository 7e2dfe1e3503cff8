//===- NcclApi.cpp - NCCL, opened at run time -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/nccl/NcclApi.h"

#include "devices/cuda/driver/Library.h"

namespace fsdp::rt {

namespace {

std::string nameOf(int version) {
  return "NCCL " + describeVersion(static_cast<size_t>(version));
}

} // namespace

std::optional<int> nccl::typeOf(Dtype dtype) {
  switch (dtype) {
  case FSDP_RT_F32:
    return float32;
  case FSDP_RT_F64:
    return float64;
  case FSDP_RT_F16:
    return float16;
  case FSDP_RT_BF16:
    return bfloat16;
  case FSDP_RT_I64:
    return int64;
  case FSDP_RT_I32:
    return int32;
  case FSDP_RT_I8:
    return int8;
  case FSDP_RT_U8:
    return uint8;
  case FSDP_RT_I16:
  case FSDP_RT_BOOL:
    break;
  }
  return std::nullopt;
}

int64_t nccl::sizeOf(int type) {
  switch (type) {
  case int8:
  case uint8:
    return 1;
  case float16:
  case bfloat16:
    return 2;
  case int32:
  case float32:
    return 4;
  }
  return 8;
}

Result<NcclApi> NcclApi::open(const std::vector<std::string> &directories) {
  Result<Library> library = Library::open("NCCL, which ranks communicate by",
                                          {"libnccl.so.2"}, directories);
  if (!library.isOk())
    return library.status();
  NcclApi api;
#define FSDP_RT_NCCL_FIND(name, symbol, result, parameters)                    \
  if (Status s = library->find(#symbol, api.name))                             \
    return s;
  FSDP_RT_NCCL_FUNCTIONS(FSDP_RT_NCCL_FIND)
#undef FSDP_RT_NCCL_FIND
  if (Status s = api.check(api.getVersion(&api.version), "ncclGetVersion"))
    return s.withContext(library->path());
  if (api.version < leastVersion)
    return Status::failed(library->path() + ": expected " +
                          nameOf(leastVersion) + " or later, got " +
                          nameOf(api.version));
  return api;
}

Result<const NcclApi *> NcclApi::ofProcess() {
  static const Result<NcclApi> opened = open(cudaWheelDirectories());
  if (!opened.isOk())
    return opened.status();
  return &*opened;
}

Status NcclApi::check(nccl::Error error, const char *call,
                      nccl::Comm comm) const {
  if (error == nccl::success || error == nccl::inProgress)
    return Status::ok();
  const char *text = getErrorString(error), *last = getLastError(comm);
  return Status::failed(
      std::string(call) + ": " + (text ? text : std::to_string(error)) +
      (last && *last ? " (last error: " + std::string(last) + ")" : ""));
}

std::string NcclApi::describe() const { return nameOf(version); }

} // namespace fsdp::rt
