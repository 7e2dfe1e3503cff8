//===- MpirunOutput.h - What mpirun itself says -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPIRUNOUTPUT_H
#define FSDP_RT_CHANNELS_MPI_MPIRUNOUTPUT_H

#include <string>

namespace fsdp::rt {

/// Reads mpirun's standard error, in which the ranks' own and mpirun's notices
/// run together. A notice stands between two lines of dashes; those that only
/// say that a rank ended with a failure, which the rank has told better, are
/// taken out, and who was killed is remembered.
class MpirunOutput {
public:
  /// Takes the next bytes and returns what should be shown of all so far.
  std::string feed(const std::string &bytes);
  /// No more bytes come: returns what was still held back.
  std::string finish();

  /// The rank that mpirun says was killed, or -1, and the signal.
  int killedRank() const { return killedRank_; }
  int killedBy() const { return killedBy_; }
  /// The exit code that a rank ended the job with, or -1. It is why the others
  /// were killed.
  int abortCode() const { return abortCode_; }
  /// Whether a rank has told an error, in a line of its own.
  bool hasError() const { return hasError_; }

private:
  void endLine(std::string &shown);
  void endNotice(std::string &shown);

  std::string line_;
  /// The notice that is being read, with its first line of dashes.
  std::string notice_;
  bool isInNotice_ = false;
  /// How much of `line_` has been shown.
  size_t shownOfLine_ = 0;
  int killedRank_ = -1;
  int killedBy_ = 0;
  int abortCode_ = -1;
  bool hasError_ = false;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPIRUNOUTPUT_H
