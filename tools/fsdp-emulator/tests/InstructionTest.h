//===- InstructionTest.h - Tables of operands and results -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_TESTS_INSTRUCTIONTEST_H
#define FSDP_EMULATOR_TESTS_INSTRUCTIONTEST_H

#include "Harness.h"

namespace fsdp::emulator::test {

inline uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
/// A number of 32 bits, of 64 bits.
inline uint64_t s32(int64_t value) { return static_cast<uint32_t>(value); }
inline uint64_t s64(int64_t value) { return static_cast<uint64_t>(value); }

constexpr uint64_t nan32 = 0x7fffffff, inf32 = 0x7f800000,
                   negative32 = 0x80000000, nan64 = 0x7ff8000000000000,
                   inf64 = 0x7ff0000000000000, negative64 = uint64_t{1} << 63;

struct Row {
  std::vector<uint64_t> operands;
  uint64_t result;
};

class InstructionTest : public EmulatorTest {
protected:
  /// Executes `instruction` for each list of operands. It has $0 for its
  /// result and $1, $2, .. for its operands; `kinds` has for each of them, in
  /// this order, how many bits its register has, or p for a predicate.
  std::vector<uint64_t>
  evaluate(const std::string &instruction, const std::string &kinds,
           const std::vector<std::vector<uint64_t>> &operands);

  /// Expects the results of all rows.
  void check(const std::string &instruction, const std::string &kinds,
             const std::vector<Row> &rows);
};

} // namespace fsdp::emulator::test

#endif // FSDP_EMULATOR_TESTS_INSTRUCTIONTEST_H
