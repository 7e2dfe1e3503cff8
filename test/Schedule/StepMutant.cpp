//===- StepMutant.cpp - Small steps and what may go wrong in them ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepMutant.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

//===----------------------------------------------------------------------===//
// A right step
//===----------------------------------------------------------------------===//

StepMutant::StepMutant(unsigned seed) : random(seed) {
  // A third waits on the host between forward and backward.
  bool offloads = pick(3) == 0;
  int units = 1 + pick(2);
  bool gathersTogether = units == 2 && pick(3) == 0,
       reducesTogether = units == 2 && pick(3) == 0;
  std::vector<Id> shards, gathered;
  for (int u = 0; u != units; ++u) {
    shards.push_back(value(true));
    gathered.push_back(value());
  }
  std::vector<Id> waits;
  if (gathersTogether) {
    gather(shards, gathered);
    waits.assign(1, events - 1);
  } else {
    for (int u = 0; u != units; ++u) {
      gather({shards[u]}, {gathered[u]});
      waits.push_back(events - 1);
    }
  }
  std::vector<Id> activation; // none before the first unit
  for (int u = 0; u != units; ++u) {
    if (size_t(u) < waits.size())
      addWait(waits[u]);
    activation = {forward(gathered[u], activation)};
  }
  if (offloads)
    activation = {offload(activation.front(), gathered.front())};
  std::vector<Id> gradients, reduced;
  for (int u = units; u-- != 0;) {
    gradients.push_back(backward({gathered[u], activation.front()}));
    if (reducesTogether && u != 0)
      continue;
    for (Id left : reduce(gradients))
      reduced.push_back(left);
    gradients.clear();
  }
  for (Id event : unwaited)
    addWait(event);
  for (int u = 0; u != units; ++u)
    update(shards[u], reduced[units - 1 - u]);
}

Id StepMutant::over(Id other) {
  p.values.push_back(p.values[other]);
  p.values.back().isArgument = false;
  return p.values.size() - 1;
}

void StepMutant::gather(const std::vector<Id> &shards,
                        const std::vector<Id> &gathered) {
  start("gather", Queue::AllGather, TransferKind::AllGather, shards, gathered);
}

/// Some start from the activation before, which is kept.
Id StepMutant::forward(Id gathered, const std::vector<Id> &activation) {
  std::vector<Id> reads = activation;
  reads.insert(reads.begin(), gathered);
  if (activation.empty() || pick(3) != 0) {
    Id next = value();
    addLaunch("forward", reads, {next});
    return next;
  }
  Id next = valueOf(p.values[activation.front()].bytes);
  addLaunch("forward", reads, {next}, {{1, 0}});
  return next;
}

/// The gradient is one value, or a pack of two and perhaps a gap.
Id StepMutant::backward(const std::vector<Id> &reads) {
  if (pick(2)) {
    Id gradient = value();
    addLaunch("backward", reads, {gradient});
    return gradient;
  }
  int64_t base = p.arenaBytes;
  p.arenaBytes += 3 * kGranule;
  std::vector<Id> parts;
  for (int i = 0; i != 2; ++i)
    parts.push_back(pick(3) ? addValue(base + i * kGranule, kGranule)
                            : valueOf(kGranule));
  addLaunch("backward", reads, parts);
  Id pack = addValue(base, (2 + pick(2)) * kGranule);
  addPack("pack", parts, {0, kGranule}, pack);
  return pack;
}

std::vector<Id> StepMutant::reduce(const std::vector<Id> &gradients) {
  std::vector<Id> reduced, means;
  for (size_t i = 0; i != gradients.size(); ++i)
    reduced.push_back(value());
  start("scatter", Queue::Reduce, TransferKind::ReduceScatter, gradients,
        reduced);
  if (!pick(2)) {
    unwaited.push_back(events - 1);
    return reduced;
  }
  // Over two axes: in place, right behind the other.
  for (Id value : reduced)
    means.push_back(over(value));
  start("reduce", Queue::AllReduce, TransferKind::AllReduce, reduced, means);
  p.ops.back().after = {events - 2};
  unwaited.push_back(events - 2);
  unwaited.push_back(events - 1);
  return means;
}

/// The new shard goes over the old one, or is copied there. Where there is an
/// average, it starts from the old shard, too.
void StepMutant::update(Id shard, Id gradient) {
  std::vector<std::pair<Id, Id>> ties = {{0, 0}};
  bool keeps = pick(4) == 0;
  std::vector<Id> writes = {keeps ? valueOf(p.values[shard].bytes)
                                  : over(shard)};
  if (pick(3) == 0) {
    writes.push_back(valueOf(p.values[shard].bytes));
    ties.push_back({0, 1});
  }
  addLaunch("update", {shard, gradient}, writes, ties);
  if (writes.size() == 2)
    p.results.push_back(range(writes[1]));
  if (keeps)
    addPack("keep", {writes[0]}, {0}, over(shard));
  p.results.push_back(p.ops.back().writes.front());
}

