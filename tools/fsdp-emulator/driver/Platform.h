//===- Platform.h - All devices, handles and calls of the process ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_PLATFORM_H
#define FSDP_EMULATOR_DRIVER_PLATFORM_H

#include "driver/Device.h"

#include <atomic>
#include <cstdio>
#include <optional>

namespace fsdp::emulator {

struct Graph;
struct GraphExec;

struct Event {
  Device *device = nullptr;
  bool hasTiming = true;
  CompletionPtr recorded;
  /// Where it was recorded into a graph: behind these nodes.
  std::shared_ptr<Capture> capture;
  std::vector<size_t> nodes;
};

struct ModuleObject {
  Device *device = nullptr;
  std::unique_ptr<LoadedModule> module;
  /// A graph may have kept its functions, which are gone.
  bool isUnloaded = false;

  ~ModuleObject() {
    if (module)
      device->removeModule(module.get());
  }
};

struct FunctionObject {
  /// Keeps the module.
  std::shared_ptr<ModuleObject> module;
  LoadedKernel *kernel = nullptr;
};

/// A range of addresses of cuMemAddressReserve.
struct Reservation {
  uint8_t *host = nullptr;
  uint64_t bytes = 0;
};

/// Handles are numbers that are never used again, so that one which was
/// destroyed is known.
template <typename T>
class HandleTable {
public:
  explicit HandleTable(const char *what) : what(what) {}

  template <typename Handle>
  Handle insert(std::shared_ptr<T> object) {
    std::lock_guard<std::mutex> lock(mutex);
    uint64_t number = 0x10000 + 16 * next++;
    objects[number] = std::move(object);
    return reinterpret_cast<Handle>(number);
  }
  template <typename Handle>
  std::shared_ptr<T> find(Handle handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = objects.find(numberOf(handle));
    if (found == objects.end())
      throw Refusal(cuda::InvalidHandle, std::string("expected ") + what +
                                             ", got " +
                                             hexOf(numberOf(handle)));
    return found->second;
  }
  template <typename Handle>
  std::shared_ptr<T> remove(Handle handle) {
    std::shared_ptr<T> object = find(handle);
    std::lock_guard<std::mutex> lock(mutex);
    objects.erase(numberOf(handle));
    return object;
  }

private:
  template <typename Handle>
  static uint64_t numberOf(Handle handle) {
    return reinterpret_cast<uint64_t>(handle);
  }

  const char *what;
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<T>> objects;
  /// Of all tables, so that no handle is one of another kind.
  static inline std::atomic<uint64_t> next{0};
};

class Platform {
public:
  static Platform &get();
  ~Platform();

  const Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  std::atomic<bool> isInitialized{false};

  HandleTable<Stream> streams{"a stream"};
  HandleTable<Event> events{"an event"};
  HandleTable<ModuleObject> modules{"a module"};
  HandleTable<FunctionObject> functions{"a function"};
  HandleTable<Graph> graphs{"a graph"};
  HandleTable<GraphExec> graphExecs{"an executable graph"};
  HandleTable<Allocation> allocations{"memory of cuMemCreate"};

  /// Of all devices, by their addresses.
  std::map<uint64_t, Reservation> reservations;
  std::mutex reservationsMutex;

  /// Counts the call; what FSDP_EMULATOR_FAULT has it return without doing
  /// anything, or FSDP_EMULATOR_SKIP, which is a success.
  std::optional<cuda::Result> beginCall(const char *name);

  /// FSDP_EMULATOR_LOG: a line when a call returns.
  bool isLogged() const { return log != nullptr; }
  void logCall(const char *name, cuda::Result answer);

private:
  Platform();
  void writeStatistics();

  struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, CloseFile> log;

  std::mutex callsMutex;
  std::map<std::string, uint64_t> calls;
};

/// The device of the calling thread's context, or null.
Device *currentDevice();
void setCurrentDevice(Device *device);
/// Whether the thread runs a function of cuLaunchHostFunc, which must not call
/// the driver.
bool &isInHostFunction();

/// Runs one call: faults that are injected, then `body`, whose refusals are
/// reported. Where the call does nothing, `skipped` runs, if there is one.
cuda::Result runCall(const char *name,
                     const std::function<cuda::Result()> &body,
                     const std::function<cuda::Result()> &skipped = nullptr);
/// The same with the current context's device, locked.
cuda::Result runOnDevice(
    const char *name, const std::function<cuda::Result(Device &device)> &body,
    const std::function<cuda::Result(Device &device)> &skipped = nullptr);

/// Throws where a pointer that a call writes to is null.
void expectPointer(const void *pointer, const char *name);

/// The stream of a handle, which has to be the device's.
StreamPtr findStream(Device &device, cuda::Stream handle);
/// The same where it may not be recorded into a graph.
StreamPtr findEagerStream(Device &device, cuda::Stream handle);
/// For calls that wait for all streams, of which none may be captured.
void expectNoCapture(const Device &device);
/// For work of the legacy stream, which waits for streams that wait for it:
/// none of these may be captured.
void expectLegacyStream(const Device &device);
/// For calls that a capture may not survive (cuThreadExchangeStreamCaptureMode
/// says which captures of which threads forbid them): they allocate, load code
/// or wait.
void expectSafe(bool isOfLibrary = false);

/// Ends all captures of a device, which is reset.
void dropCaptures(const Device &device);

/// Gives `stream` the work, or the graph that its calls are recorded into.
void issueOrCapture(Device &device, Stream &stream, Work work);

} // namespace fsdp::emulator

/// A function of the driver.
#define FSDP_EMULATOR_API                                                      \
  extern "C" __attribute__((visibility("default"))) fsdp::emulator::cuda::Result

#endif // FSDP_EMULATOR_DRIVER_PLATFORM_H
