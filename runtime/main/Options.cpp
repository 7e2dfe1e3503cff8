//===- Options.cpp - The command line of a compiled program ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Options.h"

#include "data/CheckpointOrigin.h"
#include "data/Names.h"
#include "fsdp-rt/random.h"
#include "main/OptionTable.h"
#include "registry/Registry.h"

#include <algorithm>
#include <limits>
#include <set>

namespace fsdp::rt {

namespace {

/// One argument, cut at "=" where it is one of "--name=value" or "-nN".
struct Argument {
  std::string name;
  std::optional<std::string> value;
};

Argument split(const std::string &text) {
  if (text.size() > 2 && text[0] == '-' && text[1] != '-')
    return {text.substr(0, 2), text.substr(2)};
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    return {text, std::nullopt};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const OptionSpec *findSpec(const std::string &name) {
  for (const OptionSpec &spec : optionTable())
    if (spec.name == name)
      return &spec;
  return nullptr;
}

Status refuseUnknown(const std::string &text) {
  if (text.empty() || text[0] != '-')
    return Status::failed("expected an option, got '" + text + "'");
  std::string name = split(text).name;
  std::string nearest = nearestOption(name);
  return Status::failed("unknown option '" + name + "'" +
                        (nearest.empty() ? "; --help lists them"
                                         : "; did you mean " + nearest + "?"));
}

Status readArguments(const std::vector<std::string> &arguments,
                     Options &options, std::set<std::string> &given) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    Argument argument = split(arguments[i]);
    const OptionSpec *spec = findSpec(argument.name);
    if (!spec)
      return refuseUnknown(arguments[i]);
    if (!given.insert(spec->name).second && !spec->mayRepeat)
      return Status::failed(spec->name + ": expected once, got twice");
    if (spec->value.empty() && argument.value)
      return Status::failed(spec->name + ": expected no value, got '" +
                            *argument.value + "'");
    if (!spec->value.empty() && !argument.value) {
      if (++i == arguments.size())
        return Status::failed(spec->name + ": expected " + spec->value +
                              ", got nothing");
      if (findSpec(arguments[i]))
        return Status::failed(spec->name + ": expected " + spec->value +
                              ", got the option " + arguments[i]);
      argument.value = arguments[i];
    }
    if (Status s = spec->set(options, argument.value.value_or("")))
      return s.withContext(spec->name);
  }
  return Status::ok();
}

Status needs(bool isGiven, const char *option, bool hasOther,
             const char *other) {
  if (isGiven && !hasOther)
    return Status::failed(std::string(option) + ": expected " + other +
                          " as well");
  return Status::ok();
}

/// Nothing that only training steps read can be asked for without any.
Status checkEvaluatesOnly(const std::set<std::string> &given) {
  std::vector<std::string> others;
  for (const OptionSpec &spec : optionTable())
    if (spec.isOfTraining && given.count(spec.name))
      others.push_back(spec.name);
  if (others.empty())
    return Status::ok();
  return Status::failed("expected --data SOURCE and --steps N with " +
                        data::listNames(others, others.size()) +
                        ", got neither");
}

Status needsData() {
  return Status::failed("expected --data FILE or --data random:seed=K, got "
                        "none");
}

Status checkTogether(const Options &options,
                     const std::set<std::string> &given) {
  const std::string starts = options.startsFrom();
  if (options.resumesIfAny()) {
    if (starts.empty() || options.save.empty())
      return Status::failed(
          "--resume auto: expected --save DIR, to go on from its newest "
          "checkpoint, and --params FILE or --init seed=K, to begin with where "
          "it has none, got " +
          std::string(options.save.empty() ? "no --save" : "none of the two"));
  } else if (starts.empty() && options.resume.empty()) {
    return Status::failed("expected --params FILE, --init seed=K or both, or "
                          "--resume DIR, got none");
  }
  if (options.evaluatesOnly()) {
    if (Status s = checkEvaluatesOnly(given))
      return s;
  } else if (options.resume.empty() && options.data.empty()) {
    return needsData();
  } else if (!options.steps) {
    return Status::failed("expected --steps N, got none");
  }
  bool saves = !options.save.empty();
  if (Status s = needs(options.castParams, "--cast-params",
                       !options.params.empty(), "--params FILE"))
    return s;
  if (Status s = needs(!options.renaming.strip.empty(), "--strip-prefix",
                       !options.params.empty(), "--params FILE"))
    return s;
  if (Status s = needs(!options.renaming.add.empty(), "--add-prefix",
                       !options.params.empty(), "--params FILE"))
    return s;
  if (Status s = needs(!options.renaming.omit.empty(), "--omit-text",
                       !options.params.empty(), "--params FILE"))
    return s;
  if (Status s =
          needs(bool(options.saveEvery), "--save-every", saves, "--save DIR"))
    return s;
  if (Status s = needs(bool(options.keep), "--keep", saves, "--save DIR"))
    return s;
  if (Status s =
          needs(options.saveTrained, "--save-trained", saves, "--save DIR"))
    return s;
  bool evaluates = !options.evalData.empty();
  if (Status s = needs(bool(options.evalEvery), "--eval-every", evaluates,
                       "--eval-data SOURCE"))
    return s;
  if (Status s = needs(bool(options.evalSteps), "--eval-steps", evaluates,
                       "--eval-data SOURCE"))
    return s;
  if (Status s = needs(!options.saveOutputs.empty(), "--save-outputs",
                       evaluates, "--eval-data SOURCE"))
    return s;
  if (options.link && !options.backend.empty() &&
      options.backend !=
          std::string(defaultBackend(/*isRankPerProcess=*/false).name))
    return Status::failed(
        "--link: expected the " +
        std::string(defaultBackend(/*isRankPerProcess=*/false).name) +
        " backend, got " + options.backend);
  return Status::ok();
}

} // namespace

