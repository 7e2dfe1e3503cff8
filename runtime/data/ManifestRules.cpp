//===- ManifestRules.cpp - Rules between the manifest's keys --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Manifest.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace fsdp::rt::data {

namespace {

std::string indexed(const char *list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

/// Refuses a name that occurs twice; says both places.
class DistinctNames {
public:
  Status add(const std::string &name, std::string path) {
    auto [it, isNew] = places_.emplace(name, path);
    if (isNew)
      return Status::ok();
    return Status::failed(path + ": expected distinct names, got '" + name +
                          "' also at " + it->second);
  }
  bool has(const std::string &name) const { return places_.count(name) > 0; }

private:
  std::unordered_map<std::string, std::string> places_;
};

/// Bytes of an arena that something occupies.
struct Range {
  int64_t begin, end;
  std::string path;
};

/// Those of one arena, which must end within the bytes that the manifest's key
/// `limit` says.
class Ranges {
public:
  Ranges(int64_t arenaBytes, const char *limit,
         fsdp_rt_memory memory = FSDP_RT_DEVICE)
      : arenaBytes_(arenaBytes), limit_(limit), memory_(memory) {}

  Status add(int64_t offset, int64_t bytes, std::string path) {
    Range range{offset, offset + bytes, std::move(path)};
    if (range.end > arenaBytes_)
      return Status::failed(describe(range) + ": expected it to end within " +
                            std::to_string(arenaBytes_) + " bytes of " +
                            limit_);
    if (bytes > 0)
      ranges_.push_back(std::move(range));
    return Status::ok();
  }

  Status checkDisjoint() {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range &a, const Range &b) { return a.begin < b.begin; });
    for (size_t i = 1; i < ranges_.size(); ++i)
      if (ranges_[i].begin < ranges_[i - 1].end)
        return Status::failed(describe(ranges_[i]) + ": overlaps " +
                              describe(ranges_[i - 1]));
    return Status::ok();
  }

  /// From here on ranges may end within so many bytes.
  void setEnd(int64_t arenaBytes, const char *limit) {
    arenaBytes_ = arenaBytes;
    limit_ = limit;
  }

private:
  std::string describe(const Range &range) const {
    return range.path + " at bytes " + std::to_string(range.begin) + " to " +
           std::to_string(range.end) +
           (memory_ == FSDP_RT_HOST ? " of the host's arena" : "");
  }

  int64_t arenaBytes_;
  const char *limit_;
  fsdp_rt_memory memory_;
  std::vector<Range> ranges_;
};

Status checkNames(const Manifest &manifest) {
  DistinctNames flats, tensors, programs;
  for (size_t i = 0; i < manifest.flatParams.size(); ++i) {
    const FlatParam &flat = manifest.flatParams[i];
    std::string path = indexed("flat_params", i);
    if (Status s = flats.add(flat.name, path + ".name"))
      return s;
    for (size_t m = 0; m < flat.members.size(); ++m) {
      const Member &member = flat.members[m];
      std::string at = path + "." + indexed("members", m);
      if (Status s = tensors.add(member.fqn, at + ".fqn"))
        return s;
      for (size_t t = 0; t < member.tied.size(); ++t)
        if (Status s =
                tensors.add(member.tied[t], at + "." + indexed("tied", t)))
          return s;
    }
    DistinctNames states;
    for (size_t k = 0; k < flat.states.size(); ++k)
      if (Status s = states.add(flat.states[k].name,
                                path + "." + indexed("states", k) + ".name"))
        return s;
  }
  for (size_t i = 0; i < manifest.buffers.size(); ++i)
    if (Status s = tensors.add(manifest.buffers[i].fqn,
                               indexed("buffers", i) + ".fqn"))
      return s;
  DistinctNames residuals;
  for (size_t i = 0; i < manifest.residuals.size(); ++i)
    if (Status s = residuals.add(manifest.residuals[i].name,
                                 indexed("residuals", i) + ".name"))
      return s;
  for (size_t i = 0; i < manifest.programs.size(); ++i)
    if (Status s = programs.add(manifest.programs[i].name,
                                indexed("programs", i) + ".name"))
      return s;
  return Status::ok();
}

