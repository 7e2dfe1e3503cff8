//===- File.cpp - Files and directories -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/File.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp::rt::data {

namespace {

Result<int> openFile(const std::string &path, int flags, const char *what) {
  int fd;
  do
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0)
    return systemError(what, path);
  return fd;
}

std::string parentOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// " (ulimit -f allows 512 bytes)" where the process's own limit may be why.
std::string limitOf(int error) {
  struct Limit {
    int error;
    decltype(RLIMIT_FSIZE) resource;
    const char *option, *unit;
  };
  for (const Limit &each :
       {Limit{EFBIG, RLIMIT_FSIZE, "-f", " bytes"},
        Limit{EMFILE, RLIMIT_NOFILE, "-n", " open files"}}) {
    rlimit limit;
    if (each.error == error && ::getrlimit(each.resource, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
      return std::string(" (ulimit ") + each.option + " allows " +
             std::to_string(limit.rlim_cur) + each.unit + ")";
  }
  return "";
}

const char *nameOfKind(mode_t mode) {
  if (S_ISDIR(mode))
    return "a directory";
  if (S_ISFIFO(mode))
    return "a pipe, which cannot be read at offsets";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/// Where the contents of a path go.
struct Target {
  std::string path; // without links
  bool isStream = false;
  int open = -1; // this process's own descriptor of it, where it has one
};

/// To what can be neither replaced nor written at offsets.
Status writeStream(const Target &target, std::string_view contents) {
  const std::string &path = target.path;
  // Without O_NONBLOCK, opening a pipe would wait for its reader. A duplicate
  // shares its position in the file with the original.
  constexpr const char *what = "cannot open for writing";
  Result<int> fd = target.open < 0
                       ? openFile(path, O_WRONLY | O_APPEND | O_NONBLOCK, what)
                       : Result<int>(::fcntl(target.open, F_DUPFD_CLOEXEC, 0));
  if (!fd.isOk())
    return fd.status();
  if (*fd < 0)
    return systemError(what, path);
  if (target.open < 0)
    ::fcntl(*fd, F_SETFL, O_APPEND);
  Status status;
  while (!contents.empty() && !status) {
    ssize_t put = ::write(*fd, contents.data(), contents.size());
    if (put >= 0)
      contents.remove_prefix(put);
    else if (errno != EINTR)
      status = systemError("cannot write", path);
  }
  ::close(*fd);
  return status;
}

Result<Target> findTarget(const std::string &path) {
  constexpr int maxLinks = 40; // as the system's own
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode) ||
        S_ISFIFO(info.st_mode))
      return Target{path, true};
    return Status::failed(
        "expected a file to write to, got a " +
        std::string(S_ISDIR(info.st_mode) ? "directory" : "socket") + ": '" +
        path + "'");
  }
  // The last link may lead to a file that does not exist yet.
  std::filesystem::path at(path);
  for (int links = 0; links < maxLinks; ++links) {
    std::error_code error;
    std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error)
      return Target{at.string(), false};
    // An open file: what was written to it before is to stay, and what this
    // process writes to it later is to come behind.
    std::string parent =
        std::filesystem::canonical(parentOf(at.string()), error).string();
    if (parent == "/proc/" + std::to_string(::getpid()) + "/fd")
      return Target{path, true, std::atoi(at.filename().c_str())};
    if (parent.compare(0, 6, "/proc/") == 0)
      return Target{path, true};
    at = at.parent_path() / next;
  }
  errno = ELOOP;
  return systemError("cannot write", path);
}

} // namespace

Status systemError(const std::string &what, const std::string &path) {
  int error = errno;
  return Status::failed(what + " '" + path + "': " + std::strerror(error) +
                        limitOf(error));
}

File::File(File &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File &File::operator=(File &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<File> File::openForReading(const std::string &path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  Result<int> fd = openFile(path, O_RDONLY | O_NONBLOCK, "cannot open");
  if (!fd.isOk())
    return fd.status();
  File file(*fd, path);
  struct stat info;
  if (::fstat(*fd, &info) != 0)
    return systemError("cannot examine", path);
  if (!S_ISREG(info.st_mode))
    return Status::failed(std::string("expected a regular file, got ") +
                          nameOfKind(info.st_mode) + ": '" + path + "'");
  return file;
}

Result<File> File::openForWriting(const std::string &path) {
  Result<int> fd = openFile(path, O_WRONLY, "cannot open for writing");
  if (!fd.isOk())
    return fd.status();
  return File(*fd, path);
}

Result<File> File::create(const std::string &path) {
  Result<int> fd =
      openFile(path, O_WRONLY | O_CREAT | O_TRUNC, "cannot create");
  if (!fd.isOk())
    return fd.status();
  return File(*fd, path);
}

Result<File> File::createBeside(const std::string &path) {
  constexpr const char *what = "cannot create a temporary file for";
  constexpr size_t longestName = 200; // of the system's 255
  constexpr int tries = 100;
  std::string name = std::filesystem::path(path).filename().string();
  for (int i = 0; i < tries; ++i) {
    uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random)
      return systemError(what, path);
    char text[24];
    std::snprintf(text, sizeof text, ".%016" PRIx64 ".tmp", random);
    std::string temporary =
        parentOf(path) + "/" + name.substr(0, longestName) + text;
    int fd = ::open(temporary.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0)
      return File(fd, temporary);
    if (errno != EEXIST && errno != EINTR)
      break;
  }
  return systemError(what, path);
}

Result<int64_t> File::size() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0)
    return systemError("cannot examine", path_);
  return static_cast<int64_t>(info.st_size);
}

