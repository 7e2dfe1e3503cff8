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
// Compared: the program, --steps, the scalars' values and the schedule of the
// learning rate, where the initial state
// and the data come from, whether and when the state is saved, and what stops
// the run.
//
// Free, since hosts may rightly differ in them:
//   paths           one file may be called otherwise on another host; that the
//                   contents fit the program is checked on every rank
//   --threads       hosts have different cores
//   --cast-params   without it a file of another type is refused, not read
//                   otherwise
//   --strip-prefix, --add-prefix, --omit-text   the program's names must all be
//                   found, whatever the files call them
//   --device        compared where it is known what runs the program; of its
//                   settings those that must agree (hal/DeviceSettings.h)
//   -n, --backend   checked against the mesh and the launcher on every rank
//   --metrics, --profile, --log-every, --quiet   rank 0's alone count
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_SHAREDSETTINGS_H
#define FSDP_RT_MAIN_SHAREDSETTINGS_H

#include "control/Consensus.h"
#include "data/Manifest.h"
#include "hal/DeviceKind.h"
#include "main/Options.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::rt {

/// What runs a program, with its settings that must agree.
std::vector<Setting>
agreedSettings(const hal::DeviceKind &device,
               const std::map<std::string, std::string> &given);

/// Which program a rank runs.
Setting programSetting(const data::Manifest &manifest);

/// The program and what the command line says of a run. What only its files
/// tell, the kind of data and the step to go on from, is not among them.
std::vector<Setting> sharedSettings(const Options &options,
                                    const data::Manifest &manifest);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_SHAREDSETTINGS_H
