//===- CheckpointDigests.cpp - What was saved, byte for byte --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/CheckpointDigests.h"

#include "data/Json.h"
#include "data/Staging.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace fsdp::rt::data {

namespace {

/// What is digested is still in the cache when it is written.
constexpr int64_t chunkBytes = 1 << 18;

struct ExpectedRange {
  int64_t begin = 0, end = 0;
  std::string digest;
};

/// The ranges of one file in their order, which must leave no byte out.
std::vector<ExpectedRange> readRanges(const JsonReader &list,
                                      int64_t fileBytes) {
  std::vector<ExpectedRange> ranges;
  int64_t next = 0;
  list.forEach([&](const JsonReader &entry) {
    std::vector<int64_t> bounds;
    ExpectedRange range;
    entry.forEach([&](const JsonReader &word) {
      if (bounds.size() < 2)
        bounds.push_back(word.integer(0, fileBytes));
      else
        range.digest = word.nonEmptyString();
    });
    if (entry.failed())
      return;
    if (bounds.size() != 2 || entry.arraySize() != 3 || bounds[0] != next ||
        bounds[1] <= next)
      return entry.fail("expected [begin, end, digest] with begin " +
                        std::to_string(next) + " and a larger end");
    range.begin = bounds[0];
    range.end = next = bounds[1];
    ranges.push_back(std::move(range));
  });
  if (!list.failed() && next != fileBytes)
    list.fail("expected ranges up to byte " + std::to_string(fileBytes) +
              ", got none from byte " + std::to_string(next) + " on");
  return ranges;
}

Status checkRange(const DigestedFile &file, const ExpectedRange &range) {
  Digest digest;
  std::vector<char> chunk(std::min(chunkBytes, range.end - range.begin));
  for (int64_t at = range.begin; at < range.end; at += chunkBytes) {
    int64_t now = std::min(chunkBytes, range.end - at);
    if (Status s = file.reader->file().readAt(at, chunk.data(), now))
      return s;
    digest.add(chunk.data(), now);
  }
  if (toHex(digest.value()) == range.digest)
    return Status::ok();
  const TensorInfo *tensor = file.reader->findAt(range.begin);
  return Status::failed(
      file.reader->path() + ": " +
      (tensor ? "'" + tensor->name + "'" : std::string("the header")) +
      ": expected bytes " + std::to_string(range.begin) + " to " +
      std::to_string(range.end) +
      " of the file as they were saved, got "
      "others: the file was damaged, or is another checkpoint's; go on from an "
      "older checkpoint, by its own path");
}

} // namespace

Status RangeWriter::writeAt(int64_t offset, hal::Location src, int64_t bytes) {
  if (bytes == 0)
    return Status::ok();
  Digest digest;
  if (Status s = downloadElements(
          src, bytes, 1, [&](int64_t begin, int64_t now, const char *from) {
            digest.add(from, now);
            return file_.writeAt(offset + begin, from, now);
          }))
    return s;
  ranges_.push_back({index_, offset, offset + bytes, digest.value()});
  return Status::ok();
}

std::string packRanges(const std::vector<SavedRange> &ranges) {
  return std::string(reinterpret_cast<const char *>(ranges.data()),
                     ranges.size() * sizeof(SavedRange));
}

void unpackRanges(std::string_view packed, std::vector<SavedRange> &ranges) {
  size_t count = packed.size() / sizeof(SavedRange), old = ranges.size();
  ranges.resize(old + count);
  if (count > 0)
    std::memcpy(static_cast<void *>(ranges.data() + old), packed.data(),
                count * sizeof(SavedRange));
}

std::string digestsText(const std::vector<std::string> &names,
                        std::vector<SavedRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const SavedRange &a, const SavedRange &b) {
              return std::tie(a.file, a.begin) < std::tie(b.file, b.begin);
            });
  nlohmann::json files = nlohmann::json::object();
  for (const std::string &name : names)
    files[name] = nlohmann::json::array();
  for (const SavedRange &range : ranges)
    files[names[range.file]].push_back(
        {range.begin, range.end, toHex(range.digest)});
  return dumpJson(files) + "\n";
}

Status checkDigests(const std::string &text,
                    const std::vector<DigestedFile> &files, int64_t share,
                    int64_t shares) {
  Result<nlohmann::json> json = parseJson(text);
  if (!json.isOk())
    return json.status();
  Status status;
  JsonReader lists(*json, status);
  int64_t number = 0;
  for (const DigestedFile &file : files) {
    std::vector<ExpectedRange> ranges =
        readRanges(lists[file.name.c_str()], file.reader->fileBytes());
    if (status)
      return status;
    for (const ExpectedRange &range : ranges)
      if (number++ % shares == share)
        if (Status s = checkRange(file, range))
          return s;
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
