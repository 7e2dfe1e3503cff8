//===- Multiply.cpp - Products of a double of cuBLASLt --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Multiply.h"

#include "instructions/FloatFormats.h"
#include "libraries/EmulatedDriver.h"

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::emulator::lt {

namespace {

constexpr int real32 = 0, real64 = 1, real16 = 2, brain16 = 14;
constexpr int compute32 = 68, compute64 = 70, computeTF32 = 77;

bool isNarrow(int type) { return type == real16 || type == brain16; }

/// Elements from the first to the last, both included.
int64_t extentOf(const Matrix &matrix) {
  return (matrix.columns - 1) * matrix.ld + matrix.rows;
}

bool checkMatrix(const Matrix &matrix) {
  return matrix.rows > 0 && matrix.columns > 0 && matrix.ld >= matrix.rows &&
         matrix.batch > 0 && matrix.stride >= 0;
}

/// A column of a matrix in memory, widened.
template <typename T>
void loadColumn(const char *from, int type, int64_t count, T *to) {
  if (isNarrow(type)) {
    auto *narrow = reinterpret_cast<const uint16_t *>(from);
    for (int64_t i = 0; i < count; ++i)
      to[i] =
          T(type == real16 ? floatOfF16(narrow[i]) : floatOfBF16(narrow[i]));
  } else {
    std::memcpy(to, from, size_t(count) * sizeof(T));
  }
}

template <typename T>
void storeColumn(char *to, int type, int64_t count, const T *from) {
  if (isNarrow(type)) {
    auto *narrow = reinterpret_cast<uint16_t *>(to);
    for (int64_t i = 0; i < count; ++i)
      narrow[i] = type == real16 ? f16OfFloat(float(from[i]))
                                 : bf16OfFloat(float(from[i]));
  } else {
    std::memcpy(to, from, size_t(count) * sizeof(T));
  }
}

/// op(M) in columns without gaps.
template <typename T>
std::vector<T> pack(const Matrix &matrix, const char *base, bool transposed) {
  std::vector<T> packed(size_t(matrix.rows * matrix.columns));
  std::vector<T> column(size_t(matrix.rows));
  int64_t size = int64_t(sizeOfType(matrix.type));
  for (int64_t c = 0; c < matrix.columns; ++c) {
    loadColumn(base + c * matrix.ld * size, matrix.type, matrix.rows,
               column.data());
    for (int64_t r = 0; r < matrix.rows; ++r)
      packed[size_t(transposed ? r * matrix.columns + c
                               : c * matrix.rows + r)] = column[size_t(r)];
  }
  return packed;
}

/// To the nearest with 10 bits behind the leading one, ties away from zero.
float roundToTF32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x1000) & ~uint32_t(0x1fff);
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

template <typename T>
void multiply(const Product &product, const char *a, const char *b,
              const char *c, char *d, const char *addedBias) {
  int64_t m = product.d.rows, n = product.d.columns;
  int64_t k = product.operation.transA ? product.a.rows : product.a.columns;
  std::vector<T> left = pack<T>(product.a, a, product.operation.transA);
  std::vector<T> right = pack<T>(product.b, b, product.operation.transB);
  if (product.operation.compute == computeTF32)
    for (std::vector<T> *factors : {&left, &right})
      for (T &value : *factors)
        value = T(roundToTF32(float(value)));
  std::vector<T> sum(static_cast<size_t>(m)), part(sum), before(sum);
  int64_t size = int64_t(sizeOfType(product.d.type));
  T alpha = T(product.alpha), beta = T(product.beta);
  std::vector<T> bias(
      size_t(product.operation.epilogue == biasEpilogue ? m : 0));
  if (!bias.empty())
    loadColumn(addedBias, product.d.type, m, bias.data());
  for (int64_t j = 0; j < n; ++j) {
    std::fill(sum.begin(), sum.end(), T(0));
    for (int64_t split = 0; split < product.splits; ++split) {
      std::fill(part.begin(), part.end(), T(0));
      for (int64_t i = k * split / product.splits;
           i < k * (split + 1) / product.splits; ++i) {
        T factor = right[size_t(j * k + i)];
        const T *column = left.data() + i * m;
        for (int64_t r = 0; r < m; ++r)
          part[size_t(r)] += column[r] * factor;
      }
      for (int64_t r = 0; r < m; ++r)
        sum[size_t(r)] += part[size_t(r)];
    }
    for (T &value : sum)
      value *= alpha;
    if (beta != T(0)) {
      loadColumn(c + j * product.c.ld * size, product.c.type, m, before.data());
      for (int64_t r = 0; r < m; ++r)
        sum[size_t(r)] += beta * before[size_t(r)];
    }
    for (size_t r = 0; r < bias.size(); ++r)
      sum[r] += bias[r];
    storeColumn(d + j * product.d.ld * size, product.d.type, m, sum.data());
  }
}

uint64_t addressOf(const Matrix &matrix, int64_t index) {
  if (matrix.mode != 0)
    return matrix.addresses[size_t(index)];
  return matrix.address +
         uint64_t(index * matrix.stride) * sizeOfType(matrix.type);
}

const char *hostOf(const Matrix &matrix, int64_t index) {
  size_t bytes = size_t(extentOf(matrix)) * sizeOfType(matrix.type);
  return static_cast<const char *>(
      EmulatedDriver::get()->hostPointer(addressOf(matrix, index), bytes));
}

/// 1: it is done. -1: it cannot be.
int run(void *data) {
  auto *product = static_cast<const Product *>(data);
  if (product->isSlow)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int64_t i = 0; i < product->d.batch; ++i) {
    const char *a = hostOf(product->a, i), *b = hostOf(product->b, i),
               *c = hostOf(product->c, i), *d = hostOf(product->d, i);
    const char *bias = nullptr;
    if (product->operation.epilogue == biasEpilogue)
      bias = static_cast<const char *>(EmulatedDriver::get()->hostPointer(
          product->operation.bias,
          size_t(product->d.rows) * sizeOfType(product->d.type)));
    if (!a || !b || !c || !d ||
        (product->operation.epilogue == biasEpilogue && !bias))
      return -1;
    if (product->operation.compute == compute64)
      multiply<double>(*product, a, b, c, const_cast<char *>(d), bias);
    else
      multiply<float>(*product, a, b, c, const_cast<char *>(d), bias);
  }
  return 1;
}

