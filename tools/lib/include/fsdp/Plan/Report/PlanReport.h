//===- PlanReport.h - What a step will do, and why --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The report of fsdp-plan, and the forms it is written in.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_REPORT_PLANREPORT_H
#define FSDP_PLAN_REPORT_PLANREPORT_H

#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Planning/StepFit.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/StepProblem.h"
#include "fsdp/Schedule/TransferCauses.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace mlir::fsdp {

inline double toMs(Time time) { return toSeconds(time) * 1e3; }

/// What the cost model says of one transfer.
struct TransferFacts {
  TransferCost cost;
  TransferRoute route;
};

/// One order of the step, simulated.
struct PlanVariant {
  /// For machines: "in_order", "fsdp", "scheduled", "planned"; and for people.
  std::string name, title;
  sched::StepProgram program;
  sched::Timeline timeline;
  std::vector<sched::MemoryPoint> memory;
  /// The most that what is offloaded takes of the host's memory at once.
  int64_t hostPeak = 0;
  /// The most that any timing of this order can bring about; 0: not known.
  int64_t mostBytes = 0;
  /// What its arena takes when it is packed; 0: not known.
  int64_t arenaBytes = 0;
  /// By StepProgram::transfers.
  std::vector<TransferFacts> transfers;
  /// By StepProgram::kernels: a call of each at the roof.
  std::vector<KernelRoof> roofs;
  /// Of a run, by op: why a transfer took as long as it did. Empty: why compute
  /// waits is known from the timeline.
  std::vector<std::string> reasons;
  /// No order of its ops takes less; 0: not known, as of a run.
  Time bound = 0;

  /// What another order of the same ops could win, as a part of the bound.
  double getGap() const {
    return bound > 0 ? double(timeline.step - bound) / double(bound) : 0.0;
  }
};

/// A start, how long compute waited for it, and the one reason.
struct ReportedTransfer {
  /// Op of the variant's program.
  sched::Id op = -1;
  Time exposed = 0;
  std::string cause;
};

/// All calls of one kernel in a step.
struct KernelShare {
  KernelCost cost;
  int64_t calls = 0;
  /// Together, alone, and what of it they take to start.
  Time time = 0, launch = 0;
  /// Together, where they reached the roof; the limit is that of the longest.
  KernelRoof roof;
  /// What they take beyond the roof; 0 where that is not known.
  Time getLost() const {
    return roof.time ? std::max<Time>(0, time - roof.time) : 0;
  }
  /// What they work for, as foldModules has it.
  std::vector<std::string> modules;
  /// The first call, an op of the program; -1: copies between kernels.
  sched::Id firstOp = -1;
};

/// The same step with one thing changed, planned again.
struct WhatIf {
  /// "the network between nodes twice as fast", "--wrap module:Block".
  std::string title;
  /// It is an option of this tool; otherwise another machine.
  bool isOption = false;
  /// Memory is all that was changed: there is room for any order.
  bool hasAllMemory = false;
  /// Why there is no plan of it; empty where there is one.
  std::string refused;
  Time step = 0, compute = 0, exposed = 0;
  int64_t peak = 0, budget = 0, leastBudget = 0;
  bool fits() const { return leastBudget <= budget; }
};

/// A program of the module beside the one that trains, simulated: it evaluates,
/// or runs a micro-batch whose gradients are accumulated.
struct FurtherProgram {
  /// Its symbol, and the word of its ProgramKind.
  std::string name, kind;
  /// As it was planned or compiled, with its bound and what its arena takes.
  PlanVariant variant;
  /// A budget that works, in bytes: that arena, or where none fits, the
  /// smallest that was found.
  int64_t leastBudget = 0;
};

/// What a step trains on: the elements of the first integer input if it has
/// sequences, else samples.
struct StepItems {
  std::string name = "samples";
  int64_t perRank = 0;
};

/// The budget of the model of memory for which a step was planned, and what it
/// was ordered for, so that its arena fits. In bytes; 0: none was found.
struct ModelBudgets {
  int64_t plan = 0;
  sched::OrderLimits order;
};

/// What the kernels of a plan cost.
struct KernelCode {
  /// The step runs on GPUs, and its kernels have no code for them: they cost
  /// what the peaks of the device allow for their size.
  bool isIdeal = false;
  /// The step with the code that the target of the device makes by default; 0:
  /// nobody planned it, or `refused` says why not.
  Time compiledStep = 0;
  std::string refused;
};

