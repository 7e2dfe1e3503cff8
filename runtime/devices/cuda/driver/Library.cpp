//===- Library.cpp - Libraries opened at run time -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/Library.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace fsdp::rt {

namespace {

constexpr int openMode = RTLD_NOW | RTLD_LOCAL;

std::string lastError() {
  const char *why = dlerror();
  return why ? why : "no reason given";
}

/// "a", "a or b".
std::string join(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : " or ") + name;
  return text;
}

} // namespace

Result<Library> Library::open(const std::string &what,
                              const std::vector<std::string> &names,
                              const std::vector<std::string> &directories) {
  Library library;
  std::string places;
  for (const std::string &directory : directories) {
    places += directory + ", ";
    for (const std::string &name : names) {
      library.path_ = directory + "/" + name;
      if (access(library.path_.c_str(), F_OK) != 0)
        continue;
      library.handle_ = dlopen(library.path_.c_str(), openMode);
      if (library.handle_)
        return library;
      return Status::failed("cannot open " + what + ": " + lastError());
    }
  }
  std::string why;
  for (const std::string &name : names) {
    library.path_ = name;
    library.handle_ = dlopen(name.c_str(), openMode);
    if (library.handle_)
      return library;
    std::string reason = lastError();
    why = why.empty() ? reason : why;
  }
  return Status::failed("cannot open " + what + ": expected " + join(names) +
                        (places.empty() ? " " : " in " + places + "or ") +
                        "where the system looks for libraries, got: " + why);
}

void *Library::lookUp(const char *name) const { return dlsym(handle_, name); }

std::string describeVersion(size_t version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::vector<std::string> cudaLibraryDirectories() {
  std::vector<std::string> directories;
  const char *value = std::getenv("FSDP_CUDA_LIBS");
  std::string text = value ? value : "";
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin)
      directories.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return directories;
}

/// The folders above those of executables called python3 on PATH, as they are
/// named there and without symbolic links: a virtual environment's, and that
/// of the interpreter that it was made of.
static std::vector<std::string> pythonPrefixes() {
  const char *value = std::getenv("PATH");
  std::string path = value ? value : "";
  for (size_t begin = 0; begin < path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string python = path.substr(begin, end - begin) + "/python3";
    begin = end + 1;
    if (access(python.c_str(), X_OK) != 0)
      continue;
    std::error_code error;
    std::filesystem::path named(python);
    std::filesystem::path real = std::filesystem::canonical(named, error);
    std::vector<std::string> prefixes = {
        named.parent_path().parent_path().string()};
    if (!error)
      prefixes.push_back(real.parent_path().parent_path().string());
    return prefixes;
  }
  return {};
}

std::vector<std::string> cudaWheelDirectories() {
  std::vector<std::string> prefixes;
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char *value = std::getenv(variable); value && *value)
      prefixes.push_back(value);
  for (const std::string &prefix : pythonPrefixes())
    prefixes.push_back(prefix);
  std::vector<std::string> directories = cudaLibraryDirectories();
  for (const std::string &prefix : prefixes) {
    // Where pip puts them, and the pip of Debian.
    std::string pattern =
        prefix + "/lib/python3*/{site,dist}-packages/nvidia/*/lib";
    glob_t found = {};
    if (glob(pattern.c_str(), GLOB_BRACE, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        if (std::find(directories.begin(), directories.end(),
                      found.gl_pathv[i]) == directories.end())
          directories.push_back(found.gl_pathv[i]);
    globfree(&found);
  }
  return directories;
}

} // namespace fsdp::rt
