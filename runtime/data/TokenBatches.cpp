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
  TokenBatches(File file, int tokenBytes, const Program &program, int rank,
               int ranks)
      : file_(std::move(file)), tokenBytes_(tokenBytes), program_(program),
        rank_(rank), ranks_(ranks) {}

  Status bind(std::vector<std::string> &notes) {
    if (Status s = checkInputs())
      return s;
    if (Status s = tokenBytes_ == 1 ? checkText(file_, notes)
                                    : checkTokens(file_, notes))
      return s;
    Result<int64_t> bytes = file_.size();
    if (!bytes.isOk())
      return bytes.status();
    if (*bytes % tokenBytes_ != 0)
      return Status::failed(file_.path() +
                            ": expected 16-bit tokens, so an even size, got " +
                            std::to_string(*bytes) + " bytes");
    int64_t tokens = *bytes / tokenBytes_, maxShift = 0;
    for (const Input &input : program_.inputs)
      maxShift = std::max(maxShift, input.shift);
    // Windows stand side by side, so that an epoch sees every token once.
    windows_ = (tokens - std::min(tokens, maxShift)) / sequence_;
    if (windows_ < 1)
      return Status::failed(file_.path() + ": expected at least " +
                            std::to_string(sequence_ + maxShift) +
                            " tokens, a sequence and the largest shift, got " +
                            std::to_string(tokens));
    row_.resize(sequence_ * tokenBytes_);
    return Status::ok();
  }

  std::string kind() const override {
    return tokenBytes_ == 1 ? "text" : "16-bit tokens";
  }

  std::optional<int64_t> batches() const override {
    return windows_ / (rows_ * ranks_);
  }

  std::vector<std::string> remarks(int64_t last) const override {
    int64_t taken = rows_ * ranks_, batches = windows_ / taken;
    if (last <= batches)
      return {};
    return {file_.path() + ": has " + std::to_string(windows_) +
            " sequences; a batch of each rank takes " + std::to_string(taken) +
            ": batch " + std::to_string(batches + 1) +
            " goes on from its beginning"};
  }

  Status read(int64_t batch, char *const *dst) override {
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      for (int64_t b = 0; b < rows_; ++b) {
        auto window = static_cast<int64_t>(
            ((static_cast<__int128>(batch - 1) * ranks_ + rank_) * rows_ + b) %
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

  Status readRow(const Input &input, int64_t firstToken, char *dst) {
    int64_t offset = firstToken * tokenBytes_;
    if (Status s = file_.readAt(offset, row_.data(), row_.size()))
      return s;
    int64_t size = dtypeSize(input.dtype);
    for (int64_t k = 0; k < sequence_; ++k) {
      const unsigned char *at = row_.data() + k * tokenBytes_;
      int64_t token = tokenBytes_ == 1 ? at[0] : at[0] | at[1] << 8;
      if (!isInBounds(input, token))
        return Status::failed(
            file_.path() + ": token " + std::to_string(token) + " at byte " +
            std::to_string(offset + k * tokenBytes_) + ", for input '" +
            input.name + "': expected " + describeBounds(input, "token"));
      storeInteger(input.dtype, token, dst + k * size);
    }
    return Status::ok();
  }

  File file_;
  int tokenBytes_;
  const Program &program_;
  int rank_, ranks_;
  int64_t rows_ = 0, sequence_ = 0, windows_ = 0;
  std::vector<unsigned char> row_;
};

} // namespace

Result<std::unique_ptr<BatchSource>>
openTokens(const std::string &path, int tokenBytes, const Program &program,
           int rank, int ranks, std::vector<std::string> &notes) {
  Result<File> file = File::openForReading(path);
  if (!file.isOk())
    return file.status();
  auto source = std::make_unique<TokenBatches>(std::move(*file), tokenBytes,
                                               program, rank, ranks);
  if (Status s = source->bind(notes))
    return s;
  return std::unique_ptr<BatchSource>(std::move(source));
}

} // namespace fsdp::rt::data
