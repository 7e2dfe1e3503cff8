//===- Batches.h - The inputs of every batch ---------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What --data names. A batch is a function of the source, its number and the
// rank alone, so that a resumed run sees what an uninterrupted one would. A
// step takes one batch of each rank, or as many as it has micro-batches.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_BATCHES_H
#define FSDP_RT_DATA_BATCHES_H

#include "core/Status.h"
#include "data/Manifest.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// The batches of one rank. Used by one thread at a time.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  /// Writes the inputs of `batch` (counted from 1): dst[i] takes the bytes of
  /// the program's input i. Every value is within the input's bounds.
  virtual Status read(int64_t batch, char *const *dst) = 0;
  /// What the batches are cut from, without its path: "text", "safetensors",
  /// "16-bit tokens", "random:seed=4".
  virtual std::string kind() const = 0;
  /// Batches until the source begins again; nullopt where it never does.
  virtual std::optional<int64_t> batches() const { return std::nullopt; }
  /// What the user of batches 1 to `last` may not expect and may well mean:
  /// that the source begins again, or holds batches of further ranks.
  virtual std::vector<std::string> remarks(int64_t /*last*/) const {
    return {};
  }
};

/// Opens what `spec` names, for one of `ranks` ranks:
///   FILE.safetensors  tensors named like the inputs, with two leading
///                     dimensions: batch, which wraps around, and rank; both
///                     are equal for all inputs
///   FILE.bin          tokens, 16-bit, unsigned, little endian
///   random:seed=K     drawn from each input's range; floats from normal(0, 1)
///   any other file    text, whose bytes are the tokens
/// A safetensors file of any name is read as one: it begins with the length of
/// its header and a brace, as no text does. A .bin has to be one to its end.
/// Token data is cut into windows of the inputs' sequence length, which wraps
/// around: row b of rank r's batch t, of `rows`, takes window ((t - 1) * ranks
/// + r) * rows + b, `shift` tokens further on. `program` must outlive the
/// source. Lines for the user to read are added to `notes`.
Result<std::unique_ptr<BatchSource>>
openBatches(const std::string &spec, const Program &program, int rank,
            int ranks, std::vector<std::string> &notes);

/// "0 <= id < 1024, or -100", or what is known of it.
std::string describeBounds(const Input &input, const char *what);

/// Whether a value of an integer input or BOOL is within its bounds and dtype.
bool isInBounds(const Input &input, int64_t value);

/// What in a batch may be why a check of the step fails: the first value that
/// no use of an unbounded input is known to accept. Empty where there is none.
/// inputs[i] holds the values of the program's input i.
std::string findUnusualValue(const Program &program, const char *const *inputs);

/// Part of openBatches: the sources of token data. `tokenBytes` is 1 or 2.
Result<std::unique_ptr<BatchSource>>
openTokens(const std::string &path, int tokenBytes, const Program &program,
           int rank, int ranks, std::vector<std::string> &notes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_BATCHES_H
