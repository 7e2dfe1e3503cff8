//===- WarpTest.cpp - Warps, blocks, control flow and matrices ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstructionTest.h"

#include <numeric>
#include <random>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;

namespace {

class Warps : public EmulatorTest {
protected:
  /// What each thread has in %r10 behind `body`.
  std::vector<uint32_t> values(const std::string &body, unsigned threads,
                               unsigned grid = 1,
                               const std::string &variables = "") {
    size_t count = size_t{threads} * grid;
    auto to = upload(std::vector<uint32_t>(count));
    EXPECT_CU(run(kernelOf(body + "add.s64 %rd30, %rd0, %rd9;\n"
                                  "st.global.b32 [%rd30], %r10;\n",
                           1, variables),
                  grid, threads, {to}));
    return download<uint32_t>(to, count);
  }

  template <typename Expected>
  void expectValues(const std::string &body, unsigned threads,
                    Expected expected, const std::string &variables = "") {
    auto results = values(body, threads, 1, variables);
    for (uint32_t i = 0; i < threads; ++i)
      EXPECT_EQ(expected(i), results[i]) << body << " in thread " << i;
  }
};

TEST_F(Warps, Shuffles) {
  expectValues("shfl.sync.bfly.b32 %r10, %r3, 5, 31, -1;\n", 64,
               [](uint32_t i) { return i ^ 5; });
  expectValues("shfl.sync.down.b32 %r10|%p1, %r3, 3, 31, -1;\n"
               "@!%p1 mov.b32 %r10, 99;\n",
               32, [](uint32_t i) { return i < 29 ? i + 3 : 99; });
  expectValues("shfl.sync.up.b32 %r10, %r3, 2, 0, -1;\n", 32,
               [](uint32_t i) { return i < 2 ? i : i - 2; });
  expectValues("shfl.sync.idx.b32 %r10, %r3, 7, 31, -1;\n", 32,
               [](uint32_t) { return 7u; });
  // Segments of 8 lanes: clamp 31, mask 24.
  expectValues("shfl.sync.idx.b32 %r10, %r3, 2, 0x181f, -1;\n", 32,
               [](uint32_t i) { return i / 8 * 8 + 2; });
  expectValues("shfl.sync.down.b32 %r10, %r3, 1, 0x181f, -1;\n", 32,
               [](uint32_t i) { return i % 8 == 7 ? i : i + 1; });
  expectValues("shfl.sync.up.b32 %r10, %r3, 1, 0x1800, -1;\n", 32,
               [](uint32_t i) { return i % 8 == 0 ? i : i - 1; });
  expectValues("mov.b32 %r11, 0xffff;\nsetp.lt.u32 %p2, %r3, 16;\n"
               "mov.b32 %r10, 5;\n"
               "@%p2 shfl.sync.bfly.b32 %r10, %r3, 1, 31, %r11;\n",
               32, [](uint32_t i) { return i < 16 ? i ^ 1 : 5; });
}

TEST_F(Warps, Votes) {
  std::string isOdd = "and.b32 %r11, %r3, 1;\nsetp.eq.s32 %p1, %r11, 1;\n";
  expectValues(isOdd + "vote.sync.ballot.b32 %r10, %p1, -1;\n", 32,
               [](uint32_t) { return 0xaaaaaaaau; });
  expectValues(isOdd + "vote.sync.ballot.b32 %r10, !%p1, -1;\n", 32,
               [](uint32_t) { return 0x55555555u; });
  expectValues(isOdd + "vote.sync.any.pred %p2, %p1, -1;\n"
                       "vote.sync.all.pred %p3, %p1, -1;\n"
                       "vote.sync.uni.pred %p4, %p1, -1;\n"
                       "selp.b32 %r10, 1, 0, %p2;\nselp.b32 %r12, 2, 0, %p3;\n"
                       "selp.b32 %r13, 4, 0, %p4;\nor.b32 %r10, %r10, %r12;\n"
                       "or.b32 %r10, %r10, %r13;\n",
               32, [](uint32_t) { return 1u; });
  expectValues(isOdd + "mov.b32 %r10, 0;\n@%p1 activemask.b32 %r10;\n", 32,
               [](uint32_t i) { return i & 1 ? 0xaaaaaaaau : 0; });
  expectValues("shr.u32 %r11, %r3, 3;\nmatch.any.sync.b32 %r10, %r11, -1;\n",
               32, [](uint32_t i) { return 0xffu << i / 8 * 8; });
  expectValues("match.all.sync.b32 %r10|%p1, %r2, -1;\n"
               "@!%p1 mov.b32 %r10, 3;\n",
               32, [](uint32_t) { return 0xffffffffu; });
  expectValues("redux.sync.add.s32 %r10, %r3, -1;\n", 32,
               [](uint32_t) { return 496u; });
  expectValues("sub.s32 %r11, %r3, 16;\nredux.sync.min.s32 %r10, %r11, -1;\n",
               32, [](uint32_t) { return static_cast<uint32_t>(-16); });
  expectValues("sub.s32 %r11, %r3, 16;\nredux.sync.min.u32 %r10, %r11, -1;\n",
               32, [](uint32_t) { return 0u; });
  expectValues("elect.sync %r10|%p1, -1;\n@%p1 add.s32 %r10, %r10, 50;\n", 32,
               [](uint32_t i) { return i == 0 ? 50u : 0u; });
}

TEST_F(Warps, SpecialRegisters) {
  expectValues("mov.u32 %r10, %laneid;\nmov.u32 %r11, %warpid;\n"
               "mad.lo.s32 %r10, %r11, 100, %r10;\n",
               70, [](uint32_t i) { return i / 32 * 100 + i % 32; });
  expectValues("mov.u32 %r10, %lanemask_lt;\n", 32,
               [](uint32_t i) { return (1u << i) - 1; });
  expectValues("mov.u32 %r10, %lanemask_ge;\n", 32,
               [](uint32_t i) { return ~((1u << i) - 1); });
  expectValues("mov.u32 %r10, %nwarpid;\n", 70, [](uint32_t) { return 3u; });
  // A grid of two blocks in y, of blocks of 4 x 2 x 2.
  auto to = upload(std::vector<uint32_t>(32));
  cuda::Function function = load(moduleOf(
      ".entry k(.param .u64 p) {\n.reg .b32 %r<20>;\n.reg .b64 %rd<4>;\n"
      "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %tid.z;\n"
      "mov.u32 %r4, %ctaid.y;\nmov.u32 %r5, %ntid.x;\nmov.u32 %r6, %ntid.y;\n"
      "mov.u32 %r7, %ntid.z;\nmov.u32 %r8, %nctaid.y;\n"
      "mad.lo.s32 %r9, %r4, %r7, %r3;\nmad.lo.s32 %r9, %r9, %r6, %r2;\n"
      "mad.lo.s32 %r9, %r9, %r5, %r1;\nmul.wide.u32 %rd1, %r9, 4;\n"
      "ld.param.b64 %rd2, [p];\nadd.s64 %rd1, %rd1, %rd2;\n"
      "mad.lo.s32 %r10, %r8, 1000, %r9;\nst.global.b32 [%rd1], %r10;\n"
      "ret;\n}\n"));
  void *parameters[] = {&to};
  ASSERT_CU(cuLaunchKernel(function, 1, 2, 1, 4, 2, 2, 0, nullptr, parameters,
                           nullptr));
  auto results = download<uint32_t>(to, 32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(2000 + i, results[i]);
}

TEST_F(Warps, DivergentLoopsRejoin) {
  // Each lane goes around as often as its index says; then all are together.
  std::string loop = "mov.b32 %r10, 0;\nmov.b32 %r11, %r3;\nLOOP:\n"
                     "setp.eq.s32 %p1, %r11, 0;\n@%p1 bra END;\n"
                     "add.s32 %r10, %r10, %r11;\nsub.s32 %r11, %r11, 1;\n"
                     "bra.uni LOOP;\nEND:\n"
                     "shfl.sync.bfly.b32 %r10, %r10, 1, 31, -1;\n";
  expectValues(loop, 32,
               [](uint32_t i) { return (i ^ 1) * ((i ^ 1) + 1) / 2; });
}

TEST_F(Warps, LanesWaitForThoseThatComeFromBehind) {
  // Odd lanes reach the shuffle by a detour that lies behind it.
  std::string body = "and.b32 %r11, %r3, 1;\nsetp.eq.s32 %p1, %r11, 1;\n"
                     "mov.b32 %r10, %r3;\n@%p1 bra DETOUR;\nJOIN:\n"
                     "shfl.sync.bfly.b32 %r10, %r10, 1, 31, -1;\nbra.uni END;\n"
                     "DETOUR:\nadd.s32 %r10, %r10, 100;\nbra.uni JOIN;\nEND:\n";
  expectValues(body, 32, [](uint32_t i) { return i & 1 ? i - 1 : i + 101; });
  // The same at a barrier.
  size_t at = body.find("shfl");
  body.replace(at, body.find('\n', at) - at, "bar.sync 0;");
  expectValues(body, 64, [](uint32_t i) { return i & 1 ? i + 100 : i; });
}

TEST_F(Warps, ALaneMayWaitForAnother) {
  // Lane 0 takes the lock; others go around until it is free. Under a rule that
  // always runs the lowest place first, they would for ever.
  std::string body = "mov.b32 %r10, 0;\nsetp.eq.s32 %p1, %r3, 0;\n"
                     "@%p1 st.volatile.shared.b32 [s], 0;\nbar.warp.sync -1;\n"
                     "@%p1 bra FIRST;\nWAIT:\n"
                     "atom.shared.add.u32 %r11, [s], 0;\n"
                     "setp.eq.s32 %p2, %r11, 0;\n@%p2 bra WAIT;\nbra.uni END;\n"
                     "FIRST:\natom.shared.exch.b32 %r12, [s], 1;\nEND:\n"
                     "mov.b32 %r10, 7;\n";
  expectValues(
      body, 32, [](uint32_t) { return 7u; }, ".shared .align 4 .b32 s;\n");
}

TEST_F(Warps, IndexedBranchesAndExits) {
  std::string body = "and.b32 %r11, %r3, 3;\nmov.b32 %r10, 0;\n"
                     "T: .branchtargets A, B, C, B;\nbrx.idx %r11, T;\n"
                     "A:\nadd.s32 %r10, %r10, 1;\nB:\nadd.s32 %r10, %r10, 10;\n"
                     "C:\nadd.s32 %r10, %r10, 100;\n";
  expectValues(body, 64, [](uint32_t i) {
    uint32_t results[] = {111, 110, 100, 110};
    return results[i % 4];
  });
  // Lanes that exit leave what they have not stored.
  expectValues("mov.b32 %r10, 5;\nsetp.lt.u32 %p1, %r3, 10;\n@%p1 exit;\n", 40,
               [](uint32_t i) { return i < 10 ? 0u : 5u; });
}

TEST_F(Warps, Calls) {
  std::string function =
      ".func (.param .b32 result) twice(.param .b32 a, .param .align 8 .b8 "
      "b[8])"
      "\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\n"
      ".local .align 8 .b8 own[8];\n"
      "ld.param.b32 %r1, [a];\nld.param.b32 %r2, [b+4];\n"
      "setp.gt.s32 %p1, %r1, 15;\n@%p1 bra BIG;\n"
      "st.local.b32 [own], %r1;\nld.local.b32 %r3, [own];\n"
      "mad.lo.s32 %r3, %r3, 2, %r2;\nst.param.b32 [result], %r3;\nret;\n"
      "BIG:\nst.param.b32 [result], 99;\nret;\n}\n";
  auto call = [](const std::string &argument) {
    return "{\n.param .b32 param0;\n.param .align 8 .b8 param1[8];\n"
           ".param .b32 retval0;\nst.param.b32 [param0], " +
           argument +
           ";\nst.param.b32 [param1+4], 1000;\n"
           "call.uni (retval0), twice, (param0, param1);\n"
           "ld.param.b32 %r10, [retval0];\n}\n";
  };
  // Twice, so that labels and registers of the function are there twice.
  expectValues(
      call("%r3") + "sub.s32 %r11, %r10, 1000;\n" + call("%r11"), 32,
      [](uint32_t i) {
        // The first call gives 99, 2 i + 1000.
        if (i > 15)
          return static_cast<uint32_t>(2 * (99 - 1000) + 1000);
        return i > 7 ? 99u : 4 * i + 1000;
      },
      function);
}

TEST_F(Warps, Barriers) {
  // A sum over the block, in halves.
  std::string body =
      "mov.b64 %rd10, s;\nadd.s64 %rd10, %rd10, %rd9;\n"
      "st.shared.b32 [%rd10], %r3;\nmov.b32 %r11, 64;\nLOOP:\nbar.sync 0;\n"
      "setp.lt.u32 %p1, %r3, %r11;\n@!%p1 bra SKIP;\n"
      "mul.wide.u32 %rd11, %r11, 4;\nadd.s64 %rd11, %rd11, %rd10;\n"
      "ld.shared.b32 %r12, [%rd10];\nld.shared.b32 %r13, [%rd11];\n"
      "add.s32 %r12, %r12, %r13;\nst.shared.b32 [%rd10], %r12;\nSKIP:\n"
      "shr.u32 %r11, %r11, 1;\nsetp.ne.s32 %p2, %r11, 0;\n@%p2 bra LOOP;\n"
      "bar.sync 0;\nld.shared.b32 %r10, [s];\n";
  expectValues(
      body, 128, [](uint32_t) { return 127u * 64; },
      ".shared .align 4 .b32 s[128];\n");
  expectValues("setp.lt.u32 %p1, %r3, 5;\nbar.red.popc.u32 %r10, 0, %p1;\n", 96,
               [](uint32_t) { return 5u; });
  expectValues("setp.lt.u32 %p1, %r3, 5;\nbar.red.or.pred %p2, 0, %p1;\n"
               "barrier.sync.aligned 1;\nselp.b32 %r10, 1, 2, %p2;\n",
               96, [](uint32_t) { return 1u; });
  // Producers and consumers: warp 0 arrives, warp 1 waits.
  expectValues(
      "setp.lt.u32 %p1, %r3, 32;\nsetp.eq.s32 %p3, %r3, 0;\n"
      "mov.b32 %r10, 0;\n@!%p1 bra WAIT;\n"
      "@%p3 st.shared.b32 [s], 42;\nbar.arrive 3, 64;\nbra.uni END;\n"
      "WAIT:\nbar.sync 3, 64;\nld.shared.b32 %r10, [s];\nEND:\n",
      64, [](uint32_t i) { return i < 32 ? 0u : 42u; },
      ".shared .align 4 .b32 s;\n");
}

class Matrices : public EmulatorTest {
protected:
  void multiply(const std::string &type, uint16_t (*narrow)(float));
};

/// Products in the layout of PTX: lane l has row l / 4 and l / 4 + 8 of A.
void Matrices::multiply(const std::string &type, uint16_t (*narrow)(float)) {
  std::mt19937 random(5);
  std::vector<float> a(16 * 16), b(16 * 8), c(16 * 8);
  for (auto *matrix : {&a, &b, &c})
    for (float &value : *matrix)
      value = static_cast<float>(static_cast<int>(random() % 17) - 8);
  // Each lane's ten inputs as the instruction wants them.
  std::vector<uint32_t> inputs;
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned g = lane / 4, t = lane % 4 * 2;
    auto pair = [&](float low, float high) {
      inputs.push_back(narrow(low) | uint32_t{narrow(high)} << 16);
    };
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = g + i % 2 * 8, column = t + i / 2 * 8;
      pair(a[16 * row + column], a[16 * row + column + 1]);
    }
    for (unsigned i = 0; i < 2; ++i)
      pair(b[8 * (t + 8 * i) + g], b[8 * (t + 8 * i + 1) + g]);
    for (unsigned i = 0; i < 4; ++i)
      inputs.push_back(
          std::bit_cast<uint32_t>(c[8 * (g + i / 2 * 8) + t + i % 2]));
    inputs.resize(12 * (lane + 1));
  }
  auto from = upload(inputs);
  auto to = upload(std::vector<float>(128));
  ASSERT_CU(run(
      kernelOf(
          "mul.wide.u32 %rd10, %r3, 48;\nadd.s64 %rd10, %rd10, %rd0;\n"
          "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd10];\n"
          "ld.global.v2.b32 {%r14, %r15}, [%rd10+16];\n"
          "ld.global.v2.b32 {%f1, %f2}, [%rd10+24];\n"
          "ld.global.v2.b32 {%f3, %f4}, [%rd10+32];\n"
          "mma.sync.aligned.m16n8k16.row.col.f32." +
              type + "." + type +
              ".f32 "
              "{%f5, %f6, %f7, %f8}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, "
              "{%f1, %f2, %f3, %f4};\n"
              "mul.wide.u32 %rd11, %r3, 16;\nadd.s64 %rd11, %rd11, %rd1;\n"
              "st.global.v4.b32 [%rd11], {%f5, %f6, %f7, %f8};\n",
          2),
      1, 32, {from, to}));
  auto results = download<float>(to, 128);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = c[8 * row + column];
      for (unsigned k = 0; k < 16; ++k)
        sum += a[16 * row + k] * b[8 * k + column];
      EXPECT_EQ(sum, results[4 * lane + i]);
    }
}

