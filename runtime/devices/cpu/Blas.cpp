//===- Blas.cpp - The matrix products of a step ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Blas.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <limits>
#include <memory>
#include <mutex>

namespace fsdp::rt {

namespace {

constexpr const char *openBlasFile = "libopenblas.so.0";
constexpr const char *oneDnnFile = "libdnnl.so.2";

/// A library that stays open until the process ends: the threads that it may
/// have started outlive any earlier close.
class Library {
public:
  Status open(const char *file) {
    file_ = file;
    handle_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle_)
      return Status::ok();
    const char *why = dlerror();
    return Status::failed(std::string("cannot open ") + (why ? why : file));
  }
  template <typename Fn>
  Status find(const char *name, Fn &function) {
    function = reinterpret_cast<Fn>(dlsym(handle_, name));
    if (function)
      return Status::ok();
    return Status::failed(std::string(file_) + ": expected a function " + name +
                          ", found none");
  }

private:
  const char *file_ = nullptr;
  void *handle_ = nullptr;
};

class OpenBlas final : public Blas {
public:
  static Result<std::unique_ptr<OpenBlas>> open() {
    auto blas = std::unique_ptr<OpenBlas>(new OpenBlas);
    Library library;
    void (*setThreads)(int) = nullptr;
    const char *(*config)() = nullptr;
    if (Status s = library.open(openBlasFile))
      return s;
    if (Status s = library.find("cblas_sgemm", blas->sgemm_))
      return s;
    if (Status s = library.find("cblas_dgemm", blas->dgemm_))
      return s;
    if (Status s = library.find("openblas_set_num_threads", setThreads))
      return s;
    if (Status s = library.find("openblas_get_config", config))
      return s;
    std::string text = config();
    if (text.find("USE64BITINT") != std::string::npos)
      return Status::failed(std::string(openBlasFile) +
                            ": expected a build with 32-bit integers, got one "
                            "with 64-bit integers");
    if (Status s = checkRoom())
      return s;
    setThreads(1);
    // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
    size_t end = text.find(' ', text.find(' ') + 1);
    blas->name_ = text.substr(0, end);
    return Result<std::unique_ptr<OpenBlas>>(std::move(blas));
  }

  const std::string &name() const override { return name_; }
  bool hasF64() const override { return true; }
  int64_t maxDimension() const override {
    return std::numeric_limits<int>::max();
  }
  bool gemm(const GemmShape &s, const float *a, const float *b,
            float *c) const override {
    sgemm_(rowMajor, transposed(s.transA), transposed(s.transB), int(s.m),
           int(s.n), int(s.k), static_cast<float>(s.alpha), a, int(s.lda), b,
           int(s.ldb), s.accumulate ? 1.0f : 0.0f, c, int(s.ldc));
    return true;
  }
  bool gemm(const GemmShape &s, const double *a, const double *b,
            double *c) const override {
    dgemm_(rowMajor, transposed(s.transA), transposed(s.transB), int(s.m),
           int(s.n), int(s.k), s.alpha, a, int(s.lda), b, int(s.ldb),
           s.accumulate ? 1.0 : 0.0, c, int(s.ldc));
    return true;
  }

private:
  OpenBlas() = default;

  /// A call that gets no memory for its buffer asks for it again, for ever.
  static Status checkRoom() {
    constexpr size_t buffer = size_t(130) << 20; // of the default build
    void *room = mmap(nullptr, buffer, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
      return Status::failed(std::string(openBlasFile) +
                            ": expected room for its buffer of 128 MiB, got "
                            "none (ulimit -v)");
    munmap(room, buffer);
    return Status::ok();
  }

  static constexpr int rowMajor = 101;
  static int transposed(bool trans) { return trans ? 112 : 111; }

  void (*sgemm_)(int, int, int, int, int, int, float, const float *, int,
                 const float *, int, float, float *, int) = nullptr;
  void (*dgemm_)(int, int, int, int, int, int, double, const double *, int,
                 const double *, int, double, double *, int) = nullptr;
  std::string name_;
};

class OneDnn final : public Blas {
public:
  static Result<std::unique_ptr<OneDnn>> open() {
    auto blas = std::unique_ptr<OneDnn>(new OneDnn);
    Library library;
    const Version *(*version)() = nullptr;
    if (Status s = library.open(oneDnnFile))
      return s;
    if (Status s = library.find("dnnl_sgemm", blas->sgemm_))
      return s;
    if (Status s = library.find("dnnl_version", version))
      return s;
    // Looked up in oneDNN's own dependencies: only a build on OpenMP can be
    // held to one thread.
    if (Status s = library.find("omp_set_num_threads", blas->setThreads_))
      return s.withContext("expected oneDNN on OpenMP");
    const Version &v = *version();
    blas->name_ = "oneDNN " + std::to_string(v.major) + "." +
                  std::to_string(v.minor) + "." + std::to_string(v.patch);
    return Result<std::unique_ptr<OneDnn>>(std::move(blas));
  }

