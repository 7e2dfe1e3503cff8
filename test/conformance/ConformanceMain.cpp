//===- ConformanceMain.cpp - One program for all backends -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backends.h"
#include "MpiCases.h"
#include "channels/tcp/TcpBackend.h"
#include "control/Launch.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

/// Of the ranks of a job, the first prints everything, the others what fails.
class FailuresOnly : public testing::EmptyTestEventListener {
public:
  explicit FailuresOnly(int rank) : rank(rank) {}

private:
  int rank;
  void OnTestPartResult(const testing::TestPartResult &result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank,
                   result.file_name() ? result.file_name() : "",
                   result.line_number(), result.message());
  }
};

bool takeOption(const std::string &argument, const std::string &name,
                std::string &value) {
  std::string prefix = "--" + name + "=";
  if (argument.compare(0, prefix.size(), prefix) != 0)
    return false;
  value = argument.substr(prefix.size());
  return true;
}

} // namespace

int main(int argc, char **argv) {
  std::string chunk = "262144", staging = "262144", name, directory, processes;
  // What starts the job's processes starts them with all of it.
  std::vector<std::string> words(argv, argv + argc);
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (!takeOption(argv[i], "chunk", chunk) &&
        !takeOption(argv[i], "staging", staging) &&
        !takeOption(argv[i], "case", name) &&
        !takeOption(argv[i], "processes", processes) &&
        !takeOption(argv[i], "directory", directory)) {
      std::fprintf(stderr, "error: unknown argument '%s'\n", argv[i]);
      return 1;
    }
  fsdp::test::setMpiSizes(std::stoll(chunk), std::stoll(staging));
  if (!name.empty())
    return fsdp::test::runMpiCase(name, directory);
  fsdp::rt::Result<fsdp::rt::LaunchInfo> launch =
      fsdp::rt::detectLaunch(fsdp::rt::currentEnvironment());
  if (!processes.empty() && launch.isOk() && launch->size == 1) {
    std::vector<char *> own;
    for (std::string &word : words)
      own.push_back(word.data());
    own.push_back(nullptr);
    fsdp::rt::Result<int> status =
        fsdp::rt::launchProcesses(std::stoi(processes), own.data());
    if (!status.isOk())
      std::fprintf(stderr, "error: %s\n", status.status().message().c_str());
    return status.isOk() ? *status : 1;
  }
  if (launch.isOk() && launch->rank != 0) {
    testing::TestEventListeners &listeners =
        testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(launch->rank));
  }
  int result = RUN_ALL_TESTS();
  fsdp::test::endJob();
  return result;
}
