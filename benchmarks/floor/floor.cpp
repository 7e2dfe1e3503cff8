//===- floor.cpp - The least time that a step's parts can take ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   fsdp-floor PROFILE.json THREADS COPIES
//
// Reads what a compiled program wrote with --profile and runs the same matrix
// products, in the same order and on operands at the same places, by calling
// OpenBLAS and oneDNN directly, with nothing between them. Then measures the
// memory bandwidth (STREAM's triad). COPIES processes do the same at once, as
// the ranks of a step would. Prints one JSON object of the slowest copy.
//
//===----------------------------------------------------------------------===//

#include <cblas.h>
#include <dnnl.h>
#include <nlohmann/json.hpp>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

using Json = nlohmann::json;

namespace {

constexpr int repeats = 12;
constexpr size_t triadElements = size_t(16) << 20;
constexpr double never = std::numeric_limits<double>::infinity();

double seconds() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

struct Product {
  explicit Product(const Json &json)
      : a(json["a"]), b(json["b"]), c(json["c"]), m(json["m"]), n(json["n"]),
        k(json["k"]), lda(json["lda"]), ldb(json["ldb"]), ldc(json["ldc"]),
        alpha(json["alpha"]), transA(json["trans_a"]), transB(json["trans_b"]),
        accumulate(json["accumulate"]) {
    for (int d = 0; d < 4; ++d) {
      batch[d] = json["batch"][d];
      aStride[d] = json["a_stride"][d];
      bStride[d] = json["b_stride"][d];
      cStride[d] = json["c_stride"][d];
    }
  }
  int64_t items() const { return batch[0] * batch[1] * batch[2] * batch[3]; }

  int64_t a, b, c, m, n, k, lda, ldb, ldc;
  std::array<int64_t, 4> batch, aStride, bStride, cStride;
  float alpha;
  bool transA, transB, accumulate;
};

/// Threads of the OpenMP runtime that oneDNN brings, for the calling thread.
void setOneDnnThreads(int threads) {
  static auto set = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set)
    set(threads);
}

/// fn(from, to) for equal parts of [0, count) on that many threads.
template <typename Fn>
void parallel(int threads, int64_t count, Fn fn) {
  std::vector<std::thread> team;
  for (int t = 1; t < threads; ++t)
    team.emplace_back(
        [=] { fn(count * t / threads, count * (t + 1) / threads); });
  fn(0, count / threads);
  for (std::thread &thread : team)
    thread.join();
}

using Gemm = void (*)(const Product &, const float *, const float *, float *);

void openBlas(const Product &p, const float *a, const float *b, float *c) {
  cblas_sgemm(CblasRowMajor, p.transA ? CblasTrans : CblasNoTrans,
              p.transB ? CblasTrans : CblasNoTrans, p.m, p.n, p.k, p.alpha, a,
              p.lda, b, p.ldb, p.accumulate ? 1.f : 0.f, c, p.ldc);
}

void oneDnn(const Product &p, const float *a, const float *b, float *c) {
  dnnl_sgemm(p.transA ? 'T' : 'N', p.transB ? 'T' : 'N', p.m, p.n, p.k, p.alpha,
             a, p.lda, b, p.ldb, p.accumulate ? 1.f : 0.f, c, p.ldc);
}

/// Seconds for all items of the batch; over threads item by item or inside
/// the library, whichever `acrossItems` says.
double run(const Product &p, char *arena, Gemm gemm, int threads,
           bool acrossItems) {
  openblas_set_num_threads(acrossItems ? 1 : threads);
  setOneDnnThreads(threads);
  auto item = [&](int64_t index) {
    int64_t a = 0, b = 0, c = 0;
    for (int d = 3; d >= 0; --d) {
      int64_t i = index % p.batch[d];
      index /= p.batch[d];
      a += i * p.aStride[d];
      b += i * p.bStride[d];
      c += i * p.cStride[d];
    }
    gemm(p, reinterpret_cast<float *>(arena + p.a) + a,
         reinterpret_cast<float *>(arena + p.b) + b,
         reinterpret_cast<float *>(arena + p.c) + c);
  };
  double begin = seconds();
  if (acrossItems) {
    parallel(threads, p.items(), [&](int64_t from, int64_t to) {
      setOneDnnThreads(1);
      for (int64_t i = from; i < to; ++i)
        item(i);
    });
  } else {
    for (int64_t i = 0; i < p.items(); ++i)
      item(i);
  }
  return seconds() - begin;
}

