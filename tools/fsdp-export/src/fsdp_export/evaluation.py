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
        # Names and types of what the last call returned that is no tensor.
        self.left_out: dict[str, str] = {}

    def __call__(self, module: nn.Module, *inputs: torch.Tensor) -> object:
        returned = []
        hook = module.register_forward_hook(
            lambda _, args, output: returned.append(output))
        try:
            loss = self._loss(module, *inputs)
        finally:
            hook.remove()
        leaves = list(_leaves(returned[-1])) if returned else []
        outputs = dict(leaves)
        if len(outputs) != len(leaves):
            names = [n for n, _ in leaves]
            twice = next(n for n in names if names.count(n) > 1)
            raise ExportError("--eval: expected outputs of distinct names, got "
                              f"{twice} twice")
        self._outputs = {n: t for n, t in outputs.items()
                         if isinstance(t, torch.Tensor) and t is not loss}
        self.left_out = {n: type(t).__name__ for n, t in outputs.items()
                         if not isinstance(t, torch.Tensor)}
        return loss

    def take(self) -> dict[str, torch.Tensor]:
        """The outputs of the last call by name, once."""
        outputs, self._outputs = self._outputs, {}
        return outputs


def _leaves(output: object, name: str = "") -> Iterator[tuple[str, object]]:
    """What a module returned, by name: itself, or what is in the entries of
    tuples, dictionaries and data classes, but for None and the loss. An entry
    of an entry has both names, with a dot between them."""
    numbered = False
    if isinstance(output, tuple) and hasattr(output, "_asdict"):
        entries = output._asdict()
    elif isinstance(output, (tuple, list)):
        entries, numbered = dict(enumerate(output)), True
    elif isinstance(output, dict):
        entries = output
    elif dataclasses.is_dataclass(output) and not isinstance(output, type):
        entries = vars(output)
    else:
        if output is not None and name != "loss":
            yield name or "output", output
        return
    start = f"{name}." if name else "output" if numbered else ""
    for key, value in entries.items():
        yield from _leaves(value, f"{start}{key}")


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
            counted = {"loss_count": step.take_count()} if step.counted else {}
            for name, value in {"loss": loss, **counted,
                                **step.loss.take()}.items():
                found.setdefault(name, []).append(value.clone())
    kept |= {f"output.{n}": torch.stack(v).unflatten(0, (BATCHES, ranks))
             for n, v in found.items()}
    return kept
