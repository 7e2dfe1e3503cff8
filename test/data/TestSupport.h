//===- TestSupport.h - What the data tests share -----------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DATA_TESTSUPPORT_H
#define FSDP_TEST_DATA_TESTSUPPORT_H

#include "data/Manifest.h"
#include "data/Safetensors.h"
#include "data/StateMemory.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// A directory of its own, removed at the end.
class TempDir {
public:
  TempDir();
  ~TempDir();
  const std::string &path() const { return path_; }
  std::string file(const std::string &name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

void writeFile(const std::string &path, const std::string &contents);
std::string readFile(const std::string &path);
std::vector<std::string> entriesOf(const std::string &directory);

/// The bytes of a safetensors file with this header and data; `length` < 0
/// takes the header's own.
std::string safetensorsBytes(const std::string &header, const std::string &data,
                             int64_t length = -1);

/// A manifest with one member per tensor, for a mesh {replicate, shard}.
struct FlatSpec {
  std::string name;
  std::string dtype;
  std::vector<std::pair<std::string, Shape>> members;
  nlohmann::json init = {{"kind", "normal"}, {"mean", 0.0}, {"std", 1.0}};
  bool isSharded = true;
};
nlohmann::json makeManifest(int replicas, int shards,
                            const std::vector<FlatSpec> &flats);
/// The arena, that of its program and of the states take so many bytes.
void setArenaBytes(nlohmann::json &manifest, int64_t bytes);
/// Gives every state that is no scalar a place in the host's arena, in which
/// the program has 256 bytes beside them.
void moveStatesToHost(nlohmann::json &manifest);

/// Adds things at fresh offsets of the arena.
void addBuffer(nlohmann::json &manifest, const std::string &fqn,
               const std::string &dtype, const Shape &shape,
               nlohmann::json init);
void addInput(nlohmann::json &manifest, const std::string &name,
              const std::string &dtype, const Shape &shape, nlohmann::json low,
              nlohmann::json high, int shift = 0);

/// Parses what must be right.
Manifest parsed(const nlohmann::json &manifest);

/// Bytes as a rank's memory.
class VectorMemory final : public hal::Memory {
public:
  explicit VectorMemory(std::vector<char> &bytes) : bytes_(bytes) {}
  int64_t size() const override { return int64_t(bytes_.size()); }
  Status upload(int64_t offset, const void *src, int64_t bytes) override {
    if (offset < 0 || bytes < 0 || bytes > size() - offset)
      return Status::internal("upload outside of the memory");
    if (bytes > 0)
      std::memcpy(bytes_.data() + offset, src, size_t(bytes));
    return Status::ok();
  }
  Status download(int64_t offset, void *dst, int64_t bytes) const override {
    if (offset < 0 || bytes < 0 || bytes > size() - offset)
      return Status::internal("download outside of the memory");
    if (bytes > 0)
      std::memcpy(dst, bytes_.data() + offset, size_t(bytes));
    return Status::ok();
  }

private:
  std::vector<char> &bytes_;
};

/// The memories of one rank, of which every byte is `fill` at first.
struct Arenas {
  explicit Arenas(const Manifest &manifest, char fill = 0)
      : device(manifest.arenaBytes, fill), host(manifest.hostBytes, fill) {}
  Arenas(const Arenas &other) : device(other.device), host(other.host) {}
  StateMemory memory() { return {&deviceMemory, &hostMemory}; }
  /// Where a state lies.
  char *at(const OptimizerState &state) {
    return (state.memory == FSDP_RT_HOST ? host : device).data() + state.offset;
  }

  std::vector<char> device, host;
  VectorMemory deviceMemory{device}, hostMemory{host};
};

/// Makes a checkpoint whole again after its files were changed: sizes, digests,
/// and in meta.json what `changes` holds. With `isOld`, as versions without
/// digests wrote it.
void signAgain(const std::string &checkpoint,
               const nlohmann::json &changes = nlohmann::json::object(),
               bool isOld = false);

/// Elements of a stored tensor as float.
std::vector<float> floatsOf(const std::string &path, const std::string &name);

/// The failure's message; a test failure where there is none.
template <typename T>
std::string messageOf(const Result<T> &result) {
  EXPECT_FALSE(result.isOk());
  return result.isOk() ? "" : result.status().message();
}
inline std::string messageOf(const Status &status) {
  EXPECT_TRUE(bool(status));
  return status.message();
}

} // namespace fsdp::rt::data

#define EXPECT_OK(expression)                                                  \
  do {                                                                         \
    ::fsdp::rt::Status status_ = (expression);                                 \
    EXPECT_TRUE(status_.isOk()) << status_.message();                          \
  } while (false)

#define ASSERT_OK(expression)                                                  \
  do {                                                                         \
    ::fsdp::rt::Status status_ = (expression);                                 \
    ASSERT_TRUE(status_.isOk()) << status_.message();                          \
  } while (false)

/// That `text` contains `part`, telling both where it does not.
#define EXPECT_CONTAINS(text, part)                                            \
  do {                                                                         \
    std::string text_ = (text);                                                \
    EXPECT_NE(text_.find(part), std::string::npos)                             \
        << "text: " << text_ << "\nwanted: " << (part);                        \
  } while (false)

#endif // FSDP_TEST_DATA_TESTSUPPORT_H
