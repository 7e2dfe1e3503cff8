//===- Evaluate.cpp - What graphs of operations compute -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "instructions/FloatFormats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace fsdp::emulator::dnn {

namespace {

using Numbers = std::vector<float>;
using Index = std::array<int64_t, 4>;

constexpr int add = 0, mul = 1, divide = 6, sub = 9, exponential = 13,
              logarithm = 15, greaterEqual = 303, generateIndex = 501,
              binarySelect = 601;
constexpr int reduceAdd = 0, reduceMax = 3;

/// One batch at a time: of a batch's tensors the first size is 1.
Tensor ofBatch(Tensor tensor) {
  tensor.sizes[0] = 1;
  return tensor;
}

int64_t placeOf(const Tensor &tensor, const Index &index) {
  int64_t place = 0;
  for (size_t d = 0; d < 4; ++d)
    place = place * tensor.sizes[d] + index[d];
  return place;
}

int64_t offsetOf(const Tensor &tensor, const Index &index) {
  int64_t offset = 0;
  for (size_t d = 0; d < 4; ++d)
    offset += tensor.strides[d] * index[d];
  return offset;
}

template <typename Body>
void forAll(const Tensor &tensor, Body body) {
  Index index;
  const auto &sizes = tensor.sizes;
  for (index[0] = 0; index[0] < sizes[0]; ++index[0])
    for (index[1] = 0; index[1] < sizes[1]; ++index[1])
      for (index[2] = 0; index[2] < sizes[2]; ++index[2])
        for (index[3] = 0; index[3] < sizes[3]; ++index[3])
          body(index);
}

float widen(uint16_t bits, int type) {
  return type == real16 ? floatOfF16(bits) : floatOfBF16(bits);
}
uint16_t narrow(float value, int type) {
  return type == real16 ? f16OfFloat(value) : bf16OfFloat(value);
}

void round(Numbers &numbers, int type) {
  if (type != real16 && type != brain16)
    return;
  for (float &number : numbers)
    number = widen(narrow(number, type), type);
}

float loadElement(const Tensor &tensor, const char *memory, int64_t offset) {
  const char *at = memory + offset * int64_t(sizeOf(tensor.type));
  if (tensor.type == real32)
    return *reinterpret_cast<const float *>(at);
  return widen(*reinterpret_cast<const uint16_t *>(at), tensor.type);
}

void storeElement(const Tensor &tensor, char *memory, int64_t offset,
                  float value) {
  char *at = memory + offset * int64_t(sizeOf(tensor.type));
  if (tensor.type == real32)
    *reinterpret_cast<float *>(at) = value;
  else
    *reinterpret_cast<uint16_t *>(at) = narrow(value, tensor.type);
}

/// An index of `of` where it has one element for several of `index`'s tensor.
Index shrink(const Index &index, const Tensor &from, const Tensor &of) {
  Index shrunk = index;
  for (size_t d = 0; d < 4; ++d)
    shrunk[d] = index[d] / (from.sizes[d] / of.sizes[d]);
  return shrunk;
}

class Evaluation {
public:
  Evaluation(const Graph &graph, const std::map<int64_t, Operand> &operands,
             int64_t batch, bool isReversed)
      : isReversed_(isReversed) {
    for (const auto &[id, tensor] : graph.tensors)
      tensors_[id] = tensor.isScalar ? tensor : ofBatch(tensor);
    for (const auto &entry : graph.tensors) {
      const Tensor &tensor = entry.second;
      if (tensor.isVirtual || graph.isWritten(tensor.id))
        continue;
      const Operand &operand = operands.at(tensor.id);
      Numbers &numbers = numbers_[tensor.id];
      if (tensor.isScalar) {
        numbers = {operand.scalar};
        continue;
      }
      forAll(tensors_[tensor.id], [&](const Index &index) {
        numbers.push_back(
            loadElement(tensor, operand.memory,
                        offsetOf(tensor, index) + batch * tensor.strides[0]));
      });
    }
    for (const Operation &operation : graph.operations) {
      const Tensor &y = tensors_[operation.y];
      Numbers made = compute(operation, y);
      round(made, y.type);
      numbers_[operation.y] = std::move(made);
      if (y.isVirtual)
        continue;
      char *memory = operands.at(operation.y).memory;
      forAll(y, [&](const Index &index) {
        storeElement(y, memory, offsetOf(y, index) + batch * y.strides[0],
                     numbers_[operation.y][size_t(placeOf(y, index))]);
      });
    }
  }

private:
  Numbers compute(const Operation &operation, const Tensor &y) const {
    switch (operation.kind) {
    case Operation::Kind::Matmul:
      return multiply(operation, y);
    case Operation::Kind::Pointwise:
      return apply(operation, y);
    case Operation::Kind::Reduction:
      return reduce(operation, y);
    case Operation::Kind::Reshape:
      return reshape(operation, y);
    }
    return {};
  }

