//===- Process.h - What a program is given by the one that starts it -*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_PROCESS_H
#define FSDP_RT_MAIN_PROCESS_H

namespace fsdp::rt {

/// Opens /dev/null in the place of each closed standard stream: the next file
/// that is opened would take its number, and what is printed would land there.
/// Ignores SIGXFSZ: a write beyond the limit of file sizes (ulimit -f) then
/// fails with EFBIG. Before anything else is opened or started.
void prepareProcess();

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_PROCESS_H
