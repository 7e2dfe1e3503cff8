#===- reference.py - PyTorch's own losses --------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Trains the model in PyTorch, so that a compiled step can be compared.

Rank r reads batch [step, r]; gradients and losses are averaged over the ranks,
or, where the loss is a sum, divided by what those of all ranks are sums over;
each rank keeps its own buffers, as data parallel training without broadcast
does.
"""

import math

import torch

from . import draws
from .batches import ascending, sort
from .bounds import Bounds
from .eager import converted, disturbed, restored
from .errors import ExportError
from .gradients import MARGIN, NARROW_MARGIN, is_narrow
from .optimizers import Optimizer
from .step import Step, buffers_of, parameters_of

WORLDS = (1, 2, 4)

# A tolerance is this many times what rounding does to PyTorch itself, and
# never below the floor: few steps measure the noise badly. In narrow floats
# PyTorch's distance is no noise: it is what they cost.
FLOORS = {"loss": 1e-5, "grad_norm": 2e-4}

# Token sequences count up by a stride modulo at most this prime, so that a
# model can learn to continue them.
CYCLE = 61


def make_batches(step: Step, bounds: dict[str, Bounds], steps: int,
                 seed: int) -> dict[str, torch.Tensor]:
    """Every input as [steps, ranks, local shape]."""
    generator = torch.Generator().manual_seed(seed)
    ranges = {name: b.draw for name, b in bounds.items() if b.draw}
    batches = {}
    for name, example in step.inputs.items():
        shape = (steps, max(WORLDS), *example.shape)
        if name in step.copies and step.copies[name] in batches:
            batches[name] = batches[step.copies[name]].clone()
        elif example.dtype.is_floating_point:
            batches[name] = torch.randn(
                shape, generator=generator).to(example.dtype)
        elif name not in ranges:
            # Nothing says what these integers mean: repeat the example.
            batches[name] = example.expand(shape).clone()
        elif example.ndim < 2 or ranges[name][1] - ranges[name][0] <= 2:
            batches[name] = torch.randint(
                *ranges[name], shape, generator=generator).to(example.dtype)
        else:
            batches[name] = _sequences(shape, *ranges[name],
                                       generator).to(example.dtype)
        if name not in step.copies:
            batches[name] = sort(batches[name],
                                 [2 + dim for dim in ascending(example)])
    return batches


def measure(step: Step, optimizer: Optimizer,
            batches: dict[str, torch.Tensor]) -> dict:
    """What expect.json holds: losses, gradient norms and tolerances."""
    expect = {"hyper": optimizer.describe(), "loss": {}, "grad_norm": {},
              "rtol": {}, "torch": torch.__version__}
    margin = NARROW_MARGIN if is_narrow(step) else MARGIN
    for world in WORLDS:
        narrow = _train(step, optimizer, batches, world, None)
        wide = _train_otherwise(step, optimizer, batches, world)
        expect["rtol"][str(world)] = {}
        for key in ("loss", "grad_norm"):
            if not all(map(math.isfinite, narrow[key])):
                raise ExportError(f"expected finite numbers, got a {key} that "
                                  "is not; lower the learning rate")
            expect[key][str(world)] = narrow[key]
            noise = max(abs(a - b) / max(abs(b), 1e-12)
                        for a, b in zip(narrow[key], wide[key]))
            expect["rtol"][str(world)][key] = max(FLOORS[key], margin * noise)
    return expect


def _train_otherwise(step: Step, optimizer: Optimizer,
                     batches: dict[str, torch.Tensor],
                     world: int) -> dict[str, list[float]]:
    """What differs from _train by rounding: f64, or else other last bits."""
    try:
        return _train(step, optimizer, batches, world, torch.float64)
    except (RuntimeError, TypeError, ValueError):
        # Models that fix a type inside cannot be widened.
        return _train(step, optimizer, batches, world, None, disturb=True)


def _train(step: Step, optimizer: Optimizer, batches: dict[str, torch.Tensor],
           world: int, dtype: torch.dtype | None,
           disturb: bool = False) -> dict[str, list[float]]:
    """Losses and norms of `world` ranks, computed in `dtype` if given."""
    with restored(step):
        # The step runs on the module itself: hooks and closures know no copy.
        for held in (*parameters_of(step.module), *buffers_of(step.module)):
            held.tensor.data = converted(held.tensor.data, dtype)
        for held in parameters_of(step.module):
            held.tensor.grad = None
            if disturb and held.tensor.is_floating_point():
                held.tensor.data = disturbed(held.tensor.data)
        batches = {n: converted(b, dtype) for n, b in batches.items()}
        return _train_here(step, optimizer, batches, world)


def _add(total: torch.Tensor | None,
         more: torch.Tensor | None) -> torch.Tensor | None:
    """The sum of those that exist; writes it to `total`."""
    if total is None or more is None:
        return more if total is None else total
    return total.add_(more)


def _train_here(step: Step, optimizer: Optimizer,
                batches: dict[str, torch.Tensor],
                world: int) -> dict[str, list[float]]:
    """Trains the module's own parameters."""
    parameters = [h.tensor for h in parameters_of(step.module)
                  if h.tensor.requires_grad]
    states = [[h.tensor.clone() for h in buffers_of(step.module)]
              for _ in range(world)]
    update = optimizer.make(parameters)
    history = {"loss": [], "grad_norm": []}
    for i in range(len(next(iter(batches.values())))):
        losses, counts, sums = [], [], [None] * len(parameters)
        for rank, state in enumerate(states):
            # A rank's hooks see its own gradient, not the sum over ranks.
            update.zero_grad(set_to_none=True)
            # A step may assign its buffers: they are others each time.
            _copy(state, [h.tensor for h in buffers_of(step.module)])
            with draws.at(i, rank):
                loss = step.loss(step.module, *(b[i, rank].clone()
                                                for b in batches.values()))
                count = step.take_count()
                step.differentiate(loss)
            _copy([h.tensor for h in buffers_of(step.module)], state)
            losses.append(loss.item())
            counts.append(1 if count is None else count.item())
            sums = [_add(total, p.grad) for total, p in zip(sums, parameters)]
        for parameter, total in zip(parameters, sums):
            parameter.grad = None if total is None else total.div_(sum(counts))
        gradients = [total for total in sums if total is not None]
        history["loss"].append(sum(losses) / sum(counts))
        history["grad_norm"].append(math.sqrt(sum(
            g.double().square().sum().item() for g in gradients)))
        update.step()
    return history


def _copy(source: list[torch.Tensor], target: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for a, b in zip(source, target):
            b.copy_(a)


def _sequences(shape: tuple[int, ...], low: int, high: int,
               generator: torch.Generator) -> torch.Tensor:
    cycle = min(high - low, CYCLE)
    rows = (*shape[:-1], 1)
    start = torch.randint(0, cycle, rows, generator=generator)
    stride = torch.randint(1, 4, rows, generator=generator)
    return low + (start + stride * torch.arange(shape[-1])) % cycle
