//===- MistakesTest.cpp - Planted mistakes, and what is said of them ------===//
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

class Mistakes : public EmulatorTest {
protected:
  /// A kernel with one mistake, over buffers of 4 KiB of which the first 2 KiB
  /// are written. `error` is without CUDA_ERROR_.
  void expectFound(const std::string &body, const std::string &error,
                   const std::string &message, unsigned threads = 64,
                   const std::string &variables = "", unsigned shared = 0) {
    ASSERT_CU(cuDevicePrimaryCtxReset_v2(0));
    cuda::DevicePointer first = allocate(4096), second = allocate(4096);
    ASSERT_CU(cuMemsetD32_v2(first, 0, 512));
    ASSERT_CU(cuMemsetD32_v2(second, 0, 512));
    std::string text = messageOf(kernelOf(body, 2, variables), 1, threads,
                                 {first, second}, shared);
    EXPECT_THAT(text, AllOf(HasSubstr("CUDA_ERROR_" + error + "\n"),
                            HasSubstr("emulator: "), HasSubstr(message)))
        << body;
    // One line, once.
    EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n')) << text;
  }
  void expectRefused(const std::string &lines, const std::string &error,
                     const std::string &message) {
    ASSERT_CU(cuDevicePrimaryCtxReset_v2(0));
    std::string text = messageOf(lines, 1, 32, {});
    EXPECT_THAT(text, AllOf(HasSubstr("CUDA_ERROR_" + error + "\n"),
                            HasSubstr("emulator: cuModuleLoadData: "),
                            HasSubstr(message)))
        << lines;
  }
};

const std::string word = ".shared .align 16 .b32 s[64];\n";
/// %rd10 is this thread's word of shared memory.
const std::string own = "mul.wide.u32 %rd10, %r3, 4;\nmov.b64 %rd12, s;\n"
                        "add.s64 %rd10, %rd10, %rd12;\n";

TEST_F(Mistakes, OutOfBounds) {
  expectFound("ld.global.b32 %r10, [%rd0+4096];\n", "ILLEGAL_ADDRESS",
              "kernel k, block (0,0,0), thread (0,0,0), PTX line 18: expected "
              "bytes of an allocation, got a load of 4 bytes at",
              32);
  expectFound("ld.global.b32 %r10, [%rd0+4096];\n", "ILLEGAL_ADDRESS",
              "byte 4096 of an allocation of 4096");
  expectFound("st.global.b32 [%rd0+-4], %r3;\n", "ILLEGAL_ADDRESS",
              "got a store of 4 bytes");
  // Only the last thread is outside.
  expectFound("add.s64 %rd10, %rd0, %rd9;\nst.global.b32 [%rd10+3844], %r3;\n",
              "ILLEGAL_ADDRESS", "thread (63,0,0), PTX line 19");
  expectFound("st.shared.b32 [s+256], %r3;\n", "ILLEGAL_ADDRESS",
              "expected bytes of the 256 of shared memory, got a store of 4 "
              "bytes at byte 256",
              64, word);
  expectFound("st.shared.b32 [d+64], %r3;\n", "ILLEGAL_ADDRESS",
              "expected bytes of the 64 of shared memory", 1,
              ".extern .shared .align 4 .b8 d[];\n", 64);
  expectFound(".local .align 4 .b8 l[8];\nst.local.b32 [l+8], %r3;\n",
              "ILLEGAL_ADDRESS", "of local memory");
  expectFound("red.global.add.u32 [%rd0+8192], 1;\n", "ILLEGAL_ADDRESS",
              "got an atomic of 4 bytes");
  expectFound("mov.b64 %rd10, 0;\nld.global.b32 %r10, [%rd10+8];\n",
              "ILLEGAL_ADDRESS", "at 0x8, which is no address of a device");
}

