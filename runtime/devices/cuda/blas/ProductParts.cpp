//===- ProductParts.cpp - Products in extents that are fast ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/blas/ProductParts.h"

#include "core/Dtype.h"
#include "hal/ComputeRules.h"

#include <algorithm>
#include <cstdint>

namespace fsdp::rt {

namespace {

constexpr int64_t vectorBytes = 16;

/// Of an H200 (docs/measured): products a second by slow and by fast code, in
/// flops, and bytes a second; a launch, in seconds, is an estimate.
constexpr double slowFlops = 95e12, fastFlops = 600e12, bandwidth = 4e12,
                 launchSeconds = 3e-6;

/// Elements of one extent: [begin, end).
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

bool usesTensorCores(const fsdp_rt_matmul_desc &desc) {
  switch (static_cast<Dtype>(desc.dtype)) {
  case FSDP_RT_BF16:
  case FSDP_RT_F16:
    return true;
  case FSDP_RT_F32:
    return desc.tf32 != 0;
  default:
    return false;
  }
}

/// Bytes of an element of A and B, and of C.
int64_t factorSize(const fsdp_rt_matmul_desc &desc) {
  return dtypeSize(static_cast<Dtype>(desc.dtype));
}
int64_t resultSize(const fsdp_rt_matmul_desc &desc) {
  return dtypeSize(static_cast<Dtype>(desc.c_dtype));
}

/// Whether each row of each matrix begins at a multiple of 16 bytes of the
/// arena, which itself does.
bool hasAlignedRows(const fsdp_rt_matmul_desc &desc) {
  int64_t size = factorSize(desc), cSize = resultSize(desc);
  auto isAligned = [](int64_t bytes) { return bytes % vectorBytes == 0; };
  bool isAll = isAligned(desc.a) && isAligned(desc.b) && isAligned(desc.c) &&
               isAligned(desc.lda * size) && isAligned(desc.ldb * size) &&
               isAligned(desc.ldc * cSize);
  if (desc.epilogue & FSDP_RT_EPILOGUE_ADDEND)
    isAll &= isAligned(desc.addend);
  for (int d = 0; d < 4; ++d)
    if (desc.batch[d] > 1)
      isAll &= isAligned(desc.a_stride[d] * size) &&
               isAligned(desc.b_stride[d] * size) &&
               isAligned(desc.c_stride[d] * cSize);
  return isAll;
}

/// @extent in one range, or in the largest multiple of @vector and the rest.
std::vector<Range> cut(int64_t extent, int64_t vector, bool wanted) {
  int64_t border = extent / vector * vector;
  if (!wanted || border == 0 || border == extent)
    return {{0, extent}};
  return {{0, border}, {border, extent}};
}

fsdp_rt_matmul_desc getPart(const fsdp_rt_matmul_desc &desc, Range m, Range n,
                            Range k) {
  int64_t size = factorSize(desc), cSize = resultSize(desc);
  fsdp_rt_matmul_desc part = desc;
  part.m = m.size();
  part.n = n.size();
  part.k = k.size();
  part.a += size * (desc.trans_a ? k.begin * desc.lda + m.begin
                                 : m.begin * desc.lda + k.begin);
  part.b += size * (desc.trans_b ? n.begin * desc.ldb + k.begin
                                 : k.begin * desc.ldb + n.begin);
  int64_t inC = cSize * (m.begin * desc.ldc + n.begin);
  part.c += inC;
  if (desc.epilogue & FSDP_RT_EPILOGUE_ADDEND)
    part.addend += inC;
  if (desc.epilogue & FSDP_RT_EPILOGUE_BIAS)
    part.bias += cSize * n.begin;
  return part;
}

} // namespace

std::vector<fsdp_rt_matmul_desc> cutExtents(const fsdp_rt_matmul_desc &desc) {
  if (!usesTensorCores(desc) || !hasAlignedRows(desc))
    return {desc};
  int64_t vector = vectorBytes / factorSize(desc);
  // Neighbours in memory: of A along m where it is transposed, else along k; of
  // B along k where it is, else along n; of C along n.
  bool wantsM = desc.trans_a, wantsK = !desc.trans_a || desc.trans_b;
  bool breaksK = wantsK && desc.k % vector != 0;
  // What is added to the rest's sum would be rounded with it.
  bool mayCutK =
      desc.c_dtype == FSDP_RT_F32 || (desc.epilogue == 0 && !desc.accumulate);
  // The largest part has fast code only if no extent of it breaks a vector.
  if ((breaksK && !mayCutK) || (wantsM && desc.m < vector) || desc.n < vector ||
      (wantsK && desc.k < vector))
    return {desc};
  std::vector<Range> ms = cut(desc.m, vector, wantsM),
                     ns = cut(desc.n, vector, true),
                     ks = cut(desc.k, vector, wantsK);
  std::vector<fsdp_rt_matmul_desc> parts;
  for (Range m : ms)
    for (Range n : ns) {
      // The rest of k first: in a narrow type its sum is rounded while it is
      // small.
      for (size_t i = ks.size(); i-- > 0;) {
        fsdp_rt_matmul_desc part = getPart(desc, m, n, ks[i]);
        if (i + 1 < ks.size()) {
          part.accumulate = 1;
          part.epilogue = 0;
        }
        parts.push_back(part);
      }
    }
  return parts;
}

bool areFaster(const std::vector<fsdp_rt_matmul_desc> &parts,
               const fsdp_rt_matmul_desc &desc) {
  if (parts.size() < 2)
    return false;
  auto seconds = [](const fsdp_rt_matmul_desc &product, double flops) {
    return std::max(static_cast<double>(hal::matmulFlops(product)) / flops,
                    static_cast<double>(hal::matmulBytes(product)) / bandwidth);
  };
  double inParts = launchSeconds * static_cast<double>(parts.size() - 1);
  for (const fsdp_rt_matmul_desc &part : parts)
    inParts += seconds(part, fastFlops);
  return inParts < seconds(desc, slowFlops);
}

} // namespace fsdp::rt
