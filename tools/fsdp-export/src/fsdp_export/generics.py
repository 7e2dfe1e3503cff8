#===- generics.py - linalg.generic on PyTorch's tensors ------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""One linalg.generic at a time: views over its loops, its body on all
iterations at once, and its reductions."""

import math
from collections.abc import Callable, Sequence

import numpy
import torch
from torch_mlir import ir

from .elementwise import BINARY, Unsupported, dtype_of
from .scalars import (AssertionFailed, check_assertion, constant, elementwise,
                      integer, shape_of)

# A sum whose terms are no products of two is not spread out further.
MAX_TERMS = 1 << 31


class Generic:
    """One linalg.generic.

    Its operands are seen as tensors with one dimension per loop, of size 1
    where the operand's map does not name the loop.
    """

    def __init__(self, op: ir.Operation, numbers: dict):
        maps = [ir.AffineMapAttr(m).value
                for m in ir.ArrayAttr(op.attributes["indexing_maps"])]
        kinds = [str(k) for k in ir.ArrayAttr(op.attributes["iterator_types"])]
        self._loops = len(kinds)
        self._sums = [i for i, k in enumerate(kinds) if "reduction" in k]
        self._inputs = len(op.operands) - len(op.results)
        self._sizes = _loop_sizes(op, maps, self._loops)
        self._reads = [self._reader(v.type, m)
                       for v, m in zip(op.operands, maps)]
        self._writes = [[e.position if isinstance(e, ir.AffineDimExpr) else None
                         for e in m.results] for m in maps[self._inputs:]]
        self._shapes = [shape_of(r) for r in op.results]
        block = op.regions[0].blocks[0]
        self._indices = [o for o in block.operations
                         if o.operation.name == "linalg.index"]
        self._body = _Body(block, numbers, self._sizes)
        self._folds = _folds(block, self._inputs) if self._sums else None
        self._product = (self._folds and len(self._folds) == 1
                         and _product(block, self._folds[0]))

    def _reader(self, kind: ir.Type, map: ir.AffineMap) -> Callable:
        """A strided view over the loops of an operand."""
        if not isinstance(kind, ir.RankedTensorType):
            return lambda x: x
        rows = [_linear(e, self._loops) for e in map.results]
        used = [any(r[0][d] for r in rows) for d in range(self._loops)]
        sizes = [n if u else 1 for n, u in zip(self._sizes, used)]

        def read(x):
            strides = [sum(r[0][d] * s for r, s in zip(rows, x.stride()))
                       for d in range(self._loops)]
            offset = sum(r[1] * s for r, s in zip(rows, x.stride()))
            if any(s < 0 for s in strides):
                raise Unsupported("an operand that is read backwards")
            return x.as_strided(sizes, strides, x.storage_offset() + offset)
        return read

    def __call__(self, values: dict, operands: Sequence[torch.Tensor]) -> list:
        views = [read(x) for read, x in zip(self._reads, operands)]
        inputs, outputs = views[:self._inputs], views[self._inputs:]
        if not self._sums:
            found = self._body(values, inputs, outputs)
        elif self._product:
            found = [self._contract(inputs, outputs[0])]
        elif self._folds:
            found = self._fold(values, inputs, outputs)
        else:
            found = self._loop(values, inputs, outputs)
        return [self._place(x, at, shape) for x, at, shape in
                zip(found, self._writes, self._shapes)]

    def _place(self, x: torch.Tensor, at: list, shape: list) -> torch.Tensor:
        """From loops to the result's own dimensions."""
        sizes = [1 if d in self._sums else n for d, n in enumerate(self._sizes)]
        x = x.expand(sizes)
        named = [d for d in at if d is not None]
        rest = [d for d in range(self._loops) if d not in named]
        if any(sizes[d] != 1 for d in rest):
            raise Unsupported("a result that does not name all of its loops")
        return x.permute(named + rest).reshape(shape)

    def _contract(self, inputs: list, output: torch.Tensor) -> torch.Tensor:
        """A sum of products of two, over the loops that the result lacks."""
        places, dtype = self._product
        factors = []
        for i in places:
            x = inputs[i]
            if dtype is not None:
                x = x.to(dtype)
            dims = [d for d in range(self._loops)
                    if x.shape[d] != 1 or self._sizes[d] == 1]
            factors += [x.squeeze([d for d in range(self._loops)
                                   if d not in dims]), dims]
        kept = [d for d in range(self._loops) if d not in self._sums]
        present = {d for dims in factors[1::2] for d in dims}
        total = torch.einsum(*factors, [d for d in kept if d in present])
        for d in self._sums:
            if d not in present:
                total = total * self._sizes[d]
        sizes = [self._sizes[d] if d in kept and d in present else 1
                 for d in range(self._loops)]
        return output + total.reshape(sizes)

    def _fold(self, values, inputs: list, outputs: list) -> list:
        """Terms for all iterations, then one reduction of each result."""
        if math.prod(self._sizes) > MAX_TERMS:
            raise Unsupported("a sum of too many terms")
        terms = self._body(values, inputs, outputs,
                           [f.term for f in self._folds])
        found = []
        for fold, term, start in zip(self._folds, terms, outputs):
            sizes = [n if d in self._sums else term.shape[d] if term.dim() else 1
                     for d, n in enumerate(self._sizes)]
            term = term.expand(sizes)
            found.append(fold.combine(start, _reduce(
                fold.name, term, self._sums).to(start.dtype)))
        return found

    def _loop(self, values, inputs: list, outputs: list) -> list:
        """Iteration by iteration of the reduced loops, in their order."""
        counts = [self._sizes[d] for d in self._sums]
        for at in numpy.ndindex(*counts):
            def cut(x):
                for d, i in zip(self._sums, at):
                    if x.dim() and x.shape[d] != 1:
                        x = x.narrow(d, i, 1)
                return x
            outputs = self._body(values, list(map(cut, inputs)), outputs,
                                 None, dict(zip(self._sums, at)))
        return outputs


