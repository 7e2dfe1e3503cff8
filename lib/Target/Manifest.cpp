//===- Manifest.cpp - What an executable says of itself -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Manifest.h"
#include "fsdp/Analysis/ArenaPlan.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Analysis/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Target/Dtype.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SHA1.h"

using namespace mlir;
using namespace mlir::fsdp;
namespace json = llvm::json;

namespace {
class ManifestWriter {
public:
  ManifestWriter(ModuleOp module, const ManifestOptions &options)
      : module(module), options(options), step(getStep(module)) {}

  std::string write(const sched::StepProgram &program);

private:
  std::string getFingerprint();
  json::Array getMesh();
  json::Array getGroupList();
  int64_t getEventCount();
  json::Array getQueues();
  json::Array getTraffic();
  json::Object getCertificate(const sched::StepProgram &program);
  json::Object getTraced(DictionaryAttr traced);
  json::Array getFlatParams();
  json::Array getStates(FlatParamOp flat);
  json::Array getBuffers();
  json::Array getInputs();
  json::Array getScalars();
  json::Object getArena();
  json::Object getPlan();
  json::Object getOutputs();

  IntegerAttr getSize(StringRef key) {
    return step->getAttrOfType<DictionaryAttr>(names::kArena)
        .getAs<IntegerAttr>(key);
  }
  int64_t getOffset(unsigned arg) {
    return getArenaOffset(step.getArgument(arg));
  }
  MeshOp getMeshOp() { return *module.getOps<MeshOp>().begin(); }

  ModuleOp module;
  const ManifestOptions &options;
  func::FuncOp step;
};
} // namespace

static json::Array toJson(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

static json::Array toJson(ArrayAttr names) {
  json::Array array;
  if (names)
    for (auto name : names.getAsValueRange<StringAttr>())
      array.push_back(name);
  return array;
}

/// A float as JSON; what JSON cannot write is a word.
static json::Value toJson(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  return value;
}

/// Whether the bytes of a buffer or input carry no sign.
static bool isUnsigned(DictionaryAttr dict) {
  auto flag = dict.getAs<BoolAttr>("unsigned");
  return flag && flag.getValue();
}

/// How files and checkpoints name the elements of a buffer or input.
static StringRef getStoredDtype(RankedTensorType type, DictionaryAttr dict) {
  Type element = type.getElementType();
  if (isUnsigned(dict))
    element = IntegerType::get(type.getContext(), 8, IntegerType::Unsigned);
  return getDtypeName(element);
}

/// An initialiser of the input contract; null where only a file can tell. Its
/// integers are read without a sign if @isUnsigned.
static json::Value getInit(Attribute attr, bool isUnsigned = false) {
  auto dict = dyn_cast_or_null<DictionaryAttr>(attr);
  auto kind = dict ? dict.getAs<StringAttr>("kind") : StringAttr();
  if (!kind || kind == "file")
    return nullptr;
  json::Object init{{"kind", kind.getValue()}};
  for (NamedAttribute entry : dict) {
    if (auto value = dyn_cast<FloatAttr>(entry.getValue())) {
      init[entry.getName().getValue()] = toJson(value.getValueAsDouble());
    } else if (auto value = dyn_cast<IntegerAttr>(entry.getValue())) {
      init[entry.getName().getValue()] = value.getInt();
    } else if (auto dense = dyn_cast<DenseElementsAttr>(entry.getValue())) {
      json::Array values;
      if (isa<FloatType>(dense.getElementType()))
        for (APFloat value : dense.getValues<APFloat>())
          values.push_back(toJson(value.convertToDouble()));
      else
        for (APInt value : dense.getValues<APInt>())
          values.push_back(isUnsigned || value.getBitWidth() == 1
                               ? int64_t(value.getZExtValue())
                               : value.getSExtValue());
      init["values"] = std::move(values);
    }
  }
  return init;
}

/// The same for all ranks and runs of one program: a digest of its text.
std::string ManifestWriter::getFingerprint() {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, OpPrintingFlags().elideLargeElementsAttrs(1 << 20));
  llvm::SHA1 hash;
  hash.update(text);
  return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
}

