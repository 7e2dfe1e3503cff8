#===- test_draws.py - What a step draws is drawn anew by the program -----===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""A step that draws runs in PyTorch with the numbers of docs/random.md, so that
its export is compared with it as any other."""

import itertools
import re

import pytest
import torch
from common import built
from fsdp_export import draws
from fsdp_export.errors import ExportError
from fsdp_export.exporter import Options, export
from fsdp_export.optimizers import parse
from test_dropout import (Block, differentiated_inside, in_a_hook,
                          not_reentrant, reentrant)
from torch import nn
from torch.nn import functional


def exported(make, folder, **options) -> tuple[list[str], str]:
    """What is said of the step, and model.mlir."""
    lines = export(built(make), folder / "x", Options(
        optimizer=parse("sgd:lr=0.1"), **options))
    return lines, (folder / "x" / "model.mlir").read_text()


def drawn(text: str) -> list[tuple[str, str, int]]:
    """Kind, name and site of each argument that is drawn."""
    return [(kind, name, int(site)) for kind, name, site in re.findall(
        r'fsdp.random = {kind = "(\w+)", name = "([^"]*)", site = (\d+)', text)]


def test_known_answers():
    """Of Random123, as test/data/RandomTest.cpp has them."""
    ones = torch.tensor([0xFFFFFFFF])
    found = draws.philox([ones] * 4, [0xFFFFFFFF] * 2)
    assert [int(word) for word in found] == [
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_places():
    with draws.at(0, 0):
        first = draws.Draw("uniform", 3, (2, 3), "").values()
    with draws.at(1, 0):
        assert not draws.Draw("uniform", 3, (2, 3), "").values().equal(first)
    with draws.at(0, 1):
        assert not draws.Draw("uniform", 3, (2, 3), "").values().equal(first)
    # Numbers are the elements', whatever the shape is.
    assert draws.Draw("uniform", 3, (6,), "").values().equal(first.view(-1))


def test_keep_rates():
    """Over sites, steps, ranks and micro-batches, within four standard errors;
    nor does one say anything of another."""
    count, keep = 1 << 14, 0.9
    masks = []
    for site, step, rank, micro in itertools.product((0, 1, 65535), (0, 1, 999),
                                                     (0, 1, 4095), (0, 3)):
        with draws.at(step, rank, micro):
            drawn = draws.Draw("uniform", site, (count,), "").values()
        masks.append((drawn < keep).double() - keep)
    scores = torch.stack(masks).sum(1) / (count * keep * (1 - keep)) ** 0.5
    assert scores.abs().max() < 4
    together = torch.stack(masks) @ torch.stack(masks).T
    together = together / (count ** 0.5 * keep * (1 - keep))
    apart = together - torch.diag(together.diagonal())
    # Of 1431 pairs one is as far as this once in 2000 times.
    assert apart.abs().max() < 5


def test_moments():
    """Over a million elements, within four standard errors."""
    count = 1 << 20
    uniform = draws.Draw("uniform", 0, (count,), "").values().double()
    assert abs(uniform.mean() - 0.5) < 4 * (1 / 12 / count) ** 0.5
    normal = draws.Draw("normal", 1, (count,), "").values().double()
    assert abs(normal.mean()) < 4 / count ** 0.5
    assert abs(normal.var() - 1) < 4 * (2 / count) ** 0.5
    assert abs((normal ** 4).mean() - 3) < 4 * (96 / count) ** 0.5
    keep = (uniform < 0.9).double().mean()
    assert abs(keep - 0.9) < 4 * (0.09 / count) ** 0.5


class Layers(nn.Module):
    def __init__(self, layer, shape=(4, 6, 8)):
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(8, 8), layer, nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.layer(torch.tanh(self.first(x)))).square().mean()


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def attention(x):
    q = x.view(4, 6, 2, 4).transpose(1, 2)
    y = functional.scaled_dot_product_attention(q, q, q, dropout_p=0.3,
                                                is_causal=True)
    return y.transpose(1, 2).reshape(4, 6, 8)


OPERATIONS = {
    "dropout": (nn.Dropout(0.25), ["uniform"]),
    "all_dropped": (nn.Dropout(1.0), ["uniform"]),
    "none_dropped": (nn.Dropout(0.0), None),
    "dropout1d": (nn.Dropout1d(0.5), ["uniform"]),
    "alpha_dropout": (nn.AlphaDropout(0.3), ["uniform"]),
    "feature_alpha_dropout": (nn.FeatureAlphaDropout(0.3), ["uniform"]),
    "attention": (Call(attention), ["uniform"]),
    "drop_path": (Call(lambda x: x * x.new_empty(4, 1, 1).bernoulli_(0.8) / 0.8),
                  ["uniform"]),
    "bernoulli": (Call(lambda x: x * torch.bernoulli(x.sigmoid())), ["uniform"]),
    "rand_like": (Call(lambda x: x + torch.rand_like(x)), ["uniform"]),
    "rand": (Call(lambda x: x + torch.rand(6, 8)), ["uniform"]),
    "scalar": (Call(lambda x: x * torch.rand(())), ["uniform"]),
    "randn": (Call(lambda x: x + torch.randn(8)), ["normal"]),
    "uniform_": (Call(lambda x: x * torch.empty_like(x).uniform_(-1, 2)),
                 ["uniform"]),
    "normal_": (Call(lambda x: x + torch.empty_like(x).normal_(1, 0.5)),
                ["normal"]),
    "several": (Call(lambda x: functional.dropout(x, 0.1) + torch.randn_like(x)
                     + functional.dropout(x, 0.9)),
                ["uniform", "normal", "uniform"]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, tmp_path):
    layer, kinds = OPERATIONS[name]
    lines, text = exported(
        lambda: (Layers(layer), (torch.randn(4, 6, 8),)), tmp_path)
    assert "verified: graph and MLIR, 2 batches" in lines
    assert [kind for kind, _, _ in drawn(text)] == (kinds or [])
    assert [site for _, _, site in drawn(text)] == [*range(len(kinds or []))]
    if kinds:
        assert f"random numbers drawn in {len(kinds)} places: layer" in lines


@pytest.mark.parametrize("run", [not_reentrant, reentrant,
                                 differentiated_inside])
def test_checkpointed_parts_draw_once(run, tmp_path):
    """What runs again in backward draws what it drew in forward."""
    lines, text = exported(lambda: (Block(run), (torch.randn(4, 8),)), tmp_path,
                           reference=1)
    assert "verified: graph and MLIR, 2 batches" in lines
    assert len(drawn(text)) == 1


def test_narrow_floats(tmp_path):
    def make():
        net = Layers(nn.Dropout(0.5)).to(torch.bfloat16)
        return net, (torch.randn(4, 6, 8).to(torch.bfloat16),)
    lines, text = exported(make, tmp_path)
    assert "verified: graph and MLIR, 2 batches, also in f32" in lines
    assert [kind for kind, _, _ in drawn(text)] == ["uniform"]


def test_narrow_uniform_numbers_stay_below_1(tmp_path):
    """As PyTorch's do: rounding to bf16 would make one of 512 a 1."""
    mode = draws.Draws()
    with draws._first_site(), mode:
        for dtype in (torch.bfloat16, torch.float16):
            like = torch.zeros(1 << 14, dtype=dtype)
            for values in (torch.rand_like(like), torch.rand(1 << 14, dtype=dtype),
                           like.uniform_()):
                assert float(values.max()) < 1
                assert abs(float(values.double().mean()) - 0.5) < 0.02


