#===- pythonstate.py - What a module remembers outside of tensors --------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Records the Python objects that a step reaches, compares them with what they
are later, and puts them back.

A step reaches its module and what its loss holds. Visited are the attributes of
modules, containers, plain objects and the cells of closures, however deep.
Parameters and buffers of the module are not: their values are arguments of the
step. Modules beside it are plain objects.
"""

import math
import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .step import Step

# More objects than this are not looked at: a data set that hangs on a module
# is not its state.
MAX_OBJECTS = 200_000

# The dictionaries in which a module holds tensors and submodules.
_OWN = ("_parameters", "_buffers", "_modules")
_CONTAINERS = (dict, list, set, deque)
_LEAVES = (torch.Tensor, type, types.ModuleType, str, bytes, int, float,
           complex, bool, type(None), torch.dtype, torch.device, torch.Size,
           torch.Generator, TorchFunctionMode, TorchDispatchMode)


@dataclass
class Change:
    """One entry of a container that differs from what was recorded."""

    path: str
    old: object
    new: object


class _Missing:
    def __repr__(self):
        return "nothing"


MISSING = _Missing()


class Snapshot:
    """The Python state of a step when this object was made."""

    def __init__(self, step: Step):
        self._kept = [(path, holder, _copy(holder))
                      for path, holder in _holders(step)]
        self._own = [(m, {name: dict(m.__dict__[name]) for name in _OWN})
                     for m in step.module.modules()]

    def changes(self) -> list[Change]:
        """What differs now, but for the module's parameters and buffers."""
        found = []
        for path, holder, old in self._kept:
            found += _differences(path, old, _copy(holder))
        return found

    def restore(self) -> None:
        """Puts everything back: state, parameters and buffers as objects."""
        for path, holder, old in self._kept:
            if _differences(path, old, _copy(holder)):
                _refill(holder, old)
        for module, kept in self._own:
            for name, old in kept.items():
                own = module.__dict__[name]
                # As a whole: an assignment may have changed the order, too.
                own.clear()
                own.update(old)


def replace_values(step: Step, kinds: type | tuple[type, ...],
                   new: Callable[[str, object], object]) -> None:
    """Replaces objects of these kinds that the step's Python state holds.

    `new(path, value)` returns the replacement, or the value itself.
    """
    for path, holder in _holders(step):
        if isinstance(holder, types.CellType):
            value = _cell(holder)
            other = _replaced(path, value, kinds, new)
            if other is not value:
                holder.cell_contents = other
            continue
        entries = _copy(holder)
        if isinstance(entries, set):
            continue
        items = (entries.items() if isinstance(entries, dict)
                 else enumerate(entries))
        target = holder if isinstance(holder, _CONTAINERS) else holder.__dict__
        for key, value in items:
            other = _replaced(_join(path, key), value, kinds, new)
            if other is not value:
                target[key] = other


def _replaced(path: str, value: object, kinds, new) -> object:
    if isinstance(value, kinds):
        return new(path, value)
    if not isinstance(value, tuple):
        return value
    parts = [_replaced(_join(path, i), x, kinds, new)
             for i, x in enumerate(value)]
    if all(a is b for a, b in zip(parts, value)):
        return value
    named = hasattr(value, "_fields")
    return type(value)(*parts) if named else type(value)(parts)


def find_tensor(step: Step, tensor: torch.Tensor) -> str | None:
    """Where the Python state holds this tensor, or None."""
    found = []

    def look(path, value):
        if value is tensor:
            found.append(path)
        return value

    replace_values(step, torch.Tensor, look)
    return found[0] if found else None


def reachable(step: Step) -> Iterator[tuple[str, object]]:
    """(path, object) of what the step reaches, modules first, each once."""
    seen: set[int] = set()
    own = {id(m) for m in step.module.modules()}
    work = deque((f"{name}." if name else "", m)
                 for name, m in step.module.named_modules())
    work.append(("loss", step.loss))
    # Objects that are made while walking would free their numbers.
    kept = []
    while work and len(seen) < MAX_OBJECTS:
        path, holder = work.popleft()
        if id(holder) in seen or isinstance(holder, _LEAVES):
            continue
        seen.add(id(holder))
        kept.append(holder)
        children = list(_children(path, holder, id(holder) in own))
        yield path, holder
        work.extend(children)


