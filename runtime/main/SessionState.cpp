//===- SessionState.cpp - What a session begins with, and saves -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/CheckpointFiles.h"
#include "data/File.h"
#include "main/RunStart.h"
#include "main/Session.h"

namespace fsdp::rt {

using namespace data;
using OnFailure = RankTeam::OnFailure;

Status Session::initializeFromSeed(uint64_t seed) {
  if (Status s = agreeOnStart(Status::ok(), "of seed " + std::to_string(seed)))
    return s;
  hasState_ = false;
  rateSchedule_.reset();
  ParameterSource source;
  source.seed = seed;
  if (Status s = team_->call(OnFailure::Continue, [&](Rank &rank) {
        LoadNotes notes;
        return rank.loadParameters(source, notes);
      }))
    return s;
  beginFrom(0);
  return Status::ok();
}

Status Session::initializeFromFile(const std::string &path, bool cast) {
  if (Status s = agreeOnStart(Status::ok(), "of a file"))
    return s;
  hasState_ = false;
  rateSchedule_.reset();
  ParameterSource source;
  source.files = {path};
  source.cast = cast;
  if (Status s = team_->call(OnFailure::Continue, [&](Rank &rank) {
        LoadNotes notes;
        return rank.loadParameters(source, notes);
      }))
    return s;
  beginFrom(0);
  return Status::ok();
}

Result<int64_t> Session::resume(const std::string &directory) {
  Result<CheckpointInfo> found = findCheckpoint(directory);
  Status status = found.status();
  if (found.isOk() && found->base && !hasState_)
    status = Status::failed(
        found->path +
        ": expected a session with an initial state, which has "
        "the parameters that this checkpoint of --save-trained leaves out, got "
        "one without");
  std::string start =
      found.isOk() ? "of a checkpoint of step " + std::to_string(found->step)
                   : "";
  if (Status s = agreeOnStart(status, start))
    return s;
  hasState_ = false;
  if (Status s = team_->call(OnFailure::Continue, [&](Rank &rank) {
        LoadNotes notes;
        return rank.resume(*found, /*base=*/nullptr, notes);
      }))
    return s;
  if (Status s = takeScalars(found->origin))
    return s;
  rateSchedule_.reset();
  if (const std::string &text = found->origin.rateSchedule;
      !text.empty() && !manifest_.train().rates().empty()) {
    Result<RateSchedule> schedule = RateSchedule::parse(text);
    if (!schedule.isOk())
      return schedule.status().withContext(found->path + ": lr_schedule");
    rateSchedule_ = std::move(*schedule);
  }
  beginFrom(found->step);
  checkpoints_.push_back(found->path);
  return found->step;
}

Status Session::setSchedule(const std::string &text) {
  if (manifest_.train().rates().empty())
    return Status::failed("expected a program whose optimizer has the scalar "
                          "lr, got one without");
  Result<RateSchedule> schedule = RateSchedule::parse(text);
  if (!schedule.isOk())
    return schedule.status();
  // The caller alone knows how many micro-batches a step has.
  if (schedule->needsTokens())
    return Status::failed("expected warmup in steps, got warmup-tokens: a "
                          "session does not know how many its steps take");
  givenSchedule_ = std::move(*schedule);
  return Status::ok();
}

/// Those of the program that trains and that the caller has not set.
Status Session::takeScalars(const CheckpointOrigin &origin) {
  for (const auto &[name, value] : origin.scalars) {
    const Scalar *scalar = manifest_.train().findScalar(name);
    if (!scalar || givenScalars_.count(name) ||
        isSetByRuntime(manifest_, name) ||
        !isRepresentable(scalar->dtype, value))
      continue;
    if (Status s = putScalar(name, value))
      return s;
  }
  return Status::ok();
}

Status Session::save(const std::string &directory) {
  if (!hasState_)
    return Status::failed("expected an initial state before it is saved");
  if (Status s = checkAccumulated("a checkpoint"))
    return s;
  CheckpointWriter::Options wanted;
  wanted.directory = directory;
  for (const std::string &path : checkpoints_)
    if (isSameFile(path + "/..", directory))
      wanted.resumedFrom = path;
  auto &writers = writers_[directory];
  writers.resize(rankCount());
  Status status = team_->call(OnFailure::Continue, [&](Rank &rank) -> Status {
    auto &writer = writers[rank.number() - firstRank_];
    if (!writer) {
      std::vector<std::string> notes;
      Result<CheckpointWriter> made = CheckpointWriter::create(
          manifest_, rank.number(), rank.ranks(), wanted, notes);
      if (!made.isOk())
        return made.status();
      writer = std::move(*made);
      const hal::DeviceFacts facts = rank.executor().device().facts();
      writer->setDevice({facts.name, facts.choices, facts.plain});
    }
    writer->setScalars(scalars_, schedule() ? schedule()->text() : "");
    return writer->save(steps_, rank.memory());
  });
  if (status) {
    // The directory may be another one when it is tried again.
    writers_.erase(directory);
    return status;
  }
  checkpoints_.push_back(directory + "/" + checkpointName(steps_));
  return Status::ok();
}

} // namespace fsdp::rt