TEST_F(Matrices, BF16) {
  multiply("bf16", [](float value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  });
}

/// Of whole numbers up to 8: their exponent has 5 bits, their fraction 10.
TEST_F(Matrices, F16) {
  multiply("f16", [](float value) {
    auto bits = std::bit_cast<uint32_t>(value);
    if (value == 0)
      return uint16_t{0};
    uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 |
                                 (bits >> 13 & 0x3ff));
  });
}

TEST_F(Matrices, TF32AndF16) {
  // Of ones, each sum is the depth; the low 13 bits of tf32 do not count.
  auto to = upload(std::vector<float>(32 * 8));
  ASSERT_CU(run(
      kernelOf("mov.b32 %r10, 0x3f801fff;\nmov.b32 %f1, 0;\n"
               "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%f5, %f6, %f7, %f8}, {%r10, %r10, %r10, %r10}, {%r10, %r10}, "
               "{%f1, %f1, %f1, %f1};\nmov.b32 %r11, 0x3c003c00;\n"
               "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
               "{%r12, %r13}, {%r11, %r11, %r11, %r11}, {%r11, %r11}, "
               "{%r11, %r11};\n"
               "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
               "{%f9, %f10, %f11, %f12}, {%r11, %r11}, {%r11}, "
               "{%f1, %f1, %f1, %f1};\n"
               "mul.wide.u32 %rd11, %r3, 32;\nadd.s64 %rd11, %rd11, %rd0;\n"
               "st.global.v4.b32 [%rd11], {%f5, %f8, %r12, %r13};\n"
               "st.global.v2.b32 [%rd11+16], {%f9, %f12};\n",
               1),
      1, 32, {to}));
  auto results = download<uint32_t>(to, 32 * 8);
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(bits(8.f), results[8 * lane]);
    EXPECT_EQ(bits(8.f), results[8 * lane + 1]);
    EXPECT_EQ(0x4c404c40u, results[8 * lane + 2]); // 17
    EXPECT_EQ(0x4c404c40u, results[8 * lane + 3]);
    EXPECT_EQ(bits(8.f), results[8 * lane + 4]);
    EXPECT_EQ(bits(8.f), results[8 * lane + 5]);
  }
}

