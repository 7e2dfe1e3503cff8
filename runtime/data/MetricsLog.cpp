//===- MetricsLog.cpp - Lines that a full disk does not lose --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/MetricsLog.h"

#include "data/File.h"
#include "data/Json.h"

#include <limits>
#include <optional>
#include <sys/stat.h>

namespace fsdp::rt::data {

namespace {

/// Lines that are kept for later; a line has less than 300 bytes.
constexpr size_t maxKept = 10'000;
/// A longer line is none of ours.
constexpr size_t maxLine = 1 << 16;

std::optional<int64_t> stepOfLine(const std::string &line) {
  Result<nlohmann::json> json = parseJson(line);
  if (!json.isOk() || !json->is_object())
    return std::nullopt;
  Status status;
  int64_t step = JsonReader(*json, status)["step"].integer(0);
  return status ? std::nullopt : std::optional<int64_t>(step);
}

bool isRegularFile(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

} // namespace

Result<int64_t> bytesUpTo(const std::string &path, int64_t step) {
  Result<File> file = File::openForReading(path);
  if (!file.isOk())
    return file.status();
  Result<int64_t> size = file->size();
  if (!size.isOk())
    return size.status();
  std::string line;
  std::string chunk;
  int64_t kept = 0; // ends after a line
  for (int64_t at = 0; at < *size; at += int64_t(chunk.size())) {
    chunk.resize(std::min<int64_t>(1 << 16, *size - at));
    if (Status s = file->readAt(at, chunk.data(), chunk.size()))
      return s;
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] != '\n') {
        if (line.size() < maxLine)
          line += chunk[i];
        continue;
      }
      std::optional<int64_t> of = stepOfLine(line);
      if (of && *of > step)
        return kept;
      kept = at + int64_t(i) + 1;
      line.clear();
    }
  }
  return kept;
}

Result<MetricsLog> MetricsLog::open(const std::string &path) {
  Result<LineFile> file = LineFile::open(path);
  if (!file.isOk())
    return file.status();
  MetricsLog log;
  log.file_ = std::move(*file);
  log.path_ = path;
  return log;
}

Status MetricsLog::beginAfter(int64_t step) {
  if (!isRegularFile(path_))
    return Status::ok();
  if (step == 0)
    return file_.cut(0);
  Result<int64_t> bytes = bytesUpTo(path_, step);
  return bytes.isOk() ? file_.cut(*bytes) : bytes.status();
}

Status MetricsLog::beginAtEnd() {
  return beginAfter(std::numeric_limits<int64_t>::max());
}

Status MetricsLog::append(const std::string &line) {
  kept_.push_back(line);
  Status status;
  while (!kept_.empty() && !status) {
    status = file_.append(kept_.front());
    if (!status)
      kept_.pop_front();
  }
  while (kept_.size() > maxKept) {
    kept_.pop_front();
    ++dropped_;
  }
  return status;
}

} // namespace fsdp::rt::data
