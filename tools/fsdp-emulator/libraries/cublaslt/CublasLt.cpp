//===- CublasLt.cpp - A double of libcublasLt.so.13 -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Multiplies on the emulated driver's memory, as work of the stream, and from
// descriptors alone: matrices lie in columns, as the library has them. Refuses
// what the library refuses: types that do not go together, shapes that do not
// fit, leading dimensions that are too small, an algorithm that was chosen for
// other descriptors, operands that are less aligned than was said when it was
// chosen, biases at no multiple of 16 bytes or in double precision, and a
// workspace that is too small. What is launched first loads its code, which a
// capture that is not relaxed refuses.
//
// FSDP_CUBLASLT_SPLITS=N,.. cuts sums into N parts, as far as the workspace
// that may be used has room for them: other algorithms, and other bits. Each
// choice takes the next number, and the last one for ever.
//
// FSDP_CUBLASLT_FASTEST=N: proposes as many algorithms as are asked for. The
// first cuts sums into 1 part, the next into 2, and so on; all but the one with
// N parts take 5 ms longer. FSDP_CUBLASLT_VERSION=12: has no batches whose
// matrices arrays of addresses name.
//
//===----------------------------------------------------------------------===//

#include "Multiply.h"
#include "libraries/EmulatedDriver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

using namespace fsdp::emulator;
using namespace fsdp::emulator::lt;

