//===- CudaAlgorithmsTest.cpp - Algorithms of products, and their bits ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The double of cuBLASLt proposes what FSDP_CUBLASLT_SPLITS says: sums in other
// parts have other bits, as those of the library's algorithms have.
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Backends.h"
#include "devices/cuda/driver/AlgorithmCache.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/blas/CudaProducts.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>

namespace fsdp::test {
namespace {

using rt::AlgorithmCache;
using rt::Status;

constexpr int64_t bAt = 16 << 10, cAt = 32 << 10, workspaceAt = 48 << 10,
                  arenaBytes = 256 << 10, size = 48;

fsdp_rt_matmul_desc square(int64_t workspaceBytes) {
  fsdp_rt_matmul_desc desc = {};
  desc.name = "product";
  desc.b = bAt;
  desc.c = cAt;
  desc.m = desc.n = desc.k = size;
  desc.lda = desc.ldb = desc.ldc = size;
  std::fill_n(desc.batch, 4, 1);
  desc.alpha = 1;
  desc.dtype = desc.c_dtype = FSDP_RT_F32;
  desc.workspace = workspaceAt;
  desc.workspace_bytes = workspaceBytes;
  return desc;
}

TestRankOptions options() {
  TestRankOptions wanted;
  wanted.arenaBytes = arenaBytes;
  return wanted;
}

struct Outcome {
  std::vector<float> result = std::vector<float>(size * size);
  std::vector<std::string> notes, remarks;
};

/// Of a rank whose library proposes sums of so many parts.
Status multiply(TestRank &rank, Outcome &outcome,
                int64_t workspaceBytes = arenaBytes - workspaceAt) {
  std::mt19937 random(7);
  std::normal_distribution<float> draw;
  std::vector<float> numbers(size * size);
  for (int64_t at : {int64_t(0), bAt}) {
    for (float &number : numbers)
      number = draw(random);
    if (Status s = put(rank, at, numbers))
      return s;
  }
  fsdp_rt_matmul_desc desc = square(workspaceBytes);
  if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
        return fsdp_rt_matmul(ctx, &desc);
      }))
    return s;
  outcome.notes = rank.executor().device().facts().notes;
  outcome.remarks = rank.executor().device().facts().remarks;
  return get(rank, cAt, outcome.result);
}

Outcome product(const char *splits) {
  setenv("FSDP_CUBLASLT_SPLITS", splits, 1);
  Outcome outcome;
  EXPECT_CUDA_OK(onCuda(
      options(), [&](TestRank &rank) { return multiply(rank, outcome); }));
  unsetenv("FSDP_CUBLASLT_SPLITS");
  return outcome;
}

/// Where the library proposes sums of 1 to 8 parts, of which only those of
/// @parts are fast.
Outcome fastestProduct(const char *parts, int64_t workspaceBytes) {
  setenv("FSDP_CUBLASLT_FASTEST", parts, 1);
  setenv("FSDP_TEST_ALGORITHMS", "fastest", 1);
  Outcome outcome;
  EXPECT_CUDA_OK(onCuda(options(), [&](TestRank &rank) {
    return multiply(rank, outcome, workspaceBytes);
  }));
  unsetenv("FSDP_CUBLASLT_FASTEST");
  unsetenv("FSDP_TEST_ALGORITHMS");
  return outcome;
}

