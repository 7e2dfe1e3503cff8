#===- dropout.py - Dropout that functions are called with ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Sets the probability of functional dropout to 0.

What modules and their configurations hold is set to 0 before anything runs
(step.remove_dropout). A probability that the model's code passes to a function
is replaced here, wherever the step runs: while it is traced, and where PyTorch
computes what the export is compared with. Backward runs code of the model's,
too: a checkpointed block is computed again there, and hooks are called.
"""

import functools
import inspect
from collections.abc import Callable
from unittest import mock

import torch
from torch.autograd.graph import _engine_run_backward
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .places import user_line
from .step import Step

_PYTHON = [functional.dropout, functional.alpha_dropout, functional.dropout1d,
           functional.dropout2d, functional.dropout3d,
           functional.feature_alpha_dropout,
           functional.multi_head_attention_forward]
# Built-in functions have no signature: where the probability stands.
_BUILT_IN = {function: ("p", 1) for function in (
    torch.dropout, torch.dropout_, torch.alpha_dropout, torch.alpha_dropout_,
    torch.feature_dropout, torch.feature_dropout_, torch.feature_alpha_dropout,
    torch.feature_alpha_dropout_, torch.native_dropout)}
_BUILT_IN[functional.scaled_dot_product_attention] = ("dropout_p", 4)


def _argument(function: Callable) -> tuple[str, int]:
    names = list(inspect.signature(function).parameters)
    name = "dropout_p" if "dropout_p" in names else "p"
    return name, names.index(name)


_PROBABILITY = {**{f: _argument(f) for f in _PYTHON}, **_BUILT_IN}
# Drop something even where they are called without a probability.
_DEFAULTS = {functional.dropout, functional.alpha_dropout,
             functional.dropout1d, functional.dropout2d, functional.dropout3d}
_DIFFERENTIATING = {torch.Tensor.backward, torch.autograd.backward,
                    torch.autograd.grad}


class NoDropout(TorchFunctionMode):
    """Calls dropout with probability 0; `places` are where it was called."""

    def __init__(self):
        super().__init__()
        self.places: set[tuple] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in _DIFFERENTIATING:
            # A function that a mode calls runs without it.
            with mock.patch.object(torch.autograd, "_engine_run_backward",
                                   self._backward):
                return func(*args, **kwargs)
        found = _PROBABILITY.get(func)
        if found is not None:
            args = self._without(func, *found, list(args), kwargs)
        return func(*args, **kwargs)

    def _backward(self, *args, **kwargs):
        with self:
            return _engine_run_backward(*args, **kwargs)

    def _without(self, func, name: str, at: int, args: list,
                 kwargs: dict) -> list:
        given = args[at] if len(args) > at else kwargs.get(
            name, 0.5 if func in _DEFAULTS else 0.0)
        is_active = kwargs.get("training", kwargs.get("train", True))
        if given and is_active is not False:
            self.places.add((getattr(func, "__name__", str(func)), user_line()))
        if len(args) > at:
            args[at] = 0.0
        elif given:
            kwargs[name] = 0.0
        return args


def silence_functions(step: Step) -> NoDropout:
    """Runs the step without functional dropout; says where there was some."""
    mode, loss = NoDropout(), step.loss

    @functools.wraps(loss)
    def run(*args, **kwargs):
        with mode:
            return loss(*args, **kwargs)

    step.loss, step.around_backward = run, mode
    return mode
