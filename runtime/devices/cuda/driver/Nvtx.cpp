//===- Nvtx.cpp - Ranges that profilers show ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/Nvtx.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace fsdp::rt {

namespace {

constexpr const char *variable = "NVTX_INJECTION64_PATH";

//===----------------------------------------------------------------------===//
// What a profiler's library asks for
//===----------------------------------------------------------------------===//

constexpr unsigned mostFunctions = *std::max_element(
    std::begin(nvtx::numFunctions), std::end(nvtx::numFunctions));

/// Functions that the profiler has set, and the tables that lead there.
struct Module {
  nvtx::Function functions[mostFunctions] = {};
  nvtx::Function *table[mostFunctions + 1] = {};
};

Module &moduleAt(int number) {
  static Module modules[nvtx::numModules];
  return modules[number];
}

int getModuleFunctionTable(int number, nvtx::FunctionTable *table,
                           unsigned *count) {
  if (number < 1 || number >= static_cast<int>(nvtx::numModules))
    return 0;
  Module &module = moduleAt(number);
  for (unsigned i = 1; i < nvtx::numFunctions[number]; ++i)
    module.table[i] = &module.functions[i];
  if (table)
    *table = module.table;
  if (count)
    *count = nvtx::numFunctions[number];
  return 1;
}

void setInjectionVersion(uint32_t) {}

const void *getExportTable(uint32_t table) {
  static const nvtx::Callbacks callbacks = {sizeof(callbacks),
                                            getModuleFunctionTable};
  static const nvtx::VersionInfo versions = {sizeof(versions), nvtx::version, 0,
                                             setInjectionVersion};
  if (table == nvtx::callbacksTable)
    return &callbacks;
  return table == nvtx::versionTable ? &versions : nullptr;
}

template <typename F>
F functionAt(unsigned number) {
  return reinterpret_cast<F>(moduleAt(nvtx::core2).functions[number]);
}

} // namespace

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

const Nvtx &Nvtx::ofProcess() {
  static const Nvtx opened;
  return opened;
}

Nvtx::Nvtx() {
  const char *path = std::getenv(variable);
  if (path && *path)
    failure_ = attach(path).withContext(std::string(variable) +
                                        ": profilers see no ranges");
}

Status Nvtx::attach(const char *path) {
  void *library = dlopen(path, RTLD_LAZY);
  if (!library) {
    const char *why = dlerror();
    return Status::failed(why ? why : path);
  }
  auto initialize = reinterpret_cast<nvtx::Initialize>(
      dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialize) {
    (void)dlclose(library);
    return Status::failed(std::string(path) + ": expected a function "
                                              "InitializeInjectionNvtx2, found "
                                              "none");
  }
  if (initialize(getExportTable) == 0)
    return Status::failed(std::string(path) +
                          ": expected InitializeInjectionNvtx2 to succeed, "
                          "got a failure");
  auto push = functionAt<nvtx::PushRange>(nvtx::domainRangePush);
  auto pop = functionAt<nvtx::PopRange>(nvtx::domainRangePop);
  // A profiler may want to hear of nothing.
  if (!push || !pop)
    return Status::ok();
  if (auto create = functionAt<nvtx::CreateDomain>(nvtx::domainCreate))
    domain_ = create("fsdp");
  push_ = push;
  pop_ = pop;
  return Status::ok();
}

void Nvtx::push(const char *name) const {
  nvtx::EventAttributes attributes = {};
  attributes.version = nvtx::version;
  attributes.size = sizeof(attributes);
  attributes.messageType = nvtx::asciiMessage;
  attributes.message = name;
  (void)push_(domain_, &attributes);
}

void Nvtx::pop() const { (void)pop_(domain_); }

} // namespace fsdp::rt
