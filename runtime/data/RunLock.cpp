//===- RunLock.cpp - One run at a time in a directory ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/RunLock.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fsdp::rt::data {

namespace {

constexpr int64_t maxLockBytes = 4096;

/// The three words of a lock's file.
struct Holder {
  std::string host, process, token;
};

Holder parseHolder(const std::string &text) {
  Holder holder;
  std::istringstream(text) >> holder.host >> holder.process >> holder.token;
  return holder;
}

std::string thisHost() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || !name[0])
    return "localhost";
  return name;
}

/// Waits through signals. Whether the lock was taken; fails where the file
/// system has no locks with ENOLCK, ENOSYS, EOPNOTSUPP or EINVAL in errno.
bool tryLock(int fd) {
  int rc;
  do
    rc = ::flock(fd, LOCK_EX | LOCK_NB);
  while (rc != 0 && errno == EINTR);
  return rc == 0;
}

bool isSameEntry(int fd, const Directory &directory) {
  struct stat open, named;
  return ::fstat(fd, &open) == 0 &&
         ::fstatat(directory.descriptor(), RunLock::fileName, &named,
                   AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

Status refuse(const std::string &path, const Holder &holder) {
  std::string who = holder.host.empty() ? "another run"
                                        : "process " + holder.process +
                                              " on host " + holder.host;
  return Status::failed("expected no other run that saves to '" + path +
                        "', got " + who +
                        ": wait for its end, or name another directory");
}

} // namespace

void RunLock::swap(RunLock &other) noexcept {
  std::swap(directory_, other.directory_);
  std::swap(fd_, other.fd_);
  std::swap(isExclusive_, other.isExclusive_);
  std::swap(token_, other.token_);
}

Result<RunLock> RunLock::acquire(const Directory &directory) {
  RunLock lock;
  const std::string &path = directory.path();
  Result<Directory> own = Directory::open(path);
  if (!own.isOk())
    return own.status();
  lock.directory_ = std::move(*own);
  // Who ends removes the file: a lock on one that has no name any more keeps
  // nobody out, and the name is tried again.
  for (;;) {
    int fd =
        ::openat(directory.descriptor(), fileName,
                 O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
      return systemError("cannot open for writing", path + "/" + fileName);
    struct stat info;
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      return Status::failed("expected a regular file, got another kind: '" +
                            path + "/" + fileName + "'");
    }
    if (tryLock(fd)) {
      lock.isExclusive_ = true;
    } else if (errno == EWOULDBLOCK) {
      ::close(fd);
      Result<std::string> text = directory.readFile(fileName, maxLockBytes);
      return refuse(path, parseHolder(text.isOk() ? *text : ""));
    }
    if (lock.isExclusive_ && !isSameEntry(fd, directory)) {
      lock.isExclusive_ = false;
      ::close(fd);
      continue;
    }
    lock.fd_ = fd;
    break;
  }
  if (Status s = lock.claim(path)) {
    // The file is the other's, or not written.
    if (!lock.isExclusive_)
      ::close(std::exchange(lock.fd_, -1));
    return s;
  }
  return lock;
}

/// Refuses a directory without locks that a living process of this host is
/// named in, and writes this process into the file.
Status RunLock::claim(const std::string &path) {
  Result<std::string> text = directory_.readFile(fileName, maxLockBytes);
  Holder holder = parseHolder(text.isOk() ? *text : "");
  if (!isExclusive_ && holder.host == thisHost()) {
    pid_t process = std::atoi(holder.process.c_str());
    if (process > 0 && (::kill(process, 0) == 0 || errno == EPERM))
      return refuse(path, holder);
  }
  Result<std::string> token = randomName();
  if (!token.isOk())
    return token.status();
  std::string line =
      thisHost() + " " + std::to_string(::getpid()) + " " + *token + "\n";
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, line.data(), line.size(), 0) != ssize_t(line.size()))
    return systemError("cannot write", path + "/" + fileName);
  token_ = *token;
  return Status::ok();
}

std::string RunLock::readToken(const Directory &directory) {
  Result<std::string> text = directory.readFile(fileName, maxLockBytes);
  return text.isOk() ? parseHolder(*text).token : "";
}

RunLock::~RunLock() {
  if (fd_ < 0)
    return;
  // Before the lock goes: whoever waits for the name finds it free or new.
  if (isSameEntry(fd_, directory_))
    ::unlinkat(directory_.descriptor(), fileName, 0);
  ::close(fd_);
}

} // namespace fsdp::rt::data
