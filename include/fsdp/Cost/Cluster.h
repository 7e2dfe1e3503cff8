//===- Cluster.h - The machines that a program is planned for ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a cluster file says (docs/cluster.md), in seconds, bytes and flops.
// Every node is alike; rank r is GPU r % gpusPerNode of node r / gpusPerNode.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_CLUSTER_H
#define FSDP_COST_CLUSTER_H

#include "fsdp/Cost/CostModel.h"
#include "fsdp/Cost/SizeCurve.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// A peak rate and the part of it that work of some size reaches.
struct RatedUnit {
  /// Bytes or flops in a second; 0 where the device has no such unit.
  double peak = 0;
  SizeCurve curve;

  double seconds(double size) const {
    return size > 0 ? curve.time(size) / peak : 0.0;
  }
};

/// What multiprocessors of a GPU can do at once; `count` 0: not given.
struct Multiprocessors {
  int64_t count = 0;
  /// Cycles in a second.
  double clock = 0;
  /// Instructions of warps that one issues in a cycle, each of another warp.
  int64_t issuedPerCycle = 0;
  /// Threads that are resident on one, and bytes of their shared memory.
  int64_t threads = 0, sharedBytes = 0;
  /// From a load to its value, where it comes from the device's memory.
  double latencySeconds = 0;
  /// Results of each unit in a cycle; 0: not given.
  std::array<double, kNumLaneUnits> results = {};
  /// The part of these, and of what is issued, that kernels reach.
  double efficiency = 1;
};

struct Device {
  std::string name;
  /// What its driver calls it (cuDeviceGetName); empty: not given.
  std::string driverName;
  bool isCalled(llvm::StringRef other) const {
    return other == name || (!driverName.empty() && other == driverName);
  }
  int64_t memoryBytes = 0;
  /// Taken by the driver, NCCL and BLAS, so not part of the arena.
  int64_t reservedBytes = 0;
  int64_t getUsableBytes() const { return memoryBytes - reservedBytes; }
  /// Between two kernels on one stream.
  double launchSeconds = 0;
  /// The same in a CUDA graph; none: as on a stream.
  std::optional<double> graphLaunchSeconds;
  /// By type; curves are over the flops of one kernel.
  std::array<RatedUnit, kNumCostDtypes> matmul, vector;
  /// Part of the matmul peak that attention reaches; 0: not given.
  std::array<double, kNumCostDtypes> attentionForward = {},
                                     attentionBackward = {};
  /// The curve is over the bytes of one kernel.
  RatedUnit memory;
  Multiprocessors multiprocessors;

  /// Of products in each type, in flops a second: where there are no matrix
  /// units of the type, those of its vector units, or of f32's, in which it is
  /// computed then.
  std::array<double, kNumCostDtypes> getPeakFlops() const;
};

/// The part of a line's rate that collectives reach.
class LineEfficiency {
public:
  LineEfficiency() = default;
  /// The same for all; latencies come on top of it.
  explicit LineEfficiency(double ratio) : constant(ratio) {}
  /// @ratio[i][j]: for the whole buffer's @bytes[i] in a group of @ranks[j],
  /// measured where the line's bus bandwidth was @busBandwidth. Latencies are
  /// part of it.
  LineEfficiency(llvm::ArrayRef<int64_t> ranks, llvm::ArrayRef<double> bytes,
                 llvm::ArrayRef<std::vector<double>> ratio,
                 double busBandwidth);

  /// What the bandwidth is multiplied with before latencies are added: 1 with a
  /// table, whose numbers hold them already.
  double scale() const { return constant; }

  /// The ratio for @bytes in a group of @ranks on a line of @busBandwidth, 1
  /// without a table. Sizes are compared by how long they keep the line busy,
  /// so a table of one line serves another. Between group sizes it
  /// interpolates in logarithms; beyond the first and last, it takes theirs.
  double ratio(double bytes, int64_t ranks, double busBandwidth) const;

private:
  double constant = 1;
  double tableBandwidth = 0;
  std::vector<int64_t> ranks;
  std::vector<SizeCurve> curves;
};

