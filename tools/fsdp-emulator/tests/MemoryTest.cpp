//===- MemoryTest.cpp - Loads, stores, atomics and asynchronous copies ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstructionTest.h"

#include <numeric>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;

namespace {

class Memory : public InstructionTest {};

/// Thread i has its own 64 bytes at p0, whose address is %rd20, and writes its
/// results to p1, %rd21.
std::string ownLines(const std::string &body,
                     const std::string &variables = "") {
  return kernelOf("mul.wide.u32 %rd22, %r0, 64;\nadd.s64 %rd20, %rd0, %rd22;\n"
                  "add.s64 %rd21, %rd1, %rd22;\n" +
                      body,
                  2, variables);
}

TEST_F(Memory, WidthsAndSigns) {
  std::vector<uint8_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0x80});
  auto from = upload(bytes);
  auto to = upload(std::vector<uint64_t>(8));
  ASSERT_CU(run(ownLines("ld.global.s8 %r10, [%rd20];\n"
                         "ld.global.u8 %r11, [%rd20];\n"
                         "ld.global.s16 %r12, [%rd20+2];\n"
                         "ld.global.u16 %r13, [%rd20+2];\n"
                         "ld.global.s32 %rd30, [%rd20+4];\n"
                         "ld.global.u32 %rd31, [%rd20+4];\n"
                         "ld.global.b8 %h10, [%rd20+1];\n"
                         "st.global.v4.b32 [%rd21], {%r10, %r11, %r12, %r13};\n"
                         "st.global.v2.b64 [%rd21+16], {%rd30, %rd31};\n"
                         "st.global.b16 [%rd21+32], %h10;\n"
                         "st.global.b8 [%rd21+34], %r10;\n"
                         "add.s64 %rd32, %rd20, 16;\n"
                         "ld.global.b8 %r14, [%rd32+-1];\n"
                         "st.global.b8 [%rd21+35], %r14;\n"),
                1, 1, {from, to}));
  auto words = download<uint32_t>(to, 9);
  EXPECT_EQ(s32(-128), words[0]);
  EXPECT_EQ(0x80u, words[1]);
  EXPECT_EQ(0xffff8382u, words[2]);
  EXPECT_EQ(0x8382u, words[3]);
  EXPECT_EQ(0x87868584u, words[4]);
  EXPECT_EQ(0xffffffffu, words[5]);
  EXPECT_EQ(0x87868584u, words[6]);
  EXPECT_EQ(0u, words[7]);
  EXPECT_EQ(0x8f800081u, words[8]);
}

TEST_F(Memory, Vectors) {
  std::vector<uint32_t> values(16 * 40);
  std::iota(values.begin(), values.end(), 0u);
  auto from = upload(values);
  auto to = upload(std::vector<uint32_t>(16 * 40));
  ASSERT_CU(
      run(ownLines("ld.global.v4.b32 {%r10, _, %r12, %r13}, [%rd20];\n"
                   "ld.global.nc.v2.u64 {%rd30, %rd31}, [%rd20+16];\n"
                   "ld.global.L1::no_allocate.v4.b16 {%h1, %h2, %h3, %h4}, "
                   "[%rd20+32];\n"
                   "ld.volatile.global.v2.f32 {%f1, %f2}, [%rd20+40];\n"
                   "st.global.v4.b32 [%rd21], {%r10, %r13, %r12, %r10};\n"
                   "st.global.v2.b64 [%rd21+16], {%rd31, %rd30};\n"
                   "st.global.v4.b16 [%rd21+32], {%h1, %h2, %h3, %h4};\n"
                   "st.relaxed.gpu.global.v2.b32 [%rd21+40], {%f2, %f1};\n"),
          1, 40, {from, to}));
  auto results = download<uint32_t>(to, 16 * 40);
  for (uint32_t thread = 0; thread < 40; ++thread) {
    uint32_t first = 16 * thread;
    uint32_t expected[] = {0, 3, 2, 0, 6, 7, 4, 5, 8, 9, 11, 10};
    for (uint32_t i = 0; i < 12; ++i)
      EXPECT_EQ(first + expected[i], results[first + i]);
  }
}

