//===- InputContract.cpp - Reading and checking L0 ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rules carry the labels of docs/input-contract.md (input_c1, ...).
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepStructure.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {

/// Reads the arguments and results of one function. Errors are emitted at the
/// function, counted, and cut off: one broken exporter breaks every argument.
class StepReader {
public:
  explicit StepReader(func::FuncOp func) { step.func = func; }

  FailureOr<TracedStep> read();

private:
  InFlightDiagnostic error(const Twine &message) {
    ++errors;
    return step.func.emitError(message);
  }
  bool tooMany() const { return errors >= 5; }

  void readArgument(BlockArgument arg);
  void readResult(unsigned index, DictionaryAttr attrs);
  void readModules();
  void checkWhole();

  /// The entry `key` of `dict`, which must be a T.
  template <typename T>
  T get(DictionaryAttr dict, StringRef key, const Twine &where) {
    auto value = dict.getAs<T>(key);
    if (!value)
      error("input_c3: expected ")
          << where.str() << " with an entry '" << key << "' of the right kind, "
          << "got " << dict;
    return value;
  }
  bool claimName(StringRef name, StringRef where);

  TracedStep step;
  llvm::StringMap<unsigned> paramIndex, bufferIndex;
  llvm::StringMap<StringRef> claimed;
  std::optional<unsigned> loss;
  unsigned errors = 0;
};

} // namespace

bool StepReader::claimName(StringRef name, StringRef where) {
  auto [it, fresh] = claimed.try_emplace(name, where);
  if (!fresh)
    error("input_c4: expected names used once, got '")
        << name << "' as " << where << " after " << it->second;
  return fresh;
}

void StepReader::readArgument(BlockArgument arg) {
  unsigned index = arg.getArgNumber();
  std::string where = "argument #" + std::to_string(index);
  // input_c2
  auto type = dyn_cast<RankedTensorType>(arg.getType());
  DictionaryAttr attrs = step.func.getArgAttrDict(index);
  auto entry = [&](StringRef key) {
    return attrs ? attrs.getAs<DictionaryAttr>(key) : DictionaryAttr();
  };
  DictionaryAttr param = entry(names::kParam), buffer = entry(names::kBuffer),
                 input = entry(names::kInput);
  if (!!param + !!buffer + !!input != 1) {
    error("input_c2: expected ")
        << where << " with one of fsdp.param, fsdp.buffer and fsdp.input, got "
        << (attrs ? Attribute(attrs)
                  : Attribute(DictionaryAttr::get(step.func.getContext())));
    return;
  }
  StringRef key = param ? "fqn" : buffer ? "fqn" : "name";
  auto name = get<StringAttr>(param    ? param
                              : buffer ? buffer
                                       : input,
                              key, where);
  if (!name)
    return;
  // input_c5
  if (!type || !type.hasStaticShape()) {
    error("input_c5: expected a tensor of static shape for ")
        << where << " (" << name << "), got " << arg.getType();
    return;
  }
  if (!claimName(name.getValue(), param    ? "a parameter"
                                  : buffer ? "a buffer"
                                           : "an input"))
    return;

  if (param) {
    ParamInfo info;
    info.arg = arg;
    info.fqn = name;
    info.tied = param.getAs<ArrayAttr>("tied");
    info.init = param.get("init");
    if (auto flag = param.getAs<BoolAttr>("requires_grad"))
      info.requiresGrad = flag.getValue();
    if (auto flag = param.getAs<BoolAttr>("unused"))
      info.unused = flag.getValue();
    if (!isa<FloatType>(type.getElementType()))
      error("input_c6: expected float elements for parameter ")
          << name << ", got " << type;
    if (param.contains("placement"))
      error("input_c7: expected a parameter without a placement of its own, "
            "got one for ")
          << name << " (other parallelism inside a step is not supported yet)";
    if (info.tied)
      for (Attribute tied : info.tied) {
        auto tiedName = dyn_cast<StringAttr>(tied);
        if (!tiedName)
          error("input_c3: expected names in 'tied' of ")
              << name << ", got " << tied;
        else
          claimName(tiedName.getValue(), "a tied name");
      }
    paramIndex[name.getValue()] = step.params.size();
    step.params.push_back(info);
    return;
  }
  if (buffer) {
    bufferIndex[name.getValue()] = step.buffers.size();
    step.buffers.push_back({arg, name, buffer.get("init"), std::nullopt});
    return;
  }
  InputInfo info{arg, name, std::nullopt, std::nullopt};
  if (auto low = input.getAs<IntegerAttr>("low"))
    info.low = low.getInt();
  if (auto high = input.getAs<IntegerAttr>("high"))
    info.high = high.getInt();
  if (info.low && info.high && *info.low >= *info.high)
    error("input_c8: expected low < high for input ")
        << name << ", got " << *info.low << " and " << *info.high;
  step.inputs.push_back(info);
}

