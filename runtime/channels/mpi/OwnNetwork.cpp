//===- OwnNetwork.cpp - A network that nobody else can reach --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnNetwork.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace fsdp::rt {

namespace {

bool writeTo(const char *path, const char *text) {
  int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  auto bytes = static_cast<ssize_t>(std::strlen(text));
  bool isWritten = ::write(fd, text, std::strlen(text)) == bytes;
  ::close(fd);
  return isWritten;
}

/// The same user and group by the same numbers in a new user namespace.
bool mapUser(uid_t user, gid_t group) {
  char users[64], groups[64];
  std::snprintf(users, sizeof users, "%u %u 1", user, user);
  std::snprintf(groups, sizeof groups, "%u %u 1", group, group);
  // The kernel wants setgroups(2) to be forbidden before it takes a map of
  // groups from a user without rights.
  return writeTo("/proc/self/uid_map", users) &&
         writeTo("/proc/self/setgroups", "deny") &&
         writeTo("/proc/self/gid_map", groups);
}

bool raiseLoopback() {
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return false;
  ifreq request = {};
  std::strcpy(request.ifr_name, "lo");
  bool isUp = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags |= IFF_UP;
  isUp = isUp && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return isUp;
}

bool enter() {
  uid_t user = geteuid();
  gid_t group = getegid();
  if (::unshare(CLONE_NEWNET) != 0 &&
      (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !mapUser(user, group)))
    return false;
  return raiseLoopback();
}

} // namespace

bool enterOwnNetwork() {
  // A namespace cannot be left again, and some systems let a user make one
  // in which nothing is allowed: another process tries it first.
  pid_t probe = fork();
  if (probe == 0)
    _exit(enter() ? 0 : 1);
  int status = -1;
  while (probe > 0 && waitpid(probe, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0 && enter();
}

} // namespace fsdp::rt
