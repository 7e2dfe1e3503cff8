#===- randomness.py - Random numbers outside of PyTorch ------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Notices a step that draws from Python's or NumPy's generators.

What it drew while it was recorded would be a constant ever after, and another
number might have led it elsewhere.
"""

import pickle
import random
import sys

from .errors import ExportError
from .pythonstate import reachable
from .step import Step


class Generators:
    """The states of all generators when this object was made: the global ones,
    and those that the step holds."""

    def __init__(self, step: Step):
        self._step = step
        self._kept = self._states()

    def refuse_drawn(self) -> None:
        """Raises ExportError where a generator went on."""
        now = self._states()
        for name, state in self._kept.items():
            if now.get(name, state) != state:
                raise ExportError(
                    f"expected a step without random numbers, got one that "
                    f"draws from {name}; what it draws would stay the same in "
                    "every step: switch it off, or draw outside of the step "
                    "and make the numbers an input")

    def _states(self) -> dict[str, bytes]:
        found = {"Python's random": random.getstate()}
        # Nobody who has not imported it can draw from it.
        numpy = getattr(sys.modules.get("numpy"), "random", None)
        if numpy:
            found["numpy.random"] = numpy.get_state()
        for path, value in reachable(self._step):
            if isinstance(value, random.Random):
                found[f"the generator {path}"] = value.getstate()
            elif numpy and isinstance(value, numpy.RandomState):
                found[f"the generator {path}"] = value.get_state()
            elif numpy and isinstance(value, numpy.Generator):
                found[f"the generator {path}"] = value.bit_generator.state
        return {name: pickle.dumps(state) for name, state in found.items()}
