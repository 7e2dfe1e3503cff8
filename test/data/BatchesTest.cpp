//===- BatchesTest.cpp - Where a step's inputs come from ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/BatchLoader.h"
#include "data/Batches.h"

#include <cmath>
#include <cstring>
#include <set>
#include <sys/stat.h>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class BatchesTest : public testing::Test {
protected:
  BatchesTest() : description(makeManifest(1, 1, {})) {}

  /// The inputs of one step, as integers, one list per input.
  using Ints = std::vector<std::vector<int64_t>>;
  Ints readInts(BatchSource &source, int64_t step) {
    Ints values;
    std::vector<char *> dst;
    for (const Input &input : manifest.train().inputs)
      values.emplace_back(input.numel);
    for (auto &list : values)
      dst.push_back(reinterpret_cast<char *>(list.data()));
    failure = source.read(step, dst.data());
    return values;
  }
  std::unique_ptr<BatchSource> open(const std::string &spec, int rank = 0,
                                    int ranks = 1) {
    manifest = parsed(description);
    auto source =
        openBatches(spec, manifest.train(), rank, ranks, notes, options);
    EXPECT_TRUE(source.isOk()) << source.status().message();
    return source.isOk() ? std::move(*source) : nullptr;
  }
  Ints ints(const std::string &spec, int64_t step, int rank = 0,
            int ranks = 1) {
    auto source = open(spec, rank, ranks);
    return source ? readInts(*source, step) : Ints();
  }
  std::string refusal(const std::string &spec, int ranks = 1, int rank = 0) {
    manifest = parsed(description);
    return messageOf(
        openBatches(spec, manifest.train(), rank, ranks, notes, options));
  }
  void tokens(const std::string &dtype = "I64", json high = 300) {
    addInput(description, "input_ids", dtype, {2, 3}, 0, high);
    addInput(description, "labels", dtype, {2, 3}, 0, high, /*shift=*/1);
  }
  std::string text(const std::string &name, const std::string &contents) {
    writeFile(dir.file(name), contents);
    return dir.file(name);
  }

  TempDir dir;
  json description;
  Manifest manifest;
  std::vector<std::string> notes;
  DataOptions options;
  Status failure;
};

TEST_F(BatchesTest, TextIsCutIntoWindows) {
  tokens();
  // 13 letters and a shift of 1: windows 0..3 at 0, 3, 6, 9.
  std::string path = text("x.txt", "abcdefghijklm");
  EXPECT_EQ(ints(path, 1), (Ints{{'a', 'b', 'c', 'd', 'e', 'f'},
                                 {'b', 'c', 'd', 'e', 'f', 'g'}}));
  // Step 1, rank 1 of 2: windows 2 and 3.
  EXPECT_EQ(ints(path, 1, 1, 2)[1],
            (std::vector<int64_t>{'h', 'i', 'j', 'k', 'l', 'm'}));
  // Step 2 begins anew.
  EXPECT_EQ(ints(path, 2, 0, 2), ints(path, 1, 0, 2));
  EXPECT_EQ(ints(path, (int64_t(1) << 61) + 1, 0, 2), ints(path, 1, 0, 2));
}

TEST_F(BatchesTest, WindowsWrapWithinABatch) {
  tokens();
  std::string path = text("x", "abcdefghij"); // three windows
  EXPECT_EQ(ints(path, 2)[0],
            (std::vector<int64_t>{'g', 'h', 'i', 'a', 'b', 'c'}));
}

TEST_F(BatchesTest, BinIsSixteenBitLittleEndian) {
  tokens("I32", 65536);
  std::string path = text("t.bin", std::string("\x01\x00\xff\xff\x00\x01"
                                               "\x02\x00\x03\x00\x04\x00"
                                               "\x05\x00",
                                               14));
  auto source = open(path);
  int32_t ids[6], labels[6];
  char *dst[] = {reinterpret_cast<char *>(ids),
                 reinterpret_cast<char *>(labels)};
  ASSERT_OK(source->read(1, dst));
  EXPECT_EQ(std::vector<int32_t>(ids, ids + 6),
            (std::vector<int32_t>{1, 65535, 256, 2, 3, 4}));
  EXPECT_EQ(labels[5], 5);
}

