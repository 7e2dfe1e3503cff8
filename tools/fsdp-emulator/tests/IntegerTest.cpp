//===- IntegerTest.cpp - Instructions of integers -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstructionTest.h"

#include <limits>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;

namespace {

constexpr int64_t min32 = INT32_MIN, max32 = INT32_MAX;
constexpr uint64_t min64 = negative64, max64 = min64 - 1;

class Integers : public InstructionTest {};

TEST_F(Integers, Sums) {
  check("add.s32 $0, $1, $2", "32 32 32",
        {{{1, 2}, 3}, {{s32(max32), 1}, s32(min32)}, {{s32(-1), 1}, 0}});
  check("add.sat.s32 $0, $1, $2", "32 32 32",
        {{{s32(max32), 1}, s32(max32)},
         {{s32(min32), s32(-1)}, s32(min32)},
         {{5, s32(-7)}, s32(-2)}});
  check("sub.sat.s32 $0, $1, $2", "32 32 32",
        {{{s32(min32), 1}, s32(min32)},
         {{0, s32(min32)}, s32(max32)},
         {{5, 7}, s32(-2)}});
  check("add.u64 $0, $1, $2", "64 64 64",
        {{{~0ull, 1}, 0}, {{max64, 1}, min64}, {{1ull << 32, 5}, 0x100000005}});
  check("sub.s16 $0, $1, $2", "16 16 16",
        {{{0x8000, 1}, 0x7fff}, {{3, 5}, 0xfffe}});
  check("sub.u32 $0, $1, $2", "32 32 32", {{{0, 1}, 0xffffffff}, {{9, 4}, 5}});
  check("add.u32 $0, $1, -1", "32 32", {{{0}, 0xffffffff}, {{10}, 9}});
}

TEST_F(Integers, Carries) {
  // 64-bit sums of halves; the carry comes back through the second one.
  std::string sum = "add.cc.u32 %r20, $1, $3;\naddc.u32 $0, $2, $4";
  check(sum, "32 32 32 32 32",
        {{{0xffffffff, 1, 1, 2}, 4},
         {{0xfffffffe, 1, 1, 2}, 3},
         {{0xffffffff, 0xffffffff, 1, 0}, 0}});
  std::string difference = "sub.cc.u32 %r20, $1, $3;\nsubc.u32 $0, $2, $4";
  check(difference, "32 32 32 32 32",
        {{{0, 5, 1, 2}, 2}, {{1, 5, 1, 2}, 3}, {{0, 0, 1, 0}, 0xffffffff}});
  std::string borrows = "sub.cc.u32 %r20, $1, 1;\nsubc.cc.u32 %r21, $2, $2;\n"
                        "subc.u32 $0, $3, 0";
  check(borrows, "32 32 32 32", {{{0, 5, 9}, 8}, {{1, 5, 9}, 9}});
  // The carry of a sum that has one itself.
  std::string three = "add.cc.u32 %r20, $1, $1;\naddc.cc.u32 %r21, $2, 0;\n"
                      "addc.u32 $0, 0, 0";
  check(three, "32 32 32",
        {{{0x80000000, 0xffffffff}, 1}, {{1, 0xffffffff}, 0}});
  // A sum that only the carry makes overflow: c is what the half lacks.
  check("add.cc.u32 %r20, $1, $1;\nmadc.hi.cc.u32 %r21, $2, $2, $3;\n"
        "addc.u32 $0, 0, 0",
        "32 32 32 32",
        {{{0x80000000, 0xffffffff, 1}, 1}, {{1, 0xffffffff, 1}, 0}});
  std::string product =
      "mad.lo.cc.u32 %r20, $1, $2, $3;\nmadc.hi.u32 $0, $1, $2, 0";
  check(product, "32 32 32 32",
        {{{0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff},
         {{2, 0x80000000, 5}, 1},
         {{1, 0xffffffff, 1}, 1}});
}

TEST_F(Integers, Products) {
  check("mul.lo.s32 $0, $1, $2", "32 32 32",
        {{{s32(-3), 7}, s32(-21)}, {{0x10000, 0x10000}, 0}});
  check("mul.hi.s32 $0, $1, $2", "32 32 32",
        {{{s32(-1), 1}, s32(-1)},
         {{s32(min32), s32(min32)}, 0x40000000},
         {{0x10000, 0x10000}, 1}});
  check("mul.hi.u32 $0, $1, $2", "32 32 32",
        {{{0xffffffff, 0xffffffff}, 0xfffffffe}, {{s32(-1), 1}, 0}});
  check("mul.hi.u64 $0, $1, $2", "64 64 64",
        {{{~0ull, ~0ull}, ~0ull - 1}, {{1ull << 63, 4}, 2}});
  check("mul.hi.s64 $0, $1, $2", "64 64 64",
        {{{~0ull, 1}, ~0ull}, {{min64, min64}, 1ull << 62}});
  check("mul.wide.s32 $0, $1, $2", "64 32 32",
        {{{s32(-3), 7}, s64(-21)},
         {{s32(min32), s32(min32)}, 1ull << 62},
         {{0xffffffff, 0xffffffff}, 1}});
  check("mul.wide.u32 $0, $1, $2", "64 32 32",
        {{{0xffffffff, 0xffffffff}, 0xfffffffe00000001}});
  check("mul.wide.u16 $0, $1, $2", "32 16 16",
        {{{0xffff, 0xffff}, 0xfffe0001}});
  check("mul.wide.s16 $0, $1, $2", "32 16 16", {{{0xffff, 2}, s32(-2)}});
  check("mul.lo.u16 $0, $1, $2", "16 16 16", {{{0xffff, 0xffff}, 1}});
  check("mad.lo.s32 $0, $1, $2, $3", "32 32 32 32",
        {{{s32(-3), 7, 1}, s32(-20)}, {{s32(max32), 2, 2}, 0}});
  check("mad.hi.sat.s32 $0, $1, $2, $3", "32 32 32 32",
        {{{0x40000000, 0x40000000, s32(max32)}, s32(max32)}});
  check("mad.wide.u32 $0, $1, $2, $3", "64 32 32 64",
        {{{0xffffffff, 2, 1}, 0x1ffffffff}});
  check("mul24.lo.u32 $0, $1, $2", "32 32 32",
        {{{0xff000003, 5}, 15}, {{0xffffff, 0xffffff}, 0xfe000001}});
  check("mul24.lo.s32 $0, $1, $2", "32 32 32",
        {{{0x00ffffff, 5}, s32(-5)}, {{0x01000002, 3}, 6}});
  check("mul24.hi.u32 $0, $1, $2", "32 32 32",
        {{{0xffffff, 0xffffff}, 0xfffffe00}});
  check("dp4a.s32.u32 $0, $1, $2, $3", "32 32 32 32",
        {{{0xff010203, 0x02030405, 100}, s32(100 - 2 + 3 + 8 + 15)}});
}

TEST_F(Integers, Quotients) {
  check("div.s32 $0, $1, $2", "32 32 32",
        {{{s32(-7), 2}, s32(-3)},
         {{7, s32(-2)}, s32(-3)},
         {{s32(min32), s32(-1)}, s32(min32)}});
  check("div.u32 $0, $1, $2", "32 32 32",
        {{{s32(-7), 2}, 0x7ffffffc}, {{7, s32(-2)}, 0}});
  check(
      "rem.s32 $0, $1, $2", "32 32 32",
      {{{s32(-7), 2}, s32(-1)}, {{7, s32(-2)}, 1}, {{s32(min32), s32(-1)}, 0}});
  check("rem.u32 $0, $1, $2", "32 32 32", {{{s32(-7), 4}, 1}});
  check("div.s64 $0, $1, $2", "64 64 64",
        {{{min64, s64(-1)}, min64}, {{s64(-7), 2}, s64(-3)}});
  check("rem.u64 $0, $1, $2", "64 64 64", {{{~0ull, 10}, 5}});
  check("div.u16 $0, $1, $2", "16 16 16", {{{0xffff, 3}, 0x5555}});
  check("rem.s16 $0, $1, $2", "16 16 16", {{{0xfff9, 4}, 0xfffd}});
}

TEST_F(Integers, Extremes) {
  check("min.s32 $0, $1, $2", "32 32 32",
        {{{s32(-1), 1}, s32(-1)}, {{s32(min32), s32(max32)}, s32(min32)}});
  check("min.u32 $0, $1, $2", "32 32 32", {{{s32(-1), 1}, 1}});
  check("max.s64 $0, $1, $2", "64 64 64", {{{s64(-1), 1}, 1}});
  check("max.u16 $0, $1, $2", "16 16 16", {{{0xffff, 1}, 0xffff}});
  check("max.s16 $0, $1, $2", "16 16 16", {{{0xffff, 1}, 1}});
  check("max.relu.s32 $0, $1, $2", "32 32 32",
        {{{s32(-5), s32(-7)}, 0}, {{s32(-5), 3}, 3}});
  check("min.s16x2 $0, $1, $2", "32 32 32",
        {{{0xffff0005, 0x00010003}, 0xffff0003}});
  check("max.u16x2 $0, $1, $2", "32 32 32",
        {{{0xffff0005, 0x00010003}, 0xffff0005}});
  check("add.u16x2 $0, $1, $2", "32 32 32", {{{0xffff0001, 0x00010001}, 2}});
}

TEST_F(Integers, Signs) {
  check("abs.s32 $0, $1", "32 32",
        {{{s32(-5)}, 5}, {{5}, 5}, {{s32(min32)}, s32(min32)}});
  check("neg.s32 $0, $1", "32 32",
        {{{5}, s32(-5)}, {{s32(min32)}, s32(min32)}, {{0}, 0}});
  check("neg.s64 $0, $1", "64 64", {{{5}, s64(-5)}, {{min64}, min64}});
  check("abs.s16 $0, $1", "16 16", {{{0xffff}, 1}, {{0x8000}, 0x8000}});
  check("sad.s32 $0, $1, $2, $3", "32 32 32 32",
        {{{s32(-5), 5, 100}, 110}, {{s32(min32), s32(max32), 0}, 0xffffffff}});
  check("sad.u32 $0, $1, $2, $3", "32 32 32 32", {{{3, 8, 1}, 6}});
}

class Bits : public InstructionTest {};

TEST_F(Bits, Logic) {
  check("and.b32 $0, $1, $2", "32 32 32",
        {{{0xff00ff00, 0x0ff00ff0}, 0x0f000f00}});
  check("or.b64 $0, $1, $2", "64 64 64",
        {{{1ull << 63, 1}, 0x8000000000000001}});
  check("xor.b16 $0, $1, $2", "16 16 16", {{{0xff00, 0x0ff0}, 0xf0f0}});
  check("not.b32 $0, $1", "32 32", {{{0xff00ff00}, 0x00ff00ff}});
  check("cnot.b32 $0, $1", "32 32", {{{0}, 1}, {{7}, 0}});
  check("and.pred $0, $1, $2", "p p p",
        {{{0, 0}, 0}, {{1, 0}, 0}, {{0, 1}, 0}, {{1, 1}, 1}});
  check("xor.pred $0, $1, $2", "p p p",
        {{{0, 0}, 0}, {{1, 0}, 1}, {{0, 1}, 1}, {{1, 1}, 0}});
  check("or.pred $0, $1, $2", "p p p", {{{0, 0}, 0}, {{1, 0}, 1}, {{1, 1}, 1}});
  check("not.pred $0, $1", "p p", {{{0}, 1}, {{1}, 0}});
  check("mov.pred $0, $1", "p p", {{{0}, 0}, {{1}, 1}});
  // The majority, a ? b : c, and all but one of the eight rows.
  check("lop3.b32 $0, $1, $2, $3, 0xe8", "32 32 32 32",
        {{{0b11110000, 0b11001100, 0b10101010}, 0b11101000}});
  check("lop3.b32 $0, $1, $2, $3, 0xca", "32 32 32 32",
        {{{0xff00ff00, 0x12345678, 0x9abcdef0}, 0x12bc56f0}});
  check("lop3.b32 $0, $1, $2, $3, 0x7f", "32 32 32 32",
        {{{0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa}, 0x7f7f7f7f}});
}

TEST_F(Bits, Shifts) {
  check(
      "shl.b32 $0, $1, $2", "32 32 32",
      {{{1, 31}, negative32}, {{1, 32}, 0}, {{1, 0xffffffff}, 0}, {{3, 0}, 3}});
  check("shr.u32 $0, $1, $2", "32 32 32",
        {{{negative32, 31}, 1}, {{negative32, 32}, 0}, {{5, 0}, 5}});
  check("shr.s32 $0, $1, $2", "32 32 32",
        {{{negative32, 31}, 0xffffffff},
         {{negative32, 32}, 0xffffffff},
         {{negative32, 0x80000000}, 0xffffffff},
         {{0x7fffffff, 40}, 0},
         {{s32(-8), 1}, s32(-4)}});
  check("shl.b64 $0, $1, $2", "64 64 32",
        {{{1, 63}, negative64}, {{1, 64}, 0}, {{1, 33}, 1ull << 33}});
  check("shr.s64 $0, $1, $2", "64 64 32",
        {{{negative64, 64}, ~0ull}, {{negative64, 62}, ~0ull - 1}});
  check("shr.b16 $0, $1, $2", "16 16 32",
        {{{0x8000, 15}, 1}, {{0x8000, 16}, 0}});
  check("shr.s16 $0, $1, $2", "16 16 32",
        {{{0x8000, 15}, 0xffff}, {{0x8000, 99}, 0xffff}});
  check("shl.b16 $0, $1, $2", "16 16 32",
        {{{0xffff, 8}, 0xff00}, {{1, 16}, 0}});
  check("shf.l.wrap.b32 $0, $1, $2, $3", "32 32 32 32",
        {{{0x80000000, 1, 1}, 3}, {{5, 7, 32}, 7}, {{5, 7, 33}, 14}});
  check("shf.r.wrap.b32 $0, $1, $2, $3", "32 32 32 32",
        {{{2, 1, 1}, 0x80000001}, {{5, 7, 32}, 5}});
  check("shf.l.clamp.b32 $0, $1, $2, $3", "32 32 32 32",
        {{{5, 7, 32}, 5}, {{5, 7, 99}, 5}, {{5, 7, 0}, 7}});
  check("shf.r.clamp.b32 $0, $1, $2, $3", "32 32 32 32",
        {{{5, 7, 32}, 7}, {{5, 7, 99}, 7}, {{5, 7, 0}, 5}});
}

TEST_F(Bits, Fields) {
  check("bfe.u32 $0, $1, $2, $3", "32 32 32 32",
        {{{0xabcdef12, 8, 8}, 0xef},
         {{0xabcdef12, 0, 0}, 0},
         {{0xabcdef12, 24, 32}, 0xab},
         {{0xabcdef12, 40, 8}, 0},
         {{0xabcdef12, 0, 32}, 0xabcdef12}});
  check("bfe.s32 $0, $1, $2, $3", "32 32 32 32",
        {{{0xabcdef12, 8, 8}, s32(-17)},
         {{0xabcdef12, 0, 5}, s32(-14)},
         {{0xabcdef12, 24, 32}, 0xffffffab},
         {{0xabcdef12, 40, 8}, 0xffffffff},
         {{0xabcdef12, 4, 0}, 0}});
  check("bfe.u64 $0, $1, $2, $3", "64 64 32 32",
        {{{0xabcdef1234567890, 32, 16}, 0xef12}, {{~0ull, 0, 64}, ~0ull}});
  check("bfi.b32 $0, $1, $2, $3, $4", "32 32 32 32 32",
        {{{0xff, 0x12345678, 8, 4}, 0x12345f78},
         {{0xff, 0x12345678, 28, 8}, 0xf2345678},
         {{0xff, 0x12345678, 32, 8}, 0x12345678},
         {{0xff, 0x12345678, 8, 0}, 0x12345678},
         {{0xff, 0x12345678, 0, 32}, 0xff}});
  check("bfi.b64 $0, $1, $2, $3, $4", "64 64 64 32 32",
        {{{~0ull, 0, 60, 8}, 0xf000000000000000}});
  check("bmsk.clamp.b32 $0, $1, $2", "32 32 32",
        {{{4, 8}, 0xff0}, {{28, 8}, 0xf0000000}, {{32, 1}, 0}});
}

TEST_F(Bits, Counts) {
  check("popc.b32 $0, $1", "32 32", {{{0}, 0}, {{~0u}, 32}, {{0x101}, 2}});
  check("popc.b64 $0, $1", "32 64", {{{~0ull}, 64}, {{1ull << 40}, 1}});
  check("clz.b32 $0, $1", "32 32", {{{0}, 32}, {{1}, 31}, {{~0u}, 0}});
  check("clz.b64 $0, $1", "32 64", {{{0}, 64}, {{1}, 63}});
  check("brev.b32 $0, $1", "32 32", {{{1}, negative32}, {{0xf0}, 0x0f000000}});
  check("brev.b64 $0, $1", "64 64", {{{1}, negative64}});
  check("bfind.u32 $0, $1", "32 32",
        {{{0}, ~0u}, {{1}, 0}, {{0x80000000}, 31}});
  check("bfind.s32 $0, $1", "32 32",
        {{{s32(-1)}, ~0u}, {{s32(-2)}, 0}, {{0x7fffffff}, 30}});
  check("bfind.shiftamt.u32 $0, $1", "32 32", {{{1}, 31}, {{0}, ~0u}});
}

TEST_F(Bits, Permutations) {
  check("prmt.b32 $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0x77665544, 0x7531}, 0x77553311},
         {{0x33221180, 0x77665544, 0x0888}, 0x80ffffff},
         {{0x33221180, 0x77665544, 0x9999}, 0}});
  check("prmt.b32.f4e $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0x77665544, 1}, 0x44332211}});
  check("prmt.b32.b4e $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0x77665544, 1}, 0x66770011}});
  check("prmt.b32.rc8 $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0, 2}, 0x22222222}});
  check("prmt.b32.ecl $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0, 1}, 0x33221111}});
  check("prmt.b32.ecr $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0, 1}, 0x11111100}});
  check("prmt.b32.rc16 $0, $1, $2, $3", "32 32 32 32",
        {{{0x33221100, 0, 1}, 0x33223322}});
}

} // namespace
