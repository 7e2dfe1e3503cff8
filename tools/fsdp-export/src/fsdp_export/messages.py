#===- messages.py - PyTorch's errors in the user's words -----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What a failing trace means for whoever wrote the model."""

import re

import torch
from torch import fx

from .errors import ExportError
from .places import place_of
from .step import dtype_name

aten = torch.ops.aten

_KNOWN = [
    (r"FlexAttention does not support backward",
     "expected attention that can be differentiated on a CPU, got "
     "flex_attention; call torch.nn.functional.scaled_dot_product_attention, "
     "with what score_mod and block_mask do as its attn_mask"),
    (r"(?:Expected tensor for argument #\d+ 'indices'|Expected dtype "
     r"int\S* for index|expected scalar type Long).*?(?:got|found) "
     r"(?:torch\.)?(\w+)",
     "expected token ids, labels and indices of i64 (torch.long), got "
     r"\1"),
    (r"got an unexpected keyword argument '(\w+)'",
     r"expected inputs that are named as the function's parameters, got \1"),
    (r"expected (?:m1 and m2|mat1 and mat2) to have the same dtype, but got: "
     r"(.*)",
     r"expected both operands of a product in one type, got \1; cast one of "
     "them, or run the model under torch.autocast"),
]

# Products, and where their operands stand.
_PRODUCTS = {
    aten.mm.default: (0, 1), aten.bmm.default: (0, 1),
    aten.addmm.default: (1, 2), aten.baddbmm.default: (1, 2),
    aten.matmul.default: (0, 1), aten.linear.default: (0, 1),
    aten.mv.default: (0, 1), aten.dot.default: (0, 1),
    aten.convolution.default: (0, 1),
}


def explain(text: str) -> str | None:
    """A PyTorch error that has a meaning of its own here; None for others."""
    for pattern, meaning in _KNOWN:
        found = re.search(pattern, text, re.S)
        if found:
            return found.expand(meaning).splitlines()[0].rstrip(". ")
    return None


def describe_inputs(inputs: dict[str, torch.Tensor]) -> str:
    """`; the example inputs are ids of i64 [2, 5], ..`, or nothing."""
    if not inputs:
        return ""
    listed = ", ".join(f"{name} of {dtype_name(t.dtype)} {list(t.shape)}"
                       for name, t in inputs.items())
    return f"; the example inputs are {listed}"


def refuse_mixed_products(graph: fx.Graph) -> None:
    """Products of two types, which PyTorch refuses only where it computes."""
    for node in graph.nodes:
        at = _PRODUCTS.get(node.target)
        if at is None:
            continue
        left, right = (node.args[i].meta["val"].dtype for i in at)
        if left != right:
            raise ExportError(
                "expected both operands of a product in one type, got "
                f"{dtype_name(left)} and {dtype_name(right)} in "
                f"{place_of(node)}; cast one of them, or run the model under "
                "torch.autocast")


def refuse_randomness(graph: fx.Graph, traced: fx.Graph) -> None:
    """What a step draws, draws.py knows how to draw, but not everything.

    `graph` is what remains of `traced`, where operations have the names that
    the user called.
    """
    remaining = _random(graph)
    if not remaining:
        return
    node = (_random(traced) or remaining)[0]
    name = str(node.target).removeprefix("aten.").split(".")[0]
    raise ExportError(
        "expected random numbers of dropout, bernoulli, rand, randn, uniform_ "
        f"or normal_, got {name} in {place_of(node)}; make it of these, or draw "
        "it outside and make it an input")


def _random(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if torch.Tag.nondeterministic_seeded
            in getattr(n.target, "tags", ())]
