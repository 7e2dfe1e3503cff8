#===- outside.py - Parameters that the module does not have --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Refuses a loss that is differentiated by tensors outside of the module.

A criterion beside the module may have parameters, which PyTorch would train.
The recorded step knows them as constants. Frozen ones, and those that are used
under torch.no_grad(), are constants in PyTorch, too.
"""

from collections.abc import Sequence

import torch
from torch._subclasses import FakeTensor

from .errors import ExportError
from .step import dtype_name


def refuse_reached(root: torch.autograd.graph.Node) -> None:
    """Leaves that autograd reaches from a loss and that tracing did not make.

    Tensors without data are the step's own: parameters, inputs and what it
    computed.
    """
    seen, work = {root}, [root]
    while work:
        node = work.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None and not isinstance(leaf, FakeTensor):
            raise _refusal(leaf)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                work.append(following)


def refuse_differentiated(constants: Sequence[torch.Tensor]) -> None:
    """Constants that got a gradient, or one more, from an autograd that runs
    inside of a function's backward, as reentrant checkpoints do."""
    known = {id(c) for c in constants}
    for constant in constants:
        if not constant.is_leaf or constant.grad is None:
            continue
        if isinstance(constant.grad, FakeTensor) or id(constant.grad) in known:
            constant.grad = None
            raise _refusal(constant)


def _refusal(leaf: torch.Tensor) -> ExportError:
    return ExportError(
        f"expected parameters that the module has, got a loss that depends on "
        f"one of {dtype_name(leaf.dtype)} {list(leaf.shape)} that is not in "
        "it; make what holds it (the criterion, a list of tensors) a submodule "
        "of the module, or detach() it where it is not to be trained")
