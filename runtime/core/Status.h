//===- Status.h - Errors that cross the runtime ------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime throws nothing across its own interfaces: what can fail returns a
// Status or a Result. Messages are lower case and say what was expected and
// found: "expected 4 ranks, got 2".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_STATUS_H
#define FSDP_RT_CORE_STATUS_H

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// Exit statuses of every tool that runs a program.
enum class Code : int {
  Ok = 0,
  /// The user's mistake or the machine's failure.
  Failed = 1,
  /// A fault of ours.
  Internal = 2,
};

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status ok() { return {}; }
  static Status failed(std::string message) {
    return Status(Code::Failed, std::move(message));
  }
  static Status internal(std::string message) {
    return Status(Code::Internal, std::move(message));
  }

  bool isOk() const { return code_ == Code::Ok; }
  /// True on failure, so that `if (Status s = f()) return s;` reads well.
  explicit operator bool() const { return !isOk(); }
  Code code() const { return code_; }
  const std::string &message() const { return message_; }

  /// The same failure, told where it happened: "params.safetensors: truncated".
  Status withContext(const std::string &where) const {
    return isOk() ? *this : Status(code_, where + ": " + message_);
  }

private:
  Status(Code code, std::string message)
      : code_(code), message_(std::move(message)) {}
  Code code_ = Code::Ok;
  std::string message_;
};

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool isOk() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

/// For messages: "a", "a or b", "a, b or c", where `conjunction` is "or".
inline std::string listWords(const std::vector<std::string> &words,
                             const std::string &conjunction) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0)
      text += i + 1 == words.size() ? " " + conjunction + " " : ", ";
    text += words[i];
  }
  return text;
}

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_STATUS_H
