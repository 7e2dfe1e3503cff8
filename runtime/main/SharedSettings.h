//===- SharedSettings.h - What all ranks must be given alike -----*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Under a launcher every rank is a process with a command line of its own, and
// they may differ. Ranks that take another number of steps, or save at others,
// wait for each other in different collectives; ranks with another learning
// rate train a model that no setting describes.
//
// Compared: the program, --steps, the scalars' values, where the initial state
// and the data come from, whether and when the state is saved, and what stops
// the run.
//
// Free, since hosts may rightly differ in them:
//   paths           one file may be called otherwise on another host; that the
//                   contents fit the program is checked on every rank
//   --threads       hosts have different cores
//   --blas          hosts have different libraries; sums of a rank's own batch
//   --queue-threads the ranks agree on it when they start
//   --channel       the devices compare it, as they do --attention and
//                   --reduction
//   --graph         how a rank gives its device the same work
//   --dependent-launch   likewise
//   --algorithms    those of rank 0 are all ranks'
//   --cast-params   without it a file of another type is refused, not read
//                   otherwise
//   --device        compared where it is known what runs the program
//   -n, --backend   checked against the mesh and the launcher on every rank
//   --metrics, --profile, --log-every, --quiet   rank 0's alone count
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_SHAREDSETTINGS_H
#define FSDP_RT_MAIN_SHAREDSETTINGS_H

#include "control/Consensus.h"
#include "data/Manifest.h"
#include "main/Options.h"

#include <vector>

namespace fsdp::rt {

/// Which program a rank runs.
Setting programSetting(const data::Manifest &manifest);

/// The program and what the command line says of a run. What only its files
/// tell, the kind of data and the step to go on from, is not among them.
std::vector<Setting> sharedSettings(const Options &options,
                                    const data::Manifest &manifest);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_SHAREDSETTINGS_H
