//===- ProgramKindsTest.cpp - The dialect's kinds of programs -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DialectTest.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {

using ProgramKindsTest = DialectTest;

TEST_F(ProgramKindsTest, AreThoseOfTheTable) {
  EXPECT_EQ(getMaxEnumValForProgramKind() + 1,
            std::size(fsdp_rt::programTraits));
  for (auto [i, traits] : llvm::enumerate(fsdp_rt::programTraits)) {
    EXPECT_EQ(stringifyProgramKind(ProgramKind(i)), traits.name);
    EXPECT_EQ(symbolizeProgramKind(traits.name), ProgramKind(i));
    EXPECT_EQ(getTraits(ProgramKind(i)).name, StringRef(traits.name));
  }
}

TEST_F(ProgramKindsTest, OneIsTheStepAndTracedOnesComeFirst) {
  auto isStep = [](const auto &traits) { return traits.isStep; };
  EXPECT_EQ(llvm::count_if(fsdp_rt::programTraits, isStep), 1);
  EXPECT_TRUE(
      llvm::is_sorted(fsdp_rt::programTraits, [](const auto &a, const auto &b) {
        return a.isTraced > b.isTraced;
      }));
}

/// What is printed is read again as the same kind.
TEST_F(ProgramKindsTest, EachIsPrintedAndParsed) {
  for (const fsdp_rt::ProgramTraits &traits : fsdp_rt::programTraits) {
    std::string text = std::string("fsdp.program ") + traits.name +
                       " @p() {\n  fsdp.return\n}";
    for (int time = 0; time < 2; ++time) {
      parse(text);
      EXPECT_EQ(stringifyProgramKind(get<ProgramOp>().getKind()), traits.name);
      text.clear();
      llvm::raw_string_ostream(text) << *module;
    }
    EXPECT_EQ(StringRef(text).contains(std::string("program ") + traits.name),
              !traits.isStep)
        << text;
  }
}

} // namespace