void StepReader::readResult(unsigned index, DictionaryAttr attrs) {
  std::string where = "result #" + std::to_string(index);
  auto type = step.func.getResultTypes()[index];
  auto named = [&](StringRef key) -> StringAttr {
    auto dict = attrs ? attrs.getAs<DictionaryAttr>(key) : DictionaryAttr();
    return dict ? get<StringAttr>(dict, "fqn", where) : StringAttr();
  };
  if (attrs && attrs.contains(names::kLoss)) {
    // input_c9
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getRank() != 0 ||
        !isa<FloatType>(tensor.getElementType()))
      error("input_c9: expected a loss of rank 0 with a float element, got ")
          << type;
    if (loss)
      error("input_c9: expected one loss, got ") << where << " as another";
    loss = index;
    return;
  }
  if (StringAttr fqn = named(names::kGrad)) {
    // input_c10
    auto it = paramIndex.find(fqn.getValue());
    if (it == paramIndex.end()) {
      error("input_c10: expected the gradient of a parameter, got ")
          << where << " for " << fqn;
      return;
    }
    ParamInfo &param = step.params[it->second];
    if (param.grad)
      error("input_c10: expected one gradient of ") << fqn << ", got another";
    if (type != param.arg.getType())
      error("input_c10: expected a gradient of ")
          << param.arg.getType() << " for " << fqn << ", got " << type;
    if (!param.requiresGrad || param.unused)
      error("input_c10: expected no gradient of ")
          << fqn << ", which is frozen or unused";
    param.grad = index;
    return;
  }
  if (StringAttr fqn = named(names::kBufferUpdate)) {
    // input_c11
    auto it = bufferIndex.find(fqn.getValue());
    if (it == bufferIndex.end()) {
      error("input_c11: expected the update of a buffer, got ")
          << where << " for " << fqn;
      return;
    }
    BufferInfo &buffer = step.buffers[it->second];
    if (buffer.update)
      error("input_c11: expected one update of ") << fqn << ", got another";
    if (type != buffer.arg.getType())
      error("input_c11: expected an update of ")
          << buffer.arg.getType() << " for " << fqn << ", got " << type;
    buffer.update = index;
    return;
  }
  error("input_c2: expected ")
      << where << " with one of fsdp.loss, fsdp.grad and fsdp.buffer_update";
}

void StepReader::readModules() {
  auto module = step.func->getParentOfType<ModuleOp>();
  Attribute attr = module->getAttr(names::kModules);
  if (!attr)
    return;
  // input_c12
  auto list = dyn_cast<ArrayAttr>(attr);
  if (!list) {
    error("input_c12: expected a list in fsdp.modules, got ") << attr;
    return;
  }
  for (Attribute entry : list) {
    auto dict = dyn_cast<DictionaryAttr>(entry);
    auto fqn = dict ? dict.getAs<StringAttr>("fqn") : StringAttr();
    auto className = dict ? dict.getAs<StringAttr>("class") : StringAttr();
    if (!fqn || !className) {
      error("input_c12: expected {fqn, class} in fsdp.modules, got ") << entry;
      return;
    }
    step.modules.push_back({fqn.getValue(), className.getValue()});
  }
}