TEST_F(Mistakes, HostPointers) {
  std::vector<uint32_t> values(64);
  auto host = reinterpret_cast<cuda::DevicePointer>(values.data());
  for (const char *access :
       {"ld.global.b32 %r10, [%rd0];\n", "st.global.b32 [%rd0], %r3;\n",
        "ld.b32 %r10, [%rd0];\n", "red.global.add.u32 [%rd0], 1;\n"}) {
    ASSERT_CU(cuDevicePrimaryCtxReset_v2(0));
    EXPECT_THAT(messageOf(kernelOf(access, 1), 1, 32, {host}),
                AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"),
                      HasSubstr("which is no address of a device")));
  }
}

TEST_F(Mistakes, Misaligned) {
  expectFound("ld.global.b32 %r10, [%rd0+2];\n", "MISALIGNED_ADDRESS",
              "expected an address that is a multiple of 4, got a load of 4 "
              "bytes at");
  // A vector wants the alignment of all of it.
  expectFound("ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd0+8];\n",
              "MISALIGNED_ADDRESS", "a multiple of 16");
  expectFound("mov.b32 %r10, 4;\nst.shared.v2.b32 [s+4], {%r10, %r10};\n",
              "MISALIGNED_ADDRESS", "a multiple of 8", 1, word);
  expectFound("st.global.b64 [%rd0+4], %rd9;\n", "MISALIGNED_ADDRESS",
              "got a store of 8 bytes");
}

TEST_F(Mistakes, Uninitialized) {
  expectFound("ld.global.b32 %r10, [%rd0+2048];\n", "LAUNCH_FAILED",
              "expected bytes that were written before, got a load of 4 bytes "
              "at");
  // One of 64 threads, in an access of all of them.
  expectFound("add.s64 %rd10, %rd0, %rd9;\nld.global.b32 %r10, [%rd10+1796];\n",
              "LAUNCH_FAILED", "thread (63,0,0)");
  expectFound(own + "ld.shared.b32 %r10, [%rd10];\n", "LAUNCH_FAILED",
              "bytes at byte 0 of shared memory", 32, word);
  expectFound("red.global.add.u32 [%rd0+3000], 1;\n", "LAUNCH_FAILED",
              "expected bytes that were written before");
  // Written by bytes, all but one.
  expectFound("st.global.b8 [%rd0+2048], 1;\nst.global.b16 [%rd0+2050], %h1;\n"
              "ld.global.b32 %r10, [%rd0+2048];\n",
              "LAUNCH_FAILED", "PTX line 20", 1);
}

TEST_F(Mistakes, SharedRaces) {
  // The neighbour's word, without a barrier.
  expectFound(own + "st.shared.b32 [%rd10], 0;\nbar.sync 0;\n"
                    "st.shared.b32 [%rd10], %r3;\nxor.b32 %r10, %r3, 63;\n"
                    "mul.wide.u32 %rd11, %r10, 4;\n"
                    "add.s64 %rd11, %rd11, %rd12;\n"
                    "ld.shared.b32 %r11, [%rd11];\n",
              "LAUNCH_FAILED",
              "expected a barrier between threads that use the same shared "
              "memory",
              64, word);
  // Two lanes of a warp: they are in no order either.
  expectFound(own + "st.shared.b32 [%rd10], %r3;\nxor.b32 %r10, %r3, 1;\n"
                    "mul.wide.u32 %rd11, %r10, 4;\n"
                    "add.s64 %rd11, %rd11, %rd12;\n"
                    "ld.shared.b32 %r11, [%rd11];\n",
              "LAUNCH_FAILED", "beside a write of thread", 32, word);
  // Also behind a barrier of the warp.
  expectFound(own + "st.shared.b32 [%rd10], %r3;\nbar.warp.sync -1;\n"
                    "st.shared.b32 [%rd10], %r3;\nxor.b32 %r10, %r3, 1;\n"
                    "mul.wide.u32 %rd11, %r10, 4;\n"
                    "add.s64 %rd11, %rd11, %rd12;\n"
                    "ld.shared.b32 %r11, [%rd11];\n",
              "LAUNCH_FAILED", "beside a write of thread", 32, word);
  // Written again before all have read it.
  expectFound("setp.eq.s32 %p1, %r3, 0;\n@%p1 st.shared.b32 [s], 1;\n"
              "bar.sync 0;\nld.shared.b32 %r10, [s];\n"
              "@%p1 st.shared.b32 [s], 2;\n",
              "LAUNCH_FAILED", "got a store of 4 bytes at byte 0 beside ", 64,
              word);
  // Lanes of one store that do not agree.
  expectFound("st.shared.b32 [s], %r3;\n", "LAUNCH_FAILED",
              "beside a write of thread", 32, word);
  // A plain access beside atomics.
  expectFound("setp.eq.s32 %p1, %r3, 0;\n@%p1 st.shared.b32 [s], 1;\n"
              "bar.sync 0;\natom.shared.add.u32 %r10, [s], 1;\n"
              "ld.shared.b32 %r11, [s];\n",
              "LAUNCH_FAILED", "beside a write of thread", 64, word);
}

