#===- scalars.py - Operations that look at no region ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Constants, assertions and elementwise operations as Python functions, for
blocks and for the bodies of linalg operations."""

import re
from collections.abc import Callable

import numpy
import torch
from torch_mlir import ir

from .elementwise import (BINARY, CASTS, UNARY, Unsupported, compare_floats,
                          compare_integers, dtype_of)


class AssertionFailed(Exception):
    """A cf.assert does not hold; the message is its own."""


def elementwise(op: ir.Operation) -> Callable:
    name = op.name
    if name in BINARY:
        return BINARY[name]
    if name in UNARY:
        return UNARY[name]
    if name in CASTS:
        cast, to = CASTS[name], dtype_of(element_of(op.results[0].type))
        return lambda x: cast(x, to)
    if name == "arith.select":
        return torch.where
    if name == "arith.cmpi":
        return compare_integers(integer(op, "predicate"))
    if name == "arith.cmpf":
        return compare_floats(integer(op, "predicate"))
    if name == "math.fma":
        return lambda a, b, c: a * b + c
    raise Unsupported(f"operation {name}")


def element_of(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind


def integer(op: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value


def shape_of(value: ir.Value) -> list[int]:
    return list(value.type.shape)


def constant(op: ir.Operation) -> Callable:
    value, kind = op.attributes["value"], op.results[0].type
    dtype = dtype_of(element_of(kind))
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
        own = torch.bfloat16 if str(kind.element_type) == "bf16" else (
            torch.float16)
        return _narrow_floats(str(dense), own).to(dtype).reshape(kind.shape)
    else:
        values = numpy.array(dense)
    return torch.from_numpy(values.copy()).to(dtype).reshape(kind.shape)


def _narrow_floats(text: str, own: torch.dtype) -> torch.Tensor:
    """The elements of `dense<..> : type`, of 16 bits each, which Python's
    bindings do not read: numbers, patterns of bits where they have no digits,
    or all bytes as one string."""
    body = text[len("dense<"):text.rindex("> : ")]
    if body.startswith('"0x'):
        return torch.frombuffer(bytearray.fromhex(body[3:-1]), dtype=own)
    values = [_from_bits(int(x, 16), own) if x.startswith("0x") else float(x)
              for x in re.findall(r"0x[0-9A-Fa-f]+|[-+0-9.][-+0-9.eE]*", body)]
    return torch.tensor(values, dtype=torch.float64).to(own)


def _from_bits(bits: int, own: torch.dtype) -> float:
    return torch.frombuffer(bytearray(bits.to_bytes(2, "little")),
                            dtype=own).item()


def check_assertion(op: ir.Operation) -> Callable:
    message = ir.StringAttr(op.attributes["msg"]).value

    def check(condition):
        if not bool(condition.all()):
            raise AssertionFailed(message)
    return check
