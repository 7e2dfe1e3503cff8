//===- Checkpoint.h - State that outlives a run ------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DIR/latest                           the name of a directory beside it
//   DIR/.lock                            while a run saves here: RunLock.h
//   DIR/step-00000050/params.safetensors     parameters, and rank 0's buffers
//                    /optimizer.safetensors  "<parameter>.<state>"
//                    /ranks.safetensors      what each rank has for itself
//                    /digests.json           of ranges: CheckpointDigests.h
//                    /meta.json              step, sizes, shapes, origin, and
//                                            digests of digests.json and itself
//
// Tensors are whole, so that any mesh, wrapping and strategy can go on from
// them. Some differ between ranks: buffers that the step changes, parameters
// whose gradients are not reduced, and their states. Of these, the first two
// files hold rank 0's and ranks.safetensors everybody's, as [ranks, ...], under
// "params/<name>" and "optimizer/<name>"; it is there where there are such
// tensors and several ranks. As many ranks go on from it, exactly; another
// number goes on from rank 0's.
//
// One of --save-trained holds what steps change alone, and a digest of the
// rest: CheckpointBase.h.
//
// A checkpoint is written as step-00000050.<random>.tmp, put on the disk,
// renamed, and then named in `latest`: at every moment `latest` names a
// complete one. State that is not finite is not saved.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINT_H
#define FSDP_RT_DATA_CHECKPOINT_H

#include "control/Consensus.h"
#include "core/Status.h"
#include "data/CheckpointDigests.h"
#include "data/CheckpointOrigin.h"
#include "data/Directory.h"
#include "data/DirectoryClaim.h"
#include "data/Manifest.h"
#include "data/Parameters.h"
#include "data/RunLock.h"
#include "data/Safetensors.h"
#include "data/StateMemory.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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
    /// What the inputs come from, on rank 0.
    std::optional<DataIdentity> data;
    /// CheckpointOrigin::scalars.
    std::map<std::string, double> scalars;
    /// CheckpointOrigin::rateSchedule.
    std::string rateSchedule;
    /// What computes the state.
    std::optional<DeviceIdentity> device;
    /// Leaves the base out (CheckpointBase.h).
    bool trainedOnly = false;
  };

  /// Creates the directory, keeps other runs out of it until the writer's end,
  /// and removes what interrupted saves left there. Refuses a directory that
  /// another run saves to, that cannot be written, or that holds checkpoints of
  /// another run. Collective; `manifest` and `ranks` must outlive the writer. A
  /// writer that never saved takes a directory that it created away again.
  /// Lines for the user are added to `notes`, on rank 0.
  static Result<CheckpointWriter> create(const Manifest &manifest, int rank,
                                         Consensus &ranks,
                                         const Options &options,
                                         std::vector<std::string> &notes);

  void setDevice(DeviceIdentity device) { options_.device = std::move(device); }
  void setScalars(std::map<std::string, double> scalars,
                  std::string rateSchedule) {
    options_.scalars = std::move(scalars);
    options_.rateSchedule = std::move(rateSchedule);
  }
  /// DataIdentity::taken of the next state to be saved.
  void setTaken(int64_t units) {
    if (options_.data)
      options_.data->taken = units;
  }

  /// Saves the state after `step`. Collective; on failure, which is the same
  /// on all ranks, the checkpoints that were there are as they were. Refuses
  /// trained parameters and states that are not finite, and names one.
  Status save(int64_t step, const StateMemory &memory);

  /// Removes the checkpoints that are no longer to be kept. To be called on
  /// rank 0 once the newest one was found to be good.
  Status removeOldOnes() const;

private:
  CheckpointWriter(const Manifest &manifest, int rank, Consensus &ranks,
                   const Options &options, SafetensorsLayout params,
                   SafetensorsLayout optimizer, SafetensorsLayout own)
      : manifest_(&manifest), rank_(rank), ranks_(&ranks), options_(options),
        params_(std::move(params)), optimizer_(std::move(optimizer)),
        own_(std::move(own)) {}

  Status claimDirectory(std::vector<std::string> &notes);
  Status removeLeftovers() const;
  Status checkIsShared() const;
  Status prepare(const std::string &temporary) const;
  Status writeOwnRanges(const std::string &temporary, const StateMemory &memory,
                        std::vector<SavedRange> &ranges) const;
  Status writeParameters(RangeWriter &file, const StateMemory &memory) const;
  Status writeStates(RangeWriter &file, const StateMemory &memory) const;
  Status writeOwn(RangeWriter &file, const StateMemory &memory) const;
  /// The files of this checkpoint, with what they hold.
  std::vector<std::pair<const char *, const SafetensorsLayout *>> files() const;
  Result<std::vector<SavedRange>>
  gatherRanges(const std::vector<SavedRange> &mine) const;
  bool isSaved(bool isChanged) const {
    return isChanged || !options_.trainedOnly;
  }
  std::string metaText(int64_t step, const std::string &digests) const;
  Status commit(const std::string &name, const std::string &temporary,
                int64_t step, std::vector<SavedRange> ranges) const;

  const Manifest *manifest_;
  int rank_;
  Consensus *ranks_;
  Options options_;
  DirectoryClaim claim_;
  Directory directory_;
  RunLock lock_;      // of rank 0
  std::string token_; // its token, on all ranks
  SafetensorsLayout params_, optimizer_, own_;
  int64_t savedStep_ = -1; // the newest, -1: none
  std::string base_;       // its digest, once a checkpoint has left it out
};

/// A complete checkpoint, by its meta.json.
struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  std::string shapes;
  int64_t ranks = 1;
  int64_t paramsBytes = 0, optimizerBytes = 0;
  std::optional<int64_t> ranksBytes; // none: no such file
  /// The digest of digests.json; empty where the checkpoint has none.
  std::string digests;
  /// The digest of the base, where the checkpoint leaves it out.
  std::optional<std::string> base;
  CheckpointOrigin origin;
};

/// Whether a run saved to `directory`.
bool hasCheckpoints(const std::string &directory);

/// `directory` is one that --save wrote to, then the checkpoint that `latest`
/// names is taken, or a checkpoint itself. Refuses one that is not complete.
Result<CheckpointInfo> findCheckpoint(const std::string &directory);

/// Names of the parameters and buffers that a checkpoint holds.
Result<std::set<std::string>> parametersIn(const CheckpointInfo &checkpoint);

/// Of what a checkpoint leaves out.
struct LeftOut {
  /// Where it comes from; null: the memory has it already.
  const ParameterSource *source = nullptr;
  /// Set by loadCheckpoint: this rank's part of its digest, sumOfBase.
  uint64_t sum = 0;
};

/// Reads what `rank` holds of the state, after this rank's share of all bytes
/// was found to be as they were saved. Refuses a checkpoint of a program with
/// other parameters or another optimizer, with their names. Where tensors that
/// differ between ranks are there for rank 0 alone, because the number of ranks
/// or what they have for themselves is another one, all ranks take rank 0's and
/// a warning in `notes` says so. Parameters and buffers that a checkpoint of
/// --save-trained leaves out come from `leftOut`, where the checkpoint's win
/// over those of the same name; that their digest is the checkpoint's is the
/// caller's to compare.
Status loadCheckpoint(const CheckpointInfo &checkpoint,
                      const Manifest &manifest, int rank,
                      const StateMemory &memory, LeftOut &leftOut,
                      LoadNotes &notes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINT_H
