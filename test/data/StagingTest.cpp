//===- StagingTest.cpp - Elements to and from a rank's memory -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Staging.h"

#include "TestSupport.h"
#include "data/Initialize.h"
#include "devices/cpu/ArenaMemory.h"

#include <numeric>

using namespace fsdp::rt;
using namespace fsdp::rt::data;

namespace {

TEST(Staging, PiecesAreAllElementsOnceAndInOrder) {
  for (int64_t size : {1, 2, 8}) {
    int64_t piece = stagingBytes / size;
    for (int64_t count :
         {int64_t(0), int64_t(1), piece, piece + 1, 2 * piece + 3}) {
      std::vector<char> bytes(size_t(count * size + 2), '\x55');
      VectorMemory memory(bytes);
      int64_t seen = 0;
      ASSERT_OK(uploadElements({&memory, 1}, count, size,
                               [&](int64_t begin, int64_t now, char *buffer) {
                                 EXPECT_EQ(begin, seen);
                                 EXPECT_LE(now * size, stagingBytes);
                                 for (int64_t i = 0; i < now * size; ++i)
                                   buffer[i] = char(begin * size + i);
                                 seen += now;
                                 return Status::ok();
                               }));
      EXPECT_EQ(seen, count);
      EXPECT_EQ(bytes.front(), '\x55');
      EXPECT_EQ(bytes.back(), '\x55');
      seen = 0;
      ASSERT_OK(
          downloadElements({&memory, 1}, count, size,
                           [&](int64_t begin, int64_t now, const char *buffer) {
                             EXPECT_EQ(begin, seen);
                             for (int64_t i = 0; i < now * size; ++i)
                               EXPECT_EQ(buffer[i], char(begin * size + i));
                             seen += now;
                             return Status::ok();
                           }));
      EXPECT_EQ(seen, count);
    }
  }
}

TEST(Staging, EndsAtTheFirstFailure) {
  std::vector<char> bytes(size_t(3 * stagingBytes));
  VectorMemory memory(bytes);
  int calls = 0;
  Status status = uploadElements({&memory, 0}, 3 * stagingBytes, 1,
                                 [&](int64_t, int64_t, char *) -> Status {
                                   return ++calls == 2 ? Status::failed("no")
                                                       : Status::ok();
                                 });
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(calls, 2);
  // A memory that fails: the second piece does not lie in it.
  calls = 0;
  status = uploadElements({&memory, 2 * stagingBytes}, 3 * stagingBytes, 1,
                          [&](int64_t, int64_t, char *) {
                            ++calls;
                            return Status::ok();
                          });
  EXPECT_FALSE(status.isOk());
  EXPECT_EQ(calls, 2);
}

/// A memory of which nothing can be written.
class BrokenMemory final : public hal::Memory {
public:
  explicit BrokenMemory(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Status upload(int64_t, const void *, int64_t) override {
    return Status::failed("the device is gone");
  }
  Status download(int64_t, void *, int64_t) const override {
    return Status::failed("the device is gone");
  }

private:
  int64_t size_;
};

TEST(Staging, AMemoryThatFailsIsReportedByAllThreads) {
  Manifest manifest = parsed(
      makeManifest(1, 1, {{"a", "F32", {{"a.w", {3, 2}}, {"a.b", {1}}}}}));
  BrokenMemory device(manifest.arenaBytes), host(manifest.hostBytes);
  for (int threads : {1, 3}) {
    Status status =
        initializeFromSeed(manifest, 0, 7, threads, {&device, &host});
    EXPECT_EQ(status.message(), "the device is gone");
  }
}

TEST(ArenaMemory, HasItsBytesAndNoOthers) {
  Result<Arena> arena = Arena::map(4096, "arena");
  ASSERT_OK(arena.status());
  ArenaMemory memory(*arena);
  EXPECT_EQ(memory.size(), 4096);
  char in[3] = {1, 2, 3}, out[3] = {};
  ASSERT_OK(memory.upload(4093, in, 3));
  ASSERT_OK(memory.download(4093, out, 3));
  EXPECT_EQ(std::memcmp(in, out, 3), 0);
  ASSERT_OK(memory.upload(4096, nullptr, 0));
  for (auto [offset, bytes] :
       {std::pair<int64_t, int64_t>{4094, 3}, {-1, 1}, {0, -1}, {4097, 0}}) {
    EXPECT_EQ(memory.upload(offset, in, bytes).code(), Code::Internal);
    EXPECT_EQ(memory.download(offset, out, bytes).code(), Code::Internal);
  }
}

} // namespace
