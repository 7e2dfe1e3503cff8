//===- ToolTest.cpp - Crashes, files and names ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/InputFile.h"
#include "fsdp/Support/PrintableText.h"
#include "fsdp/Tool/CrashHandler.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <csignal>
#include <cstdlib>

using namespace mlir::fsdp;

namespace {

//===----------------------------------------------------------------------===//
// Crashes
//===----------------------------------------------------------------------===//

/// Ends as a tool does whose main is @main.
[[noreturn]] void runAndExit(llvm::function_ref<int()> main) {
  ::_exit(runTool("fsdp-test", main));
}

/// Takes the whole stack.
__attribute__((noinline)) int recurse(volatile char *above) {
  volatile char page[4096];
  page[0] = *above;
  // Never so, but nobody can know.
  return page[0] ? 0 : recurse(page) + page[0];
}

constexpr char kExit2[] = "internal error: fsdp-test met .* in pass 'p' of "
                          "model.mlir; please report it";

TEST(CrashHandler, SaysWhereAndExitsWith2) {
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTRAP})
    EXPECT_EXIT(runAndExit([&] {
                  setCrashFile("model.mlir");
                  setCrashActivity("pass 'p'");
                  raise(signal);
                  return 0;
                }),
                testing::ExitedWithCode(2), kExit2);
}

TEST(CrashHandler, HasAStackWhereThereIsNone) {
  EXPECT_EXIT(runAndExit([] {
                setCrashFile("model.mlir");
                setCrashActivity("pass 'p'");
                volatile char zero = 0;
                return recurse(&zero);
              }),
              testing::ExitedWithCode(2), kExit2);
}

TEST(CrashHandler, SaysFatalErrors) {
  EXPECT_EXIT(runAndExit([]() -> int {
                setCrashFile("model.mlir");
                setCrashActivity("pass 'p'");
                llvm::report_fatal_error("no \x1b[31msuch thing");
              }),
              testing::ExitedWithCode(2),
              "fatal error, 'no .1B.31msuch thing', in pass 'p' of model.mlir");
}

TEST(CrashHandler, HasNothingToAddToAnErrorOfTheParser) {
  EXPECT_EXIT(runAndExit([] {
                ParsingScope parsing(1);
                noteError();
                llvm::errs() << "said\n";
                raise(SIGSEGV);
                return 0;
              }),
              testing::ExitedWithCode(1), "^said\n$");
  // IR that it left broken may be read only after it has returned.
  EXPECT_EXIT(runAndExit([] {
                ParsingScope(1), noteError();
                raise(SIGSEGV);
                return 0;
              }),
              testing::ExitedWithCode(1), "^$");
  // After another file was parsed without errors, a crash is an internal fault.
  EXPECT_EXIT(runAndExit([] {
                ParsingScope(1), noteError();
                ParsingScope(1);
                raise(SIGSEGV);
                return 0;
              }),
              testing::ExitedWithCode(2), "internal error");
}

TEST(CrashHandler, ReturnsWhatTheToolReturns) {
  EXPECT_EXIT(runAndExit([] { return 1; }), testing::ExitedWithCode(1), "^$");
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TEST(PrintableText, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(makePrintable("h.0.weight"), "h.0.weight");
  EXPECT_EQ(makePrintable("a\x1b[2Jb\r\n\x07"), "a\\1B[2Jb\\0D\\0A\\07");
  EXPECT_EQ(makePrintable("a\nb", Newlines::Kept), "a\nb");
  EXPECT_EQ(makePrintable("weiß 重み"), "weiß 重み");
  // Invalid UTF-8, C1 controls, marks that turn the direction of writing.
  EXPECT_EQ(makePrintable("\xff\xc3"), "\\FF\\C3");
  EXPECT_EQ(makePrintable("\u009b"), "\\C2\\9B");
  EXPECT_EQ(makePrintable("\u202e"), "\\E2\\80\\AE");
  EXPECT_TRUE(isPrintable("ß"));
  EXPECT_FALSE(isPrintable("\x7f"));
}

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

std::string nest(llvm::StringRef open, llvm::StringRef close, int times) {
  std::string text;
  for (int i = 0; i != times; ++i)
    text += open;
  for (int i = 0; i != times; ++i)
    text += close;
  return text;
}

TEST(TextScan, CountsWhatIsNested) {
  EXPECT_EQ(scanText("module { func.func @f() { return } }").depth, 2);
  for (auto [open, close] :
       std::initializer_list<std::pair<llvm::StringRef, llvm::StringRef>>{
           {"[", "]"},
           {"{\n", "}\n"},
           {"(", ")"},
           {"tuple<", ">"},
           {"tuple<() -> ", ">"},
           {"[affine_set<(d0) : (d0 >= 0)>, ", "]"},
           {"[\"]]]\", ", "]"},
           {"[ // ]]]\n", "]"},
           {"{f(\"a\\\"]\") ", "}"}})
    EXPECT_GE(scanText(nest(open, close, 600)).depth, 600) << open.str();
  // What is closed, quoted or a comment does not count.
  EXPECT_EQ(scanText(nest("[]", "", 600)).depth, 1);
  EXPECT_EQ(scanText("\"" + nest("[", "]", 600) + "\"").depth, 0);
  EXPECT_EQ(scanText("// " + nest("[", "]", 600)).depth, 0);
  EXPECT_EQ(scanText("[\n[\n[]]]").deepLine, 3);
}

TEST(TextScan, CountsDimensions) {
  EXPECT_EQ(scanText("tensor<4x5x?x6xf32>").rank, 4);
  EXPECT_EQ(scanText("tensor<f32>").rank, 0);
  EXPECT_EQ(scanText("tensor< 1 x 1 x // 1x1\n 1xi8>").rank, 3);
  EXPECT_EQ(scanText("tensor<" + nest("1x", "", 600) + "f32>").rank, 600);
  EXPECT_EQ(scanText("dense<[1, 2, 3]> : tensor<3xi64>").rank, 1);
}

TEST(TextScan, FindsWhatTheParserDiesOf) {
  for (llvm::StringRef text : {"array<i64: 1>, array<f32>, array<bf16: 1.0>",
                               "!llvm.struct<(ptr, array<4 x ptr>)>"})
    EXPECT_EQ(scanText(text).fault, "");
  EXPECT_EQ(scanText("\n x = array <index: 1>").fault,
            "expected array<T: ..> of integers or floats, got 'index'");
  EXPECT_EQ(scanText("\n x = array <index: 1>").faultLine, 2);
  EXPECT_EQ(
      scanText(R"(iterator_types = ["parallel", "reduction"]}, "x")").fault,
      "");
  EXPECT_EQ(
      scanText("<{iterator_types = [#linalg.iterator_type<parallel>]}>").fault,
      "");
  EXPECT_EQ(scanText(R"({iterator_types = ["parallel", "x"]})").fault,
            "expected parallel, reduction or window among iterator_types, got "
            "'\"x\"'");
  for (llvm::StringRef got :
       {"#map", "#linalg.iterator_type<parallel>", "4", "{a}"})
    EXPECT_EQ(
        scanText("linalg.generic {iterator_types = [" + got.str() + "]}").fault,
        "expected parallel, reduction or window among iterator_types, "
        "got '" +
            got.str() + "'");
  EXPECT_EQ(scanText(llvm::StringRef("a\n\0b", 4)).zeroLine, 2);
}

} // namespace
