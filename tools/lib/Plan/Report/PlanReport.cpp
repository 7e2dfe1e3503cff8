//===- PlanReport.cpp - What a step will do, and why ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/PlanReport.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::Twine;

std::vector<ReportedTransfer>
mlir::fsdp::getTransfers(const PlanVariant &variant) {
  const Timeline &timeline = variant.timeline;
  auto explain = [&](Id op) -> std::string {
    if (timeline.exposedBy[op] <= 0)
      return "hidden behind compute";
    return variant.reasons.empty() ? getCause(variant.program, timeline, op)
                                   : variant.reasons[op];
  };
  std::vector<ReportedTransfer> result;
  for (auto [i, op] : llvm::enumerate(variant.program.ops))
    if (op.kind == StepOpKind::Start)
      result.push_back({Id(i), timeline.exposedBy[i], explain(i)});
  llvm::sort(result, [](const auto &a, const auto &b) {
    return std::make_pair(-a.exposed, a.op) < std::make_pair(-b.exposed, b.op);
  });
  return result;
}

bool mlir::fsdp::hasTransfers(const PlanVariant &variant) {
  return llvm::any_of(variant.program.ops, [](const StepOp &op) {
    return op.kind == StepOpKind::Start;
  });
}

std::vector<ReportedTransfer> mlir::fsdp::getExposed(const PlanVariant &variant,
                                                     size_t most) {
  std::vector<ReportedTransfer> result = getTransfers(variant);
  auto hidden = llvm::find_if(
      result, [](const ReportedTransfer &it) { return it.exposed <= 0; });
  result.resize(std::min<size_t>(most, hidden - result.begin()));
  return result;
}

std::vector<ExposedKind>
mlir::fsdp::getExposedKinds(const PlanVariant &variant) {
  std::map<std::string, ExposedKind> kinds;
  for (const ReportedTransfer &transfer : getExposed(variant)) {
    std::string name = getKindTitle(variant.program.ops[transfer.op]);
    ExposedKind &kind = kinds[name];
    kind.name = name;
    kind.exposed += transfer.exposed;
    ++kind.count;
  }
  std::vector<ExposedKind> result;
  for (auto &entry : kinds)
    result.push_back(std::move(entry.second));
  llvm::sort(result, [](const auto &a, const auto &b) {
    return std::make_pair(-a.exposed, a.name) <
           std::make_pair(-b.exposed, b.name);
  });
  return result;
}

double PlanReport::getMfu() const {
  return secondsAtPeak / std::max(1e-12, toSeconds(getBest().timeline.step));
}

double mlir::fsdp::getReachedBandwidth(const PlanVariant &variant, Id op) {
  const OpSpan &span = variant.timeline.spans[op];
  const StepOp &start = variant.program.ops[op];
  return span.end <= span.begin
             ? 0.0
             : double(variant.program.transfers[start.transfer].getBytes()) /
                   toSeconds(span.end - span.begin);
}

bool mlir::fsdp::isLatencyBound(const PlanVariant &variant, Id op) {
  const TransferCost &cost =
      variant.transfers[variant.program.ops[op].transfer].cost;
  return cost.latency > cost.work;
}

std::vector<std::string>
mlir::fsdp::getTransferUnits(const StepProgram &program, Id op) {
  std::vector<std::string> names;
  for (Id unit : program.transfers[program.ops[op].transfer].atomUnits)
    if (unit >= 0 && !llvm::is_contained(names, program.units[unit]))
      names.push_back(program.units[unit]);
  return names;
}

std::string mlir::fsdp::getKernelTitle(const KernelCost &kernel) {
  switch (kernel.kind) {
  case KernelKind::Vector:
    return "elementwise or reduction";
  case KernelKind::Copy:
    return "copy";
  case KernelKind::Matmul:
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    break;
  }
  std::string batch =
      kernel.batch > 1 ? " in a batch of " + std::to_string(kernel.batch) : "";
  return ((kernel.kind == KernelKind::Matmul ? "product " : "attention ") +
          Twine(kernel.m) + " x " + Twine(kernel.n) + " x " + Twine(kernel.k) +
          batch + ", " + kCostDtypeNames[unsigned(kernel.dtype)])
      .str();
}

