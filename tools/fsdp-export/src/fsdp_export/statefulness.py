#===- statefulness.py - Does the second step do what the first did? ------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""A step is traced once and runs many times: what it leaves in the module
besides its buffers may not matter to the next one.

Where the first step changed the module's Python state, a second one is traced
from there. It has to be the same graph, and may not read tensors that the
first one computed.
"""

from collections.abc import Sequence

import torch
from torch import fx
from torch._subclasses import FakeTensor

from .errors import ExportError
from .pythonstate import MISSING, Change, Snapshot, replace_tensors
from .step import Held, Step
from .tracing import Trace, record


def check(step: Step, parameters: Sequence[Held], buffers: Sequence[Held],
          first: Trace, before: Snapshot) -> None:
    """Refuses a step whose successor would differ, by what it changed.

    The module is in the state that the first trace left; `before` is the one
    that it started from.
    """
    changes = before.changes()
    if changes:
        _check_python_state(step, parameters, buffers, first, before, changes)
    if first.attached:
        before.restore()
        second = record(step, parameters, buffers, first.attached)
        if second.reached:
            name = buffers[second.reached[0]].fqn
            raise ExportError(
                f"expected buffers without gradients, got {name}, which keeps "
                "the step's graph: PyTorch would differentiate through earlier "
                "steps; store a value that was computed under torch.no_grad() "
                "or detach()ed")


def _check_python_state(step: Step, parameters: Sequence[Held],
                        buffers: Sequence[Held], first: Trace,
                        before: Snapshot, changes: list[Change]) -> None:
    stored: dict[int, str] = {}
    kept = []

    def replace(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, FakeTensor):
            return tensor
        # Costs one element; its values are never looked at.
        stand_in = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
        stored[id(stand_in)] = path
        kept.append(stand_in)
        return stand_in

    replace_tensors(step.module, replace)
    own = [(m, dict(m._buffers)) for m in step.module.modules()]
    _put_back_buffers(step, buffers)
    try:
        second = record(step, parameters, buffers)
    except ExportError as error:
        raise ExportError(f"the step cannot be repeated: after it changed "
                          f"{_list(changes)}, {error}") from error
    finally:
        for module, entries in own:
            module._buffers.clear()
            module._buffers.update(entries)
    read = {stored[id(c)] for c in second.constants if id(c) in stored}
    for path in sorted(read):
        if path not in first.constant:
            raise ExportError(
                f"expected a step whose state is in its buffers, got a tensor "
                f"that one step stores at {path} and the next one reads; "
                "register it with register_buffer and write into it")
    # What is always the same may be kept from the first step: then the second
    # one computes less. Verification runs both.
    if not read and _describe(first) != _describe(second):
        raise ExportError(
            "expected a step that does the same every time, got one that goes "
            f"on from what it changed in the module: {_list(changes)}; keep "
            "such values in buffers, as tensors")


def _put_back_buffers(step: Step, buffers: Sequence[Held]) -> None:
    """Buffers that the step assigned are the module's own again."""
    for h in buffers:
        for name in (h.fqn, *h.tied):
            path, _, last = name.rpartition(".")
            step.module.get_submodule(path)._buffers[last] = h.tensor


def _describe(trace: Trace) -> list:
    """Everything that the graph says, but for names."""
    numbers: dict[fx.Node, int] = {}
    found = []
    for node in trace.graph.graph.nodes:
        numbers[node] = len(numbers)
        args = fx.node.map_arg((node.args, node.kwargs),
                               lambda n: f"%{numbers[n]}")
        found.append((node.op, str(node.target) if node.op == "call_function"
                      else "", repr(args)))
    for constant in trace.constants:
        small = constant.numel() <= 1 << 20
        found.append(("constant", str(constant.dtype), tuple(constant.shape),
                      constant.tolist() if small else id(constant)))
    return found


def _list(changes: list[Change]) -> str:
    shown = [f"{c.path} ({_value(c.old)} to {_value(c.new)})"
             for c in changes[:3]]
    more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    return ", ".join(shown) + more


def _value(value: object) -> str:
    if value is MISSING or isinstance(value, (int, float, str, bool,
                                              type(None))):
        return repr(value)
    return type(value).__name__