  /// Serves float64 from `other`, which outlives this.
  void lendF64(const Blas *other) {
    f64_ = other;
    name_ += ", " + other->name() + " for F64";
  }

  const std::string &name() const override { return name_; }
  bool hasF64() const override { return f64_ != nullptr; }
  int64_t maxDimension() const override {
    return f64_ ? f64_->maxDimension() : std::numeric_limits<int>::max();
  }
  bool gemm(const GemmShape &s, const float *a, const float *b,
            float *c) const override {
    // The setting belongs to the calling thread; it costs one store.
    setThreads_(1);
    return sgemm_(s.transA ? 'T' : 'N', s.transB ? 'T' : 'N', s.m, s.n, s.k,
                  static_cast<float>(s.alpha), a, s.lda, b, s.ldb,
                  s.accumulate ? 1.0f : 0.0f, c, s.ldc) == 0;
  }
  bool gemm(const GemmShape &s, const double *a, const double *b,
            double *c) const override {
    return f64_->gemm(s, a, b, c);
  }

private:
  OneDnn() = default;

  struct Version {
    int major, minor, patch;
  };

  int (*sgemm_)(char, char, int64_t, int64_t, int64_t, float, const float *,
                int64_t, const float *, int64_t, float, float *,
                int64_t) = nullptr;
  void (*setThreads_)(int) = nullptr;
  const Blas *f64_ = nullptr;
  std::string name_;
};

/// What has been opened so far. Never destroyed: rank threads may still run
/// when static objects are.
struct Opened {
  std::mutex mutex;
  std::unique_ptr<OpenBlas> openBlas;
  std::unique_ptr<OneDnn> oneDnn;
  std::unique_ptr<OneDnn> oneDnnWithF64;
};

template <typename T>
Result<T *> openOnce(std::unique_ptr<T> &slot) {
  if (!slot) {
    Result<std::unique_ptr<T>> opened = T::open();
    if (!opened.isOk())
      return opened.status();
    slot = std::move(*opened);
  }
  return slot.get();
}

Result<const Blas *> openAuto(Opened &opened) {
  if (opened.oneDnnWithF64)
    return static_cast<const Blas *>(opened.oneDnnWithF64.get());
  Result<OpenBlas *> openBlas = openOnce(opened.openBlas);
  Result<std::unique_ptr<OneDnn>> oneDnn = OneDnn::open();
  if (!oneDnn.isOk()) {
    if (!openBlas.isOk())
      return Status::failed(
          "expected OpenBLAS or oneDNN: " + openBlas.status().message() + "; " +
          oneDnn.status().message());
    return static_cast<const Blas *>(*openBlas);
  }
  if (openBlas.isOk())
    (*oneDnn)->lendF64(*openBlas);
  opened.oneDnnWithF64 = std::move(*oneDnn);
  return static_cast<const Blas *>(opened.oneDnnWithF64.get());
}

} // namespace

Result<const Blas *> Blas::open(BlasKind kind) {
  static Opened &opened = *new Opened;
  std::lock_guard<std::mutex> lock(opened.mutex);
  switch (kind) {
  case BlasKind::Auto:
    return openAuto(opened);
  case BlasKind::OpenBlas: {
    Result<OpenBlas *> blas = openOnce(opened.openBlas);
    if (!blas.isOk())
      return blas.status();
    return static_cast<const Blas *>(*blas);
  }
  case BlasKind::OneDnn: {
    Result<OneDnn *> blas = openOnce(opened.oneDnn);
    if (!blas.isOk())
      return blas.status();
    return static_cast<const Blas *>(*blas);
  }
  }
  return Status::internal("expected a BLAS kind, got " +
                          std::to_string(static_cast<int>(kind)));
}

} // namespace fsdp::rt