TEST_F(Memory, GenericAddresses) {
  auto to = upload(std::vector<uint32_t>(32));
  // A pointer to any memory; isspacep tells which.
  std::string body =
      ".local .align 8 .b8 l[8];\n"
      "mov.b64 %rd10, s;\ncvta.shared.u64 %rd10, %rd10;\n"
      "mov.b64 %rd11, l;\ncvta.local.u64 %rd11, %rd11;\n"
      "mov.b32 %r10, 11;\nst.b32 [%rd10], %r10;\nst.b32 [%rd11+4], 22;\n"
      "ld.b32 %r11, [%rd10];\nld.b32 %r12, [%rd11+4];\n"
      "ld.shared.b32 %r13, [s];\nld.local.b32 %r14, [l+4];\n"
      "cvta.to.shared.u64 %rd12, %rd10;\nld.shared.b32 %r15, [%rd12];\n"
      "isspacep.shared %p1, %rd10;\nisspacep.local %p2, %rd11;\n"
      "isspacep.global %p3, %rd0;\nisspacep.global %p4, %rd10;\n"
      "selp.b32 %r16, 1, 0, %p1;\nselp.b32 %r17, 2, 0, %p2;\n"
      "selp.b32 %r18, 4, 0, %p3;\nselp.b32 %r19, 8, 0, %p4;\n"
      "add.s32 %r16, %r16, %r17;\nadd.s32 %r16, %r16, %r18;\n"
      "add.s32 %r16, %r16, %r19;\n"
      "st.v4.b32 [%rd0], {%r11, %r12, %r13, %r14};\n"
      "st.v2.b32 [%rd0+16], {%r15, %r16};\n";
  ASSERT_CU(run(kernelOf(body, 1, ".shared .align 4 .b32 s;\n"), 1, 1, {to}));
  EXPECT_EQ((std::vector<uint32_t>{11, 22, 11, 22, 11, 7}),
            download<uint32_t>(to, 6));
}

TEST_F(Memory, ModuleVariables) {
  auto to = upload(std::vector<uint32_t>(16));
  std::string variables =
      ".global .align 4 .b32 a[4] = {1, 2, 0xffffffff, -4};\n"
      ".const .align 4 .f32 c[2] = {0f3F800000, 0f40000000};\n"
      ".global .align 8 .u64 g = generic(a) + 8;\n"
      ".global .align 1 .b8 b[8] = {9, 8, 7, 6};\n"
      ".global .align 4 .u32 zero[2];\n";
  ASSERT_CU(run(kernelOf("ld.global.b32 %r10, [a+4];\n"
                         "ld.const.b32 %r11, [c+4];\n"
                         "ld.global.b64 %rd10, [g];\nld.b32 %r12, [%rd10];\n"
                         "mov.b64 %rd11, b;\nld.global.b32 %r13, [%rd11];\n"
                         "ld.global.b32 %r14, [zero+4];\n"
                         "ld.global.b32 %r15, [%rd11+4];\n"
                         "st.global.v4.b32 [%rd0], {%r10, %r11, %r12, %r13};\n"
                         "st.global.v2.b32 [%rd0+16], {%r14, %r15};\n",
                         1, variables),
                1, 1, {to}));
  EXPECT_EQ(
      (std::vector<uint32_t>{2, 0x40000000, 0xffffffff, 0x06070809, 0, 0}),
      download<uint32_t>(to, 6));
}

