//===- Fault.cpp - A device that is to fail -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fault.h"

#include <cstdlib>
#include <cstring>

namespace fsdp::rt {

static const char *const names[] = {"", "create", "upload", "call"};

Fault Fault::ofEnvironment(int rank) {
  const char *text = std::getenv("FSDP_LATE_FAULT");
  if (!text)
    return {};
  for (Place place : {Place::Create, Place::Upload, Place::Call}) {
    const char *name = names[static_cast<int>(place)];
    size_t length = std::strlen(name);
    if (std::strncmp(text, name, length) != 0 || text[length] != ':')
      continue;
    char *end = nullptr;
    if (std::strtol(text + length + 1, &end, 10) != rank)
      return {};
    return {place, *end == ':' ? std::strtol(end + 1, nullptr, 10) : 0};
  }
  return {};
}

Status Fault::pass(Place place) {
  if (place != place_ || left_.fetch_sub(1) != 0)
    return Status::ok();
  return Status::failed(std::string("the device was lost at a ") +
                        names[static_cast<int>(place)]);
}

} // namespace fsdp::rt