/// The names of a program's own lists.
Status checkProgramNames(const Program &program) {
  DistinctNames inputs, scalars, outputs, segments;
  auto add = [](DistinctNames &names, const auto &list, const char *key) {
    for (size_t i = 0; i < list.size(); ++i)
      if (Status s = names.add(list[i].name, indexed(key, i) + ".name"))
        return s;
    return Status::ok();
  };
  if (Status s = add(inputs, program.inputs, "inputs"))
    return s;
  if (Status s = add(scalars, program.scalars, "scalars"))
    return s;
  if (Status s = add(outputs, program.outputs, "outputs"))
    return s;
  return add(segments, program.segments, "arena.segments");
}

Status checkFlatParam(const Manifest &manifest, const FlatParam &flat,
                      const std::string &path) {
  int64_t ranks = 1, whole;
  for (int axis : flat.shardAxes)
    ranks *= manifest.mesh[axis].size;
  if (__builtin_mul_overflow(flat.shardNumel, ranks, &whole) ||
      whole != flat.numel)
    return Status::failed(path + ".numel: expected shard_numel " +
                          std::to_string(flat.shardNumel) + " times " +
                          std::to_string(ranks) + " ranks of shard_axes, got " +
                          std::to_string(flat.numel));
  int64_t end = 0;
  for (size_t m = 0; m < flat.members.size(); ++m) {
    const Member &member = flat.members[m];
    std::string at = path + "." + indexed("members", m) + ".offset";
    if (member.offset < end)
      return Status::failed(at + ": expected at least " + std::to_string(end) +
                            ", the end of the member before, got " +
                            std::to_string(member.offset));
    end = member.offset + member.numel;
    if (end > flat.numel)
      return Status::failed(at + ": expected '" + member.fqn +
                            "' to end within " + std::to_string(flat.numel) +
                            " elements, got " + std::to_string(end));
  }
  return Status::ok();
}

/// What lives from one program to the next: `state` in the device's arena,
/// `hostState` in the host's.
Status checkStates(const Manifest &manifest, Ranges &state, Ranges &hostState) {
  // Scalar states that several flat parameters share: one place, once.
  std::unordered_map<int64_t, const OptimizerState *> shared;
  for (size_t i = 0; i < manifest.flatParams.size(); ++i) {
    const FlatParam &flat = manifest.flatParams[i];
    std::string path = indexed("flat_params", i);
    if (Status s = checkFlatParam(manifest, flat, path))
      return s;
    auto arenaOf = [&](fsdp_rt_memory memory) -> Ranges & {
      return memory == FSDP_RT_HOST ? hostState : state;
    };
    if (Status s = arenaOf(flat.memory)
                       .add(flat.offset,
                            flat.shardNumel * dtypeSize(flat.dtype), path))
      return s;
    for (size_t k = 0; k < flat.states.size(); ++k) {
      const OptimizerState &it = flat.states[k];
      int64_t count = it.scalar ? 1 : flat.shardNumel;
      if (it.scalar) {
        auto [first, isNew] = shared.emplace(it.offset, &it);
        if (!isNew && first->second->name == it.name &&
            first->second->dtype == it.dtype && first->second->init == it.init)
          continue;
      }
      if (Status s =
              arenaOf(it.memory).add(it.offset, count * dtypeSize(it.dtype),
                                     path + "." + indexed("states", k)))
        return s;
    }
  }
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const Buffer &buffer = manifest.buffers[i];
    if (Status s =
            state.add(buffer.offset, buffer.numel * dtypeSize(buffer.dtype),
                      indexed("buffers", i)))
      return s;
  }
  for (size_t i = 0; i < manifest.residuals.size(); ++i) {
    const Residual &residual = manifest.residuals[i];
    if (Status s = state.add(residual.offset, residual.bytes(),
                             indexed("residuals", i)))
      return s;
  }
  for (auto [key, derived] : {std::pair("accumulators", &manifest.accumulators),
                              std::pair("gathered", &manifest.gathered)})
    for (size_t i = 0; i < derived->size(); ++i)
      if (Status s = state.add((*derived)[i].offset, (*derived)[i].bytes(),
                               indexed(key, i)))
        return s;
  if (Status s = hostState.checkDisjoint())
    return s;
  return state.checkDisjoint();
}

