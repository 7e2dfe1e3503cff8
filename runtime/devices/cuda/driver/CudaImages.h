//===- CudaImages.h - Code on a CUDA device ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDAIMAGES_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDAIMAGES_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"
#include "fsdp-rt/abi.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// What a launch needs beside its parameters.
struct CudaKernel {
  cu::Function function = nullptr;
  unsigned grid = 0, block = 0, sharedBytes = 0;
  /// Whether its code waits for the kernel before it in its stream.
  bool waitsForGrid = false;
};

/// Images, each loaded when a kernel first names it.
class CudaImages {
public:
  /// `context` must outlive it.
  explicit CudaImages(const CudaContext &context) : context_(context) {}
  ~CudaImages();
  CudaImages(const CudaImages &) = delete;
  CudaImages &operator=(const CudaImages &) = delete;

  /// Refuses images that are for other devices or that the driver cannot
  /// compile, with its log, and launches that the function or the device cannot
  /// take.
  Result<CudaKernel> find(const fsdp_rt_cuda_kernel_desc &kernel);

  /// For the user to read: which PTX the driver compiled, of images that have
  /// machine code as well.
  const std::vector<std::string> &notes() const { return notes_; }

private:
  Result<cu::Module> load(const fsdp_rt_cuda_image_desc &image);
  /// Of one image, PTX or machine code.
  Result<cu::Module> loadCode(const void *code) const;
  /// Whether the code that this device runs of it does.
  bool waitsForGrid(const fsdp_rt_cuda_image_desc &image) const;
  void tell(const std::string &note);
  Result<cu::Function> look(const fsdp_rt_cuda_kernel_desc &kernel);
  Status checkShape(const fsdp_rt_cuda_kernel_desc &kernel,
                    cu::Function function) const;
  Status grantShared(const fsdp_rt_cuda_kernel_desc &kernel,
                     cu::Function function);

  const CudaContext &context_;
  std::map<const void *, cu::Module> modules_;
  /// By image and name; and bytes of dynamic shared memory beyond the usual:
  /// the most of all its launches.
  std::map<std::pair<const void *, std::string>, cu::Function> functions_;
  std::map<cu::Function, int64_t> granted_;
  std::vector<std::string> notes_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDAIMAGES_H