bool Options::hasScalar(const std::string &name) const {
  return std::any_of(scalars.begin(), scalars.end(),
                     [&](const auto &given) { return given.first == name; });
}

std::string Options::startsFrom() const {
  std::string text = params.empty() ? "" : "--params";
  if (seed)
    text += text.empty() ? "--init" : " and --init";
  return text;
}

bool isSetByRuntime(const data::Manifest &manifest, const std::string &name) {
  const data::scalars::Traits *known = data::scalars::find(name);
  return known && known->setter != data::scalars::Setter::User &&
         std::any_of(manifest.programs.begin(), manifest.programs.end(),
                     [&](const data::Program &program) {
                       return program.findScalar(name) != nullptr;
                     });
}

Result<Options> parseOptions(const std::vector<std::string> &arguments) {
  Options options;
  std::set<std::string> given;
  if (Status s = readArguments(arguments, options, given))
    return s;
  if (!options.help && !options.describe)
    if (Status s = checkTogether(options, given))
      return s;
  return options;
}

/// Refuses what the host alone would act on beside a device that computes
/// itself.
static Status checkBesideDevice(const Options &options,
                                const hal::DeviceKind &device) {
  if (device.computesOnHost)
    return Status::ok();
  const std::string name = device.name;
  if (options.link)
    return Status::failed("--link: expected a device whose transfers the host "
                          "moves and can delay, got " +
                          name);
  auto graph = options.deviceSettings.find("graph");
  bool isRecorded = !options.profile.empty() || !options.trace.empty();
  if (isRecorded && graph != options.deviceSettings.end() &&
      graph->second == "on")
    return Status::failed(std::string("--graph: expected auto or off beside ") +
                          (options.profile.empty() ? "--trace" : "--profile") +
                          ", for which each call is timed, got on");
  return Status::ok();
}

/// Refuses to run ahead of what is decided or recorded after each step.
static Status checkRunAhead(const Options &options) {
  if (options.runAhead != RunAhead::On)
    return Status::ok();
  const std::pair<bool, const char *> others[] = {
      {options.stopOnNan, "--stop-on-nan, which looks at each step's numbers"},
      {!options.profile.empty(), "--profile, for which each call is timed"},
      {!options.trace.empty(), "--trace, for which each call is timed"}};
  for (const auto &[isGiven, other] : others)
    if (isGiven)
      return Status::failed(
          std::string("--run-ahead: expected auto or off beside ") + other +
          ", got on");
  return Status::ok();
}

