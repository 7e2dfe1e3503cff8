//===- TuningTable.cpp - Shapes of kernels that are fast on a card --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"

#include "fsdp/Cost/TuningTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SHA256.h"

using namespace llvm;
using namespace mlir::fsdp;

/// A warp has 16 rows, and each of its 32 threads copies whole columns.
static constexpr int64_t kLeastRows = 16, kMostRows = 128;
static constexpr int64_t kMostStages = 2;
static constexpr int64_t kLeastThreads = 32, kMostThreads = 1024;

/// A power of two within [least, most].
static int64_t readPower(JsonObject &row, StringRef key, int64_t least,
                         int64_t most) {
  int64_t value = row.integer(key, 1, most);
  if (!row.getFile().hasError() &&
      (value < least || !isPowerOf2_64(uint64_t(value))))
    row.report(key, "expected a power of two from " + Twine(least) + " to " +
                        Twine(most) + ", got " + Twine(value));
  return value;
}

static TuningTable::Attention readAttention(JsonObject row) {
  TuningTable::Attention read;
  read.headSize = row.integer("head_size", 1, kMostOfACount);
  read.dtype = CostDtype(row.oneOf("dtype", kCostDtypeNames));
  read.direction = row.oneOf("direction", kAttentionDirections);
  read.rows = readPower(row, "rows", kLeastRows, kMostRows);
  read.columns = readPower(row, "columns", kLeastRows, kMostRows);
  read.stages =
      row.has("stages") ? row.integer("stages", 1, kMostStages) : kMostStages;
  row.finish();
  if (row.getFile().hasError())
    return read;
  if (read.dtype != CostDtype::BF16 && read.dtype != CostDtype::F16)
    row.report("dtype", "expected bf16 or f16, got " +
                            kCostDtypeNames[unsigned(read.dtype)] +
                            ": other attentions have tiles of one shape");
  // A block has 32 threads for each 16 rows.
  if (read.columns > 2 * read.rows)
    row.report("columns", "expected at most " + Twine(2 * read.rows) +
                              " beside " + Twine(read.rows) +
                              " rows, as many as the block has threads, got " +
                              Twine(read.columns));
  return read;
}

static void readReduction(JsonObject row, TuningTable &table) {
  constexpr StringLiteral kinds[] = {"rows", "columns"};
  bool areColumns = row.oneOf("kind", kinds) == 1;
  int64_t threads = readPower(row, "threads", kLeastThreads, kMostThreads);
  row.finish();
  std::optional<int64_t> &known =
      areColumns ? table.columnThreads : table.rowThreads;
  if (known)
    row.report("kind", "expected one row for each kind, got a second");
  known = threads;
}

Expected<TuningTable> TuningTable::parse(StringRef text, StringRef path) {
  JsonFile file(text, path);
  JsonObject root(file);
  TuningTable table;
  constexpr StringLiteral formats[] = {"fsdp-tuning/1"};
  root.oneOf("format", formats);
  table.device = root.string("device");
  table.capability = root.string("compute_capability");
  auto [major, minor] = StringRef(table.capability).split('.');
  unsigned number = 0;
  if (!file.hasError() && (major.getAsInteger(10, number) || number < 8 ||
                           minor.getAsInteger(10, number) || minor.size() != 1))
    root.report("compute_capability",
                "expected 8.0 or later, got \"" + table.capability + "\"");
  if (root.has("attention")) {
    JsonArray rows = root.array("attention");
    for (size_t i = 0; i < rows.size() && !file.hasError(); ++i) {
      JsonObject row = rows.object(i);
      Attention read = readAttention(row);
      if (table.find(read.headSize, read.dtype, read.direction))
        row.report("", "expected one row for each head_size, dtype and "
                       "direction, got a second");
      table.attention.push_back(read);
    }
  }
  if (root.has("reductions")) {
    JsonArray rows = root.array("reductions");
    for (size_t i = 0; i < rows.size() && !file.hasError(); ++i)
      readReduction(rows.object(i), table);
  }
  root.finish();
  if (Error error = file.takeError())
    return std::move(error);
  std::array<uint8_t, 32> digest = SHA256::hash(
      ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  table.digest = toHex(digest, /*LowerCase=*/true);
  return table;
}

Expected<TuningTable> TuningTable::load(StringRef path) {
  return parseFile(path, parse);
}

const TuningTable::Attention *
TuningTable::find(int64_t headSize, CostDtype dtype, unsigned direction) const {
  auto row = find_if(attention, [&](const Attention &row) {
    return row.headSize == headSize && row.dtype == dtype &&
           row.direction == direction;
  });
  return row == attention.end() ? nullptr : &*row;
}
