//===- UpdateFormula.cpp - An optimizer, written as formulas --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateFormula.h"

#include "fsdp/Analysis/Contract/InputContract.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fsdp;

static constexpr StringRef kParam = "param", kGrad = "grad";

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Number Number::apply(ArrayRef<Number> operands, Create create) {
  const Number *variable = llvm::find_if(
      operands, [](const Number &it) { return it.formula != nullptr; });
  UpdateFormula &formula = *variable->formula;
  bool inElement = llvm::any_of(
      operands, [&](const Number &it) { return formula.isOfElement(it); });
  SmallVector<Value> values;
  for (const Number &operand : operands)
    values.push_back(formula.read(operand, inElement));
  OpBuilder::InsertionGuard guard(formula.builder);
  formula.builder.setInsertionPointToEnd(
      (inElement ? formula.element : formula.step).get());
  return Number(formula, create(formula.builder, formula.loc, values));
}

template <typename Op>
static Value createOp(OpBuilder &builder, Location loc, ValueRange operands) {
  return Op::create(builder, loc, operands);
}

namespace mlir::fsdp {
Number operator-(Number a) {
  if (!a.formula)
    return -a.constant;
  return Number::apply({a}, createOp<arith::NegFOp>);
}

Number operator+(Number a, Number b) {
  if (!a.formula && !b.formula)
    return a.constant + b.constant;
  return Number::apply({a, b}, createOp<arith::AddFOp>);
}

Number operator-(Number a, Number b) {
  if (!a.formula && !b.formula)
    return a.constant - b.constant;
  return Number::apply({a, b}, createOp<arith::SubFOp>);
}

Number operator*(Number a, Number b) {
  if (!a.formula && !b.formula)
    return a.constant * b.constant;
  return Number::apply({a, b}, createOp<arith::MulFOp>);
}

Number operator/(Number a, Number b) {
  if (!a.formula && !b.formula)
    return a.constant / b.constant;
  return Number::apply({a, b}, createOp<arith::DivFOp>);
}

Number sqrt(Number a) {
  if (!a.formula)
    return std::sqrt(a.constant);
  return Number::apply({a}, createOp<math::SqrtOp>);
}

Number abs(Number a) {
  if (!a.formula)
    return std::fabs(a.constant);
  return Number::apply({a}, createOp<math::AbsFOp>);
}

Number pow(Number base, Number exponent) {
  if (!base.formula && !exponent.formula)
    return std::pow(base.constant, exponent.constant);
  return Number::apply({base, exponent}, createOp<math::PowFOp>);
}

Number max(Number a, Number b) {
  if (!a.formula && !b.formula)
    return std::isnan(a.constant) || a.constant > b.constant ? a : b;
  return Number::apply({a, b}, createOp<arith::MaximumFOp>);
}

Number isGreater(Number a, Number b) {
  if (!a.formula && !b.formula)
    return a.constant > b.constant;
  return Number::apply(
      {a, b}, [](OpBuilder &builder, Location loc, ValueRange v) -> Value {
        return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT,
                                     v[0], v[1]);
      });
}

Number select(Number condition, Number a, Number b) {
  if (!condition.formula)
    return condition.constant != 0 ? a : b;
  return Number::apply({condition, a, b}, createOp<arith::SelectOp>);
}
} // namespace mlir::fsdp

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

UpdateFormula::UpdateFormula(OpBuilder &builder, Location loc)
    : builder(builder.getContext()), loc(loc), f32(builder.getF32Type()),
      f64(builder.getF64Type()),
      flat(RankedTensorType::get({ShapedType::kDynamic}, f32)),
      scalar(RankedTensorType::get({}, f32)),
      constants(std::make_unique<Block>()), step(std::make_unique<Block>()),
      element(std::make_unique<Block>()) {
  add(kParam, OptimizerRole::Param, 0, flat);
  add(kGrad, OptimizerRole::Grad, 0, flat);
}

bool UpdateFormula::isOfElement(const Number &number) const {
  return number.formula &&
         Value(number.value).getParentBlock() == element.get();
}

Value UpdateFormula::getConstant(double value, FloatType type) {
  FloatAttr attr = builder.getFloatAttr(type, value);
  Value &constant = known[attr];
  if (!constant) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(constants.get());
    constant = arith::ConstantOp::create(builder, loc, attr);
  }
  return constant;
}

