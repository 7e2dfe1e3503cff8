//===- PlanTrace.cpp - A plan for trace viewers ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The form is that of PyTorch's profiler, so that what reads its traces
// (Perfetto, HolisticTraceAnalysis) reads these: a stream per queue, and
// collectives by NCCL's kernel names.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/PlanReport.h"
#include "fsdp/Schedule/ProgramHash.h"

#include "llvm/Support/JSON.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static double toUs(Time time) { return toSeconds(time) * 1e6; }

/// As large as PyTorch's: HolisticTraceAnalysis keeps them, and then places in
/// a table, in the smallest integers that hold them.
static int64_t getCorrelation(Id op) { return (1 << 17) + int64_t(op); }

/// What NCCL calls the kernels that do it.
static std::string getKernelName(const StepProgram &program, Id op) {
  const StepOp &it = program.ops[op];
  if (it.kind != StepOpKind::Start)
    return it.name;
  return getKernelName(program.transfers[it.transfer].kind).str();
}

static void writeName(llvm::json::OStream &json, llvm::StringRef what,
                      int64_t tid, llvm::StringRef name) {
  json.object([&] {
    json.attribute("ph", "M");
    json.attribute("name", what);
    json.attribute("pid", 0);
    json.attribute("tid", tid);
    json.attributeObject("args", [&] { json.attribute("name", name); });
  });
}

static void writeOp(llvm::json::OStream &json, const PlanReport &report,
                    const PlanVariant &variant, Id op) {
  const StepProgram &program = variant.program;
  const StepOp &it = program.ops[op];
  const OpSpan &span = variant.timeline.spans[op];
  bool isTransfer = it.kind == StepOpKind::Start;
  json.object([&] {
    json.attribute("ph", "X");
    json.attribute("cat", "kernel");
    json.attribute("name", getKernelName(program, op));
    json.attribute("pid", 0);
    json.attribute("tid", int64_t(it.queue));
    json.attribute("ts", toUs(span.begin));
    json.attribute("dur", toUs(span.end - span.begin));
    json.attributeObject("args", [&] {
      json.attribute("device", 0);
      json.attribute("stream", int64_t(it.queue));
      json.attribute("correlation", getCorrelation(op));
      json.attribute("step", 1);
      if (it.unit >= 0)
        json.attribute("unit", program.units[it.unit]);
      if (it.module >= 0)
        json.attribute("module", program.modules[it.module]);
      json.attribute("phase", it.backward ? "backward" : "forward");
      json.attribute("alone_us", toUs(span.alone));
      if (!isTransfer)
        return;
      const StepTransfer &transfer = program.transfers[it.transfer];
      json.attribute("event", it.event);
      json.attribute("bytes", transfer.getBytes());
      if (!transfer.isCopy())
        json.attribute("Group size", program.groups[transfer.group].size);
      json.attribute("dtype", transfer.dtypes.empty()
                                  ? llvm::StringRef()
                                  : llvm::StringRef(transfer.dtypes.front()));
      json.attribute("exposed_us", toUs(variant.timeline.exposedBy[op]));
    });
  });
}

/// When the step gave @op out, as PyTorch's profiler writes it: what analyses
/// tell a kernel's iteration by.
static void writeLaunch(llvm::json::OStream &json, Id op, Time issued) {
  json.object([&] {
    json.attribute("ph", "X");
    json.attribute("cat", "cuda_runtime");
    json.attribute("name", "cudaLaunchKernel");
    json.attribute("pid", 0);
    json.attribute("tid", int64_t(kNumQueues));
    json.attribute("ts", toUs(issued));
    json.attribute("dur", 0);
    json.attributeObject(
        "args", [&] { json.attribute("correlation", getCorrelation(op)); });
  });
}

/// Compute that stands until an event comes, as PyTorch's profiler writes it.
static void writeWait(llvm::json::OStream &json, const PlanVariant &variant,
                      Id op, Id start) {
  const OpSpan &span = variant.timeline.spans[op];
  json.object([&] {
    json.attribute("ph", "X");
    json.attribute("cat", "cuda_sync");
    json.attribute("name", "Stream Wait Event");
    json.attribute("pid", 0);
    json.attribute("tid", int64_t(Queue::Compute));
    json.attribute("ts", toUs(span.begin));
    json.attribute("dur", toUs(span.end - span.begin));
    json.attributeObject("args", [&] {
      json.attribute("step", 1);
      json.attribute("event", variant.program.ops[op].event);
      json.attribute("wait_on_stream",
                     int64_t(variant.program.ops[start].queue));
      json.attribute("wait_on_cuda_event_record_corr_id",
                     getCorrelation(start));
    });
  });
}

void mlir::fsdp::printPlanTrace(const PlanReport &report,
                                const PlanVariant &variant,
                                llvm::raw_ostream &os) {
  // Tools look for '"rank": 0', with the space.
  llvm::json::OStream json(os, /*IndentSize=*/1);
  std::vector<Id> starts = getEventOps(variant.program).start;
  std::array<bool, kNumQueues> used = {};
  for (const StepOp &op : variant.program.ops)
    used[unsigned(op.queue)] = true;
  json.object([&] {
    json.attribute("schemaVersion", 1);
    json.attributeObject("distributedInfo", [&] {
      json.attribute("backend", "nccl");
      json.attribute("rank", 0);
      json.attribute("world_size", variant.program.worldSize);
    });
    json.attributeObject("fsdp", [&] {
      json.attribute("issue", getIssueHash(variant.program));
      json.attribute("order", variant.name);
    });
    json.attribute("displayTimeUnit", "ms");
    json.attributeArray("traceEvents", [&] {
      writeName(json, "process_name", 0,
                report.model + ", " + report.mesh + ", " + variant.title);
      for (unsigned queue = 0; queue != kNumQueues; ++queue)
        if (used[queue])
          writeName(json, "thread_name", queue, kQueueNames[queue]);
      writeName(json, "thread_name", kNumQueues, "steps");
      json.object([&] {
        json.attribute("ph", "X");
        json.attribute("cat", "user_annotation");
        json.attribute("name", "ProfilerStep#1");
        json.attribute("pid", 0);
        json.attribute("tid", int64_t(kNumQueues));
        json.attribute("ts", 0);
        json.attribute("dur", toUs(variant.timeline.step));
      });
      // Where compute is when it comes to an op.
      Time issued = 0;
      for (auto [i, op] : llvm::enumerate(variant.program.ops)) {
        const OpSpan &span = variant.timeline.spans[i];
        bool isTransfer = op.kind == StepOpKind::Start;
        if (span.end > span.begin && op.kind == StepOpKind::Wait) {
          writeWait(json, variant, i, starts[op.event]);
        } else if (span.end > span.begin) {
          writeOp(json, report, variant, i);
          writeLaunch(json, i, isTransfer ? issued : span.begin);
        }
        if (!isTransfer)
          issued = std::max(issued, span.end);
      }
      for (const MemoryPoint &point : variant.memory)
        json.object([&] {
          json.attribute("ph", "C");
          json.attribute("name", "memory (MiB)");
          json.attribute("pid", 0);
          json.attribute("ts", toUs(point.time));
          json.attributeObject("args", [&] {
            for (auto [name, bytes] : llvm::zip(kPurposeNames, point.bytes))
              json.attribute(name, double(bytes) / (1 << 20));
          });
        });
    });
  });
  os << "\n";
}
