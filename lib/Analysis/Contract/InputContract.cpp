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

#include "fsdp/Analysis/Contract/InputContract.h"
#include "Initialiser.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fsdp;

InFlightDiagnostic fsdp::emitInputError(Operation *op, const Twine &message) {
  Location place = UnknownLoc::get(op->getContext());
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    place = file;
  return mlir::emitError(place, message);
}

namespace {

/// Reads the arguments and results of one function. Errors are emitted at the
/// function, counted, and cut off: one broken exporter breaks every argument.
class StepReader {
public:
  StepReader(func::FuncOp func, ProgramKind kind, StringRef name) {
    step.func = func;
    step.kind = kind;
    step.name = name;
  }

  FailureOr<TracedStep> read();

private:
  InFlightDiagnostic error(const Twine &message) {
    ++errors;
    return emitInputError(step.func, message);
  }
  bool tooMany() const { return errors >= 5; }

  void readArgument(BlockArgument arg);
  void readResult(unsigned index, DictionaryAttr attrs);
  void readModules();
  void checkWhole();

  /// The entry `key` of `dict`, null where there is none; an error where it is
  /// not a T.
  template <typename T>
  T get(DictionaryAttr dict, StringRef key, const Twine &where) {
    Attribute value = dict.get(key);
    auto typed = dyn_cast_or_null<T>(value);
    if (value && !typed)
      error("input_c3: expected ") << where << " with " << getKind(T())
                                   << " in '" << key << "', got " << value;
    return typed;
  }
  static StringRef getKind(StringAttr) { return "a string"; }
  static StringRef getKind(BoolAttr) { return "true or false"; }
  static StringRef getKind(IntegerAttr) { return "an integer"; }
  static StringRef getKind(ArrayAttr) { return "a list"; }
  static StringRef getKind(DenseI64ArrayAttr) { return "array<i64: ...>"; }

  StringAttr getName(DictionaryAttr dict, StringRef key, const Twine &where);
  ArrayAttr getTied(DictionaryAttr dict, StringAttr name);
  void checkEntries(DictionaryAttr dict, ArrayRef<StringRef> known,
                    const Twine &where);
  void checkInit(Attribute init, RankedTensorType type, StringAttr name,
                 bool isUnsigned = false);
  bool isUnsigned(DictionaryAttr dict, RankedTensorType type, StringAttr name);
  void readParam(BlockArgument arg, DictionaryAttr param, StringAttr name);
  void readBuffer(BlockArgument arg, DictionaryAttr buffer, StringAttr name);
  void readInput(BlockArgument arg, DictionaryAttr input, StringAttr name);
  void readShift(DictionaryAttr input, StringAttr name);
  void readValues(InputInfo &info, DictionaryAttr input);
  void readGrad(unsigned index, StringAttr fqn);
  void readUpdate(unsigned index, StringAttr fqn);
  void readOutput(unsigned index, DictionaryAttr output);
  bool claimName(StringRef name, StringRef where);

  TracedStep step;
  llvm::StringMap<unsigned> paramIndex, bufferIndex;
  llvm::StringMap<StringRef> claimed;
  llvm::StringSet<> outputNames;
  unsigned errors = 0;
};

} // namespace

bool StepReader::claimName(StringRef name, StringRef where) {
  // input_c4
  auto [it, fresh] = claimed.try_emplace(name, where);
  if (!fresh)
    error("input_c4: expected names used once, got '")
        << name << "' as " << where << " after " << it->second;
  return fresh;
}

/// The name that makes an entry what it is; null, with an error, where it is
/// missing.
StringAttr StepReader::getName(DictionaryAttr dict, StringRef key,
                               const Twine &where) {
  unsigned before = errors;
  auto name = get<StringAttr>(dict, key, where);
  if (name && !name.empty())
    return name;
  if (errors == before)
    error("input_c3: expected ")
        << where << " with a name in '" << key << "', got " << dict;
  return {};
}

ArrayAttr StepReader::getTied(DictionaryAttr dict, StringAttr name) {
  auto tied = get<ArrayAttr>(dict, "tied", name.getValue());
  if (!tied)
    return {};
  for (Attribute entry : tied) {
    auto tiedName = dyn_cast<StringAttr>(entry);
    if (tiedName && !tiedName.empty())
      claimName(tiedName.getValue(), "a tied name");
    else
      error("input_c3: expected names in 'tied' of ")
          << name << ", got " << entry;
  }
  return tied;
}

