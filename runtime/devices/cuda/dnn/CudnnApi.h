//===- CudnnApi.h - cuDNN, opened at run time -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of cuDNN 9's binary interface that attention uses: descriptors of
// operation graphs, engines and plans. test/cuda/CudnnHeadersTest.cpp compares
// it with the toolkit's cudnn.h.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DNN_CUDNNAPI_H
#define FSDP_RT_DEVICES_CUDA_DNN_CUDNNAPI_H

#include "core/Status.h"
#include "devices/cuda/driver/DriverApi.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Types and numbers of cuDNN.
namespace dnn {

/// cudnnStatus_t.
using Error = int;
using Handle = struct HandleObject *;
/// cudnnBackendDescriptor_t.
using Descriptor = void *;

constexpr Error success = 0;
/// cudnnDataType_t.
constexpr int real32 = 0, real16 = 2, int32 = 4, brain16 = 9, boolean = 11;

/// cudnnBackendDescriptorType_t.
enum Kind : int {
  Pointwise = 0,
  Engine = 2,
  EngineConfig = 3,
  Heuristics = 4,
  ExecutionPlan = 5,
  KnobChoice = 7,
  PointwiseOperation = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  Matmul = 18,
  MatmulOperation = 19,
  Reduction = 21,
  ReductionOperation = 22,
  ReshapeOperation = 31,
  DeviceProperties = 38
};

/// cudnnBackendAttributeType_t.
enum Type : int {
  HandleType = 0,
  DataType = 1,
  BooleanType = 2,
  Int64Type = 3,
  FloatType = 4,
  PointerType = 6,
  HeuristicModeType = 8,
  KnobType = 9,
  NumericalNoteType = 11,
  PointwiseModeType = 14,
  DescriptorType = 15,
  ReductionType = 18,
  CharType = 24
};

/// cudnnBackendAttributeName_t.
enum Attribute : int {
  PointwiseMode = 0,
  PointwisePrecision = 1,
  PointwiseAxis = 9,
  HeuristicsMode = 200,
  HeuristicsGraph = 201,
  HeuristicsResults = 202,
  HeuristicsDevice = 204,
  ConfigEngine = 300,
  ConfigKnobs = 302,
  PlanHandle = 400,
  PlanConfig = 401,
  PlanWorkspaceBytes = 402,
  PlanDevice = 407,
  KnobChoiceType = 600,
  KnobChoiceValue = 601,
  OperationPointwise = 750,
  OperationX = 751,
  OperationB = 752,
  OperationY = 753,
  OperationT = 758,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackIds = 1000,
  PackPointers = 1001,
  PackWorkspace = 1003,
  EngineIndex = 1301,
  EngineNumericalNotes = 1303,
  MatmulPrecision = 1500,
  MatmulA = 1520,
  MatmulB = 1521,
  MatmulC = 1522,
  OperationMatmul = 1523,
  ReductionOperator = 1600,
  ReductionPrecision = 1601,
  ReductionX = 1610,
  ReductionY = 1611,
  OperationReduction = 1612,
  ReshapeX = 2200,
  ReshapeY = 2201,
  DeviceJson = 2702
};

/// cudnnPointwiseMode_t.
enum Mode : int {
  Add = 0,
  Mul = 1,
  Div = 6,
  Sub = 9,
  Exp = 13,
  Log = 15,
  CompareGreaterEqual = 303,
  GenerateIndex = 501,
  BinarySelect = 601
};

/// cudnnReduceTensorOp_t.
constexpr int reduceAdd = 0, reduceMax = 3;
/// cudnnBackendHeurMode_t, _NumericalNote_t.
constexpr int heuristicModeA = 3, noteNondeterministic = 4;

} // namespace dnn

/// The functions of CudnnApi: member, name in the library, result and
/// parameters.
#define FSDP_RT_CUDNN_FUNCTIONS(X)                                             \
  X(create, cudnnCreate, dnn::Error, (dnn::Handle * handle))                   \
  X(destroy, cudnnDestroy, dnn::Error, (dnn::Handle handle))                   \
  X(setStream, cudnnSetStream, dnn::Error,                                     \
    (dnn::Handle handle, cu::Stream stream))                                   \
  X(getVersion, cudnnGetVersion, size_t, ())                                   \
  X(getErrorString, cudnnGetErrorString, const char *, (dnn::Error error))     \
  X(getLastErrorString, cudnnGetLastErrorString, void,                         \
    (char *message, size_t bytes))                                             \
  X(descriptorCreate, cudnnBackendCreateDescriptor, dnn::Error,                \
    (int kind, dnn::Descriptor *descriptor))                                   \
  X(descriptorDestroy, cudnnBackendDestroyDescriptor, dnn::Error,              \
    (dnn::Descriptor descriptor))                                              \
  X(descriptorSet, cudnnBackendSetAttribute, dnn::Error,                       \
    (dnn::Descriptor descriptor, int attribute, int type, int64_t count,       \
     const void *values))                                                      \
  X(descriptorGet, cudnnBackendGetAttribute, dnn::Error,                       \
    (dnn::Descriptor descriptor, int attribute, int type, int64_t wanted,      \
     int64_t *count, void *values))                                            \
  X(descriptorFinalize, cudnnBackendFinalize, dnn::Error,                      \
    (dnn::Descriptor descriptor))                                              \
  X(execute, cudnnBackendExecute, dnn::Error,                                  \
    (dnn::Handle handle, dnn::Descriptor plan, dnn::Descriptor pack))

struct CudnnApi {
  /// Opens libcudnn.so.9 in `directories`, or the system's. Fails where it or
  /// one of the functions is missing.
  static Result<CudnnApi> open(const std::vector<std::string> &directories);

  /// The process's, in cudaLibraryDirectories(), then where the wheels of a
  /// Python environment ($VIRTUAL_ENV) have it.
  static Result<const CudnnApi *> ofProcess();

#define FSDP_RT_CUDNN_MEMBER(name, symbol, result, parameters)                 \
  result(*name) parameters = nullptr;
  FSDP_RT_CUDNN_FUNCTIONS(FSDP_RT_CUDNN_MEMBER)
#undef FSDP_RT_CUDNN_MEMBER

  /// Success, or "cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED (...)", in
  /// parentheses what the library says of it where it says more.
  Status check(dnn::Error error, const char *call) const;

  /// "9.19.0".
  std::string version() const;
  /// "cuDNN 9.19.0".
  std::string describe() const { return "cuDNN " + version(); }
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DNN_CUDNNAPI_H
