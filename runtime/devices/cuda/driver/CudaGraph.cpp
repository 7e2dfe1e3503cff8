//===- CudaGraph.cpp - A program as one graph -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaGraph.h"

namespace fsdp::rt {

Result<CudaGraph> CudaGraph::capture(const CudaContext &context,
                                     cu::Stream stream,
                                     const std::function<Status()> &issue) {
  const DriverApi &api = context.api();
  if (Status s =
          context.check(api.streamBeginCapture(stream, cu::captureRelaxed),
                        "cuStreamBeginCapture"))
    return s;
  Status status = issue();
  // However it went, the streams leave the capture.
  cu::Graph graph = nullptr;
  Status ended =
      context.check(api.streamEndCapture(stream, &graph), "cuStreamEndCapture");
  if (status.isOk())
    status = ended;
  cu::GraphExec exec = nullptr;
  if (status.isOk())
    status = context.check(
        api.graphInstantiate(
            &exec, graph,
            context.whyNoPriorities().empty() ? cu::graphNodePriorities : 0),
        "cuGraphInstantiate");
  if (graph)
    (void)api.graphDestroy(graph);
  if (status)
    return status;
  CudaGraph made(context, exec);
  // The first run should take no longer than the others.
  if (Status s = context.check(api.graphUpload(exec, stream), "cuGraphUpload"))
    return s;
  if (Status s =
          context.check(api.streamSynchronize(stream), "cuStreamSynchronize"))
    return s;
  return made;
}

void CudaGraph::destroy() {
  if (!exec_)
    return;
  (void)context_->makeCurrent();
  (void)context_->api().graphExecDestroy(exec_);
  exec_ = nullptr;
}

Status CudaGraph::launch(cu::Stream stream) const {
  return context_->check(context_->api().graphLaunch(exec_, stream),
                         "cuGraphLaunch");
}

} // namespace fsdp::rt
