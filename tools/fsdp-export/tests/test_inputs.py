#===- test_inputs.py - Bounds and shifts of inputs -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What is checked and drawn of integer inputs, and how token data fills them.

Where a test says that a value is refused or taken, PyTorch is asked too.
"""

import pytest
import torch
from common import export, hf_step
from fsdp_export.bounds import Bounds
from fsdp_export.recorder import InitRecorder
from fsdp_export.step import Step
from torch import nn
from torch.nn import functional

VOCAB = 13


class Model(nn.Module):
    """An embedding and a head; `loss` is a function of both."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 6)
        self.head = nn.Linear(6, VOCAB)

    def logits(self, ids):
        return self.head(self.embedding(ids))


def ids():
    return torch.randint(VOCAB, (2, 5))


def step_of(loss, **inputs) -> Step:
    recorder = InitRecorder()
    with recorder:
        model = Model()
    names = tuple(inputs)
    return Step("m", model, lambda m, *v: loss(m, **dict(zip(names, v))),
                inputs, recorder)


def trained(loss, **inputs):
    """The exported step's bounds and shifts."""
    traced, _ = export(step_of(loss, **inputs))
    return traced


def entropy(logits, labels, **settings):
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                                    **settings)


def plain(m, ids, labels):
    return entropy(m.logits(ids), labels)


def ignore_255(m, ids, labels):
    return functional.cross_entropy(m.logits(ids).transpose(1, 2), labels,
                                    ignore_index=255)


def ignore_a_class(m, ids, labels):
    return entropy(m.logits(ids), labels, ignore_index=7, label_smoothing=0.1)


def renamed_label(m, ids, labels):
    return entropy(m.logits(ids), torch.where(labels == 99, -100, labels))


def clamped(m, ids, labels):
    scores, keep = m.logits(ids).log_softmax(-1), labels >= 0
    found = scores.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -(found * keep).sum() / keep.sum()


def shifted(m, ids, labels):
    return entropy(m.logits(ids)[:, :-1], labels[:, 1:])


def shifted_by_padding(m, ids, labels):
    labels = functional.pad(labels, (0, 1), value=-100)[..., 1:]
    return entropy(m.logits(ids).float(), labels)


def one_hot(m, ids, labels):
    return -(m.logits(ids).log_softmax(-1)
             * functional.one_hot(labels, VOCAB)).sum(-1).mean()


@pytest.mark.parametrize("loss, expected", [
    (plain, Bounds(0, VOCAB, (-100,), (0, VOCAB))),
    (ignore_255, Bounds(0, VOCAB, (255,), (0, VOCAB))),
    (ignore_a_class, Bounds(0, VOCAB, (), (0, VOCAB))),
    (renamed_label, Bounds(0, VOCAB, (-100, 99), (0, VOCAB))),
    (clamped, Bounds(None, VOCAB, (), (0, VOCAB))),
    # No lookup reads the first label: the step itself checks the others.
    (shifted, Bounds(None, None, (-100,), (0, VOCAB))),
    (shifted_by_padding, Bounds(None, None, (-100,), (0, VOCAB))),
    (one_hot, Bounds(0, VOCAB, (), (0, VOCAB))),
])
def test_labels_are_bounded_by_what_indexing_needs(loss, expected):
    found = trained(loss, ids=ids(), labels=ids()).bounds
    assert found["labels"] == expected
    assert found["ids"] == Bounds(0, VOCAB, (), (0, VOCAB))
    agrees_with_pytorch(loss, "labels", found["labels"])


def agrees_with_pytorch(loss, name: str, bounds: Bounds):
    """What is refused fails in PyTorch; what is drawn or allowed does not."""
    for value in (-101, -100, -14, -13, -5, -1, 0, VOCAB - 1, VOCAB, 99, 255):
        inputs = {"ids": ids(), "labels": ids()}
        inputs[name] = torch.full_like(inputs[name], value)
        try:
            loss(Model(), **inputs)
            fails = False
        except (IndexError, RuntimeError):
            fails = True
        if not bounds.accepts(value):
            assert fails, value
        if value in bounds.allowed or value in range(*bounds.draw):
            assert not fails, value


def padded(m, ids, labels):
    pad = ids < 0
    rows = m.embedding(ids.masked_fill(pad, 0)) * ~pad.unsqueeze(-1)
    return entropy(m.head(rows), labels)


def written_over(m, ids, labels):
    ids = ids.clone()
    ids[ids == -1] = 3
    return entropy(m.logits(ids), labels)


def modulo(m, ids, labels):
    return entropy(m.logits(ids % VOCAB), labels)


def moved(m, ids, labels):
    return entropy(m.logits(ids + 100), labels)


def negative_rows(m, ids, labels):
    return m.embedding.weight[ids].mean() + plain(m, ids.clamp(0, 12), labels)


def guarded_by_another_input(m, ids, labels):
    return entropy(m.logits(ids.masked_fill(labels == -100, 0)), labels)


@pytest.mark.parametrize("loss, expected", [
    (padded, Bounds(None, VOCAB, (), (0, VOCAB))),
    (written_over, Bounds(-1, VOCAB, (), (0, VOCAB))),
    (modulo, Bounds(None, None, (), (0, VOCAB))),
    (moved, Bounds(-100, VOCAB - 100, (), (-100, VOCAB - 100))),
    (negative_rows, Bounds(-VOCAB, VOCAB, (), (0, VOCAB))),
    (guarded_by_another_input, Bounds(None, None, (), (0, VOCAB))),
])
def test_guarded_ids_are_not_bounded_by_the_table(loss, expected):
    start = max(expected.draw[0], -100)
    found = trained(loss, ids=ids() + start, labels=ids()).bounds["ids"]
    assert found == expected
    if loss is not guarded_by_another_input:
        agrees_with_pytorch(loss, "ids", found)


