//===- MetricsTest.cpp - Lines that a run writes --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "data/File.h"
#include "data/Metrics.h"
#include "data/Numbers.h"

#include <cmath>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

using namespace fsdp::rt;
using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

TEST(Metrics, LineHasTheKeysAndRoundTrips) {
  StepMetrics m;
  m.step = 3;
  m.loss = 6.94267464f;
  m.gradNorm = 0.1;
  m.stepMs = 12.25;
  m.tokensPerSecond = 1e6 / 3;
  m.exposedCommMs = 0;
  m.memBytes = 123456789012;
  std::string line = toJsonLine(m, FSDP_RT_F32, FSDP_RT_F64);
  EXPECT_EQ(line, "{\"step\":3,\"loss\":6.94267464,"
                  "\"grad_norm\":0.10000000000000001,\"step_ms\":12.25,"
                  "\"tokens_per_s\":333333.333,\"exposed_comm_ms\":0,"
                  "\"mem_bytes\":123456789012}");
  json parsedLine = json::parse(line);
  EXPECT_EQ(parsedLine["loss"].get<float>(), 6.94267464f);
  EXPECT_EQ(parsedLine["grad_norm"].get<double>(), 0.1);
}

TEST(Metrics, WhatIsNotFiniteIsNullAndNamed) {
  StepMetrics m;
  m.loss = NAN;
  m.gradNorm = -INFINITY;
  json line = json::parse(toJsonLine(m, FSDP_RT_F32, FSDP_RT_F32));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_EQ(line["nonfinite"], json({"loss", "grad_norm"}));
}

TEST(Metrics, ConsoleLine) {
  StepMetrics m;
  m.step = 1;
  m.loss = 6.94271;
  m.gradNorm = 0.7;
  m.memBytes = 1289748;
  m.tokensPerSecond = 12345.4;
  EXPECT_EQ(toConsoleLine(m), "step: 1 loss: 6.9427 grad_norm: 0.7 memory: "
                              "1.23MiB tps: 12,345");
}

TEST(Metrics, LossScaleIsBesideTheNorm) {
  StepMetrics m;
  m.step = 2;
  m.loss = 1.5;
  m.gradNorm = INFINITY;
  m.lossScale = 1 << 28;
  m.learningRate = 0.5;
  EXPECT_CONTAINS(toConsoleLine(m),
                  " grad_norm: inf scale: 2.68435e+08 lr: 0.5 memory: ");
  EXPECT_CONTAINS(toJsonLine(m, FSDP_RT_F32, FSDP_RT_F32),
                  "\"grad_norm\":null,\"loss_scale\":268435456,\"lr\":0.5,");
}

TEST(Metrics, NanHasNoSign) {
  StepMetrics m;
  m.loss = std::copysign(NAN, -1);
  m.gradNorm = -NAN;
  EXPECT_CONTAINS(toConsoleLine(m), " loss: nan grad_norm: nan memory: ");
  m.gradNorm = -INFINITY;
  EXPECT_CONTAINS(toConsoleLine(m), " grad_norm: -inf ");
}

TEST(Metrics, RatesFollowFromTheTimeOfAStep) {
  StepMetrics m;
  m.stepMs = 20;
  StepWork work;
  work.flops = 3e12;
  m.setRates(work);
  EXPECT_DOUBLE_EQ(*m.tflops, 150);
  EXPECT_FALSE(m.mfu || m.ofBound);
  work.secondsAtPeak = 8.62e-3;
  work.boundSeconds = 17.4e-3;
  m.setRates(work);
  json line = json::parse(toJsonLine(m, FSDP_RT_F32, FSDP_RT_F32));
  EXPECT_DOUBLE_EQ(line["tflops"], 150);
  EXPECT_DOUBLE_EQ(line["mfu"], 0.431);
  EXPECT_DOUBLE_EQ(line["of_bound"], 0.87);
  EXPECT_CONTAINS(toConsoleLine(m), " tps: 0 mfu: 43.1 % of bound: 0.87");
  // A clock that did not move says nothing about rates.
  StepMetrics none;
  none.setRates(work);
  EXPECT_FALSE(none.tflops || none.mfu || none.ofBound);
}

TEST(Metrics, Tokens) {
  json m = makeManifest(2, 2, {});
  EXPECT_EQ(tokensPerStep(parsed(m)), 0);
  addInput(m, "scale", "F32", {}, nullptr, nullptr);
  EXPECT_EQ(tokensPerStep(parsed(m)), 0);
  m["programs"][0]["inputs"] = json::array();
  addInput(m, "pixels", "F32", {8, 3, 4}, nullptr, nullptr);
  EXPECT_EQ(tokensPerStep(parsed(m)), 32);
  addInput(m, "labels", "I32", {8, 5}, nullptr, nullptr);
  addInput(m, "more", "I32", {8, 6}, nullptr, nullptr);
  EXPECT_EQ(tokensPerStep(parsed(m)), 160);
}

