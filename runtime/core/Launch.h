//===- Launch.h - Who started this process ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_LAUNCH_H
#define FSDP_RT_CORE_LAUNCH_H

#include "core/Status.h"

#include <map>
#include <string>

namespace fsdp::rt {

enum class Launcher { None, Mpirun, Slurm, Torchrun };

/// "none", "mpirun", "srun", "torchrun".
const char *launcherName(Launcher launcher);

/// One process of a job, as its launcher describes it in the environment.
struct LaunchInfo {
  Launcher launcher = Launcher::None;
  int rank = 0;
  int size = 1;
  int localRank = 0;
  int localSize = 1;
  /// Whether MPI_Init can find the other processes: always under mpirun;
  /// under srun where it offers PMIx (`srun --mpi=pmix`).
  bool canUseMpi = false;
};

/// The most ranks that a program starts on its own host, as threads or under
/// mpirun. A launcher that spreads them over hosts may start more. Far more
/// than a host has cores for, and few enough for its process and descriptor
/// limits; mpirun asked for a million ranks neither starts nor ends.
constexpr int maxRanksOnHost = 1024;

using Environment = std::map<std::string, std::string>;

/// The environment of this process.
Environment currentEnvironment();

/// Reads OMPI_COMM_WORLD_*, then SLURM_*, then torchrun's RANK, WORLD_SIZE,
/// LOCAL_RANK and LOCAL_WORLD_SIZE, the first that is present. A variable that
/// is missing beside its siblings, is no number or contradicts another is an
/// error that names it. The shell of an sbatch or salloc, outside srun, and a
/// single task of srun or torchrun count as no launcher.
Result<LaunchInfo> detectLaunch(const Environment &environment);

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_LAUNCH_H