Status File::readAt(int64_t offset, void *dst, int64_t bytes) const {
  char *next = static_cast<char *>(dst);
  while (bytes > 0) {
    ssize_t got = ::pread(fd_, next, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError("cannot read", path_);
    if (got == 0)
      return Status::failed("cannot read '" + path_ + "': expected " +
                            std::to_string(bytes) + " more bytes at offset " +
                            std::to_string(offset) + ", got end of file");
    next += got, offset += got, bytes -= got;
  }
  return Status::ok();
}

Status File::writeAt(int64_t offset, const void *src, int64_t bytes) const {
  const char *next = static_cast<const char *>(src);
  while (bytes > 0) {
    ssize_t put = ::pwrite(fd_, next, static_cast<size_t>(bytes), offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return systemError("cannot write", path_);
    next += put, offset += put, bytes -= put;
  }
  return Status::ok();
}

Status File::allocate(int64_t bytes) const {
  if (bytes == 0)
    return Status::ok();
  do
    errno = ::posix_fallocate(fd_, 0, bytes);
  while (errno == EINTR);
  if (errno != 0)
    return systemError("cannot reserve " + std::to_string(bytes) + " bytes for",
                       path_);
  return Status::ok();
}

Status File::sync() const {
  int rc;
  do
    rc = ::fsync(fd_);
  while (rc != 0 && errno == EINTR);
  return rc == 0 ? Status::ok() : systemError("cannot sync", path_);
}

Status File::close() {
  int fd = std::exchange(fd_, -1);
  // After EINTR Linux has closed the descriptor; to close it again could hit
  // another thread's file.
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR)
    return systemError("cannot close", path_);
  return Status::ok();
}

Result<std::string> File::readAll(int64_t maxBytes) const {
  Result<int64_t> size = this->size();
  if (!size.isOk())
    return size.status();
  if (*size > maxBytes)
    return Status::failed("expected '" + path_ + "' to have at most " +
                          std::to_string(maxBytes) + " bytes, got " +
                          std::to_string(*size));
  std::string contents(static_cast<size_t>(*size), '\0');
  if (Status s = readAt(0, contents.data(), *size))
    return s;
  return contents;
}

Result<std::string> readWholeFile(const std::string &path, int64_t maxBytes) {
  Result<File> file = File::openForReading(path);
  if (!file.isOk())
    return file.status();
  return file->readAll(maxBytes);
}

Status replaceFile(const std::string &path, std::string_view contents) {
  Result<Target> target = findTarget(path);
  if (!target.isOk())
    return target.status();
  if (target->isStream)
    return writeStream(*target, contents);
  Result<File> file = File::createBeside(target->path);
  if (!file.isOk())
    return file.status();
  Status status = [&]() -> Status {
    if (Status s = file->writeAt(0, contents.data(), contents.size()))
      return s;
    if (Status s = file->sync())
      return s;
    if (Status s = file->close())
      return s;
    if (::rename(file->path().c_str(), target->path.c_str()) != 0)
      return systemError("cannot replace", path);
    return Status::ok();
  }();
  if (status) {
    ::unlink(file->path().c_str());
    return status;
  }
  return syncDirectory(parentOf(target->path));
}

Status checkReplaceable(const std::string &path) {
  Result<Target> target = findTarget(path);
  if (!target.isOk())
    return target.status();
  if (target->isStream)
    return ::access(path.c_str(), W_OK) == 0
               ? Status::ok()
               : systemError("cannot write to", path);
  std::string parent = parentOf(target->path);
  return ::access(parent.c_str(), W_OK | X_OK) == 0
             ? Status::ok()
             : systemError("cannot write to", parent);
}

Status makeDirectories(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    return Status::failed("cannot create directory '" + path +
                          "': " + error.message());
  return Status::ok();
}

Status syncDirectory(const std::string &path) {
  Result<int> fd = openFile(path, O_RDONLY | O_DIRECTORY, "cannot open");
  if (!fd.isOk())
    return fd.status();
  int rc = ::fsync(*fd);
  int error = errno;
  ::close(*fd);
  errno = error;
  // Some file systems have no sync for directories and say EINVAL.
  if (rc != 0 && errno != EINVAL)
    return systemError("cannot sync", path);
  return Status::ok();
}

Status removeTree(const std::string &path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error)
    return Status::failed("cannot remove '" + path + "': " + error.message());
  return Status::ok();
}

Result<std::vector<std::string>> listDirectory(const std::string &path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(path, error), end;
  for (; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error)
    return Status::failed("cannot list '" + path + "': " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool pathExists(const std::string &path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0;
}

bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

Status replaceDirectory(const std::string &from, const std::string &to,
                        bool mayRemoveFirst) {
  if (pathExists(to)) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                    RENAME_EXCHANGE) == 0) {
      if (Status s = syncDirectory(parentOf(to)))
        return s;
      return removeTree(from);
    }
    if (!mayRemoveFirst)
      return systemError("cannot replace", to);
    if (Status s = removeTree(to))
      return s;
  }
  if (::rename(from.c_str(), to.c_str()) != 0)
    return systemError("cannot replace", to);
  return syncDirectory(parentOf(to));
}

} // namespace fsdp::rt::data
