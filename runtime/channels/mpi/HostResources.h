//===- HostResources.h - What Open MPI takes of a host ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_HOSTRESOURCES_H
#define FSDP_RT_CHANNELS_MPI_HOSTRESOURCES_H

#include <string>

namespace fsdp::rt {

/// Makes MPI_Init choose shared memory alone, so that this process listens on
/// no port. For a job of `ranks` on one host, which has to have room for them
/// in /dev/shm. What the user has chosen, in the environment or with --mca,
/// stays.
void useSharedMemoryAlone(int ranks);

/// The file by which the ranks of a host map a rank's shared memory. Open MPI
/// removes it in MPI_Finalize, which a killed job does not reach.
class SegmentFile {
public:
  /// Removes the file of the rank that calls this; what is mapped stays. Once
  /// every rank has left MPI_Init: they map each other's files in it. Where
  /// the rank has no such file, nothing happens.
  void remove(int rank);
  /// Makes an empty file of that name, which MPI_Finalize expects to remove.
  void restore() const;

private:
  std::string path_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_HOSTRESOURCES_H
