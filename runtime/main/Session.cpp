//===- Session.cpp - A program under its caller's control -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Session.h"

#include "core/Host.h"
#include "data/Batches.h"
#include "data/Elements.h"
#include "data/Names.h"
#include "fsdp-rt/random.h"
#include "main/Main.h"
#include "main/RunStart.h"
#include "registry/Registry.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fsdp::rt {

using namespace data;
using OnFailure = RankTeam::OnFailure;

namespace {

/// Which ranks this process is, and how they talk.
struct Ranks {
  const BackendKind *kind = nullptr;
  BackendRequest request;
  int first = 0, count = 1, threads = 1;
};

Result<Ranks> chooseRanks(const Manifest &manifest,
                          const fsdp_session_options &options) {
  auto world = static_cast<int>(manifest.worldSize());
  if (options.ranks != 0 && options.ranks != world)
    return Status::failed("expected " + std::to_string(world) +
                          " ranks, the size of the mesh that the program was "
                          "compiled for, got " +
                          std::to_string(options.ranks));
  if (options.threads < 0)
    return Status::failed("expected at least 0 threads, got " +
                          std::to_string(options.threads));
  Result<LaunchInfo> launch = detectLaunch(currentEnvironment());
  if (!options.backend && launch.isOk() && launch->size > 1)
    return Status::failed(
        "expected a backend for one of " + std::to_string(launch->size) +
        " processes of " + launcherName(launch->launcher) + " (" +
        launch->variables +
        "), got none: \"mpi\" or \"tcp\", or \"local\" where each is to be all "
        "ranks");
  Ranks ranks;
  ranks.kind = &defaultBackend(/*isRankPerProcess=*/false);
  if (options.backend) {
    Result<const BackendKind *> found = findBackend(options.backend);
    if (!found.isOk())
      return found.status().withContext("backend");
    ranks.kind = *found;
  }
  ranks.count = world;
  int ranksOnHost = world;
  if (ranks.kind->isRankPerProcess) {
    if (!launch.isOk())
      return launch.status();
    if (launch->size != world)
      return Status::failed("expected " + std::to_string(world) +
                            " processes, the size of the mesh that the program "
                            "was compiled for, got " +
                            std::to_string(launch->size));
    ranks.request.launch = *launch;
    ranks.first = launch->rank;
    ranks.count = 1;
    ranksOnHost = launch->localSize;
  }
  Result<int> threads =
      chooseThreads(manifest, options.threads, ranksOnHost, availableCores());
  if (!threads.isOk())
    return threads.status();
  ranks.threads = *threads;
  return ranks;
}

} // namespace

struct Session::Pending {
  const fsdp_rt_artifact &artifact;
  Ranks ranks;
  RankOptions options;
  std::vector<RankScalar> scalars;
};

Session::Session() = default;
Session::~Session() = default;

Result<std::unique_ptr<Session>>
Session::create(const fsdp_rt_artifact *artifact,
                const fsdp_session_options &options) {
  std::unique_ptr<Session> session(new Session);
  Result<Manifest> manifest = readArtifact(artifact);
  if (!manifest.isOk())
    return manifest.status();
  Result<DeviceChoice> device =
      chooseDevice(options.device ? options.device : "", *manifest);
  if (!device.isOk())
    return device.status();
  if (Status s = checkHost(*device, *manifest))
    return s;
  session->manifest_ = std::move(*manifest);
  session->scalars_ = scalarsOf({}, session->manifest_);
  Result<Ranks> ranks = chooseRanks(session->manifest_, options);
  if (!ranks.isOk())
    return ranks.status();
  session->firstRank_ = ranks->first;
  session->rankCount_ = ranks->count;
  for (const Program &program : session->manifest_.programs) {
    session->inputs_.emplace_back(
        ranks->count, std::vector<StoredInput>(program.inputs.size()));
    std::vector<bool> &hasScalar = session->hasScalar_.emplace_back();
    for (const Scalar &scalar : program.scalars)
      hasScalar.push_back(bool(scalar.init));
  }
  RankOptions wanted;
  wanted.device = *device;
  wanted.threads = ranks->threads;
  session->pending_.reset(
      new Pending{*artifact, std::move(*ranks), std::move(wanted), {}});
  return session;
}

Status Session::setOption(const std::string &name, const std::string &value) {
  if (!pending_)
    return Status::failed("expected '" + name +
                          "' before the first initial state, got it after");
  if (name == "lr-schedule")
    return setSchedule(value).withContext(name);
  RankOptions &options = pending_->options;
  if (Status s = options.device.device->settings().check(name, value))
    return s.withContext(name);
  options.settings[name] = value;
  return Status::ok();
}

