#===- folding.py - Constants of a graph ----------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Evaluates what a graph computes from nothing but shapes.

Attention masks and positions are long chains of such operations, most of which
come to one value or a range.
"""

import torch
from torch import fx

from .bounds import index_ranges
from .errors import ExportError
from .graphs import VIEWS, make_meta, make_table
from .places import place_of

aten = torch.ops.aten

# Nothing larger than WORK is evaluated, and a constant that is neither a splat
# nor a range is kept only as a table of at most so many elements.
TABLE_ELEMENTS = 4096
WORK_ELEMENTS = 1 << 25


def fold_constants(graph: fx.GraphModule) -> None:
    """Replaces nodes that depend on no argument by cheaper ones."""
    values: dict[fx.Node, torch.Tensor] = {}
    for node in graph.graph.nodes:
        _check_lookup(node, values)
        if node.op == "get_attr":
            values[node] = getattr(graph, node.target)
        elif node.op == "call_function" and _foldable(node, values):
            values[node] = _evaluate(node, values)
    for node in graph.graph.nodes:
        _simplify_lookup(graph, node, values)
    # Operands as they were evaluated; `equal` leads to the first equal one.
    operands = {node: node.all_input_nodes for node in values}
    equal: dict[fx.Node, fx.Node] = {}
    for node, value in values.items():
        if node.op == "get_attr" or _is_source(node):
            continue
        same = [n for n in operands[node]
                if n.op != "get_attr" and values[n].dtype == value.dtype
                and torch.equal(values[n], value)]
        if not _replace(graph, node, value) and same:
            equal[node] = equal.get(same[0], same[0])
            node.replace_all_uses_with(equal[node])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _check_lookup(node: fx.Node, values: dict[fx.Node, torch.Tensor]) -> None:
    """A constant index outside of its table: positions beyond the last one."""
    for index, low, high, ignored in index_ranges(node):
        value = values.get(index)
        if value is None or not value.numel():
            continue
        wrong = ((value < low) | (value >= high))
        if ignored is not None:
            wrong &= value != ignored
        if bool(wrong.any()):
            raise ExportError(
                f"expected indices below {high}, the rows of the table that "
                f"{place_of(node)} looks up in, got {int(value[wrong].max())}; "
                "where these are positions, the sequence is longer than the "
                "model's table: shorten it (--seq) or enlarge the table")


def _simplify_lookup(graph: fx.GraphModule, node: fx.Node,
                     values: dict[fx.Node, torch.Tensor]) -> None:
    """Looking up rows 0, 1, 2, … takes a slice; adding to them pads.

    Learned positions are looked up so.
    """
    if node.target is aten.embedding.default:
        rows = _range_length(values.get(node.args[1]))
        if rows is not None:
            width = node.meta["val"].shape[-1]
            _splice(graph, node, [
                (aten.slice.Tensor, (0, 0, rows), {}, [rows, width]),
                (aten.view.default, (list(node.meta["val"].shape),), {},
                 node.meta["val"].shape)], node.args[0])
    if node.target is aten.index_put.default and node.args[3:] == (True,):
        table, indices, update = node.args[:3]
        zeros = values.get(table)
        index = values.get(indices[0]) if len(indices) == 1 else None
        rows = _range_length(index)
        if rows is not None and zeros is not None and not bool(zeros.any()):
            tail = list(zeros.shape[1:])
            pad = [0, 0] * len(tail) + [0, zeros.shape[0] - rows]
            _splice(graph, node, [
                (aten.view.default, ([rows, *tail],), {}, [rows, *tail]),
                (aten.constant_pad_nd.default, (pad, 0.0), {}, zeros.shape)],
                update)


def _range_length(value: torch.Tensor | None) -> int | None:
    """n where the value is the integers below n, in order."""
    if value is None or value.dtype != torch.int64:
        return None
    line = value.flatten()
    return len(line) if torch.equal(line, torch.arange(len(line))) else None


def _is_source(node: fx.Node) -> bool:
    return not node.all_input_nodes and node.target in (
        aten.full.default, aten.arange.start_step, aten.scalar_tensor.default)


def _foldable(node: fx.Node, values: dict[fx.Node, torch.Tensor]) -> bool:
    value = node.meta.get("val")
    tags = getattr(node.target, "tags", ())
    return (isinstance(value, torch.Tensor) and value.numel() > 0
            and value.numel() <= WORK_ELEMENTS
            and node.target is not aten.as_strided.default
            and torch.Tag.nondeterministic_seeded not in tags
            and all(n in values for n in node.all_input_nodes))


def _evaluate(node: fx.Node,
              values: dict[fx.Node, torch.Tensor]) -> torch.Tensor:
    """The node's value, in no more memory than its distinct elements need."""
    if node.target is aten.full.default:
        dtype = node.meta["val"].dtype
        return torch.full((), node.args[1], dtype=dtype).expand(node.args[0])
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.get)
    target = aten.reshape.default if node.target in VIEWS else node.target
    value = target(*args, **kwargs)
    return _core(value).expand(value.shape)


def _core(value: torch.Tensor) -> torch.Tensor:
    """One slice of every dimension along which nothing changes."""
    for dim in range(value.dim()):
        first = value.narrow(dim, 0, 1)
        if value.stride(dim) == 0 or bool((value == first).all()):
            value = first.clone()
    return value


def _replace(graph: fx.GraphModule, node: fx.Node, value: torch.Tensor) -> bool:
    """Replaces a node by the cheapest form of its value; False leaves it.

    What remains without the dimensions along which nothing changes has to be
    one value, a range, or a small one-dimensional table: a mask of two
    dimensions stays the comparison that it is, at every size.
    """
    core = _core(value)
    line = core.flatten()
    if line.numel() == 1:
        _splice(graph, node, [(aten.full.default, ([], line.item()),
                               {"dtype": value.dtype}, [])])
        return True
    if core.numel() != max(core.shape):
        return False
    if _range_length(line) is not None:
        _splice(graph, node, [
            (aten.arange.start_step, (0, len(line), 1), {"dtype": value.dtype},
             [len(line)]),
            (aten.view.default, (list(core.shape),), {}, core.shape)])
        return True
    if line.numel() > TABLE_ELEMENTS:
        return False
    _splice(graph, node, [], make_table(graph, node, core))
    return True


def _splice(graph: fx.GraphModule, node: fx.Node, chain: list,
            value: fx.Node | None = None) -> None:
    """Replaces a node by a chain of calls, each on the one before, expanded."""
    like, shape = node.meta["val"], list(node.meta["val"].shape)
    with graph.graph.inserting_before(node):
        for target, args, kwargs, size in chain:
            args = args if value is None else (value, *args)
            value = graph.graph.call_function(target, args, kwargs)
            value.meta = make_meta(node, like.new_empty(size))
        if list(value.meta["val"].shape) != shape:
            value = graph.graph.call_function(aten.expand.default,
                                              (value, shape))
            value.meta = make_meta(node, like)
    node.replace_all_uses_with(value)
