#===- pooling.py - Pools whose windows differ ----------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Pools, and bags of embeddings, as sums that have gradients.

These replace operations before they are differentiated. NotImplemented leaves
an operation to PyTorch: its gradient has a lowering then.
"""

import math

import torch

aten = torch.ops.aten


def avg_pool1d(x, kernel, stride=(), padding=(0,), ceil_mode=False,
               count_include_pad=True):
    return _avg_pool(x, 1, kernel, stride, padding, ceil_mode,
                     count_include_pad, None)


def avg_pool2d(x, kernel, stride=(), padding=(0,), ceil_mode=False,
               count_include_pad=True, divisor_override=None):
    return _avg_pool(x, 2, kernel, stride, padding, ceil_mode,
                     count_include_pad, divisor_override)


def avg_pool3d(x, kernel, stride=(), padding=(0,), ceil_mode=False,
               count_include_pad=True, divisor_override=None):
    return _avg_pool(x, 3, kernel, stride, padding, ceil_mode,
                     count_include_pad, divisor_override)


def _avg_pool(x, rank, kernel, stride, padding, ceil_mode, count_include_pad,
              divisor):
    """A convolution with ones, divided by the number of elements."""
    kernel, stride, padding = (
        list(v) * (rank if len(v) == 1 else 1)
        for v in (kernel, stride or kernel, padding))
    same = not ceil_mode and (count_include_pad or not any(padding))
    if same and rank < 3:
        return NotImplemented
    sizes = x.shape[-rank:]
    outs = [_out_size(*v, ceil_mode)
            for v in zip(sizes, kernel, stride, padding)]
    # A single window may be much larger than the input: only what is inside.
    inside = [(k, s, p) if out > 1 else (min(k - p, n), 1, 0)
              for n, out, k, s, p in zip(sizes, outs, kernel, stride, padding)]
    pads = []
    for n, out, (k, s, p) in reversed(list(zip(sizes, outs, inside))):
        pads += [p, (out - 1) * s + k - n - p]
    line = aten.constant_pad_nd(x.reshape(-1, 1, *sizes), pads)
    ones = line.new_ones(1, 1, *(k for k, _, _ in inside))
    total = aten.convolution(line, ones, None, [s for _, s, _ in inside],
                             [0] * rank, [1] * rank, False, [0] * rank, 1)
    total = total.reshape(*x.shape[:-rank], *outs)
    if divisor is None and same:
        divisor = math.prod(kernel)
    if divisor is not None:
        return total / divisor
    for dim, (n, out, k, s, p) in enumerate(zip(sizes, outs, kernel, stride,
                                                padding)):
        start = torch.arange(out, device=x.device) * s - p
        end = (start + k).clamp(max=n + p)
        if not count_include_pad:
            start, end = start.clamp(min=0), end.clamp(max=n)
        count = (end - start).to(x.dtype)
        total = total / count.view(-1, *[1] * (rank - 1 - dim))
    return total


def _out_size(n, k, s, p, ceil_mode):
    """Windows that begin in the input or in front of it."""
    space = n + 2 * p - k
    if not ceil_mode:
        return space // s + 1
    out = -(-space // s) + 1
    return out - 1 if (out - 1) * s >= n + p else out


def adaptive_avg_pool(x, outs):
    """Per dimension, the mean of what lies in each window. (A product with a
    matrix of zeros would spread what is not finite over all windows.)"""
    sizes = x.shape[-len(outs):]
    if len(outs) < 3 and not any(n % out for n, out in zip(sizes, outs)):
        return NotImplemented
    for dim, (n, out) in enumerate(zip(sizes, outs), x.dim() - len(outs)):
        i, at = (torch.arange(v, device=x.device) for v in (out, n))
        start, end = i * n // out, ((i + 1) * n + out - 1) // out
        inside = (at >= start.unsqueeze(1)) & (at < end.unsqueeze(1))
        # Added up and divided in f32 at least, as PyTorch does.
        wide = torch.promote_types(x.dtype, torch.float32)
        zero = torch.zeros((), dtype=wide, device=x.device)
        rows = x.to(wide).movedim(dim, -1).unsqueeze(-2)
        total = torch.where(inside, rows, zero).sum(-1)
        mean = total / (end - start).to(wide)
        x = mean.movedim(-1, dim).to(x.dtype)
    return x


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0,
                  sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """Adds each row to its bag: the last one that begins at it or before."""
    if mode == 2 or scale_grad_by_freq:
        return NotImplemented
    if include_last_offset:
        offsets = offsets[:-1]
    at = torch.arange(indices.numel(), device=indices.device)
    bag = (at.unsqueeze(1) >= offsets).sum(1) - 1
    rows = aten.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    counted = torch.ones_like(indices, dtype=weight.dtype)
    if padding_idx is not None:
        kept = indices != padding_idx % weight.shape[0]
        rows = torch.where(kept.unsqueeze(1), rows, torch.zeros(
            (), dtype=rows.dtype, device=rows.device))
        counted = kept.to(weight.dtype)
    total = rows.new_zeros(offsets.numel(), rows.shape[1]).index_add(
        0, bag, rows)
    count = counted.new_zeros(offsets.numel()).index_add(0, bag, counted)
    if mode == 1:
        total = total / count.clamp(min=1).unsqueeze(1)
    # What only PyTorch's own gradient would read.
    unused = torch.zeros_like(offsets)
    return total, torch.zeros_like(indices), unused, unused
