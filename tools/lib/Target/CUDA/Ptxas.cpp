//===- Ptxas.cpp - Machine code by the CUDA toolkit's assembler -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"
#include "fsdp/Tool/OutputFile.h"
#include "fsdp/Tool/RunProgram.h"

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
  else
    folders.push_back("/usr/local/cuda/bin");
  SmallVector<StringRef> paths(folders.begin(), folders.end());
  auto found = llvm::sys::findProgramByName("ptxas", paths);
  return found ? *found : std::string();
}

llvm::Expected<std::string> fsdp::assemblePtx(StringRef ptxas, StringRef ptx,
                                              StringRef processor) {
  llvm::SmallString<128> place;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, place);
  llvm::sys::path::append(place, "fsdp-ptx");
  auto input = TemporaryFile::create(place);
  if (!input)
    return input.takeError();
  auto output = TemporaryFile::create(place);
  if (!output)
    return output.takeError();
  std::error_code error =
      writeAll(input->getPath(), [&](raw_ostream &os) { os << ptx; });
  if (error)
    return llvm::createStringError("expected to write " + input->getPath() +
                                   ", got " + error.message());
  auto end = runProgram({ptxas.str(), ("-arch=" + processor).str(),
                         input->getPath().str(), "-o", output->getPath().str()},
                        place);
  if (!end)
    return end.takeError();
  if (end->status != 0) {
    StringRef line = StringRef(end->output).split('\n').first.trim();
    return llvm::createStringError(
        "expected it to take the kernels, got " +
        (line.empty() ? StringRef(end->reason) : line));
  }
  auto code = llvm::MemoryBuffer::getFile(output->getPath());
  if (!code)
    return llvm::createStringError("expected to read " + output->getPath() +
                                   ", got " + code.getError().message());
  return (*code)->getBuffer().str();
}
