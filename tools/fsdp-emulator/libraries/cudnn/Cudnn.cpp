//===- Cudnn.cpp - A double of libcudnn.so.9 ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes graphs of attention, forward and backward, as cuDNN's engines do, and
// computes them operation by operation on the emulated driver's memory, as work
// of the stream. Refuses descriptors that are not whole, and features beyond
// 128, as on most cards.
//
// It proposes an engine that is nondeterministic, one of which no plan can be
// made, and then one for each number of FSDP_CUDNN_KNOBS (7), its knob; sums of
// an odd one and of an even one have other orders.
//
//   FSDP_CUDNN_VERSION      91900
//   FSDP_CUDNN_REFUSE       forward, backward or all: no engine for it
//   FSDP_CUDNN_WORKSPACE    bytes that each plan wants; else what backward
//                           passes need for their scores' gradients
//   FSDP_CUDNN_SLOW         milliseconds that each execution takes longer
//   FSDP_CUDNN_FAIL         nothing is executed
//
//===----------------------------------------------------------------------===//

#include "Descriptors.h"
#include "libraries/EmulatedDriver.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace fsdp::emulator;
using namespace fsdp::emulator::dnn;

namespace {

constexpr int engineKind = 2, configKind = 3, knobKind = 7, planKind = 5;
constexpr int noteTensorCore = 0, noteNondeterministic = 4;
constexpr int64_t nondeterministicEngine = 0, brokenEngine = 1, engine = 2;
constexpr int knobType = 24;

struct Handle {
  void *stream = nullptr;
};

const char *variable(const char *name) {
  const char *text = std::getenv(name);
  return text && *text ? text : nullptr;
}

bool isRefused(const Graph &graph) {
  const char *which = variable("FSDP_CUDNN_REFUSE");
  std::string pass = graph.products() == 2 ? "forward" : "backward";
  return which && (which == pass || !std::strcmp(which, "all"));
}

/// Whether an engine matches it: it has the products of an attention, whose
/// matrices have at most 128 features and lie in rows of 16 bytes.
bool isSupported(const Graph &graph) {
  if ((graph.products() != 2 && graph.products() != 5) || isRefused(graph))
    return fail(notSupported, "no engine is for this graph") == success;
  for (const auto &[id, tensor] : graph.tensors) {
    if (tensor.isVirtual || tensor.isScalar || tensor.type == real32)
      continue;
    bool isTransposed = tensor.strides[2] == 1 && tensor.strides[3] != 1;
    int64_t features = tensor.sizes[isTransposed ? 2 : 3];
    int64_t row = tensor.strides[isTransposed ? 3 : 2];
    if (features % 8 != 0 || features > 128 || row % 8 != 0 ||
        tensor.strides[isTransposed ? 2 : 3] != 1 || tensor.alignment < 16)
      return fail(notSupported, "features that no engine is for") == success;
  }
  return true;
}

std::vector<int64_t> wantedKnobs() {
  const char *text = variable("FSDP_CUDNN_KNOBS");
  std::vector<int64_t> knobs;
  for (std::string rest = text ? text : "7"; !rest.empty();) {
    size_t end = std::min(rest.find(','), rest.size());
    knobs.push_back(std::atoll(rest.substr(0, end).c_str()));
    rest.erase(0, end + 1);
  }
  return knobs;
}

int64_t workspaceOf(const Graph &graph) {
  if (const char *bytes = variable("FSDP_CUDNN_WORKSPACE"))
    return std::atoll(bytes);
  if (graph.products() == 2)
    return 256;
  // Virtual scores are the largest tensors.
  int64_t most = 0;
  for (const auto &[id, tensor] : graph.tensors)
    if (tensor.isVirtual)
      most = std::max(most, tensor.count() * 2);
  return most + 128;
}

/// What is executed: all that the pack said when it was.
struct Execution {
  std::shared_ptr<const Graph> graph;
  std::map<int64_t, uint64_t> pointers;
  std::map<int64_t, float> scalars;
  uint64_t workspace = 0;
  int64_t workspaceBytes = 0;
  bool isReversed = false;
};

/// Elements from the first to behind the last.
int64_t extentOf(const Tensor &tensor) {
  int64_t last = 0;
  for (size_t d = 0; d < 4; ++d)
    last += (tensor.sizes[d] - 1) * tensor.strides[d];
  return last + 1;
}

/// 1: it is done. -1: it cannot be.
int run(void *data) {
  auto *execution = static_cast<Execution *>(data);
  if (const char *slow = variable("FSDP_CUDNN_SLOW"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(slow)));
  std::map<int64_t, Operand> operands;
  for (const auto &[id, pointer] : execution->pointers) {
    const Tensor &tensor = execution->graph->tensors.at(id);
    operands[id].memory =
        static_cast<char *>(EmulatedDriver::get()->hostPointer(
            pointer, size_t(extentOf(tensor)) * sizeOf(tensor.type)));
    if (!operands[id].memory)
      return -1;
  }
  for (const auto &[id, number] : execution->scalars)
    operands[id].scalar = number;
  if (execution->workspaceBytes > 0) {
    void *workspace = EmulatedDriver::get()->hostPointer(
        execution->workspace, size_t(execution->workspaceBytes));
    if (!workspace)
      return -1;
    std::memset(workspace, 0xff, size_t(execution->workspaceBytes));
  }
  evaluate(*execution->graph, operands, execution->isReversed);
  return 1;
}

/// What a tensor covers, without gaps between its rows.
void addRanges(const Tensor &tensor, uint64_t pointer, bool isWritten,
               std::vector<FsdpEmulatorRange> &ranges) {
  // Dimensions from the one with the smallest stride, as far as they touch.
  std::array<size_t, 4> order = {0, 1, 2, 3};
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensor.strides[a] < tensor.strides[b];
  });
  int64_t dense = 1;
  std::vector<size_t> outer;
  for (size_t d : order)
    if (outer.empty() && (tensor.sizes[d] == 1 || tensor.strides[d] == dense))
      dense *= tensor.sizes[d];
    else
      outer.push_back(d);
  std::vector<int64_t> starts = {0};
  for (size_t d : outer) {
    std::vector<int64_t> more;
    for (int64_t start : starts)
      for (int64_t i = 0; i < tensor.sizes[d]; ++i)
        more.push_back(start + i * tensor.strides[d]);
    starts = std::move(more);
  }
  for (int64_t start : starts)
    ranges.push_back({pointer + uint64_t(start) * sizeOf(tensor.type),
                      size_t(dense) * sizeOf(tensor.type), isWritten});
}

