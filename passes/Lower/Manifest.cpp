//===- Manifest.cpp - What an executable says of itself -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Manifest.h"

#include "ManifestValues.h"
#include "fsdp-rt/dependent-launch.h"
#include "fsdp/ABI/Dtype.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/ArenaPlan.h"
#include "fsdp/Analysis/Step/KernelCode.h"
#include "fsdp/Analysis/Step/ProgramFlops.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/ReceivedBytes.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Schedule/ProgramHash.h"

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
      : module(module), options(options) {}

  std::string write(ArrayRef<sched::StepProgram> programs);

private:
  std::string getFingerprint();
  json::Array getMesh();
  json::Array getGroupList();
  json::Object getTraced(DictionaryAttr traced);
  json::Array getFlatParams();
  json::Array getStates(FlatParamOp flat);
  json::Array getBuffers();
  json::Object getArena();
  bool hasProductsInTF32();
  json::Object getNcclSettings();
  bool hasTarget(StringRef kind);
  MeshOp getMeshOp() { return *module.getOps<MeshOp>().begin(); }

  ModuleOp module;
  const ManifestOptions &options;
};

/// What the manifest says of one program.
class ProgramWriter {
public:
  ProgramWriter(ProgramOp step, ArrayRef<ArrayAttr> groups, MeshOp mesh)
      : step(step), groups(groups), mesh(mesh), arena(step.getArenaAttr()) {}

  json::Object write(const sched::StepProgram &program);

private:
  int64_t getEventCount();
  json::Array getQueues();
  json::Array getTraffic();
  json::Object getBound(ScheduleAttr schedule);
  json::Object getCertificate(const sched::StepProgram &program);
  /// How it was ordered.
  StringRef getOrder();
  json::Array getInputs();
  json::Array getScalars();
  json::Object getArena();
  json::Object getPlan();
  json::Array getOutputs();
  int64_t getOffset(unsigned arg) {
    return getArenaOffset(step.getArgument(arg));
  }

  ProgramOp step;
  ArrayRef<ArrayAttr> groups;
  MeshOp mesh;
  ArenaAttr arena;
};
} // namespace

/// The same for all ranks and runs of one program: a digest of its text.
std::string ManifestWriter::getFingerprint() {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, getHashedForm().elideLargeElementsAttrs(1 << 20));
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
  for (ArrayAttr axes : getGroups(module))
    groups.push_back(json::Object{{"axes", toJson(axes)}});
  return groups;
}

/// What fsdp-digest-trace wrote.
json::Object ManifestWriter::getTraced(DictionaryAttr traced) {
  json::Array constants;
  for (auto value :
       traced.getAs<ArrayAttr>("constants").getAsRange<FloatAttr>())
    constants.push_back(toJson(value.getValueAsDouble()));
  json::Object result{
      {"step", traced.getAs<StringAttr>("step").getValue()},
      {"optimizer", traced.getAs<StringAttr>("optimizer").getValue()},
      {"constants", std::move(constants)}};
  if (auto spec = traced.getAs<StringAttr>("spec"))
    result["spec"] = spec.getValue();
  return result;
}

/// The configuration of the outermost module that has one.
static std::optional<json::Value> getModelConfig(ModuleOp module) {
  auto modules = module->getAttrOfType<ArrayAttr>(names::kModules);
  if (!modules)
    return std::nullopt;
  for (auto entry : modules.getAsRange<DictionaryAttr>())
    if (auto config = entry.getAs<StringAttr>("config"))
      return llvm::cantFail(json::parse(config.getValue()));
  return std::nullopt;
}

/// Whose table decided shapes of kernels.
static json::Object getTuning(DictionaryAttr tuned) {
  json::Object tuning;
  for (NamedAttribute entry : tuned)
    if (auto text = dyn_cast<StringAttr>(entry.getValue()))
      tuning[entry.getName().getValue()] = text.getValue();
  return tuning;
}

/// Optimizer states of one flat parameter; those with one element are common to
/// all.
json::Array ManifestWriter::getStates(FlatParamOp flat) {
  json::Array states;
  for (auto state : module.getOps<StateOp>()) {
    bool isShared = !state.getFlatParamAttr();
    if (state.getKind() != StateKind::optimizer ||
        (!isShared && state.getFlatParamAttr() != FlatSymbolRefAttr::get(flat)))
      continue;
    auto init = cast<FloatAttr>(state.getInitAttr());
    states.push_back(json::Object{
        {"name", *state.getCheckpointName()},
        {"dtype", getDtypeName(getTensor(state.getType()).getElementType())},
        {"scalar", isShared},
        {"memory", isa<HostType>(state.getType()) ? "host" : "device"},
        {"offset", int64_t(*state.getOffset())},
        {"init", toJson(init.getValueAsDouble())}});
  }
  return states;
}

