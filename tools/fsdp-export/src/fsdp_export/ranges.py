#===- ranges.py - Between which numbers a function's values lie ----------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Functions of one integer, evaluated on ranges of it (interval arithmetic).

A result holds for every integer of the range: the function's values lie
between the two numbers that are returned. They need not be the closest ones;
of a range of one integer they are equal wherever PyTorch can compute it.
Where an operation has no rule, nothing is known of a longer range.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch

# Monotone in each operand while the others stay: the least and the greatest
# value lie where every operand is at one of its ends.
_MONOTONE = {
    "alias", "add", "sub", "subtract", "rsub", "mul", "multiply", "neg",
    "negative", "positive", "maximum", "minimum", "max", "min", "fmax", "fmin",
    "clamp", "clip", "clamp_min", "clamp_max", "relu", "lt", "le", "gt", "ge",
    "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_not", "floor", "ceil", "trunc", "round", "sign",
    "sgn"}
_ON_BOOLEANS = {"bitwise_and", "bitwise_or", "bitwise_not", "__and__", "__or__"}
_DIVISIONS = {"div", "divide", "true_divide", "floor_divide"}
_QUOTIENTS = _DIVISIONS | {"remainder", "fmod"}
_EQUALITIES = {"eq": True, "ne": False, "not_equal": False}
# May leave the type's range, and then wrap around.
_WRAPPING = {"add", "sub", "subtract", "rsub", "mul", "multiply", "neg",
             "negative", "abs", "absolute", "to"}
# Make something of numbers that wrapped around: a hash is a remainder of them.
_MIXING = {"remainder", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor",
           "bitwise_not", "bitwise_right_shift", "__and__", "__or__", "__xor__",
           "__rshift__"}
# So many operands that vary are combined.
_MOST_OPERANDS = 4


@dataclass
class Ranges:
    """The numbers between which values lie, for each of several ranges.

    `overflowed`: every value passed the end of an integer type, and what is
    known is no more than the type.
    """

    low: torch.Tensor
    high: torch.Tensor
    overflowed: torch.Tensor

    @staticmethod
    def of(low: torch.Tensor, high: torch.Tensor) -> "Ranges":
        return Ranges(low, high, torch.zeros(low.shape, dtype=torch.bool))


@dataclass(eq=False)
class Function:
    """`call` of other functions' values; without operands: the input itself.

    A constant is the same everywhere. `number` is the second operand where
    `call` itself holds it. `sample` are values somewhere, of the function's
    type. `sure` is false where a condition that is not known decides whether
    an element is this function's at all.
    """

    name: str
    call: Callable[..., torch.Tensor] | None
    operands: tuple["Function", ...]
    sample: torch.Tensor
    constant: torch.Tensor | None = None
    number: int | float | None = None
    sure: bool = True


def evaluate(function: Function, low: torch.Tensor,
             high: torch.Tensor) -> Ranges:
    """Where the function's values lie while the input is in low .. high."""
    found: dict[Function, Ranges] = {}
    for f in _in_order(function):
        if f.constant is not None:
            line = f.constant.expand(low.shape)
            found[f] = Ranges.of(line, line)
        elif not f.operands:
            found[f] = Ranges.of(low, high)
        else:
            found[f] = _Evaluation(f, [found[o] for o in f.operands]).result()
    return found[function]


def _in_order(function: Function) -> list[Function]:
    """What the function is made of, operands first."""
    order: dict[Function, None] = {}
    work = [(function, False)]
    while work:
        f, is_ready = work.pop()
        if is_ready:
            order[f] = None
        elif f not in order:
            work.append((f, True))
            work += [(o, False) for o in f.operands]
    return list(order)


def _without_least(value: Ranges, by: Ranges) -> Ranges:
    """The least integer by -1 ends the process, PyTorch's, too."""
    dtype = value.low.dtype
    if dtype not in (torch.int32, torch.int64):
        return value
    least = torch.iinfo(dtype).min
    ends = (by.low <= -1) & (by.high >= -1)
    return Ranges(*(torch.where(ends & (x == least), least + 1, x).to(dtype)
                    for x in (value.low, value.high)), value.overflowed)