def _loop_sizes(op: ir.Operation, maps: list, count: int) -> list[int]:
    sizes: list[int | None] = [None] * count
    for value, map in zip(op.operands, maps):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        for size, expression in zip(value.type.shape, map.results):
            if isinstance(expression, ir.AffineDimExpr):
                sizes[expression.position] = size
    if None in sizes:
        raise Unsupported("a loop whose size no operand says")
    return sizes


def _linear(e: ir.AffineExpr, count: int) -> tuple[list[int], int]:
    """An affine expression as coefficients of the loops and a constant."""
    if isinstance(e, ir.AffineDimExpr):
        return [int(d == e.position) for d in range(count)], 0
    if isinstance(e, ir.AffineConstantExpr):
        return [0] * count, e.value
    if isinstance(e, (ir.AffineAddExpr, ir.AffineMulExpr)):
        (a, p), (b, q) = _linear(e.lhs, count), _linear(e.rhs, count)
        if isinstance(e, ir.AffineAddExpr):
            return [x + y for x, y in zip(a, b)], p + q
        if not any(a):
            return [p * y for y in b], p * q
        if not any(b):
            return [x * q for x in a], p * q
    raise Unsupported(f"the affine expression {e}")


class _Body:
    """A generic operation's region, on tensors with one dimension per loop."""

    def __init__(self, block: ir.Block, numbers: dict, sizes: list[int]):
        self._sizes, self._numbers = sizes, numbers
        self._arguments = [numbers.setdefault(a, len(numbers))
                           for a in block.arguments]
        ops = list(block.operations)
        self._steps, self._at = [], []
        for op in ops[:-1]:
            outputs = [numbers.setdefault(r, len(numbers)) for r in op.results]
            inputs = [numbers[v] for v in op.operands]
            if op.operation.name == "linalg.index":
                self._at.append((outputs[0], integer(op.operation, "dim")))
            elif op.operation.name == "tensor.extract":
                self._steps.append((_lookup, inputs, outputs))
            else:
                function = (check_assertion(op.operation)
                            if op.operation.name == "cf.assert" else
                            constant(op.operation)
                            if op.operation.name == "arith.constant" else
                            elementwise(op.operation))
                self._steps.append((function, inputs, outputs))
        self._results = [numbers[v] for v in ops[-1].operands]

    def __call__(self, values: dict, inputs: list, outputs: list,
                 results: list[ir.Value] | None = None,
                 fixed: dict[int, int] = {}) -> list:
        values = _Overlay(values)
        values.update(zip(self._arguments, [*inputs, *outputs]))
        for number, dim in self._at:
            if dim in fixed:
                values[number] = torch.tensor(fixed[dim])
                continue
            shape = [1] * len(self._sizes)
            shape[dim] = self._sizes[dim]
            values[number] = torch.arange(self._sizes[dim]).reshape(shape)
        wanted = (self._results if results is None
                  else [self._numbers[v] for v in results])
        for function, read, written in self._steps:
            found = function(*(values[n] for n in read))
            if written:
                values[written[0]] = found
        return [values[n] for n in wanted]


