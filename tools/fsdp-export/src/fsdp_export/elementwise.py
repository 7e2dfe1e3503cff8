#===- elementwise.py - Scalar operations on whole tensors ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What operations of arith and math compute, on all elements at once.

A value of i1 is a tensor of booleans, of iN of intN, of index of int64.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import torch
from torch_mlir import ir

_INTEGERS = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
_FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
           "f64": torch.float64}


class Unsupported(Exception):
    """An operation or type that the interpreter does not know."""


NARROW = (torch.bfloat16, torch.float16)
# Inside of `widened`, narrow floats are f32.
_wide = contextvars.ContextVar("wide", default=False)


@contextlib.contextmanager
def widened(on: bool) -> Iterator[None]:
    """Code that is made in this context computes narrow floats in f32."""
    token = _wide.set(on)
    try:
        yield
    finally:
        _wide.reset(token)


def dtype_of(kind: ir.Type) -> torch.dtype:
    """The type of the elements that stand for an MLIR scalar type."""
    text = str(kind)
    if text in _FLOATS:
        dtype = _FLOATS[text]
        return torch.float32 if dtype in NARROW and _wide.get() else dtype
    if text == "index":
        return torch.int64
    if text == "i1":
        return torch.bool
    if isinstance(kind, ir.IntegerType) and kind.width in _INTEGERS:
        return _INTEGERS[kind.width]
    raise Unsupported(f"type {text}")


def _unsigned(x: torch.Tensor) -> torch.Tensor:
    """The value of the bits without a sign, as int64."""
    if x.dtype == torch.bool:
        return x.to(torch.int64)
    if x.dtype == torch.int64:
        if bool((x < 0).any()):
            raise Unsupported("an unsigned 64-bit value of 2^63 or more")
        return x
    return x.to(torch.int64) & ((1 << 8 * x.element_size()) - 1)


def _signed(x: torch.Tensor) -> torch.Tensor:
    return -x.to(torch.int64) if x.dtype == torch.bool else x.to(torch.int64)


def _truncate(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    return (x & 1).to(torch.bool) if to == torch.bool else x.to(to)


def _through_unsigned(function: Callable) -> Callable:
    def run(a, b):
        return _truncate(function(_unsigned(a), _unsigned(b)), a.dtype)
    return run


def _divide(rounding: str) -> Callable:
    return lambda a, b: torch.div(a, b, rounding_mode=rounding)


def _add(a, b):
    return a ^ b if a.dtype == torch.bool else a + b


def _multiply(a, b):
    return a & b if a.dtype == torch.bool else a * b


BINARY = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul,
    "arith.divf": torch.div, "arith.remf": torch.fmod,
    "arith.maximumf": torch.maximum, "arith.minimumf": torch.minimum,
    "arith.maxnumf": torch.fmax, "arith.minnumf": torch.fmin,
    "arith.addi": _add, "arith.subi": lambda a, b:
        a ^ b if a.dtype == torch.bool else a - b,
    "arith.muli": _multiply,
    "arith.andi": torch.bitwise_and, "arith.ori": torch.bitwise_or,
    "arith.xori": torch.bitwise_xor,
    "arith.maxsi": torch.maximum, "arith.minsi": torch.minimum,
    "arith.maxui": _through_unsigned(torch.maximum),
    "arith.minui": _through_unsigned(torch.minimum),
    "arith.divsi": _divide("trunc"), "arith.floordivsi": _divide("floor"),
    "arith.ceildivsi": lambda a, b: -torch.div(-a, b, rounding_mode="floor"),
    "arith.remsi": torch.fmod,
    "arith.divui": _through_unsigned(_divide("trunc")),
    "arith.remui": _through_unsigned(torch.fmod),
    "arith.shli": torch.bitwise_left_shift,
    "arith.shrsi": torch.bitwise_right_shift,
    "arith.shrui": _through_unsigned(torch.bitwise_right_shift),
    "math.powf": torch.pow, "math.fpowi": torch.pow, "math.ipowi": torch.pow,
    "math.atan2": torch.atan2, "math.copysign": torch.copysign,
}

