//===- TensorMatch.h - Wanted tensors against a file's -----------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_TENSORMATCH_H
#define FSDP_RT_DATA_TENSORMATCH_H

#include "core/Status.h"
#include "data/TensorFiles.h"
#include "hal/Memory.h"

#include <string>
#include <vector>

namespace fsdp::rt::data {

struct WantedTensor {
  std::string name;
  /// Further names under which the file may hold it, as well or instead.
  std::vector<std::string> aliases;
  Dtype dtype = FSDP_RT_F32;
  Shape shape;
  bool isOptional = false;
  /// It has an initialiser: a message about missing ones names --init.
  bool canBeDrawn = false;
};

/// What holds a wanted tensor; nothing for an absent optional one.
struct MatchedTensor {
  StoredTensor stored;
  /// Those under its further names, which must hold the same.
  std::vector<StoredTensor> tied;
};

/// For every wanted tensor the files'. They may hold nothing else. Refuses all
/// that is missing, unexpected, wanted under two names or of another shape or
/// dtype in one message with the names, and with the options that rename them
/// where they would do; with `cast`, any float dtype may stand for another.
Result<std::vector<MatchedTensor>>
matchTensors(const TensorFiles &files, const std::vector<WantedTensor> &wanted,
             bool cast);

/// Elements [begin, begin + count) of a stored tensor, converted to `dtype`
/// where it is stored in another one. BOOL elements other than 0 and 1 are
/// refused.
Status readElements(const StoredTensor &stored, Dtype dtype, int64_t begin,
                    int64_t count, char *dst);

/// The same of a matched tensor. Refuses values that differ between its names.
Status readElements(const MatchedTensor &matched, Dtype dtype, int64_t begin,
                    int64_t count, char *dst);

/// The same to a rank's memory.
Status uploadTensor(const MatchedTensor &matched, Dtype dtype, int64_t begin,
                    int64_t count, hal::Location dst);
Status uploadTensor(const StoredTensor &stored, Dtype dtype, int64_t begin,
                    int64_t count, hal::Location dst);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_TENSORMATCH_H
