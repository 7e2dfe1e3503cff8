#===- test_loss_scale.py - Backward begins with an argument --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What a step is multiplied by is an argument with --loss-scale, and nothing
without."""

import pytest
import torch
from common import built
from fsdp_export.exporter import Options, export
from fsdp_export.joint import trace
from fsdp_export.optimizers import parse
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    """Its loss is in `dtype`; a part is computed again in backward."""

    def __init__(self, dtype, reentrant=None):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)
        self.reentrant = reentrant
        self.to(dtype)

    def part(self, x):
        return torch.tanh(self.first(x))

    def forward(self, x):
        x = x.to(self.first.weight.dtype)
        hidden = self.part(x) if self.reentrant is None else checkpoint(
            self.part, x, use_reentrant=self.reentrant)
        return self.last(hidden).square().mean()


def step(*args):
    def make():
        return Model(*args), {"x": torch.randn(3, 4, requires_grad=False)}
    return built(make)


@pytest.mark.parametrize("args", [
    (torch.float32,), (torch.float16,), (torch.float64,),
    (torch.float32, False)])
def test_gradients_are_multiplied(args):
    scaled = step(*args)
    scaled.scales_loss = True
    joint = trace(scaled)
    assert joint.scales_loss
    arguments = [h.tensor.detach() for h in joint.parameters]
    arguments += joint.inputs.values()
    one = joint.run([*arguments, torch.tensor(1.0)])
    more = joint.run([*arguments, torch.tensor(16.0)])
    assert one[0].equal(more[0])  # the loss is as it was
    for a, b in zip(one[1:], more[1:]):
        assert torch.allclose(16 * a, b, rtol=2e-3 if args[0] == torch.float16
                              else 1e-6)


def test_only_where_it_is_asked_for(tmp_path):
    texts = []
    for name, asked in (("without", False), ("with", True)):
        lines = export(step(torch.float32), tmp_path / name, Options(
            optimizer=parse("sgd:lr=0.1"), loss_scale=asked))
        assert any(line.startswith("verified") for line in lines)
        texts.append((tmp_path / name / "model.mlir").read_text())
    assert "fsdp.loss_scale" not in texts[0]
    assert texts[1].count(": tensor<f32> {fsdp.loss_scale}") == 1


def test_a_sum_and_an_evaluation(tmp_path):
    """Beside --loss sum/count the count stays; an evaluation has no argument."""
    from fsdp_export import losssums

    def make():
        return nn.Linear(4, 3), {"x": torch.randn(5, 4),
                                 "y": torch.randint(0, 3, (5,))}, (
            lambda m, x, y: nn.functional.cross_entropy(m(x), y))
    of_sum = built(make)
    losssums.make_sum(of_sum)
    export(of_sum, tmp_path / "x", Options(
        optimizer=parse("sgd:lr=0.1"), loss_scale=True,
        evaluation=of_sum.inputs))
    text = (tmp_path / "x" / "model.mlir").read_text()
    assert "fsdp.loss_count" in text
    assert text.count("{fsdp.loss_scale}") == 1
