//===- RecomputeCheapValues.cpp - Compute again instead of keeping --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A trace saves every value that backward reads: x, x / 2, tanh(y), tanh(y)
// + 1. Two of these four follow from the others at the cost of an addition,
// which is less than that of a load. Where a kernel can compute a value from
// what it reads anyway, the value need not be written, kept and read.
//
// Which cheap ops a kernel repeats is a minimal cut in the graph of these ops
// and their values, between what the kernel's own ops read and what it cannot
// compute. A value on the cut is read: its bytes count once, and once more if
// it is written for this kernel alone. An op between the cut and the kernel's
// own ops is repeated, which costs its operations. Kernels decide from the last
// to the first.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StepGraph.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Planning/MinCut.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <set>

namespace mlir::fsdp {
#define GEN_PASS_DEF_RECOMPUTECHEAPVALUES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;
using mlir::fsdp::sched::MinCut;

/// Operations per element that are cheaper than a load.
constexpr int64_t kCheapBody = 4;

static int64_t getKernel(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(names::kKernel);
  return number ? number.getInt() : -1;
}

/// Whether a kernel may repeat @op for less than a load. An epilogue adds to
/// what is in no memory.
static bool isCheap(linalg::GenericOp op) {
  return op->getNumResults() == 1 && isPointwise(op) &&
         !op->hasAttr(names::kEpilogue) && getBodyCost(op) <= kCheapBody;
}

namespace {

/// A kernel that reads a value element by element, and the operands that do.
struct Reader {
  int64_t kernel;
  SmallVector<OpOperand *> operands;
};

class Recomputer {
public:
  /// @loss ends forward; null where the program has none.
  Recomputer(Block &block, Operation *loss);

  /// The kernels, last to first.
  SmallVector<int64_t> getKernels() const;

  /// Lets @kernel compute values itself that it reads of others, where that
  /// moves less memory.
  void visit(int64_t kernel);

  /// Casts a shard before each collective that reads it, where one cast would
  /// be kept from the gather in forward to that in backward.
  void recomputeFor(CollectiveOpInterface collective);

  /// Erases an op that nothing reads any more.
  void erase(Operation *op) {
    llvm::erase(kernels[getKernel(op)], op);
    op->erase();
  }

private:
  bool collectReaders(Value value, int64_t owner,
                      SmallVectorImpl<Reader> &readers);
  llvm::SmallSetVector<Value, 8> getReads(int64_t kernel);
  bool isSaved(Value value);
  linalg::GenericOp getCheapProducer(Value value, int64_t kernel);
  bool isUnitReadFrom(Value unit, int64_t kernel);
  bool isWrittenLike(Operation *op);
  int64_t getReadCost(Value value, int64_t kernel, bool isRead);
  SmallVector<linalg::GenericOp> chooseRepeated(int64_t kernel);
  void recompute(linalg::GenericOp op, Reader &reader);

