//===- Training.cpp - The loop over the steps -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Training.h"

#include "main/Main.h"
#include "main/SharedSettings.h"
#include "main/Trainer.h"

#include <exception>
#include <new>

namespace fsdp::rt {

using namespace data;

/// What can be refused without the arena comes first: a run with gigabytes of
/// parameters should not load them to say that a path is wrong.
Status Trainer::prepare() {
  Result<std::unique_ptr<hal::HostChannel>> world = host_.openChannelOfAll();
  if (!world.isOk())
    return world.status();
  world_ = std::move(*world);
  ranks_.emplace(*world_);

  // Before anything else that the ranks do together: it depends on these.
  std::vector<Setting> settings = sharedSettings(run_.options, manifest_);
  for (Setting &setting :
       agreedSettings(*run_.device.device, run_.options.deviceSettings))
    settings.push_back(std::move(setting));
  if (Status s = ranks_->agreeOn(settings))
    return s;
  // On every rank: hosts of one job may differ.
  if (Status s = ranks_->agree(checkHost(run_.device, manifest_)))
    return s;
  if (Status s = findStart())
    return s;
  if (start_.isDone) {
    reports_->beginConsole(start_.firstStep, start_.notes);
    return ranks_->announce(reports_->finish());
  }
  std::vector<std::string> notes;
  std::unique_ptr<BatchSource> batches;
  if (!options_.evaluatesOnly()) {
    Result<std::unique_ptr<BatchSource>> opened = openData(notes);
    if (!opened.isOk())
      return opened.status();
    batches = std::move(*opened);
  }
  const std::string kind = batches ? batches->kind() : "";
  Result<std::unique_ptr<Evaluation>> evaluation =
      Evaluation::create(manifest_, options_, host_.rank(), *ranks_, notes);
  if (!evaluation.isOk())
    return evaluation.status();
  evaluation_ = std::move(*evaluation);
  if (Status s =
          ranks_->agreeOn({{"--data", kind},
                           {"--data, at its begin",
                            unit_ + " " + std::to_string(unitsBefore_)}}))
    return s;
  std::vector<std::string> kinds;
  if (batches)
    kinds.push_back(kind);
  if (evaluation_)
    kinds.push_back(evaluation_->kindOfData());
  if (Status s = ranks_->agree(checkUsed(options_.dataOptions, kinds)))
    return s;
  notes.insert(notes.end(), run_.notes.begin(), run_.notes.end());
  reports_->tell(notes);
  std::vector<std::string> remarks = start_.notes;
  if (batches)
    for (std::string &line : batches->remarks(numBatches()))
      remarks.push_back(std::move(line));
  if (Status s = ranks_->announce(isFirst() && batches ? compareOrigin(kind)
                                                       : Status::ok()))
    return s;
  if (Status s = ranks_->announce(reports_->open()))
    return s;
  if (Status s = ranks_->agree(reports_->openTrace()))
    return s;
  if (Status s = openSaves())
    return s;
  if (Status s = createRank())
    return s;
  // The first batch is read while the state is loaded.
  if (batches)
    if (Status s = ranks_->agree(startLoader(std::move(batches))))
      return s;
  const hal::DeviceFacts facts = rank_->executor().device().facts();
  reports_->setDevice(facts);
  const DeviceIdentity device = {facts.name, facts.choices, facts.plain};
  if (saves_)
    saves_->setDevice(device);
  if (start_.checkpoint && start_.checkpoint->origin.device)
    for (const std::string &line :
         differences(*start_.checkpoint->origin.device, device))
      reports_->tell({"--resume: " + start_.checkpoint->path + ": " + line});
  if (manifest_.traced && !manifest_.traced->spec.empty() &&
      !options_.evaluatesOnly())
    remarks.push_back("optimizer " + manifest_.traced->spec);
  if (std::string memory = describeMemory(facts); !memory.empty())
    remarks.push_back(memory);
  remarks.insert(remarks.end(), facts.remarks.begin(), facts.remarks.end());
  if (std::string other = findOtherTuning(facts, manifest_); !other.empty())
    remarks.push_back(other);
  if (std::string unreserved =
          findUnreserved(facts, manifest_.arenaBytes, manifest_.reservedBytes);
      !unreserved.empty())
    remarks.push_back(unreserved);
  if (Status s = loadState(remarks))
    return s;
  // Only now that the run will take place is an older one's file changed.
  if (Status s = ranks_->announce(reports_->beginMetrics(start_.firstStep)))
    return s;
  reports_->beginConsole(start_.firstStep, remarks);
  return Status::ok();
}

Status Trainer::findStart() {
  Result<RunStart> start =
      fsdp::rt::findStart(run_.options, manifest_, host_.rank(), *ranks_);
  if (!start.isOk())
    return start.status();
  start_ = std::move(*start);
  if (Status s = ranks_->agree(settleSchedule(start_, manifest_)))
    return s;
  reports_.emplace(run_, options_, host_.rank());
  return Status::ok();
}

/// Collective.
Result<std::unique_ptr<BatchSource>>
Trainer::openData(std::vector<std::string> &notes) {
  Result<std::unique_ptr<BatchSource>> opened =
      openBatches(options_.data, program_, host_.rank(), host_.size(), notes,
                  start_.dataOptions);
  if (Status s = ranks_->agree(explainData(start_, opened.status())))
    return s;
  BatchSource &source = **opened;
  unitsOfBatch_ = source.unitsOfBatch(host_.size());
  unitsBefore_ = source.startAt(unitsTaken(start_.checkpoint, source));
  unit_ = source.unit();
  return opened;
}

/// What the run reads, of each rank.
int64_t Trainer::numBatches() const {
  return (*options_.steps - start_.firstStep + 1) * options_.microBatches();
}

/// Units of the data before the first that `step` and those before it did not
/// take.
int64_t Trainer::unitsAfter(int64_t step) const {
  return unitsBefore_ + (step - start_.firstStep + 1) *
                            options_.microBatches() * unitsOfBatch_;
}

/// What makes the run, and what it does not have in common with the one that
/// saved the state: that fits, and the user may mean it.
Status Trainer::compareOrigin(const std::string &kindOfData) {
  if (options_.save.empty() && !start_.checkpoint)
    return Status::ok();
  Result<DataIdentity> data = identifyData(options_.data, kindOfData);
  if (!data.isOk())
    return data.status().withContext("--data");
  data_ = std::move(*data);
  data_->batchesPerStep = options_.microBatches();
  data_->samplesPerStep =
      samplesPerStep(manifest_, host_.size(), options_.microBatches());
  data_->ranks = nameOf(start_.dataOptions.ranks);
  data_->unit = unit_;
  data_->taken = unitsBefore_;
  if (start_.checkpoint)
    for (const std::string &line : compareStart(start_, manifest_, *data_))
      reports_->tell({"--resume: " + start_.checkpoint->path + ": " + line});
  return Status::ok();
}

Status Trainer::openSaves() {
  if (options_.save.empty())
    return Status::ok();
  CheckpointWriter::Options wanted;
  wanted.directory = options_.save;
  wanted.keep = options_.keep.value_or(0);
  wanted.trainedOnly = options_.saveTrained;
  wanted.data = data_;
  wanted.scalars = scalarsOf(options_, manifest_);
  wanted.rateSchedule = scheduleText(options_);
  if (start_.checkpoint)
    wanted.resumedFrom = start_.checkpoint->path;
  std::vector<std::string> notes;
  Result<CheckpointWriter> writer =
      CheckpointWriter::create(manifest_, host_.rank(), *ranks_, wanted, notes);
  if (!writer.isOk())
    return writer.status();
  reports_->tell(notes);
  saves_ = std::move(*writer);
  return Status::ok();
}

Status Trainer::createRank() {
  RankOptions wanted;
  wanted.device = run_.device;
  wanted.threads = run_.threadsPerRank;
  wanted.settings = options_.deviceSettings;
  wanted.profile = !options_.profile.empty() && isFirst();
  wanted.traceEvents = traceCapacity(options_);
  Result<std::unique_ptr<Rank>> rank =
      Rank::create(host_, *ranks_, run_.artifact, manifest_, wanted);
  if (!rank.isOk())
    return rank.status();
  rank_ = std::move(*rank);
  for (const auto &[name, value] : options_.scalars)
    setScalar(name, value);
  if (options_.rateSchedule) {
    const std::map<std::string, double> scalars =
        scalarsOf(options_, manifest_);
    for (const std::string &rate : manifest_.train().rates())
      baseRates_[rate] = scalars.at(rate);
  }
  setScalar(scalars::accumulationWeight.name, double(options_.microBatches()));
  return Status::ok();
}

/// Of a step, where --lr-schedule decides it: lr, else the first group's.
std::optional<double> Trainer::learningRateOf(int64_t step) const {
  if (baseRates_.empty())
    return std::nullopt;
  return baseRates_.at(manifest_.train().rates().front()) *
         options_.rateSchedule->ratioOf(step);
}

/// All learning rates of a step, where --lr-schedule decides them.
void Trainer::setRates(int64_t step) {
  for (const auto &[name, rate] : baseRates_)
    setScalar(name, rate * options_.rateSchedule->ratioOf(step));
}

/// In every program that has it.
void Trainer::setScalar(const std::string &name, double value) {
  for (size_t i = 0; i < manifest_.programs.size(); ++i)
    rank_->setScalar(i, name, value);
}

Status Trainer::loadState(std::vector<std::string> &remarks) {
  const ParameterSource source = sourceOf(options_);
  LoadNotes notes;
  Status status = start_.checkpoint
                      ? rank_->resume(*start_.checkpoint, &source, notes)
                      : rank_->loadParameters(source, notes);
  if (!start_.checkpoint && options_.params.empty())
    status = status.withContext("--init");
  if (status)
    return status;
  reports_->tell(notes.warnings);
  remarks.insert(remarks.end(), notes.remarks.begin(), notes.remarks.end());
  return Status::ok();
}

Status Trainer::startLoader(std::unique_ptr<BatchSource> source) {
  Result<std::unique_ptr<BatchLoader>> loader = BatchLoader::start(
      std::move(source), program_, 1, numBatches(), rank_->device());
  if (!loader.isOk())
    return loader.status();
  loader_ = std::move(*loader);
  return Status::ok();
}

Status Trainer::run() {
  Status status = prepare();
  if (!status && !start_.isDone)
    status = options_.evaluatesOnly() ? evaluateOnly() : loop();
  if (!status)
    return status;
  if (ranks_ && ranks_->failure())
    run_.record.setFailure(*ranks_->failure());
  else
    // Before the channels go: the others should hear why, not that this
    // rank is gone.
    host_.abort(status);
  // What was issued reads batches, whose memory goes first, and may wait for
  // ranks that will not come: the device ends it.
  if (rank_)
    rank_->endRuns();
  return status;
}

Status train(World &host, const TrainingRun &run) {
  // Beyond this function there is C, and threads that must not throw.
  try {
    return Trainer(host, run).run();
  } catch (const std::bad_alloc &) {
    return Status::failed("rank " + std::to_string(host.rank()) +
                          ": out of memory");
  } catch (const std::exception &error) {
    return Status::internal("rank " + std::to_string(host.rank()) + ": " +
                            error.what());
  }
}

} // namespace fsdp::rt
