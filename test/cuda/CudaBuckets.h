//===- CudaBuckets.h - Collectives of ranks with CUDA devices ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_CUDABUCKETS_H
#define FSDP_TEST_CUDA_CUDABUCKETS_H

#include "CudaTest.h"

#include "Backends.h"
#include "Reference.h"
#include "fsdp-rt/reductions.h"

namespace fsdp::test {

/// What a collective reads and writes, in elements.
struct Shape {
  int64_t src, dst;
};
inline Shape shapeOf(int32_t kind, int64_t count, int64_t ranks) {
  rt::CollectiveShape shape = rt::shapeOf(kind);
  return {count * shape.srcParts(ranks), count * shape.dstParts(ranks)};
}

/// What comes to `place`.
inline Bytes expectedOf(int32_t kind, const std::vector<Bytes> &sources,
                        int place, int64_t count, fsdp_rt_dtype dtype,
                        int64_t divisor) {
  int64_t bytes = count * sizeOf(dtype);
  Bytes all;
  switch (kind) {
  case FSDP_RT_REDUCE_SCATTER:
    return expectedSum(sources, place * count, count, dtype, divisor);
  case FSDP_RT_ALL_REDUCE:
    return expectedSum(sources, 0, count, dtype, divisor);
  case FSDP_RT_ALL_GATHER:
    for (const Bytes &source : sources)
      all.insert(all.end(), source.begin(), source.end());
    return all;
  case FSDP_RT_ALL_TO_ALL:
    for (const Bytes &source : sources)
      all.insert(all.end(), source.begin() + place * bytes,
                 source.begin() + (place + 1) * bytes);
    return all;
  }
  return all;
}

constexpr int64_t partBytes = 1 << 19;

/// Parts of random elements that are issued together, the first of `count`
/// elements, others of fewer.
class Bucket {
public:
  Bucket(int32_t kind, fsdp_rt_dtype dtype, int64_t count, int64_t divisor,
         bool inPlace)
      : kind_(kind), dtype_(dtype) {
    for (int64_t part = 0; part < numParts; ++part) {
      fsdp_rt_collective_desc desc = {};
      desc.name = "part";
      desc.src = 2 * part * partBytes;
      desc.dst = inPlace ? desc.src : desc.src + partBytes;
      desc.count = part == 0 ? count : count / (part + 1);
      desc.divisor = divisor;
      desc.dtype = dtype;
      parts_.push_back(desc);
    }
    for (const fsdp_rt_collective_desc &part : parts_)
      pointers_.push_back(&part);
    start_ = {"transfer", pointers_.data(), numParts, nullptr, 0, -1, kind,
              0,          nullptr};
  }
  static constexpr int64_t numParts = 3;

  rt::Status run(TestRank &rank) {
    int n = rank.world().size(), me = rank.world().rank();
    for (int64_t part = 0; part < numParts; ++part) {
      Bytes mine = source(part, me, n);
      if (rt::Status s = rank.memory().upload(
              parts_[size_t(part)].src, mine.data(), int64_t(mine.size())))
        return s;
    }
    if (rt::Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_start(ctx, &start_);
        }))
      return s;
    for (int64_t part = 0; part < numParts; ++part)
      if (rt::Status s = compare(rank, part))
        return s;
    return rt::Status::ok();
  }

private:
  Bytes source(int64_t part, int rank, int n) const {
    return randomElements(
        dtype_, shapeOf(kind_, parts_[size_t(part)].count, n).src,
        uint64_t(1000 * part + 10 * kind_ + rank + 77 * dtype_));
  }

  rt::Status compare(TestRank &rank, int64_t part) const {
    int n = rank.world().size(), me = rank.world().rank();
    const fsdp_rt_collective_desc &desc = parts_[size_t(part)];
    std::vector<Bytes> sources;
    for (int other = 0; other < n; ++other)
      sources.push_back(source(part, other, n));
    Bytes want =
        expectedOf(kind_, sources, me, desc.count, dtype_, desc.divisor);
    Bytes got(want.size());
    if (rt::Status s =
            rank.memory().download(desc.dst, got.data(), int64_t(got.size())))
      return s;
    if (got != want)
      return rt::Status::failed(std::string(rt::transferName(kind_)) + " of " +
                                std::to_string(desc.count) + " " +
                                nameOf(dtype_) + " among " + std::to_string(n) +
                                " ranks: other bits than the reference's");
    // The sources are as they were.
    Bytes before = source(part, me, n), after(before.size());
    if (desc.dst == desc.src)
      return rt::Status::ok();
    if (rt::Status s = rank.memory().download(desc.src, after.data(),
                                              int64_t(after.size())))
      return s;
    return before == after ? rt::Status::ok()
                           : rt::Status::failed("the source was overwritten");
  }

  int32_t kind_;
  fsdp_rt_dtype dtype_;
  std::vector<fsdp_rt_collective_desc> parts_;
  std::vector<const fsdp_rt_collective_desc *> pointers_;
  fsdp_rt_start_desc start_;
};

inline TestRankOptions options(const rt::World &world) {
  TestRankOptions wanted;
  wanted.arenaBytes = 2 * Bucket::numParts * partBytes;
  wanted.groups = {allRanks(world)};
  return wanted;
}

inline rt::Status onRanks(int ranks,
                          const std::function<rt::Status(TestRank &)> &body,
                          rt::Reduction reduction = rt::Reduction::Exact) {
  return runLocally(ranks, [&](rt::World &world) -> rt::Status {
    testReduction = reduction;
    auto rank = TestRank::create(world, options(world));
    return rank.isOk() ? body(**rank) : rank.status();
  });
}

inline rt::Status compareWithReference(TestRank &rank,
                                       std::vector<int32_t> kinds,
                                       std::vector<int64_t> counts) {
  for (fsdp_rt_dtype dtype : numberTypes())
    for (int32_t kind : kinds)
      for (int64_t count : counts) {
        bool inPlace = kind == FSDP_RT_ALL_REDUCE && count % 2 == 1;
        for (int64_t divisor : {1, 3})
          if (rt::Status s =
                  Bucket(kind, dtype, count, divisor, inPlace).run(rank))
            return s;
      }
  return rt::Status::ok();
}

/// Of so many bytes that each rank adds up a part, in the bucket's smallest
/// part, too.
inline rt::Status reduceLongBuckets(TestRank &rank) {
  for (fsdp_rt_dtype dtype : {FSDP_RT_F32, FSDP_RT_BF16, FSDP_RT_U8}) {
    int64_t least = (int64_t(32) << 10) / sizeOf(dtype) + 1;
    int64_t count = Bucket::numParts * least + 16;
    EXPECT_FALSE(rt::planAllReduce(count / Bucket::numParts,
                                   {sizeOf(dtype), sizeOf(dtype)},
                                   {rank.world().size(), 1})
                     .isDirect);
    for (bool inPlace : {false, true})
      if (rt::Status s =
              Bucket(FSDP_RT_ALL_REDUCE, dtype, count, 2, inPlace).run(rank))
        return s;
  }
  return rt::Status::ok();
}

} // namespace fsdp::test

#endif // FSDP_TEST_CUDA_CUDABUCKETS_H
