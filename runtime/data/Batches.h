//===- Batches.h - The inputs of every batch ---------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What --data names. A batch is a function of the source, the place where the
// run began in it, its number and the rank alone. A step takes one batch of
// each rank, or as many as it has micro-batches. Places are counted in the
// units of the source, which no number of ranks or micro-batches changes: a
// resumed run begins at the first that the run before did not take, and reads
// what an uninterrupted one would, on any number of ranks.
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
  /// Writes the inputs of `batch` (counted from 1 at the place of startAt):
  /// dst[i] takes the bytes of the program's input i. Every value is within the
  /// input's bounds.
  virtual Status read(int64_t batch, char *const *dst) = 0;
  /// What the batches are cut from, without its path: "text", "safetensors",
  /// "16-bit tokens", "random:seed=4".
  virtual std::string kind() const = 0;
  /// What places in the source are counted in: "token"; "rank batch", one of
  /// one rank in a file; "batch", one of all ranks, where they are drawn.
  virtual const char *unit() const = 0;
  /// Units that a batch of each of `ranks` ranks takes.
  virtual int64_t unitsOfBatch(int64_t ranks) const = 0;
  /// Batch 1 is from now on the first that begins after `units` units of the
  /// source, of which more than it has go around. Returns the units before that
  /// batch: `units`, or more where it lies within a sequence or a row of ranks.
  /// Without a call batch 1 begins at 0.
  virtual int64_t startAt(int64_t units) = 0;
  /// Batches of one rank until the source begins again, of all ranks together;
  /// nullopt where it never does.
  virtual std::optional<int64_t> rankBatches() const { return std::nullopt; }
  /// What of the source those leave out, "3 of 11 sequences"; empty: nothing.
  virtual std::string rest() const { return ""; }
  /// What the user of batches 1 to `last`, from the place of startAt on, may
  /// not expect and may well mean: that the source begins again, or holds
  /// batches of further ranks.
  virtual std::vector<std::string> remarks(int64_t /*last*/) const {
    return {};
  }
};

/// What users say of --data and --eval-data that the files do not.
struct DataOptions {
  /// Bits of a token in FILE.bin, 16 or 32; 0: those of its header, or 16.
  int64_t tokenBits = 0;
  /// Of a safetensors file whose second dimension is not the number of ranks:
  enum class Ranks {
    Equal, ///< refused where ranks would have none, else as First, and told
    First, ///< the batches of the first ranks are read, those of others not
    All    ///< all are read in turn, as they stand in the file
  };
  Ranks ranks = Ranks::Equal;
};

/// The choice called "first" or "all", and its name; empty of Equal.
std::optional<DataOptions::Ranks> ranksFromName(const std::string &name);
std::string nameOf(DataOptions::Ranks ranks);

/// That one of `kinds`, BatchSource::kind() of what was opened, is of the kind
/// of file that each of `options` is of.
Status checkUsed(const DataOptions &options,
                 const std::vector<std::string> &kinds);

/// Opens what `spec` names, for one of `ranks` ranks:
///   FILE.safetensors  tensors named like the inputs, with two leading
///                     dimensions: batch, which wraps around, and rank; both
///                     are equal for all inputs
///   FILE.bin          tokens, unsigned, little endian, of 16 bits, or of 32
///                     where llm.c's header or the options say so
///   random:seed=K     drawn from each input's range; floats from normal(0, 1)
///   any other file    text, whose bytes are the tokens
/// A safetensors file of any name is read as one: it begins with the length of
/// its header and a brace, as no text does. A .bin has to be one to its end.
/// Values out of the inputs' bounds are refused here: each rank looks at its
/// share of the file, or of scanBytes of it, and remarks() say how much that
/// was; what is read later is looked at then.
/// Token data is cut into windows of the inputs' sequence length, which wraps
/// around: from the first window on, row b of rank r's batch t, of `rows`,
/// takes window ((t - 1) * ranks + r) * rows + b, `shift` tokens further on.
/// `program` must outlive the source. Lines for the user to read are added to
/// `notes`.
Result<std::unique_ptr<BatchSource>>
openBatches(const std::string &spec, const Program &program, int rank,
            int ranks, std::vector<std::string> &notes,
            const DataOptions &options = {});

/// What all ranks together look at of a file when it is opened, and what one of
/// them reads at once.
constexpr int64_t scanBytes = int64_t(1) << 30, scanChunkBytes = 1 << 20;

/// "0 <= id < 1024, or -100", or what is known of it.
std::string describeBounds(const Input &input, const char *what);

/// Whether a value of an integer input or BOOL is within its bounds and dtype,
/// or one of those allowed beside them.
bool isInBounds(const Input &input, int64_t value);
/// Whether it is within the bounds and dtype themselves. So is then what is
/// between two such values.
bool isBetweenBounds(const Input &input, int64_t value);

/// What in a batch may be why a check of the step fails: the first value that
/// no use of an unbounded input is known to accept. Empty where there is none.
/// inputs[i] holds the values of the program's input i.
std::string findUnusualValue(const Program &program, const char *const *inputs);

/// How many elements of a batch are none of their input's bounds, but one of
/// the values that are allowed beside them, such as labels of -100.
int64_t countAllowed(const Program &program, const char *const *inputs);

/// Part of openBatches: the sources of token data.
Result<std::unique_ptr<BatchSource>>
openTokens(const std::string &path, bool isText, const Program &program,
           int rank, int ranks, std::vector<std::string> &notes,
           const DataOptions &options);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_BATCHES_H
