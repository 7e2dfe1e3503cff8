//===- Directory.h - A directory whose entries are no links -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_DIRECTORY_H
#define FSDP_RT_DATA_DIRECTORY_H

#include "core/Status.h"
#include "data/File.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::rt::data {

/// An open directory; closes it on destruction. It stays the same one where its
/// path is renamed. Entries are single names; one that is a symbolic link is
/// refused where it would have to be followed, and replaced or removed itself.
/// Errors name the path.
class Directory {
public:
  Directory() = default;
  Directory(Directory &&other) noexcept;
  Directory &operator=(Directory &&other) noexcept;
  ~Directory();

  /// Links in `path` itself, which the user named, are followed.
  static Result<Directory> open(const std::string &path);
  Result<Directory> openDirectory(const std::string &name) const;
  /// Creates it; fails where the name is taken.
  Result<Directory> makeDirectory(const std::string &name) const;

  Result<File> openForReading(const std::string &name) const;
  Result<File> openForWriting(const std::string &name) const;
  /// Creates a file; fails where the name is taken.
  Result<File> create(const std::string &name) const;
  Result<std::string> readFile(const std::string &name, int64_t maxBytes) const;
  /// Creates or replaces a file so that at every moment it holds the old
  /// contents or the new ones.
  Status replaceFile(const std::string &name, std::string_view contents) const;

  bool has(const std::string &name) const;
  Status rename(const std::string &from, const std::string &to) const;
  /// Moves the directory `from` to `to`. One that is there already takes
  /// `from`'s place; where the file system cannot exchange the two, it is
  /// removed before if `mayRemoveFirst`. Returns when that is on the disk.
  Status replaceDirectory(const std::string &from, const std::string &to,
                          bool mayRemoveFirst) const;
  /// A file, or a directory with all it holds; absent is fine.
  Status remove(const std::string &name) const;
  Result<std::vector<std::string>> list() const;
  Status sync() const;

  int descriptor() const { return fd_; }
  const std::string &path() const { return path_; }

private:
  Directory(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  std::string pathOf(const std::string &name) const {
    return path_ + "/" + name;
  }
  Result<File> openFile(const std::string &name, int flags,
                        const char *what) const;
  int fd_ = -1;
  std::string path_;
};

/// 16 hexadecimal digits that nobody can guess.
Result<std::string> randomName();

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_DIRECTORY_H
