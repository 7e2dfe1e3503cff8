//===- Checkpoint.h - State that outlives a run ------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DIR/latest                           the name of a directory beside it
//   DIR/step-00000050/params.safetensors     parameters, and rank 0's buffers
//                    /optimizer.safetensors  "<parameter>.<state>"
//                    /ranks.safetensors      what each rank has for itself
//                    /meta.json              step, sizes, shapes
//
// Tensors are whole, so that any mesh, wrapping and strategy can go on from
// them. Some differ between ranks: buffers that the step changes, parameters
// whose gradients are not reduced, and their states. Of these, the first two
// files hold rank 0's and ranks.safetensors everybody's, as [ranks, ...], under
// "params/<name>" and "optimizer/<name>"; it is there where there are such
// tensors and several ranks. As many ranks go on from it, exactly; another
// number goes on from rank 0's.
//
// A checkpoint is written as step-00000050.tmp, put on the disk, renamed, and
// then named in `latest`: at every moment `latest` names a complete one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_DATA_CHECKPOINT_H
#define FSDP_RT_CORE_DATA_CHECKPOINT_H

#include "core/Status.h"
#include "core/data/Consensus.h"
#include "core/data/DirectoryClaim.h"
#include "core/data/Manifest.h"
#include "core/data/Safetensors.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt::data {

/// Hash of the names, dtypes and shapes of all parameters, buffers and states;
/// depends on neither mesh nor layout.
std::string shapesFingerprint(const Manifest &manifest);

/// Tensors of optimizer.safetensors: for every flat parameter, state and
/// member, in this order. A scalar state has one element per member.
std::vector<TensorSpec> optimizerTensors(const Manifest &manifest);

class CheckpointWriter {
public:
  struct Options {
    std::string directory;
    /// How many checkpoints up to the current one to keep; 0: all.
    int64_t keep = 0;
    /// The checkpoint that the run went on from; empty: none.
    std::string resumedFrom;
  };

  /// Creates the directory and removes what interrupted saves left there.
  /// Refuses a directory that cannot be written or holds checkpoints of another
  /// run. Collective; `manifest` and `ranks` must outlive the writer. A writer
  /// that never saved takes a directory that it created away again.
  static Result<CheckpointWriter> create(const Manifest &manifest, int rank,
                                         Consensus &ranks,
                                         const Options &options);

  /// Saves the state after `step`. Collective; on failure, which is the same
  /// on all ranks, the checkpoints that were there are as they were.
  Status save(int64_t step, const char *arena);

private:
  CheckpointWriter(const Manifest &manifest, int rank, Consensus &ranks,
                   const Options &options, SafetensorsLayout params,
                   SafetensorsLayout optimizer, SafetensorsLayout own)
      : manifest_(&manifest), rank_(rank), ranks_(&ranks), options_(options),
        params_(std::move(params)), optimizer_(std::move(optimizer)),
        own_(std::move(own)) {}

  Status claimDirectory();
  std::string probe() const;
  Status checkIsShared() const;
  Status prepare(const std::string &temporary) const;
  Status writeOwnRanges(const std::string &temporary, const char *arena) const;
  Status writeParameters(const File &file, const char *arena) const;
  Status writeStates(const File &file, const char *arena) const;
  Status writeOwn(const File &file, const char *arena) const;
  /// The files of this checkpoint, with what they hold.
  std::vector<std::pair<const char *, const SafetensorsLayout *>> files() const;
  Status commit(const std::string &name, int64_t step) const;
  Status removeOldOnes(int64_t step) const;

  const Manifest *manifest_;
  int rank_;
  Consensus *ranks_;
  Options options_;
  DirectoryClaim claim_;
  SafetensorsLayout params_, optimizer_, own_;
};

/// A complete checkpoint, by its meta.json.
struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  std::string shapes;
  int64_t ranks = 1;
  int64_t paramsBytes = 0, optimizerBytes = 0;
  std::optional<int64_t> ranksBytes; // none: no such file
};

/// `directory` is one that --save wrote to, then the checkpoint that `latest`
/// names is taken, or a checkpoint itself. Refuses one that is not complete.
Result<CheckpointInfo> findCheckpoint(const std::string &directory);

/// Reads what `rank` holds of the state. Refuses a checkpoint of a program with
/// other parameters or another optimizer, with their names. Where tensors that
/// differ between ranks are there for rank 0 alone, because the number of ranks
/// or what they have for themselves is another one, all ranks take rank 0's and
/// a line in `notes` says so.
Status loadCheckpoint(const CheckpointInfo &checkpoint,
                      const Manifest &manifest, int rank, char *arena,
                      std::vector<std::string> &notes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_CORE_DATA_CHECKPOINT_H
