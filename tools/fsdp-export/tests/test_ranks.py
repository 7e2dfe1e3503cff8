#===- test_ranks.py - Steps that know which rank they are ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Collectives are refused by name; a step that is another one on other ranks is
refused by what it asked; one that only asks is exported."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn
from common import built
from fsdp_export import joint
from fsdp_export.errors import ExportError
from torch import nn
from torch.distributed import get_rank


class Model(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.change = change
        self.group = dist.group.WORLD

    def forward(self, x):
        return self.change(self, self.layer(x)).square().mean()


def traced(change) -> joint.Joint:
    return joint.trace(built(lambda: (Model(change), (torch.randn(3, 4),))),
                       compare=False)


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0,
                            world_size=1)
    yield
    dist.destroy_process_group()


def gathers(m, h):
    parts = [torch.empty_like(h)]
    dist.all_gather(parts, h)
    return parts[0]


def reduces(m, h):
    dist.all_reduce(h)
    return h


def waits(m, h):
    dist.barrier()
    return h


def sends(m, h):
    dist.send(h, 0)
    return h


def gathers_objects(m, h):
    dist.all_gather_object([None], h.shape)
    return h


def gathers_differentiably(m, h):
    return torch.cat(torch.distributed.nn.functional.all_gather(h))


def reduces_functionally(m, h):
    return functional.all_reduce(h, "sum", dist.group.WORLD)


def reduces_by_operation(m, h):
    return torch.ops._c10d_functional.all_reduce(h, "sum", "0")


COLLECTIVES = [(gathers, "all_gather"), (reduces, "all_reduce"),
               (waits, "barrier"), (sends, "send"),
               (gathers_objects, "all_gather_object"),
               (gathers_differentiably, "nn.functional.all_gather"),
               (reduces_functionally, "_functional_collectives.all_reduce")]


@pytest.mark.parametrize("change, name", [
    *COLLECTIVES, (reduces_by_operation, "_c10d_functional.all_reduce")])
def test_collectives_are_refused(change, name, group):
    with pytest.raises(ExportError, match=rf"the collective \S*{name}.* "
                       r"\(.*test_ranks.py:\d+\); the compiler inserts FSDP's"):
        traced(change)


@pytest.mark.parametrize("change, name", COLLECTIVES)
def test_collectives_without_a_group_are_refused(change, name):
    with pytest.raises(ExportError, match=rf"the collective \S*{name} "
                       r"\(.*test_ranks.py:\d+\); the compiler inserts FSDP's"):
        traced(change)


def gathers_in_a_group(m, h):
    return gathers(m, h) if dist.is_initialized() else h


def scales_by_size(m, h):
    return h * dist.get_world_size()


def scales_by_rank(m, h):
    return h * (1 + get_rank())


def scales_by_a_held_group(m, h):
    return h * m.group.size()


def scales_by_variable(m, h):
    return h * int(os.environ.get("WORLD_SIZE", 1))


def scales_by_constant(m, h):
    return h + torch.full((4,), float(os.getenv("LOCAL_RANK", 0)))


def branches_by_variable(m, h):
    return h if "RANK" not in os.environ else 2 * h


@pytest.mark.parametrize("change, name", [
    (gathers_in_a_group, r"is_initialized\(\)"),
    (scales_by_variable, "the environment for WORLD_SIZE"),
    (scales_by_constant, "the environment for LOCAL_RANK"),
    (branches_by_variable, "the environment for RANK")])
def test_other_steps_on_other_ranks(change, name):
    with pytest.raises(ExportError, match=rf"asks \S*{name} "
                       r"\(.*test_ranks.py:\d+\).* as rank 1 of 3"):
        traced(change)


@pytest.mark.parametrize("change, name", [
    (scales_by_size, r"get_world_size\(\)"), (scales_by_rank, r"get_rank\(\)"),
    (scales_by_a_held_group, r"ProcessGroup.size or rank\(\)")])
def test_other_steps_on_other_ranks_of_a_group(change, name, group):
    before = dist.group.WORLD
    with pytest.raises(ExportError, match=rf"asks \S*{name} "
                       r"\(.*test_ranks.py:\d+\).* as rank 1 of 3"):
        traced(change)
    # Nothing is left of the ranks that were tried.
    assert dist.group.WORLD is before and dist.get_world_size() == 1
    assert before.rank() == 0 and before.size() == 1


def logs(m, h):
    if not dist.is_initialized() or dist.get_rank() == 0:
        m.seen = os.environ.get("RANK")
    return h


def test_asking_alone_is_no_difference():
    assert traced(logs).gradients == ["layer.weight", "layer.bias"]
    assert not dist.is_initialized() and "RANK" not in os.environ


def test_asking_alone_is_no_difference_in_a_group(group):
    assert traced(logs).gradients == ["layer.weight", "layer.bias"]
    assert dist.get_world_size() == 1


def test_steps_that_ask_nothing_are_recorded_once(monkeypatch):
    recorded = []
    record = joint.record
    monkeypatch.setattr(joint, "record", lambda *args: (
        recorded.append(args), record(*args))[1])
    traced(lambda m, h: h)
    assert len(recorded) == 1
    traced(logs)
    assert len(recorded) == 4
