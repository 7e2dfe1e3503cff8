//===- Manifest.h - What a compiled program says of itself -------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/manifest.md as plain structs. A Manifest that parseManifest returned
// keeps every rule of that page; code that reads one need not check again.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_MANIFEST_H
#define FSDP_RT_DATA_MANIFEST_H

#include "core/Status.h"
#include "data/Elements.h"
#include "fsdp-rt/programs.h"
#include "fsdp-rt/scalars.h"
#include "hal/Layout.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp::rt::data {

using fsdp_rt::ProgramTraits;
namespace scalars = fsdp_rt::scalars;
using Shape = std::vector<int64_t>;

/// Product of the extents; the caller knows that it does not overflow.
int64_t numelOf(const Shape &shape);
/// "[4, 64]".
std::string toString(const Shape &shape);

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

struct Initializer {
  enum class Kind { None, Constant, Normal, Uniform, TruncatedNormal, Values };
  Kind kind = Kind::None;
  double value = 0;         // Constant
  double mean = 0, std = 1; // Normal, TruncatedNormal
  double low = 0, high = 1; // Uniform, TruncatedNormal
  std::vector<char> values; // Values: the elements in the tensor's dtype
};

struct Member {
  std::string fqn;
  std::vector<std::string> tied; // further names of the same parameter
  Shape shape;
  int64_t numel = 0;
  int64_t offset = 0; // in elements, in the whole
  Initializer init;
};

struct OptimizerState {
  std::string name;
  Dtype dtype = FSDP_RT_F32;
  bool scalar = false; // one element; else shardNumel
  /// The arena that the offset counts in; a scalar's is the device's.
  fsdp_rt_memory memory = FSDP_RT_DEVICE;
  int64_t offset = 0; // bytes
  double init = 0;
};

struct FlatParam {
  std::string name, unit;
  Dtype dtype = FSDP_RT_F32;
  int64_t numel = 0;          // elements of the whole, padding included
  int64_t shardNumel = 0;     // elements of one rank
  std::vector<int> shardAxes; // indices into mesh, the outermost first
  bool trainable = true;
  bool perRank = false; // each rank trains its own; shardAxes are empty
  fsdp_rt_memory memory = FSDP_RT_DEVICE;
  int64_t offset = 0; // bytes, of this rank's shard
  std::vector<Member> members;
  std::vector<OptimizerState> states;
};

struct Buffer {
  std::string fqn;
  Dtype dtype = FSDP_RT_F32;
  Shape shape;
  int64_t numel = 0;
  int64_t offset = 0;   // bytes
  bool perRank = false; // each rank changes its own
  Initializer init;
};

/// What a reduction hook keeps between steps: each rank's own, and no part of
/// the model. Its initialiser draws with seed 0.
struct Residual {
  std::string name;
  Dtype dtype = FSDP_RT_F32;
  Shape shape;
  int64_t numel = 0;
  int64_t offset = 0; // bytes
  Initializer init;

  int64_t bytes() const { return numel * dtypeSize(dtype); }
};

/// A state of a flat parameter that no checkpoint has: gradients of
/// micro-batches, summed up, which between two steps may be anything; or the
/// whole flat parameter, which stays gathered.
struct DerivedState {
  std::string flatParam;
  Dtype dtype = FSDP_RT_F32;
  int64_t numel = 0;  // elements of this rank
  int64_t offset = 0; // bytes

  int64_t bytes() const { return numel * dtypeSize(dtype); }
};

struct Input {
  std::string name;
  Dtype dtype = FSDP_RT_I64;
  Shape shape;
  int64_t numel = 0;
  int64_t offset = 0;               // bytes
  std::optional<int64_t> low, high; // low <= value < high
  std::vector<int64_t> allowed;     // legal beside that range
  /// low <= value < high of random data; where absent, the range above.
  std::optional<std::pair<int64_t, int64_t>> draw;
  int64_t shift = 0; // tokens
  /// Token data is refused where the shift is not known.
  bool isShiftKnown = true;

  int64_t bytes() const { return numel * dtypeSize(dtype); }
};

struct Scalar {
  std::string name;
  Dtype dtype = FSDP_RT_F32;
  int64_t offset = 0;         // bytes
  std::optional<double> init; // "default"
};

struct Output {
  std::string name;
  Dtype dtype = FSDP_RT_F32;
  Shape shape;
  int64_t numel = 1;
  int64_t offset = 0; // bytes

  int64_t bytes() const { return numel * dtypeSize(dtype); }
};

struct Segment {
  std::string name;
  int64_t offset = 0, bytes = 0;
};

struct TrafficRow {
  int64_t group = 0;
  std::string kind;
  int64_t calls = 0, bytes = 0;
};

/// What the code is that the manifest belongs to.
struct Certificate {
  struct Transfer {
    std::string unit; // empty: of none
    bool isBackward = false;
  };
  /// SHA-256 of the program, and of its order alone: hexadecimal.
  std::string program, issue;
  std::string order;
  int64_t peakBytes = 0, hostBytes = 0;
  std::vector<Transfer> transfers; // by event, or by place in the step
};

/// What no order of a program stays below on the machine that it was compiled
/// for, whatever runs it.
struct Bound {
  int64_t ns = 0; // of one run
  /// The part of the machine that the bound comes from, in words: "compute".
  std::string limit;
  std::string machine;
  /// At which the machine's units do the program's flops, in flops a second;
  /// none: the program has no products and no attention.
  std::optional<int64_t> peakFlops;
};