/// Starts the ranks, unless they have started. What failed fails for good: a
/// process joins a job once.
Status Session::start() {
  if (!pending_)
    return started_;
  started_ = startRanks();
  std::unique_ptr<Pending> pending = std::move(pending_);
  for (const RankScalar &scalar : pending->scalars)
    if (started_.isOk())
      started_ = setOnRanks(scalar);
  return started_;
}

Status Session::startRanks() {
  const Ranks &ranks = pending_->ranks;
  const RankOptions &options = pending_->options;
  hal::DeviceOptions wanted;
  wanted.threads = ranks.threads;
  wanted.settings = options.settings;
  Result<std::unique_ptr<Backend>> backend =
      createBackend(*ranks.kind, manifest_, *options.device.device,
                    std::move(wanted), ranks.request);
  if (!backend.isOk())
    return backend.status();
  Result<std::unique_ptr<RankTeam>> team = RankTeam::start(
      std::move(*backend), ranks.count, pending_->artifact, manifest_, options);
  if (!team.isOk())
    return team.status();
  team_ = std::move(*team);
  return Status::ok();
}

/// Processes that began from different states would train on without a word.
Status Session::agreeOnStart(const Status &mine, const std::string &start) {
  if (Status s = this->start())
    return s;
  return team_->call(OnFailure::Continue, [&](Rank &rank) -> Status {
    if (Status s = rank.ranks().agree(mine))
      return s;
    return rank.ranks().agreeOn({{"initial state", start}});
  });
}

/// The state is that after `step`.
void Session::beginFrom(int64_t step) {
  hasState_ = true;
  steps_ = step;
  accumulated_ = 0;
  accumulatedLoss_ = {};
  weight_.reset();
}

/// Gradients of micro-batches must not be left behind.
Status Session::checkAccumulated(const std::string &what) const {
  if (accumulated_ == 0)
    return Status::ok();
  return Status::failed(
      "expected program '" + manifest_.lastMicroBatch()->name + "' before " +
      what + ", got " + std::to_string(accumulated_) +
      (accumulated_ == 1 ? " micro-batch" : " micro-batches") +
      " accumulated and no update");
}

/// What stays gathered is there behind the program that gathers it.
Status Session::checkGathered(const Program &program) const {
  const Program *first = manifest_.firstMicroBatch();
  if (!first || !program.traits().accumulates ||
      (accumulated_ == 0) == (&program == first))
    return Status::ok();
  return Status::failed("expected program '" + first->name +
                        "' for the first micro-batch of a step alone, got '" +
                        program.name + "' behind " +
                        std::to_string(accumulated_));
}

Result<size_t> Session::findProgram(const std::string &name) const {
  const Program *program =
      name.empty() ? &manifest_.train() : manifest_.findProgram(name);
  if (program)
    return static_cast<size_t>(program - manifest_.programs.data());
  std::vector<std::string> names;
  for (const Program &other : manifest_.programs)
    names.push_back(other.name);
  return Status::failed("expected one of the programs " +
                        listNames(names, names.size()) + ", got '" + name +
                        "'");
}

Status Session::checkRank(int rank) const {
  if (rank >= firstRank_ && rank < firstRank_ + rankCount())
    return Status::ok();
  return Status::failed("expected a rank from " + std::to_string(firstRank_) +
                        " to " + std::to_string(firstRank_ + rankCount() - 1) +
                        ", which this process holds, got " +
                        std::to_string(rank));
}

Status Session::setInput(const std::string &programName, int rank,
                         const std::string &name, const void *data,
                         size_t bytes) {
  Result<size_t> found = findProgram(programName);
  if (!found.isOk())
    return found.status();
  if (Status s = checkRank(rank))
    return s;
  const Program &program = manifest_.programs[*found];
  const Input *input = program.findInput(name);
  if (!input) {
    std::vector<std::string> names;
    for (const Input &other : program.inputs)
      names.push_back(other.name);
    return Status::failed("expected one of the inputs " +
                          listNames(names, names.size()) + ", got '" + name +
                          "'");
  }
  if (int64_t(bytes) != input->bytes())
    return Status::failed(
        "input '" + name + "': expected " + std::to_string(input->bytes()) +
        " bytes, " + dtypeName(input->dtype) + " " + toString(input->shape) +
        ", got " + std::to_string(bytes));
  const char *source = static_cast<const char *>(data);
  int64_t size = dtypeSize(input->dtype);
  for (int64_t i = 0; !isFloat(input->dtype) && i < input->numel; ++i) {
    int64_t value = loadInteger(input->dtype, source + i * size);
    if (!isInBounds(*input, value))
      return Status::failed(
          "input '" + name + "' of rank " + std::to_string(rank) +
          ", element " + std::to_string(i) + ": expected " +
          describeBounds(*input, "value") + ", got " + std::to_string(value));
  }
  StoredInput &stored =
      inputs_[*found][rank - firstRank_][input - program.inputs.data()];
  stored.bytes.assign(source, source + bytes);
  stored.isSet = true;
  return Status::ok();
}