/// A warp's write is behind its own read, and not behind another's, whichever
/// warp runs first.
TEST_F(Mistakes, SharedRacesInAnyOrder) {
  std::string text =
      kernelOf("setp.eq.s32 %p1, %r3, 32;\n@%p1 st.shared.b32 [s], 1;\n"
               "bar.sync 0;\nld.shared.b32 %r10, [s];\n"
               "bar.warp.sync -1;\n@%p1 st.shared.b32 [s], 2;\n",
               1, word);
  for (int round = 0; round < 8; ++round) {
    ASSERT_CU(cuDevicePrimaryCtxReset_v2(0));
    cuda::DevicePointer pointer = allocate(64);
    // Each launch has an order of its own.
    for (int i = 0; i < round; ++i)
      ASSERT_CU(cuMemsetD32_v2(pointer, 0, 16));
    EXPECT_THAT(messageOf(text, 1, 96, {pointer}),
                HasSubstr("expected a barrier between threads"));
  }
}

/// What looks like these races, and is none.
TEST_F(Mistakes, NoSharedRaces) {
  for (const std::string &body :
       {// Lanes of one store agree.
        std::string("mov.b32 %r10, 7;\nst.shared.b32 [s], %r10;\n"),
        // A warp that synchronises itself.
        own + "st.shared.b32 [%rd10], %r3;\nbar.warp.sync -1;\n"
              "xor.b32 %r10, %r3, 1;\nmul.wide.u32 %rd11, %r10, 4;\n"
              "add.s64 %rd11, %rd11, %rd12;\n"
              "ld.shared.b32 %r11, [%rd11];\nbar.warp.sync -1;\n"
              "st.shared.b32 [%rd11], %r11;\n",
        // Bytes beside each other.
        std::string("cvt.u64.u32 %rd10, %r3;\nmov.b64 %rd11, s;\n"
                    "add.s64 %rd10, %rd10, %rd11;\n"
                    "st.shared.b8 [%rd10], %r3;\n")}) {
    ASSERT_CU(run(kernelOf(body, 0, word), 3, 32, {})) << body;
  }
  // Several readers, then a barrier, then a writer.
  ASSERT_CU(run(kernelOf("setp.eq.s32 %p1, %r3, 0;\nmov.b32 %r11, 0;\nLOOP:\n"
                         "@%p1 st.shared.b32 [s], %r11;\nbar.sync 0;\n"
                         "ld.shared.b32 %r10, [s];\n"
                         "shfl.sync.bfly.b32 %r12, %r10, 1, 31, -1;\n"
                         "ld.shared.b32 %r10, [s];\nbar.sync 0;\n"
                         "add.s32 %r11, %r11, 1;\nsetp.lt.s32 %p2, %r11, 5;\n"
                         "@%p2 bra LOOP;\n",
                         0, word),
                2, 256, {}));
}

