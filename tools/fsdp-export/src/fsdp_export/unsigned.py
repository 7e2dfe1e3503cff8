#===- unsigned.py - Bytes without a sign ---------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Computes with uint8 in int32.

The input contract's integers carry no sign, and torch-mlir folds, compares and
divides those of torch.uint8 wrongly or not at all. So a graph gets its bytes
as int8, takes their bits as numbers from 0 to 255 at once, and wraps results
around where PyTorch does.
"""

from collections.abc import Callable, Sequence

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from .graphs import VIEWS

aten = torch.ops.aten

# These move bytes; the numbers stay below 256.
_MOVES = {*VIEWS, *(getattr(aten, name) for name in (
    "expand", "permute", "slice", "select", "cat", "clone", "where", "index",
    "gather", "squeeze", "unsqueeze", "alias", "embedding", "split",
    "split_with_sizes", "maximum", "minimum", "amax", "amin", "flip",
    "index_select", "slice_scatter", "select_scatter", "as_strided",
    "detach", "copy", "repeat", "roll"))}


def has_bytes(graph: fx.GraphModule) -> bool:
    """Whether any value of the graph is torch.uint8."""
    return any(isinstance(x, torch.Tensor) and x.dtype == torch.uint8
               for n in graph.graph.nodes
               for x in tree_leaves(n.meta.get("val")))


def as_signed(value: torch.Tensor) -> torch.Tensor:
    """The argument that stands for a value: the same bytes, as int8."""
    return value.view(torch.int8) if value.dtype == torch.uint8 else value


def widen(graph: fx.GraphModule, values: Sequence[torch.Tensor],
          trace: Callable) -> fx.GraphModule:
    """The graph as a function of int8 for uint8, with results likewise.

    `trace(function, values)` traces a function again.
    """
    wide = _Wide(graph)

    def run(*tensors):
        given = [_numbers(t) if v.dtype == torch.uint8 else t
                 for t, v in zip(tensors, values)]
        outputs = graph.graph.output_node().args[0]
        return [t.to(torch.int8) if n.meta["val"].dtype == torch.uint8 else t
                for t, n in zip(wide.run(*given), outputs)]

    return trace(run, [as_signed(v) for v in values])


def _numbers(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int32) & 255


class _Wide(fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if kwargs.get("dtype") == torch.uint8:
            kwargs = {**kwargs, "dtype": torch.int32}
        return super().call_function(target, args, kwargs)

    def get_attr(self, target, args, kwargs):
        value = super().get_attr(target, args, kwargs)
        return value.to(torch.int32) if value.dtype == torch.uint8 else value

    def run_node(self, node):
        result = super().run_node(node)
        if node.op != "call_function":
            return result
        moves = getattr(node.target, "overloadpacket", None) in _MOVES or (
            node.target in _MOVES)

        def narrow(value, like):
            if not isinstance(value, torch.Tensor):
                return value
            if like.dtype != torch.uint8:
                return value.to(like.dtype)
            return value if moves else _numbers(value)

        like = node.meta.get("val")
        if isinstance(like, torch.Tensor):
            return narrow(result, like)
        if isinstance(like, (list, tuple)):
            return type(result)(map(narrow, result, like))
        return result
