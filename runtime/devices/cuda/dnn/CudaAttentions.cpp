//===- CudaAttentions.cpp - Attention by cuDNN ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/CudaAttentions.h"

#include "core/Dtype.h"
#include "devices/cuda/driver/LibraryVersions.h"
#include "devices/cuda/driver/StreamTime.h"
#include "hal/ComputeRules.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace fsdp::rt {

namespace {

/// Adds to the count of a text.
void count(std::vector<std::pair<std::string, int64_t>> &texts,
           const std::string &text, int64_t more) {
  for (auto &[known, times] : texts)
    if (known == text) {
      times += more;
      return;
    }
  texts.emplace_back(text, more);
}

std::string milliseconds(int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f ms",
                static_cast<double>(nanoseconds) * 1e-6);
  return text;
}

/// What ranks tell each other of a kind: why it cannot be.
struct Verdict {
  char why[256] = {};
};

/// What rank 0 tells of a kind: whose it is, both times in nanoseconds, and why
/// the library does not run.
struct Decision {
  int64_t isByCudnn = 0, own = 0, cudnn = 0;
  Verdict verdict;
};

/// Refuses a plan of a backward pass whose workspace does not hold the scores'
/// gradients: it adds up dq in memory, in no fixed order, and no note of the
/// library says so.
Status checkOrder(const CudnnPlan &plan, const CudnnAttention &attention) {
  int64_t bytes = attention.batch * attention.heads * attention.queries *
                  attention.keys * dtypeSize(attention.dtype);
  if (plan.workspaceBytes() >= bytes)
    return Status::ok();
  return Status::failed("expected a plan that keeps the gradients of scores, " +
                        std::to_string(bytes) +
                        " bytes, so that a rerun has the same bits, got a "
                        "workspace of " +
                        std::to_string(plan.workspaceBytes()));
}

} // namespace

CudaAttentions::~CudaAttentions() {
  if (!handle_)
    return;
  (void)context_.makeCurrent();
  plans_.clear();
  device_.reset();
  (void)api_->destroy(handle_);
}

/// Every rank has the library in the same version, or none has it.
Status CudaAttentions::open() {
  if (isOpened_)
    return Status::ok();
  Result<const CudnnApi *> api = CudnnApi::ofProcess();
  Status status = api.status();
  if (status.isOk()) {
    api_ = *api;
    status = api_->check(api_->create(&handle_), "cudnnCreate");
    if (status)
      handle_ = nullptr;
  }
  if (status.isOk())
    device_.emplace(handle_);
  if (status && by_ == AttentionBy::Cudnn)
    return status.withContext("--attention cudnn");
  missing_ = status.isOk() ? "" : status.message();
  const std::string mine = status.isOk() ? api_->describe() : "no cuDNN";
  if (by_ == AttentionBy::Cudnn) {
    if (Status s = agreeOnVersion(world_, mine))
      return s.withContext("--attention");
  } else if (Status s = findOther(mine)) {
    return s;
  }
  isOpened_ = true;
  if (missing_.empty() && world_.rank() == 0) {
    cache_.emplace(AlgorithmCache::directoryOfProcess(), context_.name(),
                   api_->version(), AlgorithmCache::attention);
    cache_->read(notes_);
  }
  return Status::ok();
}

/// Where ranks have other versions, or some of them none, our kernels compute
/// attention on all.
Status CudaAttentions::findOther(const std::string &mine) {
  if (world_.size() == 1)
    return Status::ok();
  Result<std::vector<RankVersion>> versions = gatherVersions(world_, mine);
  if (!versions.isOk())
    return versions.status();
  if (std::string other = describeOther(*versions);
      !other.empty() && missing_.empty())
    missing_ =
        "rank 0 has " + std::string((*versions)[0].version) + ", and " + other;
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// What the library can compute
//===----------------------------------------------------------------------===//

void CudaAttentions::Program::refuse(const Call &call, const std::string &why) {
  Kind &kind = kinds[call.kind];
  if (kind.why.empty())
    kind.why = (call.isBackward ? "backward: " : "forward: ") + why;
}

CudaAttentions::Program
CudaAttentions::view(const hal::Recording &recording) const {
  Program program;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < recording.calls().size(); ++i) {
    const hal::Call &recorded = recording.calls()[i];
    if (!isAttention(recorded))
      continue;
    Call call;
    call.index = i;
    call.desc = &recorded.as<fsdp_rt_attention_desc>();
    call.isBackward = isBackwardAttention(recorded);
    std::string name = rt::kindOf(*call.desc);
    auto [place, isNew] = places.try_emplace(name, program.kinds.size());
    if (isNew)
      program.kinds.emplace_back().name = name;
    call.kind = place->second;
    ++program.kinds[call.kind].calls;
    Result<CudnnAttention> viewed =
        viewForCudnn(*call.desc, call.isBackward,
                     {api_->getVersion(), context_.capability()});
    if (viewed.isOk()) {
      call.key = viewed->key();
      call.view.emplace(std::move(*viewed));
    } else {
      program.refuse(call, viewed.status().message());
    }
    program.calls.push_back(std::move(call));
  }
  return program;
}

