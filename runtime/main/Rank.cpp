//===- Rank.cpp - One rank, its program and its state ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Rank.h"

#include "main/Main.h"

#include "data/CheckpointBase.h"
#include "data/Elements.h"
#include "data/Parameters.h"
#include "data/Sharding.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace fsdp::rt {

using namespace data;

/// "forward h.0" for each transfer that serves a unit.
static std::vector<std::string> unitsOf(const Program &program) {
  std::vector<std::string> units;
  if (!program.certificate)
    return units;
  for (const Certificate::Transfer &transfer : program.certificate->transfers)
    units.push_back(transfer.unit.empty()
                        ? ""
                        : (transfer.isBackward ? "backward " : "forward ") +
                              transfer.unit);
  return units;
}

Result<std::unique_ptr<Rank>> Rank::create(World &host, Consensus &ranks,
                                           const fsdp_rt_artifact &artifact,
                                           const Manifest &manifest,
                                           const RankOptions &options) {
  ExecutorOptions wanted;
  wanted.layout = layoutOf(manifest, host.rank());
  wanted.profile = options.profile;
  wanted.traceEvents = options.traceEvents;
  if (Status s = hal::checkLayout(wanted.layout, host.rank(), host.size()))
    return s;
  Result<std::unique_ptr<hal::Device>> device =
      options.device.device->create(host, {wanted.layout, options.device.target,
                                           options.threads, options.settings});
  if (!device.isOk())
    return device.status();
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(host, std::move(*device), wanted);
  if (!executor.isOk())
    return executor.status();
  std::unique_ptr<Rank> rank(
      new Rank(host, ranks, manifest, std::move(*executor), options.threads));
  for (uint32_t i = 0; i < artifact.program_count; ++i) {
    Result<std::unique_ptr<hal::Executable>> program = rank->executor_->load(
        artifact.programs[i], unitsOf(manifest.programs[i]));
    if (!program.isOk())
      return program.status().withContext(std::string("program '") +
                                          artifact.programs[i].name + "'");
    rank->programs_.push_back(std::move(*program));
  }
  return rank;
}

Rank::Rank(World &host, Consensus &ranks, const Manifest &manifest,
           std::unique_ptr<Executor> executor, int threads)
    : host_(host), ranks_(ranks), manifest_(manifest),
      executor_(std::move(executor)), threads_(threads) {
  for (const Program &program : manifest.programs) {
    std::vector<double> &scalars = scalars_.emplace_back();
    for (const Scalar &scalar : program.scalars)
      scalars.push_back(scalar.name == scalars::rank.name ||
                                scalar.name == scalars::randomRank.name
                            ? double(number())
                            : scalar.init.value_or(0));
  }
}

Status Rank::loadParameters(ParameterSource source, LoadNotes &notes) {
  source.threads = threads_;
  return ranks_.agree(
      data::loadParameters(manifest_, number(), source, memory(), notes));
}

Status Rank::resume(const CheckpointInfo &checkpoint,
                    const ParameterSource *base, LoadNotes &notes) {
  ParameterSource source;
  LeftOut leftOut;
  if (base) {
    source = *base;
    source.threads = threads_;
    leftOut.source = &source;
  }
  if (Status s = ranks_.agree(loadCheckpoint(checkpoint, manifest_, number(),
                                             memory(), leftOut, notes)))
    return s;
  if (!checkpoint.base)
    return Status::ok();
  Result<std::string> digest = digestOfBase(ranks_, leftOut.sum);
  if (!digest.isOk())
    return digest.status();
  if (*digest == *checkpoint.base)
    return Status::ok();
  return ranks_.agree(
      Status::failed(checkpoint.path +
                     ": expected the parameters and buffers that it leaves "
                     "out to be those of the run that saved it, of digest " +
                     *checkpoint.base + ", got others, of digest " + *digest));
}

void Rank::setScalar(size_t program, const std::string &name, double value) {
  const Program &owner = manifest_.programs[program];
  if (const Scalar *scalar = owner.findScalar(name))
    scalars_[program][scalar - owner.scalars.data()] = value;
}

