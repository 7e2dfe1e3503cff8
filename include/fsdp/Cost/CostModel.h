//===- CostModel.h - How long kernels and transfers take --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one interface through which the scheduler, the bound, the simulator and
// the planner learn times. It knows no IR: a kernel is its arithmetic and
// memory traffic, a transfer its kind, bytes and group.
//
// Times are those of an op alone; what runs beside it only slows it down
// (rate() <= 1), so durations from here are lower bounds of any simulation.
// Time is in integer picoseconds: sums are exact, and equal on every machine.
//
// Implementations are immutable after construction: any thread may ask.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_COSTMODEL_H
#define FSDP_COST_COSTMODEL_H

#include "fsdp/ABI/Transfers.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

namespace mlir::fsdp {

/// Picoseconds.
using Time = int64_t;

/// Rounds to the nearest picosecond; what is not zero costs at least one, and
/// nothing more than 1e6 seconds.
Time toTime(double seconds);
double toSeconds(Time time);

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

enum class CostDtype : uint8_t { F64, F32, BF16, F16, F8 };
constexpr unsigned kNumCostDtypes = 5;
constexpr std::array<llvm::StringLiteral, kNumCostDtypes> kCostDtypeNames = {
    "f64", "f32", "bf16", "f16", "f8"};
std::optional<CostDtype> parseCostDtype(llvm::StringRef name);

enum class KernelKind : uint8_t {
  /// Anything whose arithmetic runs in vector units: elementwise, reductions,
  /// softmax, gathers of rows.
  Vector,
  /// One matrix product, batched or not, with what is fused around it.
  Matmul,
  /// The attention composite and its backward.
  Attention,
  AttentionBackward,
  /// Packs, casts and other moves of bytes.
  Copy
};

/// What computes results in a multiprocessor of a GPU. Integer: also
/// comparisons, selections and moves of bits; Special: approximations, and
/// conversions between integers and floats; Memory: loads, stores and shuffles,
/// of 4 bytes each; Matrix: a warp's product of 16 x 8 x 16.
enum class LaneUnit : uint8_t { Float, Integer, Special, Memory, Matrix };
constexpr unsigned kNumLaneUnits = 5;
constexpr std::array<llvm::StringLiteral, kNumLaneUnits> kLaneUnitNames = {
    "float", "integer", "special", "memory", "matrix"};

/// One function of a kernel's code for CUDA devices, as it is launched.
struct LaunchCost {
  int64_t blocks = 1;
  /// Of a block.
  int64_t threads = 1;
  /// Of a block, in bytes.
  int64_t shared = 0;
  /// Bytes of global memory that threads load and store: what several threads
  /// load counts for each of them.
  int64_t loaded = 0, stored = 0;
  /// The same, where the loads of one memory in one block or loop of the
  /// function's code together count at most all of that memory, and so its
  /// stores: what its threads, or the iterations of a loop, load again comes
  /// from a cache.
  int64_t read = 0, written = 0;
  /// Bytes that a thread loads before it waits for one of them, at most.
  int64_t bytesInFlight = 0;
  /// Instructions of all threads.
  int64_t instructions = 0;
  /// Results that each unit computes for all threads.
  std::array<int64_t, kNumLaneUnits> results = {};
  /// How often a thread waits for loads of global memory, each time for all
  /// that it has issued since the last; in the mean.
  int64_t waits = 0;
};

/// What a kernel does, independent of where it runs.
struct KernelCost {
  KernelKind kind = KernelKind::Vector;
  /// Multiplications and additions by the type they are done in. Of Matmul and
  /// the attentions, those in `dtype` run in the matrix units.
  std::array<int64_t, kNumCostDtypes> flops = {};
  /// Operands read once and results written once.
  int64_t bytes = 0;
  /// The type of a product's operands.
  CostDtype dtype = CostDtype::F32;
  /// Of a product; of attention, queries, keys and the size of a head, with
  /// batch times heads in `batch`. 0 elsewhere.
  int64_t m = 0, n = 0, k = 0, batch = 0;
  /// The kernel function's symbol, by which a profile knows it.
  std::string name;
  /// What a call launches on a CUDA device, in order; empty where the kernel
  /// has no code for one, as products of a library.
  llvm::SmallVector<LaunchCost, 0> launches = {};
};

/// Why a kernel takes longer than at the roof of its device.
enum class KernelLimit : uint8_t {
  /// It does not, or it is measured.
  None,
  /// Launches take most of what is lost.
  Launch,
  /// So few threads that the memory is not busy.
  Threads,
  /// Instructions take longer than memory and arithmetic.
  Instructions,
  /// Bytes are moved again.
  Reads,
  /// So few bytes that the memory does not reach its rate.
  Bytes,
  /// Units for arithmetic do not reach their peak at this size.
  Units
};

/// A kernel's time at the device's roof: its bytes at the peak of the memory,
/// or its arithmetic at that of its units, whichever is longer, without a
/// launch.
struct KernelRoof {
  Time time = 0;
  KernelLimit limit = KernelLimit::None;
  /// Launch: launches. Threads: those that run at once. Reads: bytes over those
  /// that are needed. Bytes, Units: the part of the peak that the size reaches.
  double amount = 0;
};

/// A product and its plain traffic: what a kernel that fuses nothing costs.
KernelCost makeMatmul(CostDtype dtype, int64_t m, int64_t n, int64_t k,
                      int64_t batch = 1);

/// Attention without its S x S matrix: only queries, keys, values, the result
/// and row statistics move. `causal` halves the arithmetic. Keys and values
/// have `kvHeads` heads. The backward pass recomputes the scores: 2.5 times
/// the arithmetic.
KernelCost makeAttention(bool backward, CostDtype dtype, int64_t batch,
                         int64_t heads, int64_t kvHeads, int64_t queries,
                         int64_t keys, int64_t headSize, bool causal);

int64_t getDtypeBytes(CostDtype dtype);

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

/// Where the ranks of one group lie, and who shares their NICs.
struct GroupPlacement {
  int64_t ranks = 1;
  /// Nodes that the group spans, and its ranks on each (the most on any).
  int64_t nodes = 1;
  int64_t ranksPerNode = 1;
  /// How many fewer there are on the node with the fewest, which is as slow as
  /// its few NICs are; 0: all nodes have as many.
  int64_t unevenness = 0;
  /// Groups, this one included, that leave one node through the same NICs at
  /// the same time: one program for all ranks makes them all communicate at
  /// once. 1 where the group stays inside a node.
  int64_t neighbours = 1;

