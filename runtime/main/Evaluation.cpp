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
  Result<std::unique_ptr<BatchSource>> source = openBatches(
      options.evalData, program, rank, int(manifest.worldSize()), notes);
  Status status = source.status();
  if (!status) {
    evaluation->source_ = std::move(*source);
    status = evaluation->chooseSteps();
  }
  if (Status s = ranks.agree(status.withContext("--eval-data")))
    return s;
  if (Status s = ranks.agreeOn(
          {{"--eval-data", evaluation->source_->kind() + " of " +
                               std::to_string(evaluation->steps_) +
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

Status Evaluation::chooseSteps() {
  std::optional<int64_t> all = source_->batches();
  if (options_.evalSteps) {
    steps_ = *options_.evalSteps;
    if (all && steps_ > *all)
      return Status::failed(
          "expected --eval-steps of at most " + std::to_string(*all) +
          ", the batches that it has, got " + std::to_string(steps_));
    return Status::ok();
  }
  if (!all)
    return Status::failed("expected --eval-steps K beside data without an "
                          "end, got none");
  if (*all < 1)
    return Status::failed("expected at least a batch for each rank, got less");
  steps_ = *all;
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// Rank 0 writes what all ranks have.
class Evaluation::OutputFile {
public:
  OutputFile(const Program &program, int64_t steps, int ranks,
             const std::string &path)
      : program_(program), ranks_(ranks), path_(path) {
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
                rank.pass(root, output.offset, file_ ? whole.data() : nullptr,
                          output.bytes()))
          return s;
        int64_t row = (step - 1) * ranks_ + root;
        if (file_ && !failure_)
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
  auto announce = [&](const Status &status) {
    return rank.ranks().announce(status.withContext("--save-outputs"));
  };
  if (savesOutputs && !options_.saveOutputs.empty()) {
    file.emplace(program_, steps_, int(rank.manifest().worldSize()),
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
  double sum = 0;
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
    double value = 0;
    if (loss)
      if (Status s = rank.load(*loss, value))
        return s;
    sum += value;
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
  if (loss)
    result.loss = sum / double(steps_);
  return result;
}

} // namespace fsdp::rt