Contents &of(void *descriptor) {
  return *static_cast<Descriptor *>(descriptor)->contents;
}

/// Fills descriptors of a list with what `fill` makes of their places.
template <typename Fill>
int giveAll(int64_t there, int kind, int64_t wanted, int64_t *count,
            void *values, Fill fill) {
  if (count)
    *count = std::min(there, wanted);
  for (int64_t i = 0; i < std::min(there, wanted); ++i) {
    Contents &contents = of(static_cast<void **>(values)[i]);
    if (contents.kind != kind)
      return fail(badParam, "a descriptor of another kind");
    fill(i, contents);
    contents.isFinal = true;
  }
  return success;
}

template <typename T>
int giveOne(T value, int64_t wanted, int64_t *count, void *values) {
  if (wanted < 1 || !values)
    return fail(badParam, "no room");
  std::memcpy(values, &value, sizeof(value));
  if (count)
    *count = 1;
  return success;
}

int giveConfigs(const Contents &query, int64_t wanted, int64_t *count,
                void *values) {
  const std::shared_ptr<Contents> &graph = query.named.at(201).front();
  std::vector<int64_t> knobs;
  if (isSupported(*graph->graph))
    knobs = wantedKnobs();
  auto there = static_cast<int64_t>(knobs.empty() ? 0 : knobs.size() + 2);
  return giveAll(there, configKind, wanted, count, values,
                 [&](int64_t i, Contents &config) {
                   config.graph = graph->graph;
                   config.engine = std::min<int64_t>(i, engine);
                   config.knob = i < engine ? 0 : knobs[size_t(i - engine)];
                 });
}

int finalizePlan(Contents &plan) {
  const Contents &config = *plan.getNamed(401);
  if (config.engine == brokenEngine)
    return fail(notSupported, "this engine has no kernel");
  plan.graph = config.graph;
  plan.knob = config.knob;
  return success;
}

