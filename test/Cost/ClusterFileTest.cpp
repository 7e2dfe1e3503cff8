//===- ClusterFileTest.cpp - Reading cluster files ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ClusterFile.h"
#include "TestCluster.h"

#include "fsdp/Cost/MeasuredCost.h"

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
            "expected to read /nowhere/c.json, got No such file or directory");
}

TEST(ClusterFile, IsJson) {
  std::string error = errorOf("{\"format\": ");
  EXPECT_EQ(error.substr(0, 27), "c.json: expected JSON, got ") << error;
  EXPECT_EQ(errorOf("[]"), "c.json: expected an object, got an array of 0");
}

TEST(ClusterFile, TimesDoNotFall) {
  auto with = [](const std::string &points) {
    return replaced("\"nccl\"", "\"collectives\": [{\"kind\": "
                                "\"all_gather\", \"nodes\": 1, "
                                "\"ranks_per_node\": 8, \"us_by_bytes\": " +
                                    points + "}], \"nccl\"");
  };
  parseOrFail(with("[[100, 20], [1000, 20], [2000, 30]]"));
  EXPECT_EQ(errorOf(with("[[100, 200], [1000, 100]]")),
            "c.json: collectives[0].us_by_bytes[1]: expected a value of at "
            "least 200, that of the smaller size, got 100");
}

TEST(ClusterFile, MeasuredTimesAreOfThisCluster) {
  auto with = [](int ranks, const std::string &us) {
    return replaced("\"nccl\"",
                    "\"collectives\": [{\"kind\": \"all_gather\", \"nodes\": "
                    "1, \"ranks_per_node\": " +
                        std::to_string(ranks) + ", \"us_by_bytes\": [[4, " +
                        us + "]]}], \"nccl\"");
  };
  EXPECT_EQ(errorOf(with(8, "1e15")),
            "c.json: collectives[0].us_by_bytes[0][1]: expected a number above "
            "0 and at most 1e+08, got 1e+15");
  EXPECT_EQ(errorOf(with(16, "10")),
            "c.json: collectives[0].ranks_per_node: expected an integer of at "
            "least 1, at most 8, got 16");
}

TEST(ClusterFile, HoldsEachKeyOnce) {
  EXPECT_EQ(errorOf(replaced("\"launch_us\": 5",
                             "\"launch_us\": 5, \"launch_us\": 6"))
                .substr(0, 51),
            "c.json: expected each key once, got \"launch_us\" a s");
  EXPECT_EQ(errorOf("{\"a\": {\"a\": 1},\n \"b\": \"a\", \"a\": 2}"),
            "c.json: expected each key once, got \"a\" a second time, at line "
            "2, column 12");
  EXPECT_EQ(errorOf("{\"ab\": 1, \"a\\u0062\": 2}"),
            "c.json: expected each key once, got \"ab\" a second time, at line "
            "1, column 11");
}

TEST(ClusterFile, NestsWithinReason) {
  std::string tooDeep = "c.json: expected at most 64 levels of arrays and "
                        "objects, got more, at line ";
  EXPECT_EQ(errorOf(std::string(200000, '[')), tooDeep + "1, column 65");
  std::string objects;
  for (int i = 0; i < 200000; ++i)
    objects += "{\"a\":\n";
  EXPECT_EQ(errorOf(objects), tooDeep + "65, column 1");
  // What closes again, and what stands in a string, is no level.
  std::string flat = "[0";
  for (int i = 0; i < 100; ++i)
    flat += ", [], \"[{\\\"[\"";
  EXPECT_EQ(errorOf(flat + "]"), "c.json: expected an object, got an array of "
                                 "201");
  std::string within = std::string(64, '[') + std::string(64, ']');
  EXPECT_EQ(errorOf(within), "c.json: expected an object, got an array of 1");
  EXPECT_EQ(errorOf("[]]]").substr(0, 27), "c.json: expected JSON, got ");
}

