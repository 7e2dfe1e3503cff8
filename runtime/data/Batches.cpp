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
                int ranks)
      : file_(std::move(file)), program_(program), rank_(rank), ranks_(ranks) {}

  Status bind(std::vector<std::string> &notes) {
    std::vector<std::string> missing, unused;
    for (const Input &input : program_.inputs) {
      const TensorInfo *tensor = file_.find(input.name);
      tensors_.push_back(tensor);
      if (!tensor)
        missing.push_back(input.name);
      else if (Status s = check(input, *tensor, ranks_))
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
    return Status::ok();
  }

  std::string kind() const override { return "safetensors"; }

  std::optional<int64_t> batches() const override {
    return tensors_.empty() ? 1 : tensors_[0]->shape[0];
  }

  std::vector<std::string> remarks(int64_t last) const override {
    std::vector<std::string> lines;
    if (tensors_.empty())
      return lines;
    int64_t batches = tensors_[0]->shape[0], ranks = tensors_[0]->shape[1];
    if (ranks > ranks_)
      lines.push_back(file_.path() + ": has batches for " +
                      std::to_string(ranks) + " ranks; those of the first " +
                      std::to_string(ranks_) + " are read");
    if (last > batches)
      lines.push_back(file_.path() + ": has " + std::to_string(batches) +
                      (batches == 1 ? " batch" : " batches") +
                      " of each rank: batch " + std::to_string(batches + 1) +
                      " begins it again");
    return lines;
  }

  Status read(int64_t batch, char *const *dst) override {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Input &input = program_.inputs[i];
      const Shape &shape = tensors_[i]->shape;
      int64_t row = (batch - 1) % shape[0] * shape[1] + rank_;
      if (Status s = file_.read(*tensors_[i], row * input.bytes(), dst[i],
                                input.bytes()))
        return s;
      if (!isFloat(input.dtype))
        if (Status s = checkValues(input, dst[i], batch))
          return s;
    }
    return Status::ok();
  }

private:
  static Status check(const Input &input, const TensorInfo &tensor, int ranks) {
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
    if (shape[1] < ranks)
      return Status::failed("expected batches for at least " +
                            std::to_string(ranks) + " ranks, got " +
                            std::to_string(shape[1]));
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

  Status checkValues(const Input &input, const char *data,
                     int64_t batch) const {
    int64_t size = dtypeSize(input.dtype);
    for (int64_t i = 0; i < input.numel; ++i) {
      int64_t value = loadInteger(input.dtype, data + i * size);
      if (isInBounds(input, value))
        continue;
      bool isId = holdsTokenIds(input);
      return Status::failed(
          file_.path() + ": " + (isId ? "token id " : "value ") +
          std::to_string(value) + " of " + input.name + " in batch " +
          std::to_string(batch) + ", rank " + std::to_string(rank_) +
          ", element " + std::to_string(i) + ": expected " +
          describeBounds(input, isId ? "id" : "value"));
    }
    return Status::ok();
  }

  SafetensorsReader file_;
  const Program &program_;
  int rank_, ranks_;
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

  Status read(int64_t batch, char *const *dst) override {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const Input &input = program_.inputs[i];
      // Not the parameters' streams, even where the seeds are equal.
      uint64_t hash = stableHash(input.name, stableHash("input:"));
      for (int64_t part : {batch, int64_t(rank_)})
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

std::string describeBounds(const Input &input, const char *what) {
  if (!input.low && !input.high)
    return std::string("a ") + what + " that " + dtypeName(input.dtype) +
           " holds";
  return describeRange(input.low, input.high, what) + describeAllowed(input);
}

bool isInBounds(const Input &input, int64_t value) {
  if (isAllowed(input, value))
    return true;
  return value >= std::max(input.low.value_or(minOf(input.dtype)),
                           minOf(input.dtype)) &&
         (!input.high || value < *input.high) && value <= maxOf(input.dtype);
}

Result<std::unique_ptr<BatchSource>>
openBatches(const std::string &spec, const Program &program, int rank,
            int ranks, std::vector<std::string> &notes) {
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
                                                  rank, ranks);
    if (Status s = source->bind(notes))
      return s;
    return std::unique_ptr<BatchSource>(std::move(source));
  }
  return openTokens(spec, endsWith(spec, ".bin") ? 2 : 1, program, rank, ranks,
                    notes);
}

} // namespace fsdp::rt::data
