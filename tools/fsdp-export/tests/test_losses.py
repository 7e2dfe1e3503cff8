#===- test_losses.py - Losses as sums with their counts ------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""--loss sum/count: which steps are taken, and what becomes of them."""

import re

import pytest
import torch
from common import built, export, hf_step
from fsdp_export import joint, lowering, verification
from fsdp_export.contract import annotate_evaluation
from fsdp_export.errors import ExportError
from fsdp_export.evaluation import evaluating
from fsdp_export.losssums import make_sum
from torch import nn
from torch.nn.functional import cross_entropy

CLASSES = 7


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(CLASSES, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids):
        return self.head(self.table(ids)).flatten(0, 1)


def summed(loss):
    """The step of `loss`, of logits and labels of which some are ignored."""
    def make():
        generator = torch.Generator().manual_seed(0)
        ids, labels = (torch.randint(0, CLASSES, (3, 5), generator=generator)
                       for _ in range(2))
        labels[0] = labels[2, 1] = -100
        return Model(), (ids, labels), lambda m, i, y: loss(m(i), y.flatten())
    step = built(make)
    make_sum(step)
    return step


def both(logits, labels):
    return cross_entropy(logits, labels, reduction="sum"), (labels >= 0).sum()


WEIGHT = torch.linspace(0.5, 2, CLASSES)


@pytest.mark.parametrize("loss", [
    both, lambda x, y: cross_entropy(x, y),
    lambda x, y: nn.NLLLoss()(x.log_softmax(-1), y),
    lambda x, y: cross_entropy(x, y, WEIGHT, label_smoothing=0.1)])
def test_is_the_mean(loss):
    """Sum by count is PyTorch's mean, and the export is PyTorch's sum."""
    step = summed(loss)
    assert verification.verify(step, *lowered(step), 0).startswith("graph and")
    batch = [*step.inputs.values()]
    total = step.loss(step.module, *batch)
    mean = loss(step.module(batch[0]), batch[1].flatten())
    if loss is both:
        mean = mean[0] / mean[1]
    torch.testing.assert_close(total / step.take_count(), mean)


def lowered(step):
    traced = joint.trace(step)
    return traced, lowering.lower(traced.graph, "forward_backward")


def results_of(text):
    return re.findall(r"(tensor<\w+>) \{(fsdp.loss\w*)\}", text)


def test_contract():
    """Both are results; labels are bound as those of a mean are."""
    texts = []
    for counts in (False, True):
        step = hf_step("gpt2", "n_layer=1,n_embd=8,n_head=1,vocab_size=16")
        if counts:
            make_sum(step)
        texts.append(export(step)[1])
    mean, text = texts
    assert results_of(mean) == [("tensor<f32>", "fsdp.loss")]
    assert results_of(text) == [("tensor<f32>", "fsdp.loss"),
                                ("tensor<i64>", "fsdp.loss_count")]
    labels = re.compile(r'fsdp.input = \{[^{}]*name = "labels"[^{}]*\}')
    assert labels.findall(mean) == labels.findall(text)


def test_evaluation():
    step = summed(both)
    with evaluating(step, step.inputs) as forward:
        traced = joint.trace(forward)
        module = lowering.lower(traced.graph, "evaluate")
        assert verification.verify(forward, traced, module, 0)
    annotate_evaluation(module, traced)
    assert [name for _, name in results_of(lowering.print_module(
        module, False))] == ["fsdp.loss", "fsdp.loss_count"]


@pytest.mark.parametrize("loss, message", [
    (lambda x, y: 2 * cross_entropy(x, y), "a loss that is computed of one"),
    (lambda x, y: x.square().mean(), "a loss that is none of both"),
    (lambda x, y: cross_entropy(x, y) + cross_entropy(-x, y),
     "a step with 2 of these"),
    (lambda x, y: (cross_entropy(x, y), (y >= 0).sum()),
     "a cross entropy with reduction='mean' in the step"),
    (lambda x, y: (x.sum(), 3), "the count as a tensor, got int"),
    (lambda x, y: (x.sum(), y), r"of rank 0 .*, got a tensor of shape \[15\]"),
    (lambda x, y: (x.sum(), x.mean().half()), "and type f16"),
    (lambda x, y: (x.sum(), y.sum(), y), r"\(sum, count\), got 3 values")])
def test_refused(loss, message):
    with pytest.raises(ExportError, match=message):
        joint.trace(summed(loss), compare=False)


def test_weighs_ranks():
    """A batch's weight as a factor of both: what ranks average is weighted."""
    def make():
        generator = torch.Generator().manual_seed(0)
        ids, labels = (torch.randint(0, CLASSES, (3, 5), generator=generator)
                       for _ in range(2))
        return Model(), (ids, labels, torch.tensor(2.5)), lambda m, i, y, w: (
            w * cross_entropy(m(i), y.flatten(), reduction="sum"),
            w * y.numel())
    step = built(make)
    make_sum(step)
    traced, module = lowered(step)
    assert verification.verify(step, traced, module, 0).startswith("graph and")
    step.loss(step.module, *step.inputs.values())
    assert float(step.take_count()) == 37.5
    assert ("tensor<f32>", "fsdp.loss_count") in results_of(export(step)[1])


def test_both_need_the_option():
    step = built(lambda: (Model(), (torch.zeros(1, 2, dtype=torch.int64),),
                          lambda m, i: (m(i).sum(), i.sum())))
    with pytest.raises(ExportError, match="with --loss sum/count it returns"):
        joint.trace(step, compare=False)
