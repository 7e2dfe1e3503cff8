#===- bounds.py - Which integers an input may hold -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Finds which integers an input may hold from how the model uses them.

Two questions are apart. *Checked* is what makes every use of the input fail in
PyTorch, whatever the rest of the batch holds: an index outside of the table
that it selects from. A value that is replaced before it indexes (where,
masked_fill, clamp, ignore_index), or an element that no lookup reads, is not.
*Drawn* is what random data is made of: values that every lookup accepts.
"""

from dataclasses import dataclass

import torch
from torch import fx

from .elements import Elements, name_of

# Values that are legal beside a range are listed one by one up to so many.
_MOST_ALLOWED = 16


@dataclass(frozen=True)
class Bounds:
    """low <= value < high, or one of `allowed`, is legal; None: no limit.

    Where there is no limit, `allowed` are values that every lookup accepts
    beside what is drawn. `draw` is the range that random data is drawn from,
    None where nothing says which integers make sense.
    """

    low: int | None = None
    high: int | None = None
    allowed: tuple[int, ...] = ()
    draw: tuple[int, int] | None = None

    def accepts(self, value: int) -> bool:
        return value in self.allowed or (
            (self.low is None or value >= self.low)
            and (self.high is None or value < self.high))


@dataclass
class _Lookup:
    """One use of an input as an index, tabulated over candidate values."""

    legal: torch.Tensor
    covered: torch.Tensor
    sure: bool
    size: int


def input_bounds(inputs: dict[str, fx.Node],
                 constants: dict[fx.Node, torch.Tensor] | None = None
                 ) -> dict[str, Bounds]:
    """The bounds of integer inputs; one of which nothing is known is absent.

    `inputs` are arguments of one graph by their names, `constants` the values
    of its other arguments that are known.
    """
    bounds = {}
    for name, node in inputs.items():
        value = node.meta["val"]
        if value.dtype == torch.bool:
            bounds[name] = Bounds(0, 2, draw=(0, 2))
        elif not value.dtype.is_floating_point and value.numel():
            found = _bounds_of(node, constants or {})
            if found is None and name.endswith("mask"):
                found = Bounds(draw=(0, 2))
            elif found is None and value.dtype == torch.uint8:
                found = Bounds(draw=(0, 256))
            if found is not None:
                bounds[name] = found
    return bounds


def _bounds_of(source: fx.Node,
               constants: dict[fx.Node, torch.Tensor]) -> Bounds | None:
    candidates = _candidates(source, constants)
    elements = Elements(source, candidates, constants)
    lookups: list[_Lookup] = []
    for node in source.graph.nodes:
        elements.run(node)
        for index, low, high, ignored in index_ranges(node):
            for values, covered, sure in elements.found(index):
                if values.dtype.is_floating_point or values.dtype == torch.bool:
                    continue
                legal = (values >= low) & (values < high)
                if ignored is not None:
                    legal |= values == ignored
                lookups.append(_Lookup(legal, covered, sure, high))
    return _summary(candidates, lookups) if lookups else None


def _candidates(source: fx.Node,
                constants: dict[fx.Node, torch.Tensor]) -> torch.Tensor:
    """Values at which a function of the input may begin to behave otherwise:
    around 0, the sizes of tables, and the numbers in the graph."""
    limits = torch.iinfo(source.meta["val"].dtype)
    numbers = {0, limits.min, limits.max}
    for node in source.graph.nodes:
        if node.op == "call_function":
            for _, low, high, ignored in index_ranges(node):
                numbers |= {low, high, -high, ignored or 0}
            numbers |= {int(a) for a in (*node.args, *node.kwargs.values())
                        if isinstance(a, (int, float)) and a == a
                        and abs(a) < 2**62}
    for value in constants.values():
        if value.numel() == 1 and not value.is_complex():
            number = value.item()
            if number == number and abs(number) < 2**62:
                numbers.add(int(number))
    found = set(range(-256, 1025))
    for number in numbers:
        found.update(range(number - 3, number + 4))
        found.update(range(-number - 3, -number + 4))
    kept = sorted(v for v in found if limits.min <= v <= limits.max)
    return torch.tensor(kept, dtype=source.meta["val"].dtype)


def _summary(candidates: torch.Tensor, lookups: list[_Lookup]) -> Bounds:
    legal = torch.stack([u.legal for u in lookups])
    drawable = legal.all(0)
    accepted = torch.ones(len(candidates), dtype=torch.bool)
    patterns, which = legal.unique(dim=1, return_inverse=True)
    for i, pattern in enumerate(patterns.t().tolist()):
        refusing = [u.covered for u, fine in zip(lookups, pattern)
                    if u.sure and not fine]
        if refusing and bool(torch.stack(refusing).any(0).all()):
            accepted[which == i] = False
    runs = _runs(candidates, drawable)
    draw = _draw(runs, max(u.size for u in lookups))
    low, high, allowed = _encode(_runs(candidates, accepted), draw)
    # Single values that every lookup accepts are worth knowing also where
    # nothing is checked.
    *_, single = _encode(runs, draw)
    inside = Bounds(low, high)
    if low is not None and high is not None:
        single = tuple(v for v in single if not inside.accepts(v))
    return Bounds(low, high, tuple(sorted({*allowed, *single})), draw)


def _runs(candidates: torch.Tensor, chosen: torch.Tensor
          ) -> list[tuple[int | None, int | None]]:
    """Ranges [low, high) of chosen values. What lies between two candidates is
    as they are; what lies beyond the outermost ones, None, too."""
    values, flags = candidates.tolist(), chosen.tolist()
    runs, start = [], None
    for i, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = i
        elif not flag and start is not None:
            runs.append((None if start == 0 else values[start],
                         None if i == len(values) else values[i - 1] + 1))
            start = None
    return runs


def _contains(run: tuple[int | None, int | None], value: int) -> bool:
    return ((run[0] is None or run[0] <= value)
            and (run[1] is None or value < run[1]))


def _draw(runs: list, size: int) -> tuple[int, int] | None:
    """The values from 0 on that every lookup accepts; else the first range
    that has two ends. Negative indices are legal, but nobody's data."""
    for run in runs:
        if _contains(run, 0):
            return (0, size if run[1] is None else min(run[1], max(size, 1)))
    for low, high in runs:
        if low is not None and high is not None:
            return (low, high)
    return None


