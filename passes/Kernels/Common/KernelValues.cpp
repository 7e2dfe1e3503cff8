//===- KernelValues.cpp - Values of loop kernels --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is loaded, computed and stored at one point, or at the points of one
// vector. A value stays a scalar as long as it is the same in all lanes.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/KernelValues.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

vector::CombiningKind fsdp::getCombiningKind(Operation *combiner) {
  using vector::CombiningKind;
  return llvm::TypeSwitch<Operation *, CombiningKind>(combiner)
      .Case<arith::AddFOp, arith::AddIOp>(
          [](auto) { return CombiningKind::ADD; })
      .Case<arith::MulFOp, arith::MulIOp>(
          [](auto) { return CombiningKind::MUL; })
      .Case<arith::MaximumFOp>([](auto) { return CombiningKind::MAXIMUMF; })
      .Case<arith::MaxNumFOp>([](auto) { return CombiningKind::MAXNUMF; })
      .Case<arith::MinimumFOp>([](auto) { return CombiningKind::MINIMUMF; })
      .Case<arith::MinNumFOp>([](auto) { return CombiningKind::MINNUMF; })
      .Case<arith::MaxSIOp>([](auto) { return CombiningKind::MAXSI; })
      .Case<arith::MaxUIOp>([](auto) { return CombiningKind::MAXUI; })
      .Case<arith::MinSIOp>([](auto) { return CombiningKind::MINSI; })
      .Case<arith::MinUIOp>([](auto) { return CombiningKind::MINUI; })
      .Case<arith::AndIOp>([](auto) { return CombiningKind::AND; })
      .Case<arith::OrIOp>([](auto) { return CombiningKind::OR; })
      .Case<arith::XOrIOp>([](auto) { return CombiningKind::XOR; });
}

bool fsdp::beginsAtNeutral(const KernelLoops &loops, linalg::GenericOp op,
                           unsigned i) {
  TypedAttr init = loops.getSplat(op.getDpsInits()[i]);
  if (!init)
    return false;
  Operation *combiner = getCombiner(op, i);
  return init == *arith::getNeutralElement(combiner) ||
         (getCombiningKind(combiner) == vector::CombiningKind::ADD &&
          (matchPattern(init, m_AnyZeroFloat()) ||
           matchPattern(init, m_Zero())));
}

Value KernelValues::getInit(linalg::GenericOp op, unsigned i) {
  OpOperand &init = *op.getDpsInitOperand(i);
  LaneValue value = getOperand(op, init, /*atInner=*/false);
  if (isLaneOuter())
    value = toVector(value, outer);
  return value.value;
}

void KernelValues::emitInner(llvm::function_ref<void()> body) {
  Operation *marker = getIndexConstant(0, outer).getDefiningOp();
  inner.setInsertionPointAfter(marker);
  outer.setInsertionPoint(marker);
  body();
  outer.restoreInsertionPoint(inner.saveInsertionPoint());
}

void KernelValues::accumulate(linalg::GenericOp op,
                              MutableArrayRef<Value> partials) {
  SmallVector<LaneValue> args;
  for (OpOperand *operand : op.getDpsInputOperands())
    args.push_back(op.payloadUsesValueFromOperand(operand)
                       ? getOperand(op, *operand, /*atInner=*/true)
                       : LaneValue());
  for (Value partial : partials)
    args.push_back({partial, isa<VectorType>(partial.getType())});
  SmallVector<LaneValue> results = evaluateBody(op, args, /*atInner=*/true);
  bool masked = activeLanes != lanes && !isLaneOuter();
  for (auto [partial, result] : llvm::zip(partials, results)) {
    Value value = isa<VectorType>(partial.getType())
                      ? toVector(result, inner).value
                      : result.value;
    if (masked)
      value =
          arith::SelectOp::create(inner, loc, getMask(inner), value, partial);
    partial = value;
  }
}

//===----------------------------------------------------------------------===//
// Small pieces
//===----------------------------------------------------------------------===//

int64_t KernelValues::getLaneSize() const {
  return lane < 0 ? 1 : loops.getLoops()[lane].size;
}

VectorType KernelValues::getVectorType(Type type) const {
  return VectorType::get({lanes}, type);
}

Value KernelValues::getIndexConstant(int64_t value, OpBuilder &builder) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

/// True in the lanes that exist.
Value KernelValues::getMask(OpBuilder &builder) {
  return vector::ConstantMaskOp::create(
      builder, loc, getVectorType(builder.getI1Type()), {activeLanes});
}

int64_t KernelValues::getLaneStride(const KernelAccess &access) const {
  return lane < 0 ? 0 : access.strides[lane];
}

