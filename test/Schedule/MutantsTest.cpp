//===- MutantsTest.cpp - Harmful changes are refused, others not ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "MutantCounts.h"
#include "StepMutant.h"
#include "fsdp/Schedule/VerifyProgram.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

TEST(Mutants, TheProgramsAreRight) {
  for (unsigned seed = 0; seed != 500; ++seed) {
    test::StepMutant mutant(seed);
    EXPECT_EQ(test::runEveryWay(mutant.p), "");
    auto fault = verifyProgram(mutant.p);
    EXPECT_FALSE(fault) << fault->message;
  }
}

TEST(Mutants, HarmfulOnesAreRefusedAndNoOthers) {
  int harmful = 0, harmless = 0, rejected = 0, accepted = 0;
  for (unsigned seed = 0; seed != 20000; ++seed) {
    test::StepMutant mutant(seed);
    for (unsigned i = 0; i != 1 + seed % 2; ++i)
      mutant.mutate();
    bool sticksOut = llvm::any_of(mutant.p.values, [&](const StepValue &value) {
      return value.isArgument &&
             value.offset + value.bytes > mutant.p.arenaBytes;
    });
    if (sticksOut)
      continue;
    std::string harm = test::runEveryWay(mutant.p);
    auto fault = verifyProgram(mutant.p);
    ++(fault ? rejected : accepted);
    ASSERT_EQ(harm.empty(), !fault)
        << "seed " << seed << ": the interpreter says '" << harm
        << "', the verifier '" << (fault ? fault->message : "") << "'";
    ++(harm.empty() ? harmless : harmful);
  }
  test::reportCounts({{"mutants", harmful + harmless},
                      {"harmful", harmful},
                      {"harmless", harmless},
                      {"rejected", rejected},
                      {"accepted", accepted}});
  EXPECT_GT(harmful + harmless, 18000);
  EXPECT_GT(harmful, 8000);
  EXPECT_GT(harmless, 3000);
}

} // namespace
