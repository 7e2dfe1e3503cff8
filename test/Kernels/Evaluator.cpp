//===- Evaluator.cpp - What a small function computes ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

void test::forEachIndex(ArrayRef<int64_t> shape,
                        llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  if (llvm::is_contained(shape, 0))
    return;
  for (;;) {
    visit(index);
    int i = shape.size() - 1;
    while (i >= 0 && ++index[i] == shape[i])
      index[i--] = 0;
    if (i < 0)
      return;
  }
}

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static int64_t getPosition(ArrayRef<int64_t> shape, ArrayRef<int64_t> index) {
  int64_t position = 0;
  for (auto [size, i] : llvm::zip(shape, index))
    position = position * size + i;
  return position;
}

namespace {
class Evaluator {
public:
  llvm::DenseMap<Value, Elements> values;

  void evaluate(Operation &op);

private:
  void evaluateLoops(linalg::LinalgOp op);
  void evaluateSlice(tensor::ExtractSliceOp op);
};
} // namespace

void Evaluator::evaluateLoops(linalg::LinalgOp op) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Elements result = values[op.getDpsInits()[0]];
  unsigned inputs = op.getNumDpsInputs();
  forEachIndex(op.getStaticLoopRanges(), [&](ArrayRef<int64_t> point) {
    llvm::DenseMap<Value, double> scalars;
    auto element = [&](unsigned i) {
      return getPosition(getShape(op->getOperand(i)), maps[i].compose(point));
    };
    for (unsigned i = 0; i != inputs; ++i)
      scalars[op.getBlock()->getArgument(i)] =
          values[op->getOperand(i)][element(i)];
    scalars[op.getBlock()->getArgument(inputs)] = result[element(inputs)];
    auto read = [&](Value value) {
      if (auto constant = value.getDefiningOp<arith::ConstantOp>())
        return cast<FloatAttr>(constant.getValue()).getValueAsDouble();
      return scalars.lookup(value);
    };
    for (Operation &inner : op.getBlock()->without_terminator()) {
      if (isa<arith::MulFOp>(inner))
        scalars[inner.getResult(0)] =
            read(inner.getOperand(0)) * read(inner.getOperand(1));
      else if (isa<arith::AddFOp>(inner))
        scalars[inner.getResult(0)] =
            read(inner.getOperand(0)) + read(inner.getOperand(1));
      else if (!isa<arith::ConstantOp>(inner))
        llvm::report_fatal_error("no meaning for " +
                                 inner.getName().getStringRef());
    }
    result[element(inputs)] =
        read(op.getBlock()->getTerminator()->getOperand(0));
  });
  values[op->getResult(0)] = result;
}

void Evaluator::evaluateSlice(tensor::ExtractSliceOp op) {
  Elements result;
  forEachIndex(op.getStaticSizes(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source;
    for (auto [i, offset, stride] :
         llvm::zip(index, op.getStaticOffsets(), op.getStaticStrides()))
      source.push_back(offset + i * stride);
    result.push_back(
        values[op.getSource()][getPosition(getShape(op.getSource()), source)]);
  });
  values[op.getResult()] = result;
}

void Evaluator::evaluate(Operation &op) {
  if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
    // Anything; but not what a result should be by accident.
    values[empty.getResult()] =
        Elements(empty.getType().getNumElements(), -12345.0);
  } else if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
    values[op.getResult(0)] = values[op.getOperand(0)];
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    evaluateSlice(slice);
  } else if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    values[fill.getResult(0)] =
        Elements(values[fill.getOutputs()[0]].size(), 0.0);
  } else if (auto loops = dyn_cast<linalg::LinalgOp>(op)) {
    evaluateLoops(loops);
  } else if (!isa<arith::ConstantOp, func::ReturnOp>(op)) {
    llvm::report_fatal_error("no meaning for " + op.getName().getStringRef());
  }
}

llvm::DenseMap<Value, Elements> test::evaluate(func::FuncOp func,
                                               std::mt19937 &random) {
  Evaluator evaluator;
  for (BlockArgument arg : func.getArguments()) {
    Elements &elements = evaluator.values[arg];
    elements.resize(cast<RankedTensorType>(arg.getType()).getNumElements());
    for (double &element : elements)
      element = double(pick(random, -9, 9));
  }
  for (Operation &op : func.getBody().front())
    evaluator.evaluate(op);
  return std::move(evaluator.values);
}

TestContext::TestContext() {
  context.loadDialect<FSDPDialect, arith::ArithDialect, func::FuncDialect,
                      linalg::LinalgDialect, tensor::TensorDialect>();
}

OwningOpRef<ModuleOp> TestContext::parse(StringRef text) {
  return parseSourceString<ModuleOp>(text, &context);
}

//===----------------------------------------------------------------------===//
// FunctionText
//===----------------------------------------------------------------------===//

int64_t test::pick(std::mt19937 &random, int64_t low, int64_t high) {
  return low + int64_t(random() % uint64_t(high - low + 1));
}

