//===- EvaluationTest.cpp - Evaluations of a program that trains ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"
#include "data/Safetensors.h"

#include <cmath>
#include <fstream>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class EvaluationTest : public LinearProgram {
protected:
  /// The lines of --metrics that have `key`.
  static std::vector<json> linesWith(const std::string &path, const char *key) {
    std::vector<json> lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);)
      if (json parsed = json::parse(line); parsed.contains(key))
        lines.push_back(std::move(parsed));
    return lines;
  }

  std::string evalData() { return dir.file("eval.safetensors"); }

  /// Two batches for each of four ranks.
  void writeEvalData() {
    std::vector<int64_t> ids(2 * 4 * 4 * 5), labels(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = int64_t(i * 7 % 128);
      labels[i] = int64_t(i * 3 % 128);
    }
    ASSERT_OK(writeSafetensors(evalData(),
                               {{"input_ids", FSDP_RT_I64, {2, 4, 4, 5}},
                                {"labels", FSDP_RT_I64, {2, 4, 4, 5}}},
                               {ids.data(), labels.data()}));
  }
};

TEST_F(EvaluationTest, ChangesNothingOfTheTraining) {
  writeEvalData();
  const std::vector<Words> environments = {
      {},
      {"LINEAR_QUEUES=1"},
      {"LINEAR_HOST=1"},
      {"LINEAR_QUEUES=1", "LINEAR_HOST=1"}};
  for (const char *mesh : {"1", "2", "4", "2x2"})
    for (const Words &environment : environments) {
      std::string variant = mesh;
      for (const std::string &word : environment)
        variant += word;
      std::string plain = dir.file("plain" + variant),
                  other = dir.file("other" + variant);
      runWell(mesh,
              training(6, {"--metrics", plain, "--save", plain + "-save"}),
              environment);
      Outcome outcome =
          runWell(mesh,
                  training(6, {"--metrics", other, "--save", other + "-save",
                               "--eval-data", evalData(), "--eval-every", "2"}),
                  environment);
      EXPECT_CONTAINS(outcome.out, "step: 2 eval_loss: ");
      std::vector<json> a = linesWith(plain, "loss"),
                        b = linesWith(other, "loss");
      ASSERT_EQ(a.size(), 6u);
      ASSERT_EQ(b.size(), 6u);
      for (size_t i = 0; i < 6; ++i)
        for (const char *key : {"step", "loss", "grad_norm"})
          EXPECT_EQ(a[i][key], b[i][key]) << variant << " step " << i;
      for (const char *file : {"params", "optimizer"}) {
        std::string at =
            std::string("-save/step-00000006/") + file + ".safetensors";
        EXPECT_EQ(readFile(plain + at), readFile(other + at)) << variant << at;
      }
      std::vector<json> evaluations = linesWith(other, "eval_loss");
      ASSERT_EQ(evaluations.size(), 3u);
      EXPECT_EQ(evaluations[2]["step"], 6);
      EXPECT_EQ(evaluations[2]["eval_batches"], 2);
    }
}

/// The loss is the mean over batches and ranks of what --save-outputs has.
TEST_F(EvaluationTest, SavesWhatEachRankComputes) {
  writeEvalData();
  std::string metrics = dir.file("metrics"), outputs = dir.file("out");
  runWell("4", training(3, {"--metrics", metrics, "--eval-data", evalData(),
                            "--save-outputs", outputs}));
  std::vector<json> lines = linesWith(metrics, "eval_loss");
  ASSERT_EQ(lines.size(), 1u);
  auto file = SafetensorsReader::open(outputs);
  ASSERT_OK(file.status());
  const TensorInfo *prediction = file->find("prediction");
  ASSERT_NE(prediction, nullptr);
  EXPECT_EQ(prediction->shape, (Shape{2, 4, 4}));
  EXPECT_EQ(file->find("loss")->shape, (Shape{2, 4}));
  std::vector<float> found = floatsOf(outputs, "prediction");
  double sum = 0;
  for (size_t row = 0; row < 2 * 4 * 4; ++row) {
    float target = 0;
    for (size_t k = 0; k < 5; ++k)
      target += float((row * 5 + k) * 3 % 128) / 64;
    sum += (found[row] - target) * (found[row] - target);
  }
  EXPECT_NEAR(lines[0]["eval_loss"].get<double>(), sum / 32, 1e-4 * sum / 32);
  // Each rank's own, of each batch.
  std::vector<float> own = floatsOf(outputs, "loss");
  double mean = 0;
  for (float loss : own)
    mean += loss / double(own.size());
  EXPECT_NE(own[0], own[1]);
  EXPECT_NEAR(mean, sum / 32, 1e-4 * sum / 32);
}