/// `tokens` as they stand in a file, with llm.c's header where it has a magic.
template <typename T>
std::string tokenBytes(const std::vector<T> &tokens, int32_t magic = 0,
                       int32_t version = 0, int32_t told = 0) {
  std::string bytes;
  if (magic) {
    std::vector<int32_t> header(256);
    header[0] = magic, header[1] = version, header[2] = told;
    bytes.assign(reinterpret_cast<const char *>(header.data()), 1024);
  }
  return bytes.append(reinterpret_cast<const char *>(tokens.data()),
                      tokens.size() * sizeof(T));
}

TEST_F(BatchesTest, HeadersAndOptionsSayHowWideTokensAre) {
  tokens("I64", 128256);
  std::vector<uint32_t> wide = {1, 2, 128000, 4, 5, 6, 7};
  const std::vector<int64_t> ids = {1, 2, 128000, 4, 5, 6};
  EXPECT_EQ(ints(text("h.bin", tokenBytes(wide, 20240801, 7, 7)), 1)[0], ids);
  // 16 bits do not hold these ids: nothing is taken for granted.
  std::string plain = text("p.bin", tokenBytes(wide));
  EXPECT_CONTAINS(refusal(plain),
                  "expected --token-bits 32, or 16, beside token ids up to "
                  "128255, which 16 bits do not hold, got neither");
  options.tokenBits = 32;
  EXPECT_EQ(ints(plain, 1)[0], ids);
  EXPECT_EQ(open(plain)->kind(), "32-bit tokens");
  EXPECT_CONTAINS(refusal(text("p.bin", tokenBytes(wide) + "ab")),
                  "expected 32-bit tokens, so a multiple of 4, got 30 bytes");
  std::vector<uint16_t> narrow = {1, 2, 3, 4, 5, 6, 7};
  std::string told = text("n.bin", tokenBytes(narrow, 20240520, 1, 7));
  EXPECT_CONTAINS(refusal(told),
                  "expected --token-bits 16, as its header says, "
                  "got 32");
  options.tokenBits = 0;
  EXPECT_EQ(ints(told, 1)[1], (std::vector<int64_t>{2, 3, 4, 5, 6, 7}));
  EXPECT_CONTAINS(refusal(text("n.bin", tokenBytes(narrow, 20240520, 1, 9))),
                  "expected 9 tokens, as its header says, got 7");
  EXPECT_TRUE(notes.empty());
}

TEST_F(BatchesTest, WideTokensReadAsNarrowOnesAreRefused) {
  tokens("I64", 60000);
  std::vector<uint32_t> wide(40);
  for (size_t i = 0; i < wide.size(); ++i)
    wide[i] = uint32_t(i * 1499 % 60000);
  std::string path = text("w.bin", tokenBytes(wide));
  EXPECT_CONTAINS(refusal(path),
                  "got a 0 in every second one, as 32-bit tokens "
                  "look: say --token-bits 32");
  options.tokenBits = 32;
  EXPECT_EQ(ints(path, 1)[0][1], 1499);
  options.tokenBits = 16;
  EXPECT_EQ(ints(path, 1)[0][2], 1499);
  // Zeros that do not alternate may be meant.
  options.tokenBits = 0;
  std::vector<uint16_t> padded(40);
  std::fill(padded.begin(), padded.begin() + 15, 7);
  open(text("z.bin", tokenBytes(padded)));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_CONTAINS(notes[0], "25 of the first 40 16-bit tokens are 0");
}

/// Each rank looks at its share when the file is opened.
TEST_F(BatchesTest, EveryTokenIsLookedAtOnce) {
  tokens("I64", 'p');
  for (size_t bad : {0, 5, 11, 12}) {
    std::string contents = "abcdefghijklm";
    contents[bad] = 'z';
    std::string path = text("x", contents);
    manifest = parsed(description);
    int refused = 0;
    for (int rank = 0; rank < 3; ++rank)
      refused += !openBatches(path, manifest.train(), rank, 3, notes).isOk();
    EXPECT_EQ(refused, 1) << bad;
  }
  // Four windows and the last label are 13 tokens: what follows is not read.
  open(text("x", "abcdefghijklmz"));
}

