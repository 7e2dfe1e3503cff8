//===- CudnnGraph.cpp - Graphs of operations ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/CudnnGraph.h"

#include <utility>

namespace fsdp::rt {

//===----------------------------------------------------------------------===//
// CudnnDescriptor
//===----------------------------------------------------------------------===//

Result<CudnnDescriptor> CudnnDescriptor::create(const CudnnApi &api,
                                                dnn::Kind kind) {
  dnn::Descriptor made = nullptr;
  if (Status s = api.check(api.descriptorCreate(kind, &made),
                           "cudnnBackendCreateDescriptor"))
    return s;
  return CudnnDescriptor(api, made);
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_)
    (void)api_->descriptorDestroy(descriptor_);
}

Status CudnnDescriptor::set(dnn::Attribute attribute, dnn::Type type,
                            int64_t count, const void *values) {
  return api_->check(
      api_->descriptorSet(descriptor_, attribute, type, count, values),
      "cudnnBackendSetAttribute");
}

Status CudnnDescriptor::finalize() {
  return api_->check(api_->descriptorFinalize(descriptor_),
                     "cudnnBackendFinalize");
}

Status CudnnDescriptor::get(dnn::Attribute attribute, dnn::Type type,
                            int64_t wanted, int64_t &count,
                            void *values) const {
  return api_->check(
      api_->descriptorGet(descriptor_, attribute, type, wanted, &count, values),
      "cudnnBackendGetAttribute");
}

Result<int64_t> CudnnDescriptor::getNumber(dnn::Attribute attribute) const {
  int64_t number = 0, count = 0;
  if (Status s = get(attribute, dnn::Int64Type, 1, count, &number))
    return s;
  return number;
}

//===----------------------------------------------------------------------===//
// CudnnDevice
//===----------------------------------------------------------------------===//

Result<CudnnDevice> CudnnDevice::describe(const CudnnApi &api,
                                          const std::string &json) {
  Result<CudnnDescriptor> made =
      CudnnDescriptor::create(api, dnn::DeviceProperties);
  if (!made.isOk())
    return made.status();
  // With its last, zero, byte.
  if (Status s = made->set(dnn::DeviceJson, dnn::CharType,
                           static_cast<int64_t>(json.size() + 1), json.c_str()))
    return s;
  if (Status s = made->finalize())
    return s;
  CudnnDevice device(nullptr);
  device.description_.emplace(std::move(*made));
  return device;
}

Status CudnnDevice::setOn(CudnnDescriptor &descriptor,
                          std::optional<dnn::Attribute> ofHandle,
                          std::optional<dnn::Attribute> ofDescription) const {
  if (description_)
    return ofDescription ? descriptor.set(*ofDescription, *description_)
                         : Status::ok();
  return ofHandle ? descriptor.set(*ofHandle, dnn::HandleType, handle_)
                  : Status::ok();
}

//===----------------------------------------------------------------------===//
// CudnnGraph
//===----------------------------------------------------------------------===//

