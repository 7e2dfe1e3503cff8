//===- cost-check.cpp - The cost model beside published times -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: fsdp-cost-check [FOLDER of cluster files]
//
// 1. The collectives of pytorch/pytorch#106080, one by one.
// 2. Whole steps from published tables, by a closed form: forward and backward
//    each take the longer of compute (slowed by what overlaps it) and
//    communication, plus the first gather and the last reduce_scatter, plus
//    the optimizer. No schedule, so what a scheduler cannot hide is missing.
//
// Rows marked "fit" determined a number of a cluster file; the others are
// predictions. Rows whose source does not state the interconnect are apart:
// there it is assumed to be that of the ready file.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Cost/NcclModel.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace mlir::fsdp;

static Cluster load(const std::string &folder, StringRef name) {
  Expected<Cluster> cluster = loadCluster(folder + "/" + name.str() + ".json");
  if (cluster)
    return *cluster;
  errs() << "error: " << toString(cluster.takeError()) << "\n";
  exit(1);
}

static GroupPlacement place(const Cluster &cluster, int64_t world, int64_t size,
                            int64_t stride) {
  Expected<GroupPlacement> group = placeGroup(cluster, world, size, stride);
  if (group)
    return *group;
  errs() << "error: " << toString(group.takeError()) << "\n";
  exit(1);
}

static double percent(double got, double expected) {
  return (got / expected - 1) * 100;
}

//===----------------------------------------------------------------------===//
// pytorch/pytorch#106080
//===----------------------------------------------------------------------===//

static void checkCollectives(const std::string &folder) {
  Cluster cluster = load(folder, "a100-40g-sxm-efa");
  // nn.TransformerEncoderLayer and DecoderLayer, d_model 8192, feed-forward
  // 2048, in bf16.
  constexpr double kEncoder = 302e6 * 2, kDecoder = 570e6 * 2;
  GroupPlacement all = place(cluster, 32, 32, 1),
                 node = place(cluster, 32, 8, 1),
                 across = place(cluster, 32, 4, 8);
  struct Row {
    const char *what;
    TransferKind kind;
    GroupPlacement group;
    double bytes, ms;
    const char *note;
  };
  const Row rows[] = {
      {"encoder all_gather, 32 GPUs", TransferKind::AllGather, all, kEncoder,
       23, "fit"},
      {"decoder all_gather, 32 GPUs", TransferKind::AllGather, all, kDecoder,
       40, "fit"},
      {"encoder reduce_scatter, node", TransferKind::ReduceScatter, node,
       kEncoder, 3, ""},
      {"decoder reduce_scatter, node", TransferKind::ReduceScatter, node,
       kDecoder, 5, ""},
      {"encoder all_reduce, 4 nodes", TransferKind::AllReduce, across,
       kEncoder / 8, 23, "fit"},
      {"decoder all_reduce, 4 nodes", TransferKind::AllReduce, across,
       kDecoder / 8, 49, "fit"},
  };
  AnalyticCost model(cluster, getQueueLinks(cluster, node, across));
  outs() << "pytorch/pytorch#106080, 4 x 8 A100-40GB, 400 Gb/s per node "
            "(fitted: efficiency of EFA at 32 and at 4 ranks, its contention "
            "with NVLink)\n"
         << format("%-32s %10s %10s %8s\n", "collective", "published",
                   "predicted", "error");
  for (const Row &row : rows) {
    TransferKey key{row.kind, {int64_t(row.bytes)}, row.group};
    double ms = toSeconds(model.transfer(key).total()) * 1e3;
    outs() << format("%-32s %7.1f ms %7.2f ms %+7.1f%% %s\n", row.what, row.ms,
                     ms, percent(ms, row.ms), row.note);
  }
  double alone = toSeconds(
      model.transfer({TransferKind::AllReduce, {int64_t(kDecoder / 8)}, across})
          .total());
  double beside = alone * kFullRate /
                  model.rate(Queue::AllReduce,
                             maskOf(Queue::AllReduce) | maskOf(Queue::Reduce));
  outs() << format("%-32s %7.1f ms %7.2f ms %+7.1f%% %s\n",
                   "decoder all_reduce, overlapped", 100.0, beside * 1e3,
                   percent(beside * 1e3, 100), "fit of the contention rule");
  AnalyticCost flat(cluster, getQueueLinks(cluster, all, all));
  TransferKey encoder{TransferKind::AllGather, {int64_t(kEncoder)}, all};
  TransferKey decoder{TransferKind::AllGather, {int64_t(kDecoder)}, all};
  double encoderMs = toSeconds(flat.transfer(encoder).total()) * 1e3;
  double decoderMs = toSeconds(flat.transfer(decoder).total()) * 1e3;
  // Communication alone: two gathers and a reduce_scatter of every layer, but
  // the last layer is not gathered again.
  double step = 3 * 6 * (encoderMs + decoderMs) - decoderMs;
  outs() << format("%-32s %7.1f ms %7.2f ms %+7.1f%% %s\n\n",
                   "whole step, full_shard", 1160.0, step, percent(step, 1160),
                   "communication alone; from fitted times");
}