/// What is allowed beside a range does not make the range wider.
TEST_F(BatchesTest, TokensBetweenARangeAndWhatIsAllowedAreRefused) {
  tokens("I64", 'p');
  for (json &input : description["programs"][0]["inputs"])
    input["allowed"] = {'z'};
  EXPECT_EQ(ints(text("x", "zbcdefghijklz"), 1)[0][0], 'z');
  EXPECT_CONTAINS(refusal(text("x", "zbcdefyhijklm")), "token 121 at byte 6");
}

TEST_F(BatchesTest, TokensGoOnBehindThoseThatWereTaken) {
  tokens();
  std::string path = text("x", "abcdefghijklmnopqrstuvwxyz");
  auto one = open(path);
  EXPECT_EQ(one->unitsOfBatch(1), 6);
  EXPECT_EQ(one->unitsOfBatch(3), 18);
  // After a step of two ranks, on one.
  EXPECT_EQ(one->startAt(12), 12);
  EXPECT_EQ(readInts(*one, 1)[0],
            (std::vector<int64_t>{'m', 'n', 'o', 'p', 'q', 'r'}));
  // No sequence is begun in its midst.
  EXPECT_EQ(one->startAt(13), 15);
  EXPECT_EQ(readInts(*one, 1)[0][0], 'p');
  EXPECT_EQ(one->remarks(2).size(), 0u); // 8 sequences, of which 5 were begun
  EXPECT_EQ(one->remarks(3).size(), 1u);
  auto drawn = open("random:seed=1");
  Ints third = readInts(*drawn, 3);
  EXPECT_EQ(drawn->startAt(2), 2);
  EXPECT_EQ(readInts(*drawn, 1), third);
}

TEST_F(BatchesTest, TokensOutOfBoundsAreNamed) {
  tokens("I64", 'e');
  EXPECT_CONTAINS(refusal(text("x", "abcdefghijklm")),
                  "/x: token 101 at byte 4, for input "
                  "'input_ids': expected 0 <= token < 101");
  description["programs"][0]["inputs"][1]["low"] = 'c';
  description["programs"][0]["inputs"][1]["high"] = nullptr;
  description["programs"][0]["inputs"][0]["high"] = nullptr;
  EXPECT_CONTAINS(refusal(text("x", "abcdefghijklm")),
                  "token 98 at byte 1, for input 'labels': "
                  "expected 99 <= token");
}

TEST_F(BatchesTest, TokensMustFitTheDtype) {
  addInput(description, "ids", "I16", {1, 2}, nullptr, nullptr);
  EXPECT_CONTAINS(refusal(text("t.bin", std::string("\x01\x00\x00\x80", 4))),
                  "token 32768 at byte 2, for input 'ids': expected a token "
                  "that I16 holds");
}

TEST_F(BatchesTest, TokenFilesThatDoNotFitAreRefused) {
  tokens();
  EXPECT_CONTAINS(refusal(text("x", "abc")),
                  "expected at least 4 tokens, a sequence and the largest "
                  "shift, got 3");
  EXPECT_CONTAINS(refusal(text("x", "")), "got 0");
  EXPECT_CONTAINS(refusal(text("x.bin", "abcdefg")), "got 7 bytes");
  EXPECT_CONTAINS(refusal(dir.path()), "got a directory");
  EXPECT_CONTAINS(refusal(dir.file("none")), "No such file");
  EXPECT_CONTAINS(refusal("/dev/zero"), "got a device");
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_CONTAINS(refusal(dir.file("pipe")), "expected a regular file, got a "
                                             "pipe");
  addInput(description, "mask", "I64", {2, 4}, 0, 2);
  EXPECT_CONTAINS(refusal(text("x", "abcdefgh")),
                  "inputs of one shape, got [2, 3] for 'input_ids' and I64 [2, "
                  "4] for 'mask'");
  description["programs"][0]["inputs"] = json::array();
  EXPECT_CONTAINS(refusal(text("x", "abcdefgh")), "a program with inputs");
  addInput(description, "pixels", "F32", {2, 3}, nullptr, nullptr);
  EXPECT_CONTAINS(refusal(text("x", "abcdefgh")),
                  "integer inputs [batch, sequence], got F32 [2, 3] for "
                  "'pixels'");
}

