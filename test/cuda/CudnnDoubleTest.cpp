//===- CudnnDoubleTest.cpp - What the double of cuDNN refuses -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descriptors that the library would not take, which the device never makes.
//
//===----------------------------------------------------------------------===//

#include "AttentionDescriptor.h"
#include "CudaTest.h"

#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/dnn/CudnnAttention.h"

namespace fsdp::test {
namespace {

namespace dnn = rt::dnn;
using rt::CudnnDescriptor;
using rt::CudnnGraph;

class CudnnDouble : public testing::Test {
protected:
  void SetUp() override {
    auto made = openFirstDevice();
    ASSERT_TRUE(made.isOk()) << made.status().message();
    context = std::move(*made);
    auto library = rt::CudnnApi::ofProcess();
    ASSERT_TRUE(library.isOk()) << library.status().message();
    api = *library;
    ASSERT_EQ(api->create(&handle), dnn::success);
  }
  void TearDown() override {
    if (handle) {
      EXPECT_EQ(api->destroy(handle), dnn::success);
    }
  }

  CudnnDescriptor make(dnn::Kind kind) {
    auto made = CudnnDescriptor::create(*api, kind);
    EXPECT_TRUE(made.isOk()) << made.status().message();
    return std::move(*made);
  }
  CudnnGraph::Shape rows(int64_t m, int64_t n) {
    return CudnnGraph::Shape::packed({1, 1, m, n});
  }
  std::string planOf(const AttentionDescriptor &attention) {
    auto viewed = rt::viewForCudnn(attention.get(false), false, {91900, 90});
    EXPECT_TRUE(viewed.isOk()) << viewed.status().message();
    rt::CudnnDevice device(handle);
    auto composed = rt::composeAttention(*api, device, *viewed);
    EXPECT_TRUE(composed.isOk()) << composed.status().message();
    auto plan = rt::CudnnPlan::choose(*api, device, std::move(composed->graph));
    return plan.isOk() ? (*plan)->text() : plan.status().message();
  }

  std::unique_ptr<rt::CudaContext> context;
  const rt::CudnnApi *api = nullptr;
  dnn::Handle handle = nullptr;
};

TEST_F(CudnnDouble, Attributes) {
  CudnnDescriptor tensor = make(dnn::Tensor);
  int64_t number = 1;
  EXPECT_HAS(tensor.set(dnn::TensorType, dnn::Int64Type, number).message(),
             "cudnnBackendSetAttribute: CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE "
             "(attribute 901 has type 1)");
  EXPECT_HAS(
      tensor.set(dnn::TensorDimensions, dnn::Int64Type, number).message(),
      "(another number of elements)");
  EXPECT_HAS(tensor.set(dnn::MatmulA, tensor).message(), "(no attribute 1520 ");
  EXPECT_HAS(tensor.finalize().message(), "(attribute 900 is missing)");
  CudnnDescriptor operation = make(dnn::ReshapeOperation);
  EXPECT_HAS(operation.set(dnn::ReshapeX, tensor).message(),
             "(a descriptor that is not finalized)");
}

TEST_F(CudnnDouble, Graphs) {
  struct {
    const char *message;
    std::function<void(CudnnGraph &)> build;
  } const cases[] = {
      {"matrices that do not fit",
       [&](CudnnGraph &graph) {
         auto a = graph.addMemory(dnn::brain16, rows(8, 16));
         graph.multiply(a, a, graph.addMemory(dnn::brain16, rows(8, 16)));
       }},
      {"an operand that no operation before makes",
       [&](CudnnGraph &graph) {
         auto x = graph.addVirtual(dnn::real32, rows(8, 8)),
              y = graph.addMemory(dnn::real32, rows(8, 8));
         graph.apply(dnn::Exp, x, y);
         graph.apply(dnn::Exp, graph.addMemory(dnn::real32, rows(8, 8)), x);
       }},
      {"another number of operands",
       [&](CudnnGraph &graph) {
         auto x = graph.addMemory(dnn::real32, rows(8, 8));
         graph.apply(dnn::Add, x, graph.addVirtual(dnn::real32, rows(8, 8)));
       }},
      {"a reshape that is no transposition",
       [&](CudnnGraph &graph) {
         auto x = graph.addMemory(dnn::real32, rows(8, 4));
         graph.reshape(x, graph.addVirtual(dnn::real32, rows(4, 8)));
       }},
      {"sizes and strides below 1",
       [&](CudnnGraph &graph) { graph.addMemory(dnn::real32, rows(0, 4)); }}};
  for (const auto &one : cases) {
    CudnnGraph graph(*api);
    one.build(graph);
    EXPECT_HAS(graph.finalize(rt::CudnnDevice(handle)).message(), one.message);
  }
}

/// The nondeterministic engine and the broken one are passed over.
TEST_F(CudnnDouble, Plans) {
  AttentionDescriptor attention;
  attention.layOutSeparately();
  EXPECT_EQ(planOf(attention), "engine 2 (24 = 7)");
  attention.head = 136;
  attention.layOutSeparately();
  EXPECT_EQ(planOf(attention), "no engine is proposed");
  attention.head = 128;
  attention.layOutSeparately();
  setenv("FSDP_CUDNN_REFUSE", "forward", 1);
  EXPECT_EQ(planOf(attention), "no engine is proposed");
  unsetenv("FSDP_CUDNN_REFUSE");
}

} // namespace
} // namespace fsdp::test
