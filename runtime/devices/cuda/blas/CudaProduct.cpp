//===- CudaProduct.cpp - A matrix product by cuBLASLt ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/blas/CudaProduct.h"

#include "core/Dtype.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "hal/ComputeRules.h"

#include <algorithm>
#include <limits>

namespace fsdp::rt {

namespace {

struct Dimension {
  int64_t extent = 1;
  std::array<int64_t, 3> stride = {};
};

/// Whether the step from one `outer` to the next is that after the last
/// `inner`.
bool isOne(const Dimension &outer, const Dimension &inner) {
  for (size_t i = 0; i < 3; ++i)
    if (outer.stride[i] != inner.stride[i] * inner.extent)
      return false;
  return outer.extent * inner.extent <= std::numeric_limits<int32_t>::max();
}

/// The bytes that `pointers` are multiples of, at most 256, which is what the
/// library takes for granted.
uint32_t alignmentOf(cu::Pointer pointers) {
  uint32_t bytes = 256;
  while (pointers % bytes != 0)
    bytes /= 2;
  return bytes;
}

int libraryType(Dtype dtype) {
  switch (dtype) {
  case FSDP_RT_F64:
    return lt::real64;
  case FSDP_RT_F16:
    return lt::real16;
  case FSDP_RT_BF16:
    return lt::brain16;
  default:
    return lt::real32;
  }
}

const void *address(cu::Pointer pointer) {
  return reinterpret_cast<const void *>(static_cast<uintptr_t>(pointer));
}

} // namespace

BatchCalls cutBatch(const fsdp_rt_matmul_desc &desc) {
  std::vector<Dimension> dimensions; // the innermost first
  for (int d = 3; d >= 0; --d) {
    Dimension dimension;
    dimension.extent = desc.batch[d];
    dimension.stride = {desc.a_stride[d], desc.b_stride[d], desc.c_stride[d]};
    if (dimension.extent == 1)
      continue;
    if (!dimensions.empty() && isOne(dimension, dimensions.back()))
      dimensions.back().extent *= dimension.extent;
    else
      dimensions.push_back(dimension);
  }
  BatchCalls calls;
  auto longest = std::max_element(dimensions.begin(), dimensions.end(),
                                  [](const Dimension &x, const Dimension &y) {
                                    return x.extent < y.extent;
                                  });
  if (longest != dimensions.end()) {
    calls.count = longest->extent;
    calls.stride = longest->stride;
    dimensions.erase(longest);
  }
  calls.starts.push_back({});
  for (auto outer = dimensions.rbegin(); outer != dimensions.rend(); ++outer) {
    std::vector<std::array<int64_t, 3>> starts;
    for (const std::array<int64_t, 3> &start : calls.starts)
      for (int64_t i = 0; i < outer->extent; ++i)
        starts.push_back({start[0] + i * outer->stride[0],
                          start[1] + i * outer->stride[1],
                          start[2] + i * outer->stride[2]});
    calls.starts = std::move(starts);
  }
  return calls;
}

BatchCalls expandBatch(const BatchCalls &calls) {
  BatchCalls all;
  for (const std::array<int64_t, 3> &start : calls.starts)
    for (int64_t i = 0; i < calls.count; ++i)
      all.starts.push_back({start[0] + i * calls.stride[0],
                            start[1] + i * calls.stride[1],
                            start[2] + i * calls.stride[2]});
  return all;
}

CudaProduct::~CudaProduct() {
  for (lt::Matrix matrix : {a_, b_, c_})
    if (matrix)
      (void)api_.matrixDestroy(matrix);
  if (operation_)
    (void)api_.operationDestroy(operation_);
}

/// Adds the elements of the bias to every one of our rows, the library's
/// columns.
Status CudaProduct::describeBias(const fsdp_rt_matmul_desc &desc) {
  uint32_t epilogue = lt::epilogueBias;
  int32_t type = libraryType(static_cast<Dtype>(desc.c_dtype));
  struct {
    int attribute;
    const void *value;
    size_t bytes;
  } const attributes[] = {{lt::operationEpilogue, &epilogue, sizeof(epilogue)},
                          {lt::operationBiasType, &type, sizeof(type)}};
  for (const auto &[attribute, value, bytes] : attributes)
    if (Status s =
            api_.check(api_.operationSet(operation_, attribute, value, bytes),
                       "cublasLtMatmulDescSetAttribute"))
      return s;
  key_ += " bias at " + std::to_string(alignmentOf(bias_));
  return setBias(bias_);
}

Status CudaProduct::setBias(cu::Pointer bias) const {
  if (bias_ == 0)
    return Status::ok();
  const void *pointer = address(bias);
  return api_.check(api_.operationSet(operation_, lt::operationBias, &pointer,
                                      sizeof(pointer)),
                    "cublasLtMatmulDescSetAttribute");
}

Status CudaProduct::setMultiprocessors(int count) {
  int32_t value = count;
  key_ += ", on " + std::to_string(count) + " multiprocessors";
  return api_.check(api_.operationSet(operation_, lt::operationMultiprocessors,
                                      &value, sizeof(value)),
                    "cublasLtMatmulDescSetAttribute");
}

Status CudaProduct::describeOperation(const fsdp_rt_matmul_desc &desc) {
  isDouble_ = desc.dtype == FSDP_RT_F64;
  alpha32_ = static_cast<float>(desc.alpha);
  alpha64_ = desc.alpha;
  beta32_ = hal::addsMatrix(desc) ? 1.0f : 0.0f;
  beta64_ = beta32_;
  int computeType = isDouble_   ? lt::compute64
                    : desc.tf32 ? lt::computeTF32
                                : lt::compute32;
  if (Status s =
          api_.check(api_.operationCreate(&operation_, computeType,
                                          isDouble_ ? lt::real64 : lt::real32),
                     "cublasLtMatmulDescCreate"))
    return s;
  struct {
    int attribute;
    int value;
  } const operations[] = {
      {lt::operationTransA, desc.trans_b ? lt::transposed : lt::plain},
      {lt::operationTransB, desc.trans_a ? lt::transposed : lt::plain}};
  for (const auto &[attribute, value] : operations)
    if (Status s = api_.check(
            api_.operationSet(operation_, attribute, &value, sizeof(value)),
            "cublasLtMatmulDescSetAttribute"))
      return s;
  return Status::ok();
}

Status CudaProduct::describe(const fsdp_rt_matmul_desc &desc,
                             const BatchCalls &calls, bool hasPointerArrays) {
  if (Status s = describeOperation(desc))
    return s;
  auto dtype = static_cast<Dtype>(desc.dtype);
  auto cDtype = static_cast<Dtype>(desc.c_dtype);
  struct {
    lt::Matrix *matrix;
    Dtype dtype;
    int64_t rows, columns, ld; // as they lie in memory, in rows
    int64_t stride;
  } const matrices[] = {
      {&a_, dtype, desc.trans_b ? desc.n : desc.k,
       desc.trans_b ? desc.k : desc.n, desc.ldb, calls.stride[1]},
      {&b_, dtype, desc.trans_a ? desc.k : desc.m,
       desc.trans_a ? desc.m : desc.k, desc.lda, calls.stride[0]},
      {&c_, cDtype, desc.m, desc.n, desc.ldc, calls.stride[2]}};
  auto count = static_cast<int32_t>(hasPointerArrays ? calls.starts.size()
                                                     : size_t(calls.count));
  Call bits, last;
  least_ = calls_.front();
  for (const Call &call : calls_)
    for (auto operand : {&Call::a, &Call::b, &Call::c, &Call::d}) {
      bits.*operand |= call.*operand;
      least_.*operand = std::min(least_.*operand, call.*operand);
      last.*operand = std::max(last.*operand, call.*operand);
    }
  alignment_ = {alignmentOf(bits.a), alignmentOf(bits.b), alignmentOf(bits.c),
                alignmentOf(bits.d)};
  key_ = desc.tf32 ? "TF32" : dtypeName(dtype);
  if (cDtype != dtype)
    key_ += std::string(" in ") + dtypeName(cDtype);
  key_ += std::string(" ") + (desc.trans_b ? "t" : "n") +
          (desc.trans_a ? "t" : "n") + (hal::addsMatrix(desc) ? " added" : "");
  if (hal::addsMatrix(desc) && alignment_[3] != alignment_[2])
    key_ += " to " + std::to_string(alignment_[3]);
  for (size_t i = 0; i < 3; ++i)
    key_ += ", " + std::to_string(matrices[i].columns) + "x" +
            std::to_string(matrices[i].rows) + " of " +
            std::to_string(matrices[i].ld) + " every " +
            std::to_string(matrices[i].stride) + " at " +
            std::to_string(alignment_[i]);
  key_ += ", " + std::to_string(count) + " times";
  key_ += hasPointerArrays ? " by pointers" : "";
  auto bytesOf = [&](int i, auto operand) {
    const auto &m = matrices[i];
    int64_t size = dtypeSize(m.dtype);
    int64_t one = ((m.rows - 1) * m.ld + m.columns) * size;
    return one + (hasPointerArrays ? int64_t(last.*operand - least_.*operand)
                                   : (count - 1) * m.stride * size);
  };
  footprint_ = {bytesOf(0, &Call::a), bytesOf(1, &Call::b),
                bytesOf(2, &Call::c), bias_ ? desc.n * dtypeSize(cDtype) : 0};
  for (const auto &m : matrices) {
    if (Status s = api_.check(api_.matrixCreate(m.matrix, libraryType(m.dtype),
                                                m.columns, m.rows, m.ld),
                              "cublasLtMatrixLayoutCreate"))
      return s;
    lt::Error error =
        api_.matrixSet(*m.matrix, lt::matrixBatchCount, &count, sizeof(count));
    if (error == lt::success && !hasPointerArrays)
      error = api_.matrixSet(*m.matrix, lt::matrixBatchStride, &m.stride,
                             sizeof(m.stride));
    else if (error == lt::success)
      error = api_.matrixSet(*m.matrix, lt::matrixBatchMode,
                             &lt::batchOfPointers, sizeof(lt::batchOfPointers));
    if (Status s = api_.check(error, "cublasLtMatrixLayoutSetAttribute"))
      return s;
  }
  return Status::ok();
}

Result<std::unique_ptr<CudaProduct>>
CudaProduct::create(const CublasLtApi &api, lt::Handle handle,
                    const fsdp_rt_matmul_desc &desc, const BatchCalls &calls,
                    cu::Pointer base, bool hasPointerArrays) {
  std::unique_ptr<CudaProduct> made(new CudaProduct(api, handle));
  int64_t size = dtypeSize(static_cast<Dtype>(desc.dtype)),
          cSize = dtypeSize(static_cast<Dtype>(desc.c_dtype));
  bool hasAddend = (desc.epilogue & FSDP_RT_EPILOGUE_ADDEND) != 0;
  bool hasBias = (desc.epilogue & FSDP_RT_EPILOGUE_BIAS) != 0;
  int64_t added = hasAddend ? desc.addend : desc.c;
  made->workspaceBytes_ = static_cast<size_t>(desc.workspace_bytes);
  if (desc.workspace_bytes != 0)
    made->workspace_ = base + static_cast<cu::Pointer>(desc.workspace);
  made->bias_ = hasBias ? base + static_cast<cu::Pointer>(desc.bias) : 0;
  for (const std::array<int64_t, 3> &start : calls.starts)
    made->calls_.push_back(
        {base + desc.b + start[1] * size, base + desc.a + start[0] * size,
         base + added + start[2] * cSize, base + desc.c + start[2] * cSize,
         made->workspace_});
  Status described = made->describe(desc, calls, hasPointerArrays);
  if (described.isOk() && hasBias)
    described = made->describeBias(desc);
  if (!described.isOk())
    return described;
  if (hasPointerArrays)
    made->items_ = std::move(made->calls_);
  return made;
}

/// Elements of a pointer array, so that the next one begins where the library
/// takes alignment for granted.
static size_t paddedCount(size_t count) {
  return static_cast<size_t>(
             alignPart(static_cast<int64_t>(count * sizeof(cu::Pointer)))) /
         sizeof(cu::Pointer);
}

bool CudaProduct::isInPlace() const {
  const Call &first = items_.empty() ? calls_.front() : items_.front();
  return first.c == first.d;
}

std::vector<cu::Pointer> CudaProduct::addresses(const Call &move) const {
  size_t count = paddedCount(items_.size());
  std::vector<cu::Pointer> all(4 * count);
  size_t first = 0;
  for (auto operand : {&Call::a, &Call::b, &Call::c, &Call::d}) {
    for (size_t i = 0; i < items_.size(); ++i)
      all[first + i] = items_[i].*operand + move.*operand;
    first += count;
  }
  return all;
}

CudaProduct::Call CudaProduct::callOfPointerArrays(cu::Pointer place) const {
  cu::Pointer bytes = paddedCount(items_.size()) * sizeof(cu::Pointer);
  cu::Pointer c = place + 2 * bytes, d = isInPlace() ? c : place + 3 * bytes;
  return {place, place + bytes, c, d, workspace_};
}

Result<std::vector<lt::Algorithm>>
CudaProduct::propose(const CudaContext &context, int count) const {
  uint64_t workspaceBytes = workspaceBytes_;
  // Partial sums in a narrower type would depend on how often a product is
  // split.
  uint32_t reductions = lt::reduceInComputeType;
  auto [alignA, alignB, alignC, alignD] = alignment_;
  struct {
    int attribute;
    const void *value;
    size_t bytes;
  } const wishes[] = {
      {lt::preferWorkspaceBytes, &workspaceBytes, sizeof(workspaceBytes)},
      {lt::preferReductions, &reductions, sizeof(reductions)},
      {lt::preferAlignmentA, &alignA, sizeof(alignA)},
      {lt::preferAlignmentB, &alignB, sizeof(alignB)},
      {lt::preferAlignmentC, &alignC, sizeof(alignC)},
      {lt::preferAlignmentD, &alignD, sizeof(alignD)}};
  lt::Preference preference = nullptr;
  if (Status s = api_.check(api_.preferenceCreate(&preference),
                            "cublasLtMatmulPreferenceCreate"))
    return s;
  lt::Error error = lt::success;
  for (const auto &wish : wishes)
    if (error == lt::success)
      error = api_.preferenceSet(preference, wish.attribute, wish.value,
                                 wish.bytes);
  std::vector<lt::Heuristic> found(static_cast<size_t>(count));
  int foundCount = 0;
  if (error == lt::success)
    error = api_.getHeuristic(handle_, operation_, a_, b_, c_, c_, preference,
                              count, found.data(), &foundCount);
  (void)api_.preferenceDestroy(preference);
  if (Status s = api_.check(error, "cublasLtMatmulAlgoGetHeuristic"))
    return s;
  if (foundCount < 1)
    return Status::failed("expected " + api_.describe() +
                          " to multiply this in a workspace of " +
                          std::to_string(workspaceBytes) + " bytes on " +
                          context.describe() + ", got no algorithm");
  std::vector<lt::Algorithm> proposed;
  for (int i = 0; i < foundCount; ++i)
    if (found[size_t(i)].state == lt::success)
      proposed.push_back(found[size_t(i)].algorithm);
  if (proposed.empty())
    return api_.check(found.front().state, "cublasLtMatmulAlgoGetHeuristic");
  return proposed;
}

Status CudaProduct::check(const lt::Algorithm &algorithm) const {
  lt::Heuristic result = {};
  if (Status s = api_.check(api_.algorithmCheck(handle_, operation_, a_, b_, c_,
                                                c_, &algorithm, &result),
                            "cublasLtMatmulAlgoCheck"))
    return s;
  if (result.workspaceBytes <= workspaceBytes_)
    return api_.check(result.state, "cublasLtMatmulAlgoCheck");
  return Status::failed("expected a workspace of at most " +
                        std::to_string(workspaceBytes_) + " bytes, got " +
                        std::to_string(result.workspaceBytes));
}

Status CudaProduct::issue(const Call &call, const lt::Algorithm &algorithm,
                          cu::Stream stream) const {
  const void *alpha = isDouble_ ? static_cast<const void *>(&alpha64_)
                                : static_cast<const void *>(&alpha32_);
  const void *beta = isDouble_ ? static_cast<const void *>(&beta64_)
                               : static_cast<const void *>(&beta32_);
  lt::Error error = api_.matmul(
      handle_, operation_, alpha, address(call.a), a_, address(call.b), b_,
      beta, address(call.c), c_, const_cast<void *>(address(call.d)), c_,
      &algorithm, const_cast<void *>(address(call.workspace)), workspaceBytes_,
      stream);
  return api_.check(error, "cublasLtMatmul");
}

Status CudaProduct::enqueue(cu::Stream stream) const {
  for (const Call &call : calls_)
    if (Status s = issue(call, algorithm_, stream))
      return s;
  return Status::ok();
}

} // namespace fsdp::rt