json::Array ManifestWriter::getFlatParams() {
  json::Array result;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getKind() != StateKind::parameter)
      continue;
    auto flat = module.lookupSymbol<FlatParamOp>(*state.getFlatParam());
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
        {"memory", isa<HostType>(state.getType()) ? "host" : "device"},
        {"offset", int64_t(*state.getOffset())},
        {"members", std::move(members)},
        {"states", flat.getTrainable() ? getStates(flat) : json::Array()}});
  }
  return result;
}

json::Array ManifestWriter::getBuffers() {
  llvm::DenseSet<Attribute> written;
  for (auto program : module.getOps<ProgramOp>())
    for (unsigned i = 0, e = program.getNumResults(); i != e; ++i)
      if (Attribute state = program.getWrittenState(i))
        written.insert(state);
  json::Array buffers;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getKind() != StateKind::buffer)
      continue;
    auto type = cast<RankedTensorType>(state.getType());
    bool isUnsigned = state.getIsUnsigned();
    buffers.push_back(json::Object{
        {"fqn", *state.getCheckpointName()},
        {"per_rank", written.contains(FlatSymbolRefAttr::get(state))},
        {"dtype", getStoredDtype(type, isUnsigned)},
        {"shape", toJson(type.getShape())},
        {"offset", int64_t(*state.getOffset())},
        {"init", getInit(state.getInitAttr(), isUnsigned)}});
  }
  return buffers;
}

/// The largest program's, and what is common to all.
json::Object ManifestWriter::getArena() {
  int64_t bytes = 0, host = 0, state = 0, border = 0;
  for (auto program : module.getOps<ProgramOp>()) {
    ArenaAttr arena = program.getArenaAttr();
    bytes = std::max(bytes, arena.getBytes());
    host = std::max(host, arena.getHost());
    state = std::max(state, arena.getState());
    border = std::max(border, arena.getBorder());
  }
  auto budget = module->getAttrOfType<BudgetAttr>(names::kBudget);
  return json::Object{
      {"bytes", bytes},
      {"host_bytes", host},
      {"state_bytes", state},
      {"host_state_bytes", getHostStateBytes(module, border)},
      {"scratch_bytes", getScratchBytes(getKernelWithMostScratch(module))},
      // Borders come on top of what the budget was for.
      {"budget_bytes", border ? 0 : getArenaBudget(module).value_or(0)},
      {"reserved_bytes", border || !budget ? 0 : budget.getReserved()}};
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

int64_t ProgramWriter::getEventCount() {
  int64_t count = 0;
  for (auto start : step.getOps<StartOp>())
    count = std::max<int64_t>(count, start.getEvent() + 1);
  return count;
}

json::Array ProgramWriter::getQueues() {
  std::set<TransferQueue> used;
  for (auto start : step.getOps<StartOp>())
    used.insert(start.getQueue());
  json::Array queues;
  for (TransferQueue queue : used)
    queues.push_back(stringifyTransferQueue(queue));
  return queues;
}

json::Array ProgramWriter::getTraffic() {
  struct Sum {
    int64_t calls = 0, bytes = 0;
  };
  llvm::MapVector<std::pair<int64_t, StringRef>, Sum> sums;
  step.walk([&](CollectiveOpInterface op) {
    int64_t group = llvm::find(groups, op.getAxesAttr()) - groups.begin();
    Sum &sum = sums[{group, op->getName().stripDialect()}];
    ++sum.calls;
    sum.bytes += op.getTrafficBytes(mesh.getGroupSize(op.getAxesAttr()));
  });
  json::Array traffic;
  for (auto &[key, sum] : sums)
    traffic.push_back(json::Object{{"group", key.first},
                                   {"kind", key.second},
                                   {"calls", sum.calls},
                                   {"bytes", sum.bytes}});
  return traffic;
}

/// What no order of the program stays below on the machine that it was compiled
/// for.
json::Object ProgramWriter::getBound(ScheduleAttr schedule) {
  constexpr int64_t kPicosecondsPerNanosecond = 1000;
  json::Object bound{{"ns", schedule.getBound() / kPicosecondsPerNanosecond},
                     {"limit", schedule.getLimit().getValue()},
                     {"machine", schedule.getMachine().getValue()}};
  if (schedule.getPeakFlops())
    bound["peak_flops"] = schedule.getPeakFlops();
  return bound;
}

StringRef ProgramWriter::getOrder() {
  ScheduleAttr schedule = step.getScheduleAttr();
  return schedule ? stringifyOrder(schedule.getOrder()) : "synchronous";
}

/// What the code must be, and for people what each event is.
json::Object ProgramWriter::getCertificate(const sched::StepProgram &program) {
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
                      {"order", getOrder()},
                      {"peak_bytes", program.arenaBytes},
                      {"host_bytes", program.hostBytes},
                      {"transfers", std::move(transfers)}};
}