LaneValue KernelValues::toVector(LaneValue value, OpBuilder &builder) {
  if (value.isVector || lane < 0)
    return value;
  Type type = getVectorType(value.value.getType());
  Value wide = vector::BroadcastOp::create(builder, loc, type, value.value);
  if (value.isRamp) {
    Value step = vector::StepOp::create(builder, loc,
                                        getVectorType(builder.getIndexType()));
    if (!value.value.getType().isIndex())
      step = arith::IndexCastOp::create(builder, loc, type, step);
    wide = arith::AddIOp::create(builder, loc, wide, step);
  }
  return {wide, /*isVector=*/true};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Bools take a byte.
static Type getStorageType(Type type) {
  return type.isInteger(1) ? IntegerType::get(type.getContext(), 8) : type;
}

Value KernelValues::getMemory(Value source, OpBuilder &) {
  return memory.lookup(source);
}

Value KernelValues::getAddress(const KernelAccess &access, OpBuilder &builder) {
  Value address = getIndexConstant(access.offset, builder);
  for (auto [index, stride] : llvm::zip(point, access.strides)) {
    if (stride == 0)
      continue;
    Value term = stride == 1
                     ? index
                     : arith::MulIOp::create(builder, loc, index,
                                             getIndexConstant(stride, builder))
                           .getResult();
    address = arith::AddIOp::create(builder, loc, address, term);
  }
  return address;
}

llvm::MaybeAlign KernelValues::getVectorAlignment(Type element) const {
  if (vectorAlignment == 0)
    return {};
  int64_t bytes =
      lanes *
      llvm::divideCeil(getStorageType(element).getIntOrFloatBitWidth(), 8);
  return llvm::Align(std::min(vectorAlignment, bytes));
}

/// Element or elements at `address`, which is that of the first lane;
/// neighbours lie at a multiple of `alignment`, if it is known.
LaneValue KernelValues::loadAt(Value base, Value address, int64_t laneStride,
                               Type type, OpBuilder &builder,
                               llvm::MaybeAlign alignment) {
  Type storage = getStorageType(type);
  LaneValue loaded;
  if (laneStride == 0) {
    loaded.value = memref::LoadOp::create(builder, loc, base, address);
  } else {
    loaded.isVector = true;
    VectorType vectorType = getVectorType(storage);
    bool masked = activeLanes != lanes;
    if (laneStride == 1 && !masked) {
      loaded.value =
          vector::LoadOp::create(builder, loc, vectorType, base, address,
                                 /*nontemporal=*/false, alignment);
    } else {
      Value zero = arith::ConstantOp::create(builder, loc, vectorType,
                                             builder.getZeroAttr(vectorType));
      if (laneStride == 1) {
        loaded.value = vector::MaskedLoadOp::create(
            builder, loc, vectorType, base, address, getMask(builder), zero);
      } else {
        Value step = vector::StepOp::create(
            builder, loc, getVectorType(builder.getIndexType()));
        Value scale =
            toVector({getIndexConstant(laneStride, builder)}, builder).value;
        Value offsets = arith::MulIOp::create(builder, loc, step, scale);
        loaded.value =
            vector::GatherOp::create(builder, loc, vectorType, base, address,
                                     offsets, getMask(builder), zero);
      }
    }
  }
  if (storage == type)
    return loaded;
  Type valueType = loaded.value.getType();
  Value zero = arith::ConstantOp::create(builder, loc, valueType,
                                         builder.getZeroAttr(valueType));
  loaded.value = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                       loaded.value, zero);
  return loaded;
}

LaneValue KernelValues::load(const KernelAccess &access, Type type,
                             bool atInner) {
  bool varies = false;
  for (auto [loop, stride] : llvm::zip(loops.getLoops(), access.strides))
    varies |= loop.inner && stride != 0;
  Known &known = atInner && varies ? innerKnown : outerKnown;
  OpBuilder &builder = atInner && varies ? inner : outer;
  for (auto &[other, value] : known.loads)
    if (other.source == access.source && other.offset == access.offset &&
        other.strides == access.strides)
      return value;
  LaneValue value =
      loadAt(getMemory(access.source, builder), getAddress(access, builder),
             getLaneStride(access), type, builder, getVectorAlignment(type));
  known.loads.push_back({access, value});
  return value;
}

