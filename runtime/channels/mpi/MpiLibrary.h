//===- MpiLibrary.h - Open MPI, opened at run time --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPILIBRARY_H
#define FSDP_RT_CHANNELS_MPI_MPILIBRARY_H

#include "core/Status.h"

// mpi.h's own names are used for types only: what it defines as macros are
// symbols of a library that this program is not linked with.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace fsdp::rt {

/// The functions and handles of libmpi.so.40 that the backend uses.
struct MpiLibrary {
  /// Opens the library for the rest of the process's life. Fails naming it
  /// where it is missing, or the symbol that it lacks.
  static Result<MpiLibrary> open();

#define FSDP_RT_MPI_FUNCTIONS(X)                                               \
  X(Init_thread)                                                               \
  X(Finalize)                                                                  \
  X(Abort)                                                                     \
  X(Comm_rank)                                                                 \
  X(Comm_size)                                                                 \
  X(Comm_dup)                                                                  \
  X(Comm_free)                                                                 \
  X(Comm_set_errhandler)                                                       \
  X(Comm_get_attr)                                                             \
  X(Isend)                                                                     \
  X(Irecv)                                                                     \
  X(Test)                                                                      \
  X(Testall)                                                                   \
  X(Cancel)                                                                    \
  X(Error_string)
#define X(name) decltype(&MPI_##name) name = nullptr;
  FSDP_RT_MPI_FUNCTIONS(X)
#undef X

  MPI_Comm world = nullptr;
  MPI_Datatype byte = nullptr;
  MPI_Errhandler errorsReturn = nullptr;
  MPI_Request requestNull = nullptr;

  /// "MPI_Isend: MPI_ERR_COMM: invalid communicator".
  Status failure(const char *call, int error) const;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPILIBRARY_H
