#===- eager.py - The step in plain PyTorch -------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Runs the user's module itself, without tracing, and leaves no mark on it."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from .attention import attention_lowering
from .elementwise import NARROW
from .errors import ExportError
from .pythonstate import Snapshot
from .step import Step, buffers_of, parameters_of


@dataclass
class Batch:
    """What one step runs on; parameters not named keep the module's values."""

    inputs: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass
class Outcome:
    """What one step computes; parameters without a gradient are absent. Of a
    step that evaluates, `gradients` are the outputs by name."""

    loss: torch.Tensor
    # Of a loss that is a sum.
    count: torch.Tensor | None = None
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    # Whether floats narrower than f32 remained where none were wanted.
    narrow: bool = False


    def tensors(self) -> list[torch.Tensor]:
        return [self.loss, *self.gradients.values(), *self.buffers.values()]


def run_steps(step: Step, batches: Sequence[Batch],
              dtype: torch.dtype | None = None,
              disturb: bool = False) -> list[Outcome]:
    """One step for each batch, each on the buffers that the last one left.

    `dtype` computes in another float type, also what the step casts to narrow
    ones; `disturb` moves every other parameter to the next number up.
    """
    try:
        outcomes = _run_steps(step, batches, dtype, disturb)
    except Exception as error:
        if "fake" in str(error).lower():
            raise _left_behind() from error
        raise
    if any(isinstance(t, FakeTensor) for o in outcomes for t in o.tensors()):
        raise _left_behind()
    return outcomes


def _left_behind() -> ExportError:
    return ExportError(
        "expected PyTorch's own step to compute with values, got a tensor that "
        "was stored while tracing, which has none: the step keeps one outside "
        "of the module (in a global, a class attribute, functools.lru_cache) "
        "and reads it in the next step; compute it in the step, or register it "
        "with register_buffer and write into it")


def _run_steps(step: Step, batches, dtype, disturb) -> list[Outcome]:
    outcomes = []
    parameters, buffers = parameters_of(step.module), buffers_of(step.module)
    own = {h.fqn: h.tensor.data for h in parameters}
    with restored(step), attention_lowering(), torch.random.fork_rng(
            devices=[]):
        for h in buffers if dtype is not None else ():
            h.tensor.data = converted(h.tensor.data, dtype)
        for batch in batches:
            for h in parameters:
                h.tensor.grad = None
                value = batch.parameters.get(h.fqn, own[h.fqn])
                value = converted(value, dtype) if dtype else value
                h.tensor.data = disturbed(value) if (
                    disturb and value.is_floating_point()) else value
            inputs = [converted(x, dtype) for x in batch.inputs.values()]
            with (Widened(dtype) if dtype else contextlib.nullcontext() as mode,
                  torch.set_grad_enabled(not step.evaluates)):
                loss = step.loss(step.module, *inputs)
                count = step.take_count()
                if not step.evaluates:
                    step.differentiate(loss)
            outcomes.append(Outcome(
                loss.detach().clone(),
                None if count is None else count.detach().clone(),
                {n: t.detach().clone() for n, t in step.loss.take().items()}
                if step.evaluates else
                {h.fqn: h.tensor.grad.detach() for h in parameters
                 if h.tensor.grad is not None},
                {h.fqn: h.tensor.detach().clone()
                 for h in buffers_of(step.module)},
                bool(mode and mode.narrow)))
    return outcomes


def fill_caches(step: Step) -> None:
    """Runs the step once, so that caches outside of it hold tensors with
    values: what is first computed while tracing has none.

    Caches in the step itself are put back; recording says what they hold.
    """
    try:
        _run_steps(step, [Batch(step.inputs)], None, False)
    except Exception:
        pass  # Tracing says better why it does not run.


class WatchNarrow(TorchDispatchMode):
    """Sees whether an operation makes narrow floats."""

    narrow = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.narrow |= any(isinstance(x, torch.Tensor) and x.dtype in NARROW
                           for x in tree_leaves(result))
        return result


class Widened(WatchNarrow):
    """Computes in `dtype` what a step computes in narrow floats: what it casts
    to them, itself or under autocast, and what it makes of them."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self._dtype = dtype

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # What is written to has to be the tensor itself.
        kinds = (torch.dtype,) if func._schema.is_mutable else (
            torch.dtype, torch.Tensor)
        args, kwargs = tree_map_only(kinds, self._wide, (args, kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _wide(self, x: torch.Tensor | torch.dtype):
        if isinstance(x, torch.dtype):
            return self._dtype if x in NARROW else x
        return x.to(self._dtype) if x.dtype in NARROW else x


def disturbed(values: torch.Tensor) -> torch.Tensor:
    """A copy in which every other element is the next number up."""
    values = values.clone(memory_format=torch.contiguous_format)
    line = values.view(-1)[::2]
    line.copy_(torch.nextafter(line, torch.full_like(line, math.inf)))
    return values


def converted(x: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """A copy, in another float type if it holds floats."""
    return x.to(dtype, copy=True) if dtype and x.is_floating_point() else (
        x.clone())


@contextlib.contextmanager
def restored(step: Step) -> Iterator[None]:
    """Puts back values, gradients and Python state, whatever happens."""
    state = Snapshot(step)
    held = [h.tensor for h in parameters_of(step.module)]
    kept = [(t, t.data, t.grad, t.requires_grad) for t in held]
    # A step may write to its buffers in place; they get copies to write to.
    buffers = [h.tensor for h in buffers_of(step.module)]
    values = [(b, b.data) for b in buffers]
    for b in buffers:
        b.data = b.data.clone()
    try:
        # Compiling what runs once or twice would take the most time.
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        state.restore()
        for tensor, data, gradient, differentiated in kept:
            tensor.data, tensor.grad = data, gradient
            tensor.requires_grad_(differentiated)
        for buffer, data in values:
            if buffer.requires_grad:
                buffer.detach_()  # From the step's graph.
            buffer.data = data
