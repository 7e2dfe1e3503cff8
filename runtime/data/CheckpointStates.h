//===- CheckpointStates.h - Optimizer states of a checkpoint ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parameter has the states of the optimizer where it is trained, and none
// where it is frozen. A program that trains other parameters than the one that
// saved a checkpoint finds states for some and not for others: those of
// parameters that both train are read, the others' begin as they are declared.
// Another optimizer, one whose states have other names, is none of that.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINTSTATES_H
#define FSDP_RT_DATA_CHECKPOINTSTATES_H

#include "data/Manifest.h"
#include "data/Safetensors.h"
#include "data/StateMemory.h"
#include "data/TensorMatch.h"

#include <set>
#include <string>
#include <vector>

namespace fsdp::rt::data {

class CheckpointStates {
public:
  /// Finds the states of `manifest`'s program in optimizer.safetensors. Refuses
  /// those of another optimizer. `file` and `manifest` must outlive this.
  static Result<CheckpointStates> open(const SafetensorsReader &file,
                                       const Manifest &manifest);

  /// Whether the same parameters are trained, with a scale of the loss or
  /// without.
  bool hasAll() const {
    return begun_.empty() && dropped_.empty() && !beginsScale_ && !dropsScale_;
  }
  /// Names in the file of states that no parameter of the program takes.
  const std::set<std::string> &droppedStates() const { return droppedStates_; }
  /// Lines for the user: whose states begin anew, and whose are left out.
  std::vector<std::string> notes(const std::string &checkpoint) const;
  /// Reads what `rank` holds of those that are there.
  Status read(int rank, const StateMemory &memory) const;

private:
  CheckpointStates(const SafetensorsReader &file, const Manifest &manifest)
      : file_(&file), manifest_(&manifest) {}
  void compareLossScale();
  void compareTrained();

  const SafetensorsReader *file_;
  const Manifest *manifest_;
  /// Parameters that only the program trains, or only the run that saved.
  std::vector<std::string> begun_, dropped_;
  std::set<std::string> droppedStates_;
  /// Whether only the program has a scale of the loss, or only the file.
  bool beginsScale_ = false, dropsScale_ = false;
  std::vector<MatchedTensor> matched_; // as optimizerTensors
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINTSTATES_H
