//===- AbiTest.cpp - The table against the C structs ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/abi.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace {

// What a kind of the table means, written down once more.
using PTR = const void *;
using STR = const char *;
using I32 = int32_t;
using I64 = int64_t;
using F64 = double;
using I64x4 = int64_t[4];

struct Field {
  std::string name;
  size_t offset;
  size_t size;
  bool hasType;
};

struct Descriptor {
  std::string name;
  size_t size = 0;
  std::vector<Field> fields;
};

std::vector<Descriptor> descriptors() {
  std::vector<Descriptor> all;
#define FSDP_RT_STRUCT_BEGIN(desc)                                             \
  {                                                                            \
    using Struct = fsdp_rt_##desc##_desc;                                      \
    Descriptor d;                                                              \
    d.name = #desc;                                                            \
    d.size = sizeof(Struct);
#define FSDP_RT_FIELD(desc, kind, name)                                        \
  d.fields.push_back({#name, offsetof(Struct, name), sizeof(kind),             \
                      std::is_same_v<decltype(Struct::name), kind>});
#define FSDP_RT_STRUCT_END(desc)                                               \
  all.push_back(d);                                                            \
  }
#include "fsdp-rt/abi.def"
  return all;
}

TEST(Abi, FieldsFollowEachOtherWithoutPadding) {
  std::vector<Descriptor> all = descriptors();
  ASSERT_FALSE(all.empty());
  for (const Descriptor &d : all) {
    size_t offset = 0;
    for (const Field &field : d.fields) {
      EXPECT_TRUE(field.hasType) << d.name << "." << field.name;
      EXPECT_EQ(field.offset, offset) << d.name << "." << field.name;
      offset += field.size;
    }
    EXPECT_EQ(d.size, offset) << d.name;
  }
}

TEST(Abi, LayoutStaysWithTheVersion) {
  // What programs that exist were compiled against: a change here needs a new
  // FSDP_RT_ABI_VERSION.
  EXPECT_EQ(FSDP_RT_ABI_VERSION, 16);
  EXPECT_EQ(sizeof(fsdp_rt_artifact), 32u);
  EXPECT_EQ(offsetof(fsdp_rt_artifact, manifest_digest), 24u);
  EXPECT_EQ(sizeof(fsdp_rt_program), 24u);
  EXPECT_EQ(offsetof(fsdp_rt_program, run), 8u);
  EXPECT_EQ(offsetof(fsdp_rt_program, certificate), 16u);
  EXPECT_EQ(sizeof(fsdp_rt_cpu_kernel_desc), 32u);
  EXPECT_EQ(sizeof(fsdp_rt_cuda_image_desc), 40u);
  EXPECT_EQ(sizeof(fsdp_rt_cuda_kernel_desc), 40u);
  EXPECT_EQ(sizeof(fsdp_rt_cuda_code_desc), 24u);
  EXPECT_EQ(offsetof(fsdp_rt_cuda_kernel_desc, grid), 16u);
  EXPECT_EQ(sizeof(fsdp_rt_launch_desc), 56u);
  EXPECT_EQ(sizeof(fsdp_rt_matmul_desc), 280u);
  EXPECT_EQ(sizeof(fsdp_rt_cpu_attention_desc), 32u);
  EXPECT_EQ(sizeof(fsdp_rt_attention_desc), 168u);
  EXPECT_EQ(sizeof(fsdp_rt_collective_desc), 48u);
  EXPECT_EQ(sizeof(fsdp_rt_host_copy_desc), 32u);
  EXPECT_EQ(sizeof(fsdp_rt_start_desc), 64u);
  EXPECT_EQ(sizeof(fsdp_rt_wait_desc), 16u);
  EXPECT_EQ(sizeof(fsdp_rt_copy_desc), 32u);
  EXPECT_EQ(sizeof(fsdp_rt_check_desc), 16u);
  EXPECT_EQ(sizeof(fsdp_rt_guarded_desc), 40u);
  EXPECT_EQ(sizeof(fsdp_rt_guard_desc), 24u);
  EXPECT_EQ(offsetof(fsdp_rt_launch_desc, operands), 16u);
  EXPECT_EQ(offsetof(fsdp_rt_matmul_desc, batch), 80u);
  EXPECT_EQ(offsetof(fsdp_rt_matmul_desc, alpha), 224u);
  EXPECT_EQ(offsetof(fsdp_rt_matmul_desc, dtype), 244u);
  EXPECT_EQ(offsetof(fsdp_rt_attention_desc, batch), 80u);
  EXPECT_EQ(offsetof(fsdp_rt_attention_desc, plain), 152u);
  EXPECT_EQ(offsetof(fsdp_rt_attention_desc, causal), 160u);
  EXPECT_EQ(offsetof(fsdp_rt_collective_desc, group), 40u);
  EXPECT_EQ(offsetof(fsdp_rt_start_desc, event), 40u);
  EXPECT_EQ(offsetof(fsdp_rt_start_desc, queue), 52u);
  EXPECT_EQ(offsetof(fsdp_rt_start_desc, guard), 56u);
  EXPECT_EQ(offsetof(fsdp_rt_wait_desc, event), 8u);
  EXPECT_EQ(offsetof(fsdp_rt_artifact, manifest), 8u);
  EXPECT_EQ(offsetof(fsdp_rt_artifact, programs), 16u);
}

TEST(Abi, NumbersThatProgramsHold) {
  EXPECT_EQ(FSDP_RT_ALL_GATHER, 0);
  EXPECT_EQ(FSDP_RT_REDUCE_SCATTER, 1);
  EXPECT_EQ(FSDP_RT_ALL_REDUCE, 2);
  EXPECT_EQ(FSDP_RT_ALL_TO_ALL, 3);
  EXPECT_EQ(FSDP_RT_OFFLOAD, 4);
  EXPECT_EQ(FSDP_RT_RELOAD, 5);
  EXPECT_EQ(FSDP_RT_QUEUE_COMPUTE, 0);
  EXPECT_EQ(FSDP_RT_QUEUE_D2H, 4);
  EXPECT_EQ(FSDP_RT_QUEUE_H2D, 5);
  EXPECT_EQ(FSDP_RT_DEVICE, 0);
  EXPECT_EQ(FSDP_RT_HOST, 1);
  EXPECT_EQ(FSDP_RT_QUEUE_ALL_GATHER, 1);
  EXPECT_EQ(FSDP_RT_QUEUE_REDUCE, 2);
  EXPECT_EQ(FSDP_RT_QUEUE_ALL_REDUCE, 3);
  EXPECT_EQ(FSDP_RT_GUARD_FILL, 0);
  EXPECT_EQ(FSDP_RT_GUARD_BEGIN, 1);
  EXPECT_EQ(FSDP_RT_GUARD_END, 2);
  EXPECT_EQ(FSDP_RT_GUARD_KEEP, 3);
}

TEST(Abi, EveryFunctionOfTheTableIsDefined) {
  std::set<const void *> functions;
  size_t count = 0;
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE)                          \
  {                                                                            \
    int32_t (*function)(fsdp_rt_context *, const fsdp_rt_##desc##_desc *) =    \
        fsdp_rt_##name;                                                        \
    functions.insert(reinterpret_cast<const void *>(function));                \
    ++count;                                                                   \
  }
#include "fsdp-rt/calls.def"
  EXPECT_GT(count, 0u);
  EXPECT_EQ(functions.size(), count);
}

} // namespace