Status checkOptions(const Options &options, const data::Manifest &manifest,
                    const hal::DeviceKind &device) {
  for (const auto &[name, value] : options.deviceSettings)
    if (Status s = device.settings().check(name, value))
      return s.withContext("--" + name);
  if (Status s = checkBesideDevice(options, device))
    return s;
  if (Status s = checkRunAhead(options))
    return s;
  int64_t world = manifest.worldSize();
  if (options.ranks && *options.ranks != world) {
    std::string mesh;
    for (const data::MeshAxis &axis : manifest.mesh)
      mesh += (mesh.empty() ? "" : ",") + axis.name + "=" +
              std::to_string(axis.size);
    return Status::failed("expected -n " + std::to_string(world) +
                          ", the size of the mesh " + mesh +
                          " that the program was compiled for, got " +
                          std::to_string(*options.ranks));
  }
  if (!options.evalData.empty() && !manifest.evaluation())
    return Status::failed("--eval-data: expected a program that evaluates, got "
                          "one that only trains: export the model with "
                          "fsdp-export --eval and compile it again");
  if (options.saveTrained &&
      std::all_of(manifest.flatParams.begin(), manifest.flatParams.end(),
                  [](const data::FlatParam &flat) { return flat.trainable; }))
    return Status::failed("--save-trained: expected a program with frozen "
                          "parameters, got one that trains all");
  for (const auto &[name, value] : options.scalars) {
    const data::scalars::Traits *known = data::scalars::find(name);
    if (isSetByRuntime(manifest, name))
      return Status::failed("--scalar " + name +
                            ": expected a scalar that users set, got one that "
                            "follows from " +
                            known->option);
    const data::Scalar *scalar = manifest.train().findScalar(name);
    if (!scalar && name == data::scalars::randomSeed.name)
      return Status::failed(
          std::string(known->option) +
          ": expected a program that draws random numbers, got one that draws "
          "none");
    if (!scalar && known && known->purpose &&
        known->setter == data::scalars::Setter::User)
      return Status::failed(known->option +
                            std::string(": expected a program compiled with ") +
                            known->option + ", got one without");
    if (!scalar) {
      std::vector<std::string> names;
      for (const data::Scalar &other : manifest.train().scalars)
        names.push_back(other.name);
      return Status::failed("expected one of the program's scalars " +
                            data::listNames(names, names.size()) + ", got '" +
                            name + "'");
    }
    if (!data::isRepresentable(scalar->dtype, value))
      return Status::failed("scalar '" + name + "': expected a whole number " +
                            "that " + dtypeName(scalar->dtype) + " holds");
  }
  return options.resume.empty() ? checkComplete(options, manifest)
                                : Status::ok();
}

/// Whether each micro-batch of each step draws random numbers of its own.
static Status checkDraws(int64_t steps, int64_t microBatches) {
  struct {
    const char *option;
    int64_t most, given;
  } const rows[] = {
      {"--steps", fsdp_rt::rng::mostSteps, steps},
      {"--accumulate", fsdp_rt::rng::mostMicroBatches, microBatches}};
  for (const auto &row : rows)
    if (row.given > row.most)
      return Status::failed(std::string(row.option) + ": expected at most " +
                            std::to_string(row.most) +
                            " of a program that draws random numbers, got " +
                            std::to_string(row.given));
  return Status::ok();
}

Status checkComplete(const Options &options, const data::Manifest &manifest) {
  if (options.evaluatesOnly())
    return Status::ok();
  if (options.data.empty())
    return needsData();
  const int64_t microBatches = options.microBatches();
  if (*options.steps > std::numeric_limits<int64_t>::max() / microBatches)
    return Status::failed(
        "expected --steps N and --accumulate M with N * M below 2^63, got " +
        std::to_string(*options.steps) + " and " +
        std::to_string(microBatches));
  if (microBatches > 1 && !manifest.microBatch())
    return Status::failed("--accumulate: expected a program that accumulates "
                          "gradients, got one that does not: compile it with "
                          "--accumulate-in shard or whole");
  if (manifest.train().findScalar(data::scalars::randomSeed.name))
    if (Status s = checkDraws(*options.steps, microBatches))
      return s;
  for (const data::Scalar &scalar : manifest.train().scalars) {
    if (!scalar.init && !options.hasScalar(scalar.name))
      return Status::failed("expected " + data::optionOf(scalar.name, "X") +
                            ", which has no default in this program");
  }
  return Status::ok();
}

std::string helpText(const std::string &program) {
  constexpr size_t column = 30, width = 80;
  std::string text =
      "usage: " + program +
      " [-n N] --params FILE.. | --init seed=K | --resume DIR|auto\n"
      "       --data SOURCE --steps N | --eval-data SOURCE [options]\n\n"
      "Trains the model that this program was compiled from; without --data "
      "and\n--steps, evaluates it.\n\n";
  for (const OptionSpec &spec : optionTable()) {
    std::string line =
        "  " + spec.name + (spec.value.empty() ? "" : " " + spec.value);
    if (line.size() + 2 > column) {
      text += line + "\n";
      line.clear();
    }
    line.resize(column, ' ');
    for (size_t at = 0; at < spec.help.size();) {
      size_t end = spec.help.find(' ', at);
      if (end == std::string::npos)
        end = spec.help.size();
      if (line.size() + 1 + end - at > width) {
        text += line + "\n";
        line.assign(column, ' ');
      }
      line +=
          (line.size() > column ? " " : "") + spec.help.substr(at, end - at);
      at = end + 1;
    }
    text += line + "\n";
  }
  return text + "\nExit status: 0 done, 1 a mistake or a failure of the "
                "machine, 2 a fault of the\nprogram itself.\n";
}

} // namespace fsdp::rt