/// What the program was before anything was decided about ranks: equal for all
/// meshes, strategies, wrappings and orders of one traced step.
struct TracedProgram {
  /// SHA-256 of the step and of the optimizer: hexadecimal.
  std::string step, optimizer;
  /// The optimizer's float constants, each once, in the order of its text.
  std::vector<std::string> constants;
  /// Its kind and constants by name, as fsdp-compile --optimizer takes them;
  /// empty: an optimizer without a name.
  std::string spec;
};

/// A program of the artifact.
struct Program {
  using Kind = fsdp_rt::ProgramKind;
  std::string name;
  Kind kind = Kind::Train;
  int64_t events = 0;
  std::vector<int32_t> queues; // fsdp_rt_queue, increasing
  /// States included, which all programs share.
  int64_t arenaBytes = 0, hostBytes = 0;
  std::optional<Certificate> certificate;
  /// Of products and attention, in one run on one rank; what is computed again
  /// for backward counts once. None: nobody counted.
  std::optional<int64_t> flops;
  std::optional<Bound> bound; // none: compiled without a cluster
  std::vector<Segment> segments;
  std::vector<TrafficRow> traffic;
  std::vector<Input> inputs;
  std::vector<Scalar> scalars;
  std::vector<Output> outputs;

  const ProgramTraits &traits() const {
    return fsdp_rt::programTraits[size_t(kind)];
  }
  /// The named one, or null.
  const Input *findInput(std::string_view name) const;
  const Scalar *findScalar(std::string_view name) const;
  /// Names of the learning rates: "lr" first, where it has that, then those
  /// that groups of parameters have of their own.
  std::vector<std::string> rates() const;
  const Output *findOutput(std::string_view name) const;
};

/// What code was made for.
struct CodeTarget {
  std::string kind;
  /// The processor and what code may use of it, in LLVM's words: of cuda,
  /// "sm_80" and "ptx80".
  std::string cpu;
  std::vector<std::string> features;
};

/// How a scale of the loss changes that is a state of the program.
struct LossScale {
  /// It is multiplied by this after a gradient that is not finite.
  double backoff = 0.5;
  /// A run ends whose scale falls below.
  double least = 0;
};

struct Manifest {
  std::string name, fingerprint;
  std::optional<TracedProgram> traced; // none: not written by our compiler
  /// The step changes no parameter and no state where the gradient's norm is
  /// not finite.
  bool skipsNonfinite = false;
  /// Of a program whose steps have the output "loss_scale".
  std::optional<LossScale> lossScale;
  /// The type that gradients are added up in over ranks, where who compiled the
  /// program asked for it.
  std::optional<Dtype> reduceDtype;
  /// What NCCL should be told, as variables of its environment.
  std::map<std::string, std::string> ncclVariables;
  /// Of the card whose table decided shapes of kernels (--tuning): its name and
  /// compute capability, "9.0"; empty: none did.
  std::string tunedFor, tunedCapability;
  /// How CUDA devices add up over ranks; of code for others the default.
  hal::SumsOverRanks sums;
  /// By fsdp_rt_queue: bytes beside the arena that sums over ranks take on a
  /// CUDA device in the runtime's order; of code for other devices none.
  std::optional<std::map<int32_t, int64_t>> reductionBytes;
  /// What it has code for, in the order of kernels' implementations.
  std::vector<CodeTarget> targets;
  std::vector<MeshAxis> mesh; // outermost first
  std::string strategy, wrap;
  /// What is to be said of the traced step.
  std::vector<std::string> notes;
  std::vector<std::vector<int>> groups; // axes as indices into mesh
  /// Of the largest program, in the device's memory and in the host's.
  int64_t arenaBytes = 0, hostBytes = 0;
  /// Of the states, which lie at the begin of each.
  int64_t stateBytes = 0, hostStateBytes = 0;
  int64_t scratchBytes = 0;
  /// What the arena may take of a rank's memory, but for what is reserved for
  /// others and one thread; 0: whatever it takes.
  int64_t budgetBytes = 0;
  /// What the budget leaves beside the arena: for driver, libraries, graphs and
  /// communicators, and one thread; 0: unknown.
  int64_t reservedBytes = 0;
  std::vector<FlatParam> flatParams;
  std::vector<Buffer> buffers;
  std::vector<Residual> residuals;
  std::vector<DerivedState> accumulators, gathered;
  std::vector<Program> programs;
  std::string text; // the JSON it was parsed from

  /// Ranks of the mesh.
  int64_t worldSize() const;
  /// The step by itself; parseManifest sees to it that there is one.
  const Program &train() const { return *findKind(Program::Kind::Train); }
  /// The first program of that kind, or null.
  const Program *findKind(Program::Kind kind) const;
  const Program *evaluation() const { return findKind(Program::Kind::Eval); }
  /// The programs of a step of several micro-batches: of the last one, and of
  /// those before. parseManifest sees to it that there are both or neither.
  const Program *lastMicroBatch() const {
    return findKind(Program::Kind::TrainAccumulated);
  }
  const Program *microBatch() const {
    return findKind(Program::Kind::Accumulate);
  }
  /// The program of a step's first micro-batch where it differs from those
  /// behind it: it makes all of `gathered`. Else null.
  const Program *firstMicroBatch() const {
    return findKind(Program::Kind::AccumulateFirst);
  }
  /// The program of micro-batch `number` of the `count` of a step, from 1.
  const Program &programOf(int64_t number, int64_t count) const;
  /// The named program, or null.
  const Program *findProgram(std::string_view name) const;
  /// Events of the program that has most; queues of any program, increasing.
  int64_t mostEvents() const;
  std::vector<int32_t> allQueues() const;
};

/// Parses and checks `text`; an error begins with "manifest: " and the path of
/// the key that is at fault.
Result<Manifest> parseManifest(std::string_view text);

/// The rules that concern more than one key. parseManifest calls it.
Status checkManifest(const Manifest &manifest);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_MANIFEST_H
