#===- watched.py - Numbers that notice being read ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Python numbers that say when a value depends on them.

Arithmetic with a watched number gives another one, so that counting up is no
use of the counter. A comparison, a truth value, a conversion or an index is
one. Text is not: it is for people.
"""

from collections.abc import Callable

_ARITHMETIC = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv",
               "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow",
               "rpow", "lshift", "rlshift", "rshift", "rrshift", "and", "rand",
               "or", "ror", "xor", "rxor", "neg", "pos", "abs", "invert")
_USES = ("lt", "le", "gt", "ge", "eq", "ne", "bool", "index", "int", "float",
         "complex", "round", "trunc", "floor", "ceil", "divmod", "rdivmod")


def watch(value: object, note: Callable[[], None]) -> object:
    """A number that equals `value` and calls `note` when something depends on
    it; other objects are returned as they are."""
    kind = _KINDS.get(type(value))
    if kind is None:
        return value
    watched = kind(value)
    watched.note = note
    return watched


def is_number(value: object) -> bool:
    """Whether `watch` can watch it. Booleans have two values, both of which
    two steps show."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _make(base: type) -> type:
    """A subclass of int or float."""
    def arithmetic(method):
        def run(self, *others):
            return watch(method(self, *others), self.note)
        return run

    def use(method):
        def run(self, *others):
            self.note()
            return method(self, *others)
        return run

    members = {"__hash__": base.__hash__}
    for names, wrap in ((_ARITHMETIC, arithmetic), (_USES, use)):
        for name in names:
            method = getattr(base, f"__{name}__", None)
            if method is not None:
                members[f"__{name}__"] = wrap(method)
    return type(base.__name__, (base,), members)


_KINDS = {base: _make(base) for base in (int, float)}