TEST_F(Matrices, Tiles) {
  std::vector<uint16_t> values(4 * 64);
  std::iota(values.begin(), values.end(), uint16_t{0});
  auto from = upload(values);
  auto to = upload(std::vector<uint32_t>(32 * 4));
  // Lane l loads row l of the four tiles; the second and last are transposed.
  ASSERT_CU(run(
      kernelOf("mul.wide.u32 %rd10, %r3, 16;\nadd.s64 %rd11, %rd10, %rd0;\n"
               "mov.b64 %rd12, s;\nadd.s64 %rd12, %rd12, %rd10;\n"
               "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd11];\n"
               "st.shared.v4.b32 [%rd12], {%r10, %r11, %r12, %r13};\n"
               "bar.sync 0;\n"
               "ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
               "{%r14, %r15, %r16, %r17}, [%rd12];\n"
               "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r18, %r19}, "
               "[%rd12];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r20, %r15;\n"
               "add.s64 %rd13, %rd1, %rd10;\n"
               "st.global.v4.b32 [%rd13], {%r14, %r17, %r19, %r20};\n",
               2, ".shared .align 16 .b8 s[512];\n"),
      1, 32, {from, to}));
  auto results = download<uint32_t>(to, 128);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t row = lane / 4, column = lane % 4 * 2;
    auto pair = [](uint32_t low, uint32_t high) { return low | high << 16; };
    uint32_t at = 8 * row + column;
    EXPECT_EQ(pair(at, at + 1), results[4 * lane]);
    EXPECT_EQ(pair(192 + at, 193 + at), results[4 * lane + 1]);
    uint32_t across = 64 + 8 * column + row;
    EXPECT_EQ(pair(across, across + 8), results[4 * lane + 2]);
    EXPECT_EQ(pair(across, across + 8), results[4 * lane + 3]);
  }
}