UNARY = {
    "arith.negf": torch.neg,
    "math.absf": torch.abs, "math.absi": torch.abs, "math.exp": torch.exp,
    "math.exp2": torch.exp2, "math.expm1": torch.expm1, "math.log": torch.log,
    "math.log2": torch.log2, "math.log10": torch.log10,
    "math.log1p": torch.log1p, "math.sqrt": torch.sqrt,
    "math.rsqrt": torch.rsqrt, "math.tanh": torch.tanh, "math.erf": torch.erf,
    "math.erfc": torch.erfc, "math.sin": torch.sin, "math.cos": torch.cos,
    "math.tan": torch.tan, "math.asin": torch.asin, "math.acos": torch.acos,
    "math.atan": torch.atan, "math.sinh": torch.sinh, "math.cosh": torch.cosh,
    "math.asinh": torch.asinh, "math.acosh": torch.acosh,
    "math.atanh": torch.atanh, "math.ceil": torch.ceil,
    "math.floor": torch.floor, "math.trunc": torch.trunc,
    "math.roundeven": torch.round,
    "math.round": lambda x: torch.where(
        (x - torch.trunc(x)).abs() == 0.5, torch.trunc(x) + torch.sign(x),
        torch.round(x)),
    "math.isnan": torch.isnan, "math.isinf": torch.isinf,
    "math.isfinite": torch.isfinite,
}

# From the value and the element type of the result.
CASTS = {
    "arith.extf": lambda x, to: x.to(to),
    "arith.truncf": lambda x, to: x.to(to),
    "arith.sitofp": lambda x, to: _signed(x).to(to),
    "arith.uitofp": lambda x, to: _unsigned(x).to(to),
    "arith.fptosi": lambda x, to: _truncate(x.to(torch.int64), to),
    "arith.fptoui": lambda x, to: _truncate(x.to(torch.int64), to),
    "arith.extsi": lambda x, to: _signed(x).to(to),
    "arith.extui": lambda x, to: _unsigned(x).to(to),
    "arith.trunci": lambda x, to: _truncate(x, to),
    "arith.index_cast": lambda x, to: _truncate(_signed(x), to),
    "arith.index_castui": lambda x, to: _truncate(_unsigned(x), to),
    "arith.bitcast": lambda x, to: x.view(to),
}

_INTEGER_PREDICATES = {
    0: torch.eq, 1: torch.ne, 2: torch.lt, 3: torch.le, 4: torch.gt,
    5: torch.ge}
_UNSIGNED_PREDICATES = {6: torch.lt, 7: torch.le, 8: torch.gt, 9: torch.ge}
_FLOAT_PREDICATES = {1: torch.eq, 2: torch.gt, 3: torch.ge, 4: torch.lt,
                     5: torch.le, 6: torch.ne}


def compare_integers(predicate: int) -> Callable:
    """arith.cmpi."""
    if predicate in _INTEGER_PREDICATES:
        compare = _INTEGER_PREDICATES[predicate]
        if predicate < 2:
            return compare
        return lambda a, b: compare(_signed(a), _signed(b))
    compare = _UNSIGNED_PREDICATES[predicate]
    return lambda a, b: compare(_unsigned(a), _unsigned(b))


def compare_floats(predicate: int) -> Callable:
    """arith.cmpf: 1 to 7 are false where an operand is not a number, 8 to 14
    are true there."""
    if predicate in (0, 15):
        return lambda a, b: torch.full(
            torch.broadcast_shapes(a.shape, b.shape), predicate == 15)

    def unordered(a, b):
        return torch.isnan(a) | torch.isnan(b)

    if predicate == 7:
        return lambda a, b: ~unordered(a, b)
    if predicate == 14:
        return unordered
    if predicate < 7:
        compare = _FLOAT_PREDICATES[predicate]
        return lambda a, b: compare(a, b) & ~unordered(a, b)
    compare = _FLOAT_PREDICATES[predicate - 7]
    return lambda a, b: compare(a, b) | unordered(a, b)
