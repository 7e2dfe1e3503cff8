#===- losssums.py - Losses as sums with their counts ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""`--loss sum/count`: the loss is a sum, and says over how many.

A step may return both. Where it returns a cross entropy with
`reduction="mean"`, as Hugging Face's models do, that is computed with "sum"
instead, and the count is what the mean divides by: the targets that are not
`ignore_index`, or their weights.
"""

import inspect
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .errors import ExportError
from .step import Step, dtype_name

OPTION = "--loss sum/count"
_MEANS = {f: inspect.signature(f)
          for f in (functional.cross_entropy, functional.nll_loss)}
_COUNTS = (torch.int32, torch.int64, torch.float32, torch.float64)


class SumByCount:
    """A loss function that returns the sum and keeps its count."""

    def __init__(self, loss: Callable[..., object]):
        self._loss = loss
        self._count: torch.Tensor | None = None

    def __call__(self, module: nn.Module, *inputs: torch.Tensor) -> object:
        with _MeansAsSums() as means:
            loss = self._loss(module, *inputs)
        if isinstance(loss, (tuple, list)):
            if len(loss) != 2 or means.made:
                raise ExportError(
                    f"{OPTION}: expected (sum, count), got "
                    + (f"{len(loss)} values" if len(loss) != 2 else
                       "a cross entropy with reduction='mean' in the step that "
                       "returns them; compute it with 'sum'"))
            loss, self._count = loss
        else:
            self._count = means.count_of(loss)
        _check_count(self._count)
        return loss

    def take_count(self) -> torch.Tensor:
        """The count of the last call, once."""
        count, self._count = self._count, None
        return count


def make_sum(step: Step) -> None:
    """Makes the step's loss a sum that has a count."""
    step.loss = step.counted = SumByCount(step.loss)


class _MeansAsSums(TorchFunctionMode):
    """Cross entropies with reduction='mean' become sums."""

    def __init__(self):
        super().__init__()
        # Each with its count.
        self.made: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in _MEANS:
            return func(*args, **kwargs)
        given = _MEANS[func].bind(*args, **kwargs)
        given.apply_defaults()
        target, weight = given.arguments["target"], given.arguments["weight"]
        is_mean = given.arguments["reduction"] == "mean" and (
            given.arguments["reduce"] is None
            and given.arguments["size_average"] is None)
        # Targets that are probabilities ignore none of them.
        if not is_mean or target.is_floating_point():
            return func(*args, **kwargs)
        given.arguments["reduction"] = "sum"
        loss = func(*given.args, **given.kwargs)
        counts = target != given.arguments["ignore_index"]
        if weight is not None:
            weights = weight.detach().float()[torch.where(counts, target, 0)]
            counts = torch.where(counts, weights, 0.0)
        self.made.append((loss, counts.sum()))
        return loss

    def count_of(self, loss: object) -> torch.Tensor:
        """The count of `loss`, which is the one cross entropy of the step."""
        if len(self.made) == 1 and loss is self.made[0][0]:
            return self.made[0][1]
        got = "a loss that is none of both"
        if len(self.made) > 1:
            got = f"a step with {len(self.made)} of these"
        elif self.made:
            got = "a loss that is computed of one"
        raise ExportError(
            f"{OPTION}: expected a step that returns (sum, count), or whose "
            "loss is a cross entropy with reduction='mean' of class indices, "
            f"the only one in it, got {got}")


def _check_count(count: object) -> None:
    if not isinstance(count, torch.Tensor):
        raise ExportError(f"{OPTION}: expected the count as a tensor, got "
                          f"{type(count).__name__}")
    if count.ndim or count.dtype not in _COUNTS:
        raise ExportError(
            f"{OPTION}: expected a count of rank 0 and type f32, f64, i32 or "
            f"i64, got a tensor of shape {list(count.shape)} and type "
            f"{dtype_name(count.dtype)}")
