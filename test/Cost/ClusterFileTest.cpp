//===- ClusterFileTest.cpp - Reading cluster files ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

#include "fsdp/Analysis/Cost/MeasuredCost.h"

#include "llvm/ADT/SmallVector.h"

#include <fstream>
#include <sstream>

using namespace mlir::fsdp;

static std::string errorOf(const std::string &text) {
  llvm::Expected<Cluster> cluster = parseCluster(text, "c.json");
  if (!cluster)
    return llvm::toString(cluster.takeError());
  ADD_FAILURE() << "expected an error";
  return "";
}

TEST(ClusterFile, ReadsUnits) {
  Cluster cluster = parseOrFail(kRoundCluster);
  EXPECT_EQ(cluster.name, "round");
  EXPECT_EQ(cluster.device.memoryBytes, 80ll << 30);
  EXPECT_EQ(cluster.device.reservedBytes, 2ll << 30);
  EXPECT_DOUBLE_EQ(cluster.device.launchSeconds, 5e-6);
  EXPECT_DOUBLE_EQ(cluster.device.matmul[unsigned(CostDtype::BF16)].peak, 1e15);
  EXPECT_EQ(cluster.device.matmul[unsigned(CostDtype::F16)].peak, 0);
  EXPECT_DOUBLE_EQ(cluster.device.vector[unsigned(CostDtype::F32)].peak, 1e14);
  EXPECT_DOUBLE_EQ(cluster.device.memory.peak, 1e12);
  EXPECT_DOUBLE_EQ(cluster.intra->bandwidth, 370e9);
  EXPECT_DOUBLE_EQ(cluster.inter->bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(cluster.host->latencySeconds, 10e-6);
  EXPECT_TRUE(cluster.host->duplex);
  EXPECT_EQ(cluster.nccl.channels, 16);
  EXPECT_FALSE(cluster.nccl.amdHost);
}

TEST(ClusterFile, EveryReadyFileLoads) {
  for (const char *name : kClusterNames) {
    Cluster cluster = loadOrFail(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_GT(cluster.device.memoryBytes, cluster.device.reservedBytes);
    EXPECT_GT(cluster.device.matmul[unsigned(CostDtype::F32)].peak, 0);
  }
}

TEST(ClusterFile, NamesTheFileThatIsNotThere) {
  llvm::Expected<Cluster> cluster = loadCluster("/nowhere/c.json");
  ASSERT_FALSE(bool(cluster));
  EXPECT_EQ(llvm::toString(cluster.takeError()),
            "/nowhere/c.json: cannot read: No such file or directory");
}

TEST(ClusterFile, IsJson) {
  std::string error = errorOf("{\"format\": ");
  EXPECT_EQ(error.substr(0, 27), "c.json: expected JSON, got ") << error;
  EXPECT_EQ(errorOf("[]"), "c.json: expected an object, got an array of 0");
}

TEST(ClusterFile, MissingValues) {
  EXPECT_EQ(errorOf("{}"), "c.json: format: expected one of fsdp-cluster/1, "
                           "got nothing");
  EXPECT_EQ(errorOf(replaced("\"gb_per_s\": 370", "\"latency_us\": 1")),
            "c.json: links.intra.gb_per_s: expected a number above 0, got "
            "nothing");
  EXPECT_EQ(errorOf(replaced("\"memory_gib\": 80, ", "")),
            "c.json: device.memory_gib: expected a number above 0 and at most "
            "1.04858e+06, got nothing");
  EXPECT_EQ(errorOf(replaced("\"f32\": {\"peak_tflops\": 100}", "")),
            "c.json: device.vector.f32: expected an object, got nothing");
}

TEST(ClusterFile, WrongValues) {
  EXPECT_EQ(
      errorOf(replaced("\"gb_per_s\": 370", "\"gb_per_s\": -370")),
      "c.json: links.intra.gb_per_s: expected a number above 0, got -370");
  EXPECT_EQ(errorOf(replaced("\"gb_per_s\": 370", "\"gb_per_s\": 1e308")),
            "c.json: links.intra.gb_per_s: expected a number above 0, between "
            "1e-12 and 1e+18, got 1e+308");
  EXPECT_EQ(errorOf(replaced("\"nodes\": 4", "\"nodes\": 0")),
            "c.json: nodes: expected an integer of at least 1, at most "
            "2147483648, got 0");
  EXPECT_EQ(errorOf(replaced("\"nodes\": 4", "\"nodes\": 2.5")),
            "c.json: nodes: expected an integer of at least 1, at most "
            "2147483648, got 2.5");
  EXPECT_EQ(errorOf(replaced("\"nodes\": 4", "\"nodes\": 1e18")),
            "c.json: nodes: expected an integer of at least 1, at most "
            "2147483648, got 1e+18");
  EXPECT_EQ(errorOf(replaced("\"launch_us\": 5", "\"launch_us\": \"5\"")),
            "c.json: device.launch_us: expected a number of at least 0, got "
            "\"5\"");
  EXPECT_EQ(errorOf(replaced("nvlink", "infiniband")),
            "c.json: links.intra.kind: expected one of nvlink, pcie, memory, "
            "got \"infiniband\"");
  EXPECT_EQ(errorOf(replaced("\"reserved_gib\": 2", "\"reserved_gib\": 80")),
            "c.json: device.reserved_gib: expected less than memory_gib, got "
            "as much or more");
}

TEST(ClusterFile, UnknownKeys) {
  EXPECT_EQ(errorOf(replaced("\"latency_us\": 10", "\"latency_us\": 10, "
                                                   "\"latncy\": 1")),
            "c.json: links.host: expected one of duplex, gb_per_s, latency_us, "
            "memory_gib, got \"latncy\"");
  // Sources may stand anywhere.
  parseOrFail(replaced("\"latency_us\": 10",
                       "\"latency_us\": 10, \"source\": \"data sheet\""));
}

TEST(ClusterFile, Curves) {
  EXPECT_EQ(errorOf(replaced("[1e11, 0.8]", "[1e9, 0.8]")),
            "c.json: device.matmul.bf16.efficiency[1]: expected a size above "
            "1e+09, got 1e+09");
  EXPECT_EQ(errorOf(replaced("[1e11, 0.8]", "[1e11, 1.8]")),
            "c.json: device.matmul.bf16.efficiency[1][1]: expected a number "
            "above 0 and at most 1, got 1.8");
  EXPECT_EQ(errorOf(replaced("[1e11, 0.8]", "[1e11]")),
            "c.json: device.matmul.bf16.efficiency[1]: expected [size, value], "
            "got an array of 1");
}

TEST(ClusterFile, LineTables) {
  auto table = [](const char *ranks, const char *ratio) {
    return replaced(
        "\"nics_per_node\": 8",
        std::string("\"nics_per_node\": 8, \"efficiency\": "
                    "{\"bus_gb_per_s\": 400, \"bytes\": [1e6, 1e9], "
                    "\"ranks\": ") +
            ranks + ", \"ratio\": " + ratio + "}");
  };
  parseOrFail(table("[16, 32]", "[[0.1, 0.2], [0.3, 0.4]]"));
  EXPECT_EQ(errorOf(table("[32, 16]", "[[0.1, 0.2], [0.3, 0.4]]")),
            "c.json: links.inter.efficiency.ranks: expected ascending group "
            "sizes, got others");
  EXPECT_EQ(errorOf(table("[16, 32]", "[[0.1, 0.2]]")),
            "c.json: links.inter.efficiency.ratio: expected a row for each of "
            "2 sizes, got 1");
  EXPECT_EQ(errorOf(table("[16, 32]", "[[0.1, 0.2], [0.3]]")),
            "c.json: links.inter.efficiency.ratio[1]: expected a ratio for "
            "each of 2 group sizes, got 1");
}

TEST(ClusterFile, LinksThatTheClusterNeeds) {
  EXPECT_EQ(errorOf(replaced("\"inter\": {\"gb_per_s\": 50, "
                             "\"nics_per_node\": 8},",
                             "")),
            "c.json: links.inter: expected an object, because there are 4 "
            "nodes, got nothing");
  EXPECT_EQ(errorOf(replaced("nvlink", "memory")),
            "c.json: links.intra.kind: expected nvlink or pcie, because there "
            "are 4 nodes, got \"memory\"");
  EXPECT_EQ(errorOf(replaced("\"nccl\"", "\"note\"")),
            "c.json: nccl: expected an object, got nothing");
}

TEST(ClusterFile, Contention) {
  auto rules = [](const char *list) {
    return replaced("\"nccl\"",
                    std::string("\"contention\": ") + list + ", \"nccl\"");
  };
  parseOrFail(rules(R"([{"of": "compute", "by": "intra", "rate": 0.8}])"));
  EXPECT_EQ(
      errorOf(rules(R"([{"of": "compute", "by": "intra", "rate": 1.1}])")),
      "c.json: contention[0].rate: expected a number above 0 and at most "
      "1, got 1.1");
  EXPECT_EQ(errorOf(rules(R"([{"of": "gpu", "by": "intra", "rate": 1}])")),
            "c.json: contention[0].of: expected one of compute, intra, inter, "
            "host, got \"gpu\"");
  EXPECT_EQ(errorOf(rules(R"([{"of": "inter", "by": "inter", "rate": 0.5}])")),
            "c.json: contention[0].by: expected another party than inter, got "
            "the same: what is on one link shares it");
  EXPECT_EQ(errorOf(rules(R"([{"of": "compute", "by": "host", "rate": 0.9},
                              {"of": "compute", "by": "host", "rate": 0.8}])")),
            "c.json: contention[1]: expected one rule of compute by host, got "
            "a second");
}

TEST(ClusterFile, NcclSettings) {
  EXPECT_EQ(errorOf(replaced("\"channels\": 16",
                             "\"channels\": 16, \"protocols\": [\"ll\"]")),
            "c.json: nccl.protocols: expected simple among the protocols, got "
            "a list without it");
  EXPECT_EQ(errorOf(replaced("hopper", "hooper")),
            "c.json: nccl.architecture: expected one of volta, ampere, hopper, "
            "blackwell, got \"hooper\"");
}

TEST(ClusterFile, ATablesNameIsRelativeToTheFile) {
  std::string text =
      replaced("\"launch_us\": 5", "\"launch_us\": 5, \"table\": \"t.json\"");
  llvm::Expected<Cluster> cluster = parseCluster(text, "/some/folder/c.json");
  ASSERT_TRUE(bool(cluster));
  EXPECT_EQ(cluster->deviceTable, "/some/folder/t.json");
}

TEST(ClusterFile, TheManualsExamplesAreValid) {
  std::ifstream file(std::string(FSDP_DOCS_DIR) + "/cluster.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string manual = text.str();
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(manual).split(parts, "```json\n");
  ASSERT_EQ(parts.size(), 3u);
  llvm::Expected<Cluster> cluster =
      parseCluster(parts[1].split("```").first, "cluster.md");
  EXPECT_TRUE(bool(cluster)) << llvm::toString(cluster.takeError());
  llvm::Expected<DeviceTable> table =
      DeviceTable::parse(parts[2].split("```").first, "cluster.md");
  EXPECT_TRUE(bool(table)) << llvm::toString(table.takeError());
}