Status Session::setScalar(const std::string &name, double value) {
  if (Status s = putScalar(name, value))
    return s;
  givenScalars_.insert(name);
  return Status::ok();
}

/// In every program that has it.
/// On those of this process; before they start, for when they do.
Status Session::setOnRanks(const RankScalar &scalar) {
  if (pending_) {
    pending_->scalars.push_back(scalar);
    return Status::ok();
  }
  if (started_)
    return started_;
  return team_->call(OnFailure::Continue, [&](Rank &rank) {
    rank.setScalar(scalar.program, scalar.name, scalar.value);
    return Status::ok();
  });
}

Status Session::putScalar(const std::string &name, double value) {
  bool isKnown = false;
  for (size_t p = 0; p < manifest_.programs.size(); ++p) {
    const Program &program = manifest_.programs[p];
    const Scalar *scalar = program.findScalar(name);
    if (!scalar)
      continue;
    isKnown = true;
    if (std::isnan(value) || !isRepresentable(scalar->dtype, value))
      return Status::failed("scalar '" + name + "': expected a number that " +
                            dtypeName(scalar->dtype) + " holds, got " +
                            std::to_string(value));
    if (const scalars::Traits *known = scalars::find(name);
        known && known->setter == scalars::Setter::Runtime)
      return Status::failed("expected a scalar that callers set, got '" + name +
                            "', " + known->meaning);
    if (name == scalars::accumulationWeight.name) {
      if (!(value > 0 && std::isfinite(value)))
        return Status::failed("scalar '" + name +
                              "': expected a positive, finite number, got " +
                              std::to_string(value));
      weight_ = value;
      continue;
    }
    hasScalar_[p][scalar - program.scalars.data()] = true;
    if (Status s = setOnRanks({p, name, value}))
      return s;
  }
  if (!isKnown)
    return Status::failed("expected a scalar of the program, got '" + name +
                          "'");
  if (!isSetByRuntime(manifest_, name) && manifest_.train().findScalar(name))
    scalars_[name] = value;
  return Status::ok();
}

Status Session::checkReady(size_t index) const {
  const Program &program = manifest_.programs[index];
  if (!hasState_)
    return Status::failed("expected an initial state: initialise from a seed "
                          "or a file, or resume, first");
  for (size_t rank = 0; rank < inputs_[index].size(); ++rank)
    for (size_t i = 0; i < program.inputs.size(); ++i)
      if (!inputs_[index][rank][i].isSet)
        return Status::failed("expected every input to be set, got none for '" +
                              program.inputs[i].name + "' of rank " +
                              std::to_string(firstRank_ + int(rank)));
  for (size_t i = 0; i < program.scalars.size(); ++i)
    if (!hasScalar_[index][i])
      return Status::failed("expected a value for scalar '" +
                            program.scalars[i].name +
                            "', which has no default");
  return Status::ok();
}

RankTeam::Call Session::copyInputs(size_t program) const {
  return [this, program](Rank &rank) {
    const auto &stored = inputs_[program][rank.number() - firstRank_];
    const std::vector<Input> &inputs = manifest_.programs[program].inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (Status s =
              rank.device().upload(inputs[i].offset, stored[i].bytes.data(),
                                   int64_t(stored[i].bytes.size())))
        return s;
    return Status::ok();
  };
}

Status Session::run(const std::string &name) {
  Result<size_t> found = findProgram(name);
  if (!found.isOk())
    return found.status();
  if (Status s = checkReady(*found))
    return s;
  const Program &program = manifest_.programs[*found];
  const ProgramTraits &traits = program.traits();
  if (accumulated_ >= fsdp_rt::rng::mostMicroBatches &&
      program.findScalar(scalars::randomSeed.name))
    return Status::failed(
        "expected at most " + std::to_string(fsdp_rt::rng::mostMicroBatches) +
        " micro-batches of a step that draws random numbers, got more");
  if (traits.updates && !traits.accumulates)
    if (Status s = checkAccumulated("a step of its own"))
      return s;
  if (Status s = checkGathered(program))
    return s;
  double weight = weight_.value_or(double(accumulated_ + 1));
  RankTeam::Call copy = copyInputs(*found);
  LossSum sum = accumulatedLoss_;
  lastRun_.reset();
  Status status = team_->call(OnFailure::End, [&](Rank &rank) -> Status {
    if (Status s = copy(rank))
      return s;
    rank.setScalar(*found, scalars::randomStep.name, double(steps_));
    rank.setScalar(*found, scalars::accumulated.name, double(accumulated_));
    rank.setScalar(*found, scalars::accumulationWeight.name, weight);
    rank.setScalar(*found, scalars::accumulatedCount.name,
                   accumulatedLoss_.count);
    if (const RateSchedule *rates = schedule(); rates && traits.updates)
      for (const std::string &rate : program.rates())
        rank.setScalar(*found, rate,
                       scalars_.at(rate) * rates->ratioOf(steps_ + 1));
    if (Status s = rank.run(*found))
      return s;
    if (rank.number() != firstRank_)
      return Status::ok();
    if (traits.hasBackward)
      if (Status s = rank.addLoss(program, sum))
        return s;
    return traits.updates
               ? rank.load(*program.findOutput("grad_norm"), gradNorm_)
               : Status::ok();
  });
  if (status)
    return status;
  lastRun_ = *found;
  if (traits.isWithinStep()) {
    ++accumulated_;
    accumulatedLoss_ = sum;
  }
  if (!traits.updates)
    return Status::ok();
  hasResults_ = true;
  loss_ = sum.mean();
  beginFrom(steps_ + 1);
  return Status::ok();
}

