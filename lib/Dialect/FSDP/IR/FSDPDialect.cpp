//===- FSDPDialect.cpp - Registration, attributes, types ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttributeEntries.h"
#include "CustomAssembly.h"
#include "ReductionHooksInterface.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

#include "fsdp/Dialect/FSDP/IR/FSDPDialect.cpp.inc"

#include "fsdp/Dialect/FSDP/IR/FSDPEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPTypes.cpp.inc"

#include "fsdp/Dialect/FSDP/IR/FSDPInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Attributes and types
//===----------------------------------------------------------------------===//

/// Elements of `type`; nullopt where they are more than an int64_t counts.
static std::optional<int64_t> countElements(RankedTensorType type) {
  int64_t count = 1;
  for (int64_t size : type.getShape())
    if (llvm::MulOverflow(count, size, count))
      return std::nullopt;
  return count;
}

LogicalResult MemberAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr fqn, RankedTensorType type,
                                 int64_t offset, ArrayAttr tied, Attribute,
                                 StringAttr) {
  // member_attr_c1
  if (!type.hasStaticShape() || !isa<FloatType>(type.getElementType()))
    return emitError() << "expected a static shape and float elements for "
                       << fqn << ", got " << type;
  // member_attr_c2
  std::optional<int64_t> count = countElements(type);
  int64_t end;
  if (offset < 0 || !count || llvm::AddOverflow(offset, *count, end))
    return emitError() << "expected " << fqn
                       << " to lie between elements 0 and 2^63 - 1, got "
                       << type << " at " << offset;
  // member_attr_c3
  if (tied)
    for (Attribute name : tied)
      if (!isa<StringAttr>(name))
        return emitError() << "expected tied names of " << fqn
                           << " to be strings, got " << name;
  return success();
}

LogicalResult
StepOrderAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      DenseI32ArrayAttr, DenseI32ArrayAttr issue,
                      DenseI32ArrayAttr place, DenseI32ArrayAttr known,
                      DenseI32ArrayAttr after, DenseI32ArrayAttr causes,
                      int64_t makespan, int64_t peak, int64_t arena) {
  // step_order_c1
  std::pair<StringRef, DenseI32ArrayAttr> lists[] = {
      {"place", place}, {"known", known}, {"causes", causes}};
  for (auto [name, list] : lists)
    if (list.size() != issue.size())
      return emitError() << "expected an entry of " << name << " for each of "
                         << issue.size() << " transfers in an order, got "
                         << list.size();
  if (after.size() % 2)
    return emitError() << "expected pairs of transfers in after, got "
                       << after.size() << " entries";
  // step_order_c2
  constexpr int32_t kLastCause = 5;
  for (int32_t cause : causes.asArrayRef())
    if (cause < 0 || cause > kLastCause)
      return emitError() << "expected causes from 0 to " << kLastCause
                         << " in an order, got " << cause;
  std::pair<StringRef, int64_t> numbers[] = {
      {"makespan", makespan}, {"peak", peak}, {"arena", arena}};
  for (auto [name, number] : numbers)
    if (number < 0)
      return emitError() << "expected a " << name
                         << " of at least 0 in an order, got " << number;
  return success();
}

LogicalResult BudgetAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t memory, int64_t reserved) {
  // budget_c1
  if (memory < 1)
    return emitError() << "expected memory of at least 1 byte in a budget, got "
                       << memory;
  if (reserved < 0)
    return emitError() << "expected at least 0 reserved bytes in a budget, got "
                       << reserved;
  return success();
}

LogicalResult
CpuKernelAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      FlatSymbolRefAttr function, int64_t grid, int64_t grain,
                      int64_t scratch, int64_t traffic) {
  // cpu_kernel_c1
  if (grain < 1)
    return emitError() << "expected a grain of at least 1 for " << function
                       << ", got " << grain;
  std::pair<StringRef, int64_t> counts[] = {
      {"grid", grid}, {"scratch", scratch}, {"traffic", traffic}};
  for (auto [name, count] : counts)
    if (count < 0)
      return emitError() << "expected a " << name << " of at least 0 for "
                         << function << ", got " << count;
  return success();
}