def _holders(step: Step) -> Iterator[tuple[str, object]]:
    """Everything mutable among what the step reaches."""
    for path, holder in reachable(step):
        if isinstance(holder, (*_CONTAINERS, types.CellType)) or (
                hasattr(holder, "__dict__")
                and isinstance(holder.__dict__, dict)
                and not isinstance(holder, types.FunctionType)):
            yield path, holder


def _children(path: str, holder: object,
              own: bool) -> Iterator[tuple[str, object]]:
    """The objects in `holder`; `own` are the step's own modules."""
    if isinstance(holder, nn.Module):
        dot = "" if own else "."
        for key, value in list(holder.__dict__.items()):
            if not own or key not in _OWN:
                yield f"{path}{dot}{key}", value
    elif isinstance(holder, dict):
        for key, value in list(holder.items()):
            yield _join(path, key), value
    elif isinstance(holder, (list, tuple, set, frozenset, deque)):
        for i, value in enumerate(list(holder)):
            yield _join(path, i), value
    elif isinstance(holder, types.FunctionType):
        names = holder.__code__.co_freevars
        for name, cell in zip(names, holder.__closure__ or ()):
            yield f"{name} of {holder.__qualname__}", cell
    elif isinstance(holder, types.MethodType):
        yield path, holder.__self__
        yield path, holder.__func__
    elif isinstance(holder, types.BuiltinFunctionType):
        yield path, holder.__self__
    elif isinstance(holder, types.CellType):
        yield path, _cell(holder)
    elif isinstance(getattr(holder, "__dict__", None), dict):
        for key, value in list(holder.__dict__.items()):
            yield f"{path}.{key}", value


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # Not assigned yet.
        return MISSING


def _copy(holder: object) -> object:
    """The holder's entries: a dict, list or set of their own."""
    if isinstance(holder, nn.Module):
        return {k: v for k, v in holder.__dict__.items() if k not in _OWN}
    if isinstance(holder, types.CellType):
        return [_cell(holder)]
    if isinstance(holder, dict):
        return dict(holder)
    if isinstance(holder, (list, deque)):
        return list(holder)
    if isinstance(holder, set):
        return set(holder)
    return dict(holder.__dict__)


def _refill(holder: object, old: object) -> None:
    if isinstance(holder, types.CellType):
        holder.cell_contents = old[0]
    elif isinstance(holder, (dict, set)):
        holder.clear()
        holder.update(old)
    elif isinstance(holder, (list, deque)):
        holder.clear()
        holder.extend(old)
    else:
        entries = holder.__dict__
        for key in [k for k in entries if k not in old and k not in _OWN]:
            del entries[key]
        entries.update(old)


def _differences(path: str, old: object, new: object) -> list[Change]:
    if isinstance(old, dict):
        keys = [*old, *(k for k in new if k not in old)]
        pairs = [(k, old.get(k, MISSING), new.get(k, MISSING)) for k in keys]
    elif isinstance(old, list):
        most = max(len(old), len(new))
        pairs = [(i, *(x[i] if i < len(x) else MISSING for x in (old, new)))
                 for i in range(most)]
    else:
        return [] if old == new else [Change(path, old, new)]
    return [Change(_join(path, k), a, b) for k, a, b in pairs
            if not _same(a, b)]


def _join(path: str, key: object) -> str:
    if not path or path.endswith("."):
        return f"{path}{key}"
    return f"{path}[{key!r}]"


def _same(a: object, b: object) -> bool:
    """Whether two entries are one object, or plain values that are equal."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (bool, int, str, bytes, complex, torch.dtype,
                      torch.device)):
        return a == b
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple, deque)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return False
