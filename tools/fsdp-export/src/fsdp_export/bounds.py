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

Ranges of the input are split until each lookup is known to accept, or to
refuse, all of a range. Where that does not end (a remainder that falls beside
its table every so often), the rest is neither checked nor drawn. Values whose
arithmetic passes the end of a 32 or 64 bit integer are refused, unless a lookup
accepts whatever comes of it.
"""

from bisect import bisect_right
from dataclasses import dataclass

import torch
from torch import fx

from .elements import Elements, name_of
from .ranges import Function, evaluate

# Values that are legal beside a range are listed one by one up to so many.
_MOST_ALLOWED = 16
# A range is split into so many, while no more than so many are not decided.
_PARTS = 16
_MOST_OPEN = 1024
# Up to so many values from 0 on are looked at one by one.
_MOST_TABULATED = 1 << 18

_REFUSED, _ACCEPTED, _UNKNOWN = 0, 1, -1


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
    """One use of an input as an index: `function` of it has to lie in
    low .. high - 1, or be `ignored`. `covered` are elements of the input."""

    function: Function
    covered: torch.Tensor
    low: int
    high: int
    ignored: int | None


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
    elements = Elements(source, constants)
    lookups: list[_Lookup] = []
    for node in source.graph.nodes:
        elements.run(node)
        for index, *limits in index_ranges(node):
            lookups += [_Lookup(function, covered, *limits)
                        for function, covered in elements.found(index)
                        if not function.sample.dtype.is_floating_point
                        and function.sample.dtype != torch.bool]
    if not lookups:
        return None
    dtype = source.meta["val"].dtype
    numbers = _numbers(source, constants)
    size = max(u.high for u in lookups)
    tables = [_Table(u, dtype, numbers, size) for u in lookups]
    return _summary(tables, lookups, size, dtype)


def _numbers(source: fx.Node,
             constants: dict[fx.Node, torch.Tensor]) -> set[int]:
    """Where a function of the input probably begins to behave otherwise: the
    sizes of tables and the numbers in the graph."""
    numbers = {0}
    for node in source.graph.nodes:
        if node.op == "call_function":
            for _, low, high, ignored in index_ranges(node):
                numbers |= {low, high, ignored or 0}
            numbers |= {int(a) for a in (*node.args, *node.kwargs.values())
                        if isinstance(a, (int, float)) and abs(a) < 2**62}
    for value in constants.values():
        if value.numel() == 1 and not value.is_complex():
            number = value.item()
            if abs(number) < 2**62:
                numbers.add(int(number))
    return numbers | {-n for n in numbers}


class _Table:
    """What a lookup does with every value of the input: the `states` of ranges
    that begin at `starts` and end before the next one."""

    def __init__(self, lookup: _Lookup, dtype: torch.dtype, numbers: set[int],
                 size: int):
        self._lookup, self._dtype = lookup, dtype
        self._found: list[tuple[int, int]] = []
        self._decide(_first_ranges(numbers, torch.iinfo(dtype)), size)
        self._found.sort()
        self.starts = [start for start, _ in self._found]
        self.states = [state for _, state in self._found]

    def state_of(self, value: int) -> int:
        return self.states[bisect_right(self.starts, value) - 1]

    def _decide(self, ranges: list[tuple[int, int]], size: int) -> None:
        while ranges:
            ranges = self._keep(ranges)
            if len(ranges) > _MOST_OPEN:
                break
            ranges = [part for r in ranges for part in _split(*r)]
        # From 0 on is what data is drawn from.
        end = size if size <= _MOST_TABULATED else 0
        for low, high in ranges:
            first, last = max(low, 0), min(high, end - 1)
            if first > last:
                self._found.append((low, _UNKNOWN))
                continue
            self._keep([(v, v) for v in range(first, last + 1)])
            if low < first:
                self._found.append((low, _UNKNOWN))
            if last < high:
                self._found.append((last + 1, _UNKNOWN))

    def _keep(self, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Notes what can be decided; returns the ranges that can be split."""
        rest = []
        for (low, high), state in zip(ranges, self._states(ranges)):
            if state == _UNKNOWN and low < high:
                rest.append((low, high))
            else:
                self._found.append((low, state))
        return rest

    def _states(self, ranges: list[tuple[int, int]]) -> list[int]:
        u = self._lookup
        r = evaluate(u.function, *(torch.tensor(ends, dtype=self._dtype)
                                   for ends in zip(*ranges)))
        accepted = (r.low >= u.low) & (r.high < u.high)
        refused = (r.high < u.low) | (r.low >= u.high)
        if u.ignored is not None:
            accepted |= (r.low == u.ignored) & (r.high == u.ignored)
            refused &= (r.high < u.ignored) | (r.low > u.ignored)
        refused |= r.overflowed & ~accepted
        states = torch.full(accepted.shape, _UNKNOWN)
        states[accepted], states[refused] = _ACCEPTED, _REFUSED
        return states.tolist()


def _first_ranges(numbers: set[int],
                  limits: torch.iinfo) -> list[tuple[int, int]]:
    """All values of the type; single ones where there are not many."""
    if limits.bits <= 16:
        return [(v, v) for v in range(limits.min, limits.max + 1)]
    starts = sorted({limits.min} | {
        s for n in numbers for s in (n, n + 1) if limits.min < s <= limits.max})
    return list(zip(starts, [*(s - 1 for s in starts[1:]), limits.max]))


def _split(low: int, high: int) -> list[tuple[int, int]]:
    step = -(-(high - low + 1) // _PARTS)
    return [(at, min(at + step - 1, high)) for at in range(low, high + 1, step)]


def _summary(tables: list[_Table], lookups: list[_Lookup], size: int,
             dtype: torch.dtype) -> Bounds:
    starts = sorted({s for t in tables for s in t.starts})
    states = [tuple(t.state_of(s) for t in tables) for s in starts]
    refused = {}
    for pattern in set(states):
        refusing = [u.covered for u, state in zip(lookups, pattern)
                    if u.function.sure and state == _REFUSED]
        refused[pattern] = bool(refusing) and bool(
            torch.stack(refusing).any(0).all())
    runs = _runs(starts, [all(s == _ACCEPTED for s in p) for p in states])
    draw = _draw(runs, size)
    low, high, allowed = _encode(
        _runs(starts, [not refused[p] for p in states]), draw)
    # Single values that every lookup accepts are worth knowing also where
    # nothing is checked.
    *_, single = _encode(runs, draw)
    inside = Bounds(low, high)
    if low is not None and high is not None:
        single = tuple(v for v in single if not inside.accepts(v))
    return Bounds(low, high, tuple(sorted({*allowed, *single})), draw)


def _runs(starts: list[int], chosen: list[bool]
          ) -> list[tuple[int | None, int | None]]:
    """Chosen ranges [low, high), joined where they meet; None: the type's
    own end."""
    runs, start = [], None
    for i, flag in enumerate([*chosen, False]):
        if flag and start is None:
            start = i
        elif not flag and start is not None:
            runs.append((None if start == 0 else starts[start],
                         None if i == len(starts) else starts[i]))
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
        else:
            low = None if None in (low, other[0]) else min(low, other[0])
            high = None if None in (high, other[1]) else max(high, other[1])
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
