//===- PlanJson.cpp - A plan for programs ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonStrings.h"
#include "fsdp/Plan/Report/PlanReport.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static void writeMemory(llvm::json::OStream &json, const MemoryPoint &point) {
  json.attributeObject("peak", [&] {
    json.attribute("at_ms", toMs(point.time));
    json.attribute("bytes", point.getTotal());
    json.attributeObject("by_purpose", [&] {
      for (auto [name, bytes] : llvm::zip(kPurposeNames, point.bytes))
        json.attribute(name, bytes);
    });
  });
}

/// [time in ms, bytes] from which on so many are in use, on one line.
static void writeCurve(llvm::json::OStream &json,
                       llvm::ArrayRef<MemoryPoint> memory) {
  llvm::json::Array curve;
  int64_t last = -1;
  for (const MemoryPoint &point : memory)
    if (int64_t bytes = point.getTotal(); bytes != last) {
      curve.push_back(llvm::json::Array{toMs(point.time), bytes});
      last = bytes;
    }
  json.attributeBegin("memory");
  json.rawValue([&](llvm::raw_ostream &os) {
    os << llvm::json::Value(std::move(curve));
  });
  json.attributeEnd();
}

static void writeTransfer(llvm::json::OStream &json, const PlanVariant &variant,
                          const ReportedTransfer &reported) {
  const StepProgram &program = variant.program;
  const StepOp &op = program.ops[reported.op];
  const StepTransfer &transfer = program.transfers[op.transfer];
  const TransferFacts &facts = variant.transfers[op.transfer];
  const OpSpan &span = variant.timeline.spans[reported.op];
  json.object([&] {
    json.attribute("name", op.name);
    json.attribute("unit", op.unit < 0 ? "" : program.units[op.unit]);
    writeStrings(json, "units", getTransferUnits(program, reported.op));
    json.attribute("kind", kTransferKindNames[unsigned(transfer.kind)]);
    json.attribute("queue", kQueueNames[unsigned(op.queue)]);
    json.attribute("backward", op.backward);
    json.attribute("begin_ms", toMs(span.begin));
    json.attribute("end_ms", toMs(span.end));
    json.attribute("exposed_ms", toMs(reported.exposed));
    json.attribute("cause", reported.cause);
    json.attribute("bytes", transfer.getBytes());
    json.attribute("parts", int64_t(transfer.atomBytes.size()));
    if (!transfer.isCopy())
      json.attribute("group_size", program.groups[transfer.group].size);
    if (!transfer.dtypes.empty())
      json.attribute("dtype", transfer.dtypes.front());
    if (!facts.route.algorithm.empty())
      json.attribute("algorithm", facts.route.algorithm);
    if (!facts.route.protocol.empty())
      json.attribute("protocol", facts.route.protocol);
    json.attribute("alone_ms", toMs(facts.cost.total()));
    json.attribute("latency_ms", toMs(facts.cost.latency));
    json.attribute("gb_per_s", getReachedBandwidth(variant, reported.op) / 1e9);
    if (facts.route.bandwidth > 0)
      json.attribute("link_gb_per_s", facts.route.bandwidth / 1e9);
  });
}

/// What it takes in all.
static void writeTotals(llvm::json::OStream &json, const PlanVariant &variant) {
  const Timeline &timeline = variant.timeline;
  json.attribute("title", variant.title);
  json.attribute("step_ms", toMs(timeline.step));
  json.attribute("compute_ms", toMs(timeline.compute));
  json.attribute("exposed_ms", toMs(timeline.exposed));
  // Of its own kernels and collectives: other orders do other work.
  if (variant.bound) {
    json.attribute("bound_ms", toMs(variant.bound));
    json.attribute("gap", variant.getGap());
  }
  writeMemory(json, getMemoryPeak(variant.memory));
}

static void writeVariant(llvm::json::OStream &json, const PlanReport &report,
                         const PlanVariant &variant) {
  json.object([&] {
    json.attribute("order", variant.name);
    writeTotals(json, variant);
    json.attribute("over_budget", report.isOverBudget(variant));
    if (variant.hostPeak)
      json.attribute("host_peak_bytes", variant.hostPeak);
    if (variant.mostBytes)
      json.attribute("peak_at_any_timing_bytes", variant.mostBytes);
    writeCurve(json, variant.memory);
    json.attributeArray("collectives", [&] {
      for (const ReportedTransfer &transfer : getTransfers(variant))
        writeTransfer(json, variant, transfer);
    });
  });
}

/// A program beside the step.
static void writeFurther(llvm::json::OStream &json, const PlanReport &report,
                         const FurtherProgram &it) {
  bool fits = it.leastBudget <= report.budget;
  json.object([&] {
    json.attribute("name", it.name);
    json.attribute("kind", it.kind);
    writeTotals(json, it.variant);
    if (it.variant.hostPeak)
      json.attribute("host_peak_bytes", it.variant.hostPeak);
    json.attribute("fits", fits);
    json.attribute(fits ? "planned_arena_bytes" : "least_budget_bytes",
                   it.leastBudget);
  });
}

