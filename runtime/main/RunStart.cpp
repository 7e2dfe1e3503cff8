//===- RunStart.cpp - What a run begins from ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/RunStart.h"

#include "data/CheckpointBase.h"
#include "data/Metrics.h"
#include "data/Numbers.h"
#include "main/SharedSettings.h"

#include <functional>
#include <initializer_list>
#include <limits>

namespace fsdp::rt {

using namespace data;

/// The product; `most` where an int64_t does not hold it.
static int64_t multiply(std::initializer_list<int64_t> factors, int64_t most) {
  int64_t product = 1;
  for (int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product))
      return most;
  return product;
}

/// The newest checkpoint of --save, as rank 0 sees it: its path, or nothing.
static Result<std::string> findNewest(const Options &given, int rank,
                                      Consensus &ranks) {
  std::string name;
  Status status;
  if (rank == 0 && hasCheckpoints(given.save)) {
    Result<CheckpointInfo> newest = findCheckpoint(given.save);
    status = newest.status();
    if (newest.isOk())
      name = newest->path.substr(newest->path.rfind('/') + 1);
  }
  if (Status s = ranks.announce(status.withContext("--resume auto")))
    return s;
  Result<std::string> shared = ranks.share(name);
  if (!shared.isOk())
    return shared.status();
  return shared->empty() ? std::string() : given.save + "/" + *shared;
}

/// How the file was read.
static void takeDataOptions(const DataIdentity &data, DataOptions &options) {
  if (options.tokenBits == 0 && data.kind == "32-bit tokens")
    options.tokenBits = 32;
  if (options.tokenBits == 0 && data.kind == "16-bit tokens")
    options.tokenBits = 16;
  if (options.ranks == DataOptions::Ranks::Equal)
    options.ranks = ranksFromName(data.ranks).value_or(options.ranks);
}

/// Whether `spec` names the file that `data` is of. One that cannot be read is
/// not: opening it says why.
static bool isSameFile(const std::string &spec, const DataIdentity &data) {
  Result<DataIdentity> given = identifyData(spec, data.kind);
  return given.isOk() && !data.digest.empty() && given->bytes == data.bytes &&
         given->digest == data.digest;
}

static Status takeSchedule(RunStart &start, const Manifest &manifest) {
  const CheckpointInfo &checkpoint = *start.checkpoint;
  if (start.options.rateSchedule || checkpoint.origin.rateSchedule.empty())
    return Status::ok();
  Result<RateSchedule> schedule =
      RateSchedule::parse(checkpoint.origin.rateSchedule);
  if (!schedule.isOk())
    return schedule.status().withContext(checkpoint.path + ": lr_schedule");
  start.takesSchedule = !manifest.train().rates().empty();
  if (start.takesSchedule)
    start.options.rateSchedule = std::move(*schedule);
  else
    start.notes.push_back(checkpoint.path + ": --lr-schedule " +
                          schedule->describe() +
                          " is left out, since the program has no scalar lr");
  return Status::ok();
}

/// Who adds up over ranks, on the device that computed the state.
static void
takeReduction(RunStart &start,
              const std::function<void(const std::string &)> &take) {
  constexpr const char *name = "reduction";
  const std::optional<DeviceIdentity> &device = start.checkpoint->origin.device;
  std::map<std::string, std::string> &settings = start.options.deviceSettings;
  if (!device || start.options.device != device->name)
    return;
  auto was = device->choices.find(name);
  auto is = settings.find(name);
  if (was == device->choices.end() ||
      (is != settings.end() && is->second != "auto"))
    return;
  // The host's memory carries what the runtime adds up.
  if (auto channel = settings.find("channel");
      channel != settings.end() && channel->second == "host")
    return;
  settings[name] = was->second;
  take("--reduction " + was->second);
}

/// Fills in what decides a step and is not given.
static Status takeSettings(RunStart &start, const Manifest &manifest) {
  const CheckpointInfo &checkpoint = *start.checkpoint;
  Options &options = start.options;
  std::string taken;
  auto take = [&](const std::string &option) {
    taken += (taken.empty() ? "" : ", ") + option;
  };
  for (const auto &[name, value] : checkpoint.origin.scalars) {
    if (options.hasScalar(name) || isSetByRuntime(manifest, name))
      continue;
    const Scalar *scalar = manifest.train().findScalar(name);
    if (!scalar || !isRepresentable(scalar->dtype, value)) {
      start.notes.push_back(
          checkpoint.path + ": " + optionOf(name) + " " + formatNumber(value) +
          " is left out, since " +
          (scalar ? std::string(dtypeName(scalar->dtype)) +
                        ", the program's type of it, does not hold it"
                  : "the program has no such scalar"));
      continue;
    }
    options.scalars.emplace_back(name, value);
    if (!scalar->init || *scalar->init != value)
      take(optionOf(name, formatNumber(value)));
  }
  if (Status s = takeSchedule(start, manifest))
    return s;
  if (start.takesSchedule)
    take("--lr-schedule " + options.rateSchedule->describe());
  takeReduction(start, take);
  const std::optional<DataIdentity> &data = checkpoint.origin.data;
  if (data && !options.accumulate) {
    options.accumulate = data->batchesPerStep;
    if (data->batchesPerStep != 1)
      take("--accumulate " + std::to_string(data->batchesPerStep));
  }
  if (data && options.data.empty() && !data->source.empty()) {
    options.data = data->source;
    start.takesData = true;
    take("--data " + data->source);
    takeDataOptions(*data, start.dataOptions);
  } else if (data && !data->ranks.empty() &&
             start.dataOptions.ranks == DataOptions::Ranks::Equal &&
             isSameFile(options.data, *data)) {
    start.dataOptions.ranks =
        ranksFromName(data->ranks).value_or(start.dataOptions.ranks);
    take("--data-ranks " + data->ranks);
  }
  if (!taken.empty())
    start.notes.push_back("goes on from " + checkpoint.path +
                          ", as when it was saved with " + taken);
  return Status::ok();
}

