//===- Traffic.cpp - Bytes that a communicator's ranks send ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Traffic.h"

#include "Settings.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace fsdp::emulator::nccl {

namespace {

/// What a rank of a ring of `ranks` sends to the next one.
uint64_t getRingBytes(const Call &call, int rank, int ranks) {
  auto n = uint64_t(ranks);
  switch (call.kind) {
  case Kind::AllGather:
  case Kind::ReduceScatter:
    return (n - 1) * call.bytes();
  case Kind::AllReduce:
    return 2 * (n - 1) * ((call.count + n - 1) / n) * sizeOfType(call.type);
  case Kind::Broadcast:
    // The rank before the root has nobody to pass it on to.
    return (rank + 1) % ranks == call.peer ? 0 : call.bytes();
  case Kind::Send:
  case Kind::Recv:
  case Kind::Meeting:
    break;
  }
  return 0;
}

} // namespace

void Traffic::add(const Call &call, int rank,
                  const std::vector<bool> &isOnNode) {
  if (call.kind == Kind::Recv)
    return;
  bool isSend = call.kind == Kind::Send;
  int ranks = int(isOnNode.size());
  int to = isSend ? call.peer : (rank + 1) % ranks;
  uint64_t bytes = isSend ? call.bytes() : getRingBytes(call, rank, ranks);
  Count &count = counts_[nameOfKind(call.kind)];
  ++count.calls;
  (isOnNode[size_t(to)] ? count.within : count.between) += bytes;
}

void Traffic::write(const std::string &communicator, int rank,
                    int ranks) const {
  const std::string &path = Settings::get().trafficFile;
  if (path.empty())
    return;
  std::string line = "{\"communicator\": \"" + communicator +
                     "\", \"ranks\": " + std::to_string(ranks) +
                     ", \"rank\": " + std::to_string(rank) + ", \"sent\": {";
  const char *separator = "";
  for (const auto &[kind, count] : counts_) {
    line += separator + ("\"" + kind) +
            "\": {\"calls\": " + std::to_string(count.calls) +
            ", \"within\": " + std::to_string(count.within) +
            ", \"between\": " + std::to_string(count.between) + "}";
    separator = ", ";
  }
  line += "}}\n";
  // One call, so that lines of ranks do not mix.
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                  S_IRUSR | S_IWUSR);
  if (file < 0 ||
      ::write(file, line.data(), line.size()) != ssize_t(line.size()))
    report("cannot write '" + path + "': " + std::strerror(errno));
  if (file >= 0)
    close(file);
}

} // namespace fsdp::emulator::nccl