class _Overlay(dict):
    """A body's values, over those of the block around it."""

    def __init__(self, below: dict):
        super().__init__()
        self._below = below

    def __missing__(self, key):
        return self._below[key]


def _lookup(table: torch.Tensor, *at: torch.Tensor) -> torch.Tensor:
    for i, size in zip(at, table.shape):
        if bool(((i < 0) | (i >= size)).any()):
            raise AssertionFailed("a lookup reaches beyond its tensor")
    return table[at] if at else table


# Reductions.

_FOLDS = {
    "arith.addf": "sum", "arith.addi": "sum", "arith.mulf": "prod",
    "arith.muli": "prod", "arith.maximumf": "amax", "arith.maxnumf": "amax",
    "arith.maxsi": "amax", "arith.minimumf": "amin", "arith.minnumf": "amin",
    "arith.minsi": "amin", "arith.ori": "any", "arith.andi": "all",
}


class _Fold:
    """result = combine(result so far, term)."""

    def __init__(self, op: ir.Operation, term: ir.Value):
        self.name, self.term = _FOLDS[op.name], term
        self.combine = BINARY[op.name]


def _folds(block: ir.Block, inputs: int) -> list[_Fold] | None:
    """One for each result, if the body has no other use of the results."""
    ops = list(block.operations)
    carried = list(block.arguments)[inputs:]
    found = []
    for value, result in zip(ops[-1].operands, carried):
        op = value.owner
        if isinstance(op, ir.Block) or op.name not in _FOLDS:
            return None
        if "i1" == str(value.type) and op.name not in ("arith.ori",
                                                       "arith.andi"):
            return None
        if op.name in ("arith.ori", "arith.andi") and str(value.type) != "i1":
            return None
        a, b = op.operands
        if (a == result) == (b == result):
            return None
        if sum(1 for _ in result.uses) != 1 or sum(1 for _ in value.uses) != 1:
            return None
        found.append(_Fold(op.operation if hasattr(op, "operation") else op,
                           b if a == result else a))
    return found


def _product(block: ir.Block, fold: _Fold) -> tuple | None:
    """((input, input), type) where the terms are products of two inputs that
    are widened to `type` at most."""
    if fold.name != "sum" or isinstance(fold.term.owner, ir.Block):
        return None
    op = fold.term.owner
    if op.name not in ("arith.mulf", "arith.muli"):
        return None
    places, dtype = [], None
    for value in op.operands:
        if not isinstance(value.owner, ir.Block) and (
                value.owner.name in ("arith.extf", "arith.extsi")):
            dtype = dtype_of(value.type)
            value = value.owner.operands[0]
        if not isinstance(value.owner, ir.Block) or value.owner != block:
            return None
        places.append(ir.BlockArgument(value).arg_number)
    return places, dtype


def _reduce(name: str, x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    if name == "prod":
        for d in dims:
            x = x.prod(d, keepdim=True, dtype=x.dtype)
        return x
    if name in ("any", "all"):
        for d in dims:
            x = getattr(x, name)(d, keepdim=True)
        return x
    if name == "sum":
        return x.sum(dims, keepdim=True, dtype=x.dtype)
    return getattr(x, name)(dims, keepdim=True)
