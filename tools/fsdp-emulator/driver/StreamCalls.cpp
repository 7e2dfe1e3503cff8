//===- StreamCalls.cpp - Calls about streams and events -----------------===//
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
        !(flags & cuda::streamNonBlocking),
        std::clamp(priority, -device.settings.priorities, 0)));
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
    StreamPtr stream = findEagerStream(device, handle);
    expectSafe();
    device.synchronize(stream->last);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuStreamQuery(cuda::Stream handle) {
  return runOnDevice(__func__, [&](Device &device) {
    StreamPtr stream = findEagerStream(device, handle);
    expectSafe();
    device.makeProgress();
    if (!stream->queue.empty())
      return cuda::NotReady;
    device.synchronize(stream->last);
    return cuda::Success;
  });
}

/// A fork, a join, or a dependency that no graph can have.
static void captureWait(Device &device, Stream &stream, const Event &event) {
  if (stream.capture)
    expectValid(*stream.capture);
  if (!event.capture)
    invalidate(*stream.capture, cuda::StreamCaptureIsolation,
               "expected an event that was recorded in the capture");
  if (event.capture->isEnded) {
    if (stream.capture)
      stream.capture->isInvalid = true;
    throw Refusal(cuda::CapturedEvent,
                  "expected an event that was not recorded in a capture, which "
                  "has ended");
  }
  expectValid(*event.capture);
  if (&stream == &device.legacyStream())
    invalidate(*event.capture, cuda::StreamCaptureImplicit,
               "expected a stream that can be captured, got the legacy one");
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->isInvalid = true;
    invalidate(*event.capture, cuda::StreamCaptureMerge,
               "expected an event of the same capture");
  }
  stream.capture = event.capture;
  stream.isBehindKernel = false;
  std::vector<size_t> &last = stream.capture->branchOf(stream).last;
  for (size_t node : event.nodes)
    if (std::find(last.begin(), last.end(), node) == last.end())
      last.push_back(node);
}

static void waitForEvent(Device &device, Stream &stream, const Event &event) {
  if (event.capture || stream.capture)
    captureWait(device, stream, event);
  else if (event.recorded)
    device.wait(stream, event.recorded);
}

/// The wait does nothing. Where other waits of the stream imply it, that is
/// told: then nothing can miss it.
static void skipWait(Device &device, Stream &stream, const Event &event) {
  if (stream.capture && stream.capture == event.capture) {
    std::vector<size_t> &skipped = stream.capture->branchOf(stream).skipped;
    skipped.insert(skipped.end(), event.nodes.begin(), event.nodes.end());
  } else if (event.recorded && !stream.capture) {
    device.skipWait(stream, event.recorded);
  }
}

FSDP_EMULATOR_API cuStreamWaitEvent(cuda::Stream handle,
                                    cuda::Event eventHandle, unsigned flags) {
  auto with = [&](auto visit) {
    return [=](Device &device) {
      StreamPtr stream = findStream(device, handle);
      auto event = Platform::get().events.find(eventHandle);
      if (flags)
        failUnmodeled("cuStreamWaitEvent", "flags " + std::to_string(flags));
      if (event->device != &device)
        failUnmodeled("cuStreamWaitEvent", "an event of another device");
      visit(device, *stream, *event);
      return cuda::Success;
    };
  };
  return runOnDevice(__func__, with(waitForEvent), with(skipWait));
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
    if (stream->capture)
      expectValid(*stream->capture);
    else if (stream.get() == &device.legacyStream())
      expectLegacyStream(device);
    event->capture = stream->capture;
    event->recorded = nullptr;
    if (stream->capture)
      event->nodes = stream->capture->record(*stream);
    else
      event->recorded = device.record(*stream);
    return cuda::Success;
  });
}

static void expectNotCaptured(const Event &event) {
  if (event.capture)
    invalidate(*event.capture, cuda::CapturedEvent,
               "expected an event that was not recorded in a capture");
  expectSafe();
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
