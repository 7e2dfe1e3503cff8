//===- SafetensorsTest.cpp - Reading and writing safetensors --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include <cstdlib>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp::rt;
using namespace fsdp::rt::data;

namespace {

const std::string goodHeader =
    R"({"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"U16","shape":[1,1],"data_offsets":[8,10]},)"
    R"("empty":{"dtype":"I64","shape":[0,3],"data_offsets":[10,10]}}  )";

class SafetensorsTest : public testing::Test {
protected:
  std::string message(const std::string &bytes) {
    std::string path = dir.file("x.safetensors");
    writeFile(path, bytes);
    std::string text = messageOf(SafetensorsReader::open(path));
    EXPECT_CONTAINS(text, path);
    return text;
  }
  std::string message(const std::string &header, const std::string &data) {
    return message(safetensorsBytes(header, data));
  }
  TempDir dir;
};

TEST_F(SafetensorsTest, ReadsWhatTheFormatAllows) {
  std::string path = dir.file("x.safetensors");
  writeFile(path, safetensorsBytes(goodHeader, "0123456789"));
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  ASSERT_OK(file.status());
  ASSERT_EQ(file->tensors().size(), 3u);
  const TensorInfo *a = file->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, FSDP_RT_F32);
  EXPECT_EQ(a->shape, Shape{2});
  char bytes[4];
  ASSERT_OK(file->read(*a, 3, bytes, 4));
  EXPECT_EQ(std::string(bytes, 4), "3456");
  EXPECT_EQ(file->find("b")->dtype, std::nullopt);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_TRUE(bool(file->read(*a, 5, bytes, 4)));
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsFine) {
  std::string path = dir.file("x.safetensors");
  writeFile(path, safetensorsBytes("{}", ""));
  EXPECT_OK(SafetensorsReader::open(path).status());
}

TEST_F(SafetensorsTest, RefusesFilesThatAreNone) {
  EXPECT_CONTAINS(message(""), "got 0 bytes");
  EXPECT_CONTAINS(message("1234567"), "got 7 bytes");
  EXPECT_CONTAINS(message(std::string(200, 'x')), "at most 100000000 bytes");
  EXPECT_CONTAINS(message(safetensorsBytes("{}", "", 3)), "truncated");
  EXPECT_CONTAINS(message(safetensorsBytes("{}", "", 0)), "begins with '{'");
  EXPECT_CONTAINS(message(safetensorsBytes("{}", "", int64_t(1) << 62)),
                  "at most");
  EXPECT_CONTAINS(message(safetensorsBytes("  {}", "")), "begins with '{'");
  EXPECT_CONTAINS(message(safetensorsBytes("[]", "")), "begins with '{'");
  EXPECT_CONTAINS(message(safetensorsBytes("{\"a\"", "")), "header: ");
  EXPECT_CONTAINS(message(safetensorsBytes("{\"\xc3(\":1}", "")), "UTF-8");
  EXPECT_CONTAINS(message(safetensorsBytes("{} x", "")), "header: ");
  EXPECT_CONTAINS(messageOf(SafetensorsReader::open(dir.path())),
                  "expected a regular file, got a directory");
  EXPECT_CONTAINS(messageOf(SafetensorsReader::open(dir.file("none"))),
                  "No such file");
  std::string pipe = dir.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_CONTAINS(messageOf(SafetensorsReader::open(pipe)), "got a pipe");
  EXPECT_CONTAINS(messageOf(SafetensorsReader::open("/dev/null")),
                  "got a device");
}

TEST_F(SafetensorsTest, RefusesHeadersThatLie) {
  auto one = [&](const std::string &entry, const std::string &data) {
    return message("{\"a\":" + entry + "}", data);
  };
  using std::string;
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", "0123"),
      "expected 8 bytes for F32 [2], got 4");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", "0123"),
      "a.data_offsets: expected an end within the 4 bytes");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", "01234567"),
      "begin <= end");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,4]})", "0123"),
      "begin <= end");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})", "0123"),
      "got -4");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4.0]})", "0123"),
      "expected an integer");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,NaN]})", "0123"),
      "header: ");
  EXPECT_CONTAINS(one(R"({"dtype":"F32","shape":[1],)"
                      R"("data_offsets":[0,18446744073709551615]})",
                      "0123"),
                  "expected an integer");
  EXPECT_CONTAINS(
      one(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})", "0123"),
      "a.dtype: expected a known dtype, got 'F31'");
  EXPECT_CONTAINS(
      one(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})", "0123"),
      "a.dtype: expected a string");
  EXPECT_CONTAINS(one(R"({"dtype":"F32","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,4]})",
                      "0123"),
                  "expected fewer than 2^63 bytes");
  EXPECT_CONTAINS(one(R"({"dtype":"F32","shape":[1]})", "0123"),
                  "expected key 'data_offsets'");
  EXPECT_CONTAINS(one("7", "0123"), "expected an object, got 7");
  EXPECT_CONTAINS(message(R"({"__metadata__":{"n":1}})", ""),
                  "__metadata__.n: expected a string");
}

