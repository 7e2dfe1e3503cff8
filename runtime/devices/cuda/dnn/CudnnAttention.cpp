//===- CudnnAttention.cpp - Attentions that cuDNN can compute -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/CudnnAttention.h"

#include "devices/cuda/driver/Library.h"
#include "hal/ComputeRules.h"

#include <cmath>
#include <optional>

namespace fsdp::rt {

namespace {

using View = hal::AttentionView;

/// Of which pointers and strides are multiples, in bytes.
constexpr int64_t alignment = 16;
/// The first version whose graphs need no handle, with which they are tested;
/// two whose attention is wrong; and the first whose backward pass is right
/// where keys are no multiple of a tile.
constexpr size_t leastVersion = 90800, firstWrong = 91000, lastWrong = 91001,
                 firstRagged = 91501;
constexpr int64_t keyTile = 128;

/// Batch dimensions [begin, end) as one: its size and stride, 0 of size 1.
struct Merged {
  int64_t size = 1, stride = 0;
};
std::optional<Merged> merge(const int64_t *extents, const int64_t *strides,
                            int begin, int end) {
  Merged merged;
  for (int d = end - 1; d >= begin; --d) {
    if (extents[d] == 1)
      continue;
    if (merged.size == 1)
      merged.stride = strides[d];
    else if (strides[d] != merged.stride * merged.size)
      return std::nullopt;
    merged.size *= extents[d];
  }
  return merged;
}

/// With dimensions below `split` as the batch, others as heads. Dimensions over
/// which heads share keys have stride 0 and come last.
std::optional<CudnnAttention::Place> place(const fsdp_rt_attention_desc &desc,
                                           int tensor, int split) {
  View view(desc, tensor);
  CudnnAttention::Place placed;
  int last = 4;
  while (last > split && View::isOfKeys(tensor) &&
         (desc.batch[last - 1] == 1 || view.batch[last - 1] == 0))
    --last;
  auto batch = merge(desc.batch, view.batch, 0, split);
  auto heads = merge(desc.batch, view.batch, split, last);
  if (!batch || !heads)
    return std::nullopt;
  if ((batch->size > 1 && batch->stride == 0) ||
      (heads->size > 1 && heads->stride == 0))
    return std::nullopt;
  int64_t rows = View::isOfKeys(tensor) ? desc.keys : desc.queries;
  placed.offset = view.offset;
  placed.heads = heads->size;
  placed.rowStride = view.row;
  // Of one head, or one batch, any distance is as good.
  placed.headStride = heads->size > 1 ? heads->stride : rows * view.row;
  placed.batchStride =
      batch->size > 1 ? batch->stride : heads->size * placed.headStride;
  return placed;
}

Status checkVersion(const fsdp_rt_attention_desc &desc, bool backward,
                    size_t version) {
  if (version < leastVersion || (version >= firstWrong && version <= lastWrong))
    return Status::failed(
        "expected a version of " + describeVersion(leastVersion) +
        " or later but " + describeVersion(firstWrong) + " and " +
        describeVersion(lastWrong) + ", got " + describeVersion(version));
  if (backward && version < firstRagged && desc.keys % keyTile != 0)
    return Status::failed("expected a multiple of " + std::to_string(keyTile) +
                          " keys before version " +
                          describeVersion(firstRagged) + ", got " +
                          std::to_string(desc.keys));
  return Status::ok();
}

Status checkFeatures(const fsdp_rt_attention_desc &desc, int capability) {
  int64_t most = capability == 90 ? 256 : 128;
  for (int64_t features : {desc.head, desc.value})
    if (features % 8 != 0 || features > most)
      return Status::failed("expected a multiple of 8 features, at most " +
                            std::to_string(most) + ", got " +
                            std::to_string(features));
  return Status::ok();
}

Status checkTensor(const fsdp_rt_attention_desc &desc, int tensor,
                   const CudnnAttention &made) {
  View view(desc, tensor);
  std::string name = View::name(tensor);
  const CudnnAttention::Place &placed = made.tensors[tensor];
  if (view.dtype != made.dtype)
    return Status::failed("expected tensors of one type, got " + name + " of " +
                          dtypeName(view.dtype) + " and q of " +
                          dtypeName(made.dtype));
  if (view.column != 1)
    return Status::failed("expected features of " + name +
                          " behind one another, got every " +
                          std::to_string(view.column) + " elements");
  if (view.row == 0)
    return Status::failed("expected rows of " + name +
                          " apart, got distance 0");
  int64_t size = dtypeSize(view.dtype);
  for (int64_t bytes : {placed.offset, placed.batchStride * size,
                        placed.headStride * size, placed.rowStride * size})
    if (bytes % alignment != 0)
      return Status::failed("expected " + name + " at multiples of " +
                            std::to_string(alignment) + " bytes, got " +
                            std::to_string(bytes));
  return Status::ok();
}

bool isClose(double a, double b) {
  return std::fabs(a - b) <= 1e-6 * std::fabs(b);
}

/// Fills `made.tensors`; false: not with this split.
bool placeWith(const fsdp_rt_attention_desc &desc, bool backward, int split,
               CudnnAttention &made) {
  for (int tensor = 0; tensor < hal::attentionTensors(backward); ++tensor) {
    auto placed = place(desc, tensor, split);
    if (!placed)
      return false;
    made.tensors[tensor] = *placed;
  }
  made.batch = made.heads = 1;
  for (int d = 0; d < 4; ++d)
    (d < split ? made.batch : made.heads) *= desc.batch[d];
  if (!backward)
    return true;
  // Gradients are of the keys' and values' own heads.
  return made.tensors[View::Dk].heads == made.tensors[View::K].heads &&
         made.tensors[View::Dv].heads == made.tensors[View::V].heads;
}

/// Fills `made.tensors`; false: with no split. Heads are the last dimension
/// and, where heads share keys, the one before, unless that does not do.
bool placeAll(const fsdp_rt_attention_desc &desc, bool backward,
              CudnnAttention &made) {
  int first = desc.batch[3] > 1 && View(desc, View::K).batch[3] == 0 ? 2 : 3;
  for (int split : {first, 4, 3, 2, 1, 0})
    if (placeWith(desc, backward, split, made))
      return true;
  return false;
}

} // namespace

std::string kindOf(const fsdp_rt_attention_desc &desc) {
  return std::string(dtypeName(View(desc, View::Q).dtype)) + " " +
         std::to_string(hal::attentionBatch(desc)) + " x " +
         std::to_string(desc.queries) + " x " + std::to_string(desc.keys) +
         ", head " + std::to_string(desc.head) +
         (desc.value == desc.head ? "" : " and " + std::to_string(desc.value)) +
         (desc.causal ? ", causal" : "");
}

Result<CudnnAttention> viewForCudnn(const fsdp_rt_attention_desc &desc,
                                    bool backward, const CudnnLimits &limits) {
  if (Status s = checkVersion(desc, backward, limits.version))
    return s;
  CudnnAttention made;
  made.kind = kindOf(desc);
  made.isBackward = backward;
  made.isCausal = desc.causal != 0;
  made.stats = desc.stats;
  made.dtype = View(desc, View::Q).dtype;
  if (made.dtype != FSDP_RT_BF16 && made.dtype != FSDP_RT_F16)
    return Status::failed(std::string("expected BF16 or F16, got ") +
                          dtypeName(made.dtype));
  if (!desc.plain || desc.captured_count != 0)
    return Status::failed(
        "expected scores that are only scaled and masked behind the "
        "query, got a score function");
  if (Status s = checkFeatures(desc, limits.capability))
    return s;
  made.queries = desc.queries;
  made.keys = desc.keys;
  made.head = desc.head;
  made.value = desc.value;
  made.scale = static_cast<float>(desc.scale);
  if (backward)
    for (int tensor : {View::Dq, View::Dk, View::Dv})
      if (!View(desc, tensor).exists())
        return Status::failed(
            std::string(
                "expected gradients of q, k and v that are wanted, got none ") +
            "of " + (View::name(tensor) + 1));
  if (backward && (!isClose(desc.dq_scale, desc.scale) ||
                   !isClose(desc.dk_scale, desc.scale)))
    return Status::failed(
        "expected gradients scaled as scores are, got another factor");
  if (!placeAll(desc, backward, made))
    return Status::failed(
        "expected a batch of one dimension and one of heads, of which "
        "neighbours may share keys, got other distances");
  for (int tensor = 0; tensor < hal::attentionTensors(backward); ++tensor)
    if (Status s = checkTensor(desc, tensor, made))
      return s;
  if (made.stats >= 0 && made.stats % alignment != 0)
    return Status::failed("expected statistics at multiples of " +
                          std::to_string(alignment) + " bytes, got " +
                          std::to_string(made.stats));
  return made;
}

std::string CudnnAttention::key() const {
  char number[32];
  std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(scale));
  std::string text = (isBackward   ? "backward "
                      : stats >= 0 ? "forward "
                                   : "forward alone ") +
                     kind + ", scale " + number + ", batch " +
                     std::to_string(batch);
  for (size_t i = 0; i < tensors.size() && tensors[i].offset >= 0; ++i)
    text += std::string(", ") + View::name(static_cast<int>(i)) + " " +
            std::to_string(tensors[i].heads) + " " +
            std::to_string(tensors[i].batchStride) + " " +
            std::to_string(tensors[i].headStride) + " " +
            std::to_string(tensors[i].rowStride);
  return text;
}

int64_t CudnnAttention::rowSumBytes() const {
  return isBackward ? batch * heads * queries * 4 : 0;
}

} // namespace fsdp::rt
