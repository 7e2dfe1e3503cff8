//===- PlanHtml.cpp - A plan for a browser --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// plan.html with the plan's numbers in it.
//
//===----------------------------------------------------------------------===//

#include "JsonStrings.h"
#include "fsdp/Plan/Report/PlanReport.h"
#include "fsdp/Plan/Report/SweepReport.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static const char kPage[] =
#include "plan.html.inc"
    ;

/// Microseconds with as many digits as a screen can show.
static llvm::json::Value toUs(Time time) {
  return double((time + 500) / 1000) / 1000;
}

namespace {
/// Strings by number: kernels have few names and many calls.
struct Names {
  llvm::StringMap<int64_t> ids;
  std::vector<std::string> names;
  int64_t get(const std::string &name) {
    auto [it, isNew] = ids.try_emplace(name, names.size());
    if (isNew)
      names.push_back(name);
    return it->second;
  }
};
} // namespace

static void writeVariant(llvm::json::OStream &json, const PlanReport &report,
                         const PlanVariant &variant, Names &names) {
  const Timeline &timeline = variant.timeline;
  json.object([&] {
    json.attribute("name", variant.name);
    json.attribute("title", variant.title);
    json.attribute("step", toUs(timeline.step));
    json.attribute("compute", toUs(timeline.compute));
    json.attribute("exposed", toUs(timeline.exposed));
    json.attribute("bound", toUs(variant.bound));
    json.attribute("overBudget", report.isOverBudget(variant));
    json.attribute("slowed",
                   toUs(std::accumulate(timeline.slowedBy.begin(),
                                        timeline.slowedBy.end(), Time(0))));
    // Queue, begin, duration, name, backward, exposed, duration alone, module.
    json.attributeArray("ops", [&] {
      for (size_t i = 0; i != variant.program.ops.size(); ++i) {
        const StepOp &op = variant.program.ops[i];
        const OpSpan &span = timeline.spans[i];
        if (op.kind == StepOpKind::Wait || span.begin == span.end)
          continue;
        json.array([&] {
          json.value(int64_t(op.queue));
          json.value(toUs(span.begin));
          json.value(toUs(span.end - span.begin));
          json.value(names.get(getOpTitle(variant.program, i)));
          json.value(int64_t(op.backward));
          json.value(toUs(timeline.exposedBy[i]));
          json.value(toUs(span.alone));
          json.value(op.module < 0
                         ? int64_t(-1)
                         : names.get(variant.program.modules[op.module]));
        });
      }
    });
    json.attribute("hostPeak", variant.hostPeak);
    json.attribute("communicates", hasTransfers(variant));
    json.attributeArray("memory", [&] {
      for (const MemoryPoint &point : variant.memory)
        json.array([&] {
          json.value(toUs(point.time));
          for (int64_t bytes : point.bytes)
            json.value(bytes);
        });
    });
    // All that is exposed, by kind: time, of how many transfers.
    json.attributeArray("exposedKinds", [&] {
      for (const ExposedKind &kind : getExposedKinds(variant))
        json.array([&] {
          json.value(kind.name);
          json.value(toUs(kind.exposed));
          json.value(kind.count);
        });
    });
    json.attributeArray("exposures", [&] {
      for (const ReportedTransfer &transfer : getExposed(variant, 10))
        json.object([&] {
          const OpSpan &span = timeline.spans[transfer.op];
          const StepOp &op = variant.program.ops[transfer.op];
          const StepTransfer &sent = variant.program.transfers[op.transfer];
          const TransferFacts &facts = variant.transfers[op.transfer];
          json.attribute("bytes", sent.getBytes());
          json.attribute(
              "ranks",
              sent.isCopy() ? 0 : variant.program.groups[sent.group].size);
          json.attribute("parts", int64_t(sent.atomBytes.size()));
          json.attribute("algorithm", facts.route.algorithm);
          json.attribute("protocol", facts.route.protocol);
          json.attribute("alone", toUs(facts.cost.total()));
          json.attribute("latency", toUs(facts.cost.latency));
          json.attribute("latencyBound", isLatencyBound(variant, transfer.op));
          // GB/s, of whole buffers.
          json.attribute("reached",
                         getReachedBandwidth(variant, transfer.op) / 1e9);
          json.attribute("link", facts.route.bandwidth / 1e9);
          writeStrings(json, "units",
                       getTransferUnits(variant.program, transfer.op));
          json.attribute("name", getOpTitle(variant.program, transfer.op));
          json.attribute("exposed", toUs(transfer.exposed));
          json.attribute("begin", toUs(span.begin));
          json.attribute("duration", toUs(span.end - span.begin));
          json.attribute("cause", transfer.cause);
        });
    });
  });
}

