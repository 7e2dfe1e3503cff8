//===- Batches.cpp - The inputs of every batch ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Batches.h"

#include "data/File.h"
#include "data/Names.h"
#include "data/Numbers.h"
#include "data/RandomFill.h"
#include "data/Safetensors.h"

#include <algorithm>
#include <optional>

namespace fsdp::rt::data {

namespace {

bool endsWith(const std::string &text, std::string_view end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// What a message calls the values of an input.
bool holdsTokenIds(const Input &input) {
  return endsWith(input.name, "ids") || endsWith(input.name, "tokens");
}

class StoredBatches : public BatchSource {
public:
  StoredBatches(SafetensorsReader file, const Program &program, int rank,
                int ranks, DataOptions::Ranks which)
      : file_(std::move(file)), program_(program), rank_(rank), ranks_(ranks),
        which_(which) {}

  Status bind(std::vector<std::string> &notes) {
    std::vector<std::string> missing, unused;
    for (const Input &input : program_.inputs) {
      const TensorInfo *tensor = file_.find(input.name);
      tensors_.push_back(tensor);
      if (!tensor)
        missing.push_back(input.name);
      else if (Status s = check(input, *tensor))
        return s.withContext(file_.path() + ": '" + input.name + "'");
    }
    if (!missing.empty())
      return Status::failed(file_.path() +
                            ": expected a tensor for every input, got none "
                            "for " +
                            listNames(missing));
    if (Status s = checkTogether())
      return s.withContext(file_.path());
    for (const TensorInfo &tensor : file_.tensors())
      if (!program_.findInput(tensor.name))
        unused.push_back(tensor.name);
    if (!unused.empty())
      notes.push_back(file_.path() + ": not read, since the program has no " +
                      "such input: " + listNames(unused));
    if (tensors_.empty())
      return Status::ok();
    if (Status s = checkRanks(notes))
      return s.withContext(file_.path());
    return scan();
  }

  std::string kind() const override { return "safetensors"; }
  const char *unit() const override { return "rank batch"; }
  /// Batches of ranks that are not read count, too: they follow those that are.
  int64_t unitsOfBatch(int64_t ranks) const override {
    return tensors_.empty() || which_ == DataOptions::Ranks::All
               ? ranks
               : tensors_[0]->shape[1];
  }
  int64_t startAt(int64_t units) override {
    int64_t step = which_ == DataOptions::Ranks::All ? 1 : unitsOfBatch(ranks_);
    return before_ = (units / step + (units % step != 0)) * step;
  }

  std::optional<int64_t> rankBatches() const override {
    if (tensors_.empty() || which_ == DataOptions::Ranks::All)
      return tensors_.empty() ? ranks_ : stored();
    return tensors_[0]->shape[0] * ranks_;
  }

  std::vector<std::string> remarks(int64_t last) const override {
    std::vector<std::string> lines;
    if (tensors_.empty())
      return lines;
    int64_t ranks = tensors_[0]->shape[1], perBatch = unitsOfBatch(ranks_);
    int64_t batches = stored() / perBatch;
    if (ranks > ranks_ && which_ != DataOptions::Ranks::All)
      lines.push_back(file_.path() + ": has batches for " +
                      std::to_string(ranks) + " ranks; those of the first " +
                      std::to_string(ranks_) + " are read");
    if (scanned_ < ownShare_)
      lines.push_back(file_.path() + ": rank " + std::to_string(rank_) +
                      " has looked at the values of " +
                      std::to_string(scanned_) + " of its " +
                      std::to_string(ownShare_) +
                      " batches; it looks at the others as they are read");
    if (last + before_ / perBatch > batches)
      lines.push_back(file_.path() + ": has " + std::to_string(batches) +
                      (batches == 1 ? " batch" : " batches") +
                      " of each rank: batch " + std::to_string(batches + 1) +
                      " begins it again");
    return lines;
  }

  Status read(int64_t batch, char *const *dst) override {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      auto cell = static_cast<int64_t>(
          (before_ + static_cast<__int128>(batch - 1) * unitsOfBatch(ranks_) +
           rank_) %
          stored());
      if (Status s = readCell(i, cell, dst[i]))
        return s;
    }
    return Status::ok();
  }

private:
  /// Batches of one rank in the file.
  int64_t stored() const {
    return tensors_[0]->shape[0] * tensors_[0]->shape[1];
  }

  /// Batch `cell` of one rank, as they stand in the file.
  Status readCell(size_t i, int64_t cell, char *dst) const {
    const Input &input = program_.inputs[i];
    if (Status s =
            file_.read(*tensors_[i], cell * input.bytes(), dst, input.bytes()))
      return s;
    return isFloat(input.dtype) ? Status::ok() : checkValues(i, dst, cell);
  }

  /// This rank's share of what is read, or of scanBytes: cells of all bounded
  /// inputs, a chunk of each at a time. Cells of ranks that are not read are
  /// read over where they are between others, but not looked at.
  Status scan() {
    std::vector<std::vector<char>> values(program_.inputs.size());
    int64_t bytes = 0, largest = 0; // of a cell
    for (const Input &input : program_.inputs)
      if (!isFloat(input.dtype)) {
        bytes += input.bytes();
        largest = std::max(largest, input.bytes());
      }
    if (bytes == 0)
      return Status::ok();
    int64_t ranks = tensors_[0]->shape[1];
    int64_t width = which_ == DataOptions::Ranks::First
                        ? std::min<int64_t>(ranks, ranks_)
                        : ranks;
    int64_t all = tensors_[0]->shape[0] * width;
    int64_t next = all * rank_ / ranks_, end = all * (rank_ + 1) / ranks_;
    ownShare_ = end - next;
    const int64_t atOnce = std::max<int64_t>(1, scanChunkBytes / largest);
    auto placeOf = [&](int64_t cell) {
      return cell / width * ranks + cell % width;
    };
    for (int64_t left = scanBytes / ranks_; next < end && left > 0;) {
      int64_t first = placeOf(next);
      int64_t count = std::min(atOnce, placeOf(end - 1) + 1 - first);
      for (size_t i = 0; i < values.size(); ++i) {
        const Input &input = program_.inputs[i];
        if (isFloat(input.dtype))
          continue;
        values[i].resize(size_t(count * input.bytes()));
        if (Status s = file_.read(*tensors_[i], first * input.bytes(),
                                  values[i].data(), count * input.bytes()))
          return s;
      }
      for (; next < end && placeOf(next) < first + count; ++next, ++scanned_)
        for (size_t i = 0; i < values.size(); ++i)
          if (!values[i].empty())
            if (Status s = checkValues(i,
                                       values[i].data() +
                                           (placeOf(next) - first) *
                                               program_.inputs[i].bytes(),
                                       placeOf(next)))
              return s;
      left -= count * bytes;
    }
    return Status::ok();
  }

  /// Where the file's second dimension is not the number of ranks, and no
  /// choice was made, the first ranks' are read if that leaves none without.
  Status checkRanks(std::vector<std::string> &notes) {
    int64_t ranks = tensors_[0]->shape[1];
    if (ranks == ranks_ || which_ == DataOptions::Ranks::All ||
        (ranks > ranks_ && which_ == DataOptions::Ranks::First))
      return Status::ok();
    std::string got = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
    if (ranks < ranks_)
      return Status::failed("expected batches for at least " +
                            std::to_string(ranks_) + " ranks, got those for " +
                            got + ": --data-ranks all reads them all in turn");
    notes.push_back(file_.path() + ": expected batches for " +
                    std::to_string(ranks_) +
                    (ranks_ == 1 ? " rank" : " ranks") + ", got those for " +
                    got + ": those of the first " + std::to_string(ranks_) +
                    " are read alone; --data-ranks all reads them all in turn, "
                    "--data-ranks first says that this is meant");
    which_ = DataOptions::Ranks::First;
    return Status::ok();
  }

  static Status check(const Input &input, const TensorInfo &tensor) {
    const Shape &shape = tensor.shape;
    if (shape.size() != input.shape.size() + 2 ||
        !std::equal(input.shape.begin(), input.shape.end(), shape.begin() + 2))
      return Status::failed("expected shape [batches, ranks] and then " +
                            toString(input.shape) + ", got " + toString(shape));
    if (tensor.dtype != input.dtype)
      return Status::failed(std::string("expected ") + dtypeName(input.dtype) +
                            ", got " + tensor.dtypeName);
    if (shape[0] < 1)
      return Status::failed("expected at least 1 batch, got 0");
    if (shape[1] < 1)
      return Status::failed("expected batches for at least 1 rank, got 0");
    return Status::ok();
  }

  /// A batch is the same row of every input.
  Status checkTogether() const {
    for (size_t i = 1; i < tensors_.size(); ++i)
      for (auto [axis, what] :
           {std::pair(0, "batches"), std::pair(1, "ranks")}) {
        const TensorInfo &first = *tensors_[0], &other = *tensors_[i];
        if (other.shape[axis] != first.shape[axis])
          return Status::failed(
              std::string("expected as many ") + what +
              " for every input, got " + std::to_string(first.shape[axis]) +
              " for '" + first.name + "' and " +
              std::to_string(other.shape[axis]) + " for '" + other.name + "'");
      }
    return Status::ok();
  }

  Status checkValues(size_t index, const char *data, int64_t cell) const {
    const Input &input = program_.inputs[index];
    int64_t ranks = tensors_[index]->shape[1];
    int64_t size = dtypeSize(input.dtype);
    for (int64_t i = 0; i < input.numel; ++i) {
      int64_t value = loadInteger(input.dtype, data + i * size);
      if (isInBounds(input, value))
        continue;
      bool isId = holdsTokenIds(input);
      return Status::failed(
          file_.path() + ": " + (isId ? "token id " : "value ") +
          std::to_string(value) + " of " + input.name + " in batch " +
          std::to_string(cell / ranks + 1) + ", rank " +
          std::to_string(cell % ranks) + ", element " + std::to_string(i) +
          ": expected " + describeBounds(input, isId ? "id" : "value"));
    }
    return Status::ok();
  }

  SafetensorsReader file_;
  const Program &program_;
  int rank_, ranks_;
  DataOptions::Ranks which_;
  int64_t before_ = 0;                 // batches of one rank
  int64_t scanned_ = 0, ownShare_ = 0; // likewise
  std::vector<const TensorInfo *> tensors_;
};

class RandomBatches : public BatchSource {
public:
  RandomBatches(uint64_t seed, const Program &program, int rank)
      : seed_(seed), program_(program), rank_(rank) {}

