//===- StreamCalls.cpp - Calls about streams, events and graphs -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Graph.h"

#include <algorithm>

using namespace fsdp::emulator;

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

static cuda::Result createStream(const char *call, cuda::Stream *stream,
                                 unsigned flags, int priority) {
  return runOnDevice(call, [&](Device &device) {
    expectPointer(stream, "stream");
    if (flags & ~cuda::streamNonBlocking)
      throw Refusal(cuda::InvalidValue,
                    "expected flags 0 or 1, got " + std::to_string(flags));
    *stream = Platform::get().streams.insert<cuda::Stream>(device.createStream(
        !(flags & cuda::streamNonBlocking), std::clamp(priority, -5, 0)));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamCreate(cuda::Stream *stream, unsigned flags) {
  return createStream(__func__, stream, flags, 0);
}
FSDP_EMULATOR_API cuStreamCreateWithPriority(cuda::Stream *stream,
                                             unsigned flags, int priority) {
  return createStream(__func__, stream, flags, priority);
}

FSDP_EMULATOR_API cuStreamDestroy_v2(cuda::Stream handle) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findEagerStream(device, handle);
    if (stream.get() == &device.legacyStream())
      throw Refusal(cuda::InvalidHandle, "expected a stream that was created");
    device.destroyStream(Platform::get().streams.remove(handle));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamGetPriority(cuda::Stream handle, int *priority) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(priority, "priority");
    *priority = findStream(device, handle)->priority;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamGetFlags(cuda::Stream handle, unsigned *flags) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(flags, "flags");
    *flags = findStream(device, handle)->isBlocking ? 0 : 1;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamSynchronize(cuda::Stream handle) {
  return runOnDevice(__func__, [&](Device &device) {
    device.synchronize(findEagerStream(device, handle)->last);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamQuery(cuda::Stream handle) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findEagerStream(device, handle);
    device.makeProgress();
    if (!stream->queue.empty())
      return cuda::NotReady;
    device.synchronize(stream->last);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamWaitEvent(cuda::Stream handle,
                                    cuda::Event eventHandle, unsigned flags) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findStream(device, handle);
    auto event = Platform::get().events.find(eventHandle);
    if (flags)
      failUnmodeled("cuStreamWaitEvent", "flags " + std::to_string(flags));
    if (event->device != &device)
      failUnmodeled("cuStreamWaitEvent", "an event of another device");
    if (event->capture) {
      if (stream->capture && stream->capture != event->capture)
        throw Refusal(cuda::StreamCaptureIsolation,
                      "expected an event of the same capture");
      stream->capture = event->capture;
      auto &last = stream->capture->branchOf(*stream).last;
      last.insert(last.end(), event->nodes.begin(), event->nodes.end());
      return cuda::Success;
    }
    if (stream->capture) {
      stream->capture->isInvalid = true;
      throw Refusal(cuda::StreamCaptureIsolation,
                    "expected an event that was recorded in the capture");
    }
    if (event->recorded)
      device.wait(*stream, event->recorded);
    return cuda::Success;
  });
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

FSDP_EMULATOR_API cuEventCreate(cuda::Event *event, unsigned flags) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(event, "event");
    if (flags & ~(cuda::eventBlockingSync | cuda::eventDisableTiming))
      failUnmodeled("cuEventCreate", "flags " + std::to_string(flags));
    auto object = std::make_shared<Event>();
    object->device = &device;
    object->hasTiming = !(flags & cuda::eventDisableTiming);
    *event = Platform::get().events.insert<cuda::Event>(object);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuEventDestroy_v2(cuda::Event handle) {
  return runOnDevice(__func__, [&](Device &) {
    Platform::get().events.remove(handle);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuEventRecord(cuda::Event handle, cuda::Stream streamHandle) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findStream(device, streamHandle);
    auto event = Platform::get().events.find(handle);
    if (event->device != &device)
      throw Refusal(cuda::InvalidHandle, "expected an event of the device");
    event->capture = stream->capture;
    event->recorded = nullptr;
    if (stream->capture)
      event->nodes = stream->capture->branchOf(*stream).last;
    else
      event->recorded = device.record(*stream);
    return cuda::Success;
  });
}

static void expectNotCaptured(const Event &event) {
  if (event.capture)
    throw Refusal(cuda::CapturedEvent,
                  "expected an event that was not recorded in a capture");
}

FSDP_EMULATOR_API cuEventQuery(cuda::Event handle) {
  return runOnDevice(__func__, [&](Device &device) {
    auto event = Platform::get().events.find(handle);
    expectNotCaptured(*event);
    device.makeProgress();
    if (event->recorded && !event->recorded->isDone)
      return cuda::NotReady;
    device.synchronize(event->recorded);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuEventSynchronize(cuda::Event handle) {
  return runOnDevice(__func__, [&](Device &device) {
    auto event = Platform::get().events.find(handle);
    expectNotCaptured(*event);
    device.synchronize(event->recorded);
    return cuda::Success;
  });
}

/// The time that the emulator took.
static cuda::Result elapsedTime(const char *call, float *milliseconds,
                                cuda::Event beginHandle,
                                cuda::Event endHandle) {
  return runOnDevice(call, [&](Device &) {
    expectPointer(milliseconds, "milliseconds");
    auto begin = Platform::get().events.find(beginHandle);
    auto end = Platform::get().events.find(endHandle);
    if (!begin->hasTiming || !end->hasTiming || !begin->recorded ||
        !end->recorded)
      throw Refusal(cuda::InvalidHandle,
                    "expected recorded events with timing");
    if (!begin->recorded->isDone || !end->recorded->isDone)
      return cuda::NotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(
                        end->recorded->when - begin->recorded->when)
                        .count();
    return cuda::Success;
  });
}
FSDP_EMULATOR_API cuEventElapsedTime(float *milliseconds, cuda::Event begin,
                                     cuda::Event end) {
  return elapsedTime(__func__, milliseconds, begin, end);
}
FSDP_EMULATOR_API cuEventElapsedTime_v2(float *milliseconds, cuda::Event begin,
                                        cuda::Event end) {
  return elapsedTime(__func__, milliseconds, begin, end);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

FSDP_EMULATOR_API cuStreamBeginCapture_v2(cuda::Stream handle, int mode) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findEagerStream(device, handle);
    if (stream.get() == &device.legacyStream())
      throw Refusal(cuda::StreamCaptureUnsupported,
                    "expected a stream that was created");
    // Global, thread-local, relaxed: refused is what the first one refuses.
    if (mode < 0 || mode > 2)
      throw Refusal(cuda::InvalidValue,
                    "expected mode 0 to 2, got " + std::to_string(mode));
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream.get();
    stream->capture->graph->device = &device;
    stream->capture->branchOf(*stream);
    ++device.captures;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamEndCapture(cuda::Stream handle, cuda::Graph *graph) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(graph, "graph");
    StreamPtr stream = findStream(device, handle);
    std::shared_ptr<Capture> capture = stream->capture;
    if (!capture || capture->origin != stream.get())
      throw Refusal(cuda::StreamCaptureUnmatched,
                    "expected the stream that the capture began in");
    *graph = nullptr;
    --device.captures;
    for (auto &branch : capture->branches)
      branch.stream->capture = nullptr;
    if (capture->isInvalid)
      throw Refusal(cuda::StreamCaptureInvalidated,
                    "expected a capture without errors");
    if (!capture->isJoined())
      throw Refusal(cuda::StreamCaptureUnjoined,
                    "expected the stream to wait for all that others were "
                    "given");
    *graph = Platform::get().graphs.insert<cuda::Graph>(capture->graph);
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
    if (flags)
      failUnmodeled("cuGraphInstantiateWithFlags",
                    "flags " + std::to_string(flags));
    auto graph = Platform::get().graphs.find(handle);
    auto object = std::make_shared<GraphExec>();
    object->device = &device;
    object->nodes = graph->nodes;
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
    for (const StreamPtr &stream : object->streams)
      device.destroyStream(stream);
    return cuda::Success;
  });
}
