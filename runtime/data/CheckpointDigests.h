//===- CheckpointDigests.h - What was saved, byte for byte ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rank digests what it writes, from its memory, while it writes. The
// ranges of all ranks cover every byte of a checkpoint's tensor files once and
// stand in digests.json: {"params.safetensors": [[begin, end, digest], ...]}.
// They depend on the mesh that saved and are checked on any other: the ranks
// of the run that goes on share them out.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINTDIGESTS_H
#define FSDP_RT_DATA_CHECKPOINTDIGESTS_H

#include "core/Status.h"
#include "data/Digest.h"
#include "data/File.h"
#include "data/Safetensors.h"
#include "hal/Memory.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::rt::data {

/// Bytes [begin, end) of a file of a checkpoint.
struct SavedRange {
  int64_t file = 0; // in the order of the checkpoint's files
  int64_t begin = 0, end = 0;
  DigestValue digest;
};

/// Writes into one file and adds a range for every call to a list.
class RangeWriter {
public:
  RangeWriter(const File &file, int64_t index, std::vector<SavedRange> &ranges)
      : file_(file), index_(index), ranges_(ranges) {}
  Status writeAt(int64_t offset, hal::Location src, int64_t bytes);

private:
  const File &file_;
  int64_t index_;
  std::vector<SavedRange> &ranges_;
};

/// The bytes that carry ranges to another rank of the same run.
std::string packRanges(const std::vector<SavedRange> &ranges);
void unpackRanges(std::string_view packed, std::vector<SavedRange> &ranges);

/// The text of digests.json; `names` are the files'.
std::string digestsText(const std::vector<std::string> &names,
                        std::vector<SavedRange> ranges);

/// A tensor file of a checkpoint, by its name there.
struct DigestedFile {
  std::string name;
  const SafetensorsReader *reader;
};

/// Reads the ranges of number `share` modulo `shares` and compares them with
/// `text`, which is digests.json. Refuses one whose ranges leave a byte out,
/// and names the file and the tensor of a range that is not what was saved.
Status checkDigests(const std::string &text,
                    const std::vector<DigestedFile> &files, int64_t share,
                    int64_t shares);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINTDIGESTS_H
