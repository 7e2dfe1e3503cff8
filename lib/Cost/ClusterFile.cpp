//===- ClusterFile.cpp - Reading cluster files ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ClusterFile.h"
#include "JsonReader.h"

#include "fsdp/Cost/Cluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace mlir::fsdp;

static constexpr StringLiteral kFormat = "fsdp-cluster/1";
static constexpr double kMicro = 1e-6, kGiga = 1e9, kTera = 1e12;
static constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
/// GiB of one device: a PiB is a slip of the pen.
static constexpr NumberRange kMemory = {0, true, 1 << 20};

/// What machines are made of, with room for old and coming ones. Beyond it one
/// kernel or transfer could take longer than the schedule's clock counts.
static constexpr NumberRange kBandwidth = {1e-3, false, 1e6}; // GB/s
static constexpr NumberRange kLatency = {0, false, 1e6};      // us
static constexpr NumberRange kPeak = {1e-6, false, 1e6};      // TFLOP/s

/// "efficiency": a list of [size, ratio], or absent.
static SizeCurve readCurve(JsonObject &object) {
  if (!object.has("efficiency"))
    return SizeCurve();
  JsonArray array = object.array("efficiency");
  std::vector<std::pair<double, double>> points =
      array.points(NumberRange::fraction());
  for (size_t i = 1; i < points.size(); ++i) {
    auto [smaller, before] = points[i - 1];
    auto [larger, now] = points[i];
    // What is larger takes as long, or longer; decimals are forgiven.
    if (double most = before * larger / smaller; now > most * (1 + 1e-6))
      array.array(i).report("expected a ratio of at most " +
                            llvm::formatv("{0:f}", most) +
                            ", which makes it as slow as the smaller size, "
                            "got " +
                            llvm::formatv("{0:f}", now));
  }
  return SizeCurve::fromEfficiency(points);
}

/// {"bf16": {"peak_tflops": ..., "efficiency": [[flops, ratio], ...]}, ...}
static void readUnits(JsonObject object,
                      std::array<RatedUnit, kNumCostDtypes> &units) {
  for (unsigned i = 0; i < kNumCostDtypes; ++i) {
    if (!object.has(kCostDtypeNames[i]))
      continue;
    JsonObject unit = object.object(kCostDtypeNames[i]);
    units[i].peak = unit.number("peak_tflops", kPeak) * kTera;
    units[i].curve = readCurve(unit);
    unit.finish();
  }
  object.finish();
}

static void readAttention(JsonObject object, Device &device) {
  for (unsigned i = 0; i < kNumCostDtypes; ++i) {
    if (!object.has(kCostDtypeNames[i]))
      continue;
    JsonObject type = object.object(kCostDtypeNames[i]);
    if (device.matmul[i].peak == 0)
      object.report(kCostDtypeNames[i],
                    "expected a type with a peak in device.matmul, got none");
    device.attentionForward[i] =
        type.number("forward", NumberRange::fraction());
    device.attentionBackward[i] =
        type.number("backward", NumberRange::fraction());
    type.finish();
  }
  object.finish();
}

static Multiprocessors readMultiprocessors(JsonObject object) {
  constexpr NumberRange kClock = {1e-3, false, 1e3}; // GHz
  Multiprocessors result;
  result.count = object.integer("count", 1, kMostOfACount);
  result.clock = object.number("clock_ghz", kClock) * kGiga;
  result.issuedPerCycle = object.integer("issued_per_cycle", 1, 1024);
  result.threads = object.integer("threads", 1, kMostOfACount);
  result.sharedBytes = object.integer("shared_kib", 1, 1 << 20) * 1024;
  result.latencySeconds = object.number("latency_ns", kLatency) * 1e-9;
  if (object.has("efficiency"))
    result.efficiency = object.number("efficiency", NumberRange::fraction());
  if (object.has("results_per_cycle")) {
    constexpr NumberRange kResults = {1e-3, false, 1e6};
    JsonObject units = object.object("results_per_cycle");
    for (unsigned i = 0; i < kNumLaneUnits; ++i)
      if (units.has(kLaneUnitNames[i]))
        result.results[i] = units.number(kLaneUnitNames[i], kResults);
    units.finish();
  }
  object.finish();
  return result;
}

