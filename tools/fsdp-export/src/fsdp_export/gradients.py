#===- gradients.py - PyTorch's own gradients, and how far they are off ---===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The gradient of each parameter, for a compiled step to be compared with.

A loss or a norm over all parameters hides a wrong gradient of a small one.
Here each parameter has its exact gradient (computed in float64) and its own
tolerance: a multiple of the distance between the exact gradient and PyTorch's
in the model's own types.
"""

import math

import torch

from . import draws
from .bounds import Bounds
from .eager import WatchNarrow, converted, disturbed, restored
from .step import Step, buffers_of, parameters_of

# Ranks whose gradients are averaged, each with its own part of the batch.
RANKS = 2
# A tolerance is this many times PyTorch's distance: of f32, where few roundings
# measure the noise badly, and of narrower floats.
MARGIN = 20
NARROW_MARGIN = 4
# Below these, a distance says nothing: one rounding of a stored number, with
# room for a few.
FLOOR = 2e-5
NARROW_FLOOR = 2.0 ** -7


def is_narrow(step: Step) -> bool:
    """Whether the step computes in floats of fewer than 32 bits anywhere."""
    with restored(step), WatchNarrow() as watch:
        step.loss(step.module, *(x.clone() for x in step.inputs.values()))
    return watch.narrow


def measure_gradients(step: Step, batches: dict[str, torch.Tensor]
                      ) -> tuple[dict[str, torch.Tensor], dict]:
    """Gradients of the first step's batch, averaged over RANKS ranks, by name;
    and what expect.json says of them.

    A tolerance is relative, in the norm of the parameter's gradient. One of
    zero has none: a gradient that is exactly zero. Of a model that cannot be
    computed in float64, the gradients in its own types stand for the exact
    ones, and the distance is what other last bits of the parameters make.
    """
    own = _gradients(step, batches, None)
    try:
        exact = _gradients(step, batches, torch.float64)
    except (RuntimeError, TypeError, ValueError):
        # Models that fix a type inside cannot be widened.
        exact, own = own, _gradients(step, batches, None, disturb=True)
    margin, floor = (NARROW_MARGIN, NARROW_FLOOR) if is_narrow(step) else (
        MARGIN, FLOOR)
    tolerance = {}
    for name, gradient in exact.items():
        norm = gradient.norm().item()
        distance = (own[name] - gradient).norm().item()
        tolerance[name] = max(floor, margin * distance / norm) if norm else 0.0
        if not math.isfinite(tolerance[name]):
            del tolerance[name]
    return ({n: g.float().contiguous() for n, g in exact.items()
             if n in tolerance},
            {"ranks": RANKS, "rtol": tolerance})


def skew(batches: dict[str, torch.Tensor],
         bounds: dict[str, Bounds]) -> dict[str, torch.Tensor]:
    """Integers with the lowest most frequent, as words are: the share of an
    input's range below which they lie is raised to the third power."""
    skewed = {}
    for name, values in batches.items():
        low, high = bounds.get(name, Bounds()).draw or (0, 0)
        if values.dtype.is_floating_point or high - low <= 2:
            skewed[name] = values
            continue
        share = (values.double() - low) / (high - low)
        skewed[name] = low + ((high - low) * share ** 3).to(values.dtype)
    return skewed


def _gradients(step: Step, batches: dict[str, torch.Tensor],
               dtype: torch.dtype | None,
               disturb: bool = False) -> dict[str, torch.Tensor]:
    """In float64, computed in `dtype` if given."""
    batches = {n: converted(b, dtype) for n, b in batches.items()}
    total = {}
    # The step runs on the module itself: hooks and closures know no copy.
    with restored(step):
        parameters = parameters_of(step.module)
        for held in (*parameters, *buffers_of(step.module)):
            held.tensor.data = converted(held.tensor.data, dtype)
        for held in parameters:
            if disturb and held.tensor.is_floating_point():
                held.tensor.data = disturbed(held.tensor.data)
        start = [h.tensor.clone() for h in buffers_of(step.module)]
        counts = 0
        for rank in range(RANKS):
            with torch.no_grad():
                for held, value in zip(buffers_of(step.module), start):
                    held.tensor.copy_(value)
            for held in parameters:
                held.tensor.grad = None
            with draws.at(0, rank):
                loss = step.loss(step.module, *(
                    b[0, rank].clone() for b in batches.values()))
                count = step.take_count()
                counts += 1 if count is None else count.item()
                step.differentiate(loss)
            for held in parameters:
                if held.tensor.grad is not None:
                    part = held.tensor.grad.double()
                    total[held.fqn] = total.get(held.fqn, 0) + part
    return {name: gradient / counts for name, gradient in total.items()}
