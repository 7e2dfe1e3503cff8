#===- recorder.py - Watches a module being initialised -------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Finds out from which distribution each parameter was drawn.

The recorder follows what happens to every storage while a model is built,
below all Python layers, so it needs to know neither the classes of the model
nor the helper that filled a tensor. What it cannot explain it forgets, and the
exporter keeps the values instead.
"""

import math
from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .distributions import (Constant, Distribution, Normal, TruncatedNormal,
                            Uniform, erfinv)

# With `skip`, tensors of fewer elements are filled all the same: they cost
# nothing, and small tables are often computed from them.
SKIP_FROM_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Mask:
    """Marks where a normal sample lies outside [low, high]."""

    sample: StorageWeakRef
    of: Normal
    low: float
    high: float


class InitRecorder(TorchDispatchMode):
    """A context; build the model inside it, then ask `find`.

    With `skip`, large random fills are recorded without being run, so that a
    model larger than memory can be built: its pages are never touched.
    One thread.
    """

    def __init__(self, skip: bool = False):
        super().__init__()
        self._skip = skip
        self._known: dict[StorageWeakRef, Distribution | Mask | None] = {}
        self._unfilled: set[StorageWeakRef] = set()

    def find(self, tensor: torch.Tensor) -> Distribution | None:
        """The distribution of the whole tensor, or None if it is not known.

        Samples must agree with it: a write that bypassed the dispatcher shows
        up here.
        """
        known = self._of(tensor)
        if known is None or not _covers(tensor):
            return None
        if self.is_filled(tensor) and tensor.numel():
            values = tensor.detach()
            if not isinstance(known, Constant):
                values = values.to(torch.float64)
            if not known.explains(values):
                return None
        return known

    def is_filled(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has the values that its initialisers gave it."""
        return _key(tensor) not in self._unfilled

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        inputs = [x for x in tree_leaves((args, kwargs))
                  if isinstance(x, torch.Tensor)]
        record = self._explain(name, args, kwargs)
        written = _written(func, args, kwargs)
        if written and self._may_skip(name, written[0]):
            self._unfilled.add(_key(written[0]))
            self._known[_key(written[0])] = record
            return written[0]
        if name == "any" and self._accept(args[0]):
            return torch.zeros((), dtype=torch.bool)

        if name in _FILLS and _covers(written[0]):
            # What was there before does not matter any more.
            self._unfilled.discard(_key(written[0]))
        unfilled = any(_key(x) in self._unfilled for x in inputs)
        out = func(*args, **kwargs)
        for tensor in written:
            self._write(tensor, record if len(written) == 1 else None)
        read = {_key(x) for x in inputs}
        made = [x for x in tree_leaves(out)
                if isinstance(x, torch.Tensor) and _key(x) not in read]
        self._known.update((_key(x), record) for x in made)
        if unfilled:
            self._unfilled.update(map(_key, [*written, *made]))
        return out

    def _of(self, tensor: object) -> Distribution | None:
        if not isinstance(tensor, torch.Tensor):
            return None
        known = self._known.get(_key(tensor))
        return None if isinstance(known, Mask) else known

    def _write(self, target: torch.Tensor,
               record: Distribution | Mask | None) -> None:
        key = _key(target)
        if not _covers(target) and not (isinstance(record, Constant)
                                        and self._known.get(key) == record):
            record = None
        self._known[key] = record

    def _may_skip(self, name: str, target: torch.Tensor) -> bool:
        return (self._skip and name in _SAMPLERS and _covers(target)
                and target.numel() >= SKIP_FROM_ELEMENTS)

    def _accept(self, mask: torch.Tensor) -> bool:
        """Conditions a normal sample that was found to lie within bounds.

        Rejection sampling asks `any` until the answer is no. A skipped sample
        has no values to ask, and counts as accepted.
        """
        known = self._known.get(_key(mask))
        if not isinstance(known, Mask):
            return False
        if known.sample not in self._unfilled and bool(mask.any()):
            return False
        self._known[known.sample] = TruncatedNormal(
            known.of.mean, known.of.std, known.low, known.high)
        return True

    def _explain(self, name: str, args: tuple,
                 kwargs: dict) -> Distribution | Mask | None:
        """What the result of an operation is, if that is known."""
        if name in _CONSTANTS:
            return Constant(_CONSTANTS[name])
        if name in _FACTORIES:
            return _FACTORIES[name]
        if name in ("full", "full_like", "new_full", "fill_", "fill"):
            value = _number(kwargs.get("fill_value", args[1]))
            return None if value is None else Constant(value)
        if name in _SAMPLERS:
            make, names = _SAMPLERS[name]
            given = dict(zip(names, args[1:])) | kwargs
            return make(*(float(given.get(n, d))
                          for n, d in zip(names, (0.0, 1.0))))
        if name in ("clone", "_to_copy", "lift_fresh", "lift_fresh_copy"):
            dtype = kwargs.get("dtype")
            return (None if dtype and not dtype.is_floating_point
                    else self._of(args[0]))
        if name in ("copy_", "copy"):
            source = self._of(args[1])
            same = args[0].numel() == args[1].numel() and _covers(args[1])
            return source if same or isinstance(source, Constant) else None
        if name == "where" and len(args) == 3:
            return self._explain_where(*args)
        return self._explain_map(name, args, kwargs)

    def _explain_where(self, mask, fresh, old) -> Distribution | None:
        """Rejected elements drawn again: the same normal, still unchecked."""
        known, result = self._known.get(_key(mask)), self._of(old)
        if isinstance(known, Mask) and self._of(fresh) == result == known.of:
            return result
        return None

    def _explain_map(self, name: str, args: tuple,
                     kwargs: dict) -> Distribution | Mask | None:
        """Functions of one known sample and of numbers."""
        if not args or (sample := self._of(args[0])) is None:
            return self._explain_or(name, args)
        other = _number(args[1]) if len(args) > 1 else None
        base = name.removesuffix("_")
        if isinstance(sample, Normal) and other is not None:
            if base in ("lt", "le"):
                return Mask(_key(args[0]), sample, other, math.inf)
            if base in ("gt", "ge"):
                return Mask(_key(args[0]), sample, -math.inf, other)
        if base == "erfinv":
            return erfinv(sample)
        if base == "neg":
            return sample.affine(-1.0, 0.0)
        if base == "clamp":
            low, high, *_ = (*args[1:3], None, None)
            return _clamp(sample, kwargs.get("min", low),
                          kwargs.get("max", high))
        if other is None or "rounding_mode" in kwargs:
            return None
        alpha = kwargs.get("alpha", 1)
        match base:
            case "mul":
                return sample.affine(other, 0.0)
            case "div" if other:
                return sample.affine(1 / other, 0.0)
            case "add":
                return sample.affine(1.0, other * alpha)
            case "sub":
                return sample.affine(1.0, -other * alpha)
        return None

    def _explain_or(self, name: str, args: tuple) -> Mask | None:
        if name not in ("bitwise_or", "__or__", "logical_or"):
            return None
        masks = [self._known.get(_key(x)) for x in args[:2]
                 if isinstance(x, torch.Tensor)]
        if len(masks) < 2 or not all(isinstance(m, Mask) for m in masks):
            return None
        a, b = masks
        if a.sample != b.sample:
            return None
        return Mask(a.sample, a.of, max(a.low, b.low), min(a.high, b.high))


