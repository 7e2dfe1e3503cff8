//===- FileKinds.cpp - What a file holds instead of text ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/FileKinds.h"

#include <algorithm>
#include <cstring>
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

/// What llm.c writes before tokens: 256 integers of 32 bits, of which these are
/// the first two, and the third is how many tokens.
struct TokenHeader {
  int32_t magic, version;
  int64_t tokenBytes;
};
constexpr TokenHeader tokenHeaders[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr int64_t tokenHeaderBytes = 1024;

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

/// The header that `head` begins with, and its number of tokens.
static const TokenHeader *findHeader(std::string_view head, int64_t &tokens) {
  int32_t numbers[3];
  if (int64_t(head.size()) < tokenHeaderBytes)
    return nullptr;
  std::memcpy(numbers, head.data(), sizeof numbers);
  for (const TokenHeader &header : tokenHeaders)
    if (numbers[0] == header.magic && numbers[1] == header.version) {
      tokens = numbers[2];
      return &header;
    }
  return nullptr;
}

/// Words of 32 bits below 2^16 are words of 16 bits of which every second is 0.
static Status checkWords(const File &file, std::string_view head,
                         std::vector<std::string> &notes) {
  constexpr size_t fewWords = 16; // below, chance
  size_t words = head.size() / 2, zeros = 0, odd = 0;
  for (size_t i = 0; i < words; ++i)
    if (head[2 * i] == 0 && head[2 * i + 1] == 0) {
      ++zeros;
      odd += i % 2;
    }
  if (words < fewWords || zeros < words / 2)
    return Status::ok();
  if (odd == words / 2 && zeros < words)
    return Status::failed(
        file.path() + ": expected 16-bit tokens, got a 0 in every second one, "
                      "as 32-bit tokens look: say --token-bits 32, or "
                      "--token-bits 16 if they are tokens");
  notes.push_back(file.path() + ": " + std::to_string(zeros) +
                  " of the first " + std::to_string(words) +
                  " 16-bit tokens are 0");
  return Status::ok();
}

Result<TokenLayout> findTokens(const File &file, int64_t bits, int64_t highest,
                               std::vector<std::string> &notes) {
  Result<std::string> head = readHead(file);
  if (!head.isOk())
    return head.status();
  Result<int64_t> size = file.size();
  if (!size.isOk())
    return size.status();
  TokenLayout layout;
  int64_t told = 0;
  const TokenHeader *header = findHeader(*head, told);
  if (header) {
    layout.begin = tokenHeaderBytes;
    layout.tokenBytes = header->tokenBytes;
    if (bits != 0 && bits != header->tokenBytes * 8)
      return Status::failed(file.path() + ": expected --token-bits " +
                            std::to_string(header->tokenBytes * 8) +
                            ", as its header says, got " +
                            std::to_string(bits));
  } else {
    layout.tokenBytes = bits == 0 ? 2 : bits / 8;
    if (bits == 0 && highest > 1 << 16)
      return Status::failed(
          file.path() +
          ": expected --token-bits 32, or 16, beside token ids "
          "up to " +
          std::to_string(highest - 1) +
          ", which 16 bits do not hold, got neither");
    if (bits == 0)
      if (Status s = checkWords(file, *head, notes))
        return s;
  }
  int64_t bytes = *size - layout.begin;
  if (bytes % layout.tokenBytes != 0)
    return Status::failed(
        file.path() + ": expected " + std::to_string(layout.tokenBytes * 8) +
        "-bit tokens, so " +
        (layout.tokenBytes == 2 ? "an even size" : "a multiple of 4") +
        ", got " + std::to_string(*size) + " bytes");
  layout.tokens = bytes / layout.tokenBytes;
  if (header && told != layout.tokens)
    return Status::failed(file.path() + ": expected " + std::to_string(told) +
                          " tokens, as its header says, got " +
                          std::to_string(layout.tokens));
  // Two bytes are too few to tell a format from tokens.
  const Format *format = findFormat(*head);
  if (format && format->begin.size() > 2)
    notes.push_back(file.path() + ": expected tokens, got what begins " +
                    "like " + format->name + ": if it is one, " +
                    format->remedy);
  return layout;
}

} // namespace fsdp::rt::data
