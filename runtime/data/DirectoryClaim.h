//===- DirectoryClaim.h - A directory made for what may come -----*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_DIRECTORYCLAIM_H
#define FSDP_RT_DATA_DIRECTORYCLAIM_H

#include "core/Status.h"

#include <string>
#include <vector>

namespace fsdp::rt::data {

/// Makes a directory before it is needed, to find out early whether that can be
/// done; what it made and is still empty at its end, it removes again.
class DirectoryClaim {
public:
  DirectoryClaim() = default;
  DirectoryClaim(DirectoryClaim &&other) noexcept {
    created_.swap(other.created_);
  }
  DirectoryClaim &operator=(DirectoryClaim &&other) noexcept {
    created_.swap(other.created_);
    return *this;
  }
  ~DirectoryClaim();

  /// Makes `path` and its parents. Once.
  Status create(const std::string &path);

private:
  std::vector<std::string> created_; // innermost first
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_DIRECTORYCLAIM_H
