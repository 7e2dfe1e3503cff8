//===- MeasuredCost.h - Costs that were measured ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kinds of measurement, both optional (formats: docs/cluster.md):
// a device table, which benchmarks/calibrate writes for a kind of GPU or CPU,
// and a step profile, which an executable writes with --profile. What neither
// knows is asked of another model.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_MEASUREDCOST_H
#define FSDP_COST_MEASUREDCOST_H

#include "fsdp/Cost/CostModel.h"
#include "fsdp/Cost/SizeCurve.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <tuple>

namespace mlir::fsdp {

/// Kernels of a device by shape.
class DeviceTable {
public:
  static llvm::Expected<DeviceTable> load(llvm::StringRef path);
  static llvm::Expected<DeviceTable> parse(llvm::StringRef text,
                                           llvm::StringRef path);

  const std::string &getDevice() const { return device; }
  std::optional<double> getLaunchSeconds() const { return launchSeconds; }
  /// Of a kernel in a CUDA graph.
  std::optional<double> getGraphLaunchSeconds() const {
    return graphLaunchSeconds;
  }

  /// A shape and its time.
  struct Point {
    std::array<double, 4> logs;
    std::array<int64_t, 4> shape;
    double seconds;
  };

  /// The seconds of @kernel. A measured shape has its measured time. Another is
  /// taken from those around it, if one is at most a factor 8 away in m, n, k
  /// and batch together; otherwise none. A kernel with more traffic than a
  /// plain product's takes at least the time of its bytes.
  std::optional<double> seconds(const KernelCost &kernel) const;

private:
  /// By kind (Matmul, Attention, AttentionBackward) and type.
  std::map<std::pair<KernelKind, CostDtype>, std::vector<Point>> products;
  SizeCurve memory;
  std::string device;
  std::optional<double> launchSeconds, graphLaunchSeconds;

  void add(KernelKind kind, CostDtype dtype, std::array<int64_t, 4> shape,
           double seconds);
};

/// Kernels of one program, by name and by shape.
class StepProfile {
public:
  static llvm::Expected<StepProfile> load(llvm::StringRef path);
  static llvm::Expected<StepProfile> parse(llvm::StringRef text,
                                           llvm::StringRef path);

  /// The undisturbed time of one call. Found by name where the bytes of a
  /// call agree too (attention's to a tenth), and a product's arithmetic: most
  /// kernels of that name of another program are others. Otherwise
  /// products are found by type and shape.
  std::optional<double> seconds(const KernelCost &kernel) const;

private:
  struct Row {
    double seconds = 0;
    int64_t flops = 0, bytes = 0;
  };
  llvm::StringMap<Row> rows;
  /// Type, m, n, k, batch.
  std::map<std::tuple<CostDtype, int64_t, int64_t, int64_t, int64_t>, double>
      products;
};

class MeasuredCost : public CostModel {
public:
  /// @base answers what the measurements do not; transfers and rates always.
  MeasuredCost(std::unique_ptr<CostModel> base,
               std::optional<DeviceTable> table,
               std::optional<StepProfile> profile);

  enum class Source { Profile, Table, Base };
  /// Where the time of @kernel comes from: for reports.
  Source getSource(const KernelCost &kernel) const;

  Time kernel(const KernelCost &kernel) const override;
  Time launch(const KernelCost &kernel) const override;
  /// Of what was measured, only the roof.
  KernelRoof roof(const KernelCost &kernel) const override;
  TransferCost transfer(const TransferKey &transfer) const override;
  TransferRoute route(const TransferKey &transfer) const override;
  bool ordersCollectives() const override { return base->ordersCollectives(); }
  int rate(Queue queue, QueueMask active) const override;

private:
  std::pair<Time, Source> lookUp(const KernelCost &kernel) const;

  std::unique_ptr<CostModel> base;
  std::optional<DeviceTable> table;
  std::optional<StepProfile> profile;
};

} // namespace mlir::fsdp

#endif // FSDP_COST_MEASUREDCOST_H
