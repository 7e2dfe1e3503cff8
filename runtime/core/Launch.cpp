//===- Launch.cpp - Who started this process ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Launch.h"

#include <charconv>
#include <limits>
#include <optional>

extern char **environ;

namespace fsdp::rt {

namespace {

Result<int> number(const Environment &environment, const std::string &name) {
  auto found = environment.find(name);
  if (found == environment.end())
    return Status::failed("environment: expected " + name +
                          " beside the launcher's other variables, got none");
  const std::string &text = found->second;
  int value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return Status::failed("environment: expected " + name +
                          " to be an integer from 0 to " +
                          std::to_string(std::numeric_limits<int>::max()) +
                          ", got '" + text + "'");
  return value;
}

Status read(const Environment &environment, const std::string &name,
            int &value) {
  Result<int> result = number(environment, name);
  if (!result.isOk())
    return result.status();
  value = *result;
  return Status::ok();
}

struct Names {
  const char *rank, *size, *localRank, *localSize;
};

Status checkRange(const std::string &rankName, int rank,
                  const std::string &sizeName, int size) {
  if (rank < size)
    return Status::ok();
  return Status::failed("environment: expected " + rankName + " below " +
                        sizeName + "=" + std::to_string(size) + ", got " +
                        std::to_string(rank));
}

Status checkRanges(const LaunchInfo &info, const Names &names) {
  if (Status s = checkRange(names.rank, info.rank, names.size, info.size))
    return s;
  if (Status s = checkRange(names.localRank, info.localRank, names.localSize,
                            info.localSize))
    return s;
  if (info.localSize <= info.size)
    return Status::ok();
  return Status::failed(std::string("environment: expected ") +
                        names.localSize + " of at most " + names.size + "=" +
                        std::to_string(info.size) + ", got " +
                        std::to_string(info.localSize));
}

Result<LaunchInfo> readAll(const Environment &environment, LaunchInfo info,
                           const Names &names) {
  if (Status s = read(environment, names.rank, info.rank))
    return s;
  if (Status s = read(environment, names.size, info.size))
    return s;
  if (Status s = read(environment, names.localRank, info.localRank))
    return s;
  if (Status s = read(environment, names.localSize, info.localSize))
    return s;
  if (Status s = checkRanges(info, names))
    return s;
  return info;
}

/// How many tasks of the step run on this node: SLURM_STEP_TASKS_PER_NODE lists
/// runs of nodes, "4(x2),3", of which SLURM_NODEID picks one.
Result<int> slurmTasksHere(const Environment &environment) {
  Result<int> node = number(environment, "SLURM_NODEID");
  if (!node.isOk())
    return node.status();
  const char *name = "SLURM_STEP_TASKS_PER_NODE";
  auto found = environment.find(name);
  if (found == environment.end())
    return Status::failed(std::string("environment: expected ") + name +
                          " beside SLURM_PROCID, got none");
  Status malformed = Status::failed(
      std::string("environment: expected ") + name + " to cover node " +
      std::to_string(*node) + ", got '" + found->second + "'");
  const char *at = found->second.data(), *end = at + found->second.size();
  int64_t before = 0;
  std::optional<int> here;
  while (at < end) {
    int tasks = 0, nodes = 1;
    auto parsed = std::from_chars(at, end, tasks);
    if (parsed.ec != std::errc() || tasks < 0)
      return malformed;
    at = parsed.ptr;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      parsed = std::from_chars(at + 2, end, nodes);
      if (parsed.ec != std::errc() || nodes < 1 || parsed.ptr == end ||
          *parsed.ptr != ')')
        return malformed;
      at = parsed.ptr + 1;
    }
    before += nodes;
    if (!here && *node < before)
      here = tasks;
    if (at < end && *at++ != ',')
      return malformed;
  }
  if (!here)
    return malformed;
  return *here;
}

Result<LaunchInfo> readSlurm(const Environment &environment) {
  LaunchInfo info;
  info.launcher = Launcher::Slurm;
  // Set by srun where it serves PMIx, which Open MPI 4 needs to connect.
  info.canUseMpi = environment.count("PMIX_RANK") != 0;
  const char *sizeName = environment.count("SLURM_STEP_NUM_TASKS")
                             ? "SLURM_STEP_NUM_TASKS"
                             : "SLURM_NTASKS";
  if (Status s = read(environment, "SLURM_PROCID", info.rank))
    return s;
  if (Status s = read(environment, sizeName, info.size))
    return s;
  if (Status s = read(environment, "SLURM_LOCALID", info.localRank))
    return s;
  Result<int> here = slurmTasksHere(environment);
  if (!here.isOk())
    return here.status();
  info.localSize = *here;
  if (Status s = checkRanges(info, {"SLURM_PROCID", sizeName, "SLURM_LOCALID",
                                    "SLURM_STEP_TASKS_PER_NODE"}))
    return s;
  // An interactive `srun --pty bash`: the shell's programs start their own.
  if (info.size == 1)
    return LaunchInfo();
  return info;
}

} // namespace

const char *launcherName(Launcher launcher) {
  switch (launcher) {
  case Launcher::None:
    return "none";
  case Launcher::Mpirun:
    return "mpirun";
  case Launcher::Slurm:
    return "srun";
  case Launcher::Torchrun:
    return "torchrun";
  }
  return "unknown";
}

Environment currentEnvironment() {
  Environment environment;
  for (char **entry = environ; entry && *entry; ++entry) {
    std::string text = *entry;
    size_t equals = text.find('=');
    if (equals != std::string::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<LaunchInfo> detectLaunch(const Environment &environment) {
  LaunchInfo info;
  if (environment.count("OMPI_COMM_WORLD_RANK")) {
    info.launcher = Launcher::Mpirun;
    info.canUseMpi = true;
    return readAll(environment, info,
                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                    "OMPI_COMM_WORLD_LOCAL_RANK",
                    "OMPI_COMM_WORLD_LOCAL_SIZE"});
  }
  // A batch script has SLURM_PROCID too, but not the step's own variables.
  if (environment.count("SLURM_PROCID") &&
      environment.count("SLURM_STEP_TASKS_PER_NODE"))
    return readSlurm(environment);
  // WORLD_SIZE alone is often set by hand for other reasons.
  if (environment.count("RANK") && environment.count("LOCAL_RANK")) {
    info.launcher = Launcher::Torchrun;
    Result<LaunchInfo> all =
        readAll(environment, info,
                {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
    // A single process has nobody to connect with.
    return all.isOk() && all->size == 1 ? Result<LaunchInfo>(LaunchInfo())
                                        : all;
  }
  return info;
}

} // namespace fsdp::rt
