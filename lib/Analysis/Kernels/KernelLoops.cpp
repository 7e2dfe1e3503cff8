//===- KernelLoops.cpp - How a fused kernel is run ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/KernelLoops.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/PitchedRows.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mlir::fsdp;

using AtomList = IndexSpace::AtomList;

static LogicalResult fail(std::string &why, const Twine &reason) {
  why = reason.str();
  return failure();
}

//===----------------------------------------------------------------------===//
// What the kernel consists of
//===----------------------------------------------------------------------===//

OpResult KernelLoops::getProducer(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (domain.contains(op))
      return cast<OpResult>(value);
    if (!isReshape(op))
      return {};
    value = op->getOperand(0);
  }
  return {};
}

TypedAttr KernelLoops::getSplat(Value value) const {
  return getSplatConstant(lookThroughViews(value).source);
}

LogicalResult KernelLoops::collectOps(std::string &why) {
  for (Operation &op : kernel.getBody().front()) {
    auto insert = dyn_cast<tensor::InsertSliceOp>(op);
    if (isa<bufferization::MaterializeInDestinationOp>(op) ||
        (insert && isInsertionOfStored(insert)))
      continue;
    switch (getComputeKind(&op)) {
    case ComputeKind::Elementwise:
    case ComputeKind::Reduction:
      ops.push_back(cast<linalg::GenericOp>(op));
      domain.add(ops.back());
      break;
    case ComputeKind::View:
    case ComputeKind::Constant:
    case ComputeKind::Scalar:
      break;
    default:
      if (!isa<func::ReturnOp>(op))
        return fail(why, "it contains " + op.getName().getStringRef());
    }
  }
  for (Operation &op : kernel.getBody().front()) {
    auto store = dyn_cast<bufferization::MaterializeInDestinationOp>(op);
    if (!store)
      continue;
    OpResult producer = getProducer(store.getSource());
    if (!producer)
      return fail(why, "a result is not computed by a loop");
    outputs.push_back({producer, store.getDest()});
  }
  if (ops.empty())
    return fail(why, "it contains no loop");
  return success();
}

SmallVector<OpOperand *> KernelLoops::getReadOperands(linalg::GenericOp op) {
  SmallVector<OpOperand *> operands;
  bool reduces = op.getNumReductionLoops() != 0;
  for (OpOperand &operand : op->getOpOperands())
    if (op.payloadUsesValueFromOperand(&operand) &&
        (op.isDpsInput(&operand) || !reduces))
      operands.push_back(&operand);
  return operands;
}

/// Connects ops that read the same argument, the largest argument first, as
/// fsdp-form-kernels did when it fused them.
void KernelLoops::connectSiblings(
    llvm::EquivalenceClasses<Operation *> &parts) {
  llvm::MapVector<Value, SmallVector<OpOperand *>> readers;
  for (linalg::GenericOp op : ops)
    for (OpOperand *operand : getReadOperands(op)) {
      // All elements of an argument, in order.
      Value whole = lookThroughReshapes(operand->get());
      if (auto slice = whole.getDefiningOp<tensor::ExtractSliceOp>();
          slice && isSliceOfRows(slice))
        whole = slice.getSource();
      if (isa<BlockArgument>(whole))
        readers[whole].push_back(operand);
    }
  auto sorted = readers.takeVector();
  llvm::sort(sorted, [](auto &a, auto &b) {
    return std::make_pair(-getTensorBytes(a.first.getType()),
                          cast<BlockArgument>(a.first).getArgNumber()) <
           std::make_pair(-getTensorBytes(b.first.getType()),
                          cast<BlockArgument>(b.first).getArgNumber());
  });
  domain.connectReaders(
      llvm::map_to_vector(sorted, [](auto &entry) { return entry.second; }),
      parts);
  connectStrangers(parts);
}

/// Parts that have nothing in common may run over any points together; those of
/// their largest operands, if there are as many.
void KernelLoops::connectStrangers(
    llvm::EquivalenceClasses<Operation *> &parts) {
  auto getLargest = [](linalg::GenericOp op) -> OpOperand * {
    return &*llvm::max_element(op->getOpOperands(), [](auto &a, auto &b) {
      return getTensorBytes(a.get().getType()) <
             getTensorBytes(b.get().getType());
    });
  };
  for (linalg::GenericOp op : llvm::drop_begin(ops)) {
    if (parts.isEquivalent(ops.front(), op))
      continue;
    KernelDomain trial = domain;
    if (!trial.connect(*getLargest(ops.front()), *getLargest(op)))
      continue;
    domain = std::move(trial);
    parts.unionSets(ops.front(), op);
  }
}

