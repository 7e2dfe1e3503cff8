//===- RacesTest.cpp - Races in global memory within a block --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <gmock/gmock.h>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

const std::string message = "expected a barrier between threads that use the "
                            "same global memory";

class Races : public EmulatorTest {
protected:
  /// What is said of a kernel over 4 KiB that are written.
  std::string messageFor(const std::string &body, unsigned threads,
                         const std::string &variables = "", unsigned blocks = 1,
                         unsigned launchesBefore = 0) {
    EXPECT_CU(cuDevicePrimaryCtxReset_v2(0));
    cuda::DevicePointer other = allocate(64), pointer = allocate(4096);
    // Each operation before it gives a launch another order of warps.
    for (unsigned i = 0; i <= launchesBefore; ++i)
      EXPECT_CU(cuMemsetD32_v2(pointer, 0, 1024));
    return messageOf(kernelOf(body, 2, variables), blocks, threads,
                     {other, pointer});
  }
  void expectRace(const std::string &body, unsigned threads = 64,
                  const std::string &variables = "") {
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_THAT(
          messageFor(body, threads, variables, 1, i),
          AllOf(HasSubstr("CUDA_ERROR_LAUNCH_FAILED\n"), HasSubstr(message)))
          << body;
  }
  void expectNone(const std::string &body, unsigned threads = 64,
                  const std::string &variables = "", unsigned blocks = 1) {
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ("CUDA_SUCCESS\n",
                messageFor(body, threads, variables, blocks, i))
          << body;
  }
};

/// %rd10 is this thread's word, %rd11 that of thread `thread ^ bits`.
std::string wordsOf(unsigned bits) {
  return "add.s64 %rd10, %rd1, %rd9;\nxor.b32 %r10, %r0, " +
         std::to_string(bits) +
         ";\nmul.wide.u32 %rd11, %r10, 4;\nadd.s64 %rd11, %rd11, %rd1;\n";
}
const std::string write = "st.global.b32 [%rd10], %r3;\n";
const std::string read = "ld.global.b32 %r11, [%rd11];\n";
const std::string barrier = "bar.sync 0;\n";
const std::string warpBarrier = "bar.warp.sync -1;\n";

TEST_F(Races, BetweenWarps) {
  expectRace(wordsOf(32) + write + read);
  expectRace(wordsOf(32) + write + warpBarrier + read);
  expectNone(wordsOf(32) + write + barrier + read);
  // Written again before the other warp has read it.
  std::string both = wordsOf(32) + write + barrier + read;
  std::string again = "add.s32 %r12, %r3, 1;\nst.global.b32 [%rd10], %r12;\n";
  expectRace(both + again);
  expectNone(both + barrier + again);
  // A barrier of two warps, beside which a third one reads.
  std::string third = "setp.ge.u32 %p1, %r3, 64;\n@%p1 bra READ;\n";
  expectRace(wordsOf(64) + third + write + "bar.sync 1, 64;\nREAD:\n" + read +
                 barrier,
             96);
  // Any address of global memory.
  expectRace(wordsOf(32) + "st.b32 [%rd10], %r3;\nld.b32 %r11, [%rd11];\n");
}

TEST_F(Races, BetweenLanes) {
  expectRace(wordsOf(1) + write + read, 32);
  expectNone(wordsOf(1) + write + warpBarrier + read, 32);
  expectNone(wordsOf(1) + write + barrier + read, 32);
  expectRace(wordsOf(1) + read + write, 32);
  // Lanes wait for each other here, and their memory does not.
  for (const char *meeting :
       {"shfl.sync.bfly.b32 %r12, %r3, 1, 31, -1;\n",
        "setp.eq.s32 %p1, %r3, 3;\nvote.sync.any.pred %p2, %p1, -1;\n"})
    expectRace(wordsOf(1) + write + meeting + read, 32);
  // Lanes of one store, which write different values.
  expectRace("st.global.b32 [%rd1], %r3;\n", 32);
}

TEST_F(Races, NameBothSides) {
  EXPECT_THAT(
      messageFor(wordsOf(1) + write + read, 32),
      AllOf(HasSubstr("kernel k, block (0,0,0), thread (0,0,0), PTX line 23: " +
                      message + ", got a load of 4 bytes at 0x"),
            HasSubstr(", byte 4 of an allocation of 4096, byte 4 of argument 1 "
                      "beside a write of thread 1, lane 1 of warp 0: "
                      "ld.global.b32 %r11, [%rd11];")));
  EXPECT_THAT(messageFor(wordsOf(1) + read + write, 32),
              AllOf(HasSubstr("got a store of 4 bytes"),
                    HasSubstr("beside a read of thread 1, lane 1 of warp 0")));
}