static void readDevice(JsonObject object, Cluster &cluster) {
  Device &device = cluster.device;
  device.name = object.string("name");
  if (object.has("driver_name"))
    device.driverName = object.string("driver_name");
  device.memoryBytes = int64_t(object.number("memory_gib", kMemory) * kGiB);
  device.reservedBytes =
      int64_t(object.number("reserved_gib", {0, false, kMemory.most}) * kGiB);
  if (device.reservedBytes >= device.memoryBytes)
    object.report("reserved_gib", "expected less than memory_gib, " +
                                      Twine(device.memoryBytes) +
                                      " bytes, got " +
                                      Twine(device.reservedBytes));
  device.launchSeconds = object.number("launch_us", kLatency) * kMicro;
  if (object.has("graph_launch_us"))
    device.graphLaunchSeconds =
        object.number("graph_launch_us", kLatency) * kMicro;
  readUnits(object.object("matmul"), device.matmul);
  readUnits(object.object("vector"), device.vector);
  if (device.vector[unsigned(CostDtype::F32)].peak == 0)
    object.report("vector.f32", "expected an object, got nothing");
  JsonObject memory = object.object("memory");
  device.memory.peak = memory.number("gb_per_s", kBandwidth) * kGiga;
  device.memory.curve = readCurve(memory);
  memory.finish();
  if (object.has("multiprocessors"))
    device.multiprocessors =
        readMultiprocessors(object.object("multiprocessors"));
  if (object.has("attention"))
    readAttention(object.object("attention"), device);
  if (object.has("table")) {
    SmallString<128> path(object.string("table"));
    if (sys::path::is_relative(path)) {
      SmallString<128> folder(
          sys::path::parent_path(object.getFile().getPath()));
      sys::path::append(folder, path);
      path = folder;
    }
    cluster.deviceTable = path.str().str();
  }
  object.finish();
}

/// "efficiency": a ratio for all, or a table by ranks and bytes.
static LineEfficiency readLine(JsonObject &link) {
  const json::Value *value = link.get("efficiency");
  if (!value)
    return LineEfficiency();
  if (!value->getAsObject())
    return LineEfficiency(link.number("efficiency", NumberRange::fraction()));

  JsonObject table = link.object("efficiency");
  double bus = table.number("bus_gb_per_s", kBandwidth) * kGiga;
  JsonArray rankArray = table.array("ranks"), byteArray = table.array("bytes"),
            rows = table.array("ratio");
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < rankArray.size(); ++i)
    ranks.push_back(rankArray.integer(i, 2));
  std::vector<double> bytes;
  for (size_t i = 0; i < byteArray.size(); ++i)
    bytes.push_back(byteArray.number(i, NumberRange::positive()));
  auto ascends = [](auto &list) {
    return !list.empty() && llvm::is_sorted(list) &&
           std::adjacent_find(list.begin(), list.end()) == list.end();
  };
  if (!ascends(ranks))
    rankArray.report("expected ascending group sizes, got others");
  if (!ascends(bytes))
    byteArray.report("expected ascending sizes, got others");
  if (rows.size() != bytes.size())
    rows.report("expected a row for each of " + Twine(bytes.size()) +
                " sizes, got " + Twine(rows.size()));
  std::vector<std::vector<double>> ratio;
  for (size_t i = 0; i < rows.size(); ++i) {
    JsonArray row = rows.array(i);
    if (row.size() != ranks.size())
      row.report("expected a ratio for each of " + Twine(ranks.size()) +
                 " group sizes, got " + Twine(row.size()));
    ratio.emplace_back();
    for (size_t j = 0; j < row.size(); ++j)
      ratio.back().push_back(row.number(j, NumberRange::fraction()));
  }
  table.finish();
  if (link.getFile().hasError())
    return LineEfficiency();
  return LineEfficiency(ranks, bytes, ratio, bus);
}

