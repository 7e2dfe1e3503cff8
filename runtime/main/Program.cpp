//===- Program.cpp - Whether a program can run here -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Host.h"
#include "main/Main.h"

#include <algorithm>

namespace fsdp::rt {

Result<data::Manifest> readProgram(const fsdp_rt_program *program) {
  if (!program || !program->manifest || !program->step)
    return Status::internal("expected a program with a manifest and a step, "
                            "got none");
  if (program->abi_version != FSDP_RT_ABI_VERSION)
    return Status::failed(
        "expected a program of abi version " +
        std::to_string(FSDP_RT_ABI_VERSION) + ", got version " +
        std::to_string(program->abi_version) +
        ": compile it again with the compiler that belongs to this runtime");
  Result<data::Manifest> manifest = data::parseManifest(program->manifest);
  if (!manifest.isOk())
    return Status::internal(manifest.status().message());
  return manifest;
}

Status checkMachine(const data::Manifest &manifest) {
  if (manifest.targetKind != "cpu")
    return Status::failed("expected a program compiled for cpu, which is what "
                          "this runtime runs, got " +
                          manifest.targetKind);
  return checkCpu(manifest.targetFeatures)
      .withContext("this program was compiled for " + manifest.targetCpu);
}

int defaultThreads(int ranksOnHost) {
  return std::max(1, availableCores() / std::max(1, ranksOnHost));
}

int busyThreads(const data::Manifest &manifest, QueueThreads wish, bool hasLink,
                int ranksOnHost, int threads) {
  bool haveThreads = decideQueueThreads(wish, hasLink, ranksOnHost, threads) ==
                     QueueThreads::On;
  return threads + (haveThreads ? static_cast<int>(manifest.queues.size()) : 0);
}

} // namespace fsdp::rt