std::vector<std::string>
mlir::fsdp::foldModules(llvm::ArrayRef<llvm::StringRef> modules) {
  using Parts = llvm::SmallVector<llvm::StringRef>;
  auto isNumber = [](llvm::StringRef part) {
    return !part.empty() && llvm::all_of(part, llvm::isDigit);
  };
  // By name with numbers left out: the first one's parts, then the common ones.
  llvm::MapVector<Parts, Parts> folded;
  for (llvm::StringRef module : modules) {
    Parts parts, key;
    module.split(parts, '.');
    for (llvm::StringRef part : parts)
      key.push_back(isNumber(part) ? "*" : part);
    auto [it, isNew] = folded.try_emplace(key, parts);
    for (auto [common, mine] : llvm::zip_equal(it->second, parts))
      if (common != mine)
        common = "*";
  }
  std::vector<std::string> names;
  for (const auto &[key, parts] : folded)
    names.push_back(llvm::join(parts, "."));
  return names;
}

std::string mlir::fsdp::describeModules(const KernelShare &kernel) {
  constexpr size_t kShown = 3;
  size_t count = kernel.modules.size();
  std::string text =
      llvm::join(llvm::ArrayRef(kernel.modules).take_front(kShown), ", ");
  if (count > kShown)
    text += " and " + std::to_string(count - kShown) + " more";
  return text;
}

double PlanReport::getItemsPerSecond() const {
  return double(items.perRank) * double(worldSize) /
         std::max(1e-12, toSeconds(getBest().timeline.step));
}

double PlanReport::getRoomForItems() const {
  if (!fits())
    return 1;
  // With more of them, another moment may be the fullest. Gaps stay.
  int64_t gaps = leastBudget - getMemoryPeak(getBest().memory).getTotal();
  double room = std::numeric_limits<double>::infinity();
  for (const MemoryPoint &point : getBest().memory)
    if (int64_t bytes = point.bytes[unsigned(Purpose::Activations)])
      room = std::min(room, 1 + double(budget - gaps - point.getTotal()) /
                                    double(bytes));
  return std::isinf(room) ? 1 : std::max(room, 1.0);
}

std::string mlir::fsdp::describeLimit(const KernelRoof &roof) {
  switch (roof.limit) {
  case KernelLimit::None:
    return "";
  case KernelLimit::Launch:
    if (roof.amount == 1)
      return "launch";
    return llvm::formatv("{0:f0} launches", roof.amount);
  case KernelLimit::Threads:
    return llvm::formatv("few threads ({0:f0} at once)", roof.amount);
  case KernelLimit::Instructions:
    return "instructions";
  case KernelLimit::Reads:
    return llvm::formatv("moves {0:f2} times what it needs", roof.amount);
  case KernelLimit::Bytes:
    return llvm::formatv("few bytes (memory reaches {0:f1} %)",
                         100 * roof.amount);
  case KernelLimit::Units:
    return llvm::formatv("units reach {0:f1} % of their peak",
                         100 * roof.amount);
  }
  llvm_unreachable("unknown limit");
}

std::vector<const KernelShare *>
mlir::fsdp::getBelowRoof(const PlanReport &report) {
  std::vector<const KernelShare *> kernels;
  for (const KernelShare &kernel : report.kernels)
    if (kernel.getLost() > 0)
      kernels.push_back(&kernel);
  llvm::sort(kernels, [](const KernelShare *a, const KernelShare *b) {
    return std::make_pair(-a->getLost(), a->cost.name) <
           std::make_pair(-b->getLost(), b->cost.name);
  });
  return kernels;
}