enum class IntraKind : uint8_t {
  NVLink,
  PCIe,
  /// Ranks are threads or processes of one machine that copy in its memory.
  Memory
};

/// NCCL's NVLink SHARP.
struct Nvls {
  double efficiency = 0;
  /// The most bus bandwidth that an all_reduce was seen to reach.
  double maxBusBandwidth = 0;
};

struct IntraLink {
  IntraKind kind = IntraKind::NVLink;
  /// Bytes in a second, one direction, per GPU: what a ring through all GPUs of
  /// the node carries. Memory: what one rank copies while the others do too.
  double bandwidth = 0;
  LineEfficiency efficiency;
  /// NVLink, PCIe: added to NCCL's hop. Memory: of one collective.
  double latencySeconds = 0;
  std::optional<Nvls> nvls;
};

struct InterLink {
  /// One NIC, one direction.
  double bandwidth = 0;
  int64_t nicsPerNode = 1;
  LineEfficiency efficiency;
  /// Added to NCCL's network hop.
  double latencySeconds = 0;
};

struct HostLink {
  double bandwidth = 0;
  double latencySeconds = 0;
  /// Of the host's memory, what one rank may use.
  int64_t memoryBytes = 0;
  /// Copies in both directions do not share it.
  bool duplex = true;
};

enum class NcclArch : uint8_t { Volta, Ampere, Hopper, Blackwell };

struct NcclSettings {
  NcclArch arch = NcclArch::Ampere;
  bool amdHost = false;
  int64_t channels = 16;
  /// LL, LL128, Simple.
  std::array<bool, 3> protocols = {true, true, true};
};

/// Who slows another: compute, or what travels on a link.
enum class Party : uint8_t { Compute, Intra, Inter, Host };
constexpr unsigned kNumParties = 4;
constexpr std::array<llvm::StringLiteral, kNumParties> kPartyNames = {
    "compute", "intra", "inter", "host"};

/// A measured collective: a group's shape and its times by bytes.
struct MeasuredCollective {
  TransferKind kind = TransferKind::AllGather;
  int64_t nodes = 1, ranksPerNode = 1, neighbours = 1;
  SizeCurve seconds;
};

struct Cluster {
  std::string name;
  int64_t nodes = 1;
  int64_t gpusPerNode = 1;
  Device device;
  /// Needed where more than one rank communicates.
  std::optional<IntraLink> intra;
  std::optional<InterLink> inter;
  std::optional<HostLink> host;
  NcclSettings nccl;
  /// [of][by]: speed of `of` while `by` runs, in (0, 1]; 1 on the diagonal,
  /// as transfers on one link share it anyway.
  std::array<std::array<double, kNumParties>, kNumParties> contention;
  std::vector<MeasuredCollective> collectives;
  /// The device table that the file names, resolved against its folder; empty:
  /// none. See MeasuredCost.h.
  std::string deviceTable;
  /// A file with measured times of one program's kernels, which are asked
  /// before the table; empty: none. No part of the file: tools and passes set
  /// it.
  std::string stepProfile;

  Cluster();
};

/// Where the groups of one mesh axis lie: those of @size ranks, @stride apart,
/// in a world of @world ranks (the shard axis has stride 1, the replicate axis
/// that of the shard axis's size, both together stride 1). Of groups that lie
/// differently, the one that reaches over most nodes, and then has the fewest
/// ranks on one. An error where the
/// cluster is too small or has no link that joins the ranks.
llvm::Expected<GroupPlacement> placeGroup(const Cluster &cluster, int64_t world,
                                          int64_t size, int64_t stride);

} // namespace mlir::fsdp

#endif // FSDP_COST_CLUSTER_H
