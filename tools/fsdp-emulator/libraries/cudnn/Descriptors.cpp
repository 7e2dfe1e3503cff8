//===- Descriptors.cpp - Descriptors of a double of cuDNN -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Descriptors.h"

#include <cstring>

namespace fsdp::emulator::dnn {

namespace {

constexpr int handleType = 0, dataType = 1, booleanType = 2, int64Type = 3,
              pointerType = 6, modeType = 8, pointwiseType = 14,
              descriptorType = 15, reductionType = 18;
constexpr int many = 0;

/// An attribute of a kind: its type, how many elements it has, and whether a
/// descriptor has to have it. Of one that names others, their kind.
struct Rule {
  int kind, attribute, type;
  int64_t count;
  bool isRequired;
  int named = -1;
};
constexpr int pointwise = 0, config = 3, heuristics = 4, plan = 5,
              pointwiseOperation = 13, graphKind = 15, pack = 16,
              tensorKind = 17, matmul = 18, matmulOperation = 19,
              reduction = 21, reductionOperation = 22, reshapeOperation = 31;
constexpr Rule rules[] = {
    {pointwise, 0, pointwiseType, 1, true},
    {pointwise, 1, dataType, 1, true},
    {pointwise, 9, int64Type, 1, false},
    {matmul, 1500, dataType, 1, true},
    {reduction, 1600, reductionType, 1, true},
    {reduction, 1601, dataType, 1, true},
    {tensorKind, 900, int64Type, 1, true},
    {tensorKind, 901, dataType, 1, true},
    {tensorKind, 902, int64Type, 4, true},
    {tensorKind, 903, int64Type, 4, true},
    {tensorKind, 906, int64Type, 1, true},
    {tensorKind, 907, booleanType, 1, false},
    {tensorKind, 908, booleanType, 1, false},
    {pointwiseOperation, 750, descriptorType, 1, true, pointwise},
    {pointwiseOperation, 751, descriptorType, 1, true, tensorKind},
    {pointwiseOperation, 752, descriptorType, 1, false, tensorKind},
    {pointwiseOperation, 753, descriptorType, 1, true, tensorKind},
    {pointwiseOperation, 758, descriptorType, 1, false, tensorKind},
    {matmulOperation, 1520, descriptorType, 1, true, tensorKind},
    {matmulOperation, 1521, descriptorType, 1, true, tensorKind},
    {matmulOperation, 1522, descriptorType, 1, true, tensorKind},
    {matmulOperation, 1523, descriptorType, 1, true, matmul},
    {reductionOperation, 1610, descriptorType, 1, true, tensorKind},
    {reductionOperation, 1611, descriptorType, 1, true, tensorKind},
    {reductionOperation, 1612, descriptorType, 1, true, reduction},
    {reshapeOperation, 2200, descriptorType, 1, true, tensorKind},
    {reshapeOperation, 2201, descriptorType, 1, true, tensorKind},
    {graphKind, 800, handleType, 1, true},
    {graphKind, 801, descriptorType, many, true},
    {heuristics, 200, modeType, 1, true},
    {heuristics, 201, descriptorType, 1, true, graphKind},
    {plan, 401, descriptorType, 1, true, config},
    {plan, 400, handleType, 1, true},
    {pack, 1000, int64Type, many, true},
    {pack, 1001, pointerType, many, true},
    {pack, 1003, pointerType, 1, true}};

const Rule *findRule(int kind, int attribute) {
  for (const Rule &rule : rules)
    if (rule.kind == kind && rule.attribute == attribute)
      return &rule;
  return nullptr;
}

size_t sizeOfAttribute(int type) {
  switch (type) {
  case booleanType:
    return sizeof(bool);
  case dataType:
  case modeType:
  case pointwiseType:
  case reductionType:
    return sizeof(int);
  default:
    return 8;
  }
}

thread_local std::string failure;

Tensor tensorOf(const Contents &contents) {
  Tensor tensor;
  tensor.id = contents.get<int64_t>(906);
  tensor.type = contents.get<int>(901);
  std::memcpy(tensor.sizes.data(), contents.values.at(902).bytes.data(), 32);
  std::memcpy(tensor.strides.data(), contents.values.at(903).bytes.data(), 32);
  tensor.alignment = contents.get<int64_t>(900);
  tensor.isVirtual = contents.get<bool>(907);
  tensor.isScalar = contents.get<bool>(908);
  return tensor;
}

int checkTensor(const Tensor &tensor) {
  if (sizeOf(tensor.type) == 0)
    return fail(badParam, "a tensor of an unknown type");
  for (size_t d = 0; d < 4; ++d)
    if (tensor.sizes[d] < 1 || tensor.strides[d] < 1)
      return fail(badParam, "sizes and strides below 1");
  if (tensor.isScalar && (tensor.count() != 1 || tensor.isVirtual))
    return fail(badParam, "a scalar with more than one element");
  return success;
}

/// The operation that a descriptor is; its tensors go to `graph`.
int addOperation(const Contents &contents, Graph &graph) {
  Operation operation;
  int status = success;
  auto take = [&](int attribute) -> int64_t {
    std::shared_ptr<Contents> named = contents.getNamed(attribute);
    if (!named)
      return 0;
    Tensor tensor = tensorOf(*named);
    auto [known, isNew] = graph.tensors.try_emplace(tensor.id, tensor);
    if (!isNew && !(known->second == tensor))
      status = fail(badParam, "two tensors of one id");
    return tensor.id;
  };
  switch (contents.kind) {
  case pointwiseOperation:
    operation.kind = Operation::Kind::Pointwise;
    operation.mode = contents.getNamed(750)->get<int>(0);
    operation.axis = contents.getNamed(750)->get<int64_t>(9, -1);
    operation.x = take(751);
    operation.b = take(752);
    operation.t = take(758);
    operation.y = take(753);
    break;
  case matmulOperation:
    operation.x = take(1520);
    operation.b = take(1521);
    operation.y = take(1522);
    break;
  case reductionOperation:
    operation.kind = Operation::Kind::Reduction;
    operation.mode = contents.getNamed(1612)->get<int>(1600);
    operation.x = take(1610);
    operation.y = take(1611);
    break;
  case reshapeOperation:
    operation.kind = Operation::Kind::Reshape;
    operation.x = take(2200);
    operation.y = take(2201);
    break;
  default:
    return fail(badParam, "an operation of no kind");
  }
  graph.operations.push_back(operation);
  return status;
}

} // namespace

int fail(int status, const std::string &why) {
  failure = why;
  return status;
}
const std::string &lastFailure() { return failure; }

bool isKind(int kind) {
  // Engines, configurations and knobs are made to be filled.
  if (kind == 2 || kind == 3 || kind == 7)
    return true;
  for (const Rule &rule : rules)
    if (rule.kind == kind)
      return true;
  return false;
}

int setAttribute(Contents &contents, int attribute, int type, int64_t count,
                 const void *values) {
  if (contents.isFinal)
    return fail(badParam, "the descriptor is finalized");
  const Rule *rule = findRule(contents.kind, attribute);
  if (!rule)
    return fail(badParam, "no attribute " + std::to_string(attribute) +
                              " of a descriptor of kind " +
                              std::to_string(contents.kind));
  if (type != rule->type)
    return fail(badType, "attribute " + std::to_string(attribute) +
                             " has type " + std::to_string(rule->type));
  if (!values || count < 1 || (rule->count != many && count != rule->count))
    return fail(badParam, "another number of elements");
  Values &kept = contents.values[attribute];
  kept.type = type;
  kept.count = count;
  auto bytes = static_cast<const char *>(values);
  kept.bytes.assign(bytes, bytes + size_t(count) * sizeOfAttribute(type));
  if (type != descriptorType)
    return success;
  auto &named = contents.named[attribute];
  named.clear();
  for (int64_t i = 0; i < count; ++i) {
    Descriptor *one = static_cast<Descriptor *const *>(values)[i];
    if (!one)
      return fail(badParam, "null");
    bool isRight = rule->named < 0 || one->contents->kind == rule->named;
    if (!isRight)
      return fail(badParam, "a descriptor of another kind");
    if (!one->contents->isFinal)
      return fail(notFinalized, "a descriptor that is not finalized");
    named.push_back(one->contents);
  }
  return success;
}

int finalize(Contents &contents) {
  if (contents.isFinal)
    return fail(badParam, "the descriptor is finalized");
  for (const Rule &rule : rules)
    if (rule.kind == contents.kind && rule.isRequired &&
        contents.values.count(rule.attribute) == 0)
      return fail(badParam, "attribute " + std::to_string(rule.attribute) +
                                " is missing");
  if (contents.kind == tensorKind)
    if (int status = checkTensor(tensorOf(contents)))
      return status;
  if (contents.kind == graphKind) {
    auto graph = std::make_shared<Graph>();
    for (const std::shared_ptr<Contents> &operation : contents.named.at(801))
      if (int status = addOperation(*operation, *graph))
        return status;
    if (std::string why = check(*graph); !why.empty())
      return fail(badParam, why);
    contents.graph = std::move(graph);
  }
  contents.isFinal = true;
  return success;
}

} // namespace fsdp::emulator::dnn
