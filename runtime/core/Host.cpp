//===- Host.cpp - What the machine offers ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Host.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

namespace fsdp::rt {

namespace {

/// Directories of this process's control groups for `controller`, from its own
/// up to the root: a limit may stand on any of them. Both hierarchies are
/// looked at: version 2 (empty controller list) and version 1.
std::vector<std::string> controlGroups(const std::string &controller) {
  std::vector<std::string> directories;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string names = line.substr(first + 1, second - first - 1);
    std::string root = "/sys/fs/cgroup";
    if (!names.empty()) {
      if ((',' + names + ',').find(',' + controller + ',') == std::string::npos)
        continue;
      root += '/' + controller;
    }
    for (std::string path = line.substr(second + 1);;) {
      directories.push_back(root + path);
      size_t slash = path.rfind('/');
      if (slash == std::string::npos || path == "/")
        break;
      path.resize(std::max<size_t>(slash, 1));
    }
  }
  return directories;
}

/// The whitespace-separated numbers of a small file; stops at a word ("max").
std::vector<int64_t> numbersIn(const std::string &path) {
  std::ifstream file(path);
  std::vector<int64_t> numbers;
  for (int64_t number; file >> number;)
    numbers.push_back(number);
  return numbers;
}

int coresOfAffinity() {
  // The kernel refuses a mask that is too small for its processors.
  for (int bits = 1024; bits <= (1 << 20); bits *= 2) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t *)> set(
        CPU_ALLOC(bits), [](cpu_set_t *s) { CPU_FREE(s); });
    size_t size = CPU_ALLOC_SIZE(bits);
    if (set && sched_getaffinity(0, size, set.get()) == 0)
      return CPU_COUNT_S(size, set.get());
  }
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

} // namespace

int availableCores() {
  int64_t cores = coresOfAffinity();
  for (const std::string &group : controlGroups("cpu")) {
    std::vector<int64_t> max = numbersIn(group + "/cpu.max");
    if (max.empty())
      for (const char *name : {"/cpu.cfs_quota_us", "/cpu.cfs_period_us"})
        for (int64_t number : numbersIn(group + name))
          max.push_back(number);
    if (max.size() == 2 && max[0] > 0 && max[1] > 0)
      cores = std::min(cores, max[0] / max[1]);
  }
  return static_cast<int>(std::max<int64_t>(cores, 1));
}

int64_t memoryLimit() {
  struct sysinfo info;
  if (sysinfo(&info) != 0)
    return 0;
  int64_t limit = int64_t(info.totalram) * info.mem_unit;
  for (const std::string &group : controlGroups("memory"))
    for (const char *name : {"/memory.max", "/memory.limit_in_bytes"})
      for (int64_t bytes : numbersIn(group + name))
        limit = std::min(limit, bytes);
  return limit;
}

bool HostId::operator==(const HostId &other) const {
  return std::strcmp(name, other.name) == 0 &&
         std::strcmp(boot, other.boot) == 0;
}

void HostId::terminate() {
  name[sizeof(name) - 1] = boot[sizeof(boot) - 1] = '\0';
}

HostId thisHost() {
  HostId host;
  (void)gethostname(host.name, sizeof(host.name) - 1);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  boot.copy(host.boot, sizeof(host.boot) - 1);
  return host;
}

} // namespace fsdp::rt
