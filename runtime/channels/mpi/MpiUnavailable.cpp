//===- MpiUnavailable.cpp - A build without MPI ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiBackend.h"

namespace fsdp::rt {

Result<std::unique_ptr<Backend>> createMpiBackend(const LaunchInfo &,
                                                  const MpiBackendOptions &) {
  return Status::failed("this program was built without the mpi backend: no "
                        "mpi.h of Open MPI 4 was found at configure time");
}

} // namespace fsdp::rt