TEST_F(Memory, DynamicSharedMemoryFollowsTheStatic) {
  auto to = upload(std::vector<uint32_t>(4));
  ASSERT_CU(run(kernelOf("mov.b32 %r10, fixed;\nmov.b32 %r11, dynamic;\n"
                         "st.shared.b32 [%r11+12], 5;\n"
                         "ld.shared.b32 %r12, [dynamic+12];\n"
                         "mov.u32 %r13, %dynamic_smem_size;\n"
                         "st.global.v4.b32 [%rd0], {%r10, %r11, %r12, %r13};\n",
                         1,
                         ".shared .align 4 .b8 fixed[20];\n"
                         ".extern .shared .align 16 .b8 dynamic[];\n"),
                1, 1, {to}, 64));
  EXPECT_EQ((std::vector<uint32_t>{0, 32, 5, 64}), download<uint32_t>(to, 4));
}

TEST_F(Memory, Parameters) {
  auto to = upload(std::vector<uint32_t>(4));
  std::string text = moduleOf(
      ".entry k(.param .b8 a, .param .align 8 .b8 s[12], .param .u64 p) {\n"
      ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .b16 %h<2>;\n"
      "ld.param.s8 %r1, [a];\nld.param.b32 %r2, [s+8];\n"
      "ld.param.b64 %rd1, [p];\nmov.b64 %rd2, s;\n"
      "ld.param.b32 %r3, [%rd2+4];\ncvta.param.u64 %rd3, %rd2;\n"
      "ld.b32 %r4, [%rd3];\n"
      "st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};\nret;\n}\n");
  cuda::Function function = load(text);
  int8_t a = -3;
  uint32_t s[] = {10, 20, 30};
  void *parameters[] = {&a, s, &to};
  ASSERT_CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                           nullptr));
  EXPECT_EQ((std::vector<uint32_t>{0xfffffffd, 30, 20, 10}),
            download<uint32_t>(to, 4));
}

/// One instruction by 64 threads on one word; the word before, and behind.
class Atomics : public EmulatorTest {
protected:
  template <typename T>
  T after(const std::string &instruction, T before, unsigned threads) {
    auto pointer = upload(std::vector<T>{before});
    EXPECT_CU(run(kernelOf("mov.u32 %r10, %tid.x;\n"
                           "cvt.rn.f32.u32 %f10, %r10;\n"
                           "cvt.u64.u32 %rd10, %r10;\n" +
                               instruction + ";\n",
                           1),
                  1, threads, {pointer}))
        << instruction;
    return download<T>(pointer, 1)[0];
  }
};

TEST_F(Atomics, OfIntegers) {
  EXPECT_EQ(5u + 2016,
            after<uint32_t>("red.global.add.u32 [%rd0], %r10", 5, 64));
  EXPECT_EQ(63u,
            after<uint32_t>("atom.global.max.u32 %r11, [%rd0], %r10", 5, 64));
  EXPECT_EQ(-7, after<int32_t>("atom.min.s32 %r11, [%rd0], %r10", -7, 64));
  EXPECT_EQ(0u, after<uint32_t>("red.min.u32 [%rd0], %r10", 5, 64));
  EXPECT_EQ(31u, after<uint32_t>("red.or.b32 [%rd0], %r10", 0, 32));
  EXPECT_EQ(0u, after<uint32_t>("red.xor.b32 [%rd0], %r10", 0, 4));
  EXPECT_EQ(2u, after<uint32_t>("red.and.b32 [%rd0], 2", 7, 4));
  EXPECT_EQ(3u, after<uint32_t>("red.inc.u32 [%rd0], 6", 0, 10));
  EXPECT_EQ(5u, after<uint32_t>("red.dec.u32 [%rd0], 6", 1, 3));
  EXPECT_EQ(uint64_t(2016) + (1ull << 40),
            after<uint64_t>("atom.global.add.u64 %rd11, [%rd0], %rd10",
                            1ull << 40, 64));
  EXPECT_EQ(0u, after<uint32_t>("atom.relaxed.gpu.global.exch.b32 %r11, "
                                "[%rd0], %r10",
                                9, 1));
  EXPECT_EQ(77u, after<uint32_t>("atom.acq_rel.sys.global.cas.b32 %r11, "
                                 "[%rd0], 9, 77",
                                 9, 64));
  EXPECT_EQ(8u, after<uint32_t>("atom.cas.b32 %r11, [%rd0], 9, 77", 8, 64));
}