Status CudaAttentions::planOne(Program &program, const Call &call,
                               uint64_t digest) {
  Result<CudnnAttentionGraph> graph =
      composeAttention(*api_, *device_, *call.view);
  Status status = graph.status();
  if (status.isOk()) {
    Result<std::unique_ptr<CudnnPlan>> plan =
        CudnnPlan::choose(*api_, *device_, std::move(graph->graph), digest);
    status = plan.status();
    if (status.isOk() && call.isBackward)
      status = checkOrder(**plan, *call.view);
    if (status.isOk()) {
      Planned planned;
      planned.plan = std::move(*plan);
      planned.rowSumsAt = alignPart(planned.plan->workspaceBytes());
      planned.bytes = planned.rowSumsAt + alignPart(call.view->rowSumBytes());
      planned.graph = std::move(*graph);
      plans_.emplace(call.key, std::move(planned));
      return status;
    }
  }
  program.refuse(call, status.message());
  return status;
}

/// Rank 0's plans are all ranks'.
Status CudaAttentions::plan(Program &program) {
  // By call, of which ranks with other cards have as many; 0: none.
  std::vector<uint64_t> digests(program.calls.size());
  for (size_t i = 0; world_.rank() == 0 && i < digests.size(); ++i) {
    const Call &call = program.calls[i];
    if (!call.view || !program.kindOf(call).why.empty())
      continue;
    if (plans_.count(call.key) == 0) {
      const AlgorithmCache::Choice *known = cache_->find(call.key);
      bool isPlanned = known && planOne(program, call, known->data[0]).isOk();
      if (known && !isPlanned) {
        program.kinds[call.kind].why.clear();
        notes_.push_back("attention of " + call.view->kind + ": " +
                         api_->describe() +
                         " does not propose what an earlier run has used; its "
                         "sums may have another order");
      }
      if (!isPlanned && planOne(program, call, 0))
        continue;
      if (!isPlanned)
        cache_->keep(call.key, {{plans_.at(call.key).plan->digest()}});
    }
    digests[i] = plans_.at(call.key).plan->digest();
  }
  if (Status s = rankZero_.broadcast(digests))
    return s;
  for (size_t i = 0; world_.rank() != 0 && i < digests.size(); ++i) {
    const Call &call = program.calls[i];
    if (digests[i] != 0 && call.view && plans_.count(call.key) == 0)
      (void)planOne(program, call, digests[i]);
  }
  return Status::ok();
}

/// One for all calls, as large as the largest needs; kinds for which there is
/// no memory are refused.
void CudaAttentions::takeWorkspace(Program &program) {
  for (;;) {
    const Call *largest = nullptr;
    for (const Call &call : program.calls)
      if (auto planned = plans_.find(call.key);
          program.kindOf(call).why.empty() && planned != plans_.end() &&
          (!largest || planned->second.bytes > plans_.at(largest->key).bytes))
        largest = &call;
    int64_t bytes = largest ? plans_.at(largest->key).bytes : 0;
    if (bytes <= (workspace_ ? workspace_->size() : 0))
      return;
    Result<std::unique_ptr<DeviceArena>> made = DeviceArena::map(
        context_, copies_, bytes, "the workspace of cuDNN's attention");
    if (made.isOk()) {
      workspace_ = std::move(*made);
      workspaces_.push_back(workspace_);
      return;
    }
    program.refuse(*largest, made.status().message());
  }
}

void CudaAttentions::returnWorkspace(const Program &program) {
  bool isUsed = std::any_of(program.kinds.begin(), program.kinds.end(),
                            [](const Kind &kind) { return kind.isByCudnn; });
  if (!isUsed && workspace_.use_count() == 1)
    workspace_.reset();
}

int64_t CudaAttentions::mappedBytes() const {
  int64_t bytes = 0;
  for (const std::weak_ptr<DeviceArena> &workspace : workspaces_)
    if (auto held = workspace.lock())
      bytes += held->mappedBytes();
  return bytes;
}

