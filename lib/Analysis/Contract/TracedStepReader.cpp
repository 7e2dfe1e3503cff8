//===- TracedStepReader.cpp - Reading one traced function -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads what each argument and result is, and checks it on its own: names,
// types, initialisers, bounds. Rules carry the labels of docs/input-contract.md
// (input_c2, ...).
//
//===----------------------------------------------------------------------===//

#include "TracedStepReader.h"
#include "ArgumentTypes.h"
#include "Initialiser.h"
#include "LossScaleArgument.h"
#include "RandomEntries.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Dialect/FSDP/IR/JsonText.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::fsdp;

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
  void readRandom(BlockArgument arg, DictionaryAttr random, StringAttr name);
  void readShift(DictionaryAttr input, StringAttr name);
  void readValues(InputInfo &info, DictionaryAttr input);
  void readCount(unsigned index);
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
  if (attrs && attrs.contains(names::kLossScale)) {
    // input_c26
    if (std::string fault = takeLossScale(arg, attrs, step); !fault.empty())
      error("input_c26: expected ") << fault;
    return;
  }
  auto entry = [&](StringRef key) {
    return attrs ? attrs.getAs<DictionaryAttr>(key) : DictionaryAttr();
  };
  DictionaryAttr param = entry(names::kParam), buffer = entry(names::kBuffer),
                 input = entry(names::kInput), random = entry(names::kRandom);
  // input_c2
  if (!!param + !!buffer + !!input + !!random != 1) {
    error("input_c2: expected ")
        << where
        << " with one of fsdp.param, fsdp.buffer, fsdp.input, fsdp.random and "
           "fsdp.loss_scale, got "
        << (attrs ? Attribute(attrs)
                  : Attribute(DictionaryAttr::get(step.func.getContext())));
    return;
  }
  // input_c3
  StringAttr name = input || random
                        ? getName(input ? input : random, "name", where)
                        : getName(param ? param : buffer, "fqn", where);
  if (!name)
    return;
  if (std::string fault = findArgumentFault(
          arg.getType(), where + " (\"" + name.str() + "\")", bool(param));
      !fault.empty()) {
    error(fault);
    return;
  }
  if (!claimName(name.getValue(), param    ? "a parameter"
                                  : buffer ? "a buffer"
                                  : input  ? "an input"
                                           : "random numbers"))
    return;
  if (param)
    readParam(arg, param, name);
  else if (buffer)
    readBuffer(arg, buffer, name);
  else if (input)
    readInput(arg, input, name);
  else
    readRandom(arg, random, name);
}

void StepReader::readParam(BlockArgument arg, DictionaryAttr param,
                           StringAttr name) {
  checkEntries(
      param,
      {"fqn", "tied", "init", "requires_grad", "unused", "group", "placement"},
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
  info.group = get<StringAttr>(param, "group", name.getValue());
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

void StepReader::readRandom(BlockArgument arg, DictionaryAttr random,
                            StringAttr name) {
  checkEntries(random, {"name", "kind", "site", "shared"}, name.getValue());
  // input_c25
  if (step.kind == ProgramKind::eval)
    error("input_c25: expected an evaluation that draws no random numbers, got "
          "some for ")
        << name;
  RandomInfo info{arg, RandomKind::bits, 0};
  if (std::string fault = readRandomEntries(random, step.randoms, info);
      !fault.empty())
    error("input_c25: expected ") << fault << " for " << name;
  else
    step.randoms.push_back(info);
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

void StepReader::checkInit(Attribute init, RankedTensorType type,
                           StringAttr name, bool isUnsigned) {
  if (!init)
    return;
  if (auto entries = getInitEntries(init); !entries.empty())
    checkEntries(cast<DictionaryAttr>(init), entries,
                 "initialiser of " + name.getValue());
  // input_c14
  if (std::string what = findInitFault(init, type, isUnsigned); !what.empty())
    error("input_c14: expected ")
        << what << " as initialiser of " << name << ", got " << init;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void StepReader::readResult(unsigned index, DictionaryAttr attrs) {
  std::string where = "result #" + std::to_string(index);
  bool isLoss = attrs && attrs.contains(names::kLoss);
  bool isCount = attrs && attrs.contains(names::kLossCount);
  bool isEval = !getTraits(step.kind).hasBackward;
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
  if (isEval && output && !isLoss && !isCount)
    return readOutput(index, output);
  // input_c2
  if (isLoss + isCount + !!grad + !!update != 1 || (isCount && output)) {
    error("input_c2: expected ")
        << where
        << (isEval ? " with one of fsdp.loss, fsdp.loss_count and "
                     "fsdp.output, got "
                   : " with one of fsdp.loss, fsdp.loss_count, fsdp.grad and "
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
  if (isCount)
    return readCount(index);
  checkEntries(grad ? grad : update, {"fqn"}, where);
  StringAttr fqn = getName(grad ? grad : update, "fqn", where);
  if (fqn && grad)
    readGrad(index, fqn);
  else if (fqn)
    readUpdate(index, fqn);
}

/// Floats of 16 bits do not hold all whole numbers above 256 or 2048.
void StepReader::readCount(unsigned index) {
  Type type = step.func.getResultTypes()[index];
  auto tensor = dyn_cast<RankedTensorType>(type);
  // input_c9
  Type element = tensor ? tensor.getElementType() : Type();
  if (!tensor || tensor.getRank() != 0 ||
      (!isStoredFloat(element) && !isStoredInteger(element)) ||
      element.getIntOrFloatBitWidth() < 32)
    error("input_c9: expected a loss_count of rank 0 with an f32, f64, i32 or "
          "i64 element, got ")
        << type;
  if (step.lossCount)
    error("input_c9: expected at most one loss_count, got result #")
        << index << " as another";
  step.lossCount = index;
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
  if (name == "loss" || name == "loss_count" ||
      !outputNames.insert(name.getValue()).second)
    error("input_c4: expected outputs with names of their own, not 'loss' and "
          "'loss_count', got ")
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
    if (Attribute config = dict.get("config");
        config && !isJsonObject(config)) {
      error("input_c12: expected a JSON object as text in config of module ")
          << fqn << ", got " << config;
      return;
    }
    auto checkpoint = dict.getAs<BoolAttr>("checkpoint");
    if (Attribute other = dict.get("checkpoint"); other && !checkpoint) {
      error("input_c12: expected true or false in checkpoint of module ")
          << fqn << ", got " << other;
      return;
    }
    step.modules.push_back({fqn.getValue(), className.getValue(),
                            checkpoint && checkpoint.getValue()});
  }
}

void StepReader::checkWhole() {
  // input_c9
  if (step.lossCount && !step.loss)
    error("input_c9: expected a result with fsdp.loss beside that with "
          "fsdp.loss_count, got none");
  if (!getTraits(step.kind).hasBackward) {
    // input_c24
    if (!step.loss && step.outputs.empty())
      error("input_c24: expected an evaluation with a loss or an output, got "
            "neither");
    return;
  }
  // input_c9
  if (!step.loss && !step.lossCount)
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

FailureOr<TracedStep>
fsdp::readTracedFunction(func::FuncOp func, ProgramKind kind, StringRef name) {
  return StepReader(func, kind, name).read();
}
