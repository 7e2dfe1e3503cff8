#===- test_batches.py - Another batch than the example -------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What ascends in the example ascends in the batches that are drawn."""

import pytest
import torch
from common import built, verified
from fsdp_export.batches import ascending, other_batch
from fsdp_export.bounds import Bounds
from fsdp_export.errors import ExportError
from fsdp_export.reference import make_batches
from torch import nn
from torch.nn import functional

ENDS = torch.tensor([[50, 90, 128], [70, 100, 128]])


def other(example, bounds=None):
    return other_batch({"x": example}, {"x": bounds} if bounds else {}, 0)["x"]


@pytest.mark.parametrize("example, dims", [
    (ENDS, [0, 1]), (ENDS.flip(0), [1]), (ENDS.flip(0).T, [0]),
    (ENDS.float(), [0, 1]), (ENDS.to(torch.uint8), [0, 1]),
    (torch.tensor([1, 1, 2]), [0]), (ENDS.flip(1), [0]), (torch.ones(4), []),
    (torch.tensor(3), []), (torch.zeros(0), []),
    (torch.tensor([True, False]), []), (torch.tensor([1., torch.nan]), [])])
def test_what_ascends(example, dims):
    assert ascending(example) == dims


@pytest.mark.parametrize("example", [
    ENDS, ENDS.float(), ENDS.bfloat16(), ENDS.T, ENDS.flip(0).T.contiguous(),
    torch.tensor([0, 0, 7, 7]), torch.tensor([0, 2, 3]),
    torch.tensor([0, 100, 200, 255], dtype=torch.uint8)])
def test_lines_between_the_same_ends(example):
    dims = ascending(example)
    for seed in range(5):
        value = other_batch({"x": example}, {}, seed)["x"]
        assert value.shape == example.shape and value.dtype == example.dtype
        assert {*dims} <= {*ascending(value)}
    value = other(ENDS)
    assert not torch.equal(value, ENDS)
    assert torch.equal(value[:, [0, 2]], ENDS[:, [0, 2]])


def test_strict_lines_stay_strict():
    example = torch.tensor([0, 3, 5, 9])
    seen = [other_batch({"x": example}, {}, seed)["x"] for seed in range(40)]
    assert all(bool((x.diff() > 0).all()) for x in seen)
    # All that may stand between the ends does.
    assert {int(v) for x in seen for v in x[1:3]} == {*range(1, 9)}
    assert not any(torch.equal(x, example) for x in seen)


def test_lines_in_bounds():
    value = other(torch.tensor([0, 3, 9]), Bounds(0, 5, draw=(0, 5)))
    assert ascending(value) == [0] and int(value.max()) < 5


def test_no_room_for_others():
    value = other(torch.arange(8))
    assert ascending(value) == []
    assert sorted(value.tolist()) == list(range(8))


class Packed(nn.Module):
    """Attention within documents that are told by their ends."""

    def __init__(self, find):
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.head = nn.Linear(8, 30)
        self.find = find

    def forward(self, ids, ends):
        length = ids.shape[1]
        at = torch.arange(length).expand(ids.shape).contiguous()
        document = self.find(ends, at)
        same = document[:, :, None] == document[:, None]
        x = self.table(ids)
        x = functional.scaled_dot_product_attention(x, x, x, attn_mask=same)
        return functional.cross_entropy(self.head(x).flatten(0, 1),
                                        ids.flatten())


def search(ends, at):
    return torch.searchsorted(ends, at, right=True)


def bucketize(ends, at):
    return torch.bucketize(at, ends[0], right=True)


def packed(find, ends):
    return built(lambda: (Packed(find), {
        "ids": torch.randint(30, (2, 16)), "ends": ends}))


@pytest.mark.parametrize("find", [search, bucketize])
def test_documents_by_their_ends(find):
    step = packed(find, torch.tensor([[5, 9, 16], [7, 12, 16]]))
    assert verified(step) == "graph and MLIR, 2 batches"
    ends = make_batches(step, {}, 2, 0)["ends"]
    assert bool((ends.diff() > 0).all())
    step.inputs["ends"] = step.inputs["ends"].float()
    assert bool((make_batches(step, {}, 2, 0)["ends"].diff() >= 0).all())


def test_an_order_that_leaves_no_other():
    step = packed(search, torch.arange(4, 12).repeat(2, 1))
    with pytest.raises(ExportError, match="an order that an input has to have: "
                       "ends is ascending in the example .*--no-verify"):
        verified(step)