  Status check() const {
    for (const Input &input : program_.inputs)
      if (isInteger(input.dtype) && !input.draw && (!input.low || !input.high))
        return Status::failed("expected bounds for input '" + input.name +
                              "' to draw from, got " +
                              describeBounds(input, "value"));
    return Status::ok();
  }

  std::string kind() const override {
    return "random:seed=" + std::to_string(seed_);
  }
  const char *unit() const override { return "batch"; }
  int64_t unitsOfBatch(int64_t) const override { return 1; }
  int64_t startAt(int64_t units) override { return before_ = units; }

  Status read(int64_t batch, char *const *dst) override {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const Input &input = program_.inputs[i];
      // Not the parameters' streams, even where the seeds are equal.
      uint64_t hash = stableHash(input.name, stableHash("input:"));
      for (int64_t part : {before_ + batch, int64_t(rank_)})
        hash = stableHash({reinterpret_cast<const char *>(&part), sizeof part},
                          hash);
      RandomStream stream(seed_, hash);
      if (isFloat(input.dtype))
        fillNormal(stream, 0, 1, input.dtype, 0, input.numel, dst[i]);
      else
        drawIntegers(stream, input, dst[i]);
    }
    return Status::ok();
  }

private:
  static void drawIntegers(RandomStream &stream, const Input &input,
                           char *dst) {
    auto [low, high] = input.draw.value_or(
        std::pair(input.low.value_or(0), input.high.value_or(2)));
    fillIntegers(stream, low, high, input.dtype, 0, input.numel, dst);
  }