void KernelValues::storeAt(Value base, Value address, int64_t stride,
                           LaneValue value, OpBuilder &builder,
                           llvm::MaybeAlign alignment) {
  if (stride != 0)
    value = toVector(value, builder);
  if (getElementTypeOrSelf(value.value).isInteger(1)) {
    Type i8 = builder.getI8Type();
    value.value = arith::ExtUIOp::create(
        builder, loc, value.isVector ? Type(getVectorType(i8)) : i8,
        value.value);
  }
  if (stride == 0) {
    memref::StoreOp::create(builder, loc, value.value, base, address);
  } else if (stride != 1) {
    Value step = vector::StepOp::create(builder, loc,
                                        getVectorType(builder.getIndexType()));
    Value scale = toVector({getIndexConstant(stride, builder)}, builder).value;
    Value offsets = arith::MulIOp::create(builder, loc, step, scale);
    vector::ScatterOp::create(builder, loc, /*resultType=*/Type(), base,
                              ValueRange{address}, offsets, getMask(builder),
                              value.value);
  } else if (activeLanes != lanes) {
    vector::MaskedStoreOp::create(builder, loc, base, address, getMask(builder),
                                  value.value);
  } else {
    vector::StoreOp::create(builder, loc, value.value, base, address,
                            /*nontemporal=*/false, alignment);
  }
}

void KernelValues::store(const KernelAccess &access, LaneValue value,
                         OpBuilder &builder) {
  storeAt(getMemory(access.source, builder), getAddress(access, builder),
          getLaneStride(access), value, builder,
          getVectorAlignment(getElementTypeOrSelf(value.value)));
}

/// All values first: a result may lie where another one still reads.
void KernelValues::storeResults(ArrayRef<OpResult> results, bool atInner) {
  SmallVector<LaneValue> values;
  for (OpResult result : results)
    values.push_back(getResult(result, atInner));
  for (auto [result, value] : llvm::zip(results, values))
    store(*loops.getWrite(result), value, atInner ? inner : outer);
}

/// The current point in a scratch row: row-major over the inner loops, with the
/// lanes innermost.
Value KernelValues::getScratchAddress(OpBuilder &builder) {
  KernelAccess access;
  access.strides.assign(loops.getLoops().size(), 0);
  int64_t stride = 1;
  if (isLaneOuter())
    stride = lanes;
  else if (lane >= 0) {
    access.strides[lane] = 1;
    stride = getLaneSize();
  }
  for (int i = loops.getLoops().size() - 1; i >= 0; --i)
    if (loops.getLoops()[i].inner && i != lane) {
      access.strides[i] = stride;
      stride *= loops.getLoops()[i].size;
    }
  return getAddress(access, builder);
}

int64_t KernelValues::getRowElements() const {
  return loops.getInnerSize() * (isLaneOuter() ? lanes : 1);
}

static int64_t getRowBytes(OpResult result, int64_t elements) {
  unsigned bits =
      cast<RankedTensorType>(result.getType()).getElementTypeBitWidth();
  return llvm::alignTo(elements * llvm::divideCeil(bits, 8), 64);
}

int64_t fsdp::getScratchBytes(const KernelLoops &loops, int64_t lanes) {
  int64_t bytes = 0;
  for (OpResult result : loops.getScratch())
    bytes += getRowBytes(result, loops.getInnerSize() * lanes);
  return bytes;
}

Value KernelValues::getScratchRow(OpResult result, OpBuilder &builder) {
  int64_t offset = 0;
  for (OpResult other : loops.getScratch()) {
    if (other == result)
      break;
    offset += getRowBytes(other, getRowElements());
  }
  Type element =
      getStorageType(cast<RankedTensorType>(result.getType()).getElementType());
  return memref::ViewOp::create(
      builder, loc,
      MemRefType::get(
          {getRowElements()}, element, MemRefLayoutAttrInterface(),
          cast<MemRefType>(scratchMemory.getType()).getMemorySpace()),
      scratchMemory, getIndexConstant(offset, builder), ValueRange{});
}