TEST_F(BatchesTest, WhatIsNoTextIsRefusedByName) {
  using namespace std::string_literals;
  tokens("I64", 65536);
  for (auto [begin, message] : std::vector<std::pair<std::string, std::string>>{
           {"\xff\xfeh\0i\0"s, "got text in UTF-16: convert it to UTF-8"},
           {"\xfe\xff\0h\0i"s, "got text in UTF-16"},
           {"\xff\xfe\0\0h\0\0\0"s, "got text in UTF-32"},
           {"\x93NUMPY\x01\0v\0"s,
            "got a NumPy array (.npy): write its tokens"},
           {"PK\x03\x04\0\0"s,
            "got a zip archive, as PyTorch and NumPy write (.pt, .npz): save "},
           {"\x80\x02\x8a\nl\xfc"s, "got a pickle, as PyTorch writes (.pt)"},
           {"PAR1\x15\x04"s, "got a Parquet file: write its texts"},
           {"\xff\xff\xff\xff\x10\0"s, "got an Arrow stream"},
           {"\x1f\x8b\x08\0"s, "got gzip data: decompress it first"}}) {
    std::string contents = begin + std::string(40, 'x');
    EXPECT_CONTAINS(refusal(text("x", contents)),
                    "/x: expected text in UTF-8, " + message);
    // Tokens may begin so by chance.
    notes.clear();
    EXPECT_NE(open(text("x.bin", contents)), nullptr);
    for (const std::string &note : notes)
      EXPECT_CONTAINS(note, "/x.bin: expected tokens, got what begins like ");
  }
  EXPECT_TRUE(notes.empty()); // a gzip's two bytes
  open(text("x.bin", "\x93NUMPY" + std::string(40, 'x')));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_CONTAINS(notes[0], "begins like a NumPy array (.npy): if it is one, "
                            "write its tokens with ");
}

TEST_F(BatchesTest, WhatIsSeldomMeantAsTextIsTold) {
  using namespace std::string_literals;
  tokens();
  for (auto [contents, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"abcdefghij\0klm"s, "got a byte of 0 at offset 10"},
           {"\xef\xbb\xbf"s + "abcdefgh", "UTF-8's byte order mark"},
           {"{\"text\": \"abcdefgh\"}\n", "looks like JSON"},
           {"[\n{\"text\": \"abcdefgh\"}]\n", "looks like JSON"}}) {
    notes.clear();
    EXPECT_EQ(open(text("x", contents))->kind(), "text");
    ASSERT_EQ(notes.size(), 1u) << message;
    EXPECT_CONTAINS(notes[0], message);
  }
  // Latin-1, and what only mentions braces.
  notes.clear();
  for (const char *contents : {"caf\xe9 caf\xe9 caf\xe9", "{ int main }",
                               "[1] see below\n", "a {\"b\": 1}"})
    open(text("x", contents));
  EXPECT_TRUE(notes.empty());
}

TEST_F(BatchesTest, BeginningAgainIsTold) {
  tokens();
  // Four windows, of which a step of two ranks takes four.
  auto source = open(text("x.txt", "abcdefghijklm"), 0, 2);
  EXPECT_TRUE(source->remarks(1).empty());
  ASSERT_EQ(source->remarks(2).size(), 1u);
  EXPECT_CONTAINS(source->remarks(2)[0],
                  "/x.txt: has 4 sequences; a batch of each rank takes 4: "
                  "batch 2 goes on from its beginning");
  EXPECT_EQ(open(dir.file("x.txt"))->remarks(2).size(), 0u);
  EXPECT_EQ(open("random:seed=0")->remarks(1 << 30).size(), 0u);
}