/// Bytes per second of a[i] = b[i] + s * c[i].
double triad(int threads) {
  std::vector<float> a(triadElements), b(triadElements, 1.f),
      c(triadElements, 2.f);
  double best = never;
  for (int r = 0; r < repeats; ++r) {
    double begin = seconds();
    parallel(threads, triadElements, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i)
        a[i] = b[i] + 3.f * c[i];
    });
    best = std::min(best, seconds() - begin);
  }
  return 3.0 * triadElements * sizeof(float) / best;
}

/// What one copy found; shared between the processes.
struct Found {
  double openBlas, oneDnn, best, bandwidth;
};

Found measure(const Json &profile, int threads) {
  std::vector<Product> products;
  for (const Json &json : profile["products"])
    if (json["dtype"] == "F32")
      products.emplace_back(json);
  size_t bytes = profile["arena_bytes"];
  char *arena = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (arena == MAP_FAILED) {
    std::perror("error: mmap");
    std::exit(1);
  }
  madvise(arena, bytes, MADV_HUGEPAGE);
  for (size_t at = 0; at < bytes; at += 4096)
    arena[at] = 0;
  std::vector<double> blas(products.size(), never), dnn = blas;
  for (int r = 0; r < repeats; ++r)
    for (auto [gemm, best] : {std::pair(&openBlas, &blas),
                              std::pair(&oneDnn, &dnn)})
      for (bool acrossItems : {false, true})
        for (size_t i = 0; i < products.size(); ++i) {
          bool isBatch = products[i].items() > 1 && threads > 1;
          if (acrossItems && !isBatch)
            continue;
          double t = run(products[i], arena, gemm, threads, acrossItems);
          (*best)[i] = std::min((*best)[i], t);
        }
  munmap(arena, bytes);
  Found found = {};
  for (size_t i = 0; i < products.size(); ++i) {
    found.openBlas += blas[i];
    found.oneDnn += dnn[i];
    found.best += std::min(blas[i], dnn[i]);
  }
  found.bandwidth = triad(threads);
  return found;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s PROFILE.json THREADS COPIES\n", argv[0]);
    return 1;
  }
  std::ifstream file(argv[1]);
  Json profile = Json::parse(file, nullptr, false);
  int threads = std::atoi(argv[2]), copies = std::atoi(argv[3]);
  if (profile.is_discarded() || !profile.contains("products")) {
    std::fprintf(stderr, "error: %s: expected a profile, got something else\n",
                 argv[1]);
    return 1;
  }
  if (threads < 1 || copies < 1) {
    std::fprintf(stderr, "error: expected at least 1 thread and 1 copy\n");
    return 1;
  }
  auto *found = static_cast<Found *>(
      mmap(nullptr, copies * sizeof(Found), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (int i = 0; i < copies; ++i)
    if (fork() == 0) {
      found[i] = measure(profile, threads);
      _exit(0);
    }
  bool failed = false;
  for (int status; wait(&status) > 0;)
    failed |= status != 0;
  if (failed)
    return 1;
  Found worst = found[0];
  for (int i = 1; i < copies; ++i) {
    worst.openBlas = std::max(worst.openBlas, found[i].openBlas);
    worst.oneDnn = std::max(worst.oneDnn, found[i].oneDnn);
    worst.best = std::max(worst.best, found[i].best);
    worst.bandwidth = std::min(worst.bandwidth, found[i].bandwidth);
  }
  std::printf("%s\n", Json({{"openblas_ns", worst.openBlas * 1e9},
                            {"onednn_ns", worst.oneDnn * 1e9},
                            {"best_ns", worst.best * 1e9},
                            {"bytes_per_s", worst.bandwidth}})
                          .dump()
                          .c_str());
  return 0;
}