static std::string join(ArrayRef<int64_t> values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string test::mapText(unsigned loops, ArrayRef<unsigned> results) {
  std::string text = "affine_map<(";
  for (unsigned i = 0; i != loops; ++i)
    text += (i ? ", d" : "d") + std::to_string(i);
  text += ") -> (";
  for (auto [i, result] : llvm::enumerate(results))
    text += (i ? ", d" : "d") + std::to_string(result);
  return text + ")>";
}

std::string FunctionText::Tensor::type() const {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

std::string FunctionText::fresh() { return "%v" + std::to_string(count++); }

FunctionText::Tensor FunctionText::addArgument(std::vector<int64_t> shape) {
  Tensor tensor{fresh(), std::move(shape)};
  arguments +=
      (arguments.empty() ? "" : ", ") + tensor.name + ": " + tensor.type();
  return tensor;
}

FunctionText::Tensor FunctionText::add(const std::string &op,
                                       std::vector<int64_t> shape) {
  Tensor tensor{fresh(), std::move(shape)};
  body += "  " + tensor.name + " = " + op + "\n";
  return tensor;
}

FunctionText::Tensor FunctionText::addEmpty(std::vector<int64_t> shape) {
  Tensor like{"", shape};
  return add("tensor.empty() : " + like.type(), std::move(shape));
}

FunctionText::Tensor FunctionText::addFill(std::vector<int64_t> shape) {
  std::string zero = fresh();
  body += "  " + zero + " = arith.constant 0.0 : f32\n";
  Tensor empty = addEmpty(std::move(shape));
  return add("linalg.fill ins(" + zero + " : f32) outs(" + empty.name + " : " +
                 empty.type() + ") -> " + empty.type(),
             empty.shape);
}

FunctionText::Tensor FunctionText::addView(Tensor source,
                                           std::mt19937 &random) {
  int64_t rank = source.shape.size();
  auto to = [&](std::vector<int64_t> shape) {
    return Tensor{"", std::move(shape)};
  };
  switch (pick(random, 0, 4)) {
  case 0: { // Slice, perhaps without its dimensions of size 1.
    std::vector<int64_t> offsets, sizes, strides, shape;
    for (int64_t size : source.shape) {
      int64_t stride = size > 2 ? pick(random, 1, 2) : 1;
      int64_t taken = pick(random, 1, (size + stride - 1) / stride);
      if (pick(random, 0, 2) == 0)
        taken = size, stride = 1;
      sizes.push_back(taken);
      strides.push_back(stride);
      offsets.push_back(pick(random, 0, size - (taken - 1) * stride - 1));
      if (taken != 1 || pick(random, 0, 1))
        shape.push_back(taken);
    }
    return add("tensor.extract_slice " + source.name + join(offsets) + " " +
                   join(sizes) + " " + join(strides) + " : " + source.type() +
                   " to " + to(shape).type(),
               shape);
  }
  case 1: { // Collapse neighbours.
    if (rank < 2)
      break;
    int64_t at = pick(random, 0, rank - 2);
    std::string groups;
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < rank; ++i) {
      groups += groups.empty() ? "[" : ", [";
      groups += std::to_string(i);
      shape.push_back(source.shape[i]);
      if (i == at) {
        shape.back() *= source.shape[++i];
        groups += ", " + std::to_string(i);
      }
      groups += "]";
    }
    return add("tensor.collapse_shape " + source.name + " [" + groups +
                   "] : " + source.type() + " into " + to(shape).type(),
               shape);
  }
  case 2: { // Expand one.
    if (rank < 1)
      break;
    int64_t at = pick(random, 0, rank - 1), next = 0;
    std::string groups;
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < rank; ++i) {
      int64_t size = source.shape[i], factor = 1;
      for (int64_t f : {3, 2})
        if (size % f == 0 && pick(random, 0, 1))
          factor = f;
      groups += (groups.empty() ? "[" : ", [") + std::to_string(next++);
      if (i == at) {
        shape.push_back(factor);
        size /= factor;
        groups += ", " + std::to_string(next++);
      }
      shape.push_back(size);
      groups += "]";
    }
    return add("tensor.expand_shape " + source.name + " [" + groups +
                   "] output_shape " + join(shape) + " : " + source.type() +
                   " into " + to(shape).type(),
               shape);
  }
  case 3:
  case 4: { // Transpose, broadcast, or scale by a power of two.
    std::vector<unsigned> out(rank), in;
    for (int64_t i = 0; i < rank; ++i)
      out[i] = i;
    in = out;
    std::shuffle(in.begin(), in.end(), random);
    std::vector<int64_t> shape(rank);
    for (auto [dim, loop] : llvm::enumerate(in))
      shape[loop] = source.shape[dim];
    if (rank < 4 && pick(random, 0, 3) == 0) {
      out.push_back(rank);
      shape.push_back(pick(random, 2, 3));
    }
    unsigned loops = shape.size();
    Tensor empty = addEmpty(shape);
    std::string iterators, scaled;
    for (unsigned i = 0; i != loops; ++i)
      iterators += std::string(i ? ", " : "") + "\"parallel\"";
    bool scales = pick(random, 0, 3) == 0;
    return add("linalg.generic {indexing_maps = [" + mapText(loops, in) + ", " +
                   mapText(loops, out) + "], iterator_types = [" + iterators +
                   "]} ins(" + source.name + " : " + source.type() + ") outs(" +
                   empty.name + " : " + empty.type() +
                   ") {\n  ^bb0(%a: f32, %o: f32):\n" +
                   (scales ? "    %c = arith.constant 0.5 : f32\n"
                             "    %m = arith.mulf %a, %c : f32\n"
                             "    linalg.yield %m : f32\n"
                           : "    linalg.yield %a : f32\n") +
                   "  } -> " + empty.type(),
               shape);
  }
  default:
    break;
  }
  return source;
}

std::string FunctionText::str(const Tensor &result) const {
  return "func.func @f(" + arguments + ") -> " + result.type() + " {\n" + body +
         "  return " + result.name + " : " + result.type() + "\n}\n";
}