  bool operator==(const GroupPlacement &other) const {
    return ranks == other.ranks && nodes == other.nodes &&
           ranksPerNode == other.ranksPerNode &&
           unevenness == other.unevenness && neighbours == other.neighbours;
  }
  int64_t getFewestPerNode() const { return ranksPerNode - unevenness; }
};

/// Collectives of one kind and group issued together, or one copy.
struct TransferKey {
  TransferKind kind = TransferKind::AllGather;
  /// Per collective the bytes of the whole buffer, its larger operand; of a
  /// copy its bytes.
  llvm::SmallVector<int64_t, 4> atomBytes;
  GroupPlacement group;
  /// As atomBytes, of sums that the runtime of CUDA devices adds up in a fixed
  /// tree: how many bytes a partial sum has for each of an element. Empty: the
  /// library that communicates adds up.
  llvm::SmallVector<int64_t, 4> partialScales = {};

  int64_t getBytes() const {
    return std::accumulate(atomBytes.begin(), atomBytes.end(), int64_t(0));
  }
};

/// Links that transfers share. A link's id is its place here.
enum class Link : uint8_t { Intra, Inter, DeviceToHost, HostToDevice };
constexpr unsigned kNumLinks = 4;
constexpr std::array<llvm::StringLiteral, kNumLinks> kLinkNames = {
    "intra", "inter", "device_to_host", "host_to_device"};

/// Alone, a transfer takes latency + work. Transfers in flight together on one
/// link share it for their work; their latencies overlap.
struct TransferCost {
  Time latency = 0;
  Time work = 0;
  Link link = Link::Intra;

  Time total() const { return latency + work; }
};

/// How a transfer is done, for people.
struct TransferRoute {
  /// "ring", "memory", "measured"; and NCCL's protocol. Empty: not known.
  llvm::StringRef algorithm, protocol;
  /// Bytes of whole buffers in a second that large transfers of this kind and
  /// group reach, alone on their link; 0: not known.
  double bandwidth = 0;
};

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

/// Bit i: queue i is active.
using QueueMask = uint8_t;
constexpr QueueMask maskOf(Queue queue) {
  return QueueMask(1u << unsigned(queue));
}

/// rate() of a queue that nothing slows down.
constexpr int kFullRate = 1024;

class CostModel {
public:
  virtual ~CostModel() = default;

  /// A kernel alone, its launch included.
  virtual Time kernel(const KernelCost &kernel) const = 0;

  /// What of that it takes to start.
  virtual Time launch(const KernelCost &) const { return 0; }

  /// That kernel at the roof, and what keeps it from there; a time of 0 where
  /// the model knows no roof.
  virtual KernelRoof roof(const KernelCost &) const { return {}; }

  virtual TransferCost transfer(const TransferKey &transfer) const = 0;

  /// What that cost is made of, as far as the model knows.
  virtual TransferRoute route(const TransferKey &) const { return {}; }

  /// Whether collectives of a program that runs as a CUDA graph come one after
  /// the other in its order, whatever their queues: NCCL's kernels of one GPU
  /// that began in orders which differ between ranks would wait forever.
  virtual bool ordersCollectives() const { return false; }

  /// Speed of @queue while the queues of @active run, in 1/1024: in [1, 1024],
  /// 1024 alone, never rising when @active grows. Whether @active holds @queue
  /// makes no difference. Transfers on one link share it apart from this: what
  /// is meant here are processors and memory, which kernels and transfers on
  /// different links take from each other.
  virtual int rate(Queue queue, QueueMask active) const = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_COST_COSTMODEL_H
