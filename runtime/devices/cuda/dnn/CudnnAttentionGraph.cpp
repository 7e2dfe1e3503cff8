//===- CudnnAttentionGraph.cpp - Attention as cuDNN's operations ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations that attention consists of, in the order and of the types that
// the library's engines for attention match.
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/CudnnAttention.h"
#include "hal/ComputeRules.h"

#include <limits>

namespace fsdp::rt {

namespace {

using View = hal::AttentionView;
using Shape = CudnnGraph::Shape;
using Value = CudnnGraph::Value;

class Composer {
public:
  Composer(const CudnnApi &api, const CudnnAttention &attention)
      : attention_(attention),
        type_(attention.dtype == FSDP_RT_F16 ? dnn::real16 : dnn::brain16),
        scores_(Shape::packed({attention.batch, attention.heads,
                               attention.queries, attention.keys})),
        rows_(Shape::packed(
            {attention.batch, attention.heads, attention.queries, 1})) {
    made_.graph = std::make_unique<CudnnGraph>(api);
  }

  Result<CudnnAttentionGraph> compose(const CudnnDevice &device) {
    if (attention_.isBackward)
      composeBackward();
    else
      composeForward();
    if (Status s = made_.graph->finalize(device))
      return s;
    return std::move(made_);
  }

private:
  CudnnGraph &graph() { return *made_.graph; }
  Shape shapeOf(int tensor) const;
  Value addTensor(int tensor, bool isTransposed = false);
  Value addScores(int type = dnn::real32) {
    return graph().addVirtual(type, scores_);
  }
  Value addRows() { return graph().addVirtual(dnn::real32, rows_); }
  Value mask(Value scores);
  void multiplyTransposed(Value a, Value b, int result);
  void composeForward();
  void composeBackward();

  const CudnnAttention &attention_;
  int type_;
  Shape scores_, rows_;
  CudnnAttentionGraph made_;
};

Shape Composer::shapeOf(int tensor) const {
  const CudnnAttention::Place &place =
      attention_.tensors[static_cast<size_t>(tensor)];
  return {{attention_.batch, place.heads,
           View::isOfKeys(tensor) ? attention_.keys : attention_.queries,
           View::isOfHead(tensor) ? attention_.head : attention_.value},
          {place.batchStride, place.headStride, place.rowStride, 1}};
}

Value Composer::addTensor(int tensor, bool isTransposed) {
  Shape shape = shapeOf(tensor);
  return made_.tensors[static_cast<size_t>(tensor)] = graph().addMemory(
             type_, isTransposed ? shape.transposed() : shape);
}

/// Keys after the query's index get the lowest number, whose exponential, less
/// any row's maximum, is 0.
Value Composer::mask(Value scores) {
  if (!attention_.isCausal)
    return scores;
  Value query = addScores(dnn::int32), key = addScores(dnn::int32);
  graph().addIndex(2, scores, query);
  graph().addIndex(3, scores, key);
  Value isSeen = addScores(dnn::boolean);
  graph().apply(dnn::CompareGreaterEqual, query, key, isSeen);
  Value lowest = graph().addScalar(std::numeric_limits<float>::lowest());
  Value masked = addScores();
  graph().select(isSeen, scores, lowest, masked);
  return masked;
}

void Composer::composeForward() {
  Value q = addTensor(View::Q), k = addTensor(View::K, /*isTransposed=*/true),
        v = addTensor(View::V), out = addTensor(View::Out);
  Value product = addScores(), scaled = addScores();
  graph().multiply(q, k, product);
  graph().apply(dnn::Mul, product, graph().addScalar(attention_.scale), scaled);
  Value scores = mask(scaled);
  // p = exp(scores - most) / sum
  Value most = addRows();
  graph().reduce(dnn::reduceMax, scores, most);
  Value shifted = addScores(), exponentials = addScores(), sum = addRows();
  graph().apply(dnn::Sub, scores, most, shifted);
  graph().apply(dnn::Exp, shifted, exponentials);
  graph().reduce(dnn::reduceAdd, exponentials, sum);
  if (attention_.stats >= 0) {
    Value logarithm = addRows();
    graph().apply(dnn::Log, sum, logarithm);
    made_.stats = graph().addMemory(dnn::real32, rows_);
    graph().apply(dnn::Add, most, logarithm, made_.stats);
  }
  Value p = addScores(type_);
  graph().apply(dnn::Div, exponentials, sum, p);
  graph().multiply(p, v, out);
}

/// result = a' b; where heads share keys, the sum over those that share.
void Composer::multiplyTransposed(Value a, Value b, int result) {
  Value turned = graph().addVirtual(type_, scores_.transposed());
  graph().reshape(a, turned);
  Value sum = addTensor(result);
  Shape shape = shapeOf(result);
  if (shape.sizes[1] == attention_.heads) {
    graph().multiply(turned, b, sum);
    return;
  }
  shape.sizes[1] = attention_.heads;
  Value ofHeads = graph().addVirtual(type_, Shape::packed(shape.sizes));
  graph().multiply(turned, b, ofHeads);
  graph().reduce(dnn::reduceAdd, ofHeads, sum);
}

/// dq is the product's result. Engines that take it as a sum in float32 that
/// another operation rounds add to it in no fixed order, of which those of 9.19
/// have no note: they match a graph with a tensor in memory between the two.
void Composer::composeBackward() {
  Value q = addTensor(View::Q), k = addTensor(View::K, /*isTransposed=*/true),
        v = addTensor(View::V, /*isTransposed=*/true),
        out = addTensor(View::Out), dout = addTensor(View::Dout);
  made_.stats = graph().addMemory(dnn::real32, rows_);
  // rowSums = sum of dout out
  Shape features = Shape::packed({attention_.batch, attention_.heads,
                                  attention_.queries, attention_.value});
  Value weighted = graph().addVirtual(dnn::real32, features), sum = addRows();
  graph().apply(dnn::Mul, dout, out, weighted);
  graph().reduce(dnn::reduceAdd, weighted, sum);
  made_.rowSums = graph().addMemory(dnn::real32, rows_);
  graph().apply(dnn::Mul, sum, graph().addScalar(1), made_.rowSums);
  // p = exp(scale q k - stats)
  Value scale = graph().addScalar(attention_.scale);
  Value product = addScores(), scaled = addScores(), shifted = addScores(),
        p = addScores();
  graph().multiply(q, k, product);
  graph().apply(dnn::Mul, product, scale, scaled);
  graph().apply(dnn::Sub, scaled, made_.stats, shifted);
  graph().apply(dnn::Exp, mask(shifted), p);
  multiplyTransposed(p, dout, View::Dv);
  // ds = scale (dout v' - rowSums) p
  Value dp = addScores(), less = addScores(), times = addScores(),
        ds = addScores();
  graph().multiply(dout, v, dp);
  graph().apply(dnn::Sub, dp, made_.rowSums, less);
  graph().apply(dnn::Mul, less, p, times);
  graph().apply(dnn::Mul, times, scale, ds);
  multiplyTransposed(ds, q, View::Dk);
  Value rowsOfKeys = graph().addVirtual(type_, shapeOf(View::K));
  graph().reshape(k, rowsOfKeys);
  graph().multiply(ds, rowsOfKeys, addTensor(View::Dq));
}

} // namespace

Result<CudnnAttentionGraph> composeAttention(const CudnnApi &api,
                                             const CudnnDevice &device,
                                             const CudnnAttention &attention) {
  return Composer(api, attention).compose(device);
}

} // namespace fsdp::rt
