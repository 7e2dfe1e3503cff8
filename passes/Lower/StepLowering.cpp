//===- StepLowering.cpp - Calls of one program ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each op of a program becomes a descriptor, a constant with the bytes that it
// touches and what is done to them, and a call of the runtime's function for
// it.
//
//===----------------------------------------------------------------------===//

#include "StepLowering.h"
#include "fsdp-rt/abi.h"
#include "fsdp/ABI/Dtype.h"
#include "fsdp/Analysis/Attention/PlainScores.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/KernelCode.h"
#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mlir::fsdp;

std::string fsdp::getRunName(ProgramOp program) {
  return ("fsdp_run_" + program.getSymName()).str();
}

namespace {
class StepLowering {
public:
  StepLowering(ModuleOp module, ProgramOp step, DescriptorBuilder &descriptors,
               KernelImplementations &implementations)
      : module(module), step(step), symbols(module), descriptors(descriptors),
        implementations(implementations), builder(module.getContext()),
        groups(getGroups(module)) {}

  LogicalResult lower(const GuardPlan *guards);

private:
  Descriptor describeGuard(StringRef name, ArrayRef<GuardedBuffer> buffers);
  void lowerGuard(StringRef name, ArrayRef<GuardedBuffer> buffers,
                  Location loc);
  LogicalResult lowerOp(Operation &op);
  LogicalResult lowerLaunch(LaunchOp op);
  void lowerMatmul(LaunchOp op, func::FuncOp kernel, MatmulAttr matmul);
  LogicalResult lowerKernel(LaunchOp op, func::FuncOp kernel);
  LogicalResult checkAlignment(LaunchOp op, func::FuncOp kernel,
                               ArrayRef<int64_t> offsets);
  template <typename Op>
  LogicalResult lowerAttention(LaunchOp op, func::FuncOp kernel, Op attention);
  FailureOr<Descriptor> describe(CollectiveOpInterface op);
  FailureOr<Descriptor> describe(TransferOpInterface op);
  FailureOr<Descriptor> describeStart(ArrayRef<TransferOpInterface> parts);
  LogicalResult lowerTransfer(TransferOpInterface op);
  LogicalResult lowerStart(StartOp op, StringRef name,
                           ArrayRef<GuardedBuffer> guarded);
  void lowerPack(PackOp op);
  void lowerReturn(Operation *ret);

  void setWorkspace(Descriptor &descriptor, func::FuncOp kernel);
  void call(StringRef function, const Descriptor &descriptor, Location loc);
  void copy(StringRef name, int64_t from, int64_t to, int64_t bytes,
            Location loc);

  ModuleOp module;
  ProgramOp step;
  SymbolTable symbols;
  /// For functions of CUDA devices, which lie in a module of their own.
  SymbolTableCollection deviceSymbols;
  DescriptorBuilder &descriptors;
  KernelImplementations &implementations;
  OpBuilder builder;
  SmallVector<ArrayAttr> groups;
  LLVM::LLVMFuncOp func;
  Block *exit = nullptr;
};
} // namespace

/// Calls a runtime function and leaves the step where it fails.
void StepLowering::call(StringRef function, const Descriptor &descriptor,
                        Location loc) {
  std::string name = ("fsdp_rt_" + function).str();
  auto callee = symbols.lookup<LLVM::LLVMFuncOp>(name);
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  if (!callee) {
    OpBuilder outside = OpBuilder::atBlockEnd(module.getBody());
    callee = LLVM::LLVMFuncOp::create(
        outside, module.getLoc(), name,
        LLVM::LLVMFunctionType::get(builder.getI32Type(), {pointer, pointer}));
    symbols.insert(callee);
  }
  Value address = LLVM::AddressOfOp::create(
      builder, loc, pointer, descriptors.createDescriptor(descriptor));
  Value code = LLVM::CallOp::create(builder, loc, callee,
                                    ValueRange{func.getArgument(0), address})
                   .getResult();
  Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI32Type(),
                                        builder.getI32IntegerAttr(0));
  Value ok =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, code, zero);
  Block *next = new Block;
  func.getBody().getBlocks().insert(exit->getIterator(), next);
  LLVM::CondBrOp::create(builder, loc, ok, next, ValueRange{}, exit,
                         ValueRange{code});
  builder.setInsertionPointToStart(next);
}

