//===- Manifest.cpp - Reading the manifest --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Manifest.h"

#include "data/Json.h"
#include "data/ManifestFacts.h"
#include "data/Numbers.h"
#include "hal/Layout.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <limits>

namespace fsdp::rt::data {

namespace {

constexpr int64_t maxRanks = 1 << 24;

Dtype readDtype(const JsonReader &json) {
  std::string name = json.string();
  if (json.failed())
    return FSDP_RT_F32;
  if (std::optional<Dtype> dtype = dtypeFromName(name))
    return *dtype;
  json.fail("expected one of F32, F64, F16, BF16, I64, I32, I16, I8, U8, BOOL, "
            "got '" +
            name + "'");
  return FSDP_RT_F32;
}

double readNumberOf(Dtype dtype, const JsonReader &json) {
  double value = json.number();
  if (!json.failed() && !isRepresentable(dtype, value))
    json.fail(std::string("expected a whole number that dtype ") +
              dtypeName(dtype) + " holds, got " + std::to_string(value));
  return value;
}

int64_t readOffset(const JsonReader &json) {
  int64_t offset = json.integer(0, maxBytes);
  if (!json.failed() && offset % 256 != 0)
    json.fail("expected a multiple of 256, got " + std::to_string(offset));
  return offset;
}

Shape readShape(const JsonReader &json) {
  Shape shape;
  int64_t numel = 1;
  bool isTooLarge = false;
  json.forEach([&](const JsonReader &extent) {
    shape.push_back(extent.integer(0, maxBytes));
    isTooLarge |= __builtin_mul_overflow(numel, shape.back(), &numel);
  });
  if (isTooLarge || numel > maxBytes / 8) {
    json.fail("expected a shape of at most 2^57 elements, got " +
              toString(shape));
    return {};
  }
  return shape;
}

/// Axes of the mesh in the order in which they are named, each once.
std::vector<int> readAxes(const JsonReader &json,
                          const std::vector<MeshAxis> &mesh) {
  std::vector<int> axes;
  json.forEach([&](const JsonReader &entry) {
    std::string name = entry.string();
    auto it = std::find_if(mesh.begin(), mesh.end(), [&](const MeshAxis &axis) {
      return axis.name == name;
    });
    if (it == mesh.end())
      return entry.fail("expected an axis of the mesh, got '" + name + "'");
    axes.push_back(static_cast<int>(it - mesh.begin()));
  });
  for (auto axis = axes.begin(); axis != axes.end(); ++axis)
    if (std::find(axes.begin(), axis, *axis) != axis) {
      json.fail("expected distinct axes, got '" + mesh[*axis].name + "' twice");
      break;
    }
  return axes;
}

/// One element of `values`, appended in the tensor's dtype.
void appendValue(const JsonReader &json, Dtype dtype, std::vector<char> &out) {
  char element[8];
  if (isFloat(dtype))
    storeFloat(dtype, json.extendedNumber(), element);
  else
    storeInteger(dtype, json.integer(minOf(dtype), maxOf(dtype)), element);
  out.insert(out.end(), element, element + dtypeSize(dtype));
}

double readStd(const JsonReader &json) {
  double std = json.number();
  if (!json.failed() && std < 0)
    json.fail("expected a number of at least 0, got " + std::to_string(std));
  return std;
}

void readRange(const JsonReader &json, Initializer &init) {
  init.low = json["low"].number();
  init.high = json["high"].number();
  if (!json.failed() && !(init.low < init.high))
    json.fail("expected low < high, got " + std::to_string(init.low) + " and " +
              std::to_string(init.high));
}

Initializer readInitializer(const JsonReader &json, Dtype dtype,
                            int64_t numel) {
  using Kind = Initializer::Kind;
  Initializer init;
  if (json.isNull() || json.failed())
    return init;
  std::string kind = json["kind"].string();
  if (kind == "constant") {
    init.kind = Kind::Constant;
    JsonReader value = json["value"];
    init.value = isFloat(dtype)
                     ? value.extendedNumber()
                     : double(value.integer(minOf(dtype), maxOf(dtype)));
  } else if (kind == "values") {
    init.kind = Kind::Values;
    JsonReader values = json["values"];
    values.forEach([&](const JsonReader &element) {
      appendValue(element, dtype, init.values);
    });
    if (!json.failed() && int64_t(values.arraySize()) != numel)
      values.fail("expected " + std::to_string(numel) + " values, got " +
                  std::to_string(values.arraySize()));
  } else if (kind == "normal") {
    init.kind = Kind::Normal;
    init.mean = json["mean"].number();
    init.std = readStd(json["std"]);
  } else if (kind == "uniform") {
    init.kind = Kind::Uniform;
    readRange(json, init);
  } else if (kind == "truncated_normal") {
    init.kind = Kind::TruncatedNormal;
    init.mean = json["mean"].number();
    init.std = readStd(json["std"]);
    readRange(json, init);
  } else {
    json["kind"].fail("expected one of constant, normal, uniform, "
                      "truncated_normal, values, got '" +
                      kind + "'");
  }
  if (!json.failed() && !isFloat(dtype) && kind != "constant" &&
      kind != "values")
    json["kind"].fail(std::string("expected constant or values for dtype ") +
                      dtypeName(dtype) + ", got " + kind);
  return init;
}

Member readMember(const JsonReader &json, Dtype dtype) {
  Member member;
  member.fqn = json["fqn"].nonEmptyString();
  json["tied"].forEach([&](const JsonReader &name) {
    member.tied.push_back(name.nonEmptyString());
  });
  member.shape = readShape(json["shape"]);
  member.numel = numelOf(member.shape);
  member.offset = json["offset"].integer(0, maxBytes);
  member.init = readInitializer(json["init"], dtype, member.numel);
  return member;
}

fsdp_rt_memory readMemory(const JsonReader &json) {
  std::string name = json.string();
  if (!json.failed() && name != "device" && name != "host")
    json.fail("expected device or host, got '" + name + "'");
  return name == "host" ? FSDP_RT_HOST : FSDP_RT_DEVICE;
}

OptimizerState readState(const JsonReader &json) {
  OptimizerState state;
  state.name = json["name"].nonEmptyString();
  state.dtype = readDtype(json["dtype"]);
  state.scalar = json["scalar"].boolean();
  state.memory = readMemory(json["memory"]);
  if (!json.failed() && state.scalar && state.memory != FSDP_RT_DEVICE)
    json["memory"].fail("expected device for a scalar state, got 'host'");
  state.offset = readOffset(json["offset"]);
  state.init = readNumberOf(state.dtype, json["init"]);
  return state;
}

FlatParam readFlatParam(const JsonReader &json,
                        const std::vector<MeshAxis> &mesh) {
  FlatParam flat;
  flat.name = json["name"].nonEmptyString();
  flat.unit = json["unit"].string();
  flat.dtype = readDtype(json["dtype"]);
  flat.numel = json["numel"].integer(0, maxBytes / 8);
  flat.shardNumel = json["shard_numel"].integer(0, maxBytes / 8);
  flat.shardAxes = readAxes(json["shard_axes"], mesh);
  flat.trainable = json["trainable"].boolean();
  flat.perRank = json["per_rank"].boolean();
  flat.memory = readMemory(json["memory"]);
  flat.offset = readOffset(json["offset"]);
  json["members"].forEach([&](const JsonReader &member) {
    flat.members.push_back(readMember(member, flat.dtype));
  });
  json["states"].forEach([&](const JsonReader &state) {
    flat.states.push_back(readState(state));
  });
  if (!json.failed() && flat.trainable && !isFloat(flat.dtype))
    json["dtype"].fail(
        std::string("expected a float dtype for what is trainable, got ") +
        dtypeName(flat.dtype));
  if (!json.failed() && flat.perRank &&
      !(flat.trainable && flat.shardAxes.empty()))
    json["per_rank"].fail("expected true only for what is trainable and has no "
                          "shard_axes, got it here");
  return flat;
}

Buffer readBuffer(const JsonReader &json) {
  Buffer buffer;
  buffer.fqn = json["fqn"].nonEmptyString();
  buffer.dtype = readDtype(json["dtype"]);
  buffer.shape = readShape(json["shape"]);
  buffer.numel = numelOf(buffer.shape);
  buffer.offset = readOffset(json["offset"]);
  buffer.perRank = json["per_rank"].boolean();
  buffer.init = readInitializer(json["init"], buffer.dtype, buffer.numel);
  return buffer;
}

Residual readResidual(const JsonReader &json) {
  Residual residual;
  residual.name = json["name"].nonEmptyString();
  residual.dtype = readDtype(json["dtype"]);
  residual.shape = readShape(json["shape"]);
  residual.numel = numelOf(residual.shape);
  residual.offset = readOffset(json["offset"]);
  residual.init = readInitializer(json["init"], residual.dtype, residual.numel);
  if (!json.failed() && residual.init.kind == Initializer::Kind::None)
    json["init"].fail("expected an initialiser of a residual, got none");
  return residual;
}

std::optional<int64_t> readBound(const JsonReader &json, Dtype dtype) {
  if (json.failed() || json.isNull())
    return std::nullopt;
  if (isFloat(dtype)) {
    json.fail(std::string("expected null for dtype ") + dtypeName(dtype));
    return std::nullopt;
  }
  return json.integer();
}

/// What "allowed" and "draw" say of an input; both may be left out.
void readValues(const JsonReader &json, Input &input) {
  if (json.has("allowed"))
    json["allowed"].forEach([&](const JsonReader &value) {
      if (isFloat(input.dtype))
        value.fail(std::string("expected no value for dtype ") +
                   dtypeName(input.dtype));
      input.allowed.push_back(value.integer());
    });
  if (!json.has("draw") || json["draw"].isNull())
    return;
  std::vector<int64_t> ends;
  JsonReader draw = json["draw"];
  draw.forEach(
      [&](const JsonReader &value) { ends.push_back(value.integer()); });
  if (draw.failed())
    return;
  bool isRange = ends.size() == 2 && ends[0] < ends[1] &&
                 !isFloat(input.dtype) && ends[0] >= minOf(input.dtype) &&
                 ends[1] - 1 <= maxOf(input.dtype);
  if (!isRange)
    return draw.fail(std::string("expected [low, high) of values that ") +
                     dtypeName(input.dtype) + " holds");
  input.draw = {ends[0], ends[1]};
}

Input readInput(const JsonReader &json) {
  Input input;
  input.name = json["name"].nonEmptyString();
  input.dtype = readDtype(json["dtype"]);
  input.shape = readShape(json["shape"]);
  input.numel = numelOf(input.shape);
  input.offset = readOffset(json["offset"]);
  input.low = readBound(json["low"], input.dtype);
  input.high = readBound(json["high"], input.dtype);
  input.isShiftKnown = !json["shift"].isNull();
  if (input.isShiftKnown)
    input.shift = json["shift"].integer(0, maxBytes);
  if (!json.failed() && input.low && input.high && *input.low >= *input.high)
    json.fail("expected low < high, got " + std::to_string(*input.low) +
              " and " + std::to_string(*input.high));
  readValues(json, input);
  return input;
}

Scalar readScalar(const JsonReader &json) {
  Scalar scalar;
  scalar.name = json["name"].nonEmptyString();
  scalar.dtype = readDtype(json["dtype"]);
  scalar.offset = readOffset(json["offset"]);
  JsonReader value = json["default"];
  if (!value.isNull())
    scalar.init = readNumberOf(scalar.dtype, value);
  else if (const scalars::Traits *known = scalars::find(scalar.name);
           known && known->omitted == scalars::infinity &&
           isFloat(scalar.dtype))
    scalar.init = known->omitted;
  return scalar;
}

Output readOutput(const JsonReader &json) {
  Output output;
  output.name = json["name"].nonEmptyString();
  output.dtype = readDtype(json["dtype"]);
  output.shape = readShape(json["shape"]);
  output.numel = numelOf(output.shape);
  output.offset = readOffset(json["offset"]);
  bool isNumber = output.name == "loss" || output.name == "grad_norm";
  if (!json.failed() && isNumber && !isFloat(output.dtype))
    json["dtype"].fail(std::string("expected a float dtype, got ") +
                       dtypeName(output.dtype));
  bool isCount = output.name == "loss_count";
  if (!json.failed() && isCount && dtypeSize(output.dtype) < 4)
    json["dtype"].fail(std::string("expected F32, F64, I32 or I64, got ") +
                       dtypeName(output.dtype));
  if (!json.failed() && (isNumber || isCount) && !output.shape.empty())
    json["shape"].fail("expected one number, got shape " +
                       toString(output.shape));
  return output;
}

void readMesh(const JsonReader &json, std::vector<MeshAxis> &mesh) {
  int64_t ranks = 1;
  json.forEach([&](const JsonReader &entry) {
    MeshAxis axis;
    axis.name = entry["axis"].nonEmptyString();
    axis.size = entry["size"].integer(1, maxRanks);
    ranks *= axis.size;
    if (ranks > maxRanks)
      return json.fail("expected at most " + std::to_string(maxRanks) +
                       " ranks");
    for (const MeshAxis &other : mesh)
      if (other.name == axis.name)
        entry["axis"].fail("expected distinct axes, got '" + axis.name +
                           "' twice");
    mesh.push_back(std::move(axis));
  });
}

void readArena(const JsonReader &json, Manifest &manifest) {
  manifest.arenaBytes = json["bytes"].integer(0, maxBytes);
  manifest.hostBytes = json["host_bytes"].integer(0, maxBytes);
  manifest.stateBytes = json["state_bytes"].integer(0, manifest.arenaBytes);
  manifest.hostStateBytes =
      json["host_state_bytes"].integer(0, manifest.hostBytes);
  manifest.scratchBytes = json["scratch_bytes"].integer(0, maxBytes);
  manifest.budgetBytes =
      json["budget_bytes"].integer(0, std::numeric_limits<int64_t>::max());
  if (manifest.budgetBytes && manifest.budgetBytes < manifest.arenaBytes)
    json["budget_bytes"].fail("expected 0 or at least " +
                              std::to_string(manifest.arenaBytes) + ", got " +
                              std::to_string(manifest.budgetBytes));
  if (json.has("reserved_bytes"))
    manifest.reservedBytes = json["reserved_bytes"].integer(0, maxBytes);
}

/// What a program takes of the artifact's arena.
void readProgramArena(const JsonReader &json, const Manifest &manifest,
                      Program &program) {
  program.arenaBytes =
      json["bytes"].integer(manifest.stateBytes, manifest.arenaBytes);
  program.hostBytes =
      json["host_bytes"].integer(manifest.hostStateBytes, manifest.hostBytes);
  json["segments"].forEach([&](const JsonReader &entry) {
    Segment segment;
    segment.name = entry["name"].nonEmptyString();
    segment.offset = readOffset(entry["offset"]);
    segment.bytes = entry["bytes"].integer(0, maxBytes);
    program.segments.push_back(std::move(segment));
  });
}

hal::SumsOverRanks readReduction(const JsonReader &json) {
  std::string by = json["by"].string();
  if (!json.failed() && by != "exact" && by != "nccl")
    json["by"].fail("expected exact or nccl, got '" + by + "'");
  return {by == "nccl", json["ranks_per_node"].integer(0)};
}

std::map<int32_t, int64_t> readReductionBytes(const JsonReader &json) {
  std::map<int32_t, int64_t> bytes;
  json.forEachEntry([&](const std::string &name, const JsonReader &value) {
    std::optional<int32_t> queue = FSDP_RT_QUEUE_COMPUTE;
    if (name != "compute")
      queue = queueFromName(name);
    if (!queue)
      return value.fail("expected a queue, got '" + name + "'");
    bytes[*queue] = value.integer(0);
  });
  return bytes;
}

void readQueues(const JsonReader &json, Program &program) {
  program.events = json["events"].integer(0, hal::maxEvents);
  json["queues"].forEach([&](const JsonReader &entry) {
    std::string name = entry.string();
    if (entry.failed())
      return;
    std::optional<int32_t> queue = queueFromName(name);
    if (!queue)
      return entry.fail("expected one of all_gather, reduce, all_reduce, d2h, "
                        "h2d, got '" +
                        name + "'");
    if (!program.queues.empty() && *queue <= program.queues.back())
      return entry.fail("expected distinct queues in the order all_gather, "
                        "reduce, all_reduce, d2h, h2d, got '" +
                        name + "' behind '" + queueName(program.queues.back()) +
                        "'");
    program.queues.push_back(*queue);
  });
  if (!json.failed() && (program.events > 0) == program.queues.empty())
    json["queues"].fail(program.queues.empty()
                            ? "expected a queue for " +
                                  std::to_string(program.events) +
                                  " events, got none"
                            : "expected no queue without events, got " +
                                  std::to_string(program.queues.size()));
}

void readTraffic(const JsonReader &json, const Manifest &manifest,
                 Program &program) {
  json.forEach([&](const JsonReader &entry) {
    TrafficRow row;
    row.group = entry["group"].integer(
        0, std::max<int64_t>(0, int64_t(manifest.groups.size()) - 1));
    row.kind = entry["kind"].string();
    row.calls = entry["calls"].integer(0);
    row.bytes = entry["bytes"].integer(0);
    std::optional<int32_t> kind = transferFromName(row.kind);
    if (!entry.failed() && (!kind || !isCollective(*kind)))
      entry["kind"].fail("expected a kind of collective, got '" + row.kind +
                         "'");
    if (!entry.failed() && manifest.groups.empty())
      entry["group"].fail("expected a group, got none in 'groups'");
    program.traffic.push_back(std::move(row));
  });
}

void readHeader(const JsonReader &json, Manifest &manifest) {
  int64_t format = json["format"].integer();
  if (!json.failed() && format != 3)
    json["format"].fail("expected 3, got " + std::to_string(format));
  manifest.name = json["name"].nonEmptyString();
  manifest.fingerprint = json["fingerprint"].nonEmptyString();
  json["targets"].forEach([&](const JsonReader &entry) {
    CodeTarget &target = manifest.targets.emplace_back();
    target.kind = entry["kind"].nonEmptyString();
    target.cpu = entry["cpu"].string();
    entry["features"].forEach([&](const JsonReader &feature) {
      target.features.push_back(feature.nonEmptyString());
    });
  });
  if (!json.failed() && manifest.targets.empty())
    json["targets"].fail("expected what there is code for, got none");
  manifest.strategy = json["strategy"].string();
  manifest.wrap = json["wrap"].string();
  if (json.has("notes"))
    json["notes"].forEach([&](const JsonReader &note) {
      manifest.notes.push_back(note.nonEmptyString());
    });
}

DerivedState readDerivedState(const JsonReader &json) {
  DerivedState state;
  state.flatParam = json["flat_param"].nonEmptyString();
  state.dtype = readDtype(json["dtype"]);
  state.numel = json["numel"].integer(0, maxBytes / 8);
  state.offset = readOffset(json["offset"]);
  if (!json.failed() && !isFloat(state.dtype))
    json["dtype"].fail(std::string("expected a float dtype, got ") +
                       dtypeName(state.dtype));
  return state;
}

Program::Kind readKind(const JsonReader &json) {
  std::string text = json.string(), names;
  for (const ProgramTraits &traits : fsdp_rt::programTraits) {
    if (text == traits.name)
      return Program::Kind(&traits - fsdp_rt::programTraits);
    names += traits.name + std::string(", ");
  }
  json.fail("expected one of " + names + "got '" + text + "'");
  return {};
}

Program readProgram(const JsonReader &json, const Manifest &manifest) {
  Program program;
  program.name = json["name"].nonEmptyString();
  program.kind = readKind(json["kind"]);
  readQueues(json, program);
  readProgramArena(json["arena"], manifest, program);
  readPlan(json["plan"]);
  if (json.has("certificate"))
    program.certificate = readCertificate(json["certificate"]);
  if (json.has("flops"))
    program.flops = json["flops"].integer(0);
  if (json.has("bound"))
    program.bound = readBound(json["bound"]);
  readTraffic(json["traffic"], manifest, program);
  json["inputs"].forEach([&](const JsonReader &input) {
    program.inputs.push_back(readInput(input));
  });
  json["scalars"].forEach([&](const JsonReader &scalar) {
    program.scalars.push_back(readScalar(scalar));
  });
  json["outputs"].forEach([&](const JsonReader &output) {
    program.outputs.push_back(readOutput(output));
  });
  return program;
}

void readAll(const JsonReader &json, Manifest &manifest) {
  readHeader(json, manifest);
  readMesh(json["mesh"], manifest.mesh);
  json["groups"].forEach([&](const JsonReader &group) {
    // The order in which axes are named means nothing: ranks go by number.
    std::vector<int> axes = readAxes(group["axes"], manifest.mesh);
    std::sort(axes.begin(), axes.end());
    manifest.groups.push_back(std::move(axes));
  });
  readArena(json["arena"], manifest);
  if (json.has("traced"))
    manifest.traced = readTraced(json["traced"]);
  if (json.has("skips_nonfinite"))
    manifest.skipsNonfinite = json["skips_nonfinite"].boolean();
  if (json.has("loss_scale"))
    manifest.lossScale = LossScale{json["loss_scale"]["backoff"].number(),
                                   json["loss_scale"]["min"].number()};
  if (json.has("reduce_dtype"))
    manifest.reduceDtype = readDtype(json["reduce_dtype"]);
  if (json.has("reduction"))
    manifest.sums = readReduction(json["reduction"]);
  if (json.has("reduction_bytes"))
    manifest.reductionBytes = readReductionBytes(json["reduction_bytes"]);
  if (json.has("nccl"))
    json["nccl"].forEachEntry(
        [&](const std::string &name, const JsonReader &value) {
          if (name.rfind("NCCL_", 0) != 0)
            value.fail("expected a variable of NCCL, got '" + name + "'");
          manifest.ncclVariables[name] = value.nonEmptyString();
        });
  if (json.has("tuning")) {
    manifest.tunedFor = json["tuning"]["device"].nonEmptyString();
    manifest.tunedCapability = json["tuning"]["capability"].nonEmptyString();
  }
  json["flat_params"].forEach([&](const JsonReader &flat) {
    manifest.flatParams.push_back(readFlatParam(flat, manifest.mesh));
  });
  json["buffers"].forEach([&](const JsonReader &buffer) {
    manifest.buffers.push_back(readBuffer(buffer));
  });
  if (json.has("residuals"))
    json["residuals"].forEach([&](const JsonReader &residual) {
      manifest.residuals.push_back(readResidual(residual));
    });
  for (auto [key, states] : {std::pair("accumulators", &manifest.accumulators),
                             std::pair("gathered", &manifest.gathered)})
    if (json.has(key))
      json[key].forEach([states = states](const JsonReader &state) {
        states->push_back(readDerivedState(state));
      });
  json["programs"].forEach([&](const JsonReader &program) {
    manifest.programs.push_back(readProgram(program, manifest));
  });
}

} // namespace

Result<Manifest> parseManifest(std::string_view text) {
  Result<nlohmann::json> json = parseJson(text);
  if (!json.isOk())
    return json.status().withContext("manifest");
  Manifest manifest;
  manifest.text = text;
  Status status;
  readAll(JsonReader(*json, status), manifest);
  if (!status)
    status = checkManifest(manifest);
  return status ? Result<Manifest>(status.withContext("manifest")) : manifest;
}

} // namespace fsdp::rt::data
