//===- Safetensors.cpp - Tensors in files ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Safetensors.h"

#include "data/Json.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unistd.h>

using nlohmann::json;

namespace fsdp::rt::data {

namespace {

constexpr const char *metadataKey = "__metadata__";

/// Element types that files may hold and programs may not.
constexpr struct {
  const char *name;
  int64_t size;
} foreignDtypes[] = {{"U16", 2},     {"U32", 4},     {"U64", 8},    {"C64", 8},
                     {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

/// 0 where the name is unknown.
int64_t elementBytes(const TensorInfo &tensor) {
  if (tensor.dtype)
    return dtypeSize(*tensor.dtype);
  for (const auto &foreign : foreignDtypes)
    if (tensor.dtypeName == foreign.name)
      return foreign.size;
  return 0;
}

/// `dataBegin` and `dataBytes`: where the tensors stand in the file.
TensorInfo readEntry(const std::string &name, const JsonReader &entry,
                     int64_t dataBegin, int64_t dataBytes) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtypeName = entry["dtype"].string();
  tensor.dtype = dtypeFromName(tensor.dtypeName);
  int64_t expected = elementBytes(tensor);
  if (!entry.failed() && expected == 0)
    entry["dtype"].fail("expected a known dtype, got '" + tensor.dtypeName +
                        "'");
  bool isTooLarge = false;
  entry["shape"].forEach([&](const JsonReader &extent) {
    tensor.shape.push_back(extent.integer(0));
    isTooLarge |=
        __builtin_mul_overflow(expected, tensor.shape.back(), &expected);
  });
  if (isTooLarge)
    entry["shape"].fail("expected fewer than 2^63 bytes, got shape " +
                        toString(tensor.shape));
  std::vector<int64_t> bounds;
  JsonReader offsets = entry["data_offsets"];
  offsets.forEach(
      [&](const JsonReader &bound) { bounds.push_back(bound.integer(0)); });
  if (entry.failed())
    return tensor;
  if (bounds.size() != 2 || bounds[0] > bounds[1]) {
    offsets.fail("expected [begin, end] with begin <= end");
    return tensor;
  }
  if (bounds[1] > dataBytes) {
    offsets.fail("expected an end within the " + std::to_string(dataBytes) +
                 " bytes after the header, got " + std::to_string(bounds[1]) +
                 ": the file is truncated");
    return tensor;
  }
  tensor.offset = dataBegin + bounds[0];
  tensor.bytes = bounds[1] - bounds[0];
  if (tensor.bytes != expected)
    offsets.fail("expected " + std::to_string(expected) + " bytes for " +
                 tensor.dtypeName + " " + toString(tensor.shape) + ", got " +
                 std::to_string(tensor.bytes));
  return tensor;
}

/// The tensors must fill [dataBegin, fileBytes) without gap or overlap.
Status checkContiguous(const std::vector<TensorInfo> &tensors,
                       int64_t dataBegin, int64_t fileBytes) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(tensors[a].offset, tensors[a].bytes) <
           std::make_pair(tensors[b].offset, tensors[b].bytes);
  });
  int64_t end = dataBegin;
  for (size_t i : order) {
    const TensorInfo &tensor = tensors[i];
    if (tensor.offset != end)
      return Status::failed(tensor.name + ".data_offsets: expected begin " +
                            std::to_string(end - dataBegin) + ", got " +
                            std::to_string(tensor.offset - dataBegin) +
                            (tensor.offset < end ? " (overlaps another tensor)"
                                                 : " (leaves a gap)"));
    end += tensor.bytes;
  }
  if (end != fileBytes)
    return Status::failed("expected the file to end at byte " +
                          std::to_string(end) + ", got " +
                          std::to_string(fileBytes - end) +
                          " trailing bytes that no tensor owns");
  return Status::ok();
}

} // namespace

Result<SafetensorsReader> SafetensorsReader::open(const std::string &path) {
  Result<File> file = File::openForReading(path);
  if (!file.isOk())
    return file.status();
  return open(std::move(*file));
}

Result<SafetensorsReader> SafetensorsReader::open(File file) {
  SafetensorsReader reader;
  reader.file_ = std::move(file);
  if (Status s = reader.readHeader())
    return s.withContext(reader.path());
  return reader;
}

