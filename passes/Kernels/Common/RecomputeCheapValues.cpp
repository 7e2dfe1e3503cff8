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
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StepGraph.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_RECOMPUTECHEAPVALUES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Operations per element that are cheaper than a load.
constexpr int64_t kCheapBody = 4;

/// Ops in a row that a kernel may repeat for one value.
constexpr unsigned kLongestChain = 4;

static int64_t getKernel(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(names::kKernel);
  return number ? number.getInt() : -1;
}

static bool isReshape(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op);
}

/// What a value is, seen through reshapes.
static Value getSource(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isReshape(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Whether a kernel may repeat @op for less than a load.
static bool isCheap(linalg::GenericOp op) {
  return op->getNumResults() == 1 && isPointwise(op) &&
         getBodyCost(op) <= kCheapBody;
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

  /// Lets the readers of `op` compute its result themselves, where that moves
  /// less memory.
  void visit(linalg::GenericOp op);

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
  std::optional<int64_t> getExtraBytes(linalg::GenericOp op, int64_t kernel,
                                       unsigned chain = 1);
  void recompute(linalg::GenericOp op, Reader &reader);

  /// The ops of each kernel; copies are added.
  llvm::DenseMap<int64_t, SmallVector<Operation *>> kernels;
  /// The kernels of backward.
  llvm::DenseSet<int64_t> backward;
  Operation *loss;
  /// The first number that no kernel has.
  int64_t next = 0;
};

} // namespace

Recomputer::Recomputer(Block &block, Operation *loss) : loss(loss) {
  for (Operation &op : block)
    if (int64_t kernel = getKernel(&op); kernel >= 0) {
      kernels[kernel].push_back(&op);
      next = std::max(next, kernel + 1);
      if (loss && loss->isBeforeInBlock(&op))
        backward.insert(kernel);
    }
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
    if (kernel < 0 || !isLoopOp(user)) {
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
      Value source = getSource(operand);
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

/// Bytes that `kernel` would have to read in addition, to compute `op`; nullopt
/// where it cannot: a value that is nowhere in memory, or another unit's.
std::optional<int64_t> Recomputer::getExtraBytes(linalg::GenericOp op,
                                                 int64_t kernel,
                                                 unsigned chain) {
  int64_t extra = 0;
  llvm::SmallSetVector<Value, 8> reads = getReads(kernel);
  for (OpOperand *operand : op.getDpsInputOperands()) {
    Value source = getSource(operand->get());
    Operation *def = source.getDefiningOp();
    if (reads.contains(source) ||
        (def && getComputeKind(def) == ComputeKind::Constant))
      continue;
    if (getUnitOf(source) || !def)
      return std::nullopt;
    int64_t owner = getKernel(def);
    if (owner == kernel)
      continue;
    if (owner < 0 && !isa<CollectiveOpInterface>(def))
      return std::nullopt;
    // In memory only if something outside of its kernel reads it already.
    SmallVector<Reader> others;
    bool inMemory = !collectReaders(source, owner, others) || !others.empty();
    if (!inMemory) {
      // The kernel repeats what makes it, too, if visit() will decide so.
      auto generic = dyn_cast<linalg::GenericOp>(def);
      if (!generic || chain == kLongestChain || !isCheap(generic))
        return std::nullopt;
      std::optional<int64_t> bytes = getExtraBytes(generic, kernel, chain + 1);
      if (!bytes || *bytes >= getTensorBytes(source.getType()))
        return std::nullopt;
      extra += *bytes;
      continue;
    }
    // What forward saves for backward is decided (fsdp-cut-saved-values).
    if (backward.contains(kernel) && !isSaved(source))
      return std::nullopt;
    extra += getTensorBytes(source.getType());
  }
  return extra;
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

void Recomputer::visit(linalg::GenericOp op) {
  if (!isCheap(op))
    return;
  SmallVector<Reader> readers;
  bool onlyLoops = collectReaders(op->getResult(0), getKernel(op), readers);
  if (readers.empty())
    return;
  int64_t bytes = getTensorBytes(op->getResult(0).getType());
  // Written once and read by each, or not written and made of other reads.
  SmallVector<std::pair<Reader *, int64_t>> able;
  int64_t total = 0;
  for (Reader &reader : readers)
    if (std::optional<int64_t> extra = getExtraBytes(op, reader.kernel)) {
      able.push_back({&reader, *extra});
      total += *extra;
    }
  bool vanishes = onlyLoops && able.size() == readers.size() &&
                  total <= bytes * int64_t(readers.size());
  for (auto &[reader, extra] : able)
    if (vanishes || extra < bytes)
      recompute(op, *reader);
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
    SmallVector<linalg::GenericOp> ops;
    for (auto op : block.getOps<linalg::GenericOp>())
      if (getKernel(op) >= 0)
        ops.push_back(op);
    // Last to first: what a copy reads may be recomputed in turn.
    for (linalg::GenericOp op : llvm::reverse(ops)) {
      recomputer.visit(op);
      if (isOpTriviallyDead(op))
        recomputer.erase(op);
    }
  }
};
} // namespace