int finalizePack(const Contents &pack) {
  const Values &ids = pack.values.at(1000), &pointers = pack.values.at(1001);
  if (ids.count != pointers.count)
    return fail(badParam, "another number of ids than of pointers");
  return success;
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

API size_t cudnnGetVersion() {
  const char *version = variable("FSDP_CUDNN_VERSION");
  return version ? size_t(std::atoll(version)) : 91900;
}
API const char *cudnnGetErrorString(int status) {
  switch (status) {
  case success:
    return "CUDNN_STATUS_SUCCESS";
  case notInitialized:
    return "CUDNN_STATUS_NOT_INITIALIZED";
  case notFinalized:
    return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
  case badType:
    return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
  case notSupported:
    return "CUDNN_STATUS_NOT_SUPPORTED";
  case executionFailed:
    return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "CUDNN_STATUS_BAD_PARAM";
}
API void cudnnGetLastErrorString(char *message, size_t bytes) {
  std::strncpy(message, lastFailure().c_str(), bytes);
  if (bytes > 0)
    message[bytes - 1] = 0;
}

API int cudnnCreate(void **handle) {
  if (!EmulatedDriver::get())
    return fail(notInitialized, "the emulated driver is not loaded");
  *handle = new Handle;
  return success;
}
API int cudnnDestroy(void *handle) {
  delete static_cast<Handle *>(handle);
  return success;
}
API int cudnnSetStream(void *handle, void *stream) {
  if (!handle)
    return fail(badParam, "no handle");
  static_cast<Handle *>(handle)->stream = stream;
  return success;
}

API int cudnnBackendCreateDescriptor(int kind, void **made) {
  if (!isKind(kind))
    return fail(notSupported, "no such kind of descriptor");
  auto *descriptor = new Descriptor;
  descriptor->contents->kind = kind;
  *made = descriptor;
  return success;
}
API int cudnnBackendDestroyDescriptor(void *descriptor) {
  delete static_cast<Descriptor *>(descriptor);
  return success;
}
API int cudnnBackendSetAttribute(void *descriptor, int attribute, int type,
                                 int64_t count, const void *values) {
  return setAttribute(of(descriptor), attribute, type, count, values);
}
API int cudnnBackendFinalize(void *descriptor) {
  Contents &contents = of(descriptor);
  if (int status = finalize(contents))
    return status;
  int status = success;
  if (contents.kind == planKind)
    status = finalizePlan(contents);
  else if (contents.kind == 16)
    status = finalizePack(contents);
  contents.isFinal = status == success;
  return status;
}

API int cudnnBackendGetAttribute(void *descriptor, int attribute, int type,
                                 int64_t wanted, int64_t *count, void *values) {
  const Contents &contents = of(descriptor);
  if (!contents.isFinal)
    return fail(notFinalized, "the descriptor is not finalized");
  switch (attribute) {
  case 202: // the results of heuristics
    return giveConfigs(contents, wanted, count, values);
  case 300: // the engine of a configuration
    return giveAll(
        1, engineKind, wanted, count, values,
        [&](int64_t, Contents &made) { made.engine = contents.engine; });
  case 302: // its knobs
    return giveAll(1, knobKind, wanted, count, values,
                   [&](int64_t, Contents &made) { made.knob = contents.knob; });
  case 402: // a plan's workspace
    return giveOne(workspaceOf(*contents.graph), wanted, count, values);
  case 600:
    return type == 9 ? giveOne(knobType, wanted, count, values)
                     : fail(badType, "a knob has a type of knobs");
  case 601:
    return giveOne(contents.knob, wanted, count, values);
  case 1301:
    return giveOne(contents.engine, wanted, count, values);
  case 1303:
    return giveOne(contents.engine == nondeterministicEngine
                       ? noteNondeterministic
                       : noteTensorCore,
                   wanted, count, values);
  }
  return fail(badParam, "no such attribute");
}

API int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  const Contents &planned = of(plan), &packed = of(pack);
  if (!handle || planned.kind != planKind || packed.kind != 16)
    return fail(badParam, "a descriptor of another kind");
  if (!planned.isFinal || !packed.isFinal)
    return fail(notFinalized, "a descriptor that is not finalized");
  if (variable("FSDP_CUDNN_FAIL"))
    return fail(executionFailed, "as the environment says");
  auto execution = std::make_unique<Execution>();
  execution->graph = planned.graph;
  execution->isReversed = planned.knob % 2 == 0;
  execution->workspace = packed.get<uint64_t>(1003);
  execution->workspaceBytes = workspaceOf(*planned.graph);
  const Values &ids = packed.values.at(1000);
  auto pointers =
      reinterpret_cast<const uint64_t *>(packed.values.at(1001).bytes.data());
  std::vector<FsdpEmulatorRange> ranges;
  for (int64_t i = 0; i < ids.count; ++i) {
    int64_t id = reinterpret_cast<const int64_t *>(ids.bytes.data())[i];
    auto tensor = planned.graph->tensors.find(id);
    if (tensor == planned.graph->tensors.end() || tensor->second.isVirtual)
      return fail(badParam, "an id of no tensor in memory");
    if (tensor->second.isScalar) {
      std::memcpy(&execution->scalars[id],
                  reinterpret_cast<const void *>(pointers[i]), sizeof(float));
      continue;
    }
    if (pointers[i] % uint64_t(tensor->second.alignment) != 0)
      return fail(badParam, "a pointer that is not aligned");
    execution->pointers[id] = pointers[i];
    addRanges(tensor->second, pointers[i], planned.graph->isWritten(id),
              ranges);
  }
  for (const auto &[id, tensor] : planned.graph->tensors)
    if (!tensor.isVirtual && execution->pointers.count(id) == 0 &&
        execution->scalars.count(id) == 0)
      return fail(badParam, "a tensor without a pointer");
  if (execution->workspaceBytes > 0)
    ranges.push_back({execution->workspace, size_t(execution->workspaceBytes),
                      /*isWritten=*/1});
  bool isForward = planned.graph->products() == 2;
  // An engine's kernels are loaded when they are launched first.
  std::string code = std::string("cudnn ") +
                     (isForward ? "forward, knob " : "backward, knob ") +
                     std::to_string(planned.knob);
  if (EmulatedDriver::get()->loadCode(code.c_str()) != 0)
    return fail(executionFailed, "the driver refuses to load code");
  int error = EmulatedDriver::get()->issue(
      static_cast<Handle *>(handle)->stream,
      isForward ? "cudnn attention" : "cudnn attention_backward", run,
      execution.release(),
      [](void *data) { delete static_cast<Execution *>(data); }, ranges.data(),
      ranges.size(), /*turn=*/0);
  return error == 0 ? success : fail(executionFailed, "the driver refuses it");
}