  uint64_t seed_;
  const Program &program_;
  int rank_;
  int64_t before_ = 0; // batches of all ranks
};

constexpr std::string_view randomPrefix = "random:";

/// Whether a file begins as a safetensors file does: the length of a header,
/// and the header's brace. No text does, in which the length's upper bytes
/// would be zeros.
Result<bool> looksLikeSafetensors(const std::string &path) {
  Result<File> file = File::openForReading(path);
  if (!file.isOk())
    return file.status();
  Result<int64_t> size = file->size();
  if (!size.isOk())
    return size.status();
  uint64_t headerBytes = 0;
  char brace = 0;
  if (*size < int64_t(sizeof headerBytes + sizeof brace))
    return false;
  if (Status s = file->readAt(0, &headerBytes, sizeof headerBytes))
    return s;
  if (Status s = file->readAt(sizeof headerBytes, &brace, sizeof brace))
    return s;
  return headerBytes <= uint64_t(SafetensorsReader::maxHeaderBytes) &&
         brace == '{';
}

/// The file, where `path` is to be read as tensors by name: by its suffix, or
/// by what it holds.
Result<std::optional<SafetensorsReader>> openTensors(const std::string &path) {
  bool isNamed = endsWith(path, ".safetensors");
  if (!isNamed) {
    Result<bool> looksSo = looksLikeSafetensors(path);
    if (!looksSo.isOk())
      return looksSo.status();
    if (!*looksSo)
      return std::optional<SafetensorsReader>();
  }
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  if (file.isOk())
    return std::optional<SafetensorsReader>(std::move(*file));
  // A few 16-bit tokens may look like the beginning of one by chance.
  if (endsWith(path, ".bin"))
    return std::optional<SafetensorsReader>();
  return isNamed ? file.status()
                 : Status::failed(file.status().message() +
                                  " (it begins like a safetensors file, not "
                                  "like text)");
}

} // namespace

static std::string describeRange(std::optional<int64_t> low,
                                 std::optional<int64_t> high,
                                 const char *what) {
  return (low ? std::to_string(*low) + " <= " : "") + what +
         (high ? " < " + std::to_string(*high) : "");
}