/// A misspelt entry would otherwise be ignored without a word.
void StepReader::checkEntries(DictionaryAttr dict, ArrayRef<StringRef> known,
                              const Twine &where) {
  for (NamedAttribute entry : dict)
    if (!llvm::is_contained(known, entry.getName().getValue()))
      error("input_c3: expected ")
          << where << " with entries among " << llvm::join(known, ", ")
          << ", got " << entry.getName();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void StepReader::readArgument(BlockArgument arg) {
  unsigned index = arg.getArgNumber();
  std::string where = "argument #" + std::to_string(index);
  DictionaryAttr attrs = step.func.getArgAttrDict(index);
  auto entry = [&](StringRef key) {
    return attrs ? attrs.getAs<DictionaryAttr>(key) : DictionaryAttr();
  };
  DictionaryAttr param = entry(names::kParam), buffer = entry(names::kBuffer),
                 input = entry(names::kInput);
  // input_c2
  if (!!param + !!buffer + !!input != 1) {
    error("input_c2: expected ")
        << where << " with one of fsdp.param, fsdp.buffer and fsdp.input, got "
        << (attrs ? Attribute(attrs)
                  : Attribute(DictionaryAttr::get(step.func.getContext())));
    return;
  }
  // input_c3
  StringAttr name = input ? getName(input, "name", where)
                          : getName(param ? param : buffer, "fqn", where);
  if (!name)
    return;
  // input_c5
  auto type = dyn_cast<RankedTensorType>(arg.getType());
  if (!type || !type.hasStaticShape()) {
    error("input_c5: expected a tensor of static shape for ")
        << where << " (" << name << "), got " << arg.getType();
    return;
  }
  if (!isOfCountableRank(type)) {
    error("input_c5: expected a tensor of at most ")
        << kMostRank << " dimensions for " << where << " (" << name << "), got "
        << type.getRank();
    return;
  }
  if (!isOfCountableBytes(type)) {
    error("input_c5: expected a tensor of at most ")
        << kMostTensorBytes << " bytes for " << where << " (" << name
        << "), got " << type;
    return;
  }
  if (!claimName(name.getValue(), param    ? "a parameter"
                                  : buffer ? "a buffer"
                                           : "an input"))
    return;
  // input_c6
  Type element = type.getElementType();
  if (param && !isStoredFloat(element))
    error("input_c6: expected f32, f64, f16 or bf16 elements for parameter ")
        << name << ", got " << type;
  else if (!isStoredFloat(element) && !isStoredInteger(element))
    error("input_c6: expected f32, f64, f16, bf16, i1, i8, i16, i32 or i64 "
          "elements for ")
        << name << ", got " << type;
  else if (param)
    readParam(arg, param, name);
  else if (buffer)
    readBuffer(arg, buffer, name);
  else
    readInput(arg, input, name);
}

void StepReader::readParam(BlockArgument arg, DictionaryAttr param,
                           StringAttr name) {
  checkEntries(param,
               {"fqn", "tied", "init", "requires_grad", "unused", "placement"},
               name.getValue());
  ParamInfo info;
  info.arg = arg;
  info.fqn = name;
  info.tied = getTied(param, name);
  info.init = param.get("init");
  checkInit(info.init, info.getType(), name);
  if (auto flag = get<BoolAttr>(param, "requires_grad", name.getValue()))
    info.requiresGrad = flag.getValue();
  if (auto flag = get<BoolAttr>(param, "unused", name.getValue()))
    info.unused = flag.getValue();
  // input_c7
  if (param.contains("placement"))
    error("input_c7: expected a parameter without a placement of its own, "
          "got one for ")
        << name << " (other parallelism inside a step is not supported yet)";
  paramIndex[name.getValue()] = step.params.size();
  step.params.push_back(info);
}

void StepReader::readBuffer(BlockArgument arg, DictionaryAttr buffer,
                            StringAttr name) {
  checkEntries(buffer, {"fqn", "tied", "init", "unsigned"}, name.getValue());
  getTied(buffer, name);
  Attribute init = buffer.get("init");
  auto type = cast<RankedTensorType>(arg.getType());
  checkInit(init, type, name, isUnsigned(buffer, type, name));
  bufferIndex[name.getValue()] = step.buffers.size();
  step.buffers.push_back({arg, name, init, std::nullopt});
}

/// Whether the argument's bytes carry no sign.
bool StepReader::isUnsigned(DictionaryAttr dict, RankedTensorType type,
                            StringAttr name) {
  auto flag = get<BoolAttr>(dict, "unsigned", name.getValue());
  if (!flag || !flag.getValue())
    return false;
  // input_c6
  if (!type.getElementType().isSignlessInteger(8))
    error("input_c6: expected i8 elements where 'unsigned' stands, for ")
        << name << ", got " << type;
  return true;
}

/// Elements of a data file, as many as the runtime counts.
static constexpr int64_t kMostShift = int64_t(1) << 60;

void StepReader::readInput(BlockArgument arg, DictionaryAttr input,
                           StringAttr name) {
  checkEntries(input,
               {"name", "low", "high", "allowed", "draw", "shift", "unsigned"},
               name.getValue());
  isUnsigned(input, cast<RankedTensorType>(arg.getType()), name);
  InputInfo info{arg, name, std::nullopt, std::nullopt, {}, std::nullopt};
  if (auto low = get<IntegerAttr>(input, "low", name.getValue()))
    info.low = low.getInt();
  if (auto high = get<IntegerAttr>(input, "high", name.getValue()))
    info.high = high.getInt();
  readShift(input, name);
  // input_c8
  Type type = arg.getType();
  if ((info.low || info.high) && !isStoredInteger(getElementTypeOrSelf(type)))
    error("input_c8: expected bounds on integers only, got some on input ")
        << name << " of " << type;
  if (info.low && info.high && *info.low >= *info.high)
    error("input_c8: expected low < high for input ")
        << name << ", got " << *info.low << " and " << *info.high;
  readValues(info, input);
  step.inputs.push_back(info);
}

void StepReader::readShift(DictionaryAttr input, StringAttr name) {
  Attribute value = input.get("shift");
  auto text = dyn_cast_or_null<StringAttr>(value);
  if (!value || (text && text.getValue() == "unknown"))
    return;
  auto shift = dyn_cast<IntegerAttr>(value);
  if (!shift)
    error("input_c3: expected an integer or \"unknown\" as the shift of input ")
        << name << ", got " << value;
  else if (shift.getInt() < 0 || shift.getInt() > kMostShift)
    error("input_c3: expected a shift from 0 to ")
        << kMostShift << " for input " << name << ", got " << shift.getInt();
}

/// Reads "allowed" and "draw".
void StepReader::readValues(InputInfo &info, DictionaryAttr input) {
  Type type = getElementTypeOrSelf(info.arg.getType());
  auto allowed = get<DenseI64ArrayAttr>(input, "allowed", info.name.getValue());
  auto draw = get<DenseI64ArrayAttr>(input, "draw", info.name.getValue());
  if (!allowed && !draw)
    return;
  // input_c8
  if (!isStoredInteger(type)) {
    error("input_c8: expected bounds on integers only, got some on input ")
        << info.name << " of " << info.arg.getType();
    return;
  }
  if (allowed)
    info.allowed.assign(allowed.asArrayRef().begin(),
                        allowed.asArrayRef().end());
  if (!draw)
    return;
  ArrayRef<int64_t> ends = draw.asArrayRef();
  if (ends.size() != 2 || ends[0] >= ends[1]) {
    error("input_c8: expected draw = array<i64: low, high> with low < high for "
          "input ")
        << info.name << ", got " << draw;
    return;
  }
  if ((info.low && ends[0] < *info.low) || (info.high && ends[1] > *info.high))
    error("input_c8: expected to draw within the bounds of input ")
        << info.name << ", got " << draw;
  info.draw = {ends[0], ends[1]};
}

//===----------------------------------------------------------------------===//
// Initialisers
//===----------------------------------------------------------------------===//

void StepReader::checkInit(Attribute init, RankedTensorType type,
                           StringAttr name, bool isUnsigned) {
  if (!init)
    return;
  auto dict = dyn_cast<DictionaryAttr>(init);
  auto kindAttr = dict ? dict.getAs<StringAttr>("kind") : StringAttr();
  StringRef kind = kindAttr ? kindAttr.getValue() : StringRef();
  auto fail = [&](const Twine &expected) {
    error("input_c14: expected ")
        << expected << " as initialiser of " << name << ", got " << init;
  };
  auto number = [&](StringRef key) { return getInitNumber(dict, key); };
  auto isFinite = [&](StringRef key) {
    std::optional<double> value = number(key);
    return value && std::isfinite(*value);
  };
  auto hasDeviation = [&] {
    return isFinite("mean") && isFinite("std") && *number("std") >= 0;
  };
  auto hasRange = [&] {
    return isFinite("low") && isFinite("high") &&
           *number("low") < *number("high");
  };
  // input_c14
  Type element = type.getElementType();
  static const llvm::StringMap<SmallVector<StringRef>> kEntries = {
      {"file", {"kind"}},
      {"constant", {"kind", "value"}},
      {"values", {"kind", "values"}},
      {"normal", {"kind", "mean", "std"}},
      {"uniform", {"kind", "low", "high"}},
      {"truncated_normal", {"kind", "mean", "std", "low", "high"}}};
  auto entries = kEntries.find(kind);
  if (entries == kEntries.end())
    return fail("a kind among constant, normal, uniform, truncated_normal, "
                "values and file");
  checkEntries(dict, entries->second, "initialiser of " + name.getValue());
  if (kind == "file")
    return;
  if (kind == "constant") {
    if (!number("value"))
      fail("a number in 'value'");
    else if (isStoredInteger(element) &&
             !fitsInteger(*number("value"), element, isUnsigned))
      fail("a value that " + debugString(element) +
           (isUnsigned ? " without a sign" : "") + " can hold");
    return;
  }
  if (kind == "values") {
    auto values = dyn_cast_or_null<DenseElementsAttr>(dict.get("values"));
    if (!values || values.getType() != type)
      fail("dense values of " + debugString(type));
    return;
  }
  if (isStoredInteger(element))
    return fail("constant, values or file for integers");
  if (kind != "uniform" && !hasDeviation())
    return fail("finite numbers 'mean' and 'std', std not below 0,");
  if (kind != "normal" && !hasRange())
    return fail("finite numbers 'low' < 'high'");
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void StepReader::readResult(unsigned index, DictionaryAttr attrs) {
  std::string where = "result #" + std::to_string(index);
  bool isLoss = attrs && attrs.contains(names::kLoss);
  bool isEval = step.kind == ProgramKind::eval;
  auto entry = [&](StringRef key) {
    return attrs ? attrs.getAs<DictionaryAttr>(key) : DictionaryAttr();
  };
  DictionaryAttr grad = entry(names::kGrad),
                 update = entry(names::kBufferUpdate),
                 output = entry(names::kOutput);
  // input_c24
  if (isEval && (grad || update)) {
    error("input_c24: expected an evaluation without gradients and updates, "
          "got ")
        << where << " with " << Attribute(attrs);
    return;
  }
  if (isEval && output && !isLoss)
    return readOutput(index, output);
  // input_c2
  if (isLoss + !!grad + !!update != 1) {
    error("input_c2: expected ")
        << where
        << (isEval ? " with one of fsdp.loss and fsdp.output, got "
                   : " with one of fsdp.loss, fsdp.grad and "
                     "fsdp.buffer_update, got ")
        << (attrs ? Attribute(attrs)
                  : Attribute(DictionaryAttr::get(step.func.getContext())));
    return;
  }
  if (isLoss) {
    // input_c9
    Type type = step.func.getResultTypes()[index];
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getRank() != 0 ||
        !isStoredFloat(tensor.getElementType()))
      error("input_c9: expected a loss of rank 0 with a float element, got ")
          << type;
    if (step.loss)
      error("input_c9: expected one loss, got ") << where << " as another";
    step.loss = index;
    return;
  }
  checkEntries(grad ? grad : update, {"fqn"}, where);
  StringAttr fqn = getName(grad ? grad : update, "fqn", where);
  if (fqn && grad)
    readGrad(index, fqn);
  else if (fqn)
    readUpdate(index, fqn);
}

void StepReader::readGrad(unsigned index, StringAttr fqn) {
  Type type = step.func.getResultTypes()[index];
  // input_c10
  auto it = paramIndex.find(fqn.getValue());
  if (it == paramIndex.end()) {
    error("input_c10: expected the gradient of a parameter, got result #")
        << index << " for " << fqn;
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
}

void StepReader::readUpdate(unsigned index, StringAttr fqn) {
  Type type = step.func.getResultTypes()[index];
  // input_c11
  auto it = bufferIndex.find(fqn.getValue());
  if (it == bufferIndex.end()) {
    error("input_c11: expected the update of a buffer, got result #")
        << index << " for " << fqn;
    return;
  }
  BufferInfo &buffer = step.buffers[it->second];
  if (buffer.update)
    error("input_c11: expected one update of ") << fqn << ", got another";
  if (type != buffer.arg.getType())
    error("input_c11: expected an update of ")
        << buffer.arg.getType() << " for " << fqn << ", got " << type;
  buffer.update = index;
}

void StepReader::readOutput(unsigned index, DictionaryAttr output) {
  std::string where = "result #" + std::to_string(index);
  checkEntries(output, {"name"}, where);
  StringAttr name = getName(output, "name", where);
  if (!name)
    return;
  // input_c4
  if (name == "loss" || !outputNames.insert(name.getValue()).second)
    error("input_c4: expected outputs with names of their own, not 'loss', "
          "got ")
        << name << " for " << where;
  // input_c5, input_c6
  auto type = dyn_cast<RankedTensorType>(step.func.getResultTypes()[index]);
  if (!type || !type.hasStaticShape() || !isOfCountableBytes(type) ||
      !isOfCountableRank(type) ||
      (!isStoredFloat(type.getElementType()) &&
       !isStoredInteger(type.getElementType())))
    error("input_c6: expected a tensor of static shape with f32, f64, f16, "
          "bf16, i1, i8, i16, i32 or i64 elements for output ")
        << name << ", got " << step.func.getResultTypes()[index];
  step.outputs.push_back({index, name});
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

void StepReader::readModules() {
  auto module = step.func->getParentOfType<ModuleOp>();
  // input_c21
  Attribute verified = module->getAttr(names::kVerified);
  auto text = dyn_cast_or_null<StringAttr>(verified);
  if (verified && (!text || text.empty()))
    error("input_c21: expected a text in fsdp.verified, got ") << verified;
  Attribute attr = module->getAttr(names::kModules);
  if (!attr)
    return;
  // input_c12
  auto list = dyn_cast<ArrayAttr>(attr);
  if (!list) {
    error("input_c12: expected a list in fsdp.modules, got ") << attr;
    return;
  }
  llvm::StringSet<> seen;
  for (Attribute entry : list) {
    auto dict = dyn_cast<DictionaryAttr>(entry);
    auto fqn = dict ? dict.getAs<StringAttr>("fqn") : StringAttr();
    auto className = dict ? dict.getAs<StringAttr>("class") : StringAttr();
    if (!fqn || !className) {
      error("input_c12: expected {fqn, class} in fsdp.modules, got ") << entry;
      return;
    }
    if (!seen.insert(fqn.getValue()).second) {
      error("input_c12: expected each module once in fsdp.modules, got ")
          << fqn << " twice";
      return;
    }
    step.modules.push_back({fqn.getValue(), className.getValue()});
  }
}

void StepReader::checkWhole() {
  if (step.kind == ProgramKind::eval) {
    // input_c24
    if (!step.loss && step.outputs.empty())
      error("input_c24: expected an evaluation with a loss or an output, got "
            "neither");
    return;
  }
  // input_c9
  if (!step.loss)
    error("input_c9: expected a result with fsdp.loss, got none");
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
    error("input_c1: expected a body of one block in @" + func.getName() +
          ", got ")
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

llvm::BitVector TracedStep::getForwardResults() {
  llvm::BitVector results(
      func.getBody().front().getTerminator()->getNumOperands());
  if (loss)
    results.set(*loss);
  for (const OutputInfo &output : outputs)
    results.set(output.result);
  for (const BufferInfo &buffer : buffers)
    if (buffer.update)
      results.set(*buffer.update);
  return results;
}

SmallVector<Value> TracedStep::getForwardRoots() {
  Operation *ret = func.getBody().front().getTerminator();
  return llvm::map_to_vector(getForwardResults().set_bits(),
                             [&](unsigned i) { return ret->getOperand(i); });
}

bool fsdp::isTraced(func::FuncOp func) {
  return func.getName() == names::kForwardBackward ||
         func->hasAttr(names::kProgram);
}

FailureOr<TracedStep> fsdp::readTracedStep(ModuleOp module) {
  // input_c1
  auto func = module.lookupSymbol<func::FuncOp>(names::kForwardBackward);
  if (!func)
    return emitInputError(
        module, "input_c1: expected a function @forward_backward, got none");
  return StepReader(func, ProgramKind::train, names::kTrain).read();
}

/// What a function's fsdp.program says.
static FailureOr<ProgramKind> readKind(func::FuncOp func) {
  Attribute attr = func->getAttr(names::kProgram);
  auto word = dyn_cast<StringAttr>(attr);
  std::optional<ProgramKind> kind =
      word ? symbolizeProgramKind(word) : std::nullopt;
  // input_c22. Others are derived.
  if (!kind || *kind > ProgramKind::eval)
    return emitInputError(func, "input_c22: expected fsdp.program with ")
           << listWords(ProgramKind::eval, "'") << " on @" << func.getName()
           << ", got " << attr;
  if (func.getName() == names::kOptimizer || func.getName() == names::kTrain ||
      func.getName() == names::kMesh || func.getName().starts_with("fsdp_"))
    return emitInputError(func, "input_c22: expected fsdp.program on functions "
                                "of their own, got it on @")
           << func.getName();
  return *kind;
}

namespace {
/// What a name stands for in the function that trains.
struct Known {
  DictionaryAttr entries;
  Type type;
};
} // namespace

/// An argument of @func stands for what @known says: entries that it repeats
/// are equal.
static LogicalResult checkAgrees(func::FuncOp func, func::FuncOp train,
                                 StringRef what, StringAttr fqn,
                                 BlockArgument arg, DictionaryAttr entries,
                                 const Known &known) {
  // input_c23
  auto error = [&] {
    InFlightDiagnostic diag = emitInputError(func, "input_c23: expected ");
    diag << what << " " << fqn << " of @" << func.getName() << " to be ";
    return diag;
  };
  if (arg.getType() != known.type) {
    InFlightDiagnostic diag = error()
                              << known.type << " as in @" << train.getName()
                              << ", got " << arg.getType();
    diag.attachNote(train.getLoc()) << "that is here";
    return diag;
  }
  for (NamedAttribute entry : entries)
    if (known.entries.get(entry.getName()) != entry.getValue())
      return error() << "what it is in @" << train.getName() << ", got another "
                     << entry.getName();
  return success();
}

/// The parameters and buffers of @step are those of the function that trains;
/// buffers may be its own.
static LogicalResult checkAgreement(TracedStep &step, TracedStep &train) {
  llvm::DenseMap<Attribute, Known> params, buffers;
  auto getEntries = [](TracedStep &of, BlockArgument arg, StringRef name) {
    return of.func.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(), name);
  };
  for (ParamInfo &param : train.params)
    params[param.fqn] = {getEntries(train, param.arg, names::kParam),
                         param.arg.getType()};
  for (BufferInfo &buffer : train.buffers)
    buffers[buffer.fqn] = {getEntries(train, buffer.arg, names::kBuffer),
                           buffer.arg.getType()};
  for (ParamInfo &param : step.params) {
    auto known = params.find(param.fqn);
    // input_c23
    if (known == params.end())
      return emitInputError(step.func, "input_c23: expected parameters of @" +
                                           train.func.getName() + " in @" +
                                           step.func.getName() + ", got ")
             << param.fqn;
    if (failed(checkAgrees(
            step.func, train.func, "parameter", param.fqn, param.arg,
            getEntries(step, param.arg, names::kParam), known->second)))
      return failure();
  }
  for (BufferInfo &buffer : step.buffers)
    if (auto known = buffers.find(buffer.fqn);
        known != buffers.end() &&
        failed(checkAgrees(
            step.func, train.func, "buffer", buffer.fqn, buffer.arg,
            getEntries(step, buffer.arg, names::kBuffer), known->second)))
      return failure();
  return success();
}

FailureOr<std::vector<TracedStep>> fsdp::readTracedSteps(ModuleOp module) {
  std::vector<TracedStep> steps;
  FailureOr<TracedStep> train = readTracedStep(module);
  if (failed(train))
    return failure();
  steps.push_back(*train);
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func->hasAttr(names::kProgram))
      continue;
    FailureOr<ProgramKind> kind = readKind(func);
    if (failed(kind))
      return failure();
    if (func == train->func) {
      // input_c22
      if (*kind != ProgramKind::train)
        return emitInputError(func, "input_c22: expected @forward_backward to "
                                    "train, got fsdp.program = ")
               << func->getAttr(names::kProgram);
      continue;
    }
    FailureOr<TracedStep> step = StepReader(func, *kind, func.getName()).read();
    if (failed(step) || failed(checkAgreement(*step, steps.front())))
      return failure();
    steps.push_back(*step);
  }
  return steps;
}
