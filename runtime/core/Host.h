//===- Host.h - What the machine offers -------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_HOST_H
#define FSDP_RT_CORE_HOST_H

#include "core/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Processors that this process may use: its affinity mask, and less where a
/// control group grants less processor time. At least 1.
int availableCores();

/// Bytes of memory this process could have if it were alone: the machine's,
/// and less where a control group limits it. 0 where the system does not say.
int64_t memoryLimit();

/// Refuses a machine that lacks one of `llvmFeatures` ("avx512f", "fma",
/// "amx-bf16", ... as LLVM names them, without a leading "+"), and names that
/// are not known here. Lists all of them. A feature counts only if the
/// operating system saves its registers.
Status checkCpu(const std::vector<std::string> &llvmFeatures);

/// A host, as processes tell each other where they are: its name, and which
/// boot of which kernel it is. Bytes of messages: zeros follow both texts.
struct HostId {
  char name[64] = {}, boot[40] = {};
  bool operator==(const HostId &other) const;
  /// Of one that came from elsewhere: ends both texts.
  void terminate();
};
HostId thisHost();

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_HOST_H