json::Array ManifestWriter::getMesh() {
  json::Array axes;
  for (auto axis : getMeshOp().getAxes().getAsRange<MeshAxisAttr>())
    axes.push_back(json::Object{{"axis", axis.getName().getValue()},
                                {"size", axis.getSize()}});
  return axes;
}

json::Array ManifestWriter::getGroupList() {
  json::Array groups;
  for (ArrayAttr axes : getGroups(step))
    groups.push_back(json::Object{{"axes", toJson(axes)}});
  return groups;
}

int64_t ManifestWriter::getEventCount() {
  int64_t count = 0;
  for (auto start : step.getOps<StartOp>())
    count = std::max<int64_t>(count, start.getEvent() + 1);
  return count;
}

json::Array ManifestWriter::getQueues() {
  std::set<TransferQueue> used;
  for (auto start : step.getOps<StartOp>())
    used.insert(start.getQueue());
  json::Array queues;
  for (TransferQueue queue : used)
    queues.push_back(stringifyTransferQueue(queue));
  return queues;
}

json::Array ManifestWriter::getTraffic() {
  struct Sum {
    int64_t calls = 0, bytes = 0;
  };
  SmallVector<ArrayAttr> groups = getGroups(step);
  llvm::MapVector<std::pair<int64_t, StringRef>, Sum> sums;
  step.walk([&](CollectiveOpInterface op) {
    int64_t group = llvm::find(groups, op.getAxesAttr()) - groups.begin();
    Sum &sum = sums[{group, op->getName().stripDialect()}];
    ++sum.calls;
    sum.bytes += op.getTrafficBytes(getMeshOp().getGroupSize(op.getAxesAttr()));
  });
  json::Array traffic;
  for (auto &[key, sum] : sums)
    traffic.push_back(json::Object{{"group", key.first},
                                   {"kind", key.second},
                                   {"calls", sum.calls},
                                   {"bytes", sum.bytes}});
  return traffic;
}

/// What the code must be, and for people what each event is.
json::Object ManifestWriter::getCertificate(const sched::StepProgram &program) {
  json::Array transfers;
  for (sched::Id start : sched::getEventOps(program).start) {
    // An event that no start has is refused by the verifier.
    const sched::StepOp &op = program.ops[start];
    const sched::StepTransfer &transfer = program.transfers[op.transfer];
    json::Array units;
    for (sched::Id unit : transfer.atomUnits)
      units.push_back(unit < 0 ? "" : program.units[unit]);
    transfers.push_back(
        json::Object{{"unit", op.unit < 0 ? "" : program.units[op.unit]},
                     {"kind", kTransferKindNames[unsigned(transfer.kind)]},
                     {"units", std::move(units)},
                     {"phase", op.backward ? "backward" : "forward"}});
  }
  return json::Object{{"program", sched::getProgramHash(program)},
                      {"issue", sched::getIssueHash(program)},
                      {"order", options.order},
                      {"peak_bytes", program.arenaBytes},
                      {"host_bytes", program.hostBytes},
                      {"transfers", std::move(transfers)}};
}

/// What fsdp-digest-trace wrote.
json::Object ManifestWriter::getTraced(DictionaryAttr traced) {
  json::Array constants;
  for (auto value :
       traced.getAs<ArrayAttr>("constants").getAsRange<FloatAttr>())
    constants.push_back(toJson(value.getValueAsDouble()));
  return json::Object{
      {"step", traced.getAs<StringAttr>("step").getValue()},
      {"optimizer", traced.getAs<StringAttr>("optimizer").getValue()},
      {"constants", std::move(constants)}};
}

/// States of one flat parameter; those with one element are common to all.
json::Array ManifestWriter::getStates(FlatParamOp flat) {
  json::Array states;
  for (BlockArgument arg : step.getArguments()) {
    auto state = step.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                       names::kState);
    if (!state)
      continue;
    auto owner = state.getAs<FlatSymbolRefAttr>("flat_param");
    if (owner && owner != FlatSymbolRefAttr::get(flat))
      continue;
    auto type = cast<RankedTensorType>(arg.getType());
    states.push_back(json::Object{
        {"name", state.getAs<StringAttr>("name").getValue()},
        {"dtype", getDtypeName(type.getElementType())},
        {"scalar", !owner},
        {"offset", getOffset(arg.getArgNumber())},
        {"init", toJson(state.getAs<FloatAttr>("init").getValueAsDouble())}});
  }
  return states;
}