TEST_F(BatchesTest, AFileThatShrinksIsAnError) {
  tokens();
  std::string path = text("x", "abcdefghijklm");
  auto source = open(path);
  writeFile(path, "abc");
  readInts(*source, 1);
  EXPECT_CONTAINS(messageOf(failure), "got end of file");
}

class StoredBatchesTest : public BatchesTest {
protected:
  StoredBatchesTest() {
    addInput(description, "input_ids", "I64", {2, 2}, 0, 1024);
    addInput(description, "labels", "I64", {2}, 0, 10);
    for (int i = 0; i < 24; ++i)
      ids.push_back(100 + i), labels.push_back(i % 10);
    specs = {{"input_ids", FSDP_RT_I64, {3, 2, 2, 2}},
             {"labels", FSDP_RT_I64, {3, 2, 2}}};
    options.ranks = DataOptions::Ranks::First;
  }
  std::string write() {
    std::vector<const void *> data = {ids.data(), labels.data()};
    data.resize(specs.size(), ids.data());
    EXPECT_OK(writeSafetensors(dir.file("b.safetensors"), specs, data));
    return dir.file("b.safetensors");
  }
  std::vector<int64_t> ids, labels;
  std::vector<TensorSpec> specs;
};

TEST_F(StoredBatchesTest, StepAndRankPickARow) {
  std::string path = write();
  EXPECT_EQ(ints(path, 1)[0], (std::vector<int64_t>{100, 101, 102, 103}));
  EXPECT_EQ(ints(path, 2, 1, 2), (Ints{{112, 113, 114, 115}, {6, 7}}));
  EXPECT_EQ(ints(path, 4), ints(path, 1)); // wraps around
  EXPECT_TRUE(notes.empty());
}

TEST_F(StoredBatchesTest, OtherNumbersOfRanksNeedAChoice) {
  std::string path = write();
  options.ranks = DataOptions::Ranks::Equal;
  EXPECT_EQ(ints(path, 2)[0][0], 108);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_CONTAINS(notes[0], "expected batches for 1 rank, got those for 2 "
                            "ranks: those of the first 1 are read alone; "
                            "--data-ranks all reads them all in turn");
  notes.clear();
  EXPECT_CONTAINS(refusal(path, 3),
                  "expected batches for at least 3 ranks, got "
                  "those for 2 ranks: --data-ranks all");
  Ints second = ints(path, 1, 1, 2);
  options.ranks = DataOptions::Ranks::All;
  EXPECT_EQ(ints(path, 2), second);
  EXPECT_EQ(ints(path, 1, 1, 3), second);
  // Of as many ranks both are the same, and so is where they go on.
  auto one = open(path);
  EXPECT_EQ(one->rankBatches(), 6);
  EXPECT_EQ(one->startAt(3), 3);
  EXPECT_EQ(readInts(*one, 1), ints(path, 2, 1, 2));
  options.ranks = DataOptions::Ranks::First;
  auto first = open(path);
  EXPECT_EQ(first->startAt(3), 4);
  EXPECT_EQ(readInts(*first, 1)[0][0], 116);
  EXPECT_CONTAINS(messageOf(checkUsed(options, {"text"})),
                  "--data-ranks: expected a safetensors file, got 'text'");
  EXPECT_OK(checkUsed(options, {"text", "safetensors"}));
}