Status SafetensorsReader::readHeader() {
  Result<int64_t> size = file_.size();
  if (!size.isOk())
    return size.status();
  fileBytes_ = *size;
  uint64_t headerBytes = 0;
  constexpr int64_t lengthBytes = sizeof headerBytes;
  if (fileBytes_ < lengthBytes)
    return Status::failed("expected a safetensors file, got " +
                          std::to_string(fileBytes_) + " bytes");
  if (Status s = file_.readAt(0, &headerBytes, lengthBytes))
    return s;
  if (headerBytes > uint64_t(maxHeaderBytes))
    return Status::failed("expected a safetensors header of at most " +
                          std::to_string(maxHeaderBytes) + " bytes, got " +
                          std::to_string(headerBytes));
  int64_t dataBegin = lengthBytes + int64_t(headerBytes);
  if (dataBegin > fileBytes_)
    return Status::failed("expected a header of " +
                          std::to_string(headerBytes) + " bytes, got " +
                          std::to_string(fileBytes_ - lengthBytes) +
                          ": the file is truncated or no safetensors file");
  std::string text(headerBytes, '\0');
  if (Status s = file_.readAt(lengthBytes, text.data(), text.size()))
    return s;
  if (text.empty() || text[0] != '{')
    return Status::failed("expected a safetensors header that begins with '{'");
  Result<json> header = parseJson(text);
  if (!header.isOk())
    return header.status().withContext("header");

  Status status;
  int64_t dataBytes = fileBytes_ - dataBegin;
  JsonReader(*header, status)
      .forEachEntry([&](const std::string &name, const JsonReader &entry) {
        // PyTorch's writer may leave it empty.
        if (name == metadataKey && entry.isNull())
          return;
        if (name == metadataKey)
          return entry.forEachEntry(
              [](const std::string &, const JsonReader &value) {
                (void)value.string();
              });
        tensors_.push_back(readEntry(name, entry, dataBegin, dataBytes));
      });
  if (status)
    return status.withContext("header");
  return checkContiguous(tensors_, dataBegin, fileBytes_);
}

const TensorInfo *SafetensorsReader::find(std::string_view name) const {
  auto it =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorInfo &tensor, std::string_view key) {
                         return std::string_view(tensor.name) < key;
                       });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

const TensorInfo *SafetensorsReader::findAt(int64_t offset) const {
  for (const TensorInfo &tensor : tensors_)
    if (offset >= tensor.offset && offset < tensor.offset + tensor.bytes)
      return &tensor;
  return nullptr;
}

Status SafetensorsReader::read(const TensorInfo &tensor, int64_t offset,
                               void *dst, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset > tensor.bytes - bytes)
    return Status::internal("read of bytes " + std::to_string(offset) + " to " +
                            std::to_string(offset + bytes) + " of '" +
                            tensor.name + "', which has " +
                            std::to_string(tensor.bytes));
  return file_.readAt(tensor.offset + offset, dst, bytes);
}

Result<SafetensorsLayout>
SafetensorsLayout::create(std::vector<TensorSpec> specs) {
  SafetensorsLayout layout;
  layout.specs_ = std::move(specs);
  layout.offsets_.resize(layout.specs_.size());

  // Wide elements first keeps every tensor aligned to its element.
  std::vector<size_t> order(layout.specs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TensorSpec &x = layout.specs_[a], &y = layout.specs_[b];
    int64_t xSize = dtypeSize(x.dtype), ySize = dtypeSize(y.dtype);
    return xSize != ySize ? xSize > ySize : x.name < y.name;
  });

  json header = {{metadataKey, {{"format", "pt"}}}};
  int64_t end = 0;
  for (size_t i : order) {
    const TensorSpec &spec = layout.specs_[i];
    if (header.contains(spec.name))
      return Status::failed("expected distinct tensor names, got '" +
                            spec.name + "' twice");
    int64_t begin = end;
    end += numelOf(spec.shape) * dtypeSize(spec.dtype);
    header[spec.name] = {{"dtype", dtypeName(spec.dtype)},
                         {"shape", spec.shape},
                         {"data_offsets", {begin, end}}};
    layout.offsets_[i] = begin;
  }
  std::string text = dumpJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  if (int64_t(text.size()) > SafetensorsReader::maxHeaderBytes)
    return Status::failed("expected a safetensors header of at most " +
                          std::to_string(SafetensorsReader::maxHeaderBytes) +
                          " bytes, got " + std::to_string(text.size()));
  uint64_t headerBytes = text.size();
  layout.header_.assign(reinterpret_cast<const char *>(&headerBytes),
                        sizeof headerBytes);
  layout.header_ += text;
  for (int64_t &offset : layout.offsets_)
    offset += layout.header_.size();
  layout.fileBytes_ = layout.header_.size() + end;
  return layout;
}

Status SafetensorsLayout::begin(const File &file) const {
  if (Status s = file.allocate(fileBytes_))
    return s;
  return file.writeAt(0, header_.data(), header_.size());
}

Status writeSafetensors(const std::string &path, std::vector<TensorSpec> specs,
                        const std::vector<const void *> &data) {
  Result<SafetensorsLayout> layout =
      SafetensorsLayout::create(std::move(specs));
  if (!layout.isOk())
    return layout.status().withContext(path);
  Result<File> file = File::createBeside(path);
  if (!file.isOk())
    return file.status();
  Status status = [&]() -> Status {
    if (Status s = layout->begin(*file))
      return s;
    for (size_t i = 0; i < data.size(); ++i) {
      const TensorSpec &spec = layout->specs()[i];
      if (Status s = file->writeAt(layout->offsetOf(i), data[i],
                                   numelOf(spec.shape) * dtypeSize(spec.dtype)))
        return s;
    }
    if (Status s = file->sync())
      return s;
    if (Status s = file->close())
      return s;
    if (::rename(file->path().c_str(), path.c_str()) != 0)
      return systemError("cannot replace", path);
    return Status::ok();
  }();
  if (status) {
    ::unlink(file->path().c_str());
    return status;
  }
  size_t slash = path.rfind('/');
  return syncDirectory(slash == std::string::npos
                           ? "."
                           : path.substr(0, std::max<size_t>(slash, 1)));
}

} // namespace fsdp::rt::data
