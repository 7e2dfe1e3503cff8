//===- AttentionDescriptor.h - Attentions for tests -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_ATTENTIONDESCRIPTOR_H
#define FSDP_TEST_CUDA_ATTENTIONDESCRIPTOR_H

#include "fsdp-rt/abi.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace fsdp::test {

/// An attention of rows that lie [batch, row, head, feature], with its tensors
/// one after another in the arena.
struct AttentionDescriptor {
  std::string name = "attention";
  int64_t batch = 1, heads = 1, keyHeads = 1, queries = 128, keys = 128,
          head = 64;
  bool causal = true, plain = true;
  fsdp_rt_dtype dtype = FSDP_RT_BF16;
  /// Eight numbers for each of q, k, v, out, dout, dq, dk, dv.
  std::array<int64_t, 64> tensors = {};
  int64_t stats = 0, bytes = 0;

  int64_t group() const { return heads / keyHeads; }

  /// q, k and v side by side in each row of one tensor, and so their gradients.
  void layOutAsOneBuffer() {
    int64_t row = (heads + 2 * keyHeads) * head;
    bytes = 0;
    int64_t qkv = take(batch * queries * row),
            out = take(batch * queries * heads * head),
            dout = take(batch * queries * heads * head),
            gradients = take(batch * queries * row);
    int64_t k = heads * head * 2, v = (heads + keyHeads) * head * 2;
    set(0, qkv, row, false);
    set(1, qkv + k, row, true);
    set(2, qkv + v, row, true);
    set(3, out, heads * head, false);
    set(4, dout, heads * head, false);
    set(5, gradients, row, false);
    set(6, gradients + k, row, true);
    set(7, gradients + v, row, true);
    takeStats();
  }

  /// Each a tensor of its own.
  void layOutSeparately() {
    bytes = 0;
    for (int tensor = 0; tensor < 8; ++tensor) {
      bool isOfKeys = tensor == 1 || tensor == 2 || tensor >= 6;
      int64_t row = (isOfKeys ? keyHeads : heads) * head;
      int64_t rows = isOfKeys ? keys : queries;
      set(tensor, take(batch * rows * row), row, isOfKeys);
    }
    takeStats();
  }

  /// The same, but q and k, and their gradients, lie [batch, head, row,
  /// feature], as rotary embeddings leave them.
  void layOutRotated() {
    layOutSeparately();
    for (int tensor : {0, 1, 5, 6}) {
      bool isOfKeys = tensor == 1 || tensor == 6;
      int64_t rows = isOfKeys ? keys : queries;
      int64_t *fields = tensors.data() + tensor * 8;
      fields[4] = (isOfKeys ? 1 : group()) * rows * head;
      fields[5] = isOfKeys ? 0 : rows * head;
      fields[6] = head;
    }
  }

  fsdp_rt_attention_desc get(bool backward) const {
    fsdp_rt_attention_desc desc = {};
    desc.name = name.c_str();
    desc.tensors = tensors.data();
    desc.stats = stats;
    desc.queries = queries;
    desc.keys = keys;
    desc.head = desc.value = head;
    desc.batch[0] = 1;
    desc.batch[1] = batch;
    desc.batch[2] = keyHeads;
    desc.batch[3] = group();
    desc.scale = 1 / std::sqrt(double(head));
    desc.dq_scale = desc.dk_scale = backward ? desc.scale : 0;
    desc.plain = plain;
    desc.causal = causal;
    return desc;
  }

private:
  /// Elements of two bytes; whole multiples of 256 bytes.
  int64_t take(int64_t elements) {
    int64_t begin = bytes;
    bytes += (elements * 2 + 255) / 256 * 256;
    return begin;
  }
  void takeStats() { stats = take(batch * heads * queries * 4); }
  void set(int tensor, int64_t offset, int64_t row, bool isOfKeys) {
    int64_t rows = isOfKeys ? keys : queries;
    int64_t *fields = tensors.data() + tensor * 8;
    fields[0] = offset;
    fields[1] = dtype;
    fields[2] = 0;
    fields[3] = rows * row;
    fields[4] = isOfKeys ? head : group() * head;
    fields[5] = isOfKeys ? 0 : head;
    fields[6] = row;
    fields[7] = 1;
  }
};

} // namespace fsdp::test

#endif // FSDP_TEST_CUDA_ATTENTIONDESCRIPTOR_H
