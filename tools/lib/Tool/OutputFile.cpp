//===- OutputFile.cpp - Files that appear whole or not at all -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Tool/OutputFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"

#include <random>

using namespace mlir::fsdp;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

static llvm::Error cannotWrite(StringRef path, std::error_code error) {
  return llvm::createStringError("expected to write " + path + ", got " +
                                 error.message());
}

static bool isOneFile(StringRef a, StringRef b) {
  bool same = false;
  return a == b ||
         (a != "-" && b != "-" && !fs::equivalent(a, b, same) && same);
}

llvm::Error mlir::fsdp::expectApart(llvm::ArrayRef<NamedFile> outputs,
                                    llvm::ArrayRef<NamedFile> inputs) {
  for (auto [i, output] : llvm::enumerate(outputs)) {
    if (output.path.empty())
      continue;
    auto isSame = [&, path = output.path](const NamedFile &other) {
      return !other.path.empty() && isOneFile(path, other.path);
    };
    if (auto other = llvm::find_if(outputs.take_front(i), isSame);
        other != outputs.begin() + i)
      return llvm::createStringError("expected another place for " +
                                     output.option + " than for " +
                                     other->option + ", got " + output.path);
    // What is read from a pipe is not written over.
    if (auto input = llvm::find_if(inputs, isSame);
        input != inputs.end() && output.path != "-" &&
        fs::is_regular_file(output.path))
      return llvm::createStringError("expected " + output.option +
                                     " to leave " + input->option +
                                     " as it is, got " + output.path);
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// TemporaryFile
//===----------------------------------------------------------------------===//

/// A name in the directory of `place` that nobody can know before.
static std::string makeTemporaryName(StringRef place) {
  constexpr size_t kLongestName = 200; // of the system's 255
  std::random_device random;
  uint64_t number = uint64_t(random()) << 32 | random();
  StringRef name = llvm::sys::path::filename(place);
  // A compiler driver takes what begins with one of these for an option or a
  // list of arguments.
  StringRef here = place.starts_with("-") || place.starts_with("@") ? "./" : "";
  return (here + place.drop_back(name.size()) + name.take_front(kLongestName) +
          "." + llvm::utohexstr(number, /*LowerCase=*/true, /*Width=*/16) +
          ".tmp")
      .str();
}

llvm::Expected<TemporaryFile> TemporaryFile::create(StringRef place) {
  constexpr int kTries = 100;
  std::error_code error;
  for (int i = 0; i < kTries; ++i) {
    TemporaryFile file;
    file.path = makeTemporaryName(place);
    int fd;
    // Where a file or a link of that name is, it is left alone.
    error = fs::openFileForWrite(file.path, fd, fs::CD_CreateNew);
    if (error == std::errc::file_exists) {
      file.path.clear();
      continue;
    }
    if (!error)
      error = llvm::sys::Process::SafelyCloseFileDescriptor(fd);
    if (error) {
      file.path.clear();
      return cannotWrite(place, error);
    }
    llvm::sys::RemoveFileOnSignal(file.path);
    return std::move(file);
  }
  return cannotWrite(place, error);
}

/// Removes what another program left beside @path under its name and a suffix:
/// lld writes `path.tmp%%%%%%%`, which stays when the disk is full and the
/// mapped write ends lld with SIGBUS. Nobody else's file has such a name, since
/// that of @path is random.
static void removeLeftBeside(StringRef path) {
  StringRef folder = llvm::sys::path::parent_path(path);
  std::string prefix = (llvm::sys::path::filename(path) + ".").str();
  std::error_code error;
  llvm::SmallVector<std::string> left;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error))
    if (llvm::sys::path::filename(entry->path()).starts_with(prefix))
      left.push_back(entry->path());
  for (const std::string &file : left)
    fs::remove(file);
}

TemporaryFile::~TemporaryFile() {
  if (path.empty())
    return;
  fs::remove(path);
  removeLeftBeside(path);
  llvm::sys::DontRemoveFileOnSignal(path);
}

std::error_code TemporaryFile::keep(StringRef destination) {
  if (std::error_code error = fs::rename(path, destination))
    return error;
  llvm::sys::DontRemoveFileOnSignal(path);
  path.clear();
  return {};
}

//===----------------------------------------------------------------------===//
// OutputFile
//===----------------------------------------------------------------------===//

llvm::Error OutputFile::fail(std::error_code error) const {
  return cannotWrite(name, error);
}

llvm::Expected<OutputFile> OutputFile::create(StringRef path, bool isProgram) {
  OutputFile file;
  file.name = file.place = path.str();
  if (path == "-") {
    if (isProgram)
      return llvm::createStringError(
          "expected the name of a file to write a program to, got "
          "-");
    return std::move(file);
  }
  fs::file_status status;
  if (std::error_code error = fs::status(path, status);
      error && error != std::errc::no_such_file_or_directory)
    return file.fail(error);
  if (!fs::exists(status) && fs::is_symlink_file(path))
    return llvm::createStringError("expected to write a file, got the link " +
                                   path + " to a place where there is none");
  if (fs::exists(status)) {
    llvm::SmallString<128> real;
    if (std::error_code error = fs::real_path(path, real))
      return file.fail(error);
    file.place = real.str().str();
  }
  if (fs::is_directory(status))
    return llvm::createStringError(
        "expected to write a file, got the directory " + path);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (isProgram)
      return llvm::createStringError(
          "expected to write a program to a file, got " + path +
          ", which is a device or a pipe");
    return std::move(file);
  }
  auto temporary = TemporaryFile::create(file.place);
  if (!temporary)
    return temporary.takeError();
  file.temporary = std::move(*temporary);
  return std::move(file);
}

llvm::Error OutputFile::commit() {
  if (std::error_code error = temporary.keep(place))
    return fail(error);
  return llvm::Error::success();
}

llvm::Error
OutputFile::write(llvm::function_ref<void(llvm::raw_ostream &)> print) {
  bool isInPlace = temporary.getPath().empty();
  if (std::error_code error =
          writeAll(isInPlace ? StringRef(place) : temporary.getPath(), print))
    return fail(error);
  return isInPlace ? llvm::Error::success() : commit();
}

std::error_code
mlir::fsdp::writeAll(StringRef path,
                     llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error, fs::CD_OpenAlways);
  if (error)
    return error;
  print(os);
  os.flush();
  error = os.error();
  // A stream that still has an error when it goes ends the process.
  os.clear_error();
  return error;
}
