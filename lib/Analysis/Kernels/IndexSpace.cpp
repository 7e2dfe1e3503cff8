//===- IndexSpace.cpp - Loops that several ops have in common -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/IndexSpace.h"

#include <algorithm>
#include <cassert>

using namespace mlir::fsdp;
using llvm::ArrayRef;

IndexSpace::AtomList IndexSpace::create(int64_t size) {
  if (size == 1)
    return {};
  Atom atom = nodes.size();
  nodes.push_back({size, atom});
  return {atom};
}

IndexSpace::Atom IndexSpace::find(Atom atom) const {
  while (nodes[atom].parent != atom)
    atom = nodes[atom].parent;
  return atom;
}

void IndexSpace::resolveInto(Atom atom, AtomList &result) const {
  atom = find(atom);
  if (!nodes[atom].isSplit()) {
    result.push_back(atom);
    return;
  }
  resolveInto(nodes[atom].major, result);
  resolveInto(nodes[atom].minor, result);
}

IndexSpace::AtomList IndexSpace::resolve(ArrayRef<Atom> atoms) const {
  AtomList result;
  for (Atom atom : atoms)
    resolveInto(atom, result);
  return result;
}

int64_t IndexSpace::getTotalSize(ArrayRef<Atom> atoms) const {
  int64_t size = 1;
  for (Atom atom : atoms)
    size *= nodes[find(atom)].size;
  return size;
}

void IndexSpace::split(Atom atom, int64_t minorSize) {
  int64_t majorSize = nodes[atom].size / minorSize;
  Atom major = nodes.size(), minor = major + 1;
  nodes.push_back({majorSize, major});
  nodes.push_back({minorSize, minor});
  nodes[atom].major = major;
  nodes[atom].minor = minor;
}

bool IndexSpace::unify(ArrayRef<Atom> a, ArrayRef<Atom> b) {
  AtomList left = resolve(a), right = resolve(b);
  while (!left.empty() && !right.empty()) {
    // What was joined a moment ago may come again, further to the left.
    Atom x = find(left.back()), y = find(right.back());
    int64_t xSize = nodes[x].size, ySize = nodes[y].size;
    if (xSize == ySize) {
      nodes[x].parent = y;
      left.pop_back();
      right.pop_back();
      continue;
    }
    Atom larger = xSize > ySize ? x : y;
    int64_t smaller = std::min(xSize, ySize);
    if (nodes[larger].size % smaller != 0)
      return false;
    split(larger, smaller);
    // The split may concern both lists.
    left = resolve(left);
    right = resolve(right);
  }
  return left.empty() && right.empty();
}

bool IndexSpace::splitAt(ArrayRef<Atom> atoms, ArrayRef<StridedDim> dims) {
  AtomList rest = resolve(atoms);
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    int64_t size = dim->size;
    while (size != 1) {
      if (rest.empty())
        return false;
      Atom atom = rest.back();
      int64_t atomSize = nodes[atom].size;
      if (size % atomSize == 0) {
        size /= atomSize;
        rest.pop_back();
      } else if (atomSize % size == 0) {
        split(atom, size);
        rest = resolve(rest);
      } else {
        return false;
      }
    }
  }
  return rest.empty();
}

llvm::SmallVector<int64_t, 4>
IndexSpace::getStrides(ArrayRef<Atom> resolved,
                       ArrayRef<StridedDim> dims) const {
  llvm::SmallVector<int64_t, 4> strides(resolved.size());
  size_t next = resolved.size();
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    int64_t size = dim->size, stride = dim->stride;
    while (size != 1) {
      assert(next > 0 && size % nodes[resolved[next - 1]].size == 0 &&
             "atoms must have been split at the borders of dims");
      int64_t atomSize = nodes[resolved[--next]].size;
      strides[next] = stride;
      stride *= atomSize;
      size /= atomSize;
    }
  }
  assert(next == 0 && "atoms and dims must cover the same points");
  return strides;
}

IndexSpace::Atom IndexSpace::append(const IndexSpace &other) {
  Atom base = nodes.size();
  for (Node node : other.nodes) {
    node.parent += base;
    if (node.isSplit()) {
      node.major += base;
      node.minor += base;
    }
    nodes.push_back(node);
  }
  return base;
}
