//===- AlgorithmCache.h - Algorithms of earlier runs ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bits of a product depend on its algorithm, and what the library proposes
// may differ from one process to the next; those of an attention depend on
// whose kernels compute it, which times decide. What was chosen once for a
// card, a version of the library and a product or an attention is kept in a
// file.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_ALGORITHMCACHE_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_ALGORITHMCACHE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp::rt {

class AlgorithmCache {
public:
  /// What is kept of a choice.
  struct Choice {
    uint64_t data[8];
  };
  /// What chooses, as it is called in errors, in the file and in its name.
  struct Subject {
    const char *what, *library, *fileName;
  };
  static constexpr Subject products = {"products", "cuBLASLt", "cublaslt"};
  static constexpr Subject attention = {"attention", "cuDNN", "cudnn"};

  /// The environment variable FSDP_CUDA_CACHE; else fsdp-mlir in
  /// $XDG_CACHE_HOME or ~/.cache. Empty where there is none, or it is "none".
  static std::string directoryOfProcess();

  /// Of an empty directory, nothing is read or written.
  AlgorithmCache(const std::string &directory, const std::string &card,
                 const std::string &version, const Subject &subject = products);

  /// Takes what the file has. One that is damaged is as good as none: a line
  /// for the user says so.
  void read(std::vector<std::string> &notes);
  /// A key is one line.
  const Choice *find(const std::string &key) const;
  void keep(const std::string &key, const Choice &choice);
  /// Replaces the file, where anything has been kept since, by one with what
  /// other processes have kept meanwhile, too.
  void write(std::vector<std::string> &notes);

private:
  using Entries = std::map<std::string, Choice>;
  std::string header() const;
  /// False: no such file, or not of these.
  bool parse(const std::string &text, Entries &entries) const;
  bool readFile(Entries &entries, std::vector<std::string> &notes) const;

  Subject subject_;
  std::string directory_, card_, version_, path_;
  Entries entries_;
  bool hasChanged_ = false;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_ALGORITHMCACHE_H