Status Session::step(double lr) {
  if (!std::isnan(lr))
    if (Status s = setScalar(scalars::learningRate.name, lr))
      return s;
  return run("");
}

Result<const Output *> Session::findOutput(const std::string &programName,
                                           const std::string &name) const {
  Result<size_t> found = findProgram(programName);
  if (!found.isOk())
    return found.status();
  const Program &program = manifest_.programs[*found];
  if (const Output *output = program.findOutput(name))
    return output;
  std::vector<std::string> names;
  for (const Output &other : program.outputs)
    names.push_back(other.name);
  return Status::failed("expected one of the outputs " +
                        listNames(names, names.size()) + " of program '" +
                        program.name + "', got '" + name + "'");
}

Status Session::readOutput(const std::string &programName, int rank,
                           const std::string &name, void *data, size_t bytes) {
  Result<const Output *> output = findOutput(programName, name);
  if (!output.isOk())
    return output.status();
  if (Status s = checkRank(rank))
    return s;
  if (int64_t(bytes) != (*output)->bytes())
    return Status::failed("output '" + name + "': expected " +
                          std::to_string((*output)->bytes()) + " bytes, " +
                          dtypeName((*output)->dtype) + " " +
                          toString((*output)->shape) + ", got " +
                          std::to_string(bytes));
  Result<size_t> program = findProgram(programName);
  if (!lastRun_ || *lastRun_ != *program)
    return Status::failed(
        "expected to read outputs of the program that ran last, " +
        (lastRun_ ? "'" + manifest_.programs[*lastRun_].name + "'"
                  : std::string("and none has")) +
        ", got program '" + manifest_.programs[*program].name + "'");
  return team_->call(OnFailure::Continue, [&](Rank &it) {
    return it.number() == rank
               ? it.device().download((*output)->offset, data, int64_t(bytes))
               : Status::ok();
  });
}

Status Session::results(double *loss, double *gradNorm) const {
  if (!hasResults_)
    return Status::failed("expected a step before its results");
  if (loss)
    *loss = loss_;
  if (gradNorm)
    *gradNorm = gradNorm_;
  return Status::ok();
}

Result<NamedTensor> Session::findSized(const std::string &name,
                                       size_t bytes) const {
  if (!hasState_)
    return Status::failed("expected an initial state before parameter '" +
                          name + "' is read or written");
  Result<NamedTensor> tensor = findTensor(manifest_, name);
  if (tensor.isOk() && tensor->bytes() != int64_t(bytes))
    return Status::failed("parameter '" + name + "': expected " +
                          std::to_string(tensor->bytes()) + " bytes, " +
                          dtypeName(tensor->dtype()) + " " +
                          toString(tensor->shape()) + ", got " +
                          std::to_string(bytes));
  return tensor;
}

Status Session::readParameter(const std::string &name, void *data,
                              size_t bytes) {
  Result<NamedTensor> tensor = findSized(name, bytes);
  if (!tensor.isOk())
    return tensor.status();
  return team_->call(OnFailure::End, [&](Rank &rank) {
    bool isReader = rank.number() == firstRank_;
    return rank.readTensor(name,
                           isReader ? static_cast<char *>(data) : nullptr);
  });
}

Status Session::writeParameter(const std::string &name, const void *data,
                               size_t bytes) {
  Result<NamedTensor> tensor = findSized(name, bytes);
  if (!tensor.isOk())
    return tensor.status();
  if (!manifest_.gathered.empty())
    if (Status s = checkAccumulated("parameter '" + name +
                                    "', which stays gathered, is written"))
      return s;
  // Ranks that do not all have it are no longer one model.
  return team_->call(OnFailure::End, [&](Rank &rank) {
    return rank.writeTensor(name, static_cast<const char *>(data));
  });
}

} // namespace fsdp::rt
