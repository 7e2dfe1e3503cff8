#===- test_evaluation.py - What an evaluation returns --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Outputs have names, however deep they are; what is no tensor is named."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from common import built
from fsdp_export import joint
from fsdp_export.errors import ExportError
from fsdp_export.evaluation import evaluating
from torch import nn

Pair = namedtuple("Pair", "left right")


@dataclass
class State:
    mean: torch.Tensor
    scale: float


class Model(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.output = output

    def forward(self, x):
        return self.output(self.layer(x))


def evaluation(output) -> joint.Joint:
    step = built(lambda: (Model(output), (torch.randn(3, 4),),
                          lambda m, x: (m(x), m.layer(x).square().mean())[1]))
    with evaluating(step, step.inputs) as forward:
        return joint.trace(forward, compare=False)


@pytest.mark.parametrize("output, names, left_out", [
    (lambda h: h, ["output"], {}),
    (lambda h: (h, h * 2), ["output0", "output1"], {}),
    (lambda h: (h, (h * 2, [h * 3])), ["output0", "output1.0", "output1.1.0"],
     {}),
    (lambda h: {"h": h, "more": (h * 2, {"k": h * 3})},
     ["h", "more.0", "more.1.k"], {}),
    (lambda h: Pair(h, (h * 2, None)), ["left", "right.0"], {}),
    (lambda h: [State(h, 2.0), None], ["output0.mean"],
     {"output0.scale": "float"}),
    (lambda h: {"loss": h.sum(), "h": h, "inner": {"loss": h.mean()}},
     ["h", "inner.loss"], {})])
def test_names(output, names, left_out):
    traced = evaluation(output)
    assert traced.gradients == names
    assert traced.left_out == left_out


def test_equal_names():
    with pytest.raises(ExportError, match="distinct names, got a.0 twice"):
        evaluation(lambda h: {"a": (h,), "a.0": h * 2})
