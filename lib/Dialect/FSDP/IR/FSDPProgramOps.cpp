//===- FSDPProgramOps.cpp - State and programs ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verification.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Interfaces/FunctionImplementation.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult ArenaAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t bytes, int64_t state, int64_t inputs,
                                int64_t communicated, int64_t transient,
                                int64_t workspace, int64_t host, int64_t border,
                                DenseI64ArrayAttr peak) {
  std::pair<StringRef, int64_t> sizes[] = {
      {"bytes", bytes},         {"state", state},
      {"inputs", inputs},       {"communicated", communicated},
      {"transient", transient}, {"workspace", workspace},
      {"host", host},           {"border", border}};
  // arena_c1
  for (auto [name, size] : sizes)
    if (size < 0)
      return emitError() << "expected " << name
                         << " of at least 0 bytes in an arena, got " << size;
  // arena_c2
  int64_t end = 0;
  for (int64_t size : {state, inputs, communicated, transient, workspace})
    if (llvm::AddOverflow(end, size, end))
      return emitError() << "expected segments of less than 2^63 bytes in an "
                            "arena, got more";
  if (end != bytes)
    return emitError() << "expected segments of " << bytes
                       << " bytes together in an arena, got " << end;
  if (!peak)
    return success();
  // arena_c3
  constexpr int64_t kPurposes = 7;
  if (peak.size() != kPurposes)
    return emitError() << "expected " << kPurposes
                       << " parts of an arena's peak, got " << peak.size();
  int64_t rest = bytes;
  for (int64_t part : peak.asArrayRef()) {
    if (part < 0 || part > rest)
      return emitError() << "expected parts of an arena's peak from 0 to "
                         << bytes << " bytes together, got " << peak;
    rest -= part;
  }
  return success();
}

LogicalResult FlopsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t f64, int64_t f32, int64_t bf16,
                                int64_t f16, int64_t f8) {
  // flops_c1
  for (int64_t flops : {f64, f32, bf16, f16, f8})
    if (flops < 0)
      return emitError() << "expected at least 0 flops of each type, got "
                         << flops;
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   Order, int64_t bound, int64_t step,
                                   StringAttr, StringAttr, int64_t peakFlops) {
  // schedule_c1
  if (bound < 0 || step < 0)
    return emitError() << "expected bound and step of at least 0 picoseconds "
                          "in a schedule, got "
                       << bound << " and " << step;
  // schedule_c2
  if (bound > step)
    return emitError() << "expected a bound of at most the step's " << step
                       << " picoseconds in a schedule, got " << bound;
  // schedule_c3
  if (peakFlops < 0)
    return emitError() << "expected peak_flops of at least 0 in a schedule, "
                          "got "
                       << peakFlops;
  return success();
}

//===----------------------------------------------------------------------===//
// StateOp
//===----------------------------------------------------------------------===//

