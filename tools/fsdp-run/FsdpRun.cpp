//===- FsdpRun.cpp - Runs a program compiled with --emit so ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/fsdp-rt.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace {

constexpr const char *entryName = "fsdp_rt_artifact_entry";

int fail(const std::string &message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return FSDP_FAILED;
}

int printUsage() {
  std::puts("usage: fsdp-run FILE.so [options]\n\n"
            "Runs a program that fsdp-compile wrote with --emit so, as if it "
            "had been written\nwith --emit exe. `fsdp-run FILE.so --help` "
            "lists the options.");
  return std::fflush(stdout) == 0 ? FSDP_OK
                                  : fail("cannot write to standard output");
}

/// Loading what has been cut off would be a bus error. Empty where all of the
/// file is there that its header speaks of, or it is none that can be loaded.
std::string findMissingPart(const std::string &path, off_t bytes) {
  Elf64_Ehdr header = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char *>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "";
  // The table of sections is written last.
  std::uint64_t end =
      header.e_shoff + std::uint64_t(header.e_shentsize) * header.e_shnum;
  if (end <= std::uint64_t(bytes))
    return "";
  return "expected a file of at least " + std::to_string(end) + " bytes, got " +
         std::to_string(bytes) + " (was copying it cut short?)";
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0)
    return printUsage();
  if (argc < 2 || argv[1][0] == '-')
    return fail(
        "expected a file compiled with --emit so as the first "
        "argument, got " +
        (argc < 2 ? std::string("none") : "'" + std::string(argv[1]) + "'"));
  // Without a slash the loader would look in the system's directories.
  std::string path = argv[1];
  if (path.find('/') == std::string::npos)
    path = "./" + path;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return fail("cannot open '" + std::string(argv[1]) +
                "': " + std::strerror(errno));
  if (std::string error = findMissingPart(path, info.st_size); !error.empty())
    return fail("'" + std::string(argv[1]) + "': " + error);
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(
        "'" + std::string(argv[1]) +
        "': expected a library compiled with --emit so: " + ::dlerror());
  auto *program =
      static_cast<const fsdp_rt_artifact *>(::dlsym(library, entryName));
  if (!program)
    return fail("'" + std::string(argv[1]) + "': expected a library compiled " +
                "with --emit so, got one without the symbol " + entryName);

  std::string name = std::string(argv[0]) + " " + argv[1];
  std::vector<char *> arguments = {name.data()};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  // The library stays open: the program's code runs until the process ends.
  int status = fsdp_rt_main(count, arguments.data(), program);
  if (status == FSDP_OK)
    return status;
  // As in EntryPoint.c.
  std::fflush(nullptr);
  std::_Exit(status);
}
