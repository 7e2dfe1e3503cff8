//===- TokenBatches.cpp - Batches cut from a file of tokens ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Batches.h"
#include "data/File.h"
#include "data/FileKinds.h"

#include <algorithm>

namespace fsdp::rt::data {

namespace {

class TokenBatches : public BatchSource {
public:
  TokenBatches(File file, bool isText, const Program &program, int rank,
               int ranks)
      : file_(std::move(file)), isText_(isText), program_(program), rank_(rank),
        ranks_(ranks) {}

  Status bind(std::vector<std::string> &notes, int64_t tokenBits) {
    if (Status s = checkInputs())
      return s;
    Result<TokenLayout> layout =
        isText_ ? readText(notes)
                : findTokens(file_, tokenBits, highestId(), notes);
    if (!layout.isOk())
      return layout.status();
    layout_ = *layout;
    int64_t tokens = layout_.tokens, maxShift = 0;
    for (const Input &input : program_.inputs)
      maxShift = std::max(maxShift, input.shift);
    // Windows stand side by side, so that an epoch sees every token once.
    windows_ = (tokens - std::min(tokens, maxShift)) / sequence_;
    if (windows_ < 1)
      return Status::failed(file_.path() + ": expected at least " +
                            std::to_string(sequence_ + maxShift) +
                            " tokens, a sequence and the largest shift, got " +
                            std::to_string(tokens));
    row_.resize(sequence_ * layout_.tokenBytes);
    return scan(windows_ * sequence_ + maxShift);
  }

  std::string kind() const override {
    return isText_ ? "text"
                   : std::to_string(layout_.tokenBytes * 8) + "-bit tokens";
  }

  const char *unit() const override { return "token"; }
  int64_t unitsOfBatch(int64_t ranks) const override {
    return ranks * rows_ * sequence_;
  }
  int64_t startAt(int64_t units) override {
    firstWindow_ = units / sequence_ + (units % sequence_ != 0);
    return firstWindow_ * sequence_;
  }

  std::optional<int64_t> rankBatches() const override {
    return windows_ / rows_;
  }
  std::string rest() const override {
    int64_t left = windows_ % rows_;
    return left == 0 ? ""
                     : std::to_string(left) + " of " +
                           std::to_string(windows_) + " sequences";
  }

  std::vector<std::string> remarks(int64_t last) const override {
    std::vector<std::string> lines;
    if (scanned_ < ownShare_)
      lines.push_back(file_.path() + ": rank " + std::to_string(rank_) +
                      " has looked at " + std::to_string(scanned_) +
                      " of its " + std::to_string(ownShare_) +
                      " tokens; it looks at the others as they are read");
    int64_t taken = rows_ * ranks_, batches = windows_ / taken;
    if (last + firstWindow_ / taken > batches)
      lines.push_back(file_.path() + ": has " + std::to_string(windows_) +
                      " sequences; a batch of each rank takes " +
                      std::to_string(taken) + ": batch " +
                      std::to_string(batches + 1) +
                      " goes on from its beginning");
    return lines;
  }

  Status read(int64_t batch, char *const *dst) override {
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      for (int64_t b = 0; b < rows_; ++b) {
        auto window = static_cast<int64_t>(
            (firstWindow_ +
             (static_cast<__int128>(batch - 1) * ranks_ + rank_) * rows_ + b) %
            windows_);
        const Input &input = program_.inputs[i];
        int64_t rowBytes = sequence_ * dtypeSize(input.dtype);
        if (Status s = readRow(input, window * sequence_ + input.shift,
                               dst[i] + b * rowBytes))
          return s;
      }
    return Status::ok();
  }

private:
  Status checkInputs() {
    if (program_.inputs.empty())
      return Status::failed(file_.path() +
                            ": expected a program with inputs, got none");
    const Input &first = program_.inputs.front();
    for (const Input &input : program_.inputs) {
      std::string got = std::string(dtypeName(input.dtype)) + " " +
                        toString(input.shape) + " for '" + input.name + "'";
      if (!isInteger(input.dtype) || input.shape.size() != 2 ||
          input.numel == 0)
        return Status::failed(
            file_.path() +
            ": token data needs integer inputs [batch, sequence], got " + got);
      if (input.shape != first.shape)
        return Status::failed(file_.path() + ": token data needs inputs of " +
                              "one shape, got " + toString(first.shape) +
                              " for '" + first.name + "' and " + got);
      if (!input.isShiftKnown)
        return Status::failed(
            file_.path() + ": token data fills every input from the same " +
            "tokens, and nothing says how many tokens later '" + input.name +
            "' starts; export the step again and say it, 'fsdp-export "
            "--shift " +
            input.name + "=1' where it holds the next token and '--shift " +
            input.name + "=0' where it holds the same ones, or give a " +
            "safetensors file with a tensor for every input");
    }
    rows_ = first.shape[0];
    sequence_ = first.shape[1];
    return Status::ok();
  }