LogicalResult StateOp::verify() {
  StateKind kind = getKind();
  bool ofFlat = kind == StateKind::parameter ||
                kind == StateKind::accumulator || kind == StateKind::gathered;
  auto expect = [&](const Twine &what, StringRef got) -> LogicalResult {
    return emitOpError("expected ")
           << what << " for kind " << stringifyStateKind(kind) << ", got "
           << got;
  };
  // state_c2
  if (ofFlat != !getCheckpointNameAttr())
    return expect(ofFlat ? "no name" : "a name", ofFlat ? "one" : "none");
  if (ofFlat && !getFlatParamAttr())
    return expect("a flat parameter", "none");
  if (kind == StateKind::buffer && getFlatParamAttr())
    return expect("no flat parameter", "one");
  if (kind == StateKind::residual && !getFlatParamAttr())
    return expect("a flat parameter", "none");
  // state_c3
  if (Attribute init = getInitAttr()) {
    bool isDrawn = kind == StateKind::buffer || kind == StateKind::residual;
    bool fits = (kind == StateKind::optimizer && isa<FloatAttr>(init)) ||
                (isDrawn && isa<DictionaryAttr>(init));
    if (!fits)
      return emitOpError("expected ")
             << (kind == StateKind::optimizer ? "a number"
                 : isDrawn                    ? "an initialiser"
                                              : "no init")
             << " for a state of kind " << stringifyStateKind(kind) << ", got "
             << init;
  }
  // state_c4
  if (kind != StateKind::buffer && (getTiedAttr() || getIsUnsigned()))
    return expect("neither tied nor unsigned", "one of both");
  if (getIsUnsigned() && !getElementTypeOrSelf(getType()).isInteger(8))
    return emitOpError("expected i8 elements in an unsigned buffer, got ")
           << getType();
  // state_c7
  bool isOfShard = (kind == StateKind::optimizer && getFlatParamAttr()) ||
                   kind == StateKind::parameter;
  if (isa<HostType>(getType()) && !isOfShard)
    return emitOpError("expected a parameter, or an optimizer state of a flat "
                       "parameter, in the host's memory, got kind ")
           << stringifyStateKind(kind)
           << (getFlatParamAttr() ? "" : " of no flat parameter");
  return success();
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  FlatSymbolRefAttr named;
  if (auto type = dyn_cast<ShardedType>(getType()))
    named = type.getFlatParam();
  else if (auto type = dyn_cast<UnshardedType>(getType()))
    named = type.getFlatParam();
  // state_c1
  if (named && named != getFlatParamAttr()) {
    InFlightDiagnostic diag = emitOpError("expected a type of ");
    if (getFlatParamAttr())
      diag << getFlatParamAttr();
    else
      diag << "no flat parameter";
    return diag << ", got " << getType();
  }
  if (!getFlatParamAttr())
    return success();
  return lookupFlatParam(*this, getFlatParamAttr(), symbolTable);
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

/// The table and the enum are alike.
#define FSDP_RT_PROGRAM(number, Name, name, ...)                               \
  static_assert(unsigned(ProgramKind::name) == number);
FSDP_RT_PROGRAMS(FSDP_RT_PROGRAM)
static_assert(getMaxEnumValForProgramKind() + 1 ==
              std::size(fsdp_rt::programTraits));

/// fsdp.program eval @evaluate(...): the kind of the step is not printed.
ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&keyword))) {
    std::optional<ProgramKind> kind = symbolizeProgramKind(keyword);
    if (!kind)
      return parser.emitError(loc)
             << "expected a name, "
             << listWords(ProgramKind(getMaxEnumValForProgramKind()))
             << ", got " << keyword;
    result.getOrAddProperties<Properties>().setKind(
        ProgramKindAttr::get(parser.getContext(), *kind));
  }
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void ProgramOp::print(OpAsmPrinter &printer) {
  if (!getTraits(getKind()).isStep)
    printer << ' ' << stringifyProgramKind(getKind());
  // What is printed above is no attribute of its own.
  printer << ' ';
  printer.printSymbolName(getSymName());
  function_interface_impl::printFunctionSignature(
      printer, *this, getArgumentTypes(), /*isVariadic=*/false,
      getResultTypes());
  function_interface_impl::printFunctionAttributes(
      printer, *this,
      {getKindAttrName(), getFunctionTypeAttrName(), getArgAttrsAttrName(),
       getResAttrsAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}

LogicalResult ProgramOp::verify() {
  // program_c1
  if (!isa<ReturnOp>(getBody().front().back()))
    return emitOpError("expected a block that fsdp.return ends, got ")
           << getBody().front().back().getName();
  auto expectOne = [&](DictionaryAttr attrs, ArrayRef<StringRef> names,
                       StringRef what, unsigned i) -> LogicalResult {
    StringRef first;
    for (StringRef name : names) {
      if (!attrs || !attrs.contains(name))
        continue;
      if (!first.empty())
        return emitOpError("expected one of ")
               << first << " and " << name << " on " << what << " " << i
               << ", got both";
      first = name;
    }
    return success();
  };
  // program_c9
  auto expectDevice = [&](Type type, bool isState,
                          const Twine &where) -> LogicalResult {
    if (isState || !isa<HostType>(type))
      return success();
    return emitOpError("expected a tensor of the device as ")
           << where << ", which is no state, got " << type;
  };
  for (unsigned i = 0, e = getNumArguments(); i != e; ++i)
    if (failed(expectDevice(getArgumentTypes()[i], bool(getReadState(i)),
                            "argument " + Twine(i))))
      return failure();
  for (unsigned i = 0, e = getNumResults(); i != e; ++i)
    if (failed(expectDevice(getResultTypes()[i], bool(getWrittenState(i)),
                            "result " + Twine(i))))
      return failure();
  // program_c5
  for (unsigned i = 0, e = getNumArguments(); i != e; ++i)
    if (failed(expectOne(getArgAttrDict(i),
                         {names::kState, names::kInput, names::kScalar},
                         "argument", i)))
      return failure();
  for (unsigned i = 0, e = getNumResults(); i != e; ++i)
    if (failed(expectOne(getResultAttrDict(i),
                         {names::kState, names::kLoss, names::kLossCount,
                          names::kGradNorm, names::kOutput},
                         "result", i)))
      return failure();
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  llvm::DenseSet<Attribute> read, written;
  auto check = [&](Attribute attr, Type type, llvm::DenseSet<Attribute> &seen,
                   const Twine &where) -> LogicalResult {
    if (!attr)
      return success();
    // program_c2
    auto name = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!name)
      return emitOpError("expected fsdp.state on ")
             << where << " to name a state, got " << attr;
    FailureOr<StateOp> state =
        lookupSymbol<StateOp>(*this, name, symbolTable, "a state");
    if (failed(state))
      return failure();
    if (state->getType() != type) {
      InFlightDiagnostic diag = emitOpError("expected ")
                                << where << " to be of the type of " << name
                                << ", " << state->getType() << ", got " << type;
      diag.attachNote(state->getLoc()) << "the state is here";
      return diag;
    }
    // program_c3
    if (!seen.insert(name).second)
      return emitOpError("expected each state once, got ")
             << name << " again as " << where;
    return success();
  };
  for (unsigned i = 0, e = getNumArguments(); i != e; ++i)
    if (failed(check(getArgAttr(i, names::kState), getArgumentTypes()[i], read,
                     "argument " + Twine(i))))
      return failure();
  for (unsigned i = 0, e = getNumResults(); i != e; ++i) {
    Attribute name = getResultAttr(i, names::kState);
    if (failed(check(name, getResultTypes()[i], written, "result " + Twine(i))))
      return failure();
    // program_c4
    if (name && !read.contains(name))
      return emitOpError("expected an argument for the state that result ")
             << i << " becomes, " << name << ", got none";
    // program_c7
    StringRef kind = stringifyProgramKind(getKind());
    if (name && !getTraits(getKind()).writesStates)
      return emitOpError("expected an ")
             << kind << " program to write no state, got " << name
             << " as result " << i;
    // program_c8
    if (!name)
      continue;
    auto state = symbolTable.lookupNearestSymbolFrom<StateOp>(
        *this, cast<FlatSymbolRefAttr>(name));
    if (state.getKind() == StateKind::gathered &&
        !getTraits(getKind()).gathersForOthers)
      return emitOpError(
                 "expected a program of kind accumulate_first to write ")
             << name << ", got one of kind " << kind;
    if (getTraits(getKind()).updates)
      continue;
    if (state.getKind() == StateKind::parameter ||
        state.getKind() == StateKind::optimizer ||
        state.getKind() == StateKind::residual)
      return emitOpError("expected an ")
             << kind << " program to write accumulators and buffers alone, got "
             << name << " as result " << i;
  }
  return success();
}

FlatSymbolRefAttr ProgramOp::getReadState(unsigned argument) {
  return getArgAttrOfType<FlatSymbolRefAttr>(argument, names::kState);
}

FlatSymbolRefAttr ProgramOp::getWrittenState(unsigned result) {
  return getResultAttrOfType<FlatSymbolRefAttr>(result, names::kState);
}

std::optional<unsigned> ProgramOp::lookupRead(FlatSymbolRefAttr state) {
  for (unsigned i = 0, e = getNumArguments(); i != e; ++i)
    if (getReadState(i) == state)
      return i;
  return std::nullopt;
}

fsdp::ReturnOp ProgramOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

//===----------------------------------------------------------------------===//
// ReturnOp
//===----------------------------------------------------------------------===//

LogicalResult fsdp::ReturnOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  // return_c2
  if (getOperandTypes() == program.getResultTypes())
    return success();
  InFlightDiagnostic diag =
      emitOpError("expected values of the program's result types, ")
      << program.getResultTypes() << ", got " << getOperandTypes();
  diag.attachNote(program.getLoc()) << "the program is here";
  return diag;
}