/// That what the checkpoint leaves out has a source, and that a whole one has
/// no second one. With --save-trained, that what is left out of the next ones
/// is what this one left out, too: a run that goes on from those has no other.
static Status checkBase(const Options &options, const Manifest &manifest,
                        const CheckpointInfo &checkpoint) {
  const std::string given = options.startsFrom();
  if (checkpoint.base && given.empty())
    return Status::failed(
        "--resume: expected --params FILE or --init seed=K, as the run began "
        "with, for the parameters that " +
        checkpoint.path + " of --save-trained leaves out, got none");
  if (!checkpoint.base && !given.empty() && !options.resumesIfAny())
    return Status::failed("--resume: expected neither --params nor --init "
                          "beside " +
                          checkpoint.path +
                          ", which holds all parameters, got " + given);
  if (!options.saveTrained)
    return Status::ok();
  const std::string remedy = ": save without --save-trained";
  if (!checkpoint.base)
    return Status::failed("--save-trained: expected to go on from a checkpoint "
                          "of --save-trained, got " +
                          checkpoint.path +
                          ", whose frozen parameters no other file need have" +
                          remedy);
  Result<std::set<std::string>> saved = parametersIn(checkpoint);
  if (!saved.isOk())
    return saved.status().withContext("--resume");
  for (const std::string &name : namesOfBase(manifest))
    if (saved->count(name))
      return Status::failed("--save-trained: expected a program that trains '" +
                            name + "', as the one that saved " +
                            checkpoint.path +
                            " did, got one that would leave it out" + remedy);
  return Status::ok();
}

/// What all ranks can find out alone once the checkpoint is known.
static Status readStart(const std::string &path, const Manifest &manifest,
                        RunStart &start) {
  Result<CheckpointInfo> found = findCheckpoint(path);
  if (!found.isOk())
    return found.status().withContext("--resume");
  start.checkpoint = std::move(*found);
  start.firstStep = start.checkpoint->step + 1;
  Options &options = start.options;
  if (Status s = checkBase(options, manifest, *start.checkpoint))
    return s;
  if (options.evaluatesOnly())
    return Status::ok();
  const int64_t step = start.checkpoint->step;
  if (options.resumesIfAny() && *options.steps <= step) {
    start.isDone = true;
    std::string unmade;
    if (!options.evalData.empty())
      unmade = options.saveOutputs.empty()
                   ? "; --eval-data is not evaluated"
                   : "; --eval-data is not evaluated, and --save-outputs not "
                     "written";
    start.notes = {"--resume auto: " + start.checkpoint->path +
                   " is the state after step " + std::to_string(step) +
                   ": --steps " + std::to_string(*options.steps) +
                   " leaves nothing to do" + unmade};
    return Status::ok();
  }
  if (*options.steps <= step)
    return Status::failed("--steps: expected more than " +
                          std::to_string(step) + ", the step of checkpoint '" +
                          start.checkpoint->path + "', got " +
                          std::to_string(*options.steps) +
                          " (steps are counted from the very first one)");
  const std::optional<int64_t> given = options.accumulate;
  if (Status s = takeSettings(start, manifest))
    return s;
  Status status = checkComplete(options, manifest);
  if (status.isOk() || given || options.microBatches() == 1)
    return status;
  Options alone = options;
  alone.accumulate = 1;
  if (checkComplete(alone, manifest))
    return status;
  return Status::failed(status.message() + " (--accumulate " +
                        std::to_string(options.microBatches()) +
                        " is that of checkpoint '" + start.checkpoint->path +
                        "', since none is given: --accumulate 1 goes on "
                        "without)");
}