LogicalResult
CudaKernelAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       SymbolRefAttr function, int64_t grid, int64_t block,
                       int64_t shared) {
  // cuda_kernel_c1
  std::tuple<StringRef, int64_t, int64_t> counts[] = {
      {"grid", grid, std::numeric_limits<int32_t>::max()},
      {"block", block, 1024}};
  for (auto [name, count, most] : counts)
    if (count < 1 || count > most)
      return emitError() << "expected a " << name << " of 1 to " << most
                         << " for " << function << ", got " << count;
  if (shared < 0)
    return emitError() << "expected shared memory of at least 0 bytes for "
                       << function << ", got " << shared;
  return success();
}

/// Bytes of the largest memory that a device might have, 2^48.
static constexpr int64_t kMostWorkspace = int64_t(1) << 48;

LogicalResult CudaCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<CudaKernelAttr> kernels,
                                   int64_t traffic, int64_t workspace) {
  // cuda_code_c1
  if (kernels.empty())
    return emitError() << "expected at least one function, got none";
  if (traffic < 0)
    return emitError() << "expected a traffic of at least 0, got " << traffic;
  if (workspace < 0 || workspace > kMostWorkspace)
    return emitError() << "expected a workspace of 0 to " << kMostWorkspace
                       << " bytes, got " << workspace;
  return success();
}

LogicalResult
CudaProductAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t workspace) {
  // cuda_product_c1
  if (workspace < 0 || workspace > kMostWorkspace)
    return emitError() << "expected a workspace of 0 to " << kMostWorkspace
                       << " bytes, got " << workspace;
  return success();
}

LogicalResult MatmulAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, int64_t a, int64_t b,
    int64_t m, int64_t n, int64_t k, int64_t, int64_t, int64_t, bool, bool,
    bool accumulate, DenseI64ArrayAttr offsets, DenseI64ArrayAttr batch,
    DenseI64ArrayAttr strideA, DenseI64ArrayAttr strideB,
    DenseI64ArrayAttr strideC, FloatAttr, int64_t bias, int64_t addend) {
  // matmul_c1
  std::pair<StringRef, int64_t> counts[] = {
      {"a", a}, {"b", b}, {"m", m}, {"n", n}, {"k", k}};
  for (auto [name, count] : counts)
    if (count < 0)
      return emitError() << "expected " << name << " to be at least 0, got "
                         << count;
  std::pair<StringRef, int64_t> added[] = {{"bias", bias}, {"addend", addend}};
  for (auto [name, argument] : added)
    if (argument < -1)
      return emitError() << "expected " << name << " to be at least -1, got "
                         << argument;
  // matmul_c3
  if (accumulate && (bias >= 0 || addend >= 0))
    return emitError() << "expected no bias and no addend beside accumulate";
  // matmul_c2
  if (offsets.size() != 3)
    return emitError() << "expected offsets of A, B and C, got "
                       << offsets.size() << " of them";
  if (batch.size() > 4)
    return emitError() << "expected at most 4 batch dimensions, got "
                       << batch.size();
  std::pair<StringRef, DenseI64ArrayAttr> strides[] = {
      {"strideA", strideA}, {"strideB", strideB}, {"strideC", strideC}};
  for (auto [name, list] : strides)
    if (list.size() != batch.size())
      return emitError() << "expected an entry of " << name << " for each of "
                         << batch.size() << " batch dimensions, got "
                         << list.size();
  return success();
}

static LogicalResult
verifyElementType(function_ref<InFlightDiagnostic()> emitError,
                  FlatSymbolRefAttr flatParam, Type elementType) {
  if (isa<FloatType>(elementType))
    return success();
  return emitError() << "expected a float element type for " << flatParam
                     << ", got " << elementType;
}

LogicalResult ShardedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                  FlatSymbolRefAttr flatParam,
                                  Type elementType) {
  // sharded_c1
  return verifyElementType(emitError, flatParam, elementType);
}

LogicalResult
UnshardedType::verify(function_ref<InFlightDiagnostic()> emitError,
                      FlatSymbolRefAttr flatParam, Type elementType) {
  // unsharded_c1
  return verifyElementType(emitError, flatParam, elementType);
}

LogicalResult
SecondaryType::verify(function_ref<InFlightDiagnostic()> emitError,
                      FlatSymbolRefAttr flatParam, Type elementType) {
  // secondary_c1
  return verifyElementType(emitError, flatParam, elementType);
}

//===----------------------------------------------------------------------===//
// Custom assembly
//===----------------------------------------------------------------------===//