  Result<TokenLayout> readText(std::vector<std::string> &notes) const {
    if (Status s = checkText(file_, notes))
      return s;
    Result<int64_t> bytes = file_.size();
    if (!bytes.isOk())
      return bytes.status();
    return TokenLayout{0, 1, *bytes};
  }

  /// Ids of all inputs are below it, as far as that is known.
  int64_t highestId() const {
    int64_t highest = 0;
    for (const Input &input : program_.inputs) {
      highest = std::max(highest, input.high.value_or(0));
      if (input.draw)
        highest = std::max(highest, input.draw->second);
    }
    return highest;
  }

  int64_t tokenAt(const unsigned char *at) const {
    uint32_t token = 0;
    for (int64_t i = 0; i < layout_.tokenBytes; ++i)
      token |= uint32_t(at[i]) << (8 * i);
    return token;
  }

  Status refuse(const Input &input, int64_t token, int64_t place) const {
    return Status::failed(
        file_.path() + ": token " + std::to_string(token) + " at byte " +
        std::to_string(layout_.begin + place * layout_.tokenBytes) +
        ", for input '" + input.name + "': expected " +
        describeBounds(input, "token"));
  }

  /// This rank's share of the first `tokens`, each of which an input that it is
  /// for takes.
  Status scan(int64_t tokens) {
    int64_t begin = tokens / ranks_ * rank_;
    int64_t end = rank_ + 1 == ranks_ ? tokens : tokens / ranks_ * (rank_ + 1);
    ownShare_ = end - begin;
    scanned_ = std::min(ownShare_, scanBytes / ranks_ / layout_.tokenBytes);
    end = begin + scanned_;
    const int64_t chunk = scanChunkBytes / layout_.tokenBytes;
    std::vector<unsigned char> bytes(
        size_t(std::min(chunk, scanned_) * layout_.tokenBytes));
    for (; begin < end; begin += chunk) {
      int64_t now = std::min(chunk, end - begin);
      if (Status s =
              file_.readAt(layout_.begin + begin * layout_.tokenBytes,
                           bytes.data(), size_t(now * layout_.tokenBytes)))
        return s;
      if (Status s = checkTokens(bytes.data(), begin, now))
        return s;
    }
    return Status::ok();
  }

  /// `count` tokens of the file, from `begin` on.
  Status checkTokens(const unsigned char *bytes, int64_t begin,
                     int64_t count) const {
    int64_t low = maxOf(FSDP_RT_I64), high = 0;
    for (int64_t k = 0; k < count; ++k) {
      int64_t token = tokenAt(bytes + k * layout_.tokenBytes);
      low = std::min(low, token);
      high = std::max(high, token);
    }
    for (const Input &input : program_.inputs) {
      if (isBetweenBounds(input, low) && isBetweenBounds(input, high))
        continue;
      int64_t first = std::max(begin, input.shift);
      int64_t end = std::min(begin + count, windows_ * sequence_ + input.shift);
      for (int64_t place = first; place < end; ++place) {
        int64_t token = tokenAt(bytes + (place - begin) * layout_.tokenBytes);
        if (!isInBounds(input, token))
          return refuse(input, token, place);
      }
    }
    return Status::ok();
  }

  Status readRow(const Input &input, int64_t firstToken, char *dst) {
    if (Status s = file_.readAt(layout_.begin + firstToken * layout_.tokenBytes,
                                row_.data(), row_.size()))
      return s;
    int64_t size = dtypeSize(input.dtype);
    for (int64_t k = 0; k < sequence_; ++k) {
      int64_t token = tokenAt(row_.data() + k * layout_.tokenBytes);
      if (!isInBounds(input, token))
        return refuse(input, token, firstToken + k);
      storeInteger(input.dtype, token, dst + k * size);
    }
    return Status::ok();
  }

  File file_;
  bool isText_;
  TokenLayout layout_;
  const Program &program_;
  int rank_, ranks_;
  int64_t rows_ = 0, sequence_ = 0, windows_ = 0, firstWindow_ = 0;
  int64_t scanned_ = 0, ownShare_ = 0; // tokens
  std::vector<unsigned char> row_;
};

} // namespace

Result<std::unique_ptr<BatchSource>>
openTokens(const std::string &path, bool isText, const Program &program,
           int rank, int ranks, std::vector<std::string> &notes,
           const DataOptions &options) {
  Result<File> file = File::openForReading(path);
  if (!file.isOk())
    return file.status();
  auto source = std::make_unique<TokenBatches>(std::move(*file), isText,
                                               program, rank, ranks);
  if (Status s = source->bind(notes, options.tokenBits))
    return s;
  return std::unique_ptr<BatchSource>(std::move(source));
}

} // namespace fsdp::rt::data
