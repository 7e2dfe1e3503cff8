//===- Trace.cpp - Files that show where a step's time went ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/Trace.h"

#include "core/Dtype.h"
#include "core/TransferQueues.h"
#include "core/data/File.h"
#include "fsdp-rt/abi.h"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace fsdp::rt {

namespace {

using Json = nlohmann::ordered_json;

/// Bytes that are no UTF-8 become U+FFFD instead of an exception.
std::string dump(const Json &json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double perSecond(int64_t amount, int64_t nanoseconds) {
  return nanoseconds > 0 ? double(amount) / double(nanoseconds) : 0.0;
}

Json timesOf(const StepTimes &times) {
  return {{"matmul_ns", times.matmul},
          {"kernels_ns", times.kernels},
          {"communication_ns", times.communication},
          {"waiting_ns", times.waiting},
          {"other_ns", times.other},
          {"total_ns", times.total},
          {"transfers_ns", times.transfers}};
}

/// The matrix products of a step in their order, complete enough to be run
/// again alone.
Json productsOf(const std::vector<SiteTotals> &sites) {
  Json products = Json::array();
  for (const SiteTotals &site : sites) {
    if (site.kind != CallKind::Matmul || !site.site)
      continue;
    auto &desc = *static_cast<const fsdp_rt_matmul_desc *>(site.site);
    products.push_back({{"name", site.name},
                        {"a", desc.a},
                        {"b", desc.b},
                        {"c", desc.c},
                        {"m", desc.m},
                        {"n", desc.n},
                        {"k", desc.k},
                        {"lda", desc.lda},
                        {"ldb", desc.ldb},
                        {"ldc", desc.ldc},
                        {"batch", desc.batch},
                        {"a_stride", desc.a_stride},
                        {"b_stride", desc.b_stride},
                        {"c_stride", desc.c_stride},
                        {"alpha", desc.alpha},
                        {"trans_a", desc.trans_a != 0},
                        {"trans_b", desc.trans_b != 0},
                        {"accumulate", desc.accumulate != 0},
                        {"dtype", dtypeName(Dtype(desc.dtype))},
                        {"calls", site.calls},
                        {"ns", site.nanoseconds},
                        {"best_ns", site.best}});
  }
  return products;
}

} // namespace

Status writeTrace(const std::string &path, int rank, const Recorder &recorder) {
  Json events = Json::array();
  const std::vector<CallRecord> &calls = recorder.trace();
  // A transfer is recorded where the step waited for it, and begins earlier.
  int64_t origin = calls.empty() ? 0 : calls.front().begin;
  std::set<int32_t> queues;
  for (const CallRecord &call : calls) {
    origin = std::min(origin, call.begin);
    queues.insert(call.queue);
  }
  if (queues.size() > 1)
    for (int32_t queue : queues)
      events.push_back(
          {{"name", "thread_name"},
           {"ph", "M"},
           {"pid", rank},
           {"tid", queue},
           {"args", {{"name", queue == 0 ? "compute" : queueName(queue)}}}});
  for (const CallRecord &call : calls) {
    Json args = {{"step", call.step + 1}, {"bytes", call.bytes}};
    if (call.kind == CallKind::Matmul)
      args["gflops_per_s"] = perSecond(call.flops, call.end - call.begin);
    if (call.kind == CallKind::Collective)
      args["waiting_us"] = double(call.waiting) / 1e3;
    events.push_back({{"name", call.name ? call.name : ""},
                      {"cat", callKindName(call.kind)},
                      {"ph", "X"},
                      {"ts", double(call.begin - origin) / 1e3},
                      {"dur", double(call.end - call.begin) / 1e3},
                      {"pid", rank},
                      {"tid", call.queue},
                      {"args", std::move(args)}});
  }
  Json trace = {{"displayTimeUnit", "ms"},
                {"droppedEvents", recorder.droppedEvents()},
                {"traceEvents", std::move(events)}};
  return data::replaceFile(path, dump(trace));
}

Status writeProfile(const std::string &path, int rank, const Context &context) {
  std::vector<ProfileRow> rows = context.profile();
  std::sort(rows.begin(), rows.end(),
            [](const ProfileRow &a, const ProfileRow &b) {
              return std::make_pair(-a.nanoseconds, a.name) <
                     std::make_pair(-b.nanoseconds, b.name);
            });
  Json calls = Json::array();
  for (const ProfileRow &row : rows)
    calls.push_back({{"name", row.name},
                     {"kind", callKindName(row.kind)},
                     {"calls", row.calls},
                     {"ns", row.nanoseconds},
                     {"best_ns", row.best},
                     {"waiting_ns", row.waiting},
                     {"bytes", row.bytes},
                     {"flops", row.flops},
                     {"gb_per_s", perSecond(row.bytes, row.nanoseconds)},
                     {"gflops_per_s", perSecond(row.flops, row.nanoseconds)}});
  const Counters &counters = context.counters();
  Json groups = Json::array();
  for (size_t g = 0; g < counters.groups.size(); ++g)
    for (int k = 0; k < numCollectiveKinds; ++k)
      if (counters.groups[g][k].calls > 0)
        groups.push_back({{"group", g},
                          {"kind", collectiveName(CollectiveKind(k))},
                          {"calls", counters.groups[g][k].calls},
                          {"bytes", counters.groups[g][k].bytes}});
  Json profile = {{"rank", rank},
                  {"steps", counters.steps},
                  {"blas", context.blas().name()},
                  {"threads", context.threads()},
                  {"times", timesOf(counters.allSteps)},
                  {"traffic", std::move(groups)},
                  {"arena_bytes", context.arenaBytes()},
                  {"calls", std::move(calls)},
                  {"products", productsOf(context.recorder().sites())}};
  return data::replaceFile(path, dump(profile));
}

} // namespace fsdp::rt
