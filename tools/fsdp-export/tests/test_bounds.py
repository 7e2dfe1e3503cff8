#===- test_bounds.py - Bounds of integer inputs, by brute force ----------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Bounds against what PyTorch itself accepts, value by value."""

import random

import pytest
import torch
from fsdp_export.bounds import Bounds, input_bounds
from torch.fx.experimental.proxy_tensor import make_fx

SIZE = 37
# All of these are tried, and some far from them; in no test they overflow.
NEAR = range(-500, 600)
FAR = [sign * (1 << bits) + d for bits in (12, 20, 30)
       for sign in (1, -1) for d in (-1, 0, 1, 7)]


def bounds_of(function, dtype=torch.int64, size=SIZE) -> Bounds:
    """Of what indexes an embedding as `function(ids)`."""
    def lookup(table, ids):
        return torch.nn.functional.embedding(function(ids), table)

    graph = make_fx(lookup, tracing_mode="fake")(
        torch.zeros(size, 2), torch.ones(2, 3, dtype=dtype))
    ids = graph.graph.find_nodes(op="placeholder")[1]
    return input_bounds({"ids": ids}).get("ids", Bounds())


def accepted(function, values, dtype=torch.int64, size=SIZE) -> list[bool]:
    """What PyTorch takes."""
    found = []
    for value in values:
        index = int(function(torch.tensor([value], dtype=dtype)))
        found.append(0 <= index < size)
    return found


def check(function, is_exact: bool, dtype=torch.int64, size=SIZE) -> None:
    limits = torch.iinfo(dtype)
    values = [v for v in (*NEAR, *FAR) if limits.min <= v <= limits.max]
    bounds = bounds_of(function, dtype, size)
    for value, fine in zip(values, accepted(function, values, dtype, size)):
        if fine or is_exact:
            assert bounds.accepts(value) == fine, (value, bounds)
    assert bounds.draw
    drawn = range(*bounds.draw)
    assert all(accepted(function, drawn[:3000], dtype, size)), bounds
    assert all(accepted(function, drawn[-3000:], dtype, size)), bounds


@pytest.mark.parametrize("function", [
    lambda x: x,
    lambda x: x - 320,
    lambda x: x + 41,
    lambda x: 50 - x,
    lambda x: x * 2,
    lambda x: x * -3 + 5,
    lambda x: x // 7,
    lambda x: -x // 7,
    lambda x: torch.div(x, 7, rounding_mode="trunc"),
    lambda x: x % SIZE,
    lambda x: x % 5 + 30,
    lambda x: torch.fmod(x, 9).abs(),
    lambda x: x.clamp(0, 12),
    lambda x: x.clamp(min=-1) + 1,
    lambda x: x.clamp(max=12),
    lambda x: torch.where(x == -100, 3, x),
    lambda x: torch.where(x < 0, x + SIZE, x),
    lambda x: torch.where(x > 300, x - 300, x % 4),
    lambda x: x.masked_fill(x < 0, 0),
    lambda x: (x - 100) * 4 // 3,
    lambda x: x.abs(),
    lambda x: torch.minimum(x * 2, x + 7),
    lambda x: (x.float() / 4).long(),
    lambda x: x & 31,
    lambda x: (x * 2654435761) % SIZE,
    lambda x: (x > 3).long() + (x > 9) + (x == 256),
    lambda x: x.to(torch.int32) + 1,
], ids=str)
def test_bounds_are_what_pytorch_takes(function):
    # One range or a few values: nothing has to be widened.
    check(function, is_exact=True)


@pytest.mark.parametrize("function", [
    lambda x: x % 100,
    lambda x: x - x // 100 * 100,
    lambda x: x ^ 5,
    lambda x: (x * x) % 50,
    lambda x: x * x,
    lambda x: (x.float().abs() + 1).log2().long(),
    lambda x: torch.where(x % 2 == 0, x, x - 1),
], ids=str)
def test_what_is_not_clear_is_not_refused(function):
    check(function, is_exact=False)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16,
                                   torch.int32])
@pytest.mark.parametrize("function", [
    lambda x: x.long(), lambda x: x.long() - 5, lambda x: (x - 5).long(),
    lambda x: (x * 3).long(), lambda x: x.long() * 2 - 100], ids=str)
def test_narrow_integers_wrap_as_in_pytorch(function, dtype):
    if dtype == torch.uint8:
        check(function, False, dtype, size=250)
    check(function, False, dtype)


def test_large_tables_have_exact_ends():
    assert bounds_of(lambda x: x - 32000, size=8192) == Bounds(
        32000, 40192, (), (32000, 40192))
    assert bounds_of(lambda x: x * 2, size=10000) == Bounds(
        0, 5000, (), (0, 5000))
    assert bounds_of(lambda x: x // 2, size=5000) == Bounds(
        0, 10000, (), (0, 5000))


def random_function(rng: random.Random):
    """A chain of a few operations, and whether branches read the input."""
    def step():
        a, b = rng.randint(-60, 60), rng.randint(1, 60)
        return rng.choice([
            lambda y, x: y + a, lambda y, x: a - y, lambda y, x: y * (a or 1),
            lambda y, x: y // b, lambda y, x: y % b, lambda y, x: y % -b,
            lambda y, x: torch.fmod(y, b), lambda y, x: y.clamp(a, a + b),
            lambda y, x: y.abs(), lambda y, x: torch.where(x == a, b, y),
            lambda y, x: torch.where(x > a, y, x), lambda y, x: y + x,
            lambda y, x: y & b, lambda y, x: y | b,
            lambda y, x: torch.maximum(y, x - a),
            lambda y, x: (y.double() / b).floor().long(),
            lambda y, x: torch.div(y, -b, rounding_mode="trunc")])

    steps = [step() for _ in range(rng.randint(1, 5))]

    def function(x):
        y = x
        for f in steps:
            y = f(y, x)
        return y.long()

    return function


@pytest.mark.parametrize("seed", [*range(40), 447])
def test_random_functions(seed):
    function = random_function(random.Random(seed))
    bounds = bounds_of(function)
    values = [*NEAR, *FAR]
    for value, fine in zip(values, accepted(function, values)):
        assert bounds.accepts(value) or not fine, (value, bounds)
        if not fine:
            assert value not in bounds.allowed
            assert not bounds.draw or value not in range(*bounds.draw)
