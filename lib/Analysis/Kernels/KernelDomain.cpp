//===- KernelDomain.cpp - The loops of a fused kernel ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/KernelDomain.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

using namespace mlir;
using namespace mlir::fsdp;

using AtomList = IndexSpace::AtomList;

void KernelDomain::add(linalg::GenericOp op) {
  SmallVector<AtomList> &opLoops = loops[op];
  for (int64_t size : op.getStaticLoopRanges())
    opLoops.push_back(space.create(size));
}

void KernelDomain::append(const KernelDomain &other) {
  IndexSpace::Atom base = space.append(other.space);
  for (auto &[op, otherLoops] : other.loops) {
    SmallVector<AtomList> &opLoops = loops[op];
    opLoops = otherLoops;
    for (AtomList &atoms : opLoops)
      for (IndexSpace::Atom &atom : atoms)
        atom += base;
  }
}

AtomList KernelDomain::getLoopAtoms(Operation *op, unsigned loop) const {
  return space.resolve(loops.find(op)->second[loop]);
}

AtomList KernelDomain::getAtoms(Operation *op) const {
  AtomList atoms;
  for (const AtomList &loop : loops.find(op)->second)
    llvm::append_range(atoms, loop);
  return space.resolve(atoms);
}

AtomList KernelDomain::getAtoms(Operation *op, AffineMap map) const {
  const SmallVector<AtomList> &opLoops = loops.find(op)->second;
  AtomList atoms;
  for (AffineExpr expr : map.getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      llvm::append_range(atoms, opLoops[dim.getPosition()]);
  return space.resolve(atoms);
}

bool KernelDomain::hasDistinctLoops() const {
  for (auto &[op, opLoops] : loops) {
    llvm::SmallDenseSet<IndexSpace::Atom, 8> seen;
    for (IndexSpace::Atom atom : getAtoms(op))
      if (!seen.insert(atom).second)
        return false;
  }
  return true;
}

bool KernelDomain::connect(OpOperand &a, OpOperand &b) {
  auto getPoints = [&](OpOperand &operand) {
    auto op = cast<linalg::LinalgOp>(operand.getOwner());
    return getAtoms(op, op.getMatchingIndexingMap(&operand));
  };
  return space.unify(getPoints(a), getPoints(b)) && hasDistinctLoops();
}

void KernelDomain::connectReaders(
    ArrayRef<SmallVector<OpOperand *>> readers,
    llvm::EquivalenceClasses<Operation *> &parts) {
  for (ArrayRef<OpOperand *> operands : readers)
    for (OpOperand *operand : llvm::drop_begin(operands)) {
      Operation *first = operands.front()->getOwner(),
                *second = operand->getOwner();
      if (parts.isEquivalent(first, second))
        continue;
      KernelDomain trial = *this;
      if (!trial.connect(*operands.front(), *operand))
        continue;
      *this = std::move(trial);
      parts.unionSets(first, second);
    }
}

/// Atoms of @roots, outermost first, and in how many roots each is parallel.
static llvm::MapVector<IndexSpace::Atom, unsigned>
countParallel(const KernelDomain &domain, ArrayRef<Operation *> roots) {
  llvm::MapVector<IndexSpace::Atom, unsigned> counts;
  for (Operation *root : roots) {
    auto op = cast<linalg::LinalgOp>(root);
    SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
    for (unsigned loop = 0, e = op.getNumLoops(); loop != e; ++loop)
      for (IndexSpace::Atom atom : domain.getLoopAtoms(root, loop))
        counts[atom] += linalg::isParallelIterator(iterators[loop]);
  }
  return counts;
}

bool KernelDomain::isContiguous(Operation *op,
                                ArrayRef<IndexSpace::Atom> atoms) const {
  auto linalgOp = cast<linalg::LinalgOp>(op);
  AffineMap widest;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = linalgOp.getMatchingIndexingMap(&operand);
    if (!widest || map.getNumResults() > widest.getNumResults())
      widest = map;
  }
  AtomList walked = getAtoms(op, widest);
  return !walked.empty() && !atoms.empty() && walked.back() == atoms.back();
}

void KernelDomain::alignInnerLoops(ArrayRef<Operation *> roots) {
  llvm::MapVector<IndexSpace::Atom, unsigned> parallel =
      countParallel(*this, roots);
  AtomList first;
  bool isFirstContiguous = false;
  for (Operation *root : roots) {
    AtomList inner = getAtoms(root);
    llvm::erase_if(inner, [&](IndexSpace::Atom atom) {
      return parallel.lookup(atom) == roots.size();
    });
    if (first.empty()) {
      first = inner;
      isFirstContiguous = isContiguous(root, first);
    }
    // What both begin with (rows) or end in (points of a row) is joined
    // already. Lists that share another atom cannot become one.
    ArrayRef<IndexSpace::Atom> outer = first, rest = inner;
    while (!outer.empty() && !rest.empty() && outer.back() == rest.back()) {
      outer = outer.drop_back();
      rest = rest.drop_back();
    }
    while (!outer.empty() && !rest.empty() && outer.front() == rest.front()) {
      outer = outer.drop_front();
      rest = rest.drop_front();
    }
    if (outer.empty() || rest.empty() ||
        isContiguous(root, inner) != isFirstContiguous ||
        llvm::any_of(rest, [&](IndexSpace::Atom atom) {
          return llvm::is_contained(outer, atom);
        }))
      continue;
    IndexSpace before = space;
    if (space.unify(outer, rest) && hasDistinctLoops())
      first = space.resolve(first);
    else
      space = std::move(before);
  }
}