void KernelValues::storeScratch(unsigned stage) {
  if (!scratchMemory)
    return;
  for (OpResult result : loops.getScratch())
    if (loops.getAvailableFrom(result) == stage + 1)
      storeAt(getScratchRow(result, inner), getScratchAddress(inner),
              lane < 0 ? 0 : 1, getResult(result, /*atInner=*/true), inner,
              getVectorAlignment(getElementTypeOrSelf(result.getType())));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

LaneValue KernelValues::getOperand(linalg::GenericOp op, OpOperand &operand,
                                   bool atInner) {
  Type type = getElementTypeOrSelf(operand.get());
  if (OpResult producer = loops.getProducer(operand.get()))
    return getResult(producer, atInner);
  OpBuilder &builder = atInner ? inner : outer;
  if (TypedAttr splat = loops.getSplat(operand.get()))
    return {arith::ConstantOp::create(builder, loc, splat)};
  if (const KernelAccess *read = loops.getRead(operand))
    return load(*read, type, atInner);
  // An empty tensor: any value will do.
  return {
      arith::ConstantOp::create(builder, loc, type, builder.getZeroAttr(type))};
}

LaneValue KernelValues::getResult(OpResult result, bool atInner) {
  auto op = cast<linalg::GenericOp>(result.getOwner());
  if (loops.reducesInner(op))
    return outerKnown.results.find(result)->second;
  atInner &= loops.dependsOnInner(op);
  Known &known = atInner ? innerKnown : outerKnown;
  if (auto it = known.results.find(result); it != known.results.end())
    return it->second;
  // An earlier stage left it in memory.
  const KernelAccess *write = loops.getWrite(result);
  if (atInner && loops.getAvailableFrom(result) <= currentStage &&
      (write || scratchMemory)) {
    Type type = getElementTypeOrSelf(result.getType());
    LaneValue value;
    if (write) {
      value = load(*write, type, /*atInner=*/true);
    } else {
      value = loadAt(getScratchRow(result, inner), getScratchAddress(inner),
                     lane < 0 ? 0 : 1, type, inner, getVectorAlignment(type));
    }
    known.results[result] = value;
    return value;
  }
  SmallVector<LaneValue> args;
  for (OpOperand &operand : op->getOpOperands())
    args.push_back(op.payloadUsesValueFromOperand(&operand)
                       ? getOperand(op, operand, atInner)
                       : LaneValue());
  SmallVector<LaneValue> values = evaluateBody(op, args, atInner);
  for (auto [i, value] : llvm::enumerate(values))
    known.results[op->getResult(i)] = value;
  return values[result.getResultNumber()];
}

SmallVector<LaneValue> KernelValues::evaluateBody(linalg::GenericOp op,
                                                  ArrayRef<LaneValue> args,
                                                  bool atInner) {
  OpBuilder &builder = atInner ? inner : outer;
  LaneValues values;
  for (auto [arg, value] : llvm::zip(op.getBody()->getArguments(), args))
    if (value.value)
      values[arg] = value;
  for (Operation &bodyOp : op.getBody()->without_terminator())
    values[bodyOp.getResult(0)] = evaluateOp(bodyOp, op, values, builder);
  SmallVector<LaneValue> results;
  for (Value yielded : op.getBody()->getTerminator()->getOperands()) {
    auto it = values.find(yielded);
    results.push_back(it != values.end()
                          ? it->second
                          : LaneValue{getScalar(yielded, builder)});
  }
  return results;
}

/// A scalar from outside of any body: a constant, or made of such.
Value KernelValues::getScalar(Value value, OpBuilder &builder) {
  Operation *op = value.getDefiningOp();
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    LaneValues values;
    for (Value index : extract.getIndices())
      values[index] = {getScalar(index, builder)};
    return evaluateLookup(extract, values, builder).value;
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, getScalar(operand, builder));
  Operation *copy = builder.clone(*op, mapping);
  return copy->getResult(cast<OpResult>(value).getResultNumber());
}

LaneValue KernelValues::evaluateIndex(linalg::IndexOp op,
                                      linalg::GenericOp owner,
                                      OpBuilder &builder) {
  KernelAccess index = loops.getIndex(owner, op.getDim());
  Value base = getAddress(index, builder);
  int64_t stride = getLaneStride(index);
  if (stride == 0 || stride == 1)
    return {base, /*isVector=*/false, /*isRamp=*/stride == 1};
  Value step = vector::StepOp::create(builder, loc,
                                      getVectorType(builder.getIndexType()));
  Value scale = toVector({getIndexConstant(stride, builder)}, builder).value;
  Value offsets = arith::MulIOp::create(builder, loc, step, scale);
  return {arith::AddIOp::create(builder, loc, toVector({base}, builder).value,
                                offsets),
          /*isVector=*/true};
}

