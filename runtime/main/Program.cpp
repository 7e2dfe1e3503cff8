//===- Program.cpp - Whether a program can run here -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Host.h"
#include "data/Sha256.h"
#include "fsdp-rt/memory.h"
#include "main/Main.h"

#include "data/Sharding.h"
#include <algorithm>

namespace fsdp::rt {

static Status refuse(const std::string &what) {
  return Status::failed("certificate: expected " + what);
}

/// The code of a program carries the digest of what it was lowered from:
/// another one has another.
static Status checkCertificate(const fsdp_rt_program &code,
                               const data::Program &program) {
  if (!code.certificate != !program.certificate)
    return refuse("one of program '" + program.name +
                  "' in the code and in the manifest, got none in the " +
                  (code.certificate ? "manifest" : "code"));
  if (code.certificate && code.certificate != program.certificate->program)
    return refuse("a manifest of program " + std::string(code.certificate) +
                  ", got one of program " + program.certificate->program);
  return Status::ok();
}

/// Programs that only the code or only the manifest has are not compared.
static Status checkCertificates(const fsdp_rt_artifact &artifact,
                                const data::Manifest &manifest) {
  size_t count =
      std::min<size_t>(artifact.program_count, manifest.programs.size());
  for (size_t i = 0; i < count; ++i) {
    const fsdp_rt_program &code = artifact.programs[i];
    const data::Program &program = manifest.programs[i];
    if (!code.name || program.name != code.name)
      continue;
    if (Status s = checkCertificate(code, program))
      return s;
  }
  return Status::ok();
}

/// The digest of the manifest that the code was lowered with.
static Status checkDigest(const fsdp_rt_artifact &artifact) {
  if (!artifact.manifest_digest)
    return Status::ok();
  if (std::string is = data::sha256(artifact.manifest);
      is != artifact.manifest_digest)
    return refuse("the manifest that the code was lowered with, of digest " +
                  std::string(artifact.manifest_digest) +
                  ", got one of digest " + is);
  return Status::ok();
}

Result<data::Manifest> readArtifact(const fsdp_rt_artifact *artifact) {
  if (!artifact || !artifact->manifest || !artifact->programs ||
      artifact->program_count == 0)
    return Status::internal("expected an artifact with a manifest and "
                            "programs, got none");
  if (artifact->abi_version != FSDP_RT_ABI_VERSION)
    return Status::failed(
        "expected a program of abi version " +
        std::to_string(FSDP_RT_ABI_VERSION) + ", got version " +
        std::to_string(artifact->abi_version) +
        ": compile it again with the compiler that belongs to this runtime");
  Result<data::Manifest> manifest = data::parseManifest(artifact->manifest);
  // A manifest of another program has another digest, too: what it belongs to
  // says more. What no compiler wrote may break any rule, so both go before
  // what is wrong with it.
  if (manifest.isOk())
    if (Status s = checkCertificates(*artifact, *manifest))
      return s;
  if (Status s = checkDigest(*artifact))
    return s;
  if (!manifest.isOk())
    return Status::internal(manifest.status().message());
  if (manifest->programs.size() != artifact->program_count)
    return Status::internal("expected the code of " +
                            std::to_string(manifest->programs.size()) +
                            " programs, which the manifest lists, got " +
                            std::to_string(artifact->program_count));
  for (size_t i = 0; i < manifest->programs.size(); ++i) {
    const fsdp_rt_program &code = artifact->programs[i];
    const data::Program &program = manifest->programs[i];
    if (!code.run || !code.name || program.name != code.name)
      return Status::internal(
          "expected the code of program '" + program.name + "', got " +
          (code.name ? "that of '" + std::string(code.name) + "'"
                     : std::string("none")));
  }
  return manifest;
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

hal::Layout layoutOf(const data::Manifest &manifest, int rank) {
  hal::Layout layout;
  layout.memory = {manifest.arenaBytes, manifest.hostBytes};
  layout.state = {manifest.stateBytes, manifest.hostStateBytes};
  layout.scratchBytes = manifest.scratchBytes;
  layout.groups = data::groupRanks(manifest, rank);
  layout.events = manifest.mostEvents();
  layout.queues = manifest.allQueues();
  layout.roundedSums = manifest.reduceDtype;
  layout.channelVariables = manifest.ncclVariables;
  layout.sums = manifest.sums;
  layout.reductionBytes = manifest.reductionBytes;
  return layout;
}

static std::vector<std::string> targetsOf(const data::Manifest &manifest) {
  std::vector<std::string> targets;
  for (const data::CodeTarget &target : manifest.targets)
    targets.push_back(target.kind);
  return targets;
}

Result<DeviceChoice> chooseDevice(const std::string &name,
                                  const data::Manifest &manifest) {
  Result<DeviceChoice> found = findDevice(name, targetsOf(manifest));
  return found.isOk() || name.empty()
             ? found
             : Result<DeviceChoice>(found.status().withContext("device"));
}

std::string describeOtherDevice(const DeviceChoice &choice,
                                const data::Manifest &manifest) {
  for (const DeviceChoice &other : devicesFor(targetsOf(manifest)))
    if (other.target != choice.target && checkHost(other, manifest).isOk())
      return std::string("runs on the device ") + choice.device->name +
             ", the default, though this host can run it with --device " +
             other.device->name;
  return "";
}

Status checkHost(const DeviceChoice &choice, const data::Manifest &manifest) {
  const data::CodeTarget &target = manifest.targets[choice.target];
  return choice.device->checkHost(target.cpu, target.features);
}

Result<std::unique_ptr<Backend>> createBackend(const BackendKind &kind,
                                               const data::Manifest &manifest,
                                               const hal::DeviceKind &device,
                                               hal::DeviceOptions options,
                                               BackendRequest request) {
  request.ranks = static_cast<int>(manifest.worldSize());
  options.layout = layoutOf(manifest, /*rank=*/0);
  request.countBusyThreads = [&](bool hasLink, int ranksOnHost) {
    return device.countBusyThreads(options, hasLink, ranksOnHost);
  };
  return kind.create(request);
}

} // namespace fsdp::rt
