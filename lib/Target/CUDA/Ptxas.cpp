//===- Ptxas.cpp - Machine code by the CUDA toolkit's assembler -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

using namespace mlir;
using namespace mlir::fsdp;

std::string fsdp::findPtxas() {
  if (auto onPath = llvm::sys::findProgramByName("ptxas"))
    return *onPath;
  SmallVector<std::string> folders;
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  SmallVector<StringRef> paths(folders.begin(), folders.end());
  auto found = llvm::sys::findProgramByName("ptxas", paths);
  return found ? *found : std::string();
}

namespace {
/// A file that goes with its object.
class Scratch {
public:
  explicit Scratch(StringRef suffix) {
    error = llvm::sys::fs::createTemporaryFile("fsdp-cuda", suffix, path);
    if (!error)
      remover.setFile(path);
  }
  std::error_code error;
  llvm::SmallString<128> path;

private:
  llvm::FileRemover remover;
};
} // namespace

static llvm::Expected<std::string> readAll(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(buffer.getError(),
                                   "expected to read " + path + ", got " +
                                       buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

llvm::Expected<std::string> fsdp::assemblePtx(StringRef ptxas, StringRef ptx,
                                              StringRef processor) {
  Scratch input("ptx"), output("cubin"), said("txt");
  for (const Scratch *file : {&input, &output, &said})
    if (file->error)
      return llvm::createStringError(
          file->error,
          "expected to write a temporary file, got " + file->error.message());
  std::error_code error;
  {
    llvm::raw_fd_ostream os(input.path, error);
    if (!error)
      os << ptx;
    os.close();
    if (os.has_error()) {
      error = os.error();
      os.clear_error();
    }
  }
  if (error)
    return llvm::createStringError(error, "expected to write " + input.path +
                                              ", got " + error.message());
  std::string arch = ("-arch=" + processor).str();
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(said.path),
                                          StringRef(said.path)};
  std::string why;
  int status = llvm::sys::ExecuteAndWait(
      ptxas, {ptxas, arch, input.path, "-o", output.path}, std::nullopt,
      redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0, &why);
  if (status != 0) {
    auto text = readAll(said.path);
    std::string line =
        text ? StringRef(*text).split('\n').first.trim().str() : std::string();
    if (!text)
      llvm::consumeError(text.takeError());
    return llvm::createStringError("expected it to take the kernels, got " +
                                   (line.empty() ? why : line));
  }
  return readAll(output.path);
}