void StepLowering::copy(StringRef name, int64_t from, int64_t to, int64_t bytes,
                        Location loc) {
  if (bytes == 0 || from == to)
    return;
  Descriptor descriptor("copy");
  descriptor.set("name", name.str());
  descriptor.set("src", from);
  descriptor.set("dst", to);
  descriptor.set("bytes", bytes);
  call("copy", descriptor, loc);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Bytes that a kernel must move at least, as the first of its targets says.
static int64_t getTraffic(func::FuncOp kernel) {
  if (CpuKernelAttr code = getCpuKernel(kernel))
    return code.getTraffic();
  return getCudaCode(kernel).getTraffic();
}

/// Calls run one after another: all begin at the same place.
void StepLowering::setWorkspace(Descriptor &descriptor, func::FuncOp kernel) {
  int64_t bytes = getWorkspaceBytes(kernel);
  int64_t offset = bytes ? step.getArenaAttr().getWorkspaceOffset() : 0;
  descriptor.set("workspace", offset);
  descriptor.set("workspace_bytes", bytes);
}

/// Functions for CUDA devices load several elements at once, and an argument
/// says (llvm.align) what its address is a multiple of. Arenas are aligned to
/// more, so that offsets tell.
LogicalResult StepLowering::checkAlignment(LaunchOp op, func::FuncOp kernel,
                                           ArrayRef<int64_t> offsets) {
  CudaCodeAttr code = getCudaCode(kernel);
  if (!code)
    return success();
  for (CudaKernelAttr launch : code.getKernels()) {
    auto function = deviceSymbols.lookupSymbolIn<gpu::GPUFuncOp>(
        module, launch.getFunction());
    if (!function)
      continue;
    for (auto [i, offset] : llvm::enumerate(offsets)) {
      auto wanted = function.getArgAttrOfType<IntegerAttr>(
          i, LLVM::LLVMDialect::getAlignAttrName());
      if (!wanted || offset % wanted.getInt() == 0)
        continue;
      InFlightDiagnostic error = op.emitOpError("expected operand ")
                                 << i << " of @" << kernel.getSymName()
                                 << " at a multiple of " << wanted.getInt()
                                 << " bytes, got offset " << offset;
      error.attachNote(function.getLoc())
          << "its code for CUDA devices is here";
      return error;
    }
  }
  return success();
}

LogicalResult StepLowering::lowerKernel(LaunchOp op, func::FuncOp kernel) {
  FailureOr<FlatSymbolRefAttr> code = implementations.create(kernel);
  if (failed(code))
    return failure();
  SmallVector<int64_t> offsets;
  for (Value input : op.getInputs())
    offsets.push_back(getArenaOffset(input));
  for (OpResult result : op.getResults()) {
    // What is updated in place is read there too.
    int64_t tied = op.getTiedInput(result.getResultNumber());
    if (tied >= 0)
      offsets[tied] = getArenaOffset(result);
    offsets.push_back(getArenaOffset(result));
  }
  if (failed(checkAlignment(op, kernel, offsets)))
    return failure();
  Descriptor descriptor("launch");
  descriptor.set("name", kernel.getSymName().str());
  descriptor.set("implementations", *code);
  descriptor.set("operands", descriptors.createArray(offsets));
  descriptor.set("operand_count", int64_t(offsets.size()));
  descriptor.set("traffic_bytes", getTraffic(kernel));
  setWorkspace(descriptor, kernel);
  call("launch", descriptor, op.getLoc());
  return success();
}

void StepLowering::lowerMatmul(LaunchOp op, func::FuncOp kernel,
                               MatmulAttr matmul) {
  Value a = op.getInputs()[matmul.getA()], b = op.getInputs()[matmul.getB()];
  Type factor = getElementTypeOrSelf(a.getType()),
       result = getElementTypeOrSelf(op.getResult(0).getType());
  auto getOffset = [&](Value value, unsigned operand) {
    return getArenaOffset(value) +
           matmul.getOffsets()[operand] *
               (getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() /
                8);
  };
  auto four = [](DenseI64ArrayAttr values) {
    std::array<int64_t, 4> result;
    llvm::copy(values.asArrayRef(), result.begin());
    return result;
  };
  Descriptor descriptor("matmul");
  descriptor.set("name", kernel.getSymName().str());
  descriptor.set("a", getOffset(a, 0));
  descriptor.set("b", getOffset(b, 1));
  descriptor.set("c", getOffset(op.getResult(0), 2));
  descriptor.set("m", matmul.getM());
  descriptor.set("n", matmul.getN());
  descriptor.set("k", matmul.getK());
  descriptor.set("lda", matmul.getLda());
  descriptor.set("ldb", matmul.getLdb());
  descriptor.set("ldc", matmul.getLdc());
  descriptor.set("batch", four(matmul.getBatch()));
  descriptor.set("a_stride", four(matmul.getStrideA()));
  descriptor.set("b_stride", four(matmul.getStrideB()));
  descriptor.set("c_stride", four(matmul.getStrideC()));
  setWorkspace(descriptor, kernel);
  descriptor.set("alpha", matmul.getAlpha().getValueAsDouble());
  descriptor.set("trans_a", int64_t(matmul.getTransA()));
  descriptor.set("trans_b", int64_t(matmul.getTransB()));
  descriptor.set("accumulate", int64_t(matmul.getAccumulate()));
  descriptor.set("dtype", int64_t(*getRuntimeDtype(factor)));
  descriptor.set("c_dtype", int64_t(*getRuntimeDtype(result)));
  descriptor.set("tf32", int64_t(kernel->hasAttr(names::kTF32)));
  int64_t epilogue = 0;
  auto setAdded = [&](StringRef field, int64_t argument, int64_t bit) {
    descriptor.set(field,
                   argument < 0 ? 0 : getArenaOffset(op.getInputs()[argument]));
    epilogue |= argument < 0 ? 0 : bit;
  };
  setAdded("bias", matmul.getBias(), FSDP_RT_EPILOGUE_BIAS);
  setAdded("addend", matmul.getAddend(), FSDP_RT_EPILOGUE_ADDEND);
  descriptor.set("epilogue", epilogue);
  call("matmul", descriptor, op.getLoc());
}

/// Eight numbers of a tensor in a descriptor; nothing lies at offset -1.
static void appendTensor(SmallVector<int64_t> &fields, int64_t offset,
                         Value tensor, StridedAttr view) {
  if (!tensor) {
    fields.append({-1, 0, 0, 0, 0, 0, 0, 0});
    return;
  }
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  fields.push_back(offset + view.getOffset() * bytes);
  fields.push_back(*getRuntimeDtype(element));
  ArrayRef<int64_t> batch = view.getBatchStrides();
  fields.append(4 - batch.size(), 0);
  llvm::append_range(fields, batch);
  fields.append({view.getRowStride(), view.getColumnStride()});
}

template <typename Op>
LogicalResult StepLowering::lowerAttention(LaunchOp op, func::FuncOp kernel,
                                           Op attention) {
  FailureOr<FlatSymbolRefAttr> code =
      implementations.create(kernel, attention.getShape());
  if (failed(code))
    return failure();
  constexpr bool backward = std::is_same_v<Op, AttentionBackwardOp>;
  // What the kernel reads are its arguments; what of the op's results it
  // stores tell its destinations. What is not stored is not wanted.
  auto read = [&](Value value) {
    return getArenaOffset(
        op.getInputs()[cast<BlockArgument>(value).getArgNumber()]);
  };
  llvm::DenseMap<Value, int64_t> written;
  Operation *ret = kernel.getBody().front().getTerminator();
  for (auto [value, result] : llvm::zip(ret->getOperands(), op.getResults()))
    if (auto store =
            value.getDefiningOp<bufferization::MaterializeInDestinationOp>())
      written[store.getSource()] = getArenaOffset(result);
  SmallVector<int64_t> tensors, captured;
  appendTensor(tensors, read(attention.getQ()), attention.getQ(),
               attention.getQView());
  appendTensor(tensors, read(attention.getK()), attention.getK(),
               attention.getKView());
  appendTensor(tensors, read(attention.getV()), attention.getV(),
               attention.getVView());
  auto appendResult = [&](Value value, StridedAttr view) {
    bool isWanted = value && written.contains(value);
    appendTensor(tensors, written.lookup(value), isWanted ? value : Value(),
                 view);
  };
  Descriptor descriptor("attention");
  if constexpr (backward) {
    appendTensor(tensors, read(attention.getOut()), attention.getOut(),
                 attention.getOutView());
    appendTensor(tensors, read(attention.getDout()), attention.getDout(),
                 attention.getDoutView());
    appendResult(attention.getDq(), attention.getDqViewAttr());
    appendResult(attention.getDk(), attention.getDkViewAttr());
    appendResult(attention.getDv(), attention.getDvViewAttr());
    descriptor.set("stats", read(attention.getStats()));
    descriptor.set("dq_scale", attention.getDqScale().convertToDouble());
    descriptor.set("dk_scale", attention.getDkScale().convertToDouble());
  } else {
    appendResult(attention.getOut(), attention.getOutView());
    auto stats = written.find(attention.getStats());
    descriptor.set("stats",
                   stats == written.end() ? int64_t(-1) : stats->second);
    descriptor.set("zero_masked", int64_t(attention.getZeroMasked()));
  }
  for (Value value : attention.getCaptured())
    captured.push_back(read(value));
  AttentionShapeAttr shape = attention.getShape();
  std::array<int64_t, 4> batch = {1, 1, 1, 1};
  llvm::copy(shape.getBatch().asArrayRef(),
             batch.end() - shape.getBatch().size());
  descriptor.set("name", kernel.getSymName().str());
  descriptor.set("implementations", *code);
  descriptor.set("tensors", descriptors.createArray(tensors));
  if (!captured.empty())
    descriptor.set("captured", descriptors.createArray(captured));
  descriptor.set("captured_count", int64_t(captured.size()));
  descriptor.set("queries", shape.getQueries());
  descriptor.set("keys", shape.getKeys());
  descriptor.set("head", shape.getHead());
  descriptor.set("value", shape.getValue());
  descriptor.set("batch", batch);
  setWorkspace(descriptor, kernel);
  descriptor.set("scale", attention.getScale().convertToDouble());
  descriptor.set("plain", int64_t(attention.getFactor().empty() &&
                                  hasPlainScores(attention)));
  descriptor.set("causal", int64_t(attention.getCausal()));
  call(backward ? "attention_backward" : "attention", descriptor, op.getLoc());
  return success();
}

LogicalResult StepLowering::lowerLaunch(LaunchOp op) {
  auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
  // A tied result that got a place of its own starts as a copy of the input.
  for (OpResult result : op.getResults()) {
    int64_t tied = op.getTiedInput(result.getResultNumber());
    if (tied >= 0)
      copy("keep " + kernel.getSymName().str(),
           getArenaOffset(op.getInputs()[tied]), getArenaOffset(result),
           getTensorBytes(result.getType()), op.getLoc());
  }
  if (auto matmul = kernel->getAttrOfType<MatmulAttr>(names::kMatmul)) {
    int64_t inputs = op.getInputs().size();
    for (int64_t factor : {int64_t(matmul.getA()), int64_t(matmul.getB())})
      if (factor < 0 || factor >= inputs)
        return kernel.emitError("expected factors among the ")
               << inputs << " inputs of the kernel in fsdp.matmul, got input "
               << factor;
    lowerMatmul(op, kernel, matmul);
    return success();
  }
  if (!kernel->hasAttr(names::kImpl))
    return op.emitOpError("expected a kernel with code, got ")
           << op.getKernelAttr() << " without fsdp.impl or fsdp.matmul";
  for (Operation &inner : kernel.getBody().front()) {
    if (auto attention = dyn_cast<AttentionOp>(inner))
      return lowerAttention(op, kernel, attention);
    if (auto attention = dyn_cast<AttentionBackwardOp>(inner))
      return lowerAttention(op, kernel, attention);
  }
  return lowerKernel(op, kernel);
}

//===----------------------------------------------------------------------===//
// Everything else
//===----------------------------------------------------------------------===//

FailureOr<Descriptor> StepLowering::describe(CollectiveOpInterface op) {
  RankedTensorType result = op.getResult().getType();
  std::optional<int> dtype = getRuntimeDtype(result.getElementType());
  if (!dtype)
    return op.emitOpError("expected an element type that ranks can exchange, "
                          "got ")
           << result.getElementType();
  Descriptor descriptor("collective");
  descriptor.set("src", getArenaOffset(op.getInput()));
  descriptor.set("dst", getArenaOffset(op.getResult()));
  auto mesh = symbols.lookup<MeshOp>(op.getMeshAttr().getValue());
  descriptor.set("count", op.getCount(mesh.getGroupSize(op.getAxesAttr())));
  descriptor.set(
      "group", int64_t(llvm::find(groups, op.getAxesAttr()) - groups.begin()));
  descriptor.set("dtype", int64_t(*dtype));
  descriptor.set("name", op->getName().stripDialect().str());
  descriptor.set("divisor", op.getDivisor());
  return descriptor;
}

/// A collective or a copy between the arenas.
FailureOr<Descriptor> StepLowering::describe(TransferOpInterface op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op.getOperation()))
    return describe(collective);
  Descriptor descriptor("host_copy");
  descriptor.set("name", op->getName().stripDialect().str());
  descriptor.set("src", getArenaOffset(op.getSource()));
  descriptor.set("dst", getArenaOffset(op.getBrought()));
  descriptor.set("bytes", getTensorBytes(op.getSource().getType()));
  return descriptor;
}

