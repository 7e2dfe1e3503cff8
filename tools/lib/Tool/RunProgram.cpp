//===- RunProgram.cpp - Programs that a tool calls ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Tool/RunProgram.h"
#include "fsdp/Tool/OutputFile.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace mlir::fsdp;
using llvm::StringRef;

llvm::Expected<ProgramEnd>
mlir::fsdp::runProgram(llvm::ArrayRef<std::string> arguments, StringRef place) {
  auto log = TemporaryFile::create(place);
  if (!log)
    return log.takeError();
  llvm::SmallVector<StringRef> words(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(), log->getPath(),
                                          log->getPath()};
  ProgramEnd end;
  end.status = llvm::sys::ExecuteAndWait(words[0], words, std::nullopt,
                                         redirects, /*SecondsToWait=*/0,
                                         /*MemoryLimit=*/0, &end.reason);
  if (auto text = llvm::MemoryBuffer::getFile(log->getPath()))
    end.output = (*text)->getBuffer().str();
  return end;
}