def seeds(x):
    torch.manual_seed(0)
    return functional.dropout(x, 0.5)


def own_generator(x):
    return x + torch.rand(8, generator=torch.Generator().manual_seed(0))


def puts_back(x):
    with torch.random.fork_rng(devices=[]):
        noise = torch.randn_like(x)
    return functional.dropout(x, 0.5) + noise


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8, num_layers=2, dropout=0.4, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


REFUSED = {
    "state": (Call(puts_back), "leaves the state of PyTorch's generator alone"),
    "recurrent": (Recurrent(), "got 0.4 in layer.lstm: make it modules of one"),
    "seed": (Call(seeds), "leaves PyTorch's seed alone, got one that draws "
                          "elsewhere or sets it"),
    "generator": (Call(own_generator), "draws from PyTorch's default generator"),
    "multinomial": (Call(lambda x: x + torch.multinomial(
        torch.ones(8), 8, replacement=True)), "uniform_ or normal_, got multinomial "
                                              "in layer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    layer, message = REFUSED[name]
    with pytest.raises(ExportError, match=message):
        exported(lambda: (Layers(layer), (torch.randn(4, 6, 8),)), tmp_path)


def test_draws_of_backward_are_refused(tmp_path):
    with pytest.raises(ExportError, match="draws random numbers in forward"):
        exported(lambda: (Block(in_a_hook), (torch.randn(4, 8),)), tmp_path)


def test_evaluations_draw_nothing(tmp_path):
    inputs = {"x": torch.randn(4, 6, 8)}
    lines, text = exported(lambda: (Layers(nn.Dropout(0.5)), inputs), tmp_path,
                           evaluation=inputs)
    assert len(drawn(text)) == 1
    noisy = Call(lambda x: x + torch.randn_like(x))
    with pytest.raises(ExportError, match="evaluation without random numbers, "
                                          "got one that draws them in layer"):
        exported(lambda: (Layers(noisy), inputs), tmp_path, evaluation=inputs)
