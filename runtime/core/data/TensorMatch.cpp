//===- TensorMatch.cpp - Wanted tensors against a file's ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/TensorMatch.h"

#include "core/data/Names.h"

#include <algorithm>
#include <unordered_set>

namespace fsdp::rt::data {

namespace {

/// Longest list of differences that a message tells in full.
constexpr size_t maxTold = 5;

class Problems {
public:
  void add(std::string problem) {
    if (told_++ < maxTold)
      text_ += (text_.empty() ? "" : "; ") + std::move(problem);
  }
  void addNames(const char *what, const std::vector<std::string> &names) {
    if (!names.empty())
      text_ += (text_.empty() ? "" : "; ") + std::string(what) + " " +
               std::to_string(names.size()) +
               (names.size() == 1 ? " tensor: " : " tensors: ") +
               listNames(names, maxTold);
  }
  Status status(const std::string &path) const {
    if (text_.empty())
      return Status::ok();
    std::string rest =
        told_ > maxTold
            ? "; and " + std::to_string(told_ - maxTold) + " more differences"
            : "";
    return Status::failed(path + ": " + text_ + rest);
  }

private:
  size_t told_ = 0;
  std::string text_;
};

void checkTensor(const WantedTensor &want, const TensorInfo &found, bool cast,
                 Problems &problems) {
  if (found.shape != want.shape)
    return problems.add("'" + found.name + "': expected shape " +
                        toString(want.shape) + ", got " +
                        toString(found.shape));
  if (found.dtype == want.dtype)
    return;
  bool canCast = isFloat(want.dtype) && found.dtype && isFloat(*found.dtype);
  if (canCast && cast)
    return;
  problems.add("'" + found.name + "': expected " + dtypeName(want.dtype) +
               ", got " + found.dtypeName +
               (canCast ? " (--cast-params converts it)" : ""));
}

} // namespace

Result<std::vector<const TensorInfo *>>
matchTensors(const SafetensorsReader &file,
             const std::vector<WantedTensor> &wanted, bool cast) {
  Problems problems;
  std::vector<const TensorInfo *> matched;
  std::vector<std::string> missing, unexpected;
  std::unordered_set<const TensorInfo *> used;
  for (const WantedTensor &want : wanted) {
    const TensorInfo *chosen = nullptr;
    auto consider = [&](const std::string &name) {
      const TensorInfo *found = file.find(name);
      if (!found)
        return;
      used.insert(found);
      checkTensor(want, *found, cast, problems);
      if (!chosen)
        chosen = found;
    };
    consider(want.name);
    for (const std::string &alias : want.aliases)
      consider(alias);
    if (!chosen && !want.isOptional)
      missing.push_back(want.name);
    matched.push_back(chosen);
  }
  for (const TensorInfo &tensor : file.tensors())
    if (!used.count(&tensor))
      unexpected.push_back(tensor.name);
  problems.addNames("missing", missing);
  problems.addNames("unexpected", unexpected);
  if (Status s = problems.status(file.path()))
    return s;
  return matched;
}

Status readElements(const SafetensorsReader &file, const TensorInfo &tensor,
                    Dtype dtype, int64_t begin, int64_t count, char *dst) {
  int64_t size = dtypeSize(*tensor.dtype);
  if (*tensor.dtype == dtype) {
    if (Status s = file.read(tensor, begin * size, dst, count * size))
      return s;
    if (dtype != FSDP_RT_BOOL)
      return Status::ok();
    char *bad = std::find_if(dst, dst + count, [](char b) { return b & ~1; });
    if (bad == dst + count)
      return Status::ok();
    return Status::failed(file.path() + ": '" + tensor.name + "', element " +
                          std::to_string(begin + (bad - dst)) +
                          ": expected 0 or 1, got " +
                          std::to_string(static_cast<unsigned char>(*bad)));
  }
  constexpr int64_t chunk = 8192;
  std::vector<char> stored(std::min(count, chunk) * size);
  for (int64_t done = 0; done < count; done += chunk) {
    int64_t now = std::min(chunk, count - done);
    if (Status s =
            file.read(tensor, (begin + done) * size, stored.data(), now * size))
      return s;
    convertFloats(*tensor.dtype, stored.data(), dtype,
                  dst + done * dtypeSize(dtype), now);
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