/// Reductions, and ops whose results leave the kernel.
SmallVector<Operation *> KernelLoops::getRoots() const {
  SmallVector<Operation *> roots;
  for (linalg::GenericOp op : ops)
    if (op.getNumReductionLoops() != 0 || llvm::any_of(outputs, [&](auto &out) {
          return out.first.getOwner() == op;
        }))
      roots.push_back(op);
  return roots;
}

bool KernelLoops::isReadInside(Operation *op) const {
  return llvm::any_of(ops, [&](linalg::GenericOp reader) {
    return llvm::any_of(reader->getOperands(), [&](Value operand) {
      OpResult producer = getProducer(operand);
      return producer && producer.getOwner() == op;
    });
  });
}

LogicalResult KernelLoops::connectOps(std::string &why) {
  llvm::EquivalenceClasses<Operation *> parts;
  for (linalg::GenericOp op : ops) {
    parts.insert(op);
    auto check = [&](OpOperand &operand) -> LogicalResult {
      OpResult producer = getProducer(operand.get());
      if (!producer)
        return success();
      auto owner = cast<linalg::GenericOp>(producer.getOwner());
      if (!domain.connect(*owner.getDpsInitOperand(producer.getResultNumber()),
                          operand))
        return fail(why, "two of its loops do not fit each other");
      parts.unionSets(owner, op);
      return success();
    };
    for (OpOperand *operand : getReadOperands(op))
      if (failed(check(*operand)))
        return failure();
    if (op.getNumReductionLoops() != 0)
      for (OpOperand &init : op.getDpsInitsMutable())
        if (failed(check(init)))
          return failure();
  }
  connectSiblings(parts);
  KernelDomain before = domain;
  SmallVector<Operation *> roots = getRoots();
  domain.alignInnerLoops(roots);
  if (domain.getGrid(roots))
    return success();
  // Without a sweep, chooseGrid fails.
  SmallVector<Operation *> sums;
  bool isAligned = false;
  if (!before.findSweep(
          roots, sums, [&](Operation *root) { return isReadInside(root); },
          isAligned))
    return success();
  domain = std::move(before);
  for (Operation *sum : sums)
    columnSums.push_back(cast<linalg::GenericOp>(sum));
  return success();
}

//===----------------------------------------------------------------------===//
// Where operands lie
//===----------------------------------------------------------------------===//

LogicalResult KernelLoops::addRead(linalg::GenericOp op, OpOperand &operand,
                                   std::string &why) {
  if (getProducer(operand.get()) || getSplat(operand.get()))
    return success();
  ViewedValue viewed = lookThroughViews(operand.get());
  bool memory = isa<BlockArgument>(viewed.source) ||
                matchPattern(viewed.source, m_Constant());
  if (!memory) {
    // An empty tensor has any value at all.
    if (viewed.source.getDefiningOp<tensor::EmptyOp>())
      return success();
    return fail(why, "an operand is a part of what it computes itself");
  }
  AtomAccess read;
  read.access.source = viewed.source;
  read.access.offset = viewed.layout.offset;
  read.atoms = domain.getAtoms(op, op.getMatchingIndexingMap(&operand));
  for (const StridedLayout::Dim &dim : viewed.layout.dims)
    llvm::append_range(read.dims, dim);
  if (!domain.getSpace().splitAt(read.atoms, read.dims))
    return fail(why, "an operand's layout does not fit its loops");
  reads[&operand] = read;
  return success();
}

LogicalResult KernelLoops::collectAccesses(std::string &why) {
  for (linalg::GenericOp op : ops) {
    for (OpOperand *operand : getReadOperands(op))
      if (failed(addRead(op, *operand, why)))
        return failure();
    if (op.getNumReductionLoops() != 0)
      for (OpOperand &init : op.getDpsInitsMutable())
        if (failed(addRead(op, init, why)))
          return failure();
    for (Operation &inner : *op.getBody()) {
      if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
        unsigned loop = index.getDim();
        AtomAccess access;
        access.atoms = domain.getLoopAtoms(op, loop);
        access.dims.push_back({op.getStaticLoopRanges()[loop], 1});
        indices[{op, loop}] = access;
      }
      // Looked up at computed places: any memory but the kernel's own results.
      for (Value captured : inner.getOperands()) {
        if (!isa<RankedTensorType>(captured.getType()))
          continue;
        Value source = lookThroughViews(captured).source;
        if (!isa<BlockArgument>(source) &&
            !matchPattern(source, m_Constant()) && !getSplat(captured))
          return fail(why, "it looks up what it computes itself");
        if (llvm::any_of(
                lookThroughViews(captured).layout.dims,
                [](const StridedLayout::Dim &dim) { return dim.size() > 1; }))
          return fail(why, "it looks up a tensor that is not in one piece");
      }
    }
  }
  for (auto [result, dest] : outputs) {
    if (writes.contains(result))
      return fail(why, "a value is written to two places");
    auto op = cast<linalg::GenericOp>(result.getOwner());
    AtomAccess write;
    ViewedValue place = lookThroughViews(dest);
    write.access.source = place.source;
    write.access.offset = place.layout.offset;
    write.atoms = domain.getAtoms(op, op.getIndexingMapMatchingResult(result));
    write.dims = place.layout.getFlattened();
    if (!domain.getSpace().splitAt(write.atoms, write.dims))
      return fail(why, "a destination's layout does not fit its loops");
    writes[result] = write;
  }
  return success();
}

