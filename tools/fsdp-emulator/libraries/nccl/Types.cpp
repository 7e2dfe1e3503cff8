//===- Types.cpp - Numbers and structures of NCCL -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Types.h"

#include <cstdio>
#include <cstdlib>

namespace fsdp::emulator::nccl {

size_t sizeOfType(int type) {
  switch (type) {
  case int8:
  case uint8:
    return 1;
  case float16:
  case bfloat16:
    return 2;
  case int32:
  case uint32:
  case float32:
    return 4;
  case int64:
  case uint64:
  case float64:
    return 8;
  }
  return 0;
}

const char *nameOfType(int type) {
  constexpr const char *names[] = {"int8",    "uint8",   "int32",   "uint32",
                                   "int64",   "uint64",  "float16", "float32",
                                   "float64", "bfloat16"};
  return sizeOfType(type) ? names[type] : "no type";
}

const char *nameOfKind(Kind kind) {
  switch (kind) {
  case Kind::AllGather:
    return "all_gather";
  case Kind::ReduceScatter:
    return "reduce_scatter";
  case Kind::AllReduce:
    return "all_reduce";
  case Kind::Broadcast:
    return "broadcast";
  case Kind::Send:
    return "send";
  case Kind::Recv:
    return "receive";
  case Kind::Meeting:
    break;
  }
  return "no call";
}

std::string describe(const Call &call) {
  std::string text = std::string(nameOfKind(call.kind)) + " of " +
                     std::to_string(call.count) + " " + nameOfType(call.type);
  if (call.kind == Kind::Broadcast)
    text += " from rank " + std::to_string(call.peer);
  if (call.kind == Kind::Send)
    text += " to rank " + std::to_string(call.peer);
  if (call.kind == Kind::Recv)
    text += " from rank " + std::to_string(call.peer);
  return text;
}

void report(const std::string &message) {
  std::fprintf(stderr, "nccl: %s\n", message.c_str());
  std::fflush(stderr);
}

void failUnmodelled(const std::string &what) {
  report("expected what the double models, got " + what);
  // EX_SOFTWARE of sysexits.h.
  std::_Exit(70);
}

} // namespace fsdp::emulator::nccl
