//===- Program.cpp - Whether a program can run here -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Host.h"
#include "core/data/Sha256.h"
#include "fsdp-rt/memory.h"
#include "main/Main.h"

#include <algorithm>

namespace fsdp::rt {

/// The code carries the digests of what it was lowered from and of the manifest
/// that it was lowered with: another manifest, or one that was changed since,
/// has others. What no compiler wrote may break any rule, so this goes before
/// what is wrong with @manifest.
static Status checkCertificate(const fsdp_rt_program &program,
                               const Result<data::Manifest> &manifest) {
  auto refuse = [](const std::string &what) {
    return Status::failed("certificate: expected " + what);
  };
  bool isInManifest = manifest.isOk() && manifest->certificate;
  if (!program.certificate && !isInManifest)
    return Status::ok();
  if (!program.certificate || (manifest.isOk() && !isInManifest))
    return refuse(std::string("one in the code and in the manifest, got none "
                              "in the ") +
                  (program.certificate ? "manifest" : "code"));
  std::string text = program.certificate;
  size_t space = text.find(' ');
  std::string code = text.substr(0, space),
              made = space == std::string::npos ? "" : text.substr(space + 1);
  if (isInManifest && code != manifest->certificate->program)
    return refuse("a manifest of program " + code + ", got one of program " +
                  manifest->certificate->program);
  if (std::string is = data::sha256(program.manifest); is != made)
    return refuse("the manifest that the code was lowered with, of digest " +
                  made + ", got one of digest " + is);
  return Status::ok();
}

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
  if (Status s = checkCertificate(*program, manifest))
    return s;
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

Result<int> chooseThreads(const data::Manifest &manifest, int asked,
                          int ranksOnHost, int cores) {
  // Each takes memory, and waits for its turn.
  constexpr int64_t threadsPerCore = 64;
  int64_t mostOnHost =
      std::max<int64_t>(1, threadsPerCore * cores / std::max(1, ranksOnHost));
  if (asked > mostOnHost)
    return Status::failed(
        "expected threads of at most " + std::to_string(mostOnHost) +
        " for each of " + std::to_string(ranksOnHost) + " ranks, " +
        std::to_string(threadsPerCore) + " for each of " +
        std::to_string(cores) + " cores, got " + std::to_string(asked));
  int threads = asked ? asked : std::max(1, cores / std::max(1, ranksOnHost));
  if (!manifest.budgetBytes)
    return threads;
  int64_t left = manifest.budgetBytes - manifest.arenaBytes;
  int64_t each = getThreadBytes(manifest.scratchBytes);
  int64_t most = 1 + left / each;
  if (asked > most)
    return Status::failed(
        "expected threads of at most " + std::to_string(most) +
        ": the memory budget leaves " + std::to_string(left) +
        " bytes beside the arena and the first, and each takes " +
        std::to_string(each) + "; got " + std::to_string(asked));
  return static_cast<int>(std::min<int64_t>(threads, most));
}

int busyThreads(const data::Manifest &manifest, QueueThreads wish, bool hasLink,
                int ranksOnHost, int threads) {
  bool haveThreads = decideQueueThreads(wish, hasLink, ranksOnHost, threads) ==
                     QueueThreads::On;
  return threads + (haveThreads ? static_cast<int>(manifest.queues.size()) : 0);
}

} // namespace fsdp::rt