/// What one rank cannot, none does: what the first of them says.
Status CudaAttentions::agree(Program &program) {
  if (world_.size() == 1)
    return Status::ok();
  std::vector<Verdict> mine(program.kinds.size()), all;
  for (size_t i = 0; i < mine.size(); ++i)
    program.kinds[i].why.copy(mine[i].why, sizeof(mine[i].why) - 1);
  if (Status s = rankZero_.gather(mine, all))
    return s;
  for (size_t i = 0; i < mine.size(); ++i) {
    std::string &why = program.kinds[i].why;
    why.clear();
    for (int rank = 0; rank < world_.size() && why.empty(); ++rank) {
      const Verdict &verdict = all[static_cast<size_t>(rank) * mine.size() + i];
      if (verdict.why[0])
        why = (rank == 0 ? "" : "rank " + std::to_string(rank) + ": ") +
              verdict.why;
    }
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// What is faster
//===----------------------------------------------------------------------===//

/// Nanoseconds of a call by our kernels and by the library.
Status CudaAttentions::time(const Call &call, const IssueAttention &own,
                            Times &times) {
  Result<CudaStream> stream = CudaStream::create(context_);
  if (!stream.isOk())
    return stream.status();
  if (Status s =
          fillOperands(context_, arena_.base(), *call.desc, call.isBackward,
                       layout_.state.device, stream->get()))
    return s;
  Result<int64_t> ours = timeAttention(context_, own, stream->get());
  if (!ours.isOk())
    return ours.status();
  times.own = *ours;
  Result<std::unique_ptr<CudaAttention>> bound = bind(call);
  Status status = bound.status();
  if (status.isOk()) {
    Result<int64_t> theirs = timeAttention(
        context_, [&](cu::Stream on) { return (*bound)->enqueue(on); },
        stream->get());
    status = theirs.status();
    times.cudnn = theirs.isOk() ? *theirs : 0;
  }
  // What was given to the stream uses the workspace, however it went.
  (void)context_.api().streamSynchronize(stream->get());
  // What the library cannot do is ours; a device that fails says so again.
  times.why = status.isOk() ? "" : status.message();
  return Status::ok();
}

/// Times each call of the kind, or has its times from an earlier run.
Status CudaAttentions::measure(Program &program, Kind &kind,
                               const OwnAttention &own) {
  Times all;
  for (const Call &call : program.calls) {
    if (&program.kinds[call.kind] != &kind)
      continue;
    Result<OwnCode> code = own(call.index);
    if (!code.isOk())
      return code.status();
    uint64_t digest = plans_.at(call.key).plan->digest();
    std::string key = call.key + ", by " + code->shape;
    const AlgorithmCache::Choice *known = cache_->find(key);
    Times times;
    if (known && known->data[0] == digest) {
      times.own = static_cast<int64_t>(known->data[1]);
      times.cudnn = static_cast<int64_t>(known->data[2]);
    } else if (writesNoState(*call.desc, call.isBackward,
                             layout_.state.device)) {
      if (Status s = time(call, code->issue, times))
        return s;
      if (times.why.empty())
        cache_->keep(key, {{digest, static_cast<uint64_t>(times.own),
                            static_cast<uint64_t>(times.cudnn)}});
    } else {
      times.why = "it is not timed, since it writes to what outlives a run";
    }
    if (!times.why.empty()) {
      program.refuse(call, times.why);
      return Status::ok();
    }
    all.own += times.own;
    all.cudnn += times.cudnn;
  }
  kind.times = all;
  kind.isByCudnn =
      static_cast<double>(all.cudnn) * leastGain < static_cast<double>(all.own);
  return Status::ok();
}

Status CudaAttentions::decide(Program &program, const OwnAttention &own) {
  std::vector<Decision> decided(program.kinds.size());
  if (world_.rank() == 0) {
    for (size_t i = 0; i < decided.size(); ++i) {
      Kind &kind = program.kinds[i];
      if (kind.why.empty() && by_ == AttentionBy::Auto)
        if (Status s = measure(program, kind, own))
          return s.withContext("attention of " + kind.name);
      bool isByCudnn = by_ == AttentionBy::Cudnn || kind.isByCudnn;
      decided[i] = {
          kind.why.empty() && isByCudnn, kind.times.own, kind.times.cudnn, {}};
      kind.why.copy(decided[i].verdict.why, sizeof(Verdict) - 1);
    }
    cache_->write(notes_);
  }
  if (Status s = rankZero_.broadcast(decided))
    return s;
  for (size_t i = 0; i < decided.size(); ++i) {
    Kind &kind = program.kinds[i];
    kind.isByCudnn = decided[i].isByCudnn != 0;
    if (world_.rank() == 0)
      continue;
    kind.times.own = decided[i].own;
    kind.times.cudnn = decided[i].cudnn;
    kind.why = decided[i].verdict.why;
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Calls of the library
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<CudaAttention>>
CudaAttentions::bind(const Call &call) const {
  const Planned &planned = plans_.at(call.key);
  cu::Pointer base = arena_.base(),
              workspace = workspace_ ? workspace_->base() : 0;
  std::vector<CudnnAddress> addresses;
  for (int tensor = 0; tensor < hal::attentionTensors(call.isBackward);
       ++tensor) {
    const CudnnAttention::Place &place =
        call.view->tensors[static_cast<size_t>(tensor)];
    addresses.push_back({planned.graph.tensors[static_cast<size_t>(tensor)],
                         base + static_cast<cu::Pointer>(place.offset)});
  }
  if (planned.graph.stats != 0)
    addresses.push_back({planned.graph.stats,
                         base + static_cast<cu::Pointer>(call.view->stats)});
  if (planned.graph.rowSums != 0)
    addresses.push_back(
        {planned.graph.rowSums,
         workspace + static_cast<cu::Pointer>(planned.rowSumsAt)});
  Result<CudnnDescriptor> bound = planned.plan->bind(addresses, workspace);
  if (!bound.isOk())
    return bound.status();
  return std::make_unique<CudaAttention>(handle_, planned.plan,
                                         std::move(*bound), workspace_);
}

Result<ChosenAttentions> CudaAttentions::choose(const hal::Recording &recording,
                                                const OwnAttention &own) {
  ChosenAttentions chosen;
  bool hasAny = std::any_of(recording.calls().begin(), recording.calls().end(),
                            hal::isAttention);
  hasAny_ |= hasAny;
  if (by_ == AttentionBy::Own || !hasAny)
    return chosen;
  if (Status s = open())
    return s;
  if (!missing_.empty())
    return chosen;
  Program program = view(recording);
  if (Status s = plan(program))
    return s;
  takeWorkspace(program);
  if (Status s = agree(program))
    return s;
  if (Status s = decide(program, own))
    return s;
  returnWorkspace(program);
  for (const Call &call : program.calls) {
    if (!program.kindOf(call).isByCudnn)
      continue;
    Result<std::unique_ptr<CudaAttention>> bound = bind(call);
    if (!bound.isOk())
      return bound.status().withContext(recording.describeCall(call.index));
    chosen.emplace(call.index, std::move(*bound));
  }
  remember(program);
  return chosen;
}

//===----------------------------------------------------------------------===//
// For the user
//===----------------------------------------------------------------------===//

void CudaAttentions::remember(const Program &program) {
  for (const Kind &kind : program.kinds) {
    calls_ += kind.calls;
    byCudnn_ += kind.isByCudnn ? kind.calls : 0;
    if (!kind.why.empty())
      count(refused_, kind.name + ": " + kind.why, kind.calls);
    else if (by_ == AttentionBy::Auto)
      count(told_,
            kind.name + ": " + milliseconds(kind.times.cudnn) + " by cuDNN, " +
                milliseconds(kind.times.own) + " by our kernels",
            kind.calls);
  }
}

std::string CudaAttentions::describe() const {
  if (!hasAny_)
    return "";
  if (byCudnn_ == 0)
    return "own";
  return std::to_string(byCudnn_) + " of " + std::to_string(calls_) + " by " +
         api_->describe();
}

std::vector<std::string> CudaAttentions::remarks() const {
  if (!missing_.empty())
    return {"attention: by our kernels; " + missing_};
  if (calls_ == 0)
    return {};
  std::vector<std::string> remarks = {
      "attention: " + std::to_string(byCudnn_) + " of " +
      std::to_string(calls_) + " by " + api_->describe() +
      (byCudnn_ == calls_ ? "" : ", the others by our kernels")};
  for (const auto &[text, times] : told_)
    remarks.push_back("attention: " + std::to_string(times) + " of " + text);
  for (const auto &[text, times] : refused_)
    remarks.push_back("attention: " + api_->describe() + " does not take " +
                      std::to_string(times) + " of " + text);
  return remarks;
}

} // namespace fsdp::rt