class _Evaluation:
    """One operation on the ranges of its operands."""

    def __init__(self, function: Function, operands: list[Ranges]):
        self._function, self._operands = function, operands
        self._dtype = function.sample.dtype
        self._shape = operands[0].low.shape
        by = self._second()
        if function.name in _QUOTIENTS and by is not None:
            self._operands = [_without_least(operands[0], by), *operands[1:]]

    def result(self) -> Ranges:
        try:
            found = self._wrapped(self._by_rule() or self._anything())
        except (RuntimeError, TypeError, ValueError):
            found = self._anything()
        unknown = self._any(o.low.isnan() | o.high.isnan()
                            for o in self._operands)
        return self._exact(self._loose(found, unknown))

    def _any(self, lines) -> torch.Tensor:
        found = torch.zeros(self._shape, dtype=torch.bool)
        for line in lines:
            found = found | line
        return found

    def _limits(self) -> tuple:
        if self._dtype == torch.bool:
            return False, True
        if self._dtype.is_floating_point:
            return torch.nan, torch.nan
        limits = torch.iinfo(self._dtype)
        return limits.min, limits.max

    def _anything(self) -> Ranges:
        return Ranges.of(*(torch.full(self._shape, x, dtype=self._dtype)
                           for x in self._limits()))

    def _loose(self, found: Ranges, where: torch.Tensor) -> Ranges:
        """Nothing is known at `where`."""
        rest = self._anything()
        return Ranges(torch.where(where, rest.low, found.low),
                      torch.where(where, rest.high, found.high),
                      found.overflowed)

    def _by_rule(self) -> Ranges | None:
        name = self._function.name
        is_boolean = self._dtype == torch.bool
        if name in _MONOTONE or (is_boolean and name in _ON_BOOLEANS):
            return self._corners()
        if name == "to":
            return self._equal(False) if is_boolean else self._corners()
        if name in _EQUALITIES:
            return self._equal(_EQUALITIES[name])
        if name in _DIVISIONS:
            by = self._second()
            if by is None or bool(((by.low <= 0) & (by.high >= 0)).any()):
                return None
            return self._corners()
        if name == "where":
            return self._choose()
        if name in ("abs", "absolute"):
            return self._fold(self._corners(), self._operands[0])
        if name in ("remainder", "fmod"):
            return self._remainder(name)
        if name in ("bitwise_and", "__and__"):
            return self._mask()
        return None

    def _corners(self) -> Ranges | None:
        values = self._at_ends()
        return values if values is None else Ranges.of(values.amin(0),
                                                       values.amax(0))

    def _at_ends(self, convert=lambda x: x) -> torch.Tensor | None:
        """Values where every operand is at one of its ends, one a row."""
        sides = [(convert(f.constant),) if f.constant is not None
                 else (convert(o.low), convert(o.high))
                 for f, o in zip(self._function.operands, self._operands)]
        if sum(len(s) > 1 for s in sides) > _MOST_OPERANDS:
            return None
        return torch.stack([self._function.call(*corner).expand(self._shape)
                            for corner in itertools.product(*sides)])

    def _equal(self, when: bool) -> Ranges | None:
        left, right = self._operands[0], self._second()
        if right is None:
            return None
        same = ((left.low == left.high) & (right.low == right.high)
                & (left.low == right.low))
        apart = (left.high < right.low) | (left.low > right.high)
        low, high = (same, ~apart) if when else (apart, ~same)
        return Ranges.of(low, high)

    def _second(self) -> Ranges | None:
        """The second operand, also where it is a plain number."""
        if len(self._operands) > 1:
            return self._operands[1]
        number = self._function.number
        if number is None:
            return None
        line = torch.full(self._shape, number,
                          dtype=torch.float64 if isinstance(number, float)
                          else torch.int64)
        return Ranges.of(line, line)

    def _choose(self) -> Ranges:
        condition, left, right = self._operands
        left, right = (Ranges(x.low.to(self._dtype), x.high.to(self._dtype),
                              x.overflowed) for x in (left, right))
        is_left, is_right = condition.low, ~condition.high

        def pick(a, b, both):
            return torch.where(is_left, a, torch.where(is_right, b, both(a, b)))

        return Ranges(pick(left.low, right.low, torch.minimum),
                      pick(left.high, right.high, torch.maximum),
                      pick(left.overflowed, right.overflowed,
                           torch.logical_and))

    def _fold(self, corners: Ranges, operand: Ranges) -> Ranges:
        """A function that falls to 0 at 0 and rises again."""
        crosses = (operand.low < 0) & (operand.high > 0)
        return Ranges.of(corners.low.masked_fill(crosses, 0), corners.high)

    def _remainder(self, name: str) -> Ranges | None:
        """By one number; exact where the quotient is the same throughout."""
        if self._dtype.is_floating_point or self._dtype == torch.bool:
            return None
        value, by = self._operands[0], self._second()
        if by is None or bool(
                ((by.low != by.high) | (by.low == 0)).any()):
            return None
        by = by.low.to(torch.int64)
        mode = "floor" if name == "remainder" else "trunc"
        quotients = [torch.div(x.to(torch.int64), by, rounding_mode=mode)
                     for x in (value.low, value.high)]
        most = by.abs() - 1
        negative = by < 0 if name == "remainder" else value.low < 0
        positive = by > 0 if name == "remainder" else value.high > 0
        zero = torch.zeros_like(most)
        low, high = (torch.where(negative, -most, zero),
                     torch.where(positive, most, zero))
        # The quotient of fmod is 0 on both sides of 0; it rises there, too.
        same, corners = quotients[0] == quotients[1], self._corners()
        return Ranges.of(torch.where(same, corners.low, low).to(self._dtype),
                         torch.where(same, corners.high, high).to(self._dtype))

    def _mask(self) -> Ranges | None:
        """Bits of a number that is not negative: at most that number."""
        second = self._second()
        if second is None:
            return None
        found = self._anything()
        for o in (self._operands[0], second):
            fits = o.low >= 0
            found.low = found.low.masked_fill(fits, 0)
            found.high = torch.where(
                fits, torch.minimum(found.high, o.high.to(self._dtype)),
                found.high)
        return found

    def _wrapped(self, found: Ranges) -> Ranges:
        """Nothing is known of what may have left the type's range."""
        name = self._function.name
        if self._dtype == torch.bool or name in _MIXING:
            return found
        if name != "where":
            found.overflowed = self._any(o.overflowed for o in self._operands)
        if self._dtype.is_floating_point or name not in _WRAPPING:
            return found
        values = self._at_ends()
        if name == "to":
            wide = torch.stack([self._operands[0].low, self._operands[0].high])
        else:
            wide = self._at_ends(torch.Tensor.double)
        if values is None or wide is None:
            return self._anything()
        # float64 is off by little, wrapping by the type's whole range.
        bits = torch.iinfo(self._dtype).bits
        wide = wide.double()
        away = (values.double() - wide).abs() >= 2.0 ** (bits - 2)
        # Narrow types are tabulated value by value, wrapping and all.
        if bits >= 32:
            found.overflowed |= away.all(0) & (
                (wide > 0).all(0) | (wide < 0).all(0))
        return self._loose(found, away.any(0))

    def _exact(self, found: Ranges) -> Ranges:
        """PyTorch's own result where every operand is one number."""
        here = ~found.overflowed
        for o in self._operands:
            here = here & (o.low == o.high)
        if not bool(here.any()):
            return found
        try:
            values = self._function.call(*(
                f.constant if f.constant is not None else o.low[here]
                for f, o in zip(self._function.operands, self._operands)))
        except (RuntimeError, TypeError, ValueError):
            return found
        values = values.expand(int(here.sum())).to(self._dtype)
        found.low, found.high = found.low.clone(), found.high.clone()
        found.low[here] = found.high[here] = values
        return found
