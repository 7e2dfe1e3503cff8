//===- RemarkLog.h - What passes say of their decisions ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Remarks of MLIR's engine, kept: what is tried and thrown away says nothing of
// the result, and a report shows them where they belong.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_REMARKLOG_H
#define FSDP_DRIVER_REMARKLOG_H

#include "fsdp/Passes/Stage.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/Error.h"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// Refuses a @filter, the value of @option, that is no regular expression.
llvm::Error checkRegex(llvm::StringRef option, llvm::StringRef filter);

/// Which remarks are wanted, by the names of the passes that make them; as
/// mlir-opt's options of these names. Nothing: none of that kind.
struct RemarkFilters {
  /// --remarks-filter, --remarks-filter-passed, --remarks-filter-missed.
  std::optional<std::string> all, passed, missed;

  bool isEmpty() const { return !all && !passed && !missed; }
  /// Refuses what is no regular expression, and what matches none of @passes,
  /// those that are to run, that makes such remarks: it would be silent
  /// whatever they decide.
  llvm::Error check(llvm::ArrayRef<RemarkingPass> passes) const;
};

struct LoggedRemark {
  Location loc;
  /// "Passed" or "Missed"; the pass; what it decided upon, as "Keep".
  std::string kind, pass, name;
  /// In words; and as fsdp-opt prints the whole.
  std::string text, full;
};

class RemarkLog {
public:
  /// From now on, remarks of @context end here; the log outlives it.
  void attach(MLIRContext &context, const RemarkFilters &filters);

  /// All since the last call.
  std::vector<LoggedRemark> take();

private:
  friend class RemarkCollector;
  std::vector<LoggedRemark> remarks;
  /// Passes may run on several functions at once.
  std::mutex mutex;
};

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_REMARKLOG_H