/// %gw at 0, %gb at 1024
static ParseResult
parsePackParts(OpAsmParser &parser,
               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &parts,
               DenseI64ArrayAttr &offsets) {
  SmallVector<int64_t> values;
  do {
    if (parser.parseOperand(parts.emplace_back()) ||
        parser.parseKeyword("at") || parser.parseInteger(values.emplace_back()))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  offsets = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}

static void printPackParts(OpAsmPrinter &printer, Operation *,
                           OperandRange parts, DenseI64ArrayAttr offsets) {
  llvm::interleaveComma(
      llvm::zip(parts, offsets.asArrayRef()), printer, [&](auto pair) {
        printer << std::get<0>(pair) << " at " << std::get<1>(pair);
      });
}

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/IR/FSDPOps.cpp.inc"

//===----------------------------------------------------------------------===//
// FSDPDialect
//===----------------------------------------------------------------------===//

void FSDPDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/Dialect/FSDP/IR/FSDPAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fsdp/Dialect/FSDP/IR/FSDPTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/Dialect/FSDP/IR/FSDPOps.cpp.inc"
      >();
  addInterface(createReductionHooks(this));
}

//===----------------------------------------------------------------------===//
// Attributes on ops of other dialects
//===----------------------------------------------------------------------===//

namespace {
/// Where an attribute may stand.
enum AttributePlaces : unsigned {
  Argument = 1 << 0,
  Result = 1 << 1,
  Module = 1 << 2,
  Function = 1 << 3,
  AllGather = 1 << 4,
  Collective = 1 << 5,
  Launch = 1 << 6,
  Start = 1 << 7,
  /// What may become part of a kernel: ops in a function that neither transfer
  /// anything nor launch kernels.
  Compute = 1 << 8,
  /// What has results in memory.
  Placed = 1 << 9,
  Program = 1 << 10
};

struct KnownAttribute {
  StringRef name;
  unsigned places;
};
} // namespace

static constexpr std::pair<AttributePlaces, llvm::StringLiteral> kPlaceNames[] =
    {{Argument, "an argument of a function"},
     {Result, "a result of a function"},
     {Module, "a module"},
     {Function, "a function"},
     {AllGather, "fsdp.all_gather"},
     {Collective, "a collective"},
     {Launch, "fsdp.launch"},
     {Start, "fsdp.start"},
     {Compute, "an op that computes in a function"},
     {Placed, "an op with results in memory"},
     {Program, "fsdp.program"}};

static constexpr KnownAttribute kKnownAttributes[] = {
#define FSDP_ATTRIBUTE(constant, name, places) {names::constant, places},
#include "fsdp/Dialect/FSDP/IR/AttributeNames.def"
};

static unsigned getPlaces(Operation *op) {
  bool isTransfer = isa<TransferOpInterface, StartOp, WaitOp>(op);
  auto isInMemory = [](Type type) { return !isa<TokenType>(type); };
  return (isa<ModuleOp>(op) ? Module : 0) |
         (isa<FunctionOpInterface>(op) ? Function : 0) |
         (isa<AllGatherOp>(op) ? AllGather : 0) |
         (isa<CollectiveOpInterface>(op) ? Collective : 0) |
         (isa<LaunchOp>(op) ? Launch : 0) | (isa<StartOp>(op) ? Start : 0) |
         (!isTransfer && !isa<LaunchOp>(op) &&
                  op->getParentOfType<FunctionOpInterface>()
              ? Compute
              : 0) |
         (llvm::any_of(op->getResultTypes(), isInMemory) ? Placed : 0) |
         (isa<ProgramOp>(op) ? Program : 0);
}

/// A name that nothing reads says nothing, nor does one that is read elsewhere;
/// but its writer does not know that. @where is empty for @op itself.
static LogicalResult verifyName(Operation *op, StringAttr name, unsigned places,
                                const std::string &where) {
  auto known = llvm::find_if(kKnownAttributes, [&](const KnownAttribute &it) {
    return it.name == name.getValue();
  });
  if (known != std::end(kKnownAttributes)) {
    // discardable_c2
    if (known->places & places)
      return success();
    InFlightDiagnostic diag = op->emitError("expected '")
                              << known->name << "' on ";
    llvm::interleave(
        llvm::make_filter_range(
            kPlaceNames,
            [&](const auto &it) { return known->places & it.first; }),
        [&](const auto &it) { diag << it.second; }, [&] { diag << " or "; });
    return diag << ", got it on " << where << (where.empty() ? "" : " of ")
                << op->getName();
  }
  // discardable_c1
  auto distance = [&](const KnownAttribute &it) {
    return it.name.edit_distance(name.getValue());
  };
  const KnownAttribute &nearest = *llvm::min_element(
      kKnownAttributes, [&](const KnownAttribute &a, const KnownAttribute &b) {
        return distance(a) < distance(b);
      });
  InFlightDiagnostic diag =
      op->emitError("expected an attribute of the fsdp dialect")
      << (where.empty() ? "" : " on ") << where << ", got '" << name.getValue()
      << "'";
  // Of a short name two letters are too much.
  size_t typed = name.size() - FSDPDialect::getDialectNamespace().size() - 1;
  if (distance(nearest) <= std::max<size_t>(1, typed / 3))
    diag << "; did you mean '" << nearest.name << "'?";
  return diag;
}

