//===- OwnNetwork.h - A network that nobody else can reach ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mpirun of Open MPI 4 listens on all of a host's addresses, whatever
// interfaces it is told to use, and lets in who knows its port. The processes
// of a job on one host need none but the loopback address.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_OWNNETWORK_H
#define FSDP_RT_CHANNELS_MPI_OWNNETWORK_H

namespace fsdp::rt {

/// Moves this process and those that it starts to a network namespace of their
/// own, whose one interface is the loopback one. Without the right to, and the
/// right to a user namespace in which it has it, the process stays where it is
/// and false is returned. Of a process with one thread: calls nothing that
/// could wait for another one.
bool enterOwnNetwork();

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_OWNNETWORK_H
