//===- ManifestRules.cpp - Rules between the manifest's keys --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/Manifest.h"

#include <algorithm>
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

private:
  std::unordered_map<std::string, std::string> places_;
};

/// Bytes of the arena that something occupies.
struct Range {
  int64_t begin, end;
  std::string path;
};

std::string describe(const Range &range) {
  return range.path + " at bytes " + std::to_string(range.begin) + " to " +
         std::to_string(range.end);
}

class Ranges {
public:
  explicit Ranges(int64_t arenaBytes) : arenaBytes_(arenaBytes) {}

  Status add(int64_t offset, int64_t bytes, std::string path) {
    Range range{offset, offset + bytes, std::move(path)};
    if (range.end > arenaBytes_)
      return Status::failed(describe(range) + ": expected it to end within " +
                            std::to_string(arenaBytes_) +
                            " bytes of arena.bytes");
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

private:
  int64_t arenaBytes_;
  std::vector<Range> ranges_;
};

Status checkNames(const Manifest &manifest) {
  DistinctNames flats, tensors, inputs, scalars, segments;
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
  for (size_t i = 0; i < manifest.inputs.size(); ++i)
    if (Status s =
            inputs.add(manifest.inputs[i].name, indexed("inputs", i) + ".name"))
      return s;
  for (size_t i = 0; i < manifest.scalars.size(); ++i)
    if (Status s = scalars.add(manifest.scalars[i].name,
                               indexed("scalars", i) + ".name"))
      return s;
  for (size_t i = 0; i < manifest.segments.size(); ++i)
    if (Status s = segments.add(manifest.segments[i].name,
                                indexed("arena.segments", i) + ".name"))
      return s;
  return Status::ok();
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

/// What lives from step to step, and what else the runtime writes or reads.
/// Results may take the place of inputs, which are spent by then.
Status checkPlaces(const Manifest &manifest) {
  Ranges segments(manifest.arenaBytes);
  for (size_t i = 0; i < manifest.segments.size(); ++i)
    if (Status s = segments.add(manifest.segments[i].offset,
                                manifest.segments[i].bytes,
                                indexed("arena.segments", i)))
      return s;
  if (Status s = segments.checkDisjoint())
    return s;

  Ranges state(manifest.arenaBytes);
  // Scalar states that several flat parameters share: one place, once.
  std::unordered_map<int64_t, const OptimizerState *> shared;
  for (size_t i = 0; i < manifest.flatParams.size(); ++i) {
    const FlatParam &flat = manifest.flatParams[i];
    std::string path = indexed("flat_params", i);
    if (Status s = checkFlatParam(manifest, flat, path))
      return s;
    if (Status s = state.add(flat.offset,
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
      if (Status s = state.add(it.offset, count * dtypeSize(it.dtype),
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

  Ranges before = state, after = std::move(state);
  for (size_t i = 0; i < manifest.inputs.size(); ++i)
    if (Status s = before.add(manifest.inputs[i].offset,
                              manifest.inputs[i].bytes(), indexed("inputs", i)))
      return s;
  for (size_t i = 0; i < manifest.scalars.size(); ++i)
    if (Status s = before.add(manifest.scalars[i].offset,
                              dtypeSize(manifest.scalars[i].dtype),
                              indexed("scalars", i)))
      return s;
  if (Status s = before.checkDisjoint())
    return s;
  if (Status s = after.add(manifest.loss.offset, dtypeSize(manifest.loss.dtype),
                           "outputs.loss"))
    return s;
  if (Status s =
          after.add(manifest.gradNorm.offset,
                    dtypeSize(manifest.gradNorm.dtype), "outputs.grad_norm"))
    return s;
  return after.checkDisjoint();
}

Status checkCertificate(const Manifest &manifest) {
  if (!manifest.certificate)
    return Status::ok();
  const Certificate &certificate = *manifest.certificate;
  if (certificate.peakBytes != manifest.arenaBytes)
    return Status::failed("certificate.peak_bytes: expected the " +
                          std::to_string(manifest.arenaBytes) +
                          " bytes of the arena, got " +
                          std::to_string(certificate.peakBytes));
  if (certificate.hostBytes != manifest.hostBytes)
    return Status::failed("certificate.host_bytes: expected the " +
                          std::to_string(manifest.hostBytes) +
                          " bytes of the host's arena, got " +
                          std::to_string(certificate.hostBytes));
  auto transfers = static_cast<int64_t>(certificate.transfers.size());
  if (manifest.events > 0 && transfers != manifest.events)
    return Status::failed("certificate.transfers: expected one for each of " +
                          std::to_string(manifest.events) + " events, got " +
                          std::to_string(transfers));
  return Status::ok();
}

} // namespace

Status checkManifest(const Manifest &manifest) {
  if (Status s = checkNames(manifest))
    return s;
  if (Status s = checkCertificate(manifest))
    return s;
  return checkPlaces(manifest);
}

} // namespace fsdp::rt::data
