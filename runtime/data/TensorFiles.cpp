//===- TensorFiles.cpp - Tensors by name, in one file or several ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/TensorFiles.h"

#include "data/Json.h"

#include <algorithm>
#include <set>

namespace fsdp::rt::data {

namespace {

constexpr int64_t maxIndexBytes = 256 << 20;

bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// The folder of a path, with its slash; empty for the current one.
std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string convertCommand(const std::string &path) {
  return "convert it once, with PyTorch: python3 -c \"import sys, torch; from "
         "safetensors.torch import save_file; d = torch.load(sys.argv[1], "
         "'cpu', weights_only=True); d = d.get('state_dict', d); save_file({k: "
         "v.clone().contiguous() for k, v in d.items()}, sys.argv[2])\" '" +
         path + "' params.safetensors";
}

/// Models come as folders: the file of one to open; other paths are returned.
std::string fileOf(const std::string &path) {
  if (listDirectory(path).isOk())
    for (const char *name : {"model.safetensors.index.json",
                             "model.safetensors", "adapter_model.safetensors"})
      if (std::string file = path + "/" + name; pathExists(file))
        return file;
  return path;
}

/// What a file is instead of a safetensors file; success where that cannot be
/// told.
Status recognise(const std::string &path) {
  Result<File> file = File::openForReading(path);
  char magic[4] = {};
  if (!file.isOk() || file->readAt(0, magic, sizeof magic))
    return Status::ok();
  std::string start(magic, sizeof magic);
  auto refuse = [&](const std::string &what, const std::string &remedy) {
    return Status::failed(path + ": expected a safetensors file, got " + what +
                          ": " + remedy);
  };
  // torch.save writes a zip file of pickles; before PyTorch 1.6, a pickle.
  if (start == "PK\3\4")
    return refuse("a zip file, as torch.save writes", convertCommand(path));
  if (start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return refuse("a pickle, as torch.save writes", convertCommand(path));
  if (start == "GGUF")
    return refuse("a GGUF file, whose tensors are named and stored otherwise",
                  "take the model's safetensors files");
  if (start[0] == '{' && !endsWith(path, ".json"))
    return refuse("JSON", "an index of several files has a name that ends "
                          "with .json");
  return Status::ok();
}

} // namespace

std::string omitTexts(std::string name, const std::vector<std::string> &omit) {
  for (const std::string &text : omit)
    for (size_t at = 0; (at = name.find(text, at)) != std::string::npos;)
      name.erase(at, text.size());
  return name;
}

Result<TensorFiles> TensorFiles::open(const std::vector<std::string> &paths,
                                      const Renaming &renaming) {
  TensorFiles files;
  files.renaming_ = renaming;
  std::vector<std::string> opened;
  for (const std::string &path : paths) {
    opened.push_back(fileOf(path));
    files.path_ += (files.path_.empty() ? "" : ", ") + opened.back();
    files.folders_.push_back(folderOf(opened.back()));
  }
  for (const std::string &path : opened)
    if (Status s = endsWith(path, ".json") ? files.openIndex(path)
                                           : files.addFile(path))
      return s;
  if (Status s = files.checkStripped())
    return s;
  return files;
}

/// A prefix that no name begins with would be taken away from nothing.
Status TensorFiles::checkStripped() const {
  if (renaming_.strip.empty() || names_.empty())
    return Status::ok();
  for (const auto &[name, stored] : names_)
    if (startsWith(stored.info->name, renaming_.strip))
      return Status::ok();
  return Status::failed(path_ + ": expected names that begin with '" +
                        renaming_.strip + "' (--strip-prefix), got '" +
                        names_.begin()->second.info->name + "'");
}

TensorFiles TensorFiles::of(const SafetensorsReader &file) {
  TensorFiles files;
  files.path_ = file.path();
  // Names in one file are distinct.
  (void)files.addNames(file);
  return files;
}

Status TensorFiles::addFile(const std::string &path) {
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  if (!file.isOk()) {
    Status other = recognise(path);
    return other ? other : file.status();
  }
  files_.push_back(std::make_unique<SafetensorsReader>(std::move(*file)));
  return addNames(*files_.back());
}

Status TensorFiles::addNames(const SafetensorsReader &file) {
  for (const TensorInfo &tensor : file.tensors()) {
    std::string name = tensor.name;
    if (!renaming_.strip.empty() && startsWith(name, renaming_.strip))
      name = name.substr(renaming_.strip.size());
    auto [at, isNew] = names_.try_emplace(name, StoredTensor{&file, &tensor});
    if (!isNew)
      return Status::failed(path_ + ": expected one tensor '" + name +
                            "', got '" + at->second.info->name + "' in '" +
                            at->second.file->path() + "' and '" + tensor.name +
                            "' in '" + file.path() + "'");
  }
  return Status::ok();
}

Status TensorFiles::openIndex(const std::string &path) {
  Result<std::string> text = readWholeFile(path, maxIndexBytes);
  if (!text.isOk())
    return text.status();
  Result<nlohmann::json> json = parseJson(*text);
  if (!json.isOk())
    return json.status().withContext(path);
  Status status;
  std::map<std::string, std::string> fileOf;
  std::set<std::string> names;
  JsonReader(*json, status)["weight_map"].forEachEntry(
      [&](const std::string &tensor, const JsonReader &entry) {
        std::string name = entry.nonEmptyString();
        if (name.find('/') != std::string::npos || name == "..")
          entry.fail("expected the name of a file beside the index, got '" +
                     name + "'");
        fileOf[tensor] = name;
        names.insert(name);
      });
  if (!status && names.empty())
    status = Status::failed("weight_map: expected tensors, got none");
  if (status)
    return status.withContext(path);
  std::string folder = folderOf(path);
  for (const std::string &name : names)
    if (Status s = addFile(folder + name))
      return s;
  for (const auto &[tensor, name] : fileOf) {
    bool isThere = std::any_of(
        files_.begin(), files_.end(),
        [&, &tensor = tensor, &name = name](const auto &file) {
          return file->path() == folder + name && file->find(tensor);
        });
    if (!isThere)
      return Status::failed(path + ": expected '" + tensor + "' in '" + folder +
                            name + "', got none there");
  }
  return Status::ok();
}

/// Under `name`, or under what it is without Renaming::add.
StoredTensor TensorFiles::findAdded(const std::string &name) const {
  auto at = names_.find(name);
  if (at == names_.end() && !renaming_.add.empty() &&
      startsWith(name, renaming_.add))
    at = names_.find(name.substr(renaming_.add.size()));
  return at == names_.end() ? StoredTensor() : at->second;
}

StoredTensor TensorFiles::find(const std::string &name) const {
  StoredTensor found = findAdded(name);
  return found || renaming_.omit.empty()
             ? found
             : findAdded(omitTexts(name, renaming_.omit));
}

} // namespace fsdp::rt::data
