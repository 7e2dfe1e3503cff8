#===- groups.py - The optimizer that a step comes with -------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Reads the kind, the hyper-parameters and the param_groups of an optimizer of
torch.optim, which fsdp-compile then makes by its name."""

import re
from dataclasses import dataclass

import torch
from torch import nn

from .errors import ExportError

# Those that fsdp-compile --optimizer knows by the class's name.
_KINDS = ("AdamW", "Adam", "SGD", "Adagrad", "Adadelta", "RMSprop", "NAdam",
          "RAdam", "Adamax")
# How an update is computed, not what.
_HOW = {"foreach", "fused", "capturable", "differentiable"}
# Numbers that states begin with: one for all parameters.
_INITIAL = {"initial_accumulator_value"}


@dataclass(frozen=True)
class StepOptimizer:
    """What model.mlir says of it: `fsdp.optimizer_spec`, and of each further
    group the numbers that are not the first group's, and its parameters."""

    spec: str
    numbers: dict[str, dict[str, float]]
    group_of: dict[str, str]

    def __str__(self) -> str:
        groups = "".join(f"; {name}: " + ", ".join(
            f"{key} {value:g}" for key, value in numbers.items())
            for name, numbers in self.numbers.items())
        return f"{self.spec}{groups}, which fsdp-compile makes"


def print_value(value: float | bool) -> str:
    """A hyper-parameter as `--optimizer` takes it."""
    return repr(value).lower().removesuffix(".0")


def read(optimizer: torch.optim.Optimizer, module: nn.Module) -> StepOptimizer:
    """Raises ExportError where fsdp-compile has no such optimizer, or where it
    does not hold exactly the parameters of `module` that are trained."""
    kind = type(optimizer).__name__
    if kind not in _KINDS or type(optimizer).__module__.split(".")[:2] != [
            "torch", "optim"]:
        raise ExportError(
            f"expected an optimizer of torch.optim among {', '.join(_KINDS)}, "
            f"got {type(optimizer).__module__}.{kind}; leave it out, and give "
            "fsdp-compile one by --optimizer or --optimizer-file")
    if optimizer.state:
        raise ExportError("expected an optimizer that has made no step, got "
                          f"states of {len(optimizer.state)} parameters: runs "
                          "begin with their initial values")
    first, *others = optimizer.param_groups
    usual = _values(first, optimizer)
    numbers, group_of, seen = {}, {}, set()
    names = {id(p): name for name, p in module.named_parameters()}
    for index, group in enumerate([first, *others]):
        name = re.sub(r"\W", "_", str(group.get("name", f"group{index}")))
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ExportError(
                    "expected an optimizer of the module's parameters, got "
                    f"another one of shape {list(parameter.shape)} in {name}")
            seen.add(id(parameter))
            if index:
                group_of[names[id(parameter)]] = name
        if not index:
            continue
        if name in numbers:
            raise ExportError("expected param_groups with names of their own, "
                              f"got {name} twice")
        numbers[name] = _differences(usual, _values(group, optimizer), name)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and id(parameter) not in seen:
            raise ExportError(
                f"expected every trained parameter in the optimizer, got {name} "
                "in none of its param_groups; one that is not to be trained "
                "has requires_grad=False")
    # A group that differs in nothing needs no numbers of its own.
    empty = {name for name, own in numbers.items() if not own}
    spec = f"{kind.lower()}:" + ",".join(
        f"{key}={print_value(value)}" for key, value in usual.items()
        if value is not False)
    return StepOptimizer(
        spec, {n: own for n, own in numbers.items() if n not in empty},
        {p: n for p, n in group_of.items() if n not in empty})


def _values(group: dict, optimizer: torch.optim.Optimizer) -> dict:
    """The group's numbers and flags, as fsdp-compile calls them."""
    values = {}
    for key in optimizer.defaults:
        value = group[key]
        if key in _HOW or value is None:
            continue
        if key == "betas":
            values["beta1"], values["beta2"] = map(float, value)
        elif isinstance(value, bool):
            values[key] = value
        else:
            values[key] = float(value)
    # torch.optim.AdamW is Adam with this on.
    if type(optimizer).__name__ == "AdamW":
        values.pop("decoupled_weight_decay", None)
    return values


def _differences(usual: dict, own: dict, name: str) -> dict[str, float]:
    for key, value in own.items():
        if value != usual[key] and (isinstance(value, bool)
                                    or key in _INITIAL):
            raise ExportError(
                f"expected one {key} for all param_groups, got {usual[key]} and "
                f"in {name} {value}: it decides what is computed")
    return {key: value for key, value in own.items() if value != usual[key]}
