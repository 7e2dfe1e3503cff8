//===- MeasuredCost.cpp - Costs that were measured ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"

#include "fsdp/Cost/MeasuredCost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

using namespace llvm;
using namespace mlir::fsdp;

static constexpr double kMicro = 1e-6, kNano = 1e-9;

static int64_t getFlops(const KernelCost &kernel) {
  return std::accumulate(kernel.flops.begin(), kernel.flops.end(), int64_t(0));
}

//===----------------------------------------------------------------------===//
// DeviceTable
//===----------------------------------------------------------------------===//

void DeviceTable::add(KernelKind kind, CostDtype dtype,
                      std::array<int64_t, 4> shape, double seconds) {
  Point point;
  point.shape = shape;
  point.seconds = seconds;
  for (unsigned i = 0; i < 4; ++i)
    point.logs[i] = std::log2(double(shape[i]));
  products[{kind, dtype}].push_back(point);
}

Expected<DeviceTable> DeviceTable::parse(StringRef text, StringRef path) {
  JsonFile file(text, path);
  JsonObject root(file);
  DeviceTable table;
  constexpr StringLiteral formats[] = {"fsdp-device-table/1"};
  root.oneOf("format", formats);
  table.device = root.string("device");
  if (root.has("launch_us"))
    table.launchSeconds =
        root.number("launch_us", NumberRange::nonNegative()) * kMicro;
  if (root.has("graph_launch_us"))
    table.graphLaunchSeconds =
        root.number("graph_launch_us", NumberRange::nonNegative()) * kMicro;

  if (root.has("matmul")) {
    JsonArray list = root.array("matmul");
    std::set<std::pair<CostDtype, std::array<int64_t, 4>>> products;
    for (size_t i = 0; i < list.size(); ++i) {
      JsonObject row = list.object(i);
      auto dtype = CostDtype(row.oneOf("dtype", kCostDtypeNames));
      std::array<int64_t, 4> shape = {
          row.integer("m", 1, kMostOfACount),
          row.integer("n", 1, kMostOfACount),
          row.integer("k", 1, kMostOfACount),
          row.integerOr("batch", 1, 1, kMostOfACount)};
      double us = row.number("us", NumberRange::duration());
      row.finish();
      if (!products.insert({dtype, shape}).second)
        row.report("", "expected one time for each dtype, m, n, k and batch, "
                       "got a second");
      table.add(KernelKind::Matmul, dtype, shape, us * kMicro);
    }
  }
  if (root.has("memory")) {
    JsonObject memory = root.object("memory");
    std::vector<std::pair<double, double>> points =
        memory.array("us_by_bytes").risingPoints(NumberRange::duration());
    memory.finish();
    for (auto &point : points)
      point.second *= kMicro;
    table.memory = SizeCurve::fromTimes(points, SizeCurve::Below::Constant);
  }
  if (root.has("attention")) {
    JsonArray list = root.array("attention");
    std::set<std::tuple<CostDtype, std::array<int64_t, 6>, bool>> shapes;
    for (size_t i = 0; i < list.size(); ++i) {
      JsonObject row = list.object(i);
      auto dtype = CostDtype(row.oneOf("dtype", kCostDtypeNames));
      int64_t batch = row.integer("batch", 1, kMostOfACount),
              heads = row.integer("heads", 1, kMostOfACount);
      int64_t kvHeads =
          row.integerOr("kv_heads", 1, heads); // its traffic is not the limit
      int64_t queries = row.integer("queries", 1, kMostOfACount);
      int64_t keys = row.integerOr("keys", 1, queries, kMostOfACount);
      int64_t headSize = row.integer("head_size", 1, kMostOfACount);
      bool causal = row.booleanOr("causal", false);
      double forward = row.number("forward_us", NumberRange::duration());
      double backward = row.number("backward_us", NumberRange::duration());
      row.finish();
      if (!shapes
               .insert({dtype,
                        {batch, heads, kvHeads, queries, keys, headSize},
                        causal})
               .second)
        row.report("", "expected one time for each dtype and shape, got a "
                       "second");
      if (file.hasError())
        break;
      std::array<int64_t, 4> shape = {queries, keys, headSize, batch * heads};
      // Kept as if every score were computed, as a shape says nothing of masks.
      double full = causal ? 2 : 1;
      table.add(KernelKind::Attention, dtype, shape, full * forward * kMicro);
      table.add(KernelKind::AttentionBackward, dtype, shape,
                full * backward * kMicro);
    }
  }
  // What a calibration measures besides, for people.
  root.has("baselines");
  root.finish();
  if (Error error = file.takeError())
    return std::move(error);
  return table;
}

Expected<DeviceTable> DeviceTable::load(StringRef path) {
  return parseFile(path, parse);
}

/// Shapes further apart than this, in powers of two of m, n, k and batch
/// together, say nothing of each other.
static constexpr double kFarthest = 3;

