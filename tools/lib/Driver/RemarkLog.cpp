//===- RemarkLog.cpp - What passes say of their decisions -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/RemarkLog.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

llvm::Error fsdp::checkRegex(StringRef option, StringRef filter) {
  std::string why;
  if (llvm::Regex(filter).isValid(why))
    return llvm::Error::success();
  return llvm::createStringError("expected a regular expression as " + option +
                                 ", got '" + filter + "': " + why);
}

llvm::Error RemarkFilters::check(ArrayRef<RemarkingPass> passes) const {
  struct {
    StringRef option;
    const std::optional<std::string> &filter;
    bool passed, missed;
  } filters[] = {{"--remarks-filter", all, true, true},
                 {"--remarks-filter-passed", passed, true, false},
                 {"--remarks-filter-missed", missed, false, true}};
  for (auto &[option, filter, wantsPassed, wantsMissed] : filters) {
    if (!filter)
      continue;
    if (llvm::Error error = checkRegex(option, *filter))
      return error;
    SmallVector<StringRef> names;
    for (const RemarkingPass &pass : passes)
      if ((wantsPassed && pass.passed) || (wantsMissed && pass.missed))
        names.push_back(pass.name);
    // As MLIR's engine matches: the whole name.
    llvm::Regex whole("^(" + *filter + ")$");
    if (llvm::none_of(names, [&](StringRef name) { return whole.match(name); }))
      return llvm::createStringError(
          "expected " + option +
          " to match the whole name of a pass that makes such remarks here (" +
          (names.empty() ? "none does" : llvm::join(names, ", ")) + "), got '" +
          *filter + "'");
  }
  return llvm::Error::success();
}

namespace mlir::fsdp {
class RemarkCollector : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit RemarkCollector(RemarkLog &log) : log(log) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    LoggedRemark logged{remark.getLocation(),
                        remark.getRemarkTypeString().str(),
                        remark.getCategoryName().str(),
                        remark.getRemarkName().str(),
                        "",
                        remark.getMsg()};
    // What was streamed into it, in pieces, and the reason.
    std::string reason;
    for (const remark::detail::Remark::Arg &arg : remark.getArgs())
      (arg.key == "Reason" ? reason : logged.text) += arg.val;
    if (!reason.empty())
      logged.text += (logged.text.empty() ? "" : ", ") + reason;
    std::lock_guard<std::mutex> lock(log.mutex);
    log.remarks.push_back(std::move(logged));
  }

private:
  RemarkLog &log;
};
} // namespace mlir::fsdp

void RemarkLog::attach(MLIRContext &context, const RemarkFilters &filters) {
  auto join = [&](const std::optional<std::string> &one) {
    return filters.all && one ? "(" + *filters.all + ")|(" + *one + ")"
           : one              ? one
                              : filters.all;
  };
  remark::RemarkCategories categories;
  categories.passed = join(filters.passed);
  categories.missed = join(filters.missed);
  // It fails where there is an engine already: nobody else makes one.
  [[maybe_unused]] LogicalResult attached = remark::enableOptimizationRemarks(
      context, std::make_unique<RemarkCollector>(*this),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
  assert(succeeded(attached) && "a context has one remark engine");
}

std::vector<LoggedRemark> RemarkLog::take() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(remarks, {});
}
