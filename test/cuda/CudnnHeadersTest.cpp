//===- CudnnHeadersTest.cpp - Own declarations and cudnn.h ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The declarations in CudnnApi.h have the binary interface of those in cudnn.h.
// All of it is checked when it is compiled.
//
//===----------------------------------------------------------------------===//

#include "Signatures.h"

#include "devices/cuda/dnn/CudnnApi.h"

#include <cudnn.h>
#include <gtest/gtest.h>

namespace fsdp::rt {
namespace {

#define CHECK(name, symbol, result, parameters)                                \
  static_assert(test::isSame<decltype(CudnnApi::name), decltype(&::symbol)>,   \
                #symbol);
FSDP_RT_CUDNN_FUNCTIONS(CHECK)
#undef CHECK

static_assert(std::is_pointer_v<cudnnBackendDescriptor_t>);
static_assert(sizeof(cudnnDataType_t) == sizeof(int) &&
              sizeof(cudnnPointwiseMode_t) == sizeof(int) &&
              sizeof(cudnnReduceTensorOp_t) == sizeof(int) &&
              sizeof(cudnnBackendHeurMode_t) == sizeof(int) &&
              sizeof(cudnnBackendKnobType_t) == sizeof(int) &&
              sizeof(cudnnBackendNumericalNote_t) == sizeof(int));
static_assert(dnn::success == CUDNN_STATUS_SUCCESS);
static_assert(dnn::real32 == CUDNN_DATA_FLOAT &&
              dnn::real16 == CUDNN_DATA_HALF &&
              dnn::int32 == CUDNN_DATA_INT32 &&
              dnn::brain16 == CUDNN_DATA_BFLOAT16 &&
              dnn::boolean == CUDNN_DATA_BOOLEAN);

#define EQUAL(mine, theirs)                                                    \
  static_assert(int(dnn::mine) == int(theirs), #theirs)
EQUAL(Pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
EQUAL(Engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
EQUAL(EngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
EQUAL(Heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
EQUAL(ExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
EQUAL(KnobChoice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
EQUAL(PointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
EQUAL(OperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
EQUAL(VariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
EQUAL(Tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
EQUAL(Matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
EQUAL(MatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
EQUAL(Reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
EQUAL(ReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
EQUAL(ReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
EQUAL(DeviceProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);

EQUAL(HandleType, CUDNN_TYPE_HANDLE);
EQUAL(DataType, CUDNN_TYPE_DATA_TYPE);
EQUAL(BooleanType, CUDNN_TYPE_BOOLEAN);
EQUAL(Int64Type, CUDNN_TYPE_INT64);
EQUAL(FloatType, CUDNN_TYPE_FLOAT);
EQUAL(PointerType, CUDNN_TYPE_VOID_PTR);
EQUAL(HeuristicModeType, CUDNN_TYPE_HEUR_MODE);
EQUAL(KnobType, CUDNN_TYPE_KNOB_TYPE);
EQUAL(NumericalNoteType, CUDNN_TYPE_NUMERICAL_NOTE);
EQUAL(PointwiseModeType, CUDNN_TYPE_POINTWISE_MODE);
EQUAL(DescriptorType, CUDNN_TYPE_BACKEND_DESCRIPTOR);
EQUAL(ReductionType, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
EQUAL(CharType, CUDNN_TYPE_CHAR);

EQUAL(PointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
EQUAL(PointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC);
EQUAL(PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
EQUAL(HeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
EQUAL(HeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
EQUAL(HeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
EQUAL(ConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
EQUAL(ConfigKnobs, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
EQUAL(PlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
EQUAL(PlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
EQUAL(PlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
EQUAL(KnobChoiceType, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
EQUAL(KnobChoiceValue, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
EQUAL(OperationPointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
EQUAL(OperationX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
EQUAL(OperationB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
EQUAL(OperationY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
EQUAL(OperationT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
EQUAL(GraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
EQUAL(GraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
EQUAL(TensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
EQUAL(TensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
EQUAL(TensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
EQUAL(TensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
EQUAL(TensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
EQUAL(TensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
EQUAL(TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
EQUAL(PackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
EQUAL(PackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
EQUAL(PackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
EQUAL(EngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
EQUAL(EngineNumericalNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
EQUAL(MatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE);
EQUAL(MatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
EQUAL(MatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
EQUAL(MatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
EQUAL(OperationMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC);
EQUAL(ReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR);
EQUAL(ReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE);
EQUAL(ReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
EQUAL(ReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
EQUAL(OperationReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
EQUAL(ReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
EQUAL(ReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
#if CUDNN_VERSION >= 90800
EQUAL(HeuristicsDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
EQUAL(PlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
EQUAL(DeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
#endif

EQUAL(Add, CUDNN_POINTWISE_ADD);
EQUAL(Mul, CUDNN_POINTWISE_MUL);
EQUAL(Div, CUDNN_POINTWISE_DIV);
EQUAL(Sub, CUDNN_POINTWISE_SUB);
EQUAL(Exp, CUDNN_POINTWISE_EXP);
EQUAL(Log, CUDNN_POINTWISE_LOG);
EQUAL(CompareGreaterEqual, CUDNN_POINTWISE_CMP_GE);
EQUAL(GenerateIndex, CUDNN_POINTWISE_GEN_INDEX);
EQUAL(BinarySelect, CUDNN_POINTWISE_BINARY_SELECT);
EQUAL(reduceAdd, CUDNN_REDUCE_TENSOR_ADD);
EQUAL(reduceMax, CUDNN_REDUCE_TENSOR_MAX);
EQUAL(heuristicModeA, CUDNN_HEUR_MODE_A);
EQUAL(noteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
#undef EQUAL

TEST(CudnnHeaders, AreThoseOfTheDeclarations) { EXPECT_EQ(CUDNN_MAJOR, 9); }

} // namespace
} // namespace fsdp::rt
