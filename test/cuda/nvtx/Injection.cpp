//===- Injection.cpp - A profiler's library that writes ranges to a file --===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What NVTX_INJECTION64_PATH leads to in tests. FSDP_NVTX_LOG gets a line for
// each call: "domain NAME", "push THREAD NAME", "pop THREAD", threads by
// numbers. A range of another domain, or of none, ends the process.
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/Nvtx.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace nvtx = fsdp::rt::nvtx;

namespace {

char ourDomain;

void write(const std::string &line) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::FILE *file = std::fopen(std::getenv("FSDP_NVTX_LOG"), "a");
  if (!file)
    std::abort();
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

std::string thisThread() {
  static std::atomic<int> count{0};
  thread_local int number = count++;
  return std::to_string(number);
}

void *createDomain(const char *name) {
  write(std::string("domain ") + name);
  return &ourDomain;
}

int push(void *domain, const nvtx::EventAttributes *attributes) {
  if (domain != &ourDomain || attributes->version != nvtx::version ||
      attributes->size != sizeof(*attributes) ||
      attributes->messageType != nvtx::asciiMessage)
    std::abort();
  write("push " + thisThread() + " " + attributes->message);
  return 0;
}

int pop(void *domain) {
  if (domain != &ourDomain)
    std::abort();
  write("pop " + thisThread());
  return 0;
}

template <typename F>
void set(nvtx::FunctionTable table, unsigned number, F *function) {
  *table[number] = reinterpret_cast<nvtx::Function>(function);
}

} // namespace

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(nvtx::GetExportTable getExportTable) {
  if (!std::getenv("FSDP_NVTX_LOG"))
    return 0;
  auto *callbacks = static_cast<const nvtx::Callbacks *>(
      getExportTable(nvtx::callbacksTable));
  auto *versions = static_cast<const nvtx::VersionInfo *>(
      getExportTable(nvtx::versionTable));
  if (!callbacks || !versions || versions->version != nvtx::version)
    return 0;
  versions->setInjectionVersion(nvtx::version);
  // Every module is there, as profilers expect it, and leads to places of its
  // own.
  for (unsigned module = 1; module < nvtx::numModules; ++module) {
    nvtx::FunctionTable table = nullptr;
    unsigned count = 0;
    if (!callbacks->getModuleFunctionTable(int(module), &table, &count) ||
        count < nvtx::numFunctions[module] || table[0] || table[count])
      return 0;
    for (unsigned i = 1; i < count; ++i)
      if (!table[i])
        return 0;
    if (module != nvtx::core2)
      continue;
    set(table, nvtx::domainCreate, createDomain);
    set(table, nvtx::domainRangePush, push);
    set(table, nvtx::domainRangePop, pop);
  }
  return 1;
}
