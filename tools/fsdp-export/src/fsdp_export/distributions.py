#===- distributions.py - How a tensor was initialised --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The distributions that a compiled step can draw its parameters from.

Each is a value with the few operations that initialisers apply to a sample:
an affine map, and a clamp that cuts nothing off. An operation that leaves the
family returns None, and the tensor's values have to be kept instead.
"""

import math
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Constant:
    """Every element is `value`."""

    value: float
    kind = "constant"

    def affine(self, scale: float, shift: float) -> "Constant":
        return Constant(self.value * scale + shift)

    def clamp(self, low: float, high: float) -> "Constant":
        return Constant(min(max(self.value, low), high))

    def explains(self, values: torch.Tensor) -> bool:
        expected = torch.full((), self.value, dtype=values.dtype)
        return bool((values == expected).all())


@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high)."""

    low: float
    high: float
    kind = "uniform"

    def affine(self, scale: float, shift: float) -> "Uniform | None":
        if scale == 0:
            return None
        ends = (self.low * scale + shift, self.high * scale + shift)
        return Uniform(min(ends), max(ends))

    def clamp(self, low: float, high: float) -> "Uniform | None":
        return self if low <= self.low and self.high <= high else None

    def explains(self, values: torch.Tensor) -> bool:
        slack = 0.01 * max(abs(self.low), abs(self.high))
        return bool(((values >= self.low - slack)
                     & (values <= self.high + slack)).all())


@dataclass(frozen=True)
class Normal:
    """Normal with that mean and standard deviation."""

    mean: float
    std: float
    kind = "normal"

    def affine(self, scale: float, shift: float) -> "Normal":
        return Normal(self.mean * scale + shift, self.std * abs(scale))

    def clamp(self, low: float, high: float) -> None:
        return None

    def explains(self, values: torch.Tensor) -> bool:
        # Eight standard errors: a false alarm is as good as impossible, a
        # write that the recorder missed is not.
        n = values.numel()
        mean, std = values.mean().item(), values.std(correction=0).item()
        return (abs(mean - self.mean) <= 8 * self.std / math.sqrt(n)
                and std <= self.std * (1 + 8 / math.sqrt(n))
                and (n < 64 or std >= self.std * (1 - 8 / math.sqrt(2 * n))))


@dataclass(frozen=True)
class TruncatedNormal:
    """A normal conditioned on [low, high]."""

    mean: float
    std: float
    low: float
    high: float
    kind = "truncated_normal"

    def affine(self, scale: float, shift: float) -> "TruncatedNormal | None":
        if scale == 0:
            return None
        ends = (self.low * scale + shift, self.high * scale + shift)
        return TruncatedNormal(self.mean * scale + shift,
                               self.std * abs(scale), min(ends), max(ends))

    def clamp(self, low: float, high: float) -> "TruncatedNormal | None":
        # The textbook recipe transforms a uniform sample and clamps to the
        # bounds that it was made for, to remove what rounding added.
        slack = 1e-3 * self.std
        if low > self.low + slack or high < self.high - slack:
            return None
        return replace(self, low=max(low, self.low), high=min(high, self.high))

    def explains(self, values: torch.Tensor) -> bool:
        slack = 0.01 * max(abs(self.low), abs(self.high))
        inside = ((values >= self.low - slack) & (values <= self.high + slack))
        return bool(inside.all())


Distribution = Constant | Uniform | Normal | TruncatedNormal


def erfinv(sample: Distribution) -> TruncatedNormal | None:
    """erfinv of a uniform sample inside [-1, 1] is a truncated normal."""
    if not isinstance(sample, Uniform):
        return None
    if not -1 <= sample.low < sample.high <= 1:
        return None
    low, high = (torch.erfinv(torch.tensor(x, dtype=torch.float64)).item()
                 for x in (sample.low, sample.high))
    return TruncatedNormal(0.0, math.sqrt(0.5), low, high)