/// What a matrix of a batch covers, without the gaps between its columns.
void addRanges(const Matrix &matrix, bool isWrite,
               std::vector<FsdpEmulatorRange> &ranges) {
  uint64_t size = sizeOfType(matrix.type);
  bool isDense = matrix.ld == matrix.rows;
  int64_t batch = matrix.stride == 0 && matrix.mode == 0 ? 1 : matrix.batch;
  if (matrix.mode != 0)
    ranges.push_back({matrix.address, size_t(batch) * sizeof(uint64_t), false});
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t c = 0; c < (isDense ? 1 : matrix.columns); ++c)
      ranges.push_back(
          {addressOf(matrix, i) + uint64_t(c * matrix.ld) * size,
           size_t(matrix.rows * (isDense ? matrix.columns : 1)) * size,
           isWrite});
}

} // namespace

size_t sizeOfType(int type) {
  switch (type) {
  case real32:
    return 4;
  case real64:
    return 8;
  case real16:
  case brain16:
    return 2;
  }
  return 0;
}

bool readAddresses(Matrix &matrix) {
  if (matrix.mode == 0)
    return true;
  auto *found =
      static_cast<const uint64_t *>(EmulatedDriver::get()->hostPointer(
          matrix.address, size_t(matrix.batch) * sizeof(uint64_t)));
  if (found)
    matrix.addresses.assign(found, found + matrix.batch);
  return found != nullptr;
}

int checkProduct(const Product &product) {
  const Operation &operation = product.operation;
  for (const Matrix *matrix : {&product.a, &product.b, &product.c, &product.d})
    if (!checkMatrix(*matrix))
      return invalidValue;
  // One type of the factors, added up in a type of its own or wider; results
  // have it, too, or float32.
  int type = product.a.type;
  if (product.b.type != type || product.c.type != product.d.type ||
      (product.d.type != type && !(isNarrow(type) && product.d.type == real32)))
    return notSupported;
  bool isDouble = type == real64;
  bool isTF32 = operation.compute == computeTF32 && type == real32;
  if ((!isTF32 && operation.compute != (isDouble ? compute64 : compute32)) ||
      operation.scale != (isDouble ? real64 : real32))
    return notSupported;
  if (operation.epilogue != noEpilogue && operation.epilogue != biasEpilogue)
    return notSupported;
  // Of double precision the documentation names no epilogue.
  if (operation.epilogue != noEpilogue && type == real64)
    return notSupported;
  // -1: that of D.
  if (operation.epilogue == biasEpilogue && operation.biasType != -1 &&
      operation.biasType != product.d.type)
    return notSupported;
  auto rowsOf = [](const Matrix &m, bool t) { return t ? m.columns : m.rows; };
  if (rowsOf(product.a, operation.transA) != product.d.rows ||
      rowsOf(product.b, !operation.transB) != product.d.columns ||
      rowsOf(product.a, !operation.transA) !=
          rowsOf(product.b, operation.transB) ||
      product.c.rows != product.d.rows ||
      product.c.columns != product.d.columns)
    return invalidValue;
  for (const Matrix *matrix : {&product.a, &product.b, &product.c})
    if (matrix->batch != product.d.batch || matrix->mode != product.d.mode)
      return invalidValue;
  if (product.d.mode != 0)
    return operation.epilogue == noEpilogue ? success : notSupported;
  // Results of a batch must not overlap.
  if (product.d.batch > 1 && product.d.stride == 0)
    return invalidValue;
  return success;
}

double readScale(const Operation &operation, const void *value) {
  return operation.scale == real64 ? *static_cast<const double *>(value)
                                   : *static_cast<const float *>(value);
}

int enqueue(const Product &product, void *stream) {
  if (!EmulatedDriver::get())
    return notInitialized;
  std::vector<FsdpEmulatorRange> ranges;
  addRanges(product.a, false, ranges);
  addRanges(product.b, false, ranges);
  if (product.beta != 0)
    addRanges(product.c, false, ranges);
  if (product.operation.epilogue == biasEpilogue)
    ranges.push_back({product.operation.bias,
                      size_t(product.d.rows) * sizeOfType(product.d.type),
                      false});
  addRanges(product.d, true, ranges);
  if (product.workspaceBytes > 0)
    ranges.push_back({product.workspace, product.workspaceBytes, true});
  // Kernels are in modules that are loaded when they are launched first.
  std::string kernel = "cublasLt " + std::to_string(product.kernel) + " of " +
                       std::to_string(product.splits);
  if (EmulatedDriver::get()->loadCode(kernel.c_str()) != 0)
    return executionFailed;
  auto destroy = [](void *data) { delete static_cast<Product *>(data); };
  int error = EmulatedDriver::get()->issue(
      stream, "cublasLtMatmul", run, new Product(product), destroy,
      ranges.data(), ranges.size(), /*turn=*/0);
  return error == 0 ? success : executionFailed;
}

} // namespace fsdp::emulator::lt
