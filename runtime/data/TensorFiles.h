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

/// How the program's names are found among those of files. `strip` is taken
/// away where a file's name begins with it. What the program's name is called
/// there is the first of these that a file has: the name; the name without
/// `add` where it begins with that; both again without the texts of `omit`,
/// which are taken away in their order wherever they occur.
struct Renaming {
  std::string strip, add;
  std::vector<std::string> omit;
};

/// `name` without the texts of `omit`.
std::string omitTexts(std::string name, const std::vector<std::string> &omit);

/// Open safetensors files and the names of their tensors.
class TensorFiles {
public:
  /// Each of `paths` is a safetensors file, or the index of several beside it,
  /// as model.safetensors.index.json is one: {"weight_map": {name: file}}; or a
  /// folder with such an index, with model.safetensors or with
  /// adapter_model.safetensors. Other formats that people have are refused with
  /// what to do, and so is a name that two files have.
  static Result<TensorFiles> open(const std::vector<std::string> &paths,
                                  const Renaming &renaming = {});
  /// One file, which must outlive this.
  static TensorFiles of(const SafetensorsReader &file);

  /// What was opened, for messages: a path, or several with commas.
  const std::string &path() const { return path_; }
  /// The folders of what was opened, each with its slash; empty for the current
  /// one.
  const std::vector<std::string> &folders() const { return folders_; }
  /// By name, as the files have it but for Renaming::strip.
  const std::map<std::string, StoredTensor> &tensors() const { return names_; }
  /// By the program's name of it.
  StoredTensor find(const std::string &name) const;

private:
  StoredTensor findAdded(const std::string &name) const;
  Status openIndex(const std::string &path);
  Status addFile(const std::string &path);
  Status addNames(const SafetensorsReader &file);
  Status checkStripped() const;

  std::string path_;
  std::vector<std::string> folders_;
  Renaming renaming_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, StoredTensor> names_;
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_TENSORFILES_H