/// What else the runtime writes before a program and reads after it. Results
/// may take the place of inputs, which are spent by then. Two outputs may be
/// one tensor, which then has the same bytes under both names.
Status checkPlaces(const Program &program, const Ranges &state) {
  Ranges segments(program.arenaBytes, "arena.bytes");
  for (size_t i = 0; i < program.segments.size(); ++i)
    if (Status s =
            segments.add(program.segments[i].offset, program.segments[i].bytes,
                         indexed("arena.segments", i)))
      return s;
  if (Status s = segments.checkDisjoint())
    return s;
  Ranges before = state, after = state;
  before.setEnd(program.arenaBytes, "arena.bytes");
  after.setEnd(program.arenaBytes, "arena.bytes");
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (Status s = before.add(program.inputs[i].offset,
                              program.inputs[i].bytes(), indexed("inputs", i)))
      return s;
  for (size_t i = 0; i < program.scalars.size(); ++i)
    if (Status s = before.add(program.scalars[i].offset,
                              dtypeSize(program.scalars[i].dtype),
                              indexed("scalars", i)))
      return s;
  if (Status s = before.checkDisjoint())
    return s;
  std::set<std::pair<int64_t, int64_t>> outputs;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Output &output = program.outputs[i];
    if (!outputs.emplace(output.offset, output.bytes()).second)
      continue;
    if (Status s =
            after.add(output.offset, output.bytes(), indexed("outputs", i)))
      return s;
  }
  return after.checkDisjoint();
}

Status checkCertificate(const Program &program) {
  if (!program.certificate)
    return Status::ok();
  const Certificate &certificate = *program.certificate;
  if (certificate.peakBytes != program.arenaBytes)
    return Status::failed("certificate.peak_bytes: expected the " +
                          std::to_string(program.arenaBytes) +
                          " bytes of the arena, got " +
                          std::to_string(certificate.peakBytes));
  if (certificate.hostBytes != program.hostBytes)
    return Status::failed("certificate.host_bytes: expected the " +
                          std::to_string(program.hostBytes) +
                          " bytes of the host's arena, got " +
                          std::to_string(certificate.hostBytes));
  auto transfers = static_cast<int64_t>(certificate.transfers.size());
  if (program.events > 0 && transfers != program.events)
    return Status::failed("certificate.transfers: expected one for each of " +
                          std::to_string(program.events) + " events, got " +
                          std::to_string(transfers));
  return Status::ok();
}

/// Bounds are added up over the programs of a step.
Status checkBounds(const Manifest &manifest) {
  const Program *first = nullptr;
  for (size_t i = 0; i < manifest.programs.size(); ++i) {
    const Program &program = manifest.programs[i];
    if (!program.bound)
      continue;
    if (first && program.bound->machine != first->bound->machine)
      return Status::failed(indexed("programs", i) +
                            ".bound.machine: expected '" +
                            first->bound->machine + "', as of " + first->name +
                            ", got '" + program.bound->machine + "'");
    first = &program;
  }
  return Status::ok();
}

/// Programs that update tell the scale, and skip by it.
Status checkLossScale(const Manifest &manifest) {
  if (!manifest.lossScale)
    return Status::ok();
  const LossScale &scale = *manifest.lossScale;
  if (!(scale.backoff > 0 && scale.backoff < 1) || !(scale.least >= 0))
    return Status::failed("loss_scale: expected a backoff between 0 and 1, and "
                          "a min of at least 0, got " +
                          std::to_string(scale.backoff) + " and " +
                          std::to_string(scale.least));
  if (!manifest.skipsNonfinite)
    return Status::failed("loss_scale: expected it beside skips_nonfinite");
  for (const Program &program : manifest.programs) {
    const Output *output = program.findOutput("loss_scale");
    if (program.traits().updates &&
        (!output || output->dtype != FSDP_RT_F32 || !output->shape.empty()))
      return Status::failed("loss_scale: expected a number among the outputs "
                            "of " +
                            program.name + ", F32, named 'loss_scale'");
  }
  return Status::ok();
}

