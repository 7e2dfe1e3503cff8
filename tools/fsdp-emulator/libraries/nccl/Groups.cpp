//===- Groups.cpp - Calls that are issued together ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

#include "libraries/EmulatedDriver.h"

#include <thread>

namespace fsdp::emulator::nccl {

namespace {

struct Asked {
  std::shared_ptr<Communicator> comm;
  void *stream;
  std::vector<Call> calls;
};
struct Group {
  int depth = 0;
  Error error = success;
  std::vector<Asked> asked;
};
thread_local Group group;

struct Range {
  uint64_t begin;
  size_t bytes;
  bool isWritten;
  bool overlaps(const Range &other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

std::vector<Range> rangesOf(const Call &call, int ranks) {
  std::vector<Range> ranges;
  if (size_t bytes = call.srcBytes(ranks))
    ranges.push_back({call.src, bytes, false});
  if (size_t bytes = call.dstBytes(ranks))
    ranges.push_back({call.dst, bytes, true});
  return ranges;
}

/// Where a call may have its operands in place.
void checkOperands(const Call &call, const Communicator &comm) {
  std::vector<Range> ranges = rangesOf(call, comm.size);
  if (ranges.size() < 2 || !ranges[0].overlaps(ranges[1]))
    return;
  uint64_t part = uint64_t(comm.rank) * call.bytes();
  bool isInPlace = call.src == call.dst;
  if (call.kind == Kind::AllGather)
    isInPlace = call.src == call.dst + part;
  if (call.kind == Kind::ReduceScatter)
    isInPlace = call.dst == call.src + part;
  if (!isInPlace)
    throw Mistake(invalidArgument,
                  "expected operands that are apart or in place, got others");
}

/// Calls of one group run in no order.
void checkGroup(const std::vector<Call> &calls, int ranks) {
  for (size_t i = 0; i < calls.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      for (const Range &one : rangesOf(calls[i], ranks))
        for (const Range &other : rangesOf(calls[j], ranks))
          if ((one.isWritten || other.isWritten) && one.overlaps(other))
            throw Mistake(invalidArgument,
                          "expected calls of a group that can run in any "
                          "order, got " +
                              describe(calls[j]) + " and " +
                              describe(calls[i]) + " of the same memory");
}

Error issueNow(std::shared_ptr<Operation> operation, void *stream) {
  const EmulatedDriver &driver = *EmulatedDriver::get();
  std::vector<FsdpEmulatorRange> ranges;
  for (const Call &call : operation->calls())
    for (const Range &range : rangesOf(call, operation->communicator().size))
      ranges.push_back({range.begin, range.bytes, range.isWritten});
  std::string name = "nccl: " + operation->describe();
  uint64_t turn = operation->turn();
  auto run = [](void *data) {
    return (*static_cast<std::shared_ptr<Operation> *>(data))->run();
  };
  auto destroy = [](void *data) {
    delete static_cast<std::shared_ptr<Operation> *>(data);
  };
  int error = driver.issue(stream, name.c_str(), run,
                           new std::shared_ptr<Operation>(std::move(operation)),
                           destroy, ranges.data(), ranges.size(), turn);
  return error == 0 ? success : unhandledCudaError;
}

/// In a graph NCCL registers buffers with other processes and the network,
/// which needs memory that was allocated for it; it goes on without, slower.
void checkRegistration(const std::vector<Call> &calls, int ranks) {
  for (const Call &call : calls)
    for (const Range &range : rangesOf(call, ranks))
      if (int has = EmulatedDriver::get()->sharing(range.begin); has != -1)
        throw Mistake(
            invalidUsage,
            "expected memory that others can open by all that the driver "
            "reports, got handle types " +
                std::to_string(has & 0xffff) +
                (has >> 16 ? ""
                           : " and none for direct access by the network") +
                " for " + describe(call));
}

Error issue(const Asked &asked) {
  Communicator &comm = *asked.comm;
  checkGroup(asked.calls, comm.size);
  int capture = 0;
  if (EmulatedDriver::get()->isCapturing(asked.stream, &capture) != 0)
    return unhandledCudaError;
  if (capture != 0) {
    checkRegistration(asked.calls, comm.size);
    comm.beginMeeting();
  }
  auto operation =
      std::make_shared<Operation>(asked.comm, asked.calls, capture != 0);
  std::unique_lock<std::recursive_mutex> lock(comm.mutex);
  std::function<Error()> later = [operation, stream = asked.stream] {
    return issueNow(operation, stream);
  };
  operation.reset();
  if (!comm.isBlocking) {
    comm.putOffUntilAsked(std::move(later));
    return inProgress;
  }
  lock.unlock();
  while (comm.isMeeting())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return later();
}

void checkUse(Communicator &comm, const Call &call) {
  std::unique_lock<std::recursive_mutex> lock(comm.mutex);
  if (EmulatedDriver::get()->device() != comm.device)
    throw Mistake(invalidUsage,
                  "expected the communicator's device, " +
                      std::to_string(comm.device) + ", got " +
                      std::to_string(EmulatedDriver::get()->device()));
  if (comm.asyncError != success)
    throw Mistake(comm.asyncError, comm.lastError);
  bool isReady = !comm.putOff && comm.progress(lock) == success;
  if (!isReady || comm.isFinalized)
    throw Mistake(
        invalidUsage,
        "expected a communicator that is ready, got one that is " +
            std::string(comm.isFinalized ? "finalized" : "in progress"));
  if (sizeOfType(call.type) == 0)
    failUnmodelled("type " + std::to_string(call.type));
  size_t factor = size_t(call.reduction - Communicator::firstFactor);
  bool hasFactor = call.type == float16 && factor < comm.factors.size();
  if (isSum(call.kind) && call.reduction != sum && !hasFactor)
    failUnmodelled("reduction " + std::to_string(call.reduction));
  bool hasPeer = isPointToPoint(call.kind) || call.kind == Kind::Broadcast;
  if (hasPeer && (call.peer < 0 || call.peer >= comm.size))
    throw Mistake(invalidArgument, "expected a rank of the communicator, got " +
                                       std::to_string(call.peer));
  checkOperands(call, comm);
}

/// Of a group that fails, communicators that do not block have failed.
void failAll(const std::vector<Asked> &asked, Error error,
             const std::string &why) {
  for (const Asked &one : asked) {
    std::lock_guard<std::recursive_mutex> lock(one.comm->mutex);
    if (!one.comm->isBlocking)
      one.comm->fail(error, why);
  }
}

Error finish() {
  std::vector<Asked> asked = std::move(group.asked);
  Error error = group.error;
  group.asked.clear();
  group.error = success;
  try {
    for (const Asked &one : asked)
      if (error == success || error == inProgress)
        if (Error now = issue(one); now != success)
          error = now;
  } catch (const Mistake &mistake) {
    failAll(asked, mistake.code, mistake.what());
    throw;
  }
  if (error != success && error != inProgress)
    failAll(asked, error, "a call of the group has failed");
  return error;
}

} // namespace

void beginGroup() { ++group.depth; }

Error endGroup() {
  if (group.depth == 0)
    throw Mistake(invalidUsage, "expected the end of a group, got no group");
  return --group.depth == 0 ? finish() : success;
}

void dropGroup(Error error, const std::string &why) {
  failAll(group.asked, error, why);
  group = {};
}

Error ask(const std::shared_ptr<Communicator> &comm, const Call &call,
          void *stream) {
  try {
    checkUse(*comm, call);
  } catch (const Mistake &mistake) {
    // The group's end says so again.
    if (group.depth > 0)
      group.error = mistake.code;
    throw;
  }
  Asked *mine = nullptr;
  for (Asked &one : group.asked)
    if (one.comm == comm)
      mine = &one;
  if (mine && mine->stream != stream)
    failUnmodelled("one communicator on two streams of a group");
  if (!mine)
    mine = &group.asked.emplace_back(Asked{comm, stream, {}});
  mine->calls.push_back(call);
  return group.depth == 0 ? finish() : success;
}

} // namespace fsdp::emulator::nccl
