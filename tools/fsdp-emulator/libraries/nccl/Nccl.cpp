//===- Nccl.cpp - A double of libnccl.so.2 --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives of ranks with devices of the emulated driver, which are threads
// or processes of one host. README.md says what is found.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "Settings.h"
#include "instructions/FloatFormats.h"
#include "libraries/EmulatedDriver.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <unistd.h>

using namespace fsdp::emulator;
using namespace fsdp::emulator::nccl;

#define API extern "C" __attribute__((visibility("default")))

namespace {

using CommPtr = std::shared_ptr<Communicator>;

thread_local std::string lastError;

/// Threads may end communicators while the process ends.
std::mutex &handlesMutex = *new std::mutex;
std::map<void *, CommPtr> &handles() {
  static auto *all = new std::map<void *, CommPtr>;
  return *all;
}

CommPtr find(void *handle) {
  std::lock_guard<std::mutex> lock(handlesMutex);
  auto found = handles().find(handle);
  if (found == handles().end())
    throw Mistake(invalidArgument, "expected a communicator, got none, or one "
                                   "that was destroyed");
  return found->second;
}

bool isHeldByGraphs(const CommPtr &comm) {
  std::lock_guard<std::recursive_mutex> lock(comm->mutex);
  return comm->isHeldByGraphs();
}

/// As commReclaim() of NCCL: the last rank of the process returns when no graph
/// has work of any of them, however long that takes; the others at once.
void end(void *handle) {
  CommPtr comm = find(handle);
  comm->traffic.write(comm->name, comm->rank, comm->size);
  for (const CommPtr &one : RanksOfProcess::get().end(*comm))
    while (isHeldByGraphs(one))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::lock_guard<std::mutex> lock(handlesMutex);
  handles().erase(handle);
}

template <typename Body>
int runCall(const char *name, const Body &body) {
  int device = EmulatedDriver::get() ? EmulatedDriver::get()->device() : -1;
  if (int code = takeFault(name, device)) {
    lastError = "as FSDP_NCCL_FAULT asks";
    return code;
  }
  try {
    if (!EmulatedDriver::get())
      throw Mistake(systemError, "the emulated driver is not loaded");
    return body();
  } catch (const Mistake &mistake) {
    lastError = mistake.what();
    report(std::string(name) + ": " + mistake.what());
    return mistake.code;
  }
}

int collective(const char *name, Kind kind, const void *src, void *dst,
               size_t count, int type, int reduction, int peer, void *handle,
               void *stream) {
  return runCall(name, [&] {
    return ask(find(handle),
               {kind, reinterpret_cast<uint64_t>(src),
                reinterpret_cast<uint64_t>(dst), count, type, reduction, peer},
               stream);
  });
}

bool readsAs(const Config &config) {
  return config.magic == configMagic &&
         config.size >= offsetof(Config, cgaClusterSize) &&
         config.version >= 21400;
}

} // namespace

API int ncclGetVersion(int *version) {
  *version = Settings::get().version;
  return success;
}

API int ncclGetUniqueId(UniqueId *id) {
  return runCall(__func__, [&] {
    static std::atomic<int> count{0};
    std::random_device random;
    *id = {};
    std::snprintf(id->bytes, sizeof(id->bytes), "nccl-%d-%d-%08x",
                  int(getpid()), count++, random());
    return success;
  });
}