SmallVector<KernelLoops::AtomAccess *> KernelLoops::getAtomAccesses() {
  SmallVector<AtomAccess *> all;
  for (auto &entry : reads)
    all.push_back(&entry.second);
  for (auto &entry : writes)
    all.push_back(&entry.second);
  for (auto &entry : indices)
    all.push_back(&entry.second);
  return all;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

LogicalResult KernelLoops::chooseGrid(std::string &why) {
  SmallVector<Operation *> roots = getRoots();
  llvm::erase_if(roots, [&](Operation *root) {
    return llvm::is_contained(columnSums, root);
  });
  std::optional<KernelGrid> grid =
      columnSums.empty()
          ? domain.getGrid(roots)
          : domain.getSweep(roots, SmallVector<Operation *>(columnSums.begin(),
                                                            columnSums.end()));
  if (!grid)
    return fail(why, "its results need more than two levels of loops");
  const IndexSpace &space = domain.getSpace();
  for (IndexSpace::Atom atom : grid->items) {
    loops.push_back({space.getSize(atom), /*inner=*/false,
                     llvm::is_contained(grid->swept, atom)});
    loopAtoms.push_back({atom});
  }
  for (IndexSpace::Atom atom : grid->inner) {
    loops.push_back({space.getSize(atom), true});
    loopAtoms.push_back({atom});
  }
  // Strides, now that atoms are final.
  for (AtomAccess *access : getAtomAccesses()) {
    AtomList atoms = space.resolve(access->atoms);
    SmallVector<int64_t, 4> strides = space.getStrides(atoms, access->dims);
    access->access.strides.assign(loops.size(), 0);
    for (auto [atom, stride] : llvm::zip(atoms, strides))
      for (auto [i, loop] : llvm::enumerate(loopAtoms))
        if (loop.front() == atom)
          access->access.strides[i] = stride;
  }
  for (linalg::GenericOp op : ops) {
    AtomList atoms = domain.getAtoms(op);
    if (llvm::any_of(grid->inner, [&](IndexSpace::Atom atom) {
          return llvm::is_contained(atoms, atom);
        }))
      innerOps.insert(op);
  }
  return success();
}

/// The loop along which most elements lie side by side. An access at inner
/// points weighs as many times as an item has inner points.
void KernelLoops::chooseLane() {
  int64_t best = 0, innerSize = getInnerSize();
  for (unsigned i = 0, e = loops.size(); i != e; ++i) {
    const KernelLoop &loop = loops[i];
    int64_t score = 0;
    auto weigh = [&](AtomAccess &access, int64_t weight) {
      int64_t stride = access.access.strides[i];
      if (llvm::any_of(llvm::zip(loops, access.access.strides), [](auto it) {
            return std::get<0>(it).inner && std::get<1>(it) != 0;
          }))
        weight *= innerSize;
      // A strided operand costs a gather per element, which outweighs several
      // contiguous ones.
      score += stride == 1 ? 2 * weight : stride == 0 ? 0 : -6 * weight;
    };
    for (auto &entry : reads)
      weigh(entry.second, 1);
    for (auto &entry : writes)
      weigh(entry.second, 2);
    // Short loops fill few lanes.
    if (loop.size < 8)
      score -= 8 * innerSize;
    // Reducing in lanes costs a horizontal sum per work item.
    score = 2 * score - (loop.inner ? 1 : 0);
    if (lane < 0 || score > best) {
      best = score;
      lane = i;
    }
  }
}

/// Neighbouring loops that lie as one in every operand become one.
void KernelLoops::mergeLoops() {
  SmallVector<AtomAccess *> accesses = getAtomAccesses();
  auto canMerge = [&](unsigned major, unsigned minor) {
    if (loops[major].inner != loops[minor].inner ||
        loops[major].swept != loops[minor].swept)
      return false;
    return llvm::all_of(accesses, [&](AtomAccess *access) {
      return access->access.strides[major] ==
             access->access.strides[minor] * loops[minor].size;
    });
  };
  for (unsigned i = 0; i + 1 < loops.size();) {
    if (!canMerge(i, i + 1)) {
      ++i;
      continue;
    }
    loops[i].size *= loops[i + 1].size;
    loops.erase(loops.begin() + i + 1);
    for (AtomAccess *access : accesses) {
      access->access.strides[i] = access->access.strides[i + 1];
      access->access.strides.erase(access->access.strides.begin() + i + 1);
    }
    i = 0;
  }
}

//===----------------------------------------------------------------------===//
// KernelLoops
//===----------------------------------------------------------------------===//

std::optional<KernelLoops> KernelLoops::create(func::FuncOp kernel,
                                               std::string &why) {
  for (Operation &op : kernel.getBody().front())
    if (auto generic = dyn_cast<linalg::LinalgOp>(op))
      if (hasEmptyLoop(generic)) {
        why = "a loop has no iterations";
        return std::nullopt;
      }
  KernelLoops result(kernel);
  if (failed(result.collectOps(why)) || failed(result.connectOps(why)) ||
      failed(result.collectAccesses(why)) || failed(result.chooseGrid(why)))
    return std::nullopt;
  result.mergeLoops();
  result.chooseLane();
  result.assignStages();
  result.chooseScratch();
  return result;
}

const KernelAccess *KernelLoops::getRead(OpOperand &operand) const {
  auto it = reads.find(&operand);
  return it == reads.end() ? nullptr : &it->second.access;
}

const KernelAccess *KernelLoops::getWrite(OpResult result) const {
  auto it = writes.find(result);
  return it == writes.end() ? nullptr : &it->second.access;
}

SmallVector<const KernelAccess *> KernelLoops::getAccesses() const {
  SmallVector<const KernelAccess *> accesses;
  for (const auto &[operand, read] : reads)
    accesses.push_back(&read.access);
  for (const auto &[result, write] : writes)
    accesses.push_back(&write.access);
  return accesses;
}

KernelAccess KernelLoops::getIndex(Operation *op, unsigned loop) const {
  return indices.find({op, loop})->second.access;
}

bool KernelLoops::reducesInner(Operation *op) const {
  return dependsOnInner(op) &&
         cast<linalg::GenericOp>(op).getNumReductionLoops() != 0 &&
         !llvm::is_contained(columnSums, op);
}

static int64_t
getPointCount(ArrayRef<KernelLoop> loops,
              llvm::function_ref<bool(const KernelLoop &)> isCounted) {
  int64_t count = 1;
  for (const KernelLoop &loop : loops)
    if (isCounted(loop))
      count *= loop.size;
  return count;
}

int64_t KernelLoops::getInnerSize() const {
  return getPointCount(loops, [](auto &loop) { return loop.inner; });
}

int64_t KernelLoops::getItemCount() const {
  return getPointCount(loops, [](auto &loop) { return !loop.inner; });
}

int64_t KernelLoops::getSweptSize() const {
  return getPointCount(loops, [](auto &loop) { return loop.swept; });
}

int64_t KernelLoops::getTrafficBytes() const {
  // Elements that one access touches: a point per loop it depends on.
  auto getTouched = [&](const KernelAccess &access) {
    int64_t count = 1;
    for (auto [loop, stride] : llvm::zip(loops, access.strides))
      if (stride != 0)
        count *= loop.size;
    return count;
  };
  llvm::MapVector<Value, int64_t> bySource;
  auto touch = [&](const KernelAccess &access) {
    auto type = cast<RankedTensorType>(access.source.getType());
    int64_t bytes = getTensorBytes(type),
            element = bytes / std::max<int64_t>(1, type.getNumElements());
    int64_t &total = bySource[access.source];
    total = std::min(bytes, total + getTouched(access) * element);
  };
  for (auto &entry : reads)
    touch(entry.second.access);
  for (auto &entry : writes)
    touch(entry.second.access);
  int64_t bytes = 0;
  for (auto &[source, count] : bySource)
    bytes += count;
  // Lookups touch an element per point, from anywhere.
  for (linalg::GenericOp op : ops)
    for (auto lookup : op.getBody()->getOps<tensor::ExtractOp>()) {
      auto result = cast<RankedTensorType>(op->getResult(0).getType());
      bytes += getTensorBytes(result.clone(lookup.getType()));
    }
  return bytes;
}
