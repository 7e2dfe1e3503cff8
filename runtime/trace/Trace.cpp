//===- Trace.cpp - Files that show where a step's time went ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/Trace.h"

#include "core/Dtype.h"
#include "data/File.h"
#include "fsdp-rt/abi.h"
#include "hal/Layout.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
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

Json counterOf(const TransferCounter &counter) {
  return {{"calls", counter.calls}, {"bytes", counter.bytes}};
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
                        {"epilogue", desc.epilogue},
                        {"dtype", dtypeName(Dtype(desc.dtype))},
                        {"c_dtype", dtypeName(Dtype(desc.c_dtype))},
                        {"calls", site.calls},
                        {"ns", site.nanoseconds},
                        {"best_ns", site.best}});
  }
  return products;
}

/// As MLIR writes it.
std::string typeName(int32_t dtype) {
  if (dtype == FSDP_RT_BOOL)
    return "i1";
  std::string name = dtypeName(static_cast<Dtype>(dtype));
  for (char &c : name)
    c = static_cast<char>(std::tolower(c));
  return name;
}

class TraceWriter {
public:
  TraceWriter(const TraceHeader &header, const Recorder &recorder)
      : header_(header), calls_(recorder.trace()) {
    // A transfer is recorded where the step waited for it, and begins earlier.
    for (const CallRecord &call : calls_)
      origin_ = std::min(origin_, launchOf(call));
  }

  Json write() {
    addNames();
    addSteps();
    for (size_t i = 0; i < calls_.size(); ++i)
      addCall(calls_[i], firstCorrelation + static_cast<int64_t>(i));
    return std::move(events_);
  }
  int64_t origin() const { return calls_.empty() ? 0 : origin_; }

private:
  /// As large as PyTorch's: HolisticTraceAnalysis keeps them, and then places
  /// in a table, in the smallest integers that hold them.
  static constexpr int64_t firstCorrelation = 1 << 17;
  /// What compute runs in, and the lane behind those of all queues.
  static constexpr int32_t compute = 0, stepLane = numQueues;

  static int64_t launchOf(const CallRecord &call) {
    return call.queue ? call.given : call.begin;
  }

  static bool isTransfer(const CallRecord &call) {
    return call.kind == CallKind::Collective || call.kind == CallKind::HostCopy;
  }

  static int32_t streamOf(const CallRecord &call) {
    if (!isTransfer(call))
      return compute;
    return call.queue ? call.queue : queueOf(call.transfer);
  }

  double microseconds(int64_t nanoseconds) const {
    return double(nanoseconds) / 1e3;
  }

  Json complete(const char *category, std::string name, int32_t lane,
                int64_t begin, int64_t end) const {
    return {{"ph", "X"},
            {"cat", category},
            {"name", std::move(name)},
            {"pid", header_.rank},
            {"tid", lane},
            {"ts", microseconds(begin - origin_)},
            {"dur", microseconds(end - begin)}};
  }