struct PlanReport {
  std::string model, mesh, strategy, cluster, device;
  /// What else was asked for: "--wrap auto --memory-budget 10GiB".
  std::string options;
  int64_t worldSize = 1;
  StepItems items;
  /// In the order in which they improve.
  std::vector<PlanVariant> variants;
  std::unique_ptr<CostModel> cost;
  /// No order takes less; where there is a problem to schedule.
  Time bound = 0;
  /// What the bound is made of: "compute", "all_gather queue", ..
  std::string limit;
  /// For the arena; driver and libraries take `reserved` beside it, of what a
  /// rank is given.
  int64_t budget = 0, reserved = 0, given = 0;
  /// A budget that works: what the plan's arena takes; where none fits, the
  /// smallest that was found, or about that where nothing has been packed.
  int64_t leastBudget = 0;
  bool isLeastPacked = true;
  ModelBudgets fitted;
  /// For activations in the host's memory; 0: no link leads there.
  int64_t hostBudget = 0;
  /// Compute, most time first.
  std::vector<KernelShare> kernels;
  KernelCode code;
  /// Arithmetic of the products and attentions of one rank's step, without what
  /// is computed again; and the seconds that it would take at the peak of the
  /// device's units, 0: not known.
  double flops = 0, secondsAtPeak = 0;
  /// The peak of products in each type, in flops a second; 0: not known.
  std::array<double, kNumCostDtypes> peakFlops = {};
  /// The arena of the program before it is scheduled.
  int64_t arenaBytes = 0;
  /// Planned for the same budget, in the order of the module.
  std::vector<FurtherProgram> further;
  /// What the planner decided, in sentences; none where nothing was.
  std::vector<std::string> decisions;
  /// What the reader must know of these numbers.
  std::vector<std::string> notes;
  /// Most gain first; behind them what does not fit, and what is refused.
  std::vector<WhatIf> whatIfs;
  /// The program as compiled, simulated, and a run of it; or nothing. Whether
  /// kernels' times are those of a profile, and whether the run's step was its
  /// first, which sets things up.
  std::vector<PlanVariant> compared;
  bool hasProfile = false, comparesFirstStep = false;

  bool fits() const { return leastBudget <= budget; }
  /// What the best order is planned for: where nothing fits, the least that
  /// works, as it is printed.
  int64_t getPlannedBudget() const;
  /// The --memory-budget with which @least bytes are left for the arena.
  int64_t getBudgetFor(int64_t least) const { return least + reserved; }
  /// This order does not fit, as simulated or packed.
  bool isOverBudget(const PlanVariant &variant) const {
    return std::max(variant.arenaBytes,
                    getMemoryPeak(variant.memory).getTotal()) > budget;
  }
  /// Where this step fits, only what fits has a time beside it. Else what fits
  /// has that of the given budget, and all else is compared within what this
  /// step needs, or what it needs itself if that is more.
  bool hasTimeOf(const WhatIf &it) const {
    return it.refused.empty() && (it.fits() || !fits());
  }
  const PlanVariant &getBest() const { return variants.back(); }
  /// Model flops utilization: the part of the units' peak that the best order
  /// reaches; 0: not known.
  double getMfu() const;
  /// Of all ranks, in the best order.
  double getItemsPerSecond() const;
  /// How many times as many items a rank would fit, if activations grow with
  /// them and nothing else does: an estimate, by the plan's memory over time. 1
  /// where none would.
  double getRoomForItems() const;
  /// From which on it is worth saying, and up to which the estimate is one.
  static constexpr double kMuchRoom = 1.2, kMostRoom = 100;
};

/// For one step on one cluster.
struct PlanSettings {
  /// Bytes that a rank may use, with what is reserved; nothing: what the device
  /// has.
  std::optional<int64_t> budget;
  /// Costs kernels as if they computed in this type.
  std::optional<CostDtype> computeDtype;
  /// How FSDP is set up that the plan is compared with.
  sched::FSDPOptions fsdp;
  /// What the planner may do. Recomputation in full holds for all orders.
  sched::PlanRules rules;
  /// One of many plans, of which only the best order counts: leaves the order
  /// as compiled out, packs no other order, and not what does not fit by the
  /// model of memory.
  bool onlyBest = false;
  /// With onlyBest: what a similar step fitted with is tried first, and taken
  /// if this one does.
  ModelBudgets likely;
  /// Of a program beside the step: leaves all orders but the plan out.
  bool onlyPlan = false;
};

/// @program as it is, simulated; every transfer stands where its data lets it.
PlanVariant simulateVariant(std::string name, std::string title,
                            sched::StepProgram program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements);

/// Simulates @program as it is, as FSDP would order it, as the scheduler does,
/// and with what the planner keeps, repeats and groups. @report has its names
/// and the budget; the rest is filled.
llvm::Error makePlan(sched::StepProgram program,
                     std::unique_ptr<CostModel> cost,
                     llvm::ArrayRef<GroupPlacement> placements,
                     const PlanSettings &settings, PlanReport &report);

