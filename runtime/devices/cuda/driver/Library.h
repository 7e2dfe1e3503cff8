//===- Library.h - Libraries opened at run time -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime is built and linked without CUDA. What it uses of it is declared
// in this directory and looked up when a program needs it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_LIBRARY_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_LIBRARY_H

#include "core/Status.h"

#include <string>
#include <vector>

namespace fsdp::rt {

/// A shared library, open for the rest of the process's life.
class Library {
public:
  /// Opens the first file of one of `names` (sonames, the preferred one first)
  /// in one of `directories`, in their order; else what the system's search
  /// finds. `what` names the library in errors, which say where it was looked
  /// for.
  static Result<Library> open(const std::string &what,
                              const std::vector<std::string> &names,
                              const std::vector<std::string> &directories);

  /// The file, or the soname that the system found.
  const std::string &path() const { return path_; }

  /// Sets `symbol` to the library's function `name`; fails naming it.
  template <typename T>
  Status find(const char *name, T &symbol) const {
    void *found = lookUp(name);
    if (!found)
      return Status::failed(path_ + ": expected a function " + name +
                            ", found none");
    symbol = reinterpret_cast<T>(found);
    return Status::ok();
  }

private:
  void *lookUp(const char *name) const;

  void *handle_ = nullptr;
  std::string path_;
};

/// "13.1.2" for 10000 * 13 + 100 * 1 + 2, as cuBLASLt and NCCL count.
std::string describeVersion(size_t version);

/// The directories of the environment variable FSDP_CUDA_LIBS, between colons.
std::vector<std::string> cudaLibraryDirectories();

/// Those, then the ones where the wheels of a Python environment have
/// NVIDIA's libraries: of $VIRTUAL_ENV, of $CONDA_PREFIX, and of the first
/// python3 on PATH, which is not run.
std::vector<std::string> cudaWheelDirectories();

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_LIBRARY_H
