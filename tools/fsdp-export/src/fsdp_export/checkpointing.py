#===- checkpointing.py - Modules under torch.utils.checkpoint ------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Finds the modules that a step calls under torch.utils.checkpoint.

A trace holds what is computed, and not when memory is freed: what a checkpoint
computes again in backward are the same operations once more. Which modules were
checkpointed is recorded beside the graph.
"""

from collections import defaultdict
from contextlib import ExitStack
from unittest import mock

from torch import nn
from torch.utils import checkpoint


class Checkpoints:
    """A context that sees where checkpointed forwards begin and end.

    `modules` are the outermost ones that those call, by name; `nameless` counts
    forwards that call none.
    """

    def __init__(self):
        self.modules: dict[str, None] = {}
        self.nameless = 0
        # By checkpoint around: modules that were entered when it began, and
        # whether it has called one.
        self._around: list[list] = []
        self._depth = 0
        self._patches = ExitStack()

    def __enter__(self):
        hook, function = checkpoint._checkpoint_hook, checkpoint.CheckpointFunction
        begin, end, run = hook.__enter__, hook.__exit__, function.forward

        def enter(it):
            self._begin()
            return begin(it)

        def leave(it, *error):
            self._end()
            return end(it, *error)

        def forward(*args):
            self._begin()
            try:
                return run(*args)
            finally:
                self._end()

        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(hook, "__enter__", enter))
            patches.enter_context(mock.patch.object(hook, "__exit__", leave))
            patches.enter_context(mock.patch.object(
                function, "forward", staticmethod(forward)))
            self._patches = patches.pop_all()
        return self

    def __exit__(self, *error):
        self._patches.close()

    def _begin(self) -> None:
        self._around.append([self._depth, False])

    def _end(self) -> None:
        _, called = self._around.pop()
        # One within another is computed again with it.
        self.nameless += not called and not self._around

    def enter_module(self, name: str) -> None:
        """A call of a module begins."""
        for around in self._around:
            around[1] = True
        if self._around and self._around[0][0] == self._depth:
            self.modules[name] = None
        self._depth += 1

    def leave_module(self) -> None:
        """The innermost call of a module ends."""
        self._depth -= 1


def describe(modules: list[str], nameless: int, root: nn.Module) -> list[str]:
    """What is said of checkpoints when the step is written."""
    lines = []
    by_class = defaultdict(list)
    for name in modules:
        by_class[type(root.get_submodule(name)).__name__].append(name)
    if modules:
        found = ", ".join(
            f"{len(names)} {kind} ({names[0]}{', ..' * (len(names) > 1)})"
            for kind, names in by_class.items())
        lines.append(f"note: checkpointed are {found}: fsdp-compile computes "
                     "them again in backward, as --checkpoint "
                     f"{_rule(modules, by_class, root)} would; --checkpoint "
                     "none or --recompute says otherwise")
    if nameless:
        lines.append(
            f"note: {nameless} checkpointed function{'s' * (nameless > 1)} "
            "called no module and left no record: fsdp-compile decides what is "
            "kept of them (--recompute, --checkpoint)")
    return lines


def _rule(modules: list[str], classes, root: nn.Module) -> str:
    """The classes, where that says the same, or else the names."""
    of_classes = [name for name, child in root.named_modules()
                  if type(child).__name__ in classes]
    if sorted(of_classes) == sorted(modules):
        return f"module:{','.join(classes)}"
    if "" in modules:
        return f"module:{type(root).__name__}"
    return ",".join(modules)
