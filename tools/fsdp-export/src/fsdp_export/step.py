#===- step.py - What is exported -----------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""One training step before it is traced: a module, its inputs, its loss."""

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from .errors import ExportError
from .recorder import InitRecorder

if TYPE_CHECKING:
    from .groups import StepOptimizer
    from .losssums import SumByCount

# The name under which StepModule holds the user's module.
PREFIX = "model."

# What PyTorch, Hugging Face and timm call the probability that something is
# dropped: dropout, attn_pdrop, hidden_dropout_prob, drop_path_rate, ..
PROBABILITY = re.compile(
    r"((\w*_)?(dropout|pdrop|dropprob|layer_?drop|drop_?path)"
    r"|_?drop(_(connect|mlp|conv_encoder|block))?"
    r"|_?(attn|attention|proj|projection|pos|patch|head|out|output|resid|mlp|"
    r"ffn?|emb|embd|embed|feat|hidden)_drop)"
    r"(_(p|prob|probs|probability|rate|ratio|value))?")
# Layers whose probability is p.
_LAYER = re.compile(r"\w*(Dropout\w*|DropPath|DropBlock\w*|StochasticDepth)")


@dataclass
class Step:
    """A module with one rank's example batch.

    `loss(module, *inputs)` returns the scalar to minimise. `copies` maps an
    input to another one whose data it repeats: the labels of a language model
    are its tokens. `shifts` says, for some inputs, how many tokens later they
    start in token data, None where it is not clear. `recorder` watched the
    module being built. `around_backward` is in force wherever the loss is
    differentiated. Where the loss is a sum, `counted` is the losssums.SumByCount
    that `loss` calls. A step that `evaluates` has no gradients; its `loss` is
    one of evaluation.WithOutputs. `notes` are lines to report. `overridden`:
    settings of the module's configuration in which it differs from its
    checkpoint's on purpose.
    """

    name: str
    module: nn.Module
    loss: Callable[..., torch.Tensor]
    inputs: dict[str, torch.Tensor]
    recorder: InitRecorder
    copies: dict[str, str] = field(default_factory=dict)
    shifts: dict[str, int | None] = field(default_factory=dict)
    around_backward: AbstractContextManager = field(
        default_factory=nullcontext)
    evaluates: bool = False
    # What backward begins with is an argument (lossscale.py).
    scales_loss: bool = False
    counted: "SumByCount | None" = None
    notes: list[str] = field(default_factory=list)
    overridden: set[str] = field(default_factory=set)
    # That the step came with; None: the command line's.
    optimizer: "StepOptimizer | None" = None

    def differentiate(self, loss: torch.Tensor) -> None:
        """Adds the gradients of `loss` to those of the parameters."""
        with self.around_backward:
            loss.backward()

    def take_count(self) -> torch.Tensor | None:
        """Over how many the loss that was just computed is a sum; None of a
        mean."""
        return self.counted.take_count() if self.counted else None


class StepModule(nn.Module):
    """The step as a module of its inputs, for torch.export."""

    def __init__(self, step: Step):
        super().__init__()
        self.model = step.module
        self._loss = step.loss

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        loss = self._loss(self.model, *inputs)
        if not isinstance(loss, torch.Tensor):
            both = isinstance(loss, (tuple, list)) and len(loss) == 2
            raise ExportError(
                "expected the step to return a scalar loss, got "
                f"{type(loss).__name__}"
                + ("; with --loss sum/count it returns (sum, count)"
                   if both else ""))
        if loss.ndim or not loss.is_floating_point():
            raise ExportError(
                "expected the step to return a scalar loss, got a tensor of "
                f"shape {list(loss.shape)} and type {dtype_name(loss.dtype)}")
        return loss


@dataclass
class Held:
    """A parameter or buffer under its first name; `tied` are the others."""

    fqn: str
    tensor: torch.Tensor
    tied: list[str] = field(default_factory=list)


