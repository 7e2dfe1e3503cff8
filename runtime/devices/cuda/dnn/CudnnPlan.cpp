//===- CudnnPlan.cpp - What a graph of operations is computed by ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/CudnnGraph.h"

#include "core/StableHash.h"

#include <algorithm>

namespace fsdp::rt {

namespace {

/// Configurations that are looked at, and knobs and notes of an engine.
constexpr int64_t maxConfigs = 32, maxKnobs = 64, maxNotes = 32;

/// An attribute that is a list of descriptors of `kind`, at most so many. (Of
/// some lists the library does not say how long they are.)
Result<std::deque<CudnnDescriptor>> getAll(const CudnnApi &api,
                                           const CudnnDescriptor &from,
                                           dnn::Attribute attribute,
                                           dnn::Kind kind, int64_t most) {
  std::deque<CudnnDescriptor> found;
  std::vector<dnn::Descriptor> filled;
  for (int64_t i = 0; i < most; ++i) {
    Result<CudnnDescriptor> made = CudnnDescriptor::create(api, kind);
    if (!made.isOk())
      return made.status();
    filled.push_back(made->get());
    found.push_back(std::move(*made));
  }
  int64_t got = 0;
  if (Status s =
          from.get(attribute, dnn::DescriptorType, most, got, filled.data()))
    return s;
  while (static_cast<int64_t>(found.size()) > got)
    found.pop_back();
  return found;
}

} // namespace

/// Reads the engine and its knobs, and refuses one that is said to be
/// nondeterministic.
Status CudnnPlan::identify(const CudnnDescriptor &config) {
  Result<std::deque<CudnnDescriptor>> engines =
      getAll(api_, config, dnn::ConfigEngine, dnn::Engine, 1);
  if (!engines.isOk())
    return engines.status();
  if (engines->empty())
    return Status::failed("expected a configuration with an engine, got none");
  const CudnnDescriptor &engine = engines->front();
  Result<int64_t> index = engine.getNumber(dnn::EngineIndex);
  if (!index.isOk())
    return index.status();
  int notes[maxNotes] = {};
  int64_t noteCount = 0;
  if (Status s = engine.get(dnn::EngineNumericalNotes, dnn::NumericalNoteType,
                            maxNotes, noteCount, notes))
    return s;
  text_ = "engine " + std::to_string(*index);
  if (std::count(notes, notes + std::min(noteCount, maxNotes),
                 dnn::noteNondeterministic) != 0)
    return Status::failed(text_ + " is nondeterministic");
  Result<std::deque<CudnnDescriptor>> knobs =
      getAll(api_, config, dnn::ConfigKnobs, dnn::KnobChoice, maxKnobs);
  if (!knobs.isOk())
    return knobs.status();
  std::vector<std::pair<int, int64_t>> choices;
  for (const CudnnDescriptor &knob : *knobs) {
    int type = 0;
    int64_t count = 0;
    if (Status s =
            knob.get(dnn::KnobChoiceType, dnn::KnobType, 1, count, &type))
      return s;
    Result<int64_t> value = knob.getNumber(dnn::KnobChoiceValue);
    if (!value.isOk())
      return value.status();
    choices.emplace_back(type, *value);
  }
  std::sort(choices.begin(), choices.end());
  std::string listed;
  for (const auto &[type, value] : choices)
    listed += (listed.empty() ? "" : ", ") + std::to_string(type) + " = " +
              std::to_string(value);
  if (!listed.empty())
    text_ += " (" + listed + ")";
  digest_ = std::max<uint64_t>(1, stableHash(text_));
  return Status::ok();
}

Status CudnnPlan::build(const CudnnDevice &device, CudnnDescriptor config,
                        uint64_t digest) {
  if (Status s = identify(config))
    return s;
  if (digest != 0 && digest_ != digest)
    return Status::failed(text_ + " is another one");
  Result<CudnnDescriptor> plan =
      CudnnDescriptor::create(api_, dnn::ExecutionPlan);
  if (!plan.isOk())
    return plan.status();
  if (Status s = plan->set(dnn::PlanConfig, config))
    return s;
  if (Status s = device.setOn(*plan, dnn::PlanHandle, dnn::PlanDevice))
    return s;
  if (Status s = plan->finalize())
    return s.withContext(text_);
  Result<int64_t> bytes = plan->getNumber(dnn::PlanWorkspaceBytes);
  if (!bytes.isOk())
    return bytes.status();
  workspaceBytes_ = *bytes;
  config_.emplace(std::move(config));
  plan_.emplace(std::move(*plan));
  return Status::ok();
}

Result<std::unique_ptr<CudnnPlan>>
CudnnPlan::choose(const CudnnApi &api, const CudnnDevice &device,
                  std::unique_ptr<CudnnGraph> graph, uint64_t digest) {
  Result<CudnnDescriptor> query = CudnnDescriptor::create(api, dnn::Heuristics);
  if (!query.isOk())
    return query.status();
  if (Status s = query->set(dnn::HeuristicsGraph, graph->operations()))
    return s;
  if (Status s = query->set(dnn::HeuristicsMode, dnn::HeuristicModeType,
                            dnn::heuristicModeA))
    return s;
  if (Status s = device.setOn(*query, std::nullopt, dnn::HeuristicsDevice))
    return s;
  if (Status s = query->finalize())
    return s;
  Result<std::deque<CudnnDescriptor>> configs = getAll(
      api, *query, dnn::HeuristicsResults, dnn::EngineConfig, maxConfigs);
  if (!configs.isOk())
    return configs.status();
  std::unique_ptr<CudnnPlan> made(new CudnnPlan(api, std::move(graph)));
  Status last = Status::failed("no engine is proposed");
  for (CudnnDescriptor &config : *configs) {
    last = made->build(device, std::move(config), digest);
    if (last.isOk())
      return made;
  }
  return last;
}

Result<CudnnDescriptor>
CudnnPlan::bind(const std::vector<CudnnAddress> &addresses,
                cu::Pointer workspace) const {
  std::vector<int64_t> values;
  std::vector<const void *> pointers;
  auto address = [](cu::Pointer pointer) {
    return reinterpret_cast<const void *>(static_cast<uintptr_t>(pointer));
  };
  for (const CudnnAddress &at : addresses) {
    values.push_back(at.value);
    pointers.push_back(address(at.pointer));
  }
  for (const CudnnGraph::Scalar &scalar : graph_->scalars()) {
    values.push_back(scalar.value);
    pointers.push_back(&scalar.number);
  }
  Result<CudnnDescriptor> made =
      CudnnDescriptor::create(api_, dnn::VariantPack);
  if (!made.isOk())
    return made;
  auto count = static_cast<int64_t>(values.size());
  if (Status s = made->set(dnn::PackIds, dnn::Int64Type, count, values.data()))
    return s;
  if (Status s = made->set(dnn::PackPointers, dnn::PointerType, count,
                           pointers.data()))
    return s;
  if (Status s =
          made->set(dnn::PackWorkspace, dnn::PointerType, address(workspace)))
    return s;
  if (Status s = made->finalize())
    return s;
  return made;
}

Status CudnnPlan::execute(dnn::Handle handle, const CudnnDescriptor &bound,
                          cu::Stream stream) const {
  if (Status s = api_.check(api_.setStream(handle, stream), "cudnnSetStream"))
    return s;
  return api_.check(api_.execute(handle, plan_->get(), bound.get()),
                    "cudnnBackendExecute");
}

} // namespace fsdp::rt
