//===- CudaImages.cpp - Code on a CUDA device -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaImages.h"

#include "fsdp-rt/dependent-launch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace fsdp::rt {

namespace {

/// What a block gets without being granted more.
constexpr int64_t usualSharedBytes = 48 << 10;

Status refuse(const std::string &expected, int64_t got) {
  return Status::internal("expected " + expected + ", got " +
                          std::to_string(got));
}

} // namespace

CudaImages::~CudaImages() {
  (void)context_.makeCurrent();
  for (const auto &[image, module] : modules_)
    (void)context_.api().moduleUnload(module);
}

Result<cu::Module> CudaImages::load(const fsdp_rt_cuda_image_desc &image) {
  if (auto found = modules_.find(&image); found != modules_.end())
    return found->second;
  if (!image.ptx)
    return Status::internal("expected code for CUDA devices, got null");
  if (image.capability > context_.capability())
    return Status::failed(
        "expected a CUDA device of sm_" + std::to_string(image.capability) +
        " or later, got sm_" + std::to_string(context_.capability()) + ", " +
        context_.describe());
  // Machine code is for one capability; the driver compiles PTX for any later.
  const std::string processor = "sm_" + std::to_string(context_.capability());
  const std::string compiled = "PTX compiled by the driver for " + processor;
  Result<cu::Module> module = Status::failed("");
  if (image.cubin && image.cubin_capability == context_.capability()) {
    module = loadCode(image.cubin);
    if (!module.isOk())
      tell(compiled + ": it refuses the program's machine code (" +
           module.status().message() + ")");
  } else if (image.cubin) {
    tell(compiled + ": the program's machine code is for sm_" +
         std::to_string(image.cubin_capability));
  }
  if (!module.isOk())
    module =
        loadCode(waitsForGrid(image) ? withDependentLaunch(image.ptx).c_str()
                                     : image.ptx);
  if (!module.isOk())
    return module.status().withContext("cannot load code on CUDA " +
                                       context_.describe());
  modules_[&image] = *module;
  return module;
}

bool CudaImages::waitsForGrid(const fsdp_rt_cuda_image_desc &image) const {
  return image.grid_waits != 0 &&
         context_.capability() >= dependentLaunchCapability;
}

/// Once, however many images it is true of.
void CudaImages::tell(const std::string &note) {
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end())
    notes_.push_back(note);
}

Result<cu::Module> CudaImages::loadCode(const void *code) const {
  std::array<char, 16384> log = {};
  int options[] = {cu::jitErrorLog, cu::jitErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  cu::Module module = nullptr;
  cu::Error error =
      context_.api().moduleLoad(&module, code, 2, options, values);
  if (Status s = context_.check(error, "cuModuleLoadDataEx")) {
    std::string text = log.data();
    while (!text.empty() && std::strchr(" \n", text.back()))
      text.pop_back();
    return Status::failed(s.message() +
                          (text.empty() ? "" : "; its log: " + text));
  }
  return module;
}

Status CudaImages::checkShape(const fsdp_rt_cuda_kernel_desc &kernel,
                              cu::Function function) const {
  if (kernel.grid < 0 || kernel.grid > context_.maxGrid())
    return refuse("0 to " + std::to_string(context_.maxGrid()) + " blocks",
                  kernel.grid);
  int maxThreads = 0;
  if (Status s =
          context_.check(context_.api().functionGetAttribute(
                             &maxThreads, cu::functionMaxThreads, function),
                         "cuFuncGetAttribute"))
    return s;
  if (kernel.block < 1 || kernel.block > maxThreads)
    return refuse("1 to " + std::to_string(maxThreads) +
                      " threads of a block, as its registers allow",
                  kernel.block);
  return Status::ok();
}

Status CudaImages::grantShared(const fsdp_rt_cuda_kernel_desc &kernel,
                               cu::Function function) {
  if (kernel.shared_bytes == 0)
    return Status::ok();
  int ownBytes = 0;
  if (Status s =
          context_.check(context_.api().functionGetAttribute(
                             &ownBytes, cu::functionSharedBytes, function),
                         "cuFuncGetAttribute"))
    return s;
  int64_t most = context_.maxSharedBytes() - ownBytes;
  if (kernel.shared_bytes < 0 || kernel.shared_bytes > most)
    return refuse("0 to " + std::to_string(most) +
                      " bytes of a block's shared memory",
                  kernel.shared_bytes);
  int64_t &granted = granted_[function];
  if (kernel.shared_bytes + ownBytes <= usualSharedBytes ||
      kernel.shared_bytes <= granted)
    return Status::ok();
  granted = kernel.shared_bytes;
  return context_.check(context_.api().functionSetAttribute(
                            function, cu::functionMaxDynamicShared,
                            static_cast<int>(kernel.shared_bytes)),
                        "cuFuncSetAttribute");
}

Result<cu::Function> CudaImages::look(const fsdp_rt_cuda_kernel_desc &kernel) {
  auto known = functions_.find({kernel.image, kernel.function});
  if (known != functions_.end())
    return known->second;
  Result<cu::Module> module =
      load(*static_cast<const fsdp_rt_cuda_image_desc *>(kernel.image));
  if (!module.isOk())
    return module.status();
  cu::Function function = nullptr;
  if (Status s = context_.check(
          context_.api().moduleGetFunction(&function, *module, kernel.function),
          "cuModuleGetFunction"))
    return s.withContext(std::string("function '") + kernel.function + "'");
  functions_[{kernel.image, kernel.function}] = function;
  return function;
}

Result<CudaKernel> CudaImages::find(const fsdp_rt_cuda_kernel_desc &kernel) {
  if (!kernel.image || !kernel.function)
    return Status::internal("expected an image and a function of it, got null");
  Result<cu::Function> function = look(kernel);
  if (!function.isOk())
    return function.status();
  Status status = checkShape(kernel, *function);
  if (status.isOk())
    status = grantShared(kernel, *function);
  if (status)
    return status.withContext(std::string("function '") + kernel.function +
                              "'");
  CudaKernel found;
  found.function = *function;
  found.grid = static_cast<unsigned>(kernel.grid);
  found.block = static_cast<unsigned>(kernel.block);
  found.sharedBytes = static_cast<unsigned>(kernel.shared_bytes);
  found.waitsForGrid =
      waitsForGrid(*static_cast<const fsdp_rt_cuda_image_desc *>(kernel.image));
  return found;
}

} // namespace fsdp::rt
