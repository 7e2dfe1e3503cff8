//===- CudaOwnKernelsTest.cpp - Kernels of the runtime itself -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One after another on one stream. Each is a dependent launch: the emulated
// driver ends a kernel that accesses memory before it waits.
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Reference.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/driver/CudaWork.h"
#include "devices/cuda/kernels/OwnKernels.h"
#include "fsdp-rt/reductions.h"

#include <cstring>

namespace fsdp::test {
namespace {

using rt::Status;

constexpr int64_t arenaBytes = 4 << 20;
/// More than a block has.
constexpr int64_t ownKernelNumbers = rt::ownKernelBlock + 3;

class CudaOwnKernels : public testing::Test {
protected:
  void SetUp() override {
    auto context = openFirstDevice();
    ASSERT_TRUE(context.isOk()) << context.status().message();
    context_ = std::move(*context);
    auto copies = rt::CudaCopies::create(*context_);
    ASSERT_TRUE(copies.isOk()) << copies.status().message();
    copies_ = std::move(*copies);
    auto arena =
        rt::DeviceArena::map(*context_, *copies_, arenaBytes, "the test");
    ASSERT_TRUE(arena.isOk()) << arena.status().message();
    arena_ = std::move(*arena);
    images_ = std::make_unique<rt::CudaImages>(*context_);
    auto stream = rt::CudaStream::create(*context_);
    ASSERT_TRUE(stream.isOk()) << stream.status().message();
    stream_.emplace(std::move(*stream));
  }

  rt::cu::Pointer at(int64_t offset) const {
    return arena_->base() + static_cast<rt::cu::Pointer>(offset);
  }
  void upload(int64_t offset, const Bytes &bytes) {
    EXPECT_CUDA_OK(arena_->upload(offset, bytes.data(), int64_t(bytes.size())));
  }
  Bytes download(int64_t offset, int64_t size) {
    Bytes bytes(static_cast<size_t>(size));
    EXPECT_CUDA_OK(arena_->download(offset, bytes.data(), size));
    return bytes;
  }

  void run(const rt::OwnLaunch &launch) {
    EXPECT_CUDA_OK(copies_->finish());
    enqueue(rt::markLaunch(at(arenaBytes - 8)), /*early=*/false);
    enqueue(launch, /*early=*/true);
    EXPECT_CUDA_OK(
        context_->check(context_->api().streamSynchronize(stream_->get()),
                        "cuStreamSynchronize"));
  }
  void enqueue(const rt::OwnLaunch &launch, bool early) {
    auto kernel = images_->find(launch.kernel);
    ASSERT_TRUE(kernel.isOk()) << kernel.status().message();
    EXPECT_TRUE(kernel->waitsForGrid);
    auto parameters = std::make_shared<rt::LaunchParameters>(launch.parameters);
    rt::LaunchWork work(*context_, *kernel, parameters);
    EXPECT_CUDA_OK(early ? work.enqueueEarly(stream_->get())
                         : work.enqueue(stream_->get()));
  }

  struct Case {
    fsdp_rt_dtype dtype;
    int ranks, place;
    int64_t count, divisor;
    /// All operands lie so many elements behind an aligned place.
    int64_t shift;
    bool isInPlace;
  };
  void expectSum(const Case &wanted) {
    int64_t size = sizeOf(wanted.dtype), bytes = wanted.count * size;
    int64_t stride = rt::getReceivedStride(wanted.count, size);
    int64_t shift = wanted.shift * size;
    int64_t own = stride + shift, dst = wanted.isInPlace ? own : shift,
            others = 3 * stride + shift;
    std::vector<Bytes> sources;
    int64_t next = others;
    for (int rank = 0; rank < wanted.ranks; ++rank) {
      sources.push_back(randomElements(wanted.dtype, wanted.count,
                                       uint64_t(100 * wanted.ranks + rank)));
      upload(rank == wanted.place ? own : next, sources.back());
      next += rank == wanted.place ? 0 : stride;
    }
    ASSERT_LE(next, arenaBytes - 4);
    const Bytes guard(1, 0x5a);
    upload(dst + bytes, guard);
    run(rt::sumLaunch({wanted.dtype, at(own), at(dst), wanted.count,
                       wanted.divisor, at(others), stride, wanted.ranks,
                       wanted.place}));
    EXPECT_EQ(download(dst, bytes), expectedSum(sources, 0, wanted.count,
                                                wanted.dtype, wanted.divisor))
        << wanted.count << " " << nameOf(wanted.dtype) << " at " << wanted.shift
        << " of " << wanted.place << " among " << wanted.ranks << " ranks by "
        << wanted.divisor;
    EXPECT_EQ(download(dst + bytes, 1), guard);
    if (!wanted.isInPlace)
      EXPECT_EQ(download(own, bytes), sources[size_t(wanted.place)]);
  }

