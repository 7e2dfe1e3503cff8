//===- Offloading.cpp - Values in the host's memory -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/Offloading.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Writes a program anew with copies between its ops.
class CopyWriter {
public:
  CopyWriter(StepProgram program, const std::vector<bool> &offload);

  StepProgram run();

private:
  bool isOffloaded(Id value) const {
    return size_t(value) < offload.size() && offload[value];
  }
  void addCopy(TransferKind kind, bool backward, Id unit, Id from, Id to);
  void sendAfter(Id op);
  void fetchBefore(Id op);

  StepProgram old, result;
  const std::vector<bool> &offload;
  /// By op: values that go to the host behind it, that come back before it.
  std::vector<SmallVector<Id, 1>> sent, fetched;
  /// By value: its copy on the host, and that in new memory of the device.
  std::vector<Id> onHost, again;
  /// By value: the unit of its maker.
  std::vector<Id> unit;
  /// The last op of forward.
  Id loss = -1;
  Id events = 0;
};
} // namespace

CopyWriter::CopyWriter(StepProgram program, const std::vector<bool> &offload)
    : old(std::move(program)), offload(offload), sent(old.ops.size()),
      fetched(old.ops.size()), onHost(offload.size(), -1),
      again(offload.size(), -1), unit(offload.size(), -1) {
  std::vector<Id> last(offload.size(), -1), first(offload.size(), -1);
  for (auto [i, op] : llvm::enumerate(old.ops)) {
    events = std::max(events, op.event + 1);
    if (!op.backward && op.kind != StepOpKind::Wait)
      loss = i;
    for (const ByteRange &range : op.reads)
      if (isOffloaded(range.value)) {
        if (!op.backward)
          last[range.value] = i;
        else if (first[range.value] < 0)
          first[range.value] = i;
      }
    for (const ByteRange &range : op.writes)
      if (isOffloaded(range.value)) {
        last[range.value] = i;
        unit[range.value] = op.unit;
      }
  }
  for (size_t v = 0; v != offload.size(); ++v)
    if (offload[v]) {
      sent[last[v]].push_back(v);
      fetched[first[v]].push_back(v);
    }
}

void CopyWriter::addCopy(TransferKind kind, bool backward, Id unit, Id from,
                         Id to) {
  auto whole = [&](Id v) {
    const StepValue &value = result.values[v];
    return ByteRange{v, value.offset, value.bytes};
  };
  StepOp &start = result.ops.emplace_back();
  start.kind = StepOpKind::Start;
  start.queue = kind == TransferKind::Offload ? Queue::D2H : Queue::H2D;
  start.event = events++;
  start.reads = {whole(from)};
  start.writes = {whole(to)};
  start.transfer = result.transfers.size();
  // As their ops are called.
  start.name = kind == TransferKind::Offload ? "offload" : "reload";
  start.unit = unit;
  start.backward = backward;
  StepTransfer transfer;
  transfer.kind = kind;
  transfer.atomBytes = {result.values[from].bytes};
  transfer.atomUnits = {unit};
  result.transfers.push_back(std::move(transfer));
  StepOp wait;
  wait.kind = StepOpKind::Wait;
  wait.event = start.event;
  wait.name = "wait";
  wait.unit = start.unit;
  wait.backward = start.backward;
  result.ops.push_back(std::move(wait));
}

void CopyWriter::sendAfter(Id op) {
  for (Id v : sent[op]) {
    StepBuffer buffer = old.buffers[old.values[v].buffer];
    buffer.offset = 0;
    buffer.bytes = old.values[v].bytes;
    buffer.isHost = true;
    onHost[v] = result.values.size();
    result.values.push_back({Id(result.buffers.size()), 0, buffer.bytes});
    result.buffers.push_back(buffer);
    // Behind the loss backward begins.
    addCopy(TransferKind::Offload, /*backward=*/op == loss, unit[v], v,
            onHost[v]);
  }
}

void CopyWriter::fetchBefore(Id op) {
  for (Id v : fetched[op]) {
    StepValue value = old.values[v];
    StepBuffer buffer = old.buffers[value.buffer];
    value.buffer = result.buffers.size();
    again[v] = result.values.size();
    result.values.push_back(value);
    result.buffers.push_back(buffer);
    addCopy(TransferKind::Reload, /*backward=*/true, unit[v], onHost[v],
            again[v]);
  }
}