API int ncclCommInitRankConfig(void **made, int size, UniqueId id, int rank,
                               const Config *config) {
  return runCall(__func__, [&]() -> int {
    if (size < 1 || rank < 0 || rank >= size)
      throw Mistake(invalidArgument, "expected a rank below the number of "
                                     "ranks, got " +
                                         std::to_string(rank) + " of " +
                                         std::to_string(size));
    int device = EmulatedDriver::get()->device();
    if (device < 0)
      throw Mistake(unhandledCudaError, "expected a current context");
    bool isBlocking = true;
    int maxCtas = undefined;
    if (config) {
      if (!readsAs(*config))
        throw Mistake(invalidArgument, "ncclConfig_t argument not initialized "
                                       "via NCCL_CONFIG_INITIALIZER");
      if (config->blocking != undefined)
        isBlocking = config->blocking != 0;
      if (config->size >= sizeof(Config)) {
        maxCtas = config->maxCtas;
        for (int value :
             {config->cgaClusterSize, config->minCtas, config->splitShare})
          if (value != undefined)
            failUnmodelled("ncclCommInitRankConfig: a setting other than "
                           "blocking and maxCTAs");
      }
      if (maxCtas != undefined && maxCtas < 1)
        throw Mistake(invalidArgument, "Invalid config maxCTAs attribute "
                                       "value " +
                                           std::to_string(maxCtas));
    }
    auto comm = std::make_shared<Communicator>(id, size, rank, device,
                                               isBlocking, maxCtas);
    *made = comm.get();
    {
      std::lock_guard<std::mutex> lock(handlesMutex);
      handles()[comm.get()] = comm;
    }
    RanksOfProcess::get().add(comm);
    std::unique_lock<std::recursive_mutex> lock(comm->mutex);
    if (!isBlocking)
      return inProgress;
    Error error;
    while ((error = comm->progress(lock)) == inProgress) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.lock();
    }
    if (error != success)
      lastError = comm->lastError;
    return error;
  });
}

API int ncclCommGetAsyncError(void *handle, int *error) {
  return runCall(__func__, [&] {
    CommPtr comm = find(handle);
    std::unique_lock<std::recursive_mutex> lock(comm->mutex);
    *error = comm->progress(lock);
    return success;
  });
}

API int ncclCommFinalize(void *handle) {
  return runCall(__func__, [&] {
    CommPtr comm = find(handle);
    std::unique_lock<std::recursive_mutex> lock(comm->mutex);
    if (comm->outstanding > 0)
      failUnmodelled("ncclCommFinalize: work that has not ended");
    comm->isFinalized = true;
    Error error = inProgress;
    while ((error = comm->progress(lock)) == inProgress && comm->isBlocking) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
    return comm->isBlocking ? error : inProgress;
  });
}

API int ncclCommDestroy(void *handle) {
  return runCall(__func__, [&] {
    CommPtr comm = find(handle);
    {
      std::unique_lock<std::recursive_mutex> lock(comm->mutex);
      if (comm->outstanding > 0)
        failUnmodelled("ncclCommDestroy: work that has not ended");
      comm->isFinalized = true;
      if (comm->asyncError == success) {
        comm->asyncError = invalidUsage;
        comm->lastError = "expected a communicator that is not destroyed";
      }
    }
    end(handle);
    return success;
  });
}

API int ncclCommAbort(void *handle) {
  return runCall(__func__, [&] {
    CommPtr comm = find(handle);
    bool isInMeeting;
    {
      std::unique_lock<std::recursive_mutex> lock(comm->mutex);
      comm->isAborted = true;
      isInMeeting = comm->putOff != nullptr;
      comm->putOff = nullptr;
    }
    // It joins the thread that issues.
    while (isInMeeting && comm->isMeeting())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    end(handle);
    return success;
  });
}

API int ncclCommCount(void *handle, int *count) {
  return runCall(__func__, [&] {
    *count = find(handle)->size;
    return success;
  });
}
API int ncclCommUserRank(void *handle, int *rank) {
  return runCall(__func__, [&] {
    *rank = find(handle)->rank;
    return success;
  });
}
API int ncclCommCuDevice(void *handle, int *device) {
  return runCall(__func__, [&] {
    *device = find(handle)->device;
    return success;
  });
}

API int ncclGroupStart() {
  return runCall(__func__, [&] {
    beginGroup();
    return success;
  });
}
API int ncclGroupEnd() {
  int error = runCall(__func__, endGroup);
  // As FSDP_NCCL_FAULT asks: communicators of a group that fails have failed.
  if (error != success && error != inProgress)
    dropGroup(Error(error), lastError);
  return error;
}

