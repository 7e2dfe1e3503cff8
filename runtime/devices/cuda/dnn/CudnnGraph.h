//===- CudnnGraph.h - Graphs of operations and their plans ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuDNN is given a graph of operations on tensors of four dimensions and
// proposes engines that compute it as a whole; an engine's configuration
// becomes a plan, which is executed with addresses for the tensors in memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DNN_CUDNNGRAPH_H
#define FSDP_RT_DEVICES_CUDA_DNN_CUDNNGRAPH_H

#include "core/Status.h"
#include "devices/cuda/dnn/CudnnApi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// One of the library's descriptors.
class CudnnDescriptor {
public:
  static Result<CudnnDescriptor> create(const CudnnApi &api, dnn::Kind kind);
  CudnnDescriptor(CudnnDescriptor &&other) noexcept
      : api_(other.api_), descriptor_(other.descriptor_) {
    other.descriptor_ = nullptr;
  }
  CudnnDescriptor &operator=(CudnnDescriptor &&) = delete;
  ~CudnnDescriptor();

  dnn::Descriptor get() const { return descriptor_; }

  Status set(dnn::Attribute attribute, dnn::Type type, int64_t count,
             const void *values);
  /// A number or an enumeration.
  template <typename T>
  Status set(dnn::Attribute attribute, dnn::Type type, const T &value) {
    return set(attribute, type, 1, &value);
  }
  Status set(dnn::Attribute attribute, const CudnnDescriptor &value) {
    return set(attribute, dnn::DescriptorType, 1, &value.descriptor_);
  }
  Status finalize();

  Status get(dnn::Attribute attribute, dnn::Type type, int64_t wanted,
             int64_t &count, void *values) const;
  Result<int64_t> getNumber(dnn::Attribute attribute) const;

private:
  CudnnDescriptor(const CudnnApi &api, dnn::Descriptor descriptor)
      : api_(&api), descriptor_(descriptor) {}
  const CudnnApi *api_;
  dnn::Descriptor descriptor_;
};

/// What engines are for: the device of a handle, or one that is described,
/// which need not be there.
class CudnnDevice {
public:
  explicit CudnnDevice(dnn::Handle handle) : handle_(handle) {}
  /// As the library describes devices itself.
  static Result<CudnnDevice> describe(const CudnnApi &api,
                                      const std::string &json);

  /// Tells a graph, a query or a plan of it. What has no attribute for a handle
  /// has it from its graph.
  Status setOn(CudnnDescriptor &descriptor,
               std::optional<dnn::Attribute> ofHandle,
               std::optional<dnn::Attribute> ofDescription) const;

private:
  dnn::Handle handle_ = nullptr;
  std::optional<CudnnDescriptor> description_;
};

/// Operations in their order. The first call that the library refuses is what
/// finalize() returns; later ones do nothing.
class CudnnGraph {
public:
  struct Shape {
    std::array<int64_t, 4> sizes, strides;
    /// In one piece, rows behind one another.
    static Shape packed(const std::array<int64_t, 4> &sizes);
    /// Rows become columns.
    Shape transposed() const;
    int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  };
  /// A tensor of the graph: its number, from 1 on in their order.
  using Value = int64_t;
  struct Scalar {
    Value value;
    float number;
  };

  explicit CudnnGraph(const CudnnApi &api) : api_(api) {}
  CudnnGraph(const CudnnGraph &) = delete;
  CudnnGraph &operator=(const CudnnGraph &) = delete;

  /// In the device's memory, at a multiple of 16 bytes.
  Value addMemory(int type, const Shape &shape);
  /// Of float32, in the host's memory.
  Value addScalar(float number);
  /// That no memory holds.
  Value addVirtual(int type, const Shape &shape);

  /// c = a b, of the last two dimensions; a, b and c may have fewer heads
  /// (dimension 1), each for as many neighbours of the others.
  void multiply(Value a, Value b, Value c);
  void apply(dnn::Mode mode, Value x, Value y);
  void apply(dnn::Mode mode, Value x, Value b, Value y);
  /// y = condition ? x : b.
  void select(Value condition, Value x, Value b, Value y);
  /// y = the index along `axis`.
  void addIndex(int64_t axis, Value x, Value y);
  /// Over the dimensions in which y is smaller than x.
  void reduce(int operation, Value x, Value y);
  /// The same elements with y's strides.
  void reshape(Value x, Value y);

  Status finalize(const CudnnDevice &device);
  /// The graph, once it is finalized; how many operations it has.
  const CudnnDescriptor &operations() const { return graph_.front(); }
  size_t count() const { return operations_.size(); }
  const std::deque<Scalar> &scalars() const { return scalars_; }

private:
  Value add(int type, const Shape &shape, bool isVirtual, bool isScalar);
  /// A descriptor whose attributes are set by `set` and which is finalized.
  template <typename Set>
  CudnnDescriptor *make(std::deque<CudnnDescriptor> &kept, dnn::Kind kind,
                        Set set);
  void addPointwise(dnn::Mode mode, int64_t axis, Value x, Value b, Value t,
                    Value y);
  const CudnnDescriptor &of(Value value) const {
    return tensors_[static_cast<size_t>(value - 1)];
  }
  void keep(Status status) {
    if (failure_.isOk())
      failure_ = std::move(status);
  }

  const CudnnApi &api_;
  Status failure_;
  /// The graph is one, once it is finalized.
  std::deque<CudnnDescriptor> tensors_, parts_, operations_, graph_;
  std::deque<Scalar> scalars_;
  std::vector<int> types_;
};

/// An address for each tensor of a graph that lies in memory.
struct CudnnAddress {
  CudnnGraph::Value value;
  cu::Pointer pointer;
};

/// What a graph is computed by. It keeps the graph.
class CudnnPlan {
public:
  /// The first configuration that the library proposes for the device, can
  /// build and whose engine is not said to be nondeterministic; with a digest,
  /// the one that has it. `graph` is finalized.
  static Result<std::unique_ptr<CudnnPlan>>
  choose(const CudnnApi &api, const CudnnDevice &device,
         std::unique_ptr<CudnnGraph> graph, uint64_t digest = 0);

  const CudnnApi &api() const { return api_; }
  int64_t workspaceBytes() const { return workspaceBytes_; }
  /// Of the engine and its knobs; not 0.
  uint64_t digest() const { return digest_; }
  /// "engine 6 (26 = 1)": with the numbers of the library.
  const std::string &text() const { return text_; }

  /// Where its tensors lie.
  Result<CudnnDescriptor> bind(const std::vector<CudnnAddress> &addresses,
                               cu::Pointer workspace) const;
  /// Enqueues it on `stream`.
  Status execute(dnn::Handle handle, const CudnnDescriptor &bound,
                 cu::Stream stream) const;

private:
  CudnnPlan(const CudnnApi &api, std::unique_ptr<CudnnGraph> graph)
      : api_(api), graph_(std::move(graph)) {}
  Status build(const CudnnDevice &device, CudnnDescriptor config,
               uint64_t digest);
  Status identify(const CudnnDescriptor &config);

  const CudnnApi &api_;
  std::unique_ptr<CudnnGraph> graph_;
  std::optional<CudnnDescriptor> config_, plan_;
  int64_t workspaceBytes_ = 0;
  uint64_t digest_ = 0;
  std::string text_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DNN_CUDNNGRAPH_H