/// Each rank looks at its share when the file is opened, by chunks: at every
/// value that is read, and at no other rank's.
TEST_F(StoredBatchesTest, EveryValueIsLookedAtOnce) {
  constexpr int64_t batches = 12000, width = 3, perCell = 8;
  static_assert(batches * width * perCell * 8 > 2 * scanChunkBytes);
  description = makeManifest(1, 1, {});
  addInput(description, "input_ids", "I64", {perCell}, 0, 10);
  specs = {{"input_ids", FSDP_RT_I64, {batches, width, perCell}}};
  ids.assign(batches * width * perCell, 9);
  const int64_t chunk = scanChunkBytes / (perCell * 8);
  for (int64_t cell : {int64_t(0), chunk - 1, chunk, chunk + 1, chunk + 2,
                       batches * width / 2, batches * width - 2}) {
    ids[cell * perCell + 7] = 10;
    std::string path = write();
    ids[cell * perCell + 7] = 9;
    for (auto which : {DataOptions::Ranks::First, DataOptions::Ranks::All}) {
      options.ranks = which;
      manifest = parsed(description);
      int refused = 0;
      for (int rank = 0; rank < 2; ++rank)
        refused += !openBatches(path, manifest.train(), rank, 2, notes, options)
                        .isOk();
      bool isRead = which == DataOptions::Ranks::All || cell % width < 2;
      EXPECT_EQ(refused, int(isRead)) << cell;
    }
  }
}

TEST_F(StoredBatchesTest, AreKnownByWhatTheyHold) {
  std::string bytes = readFile(write());
  Ints wanted = ints(dir.file("b.safetensors"), 2);
  // As a store that names files by their hashes has them; no tokens either.
  for (const char *name : {"b", "b.txt", "b.bin"}) {
    EXPECT_EQ(ints(text(name, bytes), 2), wanted) << name;
    EXPECT_EQ(open(dir.file(name))->kind(), "safetensors") << name;
  }
  EXPECT_CONTAINS(refusal(text("cut", bytes.substr(0, bytes.size() - 8))),
                  "not like text");
  EXPECT_CONTAINS(refusal(text("cut", bytes.substr(0, 40))),
                  "begins like a safetensors file");
}

TEST_F(BatchesTest, TokensThatLookLikeAHeaderAreTokens) {
  tokens("I64", 65536);
  std::string path =
      text("x.bin", std::string("\x04\0\0\0\0\0\0\0{}{}{}{}{}", 18));
  EXPECT_EQ(ints(path, 1)[1],
            (std::vector<int64_t>{0, 0, 0, 0x7d7b, 0x7d7b, 0x7d7b}));
  EXPECT_EQ(open(path)->kind(), "16-bit tokens");
  // Nor is a brace after a text's eight bytes one.
  EXPECT_EQ(open(text("x", "\x04 length{\"a\": 1}"))->kind(), "text");
  EXPECT_EQ(open(text("x", "12345678{}{}{}"))->kind(), "text");
  EXPECT_EQ(open("random:seed=3")->kind(), "random:seed=3");
}

TEST_F(StoredBatchesTest, ValuesOutOfBoundsAreNamed) {
  ids[2 * 8 + 4 + 3] = 1030;
  EXPECT_CONTAINS(
      refusal(write(), 2, 1),
      "b.safetensors: token id 1030 of input_ids in batch 3, rank 1, "
      "element 3: expected 0 <= id < 1024");
  labels[1] = -1;
  EXPECT_CONTAINS(refusal(write()), "value -1 of labels in batch 1, rank 0, "
                                    "element 1: expected 0 <= value < 10");
}

TEST_F(StoredBatchesTest, ValuesBesideTheBoundsMayBeAllowed) {
  description["programs"][0]["inputs"][1]["allowed"] = {-100, 255};
  labels[0] = -100;
  labels[1] = 255;
  EXPECT_EQ(ints(write(), 1)[1], (std::vector<int64_t>{-100, 255}));
  labels[1] = -5;
  EXPECT_CONTAINS(refusal(write()),
                  "value -5 of labels in batch 1, rank 0, element 1: expected "
                  "0 <= value < 10, or -100, or 255");
}