json::Array ProgramWriter::getInputs() {
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
    auto isUnsigned = input.getAs<BoolAttr>("unsigned");
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
        {"dtype", getStoredDtype(type, isUnsigned && isUnsigned.getValue())},
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

json::Array ProgramWriter::getScalars() {
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

json::Object ProgramWriter::getArena() {
  json::Array segments;
  int64_t sizes[] = {arena.getState(), arena.getInputs(),
                     arena.getCommunicated(), arena.getTransient(),
                     arena.getWorkspace()};
  int64_t offset = 0;
  for (auto [name, bytes] : llvm::zip_equal(kSegmentNames, sizes)) {
    segments.push_back(
        json::Object{{"name", name}, {"offset", offset}, {"bytes", bytes}});
    offset += bytes;
  }
  return json::Object{{"bytes", arena.getBytes()},
                      {"host_bytes", arena.getHost()},
                      {"segments", std::move(segments)}};
}

json::Object ProgramWriter::getPlan() {
  json::Object plan;
  for (auto [name, bytes] :
       llvm::zip_equal(kPurposeNames, arena.getPeak().asArrayRef()))
    plan[name] = bytes;
  return plan;
}

json::Array ProgramWriter::getOutputs() {
  json::Array outputs;
  for (unsigned i = 0, e = step.getNumResults(); i != e; ++i) {
    StringRef name;
    if (step.getResultAttr(i, names::kLoss))
      name = "loss";
    else if (step.getResultAttr(i, names::kLossCount))
      name = "loss_count";
    else if (step.getResultAttr(i, names::kGradNorm))
      name = "grad_norm";
    else if (auto output =
                 step.getResultAttrOfType<DictionaryAttr>(i, names::kOutput))
      name = output.getAs<StringAttr>("name").getValue();
    else
      continue;
    Value value = step.getReturn().getOperand(i);
    auto type = cast<RankedTensorType>(value.getType());
    outputs.push_back(
        json::Object{{"name", name},
                     {"dtype", getDtypeName(type.getElementType())},
                     {"shape", toJson(type.getShape())},
                     {"offset", getArenaOffset(value)}});
  }
  return outputs;
}

json::Object ProgramWriter::write(const sched::StepProgram &program) {
  json::Object result{{"name", step.getSymName()},
                      {"kind", stringifyProgramKind(step.getKind())},
                      {"arena", getArena()},
                      {"plan", getPlan()},
                      {"certificate", getCertificate(program)},
                      {"events", getEventCount()},
                      {"queues", getQueues()},
                      {"traffic", getTraffic()},
                      {"inputs", getInputs()},
                      {"scalars", getScalars()},
                      {"outputs", getOutputs()}};
  if (FlopsAttr flops = step.getFlopsAttr())
    result["flops"] = getTotalFlops(flops);
  if (ScheduleAttr schedule = step.getScheduleAttr())
    result["bound"] = getBound(schedule);
  return result;
}

bool ManifestWriter::hasTarget(StringRef kind) {
  return llvm::any_of(options.targets, [&](const CodeTarget &target) {
    return target.kind == kind;
  });
}

bool ManifestWriter::hasProductsInTF32() {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp kernel) {
    return kernel->hasAttr(names::kTF32);
  });
}

/// What NCCL should be told for this program, as variables of its environment:
/// ncclConfig_t has no field for them.
json::Object ManifestWriter::getNcclSettings() {
  json::Object settings;
  // All-reduces among replicas run beside what goes on among shards. Rings of
  // the former that leave a host by another NIC than they came by find one that
  // the latter does not use.
  bool hasBoth = llvm::any_of(module.getOps<ProgramOp>(), [](ProgramOp step) {
    bool reduces = false, others = false;
    for (auto start : step.getOps<StartOp>()) {
      reduces |= start.getQueue() == TransferQueue::all_reduce;
      others |= start.getQueue() == TransferQueue::all_gather ||
                start.getQueue() == TransferQueue::reduce;
    }
    return reduces && others;
  });
  auto flats = module.getOps<FlatParamOp>();
  bool hasReplicas = llvm::any_of(flats, [&](FlatParamOp flat) {
    return !flat.getShardAxes().empty() &&
           getMeshOp().getGroupSize(flat.getReplicateAxes()) > 1;
  });
  if (hasTarget(kCudaTarget) && hasReplicas && hasBoth)
    settings["NCCL_CROSS_NIC"] = "1";
  return settings;
}