  void addName(const char *what, int32_t lane, const std::string &name) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", header_.rank},
                       {"tid", lane},
                       {"args", {{"name", name}}}});
  }

  void addNames() {
    if (calls_.empty())
      return;
    addName("process_name", 0, "rank " + std::to_string(header_.rank));
    std::set<int32_t> streams;
    for (const CallRecord &call : calls_)
      streams.insert(streamOf(call));
    for (int32_t stream : streams)
      addName("thread_name", stream,
              stream == compute ? "compute" : queueName(stream));
    addName("thread_name", stepLane, "steps");
  }

  void addSteps() {
    std::map<int32_t, std::pair<int64_t, int64_t>> steps;
    for (const CallRecord &call : calls_) {
      auto [it, isNew] = steps.try_emplace(call.step, call.begin, call.end);
      it->second.first = std::min(it->second.first, launchOf(call));
      it->second.second = std::max(it->second.second, call.end);
    }
    for (const auto &[step, span] : steps) {
      events_.push_back(complete("user_annotation",
                                 "ProfilerStep#" + std::to_string(step + 1),
                                 stepLane, span.first, span.second));
      if (!header_.learningRateOf)
        continue;
      if (std::optional<double> rate = header_.learningRateOf(step))
        events_.back()["args"] = {{"lr", *rate}};
    }
  }

  void addCall(const CallRecord &call, int64_t correlation) {
    if (call.step != step_) {
      step_ = call.step;
      transfers_ = 0;
      transferOf_.clear();
      gathered_.clear();
      current_ = nullptr;
    }
    if (call.kind == CallKind::Wait)
      return addWait(call);
    int32_t stream = streamOf(call);
    Json event = complete("kernel",
                          isTransfer(call) ? kernelName(call.transfer)
                          : call.name      ? call.name
                                           : "",
                          stream, call.begin, call.end);
    Json &args = event["args"];
    args = {{"device", header_.rank},
            {"stream", stream},
            {"correlation", correlation},
            {"step", call.step + 1}};
    if (isTransfer(call))
      addTransfer(args, call, correlation);
    else
      addWork(args, call);
    if (call.kind == CallKind::Matmul)
      args["gflops_per_s"] = perSecond(call.flops, call.end - call.begin);
    events_.push_back(std::move(event));
    // What analyses tell a kernel's iteration by.
    Json launch = complete("cuda_runtime", "cudaLaunchKernel", stepLane,
                           launchOf(call), launchOf(call));
    launch["args"] = {{"correlation", correlation}};
    events_.push_back(std::move(launch));
  }

  static void addUnit(Json &args, const data::Certificate::Transfer &what) {
    if (!what.unit.empty())
      args["unit"] = what.unit;
    args["phase"] = what.isBackward ? "backward" : "forward";
  }

  void addWork(Json &args, const CallRecord &call) const {
    args["bytes"] = call.bytes;
    if (current_)
      addUnit(args, *current_);
  }

  /// What the compiler counts as its bytes: whole buffers.
  int64_t wholeBytes(const fsdp_rt_collective_desc &part, int32_t kind) const {
    int64_t size = dtypeSize(static_cast<Dtype>(part.dtype));
    CollectiveShape shape = shapeOf(kind);
    int64_t ranks = groupSize(part.group);
    return part.count * size *
           std::max(shape.srcParts(ranks), shape.dstParts(ranks));
  }

  void addCollective(Json &args, const CallRecord &call) const {
    auto &start = *static_cast<const fsdp_rt_start_desc *>(call.site);
    auto parts = collectivesOf(start);
    int64_t bytes = 0;
    for (int64_t i = 0; i < start.part_count; ++i)
      bytes += wholeBytes(*parts[i], call.transfer);
    args["bytes"] = bytes;
    args["Group size"] = groupSize(parts[0]->group);
    args["dtype"] = typeName(parts[0]->dtype);
  }

  void addTransfer(Json &args, const CallRecord &call, int64_t correlation) {
    // A transfer of queue 0 has no event: its number among the step's transfers
    // is the event that it would have on a queue of its own.
    int64_t event = transfers_++;
    if (call.queue)
      event = static_cast<const fsdp_rt_start_desc *>(call.site)->event;
    transferOf_[event] = {streamOf(call), correlation};
    args["event"] = event;
    if (header_.certificate &&
        event < int64_t(header_.certificate->transfers.size())) {
      const auto &what = header_.certificate->transfers[size_t(event)];
      addUnit(args, what);
      if (call.transfer == FSDP_RT_ALL_GATHER && !what.unit.empty())
        (call.queue ? gathered_[event] : current_) = &what;
    }
    if (call.kind == CallKind::HostCopy)
      args["bytes"] = call.bytes;
    else
      addCollective(args, call);
    args["waiting_us"] = microseconds(call.waiting);
  }

  void addWait(const CallRecord &call) {
    auto &wait = *static_cast<const fsdp_rt_wait_desc *>(call.site);
    Json event = complete("cuda_sync", "Stream Wait Event", compute, call.begin,
                          call.end);
    event["args"] = {{"step", call.step + 1}, {"event", wait.event}};
    if (auto gather = gathered_.find(wait.event); gather != gathered_.end())
      current_ = gather->second;
    auto found = transferOf_.find(wait.event);
    // Not where the trace was full before.
    if (found != transferOf_.end()) {
      event["args"]["wait_on_stream"] = found->second.first;
      event["args"]["wait_on_cuda_event_record_corr_id"] = found->second.second;
    }
    events_.push_back(std::move(event));
  }

  int64_t groupSize(int32_t group) const {
    return group >= 0 && group < int64_t(header_.groupSizes.size())
               ? header_.groupSizes[size_t(group)]
               : 1;
  }

  const TraceHeader &header_;
  const std::vector<CallRecord> &calls_;
  int64_t origin_ = std::numeric_limits<int64_t>::max();
  Json events_ = Json::array();
  int32_t step_ = -1;
  /// In this step.
  int64_t transfers_ = 0;
  /// By event: stream and correlation.
  std::map<int64_t, std::pair<int32_t, int64_t>> transferOf_;
  /// What gathers bring for, by event; and the unit whose parameters came last:
  /// what computes until the next ones come is its work.
  std::map<int64_t, const data::Certificate::Transfer *> gathered_;
  const data::Certificate::Transfer *current_ = nullptr;
};

} // namespace