  uint64_t numberAt(int64_t offset) {
    uint64_t number = 0;
    std::memcpy(&number, download(offset, 8).data(), 8);
    return number;
  }

private:
  std::unique_ptr<rt::CudaContext> context_;
  std::unique_ptr<rt::CudaCopies> copies_;
  std::unique_ptr<rt::DeviceArena> arena_;
  std::unique_ptr<rt::CudaImages> images_;
  std::optional<rt::CudaStream> stream_;
};

/// Vectors and what is left of them; and, of an odd number of ranks, operands
/// that no vector fits.
TEST_F(CudaOwnKernels, SumsOfEachType) {
  for (fsdp_rt_dtype dtype : numberTypes())
    for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 33})
      expectSum({dtype, ranks, ranks * 5 / 7, 45, 1 + ranks % 3, ranks % 2,
                 ranks % 4 == 0});
}

TEST_F(CudaOwnKernels, SumsOfEachNumberOfRanks) {
  for (int ranks = 1; ranks <= 70; ++ranks)
    for (int place : {0, ranks / 2, ranks - 1})
      expectSum({FSDP_RT_F32, ranks, place, 9, 1, 0, false});
  for (int ranks : {127, 128, 129, 257, 1000})
    expectSum({FSDP_RT_BF16, ranks, ranks / 3, 11, ranks, 0, false});
}

/// Partial sums of several blocks, in which threads take vectors or elements.
TEST_F(CudaOwnKernels, SumsOfManyElements) {
  for (fsdp_rt_dtype dtype : {FSDP_RT_F32, FSDP_RT_F16, FSDP_RT_I8})
    for (int64_t count : {1031, 8191, 8192})
      expectSum({dtype, 11, 3, count, 2, 0, true});
}

TEST_F(CudaOwnKernels, SearchFindsTheFirstByte) {
  constexpr int64_t bytes = 1000, found = 4096;
  auto search = [&](const Bytes &buffer) {
    upload(0, buffer);
    upload(found, Bytes(8, char(0xff)));
    run(rt::searchLaunch(at(0), at(found), bytes));
    uint64_t number = 0;
    std::memcpy(&number, download(found, 8).data(), 8);
    return number;
  };
  Bytes buffer(bytes + 1, char(0xff));
  buffer[bytes] = 0;
  EXPECT_EQ(search(buffer), rt::untouched);
  buffer[bytes - 1] = 0;
  EXPECT_EQ(search(buffer), uint64_t(256 * (bytes - 1)));
  buffer[300] = 7;
  buffer[301] = 1;
  EXPECT_EQ(search(buffer), uint64_t(256 * 300 + 7));
}

/// As RunNumbers launches it.
rt::OwnLaunch beginRun(uint64_t run, rt::cu::Pointer current,
                       rt::cu::Pointer numbers, rt::cu::Pointer base,
                       uint64_t count) {
  return {rt::beginRunKernel(), {run, current, numbers, base, count}};
}