//===----------------------------------------------------------------------===//
// Whole steps
//===----------------------------------------------------------------------===//

namespace {

struct Model {
  int64_t layers, width, feedForward, heads, kvHeads, vocabulary;
  /// Feed-forward of three products and RMS norms, as in Llama, or of two.
  bool gated;

  int64_t headSize() const { return width / heads; }
  int64_t layerParameters() const {
    int64_t attention = 2 * width * width + 2 * width * kvHeads * headSize();
    return attention + (gated ? 3 : 2) * width * feedForward;
  }
  /// Llama has an output matrix of its own, GPT and MPT do not.
  int64_t rootParameters() const {
    return vocabulary * width * (gated ? 2 : 1);
  }
};

/// What is recomputed in backward: nothing; half of the products and all that
/// is cheap, with attention kept (torchtitan's selective); everything; that,
/// in checkpoints around FSDP's units, which gather each of them once more.
enum class Recompute { None, Selective, Full, Outside };

struct Row {
  const char *id, *name, *cluster;
  Model model;
  int64_t gpus, shard, sequence, batch;
  Recompute recompute;
  int reduceBytes;
  double seconds;
  bool isStated, isFit;
  /// What differs from the cluster file, by a factor.
  double memory = 1, matmul = 1, nic = 1;

  bool isFSDP2() const { return id[0] == 'T'; }
};

constexpr Model kLlama2_7B = {32, 4096, 11008, 32, 32, 32000, true};
constexpr Model kLlama2_13B = {40, 5120, 13824, 40, 40, 32000, true};
constexpr Model kLlama2_34B = {48, 8192, 22016, 64, 8, 32000, true};
constexpr Model kLlama3_8B = {32, 4096, 14336, 32, 8, 128256, true};
constexpr Model kLlama3_70B = {80, 8192, 28672, 64, 8, 128256, true};
constexpr Model kMPT_13B = {40, 5120, 20480, 40, 40, 50368, false};
constexpr Model kMPT_70B = {80, 8192, 32768, 64, 64, 50368, false};
constexpr Model kGPT_175B = {96, 12288, 49152, 96, 96, 50000, false};

/// Arithmetic of one step. How the FSDP paper counts its TFLOPS is not stated;
/// taken as Megatron does: with recomputation, so four forward passes.
constexpr double kGPT175Flops =
    96.0 * 2048 * 96 * 12288.0 * 12288 *
    (1 + 2048 / (6 * 12288.0) + 50000 / (16 * 96 * 12288.0));

/// Memory of the A100-40GB and, at 500 W, of the H100 with 96 GB of HBM2e (six
/// stacks, where the 80 GB card with 2 TB/s has five).
constexpr double k40GBMemory = 1555.0 / 2039, k500WMemory = 2400.0 / 3350;
/// Fitted, each by one row: matmul at 500 W by T6, the NICs of llm-foundry's
/// cluster by M2, of YaFSDP's by Y1 and of DeepCompile's by D2.
constexpr double k500WMatmul = 0.85, kRoceNic = 0.145, kYaNic = 0.365,
                 kDeepNic = 0.7;

const Row kRows[] = {
    {"T6", "Llama 3.1 8B, torchtitan", "h100-sxm", kLlama3_8B, 8, 8, 8192, 2,
     Recompute::Selective, 4, 2.843, true, true, k500WMemory, k500WMatmul},
    {"T8", "Llama 3.1 8B, torchtitan", "h100-sxm", kLlama3_8B, 128, 128, 8192,
     2, Recompute::Selective, 4, 2.923, true, false, k500WMemory, k500WMatmul},
    {"M3", "MPT-13b, llm-foundry", "a100-80g-sxm", kMPT_13B, 16, 16, 2048, 10,
     Recompute::Full, 2, 10.28, true, true, k40GBMemory, 1, kRoceNic},
    {"M2", "MPT-70b, llm-foundry", "a100-80g-sxm", kMPT_70B, 64, 64, 2048, 2,
     Recompute::Full, 2, 14.84, true, true, k40GBMemory, 1, kRoceNic},
    {"F1", "GPT 175B, FSDP paper", "a100-80g-sxm", kGPT_175B, 128, 128, 2048, 1,
     Recompute::Full, 2, kGPT175Flops / 173e12, true, false},
    {"I1", "Llama 2 7B, fms-fsdp HSDP", "a100-80g-sxm", kLlama2_7B, 128, 8,
     4096, 2, Recompute::None, 2, 2.179, true, false, 1, 1, 0.25},
    {"Y1", "Llama 2 7B, YaFSDP", "a100-80g-sxm", kLlama2_7B, 64, 64, 2048, 1,
     Recompute::None, 4, 0.90, false, true, 1, 1, kYaNic},
    {"Y3", "Llama 2 7B, YaFSDP", "a100-80g-sxm", kLlama2_7B, 64, 64, 8192, 1,
     Recompute::None, 4, 2.29, false, false, 1, 1, kYaNic},
    {"Y6", "Llama 2 7B, YaFSDP", "a100-80g-sxm", kLlama2_7B, 128, 128, 8192, 1,
     Recompute::None, 4, 2.31, false, false, 1, 1, kYaNic},
    {"Y8", "Llama 2 13B, YaFSDP", "a100-80g-sxm", kLlama2_13B, 128, 128, 4096,
     1, Recompute::None, 4, 2.14, false, false, 1, 1, kYaNic},
    {"Y11", "Llama 2 34B, YaFSDP", "a100-80g-sxm", kLlama2_34B, 256, 256, 4096,
     1, Recompute::None, 4, 5.81, false, false, 1, 1, kYaNic},
    {"Y14", "Llama 3 8B, YaFSDP", "a100-80g-sxm", kLlama3_8B, 64, 64, 2048, 1,
     Recompute::None, 4, 1.10, false, false, 1, 1, kYaNic},
    {"T1", "Llama 3 8B, torchtitan", "a100-80g-sxm", kLlama3_8B, 64, 64, 8192,
     1, Recompute::Selective, 4, 2.821, false, false},
    {"T4", "Llama 2 13B, torchtitan", "a100-80g-sxm", kLlama2_13B, 64, 64, 4096,
     2, Recompute::None, 4, 3.789, false, false},
    {"D2", "Llama 3 70B, DeepCompile", "h100-sxm", kLlama3_70B, 32, 32, 1024, 1,
     Recompute::Outside, 2, 2.76, false, true, 1, 1, kDeepNic},
    {"D5", "Llama 3 70B, DeepCompile", "h100-sxm", kLlama3_70B, 32, 32, 1024, 2,
     Recompute::Outside, 2, 3.73, false, false, 1, 1, kDeepNic},
    {"D7", "Llama 3 70B, DeepCompile", "h100-sxm", kLlama3_70B, 32, 32, 512, 4,
     Recompute::Outside, 2, 3.65, false, false, 1, 1, kDeepNic},
    {"M5", "MPT-70b, llm-foundry", "h100-sxm", kMPT_70B, 128, 128, 2048, 8,
     Recompute::Full, 4, 15.49, false, true},
};

/// Seconds of the parts of a step.
struct Parts {
  double forward = 0, backward = 0, optimizer = 0;
  double forwardComm = 0, backwardComm = 0, head = 0, tail = 0;
  /// What FSDP copies, and gathers that nothing runs beside.
  double copies = 0, alone = 0;
};

} // namespace