TraceHeader traceHeader(const data::Manifest &manifest, int rank,
                        int64_t accumulate) {
  TraceHeader header;
  header.rank = rank;
  header.worldSize = static_cast<int>(manifest.worldSize());
  for (const std::vector<int> &axes : manifest.groups) {
    int64_t size = 1;
    for (int axis : axes)
      size *= manifest.mesh[size_t(axis)].size;
    header.groupSizes.push_back(size);
  }
  header.accumulate = accumulate;
  if (accumulate == 1) {
    header.certificate = manifest.train().certificate;
    header.programs = {manifest.train().name};
    return header;
  }
  for (const data::Program *program :
       {manifest.firstMicroBatch(), manifest.microBatch(),
        manifest.lastMicroBatch()})
    if (program)
      header.programs.push_back(program->name);
  return header;
}

Status writeTrace(const std::string &path, const TraceHeader &header,
                  const Recorder &recorder) {
  TraceWriter writer(header, recorder);
  Json events = writer.write();
  Json program = {{"accumulate", header.accumulate},
                  {"programs", header.programs}};
  if (header.certificate) {
    program["program"] = header.certificate->program;
    program["issue"] = header.certificate->issue;
    program["order"] = header.certificate->order;
  }
  Json trace = {{"schemaVersion", 1},
                {"distributedInfo",
                 {{"backend", "nccl"},
                  {"rank", header.rank},
                  {"world_size", header.worldSize}}},
                {"fsdp", std::move(program)},
                {"displayTimeUnit", "ms"},
                {"baseTimeNanoseconds", writer.origin()},
                {"droppedEvents", recorder.droppedEvents()},
                {"traceEvents", std::move(events)}};
  return data::replaceFile(path, dump(trace));
}

Status writeProfile(const std::string &path, int rank,
                    const Executor &executor) {
  std::vector<ProfileRow> rows = executor.profile();
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
  const Counters &counters = executor.counters();
  Json groups = Json::array();
  for (size_t g = 0; g < counters.groups.size(); ++g)
    for (int k = 0; k < numTransferKinds; ++k)
      if (counters.groups[g][k].calls > 0)
        groups.push_back({{"group", g},
                          {"kind", transferName(k)},
                          {"calls", counters.groups[g][k].calls},
                          {"bytes", counters.groups[g][k].bytes}});
  hal::DeviceFacts facts = executor.device().facts();
  Json memory = Json::object();
  for (const hal::DeviceFacts::Memory &part : facts.memory)
    memory[part.what] = part.bytes;
  Json profile = {{"rank", rank},
                  {"steps", counters.steps},
                  {"device", facts.name},
                  {"blas", facts.products},
                  {"remarks", facts.remarks},
                  {"threads", facts.threads},
                  {"memory", std::move(memory)},
                  {"times", timesOf(counters.allSteps)},
                  {"traffic", std::move(groups)},
                  {"host_copies",
                   {{"offload", counterOf(counters.offloads)},
                    {"reload", counterOf(counters.reloads)}}},
                  {"arena_bytes", executor.layout().memory.device},
                  {"host_bytes", executor.layout().memory.host},
                  {"calls", std::move(calls)},
                  {"products", productsOf(executor.recorder().sites())}};
  return data::replaceFile(path, dump(profile));
}

} // namespace fsdp::rt
