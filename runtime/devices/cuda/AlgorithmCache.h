//===- AlgorithmCache.h - Algorithms of earlier runs ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bits of a product depend on its algorithm, and what the library proposes
// may differ from one process to the next. What was chosen once for a card, a
// version of the library and a product is kept in a file.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_ALGORITHMCACHE_H
#define FSDP_RT_DEVICES_CUDA_ALGORITHMCACHE_H

#include "devices/cuda/CublasLtApi.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::rt {

class AlgorithmCache {
public:
  /// The environment variable FSDP_CUDA_CACHE; else fsdp-mlir in
  /// $XDG_CACHE_HOME or ~/.cache. Empty where there is none, or it is "none".
  static std::string directoryOfProcess();

  /// Of an empty directory, nothing is read or written.
  AlgorithmCache(const std::string &directory, const std::string &card,
                 const std::string &library);

  /// Takes what the file has. One that is damaged is as good as none: a line
  /// for the user says so.
  void read(std::vector<std::string> &notes);
  /// The key of a product is one line.
  const lt::Algorithm *find(const std::string &key) const;
  void keep(const std::string &key, const lt::Algorithm &algorithm);
  /// Replaces the file, where anything has been kept since, by one with what
  /// other processes have kept meanwhile, too.
  void write(std::vector<std::string> &notes);

private:
  using Entries = std::map<std::string, lt::Algorithm>;
  std::string header() const;
  /// False: no such file, or not of these.
  bool parse(const std::string &text, Entries &entries) const;
  bool readFile(Entries &entries, std::vector<std::string> &notes) const;

  std::string directory_, card_, library_, path_;
  Entries entries_;
  bool hasChanged_ = false;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_ALGORITHMCACHE_H