/// What nobody measured. A point says how long a shape takes at most, as it has
/// its rate where it is larger and its time where it is smaller, and, the other
/// way round, how long at least. Of both, taken over all points, this is the
/// geometric mean: it never falls as a shape grows.
static double estimate(llvm::ArrayRef<DeviceTable::Point> points, double launch,
                       const std::array<int64_t, 4> &shape) {
  double least = 0, most = std::numeric_limits<double>::infinity();
  for (const DeviceTable::Point &point : points) {
    // Of a kernel that hardly takes longer than the launch, a little.
    double work = std::max(point.seconds - launch, point.seconds / 16),
           less = work, more = work;
    for (auto [size, measured] : llvm::zip_equal(shape, point.shape)) {
      double ratio = double(size) / double(measured);
      less *= std::min(ratio, 1.0);
      more *= std::max(ratio, 1.0);
    }
    least = std::max(least, less);
    most = std::min(most, more);
  }
  return launch + std::sqrt(least * most);
}

std::optional<double> DeviceTable::seconds(const KernelCost &kernel) const {
  if (kernel.kind == KernelKind::Vector || kernel.kind == KernelKind::Copy) {
    if (memory.isConstant() || kernel.bytes <= 0)
      return std::nullopt;
    return memory.time(double(kernel.bytes));
  }
  auto found = products.find({kernel.kind, kernel.dtype});
  if (found == products.end())
    return std::nullopt;

  std::array<int64_t, 4> shape = {kernel.m, kernel.n, kernel.k, kernel.batch};
  if (llvm::any_of(shape, [](int64_t size) { return size <= 0; }))
    return std::nullopt;
  const std::vector<Point> &points = found->second;
  auto getDistance = [&](const Point &point) {
    double distance = 0;
    for (auto [size, log] : llvm::zip_equal(shape, point.logs))
      distance += std::fabs(std::log2(double(size)) - log);
    return distance;
  };
  if (llvm::none_of(points, [&](const Point &point) {
        return getDistance(point) <= kFarthest;
      }))
    return std::nullopt;
  auto measured = llvm::find_if(
      points, [&](const Point &point) { return point.shape == shape; });
  double full = measured != points.end()
                    ? measured->seconds
                    : estimate(points, launchSeconds.value_or(0), shape);
  // Masked attention does part of the arithmetic.
  double whole = (kernel.kind == KernelKind::Matmul      ? 2.0
                  : kernel.kind == KernelKind::Attention ? 4.0
                                                         : 10.0) *
                 double(kernel.m) * double(kernel.n) * double(kernel.k) *
                 double(kernel.batch);
  double flops = double(kernel.flops[unsigned(kernel.dtype)]);
  bool isMasked = kernel.kind != KernelKind::Matmul && flops < whole;
  double time = isMasked ? full * (flops / whole) : full;
  // What was measured moved a plain product's operands and result.
  bool movesMore = kernel.kind == KernelKind::Matmul &&
                   kernel.bytes > makeMatmul(kernel.dtype, kernel.m, kernel.n,
                                             kernel.k, kernel.batch)
                                      .bytes;
  if (memory.isConstant() || !movesMore)
    return time;
  return std::max(time, memory.time(double(kernel.bytes)));
}

//===----------------------------------------------------------------------===//
// StepProfile
//===----------------------------------------------------------------------===//

/// Reads to the end of @object. @others are keys that a run writes for people
/// and other tools.
static void finish(JsonObject &object, ArrayRef<StringLiteral> others) {
  for (StringLiteral key : others)
    object.has(key);
  object.finish();
}

/// The product of all dimensions of a batch.
static int64_t readBatch(JsonArray dims) {
  int64_t batch = 1;
  for (size_t d = 0; d < dims.size(); ++d)
    if (MulOverflow(batch, dims.integer(d, 1, kMostOfACount), batch) ||
        batch > kMostOfACount) {
      dims.report("expected at most " + Twine(kMostOfACount) +
                  " products together, got more");
      return 1;
    }
  return batch;
}