std::optional<KernelGrid>
KernelDomain::getGrid(ArrayRef<Operation *> roots) const {
  KernelGrid grid;
  for (auto [atom, count] : countParallel(*this, roots))
    (count == roots.size() ? grid.items : grid.inner).push_back(atom);
  // Two levels: a root has all inner atoms or none, and a reduction reduces
  // over all of those it has.
  for (Operation *root : roots) {
    auto op = cast<linalg::LinalgOp>(root);
    SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
    bool reduces = op.getNumReductionLoops() != 0;
    size_t count = 0;
    for (unsigned loop = 0, e = op.getNumLoops(); loop != e; ++loop)
      for (IndexSpace::Atom atom : getLoopAtoms(root, loop)) {
        if (!llvm::is_contained(grid.inner, atom))
          continue;
        ++count;
        if (reduces && linalg::isParallelIterator(iterators[loop]))
          return std::nullopt;
      }
    if (count != 0 && count != grid.inner.size())
      return std::nullopt;
  }
  return grid;
}

bool fsdp::isColumnSum(linalg::GenericOp op) {
  if (getComputeKind(op) != ComputeKind::Reduction)
    return false;
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (OpOperand *operand : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(operand);
    if (map.getNumResults() != op.getNumLoops())
      continue;
    auto last = dyn_cast<AffineDimExpr>(map.getResults().back());
    return last && linalg::isParallelIterator(iterators[last.getPosition()]);
  }
  return false;
}

std::optional<KernelGrid>
KernelDomain::getSweep(ArrayRef<Operation *> rows,
                       ArrayRef<Operation *> sums) const {
  std::optional<KernelGrid> grid = getGrid(rows);
  if (!grid || sums.empty() || llvm::none_of(rows, [](Operation *row) {
        return cast<linalg::LinalgOp>(row).getNumReductionLoops() != 0;
      }))
    return std::nullopt;
  int64_t columns = space.getTotalSize(grid->inner);
  if (columns > kMostSweptColumns || columns < kFewestSweptColumns)
    return std::nullopt;
  int64_t words = 0;
  for (Operation *sum : sums) {
    auto op = cast<linalg::GenericOp>(sum);
    for (Type type : op->getResultTypes())
      words += llvm::divideCeil(
          cast<RankedTensorType>(type).getElementTypeBitWidth(), 32);
    AtomList reduced, kept;
    for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
      for (IndexSpace::Atom atom : getLoopAtoms(op, loop))
        (linalg::isParallelIterator(iterator) ? kept : reduced).push_back(atom);
    if (sum == sums.front())
      grid->swept = reduced;
    // All sums reduce over the same item loops, and have a result for each
    // point of all others.
    auto isIn = [](const AtomList &list) {
      return [&list](IndexSpace::Atom atom) {
        return llvm::is_contained(list, atom);
      };
    };
    AtomList loops = grid->items;
    llvm::append_range(loops, grid->inner);
    bool isOfRows = !reduced.empty() && reduced.size() == grid->swept.size() &&
                    llvm::all_of(reduced, isIn(grid->swept)) &&
                    llvm::all_of(reduced, isIn(grid->items));
    llvm::append_range(reduced, kept);
    if (!isOfRows || reduced.size() != loops.size() ||
        !llvm::all_of(loops, isIn(reduced)) ||
        !llvm::all_of(grid->inner, isIn(kept)))
      return std::nullopt;
  }
  int64_t chunks =
      space.getTotalSize(grid->items) / space.getTotalSize(grid->swept);
  if (words * columns > kMostSweptWords || chunks < kFewestChunks ||
      chunks * columns < kFewestSums)
    return std::nullopt;
  return grid;
}

std::optional<KernelGrid> KernelDomain::findSweep(
    SmallVector<Operation *> &roots, SmallVector<Operation *> &sums,
    llvm::function_ref<bool(Operation *)> isRead, bool &isAligned) {
  auto isSum = [&](Operation *root) {
    return isColumnSum(cast<linalg::GenericOp>(root)) && !isRead(root);
  };
  llvm::copy_if(roots, std::back_inserter(sums), isSum);
  if (sums.empty())
    return std::nullopt;
  llvm::erase_if(roots, isSum);
  if (std::optional<KernelGrid> grid = getSweep(roots, sums))
    return grid;
  KernelDomain aligned = *this;
  aligned.alignInnerLoops(roots);
  std::optional<KernelGrid> grid = aligned.getSweep(roots, sums);
  if (grid) {
    *this = std::move(aligned);
    isAligned = true;
  }
  return grid;
}