/// Blocks are in no order, so that they share no bytes that any of them writes.
TEST_F(Mistakes, BlocksThatShareBytes) {
  auto messageFor = [&](const std::string &body) {
    EXPECT_CU(cuDevicePrimaryCtxReset_v2(0));
    cuda::DevicePointer pointer = allocate(4096);
    EXPECT_CU(cuMemsetD32_v2(pointer, 0, 1024));
    return messageOf(kernelOf(body, 1), 4, 64, {pointer});
  };
  std::string message = "expected blocks of a launch to use different bytes";
  // The index within the block, where that in the grid was meant.
  std::string mine =
      "mul.wide.u32 %rd10, %r3, 4;\nadd.s64 %rd10, %rd0, %rd10;\n";
  EXPECT_THAT(messageFor(mine + "st.global.b32 [%rd10], %r0;\n"),
              HasSubstr(message));
  EXPECT_THAT(
      messageFor("add.s32 %r10, %r1, 1;\nst.global.b32 [%rd0], %r10;\n"),
      HasSubstr(message));
  // A neighbour's result.
  std::string next = "add.s64 %rd10, %rd0, %rd9;\n";
  EXPECT_THAT(messageFor(next + "ld.global.b32 %r10, [%rd10+256];\n"
                                "st.global.b32 [%rd10], %r0;\n"),
              HasSubstr(message));
  EXPECT_THAT(messageFor(next + "st.global.b32 [%rd10+256], %r0;\n"
                                "ld.global.b32 %r10, [%rd10];\n"),
              HasSubstr(message));
  // All read it, the last one writes it.
  EXPECT_THAT(messageFor("ld.global.b32 %r10, [%rd0];\nmembar.cta;\n"
                         "setp.eq.s32 %p1, %r1, 3;\n"
                         "@%p1 st.global.b32 [%rd0], 7;\n"),
              HasSubstr(message));
  // These are right: atomics, one value from all, reads, and fences.
  for (const char *body :
       {"red.global.add.u32 [%rd0], 1;\n", "st.global.b32 [%rd0], 7;\n",
        "mul.wide.u32 %rd10, %r3, 4;\nadd.s64 %rd10, %rd0, %rd10;\n"
        "st.global.b32 [%rd10], %r3;\n",
        "ld.global.b32 %r10, [%rd0];\n",
        "st.global.b32 [%rd0], %r1;\nmembar.gl;\nbar.sync 0;\n"
        "ld.global.b32 %r10, [%rd0];\n"})
    EXPECT_EQ("CUDA_SUCCESS\n", messageFor(body));
}

TEST_F(Mistakes, Barriers) {
  std::string firstWarp = "setp.lt.u32 %p1, %r3, 32;\n";
  expectFound(firstWarp + "@%p1 bra END;\nbar.sync 0;\nEND:\n", "LAUNCH_FAILED",
              "expected 64 threads at barrier 0, got 32; thread (0,0,0) has "
              "exited");
  expectFound("setp.lt.u32 %p1, %r3, 40;\n@%p1 bra END;\nbar.sync 0;\nEND:\n",
              "LAUNCH_FAILED",
              "expected all 32 threads of the warp at the barrier, got 24");
  expectFound("setp.lt.u32 %p1, %r3, 40;\n@%p1 ret;\nbar.sync 0;\n",
              "LAUNCH_FAILED", "threads of the warp at the barrier, got 24");
  expectFound(firstWarp + "@%p1 bra A;\nbar.sync 1;\nbra.uni END;\nA:\n"
                          "bar.sync 2;\nEND:\n",
              "LAUNCH_FAILED", "waits elsewhere");
  expectFound("bar.sync 0, 40;\n", "LAUNCH_FAILED", "a multiple of 32, got 40");
  expectFound("bar.sync 16;\n", "LAUNCH_FAILED",
              "expected a barrier below 16, got 16");
}