  Numbers multiply(const Operation &operation, const Tensor &y) const {
    const Tensor &a = tensors_.at(operation.x), &b = tensors_.at(operation.b);
    const Numbers &left = numbers_.at(operation.x),
                  &right = numbers_.at(operation.b);
    int64_t m = y.sizes[2], n = y.sizes[3], k = a.sizes[3];
    Numbers made(size_t(y.count()), 0);
    for (int64_t h = 0; h < y.sizes[1]; ++h) {
      const float *of = left.data() + h / (y.sizes[1] / a.sizes[1]) * m * k,
                  *by = right.data() + h / (y.sizes[1] / b.sizes[1]) * k * n;
      float *to = made.data() + h * m * n;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t step = 0; step < k; ++step) {
          int64_t l = isReversed_ ? k - 1 - step : step;
          float factor = of[i * k + l];
          for (int64_t j = 0; j < n; ++j)
            to[i * n + j] += factor * by[l * n + j];
        }
    }
    return made;
  }

  /// A tensor as another sees it that has more of some dimensions.
  struct Spread {
    const float *numbers = nullptr;
    Index steps = {};

    float at(const Index &index) const {
      return numbers[steps[1] * index[1] + steps[2] * index[2] +
                     steps[3] * index[3]];
    }
  };
  Spread spread(int64_t id) const {
    Spread made;
    if (id == 0)
      return made;
    const Tensor &tensor = tensors_.at(id);
    made.numbers = numbers_.at(id).data();
    int64_t step = 1;
    for (size_t d = 4; d-- > 0; step *= tensor.sizes[d])
      made.steps[d] = tensor.sizes[d] == 1 ? 0 : step;
    return made;
  }

  Numbers apply(const Operation &operation, const Tensor &y) const {
    Spread x = spread(operation.x), b = spread(operation.b),
           t = spread(operation.t);
    Numbers made;
    made.reserve(size_t(y.count()));
    forAll(y, [&](const Index &index) {
      switch (operation.mode) {
      case add:
        return made.push_back(x.at(index) + b.at(index));
      case mul:
        return made.push_back(x.at(index) * b.at(index));
      case divide:
        return made.push_back(x.at(index) / b.at(index));
      case sub:
        return made.push_back(x.at(index) - b.at(index));
      case exponential:
        return made.push_back(std::exp(x.at(index)));
      case logarithm:
        return made.push_back(std::log(x.at(index)));
      case greaterEqual:
        return made.push_back(x.at(index) >= b.at(index));
      case generateIndex:
        return made.push_back(float(index[size_t(operation.axis)]));
      default: // a selection
        return made.push_back(t.at(index) != 0 ? x.at(index) : b.at(index));
      }
    });
    return made;
  }

  Numbers reduce(const Operation &operation, const Tensor &y) const {
    const Tensor &x = tensors_.at(operation.x);
    const Numbers &from = numbers_.at(operation.x);
    bool isMax = operation.mode == reduceMax;
    Numbers made(size_t(y.count()),
                 isMax ? -std::numeric_limits<float>::infinity() : 0);
    forAll(x, [&](const Index &index) {
      float &to = made[size_t(placeOf(y, shrink(index, x, y)))];
      float value = from[size_t(placeOf(x, index))];
      to = isMax ? std::max(to, value) : to + value;
    });
    return made;
  }

  /// Rows become columns.
  Numbers reshape(const Operation &operation, const Tensor &y) const {
    const Tensor &x = tensors_.at(operation.x);
    const Numbers &from = numbers_.at(operation.x);
    Numbers made;
    made.reserve(from.size());
    forAll(y, [&](const Index &index) {
      made.push_back(
          from[size_t(placeOf(x, {index[0], index[1], index[3], index[2]}))]);
    });
    return made;
  }

  bool isReversed_;
  std::map<int64_t, Tensor> tensors_;
  std::map<int64_t, Numbers> numbers_;
};

bool isUnary(int mode) {
  return mode == exponential || mode == logarithm || mode == generateIndex;
}
bool isBinary(int mode) {
  return mode == add || mode == mul || mode == divide || mode == sub ||
         mode == greaterEqual || mode == binarySelect;
}

