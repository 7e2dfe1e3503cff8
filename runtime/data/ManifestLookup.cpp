//===- ManifestLookup.cpp - Finding things in a manifest ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Manifest.h"

#include <algorithm>
#include <set>

namespace fsdp::rt::data {

namespace {

template <typename T>
const T *findByName(const std::vector<T> &list, std::string_view name) {
  for (const T &entry : list)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

} // namespace

int64_t numelOf(const Shape &shape) {
  int64_t numel = 1;
  for (int64_t extent : shape)
    numel *= extent;
  return numel;
}

std::string toString(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t Manifest::worldSize() const {
  int64_t ranks = 1;
  for (const MeshAxis &axis : mesh)
    ranks *= axis.size;
  return ranks;
}

const Program *Manifest::findKind(Program::Kind kind) const {
  for (const Program &program : programs)
    if (program.kind == kind)
      return &program;
  return nullptr;
}

const Program &Manifest::programOf(int64_t number, int64_t count) const {
  if (count == 1)
    return train();
  if (number == count)
    return *lastMicroBatch();
  return number == 1 && firstMicroBatch() ? *firstMicroBatch() : *microBatch();
}

const Program *Manifest::findProgram(std::string_view name) const {
  return findByName(programs, name);
}

int64_t Manifest::mostEvents() const {
  int64_t most = 0;
  for (const Program &program : programs)
    most = std::max(most, program.events);
  return most;
}

std::vector<int32_t> Manifest::allQueues() const {
  std::set<int32_t> all;
  for (const Program &program : programs)
    all.insert(program.queues.begin(), program.queues.end());
  return {all.begin(), all.end()};
}

const Input *Program::findInput(std::string_view name) const {
  return findByName(inputs, name);
}

std::vector<std::string> Program::rates() const {
  std::vector<std::string> names;
  for (const Scalar &scalar : this->scalars)
    if (scalar.name == data::scalars::learningRate.name)
      names.insert(names.begin(), scalar.name);
    else if (data::scalars::isRate(scalar.name))
      names.push_back(scalar.name);
  return names;
}

const Scalar *Program::findScalar(std::string_view name) const {
  return findByName(scalars, name);
}

const Output *Program::findOutput(std::string_view name) const {
  return findByName(outputs, name);
}

} // namespace fsdp::rt::data
