//===- RankInterpreter.cpp - What ranks make of their programs ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankInterpreter.h"
#include "Interpreter.h"
#include "PlacedProgram.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using sched::test::kGranule;
using sched::test::RanksOutcome;

namespace {

using Contents = std::vector<uint64_t>;

/// A number that stands for all that it was made of.
class Meaning {
public:
  explicit Meaning(llvm::StringRef what) { add(llvm::xxh3_64bits(what)); }
  Meaning &add(uint64_t part) {
    parts.push_back(part);
    return *this;
  }
  Meaning &add(const Contents &contents) {
    add(contents.size());
    parts.insert(parts.end(), contents.begin(), contents.end());
    return *this;
  }
  uint64_t get() const {
    return llvm::xxh3_64bits(
        llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(parts.data()),
                                parts.size() * sizeof(uint64_t)));
  }

private:
  Contents parts;
};

enum class Mode { QueuesAhead, QueuesLag, InStarts };

struct Rank {
  const StepProgram *p;
  Contents memory;
  /// The next op of compute; whether it is a start whose transfer runs in it.
  Id next = 0;
  bool inStart = false;
  /// By queue: transfers that are not over, and whether the first has begun.
  std::array<std::vector<Id>, kNumQueues> given;
  std::array<bool, kNumQueues> begun = {};
  std::set<Id> over;
};

class Ranks {
public:
  Ranks(const std::vector<StepProgram> &programs, Mode mode);
  RanksOutcome run(const std::vector<ByteRange> &results);

private:
  /// The queue and the ranks.
  using Communicator = std::pair<unsigned, std::vector<unsigned>>;

  uint64_t &at(unsigned rank, const ByteRange &range, int64_t offset);
  Contents read(unsigned rank, const ByteRange &range);
  void launch(unsigned rank, const StepOp &op);
  void pack(unsigned rank, const StepOp &op);
  bool isReady(unsigned rank, const StepOp &op) const;
  void begin(unsigned rank, Id id);
  void end(unsigned rank, const StepOp &op);
  void meet(const Communicator &communicator, std::vector<Id> ids);
  void bring(const Communicator &communicator, unsigned member,
             const std::vector<Id> &ids,
             const std::vector<std::vector<Contents>> &sent);
  bool stepCompute(unsigned rank);
  bool stepQueues(unsigned rank);

  Mode mode;
  std::vector<Rank> ranks;
  /// By rank, the collectives that it has begun on each.
  std::map<Communicator, std::vector<std::vector<Id>>> calls;
  std::map<Communicator, size_t> met;
  std::string fault;
};

} // namespace

Ranks::Ranks(const std::vector<StepProgram> &programs, Mode mode) : mode(mode) {
  for (size_t r = 0; r != programs.size(); ++r) {
    const StepProgram &p = programs[r];
    Rank &rank = ranks.emplace_back();
    rank.p = &p;
    // Each rank's shards and batch are its own, each byte another.
    for (int64_t i = 0; i != (p.arenaBytes + p.hostBytes) / kGranule; ++i)
      rank.memory.push_back(Meaning("initial").add(r).add(i).get());
  }
}

//===----------------------------------------------------------------------===//
// What ops compute
//===----------------------------------------------------------------------===//

/// The host's memory lies behind the device's.
uint64_t &Ranks::at(unsigned rank, const ByteRange &range, int64_t offset) {
  const StepProgram &p = *ranks[rank].p;
  bool isHost = p.buffers[p.values[range.value].buffer].isHost;
  return ranks[rank].memory[((isHost ? p.arenaBytes : 0) + offset) / kGranule];
}

Contents Ranks::read(unsigned rank, const ByteRange &range) {
  Contents contents;
  for (int64_t i = range.offset; i < range.end(); i += kGranule)
    contents.push_back(at(rank, range, i));
  return contents;
}

/// Every byte of a result depends on all that the kernel reads, and on what a
/// tied one starts from.
void Ranks::launch(unsigned rank, const StepOp &op) {
  Meaning inputs(op.name);
  for (const ByteRange &range : op.reads)
    inputs.add(read(rank, range));
  std::vector<Contents> starts(op.writes.size());
  for (auto [from, to] : op.inPlace)
    starts[to] = read(rank, op.reads[from]);
  for (size_t w = 0; w != op.writes.size(); ++w)
    for (int64_t i = op.writes[w].offset; i < op.writes[w].end(); i += kGranule)
      at(rank, op.writes[w], i) = Meaning("launch")
                                      .add(inputs.get())
                                      .add(starts[w])
                                      .add(w)
                                      .add(i - op.writes[w].offset)
                                      .get();
}