def _encode(runs: list, draw: tuple[int, int] | None
            ) -> tuple[int | None, int | None, tuple[int, ...]]:
    """One range that holds what is drawn, and single values beside it.

    Where too many values lie beside it the range is widened: the step checks
    them once more.
    """
    if not runs:
        return None, None, ()
    anchor = draw[0] if draw else 0
    main = next((r for r in runs if _contains(r, anchor)), runs[0])
    low, high = main
    allowed: list[int] = []
    for other in runs:
        if other == main:
            continue
        if None not in other and other[1] - other[0] <= _MOST_ALLOWED - len(
                allowed):
            allowed += range(*other)
        elif other[0] is None or (low is not None and other[0] < low):
            low = other[0]
        else:
            high = other[1]
    outside = Bounds(low, high)
    return low, high, tuple(v for v in allowed if not outside.accepts(v))


def index_ranges(node: fx.Node) -> list[tuple[fx.Node, int, int, int | None]]:
    """The indices that a node takes: (index, lowest, end, value to ignore).

    Only indexing as x[i] counts negative indices from the end.
    """
    if node.op != "call_function":
        return []
    name, args = name_of(node), node.args

    def size(at: int, dim: int) -> int:
        shape = args[at].meta["val"].shape
        return shape[dim] if shape else 1

    def argument(at: int, key: str, default):
        return args[at] if len(args) > at else node.kwargs.get(key, default)

    found = []
    if name == "embedding":
        found = [(args[1], 0, size(0, 0), None)]
    elif name in ("embedding_bag", "_embedding_bag",
                  "_embedding_bag_forward_only"):
        found = [(args[1], 0, size(0, 0), None)]
    elif name in ("gather", "index_select", "scatter", "scatter_",
                  "scatter_add", "scatter_add_", "scatter_reduce",
                  "scatter_reduce_", "index_add", "index_add_", "index_copy",
                  "index_copy_", "index_fill", "index_fill_"):
        found = [(args[2], 0, size(0, args[1]), None)]
    elif name in ("index", "index_put", "index_put_", "_unsafe_index",
                  "_index_put_impl_"):
        found = [(at, -size(0, dim), size(0, dim), None)
                 for dim, at in enumerate(args[1])
                 if at is not None
                 and at.meta["val"].dtype not in (torch.bool, torch.uint8)]
    elif name in ("take", "put", "put_"):
        count = args[0].meta["val"].numel()
        found = [(args[1], -count, count, None)]
    elif name in ("cross_entropy_loss", "nll_loss", "nll_loss_nd",
                  "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward"):
        classes = size(0, 0 if args[0].meta["val"].dim() == 1 else 1)
        found = [(args[1], 0, classes, argument(4, "ignore_index", -100))]
    elif name == "one_hot" and len(args) > 1 and args[1] > 0:
        found = [(args[0], 0, args[1], None)]
    return [f for f in found if isinstance(f[0], fx.Node)]