Expected<StepProfile> StepProfile::parse(StringRef text, StringRef path) {
  JsonFile file(text, path);
  JsonObject root(file);
  StepProfile profile;
  int64_t steps = root.integer("steps", 1);

  // best_ns is the sum over the call sites of each one's fastest call, so it
  // is of as many calls as one step makes.
  JsonArray calls = root.array("calls");
  std::set<std::pair<unsigned, std::string>> seen;
  for (size_t i = 0; i < calls.size(); ++i) {
    JsonObject call = calls.object(i);
    constexpr StringLiteral kinds[] = {"launch", "matmul", "collective", "copy",
                                       "check",  "wait",   "host_copy"};
    unsigned kind = call.oneOf("kind", kinds);
    int64_t count = call.integer("calls", 1);
    double best = call.number("best_ns", NumberRange::nonNegative());
    int64_t flops = call.integer("flops", 0);
    int64_t bytes = call.integer("bytes", 0);
    std::string name = call.string("name");
    finish(call, {"ns", "waiting_ns", "gb_per_s", "gflops_per_s"});
    if (!seen.insert({kind, name}).second)
      call.report("", "expected one entry for each kind and name, got a second "
                      "for " +
                          kinds[kind] + " " + name);
    if (kinds[kind] != "launch" && kinds[kind] != "matmul")
      continue;
    if (count % steps != 0) {
      call.report("calls", "expected a multiple of " + Twine(steps) +
                               " steps, got " + Twine(count));
      break;
    }
    Row row;
    row.seconds = best * kNano / double(count / steps);
    row.flops = flops / count;
    row.bytes = bytes / count;
    profile.rows[name] = row;
  }

  JsonArray products = root.array("products");
  for (size_t i = 0; i < products.size() && !file.hasError(); ++i) {
    JsonObject product = products.object(i);
    std::string type = product.string("dtype");
    std::optional<CostDtype> dtype = parseCostDtype(type);
    int64_t m = product.integer("m", 1, kMostOfACount),
            n = product.integer("n", 1, kMostOfACount),
            k = product.integer("k", 1, kMostOfACount);
    int64_t batch = readBatch(product.array("batch"));
    double best = product.number("best_ns", NumberRange::nonNegative()) * kNano;
    finish(product, {"name", "a", "b", "c", "lda", "ldb", "ldc", "a_stride",
                     "b_stride", "c_stride", "alpha", "trans_a", "trans_b",
                     "accumulate", "epilogue", "c_dtype", "calls", "ns"});
    if (!dtype) {
      product.report("dtype", "expected one of " + join(kCostDtypeNames, ", ") +
                                  ", got \"" + type + "\"");
      break;
    }
    // One row per call site: the fastest site is the least disturbed.
    auto [entry, isNew] =
        profile.products.try_emplace({*dtype, m, n, k, batch}, best);
    if (!isNew)
      entry->second = std::min(entry->second, best);
  }
  finish(root,
         {"rank", "device", "blas", "remarks", "threads", "times", "traffic",
          "host_copies", "arena_bytes", "host_bytes", "memory"});
  if (Error error = file.takeError())
    return std::move(error);
  return profile;
}

Expected<StepProfile> StepProfile::load(StringRef path) {
  return parseFile(path, parse);
}

std::optional<double> StepProfile::seconds(const KernelCost &kernel) const {
  // Runs count the arithmetic of products as it is counted here, and
  // attention's bytes but for what it leaves for backward.
  auto isSame = [&](const Row &row) {
    switch (kernel.kind) {
    case KernelKind::Matmul:
      return row.flops == getFlops(kernel) && row.bytes == kernel.bytes;
    case KernelKind::Attention:
    case KernelKind::AttentionBackward:
      return std::abs(row.bytes - kernel.bytes) <= kernel.bytes / 10;
    case KernelKind::Vector:
    case KernelKind::Copy:
      return row.bytes == kernel.bytes;
    }
    llvm_unreachable("not a kind");
  };
  if (auto row = rows.find(kernel.name);
      row != rows.end() && isSame(row->second))
    return row->second.seconds;
  if (kernel.kind != KernelKind::Matmul)
    return std::nullopt;
  auto product =
      products.find({kernel.dtype, kernel.m, kernel.n, kernel.k, kernel.batch});
  if (product == products.end())
    return std::nullopt;
  return product->second;
}

//===----------------------------------------------------------------------===//
// MeasuredCost
//===----------------------------------------------------------------------===//

MeasuredCost::MeasuredCost(std::unique_ptr<CostModel> base,
                           std::optional<DeviceTable> table,
                           std::optional<StepProfile> profile)
    : base(std::move(base)), table(std::move(table)),
      profile(std::move(profile)) {}

std::pair<Time, MeasuredCost::Source>
MeasuredCost::lookUp(const KernelCost &kernel) const {
  if (profile)
    if (std::optional<double> seconds = profile->seconds(kernel))
      return {toTime(*seconds), Source::Profile};
  if (table)
    if (std::optional<double> seconds = table->seconds(kernel))
      return {toTime(*seconds), Source::Table};
  return {base->kernel(kernel), Source::Base};
}

MeasuredCost::Source MeasuredCost::getSource(const KernelCost &kernel) const {
  return lookUp(kernel).second;
}

Time MeasuredCost::kernel(const KernelCost &kernel) const {
  return lookUp(kernel).first;
}

Time MeasuredCost::launch(const KernelCost &kernel) const {
  return base->launch(kernel);
}

KernelRoof MeasuredCost::roof(const KernelCost &kernel) const {
  KernelRoof roof = base->roof(kernel);
  if (getSource(kernel) != Source::Base)
    roof.limit = KernelLimit::None;
  return roof;
}

TransferCost MeasuredCost::transfer(const TransferKey &transfer) const {
  return base->transfer(transfer);
}

TransferRoute MeasuredCost::route(const TransferKey &transfer) const {
  return base->route(transfer);
}

int MeasuredCost::rate(Queue queue, QueueMask active) const {
  return base->rate(queue, active);
}
