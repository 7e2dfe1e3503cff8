//===- NvJitLink.cpp - Machine code by NVIDIA's library -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NvJitLinkApi.h"
#include "fsdp/Target/CUDA/CudaTarget.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace mlir;
using namespace mlir::fsdp;

static constexpr StringLiteral kNames[] = {"libnvJitLink.so.13",
                                           "libnvJitLink.so.12"};

/// The folders of `prefix`/lib/python3.N/site-packages/nvidia in which wheels
/// have libraries.
static void addWheels(StringRef prefix, SmallVectorImpl<std::string> &folders) {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator python(prefix + "/lib", error), end;
       !error && python != end; python.increment(error)) {
    if (!llvm::sys::path::filename(python->path()).starts_with("python3"))
      continue;
    std::error_code inner;
    for (llvm::sys::fs::directory_iterator wheel(
             python->path() + "/site-packages/nvidia", inner);
         !inner && wheel != end; wheel.increment(inner))
      folders.push_back(wheel->path() + "/lib");
  }
}

std::string fsdp::findNvJitLink() {
  SmallVector<std::string> folders;
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/lib64");
  else
    folders.push_back("/usr/local/cuda/lib64");
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char *prefix = std::getenv(variable))
      addWheels(prefix, folders);
  if (auto python = llvm::sys::findProgramByName("python3"))
    addWheels(
        llvm::sys::path::parent_path(llvm::sys::path::parent_path(*python)),
        folders);
  for (StringRef folder : folders)
    for (StringRef name : kNames)
      if (std::string path = (folder + "/" + name).str();
          llvm::sys::fs::exists(path))
        return path;
  for (StringRef name : kNames)
    if (void *handle = dlopen(name.data(), RTLD_NOW | RTLD_LOCAL)) {
      dlclose(handle);
      return name.str();
    }
  return "";
}

/// The library stays open: its code may have handlers for the process's end.
static llvm::Expected<nvjitlink::Api> openLibrary(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return llvm::createStringError(dlerror());
  nvjitlink::Api api;
#define FSDP_NVJITLINK_FIND(name, symbol, parameters)                          \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #symbol));    \
  if (!api.name)                                                               \
    return llvm::createStringError("expected a function " #symbol              \
                                   ", found none");
  FSDP_NVJITLINK_FUNCTIONS(FSDP_NVJITLINK_FIND)
#undef FSDP_NVJITLINK_FIND
  return api;
}

llvm::Expected<std::string> fsdp::linkPtx(const std::string &library,
                                          StringRef ptx, StringRef processor) {
  auto api = openLibrary(library);
  if (!api)
    return api.takeError();
  nvjitlink::Handle handle = nullptr;
  std::string arch = ("-arch=" + processor).str();
  const char *options[] = {arch.c_str()};
  if (nvjitlink::Error error = api->create(&handle, 1, options))
    return llvm::createStringError("expected it to make code for " + processor +
                                   ", got error " + llvm::Twine(error));
  llvm::scope_exit end([&] { (void)api->destroy(&handle); });
  // The text ends with a zero, as that of a compiler does.
  std::string text = ptx.str();
  size_t bytes = 0;
  std::string cubin;
  nvjitlink::Error error =
      api->addData(handle, nvjitlink::inputPtx, text.c_str(), text.size() + 1,
                   "kernels.ptx");
  if (!error)
    error = api->complete(handle);
  if (!error)
    error = api->getCubinSize(handle, &bytes);
  if (!error) {
    cubin.resize(bytes);
    error = api->getCubin(handle, cubin.data());
  }
  if (!error)
    return cubin;
  std::string log;
  if (!api->getErrorLogSize(handle, &bytes) && bytes > 0) {
    log.resize(bytes);
    if (api->getErrorLog(handle, log.data()))
      log.clear();
  }
  StringRef line = StringRef(log.c_str()).split('\n').first.trim();
  return llvm::createStringError(
      "expected it to take the kernels, got " +
      (line.empty() ? "error " + llvm::Twine(error).str() : line.str()));
}
