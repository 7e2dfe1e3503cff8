#===- bounds.py - Which integers an input may hold -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Finds [low, high) of integer inputs from how the model uses them."""

import torch
from torch import fx

from .decompositions import ONE_HOT

aten = torch.ops.aten

# Operations that move integers without changing them. A constant that they
# mix in (a pad, a start token) is not the input's.
_MOVES = {
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze",
    "unsqueeze", "expand", "expand_as", "permute", "transpose", "t", "slice",
    "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "cat",
    "stack", "constant_pad_nd", "pad", "clone", "contiguous", "to", "_to_copy",
    "alias", "detach", "detach_", "roll", "flip", "copy", "copy_", "where",
    "masked_fill", "masked_fill_", "slice_scatter", "select_scatter",
    "lift_fresh_copy", "repeat", "getitem",
}


def input_bounds(inputs: dict[str, fx.Node]) -> dict[str, tuple[int, int]]:
    """(low, high) by input name; an input without known bounds is absent.

    `inputs` are the arguments of a graph by their names. In this order:
    booleans are [0, 2); an input that indexes a table (an embedding, a class,
    a gather) is bounded by the smallest table that it reaches unchanged; an
    input named *mask is [0, 2); other bytes are [0, 256).
    """
    bounds = {}
    for name, placeholder in inputs.items():
        dtype = placeholder.meta["val"].dtype
        if dtype == torch.bool:
            bounds[name] = (0, 2)
        elif not dtype.is_floating_point:
            limit = _smallest_table(placeholder)
            if limit is not None:
                bounds[name] = (0, limit)
            elif name.endswith("mask"):
                bounds[name] = (0, 2)
            elif dtype == torch.uint8:
                bounds[name] = (0, 256)
    return bounds


def _smallest_table(start: fx.Node) -> int | None:
    sizes, seen, work = [], {start}, [start]
    while work:
        node = work.pop()
        for user in node.users:
            size = _table_size(user, node)
            if size is not None:
                sizes.append(size)
            if user not in seen and _moves(user, node):
                seen.add(user)
                # Writing into a tensor changes it for its later readers.
                if _name(user) == "copy_":
                    target = _base(user.args[0])
                    seen.add(target)
                    work.append(target)
                work.append(user)
    return min(sizes, default=None)


def _base(node: fx.Node) -> fx.Node:
    """The tensor that a chain of views looks at."""
    while (node.op == "call_function" and node.all_input_nodes
           and _name(node) in ("slice", "select", "view", "narrow")):
        node = node.all_input_nodes[0]
    return node


def _name(node: fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", node.target)
    return getattr(packet, "__name__", "")


def _moves(user: fx.Node, value: fx.Node) -> bool:
    if user.op != "call_function" or _name(user) not in _MOVES:
        return False
    if _name(user) in ("where", "copy", "copy_", "masked_fill", "masked_fill_"):
        condition = {"where": 0, "masked_fill": 1, "masked_fill_": 1}
        at = condition.get(_name(user))
        if at is not None and user.args[at] is value:
            return False
    result = user.meta.get("val")
    first = result[0] if isinstance(result, (list, tuple)) else result
    return (isinstance(first, torch.Tensor) and first.dtype != torch.bool
            and not first.dtype.is_floating_point)


def _table_size(user: fx.Node, index: fx.Node) -> int | None:
    """The size of the dimension that `index` selects from in `user`."""
    name, args = _name(user), user.args

    def size(at: int, dim: int) -> int:
        return args[at].meta["val"].shape[dim]

    if name == "embedding" and args[1] is index:
        return size(0, 0)
    if name in ("gather", "index_select", "scatter", "scatter_add",
                "scatter_", "scatter_add_") and args[2] is index:
        return size(0, args[1])
    if name in ("index", "index_put", "index_put_") and index in args[1]:
        return size(0, args[1].index(index))
    if name in ("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d",
                "nll_loss_forward", "nll_loss2d_forward") and args[1] is index:
        return size(0, 0 if args[0].meta["val"].dim() == 1 else 1)
    if name == "eq":
        return (user.meta.get("custom") or {}).get(ONE_HOT)
    return None
