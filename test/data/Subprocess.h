//===- Subprocess.h - Running a program to its end ---------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DATA_SUBPROCESS_H
#define FSDP_TEST_DATA_SUBPROCESS_H

#include <string>
#include <vector>

namespace fsdp::rt::data {

struct Outcome {
  int status = -1; // exit status
  int signal = 0;  // that ended it; 0: none
  std::string out, err;
};

/// Runs `words` with `environment` ("NAME=VALUE") added to this process's, in a
/// process group of its own, which is ended after a minute. `outTo` takes
/// standard output instead of Outcome::out; with `onTerminal` it is a terminal.
Outcome runProgram(const std::vector<std::string> &words,
                   const std::vector<std::string> &environment = {},
                   const std::string &outTo = "", bool onTerminal = false);

} // namespace fsdp::rt::data

#endif // FSDP_TEST_DATA_SUBPROCESS_H
