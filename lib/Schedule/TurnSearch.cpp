//===- TurnSearch.cpp - Whose turn it is on each link ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TurnSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// States that a search of turns in a small and in a larger step may look at.
constexpr size_t kSmallEffort = 10'000, kLargeEffort = 5'000;
constexpr Time kForever = std::numeric_limits<Time>::max();

//===----------------------------------------------------------------------===//
// Turns by a rule
//===----------------------------------------------------------------------===//

bool mlir::fsdp::sched::takeEarliest(Machine &machine, MachineState &s,
                                     bool gathersFirst, bool early,
                                     Turns &turns) {
  while (true) {
    MachineState best;
    Time bestBegin = kForever;
    Turn turn = {-1, early};
    bool more = false;
    // Streams count from the gathers up. Nobody is asked beyond the time at
    // which another can begin.
    for (int stream : machine.getChoices()) {
      if (!machine.hasMore(s, stream))
        continue;
      more = true;
      MachineState next = s;
      Time begin = 0;
      if (machine.take(next, {int8_t(stream), early}, begin, bestBegin) &&
          (begin < bestBegin || (begin == bestBegin && !gathersFirst))) {
        best = next;
        bestBegin = begin;
        turn.stream = stream;
      }
    }
    if (!more)
      return machine.finish(s);
    if (turn.stream < 0)
      return false;
    s = best;
    turns.push_back(turn);
  }
}

//===----------------------------------------------------------------------===//
// The dynamic program
//===----------------------------------------------------------------------===//

namespace {
class Search {
public:
  Search(Machine &machine, const TurnSearchOptions &options)
      : machine(machine), isSmall(options.isSmall), target(options.target),
        best(options.below) {
    for (int stream : machine.getChoices())
      turnCount += machine.getCount(stream);
  }
  /// The best turns, if there are any; of those that a rule gives alone, if
  /// @rulesOnly.
  std::optional<Turns> run(bool rulesOnly);

private:
  struct Node {
    int32_t parent;
    Turn turn;
  };
  struct Label {
    MachineState state;
    int32_t node;
    Time bound;
  };

  void tryRule(const MachineState &from, int32_t node, bool gathersFirst,
               bool early);
  void runLevels(bool allManners);
  void insert(std::vector<Label> &labels, Label label);
  /// How many transfers of each choice have begun.
  using Key = std::array<int32_t, kNumStreams>;
  Key keyOf(const MachineState &s) const;
  Turns trace(int32_t node) const;

  Machine &machine;
  size_t turnCount = 0;
  bool isSmall;
  Time target, best;
  std::optional<Turns> turns;
  std::vector<Node> nodes;
};
} // namespace

Turns Search::trace(int32_t node) const {
  Turns result;
  for (; node >= 0; node = nodes[node].parent)
    result.push_back(nodes[node].turn);
  std::reverse(result.begin(), result.end());
  return result;
}

void Search::tryRule(const MachineState &from, int32_t node, bool gathersFirst,
                     bool early) {
  MachineState s = from;
  Turns rest;
  if (!takeEarliest(machine, s, gathersFirst, early, rest) || s.now >= best)
    return;
  best = s.now;
  turns = trace(node);
  llvm::append_range(*turns, rest);
}

Search::Key Search::keyOf(const MachineState &s) const {
  Key key = {};
  for (int stream : machine.getChoices())
    key[stream] = s.begun[stream];
  return key;
}

void Search::insert(std::vector<Label> &labels, Label label) {
  for (Label &other : labels)
    if (machine.dominates(other.state, label.state))
      return;
  llvm::erase_if(labels, [&](const Label &other) {
    return machine.dominates(label.state, other.state);
  });
  labels.push_back(std::move(label));
}

