#===- causality.py - Do predictions see the tokens after them? -----------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Finds out whether a model looks at the tokens that it is to predict.

A model whose positions all see each other learns nothing from the next token
as its target: it copies it. The traced graph runs several times, forward only,
each time with other tokens from some position on; predictions before it have
to stay as they are. In every row that position is another one.

At their initial values parameters hide much: a projection of zeros lets nothing
through that training opens. So those that are trained get random values added.
Large parameters hide something, too: attention that chooses one token. So there
is a second round with smaller ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

# Elements of parameters times tokens: of one run, above which nothing is
# computed, and of all runs in a round, where there are more than one.
_MOST_WORK = 1 << 37
_MOST_TOTAL = 1 << 37
_MOST_RUNS = 8
_SCALES = (1.0, 0.3)


@dataclass
class Prediction:
    """What a target is compared with; `tags` are positions, -1: not known."""

    node: fx.Node
    tags: torch.Tensor


class _Enough(BaseException):
    """Every value that is asked for was computed."""


class _Forward(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule, wanted: set[fx.Node]):
        super().__init__(graph)
        self._wanted = wanted
        self.found: dict[fx.Node, torch.Tensor] = {}

    def run_node(self, n: fx.Node):
        result = super().run_node(n)
        if n in self._wanted:
            self.found[n] = result.detach().clone()
            if len(self.found) == len(self._wanted):
                raise _Enough
        return result


def is_cheap(parameters: Sequence[torch.Tensor], tokens: torch.Tensor) -> bool:
    return _work(parameters, tokens) <= _MOST_WORK


def _work(parameters: Sequence[torch.Tensor], tokens: torch.Tensor) -> int:
    return sum(p.numel() for p in parameters) * tokens.numel()


def sees_later_tokens(graph: fx.GraphModule, values: Sequence[torch.Tensor],
                      trained: Sequence[int], at: int, low: int, high: int,
                      predictions: Sequence[Prediction]) -> bool:
    """Whether a prediction depends on a token after its position, or may.

    `values` are the graph's arguments: parameters at `trained`, and `at` the
    tokens, integers from `low` to `high` - 1 of [batch, sequence].
    """
    length = values[at].shape[1]
    if length < 2:
        return False
    if high - low < 2:
        return True
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(low, high, values[at].shape,
                           generator=generator).to(values[at].dtype)
    for scale in _SCALES:
        other = [_moved(v, scale, generator) if i in trained else v
                 for i, v in enumerate(values)]
        other[at] = tokens
        if _sees(graph, other, at, low, high, predictions, generator):
            return True
    return False


def _sees(graph: fx.GraphModule, values: list[torch.Tensor], at: int, low: int,
          high: int, predictions: Sequence[Prediction],
          generator: torch.Generator) -> bool:
    """Whether a prediction at these values depends on a later token."""
    wanted, tokens = {p.node for p in predictions}, values[at]
    first = _run(graph, values, wanted)
    runs = min(max(_MOST_TOTAL // max(_work(values, tokens), 1), 1), _MOST_RUNS)
    for starts in _starts(*tokens.shape, runs):
        later = torch.arange(tokens.shape[1]) >= starts.unsqueeze(1)
        step = torch.randint(1, high - low, tokens.shape, generator=generator)
        moved = ((tokens - low + step) % (high - low) + low).to(tokens.dtype)
        changed = torch.where(later, moved, tokens)
        second = _run(graph, [*values[:at], changed, *values[at + 1:]], wanted)
        if any(_differs(first[p.node], second[p.node], ~later.flatten(), p)
               for p in predictions):
            return True
    return False


def _moved(values: torch.Tensor, scale: float,
           generator: torch.Generator) -> torch.Tensor:
    """Parameters as they may be after some training: random numbers of the
    size that layers usually begin with are added; then all are scaled."""
    if not (values.is_floating_point() and values.numel()):
        return values
    width = values[0].numel() if values.dim() > 1 else 100
    noise = torch.randn(values.shape, generator=generator)
    noise = (noise / max(width, 1) ** 0.5).to(values.dtype)
    return (values.detach() + noise) * scale


def _starts(batch: int, length: int, runs: int) -> list[torch.Tensor]:
    """For each run the position of every row from which tokens change.

    Every position where there are rows enough; else the first and the last
    one, and some between them.
    """
    count = min(runs * batch, length - 1)
    chosen = torch.linspace(1, length - 1, count).round().long()
    # A run more than needed repeats some.
    chosen = chosen.repeat(batch)[:-(-count // batch) * batch]
    return list(chosen.view(-1, batch))


def _differs(before: torch.Tensor, after: torch.Tensor, kept: torch.Tensor,
             prediction: Prediction) -> bool:
    """Whether predictions at positions that are `kept` are others, or no
    numbers."""
    tags = prediction.tags
    if tags.dim() and tags.stride(-1) == 0:
        tags = tags.narrow(-1, 0, 1)
    early = (tags >= 0) & kept[tags.clamp(min=0)]
    other = (before != after) & early
    if not bool(other.any()):
        return False
    apart = (before[other].double() - after[other].double()).abs()
    scale = before[early.expand_as(before)].abs()
    # What is no number compares as false.
    return not bool(apart.max() <= 1e-5 * scale.max())


def _run(graph: fx.GraphModule, values: Sequence[torch.Tensor],
         wanted: set[fx.Node]) -> dict[fx.Node, torch.Tensor]:
    run = _Forward(graph, wanted)
    try:
        with torch.no_grad():
            # The graph may write to its arguments.
            run.run(*(v.detach().clone() for v in values))
    except _Enough:
        pass
    return run.found
