//===- Recording.cpp - The calls of a program -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Recording.h"

#include "core/Dtype.h"
#include "hal/CallRules.h"

#include <map>
#include <new>
#include <string>

namespace fsdp::rt::hal {

/// What a program sees while it is recorded.
class ProgramRecorder final : public fsdp_rt_context {
public:
  ProgramRecorder(const Layout &layout, int rank)
      : layout_(layout), rank_(rank), events_(layout.events) {
    recording_.traffic_.groups.resize(layout.groups.size());
  }

  int32_t add(Function function, const void *desc);
  Result<Recording> finish(int32_t code);

private:
  /// What became of an event so far.
  struct Event {
    const fsdp_rt_start_desc *start = nullptr;
    bool isAwaited = false;
  };

  Status checkFields(const Call &call);
  template <typename Desc>
  Status check(const Desc &desc) {
    return checkCall(desc, layout_);
  }
  Status check(const fsdp_rt_start_desc &desc);
  Status check(const fsdp_rt_wait_desc &desc);
  Status checkAllAwaited() const;
  bool hasStarted(int64_t event) const {
    return event >= 0 && event < layout_.events && events_[event].start;
  }
  int64_t count(const fsdp_rt_start_desc &desc);

  const Layout &layout_;
  int rank_;
  std::vector<Event> events_;
  Recording recording_;
  Status failure_;
};

template <typename Desc>
static Status checkWorkspaceOf(const Desc &desc, const Layout &layout) {
  return checkWorkspace(desc.workspace, desc.workspace_bytes, layout.memory);
}

/// The workspace of a call that has one.
static Status checkWorkspaceOf(const Call &call, const Layout &layout) {
  switch (call.function) {
#define FSDP_RT_WORKSPACE_0(desc) Status::ok()
#define FSDP_RT_WORKSPACE_1(desc)                                              \
  checkWorkspaceOf(call.as<fsdp_rt_##desc##_desc>(), layout)
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE)                          \
  case Function::name:                                                         \
    return FSDP_RT_WORKSPACE_##WORKSPACE(desc);
#include "fsdp-rt/calls.def"
  }
  return Status::ok();
}

Status ProgramRecorder::check(const fsdp_rt_start_desc &desc) {
  if (Status s = checkStart(desc, layout_, rank_))
    return s;
  if (desc.queue == FSDP_RT_QUEUE_COMPUTE)
    return Status::ok();
  if (desc.event < 0 || desc.event >= layout_.events)
    return Status::internal("expected an event below " +
                            std::to_string(layout_.events) + ", got " +
                            std::to_string(desc.event));
  if (hasStarted(desc.event))
    return Status::internal("expected event " + std::to_string(desc.event) +
                            " to be started once in a step, got it twice");
  if (desc.after_count < 0 || desc.after_count > layout_.events ||
      (!desc.after && desc.after_count > 0))
    return Status::internal("expected 0 to " + std::to_string(layout_.events) +
                            " events to be after, got " +
                            std::to_string(desc.after_count));
  auto after = static_cast<const int64_t *>(desc.after);
  for (int64_t i = 0; i < desc.after_count; ++i)
    if (!hasStarted(after[i]))
      return Status::internal("expected to be after an event that this step "
                              "has started, got " +
                              std::to_string(after[i]));
  events_[desc.event].start = &desc;
  return Status::ok();
}

Status ProgramRecorder::check(const fsdp_rt_wait_desc &desc) {
  if (!layout_.hasQueues())
    return Status::internal("expected a manifest with events, got none");
  if (!hasStarted(desc.event))
    return Status::internal(
        "expected an event that this step has started, got " +
        std::to_string(desc.event));
  events_[desc.event].isAwaited = true;
  return Status::ok();
}

/// Bytes of all parts, added to the traffic of a run.
int64_t ProgramRecorder::count(const fsdp_rt_start_desc &desc) {
  Traffic &traffic = recording_.traffic_;
  int64_t moved = 0;
  if (isHostCopy(desc.kind)) {
    auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
    for (int64_t i = 0; i < desc.part_count; ++i)
      moved += parts[i]->bytes;
    (desc.kind == FSDP_RT_OFFLOAD ? traffic.offloads : traffic.reloads) +=
        {desc.part_count, moved};
    return moved;
  }
  auto parts = collectivesOf(desc);
  auto ranks = static_cast<int64_t>(layout_.groups[parts[0]->group].size());
  for (int64_t i = 0; i < desc.part_count; ++i)
    moved += collectiveBytes(desc.kind, ranks, parts[i]->count,
                             dtypeSize(static_cast<Dtype>(parts[i]->dtype)));
  traffic.groups[parts[0]->group][desc.kind] += {desc.part_count, moved};
  return moved;
}

Status ProgramRecorder::checkFields(const Call &call) {
  Status s = visitCall(call, [&](auto &desc) { return check(desc); });
  if (s.isOk())
    s = checkWorkspaceOf(call, layout_);
  return s ? s.withContext(nameOf(call)) : s;
}

int32_t ProgramRecorder::add(Function function, const void *desc) {
  if (!failure_.isOk())
    return static_cast<int32_t>(failure_.code());
  // Nothing may leave through the program's code, which cannot unwind.
  try {
    Call call = {function, desc};
    failure_ = checkFields(call);
    if (failure_.isOk() && function == Function::start)
      call.bytes = count(call.as<fsdp_rt_start_desc>());
    if (failure_.isOk())
      recording_.calls_.push_back(call);
  } catch (const std::bad_alloc &) {
    // Short enough to need no memory.
    failure_ = Status::failed("out of memory");
  }
  return static_cast<int32_t>(failure_.code());
}

Status ProgramRecorder::checkAllAwaited() const {
  int64_t started = 0;
  const fsdp_rt_start_desc *missed = nullptr;
  for (const Event &event : events_) {
    started += event.start != nullptr;
    if (event.start && !event.isAwaited && !missed)
      missed = event.start;
  }
  if (!missed)
    return Status::ok();
  return Status::internal("expected the step to wait for all " +
                          std::to_string(started) +
                          " transfers that it started, got no wait for '" +
                          (missed->name ? missed->name : "") + "', event " +
                          std::to_string(missed->event));
}

Result<Recording> ProgramRecorder::finish(int32_t code) {
  if (!failure_.isOk())
    return failure_;
  if (code != 0)
    return Status::internal("the compiled step returned " +
                            std::to_string(code) +
                            " although no call of it failed");
  if (Status s = checkAllAwaited())
    return s;
  return std::move(recording_);
}

Result<Recording> Recording::record(const fsdp_rt_program &program,
                                    const Layout &layout, int rank,
                                    const std::vector<std::string> &units) {
  ProgramRecorder recorder(layout, rank);
  int32_t code = program.run(&recorder);
  Result<Recording> recording = recorder.finish(code);
  if (!recording.isOk())
    return recording;
  recording->name_ = program.name ? program.name : "";
  recording->findUnits(units);
  return recording;
}

void Recording::findUnits(const std::vector<std::string> &units) {
  unitFrom_.resize(calls_.size());
  unitOf_.resize(calls_.size());
  std::map<int64_t, std::string> gathered; // by event
  int64_t transfers = 0;
  std::string current;
  auto unitAt = [&](int64_t place) {
    return place >= 0 && place < static_cast<int64_t>(units.size())
               ? units[static_cast<size_t>(place)]
               : std::string();
  };
  for (size_t i = 0; i < calls_.size(); ++i) {
    unitOf_[i] = current;
    std::string begins;
    if (calls_[i].function == Function::wait) {
      begins = gathered[calls_[i].as<fsdp_rt_wait_desc>().event];
    } else if (calls_[i].function == Function::start) {
      auto &start = calls_[i].as<fsdp_rt_start_desc>();
      int64_t place =
          start.queue == FSDP_RT_QUEUE_COMPUTE ? transfers : start.event;
      ++transfers;
      std::string unit = unitOf_[i] = unitAt(place);
      if (start.kind != FSDP_RT_ALL_GATHER)
        continue;
      (start.event < 0 ? begins : gathered[start.event]) = unit;
    }
    if (!begins.empty() && begins != current)
      current = unitFrom_[i] = unitOf_[i] = begins;
  }
}

std::string Recording::describeCall(size_t index) const {
  std::string unit = unitOf(index);
  return nameOf(calls_[index]) + (unit.empty() ? "" : " (" + unit + ")");
}

const fsdp_rt_start_desc *getExchange(const Call &call, const Layout &layout) {
  if (call.function != Function::start)
    return nullptr;
  auto &start = call.as<fsdp_rt_start_desc>();
  if (!isCollective(start.kind) || start.part_count == 0)
    return nullptr;
  int32_t group = collectivesOf(start)[0]->group;
  return layout.groups[static_cast<size_t>(group)].size() > 1 ? &start
                                                              : nullptr;
}

int32_t recordCall(fsdp_rt_context *ctx, Function function, const void *desc) {
  return static_cast<ProgramRecorder *>(ctx)->add(function, desc);
}

} // namespace fsdp::rt::hal