TEST(ClusterFile, MissingValues) {
  EXPECT_EQ(errorOf("{}"), "c.json: format: expected one of fsdp-cluster/1, "
                           "got nothing");
  EXPECT_EQ(
      errorOf(replaced("\"gb_per_s\": 370", "\"latency_us\": 1")),
      "c.json: links.intra.gb_per_s: expected a number of at least 0.001, "
      "at most 1e+06, got nothing");
  EXPECT_EQ(errorOf(replaced("\"memory_gib\": 80, ", "")),
            "c.json: device.memory_gib: expected a number above 0 and at most "
            "1048576, got nothing");
  EXPECT_EQ(errorOf(replaced("\"f32\": {\"peak_tflops\": 100}", "")),
            "c.json: device.vector.f32: expected an object, got nothing");
}

TEST(ClusterFile, WrongValues) {
  EXPECT_EQ(
      errorOf(replaced("\"gb_per_s\": 370", "\"gb_per_s\": -370")),
      "c.json: links.intra.gb_per_s: expected a number of at least 0.001, at "
      "most 1e+06, got -370");
  EXPECT_EQ(
      errorOf(replaced("\"gb_per_s\": 370", "\"gb_per_s\": 1e308")),
      "c.json: links.intra.gb_per_s: expected a number of at least 0.001, "
      "at most 1e+06, got 1e+308");
  EXPECT_EQ(errorOf(replaced("\"nodes\": 4", "\"nodes\": 0")),
            "c.json: nodes: expected an integer of at least 1, at most "
            "2147483648, got 0");
  EXPECT_EQ(errorOf(replaced("\"nodes\": 4", "\"nodes\": 2.5")),
            "c.json: nodes: expected an integer of at least 1, at most "
            "2147483648, got 2.5");
  EXPECT_EQ(errorOf(replaced("\"nodes\": 4", "\"nodes\": 1e18")),
            "c.json: nodes: expected an integer of at least 1, at most "
            "2147483648, got 1e+18");
  EXPECT_EQ(
      errorOf(replaced("\"launch_us\": 5", "\"launch_us\": \"5\"")),
      "c.json: device.launch_us: expected a number of at least 0, at most "
      "1e+06, got \"5\"");
  EXPECT_EQ(errorOf(replaced("nvlink", "infiniband")),
            "c.json: links.intra.kind: expected one of nvlink, pcie, memory, "
            "got \"infiniband\"");
  EXPECT_EQ(errorOf(replaced("\"reserved_gib\": 2", "\"reserved_gib\": 80")),
            "c.json: device.reserved_gib: expected less than memory_gib, "
            "85899345920 bytes, got 85899345920");
}