Value UpdateFormula::convert(Value ofStep, FloatType type) {
  if (ofStep.getType() == type || !isa<FloatType>(ofStep.getType()))
    return ofStep;
  Value &result = casts[{ofStep, type}];
  if (result)
    return result;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(step.get());
  if (type == f64)
    return result = arith::ExtFOp::create(builder, loc, type, ofStep);
  return result = arith::TruncFOp::create(builder, loc, type, ofStep);
}

Value UpdateFormula::import(Value ofStep) {
  Value rounded = convert(ofStep, f32);
  BlockArgument &argument = imports[rounded];
  if (!argument)
    argument = element->addArgument(rounded.getType(), loc);
  return argument;
}

Value UpdateFormula::read(const Number &number, bool inElement) {
  if (!number.formula)
    return getConstant(number.constant, inElement ? f32 : f64);
  if (isOfElement(number))
    return number.value;
  return inElement ? import(number.value) : convert(number.value, f64);
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

Number UpdateFormula::add(StringRef name, OptimizerRole role, double init,
                          RankedTensorType type) {
  Block &body = type.getRank() == 0 ? *step : *element;
  BlockArgument read = body.addArgument(type.getElementType(), loc);
  arguments.insert({name, {role, init, type, read}});
  return Number(*this, read);
}

Number UpdateFormula::getParam() {
  return Number(*this, arguments.find(kParam)->second.read);
}

Number UpdateFormula::getGrad() {
  return Number(*this, arguments.find(kGrad)->second.read);
}

Number UpdateFormula::addState(StringRef name, double init) {
  return add(name, OptimizerRole::State, init, flat);
}

Number UpdateFormula::addStepState(StringRef name, double init) {
  return add(name, OptimizerRole::State, init, scalar);
}

Number UpdateFormula::addScalar(StringRef name, FloatType type,
                                double initial) {
  return add(name, OptimizerRole::Scalar, initial,
             RankedTensorType::get({}, type));
}

Number UpdateFormula::setState(StringRef name, Number value) {
  Argument &state = arguments.find(name)->second;
  if (state.type.getRank() == 0)
    state.written = convert(read(value, /*inElement=*/false), f32);
  else
    state.written = read(value, /*inElement=*/true);
  return Number(*this, state.written);
}

void UpdateFormula::setParam(Number value) {
  arguments.find(kParam)->second.written = read(value, /*inElement=*/true);
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

DictionaryAttr UpdateFormula::getRole(StringRef name, const Argument &argument,
                                      bool isRead) {
  NamedAttrList entries;
  entries.set("role",
              builder.getStringAttr(stringifyOptimizerRole(argument.role)));
  entries.set("name", builder.getStringAttr(name));
  if (isRead && argument.role == OptimizerRole::State)
    entries.set("init", FloatAttr::get(f64, argument.init));
  if (isRead && argument.role == OptimizerRole::Scalar)
    entries.set("default", FloatAttr::get(f64, argument.init));
  return builder.getDictionaryAttr(builder.getNamedAttr(
      names::kOptimizerRole, entries.getDictionary(builder.getContext())));
}

/// Removes ops, from the last on, that nothing reads.
static void eraseDead(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

SmallVector<BlockArgument> UpdateFormula::finish(Block &body,
                                                 ValueRange written) {
  builder.setInsertionPointToEnd(&body);
  linalg::YieldOp::create(builder, loc, written);
  eraseDead(body);
  return llvm::to_vector(llvm::make_filter_range(
      body.getArguments(), [](BlockArgument it) { return !it.use_empty(); }));
}

/// A generic op of @rank parallel loops with @body, which reads @inputs by the
/// arguments @reads; other arguments have no uses.
static linalg::GenericOp createGeneric(OpBuilder &builder, Location loc,
                                       std::unique_ptr<Block> body,
                                       ArrayRef<BlockArgument> reads,
                                       ValueRange inputs, ValueRange size) {
  int64_t rank = size.size();
  AffineMap all = builder.getMultiDimIdentityMap(rank);
  AffineMap one = AffineMap::get(rank, 0, builder.getContext());
  SmallVector<AffineMap> maps;
  for (Value input : inputs)
    maps.push_back(cast<RankedTensorType>(input.getType()).getRank() ? all
                                                                     : one);
  SmallVector<Value> outputs;
  SmallVector<Type> types;
  SmallVector<int64_t> shape(rank, ShapedType::kDynamic);
  for (Value result : body->getTerminator()->getOperands()) {
    types.push_back(RankedTensorType::get(shape, result.getType()));
    outputs.push_back(
        tensor::EmptyOp::create(builder, loc, types.back(), size));
    maps.push_back(all);
  }
  // In the order of the inputs, then one for each output.
  unsigned before = body->getNumArguments();
  for (BlockArgument read : reads)
    read.replaceAllUsesWith(body->addArgument(read.getType(), loc));
  for (Type type : types)
    body->addArgument(cast<RankedTensorType>(type).getElementType(), loc);
  body->eraseArguments(0, before);
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  auto op = linalg::GenericOp::create(builder, loc, types, inputs, outputs,
                                      maps, iterators);
  op.getRegion().push_back(body.release());
  return op;
}

func::FuncOp UpdateFormula::createFunction() {
  SmallVector<Type> types, resultTypes;
  SmallVector<DictionaryAttr> roles, resultRoles;
  for (auto &[name, argument] : arguments) {
    types.push_back(argument.type);
    roles.push_back(getRole(name, argument, /*isRead=*/true));
    if (!argument.isWritten())
      continue;
    resultTypes.push_back(argument.type);
    resultRoles.push_back(getRole(name, argument, /*isRead=*/false));
  }
  builder.clearInsertionPoint();
  auto func = func::FuncOp::create(builder, loc, names::kOptimizer,
                                   builder.getFunctionType(types, resultTypes));
  func.setAllArgAttrs(roles);
  func.setAllResultAttrs(resultRoles);
  Block *entry = func.addEntryBlock();
  entry->getOperations().splice(entry->end(), constants->getOperations());
  return func;
}

func::FuncOp UpdateFormula::create() {
  // Scalars come last.
  auto all = arguments.takeVector();
  for (bool isScalar : {false, true})
    for (auto &it : all)
      if ((it.second.role == OptimizerRole::Scalar) == isScalar)
        arguments.insert(it);
  SmallVector<Value> ofElement, ofStep;
  for (auto &[name, argument] : arguments) {
    if (!argument.isWritten())
      continue;
    assert(argument.written && "expected a new value for each state");
    (argument.type.getRank() ? ofElement : ofStep).push_back(argument.written);
  }
  SmallVector<BlockArgument> elementReads = finish(*element, ofElement);
  imports.remove_if([](auto &it) { return it.second.use_empty(); });
  // What elements read of the step are results of its body, but for arguments.
  SmallVector<BlockArgument> computed;
  for (auto &[value, argument] : imports)
    if (!isa<BlockArgument>(value)) {
      ofStep.push_back(value);
      computed.push_back(argument);
    }
  SmallVector<BlockArgument> stepReads = finish(*step, ofStep);
  eraseDead(*constants);

  func::FuncOp func = createFunction();
  builder.setInsertionPointToEnd(&func.getBody().front());
  // By the arguments of bodies, which are gone once a body is an op's.
  llvm::DenseMap<BlockArgument, Value> tensors;
  for (auto [it, tensor] : llvm::zip_equal(arguments, func.getArguments()))
    tensors[it.second.read] = tensor;
  for (auto &[value, argument] : imports)
    if (auto read = dyn_cast<BlockArgument>(value))
      tensors[argument] = tensors.lookup(read);
  auto getTensors = [&](ArrayRef<BlockArgument> reads) {
    return llvm::map_to_vector(
        reads, [&](BlockArgument it) { return tensors.lookup(it); });
  };
  ValueRange stepResults;
  if (!ofStep.empty())
    stepResults = createGeneric(builder, loc, std::move(step), stepReads,
                                getTensors(stepReads), /*size=*/{})
                      .getResults();
  for (auto [argument, tensor] :
       llvm::zip(computed, stepResults.take_back(computed.size())))
    tensors[argument] = tensor;
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value size = tensor::DimOp::create(builder, loc, func.getArgument(0), zero);
  ValueRange elementResults =
      createGeneric(builder, loc, std::move(element), elementReads,
                    getTensors(elementReads), size)
          .getResults();

  SmallVector<Value> results;
  for (Type type : func.getResultTypes()) {
    ValueRange &next =
        cast<RankedTensorType>(type).getRank() ? elementResults : stepResults;
    results.push_back(next.front());
    next = next.drop_front();
  }
  func::ReturnOp::create(builder, loc, results);
  return func;
}
