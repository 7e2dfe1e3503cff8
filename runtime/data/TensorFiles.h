//===- TensorFiles.h - Tensors by name, in one file or several --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_TENSORFILES_H
#define FSDP_RT_DATA_TENSORFILES_H

#include "core/Status.h"
#include "data/Safetensors.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// A tensor and the file that holds it.
struct StoredTensor {
  const SafetensorsReader *file = nullptr;
  const TensorInfo *info = nullptr;
  explicit operator bool() const { return info; }
};

/// How names in files become the program's: `strip` is taken away where a name
/// begins with it; then `add` is put before, where the program's names have it
/// and the file's do not.
struct Renaming {
  std::string strip, add;
};

/// Open safetensors files and the names of their tensors.
class TensorFiles {
public:
  /// `path` is a safetensors file, or the index of several beside it, as
  /// model.safetensors.index.json is one: {"weight_map": {name: file}}; or a
  /// folder with such an index or with model.safetensors. Other formats that
  /// people have are refused with what to do.
  static Result<TensorFiles> open(const std::string &path,
                                  const Renaming &renaming = {});
  /// One file, which must outlive this.
  static TensorFiles of(const SafetensorsReader &file);

  const std::string &path() const { return path_; }
  /// The folder of the files, with its slash; empty for the current one.
  std::string folder() const;
  /// By name, as the program is to see it.
  const std::map<std::string, StoredTensor> &tensors() const { return names_; }
  StoredTensor find(const std::string &name) const;

private:
  Status openIndex(const std::string &path);
  Status addFile(const std::string &path);
  Status addNames(const SafetensorsReader &file);
  Status checkStripped() const;

  std::string path_;
  Renaming renaming_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, StoredTensor> names_;
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_TENSORFILES_H
