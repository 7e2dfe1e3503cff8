//===- Linker.cpp - Executables and shared libraries ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Linker.h"
#include "fsdp/Support/PrintableText.h"
#include "fsdp/Tool/RunProgram.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir::fsdp;
using llvm::StringRef;

static constexpr llvm::StringLiteral kArchive = "libfsdp-rt.a";
static constexpr llvm::StringLiteral kEntryArchive = "libfsdp-rt-entry.a";
static constexpr llvm::StringLiteral kLibrary = "libfsdp-rt.so";

llvm::Expected<std::string> mlir::fsdp::findRuntime(StringRef toolDir) {
  for (StringRef relative : {"../lib", "../lib/x86_64-linux-gnu", "../lib64"}) {
    llvm::SmallString<256> dir(toolDir), archive;
    llvm::sys::path::append(dir, relative);
    archive = dir;
    llvm::sys::path::append(archive, kArchive);
    if (llvm::sys::fs::exists(archive))
      return dir.str().str();
  }
  return llvm::createStringError("expected " + kArchive + " in " + toolDir +
                                 "/../lib; is the runtime built?");
}

llvm::Expected<std::string> mlir::fsdp::findLinkDriver() {
  for (StringRef name : {"c++", "g++", "clang++", "clang++-22"})
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
  return llvm::createStringError(
      "expected a C++ compiler driver (c++) on PATH to link with, "
      "got none");
}

/// Runs the compiler driver; files of its own are beside @place.
static llvm::Error run(llvm::ArrayRef<std::string> arguments, StringRef place) {
  auto end = runProgram(arguments, place);
  if (!end)
    return end.takeError();
  if (end->status == 0)
    return llvm::Error::success();
  // Lines of its own, as it wrote them, before the error.
  llvm::errs() << makePrintable(end->output, Newlines::Kept);
  return llvm::createStringError(
      "linking failed: " + llvm::join(arguments, " ") +
      (end->reason.empty() ? "" : ": " + end->reason));
}

llvm::Error mlir::fsdp::link(const LinkOptions &options, StringRef output) {
  auto driver = findLinkDriver();
  if (!driver)
    return driver.takeError();
  std::vector<std::string> args{*driver};
  if (options.shared)
    args.push_back("-shared");
  args.insert(args.end(), options.objects.begin(), options.objects.end());
  auto inRuntime = [&](StringRef name) {
    llvm::SmallString<256> path(options.runtimeDir);
    llvm::sys::path::append(path, name);
    return path.str().str();
  };
  if (options.shared) {
    std::string library = inRuntime(kLibrary);
    if (!llvm::sys::fs::exists(library))
      return llvm::createStringError(
          "expected the runtime's shared library, got no " + library);
    // All programs of a process share one runtime. It is found beside the
    // program, so that the two can be shipped together, or else where it is.
    llvm::SmallString<256> runtimeDir;
    if (std::error_code error =
            llvm::sys::fs::real_path(options.runtimeDir, runtimeDir))
      return llvm::createStringError("expected to find " + options.runtimeDir +
                                     ", got " + error.message());
    // -Xlinker: there may be a comma in names.
    args.insert(args.end(),
                {library, "-Xlinker", "-soname=" + options.soname, "-Xlinker",
                 ("-rpath=$ORIGIN:" + runtimeDir).str(),
                 // Another program's entry must not take this one's place.
                 "-Wl,-Bsymbolic", "-Wl,-z,defs"});
  } else {
    args.insert(args.end(), {inRuntime(kEntryArchive), inRuntime(kArchive)});
  }
  // Programs run where the C and C++ libraries are older than here: what nobody
  // calls asks for glibc 2.36, and so does libgcc's archive for 2.35, where
  // libgcc_s, whose symbols do not change, unwinds.
  args.insert(args.end(),
              {"-o", output.str(), "-pthread", "-ldl", "-lm",
               "-static-libstdc++", "-shared-libgcc", "-Wl,--gc-sections",
               "-Wl,--as-needed", "-Wl,-z,noexecstack"});
  return run(args, output);
}
