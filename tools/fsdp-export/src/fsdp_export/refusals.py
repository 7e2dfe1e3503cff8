#===- refusals.py - What has no counterpart in a step --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Refuses modules, types and operations by name, with a way out."""

from collections.abc import Sequence

import torch
from torch import fx, nn

from .errors import ExportError
from .graphs import module_path
from .step import Held, dtype_name

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32,
             torch.int64)


def refuse_modules(module: nn.Module) -> None:
    """Modules that would silently become something else."""
    for name, child in module.named_modules():
        place = name or "the root module"
        if isinstance(child, nn.SyncBatchNorm) and (
                child.training or child.running_mean is None):
            raise ExportError(
                f"expected normalisation over one rank's batch, got the "
                f"{type(child).__name__} {place}, whose statistics are those "
                "of all ranks; use nn.BatchNorm1d, 2d or 3d, with each rank's "
                "own statistics, or nn.GroupNorm, which needs none")
        if isinstance(child, (nn.Embedding, nn.EmbeddingBag)) and child.sparse:
            raise ExportError(
                f"expected dense gradients, got the {type(child).__name__} "
                f"{place} with sparse=True; build it with sparse=False")


def refuse_lazy(held: Sequence[Held]) -> None:
    """Tensors that get their shape when the module first runs."""
    for h in held:
        if nn.parameter.is_lazy(h.tensor):
            raise ExportError(
                f"expected parameters and buffers with a shape, got {h.fqn} of "
                "a lazy module; run the module once before returning it")


def refuse_views(parameters: Sequence[Held], buffers: Sequence[Held]) -> None:
    """Parameters and buffers that share a storage: each is an argument of its
    own, and a change of one would not show in the other."""
    owners: dict[int, tuple[str, str]] = {}
    named = [("parameter", h) for h in parameters]
    named += [("buffer", h) for h in buffers]
    for kind, h in named:
        if not h.tensor.numel():
            continue
        storage = h.tensor.untyped_storage()._cdata
        other, name = owners.setdefault(storage, (kind, h.fqn))
        if (other, name) == (kind, h.fqn):
            continue
        out = ("tie them by assigning the same object" if other == kind else
               f"register a clone(), or use {name} itself where {h.fqn} is "
               "used")
        raise ExportError(
            f"expected every parameter and buffer to have its own storage, got "
            f"{kind} {h.fqn}, a view of {other} {name}; {out}")


def refuse_types(parameters: Sequence[Held], buffers: Sequence[Held],
                 inputs: dict[str, torch.Tensor]) -> None:
    """Element types that the input contract does not have."""
    for h in parameters:
        if h.tensor.dtype not in _FLOATS:
            raise ExportError(
                f"expected parameters of f32, f64, bf16 or f16, got {h.fqn} of "
                f"{dtype_name(h.tensor.dtype)}; {_instead(h.tensor.dtype)}")
    named = [(f"buffer {h.fqn}", h.tensor) for h in buffers]
    named += [(f"input {n}", t) for n, t in inputs.items()]
    for name, tensor in named:
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise ExportError(f"expected dense tensors, got {name} of layout "
                              f"{tensor.layout}; pass to_dense()")
        if tensor.dtype not in _FLOATS + _INTEGERS:
            raise ExportError(
                f"expected floats, integers of 8 to 64 bits or booleans, got "
                f"{name} of {dtype_name(tensor.dtype)}; "
                f"{_instead(tensor.dtype)}")


def _instead(dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return "keep real and imaginary parts as two (torch.view_as_real)"
    if dtype in _INTEGERS:
        return "register it as a buffer"
    if dtype.is_floating_point:
        return "keep its values as bf16 or f32"
    return "keep its values as a signed integer type that holds them"


def refuse_higher_order(graph: fx.Graph) -> None:
    """torch.cond and its like: control flow that tensors decide."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise no_control_flow(node.target, module_path(node))


def no_control_flow(operator: torch._ops.HigherOrderOperator,
                    place: str) -> ExportError:
    """The error that refuses an operator in the module `place`."""
    return ExportError(
        f"expected operations on tensors only, got {operator} in "
        f"{place or 'the root module'}; compute all branches and choose with "
        "torch.where, and write loops in Python")
