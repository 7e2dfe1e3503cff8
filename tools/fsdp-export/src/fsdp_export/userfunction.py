#===- userfunction.py - py: models ---------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Calls a user's function that builds a module and example inputs."""

import importlib
import sys
import traceback

import torch
from torch import nn

from . import autocast, groups, ranks
from .errors import ExportError, nearest
from .recorder import InitRecorder
from .step import Step, loss_of, name_inputs


def build(target: str, recorder: InitRecorder) -> Step:
    """The step of `py:module:function`.

    The function takes nothing and returns (module, inputs) or (module,
    inputs, loss), either of them with the optimizer of the module's parameters
    as a further, last entry, if there is one. Inputs are a tuple or a dictionary of tensors. Without a
    loss the module itself returns it, or something with a `loss`; with one,
    `loss(module, *inputs)` does.
    """
    module_name, colon, function_name = target.partition(":")
    if not (module_name and colon and function_name):
        raise ExportError(f"expected py:module:function, got py:{target}")
    autocast.refuse_other_devices()
    function = _load(module_name, function_name)
    try:
        with recorder, ranks.watch() as asked:
            built = function()
    except (Exception, SystemExit) as error:
        raise ExportError(f"py:{target}: {_explain(error)}") from error
    step = make_step(built, target, module_name, recorder)
    if own := asked.describe_own():
        step.notes.append(f"while it was built, the module asked {own}: all "
                          "ranks have what this process was told")
    return step


def make_step(built: object, target: str, name: str,
              recorder: InitRecorder) -> Step:
    """The step of what a function returned; `target` is for messages."""
    if isinstance(built, tuple) and len(built) > 2 and isinstance(
            built[-1], torch.optim.Optimizer):
        step = make_step(built[:-1], target, name, recorder)
        step.optimizer = groups.read(built[-1], step.module)
        return step
    if not isinstance(built, tuple) or len(built) not in (2, 3):
        raise ExportError(
            f"py:{target}: expected (module, inputs) or (module, inputs, "
            f"loss), and maybe an optimizer, got {_describe(built)}")
    module, inputs, *rest = built
    if not isinstance(module, nn.Module):
        raise ExportError(f"py:{target}: expected a torch.nn.Module first, got "
                          f"{type(module).__name__}")
    if rest and not callable(rest[0]):
        raise ExportError(f"py:{target}: expected the loss to be a function, "
                          f"got {type(rest[0]).__name__}")
    if rest:
        loss = rest[0]
        named = name_inputs(loss, inputs, skip=1)
        if isinstance(inputs, dict):
            names = tuple(named)
            return Step(name, module,
                        lambda m, *v: loss(m, **dict(zip(names, v))),
                        named, recorder)
        return Step(name, module, loss, named, recorder)
    named = name_inputs(module, inputs, skip=0)
    names = tuple(named) if isinstance(inputs, dict) else None

    def own_loss(model, *values):
        if names:
            return loss_of(model(**dict(zip(names, values))))
        return loss_of(model(*values))

    return Step(name, module, own_loss, named, recorder)


def _load(module_name: str, function_name: str):
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise ExportError(f"expected a Python module {module_name} here or "
                              "on PYTHONPATH, found none") from None
        raise ExportError(f"{module_name}: {_explain(error)}") from error
    except (Exception, SystemExit) as error:
        raise ExportError(f"{module_name}: {_explain(error)}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [n for n, v in vars(module).items() if callable(v)]
        raise ExportError(f"expected a function {function_name} in "
                          f"{module.__file__}, found none"
                          f"{nearest(function_name, known)}")
    return function


def _explain(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _describe(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return type(value).__name__