void StepReader::checkWhole() {
  // input_c9
  if (!loss)
    error("input_c9: expected a result with fsdp.loss, got none");
  else
    step.loss = *loss;
  // input_c10
  for (ParamInfo &param : step.params) {
    if (tooMany())
      return;
    if (param.requiresGrad && !param.unused && !param.grad)
      error("input_c10: expected a gradient of parameter ")
          << param.fqn << ", got none";
  }
  if (step.params.empty())
    error("input_c2: expected at least one parameter, got none");
}

FailureOr<TracedStep> StepReader::read() {
  func::FuncOp func = step.func;
  // input_c1
  if (func.isExternal() || !func.getBody().hasOneBlock()) {
    error("input_c1: expected a body of one block in @forward_backward, got ")
        << func.getBody().getBlocks().size();
    return failure();
  }
  for (BlockArgument arg : func.getArguments())
    if (!tooMany())
      readArgument(arg);
  for (unsigned i = 0, e = func.getNumResults(); i != e; ++i)
    if (!tooMany())
      readResult(i, func.getResultAttrDict(i));
  readModules();
  if (!tooMany())
    checkWhole();
  if (errors)
    return failure();
  return step;
}

FailureOr<TracedStep> fsdp::readTracedStep(ModuleOp module) {
  // input_c1
  auto func = module.lookupSymbol<func::FuncOp>(names::kForwardBackward);
  if (!func)
    return module.emitError(
        "input_c1: expected a function @forward_backward, got none");
  return StepReader(func).read();
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

static std::optional<OptimizerRole> parseRole(StringRef role) {
  if (role == "param")
    return OptimizerRole::Param;
  if (role == "grad")
    return OptimizerRole::Grad;
  if (role == "state")
    return OptimizerRole::State;
  if (role == "scalar")
    return OptimizerRole::Scalar;
  return std::nullopt;
}

static FailureOr<OptimizerValue> readValue(func::FuncOp func, Type type,
                                           DictionaryAttr attrs,
                                           const Twine &where) {
  auto dict = attrs ? attrs.getAs<DictionaryAttr>(names::kOptimizerRole)
                    : DictionaryAttr();
  auto role = dict ? dict.getAs<StringAttr>("role") : StringAttr();
  auto name = dict ? dict.getAs<StringAttr>("name") : StringAttr();
  std::optional<OptimizerRole> parsed =
      role ? parseRole(role.getValue()) : std::nullopt;
  // optimizer_c2
  if (!parsed || !name)
    return func.emitError("optimizer_c2: expected ")
           << where
           << " of @optimizer with fsdp.optimizer = {role, name}, role being "
              "param, grad, state or scalar";
  // optimizer_c3
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool flat = tensor && tensor.getRank() == 1 && tensor.isDynamicDim(0);
  bool scalar = tensor && tensor.getRank() == 0;
  bool mayBeScalar =
      *parsed == OptimizerRole::State || *parsed == OptimizerRole::Scalar;
  if (!(flat && *parsed != OptimizerRole::Scalar) && !(scalar && mayBeScalar))
    return func.emitError("optimizer_c3: expected a flat tensor of dynamic "
                          "size (or a state or scalar of rank 0) for ")
           << where << " of @optimizer (" << name << "), got " << type;
  FloatAttr init = dict.getAs<FloatAttr>("init");
  if (!init)
    init = dict.getAs<FloatAttr>("default");
  return OptimizerValue{*parsed, name, tensor, init};
}

/// A tensor with one element per parameter element.
static bool isFlat(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && !tensor.hasStaticShape();
}

/// Whether each element of what `op` computes comes from the same element of
/// each flat tensor it reads. Only then may a rank apply the optimizer to its
/// piece of a flat parameter: a sum over the piece, for example, is no sum over
/// the parameter.
static bool isElementwiseOnFlat(Operation &op) {
  SmallVector<Value> read = getReadValues(&op);
  if (isa<tensor::DimOp, tensor::CastOp>(op) || llvm::none_of(read, isFlat))
    return true;
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    auto isElementwise = [&](Value value) {
      if (!isFlat(value))
        return true;
      auto operands = llvm::make_filter_range(
          op.getOpOperands(), [&](OpOperand &o) { return o.get() == value; });
      return !operands.empty() && llvm::all_of(operands, [&](OpOperand &o) {
        return linalgOp.getMatchingIndexingMap(&o).isIdentity();
      });
    };
    return linalgOp.getNumLoops() == linalgOp.getNumParallelLoops() &&
           !linalgOp.hasIndexSemantics() && llvm::all_of(read, isElementwise);
  }
  // Of ops that nobody here knows, their types must tell.
  bool isForeign = !op.isRegistered();
  return (isForeign || OpTrait::hasElementwiseMappableTraits(&op)) &&
         llvm::all_of(op.getResults(), isFlat);
}