/// Numbers of kernels and groups: of one type, so that equal ones are equal.
static LogicalResult verifyNumber(Operation *op, NamedAttribute attr) {
  auto number = dyn_cast<IntegerAttr>(attr.getValue());
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (number && number.getType().isSignlessInteger(64) &&
      number.getInt() >= 0 && number.getInt() <= kMost)
    return success();
  // discardable_c3
  return op->emitOpError("expected ")
         << attr.getName().getValue() << " with an i64 number from 0 to "
         << kMost << ", got " << attr.getValue();
}

/// What a plan names of the op's results: each once, and for one purpose.
static LogicalResult verifyResults(Operation *op, NamedAttribute attr,
                                   StringRef otherName) {
  StringRef name = attr.getName().getValue();
  auto results = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
  // discardable_c4
  if (!results)
    return op->emitOpError("expected ")
           << name << " with an array of numbers of results, got "
           << attr.getValue();
  auto others = op->getAttrOfType<DenseI64ArrayAttr>(otherName);
  for (auto [i, result] : llvm::enumerate(results.asArrayRef())) {
    if (result < 0 || result >= op->getNumResults())
      return op->emitOpError("expected a result below ")
             << op->getNumResults() << " in " << name << ", got " << result;
    if (others && llvm::is_contained(others.asArrayRef(), result))
      return op->emitOpError("expected result ")
             << result << " in one of " << name << " and " << otherName
             << ", got it in both";
    if (llvm::is_contained(results.asArrayRef().take_front(i), result))
      return op->emitOpError("expected each result once in ")
             << name << ", got " << result << " twice";
  }
  return success();
}

/// What is false keeps nothing, so no value may stand there.
static LogicalResult verifyKeep(Operation *op, NamedAttribute attr) {
  // discardable_c5
  if (!isa<UnitAttr>(attr.getValue()))
    return op->emitOpError("expected ")
           << names::kKeep << " without a value, got " << attr.getValue();
  if (op->hasAttr(names::kGroup))
    return op->emitOpError("expected ")
           << names::kKeep << " or " << names::kGroup
           << ", got both: what is kept is not gathered again";
  return success();
}

/// cpu_kernel_c2, cuda_code_c2, cuda_product_c2
static LogicalResult verifyImplementations(Operation *op, NamedAttribute attr) {
  // An entry in LLVM names the function that it calls.
  if (isa<FlatSymbolRefAttr>(attr.getValue()))
    return success();
  auto byTarget = dyn_cast<DictionaryAttr>(attr.getValue());
  if (!byTarget)
    return op->emitOpError("expected code by target in ")
           << attr.getName() << ", got " << attr.getValue();
  for (NamedAttribute of : byTarget) {
    bool isCpu =
        of.getName() == kCpuTarget && isa<CpuKernelAttr>(of.getValue());
    bool isCuda = of.getName() == kCudaTarget &&
                  isa<CudaCodeAttr, CudaProductAttr>(of.getValue());
    if (!isCpu && !isCuda)
      return op->emitOpError("expected #fsdp.cpu_kernel for cpu or "
                             "#fsdp.cuda_code for cuda in ")
             << attr.getName() << ", got " << of.getValue() << " for "
             << of.getName().getValue();
    if (isa<CudaProductAttr>(of.getValue()) && !op->hasAttr(names::kMatmul))
      return op->emitOpError("expected #fsdp.cuda_product beside ")
             << names::kMatmul << ", got it in " << attr.getName() << " alone";
  }
  return success();
}

/// discardable_c6: what is of one type wherever it stands.
template <typename Attr>
static LogicalResult verifyType(Operation *op, NamedAttribute attr,
                                StringRef what) {
  if (isa<Attr>(attr.getValue()))
    return success();
  return op->emitError("expected ") << attr.getName().strref() << " with "
                                    << what << ", got " << attr.getValue();
}

