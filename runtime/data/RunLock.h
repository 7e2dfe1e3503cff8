//===- RunLock.h - One run at a time in a directory -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_RUNLOCK_H
#define FSDP_RT_DATA_RUNLOCK_H

#include "core/Status.h"
#include "data/Directory.h"

#include <string>

namespace fsdp::rt::data {

/// Keeps other runs from saving into a directory, from acquire() until its end
/// or that of its process, however that comes. It is a flock on DIR/.lock, in
/// which host, process and a random token stand; NFS passes such locks on
/// between hosts. The file is removed with the lock.
class RunLock {
public:
  static constexpr const char *fileName = ".lock";

  RunLock() = default;
  RunLock(RunLock &&other) noexcept { swap(other); }
  RunLock &operator=(RunLock &&other) noexcept {
    swap(other);
    return *this;
  }
  ~RunLock();

  /// Fails, with host and process, where another run has the lock. On a file
  /// system without locks it fails where a process of this host that still
  /// exists is named in the file; `isExclusive()` is then false.
  static Result<RunLock> acquire(const Directory &directory);

  /// Whether the system keeps others out.
  bool isExclusive() const { return isExclusive_; }
  /// What a rank on another host must find in the file to share the directory.
  const std::string &token() const { return token_; }
  /// The token in the directory's file; empty where there is none.
  static std::string readToken(const Directory &directory);

private:
  Status claim(const std::string &path);
  void swap(RunLock &other) noexcept;

  Directory directory_;
  int fd_ = -1;
  bool isExclusive_ = false;
  std::string token_;
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_RUNLOCK_H
