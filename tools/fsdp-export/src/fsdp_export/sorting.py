#===- sorting.py - Sorting by counting -----------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Sorts as comparisons and sums, which fuse, of all pairs of elements.

An element's place is the number of elements that come before it. That suits a
router's choice among experts, or a sort of some hundreds; longer dimensions
are left to be refused.
"""

import torch

# 16 million comparisons per row.
MAX_ELEMENTS = 4096


def sort(x, dim=-1, descending=False):
    """aten.sort, which keeps the order of equal elements here."""
    return _sort(x, dim, descending, None)


def stable_sort(x, *, stable=None, dim=-1, descending=False):
    return _sort(x, dim, descending, None)


def topk(x, k, dim=-1, largest=True, sorted=True):
    return _sort(x, dim, largest, k)


def kthvalue(x, k, dim=-1, keepdim=False):
    return _select(x, k - 1, dim, keepdim)


def median(x, dim=-1, keepdim=False):
    """The lower one of two, or the first nan, as in PyTorch."""
    middle = (x.shape[dim] - 1) // 2 if x.dim() else 0
    if not x.dim() or not x.is_floating_point():
        return _select(x, middle, dim, keepdim)
    n = x.shape[dim]
    if n > MAX_ELEMENTS:
        return NotImplemented
    rows = x.movedim(dim, -1)
    # nan comes last, the first of them first.
    numbers = n - torch.isnan(rows).to(torch.int64).sum(-1, keepdim=True)
    kept = torch.where(numbers < n, numbers, middle)
    return tuple((v.movedim(-1, dim) if keepdim else v.squeeze(-1)).clone()
                 for v in _take(rows, _places(rows, False), kept))


def histc(x, bins=100, min=0, max=0):
    """Elements per bin; bounds that come from the values are refused."""
    if min >= max:
        return NotImplemented
    x = x.reshape(-1, 1)
    bin = ((x - min) * (bins / (max - min))).floor().clamp(max=bins - 1)
    inside = (x >= min) & (x <= max)
    hit = (bin == torch.arange(bins, device=x.device)) & inside
    return hit.to(x.dtype).sum(0)


def searchsorted(sequence, x, *, out_int32=False, right=False, side=None,
                 sorter=None):
    """How many elements of each row's sequence are less; all are than nan."""
    if sorter is not None or sequence.shape[-1] > MAX_ELEMENTS:
        return NotImplemented
    row = sequence if sequence.dim() == 1 else sequence.unsqueeze(-2)
    x = x.unsqueeze(-1)
    behind = row > x if right or side == "right" else row >= x
    return (~behind).sum(-1).to(torch.int32 if out_int32 else torch.int64)


def bucketize(x, boundaries, *, out_int32=False, right=False):
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _select(x, k, dim, keepdim):
    sorted = _sort(x, dim, False, None)
    if sorted is NotImplemented:
        return NotImplemented
    if x.dim() == 0:
        return sorted
    values, indices = (v.narrow(dim, k, 1) for v in sorted)
    if keepdim:
        return values.clone(), indices.clone()
    return values.squeeze(dim).clone(), indices.squeeze(dim).clone()


def _sort(x, dim, descending, count):
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    n = x.shape[dim]
    if n > MAX_ELEMENTS:
        return NotImplemented
    rows = x.movedim(dim, -1)
    kept = torch.arange(n if count is None else count, device=x.device)
    values, indices = _take(rows, _places(rows, descending), kept)
    return values.movedim(-1, dim), indices.movedim(-1, dim)


def _take(rows, place, kept):
    """The elements that come to the places `kept`, and where they were."""
    # [.., kept, n]: which element comes to which place.
    hit = place.unsqueeze(-2) == kept.unsqueeze(-1)
    positions = torch.arange(rows.shape[-1], device=rows.device)
    indices = torch.where(hit, positions, torch.zeros_like(positions)).sum(-1)
    values = torch.where(hit, rows.unsqueeze(-2), torch.zeros(
        (), dtype=rows.dtype, device=rows.device)).sum(-1).to(rows.dtype)
    return values, indices


def _places(rows, descending):
    """How many elements of its row come before each; nan is the largest."""
    n = rows.shape[-1]
    mine, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    less, more = (mine, other) if descending else (other, mine)
    before, equal = less < more, less == more
    if rows.dtype.is_floating_point:
        less_nan, more_nan = less != less, more != more
        before = before | (more_nan & ~less_nan)
        equal = equal | (more_nan & less_nan)
    at = torch.arange(n, device=rows.device)
    earlier = at < at.unsqueeze(-1)
    return (before | (equal & earlier)).to(torch.int64).sum(-1)
