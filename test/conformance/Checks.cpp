//===- Checks.cpp - One collective against its reference ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include <cstring>

namespace fsdp::test {

using rt::Dtype;
using rt::Status;
using rt::hal::HostChannel;

namespace {

constexpr int64_t guard = 64;
constexpr char untouched = 0x5a;

uint64_t seedOf(uint64_t seed, int rank) {
  return seed * 1000003 + static_cast<uint64_t>(rank);
}

std::vector<Bytes> sourcesOf(const HostChannel &group, Dtype dtype,
                             int64_t count, uint64_t seed) {
  std::vector<Bytes> sources;
  for (int rank = 0; rank < group.size(); ++rank)
    sources.push_back(randomElements(dtype, count, seedOf(seed, rank)));
  return sources;
}

/// A buffer between two strips of known bytes.
class Guarded {
public:
  explicit Guarded(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes + 2 * guard), untouched),
        size_(bytes) {}
  char *data() { return bytes_.data() + guard; }
  void fill(const Bytes &content, int64_t at) {
    if (!content.empty())
      std::memcpy(data() + at, content.data(), content.size());
  }
  Status compare(const std::string &what, int64_t at, const Bytes &expected) {
    bool isEqual = expected.empty() || std::memcmp(data() + at, expected.data(),
                                                   expected.size()) == 0;
    for (size_t i = 0; i < expected.size() && !isEqual; ++i)
      if (data()[at + int64_t(i)] != expected[i])
        return Status::failed(what + ": byte " + std::to_string(i) + " of " +
                              std::to_string(expected.size()) +
                              " differs from the reference");
    for (int64_t i = 0; i < guard; ++i)
      if (bytes_[static_cast<size_t>(i)] != untouched ||
          data()[size_ + i] != untouched)
        return Status::failed(what + ": wrote beyond the result");
    return Status::ok();
  }

private:
  Bytes bytes_;
  int64_t size_;
};

std::string describe(const char *kind, const HostChannel &group, Dtype dtype,
                     int64_t count, bool inPlace) {
  return std::string(kind) + " of " + std::to_string(count) + " " +
         nameOf(dtype) + (inPlace ? " in place" : "") + " on rank " +
         std::to_string(group.rank()) + " of " + std::to_string(group.size());
}

} // namespace

Status checkAllGather(HostChannel &group, int64_t bytes, bool inPlace,
                      uint64_t seed) {
  std::vector<Bytes> sources = sourcesOf(group, FSDP_RT_U8, bytes, seed);
  Guarded dst(bytes * group.size()), src(bytes);
  char *from = inPlace ? dst.data() + group.rank() * bytes : src.data();
  if (bytes > 0)
    std::memcpy(from, sources[group.rank()].data(), size_t(bytes));
  if (Status s = group.allGather(from, dst.data(), bytes))
    return s;
  // Whoever is late to copy must not see this.
  std::memset(src.data(), 0, size_t(bytes));
  std::string what = describe("all_gather", group, FSDP_RT_U8, bytes, inPlace);
  for (int rank = 0; rank < group.size(); ++rank)
    if (Status s = dst.compare(what, rank * bytes, sources[rank]))
      return s;
  return Status::ok();
}

Status checkReduceScatter(HostChannel &group, Dtype dtype, int64_t count,
                          int64_t divisor, bool inPlace, uint64_t seed) {
  std::vector<Bytes> sources =
      sourcesOf(group, dtype, count * group.size(), seed);
  int64_t bytes = count * sizeOf(dtype), own = group.rank() * bytes;
  Guarded src(bytes * group.size()), dst(bytes);
  src.fill(sources[group.rank()], 0);
  char *to = inPlace ? src.data() + own : dst.data();
  if (Status s = group.reduceScatter(src.data(), to, count, dtype, divisor))
    return s;
  Bytes expected =
      expectedSum(sources, group.rank() * count, count, dtype, divisor);
  std::string what = describe("reduce_scatter", group, dtype, count, inPlace);
  if (inPlace)
    return src.compare(what, own, expected);
  std::memset(src.data(), 0, size_t(bytes * group.size()));
  return dst.compare(what, 0, expected);
}

