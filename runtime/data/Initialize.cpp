//===- Initialize.cpp - A rank's state before the first step --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Initialize.h"

#include "data/Names.h"
#include "data/RandomFill.h"
#include "data/Sharding.h"
#include "data/Staging.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace fsdp::rt::data {

namespace {

/// Elements that one thread fills at a time.
constexpr int64_t taskElements = 1 << 16;

struct Task {
  const Initializer *init;
  const std::string *fqn;
  Dtype dtype;
  int64_t begin, count;
  hal::Location dst;
};

void addTasks(std::vector<Task> &tasks, Task whole) {
  for (int64_t done = 0; done < whole.count; done += taskElements) {
    Task task = whole;
    task.begin += done;
    task.count = std::min(taskElements, whole.count - done);
    task.dst = whole.dst + done * dtypeSize(whole.dtype);
    tasks.push_back(task);
  }
}

Status runTask(const Task &task, uint64_t seed) {
  return uploadElements(task.dst, task.count, dtypeSize(task.dtype),
                        [&](int64_t begin, int64_t count, char *buffer) {
                          fillInitial(*task.init, *task.fqn, seed, task.dtype,
                                      task.begin + begin, count, buffer);
                          return Status::ok();
                        });
}

/// Returns the first failure.
Status runTasks(const std::vector<Task> &tasks, uint64_t seed, int threads) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status failure;
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < tasks.size();)
      if (Status s = runTask(tasks[i], seed)) {
        std::lock_guard<std::mutex> lock(mutex);
        if (failure.isOk())
          failure = std::move(s);
        next = tasks.size();
        return;
      }
  };
  std::vector<std::thread> helpers;
  // Helpers only shorten the wait: where the system grants no more threads,
  // fewer do the same.
  try {
    for (size_t i = 1; i < std::min<size_t>(threads, tasks.size()); ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error &) {
  }
  work();
  for (std::thread &helper : helpers)
    helper.join();
  return failure;
}

void fillElements(Dtype dtype, double value, int64_t count, char *dst) {
  char element[8];
  int64_t size = dtypeSize(dtype);
  storeNumber(dtype, value, element);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(dst + i * size, element, size);
}

} // namespace

void fillInitial(const Initializer &init, const std::string &fqn, uint64_t seed,
                 Dtype dtype, int64_t begin, int64_t count, char *dst) {
  using Kind = Initializer::Kind;
  RandomStream stream(seed, stableHash(fqn));
  int64_t size = dtypeSize(dtype);
  switch (init.kind) {
  case Kind::None:
    return;
  case Kind::Constant:
    return fillElements(dtype, init.value, count, dst);
  case Kind::Normal:
    return fillNormal(stream, init.mean, init.std, dtype, begin, count, dst);
  case Kind::Uniform:
    return fillUniform(stream, init.low, init.high, dtype, begin, count, dst);
  case Kind::TruncatedNormal:
    return fillTruncatedNormal(stream, init.mean, init.std, init.low, init.high,
                               dtype, begin, count, dst);
  case Kind::Values:
    std::memcpy(dst, init.values.data() + begin * size, count * size);
    return;
  }
}

Status drawTensors(const Manifest &manifest, int rank, uint64_t seed,
                   int threads, const StateMemory &memory,
                   const std::function<bool(const std::string &)> &isWanted) {
  std::vector<std::string> missing;
  auto require = [&](const Initializer &init, const std::string &fqn) {
    if (init.kind == Initializer::Kind::None && isWanted(fqn))
      missing.push_back(fqn);
  };
  for (const FlatParam &flat : manifest.flatParams)
    for (const Member &member : flat.members)
      require(member.init, member.fqn);
  for (const Buffer &buffer : manifest.buffers)
    require(buffer.init, buffer.fqn);
  if (!missing.empty())
    return Status::failed("expected an initialiser for every tensor, got none "
                          "for " +
                          listNames(missing) + ": --params gives them");

  std::vector<Task> tasks;
  for (const FlatParam &flat : manifest.flatParams)
    for (const Piece &piece :
         piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes))) {
      const Member &member = flat.members[piece.member];
      if (isWanted(member.fqn))
        addTasks(tasks,
                 {&member.init, &member.fqn, flat.dtype, piece.memberBegin,
                  piece.count,
                  memory.at(flat) + piece.shardBegin * dtypeSize(flat.dtype)});
    }
  for (const Buffer &buffer : manifest.buffers)
    if (isWanted(buffer.fqn))
      addTasks(tasks, {&buffer.init, &buffer.fqn, buffer.dtype, 0, buffer.numel,
                       memory.at(buffer)});
  return runTasks(tasks, seed, threads);
}

Status initializeFromSeed(const Manifest &manifest, int rank, uint64_t seed,
                          int threads, const StateMemory &memory,
                          const std::set<std::string> &others) {
  if (Status s = drawTensors(
          manifest, rank, seed, threads, memory,
          [&](const std::string &name) { return others.count(name) == 0; }))
    return s;
  for (const FlatParam &flat : manifest.flatParams)
    if (Status s = clearPadding(
            flat, piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes)),
            memory.at(flat)))
      return s;
  return initializeStates(manifest, memory);
}

Status initializeStates(const Manifest &manifest, const StateMemory &memory) {
  for (const FlatParam &flat : manifest.flatParams)
    for (const OptimizerState &state : flat.states)
      if (Status s = uploadElements(
              memory.at(state), state.scalar ? 1 : flat.shardNumel,
              dtypeSize(state.dtype),
              [&](int64_t, int64_t count, char *buffer) {
                fillElements(state.dtype, state.init, count, buffer);
                return Status::ok();
              }))
        return s;
  for (const Residual &residual : manifest.residuals)
    if (Status s = uploadElements(
            memory.at(residual), residual.numel, dtypeSize(residual.dtype),
            [&](int64_t begin, int64_t count, char *buffer) {
              fillInitial(residual.init, residual.name, /*seed=*/0,
                          residual.dtype, begin, count, buffer);
              return Status::ok();
            }))
      return s;
  return Status::ok();
}

} // namespace fsdp::rt::data