TEST(ClusterFile, NumbersOfMachines) {
  EXPECT_EQ(errorOf(replaced("\"gb_per_s\": 370", "\"gb_per_s\": 1e-9")),
            "c.json: links.intra.gb_per_s: expected a number of at least "
            "0.001, at most 1e+06, got 1e-09");
  EXPECT_EQ(errorOf(replaced("\"latency_us\": 10", "\"latency_us\": 1e15")),
            "c.json: links.host.latency_us: expected a number of at least 0, "
            "at most 1e+06, got 1e+15");
  EXPECT_EQ(errorOf(replaced("\"launch_us\": 5",
                             "\"launch_us\": 5, \"graph_launch_us\": -1")),
            "c.json: device.graph_launch_us: expected a number of at least 0, "
            "at most 1e+06, got -1");
  EXPECT_EQ(errorOf(replaced("\"launch_us\": 5",
                             "\"launch_us\": 5, \"multiprocessors\": "
                             "{\"count\": 0, \"clock_ghz\": 1, "
                             "\"issued_per_cycle\": 4, \"threads\": 2048, "
                             "\"shared_kib\": 100, \"latency_ns\": 500}")),
            "c.json: device.multiprocessors.count: expected an integer of at "
            "least 1, at most 2147483648, got 0");
  EXPECT_EQ(errorOf(replaced("\"launch_us\": 5",
                             "\"launch_us\": 5, \"multiprocessors\": "
                             "{\"count\": 1, \"clock_ghz\": 1, "
                             "\"issued_per_cycle\": 4, \"threads\": 2048, "
                             "\"shared_kib\": 100, \"latency_ns\": 500, "
                             "\"efficiency\": 0.7, "
                             "\"results_per_cycle\": {\"integer\": 0}}")),
            "c.json: device.multiprocessors.results_per_cycle.integer: "
            "expected a number of at least 0.001, at most 1e+06, got 0");
  EXPECT_EQ(errorOf(replaced("\"launch_us\": 5", "\"launch_us\": 1e12")),
            "c.json: device.launch_us: expected a number of at least 0, at "
            "most 1e+06, got 1e+12");
  EXPECT_EQ(errorOf(replaced("\"gb_per_s\": 1000", "\"gb_per_s\": 1e-12")),
            "c.json: device.memory.gb_per_s: expected a number of at least "
            "0.001, at most 1e+06, got 1e-12");
  EXPECT_EQ(
      errorOf(replaced("\"peak_tflops\": 100}", "\"peak_tflops\": 1e-9}")),
      "c.json: device.vector.f32.peak_tflops: expected a number of at "
      "least 1e-06, at most 1e+06, got 1e-09");
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
  // A second of the smaller size would be more than one of the larger.
  EXPECT_EQ(
      errorOf(replaced("[1e11, 0.8]", "[1.1e9, 0.8]"))
          .find("c.json: device.matmul.bf16.efficiency[1]: expected a ratio of "
                "at most "),
      0u);
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

TEST(ClusterFile, CollectivesOfGroupsThatThereAre) {
  auto table = [](const char *shape) {
    return replaced(
        "\"nccl\"",
        std::string("\"collectives\": [{\"kind\": \"all_reduce\", ") + shape +
            ", \"us_by_bytes\": [[1e6, 60]]}], \"nccl\"");
  };
  parseOrFail(table(R"("nodes": 4, "ranks_per_node": 1, "neighbours": 8)"));
  EXPECT_EQ(errorOf(table(R"("nodes": 5, "ranks_per_node": 1)")),
            "c.json: collectives[0].nodes: expected an integer of at least 1, "
            "at most 4, got 5");
  EXPECT_EQ(
      errorOf(table(R"("nodes": 4, "ranks_per_node": 2, "neighbours": 5)")),
      "c.json: collectives[0].neighbours: expected an integer of at least 1, "
      "at most 4, got 5");
}

TEST(ClusterFile, NumbersAreShownAsTheyAre) {
  EXPECT_EQ(errorOf(replaced("\"memory_gib\": 80", "\"memory_gib\": 1048578")),
            "c.json: device.memory_gib: expected a number above 0 and at most "
            "1048576, got 1048578");
  EXPECT_EQ(
      errorOf(replaced("\"gb_per_s\": 370", "\"gb_per_s\": 0.00099999999")),
      "c.json: links.intra.gb_per_s: expected a number of at least 0.001, at "
      "most 1e+06, got 0.00099999999");
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

std::string readManual() {
  std::ifstream file(std::string(FSDP_DOCS_DIR) + "/cluster.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ClusterFile, TheManualsErrorIsWhatIsPrinted) {
  std::string manual = readManual();
  auto example = llvm::StringRef(manual).split("```json\n").second;
  std::string wrong = example.split("```").first.str();
  llvm::StringRef from = "\"gb_per_s\": 370.8";
  size_t at = wrong.find(from.str());
  ASSERT_NE(at, std::string::npos);
  wrong.replace(at, from.size(), "\"gb_per_s\": -370");
  llvm::Expected<Cluster> cluster = parseCluster(wrong, "c.json");
  ASSERT_FALSE(bool(cluster));
  std::string error = llvm::toString(cluster.takeError());
  EXPECT_NE(manual.find("`" + error + "`"), std::string::npos) << error;
}

TEST(ClusterFile, TheManualsExamplesAreValid) {
  std::string manual = readManual();
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
