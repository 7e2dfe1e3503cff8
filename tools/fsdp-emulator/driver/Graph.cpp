//===- Graph.cpp - Graphs, and streams that are captured into them --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Graph.h"

#include <algorithm>

namespace fsdp::emulator {

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

Capture::Branch &Capture::branchOf(Stream &stream) {
  for (Branch &branch : branches)
    if (branch.stream == &stream)
      return branch;
  // What the stream did before is not captured.
  stream.isBehindKernel = false;
  branches.push_back({&stream, {}, {}});
  return branches.back();
}

void Capture::add(Stream &stream, Work work) {
  stream.isBehindKernel = false;
  Branch &branch = branchOf(stream);
  reportImpliedWaits(branch);
  GraphNode node;
  node.work = std::move(work);
  node.after = branch.last;
  node.branch = static_cast<size_t>(&branch - branches.data());
  node.priority = stream.priority;
  branch.last = {graph->nodes.size()};
  graph->nodes.push_back(std::move(node));
}

std::vector<size_t> Capture::record(Stream &stream) {
  stream.isBehindKernel = false;
  Branch &branch = branchOf(stream);
  reportImpliedWaits(branch);
  return branch.last;
}

std::vector<bool> Capture::nodesBefore(const Branch &branch) const {
  std::vector<bool> isBefore(graph->nodes.size());
  for (size_t node : branch.last)
    isBefore[node] = true;
  // Nodes are behind others that were added before them.
  for (size_t i = graph->nodes.size(); i-- > 0;)
    if (isBefore[i])
      for (size_t node : graph->nodes[i].after)
        isBefore[node] = true;
  return isBefore;
}

void Capture::reportImpliedWaits(Branch &branch) const {
  if (branch.skipped.empty())
    return;
  std::vector<bool> isBefore = nodesBefore(branch);
  if (std::all_of(branch.skipped.begin(), branch.skipped.end(),
                  [&](size_t node) { return isBefore[node]; }))
    reportImpliedWait();
  branch.skipped.clear();
}

bool Capture::isJoined() const {
  for (const Branch &branch : branches) {
    if (branch.stream != origin)
      continue;
    std::vector<bool> isBefore = nodesBefore(branch);
    return std::all_of(isBefore.begin(), isBefore.end(),
                       [](bool is) { return is; });
  }
  return graph->nodes.empty();
}

bool Capture::isBlocking() const {
  return std::any_of(branches.begin(), branches.end(),
                     [](const Branch &b) { return b.stream->isBlocking; });
}

namespace {

struct OpenCaptures {
  std::mutex mutex;
  std::vector<CapturePtr> all;
};

OpenCaptures &openCaptures() {
  static OpenCaptures captures;
  return captures;
}

thread_local cuda::CaptureMode threadMode = cuda::CaptureGlobal;

/// Whether a thread that is forbidden what `threadMode` says may not make
/// calls that are not safe for the capture.
bool forbidsUnsafe(const Capture &capture, bool isOfLibrary) {
  if (threadMode == cuda::CaptureRelaxed)
    return false;
  if (capture.thread == std::this_thread::get_id())
    return capture.mode != cuda::CaptureRelaxed ||
           (!isOfLibrary && capture.graph->device->settings.isRelaxedStrict);
  return threadMode == cuda::CaptureGlobal &&
         capture.mode == cuda::CaptureGlobal;
}

/// Breaks the captures for which `isHurt` holds; whether there were any.
template <typename IsHurt>
bool invalidateWhere(IsHurt isHurt) {
  OpenCaptures &captures = openCaptures();
  std::lock_guard<std::mutex> lock(captures.mutex);
  bool isAny = false;
  for (const CapturePtr &capture : captures.all)
    if (isHurt(*capture)) {
      capture->isInvalid = true;
      isAny = true;
    }
  return isAny;
}

} // namespace

void beginCapture(const CapturePtr &capture) {
  std::lock_guard<std::mutex> lock(openCaptures().mutex);
  openCaptures().all.push_back(capture);
}

void endCapture(const CapturePtr &capture) {
  capture->isEnded = true;
  for (Capture::Branch &branch : capture->branches) {
    branch.stream->capture = nullptr;
    branch.stream->isBehindKernel = false;
  }
  std::lock_guard<std::mutex> lock(openCaptures().mutex);
  std::erase(openCaptures().all, capture);
}

void exchangeCaptureMode(cuda::CaptureMode &mode) {
  std::swap(mode, threadMode);
}

void expectValid(const Capture &capture) {
  if (capture.isInvalid)
    throw Refusal(cuda::StreamCaptureInvalidated,
                  "expected a capture without errors");
}

void invalidate(Capture &capture, cuda::Result code,
                const std::string &message) {
  capture.isInvalid = true;
  throw Refusal(code, message);
}

void expectSafe(bool isOfLibrary) {
  if (invalidateWhere([&](const Capture &capture) {
        return forbidsUnsafe(capture, isOfLibrary);
      }))
    throw Refusal(cuda::StreamCaptureUnsupported,
                  "expected no stream to be captured meanwhile");
}

void expectNoCapture(const Device &device) {
  if (invalidateWhere([&](const Capture &capture) {
        return capture.graph->device == &device;
      }))
    throw Refusal(cuda::StreamCaptureUnsupported,
                  "expected no stream to be captured meanwhile");
}

void expectLegacyStream(const Device &device) {
  if (invalidateWhere([&](const Capture &capture) {
        return capture.graph->device == &device && capture.isBlocking();
      }))
    throw Refusal(cuda::StreamCaptureImplicit,
                  "expected no use of the legacy stream while streams that "
                  "wait for it are captured");
}

void dropCaptures(const Device &device) {
  std::vector<CapturePtr> mine;
  {
    std::lock_guard<std::mutex> lock(openCaptures().mutex);
    for (const CapturePtr &capture : openCaptures().all)
      if (capture->graph->device == &device)
        mine.push_back(capture);
  }
  for (const CapturePtr &capture : mine)
    endCapture(capture);
}

StreamPtr findEagerStream(Device &device, cuda::Stream handle) {
  StreamPtr stream = findStream(device, handle);
  if (stream->capture)
    invalidate(*stream->capture, cuda::StreamCaptureUnsupported,
               "expected a stream that is not captured");
  return stream;
}

void issueOrCapture(Device &device, Stream &stream, Work work) {
  if (stream.capture) {
    expectValid(*stream.capture);
    stream.capture->add(stream, std::move(work));
    return;
  }
  if (&stream == &device.legacyStream())
    expectLegacyStream(device);
  device.issue(stream, std::move(work));
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void GraphExec::launch(Stream &stream) {
  auto hasOther = [&](const GraphNode &node) {
    return node.priority != stream.priority;
  };
  if (!hasNodePriorities && std::any_of(nodes.begin(), nodes.end(), hasOther))
    report("expected a graph whose nodes have the priorities of their streams, "
           "got one that was instantiated without them: all nodes have that of "
           "the stream in which it is launched");
  for (const CompletionPtr &completion : previous)
    device->wait(stream, completion);
  CompletionPtr begin = device->record(stream);
  std::vector<CompletionPtr> done;
  std::vector<bool> hasBegun(streams.size());
  for (const GraphNode &node : nodes) {
    std::vector<CompletionPtr> after;
    if (!hasBegun[node.branch])
      after.push_back(begin);
    hasBegun[node.branch] = true;
    for (size_t other : node.after)
      after.push_back(done[other]);
    done.push_back(device->issue(*streams[node.branch], node.work, after));
  }
  for (const CompletionPtr &completion : done)
    device->wait(stream, completion);
  previous = std::move(done);
}

} // namespace fsdp::emulator