/// Each batch counts once, on any number of ranks, and the rest is named.
TEST_F(EvaluationTest, CountsEachBatchOnce) {
  // 23 sequences of 5 tokens, and a label: 5 batches of 4, and 3 sequences.
  std::string text = dir.file("text"), reference;
  for (int i = 0; i < 23 * 5 + 1; ++i)
    reference += char('a' + i * i % 23);
  writeFile(text, reference);
  std::vector<double> losses;
  for (const char *mesh : {"1", "2", "4"}) {
    std::string metrics = dir.file(std::string("metrics") + mesh),
                outputs = dir.file(std::string("out") + mesh);
    Outcome outcome =
        run(mesh, training(1, {"--metrics", metrics, "--eval-data", text,
                               "--save-outputs", outputs}));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "warning: --eval-data: " + text +
                               ": 3 of 23 sequences are left out, since they "
                               "fill no batch\n");
    losses.push_back(linesWith(metrics, "eval_loss")[0]["eval_loss"]);
    std::vector<float> own = floatsOf(outputs, "loss");
    double sum = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i] == 0, i >= 5) << i;
      sum += own[i];
    }
    EXPECT_NEAR(losses.back(), sum / 5, 1e-6 * sum);
  }
  // The step before sees the same batches on all meshes.
  EXPECT_NEAR(losses[1], losses[0], 1e-6 * losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 1e-6 * losses[0]);
}

TEST_F(EvaluationTest, TakesTheBatchesThatItIsTold) {
  writeEvalData();
  std::string metrics = dir.file("metrics");
  runWell("2", training(1, {"--metrics", metrics, "--eval-data", evalData(),
                            "--eval-steps", "1"}));
  EXPECT_EQ(linesWith(metrics, "eval_loss")[0]["eval_batches"], 1);
  runWell("2", training(1, {"--metrics", metrics, "--eval-data",
                            "random:seed=4", "--eval-steps", "3"}));
  EXPECT_EQ(linesWith(metrics, "eval_loss")[0]["eval_batches"], 3);
}

/// A run that trains nothing does not begin the file of one that did anew.
TEST_F(EvaluationTest, AppendsToTheMetricsOfATraining) {
  writeEvalData();
  std::string metrics = dir.file("metrics"), saves = dir.file("saves");
  runWell("2", training(6, {"--metrics", metrics, "--save", saves,
                            "--save-every", "3"}));
  std::string trained = readFile(metrics);
  // Of a checkpoint, older than the last step, and of a fresh state.
  Words evaluating = {"--eval-data", evalData(), "--metrics", metrics};
  for (Words start : {Words{"--resume", saves + "/step-00000003"},
                      Words{"--resume", saves}, Words{"--init", "seed=0"}}) {
    start.insert(start.end(), evaluating.begin(), evaluating.end());
    runWell("2", start);
  }
  EXPECT_EQ(readFile(metrics).substr(0, trained.size()), trained);
  std::vector<json> lines = linesWith(metrics, "eval_loss");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(linesWith(metrics, "loss").size(), 6u);
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[1]["step"], 6);
  EXPECT_EQ(lines[2]["step"], 0);
  // What a crash left of a line does not become part of the next.
  writeFile(metrics, trained + "{\"step\": 7");
  runWell("2",
          {"--resume", saves, "--eval-data", evalData(), "--metrics", metrics});
  EXPECT_EQ(readFile(metrics).substr(0, trained.size()), trained);
  EXPECT_EQ(linesWith(metrics, "step").size(), 7u);
}

TEST_F(EvaluationTest, RefusesWhatCannotBeEvaluated) {
  writeEvalData();
  auto refuse = [&](const Words &more, const std::string &why,
                    const Words &environment = {}) {
    Outcome outcome = run("2", training(2, more), environment);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_CONTAINS(outcome.err, why);
  };
  refuse({"--eval-every", "2"},
         "--eval-every: expected --eval-data SOURCE as well");
  refuse({"--eval-steps", "2"},
         "--eval-steps: expected --eval-data SOURCE as well");
  refuse({"--save-outputs", dir.file("x")},
         "--save-outputs: expected --eval-data SOURCE as well");
  refuse({"--eval-data", evalData()},
         "--eval-data: expected a program that evaluates, got one that only "
         "trains: export the model with fsdp-export --eval",
         {"LINEAR_FLAW=noeval"});
  refuse({"--eval-data", "random:seed=1"},
         "--eval-data: expected --eval-steps K beside data without an end");
  refuse({"--eval-data", evalData(), "--eval-steps", "3"},
         "--eval-data: expected --eval-steps of at most 2, the batches that it "
         "has, got 3");
  writeFile(dir.file("short.txt"), std::string(16, 'a'));
  refuse({"--eval-data", dir.file("short.txt")},
         "--eval-data: expected at least a batch, with the inputs [4, 5], got "
         "3 of 3 sequences");
  refuse({"--eval-data", dir.file("none")}, "No such file");
  refuse({"--eval-data", evalData(), "--save-outputs", dir.file("no/such")},
         "--save-outputs: ");
  // An evaluation that fails ends the run at its step.
  std::vector<int64_t> wrong(2 * 4 * 4 * 5, 1);
  wrong.back() = 128;
  ASSERT_OK(writeSafetensors(evalData(),
                             {{"input_ids", FSDP_RT_I64, {2, 4, 4, 5}},
                              {"labels", FSDP_RT_I64, {2, 4, 4, 5}}},
                             {wrong.data(), wrong.data()}));
  Outcome outcome = run("4", training(2, {"--eval-data", evalData()}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_CONTAINS(outcome.err, "--eval-data: ");
  EXPECT_CONTAINS(outcome.err, "128");
}

} // namespace
