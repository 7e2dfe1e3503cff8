//===- InputFile.cpp - Texts, compressed or not ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/InputFile.h"

#include <zlib.h>

using namespace mlir::fsdp;

/// A gzip file is one or more members, one behind the other.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
decompress(llvm::MemoryBuffer &compressed) {
  std::string text;
  z_stream stream = {};
  // 15: the largest window; 16: expect a gzip header.
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    return llvm::createStringError("expected zlib to start, got an error");
  llvm::StringRef bytes = compressed.getBuffer();
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = bytes.size();
  int code;
  do {
    constexpr size_t kChunk = 1 << 20;
    size_t size = text.size();
    text.resize(size + kChunk);
    stream.next_out = reinterpret_cast<Bytef *>(&text[size]);
    stream.avail_out = kChunk;
    code = inflate(&stream, Z_NO_FLUSH);
    text.resize(size + kChunk - stream.avail_out);
    if (code == Z_STREAM_END && stream.avail_in > 0)
      code = inflateReset(&stream);
  } while (code == Z_OK);
  inflateEnd(&stream);
  if (code != Z_STREAM_END)
    return llvm::createStringError(
        "expected a whole gzip file, got a broken one: " +
        compressed.getBufferIdentifier());
  return llvm::MemoryBuffer::getMemBufferCopy(text,
                                              compressed.getBufferIdentifier());
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
mlir::fsdp::readInputFile(llvm::StringRef file) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file);
  if (!buffer)
    return llvm::createStringError("expected to read " + file + ", got " +
                                   buffer.getError().message());
  if ((*buffer)->getBuffer().starts_with("\x1f\x8b"))
    return decompress(**buffer);
  return std::move(*buffer);
}