/// A start of @parts, which are of one kind, but for its queue and event.
FailureOr<Descriptor>
StepLowering::describeStart(ArrayRef<TransferOpInterface> parts) {
  SmallVector<FlatSymbolRefAttr> descriptions;
  for (TransferOpInterface part : parts) {
    FailureOr<Descriptor> transfer = describe(part);
    if (failed(transfer))
      return failure();
    descriptions.push_back(descriptors.createDescriptor(*transfer));
  }
  TransferOpInterface first = parts.front();
  Descriptor descriptor("start");
  descriptor.set("name", first->getName().stripDialect().str());
  descriptor.set("kind", int64_t(first.getKind()));
  descriptor.set("parts", descriptors.createPointerArray(descriptions));
  descriptor.set("part_count", int64_t(parts.size()));
  return descriptor;
}

/// In the order of the computation.
LogicalResult StepLowering::lowerTransfer(TransferOpInterface op) {
  FailureOr<Descriptor> descriptor = describeStart(op);
  if (failed(descriptor))
    return failure();
  descriptor->set("after_count", int64_t(0));
  descriptor->set("event", int64_t(-1));
  descriptor->set("queue", int64_t(FSDP_RT_QUEUE_COMPUTE));
  call("start", *descriptor, op.getLoc());
  return success();
}