Result<RunStart> findStart(const Options &given, const Manifest &manifest,
                           int rank, Consensus &ranks) {
  RunStart start;
  start.options = given;
  start.dataOptions = given.dataOptions;
  std::string path = given.resume;
  if (given.resumesIfAny()) {
    Result<std::string> newest = findNewest(given, rank, ranks);
    if (!newest.isOk())
      return newest.status();
    path = *newest;
    start.notes.push_back(
        path.empty() ? "--resume auto: '" + given.save +
                           "' holds no checkpoint: the run begins with " +
                           given.startsFrom()
                     : "--resume auto: goes on from " + path);
  }
  if (path.empty()) {
    if (given.resumesIfAny())
      if (Status s = ranks.agree(checkComplete(given, manifest)))
        return s;
    return start;
  }
  if (Status s = ranks.agree(readStart(path, manifest, start)))
    return s;
  Options inForce = start.options;
  inForce.dataOptions = start.dataOptions;
  std::vector<Setting> settings = sharedSettings(inForce, manifest);
  settings.push_back(
      {"--resume", "step " + std::to_string(start.firstStep - 1)});
  if (Status s = ranks.agreeOn(settings))
    return s;
  return start;
}

static Status resolveSchedule(RunStart &start, const Manifest &manifest) {
  std::optional<RateSchedule> &schedule = start.options.rateSchedule;
  if (manifest.train().rates().empty())
    return Status::failed("--lr-schedule: expected a program whose optimizer "
                          "has the scalar lr, got one without");
  if (Status s = schedule->resolve(
          multiply({tokensPerStep(manifest), start.options.microBatches()},
                   std::numeric_limits<int64_t>::max())))
    return s.withContext("--lr-schedule");
  const int64_t steps = *start.options.steps;
  std::optional<int64_t> last = schedule->lastStep();
  if (last && *last < steps && schedule->lastRatio() == 0)
    return Status::failed(
        "--lr-schedule: expected one of at least the " + std::to_string(steps) +
        " steps of --steps, or a min above 0, got " + std::to_string(*last) +
        " steps, after which the learning rate is 0");
  std::string note = "learning rate by " + schedule->describe();
  if (last && *last < steps)
    note += ": it stays from step " + std::to_string(*last + 1) + " on";
  start.notes.push_back(note);
  return Status::ok();
}

Status settleSchedule(RunStart &start, const Manifest &manifest) {
  if (!start.options.rateSchedule || start.isDone ||
      start.options.evaluatesOnly())
    return Status::ok();
  Status status = resolveSchedule(start, manifest);
  if (status.isOk() || !start.takesSchedule)
    return status;
  return Status::failed(status.message() + " (--lr-schedule " +
                        start.options.rateSchedule->describe() +
                        " is that of checkpoint '" + start.checkpoint->path +
                        "', since none is given: --lr-schedule constant goes "
                        "on at --lr)");
}

Status explainData(const RunStart &start, const Status &status) {
  if (status.isOk() || !start.takesData)
    return status;
  return Status::failed(status.message() + " (--data " + start.options.data +
                        " is that of checkpoint '" + start.checkpoint->path +
                        "', since none is given: --data FILE names another)");
}

std::map<std::string, double> scalarsOf(const Options &options,
                                        const Manifest &manifest) {
  std::map<std::string, double> values;
  for (const Scalar &scalar : manifest.train().scalars)
    if (scalar.init && !isSetByRuntime(manifest, scalar.name))
      values[scalar.name] = *scalar.init;
  for (const auto &[name, value] : options.scalars)
    values[name] = value;
  return values;
}

ParameterSource sourceOf(const Options &options) {
  ParameterSource source;
  source.files = options.params;
  source.renaming = options.renaming;
  source.cast = options.castParams;
  source.seed = options.seed;
  return source;
}

std::string scheduleText(const Options &options) {
  return options.rateSchedule ? options.rateSchedule->text() : "";
}

int64_t samplesPerStep(const Manifest &manifest, int64_t ranks,
                       int64_t microBatches) {
  const std::vector<Input> &inputs = manifest.train().inputs;
  bool hasRows = !inputs.empty() && !inputs[0].shape.empty();
  return multiply({hasRows ? inputs[0].shape[0] : 1, ranks, microBatches},
                  std::numeric_limits<int64_t>::max());
}

int64_t unitsTaken(const std::optional<CheckpointInfo> &checkpoint,
                   const BatchSource &source) {
  if (!checkpoint)
    return 0;
  const std::optional<DataIdentity> &data = checkpoint->origin.data;
  if (data && data->taken && data->unit == source.unit())
    return *data->taken;
  // As versions that counted batches read it, and a session's caller may have.
  return multiply({checkpoint->step, data ? data->batchesPerStep : 1,
                   source.unitsOfBatch(checkpoint->ranks)},
                  maxTaken);
}

std::vector<std::string> compareStart(const RunStart &start,
                                      const Manifest &manifest,
                                      const DataIdentity &data) {
  CheckpointOrigin saved = start.checkpoint->origin;
  if (saved.data && !saved.data->samplesPerStep)
    saved.data->samplesPerStep = samplesPerStep(
        manifest, start.checkpoint->ranks, saved.data->batchesPerStep);
  return differences(saved, {scalarsOf(start.options, manifest),
                             manifest.traced,
                             data,
                             {},
                             scheduleText(start.options)});
}

} // namespace fsdp::rt