StepProgram CopyWriter::run() {
  // An offload and a reload, each with its wait.
  constexpr size_t kOpsOfCopies = 4;
  size_t copies = llvm::count(offload, true);
  result = copyWithoutOps(old);
  result.ops.reserve(old.ops.size() + kOpsOfCopies * copies);
  for (auto [i, op] : llvm::enumerate(old.ops)) {
    fetchBefore(i);
    if (op.backward)
      for (ByteRange &range : op.reads)
        if (isOffloaded(range.value))
          range.value = again[range.value];
    result.ops.push_back(std::move(op));
    sendAfter(i);
  }
  return std::move(result);
}

StepProgram mlir::fsdp::sched::insertCopies(StepProgram program,
                                            const std::vector<bool> &offload) {
  if (!llvm::is_contained(offload, true))
    return program;
  return CopyWriter(std::move(program), offload).run();
}

//===----------------------------------------------------------------------===//
// Offers
//===----------------------------------------------------------------------===//

namespace {
/// When values are read, in compute time of the step as it is.
struct Lives {
  /// By value: the end of its last reader in forward (its maker, where none
  /// does), and the begin of the first one in backward.
  std::vector<Time> sent, needed;
};
} // namespace

/// A value that backward does not read itself may be read there by a repeated
/// launch: at the earliest where backward reads what that launch's stretch
/// makes.
static Lives getLives(const StepProgram &program, const TimedProgram &times,
                      llvm::ArrayRef<Id> stretch) {
  constexpr Time kForever = std::numeric_limits<Time>::max();
  Lives lives{std::vector<Time>(program.values.size()),
              std::vector<Time>(program.values.size(), kForever)};
  std::vector<Id> maker = getMakers(program);
  Id stretches = 0;
  for (Id s : stretch)
    stretches = std::max(stretches, s + 1);
  std::vector<Time> begins(stretches, kForever);
  Time now = 0;
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    Time end = now + times.ops[i].work;
    for (const ByteRange &range : op.reads) {
      if (!op.backward) {
        lives.sent[range.value] = end;
        continue;
      }
      lives.needed[range.value] = std::min(lives.needed[range.value], now);
      Id from = maker[range.value];
      if (from >= 0 && stretch[from] >= 0)
        begins[stretch[from]] = std::min(begins[stretch[from]], now);
    }
    if (!op.backward)
      for (const ByteRange &range : op.writes)
        lives.sent[range.value] = end;
    now = end;
  }
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (stretch[i] >= 0)
      for (const ByteRange &range : op.reads)
        lives.needed[range.value] =
            std::min(lives.needed[range.value], begins[stretch[i]]);
  return lives;
}

OffloadOffers mlir::fsdp::sched::getOffloadOffers(const StepProgram &program,
                                                  const TimedProgram &times,
                                                  const PlanChoices &choices,
                                                  llvm::ArrayRef<Id> stretch,
                                                  const CostModel &cost,
                                                  bool hasHost) {
  OffloadOffers offers;
  offers.cost.assign(program.values.size(), OffloadOffers::kNone);
  offers.pays.assign(program.values.size(), false);
  if (!hasHost)
    return offers;
  std::vector<Id> maker = getMakers(program);
  Lives lives = getLives(program, times, stretch);
  Id last = stretch.empty() ? -1 : *llvm::max_element(stretch);
  int64_t most = 0;
  for (auto [v, value] : llvm::enumerate(program.values)) {
    if (!choices.canOffload[v] || stretch[maker[v]] == last)
      continue;
    Time latency = 0, work = 0;
    for (TransferKind kind : {TransferKind::Offload, TransferKind::Reload}) {
      TransferCost copy = cost.transfer({kind, {value.bytes}, {}});
      latency += copy.latency;
      work += copy.work;
    }
    offers.cost[v] = latency + work;
    offers.pays[v] =
        work > latency && lives.needed[v] - lives.sent[v] > latency + work;
    if (offers.pays[v] && value.bytes > most) {
      most = value.bytes;
      offers.pricePerByte = double(offers.cost[v]) / double(value.bytes);
    }
  }
  return offers;
}