Status Rank::issue(size_t program) {
  const Program &running = manifest_.programs[program];
  hal::RunRequest &request = executor_->next();
  // A program may use a scalar's place for something else once it is read.
  request.scalars.clear();
  for (size_t i = 0; i < running.scalars.size(); ++i) {
    const Scalar &scalar = running.scalars[i];
    hal::RunNumber &number = request.scalars.emplace_back();
    number.offset = scalar.offset;
    number.bytes = dtypeSize(scalar.dtype);
    storeNumber(scalar.dtype, scalars_[program][i], number.value);
  }
  request.results.clear();
  for (const char *name : {"loss", "loss_count", "grad_norm", "loss_scale"})
    if (const Output *output = running.findOutput(name);
        output && output->bytes() == dtypeSize(output->dtype)) {
      hal::RunNumber &number = request.results.emplace_back();
      number.offset = output->offset;
      number.bytes = output->bytes();
    }
  hal::Executable &code = *programs_[program];
  if (!running.traits().hasBackward)
    return executor_->issue(code, std::nullopt);
  const Scalar *accumulated = running.findScalar(scalars::accumulated.name);
  bool isFirst = !accumulated ||
                 scalars_[program][accumulated - running.scalars.data()] == 0;
  return executor_->issue(code, StepPart{isFirst, running.traits().updates});
}

Status Rank::run(size_t program) {
  if (Status s = issue(program))
    return s;
  return finish();
}

Status Rank::load(const Output &output, double &number) const {
  for (const hal::RunNumber &result : executor_->finished().results)
    if (result.offset == output.offset) {
      number = loadNumber(output.dtype, result.value);
      return Status::ok();
    }
  return Status::internal(
      "expected a number that the last run returned, got '" + output.name +
      "'");
}

Status Rank::addLoss(const Program &program, LossSum &sum) const {
  double loss = 0, count = 1;
  if (Status s = load(*program.findOutput("loss"), loss))
    return s;
  if (const Output *output = program.findOutput("loss_count"))
    if (Status s = load(*output, count))
      return s;
  sum.losses += loss;
  sum.count += count;
  return Status::ok();
}

Status Rank::pass(int root, hal::Location from, char *dst, int64_t bytes) {
  constexpr int64_t chunkBytes = 1 << 16;
  char chunk[chunkBytes];
  for (int64_t done = 0; done < bytes; done += chunkBytes) {
    int64_t now = std::min(chunkBytes, bytes - done);
    if (root == number())
      if (Status s = from.memory->download(from.offset + done, chunk, now))
        return s;
    if (Status s = ranks_.world().broadcast(chunk, chunk, now, root))
      return s;
    if (dst)
      std::memcpy(dst + done, chunk, now);
  }
  return Status::ok();
}

Status Rank::readTensor(const std::string &name, char *whole) {
  Result<NamedTensor> tensor = findTensor(manifest_, name);
  if (!tensor.isOk())
    return tensor.status();
  if (!tensor->flat)
    return pass(0, memory().at(*tensor->buffer), whole, tensor->bytes());

  const FlatParam &flat = *tensor->flat;
  hal::Location at = memory().at(flat);
  int64_t size = dtypeSize(flat.dtype);
  for (int root = 0; root < host_.size(); ++root) {
    if (!isFirstReplica(manifest_, root, flat.shardAxes))
      continue;
    for (const Piece &piece :
         piecesOf(flat, placeAlong(manifest_, root, flat.shardAxes)))
      if (piece.member == tensor->member)
        if (Status s = pass(root, at + piece.shardBegin * size,
                            whole ? whole + piece.memberBegin * size : nullptr,
                            piece.count * size))
          return s;
  }
  return Status::ok();
}

Status Rank::writeTensor(const std::string &name, const char *whole) {
  Result<NamedTensor> tensor = findTensor(manifest_, name);
  if (!tensor.isOk())
    return tensor.status();
  if (!tensor->flat)
    return device().upload(tensor->buffer->offset, whole, tensor->bytes());
  const FlatParam &flat = *tensor->flat;
  hal::Location at = memory().at(flat);
  int64_t size = dtypeSize(flat.dtype);
  for (const Piece &piece :
       piecesOf(flat, placeAlong(manifest_, number(), flat.shardAxes)))
    if (piece.member == tensor->member)
      if (Status s = at.memory->upload(at.offset + piece.shardBegin * size,
                                       whole + piece.memberBegin * size,
                                       piece.count * size))
        return s;
  return Status::ok();
}

int64_t NamedTensor::bytes() const {
  return numelOf(shape()) * dtypeSize(dtype());
}

Result<NamedTensor> findTensor(const Manifest &manifest,
                               const std::string &name) {
  NamedTensor found;
  for (const FlatParam &flat : manifest.flatParams)
    for (size_t m = 0; m < flat.members.size(); ++m) {
      const Member &member = flat.members[m];
      if (member.fqn != name &&
          std::find(member.tied.begin(), member.tied.end(), name) ==
              member.tied.end())
        continue;
      found.flat = &flat;
      found.member = m;
      return found;
    }
  for (const Buffer &buffer : manifest.buffers)
    if (buffer.fqn == name) {
      found.buffer = &buffer;
      return found;
    }
  return Status::failed("expected a parameter or buffer of the program, got '" +
                        name + "'");
}

} // namespace fsdp::rt
