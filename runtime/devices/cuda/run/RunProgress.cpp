//===- RunProgress.cpp - How far a run has come ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/RunProgress.h"

#include "hal/Transfers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

namespace fsdp::rt {

using hal::Function;

namespace {

/// The queue whose stream a call's work is given to.
int32_t queueOfCall(const hal::Call &call) {
  return call.function == Function::start
             ? call.as<fsdp_rt_start_desc>().queue
             : static_cast<int32_t>(FSDP_RT_QUEUE_COMPUTE);
}

std::string nameOfQueue(int32_t queue) {
  return queue == FSDP_RT_QUEUE_COMPUTE ? "compute" : queueName(queue);
}

/// The last call of a queue that has been passed, and the first that has not.
struct Position {
  int32_t queue;
  std::optional<size_t> passed, missing;
};

std::string describePosition(const hal::Recording &recording,
                             const Position &at) {
  const size_t calls = recording.calls().size();
  auto number = [](size_t call) { return "call " + std::to_string(call + 1); };
  std::string text = "queue " + nameOfQueue(at.queue) + " has ";
  if (at.passed)
    text += "passed " + number(*at.passed) + " of " + std::to_string(calls) +
            ", " + recording.describeCall(*at.passed) + ", but ";
  text +=
      "not " + std::string(at.passed ? "" : "passed ") + number(*at.missing);
  if (!at.passed)
    text += " of " + std::to_string(calls);
  return text + ", " + recording.describeCall(*at.missing);
}

} // namespace

int64_t RunProgress::choose(const hal::Recording &recording) {
  const std::vector<hal::Call> &calls = recording.calls();
  int unmarked = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    bool isMarked = calls[i].function == Function::start ||
                    calls[i].function == Function::wait ||
                    unmarked == mostUnmarked || i + 1 == calls.size();
    unmarked = isMarked ? 0 : unmarked + 1;
    if (isMarked)
      calls_.push_back(i);
  }
  return static_cast<int64_t>(calls_.size() * markBytes);
}

void RunProgress::use(std::shared_ptr<PinnedMemory> marks) {
  marks_ = std::move(marks);
  // A program before it may have had the memory.
  if (!calls_.empty())
    std::memset(marks_->data(), 0, calls_.size() * markBytes);
}

void RunProgress::drop(size_t index) {
  auto found = std::lower_bound(calls_.begin(), calls_.end(), index);
  if (found != calls_.end() && *found == index)
    calls_.erase(found);
}

char *RunProgress::markOf(size_t index) const {
  auto found = std::lower_bound(calls_.begin(), calls_.end(), index);
  if (found == calls_.end() || *found != index)
    return nullptr;
  return marks_->data() +
         static_cast<size_t>(found - calls_.begin()) * markBytes;
}

/// The device writes marks while the host looks at them: a mark that is seen
/// late is seen by the next look.
__attribute__((no_sanitize("thread"))) bool
RunProgress::isWritten(size_t mark, uint64_t run) const {
  return *reinterpret_cast<const volatile uint64_t *>(marks_->data() +
                                                      mark * markBytes) >= run;
}

size_t RunProgress::count(uint64_t run) const {
  size_t written = 0;
  for (size_t mark = 0; mark < calls_.size(); ++mark)
    written += isWritten(mark, run);
  return written;
}

std::string RunProgress::describe(const hal::Recording &recording,
                                  uint64_t run) const {
  std::map<int32_t, Position> queues;
  for (size_t mark = 0; mark < calls_.size(); ++mark) {
    int32_t queue = queueOfCall(recording.calls()[calls_[mark]]);
    Position &at =
        queues.try_emplace(queue, Position{queue, {}, {}}).first->second;
    if (at.missing)
      continue;
    (isWritten(mark, run) ? at.passed : at.missing) = calls_[mark];
  }
  std::vector<Position> unfinished;
  for (const auto &[queue, at] : queues)
    if (at.missing)
      unfinished.push_back(at);
  std::sort(unfinished.begin(), unfinished.end(),
            [](const Position &one, const Position &other) {
              return *one.missing < *other.missing;
            });
  std::string text;
  for (const Position &at : unfinished)
    text += (text.empty() ? "" : "; ") + describePosition(recording, at);
  return text;
}

} // namespace fsdp::rt
