//===- Platform.cpp - All devices, handles and calls of the process -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Platform.h"

#include "driver/Graph.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fsdp::emulator {

Platform &Platform::get() {
  static Platform platform;
  return platform;
}

Platform::Platform() : settings(Settings::fromEnvironment()) {
  approximations = settings.approximations;
  if (!settings.logFile.empty()) {
    log.reset(std::fopen(settings.logFile.c_str(), "we"));
    if (!log) {
      failUnmodeled("FSDP_EMULATOR_LOG",
                    settings.logFile + ", which cannot be written");
    }
    std::setvbuf(log.get(), nullptr, _IOLBF, 4096);
  }
  for (int i = 0; i < settings.devices; ++i)
    devices.push_back(std::make_unique<Device>(i, settings));
}

Platform::~Platform() {
  if (!settings.statsFile.empty())
    writeStatistics();
}

/// A line of JSON for each kernel of each device, and for each function of the
/// driver. Processes add their lines to those of others.
void Platform::writeStatistics() {
  char *text = nullptr;
  size_t bytes = 0;
  std::FILE *file = open_memstream(&text, &bytes);
  auto number = [](uint64_t value) {
    return static_cast<unsigned long long>(value);
  };
  for (const auto &device : devices)
    for (const auto &[name, s] : device->collectStatistics())
      std::fprintf(file,
                   "{\"kernel\": \"%s\", \"device\": %d, \"launches\": %llu, "
                   "\"dependent_launches\": %llu, "
                   "\"warp_instructions\": %llu, \"lane_instructions\": %llu, "
                   "\"bytes_loaded\": %llu, \"bytes_stored\": %llu, "
                   "\"requests\": %llu, \"sectors\": %llu, \"atomics\": %llu, "
                   "\"barriers\": %llu, \"seconds\": %.6f}\n",
                   name.c_str(), device->ordinal, number(s.launches),
                   number(s.dependentLaunches), number(s.warpInstructions),
                   number(s.laneInstructions), number(s.bytesLoaded),
                   number(s.bytesStored), number(s.requests), number(s.sectors),
                   number(s.atomics), number(s.barriers), s.seconds);
  for (const auto &[name, count] : calls)
    std::fprintf(file, "{\"call\": \"%s\", \"count\": %llu}\n", name.c_str(),
                 number(count));
  std::fclose(file);
  // At once, so that lines of processes that end together stay whole.
  int to = open(settings.statsFile.c_str(),
                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (to < 0 || write(to, text, bytes) != static_cast<ssize_t>(bytes))
    report("expected to write " + settings.statsFile + ", got an error");
  if (to >= 0)
    close(to);
  std::free(text);
}

void Platform::logCall(const char *name, cuda::Result answer) {
  static std::atomic<int> threads{0};
  static thread_local int thread = threads++;
  std::lock_guard<std::mutex> lock(callsMutex);
  std::fprintf(log.get(), "%d %s %d\n", thread, name, static_cast<int>(answer));
}

/// Errors that a context never recovers from.
static bool isSticky(cuda::Result code) {
  return code == cuda::IllegalAddress || code == cuda::LaunchTimeout ||
         (code >= 714 && code <= cuda::LaunchFailed);
}

static thread_local const HeldCall *heldCall = nullptr;
const HeldCall *currentHeldCall() { return heldCall; }

std::optional<cuda::Result> Platform::beginCall(const char *name) {
  std::lock_guard<std::mutex> lock(callsMutex);
  uint64_t number = ++calls[name];
  heldCall = nullptr;
  for (const HeldCall &held : settings.held)
    if (held.function == name && held.number == number)
      heldCall = &held;
  for (const InjectedFault &fault : settings.faults)
    if (fault.function == name && fault.number == number) {
      report(std::string(name) + ": call " + std::to_string(number) +
             " returns " + std::to_string(fault.code) +
             ", as FSDP_EMULATOR_FAULT asks");
      if (Device *device = currentDevice(); device && isSticky(fault.code))
        device->setStickyError(fault.code);
      return fault.code;
    }
  for (const SkippedCall &skipped : settings.skipped)
    if (skipped.function == name && skipped.number == number) {
      report(std::string(name) + ": call " + std::to_string(number) +
             " does nothing, as FSDP_EMULATOR_SKIP asks");
      return cuda::Success;
    }
  return std::nullopt;
}

static thread_local Device *current = nullptr;
Device *currentDevice() { return current; }
void setCurrentDevice(Device *device) { current = device; }

bool &isInHostFunction() {
  static thread_local bool value = false;
  return value;
}

static cuda::Result answerCall(const char *name,
                               const std::function<cuda::Result()> &body,
                               const std::function<cuda::Result()> &skipped) {
  Platform &platform = Platform::get();
  if (isInHostFunction()) {
    report(std::string(name) +
           ": expected no calls from a function of cuLaunchHostFunc, got one");
    return cuda::NotPermitted;
  }
  std::optional<cuda::Result> answer = platform.beginCall(name);
  if (answer && (*answer || !skipped))
    return *answer;
  try {
    return answer ? skipped() : body();
  } catch (const Refusal &refusal) {
    if (*refusal.what())
      report(std::string(name) + ": " + refusal.what());
    return refusal.code;
  } catch (const DeviceFault &fault) {
    report(std::string(name) + ": " + fault.what());
    return cuda::InvalidValue;
  } catch (const std::bad_alloc &) {
    report(std::string(name) + ": expected memory of the host, got none");
    return cuda::OutOfMemory;
  }
}

cuda::Result runCall(const char *name,
                     const std::function<cuda::Result()> &body,
                     const std::function<cuda::Result()> &skipped) {
  cuda::Result answer = answerCall(name, body, skipped);
  if (Platform &platform = Platform::get(); platform.isLogged())
    platform.logCall(name, answer);
  return answer;
}

cuda::Result
runOnDevice(const char *name,
            const std::function<cuda::Result(Device &device)> &body,
            const std::function<cuda::Result(Device &device)> &skipped) {
  auto onDevice = [](const std::function<cuda::Result(Device &)> &run) {
    if (!Platform::get().isInitialized)
      throw Refusal(cuda::NotInitialized, "expected cuInit before, got none");
    Device *device = currentDevice();
    if (!device)
      throw Refusal(cuda::InvalidContext, "expected a current context");
    std::lock_guard<std::mutex> lock(device->mutex);
    if (device->stickyError())
      return device->stickyError();
    return run(*device);
  };
  if (!skipped)
    return runCall(name, [&] { return onDevice(body); });
  return runCall(
      name, [&] { return onDevice(body); }, [&] { return onDevice(skipped); });
}

void expectPointer(const void *pointer, const char *name) {
  if (!pointer)
    throw Refusal(cuda::InvalidValue,
                  std::string("expected ") + name + ", got null");
}

StreamPtr findStream(Device &device, cuda::Stream handle) {
  if (!handle || handle == cuda::legacyStream())
    return {&device.legacyStream(), [](Stream *) {}};
  if (handle == cuda::perThreadStream())
    failUnmodeled("a stream", "CU_STREAM_PER_THREAD");
  StreamPtr stream = Platform::get().streams.find(handle);
  if (stream->device != &device)
    throw Refusal(cuda::InvalidContext,
                  "expected a stream of device " +
                      std::to_string(device.ordinal) + ", got one of " +
                      std::to_string(stream->device->ordinal));
  return stream;
}

} // namespace fsdp::emulator