/// @guarded: lives that begin or end with the transfers, at the op @name.
LogicalResult StepLowering::lowerStart(StartOp op, StringRef name,
                                       ArrayRef<GuardedBuffer> guarded) {
  FailureOr<Descriptor> descriptor =
      describeStart(llvm::map_to_vector(op.getTransfers(), [](Operation &part) {
        return cast<TransferOpInterface>(part);
      }));
  if (failed(descriptor))
    return failure();
  SmallVector<int64_t> after;
  for (Value token : op.getAfter())
    after.push_back(token.getDefiningOp<StartOp>().getEvent());
  if (!after.empty())
    descriptor->set("after", descriptors.createArray(after));
  descriptor->set("after_count", int64_t(after.size()));
  descriptor->set("event", int64_t(op.getEvent()));
  descriptor->set("queue", int64_t(op.getQueue()));
  if (!guarded.empty())
    descriptor->set("guard",
                    descriptors.createDescriptor(describeGuard(name, guarded)));
  call("start", *descriptor, op.getLoc());
  return success();
}

/// Copies the parts that could not be computed in place, and clears the gaps.
void StepLowering::lowerPack(PackOp op) {
  int64_t base = getArenaOffset(op.getResult()), end = 0;
  int64_t bytes = llvm::divideCeil(op.getType().getElementTypeBitWidth(), 8);
  for (auto [part, offset] : llvm::zip(op.getParts(), op.getOffsets())) {
    copy("clear padding", -1, base + end * bytes, (offset - end) * bytes,
         op.getLoc());
    copy("pack", getArenaOffset(part), base + offset * bytes,
         getTensorBytes(part.getType()), op.getLoc());
    end = offset + cast<RankedTensorType>(part.getType()).getNumElements();
  }
  copy("clear padding", -1, base + end * bytes,
       (op.getType().getNumElements() - end) * bytes, op.getLoc());
}

