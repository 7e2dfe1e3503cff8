//===- OutputFile.h - Files that appear whole or not at all -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOL_OUTPUTFILE_H
#define FSDP_TOOL_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::fsdp {

/// A file of this process that goes away with it, however that ends.
class TemporaryFile {
public:
  TemporaryFile() = default;
  TemporaryFile(TemporaryFile &&other) { std::swap(path, other.path); }
  TemporaryFile &operator=(TemporaryFile &&other) {
    std::swap(path, other.path);
    return *this;
  }
  ~TemporaryFile();

  /// A new, empty file in the directory of @place, which is reported where that
  /// cannot be.
  static llvm::Expected<TemporaryFile> create(llvm::StringRef place);

  llvm::StringRef getPath() const { return path; }
  /// It moves to @destination and stays.
  std::error_code keep(llvm::StringRef destination);

private:
  llvm::SmallString<128> path;
};

/// A file that an option names; empty: it does not.
struct NamedFile {
  llvm::StringRef option, path;
};

/// Refuses outputs that are one file, or one of @inputs: writing the one would
/// lose the other. The same path, "-" too, or another name of the file.
llvm::Error expectApart(llvm::ArrayRef<NamedFile> outputs,
                        llvm::ArrayRef<NamedFile> inputs);

/// What a user names with `-o`. Links are followed; devices and pipes are
/// written to, never replaced.
class OutputFile {
public:
  /// Refuses what cannot be written before anything is computed for it. "-" is
  /// the standard output unless a program is to be written, which must be a
  /// file.
  static llvm::Expected<OutputFile> create(llvm::StringRef path,
                                           bool isProgram = false);

  /// Where to write a program before commit() puts it in its place.
  llvm::StringRef getTemporaryPath() const { return temporary.getPath(); }
  llvm::Error commit();
  /// The whole text; commits it.
  llvm::Error write(llvm::function_ref<void(llvm::raw_ostream &)> print);

private:
  llvm::Error fail(std::error_code error) const;

  std::string name, place;
  TemporaryFile temporary;
};

/// `print` into @path, which is overwritten.
std::error_code writeAll(llvm::StringRef path,
                         llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace mlir::fsdp

#endif // FSDP_TOOL_OUTPUTFILE_H