LaneValue KernelValues::evaluateLookup(tensor::ExtractOp op, LaneValues &values,
                                       OpBuilder &builder) {
  Type type = op.getType();
  if (TypedAttr splat = loops.getSplat(op.getTensor()))
    return {arith::ConstantOp::create(builder, loc, splat)};
  ViewedValue viewed = lookThroughViews(op.getTensor());
  Value base = getMemory(viewed.source, builder);
  Value address = getIndexConstant(viewed.layout.offset, builder);
  // Where lanes look at different places: their distance, if it is one number,
  // else a vector of offsets.
  int64_t laneStride = 0;
  Value offsets;
  for (auto [index, dim] : llvm::zip(op.getIndices(), viewed.layout.dims)) {
    if (dim.empty())
      continue;
    Value stride = getIndexConstant(dim.front().stride, builder);
    auto it = values.find(index);
    LaneValue value =
        it != values.end() ? it->second : LaneValue{getScalar(index, builder)};
    if (value.isVector) {
      Value term = arith::MulIOp::create(builder, loc, value.value,
                                         toVector({stride}, builder).value);
      offsets =
          offsets
              ? arith::AddIOp::create(builder, loc, offsets, term).getResult()
              : term;
      continue;
    }
    if (value.isRamp)
      laneStride += dim.front().stride;
    Value term = arith::MulIOp::create(builder, loc, value.value, stride);
    address = arith::AddIOp::create(builder, loc, address, term);
  }
  if (!offsets)
    return loadAt(base, address, laneStride, type, builder);
  if (laneStride != 0) {
    Value step = vector::StepOp::create(builder, loc,
                                        getVectorType(builder.getIndexType()));
    Value scale =
        toVector({getIndexConstant(laneStride, builder)}, builder).value;
    offsets =
        arith::AddIOp::create(builder, loc, offsets,
                              arith::MulIOp::create(builder, loc, step, scale));
  }
  VectorType storage = getVectorType(getStorageType(type));
  Value zero = arith::ConstantOp::create(builder, loc, storage,
                                         builder.getZeroAttr(storage));
  Value loaded = vector::GatherOp::create(builder, loc, storage, base, address,
                                          offsets, getMask(builder), zero);
  if (type.isInteger(1))
    loaded = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                   loaded, zero);
  return {loaded, /*isVector=*/true};
}

static bool isIntegerDivision(Operation &op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
             arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(op);
}

LaneValue KernelValues::evaluateOp(Operation &op, linalg::GenericOp owner,
                                   LaneValues &values, OpBuilder &builder) {
  if (op.hasTrait<OpTrait::ConstantLike>())
    return {builder.clone(op)->getResult(0)};
  if (auto index = dyn_cast<linalg::IndexOp>(op))
    return evaluateIndex(index, owner, builder);
  if (auto lookup = dyn_cast<tensor::ExtractOp>(op))
    return evaluateLookup(lookup, values, builder);

  SmallVector<LaneValue> operands;
  bool anyVector = false;
  unsigned ramps = 0;
  for (Value operand : op.getOperands()) {
    auto it = values.find(operand);
    operands.push_back(it != values.end()
                           ? it->second
                           : LaneValue{getScalar(operand, builder)});
    anyVector |= operands.back().isVector;
    ramps += operands.back().isRamp;
  }
  // A ramp stays one when it is converted or moved. (One of few bits may wrap
  // around, and is then no ramp in more.)
  auto isWide = [](Type type) {
    return type.isIndex() || type.getIntOrFloatBitWidth() >= 32;
  };
  bool staysRamp = !anyVector && ramps == 1 &&
                   (isa<arith::AddIOp, arith::TruncIOp>(op) ||
                    (isa<arith::IndexCastOp, arith::ExtSIOp>(op) &&
                     isWide(op.getOperand(0).getType())) ||
                    (isa<arith::SubIOp>(op) && operands[0].isRamp));
  bool isVector = anyVector || (ramps != 0 && !staysRamp);
  OperationState state(loc, op.getName());
  for (auto [i, operand] : llvm::enumerate(operands)) {
    bool isCondition = isa<arith::SelectOp>(op) && i == 0 &&
                       !operand.isVector && !operand.isRamp;
    state.operands.push_back(isVector && !isCondition
                                 ? toVector(operand, builder).value
                                 : operand.value);
  }
  // Lanes that do not exist hold anything, and division by zero traps.
  if (isVector && activeLanes != lanes && isIntegerDivision(op)) {
    Type vectorType = state.operands[1].getType();
    Value one = arith::ConstantOp::create(builder, loc, vectorType,
                                          builder.getOneAttr(vectorType));
    state.operands[1] = arith::SelectOp::create(builder, loc, getMask(builder),
                                                state.operands[1], one);
  }
  Type type = op.getResult(0).getType();
  state.addTypes(isVector ? Type(getVectorType(type)) : type);
  state.addAttributes(op.getAttrs());
  if (approximated.contains(&op))
    state.attributes.set(
        "fastmath", arith::FastMathFlagsAttr::get(op.getContext(),
                                                  arith::FastMathFlags::afn));
  return {builder.create(state)->getResult(0), isVector, staysRamp};
}
