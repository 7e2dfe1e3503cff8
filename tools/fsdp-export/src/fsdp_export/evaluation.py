#===- evaluation.py - The step's forward pass in eval mode ---------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""A step that evaluates: the loss and what the module returned, no gradients.

Normalisation uses its running statistics, nothing is dropped, and nothing may
change: training goes on as if it had not been.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import torch
from torch import nn

from . import reference
from .errors import ExportError
from .joint import Joint
from .step import Step

# The function of the module, and the program of the executable.
NAME = "evaluate"


@contextlib.contextmanager
def evaluating(step: Step, inputs: dict[str, torch.Tensor]) -> Iterator[Step]:
    """The step with `inputs` as one that evaluates; its module is in eval mode
    meanwhile."""
    modes = [(child, child.training) for child in step.module.modules()]
    step.module.eval()
    try:
        yield dataclasses.replace(step, inputs=inputs, evaluates=True,
                                  loss=WithOutputs(step.loss))
    finally:
        for child, training in modes:
            child.training = training


class WithOutputs:
    """A loss function that also keeps what the module returned."""

    def __init__(self, loss: Callable[..., torch.Tensor]):
        self._loss = loss
        self._outputs: dict[str, torch.Tensor] = {}

    def __call__(self, module: nn.Module, *inputs: torch.Tensor) -> object:
        returned = []
        hook = module.register_forward_hook(
            lambda _, args, output: returned.append(output))
        try:
            loss = self._loss(module, *inputs)
        finally:
            hook.remove()
        outputs = _tensors(returned[-1]) if returned else {}
        self._outputs = {n: t for n, t in outputs.items() if t is not loss}
        return loss

    def take(self) -> dict[str, torch.Tensor]:
        """The outputs of the last call by name, once."""
        outputs, self._outputs = self._outputs, {}
        return outputs


def _tensors(output: object) -> dict[str, torch.Tensor]:
    """The tensors that a module returned: itself, the fields of a dictionary or
    of a data class but for the loss, or the entries of a tuple."""
    if isinstance(output, torch.Tensor):
        return {"output": output}
    if isinstance(output, (tuple, list)):
        found = {f"output{i}": t for i, t in enumerate(output)}
    elif isinstance(output, dict):
        found = dict(output)
    elif dataclasses.is_dataclass(output):
        found = dict(vars(output))
    else:
        found = {}
    return {str(n): t for n, t in found.items()
            if isinstance(t, torch.Tensor) and n != "loss"}


def refuse_changes(joint: Joint) -> None:
    """An evaluation that writes to a buffer would change the training."""
    if joint.updates:
        raise ExportError(
            "--eval: expected a module that leaves its buffers alone in eval "
            f"mode, got one that writes to {joint.updates[0]}; write to it "
            "only where self.training is true")


# Evaluations of PyTorch's that are kept for comparison.
BATCHES = 2


def measure(step: Step, joint: Joint, seed: int) -> dict[str, torch.Tensor]:
    """Batches of a step that evaluates, and what it makes of each: inputs as
    input.NAME, results as output.NAME, all as [batch, rank, ..]."""
    batches = reference.make_batches(step, joint.bounds, BATCHES, seed)
    kept = {f"input.{n}": b for n, b in batches.items()}
    found: dict[str, list[torch.Tensor]] = {}
    ranks = max(reference.WORLDS)
    with torch.no_grad():
        for i in range(BATCHES * ranks):
            inputs = [b[i // ranks, i % ranks].clone()
                      for b in batches.values()]
            loss = step.loss(step.module, *inputs)
            for name, value in {"loss": loss, **step.loss.take()}.items():
                found.setdefault(name, []).append(value.clone())
    kept |= {f"output.{n}": torch.stack(v).unflatten(0, (BATCHES, ranks))
             for n, v in found.items()}
    return kept