/// ", or -100", or nothing.
static std::string describeAllowed(const Input &input) {
  std::string text;
  for (int64_t value : input.allowed)
    text += ", or " + std::to_string(value);
  return text;
}

static bool isAllowed(const Input &input, int64_t value) {
  return std::find(input.allowed.begin(), input.allowed.end(), value) !=
         input.allowed.end();
}

std::string findUnusualValue(const Program &program,
                             const char *const *inputs) {
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const Input &input = program.inputs[k];
    // Where both bounds are known the batch was held against them.
    if (!isInteger(input.dtype) || !input.draw || (input.low && input.high))
      continue;
    auto [low, high] = *input.draw;
    int64_t size = dtypeSize(input.dtype);
    for (int64_t i = 0; i < input.numel; ++i) {
      int64_t value = loadInteger(input.dtype, inputs[k] + i * size);
      if ((value >= low && value < high) || isAllowed(input, value))
        continue;
      return "input '" + input.name + "' holds " + std::to_string(value) +
             " in element " + std::to_string(i) + ", outside of " +
             describeRange(low, high, "value") + describeAllowed(input);
    }
  }
  return "";
}

int64_t countAllowed(const Program &program, const char *const *inputs) {
  int64_t count = 0;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const Input &input = program.inputs[k];
    if (input.allowed.empty())
      continue;
    const int64_t size = dtypeSize(input.dtype);
    for (int64_t i = 0; i < input.numel; ++i) {
      int64_t value = loadInteger(input.dtype, inputs[k] + i * size);
      count += !isBetweenBounds(input, value) && isAllowed(input, value);
    }
  }
  return count;
}

std::optional<DataOptions::Ranks> ranksFromName(const std::string &name) {
  for (DataOptions::Ranks ranks :
       {DataOptions::Ranks::First, DataOptions::Ranks::All})
    if (nameOf(ranks) == name)
      return ranks;
  return std::nullopt;
}

std::string nameOf(DataOptions::Ranks ranks) {
  if (ranks == DataOptions::Ranks::Equal)
    return "";
  return ranks == DataOptions::Ranks::First ? "first" : "all";
}

Status checkUsed(const DataOptions &options,
                 const std::vector<std::string> &kinds) {
  auto has = [&](const char *end) {
    return std::any_of(
        kinds.begin(), kinds.end(),
        [&](const std::string &kind) { return endsWith(kind, end); });
  };
  std::string got = ", got " + listNames(kinds);
  if (options.ranks != DataOptions::Ranks::Equal && !has("safetensors"))
    return Status::failed("--data-ranks: expected a safetensors file" + got);
  if (options.tokenBits != 0 && !has("-bit tokens"))
    return Status::failed("--token-bits: expected a file of tokens, FILE.bin" +
                          got);
  return Status::ok();
}

std::string describeBounds(const Input &input, const char *what) {
  if (!input.low && !input.high)
    return std::string("a ") + what + " that " + dtypeName(input.dtype) +
           " holds";
  return describeRange(input.low, input.high, what) + describeAllowed(input);
}

bool isInBounds(const Input &input, int64_t value) {
  return isBetweenBounds(input, value) || isAllowed(input, value);
}

bool isBetweenBounds(const Input &input, int64_t value) {
  return value >= std::max(input.low.value_or(minOf(input.dtype)),
                           minOf(input.dtype)) &&
         (!input.high || value < *input.high) && value <= maxOf(input.dtype);
}

Result<std::unique_ptr<BatchSource>>
openBatches(const std::string &spec, const Program &program, int rank,
            int ranks, std::vector<std::string> &notes,
            const DataOptions &options) {
  if (spec.compare(0, randomPrefix.size(), randomPrefix) == 0) {
    Result<uint64_t> seed = parseSeed(spec.substr(randomPrefix.size()));
    if (!seed.isOk())
      return seed.status().withContext("--data " + spec);
    auto source = std::make_unique<RandomBatches>(*seed, program, rank);
    if (Status s = source->check())
      return s.withContext("--data " + spec);
    return std::unique_ptr<BatchSource>(std::move(source));
  }
  Result<std::optional<SafetensorsReader>> tensors = openTensors(spec);
  if (!tensors.isOk())
    return tensors.status();
  if (*tensors) {
    auto source = std::make_unique<StoredBatches>(std::move(**tensors), program,
                                                  rank, ranks, options.ranks);
    if (Status s = source->bind(notes))
      return s;
    return std::unique_ptr<BatchSource>(std::move(source));
  }
  return openTokens(spec, !endsWith(spec, ".bin"), program, rank, ranks, notes,
                    options);
}

} // namespace fsdp::rt::data
