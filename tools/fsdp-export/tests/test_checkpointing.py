#===- test_checkpointing.py - What torch.utils.checkpoint leaves ---------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#

import re

import pytest
import torch
from common import built, export
from fsdp_export.checkpointing import describe
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(self.up(x).tanh())


class Model(nn.Module):
    """Of its blocks those in `chosen` are checkpointed, and a function."""

    def __init__(self, chosen, reentrant):
        super().__init__()
        self.h = nn.ModuleList(Block() for _ in range(3))
        self.chosen, self.reentrant = chosen, reentrant

    def forward(self, x):
        for i, block in enumerate(self.h):
            x = (checkpoint(lambda t, b=block: b(t), x,
                            use_reentrant=self.reentrant)
                 if i in self.chosen else block(x))
        x = checkpoint(torch.tanh, x, use_reentrant=self.reentrant)
        return (x ** 2).mean()


@pytest.mark.parametrize("reentrant", [False, True])
def test_modules_are_recorded(reentrant):
    step = built(lambda: (Model({1, 2}, reentrant), {"x": torch.randn(2, 4)}))
    joint, text = export(step)
    assert joint.checkpointed == ["h.1", "h.2"]
    assert joint.nameless_checkpoints == 1
    assert re.findall(r'checkpoint = true, class = "(\w+)", fqn = "([^"]+)"',
                      text) == [("Block", "h.1"), ("Block", "h.2")]
    notes = describe(joint.checkpointed, joint.nameless_checkpoints,
                     step.module)
    assert "2 Block (h.1, ..)" in notes[0]
    assert "--checkpoint h.1,h.2 would" in notes[0]
    assert "1 checkpointed function called no module" in notes[1]


def test_all_of_a_class():
    step = built(lambda: (Model({0, 1, 2}, False), {"x": torch.randn(2, 4)}))
    joint, _ = export(step)
    notes = describe(joint.checkpointed, 0, step.module)
    assert len(notes) == 1 and "--checkpoint module:Block would" in notes[0]


def test_nothing_is_said_of_other_steps():
    assert describe([], 0, nn.Linear(1, 1)) == []