FailureOr<OptimizerFunction> fsdp::readOptimizer(func::FuncOp func) {
  OptimizerFunction optimizer;
  optimizer.func = func;
  // optimizer_c1
  if (func.isExternal() || !func.getBody().hasOneBlock())
    return func.emitError("optimizer_c1: expected a body of one block in "
                          "@optimizer");
  for (auto [index, type] : llvm::enumerate(func.getArgumentTypes())) {
    auto value = readValue(func, type, func.getArgAttrDict(index),
                           "argument #" + Twine(index));
    if (failed(value))
      return failure();
    optimizer.args.push_back(*value);
  }
  for (auto [index, type] : llvm::enumerate(func.getResultTypes())) {
    auto value = readValue(func, type, func.getResultAttrDict(index),
                           "result #" + Twine(index));
    if (failed(value))
      return failure();
    optimizer.results.push_back(*value);
  }
  // optimizer_c4
  auto count = [](ArrayRef<OptimizerValue> values, OptimizerRole role) {
    return llvm::count_if(values, [&](auto &v) { return v.role == role; });
  };
  if (count(optimizer.args, OptimizerRole::Param) != 1 ||
      count(optimizer.args, OptimizerRole::Grad) != 1 ||
      count(optimizer.results, OptimizerRole::Param) != 1)
    return func.emitError("optimizer_c4: expected @optimizer to take one param "
                          "and one grad and to return one param");
  // optimizer_c5
  for (OptimizerValue &result : optimizer.results) {
    auto *arg = llvm::find_if(optimizer.args, [&](OptimizerValue &a) {
      return a.role == result.role &&
             (a.role == OptimizerRole::Param || a.name == result.name);
    });
    if (arg == optimizer.args.end() || arg->type != result.type)
      return func.emitError("optimizer_c5: expected result ")
             << result.name
             << " of @optimizer to be an argument of the same role, name and "
                "type";
  }
  if (count(optimizer.args, OptimizerRole::State) !=
      count(optimizer.results, OptimizerRole::State))
    return func.emitError(
        "optimizer_c5: expected @optimizer to return every state it takes");
  // optimizer_c6
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (isElementwiseOnFlat(op))
      continue;
    InFlightDiagnostic diag = func.emitError(
        "optimizer_c6: expected @optimizer to be elementwise on flat tensors, "
        "got ");
    diag << op.getName();
    diag.attachNote(op.getLoc()) << "it is here";
    return diag;
  }
  return optimizer;
}

FailureOr<OptimizerFunction> fsdp::readOptimizer(ModuleOp module) {
  auto func = module.lookupSymbol<func::FuncOp>(names::kOptimizer);
  if (!func)
    return module.emitError(
        "optimizer_c1: expected a function @optimizer, got none");
  return readOptimizer(func);
}
