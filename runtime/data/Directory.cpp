//===- Directory.cpp - A directory whose entries are no links -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Directory.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fsdp::rt::data {

namespace {

constexpr int directoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

int openAgain(int at, const char *path, int flags) {
  int fd;
  do
    fd = ::openat(at, path, flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/// The system says ELOOP or ENOTDIR of a link that it must not follow.
Status openError(int at, const std::string &name, const char *what,
                 const std::string &path) {
  int error = errno;
  struct stat info;
  if ((error == ELOOP || error == ENOTDIR) &&
      ::fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(info.st_mode))
    return Status::failed("expected no symbolic link, which is not followed "
                          "within a checkpoint's directory, got one: '" +
                          path + "'");
  errno = error;
  return systemError(what, path);
}

} // namespace

Directory::Directory(Directory &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

Directory &Directory::operator=(Directory &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

Directory::~Directory() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<Directory> Directory::open(const std::string &path) {
  int fd = openAgain(AT_FDCWD, path.c_str(), directoryFlags);
  if (fd < 0)
    return systemError("cannot open", path);
  return Directory(fd, path);
}

Result<Directory> Directory::openDirectory(const std::string &name) const {
  int fd = openAgain(fd_, name.c_str(), directoryFlags | O_NOFOLLOW);
  if (fd < 0)
    return openError(fd_, name, "cannot open", pathOf(name));
  return Directory(fd, pathOf(name));
}

Result<Directory> Directory::makeDirectory(const std::string &name) const {
  if (::mkdirat(fd_, name.c_str(), 0777) != 0)
    return systemError("cannot create directory", pathOf(name));
  return openDirectory(name);
}

Result<File> Directory::openFile(const std::string &name, int flags,
                                 const char *what) const {
  // Without O_NONBLOCK, opening a pipe would wait for its other end.
  int fd = openAgain(fd_, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return openError(fd_, name, what, pathOf(name));
  File file(fd, pathOf(name));
  struct stat info;
  if (::fstat(fd, &info) != 0)
    return systemError("cannot examine", file.path());
  if (!S_ISREG(info.st_mode))
    return Status::failed(
        "expected a regular file, got " +
        std::string(S_ISDIR(info.st_mode) ? "a directory" : "a device") +
        ": '" + file.path() + "'");
  return file;
}

Result<File> Directory::openForReading(const std::string &name) const {
  return openFile(name, O_RDONLY, "cannot open");
}

Result<File> Directory::openForWriting(const std::string &name) const {
  return openFile(name, O_WRONLY, "cannot open for writing");
}

Result<File> Directory::create(const std::string &name) const {
  return openFile(name, O_WRONLY | O_CREAT | O_EXCL, "cannot create");
}

Result<std::string> Directory::readFile(const std::string &name,
                                        int64_t maxBytes) const {
  Result<File> file = openForReading(name);
  if (!file.isOk())
    return file.status();
  return file->readAll(maxBytes);
}

Status Directory::replaceFile(const std::string &name,
                              std::string_view contents) const {
  Result<std::string> random = randomName();
  if (!random.isOk())
    return random.status();
  std::string temporary = name + "." + *random + ".tmp";
  Result<File> file = create(temporary);
  if (!file.isOk())
    return file.status();
  Status status = file->writeAt(0, contents.data(), contents.size());
  if (!status)
    status = file->sync();
  if (!status)
    status = file->close();
  if (!status)
    status = rename(temporary, name);
  if (!status)
    return sync();
  ::unlinkat(fd_, temporary.c_str(), 0);
  return status;
}

bool Directory::has(const std::string &name) const {
  struct stat info;
  return ::fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

Status Directory::rename(const std::string &from, const std::string &to) const {
  if (::renameat(fd_, from.c_str(), fd_, to.c_str()) != 0)
    return systemError("cannot rename '" + pathOf(from) + "' to", pathOf(to));
  return Status::ok();
}

Status Directory::replaceDirectory(const std::string &from,
                                   const std::string &to,
                                   bool mayRemoveFirst) const {
  if (has(to)) {
    if (::renameat2(fd_, from.c_str(), fd_, to.c_str(), RENAME_EXCHANGE) == 0)
      return sync();
    if (!mayRemoveFirst)
      return systemError("cannot replace", pathOf(to));
    if (Status s = remove(to))
      return s;
  }
  if (Status s = rename(from, to))
    return s;
  return sync();
}

Status Directory::remove(const std::string &name) const {
  return removeTree(pathOf(name));
}

Result<std::vector<std::string>> Directory::list() const {
  return listDirectory(path_);
}

Status Directory::sync() const {
  int rc;
  do
    rc = ::fsync(fd_);
  while (rc != 0 && errno == EINTR);
  // Some file systems have no sync for directories and say EINVAL.
  if (rc != 0 && errno != EINVAL)
    return systemError("cannot sync", path_);
  return Status::ok();
}

Result<std::string> randomName() {
  uint64_t bits = 0;
  ssize_t got;
  do
    got = ::getrandom(&bits, sizeof bits, 0);
  while (got < 0 && errno == EINTR);
  if (got != sizeof bits)
    return Status::failed("cannot draw a random name from the system");
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(bits));
  return std::string(text);
}

} // namespace fsdp::rt::data