def test_mask_is_drawn_but_not_checked():
    def loss(m, ids, labels, loss_mask):
        scores = functional.cross_entropy(
            m.logits(ids).transpose(1, 2), labels, reduction="none")
        return (scores * loss_mask).sum() / loss_mask.sum()

    traced = trained(loss, ids=ids(), labels=ids(), loss_mask=ids())
    assert traced.bounds["loss_mask"] == Bounds(draw=(0, 2))
    assert traced.shifts == {"ids": 0, "labels": 1, "loss_mask": None}


@pytest.mark.parametrize("loss, shift", [
    (plain, 1), (clamped, 1), (shifted, 0), (shifted_by_padding, 0),
    # A product with one-hot labels is not followed.
    (one_hot, None),
])
def test_targets_are_found_and_shifted(loss, shift):
    shifts = trained(loss, ids=ids(), labels=ids()).shifts
    assert shifts == {"ids": 0, "labels": shift}


class Block(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.causal = causal
        self.norm, self.qkv = nn.LayerNorm(8), nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (a.view(2, 5, 2, 4).transpose(1, 2)
                   for a in self.qkv(self.norm(x)).split(8, -1))
        y = functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal)
        return x + self.out(y.transpose(1, 2).reshape(2, 5, 8))


class LanguageModel(nn.Module):
    """`middle` is attention, or a recurrent layer."""

    def __init__(self, middle):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, 8), nn.Embedding(5, 8)
        self.middle = middle()
        self.head = nn.Linear(8, VOCAB, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, idx, targets):
        x = self.tokens(idx) + self.places(torch.arange(5))
        x = self.middle(x)
        x = self.head(x[0] if isinstance(x, tuple) else x)
        return entropy(x, targets, ignore_index=-1)


@pytest.mark.parametrize("middle", [
    Block, lambda: nn.LSTM(8, 8, batch_first=True),
    lambda: nn.GRU(8, 8, batch_first=True)])
def test_targets_are_followed_through_layers(middle):
    recorder = InitRecorder()
    with recorder:
        model = LanguageModel(middle)
    traced, text = export(Step("m", model, lambda m, a, b: m(a, b),
                               {"idx": ids(), "targets": ids()}, recorder))
    assert traced.shifts == {"idx": 0, "targets": 1}
    assert 'name = "targets", shift = 1' in text


class Mixing(nn.Module):
    """Attention without parameters; `mask` says which tokens are seen."""

    def __init__(self, mask, project=lambda linear: None):
        super().__init__()
        self.mask = mask
        self.out = nn.Linear(8, 8)
        project(self.out.weight)

    def forward(self, x):
        seen = (x @ x.transpose(1, 2)).masked_fill(~self.mask, -torch.inf)
        return x + self.out(seen.softmax(-1) @ x)


def seeing(*more):
    """A causal mask, and more that is seen: (rows, columns)."""
    mask = torch.ones(5, 5).tril().bool()
    for rows, columns in more:
        mask[rows, columns] = True
    return mask


def nearly_zero(weight):
    nn.init.normal_(weight, std=1e-8)


@pytest.mark.parametrize("middle", [
    lambda: Block(causal=False),
    lambda: nn.LSTM(8, 4, batch_first=True, bidirectional=True),
    # What training opens.
    lambda: Mixing(torch.ones(5, 5).bool(), nn.init.zeros_),
    lambda: Mixing(torch.ones(5, 5).bool(), nearly_zero),
    # A prefix whose tokens see each other, and single later tokens.
    lambda: Mixing(seeing((slice(3), slice(3)))),
    lambda: Mixing(seeing((2, 3))), lambda: Mixing(seeing((0, 4))),
    lambda: Mixing(seeing((3, 4)))])
def test_the_next_token_is_no_target_where_it_is_seen(middle):
    assert shifts_of(middle) == {"idx": 0, "targets": None}


def test_what_training_may_open_is_causal_all_the_same():
    assert shifts_of(lambda: Mixing(seeing(), nn.init.zeros_)) == {
        "idx": 0, "targets": 1}


def shifts_of(middle):
    recorder = InitRecorder()
    with recorder:
        model = LanguageModel(middle)
    traced, _ = export(Step("m", model, lambda m, a, b: m(a, b),
                            {"idx": ids(), "targets": ids()}, recorder))
    return traced.shifts


@pytest.mark.parametrize("kind, config, inputs, shifts", [
    ("gpt2", "n_layer=1,n_embd=16,n_head=2,vocab_size=20,n_positions=8", None,
     {"input_ids": 0, "labels": 0}),
    ("gpt2", "n_layer=1,n_embd=16,n_head=2,vocab_size=20,n_positions=8",
     ("input_ids", "attention_mask", "labels"),
     {"input_ids": 0, "attention_mask": None, "labels": 0}),
    ("t5", "d_model=16,num_layers=1,num_heads=2,d_ff=8,vocab_size=30,d_kv=8",
     None, {"input_ids": 0, "labels": None}),
])
def test_hugging_face_models_keep_their_own_shift(kind, config, inputs,
                                                  shifts):
    traced, text = export(hf_step(kind, config, inputs=inputs))
    assert traced.shifts == shifts
    assert ('shift = "unknown"' in text) == (None in shifts.values())


def test_the_user_says_what_is_not_clear():
    step = step_of(one_hot, ids=ids(), labels=ids())
    step.shifts = {"labels": 1}
    traced, _ = export(step)
    assert traced.shifts == {"ids": 0, "labels": 1}