/// What the next step finds in an argument's place must have been put there.
void StepLowering::lowerReturn(Operation *ret) {
  for (auto [result, arg] : getReplacedArguments(step))
    copy("keep " + std::to_string(arg.getArgNumber()),
         getArenaOffset(ret->getOperand(result)), getArenaOffset(arg),
         getTensorBytes(arg.getType()), ret->getLoc());
}

LogicalResult StepLowering::lowerOp(Operation &op) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return lowerLaunch(launch);
  if (auto transfer = dyn_cast<TransferOpInterface>(op))
    return lowerTransfer(transfer);
  if (auto wait = dyn_cast<WaitOp>(op)) {
    auto start = wait.getToken().getDefiningOp<StartOp>();
    Descriptor descriptor("wait");
    descriptor.set(
        "name", start.getBody().front().front().getName().stripDialect().str());
    descriptor.set("event", int64_t(start.getEvent()));
    call("wait", descriptor, op.getLoc());
    return success();
  }
  if (auto pack = dyn_cast<PackOp>(op)) {
    lowerPack(pack);
    return success();
  }
  if (auto check = dyn_cast<CheckOp>(op)) {
    Descriptor descriptor("check");
    descriptor.set("message", check.getMessage().str());
    descriptor.set("flag", getArenaOffset(check.getCondition()));
    call("check", descriptor, op.getLoc());
    return success();
  }
  if (isa<mlir::fsdp::ReturnOp>(op)) {
    lowerReturn(&op);
    return success();
  }
  // Views are addresses.
  if (isView(&op))
    return success();
  return op.emitOpError("expected an op that the runtime does");
}

