//===- OptionTable.cpp - Options, their values and their help -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/OptionTable.h"

#include "data/Numbers.h"
#include "registry/Registry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fsdp::rt {

using data::parseInteger;
using data::parseNumber;
using data::parseSeed;
using data::Renaming;

namespace {

constexpr int64_t maxSteps = std::numeric_limits<int64_t>::max() / 4;
constexpr int64_t maxWatchdog = int64_t(1) << 30;
constexpr int64_t maxThreads = 1 << 12;
constexpr int64_t maxMicroBatches = 1 << 24; // an integer of f32
/// Scalars are given as doubles.
constexpr int64_t maxRandomSeed = int64_t(1) << 53;

/// Puts a value where it belongs, or passes the reason why there is none on.
template <typename T, typename U>
Status assign(U &place, const Result<T> &value) {
  if (!value.isOk())
    return value.status();
  place = static_cast<T>(*value);
  return Status::ok();
}

auto setText(std::string Options::*member) {
  return [member](Options &options, const std::string &value) -> Status {
    if (value.empty())
      return Status::failed("expected a value, got none");
    options.*member = value;
    return Status::ok();
  };
}

auto setRenaming(std::string Renaming::*member) {
  return [member](Options &options, const std::string &value) -> Status {
    if (value.empty())
      return Status::failed("expected a value, got none");
    options.renaming.*member = value;
    return Status::ok();
  };
}

Status addParams(Options &options, const std::string &value) {
  if (value.empty())
    return Status::failed("expected a value, got none");
  options.params.push_back(value);
  return Status::ok();
}

Status addOmitted(Options &options, const std::string &value) {
  if (value.empty())
    return Status::failed("expected a value, got none");
  options.renaming.omit.push_back(value);
  return Status::ok();
}

auto setFlag(bool Options::*member) {
  return [member](Options &options, const std::string &) -> Status {
    options.*member = true;
    return Status::ok();
  };
}

template <typename T>
auto setInteger(T Options::*member, int64_t min, int64_t max) {
  return [=](Options &options, const std::string &value) -> Status {
    Result<int64_t> number = parseInteger(value, min, max);
    if (!number.isOk())
      return number.status();
    options.*member = *number;
    return Status::ok();
  };
}

Status setBackend(Options &options, const std::string &value) {
  Result<const BackendKind *> backend = findBackend(value);
  options.backend = value;
  return backend.status();
}

Status addScalar(Options &options, const std::string &name, double value) {
  for (const auto &scalar : options.scalars)
    if (scalar.first == name)
      return Status::failed("expected one value for scalar '" + name +
                            "', got two");
  options.scalars.emplace_back(name, value);
  return Status::ok();
}

Status setRate(Options &options, const std::string &value) {
  Result<double> number = parseNumber(value);
  // As the step reads it, in 32 bits.
  if (!number.isOk() || !std::isfinite(static_cast<float>(*number)) ||
      *number < 0)
    return Status::failed("expected a number from 0 to 3.4e38, got '" + value +
                          "'");
  return addScalar(options, data::scalars::learningRate.name, *number);
}

Status setRateSchedule(Options &options, const std::string &value) {
  return assign(options.rateSchedule, data::RateSchedule::parse(value));
}

Status setClipNorm(Options &options, const std::string &value) {
  Result<double> number = parseNumber(value);
  if (!number.isOk() || *number <= 0)
    return Status::failed("expected a number above 0, got '" + value + "'");
  return addScalar(options, data::scalars::clipNorm.name, *number);
}

Status setRandomSeed(Options &options, const std::string &value) {
  Result<int64_t> seed = parseInteger(value, 0, maxRandomSeed);
  if (!seed.isOk())
    return seed.status();
  return addScalar(options, data::scalars::randomSeed.name, double(*seed));
}

Status setScalar(Options &options, const std::string &value) {
  size_t equals = value.find('=');
  if (equals == 0 || equals == std::string::npos)
    return Status::failed("expected NAME=VALUE, got '" + value + "'");
  Result<double> number = parseNumber(value.substr(equals + 1));
  if (!number.isOk())
    return number.status();
  return addScalar(options, value.substr(0, equals), *number);
}

Status setTokenBits(Options &options, const std::string &value) {
  if (value != "16" && value != "32")
    return Status::failed("expected 16 or 32, got '" + value + "'");
  options.dataOptions.tokenBits = value == "16" ? 16 : 32;
  return Status::ok();
}

Status setDataRanks(Options &options, const std::string &value) {
  std::optional<data::DataOptions::Ranks> ranks = data::ranksFromName(value);
  if (!ranks)
    return Status::failed("expected first or all, got '" + value + "'");
  options.dataOptions.ranks = *ranks;
  return Status::ok();
}

Status setRunAhead(Options &options, const std::string &value) {
  if (value == "auto")
    options.runAhead = RunAhead::Auto;
  else if (value == "on")
    options.runAhead = RunAhead::On;
  else if (value == "off")
    options.runAhead = RunAhead::Off;
  else
    return Status::failed("expected auto, off or on, got '" + value + "'");
  return Status::ok();
}

Status setLink(Options &options, const std::string &value) {
  size_t comma = value.find(',');
  Result<double> bandwidth = parseNumber(value.substr(0, comma));
  Result<double> latency =
      comma == std::string::npos ? 0.0 : parseNumber(value.substr(comma + 1));
  // With less, a step would not end.
  constexpr double kLeast = 1;
  bool isGood = bandwidth.isOk() && latency.isOk() && *bandwidth >= kLeast &&
                std::isfinite(*bandwidth) && *latency >= 0 && *latency < 3600;
  if (!isGood)
    return Status::failed("expected BYTES_PER_SECOND[,SECONDS] like 12.5e9,"
                          "5e-6, of at least 1 byte a second and less than an "
                          "hour, got '" +
                          value + "'");
  options.link = LinkModel{*bandwidth, *latency};
  return Status::ok();
}

/// Changes, insertions, removals and swaps of neighbours that make one word the
/// other.
size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<std::vector<size_t>> d(a.size() + 1,
                                     std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                          d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

/// An option that only training steps read.
OptionSpec ofTraining(OptionSpec spec) {
  spec.isOfTraining = true;
  return spec;
}

/// What any device may take; the one that runs the program checks it again.
auto setOfDevice(const char *name) {
  return [=](Options &options, const std::string &value) {
    options.deviceSettings[name] = value;
    return checkSetting(name, value);
  };
}

Status setDevice(Options &options, const std::string &value) {
  options.device = value;
  return checkDevice(value);
}

std::vector<OptionSpec> makeTable() {
  using O = Options;
  std::vector<OptionSpec> table = {
      {"-n", "N", "ranks; default: as many as the program was compiled for",
       // The mesh and the host say what is too many.
       setInteger(&O::ranks, 1, std::numeric_limits<int>::max())},
      {"--backend", backendNames(),
       "ranks are threads of this process, processes of Open MPI, or processes "
       "that connect by TCP; default: mpi where mpirun or srun with PMIx "
       "started this process, tcp where torchrun or srun did, else local",
       setBackend},
      {"--device", deviceNames(),
       "what runs the program; default: the first that can", setDevice},
      {"--params", "FILE",
       "start from the parameters in a safetensors file, or in those of a "
       "model.safetensors.index.json; several times: from those in all of them",
       addParams,
       /*mayRepeat=*/true},
      {"--strip-prefix", "TEXT",
       "take TEXT away where a name in --params begins with it: module.",
       setRenaming(&Renaming::strip)},
      {"--add-prefix", "TEXT",
       "put TEXT before names in --params that have it in the program alone",
       setRenaming(&Renaming::add)},
      {"--omit-text", "TEXT",
       "leave TEXT out of the program's names where they are looked up in "
       "--params without it: .base_layer; may be repeated",
       addOmitted,
       /*mayRepeat=*/true},
      {"--cast-params", "",
       "let --params convert between float types where they differ",
       setFlag(&O::castParams)},
      {"--init", "seed=K",
       "start from freshly drawn parameters; beside --params, draw those that "
       "its files lack",
       [](O &options, const std::string &value) {
         return assign(options.seed, parseSeed(value));
       }},
      {"--resume", "DIR|auto",
       "go on from the newest checkpoint in DIR, or from the checkpoint DIR; "
       "auto: from the newest in --save's directory, or where it has none from "
       "--params or --init, which also give what a checkpoint of "
       "--save-trained leaves out. Of --data, --accumulate, --lr, "
       "--lr-schedule, --clip-norm and --scalar, those that are not given are "
       "as when it was saved",
       setText(&O::resume)},
      {"--data", "SOURCE",
       "a safetensors file: inputs by name, [batch, rank, ...]; FILE.bin: "
       "tokens; random:seed=K; any other file: text, whose bytes are tokens",
       setText(&O::data)},
      {"--token-bits", "16|32",
       "bits of a token in FILE.bin without llm.c's header; default: 16, where "
       "that holds the program's ids",
       setTokenBits},
      {"--data-ranks", "first|all",
       "of a safetensors file for another number of ranks, read the batches of "
       "the first ranks alone, or all in turn; default: first, with a warning, "
       "and refused where it has too few",
       setDataRanks},
      {"--steps", "N", "train up to step N, counted from the very first one",
       setInteger(&O::steps, 1, maxSteps)},
      ofTraining({"--accumulate", "N",
                  "make each step of N batches, whose gradients are averaged "
                  "(of programs compiled with --accumulate-in); default: 1",
                  setInteger(&O::accumulate, 1, maxMicroBatches)}),
      {"--eval-data", "SOURCE",
       "evaluate on such data as --data takes, at the end and as --eval-every "
       "says (of programs exported with --eval); without --data, only that",
       setText(&O::evalData)},
      ofTraining({"--eval-every", "N", "evaluate every N steps as well",
                  setInteger(&O::evalEvery, 1, maxSteps)}),
      {"--eval-steps", "K",
       "batches of each rank in an evaluation; default: all that --eval-data "
       "has",
       setInteger(&O::evalSteps, 1, maxSteps)},
      {"--save-outputs", "FILE",
       "write the last evaluation's outputs to a safetensors file: by name, "
       "[batch, rank, ...]",
       setText(&O::saveOutputs)},
      ofTraining(
          {data::scalars::learningRate.option, "X", "learning rate", setRate}),
      ofTraining({"--lr-schedule", "KIND[:KEY=VALUE,..]",
                  "each step's learning rate as a part of --lr: constant, "
                  "linear, cosine or sqrt with steps=N, wsd with steps=N and "
                  "decay=D; all with warmup=W or warmup-tokens=W, start=RATIO "
                  "and first=0|1, those that decay with min=RATIO, wsd with "
                  "shape=linear|cosine|sqrt; or table:STEP=RATIO,.. or "
                  "file:PATH with lines of STEP RATIO "
                  "(docs/learning-rates.md); default: constant",
                  setRateSchedule}),
      ofTraining({data::scalars::clipNorm.option, "X",
                  "scale gradients down to this norm (of programs compiled "
                  "with --clip-norm)",
                  setClipNorm}),
      ofTraining({data::scalars::randomSeed.option, "K",
                  "seed of the random numbers that steps draw, as those of "
                  "dropout; default: 0",
                  setRandomSeed}),
      ofTraining({"--scalar", "NAME=X", "set a further scalar of the optimizer",
                  setScalar,
                  /*mayRepeat=*/true}),
      {"--threads", "N",
       "threads of each rank, no more than the memory budget has room for, "
       "which beside a GPU only draw the parameters of --init; default: cores "
       "/ ranks",
       setInteger(&O::threads, 1, maxThreads)},
  };
  for (const hal::DeviceSetting *setting : deviceSettings())
    table.push_back({std::string("--") + setting->name, setting->values,
                     setting->help, setOfDevice(setting->name)});
  std::vector<OptionSpec> rest = {
      {"--metrics", "FILE",
       "write one line of JSON per step; with --resume, go on after the lines "
       "of the steps up to the checkpoint's; where nothing is trained, after "
       "all lines",
       setText(&O::metrics)},
      ofTraining({"--log-every", "N", "print every N-th step; default: 1",
                  setInteger(&O::logEvery, 1, maxSteps)}),
      ofTraining({"--save", "DIR",
                  "save the state to DIR at the end, and where the run has to "
                  "end before: on SIGINT (Ctrl-C), SIGTERM, SIGHUP, data that "
                  "cannot be read",
                  setText(&O::save)}),
      ofTraining({"--save-every", "K",
                  "save every K steps as well (needs --save)",
                  setInteger(&O::saveEvery, 1, maxSteps)}),
      ofTraining({"--save-trained", "",
                  "save trained parameters, their states and buffers that "
                  "steps change alone; --resume of that takes the others from "
                  "--params or --init (needs --save)",
                  setFlag(&O::saveTrained)}),
      ofTraining({"--keep", "N",
                  "keep the newest N checkpoints alone, once a step after the "
                  "newest was finite (needs --save)",
                  setInteger(&O::keep, 1, maxSteps)}),
      ofTraining({"--stop-on-nan", "",
                  "fail as soon as the loss or the gradient norm is not "
                  "finite; the newest checkpoint is then the last good one",
                  setFlag(&O::stopOnNan)}),
      ofTraining({"--run-ahead", "auto|off|on",
                  "whether a step is given to the device before the numbers of "
                  "the step before are read, where they do not decide about "
                  "it; default: auto, on CUDA devices, but beside "
                  "--stop-on-nan, --profile and --trace",
                  setRunAhead}),
      ofTraining({"--profile", "FILE",
                  "write rank 0's time per kernel and collective",
                  setText(&O::profile)}),
      ofTraining({"--trace", "DIR", "write every rank's calls for Perfetto",
                  setText(&O::trace)}),
      {"--watchdog", "SECONDS",
       "fail where a rank waits for others, or for its device, and nothing has "
       "moved for so long; 0: wait forever; default: 600",
       setInteger(&O::watchdogSeconds, 0, maxWatchdog)},
      {"--link", "BYTES_PER_SECOND[,SECONDS]",
       "for experiments: delay the local backend's collectives, and copies to "
       "the host, as links of this bandwidth and latency would",
       setLink},
      {"--quiet", "", "print errors and warnings alone", setFlag(&O::quiet)},
      {"--describe", "", "print the program's manifest and end",
       setFlag(&O::describe)},
      {"--help", "", "print this and end", setFlag(&O::help)},
  };
  table.insert(table.end(), rest.begin(), rest.end());
  return table;
}

} // namespace

const std::vector<OptionSpec> &optionTable() {
  static const std::vector<OptionSpec> table = makeTable();
  return table;
}

std::string nearestOption(const std::string &name) {
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const OptionSpec &spec : optionTable()) {
    size_t distance = editDistance(name, spec.name);
    if (distance < least)
      least = distance, nearest = spec.name;
  }
  return nearest;
}

} // namespace fsdp::rt
