//===- InputFile.cpp - Texts, compressed or not ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/InputFile.h"
#include "fsdp/Support/PrintableText.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"

#include <zlib.h>

using namespace mlir::fsdp;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

static constexpr size_t kChunk = 1 << 20;

static llvm::Error refuseSize(StringRef name, int64_t limit, StringRef when) {
  return llvm::createStringError(
      "expected at most " + std::to_string(limit) + " bytes in " + name + when +
      ", got more; --input-limit sets another limit");
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

using Buffer = std::unique_ptr<llvm::MemoryBuffer>;

/// A pipe or a device, which may never end.
static llvm::Expected<Buffer> readStream(fs::file_t stream, StringRef name,
                                         int64_t limit) {
  llvm::SmallVector<char, 0> bytes;
  for (;;) {
    size_t size = bytes.size();
    bytes.resize_for_overwrite(size + kChunk);
    auto count = fs::readNativeFile(
        stream, llvm::MutableArrayRef<char>(bytes).drop_front(size));
    if (!count)
      return llvm::createStringError("expected to read " + name + ", got " +
                                     llvm::toString(count.takeError()));
    bytes.truncate(size + *count);
    if (*count == 0)
      return llvm::MemoryBuffer::getMemBufferCopy(
          StringRef(bytes.data(), bytes.size()), name);
    if (int64_t(bytes.size()) > limit)
      return refuseSize(name, limit, "");
  }
}

static llvm::Expected<Buffer> readFile(StringRef file, StringRef name,
                                       int64_t limit) {
  if (file == "-")
    return readStream(fs::getStdinHandle(), name, limit);
  auto cannotRead = [&](std::error_code error) {
    return llvm::createStringError("expected to read " + name + ", got " +
                                   error.message());
  };
  auto handle = fs::openNativeFileForRead(file);
  if (!handle)
    return cannotRead(llvm::errorToErrorCode(handle.takeError()));
  llvm::scope_exit close([&] { fs::closeFile(*handle); });
  fs::file_status status;
  if (std::error_code error = fs::status(*handle, status))
    return cannotRead(error);
  if (fs::is_directory(status))
    return cannotRead(std::make_error_code(std::errc::is_a_directory));
  if (!fs::is_regular_file(status))
    return readStream(*handle, name, limit);
  if (status.getSize() > uint64_t(limit))
    return refuseSize(name, limit, "");
  auto buffer =
      llvm::MemoryBuffer::getOpenFile(*handle, name, status.getSize());
  if (!buffer)
    return cannotRead(buffer.getError());
  return std::move(*buffer);
}

/// A gzip file is one or more members, one after the other.
static llvm::Expected<Buffer> decompress(llvm::MemoryBuffer &compressed,
                                         int64_t limit) {
  StringRef name = compressed.getBufferIdentifier();
  z_stream stream = {};
  // 15: the largest window; 16: expect a gzip header.
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    return llvm::createStringError("expected zlib to start, got an error");
  llvm::scope_exit end([&] { inflateEnd(&stream); });
  StringRef bytes = compressed.getBuffer();
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = bytes.size();
  llvm::SmallVector<char, 0> text;
  int code;
  do {
    size_t size = text.size();
    text.resize_for_overwrite(size + kChunk);
    stream.next_out = reinterpret_cast<Bytef *>(&text[size]);
    stream.avail_out = kChunk;
    code = inflate(&stream, Z_NO_FLUSH);
    text.truncate(size + kChunk - stream.avail_out);
    if (int64_t(text.size()) > limit)
      return refuseSize(name, limit, " once it is decompressed");
    if (code == Z_STREAM_END && stream.avail_in > 0)
      code = inflateReset(&stream);
  } while (code == Z_OK);
  if (code != Z_STREAM_END)
    return llvm::createStringError(
        "expected a whole gzip file, got a broken one: " + name);
  return llvm::MemoryBuffer::getMemBufferCopy(
      StringRef(text.data(), text.size()), name);
}

llvm::Expected<Buffer> mlir::fsdp::readInputFile(StringRef file,
                                                 int64_t limit) {
  std::string name = file == "-" ? "<stdin>" : makePrintable(file);
  auto buffer = readFile(file, name, limit);
  if (buffer && (*buffer)->getBuffer().starts_with("\x1f\x8b"))
    buffer = decompress(**buffer, limit);
  if (!buffer)
    return buffer;
  if (llvm::Error error = checkText(**buffer))
    return error;
  return buffer;
}

//===----------------------------------------------------------------------===//
// Scanning
//===----------------------------------------------------------------------===//

/// The parser takes a few kilobytes of the stack for an op in an op, and less
/// for other things. Traced steps are less than 20 deep.
static constexpr int64_t kMostDepth = 500;
/// PyTorch's tensors have at most 64 dimensions.
static constexpr int64_t kMostRank = 256;

namespace {
class Scanner {
public:
  explicit Scanner(StringRef text) : next(text.begin()), end(text.end()) {}
  TextScan run();

private:
  void skipComment() {
    while (next != end && *next != '\n')
      ++next;
  }
  void skipSpace();
  StringRef takeString();
  void takeWord();
  void open(char bracket);
  void close(char bracket);
  int64_t takeShape();
  void checkIterator();
  void fail(const llvm::Twine &fault) {
    if (scan.fault.empty()) {
      scan.fault = fault.str();
      scan.faultLine = line;
    }
  }

  const char *next, *end;
  int64_t line = 1;
  /// Of words, the last one; empty where anything stands after it but what may
  /// be between it and what it is of.
  StringRef word;
  llvm::SmallVector<char, 64> opened;
  /// Where the loops of an op are listed, how many brackets are open.
  size_t iterators = 0;
  /// The same, in the attributes of a linalg.generic that is written so.
  size_t pretty = 0;
  TextScan scan;
};
} // namespace

void Scanner::skipSpace() {
  for (; next != end; ++next) {
    if (*next == '\n')
      ++line;
    else if (*next == '/' && next + 1 != end && next[1] == '/') {
      skipComment();
      --next;
    } else if (*next != ' ' && *next != '\t' && *next != '\r')
      return;
  }
}

/// From after the quote that begins it. A string ends at its line's end at
/// the latest, where the parser refuses it.
StringRef Scanner::takeString() {
  const char *begin = next;
  while (next != end && *next != '"' && *next != '\n') {
    if (*next == '\\' && next + 1 != end && next[1] != '\n')
      ++next;
    ++next;
  }
  StringRef text(begin, next - begin);
  if (next != end && *next == '"')
    ++next;
  return text;
}

static bool isWord(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
}

/// From its first character on.
void Scanner::takeWord() {
  const char *begin = next;
  while (next != end && isWord(*next))
    ++next;
  word = StringRef(begin, next - begin);
}

void Scanner::open(char bracket) {
  opened.push_back(bracket);
  if (int64_t(opened.size()) > scan.depth) {
    scan.depth = opened.size();
    scan.deepLine = line;
  }
}

/// What compares (`<=`, `>=`) is written with `<` and `>`, too: one of them
/// closes only its like, and goes with what is around it.
void Scanner::close(char bracket) {
  if (bracket == '<') {
    if (!opened.empty() && opened.back() == '<')
      opened.pop_back();
    return;
  }
  while (!opened.empty() && opened.back() == '<')
    opened.pop_back();
  if (!opened.empty() && opened.back() == bracket)
    opened.pop_back();
}

/// How many numbers and question marks come after `<`, with `x` between them.
int64_t Scanner::takeShape() {
  int64_t rank = 0;
  for (skipSpace(); next != end; skipSpace()) {
    if (llvm::isDigit(*next)) {
      while (next != end && llvm::isDigit(*next))
        ++next;
      ++rank;
    } else if (*next == '?') {
      ++next;
      ++rank;
    } else if (*next == 'x') {
      ++next;
    } else {
      break;
    }
  }
  if (rank > scan.rank) {
    scan.rank = rank;
    scan.rankLine = line;
  }
  return rank;
}

/// Whether elements of `array<word: ..>` can be such: integers and floats.
static bool isNumberType(StringRef type) {
  if (type == "bf16" || type == "tf32")
    return true;
  if (type.starts_with("si") || type.starts_with("ui"))
    type = type.drop_front();
  unsigned width;
  StringRef digits = type.drop_front().take_while(llvm::isDigit);
  return (type.front() == 'i' && digits.size() + 1 == type.size() &&
          !digits.getAsInteger(10, width) && width > 0) ||
         (type.front() == 'f' && !digits.empty());
}

/// What stands in the list of loops: strings, or in an op's generic form
/// attributes.
void Scanner::checkIterator() {
  static constexpr StringRef kKinds[] = {"\"parallel\"", "\"reduction\"",
                                         "\"window\""};
  StringRef rest(next, end - next);
  if (rest.starts_with(",") || rest.starts_with("]") ||
      llvm::any_of(kKinds,
                   [&](StringRef kind) { return rest.starts_with(kind); }))
    return;
  if (!pretty && rest.consume_front("#linalg.iterator_type")) {
    next = rest.begin();
    return;
  }
  fail("expected parallel, reduction or window among iterator_types, got '" +
       makePrintable(rest.take_front(40).take_until(
           [](char c) { return c == ',' || c == ']' || c == '\n'; })) +
       "'");
}

TextScan Scanner::run() {
  for (skipSpace(); next != end; skipSpace()) {
    if (iterators && iterators == opened.size())
      checkIterator();
    if (next == end)
      break;
    if (isWord(*next)) {
      takeWord();
      continue;
    }
    char c = *next++;
    switch (c) {
    case '"':
      takeString();
      break;
    case '=':
      // Of `iterator_types = [`: the word stays.
      continue;
    case '<': {
      open(c);
      bool isArray = word == "array";
      // An array of LLVM's types has a size.
      isArray &= takeShape() == 0;
      if (isArray && next != end && isWord(*next)) {
        takeWord();
        if (!isNumberType(word))
          fail("expected array<T: ..> of integers or floats, got '" + word +
               "'");
      }
      break;
    }
    case '[':
      open(c);
      if (word == "iterator_types")
        iterators = opened.size();
      break;
    case '{':
      open(c);
      // As opposed to "linalg.generic".
      if (word == "linalg.generic")
        pretty = opened.size();
      break;
    case '(':
      open(c);
      break;
    case '-':
      if (next != end && *next == '>')
        ++next;
      break;
    case '>':
      close('<');
      break;
    case ')':
      close('(');
      break;
    case ']':
      close('[');
      break;
    case '}':
      close('{');
      break;
    case 0:
      if (!scan.zeroLine)
        scan.zeroLine = line;
      break;
    default:
      break;
    }
    word = StringRef();
    if (opened.size() < iterators)
      iterators = 0;
    if (opened.size() < pretty)
      pretty = 0;
  }
  return scan;
}

TextScan mlir::fsdp::scanText(StringRef text) { return Scanner(text).run(); }

llvm::Error mlir::fsdp::checkText(const llvm::MemoryBuffer &buffer) {
  if (mlir::isBytecode(buffer))
    return llvm::Error::success();
  TextScan scan = scanText(buffer.getBuffer());
  std::string name = buffer.getBufferIdentifier().str();
  auto refuse = [&](int64_t line, int64_t most, StringRef what, int64_t got) {
    return llvm::createStringError(
        name + ":" + std::to_string(line) + ": expected at most " +
        std::to_string(most) + " " + what + ", got " + std::to_string(got));
  };
  if (scan.depth > kMostDepth)
    return refuse(scan.deepLine, kMostDepth, "brackets in each other",
                  scan.depth);
  if (scan.rank > kMostRank)
    return refuse(scan.rankLine, kMostRank, "dimensions of a tensor",
                  scan.rank);
  if (!scan.fault.empty())
    return llvm::createStringError(name + ":" + std::to_string(scan.faultLine) +
                                   ": " + scan.fault);
  if (scan.zeroLine)
    return llvm::createStringError(name + ":" + std::to_string(scan.zeroLine) +
                                   ": expected text or MLIR bytecode, got a "
                                   "byte that is 0");
  return llvm::Error::success();
}
