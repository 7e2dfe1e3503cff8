//===- CheckpointStates.cpp - Optimizer states of a checkpoint ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/CheckpointStates.h"

#include "data/Checkpoint.h"
#include "data/Elements.h"
#include "data/Names.h"
#include "data/Sharding.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace fsdp::rt::data {

/// Of states that belong to the loss, not to a parameter.
static bool isOfLossScale(const std::string &state) {
  return state == "loss_scale" || state == "loss_scale_growth";
}

/// A scale of the loss that only the file or only the program has is no other
/// optimizer's.
void CheckpointStates::compareLossScale() {
  std::set<std::string> saved;
  for (const TensorInfo &tensor : file_->tensors())
    if (isOfLossScale(tensor.name.substr(tensor.name.rfind('.') + 1)))
      saved.insert(tensor.name);
  bool isOfProgram = false;
  for (const FlatParam &flat : manifest_->flatParams)
    for (const OptimizerState &state : flat.states)
      isOfProgram |= isOfLossScale(state.name);
  beginsScale_ = manifest_->lossScale && saved.empty();
  dropsScale_ = !isOfProgram && !saved.empty();
  if (dropsScale_)
    droppedStates_ = std::move(saved);
}

/// Sorts out which parameters have states in the file, in the program, or both.
/// Names of states hold no dot.
void CheckpointStates::compareTrained() {
  using States = std::map<std::string, const TensorInfo *>;
  std::map<std::string, States> saved; // by parameter
  std::set<std::string> savedNames, presentNames;
  for (const TensorInfo &tensor : file_->tensors()) {
    size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos)
      continue;
    std::string state = tensor.name.substr(dot + 1);
    // A scale that one of both has says nothing of what is trained.
    if (droppedStates_.count(tensor.name))
      continue;
    saved[tensor.name.substr(0, dot)][state] = &tensor;
    savedNames.insert(std::move(state));
  }
  auto isCompared = [&](const OptimizerState &state) {
    return !beginsScale_ || !isOfLossScale(state.name);
  };
  auto hasStates = [&](const FlatParam &flat) {
    return std::any_of(flat.states.begin(), flat.states.end(), isCompared);
  };
  for (const FlatParam &flat : manifest_->flatParams)
    for (const OptimizerState &state : flat.states)
      if (isCompared(state))
        presentNames.insert(state.name);
  if (savedNames != presentNames)
    return;
  for (const FlatParam &flat : manifest_->flatParams)
    for (const Member &member : flat.members) {
      auto states = saved.find(member.fqn);
      bool isSaved = states != saved.end();
      if (!isSaved && hasStates(flat))
        begun_.push_back(member.fqn);
      if (!isSaved || hasStates(flat))
        continue;
      dropped_.push_back(member.fqn);
      for (const auto &[name, tensor] : states->second)
        droppedStates_.insert(tensor->name);
    }
}

Result<CheckpointStates> CheckpointStates::open(const SafetensorsReader &file,
                                                const Manifest &manifest) {
  CheckpointStates states(file, manifest);
  states.compareLossScale();
  states.compareTrained();
  std::set<std::string> begun(states.begun_.begin(), states.begun_.end());
  std::vector<WantedTensor> wanted;
  for (TensorSpec &spec : optimizerTensors(manifest)) {
    size_t dot = spec.name.rfind('.');
    bool isBegun =
        begun.count(spec.name.substr(0, dot)) != 0 ||
        (states.beginsScale_ && isOfLossScale(spec.name.substr(dot + 1)));
    wanted.push_back({std::move(spec.name),
                      {},
                      spec.dtype,
                      std::move(spec.shape),
                      /*isOptional=*/isBegun});
  }
  size_t count = wanted.size();
  for (const std::string &name : states.droppedStates_)
    if (const TensorInfo *tensor = file.find(name); tensor->dtype)
      wanted.push_back(
          {name, {}, *tensor->dtype, tensor->shape, /*isOptional=*/true});
  Result<std::vector<MatchedTensor>> matched =
      matchTensors(TensorFiles::of(file), wanted, /*cast=*/false);
  if (!matched.isOk())
    return matched.status();
  states.matched_ = std::move(*matched);
  states.matched_.resize(count);
  return states;
}

std::vector<std::string>
CheckpointStates::notes(const std::string &checkpoint) const {
  std::vector<std::string> lines;
  if (!begun_.empty())
    lines.push_back(checkpoint + ": has no optimizer states of " +
                    listNames(begun_) +
                    ", not trained when it was saved: they begin anew");
  if (!dropped_.empty())
    lines.push_back(checkpoint + ": the optimizer states of " +
                    listNames(dropped_) +
                    ", which the program does not train, are left out");
  if (beginsScale_)
    lines.push_back(checkpoint + ": has no loss scale: it begins anew");
  if (dropsScale_)
    lines.push_back(checkpoint + ": the loss scale, which the program does not "
                                 "have, is left out");
  return lines;
}

/// One value serves all members of a unit.
static Status readScalarState(const SafetensorsReader &file,
                              const FlatParam &flat,
                              const OptimizerState &state,
                              const MatchedTensor *members, hal::Location dst) {
  int64_t size = dtypeSize(state.dtype);
  auto refuse = [&](const std::string &first, const std::string &other) {
    return Status::failed(file.path() + ": expected one value of '" +
                          state.name + "' for all of unit '" + flat.name +
                          "', got " + first + " and " + other);
  };
  char first[8];
  std::string firstName;
  const Member *absent = nullptr;
  for (size_t m = 0; m < flat.members.size(); ++m) {
    const std::string &name = flat.members[m].fqn;
    if (!members[m].stored) {
      absent = &flat.members[m];
      continue;
    }
    char value[8];
    if (Status s = readElements(members[m], state.dtype, 0, 1, value))
      return s;
    auto describe = [&](const char *bytes, const std::string &of) {
      return std::to_string(loadNumber(state.dtype, bytes)) + " for '" + of +
             "'";
    };
    if (firstName.empty()) {
      std::memcpy(first, value, size);
      firstName = name;
    } else if (std::memcmp(first, value, size) != 0) {
      return refuse(describe(first, firstName), describe(value, name));
    }
  }
  if (firstName.empty())
    return Status::ok();
  if (absent && !isOfLossScale(state.name))
    return refuse(
        "one for '" + firstName + "'",
        "none for '" + absent->fqn +
            "', which was not trained when the state was saved: wrap the two "
            "in different units (fsdp-compile --wrap), or begin with --params "
            "and the checkpoint's params.safetensors");
  return dst.upload(first, size);
}

Status CheckpointStates::read(int rank, const StateMemory &memory) const {
  size_t first = 0;
  for (const FlatParam &flat : manifest_->flatParams) {
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(*manifest_, rank, flat.shardAxes));
    for (const OptimizerState &state : flat.states) {
      hal::Location values = memory.at(state);
      if (state.scalar) {
        if (Status s = readScalarState(*file_, flat, state,
                                       matched_.data() + first, values))
          return s;
      } else {
        for (const Piece &piece : pieces)
          if (const MatchedTensor &tensor = matched_[first + piece.member];
              tensor.stored)
            if (Status s = uploadTensor(
                    tensor, state.dtype, piece.memberBegin, piece.count,
                    values + piece.shardBegin * dtypeSize(state.dtype)))
              return s;
      }
      first += flat.members.size();
    }
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