json::Array ManifestWriter::getFlatParams() {
  json::Array result;
  for (BlockArgument arg : step.getArguments()) {
    auto name = step.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(),
                                                         names::kShard);
    if (!name)
      continue;
    auto flat = module.lookupSymbol<FlatParamOp>(name);
    json::Array members;
    for (MemberAttr member : flat.getMemberRange())
      members.push_back(
          json::Object{{"fqn", member.getFqn().getValue()},
                       {"tied", toJson(member.getTied())},
                       {"shape", toJson(member.getType().getShape())},
                       {"offset", member.getOffset()},
                       {"init", getInit(member.getInit())}});
    result.push_back(json::Object{
        {"name", flat.getSymName()},
        {"unit", flat.getUnit()},
        {"dtype", getDtypeName(flat.getElementType())},
        {"numel", int64_t(flat.getNumel())},
        {"shard_numel", flat.getShardNumel(getMeshOp())},
        {"shard_axes", toJson(flat.getShardAxes())},
        {"trainable", flat.getTrainable()},
        {"per_rank", flat.getTrainable() && flat.isRankOwn()},
        {"offset", getOffset(arg.getArgNumber())},
        {"members", std::move(members)},
        {"states", flat.getTrainable() ? getStates(flat) : json::Array()}});
  }
  return result;
}

json::Array ManifestWriter::getBuffers() {
  llvm::StringSet<> updated;
  for (unsigned i = 0, e = step.getNumResults(); i != e; ++i)
    if (auto update =
            step.getResultAttrOfType<DictionaryAttr>(i, names::kBufferUpdate))
      updated.insert(update.getAs<StringAttr>("fqn").getValue());
  json::Array buffers;
  for (BlockArgument arg : step.getArguments()) {
    auto buffer = step.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                        names::kBuffer);
    if (!buffer)
      continue;
    auto type = cast<RankedTensorType>(arg.getType());
    StringRef fqn = buffer.getAs<StringAttr>("fqn").getValue();
    buffers.push_back(
        json::Object{{"fqn", fqn},
                     {"per_rank", updated.contains(fqn)},
                     {"dtype", getStoredDtype(type, buffer)},
                     {"shape", toJson(type.getShape())},
                     {"offset", getOffset(arg.getArgNumber())},
                     {"init", getInit(buffer.get("init"), isUnsigned(buffer))}});
  }
  return buffers;
}

json::Array ManifestWriter::getInputs() {
  json::Array inputs;
  for (BlockArgument arg : step.getArguments()) {
    auto input = step.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                       names::kInput);
    if (!input)
      continue;
    auto type = cast<RankedTensorType>(arg.getType());
    auto bound = [&](StringRef key) -> json::Value {
      auto value = input.getAs<IntegerAttr>(key);
      return value ? json::Value(value.getInt()) : json::Value(nullptr);
    };
    auto shift = input.getAs<IntegerAttr>("shift");
    bool isUnknown = bool(input.getAs<StringAttr>("shift"));
    auto list = [&](StringRef key) -> json::Value {
      auto values = input.getAs<DenseI64ArrayAttr>(key);
      return values ? json::Value(json::Array(values.asArrayRef()))
                    : json::Value(nullptr);
    };
    auto allowed = list("allowed");
    inputs.push_back(json::Object{
        {"name", input.getAs<StringAttr>("name").getValue()},
        {"dtype", getStoredDtype(type, input)},
        {"shape", toJson(type.getShape())},
        {"offset", getOffset(arg.getArgNumber())},
        {"low", bound("low")},
        {"high", bound("high")},
        {"allowed", allowed.getAsArray() ? std::move(allowed)
                                         : json::Value(json::Array())},
        {"draw", list("draw")},
        {"shift", isUnknown ? json::Value(nullptr)
                  : shift   ? json::Value(shift.getInt())
                            : json::Value(0)}});
  }
  return inputs;
}