Descriptor StepLowering::describeGuard(StringRef name,
                                       ArrayRef<GuardedBuffer> buffers) {
  SmallVector<FlatSymbolRefAttr> parts;
  for (const GuardedBuffer &buffer : buffers) {
    Descriptor part("guarded");
    part.set("name", buffer.name);
    part.set("offset", buffer.offset);
    part.set("bytes", buffer.bytes);
    part.set("border", buffer.border);
    part.set("action", int64_t(buffer.action));
    part.set("memory", int64_t(buffer.isHost ? FSDP_RT_HOST : FSDP_RT_DEVICE));
    parts.push_back(descriptors.createDescriptor(part));
  }
  Descriptor descriptor("guard");
  descriptor.set("name", name.str());
  descriptor.set("buffers", descriptors.createPointerArray(parts));
  descriptor.set("buffer_count", int64_t(parts.size()));
  return descriptor;
}

void StepLowering::lowerGuard(StringRef name, ArrayRef<GuardedBuffer> buffers,
                              Location loc) {
  if (!buffers.empty())
    call("guard", describeGuard(name, buffers), loc);
}

LogicalResult StepLowering::lower(const GuardPlan *guards) {
  Location loc = step.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  OpBuilder outside = OpBuilder::atBlockEnd(module.getBody());
  func = LLVM::LLVMFuncOp::create(
      outside, loc, getRunName(step),
      LLVM::LLVMFunctionType::get(builder.getI32Type(), {pointer}));
  Block *entry = func.addEntryBlock(builder);
  exit = new Block;
  func.getBody().push_back(exit);
  exit->addArgument(builder.getI32Type(), loc);
  builder.setInsertionPointToEnd(exit);
  LLVM::ReturnOp::create(builder, loc, exit->getArgument(0));
  builder.setInsertionPointToStart(entry);
  static const GuardPlan none;
  const GuardPlan &guard = guards ? *guards : none;
  Operation *ret = step.getBody().front().getTerminator();
  lowerGuard("the step's begin", guard.atEntry, loc);
  for (Operation &op : step.getBody().front()) {
    std::string name = guard.names.lookup(&op);
    GuardPlan::Buffers before = guard.before.lookup(&op);
    if (auto start = dyn_cast<StartOp>(op)) {
      if (failed(lowerStart(start, name, before)))
        return failure();
    } else {
      lowerGuard(name, before, op.getLoc());
      if (failed(lowerOp(op)))
        return failure();
    }
    lowerGuard(name, guard.behind.lookup(&op), op.getLoc());
  }
  lowerGuard("the step's end", guard.atExit, ret->getLoc());
  Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI32Type(),
                                        builder.getI32IntegerAttr(0));
  LLVM::BrOp::create(builder, loc, ValueRange{zero}, exit);
  return success();
}

LogicalResult fsdp::lowerStep(ProgramOp program, const GuardPlan *guards,
                              DescriptorBuilder &descriptors,
                              KernelImplementations &implementations) {
  return StepLowering(program->getParentOfType<ModuleOp>(), program,
                      descriptors, implementations)
      .lower(guards);
}
