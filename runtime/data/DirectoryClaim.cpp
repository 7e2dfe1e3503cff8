//===- DirectoryClaim.cpp - A directory made for what may come ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/DirectoryClaim.h"

#include "data/File.h"

#include <filesystem>
#include <unistd.h>

namespace fsdp::rt::data {

Status DirectoryClaim::create(const std::string &path) {
  std::filesystem::path at(path);
  if (!at.has_filename()) // "a/b/"
    at = at.parent_path();
  while (!at.empty() && !pathExists(at.string())) {
    created_.push_back(at.string());
    at = at.parent_path();
  }
  if (Status s = makeDirectories(path))
    return s;
  // The name of a directory is on the disk once its parent is.
  for (const std::string &made : created_)
    if (Status s = syncDirectory(std::filesystem::path(made + "/..").string()))
      return s;
  return Status::ok();
}

DirectoryClaim::~DirectoryClaim() {
  // Fails where something is in it: then it is not ours alone to remove.
  for (const std::string &path : created_)
    if (::rmdir(path.c_str()) != 0)
      return;
}

} // namespace fsdp::rt::data
