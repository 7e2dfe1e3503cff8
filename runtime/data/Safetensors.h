//===- Safetensors.h - Tensors in files --------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file is eight bytes of header length (little endian), a JSON
// header {"name": {"dtype", "shape", "data_offsets"}} and the tensors' bytes,
// row-major and without gaps.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_SAFETENSORS_H
#define FSDP_RT_DATA_SAFETENSORS_H

#include "core/Status.h"
#include "data/File.h"
#include "data/Manifest.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::rt::data {

/// A tensor as a file's header describes it.
struct TensorInfo {
  std::string name;
  std::string dtypeName;
  std::optional<Dtype> dtype; // none for what programs cannot hold: U16, ...
  Shape shape;
  int64_t offset = 0; // bytes, in the file
  int64_t bytes = 0;
};

/// An open file whose header keeps every rule of the format. Reads may come
/// from several threads at once. Errors name the file.
class SafetensorsReader {
public:
  /// Longest header that is read, as in the format's reference reader.
  static constexpr int64_t maxHeaderBytes = 100'000'000;

  static Result<SafetensorsReader> open(const std::string &path);
  static Result<SafetensorsReader> open(File file);

  const File &file() const { return file_; }
  const std::string &path() const { return file_.path(); }
  /// Sorted by name.
  const std::vector<TensorInfo> &tensors() const { return tensors_; }
  const TensorInfo *find(std::string_view name) const;
  /// The tensor that owns this byte of the file; null for the header's.
  const TensorInfo *findAt(int64_t offset) const;
  int64_t fileBytes() const { return fileBytes_; }
  /// Bytes [offset, offset + bytes) of a tensor of this file.
  Status read(const TensorInfo &tensor, int64_t offset, void *dst,
              int64_t bytes) const;

private:
  Status readHeader();

  File file_;
  int64_t fileBytes_ = 0;
  std::vector<TensorInfo> tensors_;
};

/// A tensor to be written.
struct TensorSpec {
  std::string name;
  Dtype dtype = FSDP_RT_F32;
  Shape shape;
};

/// Where every tensor of a file will stand; equal on all ranks that build it
/// from equal specs.
class SafetensorsLayout {
public:
  /// Refuses names that occur twice or are reserved. The file says
  /// `format: pt`, so that PyTorch's readers take it.
  static Result<SafetensorsLayout> create(std::vector<TensorSpec> specs);

  const std::vector<TensorSpec> &specs() const { return specs_; }
  /// Byte of the file at which spec `index` begins.
  int64_t offsetOf(size_t index) const { return offsets_[index]; }
  int64_t fileBytes() const { return fileBytes_; }

  /// Gives a new file its full size and its header; the tensors' bytes are
  /// then written at their offsets, by any number of ranks. Fails where the
  /// disk has no room for all of it.
  Status begin(const File &file) const;
  /// The bytes before the first tensor.
  const std::string &header() const { return header_; }

private:
  std::vector<TensorSpec> specs_;
  std::vector<int64_t> offsets_;
  std::string header_;
  int64_t fileBytes_ = 0;
};

/// Creates or replaces a whole file atomically; data[i] holds the bytes of
/// specs[i].
Status writeSafetensors(const std::string &path, std::vector<TensorSpec> specs,
                        const std::vector<const void *> &data);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_SAFETENSORS_H
