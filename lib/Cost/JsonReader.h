//===- JsonReader.h - Strict reading of JSON files --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cursor in a JSON file that remembers its path. The first thing that is
// wrong is kept as "file: path: expected X, got Y", and what is read after it
// has harmless values, so that a caller checks once, at its end.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_COST_JSONREADER_H
#define FSDP_LIB_COST_JSONREADER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// The text of @path, or an error that names it.
llvm::Expected<std::string> readTextFile(llvm::StringRef path);

/// What @parse(text, path) makes of the text of @path, or an error that names
/// the file.
template <typename T>
llvm::Expected<T> parseFile(llvm::StringRef path,
                            llvm::Expected<T> (*parse)(llvm::StringRef,
                                                       llvm::StringRef)) {
  llvm::Expected<std::string> text = readTextFile(path);
  if (!text)
    return text.takeError();
  return parse(*text, path);
}

/// A file and the first error in it.
class JsonFile {
public:
  JsonFile(llvm::StringRef text, llvm::StringRef path);

  const std::string &getPath() const { return path; }
  const llvm::json::Value &getRoot() const { return root; }
  void report(llvm::StringRef where, const llvm::Twine &message);
  bool hasError() const { return !error.empty(); }
  llvm::Error takeError();

private:
  std::string path, error;
  llvm::json::Value root = nullptr;
};

/// The most of a count of machines, ranks or elements in one dimension:
/// products of two of them do not overflow.
constexpr int64_t kMostOfACount = int64_t(1) << 31;

/// A range that a number must lie in.
struct NumberRange {
  double least = 0;
  bool open = false; // `least` itself is outside
  double most = 0;   // 0: no upper end

  static NumberRange positive() { return {0, true, 0}; }
  static NumberRange nonNegative() { return {0, false, 0}; }
  static NumberRange fraction() { return {0, true, 1}; }
  /// Microseconds of one kernel or transfer that was measured: over a minute
  /// and a half is a slip of the pen.
  static NumberRange duration() { return {0, true, 1e8}; }
};

class JsonArray;

/// An object whose keys are asked for one by one. Keys that nobody asked for
/// are errors of finish(), except "source" and "note", which say where numbers
/// come from.
class JsonObject {
public:
  /// The whole file.
  explicit JsonObject(JsonFile &file);
  JsonObject(JsonFile &file, std::string path, const llvm::json::Value *value);

  bool has(llvm::StringRef key);
  double number(llvm::StringRef key, NumberRange range);
  double numberOr(llvm::StringRef key, NumberRange range, double fallback);
  int64_t integer(llvm::StringRef key, int64_t least, int64_t most = INT64_MAX);
  int64_t integerOr(llvm::StringRef key, int64_t least, int64_t fallback,
                    int64_t most = INT64_MAX);
  std::string string(llvm::StringRef key);
  bool booleanOr(llvm::StringRef key, bool fallback);
  /// The place of the string in @names.
  unsigned oneOf(llvm::StringRef key,
                 llvm::ArrayRef<llvm::StringLiteral> names);
  JsonObject object(llvm::StringRef key);
  JsonArray array(llvm::StringRef key);
  /// Keys beside "source" and "note", in the order of their names.
  std::vector<std::string> keys() const;
  const llvm::json::Value *get(llvm::StringRef key);

  /// After the last key: reports those that were not asked for. @open skips
  /// that, for files to which other programs add.
  void finish();

  void report(llvm::StringRef key, const llvm::Twine &message);
  JsonFile &getFile() const { return *file; }
  std::string pathOf(llvm::StringRef key) const;

private:
  const llvm::json::Value *require(llvm::StringRef key,
                                   llvm::StringRef expected);

  JsonFile *file;
  std::string path;
  const llvm::json::Object *members = nullptr;
  std::vector<std::string> asked;
};

class JsonArray {
public:
  JsonArray(JsonFile &file, std::string path, const llvm::json::Value *value);
  size_t size() const { return elements ? elements->size() : 0; }
  double number(size_t index, NumberRange range) const;
  int64_t integer(size_t index, int64_t least, int64_t most = INT64_MAX) const;
  std::string string(size_t index) const;
  JsonObject object(size_t index) const;
  JsonArray array(size_t index) const;
  void report(const llvm::Twine &message) const;
  /// [[size, value], ...], sizes ascending.
  std::vector<std::pair<double, double>> points(NumberRange values) const;
  /// The same where a larger size never has a smaller value, as of times.
  std::vector<std::pair<double, double>> risingPoints(NumberRange values) const;

private:
  std::string pathOf(size_t index) const;

  JsonFile *file;
  std::string path;
  const llvm::json::Array *elements = nullptr;
};

} // namespace mlir::fsdp

#endif // FSDP_LIB_COST_JSONREADER_H