TEST(Metrics, ResidentBytesArePlausible) {
  EXPECT_GT(residentBytes(), 1 << 20);
}

TEST(LineFile, AppendsUntilCleared) {
  TempDir dir;
  std::string path = dir.file("m.jsonl");
  writeFile(path, "old\n");
  {
    Result<LineFile> file = LineFile::open(path);
    ASSERT_OK(file.status());
    EXPECT_EQ(readFile(path), "old\n");
    ASSERT_OK(file->append("a"));
    EXPECT_EQ(readFile(path), "old\na\n");
    ASSERT_OK(file->cut(0));
    ASSERT_OK(file->append("b"));
  }
  EXPECT_EQ(readFile(path), "b\n");
}

TEST(LineFile, SaysWhyItCannotWrite) {
  TempDir dir;
  EXPECT_CONTAINS(messageOf(LineFile::open(dir.file("no/m"))), "No such file");
  EXPECT_CONTAINS(messageOf(LineFile::open(dir.path())), "directory");
  // It does not wait for a reader.
  std::string pipe = dir.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_CONTAINS(messageOf(LineFile::open(pipe)), "a reader of the pipe");
  Result<LineFile> full = LineFile::open("/dev/full");
  ASSERT_OK(full.status());
  ASSERT_OK(full->cut(0));
  EXPECT_CONTAINS(messageOf(full->append("x")),
                  "cannot write '/dev/full': No space left on device");
}

TEST(Numbers, Format) {
  EXPECT_EQ(groupDigits(0), "0");
  EXPECT_EQ(groupDigits(999), "999");
  EXPECT_EQ(groupDigits(1000), "1,000");
  EXPECT_EQ(groupDigits(-1234567), "-1,234,567");
  EXPECT_EQ(formatBytes(1023), "1023B");
  EXPECT_EQ(formatBytes(1536), "1.50KiB");
  EXPECT_EQ(formatBytes(int64_t(3) << 30), "3.00GiB");
}

TEST(Numbers, Parse) {
  EXPECT_EQ(*parseInteger("12", 1, 20), 12);
  for (const char *text :
       {"", "x", "1x", " 1", "21", "0", "1e1", "99999999999999999999"})
    EXPECT_CONTAINS(messageOf(parseInteger(text, 1, 20)),
                    "expected an integer from 1 to 20, got");
  EXPECT_EQ(*parseNumber("1e-3"), 1e-3);
  EXPECT_EQ(*parseNumber("inf"), INFINITY);
  for (const char *text : {"", "nan", "1,5", "0x10", "1e"})
    EXPECT_CONTAINS(messageOf(parseNumber(text)), "expected a number, got");
  EXPECT_EQ(formatNumber(1e-3), "0.001");
  EXPECT_EQ(formatNumber(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(formatNumber(INFINITY), "inf");
  EXPECT_EQ(*parseSeed("seed=18446744073709551615"), UINT64_MAX);
}

TEST(Files, ReplaceKeepsTheOldOneOnFailure) {
  TempDir dir;
  std::string path = dir.file("f");
  ASSERT_OK(replaceFile(path, "one"));
  ASSERT_OK(replaceFile(path, "two"));
  EXPECT_EQ(readFile(path), "two");
  EXPECT_EQ(entriesOf(dir.path()).size(), 1u);
  EXPECT_CONTAINS(messageOf(replaceFile(dir.file("no/f"), "x")),
                  "No such file");
}

/// Of a scratch folder: a fault in what is tested could replace it. Null where
/// devices may not be made.
std::string makeDevice(const TempDir &dir, const std::string &name, int minor) {
  std::string path = dir.file(name);
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor)) != 0)
    return "";
  int fd = ::open(path.c_str(), O_WRONLY); // a mount may forbid devices
  if (fd >= 0)
    ::close(fd);
  return fd >= 0 ? path : "";
}

