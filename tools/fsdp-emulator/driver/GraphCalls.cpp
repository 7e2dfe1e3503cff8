//===- GraphCalls.cpp - Calls about captures and graphs -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Graph.h"

#include <algorithm>

using namespace fsdp::emulator;

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

static cuda::CaptureMode readMode(int mode) {
  if (mode < cuda::CaptureGlobal || mode > cuda::CaptureRelaxed)
    throw Refusal(cuda::InvalidValue,
                  "expected mode 0 to 2, got " + std::to_string(mode));
  return static_cast<cuda::CaptureMode>(mode);
}

FSDP_EMULATOR_API cuStreamBeginCapture_v2(cuda::Stream handle, int mode) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findStream(device, handle);
    if (stream.get() == &device.legacyStream())
      throw Refusal(cuda::StreamCaptureUnsupported,
                    "expected a stream that was created");
    if (stream->capture)
      invalidate(*stream->capture, cuda::IllegalState,
                 "expected a stream that is not captured");
    auto capture = std::make_shared<Capture>();
    capture->mode = readMode(mode);
    capture->thread = std::this_thread::get_id();
    capture->origin = stream.get();
    capture->graph->device = &device;
    capture->branchOf(*stream);
    stream->capture = capture;
    beginCapture(capture);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamEndCapture(cuda::Stream handle, cuda::Graph *graph) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(graph, "graph");
    *graph = nullptr;
    CapturePtr capture = findStream(device, handle)->capture;
    if (!capture)
      throw Refusal(cuda::IllegalState, "expected a stream that is captured");
    if (capture->origin != findStream(device, handle).get())
      invalidate(*capture, cuda::StreamCaptureUnmatched,
                 "expected the stream that the capture began in");
    if (capture->mode != cuda::CaptureRelaxed &&
        capture->thread != std::this_thread::get_id())
      throw Refusal(cuda::StreamCaptureWrongThread,
                    "expected the thread that began the capture");
    endCapture(capture);
    // Events that were recorded in the capture do not keep its nodes.
    bool isJoined = capture->isJoined();
    std::shared_ptr<Graph> made = std::move(capture->graph);
    expectValid(*capture);
    if (!isJoined)
      throw Refusal(cuda::StreamCaptureUnjoined,
                    "expected the stream to wait for all that others were "
                    "given");
    *graph = Platform::get().graphs.insert<cuda::Graph>(made);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuThreadExchangeStreamCaptureMode(int *mode) {
  return runCall(__func__, [&] {
    expectPointer(mode, "mode");
    cuda::CaptureMode wanted = readMode(*mode);
    exchangeCaptureMode(wanted);
    *mode = wanted;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamIsCapturing(cuda::Stream handle, int *status) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(status, "status");
    StreamPtr stream = findStream(device, handle);
    *status = !stream->capture             ? cuda::NotCapturing
              : stream->capture->isInvalid ? cuda::Invalidated
                                           : cuda::Capturing;
    return cuda::Success;
  });
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

FSDP_EMULATOR_API cuGraphGetNodes(cuda::Graph handle, cuda::GraphNode *nodes,
                                  size_t *count) {
  return runOnDevice(__func__, [&](Device &) {
    expectPointer(count, "count");
    if (nodes)
      failUnmodeled("cuGraphGetNodes", "room for nodes");
    *count = Platform::get().graphs.find(handle)->nodes.size();
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuGraphInstantiateWithFlags(cuda::GraphExec *exec,
                                              cuda::Graph handle,
                                              unsigned long long flags) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(exec, "exec");
    constexpr unsigned long long nodePriorities = 8;
    if (flags & ~nodePriorities)
      failUnmodeled("cuGraphInstantiateWithFlags",
                    "flags " + std::to_string(flags));
    auto graph = Platform::get().graphs.find(handle);
    auto object = std::make_shared<GraphExec>();
    object->device = &device;
    object->nodes = graph->nodes;
    object->hasNodePriorities = flags & nodePriorities;
    device.takeBytes(object->bytes());
    for (const GraphNode &node : object->nodes)
      while (object->streams.size() <= node.branch)
        object->streams.push_back(device.createStream(false, 0));
    *exec = Platform::get().graphExecs.insert<cuda::GraphExec>(object);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuGraphUpload(cuda::GraphExec exec, cuda::Stream stream) {
  return runOnDevice(__func__, [&](Device &device) {
    Platform::get().graphExecs.find(exec);
    findEagerStream(device, stream);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuGraphLaunch(cuda::GraphExec exec, cuda::Stream stream) {
  return runOnDevice(__func__, [&](Device &device) {
    auto object = Platform::get().graphExecs.find(exec);
    if (object->device != &device)
      throw Refusal(cuda::InvalidHandle, "expected a graph of the device");
    object->launch(*findEagerStream(device, stream));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuGraphDestroy(cuda::Graph graph) {
  return runOnDevice(__func__, [&](Device &) {
    Platform::get().graphs.remove(graph);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuGraphExecDestroy(cuda::GraphExec exec) {
  return runOnDevice(__func__, [&](Device &device) {
    auto object = Platform::get().graphExecs.remove(exec);
    device.giveBytes(object->bytes());
    for (const StreamPtr &stream : object->streams)
      device.destroyStream(stream);
    return cuda::Success;
  });
}