namespace {

/// What an algorithm remembers of the descriptors that it was chosen for.
struct Choice {
  uint64_t mark;
  uint64_t shapes;
  uint32_t alignment[4]; // of A, B, C, D
  uint64_t splits, workspaceBytes;
  uint64_t unused[2];
};
static_assert(sizeof(Choice) == 64, "of cublasLtMatmulAlgo_t");

constexpr uint64_t mark = 0x6c74416c676f7269;

struct Preference {
  uint64_t workspaceBytes = 0;
  uint32_t reductions = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

struct Heuristic {
  Choice choice;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

uint64_t hashOf(const Product &product) {
  uint64_t hash = 1469598103934665603u;
  auto add = [&](int64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      hash = (hash ^ ((uint64_t(value) >> shift) & 255)) * 1099511628211u;
  };
  add(product.operation.compute);
  add(product.operation.scale);
  add(product.operation.transA);
  add(product.operation.transB);
  add(product.operation.epilogue);
  add(product.operation.biasType);
  add(product.operation.multiprocessors);
  for (const Matrix *m : {&product.a, &product.b, &product.c, &product.d})
    for (int64_t value : {int64_t(m->type), m->rows, m->columns, m->ld,
                          int64_t(m->batch), m->stride, int64_t(m->mode)})
      add(value);
  return hash;
}

/// A value of an attribute, whose size must be the library's.
template <typename T>
int take(T &value, const void *from, size_t bytes) {
  if (!from || bytes != sizeof(T))
    return invalidValue;
  std::memcpy(&value, from, sizeof(T));
  return success;
}

/// Of the next choice since the variable has its value.
uint64_t wantedSplits() {
  static std::mutex mutex;
  static std::string value;
  static int choices = 0;
  std::lock_guard<std::mutex> lock(mutex);
  const char *text = std::getenv("FSDP_CUBLASLT_SPLITS");
  if (value != (text ? text : "")) {
    value = text ? text : "";
    choices = 0;
  }
  uint64_t splits = 1;
  for (int i = choices++; text && *text && i >= 0; --i) {
    char *end = nullptr;
    splits = std::max<uint64_t>(1, std::strtoull(text, &end, 10));
    text = *end ? end + 1 : end;
  }
  return splits;
}

/// The parts of the algorithm that is not slow; 0: all are equally fast.
uint64_t fastestSplits() {
  const char *text = std::getenv("FSDP_CUBLASLT_FASTEST");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

/// FSDP_CUBLASLT_VERSION=12: without pointer arrays.
bool isOfVersion13() {
  const char *text = std::getenv("FSDP_CUBLASLT_VERSION");
  return !text || std::strcmp(text, "12") != 0;
}

/// For the parts of sums, where there are several.
uint64_t workspaceFor(const Product &product, uint64_t splits) {
  if (splits <= 1)
    return 0;
  return splits * uint64_t(product.d.rows * product.d.columns) *
         uint64_t(product.d.batch) *
         uint64_t(sizeOfType(product.operation.scale));
}

/// Whether an algorithm was chosen for these descriptors.
bool isOf(const Choice *choice, const Product &product) {
  return choice && choice->mark == mark && choice->shapes == hashOf(product) &&
         choice->splits >= 1;
}

bool isAligned(const Matrix &matrix, uint32_t bytes) {
  for (uint64_t address : matrix.addresses)
    if (address % bytes != 0)
      return false;
  return matrix.address % bytes == 0;
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

API int cublasLtCreate(void **handle) {
  if (!EmulatedDriver::get())
    return notInitialized;
  *handle = new int(0);
  return success;
}
API int cublasLtDestroy(void *handle) {
  delete static_cast<int *>(handle);
  return success;
}
API size_t cublasLtGetVersion() { return isOfVersion13() ? 130000 : 120900; }
API const char *cublasLtGetStatusName(int status) {
  switch (status) {
  case success:
    return "CUBLAS_STATUS_SUCCESS";
  case notInitialized:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case invalidValue:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case notSupported:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_EXECUTION_FAILED";
}
API const char *cublasLtGetStatusString(int status) {
  switch (status) {
  case notInitialized:
    return "the emulated driver is not loaded";
  case invalidValue:
    return "an unsupported value or parameter was passed to the function";
  case notSupported:
    return "the functionality requested is not supported";
  }
  return "the function failed to launch on the device";
}

API int cublasLtMatmulDescCreate(void **made, int compute, int scale) {
  auto *operation = new Operation;
  operation->compute = compute;
  operation->scale = scale;
  *made = operation;
  return success;
}
API int cublasLtMatmulDescDestroy(void *operation) {
  delete static_cast<Operation *>(operation);
  return success;
}
API int cublasLtMatmulDescSetAttribute(void *desc, int attribute,
                                       const void *value, size_t bytes) {
  auto &operation = *static_cast<Operation *>(desc);
  if (attribute == 7)
    return take(operation.epilogue, value, bytes);
  if (attribute == 8)
    return take(operation.bias, value, bytes);
  if (attribute == 15) {
    int status = take(operation.multiprocessors, value, bytes);
    return operation.multiprocessors < 0 ? invalidValue : status;
  }
  if (attribute == 26)
    return take(operation.biasType, value, bytes);
  int32_t &field = attribute == 3 ? operation.transA : operation.transB;
  if (attribute != 3 && attribute != 4)
    return notSupported;
  if (int status = take(field, value, bytes))
    return status;
  return field == 0 || field == 1 ? success : invalidValue;
}

API int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows,
                                   uint64_t columns, int64_t ld) {
  if (sizeOfType(type) == 0)
    return invalidValue;
  auto *matrix = new Matrix;
  matrix->type = type;
  matrix->rows = int64_t(rows);
  matrix->columns = int64_t(columns);
  matrix->ld = ld;
  *made = matrix;
  return success;
}
API int cublasLtMatrixLayoutDestroy(void *matrix) {
  delete static_cast<Matrix *>(matrix);
  return success;
}
API int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute,
                                         const void *value, size_t bytes) {
  auto &matrix = *static_cast<Matrix *>(layout);
  if (attribute == 5)
    return take(matrix.batch, value, bytes);
  if (attribute == 6)
    return take(matrix.stride, value, bytes);
  if (attribute == 8 && isOfVersion13())
    return take(matrix.mode, value, bytes);
  return notSupported;
}

API int cublasLtMatmulPreferenceCreate(void **made) {
  *made = new Preference;
  return success;
}
API int cublasLtMatmulPreferenceDestroy(void *preference) {
  delete static_cast<Preference *>(preference);
  return success;
}
API int cublasLtMatmulPreferenceSetAttribute(void *desc, int attribute,
                                             const void *value, size_t bytes) {
  auto &preference = *static_cast<Preference *>(desc);
  if (attribute == 1)
    return take(preference.workspaceBytes, value, bytes);
  if (attribute == 3)
    return take(preference.reductions, value, bytes);
  if (attribute >= 5 && attribute <= 8)
    return take(preference.alignment[attribute - 5], value, bytes);
  return notSupported;
}

API int cublasLtMatmulAlgoGetHeuristic(void *, void *operation, void *a,
                                       void *b, void *c, void *d,
                                       void *preference, int wanted,
                                       Heuristic *found, int *count) {
  *count = 0;
  if (!operation || !a || !b || !c || !d || !preference || wanted < 1)
    return invalidValue;
  Product product = {*static_cast<Operation *>(operation),
                     *static_cast<Matrix *>(a), *static_cast<Matrix *>(b),
                     *static_cast<Matrix *>(c), *static_cast<Matrix *>(d)};
  if (int status = checkProduct(product))
    return status;
  auto &wishes = *static_cast<Preference *>(preference);
  auto propose = [&](uint64_t splits) {
    Heuristic &proposal = found[(*count)++];
    proposal = {};
    proposal.choice.mark = mark;
    proposal.choice.shapes = hashOf(product);
    std::memcpy(proposal.choice.alignment, wishes.alignment,
                sizeof(proposal.choice.alignment));
    proposal.choice.splits = splits;
    proposal.choice.workspaceBytes = workspaceFor(product, splits);
    proposal.workspaceBytes = proposal.choice.workspaceBytes;
  };
  auto fits = [&](uint64_t splits) {
    return splits <= 1 ||
           workspaceFor(product, splits) <= wishes.workspaceBytes;
  };
  if (fastestSplits() > 0) {
    for (int splits = 1; splits <= wanted && fits(uint64_t(splits)); ++splits)
      propose(uint64_t(splits));
    return success;
  }
  uint64_t splits = wantedSplits();
  while (!fits(splits))
    --splits;
  propose(splits);
  return success;
}

API int cublasLtMatmulAlgoCheck(void *, void *operation, void *a, void *b,
                                void *c, void *d, const Choice *choice,
                                Heuristic *result) {
  if (!operation || !a || !b || !c || !d || !result)
    return invalidValue;
  Product product = {*static_cast<Operation *>(operation),
                     *static_cast<Matrix *>(a), *static_cast<Matrix *>(b),
                     *static_cast<Matrix *>(c), *static_cast<Matrix *>(d)};
  if (int status = checkProduct(product))
    return status;
  if (!isOf(choice, product))
    return invalidValue;
  *result = {};
  result->workspaceBytes = choice->workspaceBytes;
  return success;
}

API int cublasLtMatmul(void *handle, void *operation, const void *alpha,
                       const void *a, void *aMatrix, const void *b,
                       void *bMatrix, const void *beta, const void *c,
                       void *cMatrix, void *d, void *dMatrix,
                       const Choice *choice, void *workspace,
                       size_t workspaceBytes, void *stream) {
  if (!handle || !operation || !alpha || !beta || !aMatrix || !bMatrix ||
      !cMatrix || !dMatrix)
    return invalidValue;
  Product product = {
      *static_cast<Operation *>(operation), *static_cast<Matrix *>(aMatrix),
      *static_cast<Matrix *>(bMatrix), *static_cast<Matrix *>(cMatrix),
      *static_cast<Matrix *>(dMatrix)};
  if (int status = checkProduct(product))
    return status;
  product.a.address = reinterpret_cast<uint64_t>(a);
  product.b.address = reinterpret_cast<uint64_t>(b);
  product.c.address = reinterpret_cast<uint64_t>(c);
  product.d.address = reinterpret_cast<uint64_t>(d);
  for (Matrix *matrix : {&product.a, &product.b, &product.c, &product.d})
    if (!readAddresses(*matrix))
      return executionFailed;
  if (!isOf(choice, product))
    return invalidValue;
  if (choice->workspaceBytes > workspaceBytes)
    return notSupported;
  constexpr uint64_t biasAlignment = 16;
  if (product.operation.epilogue == biasEpilogue &&
      product.operation.bias % biasAlignment != 0)
    return notSupported;
  product.kernel = choice->shapes;
  product.splits = int64_t(choice->splits);
  product.isSlow = fastestSplits() > 0 && fastestSplits() != choice->splits;
  product.workspace = reinterpret_cast<uint64_t>(workspace);
  product.workspaceBytes = choice->workspaceBytes;
  if (!isAligned(product.a, choice->alignment[0]) ||
      !isAligned(product.b, choice->alignment[1]) ||
      !isAligned(product.c, choice->alignment[2]) ||
      !isAligned(product.d, choice->alignment[3]))
    return notSupported;
  product.alpha = readScale(product.operation, alpha);
  product.beta = readScale(product.operation, beta);
  return enqueue(product, stream);
}
