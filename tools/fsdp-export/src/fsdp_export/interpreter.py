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

import torch
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from .elementwise import Unsupported, dtype_of, widened
from .generics import Generic
from .scalars import (AssertionFailed, check_assertion, constant, elementwise,
                      integer, shape_of)

_GENERALIZE = "builtin.module(func.func(linalg-generalize-named-ops))"

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
        return Generic(op, numbers)
    if name == "scf.for":
        return _for(op, numbers)
    if name == "scf.if":
        return _if(op, numbers)
    if name == "tensor.pad":
        return _pad(op, numbers)
    if name in _STRUCTURED:
        function = _STRUCTURED[name](op, free)
    else:
        function = elementwise(op)
    return lambda values, operands: [function(*operands)]


def _array(op: ir.Operation, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


# Operations on whole tensors.

def _empty(op: ir.Operation, free) -> Callable:
    # What is never written is not a number, so that a read of it shows.
    kind = op.results[0].type
    dtype = dtype_of(kind.element_type)
    fill = math.nan if dtype.is_floating_point else 1
    result = torch.full((), fill, dtype=dtype).expand(kind.shape)
    return lambda: result


def _reshape(op: ir.Operation, free) -> Callable:
    shape = shape_of(op.results[0])
    return lambda x, *sizes: x.reshape(shape)


def _same(op: ir.Operation, free) -> Callable:
    return lambda x: x


def _splat(op: ir.Operation, free) -> Callable:
    shape = shape_of(op.results[0])
    return lambda x: x.expand(shape)


def _from_elements(op: ir.Operation, free) -> Callable:
    shape = shape_of(op.results[0])
    return lambda *x: torch.stack(x).reshape(shape)


def _dim(op: ir.Operation, free) -> Callable:
    return lambda x, at: torch.tensor(x.shape[int(at)])


def _concat(op: ir.Operation, free) -> Callable:
    dim = integer(op, "dim")
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
    window, shape = _window(op), shape_of(op.results[0])
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


_STRUCTURED = {
    "arith.constant": lambda op, free: constant(op), "tensor.empty": _empty,
    "tensor.expand_shape": _reshape, "tensor.collapse_shape": _reshape,
    "tensor.reshape": _reshape, "tensor.cast": _same, "tensor.splat": _splat,
    "tensor.from_elements": _from_elements, "tensor.dim": _dim,
    "tensor.concat": _concat, "tensor.extract": _extract,
    "tensor.insert": _insert, "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice, "cf.assert": lambda op, free: check_assertion(op),
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
    shape = shape_of(op.results[0])

    def run(values, operands):
        value = code(values, [torch.tensor(0)] * len(shape))[0]
        if value.dim():
            raise Unsupported("tensor.pad with different values")
        result = value.expand(shape).clone()
        inner = operands[0]
        _view(result, low, inner.shape, [1] * len(shape)).copy_(inner)
        return [result]
    return run