/// What a user may ask of each kind.
Status checkOutputs(const Program &program) {
  for (auto [name, isNeeded] :
       {std::pair("loss", program.traits().hasBackward),
        std::pair("grad_norm", program.traits().updates)})
    if (isNeeded && !program.findOutput(name))
      return Status::failed("outputs: expected one named '" +
                            std::string(name) + "', got none");
  if (program.findOutput("loss_count") && !program.findOutput("loss"))
    return Status::failed("outputs: expected one named 'loss' beside "
                          "'loss_count', got none");
  if (program.outputs.empty())
    return Status::failed("outputs: expected at least one, got none");
  return Status::ok();
}

/// Micro-batches are what steps are made of: one source of batches has both.
Status checkAccumulation(const Manifest &manifest) {
  const Program *first = manifest.microBatch(),
                *last = manifest.lastMicroBatch(),
                *gathering = manifest.firstMicroBatch();
  if (!first && !last && !gathering)
    return Status::ok();
  if (!first || !last)
    return Status::failed(
        std::string("programs: expected one of kind ") +
        (first ? "train_accumulated" : "accumulate") + " beside one of kind " +
        (first ? "accumulate" : "train_accumulated") + ", got none");
  const bool isSum = manifest.train().findOutput("loss_count");
  std::vector<const Program *> all = {first, last};
  if (gathering)
    all.push_back(gathering);
  for (const Program *program : all)
    if (bool(program->findOutput("loss_count")) != isSum)
      return Status::failed(
          "programs: expected '" + program->name + "' to have " +
          (isSum ? "an" : "no") + " output 'loss_count', as '" +
          manifest.train().name + "', got " + (isSum ? "none" : "one"));
  for (auto [program, name] :
       {std::pair(all.back(), scalars::accumulated.name),
        std::pair(first, scalars::accumulated.name),
        std::pair(last, scalars::accumulated.name),
        std::pair(last, isSum ? scalars::accumulatedCount.name
                              : scalars::accumulationWeight.name)})
    if (!program->findScalar(name))
      return Status::failed("programs: expected a scalar '" +
                            std::string(name) + "' of '" + program->name +
                            "', got none");
  const std::vector<Input> &wanted = manifest.train().inputs;
  auto isAlike = [](const Input &a, const Input &b) {
    return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
  };
  for (const Program *program : all)
    if (!std::equal(wanted.begin(), wanted.end(), program->inputs.begin(),
                    program->inputs.end(), isAlike))
      return Status::failed("programs: expected '" + program->name +
                            "' to have the inputs of '" +
                            manifest.train().name + "', got others");
  return Status::ok();
}

/// A sum for each gradient, where there are programs that add up.
Status checkAccumulators(const Manifest &manifest) {
  bool isAccumulating = manifest.microBatch() != nullptr;
  if (!isAccumulating && !manifest.accumulators.empty())
    return Status::failed("accumulators: expected none without a program of "
                          "kind accumulate, got " +
                          std::to_string(manifest.accumulators.size()));
  DistinctNames names;
  std::unordered_map<std::string, const FlatParam *> trainable;
  for (const FlatParam &flat : manifest.flatParams)
    if (flat.trainable)
      trainable.emplace(flat.name, &flat);
  for (size_t i = 0; i < manifest.accumulators.size(); ++i) {
    const DerivedState &accumulator = manifest.accumulators[i];
    std::string path = indexed("accumulators", i);
    auto found = trainable.find(accumulator.flatParam);
    if (found == trainable.end())
      return Status::failed(path +
                            ".flat_param: expected a trainable flat "
                            "parameter, got '" +
                            accumulator.flatParam + "'");
    if (Status s = names.add(accumulator.flatParam, path + ".flat_param"))
      return s;
    const FlatParam &flat = *found->second;
    if (accumulator.numel != flat.numel && accumulator.numel != flat.shardNumel)
      return Status::failed(
          path + ".numel: expected " + std::to_string(flat.shardNumel) +
          " or " + std::to_string(flat.numel) + ", shard_numel or numel of '" +
          flat.name + "', got " + std::to_string(accumulator.numel));
  }
  for (const FlatParam &flat : manifest.flatParams)
    if (isAccumulating && flat.trainable && !names.has(flat.name))
      return Status::failed("accumulators: expected one for '" + flat.name +
                            "', which is trainable, got none");
  return Status::ok();
}

