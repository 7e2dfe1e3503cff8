//===- Types.h - Numbers and structures of NCCL -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_TYPES_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_TYPES_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace fsdp::emulator::nccl {

enum Error : int {
  success = 0,
  unhandledCudaError = 1,
  systemError = 2,
  internalError = 3,
  invalidArgument = 4,
  invalidUsage = 5,
  remoteError = 6,
  inProgress = 7,
};

enum Type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};
/// 0 of none that is modelled.
size_t sizeOfType(int type);
const char *nameOfType(int type);

constexpr int sum = 0;

struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t up to splitShare: what version 2.18 has of it.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCtas, maxCtas;
  const char *netName;
  int splitShare;
};
constexpr unsigned configMagic = 0xcafebeef;
constexpr int undefined = INT32_MIN;

enum class Kind : uint32_t {
  AllGather,
  ReduceScatter,
  AllReduce,
  Broadcast,
  Send,
  Recv,
  /// No call: a rank has come to a captured one.
  Meeting,
};
const char *nameOfKind(Kind kind);
inline bool isSum(Kind kind) {
  return kind == Kind::ReduceScatter || kind == Kind::AllReduce;
}
inline bool isPointToPoint(Kind kind) {
  return kind == Kind::Send || kind == Kind::Recv;
}

/// What a rank asks of a communicator.
struct Call {
  Kind kind;
  uint64_t src, dst;
  uint64_t count;
  int type, reduction;
  /// Of a broadcast its root, of a send or receive the other rank.
  int peer;

  size_t bytes() const { return count * sizeOfType(type); }
  size_t srcBytes(int ranks) const {
    if (kind == Kind::Recv)
      return 0;
    return bytes() * (kind == Kind::ReduceScatter ? size_t(ranks) : 1);
  }
  size_t dstBytes(int ranks) const {
    if (kind == Kind::Send)
      return 0;
    return bytes() * (kind == Kind::AllGather ? size_t(ranks) : 1);
  }
};

/// "all_gather of 12 float32".
std::string describe(const Call &call);

/// A mistake of the caller, or what another rank did.
class Mistake : public std::runtime_error {
public:
  Mistake(Error code, const std::string &message)
      : std::runtime_error(message), code(code) {}
  Error code;
};

/// Of stderr: a line that begins with "nccl: ".
void report(const std::string &message);
/// Ends the process: what is not modelled is named.
[[noreturn]] void failUnmodelled(const std::string &what);

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_TYPES_H
