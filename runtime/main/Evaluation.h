//===- Evaluation.h - Batches through the eval program ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_EVALUATION_H
#define FSDP_RT_MAIN_EVALUATION_H

#include "control/Consensus.h"
#include "data/Batches.h"
#include "main/Options.h"
#include "main/Rank.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// What an evaluation found.
struct EvaluationResult {
  int64_t batches = 0; // of each rank, the last maybe of some
  /// The mean over the batches of all ranks, or over what their losses are sums
  /// over: NaN where that is nothing. None where the program returns no loss.
  std::optional<double> loss;
  bool countsNothing = false;
  /// A signal came; then the rest says nothing.
  bool isInterrupted = false;
};

/// Runs the manifest's eval program over the batches of --eval-data, from the
/// first one on, each once: where they are no multiple of the ranks, the last
/// ranks have none in the end, and what they run then counts for nothing. It
/// changes no state; inputs and outputs of other programs in the arena are
/// lost. One a rank.
class Evaluation {
public:
  /// Opens the data and the file of --save-outputs, if `options` ask for an
  /// evaluation: null otherwise. Collective in that what one rank cannot open
  /// fails all. `manifest` and `options` must outlive it.
  static Result<std::unique_ptr<Evaluation>>
  create(const data::Manifest &manifest, const Options &options, int rank,
         Consensus &ranks, std::vector<std::string> &notes);

  /// Whether it is due after `step`.
  bool isDue(int64_t step, bool isLast) const {
    return isLast || (options_.evalEvery && step % *options_.evalEvery == 0);
  }

  /// Collective. With `savesOutputs` and --save-outputs, replaces that file:
  /// each output as [batch, rank, ...], and zeros where a rank has no batch.
  Result<EvaluationResult> run(Rank &rank, bool savesOutputs);

  const data::Program &program() const { return program_; }
  std::string kindOfData() const { return source_->kind(); }

private:
  Evaluation(const data::Program &program, size_t index, const Options &options)
      : program_(program), index_(index), options_(options) {}
  Status chooseSteps(int64_t ranks, std::vector<std::string> &notes);

  /// A file that is written beside the one it replaces.
  class OutputFile;

  const data::Program &program_;
  const size_t index_;
  const Options &options_;
  std::unique_ptr<data::BatchSource> source_;
  int64_t steps_ = 0, rankBatches_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_EVALUATION_H
