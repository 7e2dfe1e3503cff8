//===- ModuleContract.cpp - What the module of L0 may hold ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of docs/input-contract.md about functions and attributes. A file is
// data that anybody may have written: its symbols become none of the program's,
// and of its attributes only those that the contract names reach any pass.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/ModuleContract.h"
#include "fsdp/Analysis/Contract/InputContract.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

static constexpr unsigned kMaxErrors = 5;

/// Ops of the step once everything is inlined. (The trace of a model of 405 B
/// parameters has 40 thousand.)
static constexpr int64_t kMostOps = int64_t(1) << 22;

static bool isContractFunction(func::FuncOp func) {
  return isTraced(func) || func.getName() == names::kOptimizer;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// input_c16
static LogicalResult verifyTopLevel(ModuleOp module) {
  unsigned errors = 0;
  auto refuse = [&](Operation &op, const Twine &what) {
    emitInputError(&op, "input_c16: expected functions @forward_backward, "
                        "@optimizer, ones with fsdp.program and private ones "
                        "with a body of one block in the module, got ")
        << what;
    return ++errors == kMaxErrors;
  };
  for (Operation &op : *module.getBody()) {
    auto func = dyn_cast<func::FuncOp>(op);
    std::string what = op.getName().getStringRef().str();
    if (auto name =
            op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      what += " @" + name.str();
    if (func && isContractFunction(func))
      continue;
    if (func && func.isExternal())
      what += ", a declaration";
    else if (func && !func.isPrivate())
      what += ", which is public";
    else if (func && !func.getBody().hasOneBlock())
      what += " of " + std::to_string(func.getBody().getBlocks().size()) +
              " blocks";
    else if (func)
      continue;
    if (refuse(op, what))
      break;
  }
  return success(errors == 0);
}

namespace {
/// What a function calls and how many ops it has of its own.
struct Callees {
  SmallVector<func::FuncOp> calls;
  int64_t ops = 0;
};
} // namespace

/// input_c17. Functions are taken once all that they call have been: those that
/// never are call themselves, or whoever does.
static LogicalResult verifyCalls(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::MapVector<func::FuncOp, Callees> functions;
  for (auto func : module.getOps<func::FuncOp>()) {
    Callees &callees = functions[func];
    WalkResult walked = func.walk([&](Operation *op) {
      ++callees.ops;
      auto call = dyn_cast<func::CallOp>(op);
      if (!call)
        return WalkResult::advance();
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || isContractFunction(callee)) {
        emitInputError(op, "input_c17: expected a call of a private function "
                           "of the module, got one of @" +
                               call.getCallee());
        return WalkResult::interrupt();
      }
      callees.calls.push_back(callee);
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
  }

  llvm::DenseMap<func::FuncOp, SmallVector<func::FuncOp>> callers;
  llvm::DenseMap<func::FuncOp, size_t> waits;
  SmallVector<func::FuncOp> ready;
  for (auto &[func, callees] : functions) {
    for (func::FuncOp callee : callees.calls)
      callers[callee].push_back(func);
    waits[func] = callees.calls.size();
    if (callees.calls.empty())
      ready.push_back(func);
  }
  llvm::DenseMap<func::FuncOp, int64_t> sizes;
  int64_t all = 0;
  while (!ready.empty()) {
    func::FuncOp func = ready.pop_back_val();
    const Callees &callees = functions.find(func)->second;
    int64_t &size = sizes[func];
    size = callees.ops;
    // Each is at most the limit, and there are as many as the file has calls.
    for (func::FuncOp callee : callees.calls)
      size += sizes.lookup(callee);
    // Inlining holds the bodies of all of them.
    all += size;
    if (all > kMostOps)
      return emitInputError(func, "input_c17: expected at most ")
             << kMostOps
             << " ops in all functions, each with all that it calls, got more "
                "with @"
             << func.getName();
    for (func::FuncOp caller : callers.lookup(func))
      if (--waits[caller] == 0)
        ready.push_back(caller);
  }
  for (auto &[func, callees] : functions)
    if (waits.lookup(func) > 0)
      return emitInputError(func, "input_c17: expected calls that end, got @" +
                                      func.getName() +
                                      ", which leads to a recursive one");
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

namespace {
class AttributeVerifier {
public:
  LogicalResult verify(ModuleOp module);

private:
  using Names = ArrayRef<StringRef>;
  void check(Operation *at, DictionaryAttr attrs, Names known,
             const Twine &where);
  void check(Operation *at, ArrayRef<NamedAttribute> attrs, Names known,
             const Twine &where);
  void checkNotes(ModuleOp module);
  void checkFunction(func::FuncOp func);
  bool tooMany() const { return errors >= kMaxErrors; }

  unsigned errors = 0;
};
} // namespace

/// Of the compiler's own dialects, whose attributes passes and lowering obey.
static bool isObeyed(StringRef name) {
  StringRef dialect = name.split('.').first;
  return name.contains('.') &&
         (dialect == "fsdp" || dialect == "llvm" || dialect == "dlti");
}

void AttributeVerifier::check(Operation *at, ArrayRef<NamedAttribute> attrs,
                              Names known, const Twine &where) {
  for (NamedAttribute attr : attrs) {
    StringRef name = attr.getName();
    if (!isObeyed(name) || llvm::is_contained(known, name))
      continue;
    InFlightDiagnostic diag =
        emitInputError(at, "input_c18: expected attributes of fsdp ");
    if (known.empty())
      diag << "nowhere but on the module, arguments and results";
    else
      diag << "among " << llvm::join(known, ", ");
    diag << ", and none of llvm or dlti, got '" << name << "' on " << where;
    if (++errors >= kMaxErrors)
      return;
  }
}

void AttributeVerifier::check(Operation *at, DictionaryAttr attrs, Names known,
                              const Twine &where) {
  if (attrs)
    check(at, attrs.getValue(), known, where);
}

/// input_c27
void AttributeVerifier::checkNotes(ModuleOp module) {
  Attribute notes = module->getAttr(names::kNotes);
  auto list = dyn_cast_or_null<ArrayAttr>(notes);
  bool areTexts = list && llvm::all_of(list, [](Attribute note) {
                    auto text = dyn_cast<StringAttr>(note);
                    return text && !text.empty();
                  });
  if (!notes || areTexts)
    return;
  ++errors;
  emitInputError(module, "input_c27: expected a list of texts in fsdp.notes, "
                         "got ")
      << notes;
}

void AttributeVerifier::checkFunction(func::FuncOp func) {
  std::string name = "@" + func.getName().str();
  StringRef traced[] = {names::kProgram},
            optimizer[] = {names::kOptimizerSpec, names::kOptimizerGroups};
  Names known;
  if (func.getName() == names::kOptimizer)
    known = optimizer;
  else if (isTraced(func))
    known = traced;
  check(func, llvm::to_vector(func->getDiscardableAttrs()), known, name);
  StringRef arguments[] = {names::kParam,     names::kBuffer,
                           names::kInput,     names::kRandom,
                           names::kLossScale, names::kOptimizerRole};
  StringRef results[] = {names::kLoss,   names::kLossCount,
                         names::kGrad,   names::kBufferUpdate,
                         names::kOutput, names::kOptimizerRole};
  for (unsigned i = 0, e = func.getNumArguments(); i != e && !tooMany(); ++i)
    check(func, func.getArgAttrDict(i), arguments,
          "argument #" + Twine(i) + " of " + name);
  for (unsigned i = 0, e = func.getNumResults(); i != e && !tooMany(); ++i)
    check(func, func.getResultAttrDict(i), results,
          "result #" + Twine(i) + " of " + name);
  func.getBody().walk([&](Operation *op) {
    // Of ops that nobody here knows, all attributes count as discardable.
    check(op, llvm::to_vector(op->getDiscardableAttrs()), {},
          op->getName().getStringRef());
    return tooMany() ? WalkResult::interrupt() : WalkResult::advance();
  });
}

/// input_c18
LogicalResult AttributeVerifier::verify(ModuleOp module) {
  StringRef modules[] = {names::kModules, names::kVerified, names::kNotes,
                         names::kOptimizerSpec, names::kOptimizerGroups};
  check(module, llvm::to_vector(module->getDiscardableAttrs()), modules,
        "the module");
  checkNotes(module);
  for (auto func : module.getOps<func::FuncOp>())
    if (!tooMany())
      checkFunction(func);
  return success(errors == 0);
}

LogicalResult fsdp::verifyInputModule(ModuleOp module) {
  if (failed(verifyTopLevel(module)) || failed(verifyCalls(module)))
    return failure();
  return AttributeVerifier().verify(module);
}
