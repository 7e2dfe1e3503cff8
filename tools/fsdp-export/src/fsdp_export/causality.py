#===- causality.py - Do predictions see the tokens after them? -----------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Finds out whether a model looks at the tokens that it is to predict.

A model whose positions all see each other learns nothing from the next token
as its target: it copies it. The traced graph runs twice, forward only, with
another last token; predictions at earlier positions have to stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

# Elements of parameters times tokens, above which nothing is computed.
_MOST_WORK = 1 << 34


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
    size = sum(p.numel() for p in parameters)
    return size * tokens.numel() <= _MOST_WORK


def sees_later_tokens(graph: fx.GraphModule, values: Sequence[torch.Tensor],
                      at: int, low: int, high: int,
                      predictions: Sequence[Prediction]) -> bool:
    """Whether a prediction depends on a token after its position.

    `values` are the graph's arguments, of which `at` are the tokens, integers
    from `low` to `high` - 1 of [batch, sequence].
    """
    tokens = values[at]
    length = tokens.shape[1]
    if length < 2 or high - low < 2:
        return False
    changed = tokens.clone()
    changed[:, -1] = (tokens[:, -1] - low + 1) % (high - low) + low
    first, second = (_run(graph, [*values[:at], t, *values[at + 1:]],
                          {p.node for p in predictions})
                     for t in (tokens, changed))
    for p in predictions:
        before, after = first[p.node].double(), second[p.node].double()
        early = ((p.tags >= 0) & (p.tags % length < length - 1)).expand_as(
            before)
        apart = (before - after)[early].abs().nan_to_num()
        scale = before[early].abs().nan_to_num()
        if apart.numel() and apart.max() > 1e-5 * scale.max():
            return True
    return False


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