Status checkAllReduce(HostChannel &group, Dtype dtype, int64_t count,
                      int64_t divisor, bool inPlace, uint64_t seed) {
  std::vector<Bytes> sources = sourcesOf(group, dtype, count, seed);
  int64_t bytes = count * sizeOf(dtype);
  Guarded src(bytes), dst(bytes);
  Guarded &out = inPlace ? src : dst;
  src.fill(sources[group.rank()], 0);
  if (Status s = group.allReduce(src.data(), out.data(), count, dtype, divisor))
    return s;
  std::string what = describe("all_reduce", group, dtype, count, inPlace);
  Status result =
      out.compare(what, 0, expectedSum(sources, 0, count, dtype, divisor));
  // Whoever is late must not see this.
  std::memset(src.data(), 0, size_t(bytes));
  std::memset(dst.data(), 0, size_t(bytes));
  return result;
}

Status checkAllToAll(HostChannel &group, int64_t bytes, uint64_t seed) {
  int64_t whole = bytes * group.size();
  std::vector<Bytes> sources = sourcesOf(group, FSDP_RT_U8, whole, seed);
  Guarded src(whole), dst(whole);
  src.fill(sources[group.rank()], 0);
  if (Status s = group.allToAll(src.data(), dst.data(), bytes))
    return s;
  std::string what = describe("all_to_all", group, FSDP_RT_U8, bytes, false);
  // The source is what it was, until whoever is late must not see it.
  if (Status s = src.compare(what, 0, sources[group.rank()]))
    return s;
  std::memset(src.data(), 0, size_t(whole));
  for (int rank = 0; rank < group.size(); ++rank) {
    auto part = sources[rank].begin() + group.rank() * bytes;
    if (Status s = dst.compare(what, rank * bytes, Bytes(part, part + bytes)))
      return s;
  }
  return Status::ok();
}

Status checkBroadcast(HostChannel &group, int64_t bytes, int root, bool inPlace,
                      uint64_t seed) {
  Bytes content = randomElements(FSDP_RT_U8, bytes, seed);
  Guarded src(bytes), dst(bytes);
  Guarded &out = inPlace ? src : dst;
  if (group.rank() == root)
    src.fill(content, 0);
  if (Status s = group.broadcast(src.data(), out.data(), bytes, root))
    return s;
  std::string what = describe("broadcast", group, FSDP_RT_U8, bytes, inPlace);
  Status result = out.compare(what, 0, content);
  std::memset(src.data(), 0, size_t(bytes));
  return result;
}

Status checkRandom(HostChannel &group, Random &random) {
  const std::vector<fsdp_rt_dtype> &types = numberTypes();
  int64_t kind = random.below(6);
  bool isLarge = random.below(8) == 0;
  int64_t count = random.below(isLarge ? 20000 : 300);
  int64_t divisor = 1 + random.below(5);
  bool inPlace = random.below(2) == 0;
  fsdp_rt_dtype dtype = types[size_t(random.below(int64_t(types.size())))];
  int root = static_cast<int>(random.below(group.size()));
  uint64_t seed = random.next();
  // The reference of narrow types takes its time.
  if (isLarge)
    dtype = FSDP_RT_F32;
  switch (kind) {
  case 0:
    return checkAllGather(group, count, inPlace, seed);
  case 1:
    return checkReduceScatter(group, dtype, count, divisor, inPlace, seed);
  case 2:
    return checkAllReduce(group, dtype, count, divisor, inPlace, seed);
  case 3:
    return checkBroadcast(group, count, root, inPlace, seed);
  case 4:
    return checkAllToAll(group, count, seed);
  default:
    return group.barrier();
  }
}

} // namespace fsdp::test