mode_t typeOf(const std::string &path) {
  struct stat info = {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & S_IFMT;
}

TEST(Files, ADeviceIsWrittenToAndNotReplaced) {
  TempDir dir;
  std::string null = makeDevice(dir, "null", 3);
  std::string full = makeDevice(dir, "full", 7);
  if (null.empty() || full.empty())
    GTEST_SKIP() << "may not make devices here";
  EXPECT_OK(checkReplaceable(null));
  EXPECT_OK(replaceFile(null, "x"));
  EXPECT_CONTAINS(messageOf(replaceFile(full, "x")), "No space left");
  EXPECT_EQ(typeOf(null), mode_t(S_IFCHR));
  EXPECT_EQ(typeOf(full), mode_t(S_IFCHR));
  EXPECT_EQ(entriesOf(dir.path()).size(), 2u);
}

TEST(Files, APipeIsWrittenToWhereItIsRead) {
  TempDir dir;
  std::string pipe = dir.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_CONTAINS(messageOf(replaceFile(pipe, "x")), "No such device");
  int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_OK(checkReplaceable(pipe));
  EXPECT_OK(replaceFile(pipe, "told"));
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  EXPECT_STREQ(got, "told");
  EXPECT_EQ(typeOf(pipe), mode_t(S_IFIFO));
  // As `>(command)` of a shell: a link that has no path behind it.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_OK(replaceFile("/proc/self/fd/" + std::to_string(ends[1]), "x"));
  EXPECT_EQ(::read(ends[0], got, sizeof got), 1);
  for (int fd : {reader, ends[0], ends[1]})
    ::close(fd);
}

TEST(Files, LinksStayAndLead) {
  TempDir dir;
  ASSERT_EQ(::mkdir(dir.file("far").c_str(), 0700), 0);
  writeFile(dir.file("far/old"), "old");
  ASSERT_EQ(::symlink("far/old", dir.file("a").c_str()), 0);
  ASSERT_EQ(::symlink("a", dir.file("b").c_str()), 0);
  ASSERT_EQ(::symlink("far/new", dir.file("c").c_str()), 0);
  EXPECT_OK(checkReplaceable(dir.file("b")));
  EXPECT_OK(replaceFile(dir.file("b"), "one"));
  EXPECT_OK(replaceFile(dir.file("c"), "two"));
  EXPECT_EQ(readFile(dir.file("far/old")), "one");
  EXPECT_EQ(readFile(dir.file("far/new")), "two");
  for (const char *link : {"a", "b", "c"})
    EXPECT_EQ(typeOf(dir.file(link)), mode_t(S_IFLNK)) << link;
  EXPECT_EQ(entriesOf(dir.file("far")).size(), 2u);
  ASSERT_EQ(::symlink("loop", dir.file("loop").c_str()), 0);
  EXPECT_CONTAINS(messageOf(replaceFile(dir.file("loop"), "x")), "symbolic");
  EXPECT_EQ(typeOf(dir.file("loop")), mode_t(S_IFLNK));
}

TEST(Files, AnOpenFileIsWrittenOn) {
  TempDir dir;
  // As /dev/stdout is, where a shell has sent it to a file.
  int fd = ::open(dir.file("log").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(fd, "step: 1\n", 8), 8);
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  EXPECT_OK(checkReplaceable(path));
  EXPECT_OK(replaceFile(path, "{}"));
  EXPECT_EQ(::write(fd, "\ndone\n", 6), 6);
  EXPECT_EQ(readFile(dir.file("log")), "step: 1\n{}\ndone\n");
  ::close(fd);
}

TEST(Files, DirectoriesAreNotFiles) {
  TempDir dir;
  ASSERT_EQ(::mkdir(dir.file("d").c_str(), 0700), 0);
  for (Status status :
       {replaceFile(dir.file("d"), "x"), checkReplaceable(dir.file("d"))})
    EXPECT_CONTAINS(messageOf(status),
                    "expected a file to write to, got a directory");
  EXPECT_CONTAINS(messageOf(checkReplaceable(dir.file("no/f"))),
                  "cannot write to");
  EXPECT_EQ(entriesOf(dir.path()).size(), 1u);
}

TEST(Files, DirectoriesTakeEachOthersPlace) {
  TempDir dir;
  for (const char *name : {"new", "old"}) {
    ASSERT_OK(makeDirectories(dir.file(name)));
    writeFile(dir.file(name) + "/" + name, "");
  }
  ASSERT_OK(replaceDirectory(dir.file("new"), dir.file("old"), false));
  EXPECT_EQ(entriesOf(dir.path()), std::vector<std::string>{"old"});
  EXPECT_EQ(entriesOf(dir.file("old")), std::vector<std::string>{"new"});
  ASSERT_OK(replaceDirectory(dir.file("old"), dir.file("third"), false));
  EXPECT_EQ(entriesOf(dir.path()), std::vector<std::string>{"third"});
}

TEST(Files, MakeDirectoriesRefusesAFile) {
  TempDir dir;
  writeFile(dir.file("f"), "");
  EXPECT_TRUE(bool(makeDirectories(dir.file("f"))));
  EXPECT_TRUE(bool(makeDirectories(dir.file("f/g"))));
  EXPECT_OK(makeDirectories(dir.file("a/b/c")));
  EXPECT_OK(makeDirectories(dir.file("a/b/c")));
  EXPECT_OK(removeTree(dir.file("a")));
  EXPECT_OK(removeTree(dir.file("a")));
}

} // namespace
