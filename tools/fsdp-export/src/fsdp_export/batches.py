#===- batches.py - Another batch than the example ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Draws inputs that a step should take as it takes the example."""

import torch

from .bounds import Bounds

# Draws before lines count as having no others: few values are the example's
# again by chance.
TRIES = 8


def other_batch(inputs: dict[str, torch.Tensor], bounds: dict[str, Bounds],
                seed: int) -> dict[str, torch.Tensor]:
    """Inputs of the example's shapes with other values.

    Integers with a range to draw from are drawn from it. Lines that ascend (the
    ends of documents, boundaries) ascend again, between their own ends. Of
    everything else the example's values are put in another order, since only
    those are known to be allowed; floats that are all equal are drawn from a
    normal distribution.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    batch = {}
    for name, example in inputs.items():
        dims = ascending(example)
        if name in bounds and bounds[name].draw:
            value = torch.randint(*bounds[name].draw, example.shape,
                                  generator=generator).to(example.dtype)
            value = sort(value, dims)
        elif example.numel() < 2:
            value = example.clone()
        elif (value := _between_ends(example, dims, generator)) is not None:
            pass
        elif example.is_floating_point() and bool(
                (example == example.flatten()[0]).all()):
            value = torch.randn(example.shape, generator=generator).to(
                example.dtype)
        else:
            order = torch.randperm(example.numel(), generator=generator)
            value = example.flatten()[order].reshape(example.shape)
        batch[name] = value
    return batch


def ascending(example: torch.Tensor) -> list[int]:
    """The dimensions along which no value is less than the one before, and some
    are greater."""
    if example.dtype == torch.bool or example.is_complex():
        return []
    found = []
    for dim in range(example.dim()):
        steps = _lines(example, dim).diff()
        if steps.numel() and bool((steps >= 0).all() & (steps > 0).any()):
            found.append(dim)
    return found


def sort(value: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """The values, ascending along each of these dimensions: sorting along one
    keeps the order along another."""
    for dim in dims:
        value = value.sort(dim).values
    return value


def _between_ends(example: torch.Tensor, dims: list[int],
                  generator: torch.Generator) -> torch.Tensor | None:
    """Other values that ascend along `dims`: along one of them, each line
    begins and ends as the example's, and ascends strictly where all of the
    example's do. None where there are no others."""
    for dim in TRIES * dims[::-1]:
        value = sort(_drawn_lines(example, dim, generator), dims)
        if not torch.equal(value, example):
            return value
    return None


def _drawn_lines(example: torch.Tensor, dim: int,
                 generator: torch.Generator) -> torch.Tensor:
    lines = _lines(example, dim)
    first, last = lines[..., :1], lines[..., -1:]
    inner = lines.shape[-1] - 2
    share = torch.rand(*lines.shape[:-1], max(inner, 0), generator=generator,
                       dtype=torch.float64).sort(-1).values
    strict = bool((lines.diff() > 0).all())
    if example.is_floating_point():
        drawn = (first + (last - first) * share).to(example.dtype)
    else:
        # Of `room` values, any of which may follow itself: a strict line is
        # one of those with its place added.
        place = torch.arange(1, inner + 1) if strict else 0
        room = last - first + 1 - (inner + 1 if strict else 0)
        drawn = first + place + (share * room).long().to(example.dtype)
    lines = torch.cat([first, drawn, last], -1)
    return lines.to(example.dtype).movedim(-1, dim).contiguous()


def _lines(example: torch.Tensor, dim: int) -> torch.Tensor:
    """The example as lines along `dim`, in a type that holds differences."""
    wide = example.long() if not example.is_floating_point() else example
    return wide.movedim(dim, -1)