CudnnGraph::Shape
CudnnGraph::Shape::packed(const std::array<int64_t, 4> &sizes) {
  return {sizes,
          {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

CudnnGraph::Shape CudnnGraph::Shape::transposed() const {
  Shape turned = *this;
  std::swap(turned.sizes[2], turned.sizes[3]);
  std::swap(turned.strides[2], turned.strides[3]);
  return turned;
}

template <typename Set>
CudnnDescriptor *CudnnGraph::make(std::deque<CudnnDescriptor> &kept,
                                  dnn::Kind kind, Set set) {
  if (failure_)
    return nullptr;
  Result<CudnnDescriptor> made = CudnnDescriptor::create(api_, kind);
  Status status = made.status();
  if (status.isOk())
    status = set(*made);
  if (status.isOk())
    status = made->finalize();
  if (status) {
    keep(std::move(status));
    return nullptr;
  }
  return &kept.emplace_back(std::move(*made));
}

CudnnGraph::Value CudnnGraph::add(int type, const Shape &shape, bool isVirtual,
                                  bool isScalar) {
  auto number = static_cast<Value>(types_.size() + 1);
  types_.push_back(type);
  int64_t alignment = 16;
  make(tensors_, dnn::Tensor, [&](CudnnDescriptor &tensor) -> Status {
    if (Status s = tensor.set(dnn::TensorType, dnn::DataType, type))
      return s;
    if (Status s = tensor.set(dnn::TensorDimensions, dnn::Int64Type, 4,
                              shape.sizes.data()))
      return s;
    if (Status s = tensor.set(dnn::TensorStrides, dnn::Int64Type, 4,
                              shape.strides.data()))
      return s;
    if (Status s = tensor.set(dnn::TensorId, dnn::Int64Type, number))
      return s;
    if (Status s = tensor.set(dnn::TensorAlignment, dnn::Int64Type, alignment))
      return s;
    if (Status s =
            tensor.set(dnn::TensorIsVirtual, dnn::BooleanType, isVirtual))
      return s;
    return tensor.set(dnn::TensorIsByValue, dnn::BooleanType, isScalar);
  });
  return number;
}

CudnnGraph::Value CudnnGraph::addMemory(int type, const Shape &shape) {
  return add(type, shape, /*isVirtual=*/false, /*isScalar=*/false);
}

CudnnGraph::Value CudnnGraph::addScalar(float number) {
  Value value = add(dnn::real32, Shape::packed({1, 1, 1, 1}),
                    /*isVirtual=*/false, /*isScalar=*/true);
  scalars_.push_back({value, number});
  return value;
}

CudnnGraph::Value CudnnGraph::addVirtual(int type, const Shape &shape) {
  return add(type, shape, /*isVirtual=*/true, /*isScalar=*/false);
}

void CudnnGraph::multiply(Value a, Value b, Value c) {
  CudnnDescriptor *product =
      make(parts_, dnn::Matmul, [](CudnnDescriptor &made) {
        return made.set(dnn::MatmulPrecision, dnn::DataType, dnn::real32);
      });
  make(operations_, dnn::MatmulOperation, [&](CudnnDescriptor &made) -> Status {
    if (Status s = made.set(dnn::OperationMatmul, *product))
      return s;
    if (Status s = made.set(dnn::MatmulA, of(a)))
      return s;
    if (Status s = made.set(dnn::MatmulB, of(b)))
      return s;
    return made.set(dnn::MatmulC, of(c));
  });
}

/// b and t: 0 where the mode takes none.
void CudnnGraph::addPointwise(dnn::Mode mode, int64_t axis, Value x, Value b,
                              Value t, Value y) {
  // Comparisons have a precision of their own.
  int precision = types_[static_cast<size_t>(y - 1)] == dnn::boolean
                      ? dnn::boolean
                      : dnn::real32;
  CudnnDescriptor *part =
      make(parts_, dnn::Pointwise, [&](CudnnDescriptor &made) -> Status {
        if (Status s =
                made.set(dnn::PointwiseMode, dnn::PointwiseModeType, mode))
          return s;
        if (Status s =
                made.set(dnn::PointwisePrecision, dnn::DataType, precision))
          return s;
        return mode == dnn::GenerateIndex
                   ? made.set(dnn::PointwiseAxis, dnn::Int64Type, axis)
                   : Status::ok();
      });
  make(operations_, dnn::PointwiseOperation,
       [&](CudnnDescriptor &made) -> Status {
         if (Status s = made.set(dnn::OperationPointwise, *part))
           return s;
         if (Status s = made.set(dnn::OperationX, of(x)))
           return s;
         if (b != 0)
           if (Status s = made.set(dnn::OperationB, of(b)))
             return s;
         if (t != 0)
           if (Status s = made.set(dnn::OperationT, of(t)))
             return s;
         return made.set(dnn::OperationY, of(y));
       });
}

void CudnnGraph::apply(dnn::Mode mode, Value x, Value y) {
  addPointwise(mode, 0, x, 0, 0, y);
}
void CudnnGraph::apply(dnn::Mode mode, Value x, Value b, Value y) {
  addPointwise(mode, 0, x, b, 0, y);
}
void CudnnGraph::select(Value condition, Value x, Value b, Value y) {
  addPointwise(dnn::BinarySelect, 0, x, b, condition, y);
}
void CudnnGraph::addIndex(int64_t axis, Value x, Value y) {
  addPointwise(dnn::GenerateIndex, axis, x, 0, 0, y);
}

void CudnnGraph::reduce(int operation, Value x, Value y) {
  CudnnDescriptor *part =
      make(parts_, dnn::Reduction, [&](CudnnDescriptor &made) -> Status {
        if (Status s =
                made.set(dnn::ReductionOperator, dnn::ReductionType, operation))
          return s;
        return made.set(dnn::ReductionPrecision, dnn::DataType, dnn::real32);
      });
  make(operations_, dnn::ReductionOperation,
       [&](CudnnDescriptor &made) -> Status {
         if (Status s = made.set(dnn::OperationReduction, *part))
           return s;
         if (Status s = made.set(dnn::ReductionX, of(x)))
           return s;
         return made.set(dnn::ReductionY, of(y));
       });
}

void CudnnGraph::reshape(Value x, Value y) {
  make(operations_, dnn::ReshapeOperation,
       [&](CudnnDescriptor &made) -> Status {
         if (Status s = made.set(dnn::ReshapeX, of(x)))
           return s;
         return made.set(dnn::ReshapeY, of(y));
       });
}

Status CudnnGraph::finalize(const CudnnDevice &device) {
  std::vector<dnn::Descriptor> all;
  for (const CudnnDescriptor &operation : operations_)
    all.push_back(operation.get());
  make(graph_, dnn::OperationGraph, [&](CudnnDescriptor &made) -> Status {
    if (Status s = device.setOn(made, dnn::GraphHandle, std::nullopt))
      return s;
    return made.set(dnn::GraphOperations, dnn::DescriptorType,
                    static_cast<int64_t>(all.size()), all.data());
  });
  return failure_;
}

} // namespace fsdp::rt