  /// The ops of each kernel; copies are added.
  llvm::DenseMap<int64_t, SmallVector<Operation *>> kernels;
  /// The place of each op in the program; a copy has that of the original.
  llvm::DenseMap<Operation *, int64_t> order;
  /// The kernels of backward.
  llvm::DenseSet<int64_t> backward;
  /// The place of the last op that reads a parameter of each unit.
  llvm::DenseMap<Value, int64_t> lastReads;
  Operation *loss;
  /// The first number that no kernel has.
  int64_t next = 0;
};

} // namespace

Recomputer::Recomputer(Block &block, Operation *loss) : loss(loss) {
  for (auto [number, op] : llvm::enumerate(block)) {
    for (Value read : getReadValues(&op))
      if (Value unit = getUnitOf(lookThroughReshapes(read)))
        lastReads[unit] = number;
    if (int64_t kernel = getKernel(&op); kernel >= 0) {
      order[&op] = number;
      kernels[kernel].push_back(&op);
      next = std::max(next, kernel + 1);
      if (loss && loss->isBeforeInBlock(&op))
        backward.insert(kernel);
    }
  }
}

/// Whether @kernel, or an op after it, reads a parameter of @unit.
bool Recomputer::isUnitReadFrom(Value unit, int64_t kernel) {
  int64_t place = 0;
  for (Operation *op : kernels[kernel])
    place = std::max(place, order.lookup(op));
  return lastReads.lookup(unit) >= place;
}

/// The loop kernels other than `owner` that read `value`. False where something
/// else does too: then it has to be written anyway.
bool Recomputer::collectReaders(Value value, int64_t owner,
                                SmallVectorImpl<Reader> &readers) {
  bool onlyLoops = true;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isReshape(user)) {
      onlyLoops &= collectReaders(user->getResult(0), owner, readers);
      continue;
    }
    auto generic = dyn_cast<linalg::GenericOp>(user);
    int64_t kernel = generic ? getKernel(user) : -1;
    if (kernel == owner && kernel >= 0)
      continue;
    if (kernel < 0 || !isLoopOp(user) || user->hasAttr(names::kEpilogue)) {
      onlyLoops = false;
      continue;
    }
    auto known = llvm::find_if(
        readers, [&](const Reader &r) { return r.kernel == kernel; });
    if (known == readers.end())
      known = readers.insert(readers.end(), {kernel, {}});
    known->operands.push_back(&use);
  }
  return onlyLoops;
}

/// Values from outside that a kernel reads.
llvm::SmallSetVector<Value, 8> Recomputer::getReads(int64_t kernel) {
  llvm::SmallSetVector<Value, 8> reads;
  for (Operation *op : kernels[kernel])
    for (Value operand : op->getOperands()) {
      Value source = lookThroughReshapes(operand);
      Operation *def = source.getDefiningOp();
      if (!def || getKernel(def) != kernel)
        reads.insert(source);
    }
  return reads;
}

/// Whether backward reads `value`, or it is none of forward.
bool Recomputer::isSaved(Value value) {
  Operation *def = value.getDefiningOp();
  if (!loss || loss->isBeforeInBlock(def))
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isReshape(user))
      return isSaved(user->getResult(0));
    user = loss->getBlock()->findAncestorOpInBlock(*user);
    return loss->isBeforeInBlock(user) || backward.contains(getKernel(user));
  });
}

/// The op of another kernel that @kernel may repeat to compute @value.
linalg::GenericOp Recomputer::getCheapProducer(Value value, int64_t kernel) {
  auto generic = value.getDefiningOp<linalg::GenericOp>();
  return generic && getKernel(generic) >= 0 && getKernel(generic) != kernel &&
                 isCheap(generic)
             ? generic
             : linalg::GenericOp();
}

/// Whether the kernel of @op writes a result of the loops that @op has: then it
/// can write @op's, too. Another iteration space may be one too many for it.
bool Recomputer::isWrittenLike(Operation *op) {
  auto loop = dyn_cast<linalg::GenericOp>(op);
  if (!loop)
    return false;
  SmallVector<int64_t> ranges = loop.getStaticLoopRanges();
  return llvm::any_of(kernels[getKernel(op)], [&](Operation *other) {
    auto generic = dyn_cast<linalg::GenericOp>(other);
    SmallVector<Reader> readers;
    return generic && generic.getStaticLoopRanges() == ranges &&
           llvm::any_of(generic->getResults(), [&](Value result) {
             return !collectReaders(result, getKernel(op), readers) ||
                    !readers.empty();
           });
  });
}