/// `small` has a part of each dimension of `large`.
bool divides(const Tensor &small, const Tensor &large) {
  for (size_t d = 0; d < 4; ++d)
    if (large.sizes[d] % small.sizes[d] != 0)
      return false;
  return true;
}
bool broadcasts(const Tensor &small, const Tensor &large) {
  for (size_t d = 0; d < 4; ++d)
    if (small.sizes[d] != 1 && small.sizes[d] != large.sizes[d])
      return false;
  return true;
}

std::string checkOperation(const Graph &graph, const Operation &operation) {
  const Tensor &x = graph.tensors.at(operation.x),
               &y = graph.tensors.at(operation.y);
  auto find = [&](int64_t id) {
    return id == 0 ? nullptr : &graph.tensors.at(id);
  };
  const Tensor *b = find(operation.b), *t = find(operation.t);
  switch (operation.kind) {
  case Operation::Kind::Matmul: {
    bool fits = x.sizes[0] == y.sizes[0] && b->sizes[0] == y.sizes[0] &&
                x.sizes[2] == y.sizes[2] && b->sizes[3] == y.sizes[3] &&
                x.sizes[3] == b->sizes[2] && y.sizes[1] % x.sizes[1] == 0 &&
                y.sizes[1] % b->sizes[1] == 0;
    return fits ? "" : "a product of matrices that do not fit";
  }
  case Operation::Kind::Pointwise: {
    bool isSelect = operation.mode == binarySelect;
    if (!isUnary(operation.mode) && !isBinary(operation.mode))
      return "an unknown mode";
    if (isUnary(operation.mode) != !b || isSelect != bool(t))
      return "another number of operands than its mode takes";
    if (x.sizes != y.sizes || (b && !broadcasts(*b, y)) ||
        (t && (t->sizes != y.sizes || t->type != boolean)))
      return "operands of other sizes than the result";
    if (operation.mode == generateIndex && y.type != int32)
      return "an index that is no integer";
    if ((operation.mode == greaterEqual) != (y.type == boolean))
      return "a comparison that is not boolean";
    return "";
  }
  case Operation::Kind::Reduction:
    if (operation.mode != reduceAdd && operation.mode != reduceMax)
      return "an unknown reduction";
    return divides(y, x) && x.sizes[0] == y.sizes[0]
               ? ""
               : "a reduction to sizes that do not divide";
  case Operation::Kind::Reshape:
    return x.sizes[0] == y.sizes[0] && x.sizes[1] == y.sizes[1] &&
                   x.sizes[2] == y.sizes[3] && x.sizes[3] == y.sizes[2] &&
                   x.strides[0] == y.strides[0] &&
                   x.strides[1] == y.strides[1] &&
                   x.strides[2] == y.strides[3] && x.strides[3] == y.strides[2]
               ? ""
               : "a reshape that is no transposition";
  }
  return "";
}

} // namespace

bool Tensor::operator==(const Tensor &other) const {
  return id == other.id && type == other.type && sizes == other.sizes &&
         strides == other.strides && alignment == other.alignment &&
         isVirtual == other.isVirtual && isScalar == other.isScalar;
}

int64_t Graph::products() const {
  return std::count_if(operations.begin(), operations.end(),
                       [](const Operation &operation) {
                         return operation.kind == Operation::Kind::Matmul;
                       });
}

bool Graph::isWritten(int64_t id) const {
  return std::any_of(
      operations.begin(), operations.end(),
      [&](const Operation &operation) { return operation.y == id; });
}

size_t sizeOf(int type) {
  switch (type) {
  case real32:
  case int32:
    return 4;
  case real16:
  case brain16:
    return 2;
  case boolean:
    return 1;
  default:
    return 0;
  }
}

std::string check(const Graph &graph) {
  std::set<int64_t> made;
  for (const auto &[id, tensor] : graph.tensors)
    if (!tensor.isVirtual && !graph.isWritten(id))
      made.insert(id);
  for (const Operation &operation : graph.operations) {
    for (int64_t id : {operation.x, operation.b, operation.t})
      if (id != 0 && made.count(id) == 0)
        return "an operand that no operation before makes";
    if (!made.insert(operation.y).second)
      return "a result that is made twice";
    if (graph.tensors.at(operation.y).isScalar)
      return "a result in memory of the host";
    if (std::string why = checkOperation(graph, operation); !why.empty())
      return why;
  }
  return "";
}

void evaluate(const Graph &graph, const std::map<int64_t, Operand> &operands,
              bool isReversed) {
  int64_t batch = graph.tensors.at(graph.operations.back().y).sizes[0];
  for (int64_t i = 0; i < batch; ++i)
    Evaluation(graph, operands, i, isReversed);
}

} // namespace fsdp::emulator::dnn