static IntraLink readIntra(JsonObject object) {
  IntraLink link;
  constexpr StringLiteral kinds[] = {"nvlink", "pcie", "memory"};
  link.kind = IntraKind(object.oneOf("kind", kinds));
  link.bandwidth = object.number("gb_per_s", kBandwidth) * kGiga;
  link.latencySeconds = object.numberOr("latency_us", kLatency, 0) * kMicro;
  link.efficiency = readLine(object);
  if (object.has("nvls")) {
    JsonObject nvls = object.object("nvls");
    link.nvls = Nvls{nvls.number("efficiency", NumberRange::fraction()),
                     nvls.number("max_bus_gb_per_s", kBandwidth) * kGiga};
    nvls.finish();
    if (link.kind != IntraKind::NVLink)
      object.report("nvls", "expected it with kind nvlink, got kind " +
                                kinds[unsigned(link.kind)]);
  }
  object.finish();
  return link;
}

static InterLink readInter(JsonObject object) {
  InterLink link;
  link.bandwidth = object.number("gb_per_s", kBandwidth) * kGiga;
  link.nicsPerNode = object.integer("nics_per_node", 1, kMostOfACount);
  link.latencySeconds = object.numberOr("latency_us", kLatency, 0) * kMicro;
  link.efficiency = readLine(object);
  object.finish();
  return link;
}

static void readLinks(JsonObject object, Cluster &cluster) {
  if (object.has("intra"))
    cluster.intra = readIntra(object.object("intra"));
  if (object.has("inter"))
    cluster.inter = readInter(object.object("inter"));
  if (object.has("host")) {
    JsonObject host = object.object("host");
    cluster.host = HostLink{host.number("gb_per_s", kBandwidth) * kGiga,
                            host.number("latency_us", kLatency) * kMicro,
                            int64_t(host.number("memory_gib", kMemory) * kGiB),
                            host.booleanOr("duplex", true)};
    host.finish();
  }
  object.finish();
  if (cluster.gpusPerNode > 1 && !cluster.intra)
    object.report("intra", "expected an object, because a node has " +
                               Twine(cluster.gpusPerNode) +
                               " GPUs, got nothing");
  if (cluster.nodes > 1 && !cluster.inter)
    object.report("inter", "expected an object, because there are " +
                               Twine(cluster.nodes) + " nodes, got nothing");
  if (cluster.nodes > 1 && cluster.intra &&
      cluster.intra->kind == IntraKind::Memory)
    object.report("intra.kind", "expected nvlink or pcie, because there are " +
                                    Twine(cluster.nodes) +
                                    " nodes, got \"memory\"");
}

static NcclSettings readNccl(JsonObject object) {
  NcclSettings nccl;
  constexpr StringLiteral archs[] = {"volta", "ampere", "hopper", "blackwell"};
  nccl.arch = NcclArch(object.oneOf("architecture", archs));
  constexpr StringLiteral cpus[] = {"intel", "amd"};
  nccl.amdHost = object.oneOf("cpu", cpus) == 1;
  nccl.channels = object.integer("channels", 1, kMostOfACount);
  if (object.has("protocols")) {
    nccl.protocols = {false, false, false};
    constexpr StringLiteral names[] = {"ll", "ll128", "simple"};
    JsonArray list = object.array("protocols");
    for (size_t i = 0; i < list.size(); ++i) {
      std::string name = list.string(i);
      const auto *found = llvm::find(names, StringRef(name));
      if (found == std::end(names))
        list.report("expected ll, ll128 and simple, got \"" + name + "\"");
      else
        nccl.protocols[found - names] = true;
    }
    // Without it no algorithm is left where LL128 is not possible.
    if (!nccl.protocols[2])
      list.report("expected simple among the protocols, got a list without it");
  }
  object.finish();
  return nccl;
}

