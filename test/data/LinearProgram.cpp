//===- LinearProgram.cpp - Running the program written by hand ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include <algorithm>
#include <cstdio>

namespace fsdp::rt::data {

LinearProgram::LinearProgram() {
  constexpr int64_t steps = 7, ranks = 4, row = 20;
  std::vector<int64_t> ids, labels;
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t i = 0; i < row; ++i) {
        ids.push_back((step * 31 + i * 7) % 128);
        labels.push_back((step * 17 + i * 3) % 128);
      }
  EXPECT_OK(writeSafetensors(batches,
                             {{"input_ids", FSDP_RT_I64, {steps, ranks, 4, 5}},
                              {"labels", FSDP_RT_I64, {steps, ranks, 4, 5}}},
                             {ids.data(), labels.data()}));
}

LinearProgram::Words LinearProgram::training(int steps,
                                             const Words &more) const {
  Words words = {"--init",       "seed=0", "--data",  batches,
                 "--lr",         "0.001",  "--steps", std::to_string(steps),
                 "--data-ranks", "first"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Outcome LinearProgram::run(const std::string &mesh, const Words &arguments,
                           Words environment) const {
  Words words = {LINEAR_EXE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  // Other data has no ranks to choose from.
  auto isTensors = [](const std::string &word) {
    constexpr std::string_view end = ".safetensors";
    return word.size() > end.size() &&
           word.compare(word.size() - end.size(), end.size(), end) == 0;
  };
  bool isRead = false;
  for (size_t i = 1; i + 1 < words.size(); ++i)
    isRead |= (words[i] == "--data" || words[i] == "--eval-data") &&
              isTensors(words[i + 1]);
  auto choice = std::find(words.begin(), words.end(), "--data-ranks");
  if (!isRead && choice != words.end())
    words.erase(choice, choice + 2);
  else if (isRead && choice == words.end())
    words.insert(words.end(), {"--data-ranks", "first"});
  environment.push_back("LINEAR_MESH=" + mesh);
  return runProgram(words, environment);
}

Outcome LinearProgram::runWell(const std::string &mesh, const Words &arguments,
                               Words environment) const {
  Outcome outcome = run(mesh, arguments, std::move(environment));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome;
}

void LinearProgram::expectRefusal(const std::string &mesh,
                                  const Words &arguments,
                                  const std::string &message,
                                  Words environment) const {
  std::vector<std::string> before = entriesOf(dir.path());
  Outcome outcome = run(mesh, arguments, std::move(environment));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.err.compare(0, 7, "error: "), 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
      << outcome.err;
  EXPECT_CONTAINS(outcome.err, message);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(entriesOf(dir.path()), before);
}

std::string LinearProgram::pathAt(const std::string &directory, int step) {
  char name[40];
  std::snprintf(name, sizeof name, "/step-%08d", step);
  return directory + name;
}

std::string LinearProgram::stateAt(const std::string &directory, int step) {
  const std::string path = pathAt(directory, step);
  return readFile(path + "/params.safetensors") +
         readFile(path + "/optimizer.safetensors");
}

nlohmann::json LinearProgram::metaAt(const std::string &directory, int step) {
  return nlohmann::json::parse(
      readFile(pathAt(directory, step) + "/meta.json"));
}

} // namespace fsdp::rt::data
