#===- semantics_beside.py - What stands beside the module ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Steps with caches and criteria outside of the module, and with parameters
that are more than their values."""

import functools

import torch
from semantics import two, weigh
from torch import nn
from torch.nn import functional

_TABLES = {}


@functools.cache
def _ramp(n):
    return torch.linspace(0, 1, n)


def cached_outside():
    """In a global and by functools: made before the step is recorded."""
    def forward(m, x):
        n = x.shape[0]
        if n not in _TABLES:
            _TABLES[n] = torch.tril(torch.ones(n, n))
        return weigh(_TABLES[n] @ m.a(x) * _ramp(3))
    _TABLES.clear()
    _ramp.cache_clear()
    return two(forward)()


class Scaled(nn.Parameter):
    """A class of parameters that the step asks for."""
    factor = 3


def marked():
    """Attributes and classes of parameters."""
    def forward(m, x):
        y = functional.linear(x, m.a.weight * m.a.weight.scale)
        if isinstance(m.w, Scaled):
            y = y * m.w * m.w.factor
        return weigh(y * getattr(m.a.bias, "scale", 0.5))
    module, inputs = two(forward)()
    module.a.weight.scale, module.a.bias.scale = 2.0, 1.5
    module.w = Scaled(torch.randn(3))
    return module, inputs


class Criterion(nn.Module):
    """A loss that is a module, with a teacher that is not trained."""

    def __init__(self):
        super().__init__()
        self.teacher = nn.Linear(4, 3)
        self.register_buffer("scale", torch.rand(3))

    def forward(self, model, x):
        with torch.no_grad():
            y = self.teacher(x)
        return weigh((model(x) - y) * self.scale)


def criterion():
    return nn.Linear(4, 3), (torch.randn(5, 4),), Criterion()


BESIDE = {"cached_outside": cached_outside, "marked": marked,
          "criterion": criterion}
