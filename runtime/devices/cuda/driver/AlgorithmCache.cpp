//===- AlgorithmCache.cpp - Algorithms of earlier runs --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/AlgorithmCache.h"

#include "core/StableHash.h"

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace fsdp::rt {

namespace {

std::string hexOf(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

bool parseHex(const std::string &text, uint64_t &value) {
  if (text.size() != 16 ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  value = std::strtoull(text.c_str(), nullptr, 16);
  return true;
}

std::string fileNameOf(const char *library, const std::string &version,
                       const std::string &card) {
  std::string name = std::string(library) + "-" + version + "-" + card;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-')
      c = '-';
  return name + ".txt";
}

} // namespace

std::string AlgorithmCache::directoryOfProcess() {
  if (const char *own = std::getenv("FSDP_CUDA_CACHE"); own && *own)
    return std::strcmp(own, "none") == 0 ? "" : own;
  if (const char *caches = std::getenv("XDG_CACHE_HOME");
      caches && *caches == '/')
    return std::string(caches) + "/fsdp-mlir";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/fsdp-mlir";
  return "";
}

AlgorithmCache::AlgorithmCache(const std::string &directory,
                               const std::string &card,
                               const std::string &version,
                               const Subject &subject)
    : subject_(subject), directory_(directory), card_(card), version_(version) {
  if (!directory.empty())
    path_ = directory + "/" + fileNameOf(subject.fileName, version, card);
}

std::string AlgorithmCache::header() const {
  return std::string("fsdp-mlir algorithms of ") + subject_.what +
         ", 1\ncard " + card_ + "\n" + subject_.library + " " + version_ + "\n";
}

/// The header, a line of eight numbers and a key for each choice, and a digest
/// of all before.
bool AlgorithmCache::parse(const std::string &text, Entries &entries) const {
  size_t last = text.rfind("digest ");
  uint64_t digest = 0;
  if (last == std::string::npos || text.size() != last + 24 ||
      text.back() != '\n' || !parseHex(text.substr(last + 7, 16), digest) ||
      digest != stableHash(text.substr(0, last)))
    return false;
  if (text.rfind(header(), 0) != 0)
    return false;
  std::istringstream lines(text.substr(0, last).substr(header().size()));
  for (std::string line; std::getline(lines, line);) {
    constexpr size_t width = 17;
    Choice choice = {};
    if (line.size() <= 8 * width)
      return false;
    for (size_t i = 0; i < 8; ++i)
      if (line[i * width + 16] != ' ' ||
          !parseHex(line.substr(i * width, 16), choice.data[i]))
        return false;
    entries[line.substr(8 * width)] = choice;
  }
  return true;
}

bool AlgorithmCache::readFile(Entries &entries,
                              std::vector<std::string> &notes) const {
  std::ifstream file(path_, std::ios::binary);
  if (!file)
    return false;
  std::ostringstream text;
  text << file.rdbuf();
  Entries found;
  if (!file.bad() && parse(text.str(), found)) {
    found.insert(entries.begin(), entries.end());
    entries = std::move(found);
    return true;
  }
  notes.push_back(path_ + ": expected algorithms of earlier runs, got a file "
                          "that is damaged; they are chosen again");
  return false;
}

void AlgorithmCache::read(std::vector<std::string> &notes) {
  if (!path_.empty() && !readFile(entries_, notes))
    hasChanged_ = std::filesystem::exists(path_);
}

const AlgorithmCache::Choice *
AlgorithmCache::find(const std::string &key) const {
  auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void AlgorithmCache::keep(const std::string &key, const Choice &choice) {
  entries_[key] = choice;
  hasChanged_ = true;
}

void AlgorithmCache::write(std::vector<std::string> &notes) {
  if (path_.empty() || !hasChanged_)
    return;
  hasChanged_ = false;
  // This process's own stay; a damaged file has been spoken of.
  Entries all = entries_;
  std::vector<std::string> spoken;
  Entries others;
  if (readFile(others, spoken))
    all.insert(others.begin(), others.end());
  std::string text = header();
  for (const auto &[key, choice] : all) {
    for (uint64_t number : choice.data)
      text += hexOf(number) + " ";
    text += key + "\n";
  }
  text += "digest " + hexOf(stableHash(text)) + "\n";

  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  std::string whole = path_ + "." + std::to_string(getpid()) + ".tmp";
  bool isWritten = false;
  if (!error) {
    std::ofstream file(whole, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    isWritten = !file.fail();
  }
  if (isWritten)
    std::filesystem::rename(whole, path_, error);
  if (isWritten && !error)
    return;
  std::string why = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(whole, error);
  notes.push_back(path_ + ": cannot keep the algorithms of " + subject_.what +
                  " for later runs: " + why +
                  "; FSDP_CUDA_CACHE names another directory, or none");
}

} // namespace fsdp::rt