/// What stays gathered, and the program that gathers it.
Status checkGathered(const Manifest &manifest) {
  bool hasProgram = manifest.firstMicroBatch() != nullptr;
  if (hasProgram == manifest.gathered.empty())
    return Status::failed(
        std::string("gathered: expected ") +
        (hasProgram
             ? "states beside a program of kind accumulate_first"
             : "a program of kind accumulate_first beside " +
                   std::to_string(manifest.gathered.size()) + " states") +
        ", got none");
  DistinctNames names;
  for (size_t i = 0; i < manifest.gathered.size(); ++i) {
    const DerivedState &state = manifest.gathered[i];
    std::string path = indexed("gathered", i);
    auto flat = std::find_if(
        manifest.flatParams.begin(), manifest.flatParams.end(),
        [&](const FlatParam &it) { return it.name == state.flatParam; });
    if (flat == manifest.flatParams.end())
      return Status::failed(path +
                            ".flat_param: expected a flat parameter, "
                            "got '" +
                            state.flatParam + "'");
    if (Status s = names.add(state.flatParam, path + ".flat_param"))
      return s;
    if (state.numel != flat->numel)
      return Status::failed(path + ".numel: expected " +
                            std::to_string(flat->numel) + ", numel of '" +
                            flat->name + "', got " +
                            std::to_string(state.numel));
  }
  return Status::ok();
}

/// The artifact's arena is the largest program's.
Status checkSizes(const Manifest &manifest) {
  int64_t bytes = 0, host = 0;
  bool hasTrain = false;
  for (const Program &program : manifest.programs) {
    bytes = std::max(bytes, program.arenaBytes);
    host = std::max(host, program.hostBytes);
    hasTrain |= program.traits().isStep;
  }
  if (!hasTrain)
    return Status::failed("programs: expected one of kind train, got none");
  if (bytes != manifest.arenaBytes)
    return Status::failed("arena.bytes: expected " + std::to_string(bytes) +
                          ", what the largest program takes, got " +
                          std::to_string(manifest.arenaBytes));
  if (host != manifest.hostBytes)
    return Status::failed("arena.host_bytes: expected " + std::to_string(host) +
                          ", what the largest program takes, got " +
                          std::to_string(manifest.hostBytes));
  return Status::ok();
}

} // namespace

Status checkManifest(const Manifest &manifest) {
  if (Status s = checkNames(manifest))
    return s;
  if (Status s = checkSizes(manifest))
    return s;
  if (Status s = checkAccumulation(manifest))
    return s;
  if (Status s = checkAccumulators(manifest))
    return s;
  if (Status s = checkGathered(manifest))
    return s;
  if (Status s = checkBounds(manifest))
    return s;
  if (Status s = checkLossScale(manifest))
    return s;
  Ranges state(manifest.stateBytes, "arena.state_bytes");
  Ranges hostState(manifest.hostStateBytes, "arena.host_state_bytes",
                   FSDP_RT_HOST);
  if (Status s = checkStates(manifest, state, hostState))
    return s;
  for (size_t i = 0; i < manifest.programs.size(); ++i) {
    const Program &program = manifest.programs[i];
    Status status = checkProgramNames(program);
    if (!status)
      status = checkCertificate(program);
    if (!status)
      status = checkOutputs(program);
    if (!status)
      status = checkPlaces(program, state);
    if (status)
      return Status::failed(indexed("programs", i) + "." + status.message());
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