std::string ManifestWriter::write(ArrayRef<sched::StepProgram> extracted) {
  auto text = [&](StringRef key) {
    auto attr = module->getAttrOfType<StringAttr>(key);
    return attr ? attr.getValue() : StringRef();
  };
  StringRef name = text(names::kName);
  json::Array targets;
  for (const CodeTarget &target : options.targets)
    targets.push_back(json::Object{{"kind", target.kind},
                                   {"cpu", target.cpu},
                                   {"features", json::Array(target.features)}});
  SmallVector<ArrayAttr> groups = getGroups(module);
  json::Array programs;
  for (auto [program, of] :
       llvm::zip_equal(module.getOps<ProgramOp>(), extracted))
    programs.push_back(ProgramWriter(program, groups, getMeshOp()).write(of));
  json::Object manifest{
      {"format", 3},
      {"name", name.empty() ? "step" : name},
      {"fingerprint", getFingerprint()},
      {"targets", std::move(targets)},
      {"mesh", getMesh()},
      {"verified", text(names::kVerified)},
      {"strategy", text(names::kStrategy)},
      {"wrap", text(names::kWrap)},
      {"groups", getGroupList()},
      {"arena", getArena()},
      {"flat_params", getFlatParams()},
      {"buffers", getBuffers()},
      {"accumulators", getDerivedStates(module, StateKind::accumulator)},
      {"gathered", getDerivedStates(module, StateKind::gathered)},
      {"programs", std::move(programs)}};
  if (auto notes = module->getAttrOfType<ArrayAttr>(names::kNotes))
    manifest["notes"] = toJson(notes);
  if (std::optional<json::Value> config = getModelConfig(module))
    manifest["config"] = std::move(*config);
  if (auto traced = module->getAttrOfType<DictionaryAttr>(names::kTraced))
    manifest["traced"] = getTraced(traced);
  if (json::Array residuals = getResiduals(module); !residuals.empty())
    manifest["residuals"] = std::move(residuals);
  if (module->hasAttr(names::kSkipsNonfinite))
    manifest["skips_nonfinite"] = true;
  if (auto scale = module->getAttrOfType<DictionaryAttr>(names::kLossScale)) {
    auto number = [&](StringRef key) {
      auto value = scale.getAs<FloatAttr>(key);
      return toJson(value ? value.getValueAsDouble() : 0);
    };
    manifest["loss_scale"] =
        json::Object{{"backoff", number("backoff")}, {"min", number("min")}};
  }
  if (auto reduce = module->getAttrOfType<TypeAttr>(names::kReduceDtype))
    manifest["reduce_dtype"] = getDtypeName(reduce.getValue());
  if (hasProductsInTF32())
    manifest["products"] = json::Object{{kCudaTarget, "tf32"}};
  if (hasApproximations(module))
    manifest["math"] = json::Object{{kCudaTarget, "fast"}};
  if (auto tuned = module->getAttrOfType<DictionaryAttr>(names::kTunedFor))
    manifest["tuning"] = getTuning(tuned);
  if (hasTarget(kCudaTarget)) {
    manifest["dependent_launch"] =
        "sm_" + std::to_string(::fsdp::rt::dependentLaunchCapability);
    manifest["reduction_bytes"] = toJson(getReceivedBytes(module));
    if (auto reduction =
            module->getAttrOfType<ReductionAttr>(names::kReduction))
      manifest["reduction"] =
          json::Object{{"by", stringifyAdder(reduction.getBy())},
                       {"ranks_per_node", reduction.getRanksPerNode()}};
  }
  if (json::Object nccl = getNcclSettings(); !nccl.empty())
    manifest["nccl"] = std::move(nccl);
  std::string result;
  llvm::raw_string_ostream(result) << json::Value(std::move(manifest));
  return result;
}

std::string mlir::fsdp::createManifest(ModuleOp module,
                                       ArrayRef<sched::StepProgram> programs,
                                       const ManifestOptions &options) {
  return ManifestWriter(module, options).write(programs);
}

FailureOr<std::string>
mlir::fsdp::createManifest(ModuleOp module, const ManifestOptions &options) {
  std::vector<sched::StepProgram> programs;
  for (auto program : module.getOps<ProgramOp>()) {
    FailureOr<sched::StepProgram> extracted = extractCertifiedProgram(program);
    if (failed(extracted))
      return failure();
    programs.push_back(std::move(*extracted));
  }
  return createManifest(module, programs, options);
}