/// Part by part, with zeros between them.
void Ranks::pack(unsigned rank, const StepOp &op) {
  const ByteRange &whole = op.writes.front();
  int64_t done = whole.offset;
  auto clear = [&](int64_t to) {
    for (; done < to; done += kGranule)
      at(rank, whole, done) = 0;
  };
  for (size_t i = 0; i != op.reads.size(); ++i) {
    clear(op.places[i]);
    Contents part = read(rank, op.reads[i]);
    for (size_t j = 0; j != part.size(); ++j)
      if (int64_t to = op.places[i] + j * kGranule; to < whole.end())
        at(rank, whole, to) = part[j];
    done = op.places[i] + op.reads[i].bytes;
  }
  clear(whole.end());
}

/// What rank @member of a collective gets.
void Ranks::bring(const Communicator &communicator, unsigned member,
                  const std::vector<Id> &ids,
                  const std::vector<std::vector<Contents>> &sent) {
  unsigned rank = communicator.second[member];
  const StepOp &op = ranks[rank].p->ops[ids[member]];
  const StepTransfer &transfer = ranks[rank].p->transfers[op.transfer];
  for (size_t a = 0; a != op.writes.size(); ++a) {
    Meaning all(kTransferKindNames[unsigned(transfer.kind)]);
    all.add(llvm::xxh3_64bits(transfer.dtypes[a]));
    for (const std::vector<Contents> &other : sent)
      all.add(other[a]);
    if (transfer.kind != TransferKind::AllGather)
      all.add(transfer.divisors[a]);
    // Which part of all wholes it is.
    if (getShape(transfer.kind).source == OperandSize::Whole)
      all.add(member);
    for (int64_t i = op.writes[a].offset; i < op.writes[a].end(); i += kGranule)
      at(rank, op.writes[a], i) =
          Meaning("part").add(all.get()).add(i - op.writes[a].offset).get();
  }
}

//===----------------------------------------------------------------------===//
// Who meets whom
//===----------------------------------------------------------------------===//

/// All ranks of @communicator have come, with ops @ids.
void Ranks::meet(const Communicator &communicator, std::vector<Id> ids) {
  auto getOp = [&](unsigned member) -> const StepOp & {
    return ranks[communicator.second[member]].p->ops[ids[member]];
  };
  auto getBytes = [](auto &ranges) {
    std::vector<int64_t> bytes;
    for (const ByteRange &range : ranges)
      bytes.push_back(range.bytes);
    return bytes;
  };
  const StepOp &first = getOp(0);
  const StepTransfer &what =
      ranks[communicator.second[0]].p->transfers[first.transfer];
  std::vector<std::vector<Contents>> sent;
  for (unsigned m = 0; m != ids.size(); ++m) {
    unsigned rank = communicator.second[m];
    const StepOp &op = getOp(m);
    const StepTransfer &other = ranks[rank].p->transfers[op.transfer];
    if (other.kind != what.kind || other.dtypes != what.dtypes ||
        other.atomBytes != what.atomBytes ||
        getBytes(op.reads) != getBytes(first.reads) ||
        getBytes(op.writes) != getBytes(first.writes))
      fault = first.name + " meets another transfer";
    std::vector<Contents> &contents = sent.emplace_back();
    for (const ByteRange &range : op.reads)
      contents.push_back(read(rank, range));
  }
  if (!fault.empty())
    return;
  for (unsigned m = 0; m != ids.size(); ++m)
    bring(communicator, m, ids, sent);
  for (unsigned m = 0; m != ids.size(); ++m)
    end(communicator.second[m], getOp(m));
}

bool Ranks::isReady(unsigned rank, const StepOp &op) const {
  return std::all_of(op.after.begin(), op.after.end(),
                     [&](Id event) { return ranks[rank].over.count(event); });
}