static double secondsOf(const CostModel &model, const KernelCost &kernel) {
  return toSeconds(model.kernel(kernel));
}

/// Eager elementwise work: @bytes in kernels of @each.
static double elementwise(const CostModel &model, double bytes, double each) {
  KernelCost kernel;
  kernel.bytes = int64_t(each);
  return secondsOf(model, kernel) * bytes / each;
}

static Parts estimate(const Row &row, const AnalyticCost &model,
                      const GroupPlacement &shard,
                      const GroupPlacement &replicate) {
  const Model &m = row.model;
  const int64_t tokens = row.batch * row.sequence;
  const int64_t kvWidth = m.kvHeads * m.headSize();
  Parts parts;

  // Products of a layer: {inputs, outputs}. Backward has one for the input's
  // gradient and one for the weight's.
  SmallVector<std::pair<int64_t, int64_t>> products = {
      {m.width, m.width}, {m.width, kvWidth},       {m.width, kvWidth},
      {m.width, m.width}, {m.width, m.feedForward}, {m.feedForward, m.width}};
  if (m.gated)
    products.push_back({m.width, m.feedForward});
  double forwardProducts = 0, backwardProducts = 0;
  auto add = [&](int64_t in, int64_t out, double &forward, double &backward) {
    constexpr CostDtype type = CostDtype::BF16;
    forward += secondsOf(model, makeMatmul(type, tokens, out, in));
    backward += secondsOf(model, makeMatmul(type, tokens, in, out)) +
                secondsOf(model, makeMatmul(type, in, out, tokens));
  };
  for (auto [in, out] : products)
    add(in, out, forwardProducts, backwardProducts);
  auto attention = [&](bool backward) {
    return secondsOf(model, makeAttention(backward, CostDtype::BF16, row.batch,
                                          m.heads, m.kvHeads, row.sequence,
                                          row.sequence, m.headSize(), true));
  };
  // Bytes per token that eager kernels move in forward. Llama: two RMS norms
  // in f32 (34 each), two sums (6 each), rotation of queries and keys (20),
  // SiLU and product (10). GPT: fused norms (4 each), sums, GELU (4).
  double perToken = m.gated ? 80.0 * m.width + 20.0 * (m.width + kvWidth) +
                                  10.0 * m.feedForward
                            : 20.0 * m.width + 4.0 * m.feedForward;
  double each = 6.0 * tokens * m.width;
  double cheap = elementwise(model, perToken * tokens, each);

  double layerForward = forwardProducts + attention(false) + cheap;
  double layerBackward = backwardProducts + attention(true) + 2 * cheap;
  if (row.recompute == Recompute::Full || row.recompute == Recompute::Outside)
    layerBackward += layerForward;
  if (row.recompute == Recompute::Selective)
    layerBackward += forwardProducts / 2 + cheap;
  double headForward = 0, headBackward = 0;
  add(m.width, m.vocabulary, headForward, headBackward);
  // Logits as f32, log-softmax and its backward.
  double loss = elementwise(model, 28.0 * tokens * m.vocabulary,
                            6.0 * tokens * m.vocabulary);
  parts.forward = m.layers * layerForward + headForward + loss / 2;
  parts.backward = m.layers * layerBackward + headBackward + loss / 2;

  // Communication by unit: layers, and the root, which is gathered once.
  auto transfer = [&](TransferKind kind, double bytes,
                      const GroupPlacement &group) {
    return toSeconds(model.transfer({kind, {int64_t(bytes)}, group}).total());
  };
  double layer = double(m.layerParameters()), root = double(m.rootParameters());
  double gather = transfer(TransferKind::AllGather, 2 * layer, shard);
  double rootGather = transfer(TransferKind::AllGather, 2 * root, shard);
  double reduce =
      transfer(TransferKind::ReduceScatter, row.reduceBytes * layer, shard);
  double rootReduce =
      transfer(TransferKind::ReduceScatter, row.reduceBytes * root, shard);
  parts.head = rootGather;
  parts.forwardComm = m.layers * gather;
  parts.backwardComm = (m.layers - 1) * gather + m.layers * reduce + rootReduce;
  parts.tail = rootReduce;
  if (row.recompute == Recompute::Outside) {
    parts.alone = 2 * m.layers * gather;
    parts.backwardComm -= (m.layers - 1) * gather;
  }
  if (replicate.ranks > 1) {
    // On its own queue: beside the reduce_scatters, the last one after them.
    double all =
        transfer(TransferKind::AllReduce,
                 row.reduceBytes * layer / double(shard.ranks), replicate);
    double rootAll =
        transfer(TransferKind::AllReduce,
                 row.reduceBytes * root / double(shard.ranks), replicate);
    parts.backwardComm = std::max(parts.backwardComm, m.layers * all + rootAll);
    parts.tail += rootAll;
  }
  // Bytes per parameter that FSDP moves over whole units. FSDP1 concatenates
  // gradients, casts what it reduces in f32, and divides; FSDP2 splits what it
  // gathered, twice, and fills the buffer that it reduces.
  double copied = row.isFSDP2()          ? 2 * 4 + 2 + row.reduceBytes
                  : row.reduceBytes == 4 ? 4 + 6 + 8
                                         : 4 + 4;
  parts.copies =
      elementwise(model, copied * (m.layers * layer + root), copied * layer);
  // AdamW in f32: parameter, gradient and two moments read, three written;
  // the gradient's norm reads it once more.
  double local = (m.layers * layer + root) / double(shard.ranks);
  parts.optimizer = elementwise(model, 32 * local, 32 * local / m.layers);
  return parts;
}