/// Bytes that are moved if @kernel reads @value: those of the value and, where
/// loop kernels alone read it, the bytes that its own kernel writes, divided by
/// the number of these readers. @isRead: whether @kernel reads it already. Else
/// it must not begin to read (kInfinite) an argument, a view, what forward does
/// not save, what its own kernel cannot write, and a parameter of a unit that
/// no later op reads, so that the unit would stay gathered for @kernel alone.
int64_t Recomputer::getReadCost(Value value, int64_t kernel, bool isRead) {
  Operation *def = value.getDefiningOp();
  int64_t owner = def ? getKernel(def) : -1;
  if (!isRead) {
    if (Value unit = getUnitOf(value))
      return isUnitReadFrom(unit, kernel) ? getTensorBytes(value.getType())
                                          : MinCut::kInfinite;
    if (!def || (owner < 0 && !isa<CollectiveOpInterface>(def)))
      return MinCut::kInfinite;
    // What forward saves for backward is decided (fsdp-cut-saved-values).
    if (backward.contains(kernel) && !isSaved(value))
      return MinCut::kInfinite;
  }
  int64_t bytes = getTensorBytes(value.getType());
  SmallVector<Reader> readers;
  if (owner < 0 || !collectReaders(value, owner, readers))
    return bytes;
  if (!isRead && readers.empty())
    return isWrittenLike(def) ? 2 * bytes : MinCut::kInfinite;
  if (!isRead)
    return bytes;
  return bytes + bytes / int64_t(readers.size());
}

/// The ops of other kernels that @kernel is to repeat, last to first.
///
/// The gain of a value is the most that @kernel saves by not reading it: its
/// bytes, or the gains of the ops that are repeated of it, whichever is less.
/// The gain of an op is that of its result less the op's operations; without a
/// gain, neither it nor what it reads becomes part of the graph. So the graph
/// stays small where cheap ops form a chain through the whole program (the sums
/// of a residual stream). Ops come after all that read them.
SmallVector<linalg::GenericOp> Recomputer::chooseRepeated(int64_t kernel) {
  llvm::SmallSetVector<Value, 8> reads = getReads(kernel);
  MinCut graph;
  struct Entry {
    int node;
    int64_t gain = 0;
  };
  llvm::DenseMap<Value, Entry> entries;
  std::set<std::pair<int64_t, Operation *>, std::greater<>> worklist;
  auto addRead = [&](Value value, int64_t gain) {
    auto [it, fresh] = entries.try_emplace(value);
    linalg::GenericOp op = getCheapProducer(value, kernel);
    if (fresh) {
      it->second.node = graph.addNode();
      if (op)
        worklist.insert({order.lookup(op), op});
      else
        graph.addEdge(it->second.node, MinCut::kSink,
                      getReadCost(value, kernel, reads.contains(value)));
    }
    it->second.gain =
        std::min(it->second.gain, MinCut::kInfinite - gain) + gain;
    return it->second.node;
  };
  for (Value value : reads)
    if (getCheapProducer(value, kernel))
      graph.addEdge(MinCut::kSource, addRead(value, MinCut::kInfinite),
                    MinCut::kInfinite);

  SmallVector<std::pair<linalg::GenericOp, int>> ops;
  while (!worklist.empty()) {
    auto op = cast<linalg::GenericOp>(worklist.begin()->second);
    worklist.erase(worklist.begin());
    Value value = op->getResult(0);
    Entry entry = entries.lookup(value);
    int64_t readCost = getReadCost(value, kernel, reads.contains(value));
    auto type = cast<RankedTensorType>(value.getType());
    int64_t work = getBodyCost(op) * type.getNumElements();
    int64_t gain = std::min(entry.gain, readCost) - work;
    if (gain <= 0) {
      graph.addEdge(entry.node, MinCut::kSink, readCost);
      continue;
    }
    int opNode = graph.addNode();
    ops.push_back({op, opNode});
    graph.addEdge(entry.node, opNode, readCost);
    graph.addEdge(opNode, MinCut::kSink, work);
    for (OpOperand *operand : op.getDpsInputOperands()) {
      Value source = lookThroughReshapes(operand->get());
      Operation *def = source.getDefiningOp();
      // What the kernel reads for its own ops costs nothing more.
      if ((def && (getComputeKind(def) == ComputeKind::Constant ||
                   getKernel(def) == kernel)) ||
          (reads.contains(source) && !getCheapProducer(source, kernel)))
        continue;
      graph.addEdge(opNode, addRead(source, gain), MinCut::kInfinite);
    }
  }
  if (ops.empty())
    return {};
  std::vector<bool> isRepeated = graph.solve();
  SmallVector<linalg::GenericOp> repeated;
  for (auto [op, node] : ops)
    if (isRepeated[node])
      repeated.push_back(op);
  return repeated;
}

