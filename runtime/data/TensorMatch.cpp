//===- TensorMatch.cpp - Wanted tensors against a file's ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/TensorMatch.h"

#include "data/Names.h"
#include "data/Staging.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <unordered_map>
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

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() > end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// What one set of names has before each name of the other, "module."; empty
/// where that is no one prefix, of whole components.
std::string findPrefix(const std::vector<std::string> &bare,
                       const std::vector<std::string> &prefixed) {
  std::unordered_set<std::string> known(prefixed.begin(), prefixed.end());
  for (const std::string &name : prefixed) {
    if (bare.empty() || !endsWith(name, "." + bare[0]))
      continue;
    std::string prefix = name.substr(0, name.size() - bare[0].size());
    if (std::all_of(bare.begin(), bare.end(), [&](const std::string &each) {
          return known.count(prefix + each);
        }))
      return prefix;
  }
  return "";
}

/// What a component that the files lack would be as a text of Renaming::omit:
/// ".base_layer" of "q_proj.base_layer.weight". First components are a matter
/// of prefixes, last ones name the parameter, and numbers those of a list.
std::set<std::string> innerComponents(const std::vector<std::string> &names) {
  std::set<std::string> texts;
  for (const std::string &name : names)
    for (size_t dot = name.find('.'), next; dot != std::string::npos;
         dot = next) {
      next = name.find('.', dot + 1);
      if (next == std::string::npos)
        break;
      std::string text = name.substr(dot, next - dot);
      if (text.find_first_not_of(".0123456789") != std::string::npos)
        texts.insert(std::move(text));
    }
  return texts;
}

/// For names that have components which the files' lack, as wrappers within a
/// model leave them; what is to be done about the names' beginnings, too, where
/// only both together find one.
std::string suggestOmission(const TensorFiles &files,
                            const std::vector<std::string> &missing,
                            const std::vector<std::string> &unexpected) {
  std::unordered_set<const TensorInfo *> unused;
  for (const std::string &name : unexpected)
    unused.insert(files.tensors().at(name).info);
  for (const std::string &text : innerComponents(missing)) {
    std::vector<std::string> shortened;
    bool isFound = false;
    for (const std::string &name : missing) {
      shortened.push_back(omitTexts(name, {text}));
      isFound |= shortened.back() != name &&
                 unused.count(files.find(shortened.back()).info) != 0;
    }
    std::string prefix = isFound ? "" : findPrefix(unexpected, shortened);
    if (isFound || !prefix.empty())
      return " (names of the program without '" + text + "' are the file's" +
             (isFound ? ": --omit-text " + text
                      : " after '" + prefix + "': --add-prefix " + prefix +
                            " --omit-text " + text) +
             ")";
  }
  return "";
}

/// For names that are those of the program but for what stands before them, as
/// wrappers such as DistributedDataParallel and torch.compile leave it, or
/// within them.
std::string suggestRenaming(const TensorFiles &files,
                            const std::vector<std::string> &missing,
                            const std::vector<std::string> &unexpected) {
  if (std::string prefix = findPrefix(missing, unexpected); !prefix.empty())
    return " (the file's names begin with '" + prefix + "': --strip-prefix " +
           prefix + " takes that away)";
  // The other way round all that the file has must be wanted.
  if (std::string prefix = findPrefix(unexpected, missing); !prefix.empty())
    return " (the program's names begin with '" + prefix + "': --add-prefix " +
           prefix + " puts that before the file's)";
  return suggestOmission(files, missing, unexpected);
}

} // namespace

