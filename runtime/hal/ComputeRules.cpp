//===- ComputeRules.cpp - Products and attention of programs --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/ComputeRules.h"

#include <algorithm>
#include <string>

namespace fsdp::rt::hal {

namespace {

using View = AttentionView;

/// Numbers that a descriptor has for each tensor.
constexpr int tensorFields = 8;

/// One stored matrix and its repetition over the batch.
struct Operand {
  const char *name;
  int64_t offset, ld;
  const int64_t *stride;
  int64_t rows = 0, columns = 0;

  void setShape(int64_t r, int64_t c) {
    rows = r;
    columns = c;
  }
};

Status checkOperand(const Operand &operand, const int64_t *batch, Dtype dtype,
                    int64_t deviceBytes) {
  auto refuse = [&](const char *expected, int64_t bound, const char *got,
                    int64_t found) {
    return Status::internal(std::string("operand ") + operand.name +
                            ": expected " + expected + std::to_string(bound) +
                            ", got " + got + std::to_string(found));
  };
  // The libraries insist on it even where there is nothing to read.
  int64_t minLd = std::max<int64_t>(operand.columns, 1);
  if (operand.ld < minLd)
    return refuse("a leading dimension of at least ", minLd, "", operand.ld);
  bool isEmpty = operand.rows == 0 || operand.columns == 0;
  // Wider than any product of two of these.
  __int128 elements = __int128(operand.rows - 1) * operand.ld + operand.columns;
  for (int d = 0; d < 4; ++d) {
    if (operand.stride[d] < 0)
      return refuse("strides of at least ", 0, "", operand.stride[d]);
    if (batch[d] > 1 && operand.stride[d] > deviceBytes)
      return refuse("strides of at most ", deviceBytes, "", operand.stride[d]);
    isEmpty |= batch[d] == 0;
    elements += __int128(batch[d] - 1) * operand.stride[d];
  }
  if (isEmpty)
    return Status::ok();
  int64_t size = dtypeSize(dtype);
  if (operand.offset < 0 || operand.offset % size != 0 ||
      elements * size > __int128(deviceBytes) - operand.offset)
    return refuse("it inside an arena of bytes: ", deviceBytes, "offset ",
                  operand.offset);
  return Status::ok();
}

/// cuBLASLt is told what matrices are aligned to, but not biases, which its
/// kernels read in vectors.
constexpr int64_t biasAlignment = 16;

/// What a product's epilogue adds.
Status checkEpilogue(const fsdp_rt_matmul_desc &desc, Dtype dtype,
                     int64_t deviceBytes) {
  constexpr int64_t known = FSDP_RT_EPILOGUE_BIAS | FSDP_RT_EPILOGUE_ADDEND;
  if ((desc.epilogue & ~known) != 0)
    return Status::internal("expected an epilogue of bits " +
                            std::to_string(known) + ", got " +
                            std::to_string(desc.epilogue));
  if (desc.epilogue != 0 && desc.accumulate)
    return Status::internal("expected no epilogue of a product that is added "
                            "to C, got " +
                            std::to_string(desc.epilogue));
  constexpr int64_t once[4] = {};
  Operand bias = {"bias", desc.bias, std::max<int64_t>(desc.n, 1), once};
  bias.setShape(1, desc.n);
  if (desc.epilogue & FSDP_RT_EPILOGUE_BIAS) {
    if (desc.bias % biasAlignment != 0)
      return Status::internal(
          "expected a bias at a multiple of " + std::to_string(biasAlignment) +
          " bytes, got offset " + std::to_string(desc.bias));
    if (Status s = checkOperand(bias, desc.batch, dtype, deviceBytes))
      return s;
  }
  Operand addend = {"addend", desc.addend, desc.ldc, desc.c_stride};
  addend.setShape(desc.m, desc.n);
  if (desc.epilogue & FSDP_RT_EPILOGUE_ADDEND)
    return checkOperand(addend, desc.batch, dtype, deviceBytes);
  return Status::ok();
}

int64_t rowsOf(const fsdp_rt_attention_desc &desc, int tensor) {
  return View::isOfKeys(tensor) ? desc.keys : desc.queries;
}
int64_t columnsOf(const fsdp_rt_attention_desc &desc, int tensor) {
  return View::isOfHead(tensor) ? desc.head : desc.value;
}

Status checkTensor(const fsdp_rt_attention_desc &desc, int tensor,
                   int64_t deviceBytes) {
  View view(desc, tensor);
  auto refuse = [&](const char *expected) {
    return Status::internal(std::string(View::name(tensor)) + ": expected " +
                            expected);
  };
  auto fields =
      static_cast<const int64_t *>(desc.tensors) + tensor * tensorFields;
  if (!view.exists())
    return tensor >= View::Dq ? Status::ok()
                              : refuse("an arena offset, got none");
  if (view.dtype != FSDP_RT_F32 && view.dtype != FSDP_RT_BF16 &&
      view.dtype != FSDP_RT_F16)
    return refuse("F32, BF16 or F16");
  __int128 last = 0;
  int64_t sizes[6];
  std::copy_n(desc.batch, 4, sizes);
  sizes[4] = rowsOf(desc, tensor);
  sizes[5] = columnsOf(desc, tensor);
  for (int d = 0; d < 6; ++d) {
    if (fields[2 + d] < 0 || fields[2 + d] > deviceBytes)
      return refuse("strides from 0 to the arena's size");
    last += __int128(sizes[d] - 1) * fields[2 + d];
  }
  int64_t size = dtypeSize(view.dtype);
  if (view.offset % size != 0 ||
      (last + 1) * size > __int128(deviceBytes) - view.offset)
    return refuse("it inside the arena");
  return Status::ok();
}

} // namespace

int64_t matmulBatch(const fsdp_rt_matmul_desc &desc) {
  return desc.batch[0] * desc.batch[1] * desc.batch[2] * desc.batch[3];
}

Status checkMatmul(const fsdp_rt_matmul_desc &desc, int64_t deviceBytes,
                   int64_t maxDimension) {
  if (!isDtype(desc.dtype))
    return Status::internal("expected an element type, got " +
                            std::to_string(desc.dtype));
  auto dtype = static_cast<Dtype>(desc.dtype);
  switch (dtype) {
  case FSDP_RT_F32:
  case FSDP_RT_F16:
  case FSDP_RT_BF16:
  case FSDP_RT_F64:
    break;
  default:
    return Status::internal(
        std::string("expected a floating-point type, got ") + dtypeName(dtype));
  }
  bool isNarrow = dtype == FSDP_RT_F16 || dtype == FSDP_RT_BF16;
  if (desc.c_dtype != desc.dtype && !(isNarrow && desc.c_dtype == FSDP_RT_F32))
    return Status::internal(
        std::string("expected a result in ") + dtypeName(dtype) +
        (isNarrow ? " or F32, got " : ", got ") +
        (isDtype(desc.c_dtype) ? dtypeName(static_cast<Dtype>(desc.c_dtype))
                               : std::to_string(desc.c_dtype)));
  auto cDtype = static_cast<Dtype>(desc.c_dtype);
  if (desc.tf32 != 0 && (desc.tf32 != 1 || dtype != FSDP_RT_F32))
    return Status::internal("expected tf32 to be 0, or 1 of F32, got " +
                            std::to_string(desc.tf32) + " of " +
                            dtypeName(dtype));
  for (int64_t extent : {desc.m, desc.n, desc.k, desc.batch[0], desc.batch[1],
                         desc.batch[2], desc.batch[3]})
    if (extent < 0)
      return Status::internal("expected extents of at least 0, got " +
                              std::to_string(extent));
  for (int64_t extent :
       {desc.m, desc.n, desc.k, desc.lda, desc.ldb, desc.ldc, desc.batch[0],
        desc.batch[1], desc.batch[2], desc.batch[3]})
    if (extent > maxDimension)
      return Status::failed("expected extents of at most " +
                            std::to_string(maxDimension) + ", got " +
                            std::to_string(extent));
  // Extents fit 32 bits here, and the product of four 128.
  __int128 batch = 1;
  for (int d = 0; d < 4; ++d) {
    batch *= desc.batch[d];
    if (desc.batch[d] > 1 && desc.c_stride[d] == 0)
      return Status::internal("expected products of a batch apart in C, got "
                              "stride 0");
  }
  if (batch > deviceBytes)
    return Status::internal("expected products of a batch apart in C, got more "
                            "products than an arena of " +
                            std::to_string(deviceBytes) + " bytes can hold");
  Operand a = {"A", desc.a, desc.lda, desc.a_stride};
  Operand b = {"B", desc.b, desc.ldb, desc.b_stride};
  Operand c = {"C", desc.c, desc.ldc, desc.c_stride};
  a.setShape(desc.trans_a ? desc.k : desc.m, desc.trans_a ? desc.m : desc.k);
  b.setShape(desc.trans_b ? desc.n : desc.k, desc.trans_b ? desc.k : desc.n);
  c.setShape(desc.m, desc.n);
  for (const auto &[operand, type] :
       {std::pair(a, dtype), std::pair(b, dtype), std::pair(c, cDtype)})
    if (Status s = checkOperand(operand, desc.batch, type, deviceBytes))
      return s;
  return checkEpilogue(desc, cDtype, deviceBytes);
}

bool addsMatrix(const fsdp_rt_matmul_desc &desc) {
  return desc.accumulate || (desc.epilogue & FSDP_RT_EPILOGUE_ADDEND) != 0;
}

int64_t matmulBytes(const fsdp_rt_matmul_desc &desc) {
  int64_t factors = desc.m * desc.k + desc.k * desc.n,
          results = desc.m * desc.n * (addsMatrix(desc) ? 2 : 1),
          bias = desc.epilogue & FSDP_RT_EPILOGUE_BIAS ? desc.n : 0;
  return matmulBatch(desc) * factors *
             dtypeSize(static_cast<Dtype>(desc.dtype)) +
         (matmulBatch(desc) * results + bias) *
             dtypeSize(static_cast<Dtype>(desc.c_dtype));
}

int64_t matmulFlops(const fsdp_rt_matmul_desc &desc) {
  return 2 * matmulBatch(desc) * desc.m * desc.n * desc.k;
}

const char *AttentionView::name(int tensor) {
  constexpr const char *names[] = {"q",    "k",  "v",  "out",
                                   "dout", "dq", "dk", "dv"};
  return names[tensor];
}

AttentionView::AttentionView(const fsdp_rt_attention_desc &desc, int tensor) {
  auto fields =
      static_cast<const int64_t *>(desc.tensors) + tensor * tensorFields;
  offset = fields[0];
  dtype = static_cast<Dtype>(fields[1]);
  batch = fields + 2;
  row = fields[6];
  column = fields[7];
}

int64_t attentionExtent(const fsdp_rt_attention_desc &desc, int tensor) {
  View view(desc, tensor);
  int64_t last = (rowsOf(desc, tensor) - 1) * view.row +
                 (columnsOf(desc, tensor) - 1) * view.column;
  for (int d = 0; d < 4; ++d)
    last += (desc.batch[d] - 1) * view.batch[d];
  return (last + 1) * dtypeSize(view.dtype);
}

int64_t attentionBatch(const fsdp_rt_attention_desc &desc) {
  return desc.batch[0] * desc.batch[1] * desc.batch[2] * desc.batch[3];
}

Status checkAttention(const fsdp_rt_attention_desc &desc, bool backward,
                      int64_t deviceBytes, int64_t maxDimension) {
  if (!desc.tensors || (desc.captured_count && !desc.captured))
    return Status::internal("expected tensors, got null");
  if (desc.captured_count < 0 || desc.captured_count > maxCaptured)
    return Status::internal("expected 0 to " + std::to_string(maxCaptured) +
                            " captured tensors, got " +
                            std::to_string(desc.captured_count));
  if (desc.plain != 0 && desc.plain != 1)
    return Status::internal("expected plain to be 0 or 1, got " +
                            std::to_string(desc.plain));
  int64_t limit = std::min(maxDimension, deviceBytes);
  for (int64_t size :
       {desc.queries, desc.keys, desc.head, desc.value, desc.batch[0],
        desc.batch[1], desc.batch[2], desc.batch[3]})
    if (size < 1 || size > limit)
      return Status::internal("expected sizes from 1 to " +
                              std::to_string(limit) + ", got " +
                              std::to_string(size));
  for (int tensor = 0; tensor < attentionTensors(backward); ++tensor)
    if (Status s = checkTensor(desc, tensor, deviceBytes))
      return s;
  auto captured = static_cast<const int64_t *>(desc.captured);
  for (int64_t i = 0; i < desc.captured_count; ++i)
    if (captured[i] < 0 || captured[i] > deviceBytes)
      return Status::internal("captured tensor " + std::to_string(i) +
                              ": expected it inside the arena");
  __int128 rows = __int128(desc.batch[0]) * desc.batch[1] * desc.batch[2] *
                  desc.batch[3] * desc.queries;
  if ((backward && desc.stats < 0) ||
      (desc.stats >= 0 &&
       (desc.stats % 4 != 0 || rows * 8 > __int128(deviceBytes) - desc.stats)))
    return Status::internal(
        "expected statistics inside the arena, got offset " +
        std::to_string(desc.stats));
  if (backward && View(desc, View::Dk).exists() &&
      View(desc, View::Dv).exists())
    for (int d = 0; d < 4; ++d)
      if (desc.batch[d] > 1 && (View(desc, View::Dk).batch[d] == 0) !=
                                   (View(desc, View::Dv).batch[d] == 0))
        return Status::internal("expected dk and dv summed over the same "
                                "dimensions, got batch dimension " +
                                std::to_string(d) + " in one of them");
  return Status::ok();
}

int64_t attentionFlops(const fsdp_rt_attention_desc &desc, bool backward) {
  int64_t points = attentionBatch(desc) * desc.queries * desc.keys;
  int64_t flops = backward ? 2 * points * (3 * desc.head + 2 * desc.value)
                           : 2 * points * (desc.head + desc.value);
  return desc.causal ? flops / 2 : flops;
}

int64_t attentionBytes(const fsdp_rt_attention_desc &desc, bool backward) {
  int64_t bytes = 0;
  for (int tensor = 0; tensor < attentionTensors(backward); ++tensor) {
    View view(desc, tensor);
    if (!view.exists())
      continue;
    int64_t elements = rowsOf(desc, tensor) * columnsOf(desc, tensor);
    for (int d = 0; d < 4; ++d)
      if (view.batch[d] != 0)
        elements *= desc.batch[d];
    bytes += elements * dtypeSize(view.dtype);
  }
  return bytes;
}

} // namespace fsdp::rt::hal
