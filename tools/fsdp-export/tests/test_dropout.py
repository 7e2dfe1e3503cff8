#===- test_dropout.py - Dropout is set to 0, and nothing else ------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#

import pytest
import torch
from common import built
from fsdp_export.exporter import Options, export
from fsdp_export.optimizers import parse
from fsdp_export.step import remove_dropout
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Calls dropout with a number of its own, where it is checkpointed."""

    def __init__(self, run):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.run = run

    def block(self, x):
        y = functional.dropout(torch.tanh(self.first(x)), 0.1, self.training)
        return self.last(y)

    def forward(self, x):
        return self.run(self.block, x).square().mean()


def not_reentrant(block, x):
    return checkpoint(block, x, use_reentrant=False)


def reentrant(block, x):
    # It differentiates by arguments only.
    x = x + torch.zeros(8, requires_grad=True)
    return checkpoint(block, x, use_reentrant=True)


def differentiated_inside(block, x):
    x = x.clone().requires_grad_()
    y = checkpoint(block, x, use_reentrant=False)
    slope, = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    return y + slope


def in_a_hook(block, x):
    y = block(x)
    y.register_hook(lambda g: functional.dropout(g, 0.5))
    return y


@pytest.mark.parametrize("run", [not_reentrant, reentrant,
                                 differentiated_inside, in_a_hook])
def test_backward_runs_without_dropout(run, tmp_path):
    step = built(lambda: (Block(run), (torch.randn(4, 8),)))
    lines = export(step, tmp_path / "x", Options(
        optimizer=parse("sgd:lr=0.1"), reference=1, dropout=False))
    count = 2 if run is in_a_hook else 1
    said = f"dropout set to 0 in {count} places (--no-dropout)"
    assert f"{said}: dropout()" in lines
    assert f'fsdp.notes = ["{said}"]' in (
        tmp_path / "x" / "model.mlir").read_text()
    assert "verified: graph and MLIR, 2 batches" in lines


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop_loss_weight, self.backdrop, self.keep_prob = 0.5, 0.5, 0.9
        self.attn_pdrop, self.drop_path_rate, self.p = 0.1, 0.2, 0.3
        self.path, self.middle = DropPath(), nn.Dropout1d(0.5)


class DropPath(nn.Module):
    def __init__(self):
        super().__init__()
        self.p, self.scale_by_keep = 0.2, True


def test_only_probabilities_are_set_to_zero():
    module = Named()
    assert remove_dropout(module) == [
        "Named.attn_pdrop", "Named.drop_path_rate", "DropPath.p",
        "Dropout1d.p"]
    assert (module.drop_loss_weight, module.backdrop, module.keep_prob,
            module.p) == (0.5, 0.5, 0.9, 0.3)
    assert (module.attn_pdrop, module.path.p, module.middle.p) == (0, 0, 0)
    assert module.path.scale_by_keep is True
