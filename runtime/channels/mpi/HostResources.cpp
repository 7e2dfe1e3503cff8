//===- HostResources.cpp - What Open MPI takes of a host ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostResources.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace fsdp::rt {

namespace {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace

void useSharedMemoryAlone(int ranks) {
  constexpr uint64_t bytesOfRank = 8 << 20; // twice Open MPI's default
  struct statvfs room;
  if (::statvfs("/dev/shm", &room) != 0 ||
      room.f_bavail * room.f_frsize < bytesOfRank * uint64_t(ranks))
    return;
  for (const char *name : {"OMPI_MCA_pml", "OMPI_MCA_btl"})
    if (std::getenv(name))
      return;
  ::setenv("OMPI_MCA_pml", "ob1", 0);
  ::setenv("OMPI_MCA_btl", "self,vader", 0);
}

void SegmentFile::remove(int rank) {
  // "DIRECTORY/vader_segment.HOST.USER.JOB.RANK"
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    size_t path = line.find('/'), name = line.rfind('/');
    if (path == std::string::npos ||
        line.compare(name, 15, "/vader_segment.") != 0 ||
        !endsWith(line, "." + std::to_string(rank)))
      continue;
    path_ = line.substr(path);
    if (::unlink(path_.c_str()) != 0)
      path_.clear();
    return;
  }
}

void SegmentFile::restore() const {
  if (path_.empty())
    return;
  int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0)
    ::close(fd);
}

} // namespace fsdp::rt
