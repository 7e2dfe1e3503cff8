#===- interpreter.py - Runs the exported MLIR ----------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Executes a function of the input contract with PyTorch's tensors.

Each operation becomes a Python function of its operands' values, once; then
they run in order. A linalg operation reads its operands as strided views of
its loops and computes its body on all of them at once; products are einsum's.
So a model takes little longer than in PyTorch, and nothing of what fsdp-compile
does to the same operations is shared.
"""

import math
from collections.abc import Callable, Sequence

import numpy
import torch
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from .elementwise import (BINARY, CASTS, UNARY, Unsupported, compare_floats,
                          compare_integers, dtype_of, widened)

_GENERALIZE = "builtin.module(func.func(linalg-generalize-named-ops))"
# A sum whose terms are no products of two is not spread out further.
MAX_TERMS = 1 << 31


class AssertionFailed(Exception):
    """A cf.assert does not hold; the message is its own."""


def run(module: ir.Module, arguments: Sequence[torch.Tensor],
        wide: bool = False) -> list[torch.Tensor]:
    """The results of the module's only function. Raises Unsupported for
    operations that are not known, and AssertionFailed.

    With `wide`, narrow floats are f32, and the arguments of these types are
    given so."""
    with module.context, ir.Location.unknown(), widened(wide):
        copy = ir.Module.parse(module.operation.get_asm(
            binary=False, assume_verified=True))
        PassManager.parse(_GENERALIZE).run(copy.operation)
        block = copy.body.operations[0].regions[0].blocks[0]
        code = _Block(block, {})
        with torch.no_grad():
            return [x.clone() for x in code(dict(), [
                _from_outside(x) for x in arguments])]


def _from_outside(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().contiguous()
    return x.view(torch.int8) if x.dtype == torch.uint8 else x


class _Block:
    """A block's operations, ready to run.

    Values live in a dictionary by number; each leaves it after its last use.
    """

    def __init__(self, block: ir.Block, numbers: dict):
        self._numbers = numbers
        self._arguments = [self._number(a) for a in block.arguments]
        self._steps = []
        ops = list(block.operations)
        position = {op.operation: i for i, op in enumerate(ops)}
        last: dict[int, int] = {}
        for i, op in enumerate(ops):
            for value in _operands(op.operation):
                number = self._numbers.get(value)
                if number is not None:
                    last[number] = i
        own = {*self._arguments}
        for op in ops:
            own.update(self._number(r) for r in op.results)
        dead: dict[int, list[int]] = {}
        for number, i in last.items():
            if number in own:
                dead.setdefault(i, []).append(number)
        for i, op in enumerate(ops[:-1]):
            inputs = [self._numbers[v] for v in op.operands]
            outputs = [self._numbers[r] for r in op.results]
            # The operand may be written to where nothing reads it later.
            free = [n in dead.get(i, ()) for n in inputs]
            self._steps.append((_compile(op, self._numbers, free), inputs,
                                outputs, dead.get(i, [])))
        self._results = [self._numbers[v] for v in ops[-1].operands]
        self.terminator = ops[-1].operation.name

    def _number(self, value: ir.Value) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def __call__(self, values: dict, arguments: Sequence) -> list:
        values.update(zip(self._arguments, arguments))
        for function, inputs, outputs, dead in self._steps:
            found = function(values, [values[n] for n in inputs])
            values.update(zip(outputs, found))
            for number in dead:
                values.pop(number, None)
        return [values[n] for n in self._results]


def _operands(op: ir.Operation) -> list[ir.Value]:
    """What the operation reads, its regions included."""
    found = list(op.operands)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += _operands(inner.operation)
    return found


def _compile(op: ir.OpView, numbers: dict, free: list[bool]) -> Callable:
    """A function of (values by number, operands) to the list of results."""
    op = op.operation
    name = op.name
    if name == "linalg.generic":
        return _Generic(op, numbers)
    if name == "scf.for":
        return _for(op, numbers)
    if name == "scf.if":
        return _if(op, numbers)
    if name == "tensor.pad":
        return _pad(op, numbers)
    if name in _STRUCTURED:
        function = _STRUCTURED[name](op, free)
    else:
        function = _elementwise(op)
    return lambda values, operands: [function(*operands)]


def _elementwise(op: ir.Operation) -> Callable:
    name = op.name
    if name in BINARY:
        return BINARY[name]
    if name in UNARY:
        return UNARY[name]
    if name in CASTS:
        cast, to = CASTS[name], dtype_of(_element(op.results[0].type))
        return lambda x: cast(x, to)
    if name == "arith.select":
        return torch.where
    if name == "arith.cmpi":
        return compare_integers(_integer(op, "predicate"))
    if name == "arith.cmpf":
        return compare_floats(_integer(op, "predicate"))
    if name == "math.fma":
        return lambda a, b, c: a * b + c
    raise Unsupported(f"operation {name}")


def _element(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind


def _integer(op: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value


def _array(op: ir.Operation, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def _shape(value: ir.Value) -> list[int]:
    return list(value.type.shape)


# Operations on whole tensors.

def _constant(op: ir.Operation, free) -> Callable:
    value, kind = op.attributes["value"], op.results[0].type
    dtype = dtype_of(_element(kind))
    if isinstance(kind, ir.RankedTensorType):
        result = _dense(value, kind, dtype)
    elif isinstance(value, ir.FloatAttr):
        result = torch.tensor(value.value, dtype=torch.float64).to(dtype)
    elif isinstance(value, ir.BoolAttr) or dtype == torch.bool:
        result = torch.tensor(bool(value.value))
    else:
        result = torch.tensor(value.value, dtype=dtype)
    return lambda: result


def _dense(value: ir.Attribute, kind: ir.Type,
           dtype: torch.dtype) -> torch.Tensor:
    dense = ir.DenseElementsAttr(value)
    if dense.is_splat:
        one = dense.get_splat_value()
        return torch.tensor(one.value, dtype=torch.float64 if
                            dtype.is_floating_point else torch.int64).to(
                                dtype).expand(kind.shape)
    if dtype == torch.bool:
        values = numpy.array(dense).astype(bool)
    elif str(kind.element_type) in ("bf16", "f16"):
        values = [x.value if hasattr(x, "value") else x
                  for x in ir.DenseFPElementsAttr(value)]
        return torch.tensor(values, dtype=torch.float64).to(dtype).reshape(
            kind.shape)
    else:
        values = numpy.array(dense)
    return torch.from_numpy(values.copy()).to(dtype).reshape(kind.shape)


def _empty(op: ir.Operation, free) -> Callable:
    # What is never written is not a number, so that a read of it shows.
    kind = op.results[0].type
    dtype = dtype_of(kind.element_type)
    fill = math.nan if dtype.is_floating_point else 1
    result = torch.full((), fill, dtype=dtype).expand(kind.shape)
    return lambda: result


def _reshape(op: ir.Operation, free) -> Callable:
    shape = _shape(op.results[0])
    return lambda x, *sizes: x.reshape(shape)


def _same(op: ir.Operation, free) -> Callable:
    return lambda x: x


def _splat(op: ir.Operation, free) -> Callable:
    shape = _shape(op.results[0])
    return lambda x: x.expand(shape)


def _from_elements(op: ir.Operation, free) -> Callable:
    shape = _shape(op.results[0])
    return lambda *x: torch.stack(x).reshape(shape)


def _dim(op: ir.Operation, free) -> Callable:
    return lambda x, at: torch.tensor(x.shape[int(at)])


def _concat(op: ir.Operation, free) -> Callable:
    dim = _integer(op, "dim")
    return lambda *x: torch.cat(x, dim)


def _extract(op: ir.Operation, free) -> Callable:
    return lambda x, *at: x[at] if at else x


def _insert(op: ir.Operation, free) -> Callable:
    def insert(value, target, *at):
        target = _owned(target, free[1])
        target[tuple(map(int, at)) if at else ...] = value
        return target
    return insert


def _owned(target: torch.Tensor, free: bool) -> torch.Tensor:
    """The tensor itself if nobody else sees what is written to it.

    Tensors of the loops below are always owned: they start from a copy.
    """
    if free and getattr(target, "_fsdp_owned", False):
        return target
    target = target.clone(memory_format=torch.contiguous_format)
    target._fsdp_owned = True
    return target


def _window(op: ir.Operation) -> Callable:
    """From the dynamic operands to (offsets, sizes, strides)."""
    parts = [_array(op, f"static_{k}") for k in ("offsets", "sizes", "strides")]
    dynamic = ir.ShapedType.get_dynamic_size()
    stride = ir.ShapedType.get_dynamic_stride_or_offset()

    def window(given):
        rest = iter(given)
        return [[int(next(rest)) if x in (dynamic, stride) else x for x in p]
                for p in parts]
    return window


def _view(x: torch.Tensor, offsets, sizes, strides) -> torch.Tensor:
    for d, (offset, size, stride) in enumerate(zip(offsets, sizes, strides)):
        if offset < 0 or size and offset + (size - 1) * stride >= x.shape[d]:
            raise AssertionFailed("a slice reaches beyond its tensor")
    return x.as_strided(
        sizes, [a * b for a, b in zip(x.stride(), strides)],
        x.storage_offset() + sum(a * b for a, b in zip(x.stride(), offsets)))


def _extract_slice(op: ir.Operation, free) -> Callable:
    window, shape = _window(op), _shape(op.results[0])
    # The source may be written to later; a copy of a slice costs little.
    return lambda x, *given: _view(x, *window(given)).reshape(shape).clone()


def _insert_slice(op: ir.Operation, free) -> Callable:
    window = _window(op)

    def insert(value, target, *given):
        offsets, sizes, strides = window(given)
        target = _owned(target, free[1])
        _view(target, offsets, sizes, strides).copy_(value.reshape(sizes))
        return target
    return insert


def _assert(op: ir.Operation, free) -> Callable:
    message = ir.StringAttr(op.attributes["msg"]).value

    def check(condition):
        if not bool(condition.all()):
            raise AssertionFailed(message)
    return check


_STRUCTURED = {
    "arith.constant": _constant, "tensor.empty": _empty,
    "tensor.expand_shape": _reshape, "tensor.collapse_shape": _reshape,
    "tensor.reshape": _reshape, "tensor.cast": _same, "tensor.splat": _splat,
    "tensor.from_elements": _from_elements, "tensor.dim": _dim,
    "tensor.concat": _concat, "tensor.extract": _extract,
    "tensor.insert": _insert, "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice, "cf.assert": _assert,
}


# Operations with regions.

def _for(op: ir.Operation, numbers: dict) -> Callable:
    code = _Block(op.regions[0].blocks[0], numbers)

    def run(values, operands):
        low, high, step = map(int, operands[:3])
        carried = [_owned(x, False) for x in operands[3:]]
        for i in range(low, high, step):
            carried = code(values, [torch.tensor(i), *carried])
        return carried
    return run


def _if(op: ir.Operation, numbers: dict) -> Callable:
    branches = [_Block(r.blocks[0], numbers) for r in op.regions
                if len(r.blocks)]

    def run(values, operands):
        if bool(operands[0]):
            return branches[0](values, [])
        return branches[1](values, []) if len(branches) > 1 else []
    return run


def _pad(op: ir.Operation, numbers: dict) -> Callable:
    low, high = _array(op, "static_low"), _array(op, "static_high")
    if ir.ShapedType.get_dynamic_size() in low + high:
        raise Unsupported("tensor.pad by a computed amount")
    code = _Block(op.regions[0].blocks[0], numbers)
    shape = _shape(op.results[0])

    def run(values, operands):
        value = code(values, [torch.tensor(0)] * len(shape))[0]
        if value.dim():
            raise Unsupported("tensor.pad with different values")
        result = value.expand(shape).clone()
        inner = operands[0]
        _view(result, low, inner.shape, [1] * len(shape)).copy_(inner)
        return [result]
    return run


class _Generic:
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
        self._shapes = [_shape(r) for r in op.results]
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
                self._at.append((outputs[0], _integer(op.operation, "dim")))
            elif op.operation.name == "tensor.extract":
                self._steps.append((_lookup, inputs, outputs))
            else:
                function = (_assert(op.operation, ())
                            if op.operation.name == "cf.assert" else
                            _constant(op.operation, ())
                            if op.operation.name == "arith.constant" else
                            _elementwise(op.operation))
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