TEST_F(CudaOwnKernels, MarksAreTheirRun) {
  upload(64, Bytes(8, 0));
  for (uint64_t number : {uint64_t(1), uint64_t(2), uint64_t(1) << 40}) {
    run(beginRun(number, at(0), at(0), at(0), 0));
    run(rt::markLaunch(at(64)));
    for (int64_t place : {0, 64})
      EXPECT_EQ(numberAt(place), number);
  }
}

/// Every number of bytes, at places that are not aligned, and back.
TEST_F(CudaOwnKernels, NumbersOfARun) {
  constexpr int64_t base = 8192;
  std::vector<rt::PlacedNumber> numbers(ownKernelNumbers);
  Bytes expected(size_t(16 * ownKernelNumbers), char(0x55));
  for (int64_t i = 0; i < ownKernelNumbers; ++i) {
    rt::PlacedNumber &number = numbers[size_t(i)];
    number.offset = 16 * i + i % 5;
    number.bytes = 1 + i % 8;
    for (int64_t byte = 0; byte < 8; ++byte)
      number.value[byte] = char(i + 31 * byte);
    std::memcpy(expected.data() + number.offset, number.value,
                size_t(number.bytes));
  }
  auto bytesOf = [](const std::vector<rt::PlacedNumber> &of) {
    auto data = reinterpret_cast<const char *>(of.data());
    return Bytes(data, data + of.size() * sizeof(rt::PlacedNumber));
  };
  upload(16, bytesOf(numbers));
  upload(base, Bytes(expected.size(), char(0x55)));
  auto count = static_cast<uint64_t>(ownKernelNumbers);
  rt::OwnLaunch launch = beginRun(7, at(0), at(16), at(base), count);
  launch.kernel.grid = 2;
  run(launch);
  EXPECT_EQ(download(base, int64_t(expected.size())), expected);
  std::vector<rt::PlacedNumber> empty = numbers;
  for (rt::PlacedNumber &number : empty)
    std::memset(number.value, 0, 8);
  upload(16, bytesOf(empty));
  launch = {rt::endRunKernel(), {at(16), at(base), count}};
  launch.kernel.grid = 2;
  run(launch);
  for (rt::PlacedNumber &number : numbers)
    std::memset(number.value + number.bytes, 0, size_t(8 - number.bytes));
  EXPECT_EQ(download(16, int64_t(sizeof(rt::PlacedNumber)) * ownKernelNumbers),
            bytesOf(numbers));
}

/// The first run that failed is what is reported, whatever later ones find.
TEST_F(CudaOwnKernels, ReportsOfRuns) {
  constexpr int64_t flag = 64, found = 72, ofCheck = 128, ofSearch = 144;
  upload(ofCheck, Bytes(32, 0));
  auto runOnce = [&](uint64_t number, char byte, char touched) {
    run(beginRun(number, at(0), at(0), at(0), 0));
    upload(flag, Bytes(1, byte));
    Bytes what(8, char(0xff));
    if (touched)
      what.assign({touched, 3, 0, 0, 0, 0, 0, 0});
    upload(found, what);
    run(rt::checkLaunch(at(flag), at(ofCheck)));
    run(rt::reportTouchedLaunch(at(found), at(ofSearch)));
  };
  runOnce(1, 1, 0);
  EXPECT_EQ(download(ofCheck, 32), Bytes(32, 0));
  runOnce(2, 0, 0);
  EXPECT_EQ(numberAt(ofCheck), 2u);
  EXPECT_EQ(numberAt(ofSearch), 0u);
  runOnce(3, 2, 9);
  EXPECT_EQ(numberAt(ofCheck), 2u);
  EXPECT_EQ(numberAt(ofSearch), 3u);
  EXPECT_EQ(numberAt(ofSearch + 8), uint64_t(256 * 3 + 9));
  runOnce(4, 1, 0);
  runOnce(5, 1, 5);
  EXPECT_EQ(numberAt(ofCheck), 2u);
  EXPECT_EQ(numberAt(ofSearch), 3u);
  EXPECT_EQ(numberAt(ofSearch + 8), uint64_t(256 * 3 + 9));
}

} // namespace
} // namespace fsdp::test