std::vector<const KernelShare *>
mlir::fsdp::getSlowKernels(llvm::ArrayRef<KernelShare> kernels, Time step) {
  constexpr double kMuchOfStep = 0.2, kLittleOfRoof = 0.05;
  std::vector<const KernelShare *> slow;
  for (const KernelShare &kernel : kernels) {
    double time = double(kernel.time - kernel.launch);
    if (kernel.roof.time && time > kMuchOfStep * double(step) &&
        double(kernel.roof.time) < kLittleOfRoof * time)
      slow.push_back(&kernel);
  }
  return slow;
}

std::string mlir::fsdp::describeSlowKernel(const KernelShare &kernel,
                                           Time step) {
  std::string text = llvm::formatv(
      "{0} takes {1:f3} ms ({2:f1} % of the step) at {3:f1} % of its roof",
      kernel.cost.name, toMs(kernel.time),
      100.0 * double(kernel.time) / double(std::max<Time>(1, step)),
      100.0 * double(kernel.roof.time) / double(kernel.time));
  if (std::string limit = describeLimit(kernel.roof); !limit.empty())
    text += ": " + limit;
  return text;
}

void mlir::fsdp::noteSlowKernels(llvm::ArrayRef<KernelShare> kernels, Time step,
                                 llvm::StringRef where,
                                 std::vector<std::string> &notes) {
  for (const KernelShare *kernel : getSlowKernels(kernels, step)) {
    std::string note = ("warning: " + where).str();
    note += describeSlowKernel(*kernel, step);
    if (!kernel->modules.empty())
      note += "; " + describeModules(*kernel);
    notes.push_back(std::move(note));
  }
}

std::string mlir::fsdp::describeCode(const KernelCode &code) {
  if (!code.isIdeal)
    return "";
  std::string text = "kernels cost what their sizes allow at best; ";
  if (code.compiledStep)
    return text + llvm::formatv("as --target cuda compiles them, the step "
                                "takes {0:f3} ms",
                                toMs(code.compiledStep))
                      .str();
  if (!code.refused.empty())
    return text + "--target cuda cannot be planned: " + code.refused;
  return text + "--target cuda costs their code";
}

std::array<Time, 4> mlir::fsdp::getTimeByKind(const PlanReport &report) {
  std::array<Time, 4> times = {};
  for (const KernelShare &kernel : report.kernels) {
    times[kernel.cost.kind == KernelKind::Vector ? 1
          : kernel.cost.kind == KernelKind::Copy ? 2
                                                 : 0] +=
        kernel.time - kernel.launch;
    times[3] += kernel.launch;
  }
  return times;
}

namespace {
/// A budget in as many steps of a @part of its unit as it is printed with.
struct RoundedBudget {
  bool isSmall;
  int64_t unit, part, count;

  explicit RoundedBudget(int64_t bytes)
      : isSmall(bytes < 1 << 30), unit(int64_t(1) << (isSmall ? 20 : 30)),
        part(isSmall ? 10 : 100), count(llvm::divideCeil(bytes * part, unit)) {}
};
} // namespace

std::string mlir::fsdp::formatBudget(int64_t bytes) {
  RoundedBudget budget(bytes);
  return llvm::formatv(budget.isSmall ? "{0}.{1}MiB" : "{0}.{1,0+2}GiB",
                       budget.count / budget.part, budget.count % budget.part);
}

int64_t mlir::fsdp::roundBudget(int64_t bytes) {
  RoundedBudget budget(bytes);
  return std::llround(double(budget.count) / double(budget.part) *
                      double(budget.unit));
}

int64_t PlanReport::getPlannedBudget() const {
  return fits() ? budget : roundBudget(getBudgetFor(leastBudget)) - reserved;
}

std::string mlir::fsdp::describeMisfit(const PlanReport &report,
                                       llvm::StringRef program) {
  // Not rounded: what is there may look like what is needed.
  return llvm::formatv(
      "expected a memory budget of at least {0}{1} bytes ({2} for the "
      "arena{5}, {3} for driver and libraries), got {4}",
      report.isLeastPacked ? "" : "about ",
      report.getBudgetFor(report.leastBudget), formatBytes(report.leastBudget),
      formatBytes(report.reserved), report.given,
      program.empty() ? "" : (" of " + program).str());
}