/// Four tiles across, from rows that are 48 bytes apart: lane l has the address
/// of row l % 8 of tile l / 8.
TEST_F(Matrices, TilesAcross) {
  std::vector<uint16_t> values(32 * 24);
  std::iota(values.begin(), values.end(), uint16_t{0});
  auto from = upload(values);
  auto to = upload(std::vector<uint32_t>(32 * 4));
  ASSERT_CU(
      run(kernelOf("mul.wide.u32 %rd10, %r3, 48;\nadd.s64 %rd11, %rd10, %rd0;\n"
                   "mov.b64 %rd12, s;\nadd.s64 %rd12, %rd12, %rd10;\n"
                   "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd11];\n"
                   "st.shared.v4.b32 [%rd12], {%r10, %r11, %r12, %r13};\n"
                   "bar.sync 0;\n"
                   "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                   "{%r14, %r15, %r16, %r17}, [%rd12];\n"
                   "mul.wide.u32 %rd13, %r3, 16;\nadd.s64 %rd13, %rd1, %rd13;\n"
                   "st.global.v4.b32 [%rd13], {%r14, %r15, %r16, %r17};\n",
                   2, ".shared .align 16 .b8 s[1536];\n"),
          1, 32, {from, to}));
  auto results = download<uint32_t>(to, 128);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t tile = 0; tile < 4; ++tile) {
      uint32_t at = 24 * (8 * tile + lane % 4 * 2) + lane / 4;
      EXPECT_EQ(at | (at + 24) << 16, results[4 * lane + tile]);
    }
}

} // namespace