/// @first goes to the host and comes back, which is returned; @second only
/// goes there. Whether compute or only the second copy knows of the first is
/// left to chance.
Id StepMutant::offload(Id first, Id second) {
  std::vector<Id> there;
  for (Id from : {first, second}) {
    int64_t bytes = p.values[from].bytes;
    there.push_back(addHostValue(p.hostBytes, bytes));
    p.hostBytes += bytes;
    start("offload", Queue::D2H, TransferKind::Offload, {from}, {there.back()});
  }
  Id out = events - 2, back = value();
  bool knows = pick(2);
  if (knows)
    addWait(out);
  start("reload", Queue::H2D, TransferKind::Reload, {there[0]}, {back});
  if (!knows)
    p.ops.back().after = {out};
  addWait(events - 1);
  if (!knows)
    addWait(out);
  addWait(out + 1);
  return back;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// What a pack says of its bytes: one of its parts is not there, lies somewhere
/// else in it, or is of another value.
bool StepMutant::changeParts() {
  std::vector<Id> packs;
  for (size_t id = 0; id != p.values.size(); ++id)
    if (!p.values[id].parts.empty())
      packs.push_back(id);
  if (packs.empty())
    return false;
  Id id = packs[pick(packs.size())];
  StepValue &pack = p.values[id];
  ByteRange &part = pack.parts[pick(pack.parts.size())];
  switch (pick(3)) {
  case 0:
    pack.parts.erase(&part);
    break;
  case 1: {
    int64_t to = pack.offset + pick(pack.bytes / kGranule) * kGranule;
    bool isFree = to + part.bytes <= pack.offset + pack.bytes &&
                  std::all_of(pack.parts.begin(), pack.parts.end(),
                              [&](const ByteRange &other) {
                                return &other == &part || to >= other.end() ||
                                       other.offset >= to + part.bytes;
                              });
    if (!isFree)
      return false;
    part.offset = to;
    std::sort(pack.parts.begin(), pack.parts.end(),
              [](const ByteRange &a, const ByteRange &b) {
                return a.offset < b.offset;
              });
    break;
  }
  case 2: {
    // Never of the host's memory: its values have a type of their own.
    Id other = pick(id);
    if (isHost(other) || other == part.value)
      return false;
    part.value = other;
    break;
  }
  }
  return true;
}

/// A pack takes something else, less, or puts it elsewhere.
bool StepMutant::changePack() {
  int op = pickOp([](const StepOp &op) {
    return op.kind == StepOpKind::Copy && !op.reads.empty();
  });
  if (op < 0)
    return false;
  StepOp &pack = p.ops[op];
  int read = pick(pack.reads.size());
  switch (pick(4)) {
  case 0:
    pack.reads[read] = range(pick(p.values.size()));
    break;
  case 1:
    pack.reads.erase(&pack.reads[read]);
    pack.places.erase(&pack.places[read]);
    break;
  case 2:
    if (!read)
      return false;
    std::swap(pack.places[read], pack.places.front());
    break;
  case 3:
    pack.places[read] += kGranule;
    break;
  }
  findParts();
  return true;
}

/// One of what an op reads or writes is another value, is gone, is larger or
/// smaller, or changes its place with another one.
bool StepMutant::changeRanges() {
  int op = pickOp([](const StepOp &op) {
    return op.kind != StepOpKind::Copy && op.reads.size() + op.writes.size();
  });
  if (op < 0)
    return false;
  auto change = [&](auto &ranges) {
    if (ranges.empty())
      return false;
    int i = pick(ranges.size());
    switch (pick(4)) {
    case 0:
      ranges[i] = range(pick(p.values.size()));
      break;
    case 1:
      ranges.erase(&ranges[i]);
      break;
    case 2:
      std::swap(ranges[i], ranges.front());
      return i != 0;
    case 3:
      ranges[i].bytes += ranges[i].bytes == kGranule ? kGranule : -kGranule;
      break;
    }
    return true;
  };
  return pick(2) ? change(p.ops[op].reads) : change(p.ops[op].writes);
}

/// A result is tied to nothing, or to something else.
bool StepMutant::changeTies() {
  int op = pickOp([](const StepOp &op) { return !op.inPlace.empty(); });
  if (op < 0)
    return false;
  StepOp &tied = p.ops[op];
  if (pick(2) || tied.reads.empty())
    tied.inPlace.erase(&tied.inPlace[pick(tied.inPlace.size())]);
  else
    tied.inPlace[pick(tied.inPlace.size())].first = pick(tied.reads.size());
  return true;
}

bool StepMutant::change() {
  int op = pick(p.ops.size()), other = pick(p.ops.size());
  // Half of what moves goes to a neighbour's place: few rules tell of that.
  if (pick(2))
    other = std::clamp<int>(op + pick(5) - 2, 0, p.ops.size() - 1);
  switch (pick(15)) {
  case 0:
    std::swap(p.ops[op], p.ops[other]);
    return op != other;
  case 1:
    p.ops.erase(p.ops.begin() + op);
    return true;
  case 2: // What stood at `op` comes to stand at `other`.
  case 3: {
    StepOp moved = p.ops[op];
    p.ops.erase(p.ops.begin() + op);
    p.ops.insert(p.ops.begin() + other, moved);
    return op != other;
  }
  case 4: {
    StepOp again = p.ops[op];
    p.ops.insert(p.ops.begin() + other, again);
    return true;
  }
  case 5:
    if (p.ops[op].kind != StepOpKind::Start)
      return false;
    if (p.ops[op].after.empty())
      p.ops[op].after.push_back(pick(events));
    else
      p.ops[op].after.clear();
    return true;
  case 6:
  case 7: {
    Id moved = pick(p.values.size());
    int64_t bytes = isHost(moved) ? p.hostBytes : p.arenaBytes;
    int64_t from = p.values[moved].offset;
    place(moved, pick(bytes / kGranule) * kGranule);
    return p.values[moved].offset != from;
  }
  case 8: {
    Queue queue = Queue(1 + pick(3));
    if (p.ops[op].kind != StepOpKind::Start || p.ops[op].queue == queue)
      return false;
    p.ops[op].queue = queue;
    return true;
  }
  case 9:
    return changeTies();
  case 10:
  case 11:
    return changeParts();
  case 12:
    return changePack();
  default:
    return changeRanges();
  }
}

void StepMutant::mutate() {
  while (!p.ops.empty() && !change())
    ;
}
