//===- File.h - Files and directories ----------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Positioned reads and writes whose failures are values. Files are read, not
// mapped: a file that shrinks under a mapping ends the process with SIGBUS, a
// short read is an error with a name.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_FILE_H
#define FSDP_RT_DATA_FILE_H

#include "core/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::rt::data {

/// An open file; closes it on destruction. Reads and writes at given offsets
/// may come from several threads at once. Errors name the path.
class File {
public:
  File() = default;
  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();

  /// Opens a regular file; refuses directories, pipes and devices.
  static Result<File> openForReading(const std::string &path);
  /// Opens an existing file to write into.
  static Result<File> openForWriting(const std::string &path);
  /// Creates an empty file in the directory of `path`, by a name that nobody
  /// can know before and that is nobody else's: where a file or a link of that
  /// name is, it is left alone. Readable and writable as the umask says.
  static Result<File> createBeside(const std::string &path);
  /// Creates the file, or empties one that exists.
  static Result<File> create(const std::string &path);

  const std::string &path() const { return path_; }
  Result<int64_t> size() const;

  /// Reads exactly `bytes`; fails where the file ends before.
  Status readAt(int64_t offset, void *dst, int64_t bytes) const;
  Status writeAt(int64_t offset, const void *src, int64_t bytes) const;
  /// Reserves room for `bytes` and makes the file that long, so that a full
  /// disk is met now and not by a later write.
  Status allocate(int64_t bytes) const;
  /// Returns when the contents are on the disk.
  Status sync() const;
  /// Closes; some file systems report a failed write only here.
  Status close();
  /// The whole contents; refuses more than `maxBytes`.
  Result<std::string> readAll(int64_t maxBytes) const;

private:
  friend class Directory;
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

/// "cannot open 'x': Permission denied", from errno.
Status systemError(const std::string &what, const std::string &path);

/// The whole file; refuses one longer than `maxBytes`.
Result<std::string> readWholeFile(const std::string &path, int64_t maxBytes);

/// Creates or replaces `path` so that at every moment, a crash included, it
/// holds the old contents or the new ones. Links stay: the file at their end is
/// replaced. A device, a pipe that somebody reads and /proc's own links, as
/// /dev/stdout is one, are written to; anything else is refused.
Status replaceFile(const std::string &path, std::string_view contents);

/// What replaceFile would refuse before it writes, as far as can be known.
Status checkReplaceable(const std::string &path);

/// Creates the directory and its parents; none of them need to exist.
Status makeDirectories(const std::string &path);

/// Returns when the directory's entries are on the disk.
Status syncDirectory(const std::string &path);

/// Removes a file, or a directory with all it holds; absent is fine.
Status removeTree(const std::string &path);

/// Names of a directory's entries, sorted, without "." and "..".
Result<std::vector<std::string>> listDirectory(const std::string &path);

bool pathExists(const std::string &path);

/// Whether both paths lead to one existing file or directory.
bool isSameFile(const std::string &a, const std::string &b);

/// Moves `from` to `to` atomically. Where `to` is a directory already, the two
/// change places and the old one is removed. `mayRemoveFirst` allows the old
/// one to be removed before, on file systems that cannot exchange.
Status replaceDirectory(const std::string &from, const std::string &to,
                        bool mayRemoveFirst);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_FILE_H
