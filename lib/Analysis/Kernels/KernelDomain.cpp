//===- KernelDomain.cpp - The loops of a fused kernel ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/KernelDomain.h"

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
    // Lists that share an atom are one list already, or cannot become one.
    if (inner.empty() || isContiguous(root, inner) != isFirstContiguous ||
        llvm::any_of(inner, [&](IndexSpace::Atom atom) {
          return llvm::is_contained(first, atom);
        }))
      continue;
    IndexSpace before = space;
    if (space.unify(first, inner) && hasDistinctLoops())
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
