//===- MpirunOutput.cpp - What mpirun itself says -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpirunOutput.h"

#include <cstdio>

namespace fsdp::rt {

namespace {

const std::string &dashes() {
  static const std::string line(74, '-');
  return line;
}

bool startsWith(const std::string &text, const std::string &prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

} // namespace

void MpirunOutput::endNotice(std::string &shown) {
  // Whitespace differs between versions and lines are folded: look at words.
  size_t abort = notice_.find("MPI_ABORT was invoked on rank ");
  size_t code = notice_.find("with errorcode ");
  constexpr const char *killed = "noticed that process rank ";
  size_t at = notice_.find(killed);
  int rank = 0, by = 0;
  size_t signal = notice_.find("exited on signal ");
  if (at != std::string::npos && signal != std::string::npos &&
      std::sscanf(notice_.c_str() + at, "noticed that process rank %d",
                  &rank) == 1 &&
      std::sscanf(notice_.c_str() + signal, "exited on signal %d", &by) == 1) {
    if (killedRank_ < 0) {
      killedRank_ = rank;
      killedBy_ = by;
    }
  } else if (abort != std::string::npos && code != std::string::npos &&
             std::sscanf(notice_.c_str() + code, "with errorcode %d",
                         &abortCode_) == 1) {
    // The rank has said why before.
  } else if (notice_.find("a non-zero exit code") == std::string::npos &&
             notice_.find("non-zero status") == std::string::npos) {
    shown += notice_;
  }
  notice_.clear();
  isInNotice_ = false;
}

void MpirunOutput::endLine(std::string &shown) {
  bool isRule = line_ == dashes() + "\n";
  if (isInNotice_) {
    notice_ += line_;
    if (isRule)
      endNotice(shown);
  } else if (isRule) {
    isInNotice_ = true;
    notice_ = line_;
  } else {
    hasError_ = hasError_ || startsWith(line_, "error: ");
    shown.append(line_, shownOfLine_);
  }
  line_.clear();
  shownOfLine_ = 0;
}

std::string MpirunOutput::feed(const std::string &bytes) {
  std::string shown;
  for (char byte : bytes) {
    line_ += byte;
    if (byte == '\n')
      endLine(shown);
  }
  // A progress bar has no line end; only what may become a rule has to wait.
  if (!isInNotice_ && !startsWith(dashes() + "\n", line_)) {
    shown.append(line_, shownOfLine_);
    shownOfLine_ = line_.size();
  }
  return shown;
}

std::string MpirunOutput::finish() {
  std::string shown;
  if (!line_.empty())
    endLine(shown);
  if (isInNotice_)
    endNotice(shown);
  return shown;
}

} // namespace fsdp::rt
