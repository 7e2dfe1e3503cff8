//===- ModelConfig.cpp - Is it the model that was traced? -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ModelConfig.h"

#include "data/File.h"
#include "data/Json.h"

namespace fsdp::rt::data {

namespace {

constexpr int64_t maxConfigBytes = 16 << 20;
constexpr size_t maxListed = 5;

/// Entries of `traced` that differ from those of `stored`, by name. Those that
/// `stored` lacks are what the model takes by default: nothing is known of
/// them. Where it lacks a whole object, that one's entries, but for objects in
/// it, may stand in `stored` itself: older files have them there. Objects of
/// `traced` are left out where `hasObjects` is false.
void listDifferences(const nlohmann::json &traced, const nlohmann::json &stored,
                     const std::string &path, std::vector<std::string> &found,
                     bool hasObjects = true) {
  for (const auto &[key, want] : traced.items()) {
    if (want.is_object() && !hasObjects)
      continue;
    auto got = stored.find(key);
    if (got == stored.end()) {
      if (want.is_object())
        listDifferences(want, stored, path + key + ".", found,
                        /*hasObjects=*/false);
    } else if (want.is_object() && got->is_object()) {
      listDifferences(want, *got, path + key + ".", found);
    } else if (*got != want) {
      found.push_back(path + key + " " + dumpJson(*got) + " instead of " +
                      dumpJson(want));
    }
  }
}

} // namespace

Status checkModelConfig(const Manifest &manifest, const std::string &folder,
                        std::vector<std::string> &notes) {
  std::string path = folder + "config.json";
  // Few manifests have one, and few folders: it is parsed here alone.
  if (!pathExists(path))
    return Status::ok();
  Result<nlohmann::json> own = parseJson(manifest.text);
  if (!own.isOk())
    return own.status().withContext("manifest");
  if (!own->contains("config"))
    return Status::ok();
  const nlohmann::json &wanted = own->at("config");
  if (!wanted.is_object())
    return Status::failed("manifest: config: expected an object");
  Result<std::string> text = readWholeFile(path, maxConfigBytes);
  if (!text.isOk())
    return text.status();
  Result<nlohmann::json> stored = parseJson(*text);
  if (!stored.isOk()) {
    notes.push_back(stored.status().withContext(path).message() +
                    ": not compared with the configuration that was exported");
    return Status::ok();
  }
  if (!stored->is_object() || !stored->contains("model_type"))
    return Status::ok();
  std::vector<std::string> found;
  listDifferences(wanted, *stored, "", found);
  if (found.empty())
    return Status::ok();
  std::string list;
  for (size_t i = 0; i < found.size() && i < maxListed; ++i)
    list += (i ? ", " : "") + found[i];
  if (found.size() > maxListed)
    list += " and " + std::to_string(found.size() - maxListed) + " more";
  return Status::failed(
      "expected parameters of the model that was exported, got '" + path +
      "' with " + list +
      "; export that model (fsdp-export hf:" + (folder.empty() ? "." : folder) +
      "), or give the parameters without their config.json");
}

} // namespace fsdp::rt::data
