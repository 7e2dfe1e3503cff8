//===- Descriptors.h - Descriptors of a double of cuDNN ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_CUDNN_DESCRIPTORS_H
#define FSDP_EMULATOR_LIBRARIES_CUDNN_DESCRIPTORS_H

#include "Evaluate.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::emulator::dnn {

/// cudnnStatus_t.
constexpr int success = 0, notInitialized = 1001, badParam = 2000,
              notFinalized = 2004, outOfBound = 2005, badType = 2010,
              notSupported = 3000, executionFailed = 5000;

/// Sets what cudnnGetLastErrorString says, and returns the status.
int fail(int status, const std::string &why);
const std::string &lastFailure();

/// What attributes of a descriptor hold: whole elements of a type.
struct Values {
  int type = 0;
  int64_t count = 0;
  std::vector<char> bytes;
};

struct Contents {
  int kind = 0;
  bool isFinal = false;
  std::map<int, Values> values;
  /// Of attributes that name others.
  std::map<int, std::vector<std::shared_ptr<Contents>>> named;
  /// Of an operation graph, once it is finalized.
  std::shared_ptr<const Graph> graph;
  /// Of a configuration: its engine and the value of its knob.
  int64_t engine = 0, knob = 0;

  template <typename T>
  T get(int attribute, T otherwise = T()) const {
    auto found = values.find(attribute);
    if (found == values.end())
      return otherwise;
    return *reinterpret_cast<const T *>(found->second.bytes.data());
  }
  std::shared_ptr<Contents> getNamed(int attribute) const {
    auto found = named.find(attribute);
    return found == named.end() ? nullptr : found->second.front();
  }
};

struct Descriptor {
  std::shared_ptr<Contents> contents = std::make_shared<Contents>();
};

/// Whether there are descriptors of this kind.
bool isKind(int kind);

/// Sets an attribute, of the type and number of elements that it has.
int setAttribute(Contents &contents, int attribute, int type, int64_t count,
                 const void *values);

/// What all kinds have to have, and what operations say of their tensors.
int finalize(Contents &contents);

} // namespace fsdp::emulator::dnn

#endif // FSDP_EMULATOR_LIBRARIES_CUDNN_DESCRIPTORS_H
