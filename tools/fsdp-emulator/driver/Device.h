//===- Device.h - A device: its memory, its streams, its error ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What streams are given to do waits in their queues. It runs only while the
// host waits for something, one operation after another, from streams in a
// random order: any order that the program allows may come.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_DEVICE_H
#define FSDP_EMULATOR_DRIVER_DEVICE_H

#include "driver/LoadedModule.h"

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>

namespace fsdp::emulator {

class Device;
struct Capture;

/// What a stream is given to do.
struct Work {
  std::string name;
  /// Whether it is done; otherwise it is asked again later, while other streams
  /// go on.
  std::function<bool(OperationId id)> run;
};

/// Whether an operation of a stream is done, for those who wait for it.
struct Completion {
  bool isDone = false;
  VectorClock clock;
  std::chrono::steady_clock::time_point when;
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Operation {
  Work work;
  OperationId id = 0;
  std::vector<CompletionPtr> after;
  CompletionPtr completion;
};

struct Stream {
  Device *device = nullptr;
  uint32_t index = 0;
  int priority = 0;
  /// It waits for the legacy stream, which waits for it.
  bool isBlocking = true;
  std::deque<Operation> queue;
  uint64_t issued = 0;
  VectorClock clock;
  /// Of what was issued last.
  CompletionPtr last;
  /// Waits that FSDP_EMULATOR_SKIP left out since then.
  std::vector<CompletionPtr> skippedWaits;
  /// Whether the call before gave it a kernel.
  bool isBehindKernel = false;
  /// Null unless its calls are recorded into a graph.
  std::shared_ptr<Capture> capture;
};
using StreamPtr = std::shared_ptr<Stream>;

/// The call that the thread is in, where FSDP_EMULATOR_HOLD names it, or null.
const HeldCall *currentHeldCall();

/// A call that returns an error and has no other effect.
class Refusal : public std::runtime_error {
public:
  Refusal(cuda::Result code, const std::string &message)
      : std::runtime_error(message), code(code) {}

  cuda::Result code;
};

class Device {
public:
  Device(int ordinal, const Settings &settings);
  /// What streams have not done keeps modules, which leave the device.
  ~Device();

  const int ordinal;
  const Settings &settings;
  /// Held by every call on the device.
  std::mutex mutex;
  DeviceMemory &memory() { return addresses; }
  OperationOrder &order() { return operationOrder; }
  /// Work of a turn (Extension.h) must be in an order with what was the last.
  void checkTurn(uint64_t turn, OperationId id);
  cuda::Result stickyError() const { return sticky; }
  void setStickyError(cuda::Result code) { sticky = code; }
  Stream &legacyStream() { return *legacy; }

  /// Of the device's memory; throws a Refusal when there is too little.
  void takeBytes(uint64_t bytes);
  void giveBytes(uint64_t bytes) { usedBytes -= bytes; }
  uint64_t freeBytes() const {
    return settings.memoryBytes - settings.contextBytes - usedBytes;
  }

  /// As it was in the beginning; for cuDevicePrimaryCtxReset.
  void reset();

  StreamPtr createStream(bool isBlocking, int priority);
  /// The stream goes when its queue is empty.
  void destroyStream(const StreamPtr &stream);

  /// Behind what `stream` was given before, and behind `after`. What the work
  /// accesses is looked at for races unless `isOrdering`.
  CompletionPtr issue(Stream &stream, Work work,
                      std::vector<CompletionPtr> after = {},
                      bool isOrdering = false);
  /// A point of the stream.
  CompletionPtr record(Stream &stream);
  /// What is issued later comes behind it.
  void wait(Stream &stream, const CompletionPtr &completion);
  /// It should, and does not: what is issued next tells whether it does all the
  /// same, by other waits.
  void skipWait(Stream &stream, const CompletionPtr &completion) {
    stream.skippedWaits.push_back(completion);
  }

  /// These run operations until it is done, and throw what stops the device.
  void synchronize(const CompletionPtr &completion);
  void synchronizeAll();
  /// Runs one operation, if any can run; for calls that only ask.
  void makeProgress();

  /// What libraries have launched before.
  bool isLoadedByLibraries(const std::string &name) const {
    return loadedByLibraries.count(name) != 0;
  }
  void setLoadedByLibraries(const std::string &name) {
    loadedByLibraries.insert(name);
  }

  void addModule(LoadedModule *module) { modules.insert(module); }
  void removeModule(LoadedModule *module);
  /// A copy from the host is done, for FSDP_EMULATOR_HOLD.
  void countArrival(uint64_t bytes) { ++arrivals[bytes]; }
  /// Statistics of kernels by their names.
  std::map<std::string, Statistics> collectStatistics() const;

private:
  void dropWork();
  void reportImpliedWaits(Stream &stream) const;
  bool isReady(const Stream &stream) const;
  /// Whether any stream went on. Throws where none can.
  bool step();
  void runUntil(const std::function<bool()> &isDone);
  bool runFirst(Stream &stream);
  void forget(const StreamPtr &stream);
  std::string describeWaiting() const;
  /// Stops the device where nothing has gone on for too long.
  void checkProgress();

  OperationOrder operationOrder;
  /// By turn, what was done last.
  std::map<uint64_t, OperationId> lastOfTurn;
  DeviceMemory addresses;
  uint64_t usedBytes = 0;
  std::vector<StreamPtr> streams;
  StreamPtr legacy;
  uint32_t nextStream = 0;
  std::mt19937 random;
  /// When an operation was issued or done.
  std::chrono::steady_clock::time_point lastProgress;
  cuda::Result sticky = cuda::Success;
  /// What the host waited for.
  VectorClock hostClock;
  /// Of streams that are no more.
  VectorClock destroyedClock;
  /// Copies from the host by their bytes.
  std::map<uint64_t, uint64_t> arrivals;
  std::set<std::string> loadedByLibraries;
  std::set<LoadedModule *> modules;
  std::map<std::string, Statistics> unloadedStatistics;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_DRIVER_DEVICE_H
