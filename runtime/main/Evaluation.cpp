//===- Evaluation.cpp - Batches through the eval program ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Evaluation.h"

#include "data/File.h"
#include "data/Safetensors.h"
#include "main/Interrupt.h"

#include <algorithm>
#include <cstdio>

namespace fsdp::rt {

using namespace data;

Result<std::unique_ptr<Evaluation>>
Evaluation::create(const Manifest &manifest, const Options &options, int rank,
                   Consensus &ranks, std::vector<std::string> &notes) {
  if (options.evalData.empty())
    return std::unique_ptr<Evaluation>();
  const Program &program = *manifest.evaluation();
  std::unique_ptr<Evaluation> evaluation(new Evaluation(
      program, static_cast<size_t>(&program - manifest.programs.data()),
      options));
  Result<std::unique_ptr<BatchSource>> source =
      openBatches(options.evalData, program, rank, int(manifest.worldSize()),
                  notes, options.dataOptions);
  Status status = source.status();
  if (!status) {
    evaluation->source_ = std::move(*source);
    status = evaluation->chooseSteps(manifest.worldSize(), notes);
  }
  if (Status s = ranks.agree(status.withContext("--eval-data")))
    return s;
  if (Status s = ranks.agreeOn(
          {{"--eval-data", evaluation->source_->kind() + " of " +
                               std::to_string(evaluation->rankBatches_) +
                               " batches"}}))
    return s;
  if (options.saveOutputs.empty())
    return evaluation;
  if (Status s =
          ranks.announce(rank == 0 ? checkReplaceable(options.saveOutputs)
                                         .withContext("--save-outputs")
                                   : Status::ok()))
    return s;
  return evaluation;
}

Status Evaluation::chooseSteps(int64_t ranks, std::vector<std::string> &notes) {
  std::optional<int64_t> all = source_->rankBatches();
  int64_t steps = all ? (*all + ranks - 1) / ranks : 0;
  if (options_.evalSteps) {
    steps_ = *options_.evalSteps;
    if (all && steps_ > steps)
      return Status::failed(
          "expected --eval-steps of at most " + std::to_string(steps) +
          ", the batches that it has, got " + std::to_string(steps_));
    rankBatches_ = steps_ * ranks;
    if (all)
      rankBatches_ = std::min(rankBatches_, *all);
    return Status::ok();
  }
  if (!all)
    return Status::failed("expected --eval-steps K beside data without an "
                          "end, got none");
  if (*all < 1)
    return Status::failed("expected at least a batch, with the inputs " +
                          toString(program_.inputs.front().shape) + ", got " +
                          source_->rest());
  steps_ = steps;
  rankBatches_ = *all;
  if (std::string rest = source_->rest(); !rest.empty())
    notes.push_back("--eval-data: " + options_.evalData + ": " + rest +
                    " are left out, since they fill no batch");
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// Rank 0 writes what all ranks have.
class Evaluation::OutputFile {
public:
  OutputFile(const Program &program, int64_t steps, int ranks,
             int64_t rankBatches, const std::string &path)
      : program_(program), ranks_(ranks), rankBatches_(rankBatches),
        path_(path) {
    for (const Output &output : program.outputs) {
      Shape shape = output.shape;
      shape.insert(shape.begin(), {steps, ranks});
      specs_.push_back({output.name, output.dtype, std::move(shape)});
    }
  }
  ~OutputFile() {
    if (!temporary_.empty())
      std::remove(temporary_.c_str());
  }

  /// On rank 0.
  Status open() {
    Result<SafetensorsLayout> layout = SafetensorsLayout::create(specs_);
    if (!layout.isOk())
      return layout.status();
    layout_ = std::move(*layout);
    Result<File> file = File::createBeside(path_);
    if (!file.isOk())
      return file.status();
    file_ = std::move(*file);
    temporary_ = file_->path();
    return layout_->begin(*file_);
  }

  /// Collective: the outputs of the batch `step`, counted from 1. A failure of
  /// rank 0 to write is kept for commit().
  Status add(Rank &rank, int64_t step) {
    std::vector<char> whole;
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const Output &output = program_.outputs[i];
      whole.resize(size_t(output.bytes()));
      for (int root = 0; root < ranks_; ++root) {
        if (Status s =
                rank.pass(root, {&rank.device(), output.offset},
                          file_ ? whole.data() : nullptr, output.bytes()))
          return s;
        int64_t row = (step - 1) * ranks_ + root;
        if (file_ && !failure_ && row < rankBatches_)
          failure_ = file_->writeAt(layout_->offsetOf(i) + row * output.bytes(),
                                    whole.data(), output.bytes());
      }
    }
    return Status::ok();
  }

  /// On rank 0.
  Status commit() {
    if (failure_)
      return failure_;
    if (Status s = file_->sync())
      return s;
    if (Status s = file_->close())
      return s;
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
      return systemError("cannot replace", path_);
    temporary_.clear();
    return Status::ok();
  }

private:
  const Program &program_;
  const int ranks_;
  const int64_t rankBatches_;
  const std::string &path_;
  std::vector<TensorSpec> specs_;
  std::optional<SafetensorsLayout> layout_;
  std::optional<File> file_; // of rank 0
  std::string temporary_;
  Status failure_;
};

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

Result<EvaluationResult> Evaluation::run(Rank &rank, bool savesOutputs) {
  std::optional<OutputFile> file;
  bool isFirst = rank.number() == 0;
  const int64_t ranks = rank.manifest().worldSize();
  auto announce = [&](const Status &status) {
    return rank.ranks().announce(status.withContext("--save-outputs"));
  };
  if (savesOutputs && !options_.saveOutputs.empty()) {
    file.emplace(program_, steps_, int(ranks), rankBatches_,
                 options_.saveOutputs);
    if (Status s = announce(isFirst ? file->open() : Status::ok()))
      return s;
  }
  std::vector<std::vector<char>> bytes;
  std::vector<char *> inputs;
  for (const Input &input : program_.inputs) {
    bytes.emplace_back(size_t(input.bytes()));
    inputs.push_back(bytes.back().data());
  }
  const Output *loss = program_.findOutput("loss");
  EvaluationResult result;
  LossSum sum;
  for (int64_t step = 1; step <= steps_; ++step) {
    Status batch =
        source_->read(step, inputs.data()).withContext("--eval-data");
    for (size_t i = 0; i < inputs.size() && batch.isOk(); ++i)
      batch = rank.device().upload(program_.inputs[i].offset, inputs[i],
                                   program_.inputs[i].bytes());
    if (Status s = rank.ranks().agree(batch))
      return s;
    rank.setCheckNote(findUnusualValue(program_, inputs.data()));
    if (Status s = rank.run(index_))
      return s;
    // Where data has ended, a rank reads its beginning.
    bool isMeant = (step - 1) * ranks + rank.number() < rankBatches_;
    if (loss && isMeant)
      if (Status s = rank.addLoss(program_, sum))
        return s;
    if (file)
      if (Status s = file->add(rank, step))
        return s;
    Result<uint32_t> interrupted =
        rank.ranks().any(InterruptGuard::wasRequested());
    if (!interrupted.isOk())
      return interrupted.status();
    if (*interrupted && step < steps_) {
      result.isInterrupted = true;
      return result;
    }
  }
  if (file)
    if (Status s = announce(isFirst ? file->commit() : Status::ok()))
      return s;
  result.batches = steps_;
  if (!loss)
    return result;
  double all[] = {sum.losses, sum.count};
  if (Status s = rank.ranks().world().allReduce(all, all, 2, FSDP_RT_F64,
                                                /*divisor=*/1))
    return s;
  result.loss = LossSum{all[0], all[1]}.mean();
  result.countsNothing = all[1] == 0;
  return result;
}

} // namespace fsdp::rt
