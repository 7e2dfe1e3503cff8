#===- statefulness.py - Does the second step do what the first did? ------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""A step is traced once and runs many times: what it leaves in the module and
in its loss besides the buffers may not matter to the next one.

Where the first step changed Python state, a second one is traced from there. It
has to be the same graph, and may not read tensors that the first one computed.
What shows later only is found by a third one: a number that the second one has
changed, too, may not decide anything, which the number itself notices
(watched.py); and a step that reads what the first one cached has to stay as the
second one is.
"""

from collections.abc import Sequence

import torch
from torch import fx
from torch._subclasses import FakeTensor

from .errors import ExportError
from .pythonstate import MISSING, Change, Snapshot, replace_values
from .step import Held, Step
from .tracing import Trace, record
from .watched import is_number, watch


def check(step: Step, parameters: Sequence[Held], buffers: Sequence[Held],
          first: Trace, before: Snapshot) -> None:
    """Refuses a step whose successor would differ, by what it changed.

    The module is in the state that the first trace left; `before` is the one
    that it started from.
    """
    changes = before.changes()
    if changes:
        _check_python_state(step, parameters, buffers, first, changes)
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
                        changes: list[Change]) -> None:
    again = _Repetition(step, parameters, buffers, changes)
    second = again.record()
    for path in sorted(again.read):
        if path not in first.constant:
            raise ExportError(
                f"expected a step whose state is in its buffers, got a tensor "
                f"that one step stores at {path} and the next one reads; "
                "register it with register_buffer and write into it")
    # What is always the same may be kept from the first step: then the second
    # one computes less. Verification runs both.
    if not again.read and describe(first) != describe(second):
        raise _goes_on(_list(changes))
    counters = [c for c in again.changes()
                if is_number(c.old) and is_number(c.new)]
    if not counters and not again.read:
        return
    third = again.record(counters)
    if again.noted:
        raise _goes_on(_list([c for c in counters if c.path in again.noted]))
    if describe(second) != describe(third):
        raise _goes_on(_list(counters or changes))


def _goes_on(what: str) -> ExportError:
    return ExportError(
        "expected a step that does the same every time, got one that goes on "
        f"from what it changed: {what}; keep such values in buffers, as "
        "tensors")


class _Repetition:
    """Records further steps, each from where the last one left the state."""

    def __init__(self, step: Step, parameters: Sequence[Held],
                 buffers: Sequence[Held], changes: list[Change]):
        self._step, self._changed = step, changes
        self._parameters, self._buffers = parameters, buffers
        self._before: Snapshot | None = None
        self._stored: dict[int, str] = {}
        self._kept: list[torch.Tensor] = []
        # Where the last step read tensors that an earlier one stored.
        self.read: set[str] = set()
        # Watched numbers that something depended on.
        self.noted: set[str] = set()

    def record(self, watched: Sequence[Change] = ()) -> Trace:
        """One more step, on which the numbers of `watched` are watched."""
        step, paths = self._step, {c.path for c in watched}
        replace_values(step, FakeTensor, self._stand_in)
        self._before = Snapshot(step)
        replace_values(step, (int, float), lambda path, value: watch(
            value, lambda: self.noted.add(path)) if path in paths else value)
        own = [(m, dict(m._buffers)) for m in step.module.modules()]
        _put_back_buffers(step, self._buffers)
        try:
            trace = record(step, self._parameters, self._buffers)
        except ExportError as error:
            raise ExportError("the step cannot be repeated: after it changed "
                              f"{_list(self._changed)}, {error}") from error
        finally:
            for module, entries in own:
                module._buffers.clear()
                module._buffers.update(entries)
        self.read = {self._stored[id(c)] for c in trace.constants
                     if id(c) in self._stored}
        return trace

    def changes(self) -> list[Change]:
        """What the last step changed."""
        return self._before.changes()

    def _stand_in(self, path: str, tensor: torch.Tensor) -> torch.Tensor:
        # Costs one element; its values are never looked at.
        made = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
        self._stored[id(made)] = path
        self._kept.append(made)
        return made


def _put_back_buffers(step: Step, buffers: Sequence[Held]) -> None:
    """Buffers that the step assigned are the module's own again."""
    for h in buffers:
        for name in (h.fqn, *h.tied):
            path, _, last = name.rpartition(".")
            step.module.get_submodule(path)._buffers[last] = h.tensor


def describe(trace: Trace) -> list:
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
        found.append(("constant", str(constant.dtype), tuple(constant.shape),
                      _bytes(constant) if constant.numel() <= 1 << 20
                      else id(constant)))
    return found


def _bytes(constant: torch.Tensor) -> bytes:
    return constant.detach().contiguous().flatten().view(
        torch.uint8).numpy().tobytes()


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