/// Copies `op` into the reader's kernel. Operands that read it differently get
/// copies of their own: the row and column numbers of a mask come from one
/// range, but are different points of it.
void Recomputer::recompute(linalg::GenericOp op, Reader &reader) {
  llvm::DenseMap<std::pair<Type, AffineMap>, Operation *> copies;
  for (OpOperand *operand : reader.operands) {
    auto owner = cast<linalg::GenericOp>(operand->getOwner());
    // The reshapes in between are repeated on the copy.
    SmallVector<Operation *> chain;
    for (Value v = operand->get(); v != op->getResult(0);
         v = v.getDefiningOp()->getOperand(0))
      chain.push_back(v.getDefiningOp());
    Operation *&copy = copies[{operand->get().getType(),
                               owner.getMatchingIndexingMap(operand)}];
    if (!copy) {
      copy = OpBuilder(op).clone(*op);
      order[copy] = order.lookup(op);
      copy->setAttr(names::kKernel,
                    IntegerAttr::get(IntegerType::get(op.getContext(), 64),
                                     reader.kernel));
      kernels[reader.kernel].push_back(copy);
    }
    OpBuilder builder(owner);
    Value value = copy->getResult(0);
    for (Operation *reshape : llvm::reverse(chain)) {
      IRMapping mapping;
      mapping.map(reshape->getOperand(0), value);
      value = builder.clone(*reshape, mapping)->getResult(0);
    }
    operand->set(value);
    for (Operation *reshape : chain)
      if (isOpTriviallyDead(reshape))
        reshape->erase();
  }
}

SmallVector<int64_t> Recomputer::getKernels() const {
  SmallVector<int64_t> numbers =
      llvm::to_vector(llvm::make_first_range(kernels));
  llvm::sort(numbers, std::greater<>());
  return numbers;
}

void Recomputer::visit(int64_t kernel) {
  // Last to first: what a copy reads may be repeated in turn.
  for (linalg::GenericOp op : chooseRepeated(kernel)) {
    SmallVector<Reader> readers;
    collectReaders(op->getResult(0), getKernel(op), readers);
    for (Reader &reader : readers)
      if (reader.kernel == kernel)
        recompute(op, reader);
    if (isOpTriviallyDead(op))
      erase(op);
  }
}

void Recomputer::recomputeFor(CollectiveOpInterface collective) {
  for (OpOperand &operand : collective->getOpOperands()) {
    auto cast = operand.get().getDefiningOp<linalg::GenericOp>();
    // Arguments, such as shards, are in memory all the time.
    if (!cast || getKernel(cast) < 0 || operand.get().hasOneUse() ||
        !isCheap(cast) ||
        !llvm::all_of(cast.getInputs(), llvm::IsaPred<BlockArgument>))
      continue;
    OpBuilder builder(collective);
    Operation *copy = builder.clone(*cast);
    order[copy] = order.lookup(cast);
    copy->setAttr(names::kKernel, builder.getI64IntegerAttr(next));
    kernels[next++].push_back(copy);
    operand.set(copy->getResult(0));
  }
}

namespace {
struct RecomputeCheapValues
    : fsdp::impl::RecomputeCheapValuesBase<RecomputeCheapValues> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    Block &block = step.getBody().front();
    Recomputer recomputer(block, getLossOp(step));
    // The first user keeps the original: the last collective comes first.
    SmallVector<CollectiveOpInterface> collectives(
        block.getOps<CollectiveOpInterface>());
    for (CollectiveOpInterface collective : llvm::reverse(collectives))
      recomputer.recomputeFor(collective);
    for (int64_t kernel : recomputer.getKernels())
      recomputer.visit(kernel);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (getKernel(&op) >= 0 && isOpTriviallyDead(&op))
        recomputer.erase(&op);
  }
};
} // namespace
