#===- test_gradients.py - Tolerances of gradients ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The tolerance of each parameter's gradient is what rounding does to it."""

import pytest
import torch
from fsdp_export.gradients import FLOOR, RANKS, measure_gradients
from fsdp_export.recorder import InitRecorder
from fsdp_export.step import Step
from torch import nn


class Shifted(nn.Module):
    """Logits that are all shifted by one number, whose gradient is zero but
    for rounding: softmax cancels it."""

    def __init__(self, fixed: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(16, 32, bias=False)
        self.shift = nn.Parameter(torch.zeros(1))
        self.fixed = fixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Weights of float64 cannot multiply an input of float32.
        return self.linear(x.float() if self.fixed else x) + self.shift


@pytest.mark.parametrize("fixed", [False, True])
def test_rounding_noise_is_no_gradient(fixed):
    generator = torch.Generator().manual_seed(0)
    batches = {"x": torch.randn(1, RANKS, 8, 16, generator=generator),
               "y": torch.randint(32, (1, RANKS, 8), generator=generator)}
    step = Step("shifted", Shifted(fixed),
                lambda module, x, y: nn.functional.cross_entropy(module(x), y),
                {name: values[0, 0] for name, values in batches.items()},
                InitRecorder())
    before = step.module.linear.weight.clone()
    exact, expect = measure_gradients(step, batches)
    assert exact["shift"].norm() < 1e-6 * exact["linear.weight"].norm()
    assert expect["rtol"]["shift"] > 1
    assert FLOOR <= expect["rtol"]["linear.weight"] < 1e-3
    assert torch.equal(before, step.module.linear.weight)
