//===- MpiLibrary.cpp - Open MPI, opened at run time ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiLibrary.h"

#include <dlfcn.h>

namespace fsdp::rt {

namespace {

constexpr const char *libraryFile = "libmpi.so.40";

template <typename T>
Status find(void *library, const char *name, T &symbol) {
  symbol = reinterpret_cast<T>(dlsym(library, name));
  if (symbol)
    return Status::ok();
  return Status::failed(std::string(libraryFile) +
                        ": expected Open MPI 4 with a symbol " + name +
                        ", found none");
}

} // namespace

Result<MpiLibrary> MpiLibrary::open() {
  // Open MPI's plugins look for its symbols in the global scope.
  void *handle = dlopen(libraryFile, RTLD_NOW | RTLD_GLOBAL);
  if (!handle) {
    const char *why = dlerror();
    return Status::failed(std::string("cannot open Open MPI: ") +
                          (why ? why : libraryFile));
  }
  MpiLibrary library;
#define X(name)                                                                \
  if (Status s = find(handle, "MPI_" #name, library.name))                     \
    return s;
  FSDP_RT_MPI_FUNCTIONS(X)
#undef X
  if (Status s = find(handle, "ompi_mpi_comm_world", library.world))
    return s;
  if (Status s = find(handle, "ompi_mpi_byte", library.byte))
    return s;
  if (Status s = find(handle, "ompi_mpi_errors_return", library.errorsReturn))
    return s;
  if (Status s = find(handle, "ompi_request_null", library.requestNull))
    return s;
  return library;
}

Status MpiLibrary::failure(const char *call, int error) const {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  Error_string(error, text, &length);
  return Status::failed(std::string(call) + ": " + std::string(text, length));
}

} // namespace fsdp::rt