static void writeWhatIf(llvm::json::OStream &json, const WhatIf &it) {
  json.object([&] {
    json.attribute("title", it.title);
    json.attribute("is_option", it.isOption);
    json.attribute("has_all_memory", it.hasAllMemory);
    if (!it.refused.empty()) {
      json.attribute("refused", it.refused);
      return;
    }
    json.attribute("step_ms", toMs(it.step));
    json.attribute("compute_ms", toMs(it.compute));
    json.attribute("exposed_ms", toMs(it.exposed));
    json.attribute("peak_bytes", it.peak);
    json.attribute("fits", it.fits());
    json.attribute(it.fits() ? "planned_arena_bytes" : "least_budget_bytes",
                   it.leastBudget);
  });
}

/// Of one call, in order.
static void writeLaunches(llvm::json::OStream &json, const KernelCost &kernel) {
  if (kernel.launches.empty())
    return;
  json.attributeArray("launches", [&] {
    for (const LaunchCost &launch : kernel.launches)
      json.object([&] {
        json.attribute("blocks", launch.blocks);
        json.attribute("threads", launch.threads);
        json.attribute("shared_bytes", launch.shared);
        json.attribute("loaded_bytes", launch.loaded);
        json.attribute("stored_bytes", launch.stored);
        json.attribute("read_bytes", launch.read);
        json.attribute("written_bytes", launch.written);
        json.attribute("bytes_in_flight", launch.bytesInFlight);
        json.attribute("instructions", launch.instructions);
        json.attributeObject("results", [&] {
          for (unsigned i = 0; i < kNumLaneUnits; ++i)
            json.attribute(kLaneUnitNames[i], launch.results[i]);
        });
        json.attribute("waits", launch.waits);
      });
  });
}

void mlir::fsdp::printPlanJson(const PlanReport &report,
                               llvm::raw_ostream &os) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("format", "fsdp-plan/1");
    json.attribute("model", report.model);
    json.attribute("mesh", report.mesh);
    json.attribute("strategy", report.strategy);
    json.attribute("cluster", report.cluster);
    json.attribute("options", report.options);
    json.attribute("device", report.device);
    const Timeline &best = report.getBest().timeline;
    json.attribute("step_ms", toMs(best.step));
    json.attribute("bound_ms", toMs(report.bound));
    json.attribute("limit", report.limit);
    json.attribute("tflops_per_rank",
                   report.flops / std::max(1e-12, toSeconds(best.step)) / 1e12);
    if (double mfu = report.getMfu())
      json.attribute("mfu", mfu);
    json.attributeObject("compute_by_kind_ms", [&] {
      for (auto [name, time] :
           llvm::zip(kComputeKindNames, getTimeByKind(report)))
        json.attribute(name, toMs(time));
    });
    json.attribute("budget_bytes", report.budget);
    json.attribute(report.fits() ? "planned_arena_bytes" : "least_budget_bytes",
                   report.leastBudget);
    json.attribute("planned_budget_bytes", report.getPlannedBudget());
    json.attribute("reserved_bytes", report.reserved);
    json.attribute("fits", report.fits());
    json.attribute("arena_bytes", report.arenaBytes);
    json.attribute("ranks", report.worldSize);
    json.attribute("item", report.items.name);
    json.attribute("items_per_s", report.getItemsPerSecond());
    json.attribute("room_for_items", report.getRoomForItems());
    json.attribute("ideal_kernels", report.code.isIdeal);
    if (report.code.compiledStep)
      json.attribute("compiled_step_ms", toMs(report.code.compiledStep));
    json.attributeArray("units", [&] {
      const StepProgram &program = report.getBest().program;
      for (auto [unit, members] : llvm::zip(program.units, program.unitMembers))
        json.object([&, &unit = unit, &members = members] {
          json.attribute("name", unit);
          writeStrings(json, "parameters", members);
        });
    });
    json.attributeArray("what_ifs", [&] {
      for (const WhatIf &it : report.whatIfs)
        writeWhatIf(json, it);
    });
    writeStrings(json, "decisions", report.decisions);
    writeStrings(json, "notes", report.notes);
    json.attributeArray("kernels", [&] {
      for (const KernelShare &kernel : report.kernels)
        json.object([&] {
          json.attribute("name", kernel.cost.name);
          json.attribute("kind", getKernelTitle(kernel.cost));
          json.attribute("calls", kernel.calls);
          json.attribute("ms", toMs(kernel.time));
          json.attribute("bytes", kernel.cost.bytes);
          writeLaunches(json, kernel.cost);
          if (kernel.roof.time) {
            json.attribute("roof_ms", toMs(kernel.roof.time));
            json.attribute("lost_ms", toMs(kernel.getLost()));
            json.attribute("limit", describeLimit(kernel.roof));
          }
          writeStrings(json, "modules", kernel.modules);
        });
    });
    json.attributeArray("orders", [&] {
      for (const PlanVariant &variant : report.variants)
        writeVariant(json, report, variant);
    });
    if (!report.further.empty())
      json.attributeArray("programs", [&] {
        for (const FurtherProgram &it : report.further)
          writeFurther(json, report, it);
      });
    // The program as compiled, simulated, and as a rank ran it.
    json.attributeArray("compared", [&] {
      for (const PlanVariant &variant : report.compared)
        writeVariant(json, report, variant);
    });
  });
  os << "\n";
}