TEST_F(StoredBatchesTest, RefusesWhatDoesNotFit) {
  EXPECT_CONTAINS(
      refusal(write(), 3),
      "expected batches for at least 3 ranks, got those for 2 ranks");
  specs[1].shape = {3, 2, 1, 2};
  EXPECT_CONTAINS(refusal(write()), "'labels': expected shape [batches, ranks] "
                                    "and then [2], got [3, 2, 1, 2]");
  specs[1].shape = {3, 2, 4};
  EXPECT_CONTAINS(refusal(write()), "got [3, 2, 4]");
  specs[1] = {"labels", FSDP_RT_I32, {3, 2, 2}};
  EXPECT_CONTAINS(refusal(write()), "'labels': expected I64, got I32");
  specs[1] = {"labels", FSDP_RT_I64, {0, 2, 2}};
  EXPECT_CONTAINS(refusal(write()), "expected at least 1 batch, got 0");
  specs[1] = {"label", FSDP_RT_I64, {3, 2, 2}};
  EXPECT_CONTAINS(refusal(write()),
                  "expected a tensor for every input, got none for 'labels'");
}

TEST_F(StoredBatchesTest, InputsWithOtherNumbersOfStepsOrRanksAreRefused) {
  // Each would begin again on its own, beside another step's.
  specs[1].shape = {2, 2, 2};
  EXPECT_CONTAINS(
      refusal(write()),
      "b.safetensors: expected as many batches for every input, got "
      "3 for 'input_ids' and 2 for 'labels'");
  specs[1].shape = {3, 4, 2};
  labels.resize(24);
  EXPECT_CONTAINS(refusal(write()),
                  "expected as many ranks for every input, got 2 for "
                  "'input_ids' and 4 for 'labels'");
}

TEST_F(StoredBatchesTest, FurtherRanksAndBeginningAgainAreTold) {
  std::string path = write();
  EXPECT_EQ(open(path, 1, 2)->remarks(3), std::vector<std::string>());
  EXPECT_EQ(
      open(path, 0, 1)->remarks(4),
      (std::vector<std::string>{
          path + ": has batches for 2 ranks; those of the first 1 are "
                 "read",
          path + ": has 3 batches of each rank: batch 4 begins it again"}));
}