class CudaAlgorithms : public testing::Test {
protected:
  void SetUp() override {
    directory = testing::TempDir() + "/fsdp-algorithms-" +
                testing::UnitTest::GetInstance()->current_test_info()->name() +
                std::to_string(getpid());
    std::filesystem::remove_all(directory);
    setenv("FSDP_CUDA_CACHE", directory.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory);
    setenv("FSDP_CUDA_CACHE", "none", 1);
  }
  std::string file() const {
    for (const auto &entry : std::filesystem::directory_iterator(directory))
      return entry.path();
    return "";
  }
  static std::string read(const std::string &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static void write(const std::string &path, const std::string &text) {
    std::ofstream(path, std::ios::trunc) << text;
  }

  std::string directory;
};

TEST_F(CudaAlgorithms, ARerunRepeatsItsBits) {
  Outcome first = product("3");
  EXPECT_TRUE(first.notes.empty());
  EXPECT_EQ(product("1").result, first.result);
  EXPECT_EQ(product("7").result, first.result);
  // Without the file, the library proposes another one.
  setenv("FSDP_CUDA_CACHE", "none", 1);
  EXPECT_NE(product("1").result, first.result);
  EXPECT_EQ(product("3").result, first.result);
}

TEST_F(CudaAlgorithms, TheFastestOfThoseThatAreProposed) {
  constexpr int64_t room = arenaBytes - workspaceAt;
  std::vector<float> one = product("1").result;
  setenv("FSDP_CUDA_CACHE", "none", 1);
  std::vector<float> three = product("3").result;
  setenv("FSDP_CUDA_CACHE", directory.c_str(), 1);
  ASSERT_NE(one, three);
  // The one that was proposed first, and kept, is not taken.
  Outcome measured = fastestProduct("3", room);
  EXPECT_EQ(measured.result, three);
  EXPECT_TRUE(measured.notes.empty());
  ASSERT_FALSE(measured.remarks.empty());
  EXPECT_HAS(
      measured.remarks.back(),
      "algorithms of products: the fastest of 8, measured for 1 kinds: ");
  // A rerun repeats its bits, without measuring.
  Outcome again = fastestProduct("1", room);
  EXPECT_EQ(again.result, three);
  for (const std::string &remark : again.remarks)
    EXPECT_EQ(remark.find("algorithms of products"), std::string::npos);
  EXPECT_EQ(product("1").result, one);
  // Three parts do not fit.
  std::filesystem::remove_all(directory);
  EXPECT_NE(fastestProduct("3", size * size * 4 * 2).result, three);
}

TEST_F(CudaAlgorithms, NoMemoryToMeasureIn) {
  setenv("FSDP_EMULATOR_MEMORY", "3145728", 1);
  auto context = openFirstDevice();
  ASSERT_TRUE(context.isOk());
  size_t free = 0, total = 0;
  ASSERT_EQ((*context)->api().memGetInfo(&free, &total), rt::cu::success);
  if (total != 3145728)
    GTEST_SKIP() << "another test of this process has opened the driver";
  Outcome outcome = fastestProduct("3", arenaBytes - workspaceAt);
  unsetenv("FSDP_EMULATOR_MEMORY");
  ASSERT_EQ(outcome.notes.size(), 1u);
  EXPECT_HAS(outcome.notes[0], "no algorithm was measured, the first one is "
                               "taken: ");
  EXPECT_HAS(outcome.notes[0], "trials of products");
  // What was not measured is not kept as the fastest.
  EXPECT_EQ(fastestProduct("3", arenaBytes - workspaceAt).notes, outcome.notes);
}

TEST_F(CudaAlgorithms, FilesThatAreDamaged) {
  Outcome first = product("3");
  std::string path = file(), good = read(path);
  ASSERT_GT(good.size(), 200u);
  auto flipped = [&](size_t at) {
    std::string text = good;
    text[at] ^= 1;
    return text;
  };
  for (const std::string &bad :
       {std::string(), good.substr(0, good.size() / 2), good + good, flipped(0),
        flipped(good.size() / 2), flipped(good.size() - 3)}) {
    write(path, bad);
    Outcome outcome = product("1");
    ASSERT_EQ(outcome.notes.size(), 1u);
    EXPECT_HAS(outcome.notes[0], path + ": expected algorithms of earlier "
                                        "runs, got a file that is damaged");
    EXPECT_NE(outcome.result, first.result);
    // It has been written anew, and no other file is left.
    EXPECT_TRUE(product("5").notes.empty());
    EXPECT_EQ(product("5").result, outcome.result);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory),
                            std::filesystem::directory_iterator()),
              1);
  }
}

TEST_F(CudaAlgorithms, AlgorithmsThatTheLibraryDoesNotTake) {
  Outcome first = product("3");
  std::string path = file();
  auto context = openFirstDevice();
  ASSERT_TRUE(context.isOk());
  // Its key is known, what it stands for is not.
  std::string text = read(path), key;
  size_t line = text.find("F32 ");
  ASSERT_NE(line, std::string::npos);
  key = text.substr(line, text.find('\n', line) - line);
  std::vector<std::string> notes;
  AlgorithmCache cache(directory, (*context)->name(), "13.0.0");
  cache.read(notes);
  ASSERT_NE(cache.find(key), nullptr);
  cache.keep(key, {{1, 2, 3, 4, 5, 6, 7, 8}});
  write(path, "");
  cache.write(notes);
  EXPECT_EQ(product("3").result, first.result);
  EXPECT_EQ(product("1").result, first.result);
}

