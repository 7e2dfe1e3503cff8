//===- FileKinds.cpp - What a file holds instead of text ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/FileKinds.h"

#include <algorithm>
#include <string_view>

namespace fsdp::rt::data {

namespace {

using namespace std::string_view_literals;

/// How many bytes of a file are looked at.
constexpr int64_t headBytes = 1 << 16;

struct Format {
  std::string_view begin;
  const char *name, *remedy;
};

constexpr const char *extractTexts = "write its texts to a file of text";
constexpr const char *decompress = "decompress it first";
constexpr const char *toUtf8 = "convert it to UTF-8, with iconv";
constexpr const char *saveBatches =
    "save batches with safetensors.torch.save_file, or tokens as 16-bit "
    "integers in FILE.bin";

/// The first that fits counts.
constexpr Format formats[] = {
    {"\xff\xfe\0\0"sv, "text in UTF-32", toUtf8},
    {"\0\0\xfe\xff"sv, "text in UTF-32", toUtf8},
    {"\xff\xfe"sv, "text in UTF-16", toUtf8},
    {"\xfe\xff"sv, "text in UTF-16", toUtf8},
    {"\x93NUMPY"sv, "a NumPy array (.npy)",
     "write its tokens with array.astype('uint16').tofile('FILE.bin')"},
    {"PK\x03\x04"sv, "a zip archive, as PyTorch and NumPy write (.pt, .npz)",
     saveBatches},
    {"\x80\x02"sv, "a pickle, as PyTorch writes (.pt)", saveBatches},
    {"\x80\x03"sv, "a pickle", saveBatches},
    {"\x80\x04"sv, "a pickle", saveBatches},
    {"\x80\x05"sv, "a pickle", saveBatches},
    {"PAR1"sv, "a Parquet file", extractTexts},
    {"ARROW1\0\0"sv, "an Arrow file", extractTexts},
    {"\xff\xff\xff\xff"sv, "an Arrow stream", extractTexts},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", saveBatches},
    {"SQLite format 3\0"sv, "an SQLite database", extractTexts},
    {"MMIDIDX\0\0"sv, "the index of a Megatron dataset",
     "give the .bin beside it"},
    {"\x1f\x8b"sv, "gzip data", decompress},
    {"\x28\xb5\x2f\xfd"sv, "zstd data", decompress},
    {"\xfd"
     "7zXZ\0"sv,
     "xz data", decompress},
    {"BZh91AY&SY"sv, "bzip2 data", decompress},
    {"%PDF-"sv, "a PDF document", extractTexts},
    {"\x7f"
     "ELF"sv,
     "a program", "give a file of text"},
    {"\x89PNG\r\n\x1a\n"sv, "a PNG image", "give a file of text"},
    {"\xff\xd8\xff"sv, "a JPEG image", "give a file of text"}};

/// Of token files alone: 256 integers of 32 bits, the first of them 20240520.
constexpr std::string_view llmcHeader = "\x88\xd8\x34\x01\x01\0\0\0"sv;

bool startsWith(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

const Format *findFormat(std::string_view head) {
  auto fits = [&](const Format &each) { return startsWith(head, each.begin); };
  const Format *found =
      std::find_if(std::begin(formats), std::end(formats), fits);
  return found == std::end(formats) ? nullptr : found;
}

Result<std::string> readHead(const File &file) {
  Result<int64_t> size = file.size();
  if (!size.isOk())
    return size.status();
  std::string head(size_t(std::min(*size, headBytes)), '\0');
  if (Status s = file.readAt(0, head.data(), int64_t(head.size())))
    return s;
  return head;
}

/// Whether the first line is an object of JSON, or the file the beginning of
/// one.
bool looksLikeJson(std::string_view head) {
  std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  return startsWith(line, "{\"") || line == "{" || line == "[" ||
         startsWith(line, "[{");
}

} // namespace

Status checkText(const File &file, std::vector<std::string> &notes) {
  Result<std::string> head = readHead(file);
  if (!head.isOk())
    return head.status();
  if (const Format *format = findFormat(*head))
    return Status::failed(file.path() + ": expected text in UTF-8, got " +
                          format->name + ": " + format->remedy);
  size_t zero = head->find('\0');
  if (zero != std::string::npos)
    notes.push_back(file.path() +
                    ": expected text, got a byte of 0 at offset " +
                    std::to_string(zero) +
                    ", which is trained on as a token (16-bit tokens are read "
                    "from files named .bin)");
  if (startsWith(*head, "\xef\xbb\xbf"))
    notes.push_back(file.path() + ": begins with UTF-8's byte order mark, "
                                  "whose 3 bytes are trained on as tokens");
  if (looksLikeJson(*head))
    notes.push_back(file.path() +
                    ": looks like JSON, whose keys and quotes "
                    "are trained on as text, too: " +
                    extractTexts + " to train on them alone");
  return Status::ok();
}

Status checkTokens(const File &file, std::vector<std::string> &notes) {
  Result<std::string> head = readHead(file);
  if (!head.isOk())
    return head.status();
  if (startsWith(*head, llmcHeader))
    notes.push_back(file.path() +
                    ": begins with llm.c's header of 1024 bytes, which is "
                    "trained on as tokens: cut it off with tail -c +1025");
  // Two bytes are too few to tell a format from tokens.
  const Format *format = findFormat(*head);
  if (format && format->begin.size() > 2)
    notes.push_back(file.path() + ": expected 16-bit tokens, got what begins " +
                    "like " + format->name + ": if it is one, " +
                    format->remedy);
  return Status::ok();
}

} // namespace fsdp::rt::data