void Search::runLevels(bool allManners) {
  MachineState start = machine.getStart();
  // How compute may behave meanwhile: in large steps, the ways that matter
  // most.
  SmallVector<Turn, 36> manners = {Turn{}};
  if (allManners) {
    manners.clear();
    for (auto order : {Turn::TransferFirst, Turn::Hold, Turn::ComputeFirst})
      for (bool careful : {true, false})
        for (auto tails :
             {Turn::TailsLate, Turn::TailsReady, Turn::TailsAwaited})
          if (isSmall || (order != Turn::Hold && tails == Turn::TailsLate))
            manners.push_back({0, false, careful, order, tails});
  }
  if (machine.hasLatencies())
    for (size_t i = 0, e = manners.size(); i != e; ++i) {
      manners.push_back(manners[i]);
      manners.back().early = true;
    }
  // The most promising states of each level go on. Counted, not timed: the same
  // on every machine.
  size_t effort = isSmall ? kSmallEffort : kLargeEffort;
  size_t width = std::clamp<size_t>(
      turnCount ? effort / (turnCount * manners.size()) : 1, 6, 4096);
  size_t rulesEvery = turnCount / 8 + 16;

  std::vector<Label> level = {{start, -1, machine.getBound(start)}};
  for (size_t depth = 0; depth != turnCount; ++depth) {
    std::map<Key, std::vector<Label>> next;
    for (const Label &label : level) {
      if (label.bound >= best)
        continue;
      for (int stream : machine.getChoices()) {
        if (!machine.hasMore(label.state, stream))
          continue;
        Time latest = best - machine.getTurnsLeft(label.state);
        for (Turn turn : manners) {
          turn.stream = stream;
          MachineState s = label.state;
          Time begin = 0;
          if (!machine.take(s, turn, begin, latest))
            continue;
          Time bound = std::max(label.bound, machine.getBound(s));
          if (bound >= best)
            continue;
          nodes.push_back({label.node, turn});
          insert(next[keyOf(s)], {s, int32_t(nodes.size()) - 1, bound});
        }
      }
    }
    level.clear();
    for (auto &entry : next)
      llvm::append_range(level, entry.second);
    if (level.size() > width) {
      llvm::sort(level, [](const Label &a, const Label &b) {
        return std::make_tuple(a.bound, a.state.now, a.node) <
               std::make_tuple(b.bound, b.state.now, b.node);
      });
      level.resize(width);
    }
    if (depth % rulesEvery == rulesEvery - 1 && !level.empty()) {
      const Label &front = *std::min_element(
          level.begin(), level.end(), [](const Label &a, const Label &b) {
            return std::make_pair(a.bound, a.node) <
                   std::make_pair(b.bound, b.node);
          });
      tryRule(front.state, front.node, true, machine.hasLatencies());
      if (best <= target)
        return;
    }
  }
  for (Label &label : level) {
    if (label.bound >= best || !machine.finish(label.state) ||
        label.state.now >= best)
      continue;
    best = label.state.now;
    turns = trace(label.node);
  }
}

std::optional<Turns> Search::run(bool rulesOnly) {
  MachineState start = machine.getStart();
  for (bool early : {false, true}) {
    if (early && !machine.hasLatencies())
      break;
    for (bool gathersFirst : {true, false}) {
      tryRule(start, -1, gathersFirst, early);
      if (best <= target)
        return turns;
    }
  }
  if (rulesOnly)
    return turns;
  machine.takeMemoryWaits();
  Time byRules = best;
  runLevels(/*allManners=*/false);
  // All manners where they make a difference; in large steps, where that takes
  // long, if one that counts can be hoped for.
  bool isPromising =
      isSmall || (best < byRules && best - target > target / 128);
  if (best > target && isPromising && machine.takeMemoryWaits()) {
    nodes.clear();
    runLevels(/*allManners=*/true);
  }
  return turns;
}

std::optional<Turns>
mlir::fsdp::sched::searchTurns(Machine &machine,
                               const TurnSearchOptions &options) {
  return Search(machine, options).run(options.rulesOnly);
}
