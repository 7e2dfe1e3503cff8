//===- Metrics.cpp - What a step tells ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Metrics.h"

#include "data/File.h"
#include "data/Numbers.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fsdp::rt::data {

namespace {

/// Digits after which a decimal reads back as the same number.
int digitsOf(Dtype dtype) { return dtype == FSDP_RT_F64 ? 17 : 9; }

class JsonLine {
public:
  void add(const char *key, double value, int digits) {
    char text[40] = "null";
    if (std::isfinite(value))
      std::snprintf(text, sizeof text, "%.*g", digits, value);
    else
      nonfinite_ += std::string(nonfinite_.empty() ? "\"" : ",\"") + key + '"';
    addText(key, text);
  }
  void addText(const char *key, const std::string &text) {
    line_ += std::string(line_.empty() ? "{\"" : ",\"") + key + "\":" + text;
  }
  std::string finish() {
    if (!nonfinite_.empty())
      addText("nonfinite", "[" + nonfinite_ + "]");
    return line_ + "}";
  }

private:
  std::string line_, nonfinite_;
};

} // namespace

void StepMetrics::setRates(const StepWork &work) {
  double seconds = stepMs / 1e3;
  if (seconds <= 0)
    return;
  if (work.flops)
    tflops = *work.flops / seconds / 1e12;
  if (work.secondsAtPeak)
    mfu = *work.secondsAtPeak / seconds;
  if (work.boundSeconds)
    ofBound = *work.boundSeconds / seconds;
}

std::string toJsonLine(const StepMetrics &metrics, Dtype lossDtype,
                       Dtype gradNormDtype) {
  JsonLine line;
  line.addText("step", std::to_string(metrics.step));
  line.add("loss", metrics.loss, digitsOf(lossDtype));
  line.add("grad_norm", metrics.gradNorm, digitsOf(gradNormDtype));
  if (metrics.lossScale)
    line.add("loss_scale", *metrics.lossScale, 9);
  if (metrics.learningRate)
    line.add("lr", *metrics.learningRate, 17);
  line.add("step_ms", metrics.stepMs, 9);
  line.add("tokens_per_s", metrics.tokensPerSecond, 9);
  line.add("exposed_comm_ms", metrics.exposedCommMs, 9);
  line.addText("mem_bytes", std::to_string(metrics.memBytes));
  for (auto [key, rate] :
       {std::pair("tflops", metrics.tflops), std::pair("mfu", metrics.mfu),
        std::pair("of_bound", metrics.ofBound)})
    if (rate)
      line.add(key, *rate, 9);
  return line.finish();
}

std::string toJsonLine(int64_t step, double loss, Dtype lossDtype,
                       int64_t batches) {
  JsonLine line;
  line.addText("step", std::to_string(step));
  line.add("eval_loss", loss, digitsOf(lossDtype));
  line.addText("eval_batches", std::to_string(batches));
  return line.finish();
}

double withoutSignOfNan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string toConsoleLine(const StepMetrics &metrics) {
  char text[200], part[40], scale[40] = "", rate[40] = "";
  if (metrics.lossScale)
    std::snprintf(scale, sizeof scale, " scale: %.6g", *metrics.lossScale);
  if (metrics.learningRate)
    std::snprintf(rate, sizeof rate, " lr: %.4g", *metrics.learningRate);
  std::snprintf(text, sizeof text,
                "step: %lld loss: %.4f grad_norm: %.4g%s%s memory: %s tps: %s",
                static_cast<long long>(metrics.step),
                withoutSignOfNan(metrics.loss),
                withoutSignOfNan(metrics.gradNorm), scale, rate,
                formatBytes(metrics.memBytes).c_str(),
                groupDigits(std::llround(metrics.tokensPerSecond)).c_str());
  std::string line = text;
  if (metrics.mfu) {
    std::snprintf(part, sizeof part, " mfu: %.1f %%", 100 * *metrics.mfu);
    line += part;
  }
  if (metrics.ofBound) {
    std::snprintf(part, sizeof part, " of bound: %.2f", *metrics.ofBound);
    line += part;
  }
  return line;
}

int64_t tokensPerStep(const Manifest &manifest) {
  int64_t tokens = 0;
  const std::vector<Input> &inputs = manifest.train().inputs;
  if (!inputs.empty() && !inputs.front().shape.empty())
    tokens = inputs.front().shape.front();
  for (const Input &input : inputs)
    if (isInteger(input.dtype)) {
      tokens = input.numel;
      break;
    }
  return tokens * manifest.worldSize();
}

int64_t residentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  if (!(statm >> total >> resident))
    return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

LineFile::~LineFile() {
  if (fd_ < 0)
    return;
  if (isNew_)
    ::unlink(path_.c_str());
  ::close(fd_);
}

Result<LineFile> LineFile::open(const std::string &path) {
  // Without O_NONBLOCK, opening a pipe would wait for its reader.
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  LineFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), flags | O_EXCL, 0666);
  file.isNew_ = file.fd_ >= 0;
  if (file.fd_ < 0 && errno == EEXIST)
    file.fd_ = ::open(path.c_str(), flags, 0666);
  if (file.fd_ < 0 && errno == ENXIO)
    return Status::failed("cannot write " + path +
                          ": expected a reader of the pipe, got none");
  if (file.fd_ < 0)
    return systemError("cannot write", path);
  ::fcntl(file.fd_, F_SETFL, O_APPEND);
  return file;
}

Status LineFile::cut(int64_t bytes) {
  struct stat info;
  if (::fstat(fd_, &info) != 0)
    return systemError("cannot examine", path_);
  if (!S_ISREG(info.st_mode) || info.st_size <= bytes)
    return Status::ok();
  if (::ftruncate(fd_, bytes) != 0)
    return systemError("cannot cut", path_);
  return Status::ok();
}

Status LineFile::append(const std::string &line) {
  std::string text = line + "\n";
  struct stat info;
  bool isRegular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  for (size_t done = 0; done < text.size();) {
    ssize_t put = ::write(fd_, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0) {
      Status failure = systemError("cannot write", path_);
      if (isRegular && done > 0 && ::ftruncate(fd_, info.st_size) != 0)
        return failure.withContext("half a line was written");
      return failure;
    }
    done += put;
  }
  isNew_ = false;
  return Status::ok();
}

} // namespace fsdp::rt::data