/// Whether it sends anything at all, to ranks or to the host.
bool hasTransfers(const PlanVariant &variant);
/// All starts, most exposed first, then in the order of the program.
std::vector<ReportedTransfer> getTransfers(const PlanVariant &variant);
/// Of those the exposed ones, at most @most.
std::vector<ReportedTransfer>
getExposed(const PlanVariant &variant,
           size_t most = std::numeric_limits<size_t>::max());

/// Transfers of one kind that are exposed: "all_gather (backward)", "offload".
struct ExposedKind {
  std::string name;
  Time exposed = 0;
  int64_t count = 0;
};
/// Most exposed first.
std::vector<ExposedKind> getExposedKinds(const PlanVariant &variant);

/// Bytes of whole buffers in a second that start @op reached; 0 where it took
/// no time.
double getReachedBandwidth(const PlanVariant &variant, sched::Id op);
/// Most of what start @op takes alone is latency: more bytes, or fewer starts,
/// would cost little.
bool isLatencyBound(const PlanVariant &variant, sched::Id op);
/// The units whose parameters or gradients start @op moves, each once.
std::vector<std::string> getTransferUnits(const sched::StepProgram &program,
                                          sched::Id op);

/// "product 4096 x 1024 x 512", "elementwise or reduction", "copy".
std::string getKernelTitle(const KernelCost &kernel);

/// Names of modules, those that differ only in numbers as one:
/// "layers.*.mlp" for "layers.0.mlp" and "layers.1.mlp". In their order.
std::vector<std::string> foldModules(llvm::ArrayRef<llvm::StringRef> modules);
/// The first few of a kernel's modules, for a line of text.
std::string describeModules(const KernelShare &kernel);

/// Of compute alone: what kernels of each kind take once they run, and what all
/// take to start.
constexpr std::array<llvm::StringLiteral, 4> kComputeKindNames = {
    "products and attention", "elementwise and reductions", "copies",
    "starting kernels"};
std::array<Time, 4> getTimeByKind(const PlanReport &report);

/// Why the kernel does not reach the roof, in a few words; "" where it does, or
/// nobody knows.
std::string describeLimit(const KernelRoof &roof);
/// @report.kernels whose roof is known, and which lose time to it, most of it
/// first.
std::vector<const KernelShare *> getBelowRoof(const PlanReport &report);

/// Compute of @program, which has @times: most time first.
std::vector<KernelShare> getKernelShares(const sched::StepProgram &program,
                                         const sched::TimedProgram &times);
/// Those of @kernels that take more than 20 % of @step, launches aside, and
/// reach less than 5 % of their roof: their code, or the model's idea of it,
/// decides what the step takes.
std::vector<const KernelShare *>
getSlowKernels(llvm::ArrayRef<KernelShare> kernels, Time step);
/// "k8_reduce takes 543.120 ms (70.6 % of the step) at 0.1 % of its roof:
/// instructions", for one of them.
std::string describeSlowKernel(const KernelShare &kernel, Time step);
/// Adds a warning for each of them, with its modules, to @notes; @where, if
/// any, says of which code: "with --target cuda, ".
void noteSlowKernels(llvm::ArrayRef<KernelShare> kernels, Time step,
                     llvm::StringRef where, std::vector<std::string> &notes);

/// "kernels cost what their sizes allow at best; as --target cuda compiles
/// them, the step takes 18.803 ms"; "" where kernels cost their code.
std::string describeCode(const KernelCode &code);

/// "8.53GiB": as --memory-budget takes it, not less than @bytes.
std::string formatBudget(int64_t bytes);
/// The bytes that this says.
int64_t roundBudget(int64_t bytes);

/// "expected a memory budget of at least ..., got ..", of the step, or of
/// @program beside it.
std::string describeMisfit(const PlanReport &report,
                           llvm::StringRef program = "");

/// Parts of the text that another report has, too: what was exposed with its
/// causes; memory by purpose at the peak; the programs beside the step, with
/// their times as parts of its own, @step, and nothing where there are none.
void printTransfers(const PlanVariant &variant,
                    llvm::ArrayRef<ReportedTransfer> transfers,
                    llvm::raw_ostream &os);
void printPeak(const PlanVariant &variant, llvm::raw_ostream &os);
void printFurtherPrograms(llvm::ArrayRef<FurtherProgram> programs, Time step,
                          int64_t budget, llvm::raw_ostream &os);

void printPlanText(const PlanReport &report, llvm::raw_ostream &os);
void printPlanJson(const PlanReport &report, llvm::raw_ostream &os);
/// The Chrome trace event format, which Perfetto reads.
void printPlanTrace(const PlanReport &report, const PlanVariant &variant,
                    llvm::raw_ostream &os);
/// One page that needs no network.
void printPlanHtml(const PlanReport &report, llvm::raw_ostream &os);

} // namespace mlir::fsdp

#endif // FSDP_PLAN_REPORT_PLANREPORT_H