def parameters_of(module: nn.Module) -> list[Held]:
    """The parameters in traversal order, each once."""
    return _unique(module.named_parameters(remove_duplicate=False))


def buffers_of(module: nn.Module) -> list[Held]:
    """The buffers in traversal order, each once."""
    return _unique(module.named_buffers(remove_duplicate=False))


def _unique(named) -> list[Held]:
    held: dict[int, Held] = {}
    for fqn, tensor in named:
        if id(tensor) in held:
            held[id(tensor)].tied.append(fqn)
        else:
            held[id(tensor)] = Held(fqn, tensor)
    return list(held.values())


def loss_of(output: object) -> object:
    """The loss in what a module returned: itself, `.loss` or `["loss"]`."""
    if isinstance(output, dict) and "loss" in output:
        return output["loss"]
    return getattr(output, "loss", output)


def name_inputs(function: Callable, inputs: object, skip: int) -> dict:
    """Names positional example inputs after the parameters of `function`.

    `skip` leading parameters are not inputs. A dictionary keeps its names.
    """
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if isinstance(inputs, dict):
        named = dict(inputs)
    elif isinstance(inputs, (tuple, list)):
        # A module's own signature takes anything.
        signature = inspect.signature(
            function.forward if isinstance(function, nn.Module) else function)
        parameters = list(signature.parameters.values())[skip:]
        plain = [p.name for p in parameters if p.kind in (
            p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters)
        if len(plain) < len(inputs) and not variadic:
            raise ExportError(f"expected at most {len(plain)} example inputs, "
                              f"got {len(inputs)}")
        plain += [f"input{i}" for i in range(len(plain), len(inputs))]
        named = dict(zip(plain, inputs))
    else:
        raise ExportError("expected example inputs as a tuple or a dictionary "
                          f"of tensors, got {type(inputs).__name__}")
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            hint = ("; leave it out where the model does without"
                    if value is None else "; torch.tensor() makes one"
                    if isinstance(value, (bool, int, float, list)) else "")
            raise ExportError(f"expected example input {name} to be a tensor, "
                              f"got {type(value).__name__}{hint}")
    # One tensor given twice would become one argument.
    return {name: value.detach().clone() for name, value in named.items()}


def remove_dropout(module: nn.Module) -> list[str]:
    """Sets every dropout to probability 0; returns where, as Class.name.

    A step must give the same result on every run, and ranks must not share
    masks. Train mode stays on: normalisation layers depend on it. Layer
    dropping is a branch on a random number, which train mode alone enables,
    so modules that do it leave train mode themselves; their children do not.
    """
    places = []
    seen: set[int] = set()
    for child in module.modules():
        for holder in (child, getattr(child, "config", None)):
            if id(holder) not in seen:
                seen.add(id(holder))
                places += _set_to_zero(holder)
    stop_layer_dropping(module)
    return places


def stop_layer_dropping(module: nn.Module) -> None:
    """Modules that branch on a random number in train mode leave it."""
    for child in module.modules():
        if hasattr(child, "layerdrop"):
            child.training = False


def _set_to_zero(holder: object) -> list[str]:
    kind = type(holder).__name__
    is_layer = isinstance(holder, nn.Module) and (
        isinstance(holder, _DropoutNd) or _LAYER.fullmatch(kind))
    entries = getattr(holder, "__dict__", {})
    found = [name for name, value in entries.items()
             if type(value) in (int, float) and 0 < value <= 1
             and (PROBABILITY.fullmatch(name) and isinstance(value, float)
                  or (is_layer and name == "p"))]
    for name in found:
        entries[name] = 0.0
    return [f"{kind}.{name}" for name in found]


def dtype_name(dtype: torch.dtype) -> str:
    """`f32` for torch.float32, and so on."""
    name = str(dtype).removeprefix("torch.")
    return (name.replace("bfloat", "bf").replace("float", "f")
            .replace("uint", "ui").replace("int", "i"))
