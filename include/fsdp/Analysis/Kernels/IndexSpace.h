//===- IndexSpace.h - Loops that several ops have in common -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops that work on [4, 64, 128] and on [256, 128] iterate over the same points.
// An index space names the loops that both are made of: atoms. A loop or a
// tensor dimension is a list of atoms, major to minor; making two lists equal
// splits and joins atoms. Dimensions of size 1 are empty lists, so reshapes
// vanish altogether.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_INDEXSPACE_H
#define FSDP_ANALYSIS_KERNELS_INDEXSPACE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace mlir::fsdp {

/// A piece of a dimension in memory: `size` elements, `stride` apart.
struct StridedDim {
  int64_t size;
  int64_t stride;
  bool operator==(const StridedDim &other) const {
    return size == other.size && stride == other.stride;
  }
};

class IndexSpace {
public:
  using Atom = unsigned;
  using AtomList = llvm::SmallVector<Atom, 4>;

  /// A new loop; an empty list where `size` is 1.
  AtomList create(int64_t size);

  /// The atoms that `atoms` now stand for, after splits and joins.
  AtomList resolve(llvm::ArrayRef<Atom> atoms) const;

  /// Size of a resolved atom.
  int64_t getSize(Atom atom) const { return nodes[atom].size; }
  int64_t getTotalSize(llvm::ArrayRef<Atom> atoms) const;

  /// Makes two lists the same, atom by atom from the minor end. Fails where
  /// their sizes do not fit; the space is then unspecified (work on a copy).
  bool unify(llvm::ArrayRef<Atom> a, llvm::ArrayRef<Atom> b);

  /// Splits atoms so that every border between `dims` is one between atoms.
  bool splitAt(llvm::ArrayRef<Atom> atoms, llvm::ArrayRef<StridedDim> dims);

  /// The stride of each resolved atom, given memory that is walked in the same
  /// order; `dims` are split where atoms are smaller. Requires splitAt.
  llvm::SmallVector<int64_t, 4>
  getStrides(llvm::ArrayRef<Atom> resolved,
             llvm::ArrayRef<StridedDim> dims) const;

  /// Appends another space; its atoms are numbered from the returned one on.
  Atom append(const IndexSpace &other);

private:
  struct Node {
    int64_t size;
    /// Joined into this one, if not itself.
    Atom parent;
    /// Split into two, if major != minor.
    Atom major = 0, minor = 0;
    bool isSplit() const { return major != minor; }
  };
  Atom find(Atom atom) const;
  void resolveInto(Atom atom, AtomList &result) const;
  /// Splits so that the minor part has `minorSize`.
  void split(Atom atom, int64_t minorSize);

  std::vector<Node> nodes;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_INDEXSPACE_H