TEST_F(CudaAlgorithms, DirectoriesThatCannotBeWritten) {
  write(directory, "a file");
  Outcome outcome = product("3");
  ASSERT_EQ(outcome.notes.size(), 1u);
  EXPECT_HAS(outcome.notes[0], ": cannot keep the algorithms of products for "
                               "later runs: ");
  EXPECT_HAS(outcome.notes[0], "FSDP_CUDA_CACHE names another directory");
}

TEST_F(CudaAlgorithms, KeepsWhatOthersHaveKept) {
  std::vector<std::string> notes;
  AlgorithmCache one(directory, "card", "1.2.3"),
      two(directory, "card", "1.2.3"), other(directory, "other", "1.2.3");
  for (AlgorithmCache *cache : {&one, &two, &other})
    cache->read(notes);
  one.keep("a b", {{1}});
  one.write(notes);
  two.keep("c", {{2}});
  two.write(notes);
  other.keep("c", {{3}});
  other.write(notes);
  AlgorithmCache all(directory, "card", "1.2.3");
  all.read(notes);
  ASSERT_NE(all.find("a b"), nullptr);
  ASSERT_NE(all.find("c"), nullptr);
  EXPECT_EQ(all.find("a b")->data[0], 1u);
  EXPECT_EQ(all.find("c")->data[0], 2u);
  EXPECT_TRUE(notes.empty());
}

TEST_F(CudaAlgorithms, Directories) {
  setenv("FSDP_CUDA_CACHE", "/here", 1);
  EXPECT_EQ(AlgorithmCache::directoryOfProcess(), "/here");
  setenv("FSDP_CUDA_CACHE", "none", 1);
  EXPECT_EQ(AlgorithmCache::directoryOfProcess(), "");
  unsetenv("FSDP_CUDA_CACHE");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(AlgorithmCache::directoryOfProcess(), "/caches/fsdp-mlir");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/user", 1);
  EXPECT_EQ(AlgorithmCache::directoryOfProcess(),
            "/home/user/.cache/fsdp-mlir");
  unsetenv("HOME");
  EXPECT_EQ(AlgorithmCache::directoryOfProcess(), "");
}

/// The library of every rank would propose another one.
TEST_F(CudaAlgorithms, RanksHaveThatOfTheFirst) {
  setenv("FSDP_CUBLASLT_SPLITS", "2,3,5,7", 1);
  setenv("FSDP_CUDA_CACHE", "none", 1);
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  EXPECT_CUDA_OK(runLocally(3, [&](rt::World &world) -> Status {
    auto rank = TestRank::create(world, options());
    if (!rank.isOk())
      return rank.status();
    Outcome outcome;
    if (Status s = multiply(**rank, outcome))
      return s;
    std::lock_guard<std::mutex> lock(mutex);
    results.push_back(outcome.result);
    return Status::ok();
  }));
  unsetenv("FSDP_CUBLASLT_SPLITS");
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  EXPECT_EQ(product("2").result, results[0]);
}

/// As many parts as the call's workspace has room for, whatever was kept for
/// calls with a larger one.
TEST_F(CudaAlgorithms, WorkspaceOfTheCall) {
  std::vector<float> two = product("2").result;
  Outcome without;
  setenv("FSDP_CUBLASLT_SPLITS", "2", 1);
  EXPECT_CUDA_OK(onCuda(options(), [&](TestRank &rank) {
    return multiply(rank, without, /*workspaceBytes=*/0);
  }));
  std::filesystem::remove_all(directory);
  std::vector<float> one = product("1").result;
  EXPECT_NE(one, two);
  EXPECT_EQ(without.result, one);
}

/// What takes the device's memory, and how much of it.
TEST_F(CudaAlgorithms, MemoryIsAccountedFor) {
  EXPECT_CUDA_OK(onCuda(options(), [&](TestRank &rank) -> Status {
    auto bytesOf = [&](const std::string &what) {
      for (const auto &part : rank.executor().device().facts().memory)
        if (part.what == what)
          return part.bytes;
      return int64_t(-1);
    };
    EXPECT_EQ(bytesOf("arena"), 2 << 20);
    EXPECT_EQ(bytesOf("graphs"), 0);
    Outcome outcome;
    if (Status s = multiply(rank, outcome))
      return s;
    EXPECT_EQ(bytesOf("code and libraries"), 0);
    // The product, and the mark after it.
    EXPECT_EQ(bytesOf("graphs"), 2048);
    EXPECT_EQ(bytesOf("context"), 0);
    EXPECT_EQ(rank.executor().device().facts().memoryBytes(), (2 << 20) + 2048);
    return Status::ok();
  }));
}

} // namespace
} // namespace fsdp::test