static void writeWhatIf(llvm::json::OStream &json, const PlanReport &report,
                        const WhatIf &it) {
  json.object([&] {
    json.attribute("title", it.title);
    json.attribute("isOption", it.isOption);
    json.attribute("hasAllMemory", it.hasAllMemory);
    if (!it.refused.empty()) {
      json.attribute("refused", it.refused);
      return;
    }
    json.attribute("step", toUs(it.step));
    json.attribute("compute", toUs(it.compute));
    json.attribute("exposed", toUs(it.exposed));
    json.attribute("fits", it.fits());
    json.attribute("hasTime", report.hasTimeOf(it));
    json.attribute("least", it.leastBudget);
    json.attribute("needs", formatBudget(report.getBudgetFor(it.leastBudget)));
  });
}

static void writeKernel(llvm::json::OStream &json, const PlanReport &report,
                        const KernelShare &kernel) {
  json.array([&] {
    json.value(toUs(kernel.time));
    json.value(kernel.calls);
    json.value(kernel.cost.name);
    json.value(getKernelTitle(kernel.cost));
    // Of all calls: arithmetic of products, else bytes.
    bool isProduct = kernel.cost.m > 0;
    json.value(isProduct
                   ? double(kernel.calls) *
                         double(kernel.cost.flops[unsigned(kernel.cost.dtype)])
                   : 0.0);
    json.value(double(kernel.calls) * double(kernel.cost.bytes));
    json.value(report.peakFlops[unsigned(kernel.cost.dtype)]);
    json.value(toUs(kernel.launch));
    json.value(describeModules(kernel));
    json.value(toUs(kernel.roof.time));
    json.value(describeLimit(kernel.roof));
  });
}

/// Where computing goes.
static void writeCompute(llvm::json::OStream &json, const PlanReport &report) {
  json.attribute("launches",
                 std::accumulate(report.kernels.begin(), report.kernels.end(),
                                 int64_t(0),
                                 [](int64_t sum, const KernelShare &k) {
                                   return sum + k.calls;
                                 }));
  json.attributeArray("kinds", [&] {
    for (auto [name, time] :
         llvm::zip(kComputeKindNames, getTimeByKind(report)))
      json.array([&, &name = name, &time = time] {
        json.value(name);
        json.value(toUs(time));
      });
  });
  json.attributeArray("kernels", [&] {
    for (const KernelShare &kernel :
         llvm::ArrayRef(report.kernels).take_front(10))
      writeKernel(json, report, kernel);
  });
}

static void writeData(const PlanReport &report, llvm::raw_ostream &os) {
  Names names;
  llvm::json::OStream json(os);
  auto writeVariants = [&](llvm::StringRef key, const auto &variants) {
    json.attributeArray(key, [&] {
      for (const PlanVariant &variant : variants)
        writeVariant(json, report, variant, names);
    });
  };
  json.object([&] {
    json.attribute("model", report.model);
    json.attribute("mesh", report.mesh);
    json.attribute("strategy", report.strategy);
    json.attribute("cluster", report.cluster);
    json.attribute("options", report.options);
    json.attribute("device", report.device);
    json.attribute("flops", report.flops);
    json.attribute("secondsAtPeak", report.secondsAtPeak);
    json.attribute("budget", report.budget);
    json.attribute("fits", report.fits());
    json.attribute("needs",
                   formatBudget(report.getBudgetFor(report.leastBudget)));
    json.attribute("least", report.leastBudget);
    json.attribute("arena", report.getBest().arenaBytes);
    json.attribute("reserved", report.reserved);
    json.attribute("given", report.given);
    writeStrings(json, "decisions", report.decisions);
    std::vector<std::string> notes = report.notes;
    if (std::string code = describeCode(report.code); !code.empty())
      notes.insert(notes.begin(), code);
    writeStrings(json, "notes", notes);
    json.attribute("ranks", report.worldSize);
    json.attribute("item", report.items.name);
    json.attribute("itemsPerRank", report.items.perRank);
    json.attribute("itemsPerSecond", report.getItemsPerSecond());
    double room = report.getRoomForItems();
    json.attribute("roomForItems", room >= PlanReport::kMuchRoom ? room : 0);
    json.attribute("mostRoom", PlanReport::kMostRoom);
    // The parameters of each unit.
    json.attributeObject("units", [&] {
      const StepProgram &program = report.getBest().program;
      for (auto [unit, members] : llvm::zip(program.units, program.unitMembers))
        writeStrings(json, unit, members);
    });
    json.attributeArray("whatIfs", [&] {
      for (const WhatIf &it : report.whatIfs)
        writeWhatIf(json, report, it);
    });
    writeCompute(json, report);
    writeStrings(json, "queues", kQueueNames);
    writeStrings(json, "purposes", kPurposeNames);
    writeVariants("variants", report.variants);
    writeVariants("compared", report.compared);
    writeStrings(json, "names", names.names);
  });
}

void mlir::fsdp::printPlanHtml(const PlanReport &report,
                               llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  writeData(report, stream);
  printPage(kPage, data, os);
}