TEST_F(SafetensorsTest, RefusesOverlapsGapsAndRests) {
  auto two = [&](const std::string &a, const std::string &b, size_t bytes) {
    return message(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + a +
            "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
            "\"data_offsets\":" +
            b + "}}",
        std::string(bytes, 'x'));
  };
  EXPECT_CONTAINS(two("[0,4]", "[2,6]", 6), "overlaps another tensor");
  EXPECT_CONTAINS(two("[0,4]", "[0,4]", 4), "overlaps another tensor");
  EXPECT_CONTAINS(two("[0,4]", "[5,9]", 9), "leaves a gap");
  EXPECT_CONTAINS(two("[1,5]", "[5,9]", 9), "leaves a gap");
  EXPECT_CONTAINS(two("[0,4]", "[4,8]", 9), "1 trailing bytes");
  EXPECT_CONTAINS(
      message(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
              R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
              ""),
      "duplicate key 'a'");
}

TEST_F(SafetensorsTest, NeverCrashesOnDamage) {
  std::string good = safetensorsBytes(goodHeader, "0123456789");
  std::string path = dir.file("x.safetensors");
  for (size_t i = 0; i < good.size(); ++i)
    for (char damage : {'\0', '"', '9', '\xff', '[', '-'}) {
      std::string bad = good;
      bad[i] = damage;
      writeFile(path, bad);
      Result<SafetensorsReader> file = SafetensorsReader::open(path);
      if (!file.isOk())
        continue;
      for (const TensorInfo &tensor : file->tensors()) {
        std::string data(tensor.bytes, ' ');
        EXPECT_OK(file->read(tensor, 0, data.data(), tensor.bytes));
      }
    }
  for (size_t size = 0; size < good.size(); ++size)
    message(good.substr(0, size));
}

TEST_F(SafetensorsTest, AFileThatShrinksIsAnError) {
  std::string path = dir.file("x.safetensors");
  writeFile(path, safetensorsBytes(goodHeader, "0123456789"));
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  ASSERT_OK(file.status());
  ASSERT_EQ(::truncate(path.c_str(), 20), 0);
  char bytes[8];
  EXPECT_CONTAINS(messageOf(file->read(*file->find("a"), 0, bytes, 8)),
                  "got end of file");
}

TEST_F(SafetensorsTest, WritesWhatItReads) {
  std::string path = dir.file("x.safetensors");
  float f[] = {1, 2, 3};
  int64_t i = 7;
  char u = 5;
  ASSERT_OK(writeSafetensors(path,
                             {{"u \"quoted\"", FSDP_RT_U8, {1}},
                              {"f", FSDP_RT_F32, {3, 1}},
                              {"i", FSDP_RT_I64, {}},
                              {"none", FSDP_RT_F32, {0}}},
                             {&u, f, &i, nullptr}));
  EXPECT_EQ(floatsOf(path, "f"), (std::vector<float>{1, 2, 3}));
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  ASSERT_OK(file.status());
  EXPECT_EQ(file->find("i")->shape, Shape{});
  EXPECT_EQ(file->find("i")->offset % 8, 0);
  EXPECT_CONTAINS(readFile(path), R"("__metadata__":{"format":"pt"})");
  EXPECT_EQ(entriesOf(dir.path()).size(), 1u);
}

TEST_F(SafetensorsTest, RefusesNamesTwiceAndBadPlaces) {
  float f = 1;
  std::vector<TensorSpec> twice = {{"f", FSDP_RT_F32, {1}},
                                   {"f", FSDP_RT_F32, {1}}};
  EXPECT_CONTAINS(messageOf(writeSafetensors(dir.file("x"), twice, {&f, &f})),
                  "got 'f' twice");
  EXPECT_CONTAINS(
      messageOf(writeSafetensors(dir.file("x"),
                                 {{"__metadata__", FSDP_RT_F32, {1}}}, {&f})),
      "twice");
  EXPECT_CONTAINS(messageOf(writeSafetensors(dir.file("no/x"),
                                             {{"f", FSDP_RT_F32, {1}}}, {&f})),
                  "No such file");
  EXPECT_TRUE(entriesOf(dir.path()).empty());
}

TEST_F(SafetensorsTest, AFullDiskIsMetBeforeAnythingIsWritten) {
  std::string disk = dir.file("disk");
  ASSERT_EQ(::mkdir(disk.c_str(), 0700), 0);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount a small file system: needs root";
  std::vector<char> data(1 << 20);
  Status status = writeSafetensors(disk + "/x", {{"f", FSDP_RT_U8, {1 << 20}}},
                                   {data.data()});
  std::vector<std::string> left = entriesOf(disk);
  ::umount(disk.c_str());
  EXPECT_CONTAINS(messageOf(status), "No space left on device");
  EXPECT_TRUE(left.empty());
}

} // namespace
