//===- TestCluster.h - A cluster with round numbers -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_COST_TESTCLUSTER_H
#define FSDP_TEST_COST_TESTCLUSTER_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Cost/ClusterFile.h"

#include <gtest/gtest.h>

namespace mlir::fsdp {

/// The ready files.
constexpr const char *kClusterNames[] = {
    "a100-40g-sxm-efa", "a100-80g-pcie", "a100-80g-sxm", "cpu-2core",
    "h100-pcie",        "h100-sxm",      "h200-sxm"};

inline std::string clusterPath(llvm::StringRef name) {
  return std::string(FSDP_CLUSTER_DIR) + "/" + name.str() + ".json";
}

/// 4 nodes of 8, NVLink 370 GB/s, 8 NICs of 50 GB/s, Hopper, Intel, 16
/// channels, 1000 TFLOP/s bf16, 100 TFLOP/s f32, 1000 GB/s.
constexpr const char kRoundCluster[] = R"({
  "format": "fsdp-cluster/1", "name": "round", "nodes": 4, "gpus_per_node": 8,
  "device": {
    "name": "round", "memory_gib": 80, "reserved_gib": 2, "launch_us": 5,
    "matmul": {"bf16": {"peak_tflops": 1000, "efficiency": [[1e9, 0.5], [1e11, 0.8]]}},
    "vector": {"f32": {"peak_tflops": 100}},
    "memory": {"gb_per_s": 1000, "efficiency": [[1e6, 0.5], [1e8, 1]]}
  },
  "links": {
    "intra": {"kind": "nvlink", "gb_per_s": 370},
    "inter": {"gb_per_s": 50, "nics_per_node": 8},
    "host": {"gb_per_s": 25, "latency_us": 10, "memory_gib": 64}
  },
  "nccl": {"architecture": "hopper", "cpu": "intel", "channels": 16}
})";

/// A copy of kRoundCluster in which @from, which must occur, is @to.
inline std::string replaced(llvm::StringRef from, llvm::StringRef to) {
  std::string text = kRoundCluster;
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return at == std::string::npos ? text
                                 : text.replace(at, from.size(), to.str());
}

inline Cluster parseOrFail(const std::string &text) {
  llvm::Expected<Cluster> cluster = parseCluster(text, "test.json");
  if (cluster)
    return *cluster;
  ADD_FAILURE() << llvm::toString(cluster.takeError());
  return Cluster();
}

inline Cluster loadOrFail(llvm::StringRef name) {
  llvm::Expected<Cluster> cluster = loadCluster(clusterPath(name));
  if (cluster)
    return *cluster;
  ADD_FAILURE() << llvm::toString(cluster.takeError());
  return Cluster();
}

inline GroupPlacement placeOrFail(const Cluster &cluster, int64_t world,
                                  int64_t size, int64_t stride) {
  llvm::Expected<GroupPlacement> group =
      placeGroup(cluster, world, size, stride);
  if (group)
    return *group;
  ADD_FAILURE() << llvm::toString(group.takeError());
  return GroupPlacement();
}

} // namespace mlir::fsdp

#endif // FSDP_TEST_COST_TESTCLUSTER_H
