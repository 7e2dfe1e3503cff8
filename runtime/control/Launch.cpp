//===- Launch.cpp - Who started this process ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "control/Launch.h"

#include <charconv>
#include <limits>
#include <optional>
#include <vector>

extern char **environ;

namespace fsdp::rt {

namespace {

/// The variables in which a launcher tells a process its place. A variable
/// that the launcher does not set is empty.
struct Family {
  Launcher launcher;
  std::string rank, size, localRank, localSize;
  /// Whether the places on the host are always there. They choose the number of
  /// threads and the GPU of a rank.
  bool needsLocal;
  /// Beside it the size alone is a process's place, half told.
  std::string companionOfSize;
};

const std::vector<Family> &families() {
  static const std::vector<Family> all = {
      {Launcher::Mpirun, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true,
       "OMPI_COMM_WORLD_SIZE"},
      {Launcher::Mvapich, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
       "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", false,
       "MV2_COMM_WORLD_SIZE"},
      {Launcher::Pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS", false, "PMI_SIZE"},
      // WORLD_SIZE alone is often set by hand for other reasons.
      {Launcher::Torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK",
       "LOCAL_WORLD_SIZE", false, "MASTER_ADDR"}};
  return all;
}

bool has(const Environment &environment, const std::string &name) {
  auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

/// "RANK=3, WORLD_SIZE=4": those of `names` that are set.
std::string list(const Environment &environment,
                 const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    if (has(environment, name))
      text += (text.empty() ? "" : ", ") + name + "=" + environment.at(name);
  return text;
}

std::string list(const Environment &environment, const Family &family) {
  return list(environment,
              {family.rank, family.size, family.localRank, family.localSize});
}

constexpr const char *remedy =
    ": start the program once, without these variables, for all of its ranks "
    "on this host, with --backend tcp under torchrun or srun, or with mpirun "
    "of Open MPI";

Result<int> number(const Environment &environment, const std::string &name) {
  if (!has(environment, name))
    return Status::failed("environment: expected " + name +
                          " beside the launcher's other variables, got none");
  const std::string &text = environment.at(name);
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

Status checkRange(const std::string &rankName, int rank,
                  const std::string &sizeName, int size) {
  if (rank < size)
    return Status::ok();
  return Status::failed("environment: expected " + rankName + " below " +
                        sizeName + "=" + std::to_string(size) + ", got " +
                        std::to_string(rank));
}

Status checkRanges(const LaunchInfo &info, const Family &names) {
  if (Status s = checkRange(names.rank, info.rank, names.size, info.size))
    return s;
  if (Status s = checkRange(names.localRank, info.localRank, names.localSize,
                            info.localSize))
    return s;
  if (info.localSize <= info.size)
    return Status::ok();
  return Status::failed("environment: expected " + names.localSize +
                        " of at most " + names.size + "=" +
                        std::to_string(info.size) + ", got " +
                        std::to_string(info.localSize));
}

bool isPresent(const Environment &environment, const Family &family) {
  return has(environment, family.rank) || has(environment, family.localRank) ||
         (has(environment, family.size) &&
          has(environment, family.companionOfSize));
}

Status readPlaces(const Environment &environment, const Family &family,
                  LaunchInfo &info) {
  if (Status s = read(environment, family.rank, info.rank))
    return s;
  if (Status s = read(environment, family.size, info.size))
    return s;
  info.localSize = info.size; // as if on one host
  info.hasLocalSize = family.needsLocal || has(environment, family.localSize);
  if (info.hasLocalSize)
    if (Status s = read(environment, family.localSize, info.localSize))
      return s;
  info.hasLocalRank = family.needsLocal || has(environment, family.localRank);
  if (info.hasLocalRank)
    if (Status s = read(environment, family.localRank, info.localRank))
      return s;
  return checkRanges(info, family);
}

Result<LaunchInfo> readFamily(const Environment &environment,
                              const Family &family) {
  LaunchInfo info;
  info.launcher = family.launcher;
  info.canUseMpi = family.launcher == Launcher::Mpirun;
  info.variables = list(environment, family);
  Status status = readPlaces(environment, family, info);
  if (status)
    return Status::failed(status.message() + " (of " + info.variables + ")" +
                          remedy);
  return info;
}

constexpr const char *slurmTasksName = "SLURM_STEP_TASKS_PER_NODE";

/// How many tasks of the step run on this node: SLURM_STEP_TASKS_PER_NODE lists
/// runs of nodes, "4(x2),3", of which SLURM_NODEID picks one.
Result<int> slurmTasksHere(const Environment &environment) {
  Result<int> node = number(environment, "SLURM_NODEID");
  if (!node.isOk())
    return node.status();
  const std::string name = slurmTasksName;
  if (!has(environment, name))
    return Status::failed("environment: expected " + name +
                          " beside SLURM_PROCID, got none");
  const std::string &text = environment.at(name);
  Status malformed =
      Status::failed("environment: expected " + name + " to cover node " +
                     std::to_string(*node) + ", got '" + text + "'");
  const char *at = text.data(), *end = at + text.size();
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

/// Whether srun started this process. A batch script has SLURM_PROCID=0 too,
/// but not the step's own variables.
bool isSlurmStep(const Environment &environment) {
  return has(environment, "SLURM_PROCID") &&
         (has(environment, slurmTasksName) ||
          has(environment, "SLURM_STEP_NUM_TASKS") ||
          environment.at("SLURM_PROCID") != "0");
}

Status readSlurmPlaces(const Environment &environment,
                       const std::string &sizeName, LaunchInfo &info) {
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
  info.hasLocalRank = info.hasLocalSize = true;
  Family names = {Launcher::Slurm, "SLURM_PROCID", sizeName, "SLURM_LOCALID",
                  slurmTasksName,  true,           ""};
  return checkRanges(info, names);
}

Result<LaunchInfo> readSlurm(const Environment &environment) {
  LaunchInfo info;
  info.launcher = Launcher::Slurm;
  // Set by srun where it serves PMIx, which Open MPI 4 needs to connect.
  info.canUseMpi = has(environment, "PMIX_RANK");
  std::string sizeName = has(environment, "SLURM_STEP_NUM_TASKS")
                             ? "SLURM_STEP_NUM_TASKS"
                             : "SLURM_NTASKS";
  info.variables = list(environment, {"SLURM_PROCID", sizeName, "SLURM_LOCALID",
                                      "SLURM_NODEID", slurmTasksName});
  Status status = readSlurmPlaces(environment, sizeName, info);
  if (status)
    return Status::failed(status.message() + " (of " + info.variables +
                          "): start the program with srun --mpi=pmix or "
                          "mpirun");
  return info;
}

bool isSamePlace(const LaunchInfo &a, const LaunchInfo &b) {
  return a.rank == b.rank && a.size == b.size;
}

/// Which of several launchers' places counts. `all` are of one process each,
/// in the order of preference; srun's, where it started something, is `slurm`.
Result<LaunchInfo> choose(const std::vector<LaunchInfo> &all,
                          const std::optional<LaunchInfo> &slurm) {
  // srun starts what starts others: the daemons of mpirun, and torchrun.
  std::vector<LaunchInfo> inner;
  for (const LaunchInfo &each : all)
    if (!slurm || !isSamePlace(each, *slurm))
      inner.push_back(each);
  if (inner.empty()) {
    bool isMpirun = !all.empty() && all[0].launcher == Launcher::Mpirun;
    return isMpirun || !slurm ? all[0] : *slurm;
  }
  for (const LaunchInfo &each : inner)
    if (!isSamePlace(each, inner[0]))
      return Status::failed(
          "environment: expected launchers to agree on this process's rank and "
          "their number, got " +
          inner[0].variables + " of " + launcherName(inner[0].launcher) +
          " and " + each.variables + " of " + launcherName(each.launcher) +
          remedy);
  return inner[0];
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
  case Launcher::Mvapich:
    return "MVAPICH's mpirun";
  case Launcher::Pmi:
    return "a PMI launcher such as mpiexec.hydra";
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
  // Of several processes each. A single process has nobody to connect with,
  // but one of mpirun can still use MPI.
  std::vector<LaunchInfo> places;
  std::optional<LaunchInfo> slurm;
  LaunchInfo alone;
  bool hasPlace = isSlurmStep(environment);
  for (const Family &family : families()) {
    if (!isPresent(environment, family))
      continue;
    hasPlace = true;
    Result<LaunchInfo> info = readFamily(environment, family);
    if (!info.isOk())
      return info;
    if (info->size > 1)
      places.push_back(*info);
    else if (info->canUseMpi)
      alone = *info;
  }
  if (isSlurmStep(environment)) {
    Result<LaunchInfo> info = readSlurm(environment);
    if (!info.isOk())
      return info;
    // An interactive `srun --pty bash`: the shell's programs start their own.
    if (info->size > 1)
      slurm = *info;
  }
  // PRRTE's prun tells a process nothing else.
  if (!hasPlace && has(environment, "PMIX_RANK"))
    return Status::failed("environment: expected the number of processes "
                          "beside PMIX_RANK=" +
                          environment.at("PMIX_RANK") + ", got none" + remedy);
  if (places.empty() && !slurm)
    return alone;
  return choose(places, slurm);
}

Status checkConnected(const LaunchInfo &launch) {
  if (launch.canUseMpi)
    return Status::ok();
  std::string got = std::string("processes of ") +
                    launcherName(launch.launcher) + " (" + launch.variables +
                    ")";
  switch (launch.launcher) {
  case Launcher::None:
  case Launcher::Mpirun:
    return Status::failed("the mpi backend expects to be started by mpirun or "
                          "srun, or with -n RANKS on one host");
  case Launcher::Slurm:
    return Status::failed(
        "the mpi backend needs PMIx to connect " + got +
        ": start the program with srun --mpi=pmix or mpirun, or "
        "with --backend tcp");
  case Launcher::Mvapich:
  case Launcher::Pmi:
    return Status::failed("the mpi backend is Open MPI, which cannot connect " +
                          got + remedy);
  case Launcher::Torchrun:
    return Status::failed("the mpi backend cannot connect " + got + remedy);
  }
  return Status::internal("unknown launcher");
}

} // namespace fsdp::rt
