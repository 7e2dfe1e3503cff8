//===- CudaGraph.h - A program as one graph ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a run gives the streams is the same each time: it is recorded once, with
// its order, and a run is one launch.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDAGRAPH_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDAGRAPH_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"

#include <functional>

namespace fsdp::rt {

class CudaGraph {
public:
  /// Of what `issue` gives `stream`, and the streams that wait for its events
  /// and for which it waits in the end. Nothing of it runs. The capture is
  /// relaxed: `issue` makes no call that would wait or allocate, but libraries
  /// load the code of what they launch first, which the driver refuses in other
  /// captures.
  static Result<CudaGraph> capture(const CudaContext &context,
                                   cu::Stream stream,
                                   const std::function<Status()> &issue);
  CudaGraph(CudaGraph &&other) noexcept
      : context_(other.context_), exec_(other.exec_) {
    other.exec_ = nullptr;
  }
  CudaGraph &operator=(CudaGraph &&) = delete;
  ~CudaGraph() { destroy(); }

  /// Nothing of it may be running. It cannot be launched any more.
  void destroy();
  /// Behind what the stream was given before.
  Status launch(cu::Stream stream) const;

private:
  CudaGraph(const CudaContext &context, cu::GraphExec exec)
      : context_(&context), exec_(exec) {}
  const CudaContext *context_;
  cu::GraphExec exec_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDAGRAPH_H