TEST_F(StoredBatchesTest, UnusedTensorsAreTold) {
  specs.push_back({"mask", FSDP_RT_I64, {1}});
  EXPECT_EQ(ints(write(), 1)[1], (std::vector<int64_t>{0, 1}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_CONTAINS(notes[0], "no such input: 'mask'");
}

TEST_F(BatchesTest, RandomDependsOnSeedStepRankAndInput) {
  tokens();
  std::set<std::vector<int64_t>> seen;
  for (const char *spec : {"random:seed=0", "random:seed=1"})
    for (int64_t step : {1, 2})
      for (int rank : {0, 1})
        for (const auto &values : ints(spec, step, rank, 2)) {
          EXPECT_TRUE(seen.insert(values).second);
          for (int64_t value : values)
            EXPECT_TRUE(value >= 0 && value < 300);
        }
  EXPECT_EQ(ints("random:seed=1", 7), ints("random:seed=1", 7));
}

TEST_F(BatchesTest, RandomFloatsAndBools) {
  addInput(description, "pixels", "F32", {1000}, nullptr, nullptr);
  addInput(description, "mask", "BOOL", {1000}, nullptr, nullptr);
  auto source = open("random:seed=3");
  std::vector<float> pixels(1000);
  std::vector<char> mask(1000);
  char *dst[] = {reinterpret_cast<char *>(pixels.data()), mask.data()};
  ASSERT_OK(source->read(1, dst));
  double sum = 0;
  for (float pixel : pixels)
    sum += pixel * pixel / 1000;
  EXPECT_NEAR(sum, 1, 0.2);
  EXPECT_EQ(std::set<char>(mask.begin(), mask.end()), (std::set<char>{0, 1}));
}

TEST_F(BatchesTest, RandomDrawsFromItsOwnRange) {
  addInput(description, "ids", "I64", {1000}, -13, 13);
  addInput(description, "open", "I64", {1000}, nullptr, nullptr);
  for (json &input : description["programs"][0]["inputs"])
    input["draw"] = {2, 5};
  for (const std::vector<int64_t> &values : ints("random:seed=3", 1))
    EXPECT_EQ(std::set<int64_t>(values.begin(), values.end()),
              (std::set<int64_t>{2, 3, 4}));
}

TEST_F(BatchesTest, TokenDataNeedsToKnowTheShift) {
  tokens();
  description["programs"][0]["inputs"][1]["shift"] = nullptr;
  EXPECT_CONTAINS(refusal(text("x.txt", "abcdefghijklm")),
                  "x.txt: token data fills every input from the same tokens, "
                  "and nothing says how many tokens later 'labels' starts; "
                  "export the step again and say it, 'fsdp-export --shift "
                  "labels=1'");
  EXPECT_EQ(open("random:seed=0")->kind(), "random:seed=0");
}

TEST_F(BatchesTest, UnusualValuesAreNamed) {
  addInput(description, "bounded", "I64", {2}, 0, 4);
  addInput(description, "open", "I64", {3}, nullptr, nullptr);
  for (json &input : description["programs"][0]["inputs"])
    input["draw"] = {0, 4};
  description["programs"][0]["inputs"][1]["allowed"] = {-100};
  manifest = parsed(description);
  int64_t bounded[] = {3, 9}, open[] = {3, -100, 4};
  const char *inputs[] = {reinterpret_cast<const char *>(bounded),
                          reinterpret_cast<const char *>(open)};
  EXPECT_EQ(findUnusualValue(manifest.train(), inputs),
            "input 'open' holds 4 in element 2, outside of 0 <= value < 4, or "
            "-100");
  open[2] = 0;
  EXPECT_EQ(findUnusualValue(manifest.train(), inputs), "");
}

TEST_F(BatchesTest, RandomNeedsBoundsAndASeed) {
  for (const char *spec :
       {"random:", "random:seed=", "random:seed=-1", "random:seed=1x",
        "random:seed=18446744073709551616"})
    EXPECT_CONTAINS(refusal(spec), "expected seed=K with 0 <= K < 2^64");
  addInput(description, "ids", "I64", {2}, 0, nullptr);
  EXPECT_CONTAINS(
      refusal("random:seed=0"),
      "expected bounds for input 'ids' to draw from, got 0 <= value");
}

TEST_F(BatchesTest, LoaderGivesTheStepsInOrder) {
  tokens();
  std::string path = text("x.txt", "abcdefghijklmnopqrstuvwxyz");
  std::vector<Ints> expected;
  for (int64_t step = 5; step <= 40; ++step)
    expected.push_back(ints(path, step));
  std::vector<char> arena(manifest.arenaBytes);
  VectorMemory memory(arena);
  auto loader = BatchLoader::start(open(path), manifest.train(), 5, 40, memory);
  ASSERT_TRUE(loader.isOk());
  for (const Ints &batch : expected) {
    ASSERT_OK((*loader)->next(manifest.train()));
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(std::memcmp(arena.data() + manifest.train().inputs[i].offset,
                            batch[i].data(), 48),
                0);
  }
}

TEST_F(BatchesTest, LoaderFailsAtTheStepThatIsBad) {
  tokens("I64", 'z');
  auto source = open(text("x", "abcdefghijklm"));
  text("x", "abcdefghijklz");
  std::vector<char> arena(manifest.arenaBytes);
  VectorMemory memory(arena);
  auto loader =
      BatchLoader::start(std::move(source), manifest.train(), 1, 9, memory);
  ASSERT_TRUE(loader.isOk());
  EXPECT_OK((*loader)->next(manifest.train()));
  EXPECT_CONTAINS(messageOf((*loader)->next(manifest.train())), "token 122");
  EXPECT_CONTAINS(messageOf((*loader)->next(manifest.train())), "token 122");
}

TEST_F(BatchesTest, LoaderMayEndEarly) {
  tokens();
  std::string path = text("x.txt", "abcdefghijklm");
  for (int i = 0; i < 20; ++i) {
    auto source = open(path);
    std::vector<char> arena(manifest.arenaBytes);
    VectorMemory memory(arena);
    auto loader = BatchLoader::start(std::move(source), manifest.train(), 1,
                                     1000000, memory);
    ASSERT_TRUE(loader.isOk());
  }
}

} // namespace