API int ncclAllGather(const void *src, void *dst, size_t count, int type,
                      void *comm, void *stream) {
  return collective(__func__, Kind::AllGather, src, dst, count, type, sum, 0,
                    comm, stream);
}
API int ncclReduceScatter(const void *src, void *dst, size_t count, int type,
                          int reduction, void *comm, void *stream) {
  return collective(__func__, Kind::ReduceScatter, src, dst, count, type,
                    reduction, 0, comm, stream);
}
API int ncclAllReduce(const void *src, void *dst, size_t count, int type,
                      int reduction, void *comm, void *stream) {
  return collective(__func__, Kind::AllReduce, src, dst, count, type, reduction,
                    0, comm, stream);
}
API int ncclBroadcast(const void *src, void *dst, size_t count, int type,
                      int root, void *comm, void *stream) {
  return collective(__func__, Kind::Broadcast, src, dst, count, type, sum, root,
                    comm, stream);
}
API int ncclSend(const void *src, size_t count, int type, int peer, void *comm,
                 void *stream) {
  return collective(__func__, Kind::Send, src, nullptr, count, type, sum, peer,
                    comm, stream);
}
API int ncclRecv(void *dst, size_t count, int type, int peer, void *comm,
                 void *stream) {
  return collective(__func__, Kind::Recv, nullptr, dst, count, type, sum, peer,
                    comm, stream);
}

API int ncclRedOpCreatePreMulSum(int *operation, void *scalar, int type,
                                 int residence, void *handle) {
  return runCall(__func__, [&] {
    if (type != float16 || residence != 1)
      failUnmodelled("ncclRedOpCreatePreMulSum: a scalar other than float16 of "
                     "the host");
    CommPtr comm = find(handle);
    std::lock_guard<std::recursive_mutex> lock(comm->mutex);
    *operation = Communicator::firstFactor + int(comm->factors.size());
    uint16_t factor;
    std::memcpy(&factor, scalar, sizeof(factor));
    comm->factors.push_back(floatOfF16(factor));
    return success;
  });
}

API const char *ncclGetErrorString(int error) {
  switch (error) {
  case success:
    return "no error";
  case unhandledCudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case systemError:
    return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case internalError:
    return "internal error - please report this issue to the NCCL developers";
  case invalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case invalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case remoteError:
    return "remote process exited or there was a network error";
  case inProgress:
    return "NCCL operation in progress";
  }
  return "unknown result code";
}

API const char *ncclGetLastError(void *handle) {
  std::lock_guard<std::mutex> lock(handlesMutex);
  auto found = handles().find(handle);
  if (found != handles().end()) {
    std::lock_guard<std::recursive_mutex> inner(found->second->mutex);
    if (!found->second->lastError.empty())
      lastError = found->second->lastError;
  }
  return lastError.c_str();
}

#define UNMODELLED(name)                                                       \
  API int name() { failUnmodelled(#name); }
UNMODELLED(ncclCommInitRank)
UNMODELLED(ncclCommInitAll)
UNMODELLED(ncclCommInitRankScalable)
UNMODELLED(ncclCommSplit)
UNMODELLED(ncclCommShrink)
UNMODELLED(ncclCommGrow)
UNMODELLED(ncclCommGetUniqueId)
UNMODELLED(ncclCommRevoke)
UNMODELLED(ncclCommSuspend)
UNMODELLED(ncclCommResume)
UNMODELLED(ncclCommMemStats)
UNMODELLED(ncclCommRegister)
UNMODELLED(ncclCommDeregister)
UNMODELLED(ncclCommWindowRegister)
UNMODELLED(ncclCommWindowDeregister)
UNMODELLED(ncclMemAlloc)
UNMODELLED(ncclMemFree)
UNMODELLED(ncclReduce)
UNMODELLED(ncclBcast)
UNMODELLED(ncclAlltoAll)
UNMODELLED(ncclGather)
UNMODELLED(ncclScatter)
UNMODELLED(ncclRedOpDestroy)
UNMODELLED(ncclGroupSimulateEnd)