TEST_F(Atomics, OfFloats) {
  EXPECT_EQ(2016.5f, after<float>("red.global.add.f32 [%rd0], %f10", .5f, 64));
  EXPECT_EQ(64 * .25, after<double>("atom.global.add.f64 %fd11, [%rd0], "
                                    "0d3FD0000000000000",
                                    0, 64));
  // In global memory, subnormal numbers become zeros.
  EXPECT_EQ(
      0.f, after<float>("red.global.add.f32 [%rd0], 0f00000001", 0x1p-149f, 1));
  // 1 + 3 * 1 above 2 + 3 * 2.
  EXPECT_EQ(0x40804100u,
            after<uint32_t>("mov.b32 %r11, 0x3f804000;\n"
                            "atom.global.add.noftz.bf16x2 %r12, [%rd0], %r11",
                            0x3f804000u, 3));
}

TEST_F(Atomics, OfSharedMemoryReturnWhatWasThere) {
  auto to = upload(std::vector<uint32_t>(64));
  // Each thread draws a number of its own.
  ASSERT_CU(
      run(kernelOf("setp.eq.s32 %p1, %r3, 0;\n@%p1 st.shared.b32 [s], 0;\n"
                   "bar.sync 0;\natom.shared.add.u32 %r10, [s], 1;\n"
                   "mul.wide.u32 %rd10, %r10, 4;\n"
                   "add.s64 %rd10, %rd10, %rd0;\n"
                   "st.global.b32 [%rd10], %r10;\n",
                   1, ".shared .align 4 .b32 s;\n"),
          1, 64, {to}));
  auto results = download<uint32_t>(to, 64);
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(i, results[i]);
}

TEST_F(Memory, AsynchronousCopies) {
  std::vector<uint32_t> values(4 * 64);
  std::iota(values.begin(), values.end(), 100u);
  auto from = upload(values);
  auto to = upload(std::vector<uint32_t>(4 * 64));
  // Backwards through shared memory. The second of two groups is waited for
  // later; of its 16 bytes, 8 are copied.
  std::string body =
      "mul.wide.u32 %rd10, %r3, 16;\nadd.s64 %rd11, %rd0, %rd10;\n"
      "mov.b64 %rd12, s;\nadd.s64 %rd13, %rd12, %rd10;\n"
      "cp.async.ca.shared.global [%rd13], [%rd11], 16;\n"
      "cp.async.commit_group;\n"
      "cp.async.cg.shared.global.L2::128B [%rd13+1024], [%rd11], 16, 8;\n"
      "cp.async.commit_group;\ncp.async.wait_group 1;\nbar.sync 0;\n"
      "sub.s32 %r10, 63, %r3;\nmul.wide.u32 %rd14, %r10, 16;\n"
      "add.s64 %rd14, %rd14, %rd12;\n"
      "ld.shared.v2.b32 {%r11, %r12}, [%rd14];\n"
      "cp.async.wait_all;\nbar.sync 0;\n"
      "ld.shared.b32 %r13, [%rd14+1028];\nld.shared.b32 %r14, [%rd14+1032];\n"
      "add.s64 %rd15, %rd1, %rd10;\n"
      "st.global.v4.b32 [%rd15], {%r11, %r12, %r13, %r14};\n";
  ASSERT_CU(run(kernelOf(body, 2, ".shared .align 16 .b8 s[2048];\n"), 1, 64,
                {from, to}));
  auto results = download<uint32_t>(to, 4 * 64);
  for (uint32_t thread = 0; thread < 64; ++thread) {
    uint32_t first = 100 + 4 * (63 - thread);
    EXPECT_EQ(first, results[4 * thread]);
    EXPECT_EQ(first + 1, results[4 * thread + 1]);
    EXPECT_EQ(first + 1, results[4 * thread + 2]);
    EXPECT_EQ(0u, results[4 * thread + 3]);
  }
}

} // namespace