TEST_F(Mistakes, MemberMasks) {
  expectFound("shfl.sync.bfly.b32 %r10, %r3, 1, 31, 0xffff;\n", "LAUNCH_FAILED",
              "expected a member mask that names lane 16, which executes it, "
              "got 0xffff",
              32);
  std::string half = "setp.lt.u32 %p1, %r3, 16;\n";
  expectFound(half + "@%p1 shfl.sync.bfly.b32 %r10, %r3, 1, 31, -1;\n"
                     "bar.sync 0;\n",
              "LAUNCH_FAILED",
              "expected all lanes of member mask 0xffffffff, got 0xffff", 32);
  expectFound(half + "@%p1 exit;\nvote.sync.any.pred %p2, %p1, -1;\n",
              "LAUNCH_FAILED",
              "expected a member mask of lanes that have not exited", 32);
  // A lane of the mask that the block does not have.
  expectFound("shfl.sync.bfly.b32 %r10, %r3, 1, 31, -1;\n", "LAUNCH_FAILED",
              "expected a member mask of lanes that have not exited", 20);
  expectFound(half + "mov.b32 %r11, 0xffff;\n"
                     "@%p1 shfl.sync.idx.b32 %r10, %r3, 20, 31, %r11;\n",
              "LAUNCH_FAILED",
              "expected a shuffle from an active lane, got lane 20", 32);
  expectFound(half + "@%p1 bar.warp.sync -1;\nbar.sync 0;\n", "LAUNCH_FAILED",
              "expected all lanes of member mask", 32);
  expectFound(half + "mov.b32 %r10, 0;\n@%p1 mma.sync.aligned.m16n8k16.row.col."
                     "f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r10, "
                     "%r10, %r10}, {%r10, %r10}, {%f1, %f2, %f3, %f4};\n",
              "LAUNCH_FAILED", "expected all lanes of the warp, got 0xffff",
              32);
}

TEST_F(Mistakes, MatrixInstructions) {
  std::string product = "mma.sync.aligned.m16n8k16",
              of = "{%f1, %f2, %f3, %f4}",
              rest = " " + of + ", {%r10, %r10, %r10, %r10}, {%r10, %r10}, " +
                     of + ";\n";
  auto refuse = [&](const std::string &text, const std::string &message) {
    expectRefused(kernelOf(text, 0, ".shared .align 16 .b8 s[512];\n"),
                  "INVALID_PTX", message);
  };
  refuse(product + ".row.row.f32.bf16.bf16.f32" + rest, "expected .row.col");
  refuse(product + ".row.col.f32.bf16.f16.f32" + rest,
         "expected types and a shape that the emulator multiplies");
  refuse(product + ".row.col.satfinite.f32.bf16.bf16.f32" + rest,
         "'.satfinite'");
  refuse("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " + of +
             ", {%r10, %r10}, {%r10, %r10}, " + of + ";\n",
         "expected 4 registers");
  refuse("mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32" + rest,
         "expected .sync.aligned");
  refuse(
      "ldmatrix.sync.aligned.m8n16.x4.shared.b8 {%r1, %r2, %r3, %r4}, [s];\n",
      "expected .m8n8");
  refuse("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2}, [s];\n",
         "expected 4 registers");
  expectFound("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, "
              "[s+8];\n",
              "MISALIGNED_ADDRESS", "a multiple of 16", 32,
              ".shared .align 16 .b8 s[512];\n");
}

TEST_F(Mistakes, Traps) {
  expectFound("setp.eq.s32 %p1, %r3, 5;\n@%p1 trap;\n", "LAUNCH_FAILED",
              "thread (5,0,0), PTX line 19: expected no trap, got one");
}

TEST_F(Mistakes, Launches) {
  auto refuse = [&](const std::string &text, unsigned grid, unsigned block,
                    unsigned shared, const std::string &message) {
    EXPECT_THAT(
        messageOf(text, grid, block, {}, shared),
        AllOf(HasSubstr("CUDA_ERROR_INVALID_VALUE"),
              HasSubstr("emulator: cuLaunchKernel: kernel k: " + message)));
  };
  std::string plain = kernelOf("", 0);
  refuse(plain, 0, 32, 0,
         "expected a grid from (1,1,1) to (2147483647,65535,65535), got "
         "(0,1,1)");
  refuse(plain, 1, 1025, 0, "expected a block from (1,1,1) to (1024,1024,64)");
  refuse(kernelOf("", 0, "", ".maxntid 128"), 1, 129, 0,
         "expected at most 128 threads in a block, got 129");
  refuse(kernelOf("", 0, "", ".reqntid 64, 1, 1"), 1, 32, 0,
         "expected a block of (64,1,1), as .reqntid says, got (32,1,1)");
  refuse(plain, 1, 32, 49153,
         "expected at most 49152 bytes of dynamic shared memory");
  refuse(kernelOf("st.shared.b32 [s], 1;\n", 0, word), 1, 1, 49152,
         "expected at most 48896 bytes");
  refuse(kernelOf("", 1), 1, 32, 0, "expected 1 parameters, got no number 0");
  // None of these stops the context.
  EXPECT_CU(run(plain, 1, 32, {}));
}