Result<std::vector<MatchedTensor>>
matchTensors(const TensorFiles &files, const std::vector<WantedTensor> &wanted,
             bool cast) {
  Problems problems;
  std::vector<MatchedTensor> matched;
  std::vector<std::string> missing, unexpected;
  bool canBeDrawn = true; // all that is missing
  std::unordered_map<const TensorInfo *, const WantedTensor *> used;
  for (const WantedTensor &want : wanted) {
    MatchedTensor match;
    auto consider = [&](const std::string &name) {
      StoredTensor found = files.find(name);
      if (!found)
        return;
      auto [user, isFirst] = used.try_emplace(found.info, &want);
      if (user->second != &want)
        problems.add("'" + found.info->name +
                     "': expected one parameter of the program, got '" +
                     user->second->name + "' and '" + want.name + "'");
      if (!isFirst)
        return;
      checkTensor(want, *found.info, cast, problems);
      if (!match.stored)
        match.stored = found;
      else
        match.tied.push_back(found);
    };
    consider(want.name);
    for (const std::string &alias : want.aliases)
      consider(alias);
    if (!match.stored && !want.isOptional) {
      missing.push_back(want.name);
      canBeDrawn &= want.canBeDrawn;
    }
    matched.push_back(std::move(match));
  }
  for (const auto &[name, stored] : files.tensors())
    if (!used.count(stored.info))
      unexpected.push_back(name);
  problems.addNames("missing", missing);
  problems.addNames("unexpected", unexpected);
  if (Status s = problems.status(files.path())) {
    bool isRestDrawn = !missing.empty() && unexpected.empty() && canBeDrawn;
    return Status::failed(
        s.message() +
        (isRestDrawn ? " (--init seed=K beside --params draws what is missing)"
                     : suggestRenaming(files, missing, unexpected)));
  }
  return matched;
}

Status readElements(const StoredTensor &stored, Dtype dtype, int64_t begin,
                    int64_t count, char *dst) {
  const SafetensorsReader &file = *stored.file;
  const TensorInfo &tensor = *stored.info;
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
  std::vector<char> values(std::min(count, chunk) * size);
  for (int64_t done = 0; done < count; done += chunk) {
    int64_t now = std::min(chunk, count - done);
    if (Status s =
            file.read(tensor, (begin + done) * size, values.data(), now * size))
      return s;
    convertFloats(*tensor.dtype, values.data(), dtype,
                  dst + done * dtypeSize(dtype), now);
  }
  return Status::ok();
}

Status readElements(const MatchedTensor &matched, Dtype dtype, int64_t begin,
                    int64_t count, char *dst) {
  if (Status s = readElements(matched.stored, dtype, begin, count, dst))
    return s;
  constexpr int64_t chunk = 1 << 16;
  int64_t size = dtypeSize(dtype);
  std::vector<char> values(
      matched.tied.empty() ? 0 : std::min(count, chunk) * size);
  for (const StoredTensor &tied : matched.tied)
    for (int64_t done = 0; done < count; done += chunk) {
      int64_t now = std::min(chunk, count - done);
      if (Status s =
              readElements(tied, dtype, begin + done, now, values.data()))
        return s;
      if (std::memcmp(values.data(), dst + done * size, now * size) != 0)
        return Status::failed(
            tied.file->path() + ": expected equal values of '" +
            matched.stored.info->name + "' and '" + tied.info->name +
            "', which are one parameter in this program, got different ones: "
            "leave one of them out of the file, or make them equal");
    }
  return Status::ok();
}

template <typename Tensor>
static Status upload(const Tensor &tensor, Dtype dtype, int64_t begin,
                     int64_t count, hal::Location dst) {
  return uploadElements(dst, count, dtypeSize(dtype),
                        [&](int64_t done, int64_t now, char *buffer) {
                          return readElements(tensor, dtype, begin + done, now,
                                              buffer);
                        });
}

Status uploadTensor(const MatchedTensor &matched, Dtype dtype, int64_t begin,
                    int64_t count, hal::Location dst) {
  return upload(matched, dtype, begin, count, dst);
}

Status uploadTensor(const StoredTensor &stored, Dtype dtype, int64_t begin,
                    int64_t count, hal::Location dst) {
  return upload(stored, dtype, begin, count, dst);
}

} // namespace fsdp::rt::data