_CONSTANTS = {"zeros": 0.0, "zeros_like": 0.0, "new_zeros": 0.0, "zero_": 0.0,
              "ones": 1.0, "ones_like": 1.0, "new_ones": 1.0}
_FACTORIES = {"rand": Uniform(0.0, 1.0), "rand_like": Uniform(0.0, 1.0),
              "randn": Normal(0.0, 1.0), "randn_like": Normal(0.0, 1.0)}
_SAMPLERS = {"normal_": (Normal, ("mean", "std")),
             "uniform_": (Uniform, ("from", "to"))}
_FILLS = {"normal_", "uniform_", "zero_", "fill_", "copy_"}


def _key(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def _covers(tensor: torch.Tensor) -> bool:
    """Whether the tensor is its whole storage, each element once."""
    size = tensor.numel() * tensor.element_size()
    if size != tensor.untyped_storage().nbytes():
        return False
    return all(stride or size == 1
               for size, stride in zip(tensor.shape, tensor.stride()))


def _number(value: object) -> float | None:
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value.item())
    return None


def _clamp(sample: Distribution, low: object,
           high: object) -> Distribution | None:
    """Clamping between numbers, either of which may be absent."""
    bounds = [default if x is None else _number(x)
              for x, default in ((low, -math.inf), (high, math.inf))]
    return None if None in bounds else sample.clamp(*bounds)


def _written(func, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """The tensors that an operation writes, by its schema."""
    if not func._schema.is_mutable:
        return []
    written = []
    for i, arg in enumerate(func._schema.arguments):
        if arg.alias_info is not None and arg.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(arg.name)
            written += [x for x in tree_leaves(value)
                        if isinstance(x, torch.Tensor)]
    return written