json::Array ManifestWriter::getScalars() {
  json::Array scalars;
  for (BlockArgument arg : step.getArguments()) {
    auto scalar = step.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                        names::kScalar);
    if (!scalar)
      continue;
    auto type = cast<RankedTensorType>(arg.getType());
    auto value = scalar.getAs<FloatAttr>("default");
    scalars.push_back(
        json::Object{{"name", scalar.getAs<StringAttr>("name").getValue()},
                     {"dtype", getDtypeName(type.getElementType())},
                     {"offset", getOffset(arg.getArgNumber())},
                     {"default", value ? json::Value(value.getValueAsDouble())
                                       : json::Value(nullptr)}});
  }
  return scalars;
}

json::Object ManifestWriter::getArena() {
  json::Array segments;
  for (StringRef name : kSegmentNames)
    segments.push_back(
        json::Object{{"name", name},
                     {"offset", getSize((name + "_offset").str()).getInt()},
                     {"bytes", getSize((name + "_bytes").str()).getInt()}});
  auto hostBytes = getSize("host_bytes");
  return json::Object{
      {"bytes", getSize("bytes").getInt()},
      {"host_bytes", hostBytes ? hostBytes.getInt() : 0},
      {"segments", std::move(segments)},
      {"scratch_bytes", getScratchBytes(getKernelWithMostScratch(module))},
      {"budget_bytes", options.budgetBytes}};
}

json::Object ManifestWriter::getPlan() {
  json::Object plan;
  for (StringRef name : kPurposeNames)
    plan[name] = getSize(("peak_" + name).str()).getInt();
  return plan;
}

json::Object ManifestWriter::getOutputs() {
  json::Object outputs;
  Operation *ret = step.getBody().front().getTerminator();
  auto add = [&](StringRef name, StringRef attr) {
    for (unsigned i = 0, e = step.getNumResults(); i != e; ++i) {
      if (!step.getResultAttr(i, attr))
        continue;
      Value value = ret->getOperand(i);
      outputs[name] = json::Object{
          {"dtype",
           getDtypeName(
               cast<RankedTensorType>(value.getType()).getElementType())},
          {"offset", getArenaOffset(value)}};
    }
  };
  add("loss", names::kLoss);
  add("grad_norm", names::kGradNorm);
  return outputs;
}

std::string ManifestWriter::write(const sched::StepProgram &program) {
  auto text = [&](StringRef key) {
    auto attr = module->getAttrOfType<StringAttr>(key);
    return attr ? attr.getValue() : StringRef();
  };
  json::Array features;
  for (const std::string &feature : options.features)
    features.push_back(feature);
  json::Object manifest{
      {"format", 1},
      {"name", options.name},
      {"fingerprint", getFingerprint()},
      {"target", json::Object{{"kind", "cpu"},
                              {"cpu", options.cpu},
                              {"features", std::move(features)}}},
      {"mesh", getMesh()},
      {"verified", text(names::kVerified)},
      {"strategy", text(names::kStrategy)},
      {"wrap", text(names::kWrap)},
      {"groups", getGroupList()},
      {"arena", getArena()},
      {"plan", getPlan()},
      {"certificate", getCertificate(program)},
      {"events", getEventCount()},
      {"queues", getQueues()},
      {"traffic", getTraffic()},
      {"flat_params", getFlatParams()},
      {"buffers", getBuffers()},
      {"inputs", getInputs()},
      {"scalars", getScalars()},
      {"outputs", getOutputs()}};
  if (auto traced = module->getAttrOfType<DictionaryAttr>(names::kTraced))
    manifest["traced"] = getTraced(traced);
  if (module->hasAttr(names::kSkipsNonfinite))
    manifest["skips_nonfinite"] = true;
  std::string result;
  llvm::raw_string_ostream(result) << json::Value(std::move(manifest));
  return result;
}

std::string fsdp::createManifest(ModuleOp module,
                                 const sched::StepProgram &program,
                                 const ManifestOptions &options) {
  return ManifestWriter(module, options).write(program);
}

FailureOr<std::string> fsdp::createManifest(ModuleOp module,
                                            const ManifestOptions &options) {
  FailureOr<sched::StepProgram> program = extractCertifiedProgram(module);
  if (failed(program))
    return failure();
  return createManifest(module, *program, options);
}