static void readContention(JsonArray list, Cluster &cluster) {
  std::array<std::array<bool, kNumParties>, kNumParties> seen = {};
  for (size_t i = 0; i < list.size(); ++i) {
    JsonObject rule = list.object(i);
    unsigned of = rule.oneOf("of", kPartyNames);
    unsigned by = rule.oneOf("by", kPartyNames);
    double rate = rule.number("rate", NumberRange::fraction());
    rule.finish();
    if (seen[of][by])
      rule.report("", "expected one rule of " + kPartyNames[of] + " by " +
                          kPartyNames[by] + ", got a second");
    seen[of][by] = true;
    if (of == by)
      rule.report("by", "expected another party than " + kPartyNames[of] +
                            ", got the same: what is on one link shares it");
    cluster.contention[of][by] = rate;
  }
}

static void readCollectives(JsonArray list, Cluster &cluster) {
  for (size_t i = 0; i < list.size(); ++i) {
    JsonObject object = list.object(i);
    MeasuredCollective measured;
    measured.kind = TransferKind(
        object.oneOf("kind", ArrayRef<StringLiteral>(kTransferKindNames)
                                 .take_front(kNumCollectives)));
    // More than there are would never be asked for.
    measured.nodes = object.integer("nodes", 1, cluster.nodes);
    measured.ranksPerNode =
        object.integer("ranks_per_node", 1, cluster.gpusPerNode);
    measured.neighbours = object.integerOr(
        "neighbours", 1, 1, cluster.gpusPerNode / measured.ranksPerNode);
    std::vector<std::pair<double, double>> points =
        object.array("us_by_bytes").risingPoints(NumberRange::duration());
    for (auto &point : points)
      point.second *= kMicro;
    measured.seconds = SizeCurve::fromTimes(points, SizeCurve::Below::Constant);
    object.finish();
    if (measured.nodes * measured.ranksPerNode < 2)
      object.report("", "expected a group of at least 2 ranks, got 1");
    for (const MeasuredCollective &other : cluster.collectives)
      if (other.kind == measured.kind && other.nodes == measured.nodes &&
          other.ranksPerNode == measured.ranksPerNode &&
          other.neighbours == measured.neighbours)
        object.report("", "expected one table for each kind and group, got a "
                          "second for " +
                              kTransferKindNames[unsigned(measured.kind)]);
    cluster.collectives.push_back(std::move(measured));
  }
}

Expected<Cluster> mlir::fsdp::parseCluster(StringRef text, StringRef path) {
  JsonFile file(text, path);
  JsonObject root(file);
  Cluster cluster;
  constexpr StringLiteral formats[] = {kFormat};
  root.oneOf("format", formats);
  cluster.name = root.string("name");
  cluster.nodes = root.integer("nodes", 1, kMostOfACount);
  cluster.gpusPerNode = root.integer("gpus_per_node", 1, kMostOfACount);
  readDevice(root.object("device"), cluster);
  if (root.has("links") || cluster.nodes * cluster.gpusPerNode > 1)
    readLinks(root.object("links"), cluster);
  bool usesNccl = cluster.inter ||
                  (cluster.intra && cluster.intra->kind != IntraKind::Memory);
  if (usesNccl || root.has("nccl"))
    cluster.nccl = readNccl(root.object("nccl"));
  if (root.has("contention"))
    readContention(root.array("contention"), cluster);
  if (root.has("collectives"))
    readCollectives(root.array("collectives"), cluster);
  root.finish();
  if (Error error = file.takeError())
    return std::move(error);
  return cluster;
}

Expected<Cluster> mlir::fsdp::loadCluster(StringRef path) {
  return parseFile(path, parseCluster);
}
