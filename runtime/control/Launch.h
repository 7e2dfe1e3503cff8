//===- Launch.h - Who started this process ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CONTROL_LAUNCH_H
#define FSDP_RT_CONTROL_LAUNCH_H

#include "core/Status.h"

#include <map>
#include <string>

namespace fsdp::rt {

enum class Launcher { None, Mpirun, Slurm, Mvapich, Pmi, Torchrun };

/// "none", "mpirun", "srun", "MVAPICH's mpirun", "a PMI launcher such
/// as mpiexec.hydra", "torchrun".
const char *launcherName(Launcher launcher);

/// One process of a job, as its launcher describes it in the environment.
struct LaunchInfo {
  Launcher launcher = Launcher::None;
  int rank = 0;
  int size = 1;
  int localRank = 0;
  int localSize = 1;
  /// Whether the launcher has told them. Where not, the rank is 0 and the size
  /// that of a job on one host, until its ranks have met.
  bool hasLocalRank = false, hasLocalSize = false;
  /// Whether MPI_Init can find the other processes: always under mpirun;
  /// under srun where it offers PMIx (`srun --mpi=pmix`).
  bool canUseMpi = false;
  /// What the job was read from: "RANK=3, WORLD_SIZE=4".
  std::string variables;
};

/// The most ranks that a program starts on its own host, as threads or as
/// processes. A launcher that spreads them over hosts may start more. Far more
/// than a host has cores for, and few enough for its process and descriptor
/// limits; mpirun asked for a million ranks neither starts nor ends.
constexpr int maxRanksOnHost = 1024;

using Environment = std::map<std::string, std::string>;

/// The environment of this process.
Environment currentEnvironment();

/// Reads what each launcher sets: OMPI_COMM_WORLD_* (Open MPI), SLURM_* (srun),
/// MV2_COMM_WORLD_* (MVAPICH), PMI_RANK and PMI_SIZE (mpiexec.hydra of MPICH
/// and Intel MPI, among others), RANK, WORLD_SIZE, LOCAL_RANK and
/// LOCAL_WORLD_SIZE (torchrun, and what sets torch.distributed's variables). An
/// empty variable counts as none. An error, with the variables and what to do:
/// a variable that is no number or contradicts its siblings; a rank without a
/// size; two launchers that say different things of a process, except where one
/// of them is srun, which starts the other's daemons. The shell of an sbatch or
/// salloc, outside srun, and a single process of any launcher but mpirun count
/// as no launcher.
Result<LaunchInfo> detectLaunch(const Environment &environment);

/// Refuses one of several processes that Open MPI cannot connect, with the
/// variables that tell so and what to do.
Status checkConnected(const LaunchInfo &launch);

} // namespace fsdp::rt

#endif // FSDP_RT_CONTROL_LAUNCH_H