TEST_F(Mistakes, Modules) {
  expectRefused(kernelOf("wgmma.fence.sync.aligned;\n"), "INVALID_PTX",
                "PTX line 20: expected an instruction that the emulator "
                "models, got 'wgmma'");
  expectRefused(kernelOf("add.foo.s32 %r1, %r1, %r1;\n"), "INVALID_PTX",
                "expected modifiers that the emulator models, got '.foo'");
  expectRefused(kernelOf("ld.global.L2::cache_hint.b32 %r1, [%rd0];\n"),
                "INVALID_PTX", "got '.L2::cache_hint'");
  expectRefused(kernelOf("add.s32 %r1, %rd1, %r1;\n"), "INVALID_PTX",
                "expected 32 bits in '%rd1', got 64");
  expectRefused(kernelOf("add.s32 %r1, %r1, %r99;\n"), "INVALID_PTX",
                "expected a register, got '%r99'");
  expectRefused(kernelOf("bra NOWHERE;\n"), "INVALID_PTX",
                "expected a label of the function, got 'NOWHERE'");
  expectRefused(kernelOf("call.uni vprintf, ();\n"), "INVALID_PTX",
                "expected a function that the module defines, got 'vprintf'");
  expectRefused(kernelOf("ld.global.v4.b32 {%r1, %r2}, [%rd0];\n"),
                "INVALID_PTX", "as many registers as the vector has elements");
  expectRefused(kernelOf("cvt.f16.f32 %h1, %f1;\n"), "INVALID_PTX",
                "expected a rounding");
  expectRefused(moduleOf(".visible .tex .u64 t;\n"), "INVALID_PTX",
                "PTX line 4: expected a directive that the emulator models");
  expectRefused(moduleOf(".entry k() .explicitcluster {\nret;\n}\n"),
                "INVALID_PTX", "got '.explicitcluster'");
  expectRefused(".version 9.9\n.target sm_90\n.address_size 64\n",
                "UNSUPPORTED_PTX_VERSION", "got .version 9.9");
  expectRefused(".version 8.8\n.target sm_100\n.address_size 64\n",
                "NO_BINARY_FOR_GPU",
                "expected code for sm_90, got .target sm_100");
  expectRefused(std::string("\177ELF", 4), "NO_BINARY_FOR_GPU",
                "expected PTX, got machine code");
  expectRefused(moduleOf(".func f() {\ncall f;\nret;\n}\n"
                         ".entry k() {\ncall f;\nret;\n}\n"),
                "INVALID_PTX", "not recursive");
}

/// The first error stays, whatever comes then.
TEST_F(Mistakes, AreSticky) {
  cuda::Function function = load(kernelOf("st.global.b32 [%rd0], %r3;\n", 1));
  testing::internal::CaptureStderr();
  ASSERT_CU(launch(function, 1, 32, {8}));
  EXPECT_EQ(cuda::IllegalAddress, cuCtxSynchronize());
  cuda::DevicePointer pointer = 0;
  EXPECT_EQ(cuda::IllegalAddress, cuMemAlloc_v2(&pointer, 4));
  EXPECT_EQ(cuda::IllegalAddress, launch(function, 1, 32, {8}));
  EXPECT_EQ(cuda::IllegalAddress, cuCtxSynchronize());
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(1, std::count(text.begin(), text.end(), '\n')) << text;
}

} // namespace