void Ranks::begin(unsigned rank, Id id) {
  const StepOp &op = ranks[rank].p->ops[id];
  const StepTransfer &transfer = ranks[rank].p->transfers[op.transfer];
  ranks[rank].begun[unsigned(op.queue)] = true;
  if (transfer.isCopy()) {
    Contents contents = read(rank, op.reads.front());
    size_t j = 0;
    for (int64_t i = op.writes.front().offset;
         i < op.writes.front().end() && j != contents.size(); i += kGranule)
      at(rank, op.writes.front(), i) = contents[j++];
    end(rank, op);
    return;
  }
  RankGroup group = ranks[rank].p->groups[transfer.group];
  Communicator communicator{unsigned(op.queue), {}};
  unsigned first = rank - rank / group.stride % group.size * group.stride;
  for (int64_t i = 0; i != group.size; ++i)
    communicator.second.push_back(first + i * group.stride);
  auto &begun = calls[communicator];
  begun.resize(ranks.size());
  begun[rank].push_back(id);
  std::vector<Id> ids;
  size_t &turn = met[communicator];
  for (unsigned member : communicator.second)
    if (begun[member].size() > turn)
      ids.push_back(begun[member][turn]);
  if (ids.size() != communicator.second.size())
    return;
  ++turn;
  meet(communicator, std::move(ids));
}

void Ranks::end(unsigned rank, const StepOp &op) {
  Rank &r = ranks[rank];
  r.over.insert(op.event);
  r.begun[unsigned(op.queue)] = false;
  if (mode == Mode::InStarts) {
    r.inStart = false;
    ++r.next;
  } else {
    auto &given = r.given[unsigned(op.queue)];
    given.erase(given.begin());
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Whether compute of @rank came further.
bool Ranks::stepCompute(unsigned rank) {
  Rank &r = ranks[rank];
  if (r.next == Id(r.p->ops.size()))
    return false;
  const StepOp &op = r.p->ops[r.next];
  switch (op.kind) {
  case StepOpKind::Start:
    if (mode != Mode::InStarts) {
      r.given[unsigned(op.queue)].push_back(r.next++);
      return true;
    }
    if (r.inStart || !isReady(rank, op))
      return false;
    r.inStart = true;
    begin(rank, r.next);
    return true;
  case StepOpKind::Wait:
    if (!r.over.count(op.event))
      return false;
    break;
  case StepOpKind::Launch:
    launch(rank, op);
    break;
  case StepOpKind::Copy:
    pack(rank, op);
    break;
  case StepOpKind::Check:
    break;
  }
  ++r.next;
  return true;
}

/// Whether one of the queues of @rank came further.
bool Ranks::stepQueues(unsigned rank) {
  for (unsigned q = 0; q != kNumQueues; ++q) {
    Rank &r = ranks[rank];
    if (r.given[q].empty() || r.begun[q] ||
        !isReady(rank, r.p->ops[r.given[q].front()]))
      continue;
    begin(rank, r.given[q].front());
    return true;
  }
  return false;
}

RanksOutcome Ranks::run(const std::vector<ByteRange> &results) {
  bool moved = true;
  while (moved && fault.empty()) {
    moved = false;
    for (unsigned r = 0; r != ranks.size() && fault.empty(); ++r) {
      if (mode == Mode::QueuesAhead)
        while (fault.empty() && stepQueues(r))
          moved = true;
      if (mode == Mode::QueuesLag)
        while (fault.empty() && stepCompute(r))
          moved = true;
      moved |= fault.empty() && stepCompute(r);
      moved |= fault.empty() && stepQueues(r);
    }
  }
  RanksOutcome outcome{fault, {}};
  for (unsigned r = 0; r != ranks.size() && outcome.fault.empty(); ++r) {
    bool isIdle = std::all_of(ranks[r].given.begin(), ranks[r].given.end(),
                              [](auto &given) { return given.empty(); });
    if (ranks[r].next != Id(ranks[r].p->ops.size()) || !isIdle)
      outcome.fault = "ranks wait for each other";
  }
  for (unsigned r = 0; r != ranks.size() && outcome.fault.empty(); ++r) {
    Contents &contents = outcome.results.emplace_back();
    for (const ByteRange &range : results)
      for (uint64_t part : read(r, range))
        contents.push_back(part);
  }
  return outcome;
}

RanksOutcome sched::test::runRanks(const std::vector<StepProgram> &programs,
                                   const std::vector<ByteRange> &results) {
  for (const StepProgram &program : programs)
    if (std::string race = findRace(program); !race.empty())
      return {race, {}};
  RanksOutcome first;
  for (Mode mode : {Mode::QueuesAhead, Mode::QueuesLag, Mode::InStarts}) {
    RanksOutcome outcome = Ranks(programs, mode).run(results);
    if (!outcome.fault.empty())
      return outcome;
    if (mode == Mode::QueuesAhead)
      first = outcome;
    else if (!(outcome == first))
      return {"orders differ", {}};
  }
  return first;
}