static double getStep(const Parts &parts, const AnalyticCost &model) {
  double slowed = model.rate(Queue::Compute, maskOf(Queue::Compute) |
                                                 maskOf(Queue::AllGather)) /
                  double(kFullRate);
  // While communication runs, compute proceeds at `slowed`.
  auto overlap = [&](double compute, double comm) {
    return std::max(comm, compute + (1 - slowed) * comm);
  };
  return parts.head + overlap(parts.forward, parts.forwardComm) +
         overlap(parts.backward, parts.backwardComm) + parts.tail +
         parts.alone + parts.copies + parts.optimizer;
}

static void checkSteps(const std::string &folder) {
  double sum[2] = {0, 0}, worst[2] = {0, 0};
  int count[2] = {0, 0};
  outs()
      << "published steps, closed form (each row marked fit set one number)\n"
      << format("%-4s %-26s %5s %9s %9s %8s %8s %8s\n", "row", "", "GPUs",
                "published", "predicted", "error", "compute", "comm");
  for (bool stated : {true, false}) {
    outs() << (stated ? "interconnect stated:\n"
                      : "interconnect not stated, assumed as in the file:\n");
    for (const Row &row : kRows) {
      if (row.isStated != stated)
        continue;
      Cluster cluster = load(folder, row.cluster);
      cluster.device.memory.peak *= row.memory;
      cluster.device.matmul[unsigned(CostDtype::BF16)].peak *= row.matmul;
      cluster.inter->bandwidth *= row.nic;
      GroupPlacement shard = place(cluster, row.gpus, row.shard, 1);
      GroupPlacement replicate =
          place(cluster, row.gpus, row.gpus / row.shard, row.shard);
      AnalyticCost model(cluster, getQueueLinks(cluster, shard, replicate));
      Parts parts = estimate(row, model, shard, replicate);
      double step = getStep(parts, model);
      double error = percent(step, row.seconds);
      outs() << format(
                    "%-4s %-26s %5d %7.3f s %7.3f s %+7.1f%% %6.3f s %6.3f s",
                    row.id, row.name, int(row.gpus), row.seconds, step, error,
                    parts.forward + parts.backward + parts.optimizer,
                    parts.head + parts.forwardComm + parts.backwardComm +
                        parts.alone)
             << (row.isFit ? " fit\n" : "\n");
      if (row.isFit)
        continue;
      sum[stated] += std::fabs(error);
      worst[stated] = std::max(worst[stated], std::fabs(error));
      ++count[stated];
    }
    outs() << format(
        "  %d rows not fitted: mean error %.1f %%, worst %.1f %%\n",
        count[stated], sum[stated] / count[stated], worst[stated]);
  }
}

int main(int argc, char **argv) {
  if (argc > 2) {
    errs() << "usage: fsdp-cost-check [FOLDER of cluster files]\n";
    return 1;
  }
  std::string folder = argc == 2 ? argv[1] : FSDP_CLUSTER_DIR;
  checkCollectives(folder);
  checkSteps(folder);
  return 0;
}