/// Accesses that meet in some of their bytes only.
TEST_F(Races, InPartsOfWords) {
  std::string halves = "mul.wide.u32 %rd10, %r3, 2;\n"
                       "add.s64 %rd10, %rd10, %rd1;\n"
                       "st.global.b16 [%rd10], %h1;\n";
  std::string move = "mov.b16 %h1, 7;\n";
  expectNone(move + halves + "ld.global.b16 %h2, [%rd10];\n", 96);
  // The other half of the word is another lane's.
  expectRace("cvt.u16.u32 %h1, %r3;\n" + halves +
                 "xor.b32 %r10, %r3, 1;\nmul.wide.u32 %rd11, %r10, 2;\n"
                 "add.s64 %rd11, %rd11, %rd1;\nld.global.b16 %h2, [%rd11];\n",
             32);
  std::string vectors = "mul.wide.u32 %rd10, %r3, 16;\n"
                        "add.s64 %rd10, %rd10, %rd1;\n"
                        "st.global.v4.b32 [%rd10], {%r3, %r3, %r3, %r3};\n";
  expectNone(vectors + "ld.global.v2.b32 {%r10, %r11}, [%rd10+8];\n", 96);
  expectRace(vectors + "xor.b32 %r10, %r3, 32;\n"
                       "mul.wide.u32 %rd11, %r10, 16;\n"
                       "add.s64 %rd11, %rd11, %rd1;\n"
                       "ld.global.b32 %r11, [%rd11+12];\n");
  // Many words, far apart: 64 of each thread.
  expectNone("add.s64 %rd10, %rd1, %rd9;\nmov.b32 %r10, 0;\nLOOP:\n"
             "st.global.b32 [%rd10], %r10;\nadd.s64 %rd10, %rd10, 256;\n"
             "add.s32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, 16;\n"
             "@%p1 bra LOOP;\nld.global.b32 %r11, [%rd10+-256];\n");
}

TEST_F(Races, BesideAtomics) {
  std::string add = "atom.global.add.u32 %r10, [%rd1], 1;\n";
  std::string first = "setp.eq.s32 %p1, %r3, 0;\n";
  expectNone(add + add);
  expectRace(add + "ld.global.b32 %r11, [%rd1];\n");
  expectRace(first + add + "@%p1 st.global.b32 [%rd1], %r3;\n");
  expectNone(first + "@%p1 st.global.b32 [%rd1], %r3;\n" + barrier + add +
             barrier + "ld.global.b32 %r11, [%rd1];\n");
  expectNone(add + "ld.relaxed.gpu.global.b32 %r11, [%rd1];\n");
  // All may write one value, as those do that find a mistake in data; nobody
  // may read it beside them.
  expectNone("st.global.b32 [%rd1], 7;\n");
  expectRace("st.global.b32 [%rd1], 7;\nld.global.b32 %r11, [%rd1];\n");
}

/// Warp 1, of one thread, waits for a flag that warp 0 sets.
TEST_F(Races, BesideFlags) {
  auto flags = [](const std::string &set, const std::string &wait) {
    return "setp.lt.u32 %p1, %r3, 32;\nadd.s64 %rd10, %rd1, %rd9;\n"
           "@%p1 bra FIRST;\nLOOP:\n" +
           wait + "setp.eq.s32 %p2, %r10, 0;\n@%p2 bra LOOP;\n" +
           (wait.find("acquire") == std::string::npos ? "membar.cta;\n" : "") +
           "ld.global.b32 %r11, [%rd10+384];\nbra.uni END;\nFIRST:\n"
           "st.global.b32 [%rd10+512], 5;\n" +
           set + "END:\n";
  };
  expectNone(flags("membar.cta;\nst.volatile.global.b32 [%rd1], 1;\n",
                   "ld.volatile.global.b32 %r10, [%rd1];\n"),
             33);
  expectNone(flags("membar.gl;\nred.relaxed.gpu.global.or.b32 [%rd1], 1;\n",
                   "ld.relaxed.gpu.global.b32 %r10, [%rd1];\n"),
             33);
  expectNone(flags("st.release.gpu.global.b32 [%rd1], 1;\n",
                   "ld.acquire.gpu.global.b32 %r10, [%rd1];\n"),
             33);
  expectRace(flags("st.volatile.global.b32 [%rd1], 1;\n",
                   "ld.volatile.global.b32 %r10, [%rd1];\n"),
             33);
}

/// cp.async may copy at any time before it is waited for.
TEST_F(Races, OfAsynchronousCopies) {
  std::string variables = ".shared .align 16 .b8 s[256];\n";
  std::string copy = wordsOf(32) +
                     "mov.b64 %rd12, s;\nadd.s64 %rd12, %rd12, %rd9;\n"
                     "cvt.u32.u64 %r13, %rd12;\n";
  std::string begin = "cp.async.ca.shared.global [%r13], [%rd11], 4;\n";
  std::string wait = "cp.async.wait_all;\n";
  std::string own = "ld.shared.b32 %r12, [%r13];\n";
  expectNone(copy + write + barrier + begin + wait + own, 64, variables);
  expectRace(copy + write + begin + barrier + wait + own, 64, variables);
  expectRace(copy + begin + barrier + write + wait + own, 64, variables);
  // Another warp may still read what the copy overwrites.
  std::string others = "xor.b32 %r14, %r13, 128;\n"
                       "ld.shared.b32 %r12, [%r14];\n";
  std::string before = copy + "st.shared.b32 [%r13], 1;\n" + barrier + others;
  expectNone(before + barrier + begin + wait + barrier + others, 64, variables);
  EXPECT_THAT(messageFor(before + begin + barrier + wait + own, 64, variables),
              HasSubstr("that use the same shared memory"));
}

TEST_F(Races, OfBlocksAreApart) {
  // Blocks run one after another: what one did is of no matter to the next.
  expectNone(wordsOf(32) + write + barrier + read, 64, "", 8);
  expectNone("ld.global.b32 %r10, [%rd1];\n", 96, "", 8);
}

} // namespace