/// matmul_c4
static LogicalResult verifyMatmul(Operation *op, NamedAttribute attr) {
  if (failed(verifyType<MatmulAttr>(op, attr, "a #fsdp.matmul")))
    return failure();
  auto matmul = cast<MatmulAttr>(attr.getValue());
  auto function = cast<FunctionOpInterface>(op); // discardable_c2
  int64_t arguments = function.getNumArguments();
  // Which arguments are inputs, launches say.
  if (matmul.getA() >= arguments || matmul.getB() >= arguments ||
      function.getNumResults() != 1)
    return success();
  Type a = getElementTypeOrSelf(function.getArgumentTypes()[matmul.getA()]),
       b = getElementTypeOrSelf(function.getArgumentTypes()[matmul.getB()]),
       c = getElementTypeOrSelf(function.getResultTypes().front());
  bool isNarrow = a.isBF16() || a.isF16();
  if (a == b && (isNarrow || a.isF32() || a.isF64()) &&
      (c == a || (isNarrow && c.isF32())))
    return success();
  return op->emitError("expected two factors and a result of f64, f32, bf16 or "
                       "f16, or a result of f32 from bf16 or f16, in ")
         << attr.getName() << ", got " << a << ", " << b << " and " << c;
}

LogicalResult FSDPDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (failed(verifyName(op, attr.getName(), getPlaces(op), "")))
    return failure();
  StringRef name = attr.getName().getValue();
  if (name == names::kKernel || name == names::kGroup)
    return verifyNumber(op, attr);
  if (name == names::kImpl)
    return verifyImplementations(op, attr);
  if (name == names::kMatmul)
    return verifyMatmul(op, attr);
  if (name == names::kRecompute)
    return verifyResults(op, attr, names::kOffload);
  if (name == names::kOffload)
    return verifyResults(op, attr, names::kRecompute);
  if (name == names::kOrder)
    return verifyType<StepOrderAttr>(op, attr, "a #fsdp.step_order");
  if (name == names::kBudget)
    return verifyType<BudgetAttr>(op, attr, "a #fsdp.budget");
  if (name == names::kReduction)
    return verifyType<ReductionAttr>(op, attr, "a #fsdp.reduction");
  if (name == names::kCheckpoint)
    return verifyType<CheckpointAttr>(op, attr, "a #fsdp.checkpoint");
  if (name == names::kName || name == names::kOptimizerSpec)
    return verifyType<StringAttr>(op, attr, "a string");
  if (name == names::kOptimizerGroups)
    return verifyType<DictionaryAttr>(op, attr, "a dictionary");
  if (name == names::kTF32 || name == names::kEpilogue)
    return verifyType<UnitAttr>(op, attr, "no value");
  if (name == names::kTuning)
    return verifyTuning(op, attr);
  if (name == names::kTunedFor)
    return verifyType<DictionaryAttr>(op, attr, "a dictionary");
  if (name == names::kTraced)
    return verifyTraced(op, attr);
  // Of a traced step, the contract says what is verified.
  auto module = dyn_cast<ModuleOp>(op);
  bool isPartitioned = module && !module.getOps<MeshOp>().empty();
  if ((name == names::kModules || name == names::kNotes) && isPartitioned)
    return name == names::kNotes ? verifyNotes(op, attr)
                                 : verifyModules(op, attr);
  if (name == names::kStrategy || name == names::kWrap ||
      (name == names::kVerified && isPartitioned))
    return verifyType<StringAttr>(op, attr, "a string");
  if (name == names::kReduceDtype)
    return verifyType<TypeAttr>(op, attr, "a type");
  return name == names::kKeep ? verifyKeep(op, attr) : success();
}

LogicalResult FSDPDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned arg,
                                                    NamedAttribute attr) {
  std::string where = "argument " + std::to_string(arg);
  if (failed(verifyName(op, attr.getName(), Argument, where)))
    return failure();
  return isa<ProgramOp>(op) ? verifyProgramAttribute(op, attr, where)
                            : success();
}

LogicalResult FSDPDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned result,
                                                       NamedAttribute attr) {
  std::string where = "result " + std::to_string(result);
  if (failed(verifyName(op, attr.getName(), Result, where)))
    return failure();
  return isa<ProgramOp>(op) ? verifyProgramAttribute(op, attr, where)
                            : success();
}
