#===- test_operations.py - Operations one by one -------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Each operation has its own parameter in one module, so that a wrong
lowering shows up in that parameter's gradient."""

import pytest
import torch
from common import compare, export, needs_mlir
from fsdp_export import decompositions
from fsdp_export.errors import ExportError
from fsdp_export.recorder import InitRecorder
from fsdp_export.step import Step
from torch import nn
from torch.nn import functional

ELEMENTWISE = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "softplus": functional.softplus,
    "hardswish": functional.hardswish,
    "square": lambda x: x ** 2,
    "cube": lambda x: x ** 3,
    "root": lambda x: (x.abs() + 0.1) ** 0.5,
    "inverse_root": lambda x: (x.abs() + 0.1) ** -0.5,
    "power": lambda x: (x.abs() + 0.1) ** 2.5,
    "reciprocal": lambda x: 1 / (x.abs() + 0.5),
    "lerp": lambda x: torch.lerp(x, 2 * x, 0.3),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "layer_norm": lambda x: functional.layer_norm(x, (6,)),
    "rms_norm": lambda x: functional.rms_norm(x, (6,)),
    "log_softmax": lambda x: x.log_softmax(1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "std": lambda x: x.std(-1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "pad": lambda x: functional.pad(x, (1, 2)),
    "roll": lambda x: x.roll(1, 1),
    "sort": lambda x: x.sort(1).values,
    "sort_down": lambda x: x.sort(0, descending=True).values,
    "equal": lambda x: x.gather(1, (x * 0).argsort(dim=1, stable=True)),
    "topk": lambda x: x.topk(2, -1).values,
    "topk_indices": lambda x: x.gather(0, x.topk(2, 0).indices),
    "median": lambda x: x.median(1).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "histc": lambda x: x[:, :5] * torch.histc(x.detach(), 5, -1, 1),
    "fmod": lambda x: torch.fmod(x, 0.7),
    "hypot": lambda x: torch.hypot(x, x.flip(0)),
    "erfc": lambda x: torch.erfc(3 * x) * (3 * x).clamp(min=0).exp(),
    "index": lambda x: x[:, [0, 2, 2]],
    "index_from_end": lambda x: x[[-1, 0, -2]],
    "put_from_end": lambda x: torch.zeros(4, 6).index_put(
        (torch.tensor([-1, 0]), torch.tensor([-6, -1])), x[0, :2]),
    "gather_last": lambda x: x.gather(-1, torch.tensor([[3, 1]]).expand(4, 2)),
    "index_apart": lambda x: x.view(4, 2, 3)[[0, 3], :, [1, 1]],
    "index_together": lambda x: x.view(4, 2, 3)[:, [0, 1, 1], [1, 1, 2]],
    "take": lambda x: x.take(torch.tensor([[3, 1], [3, 20]])),
    "searchsorted": lambda x: x * torch.searchsorted(
        torch.linspace(-1, 1, 5), x.detach()),
    "cdist": lambda x: torch.cdist(x, torch.cat([x[:2], x[:2] + 1])),
    "cdist_1": lambda x: torch.cdist(x, x.flip(0) + 2, p=1.0),
    "bag_sum": lambda x: functional.embedding_bag(
        torch.tensor([0, 2, 3, 3, 1]), x, torch.tensor([0, 2, 2]), mode="sum",
        padding_idx=2),
    "bag_mean": lambda x: functional.embedding_bag(
        torch.tensor([[0, 2, 1], [3, 3, 1]]), x, mode="mean"),
    "bag_weighted": lambda x: functional.embedding_bag(
        torch.tensor([0, 2, 3, 3]), x, torch.tensor([0, 1, 4]), mode="sum",
        per_sample_weights=x[0, :4], include_last_offset=True),
    "grid_sample": lambda x: functional.grid_sample(
        x.view(1, 2, 3, 4), x.tanh().reshape(1, 3, 4, 2), align_corners=False),
    "eye": lambda x: x * torch.eye(4, 6) + x @ torch.eye(6),
    "nearest_1d": lambda x: functional.interpolate(x[None], 9),
    "nearest_exact": lambda x: functional.interpolate(
        x.view(1, 2, 3, 4), (5, 7), mode="nearest-exact"),
    "diagonal": lambda x: x.diagonal(1) * x.diagonal(-1)[0],
    "write": lambda x: _write(x.clone(), x),
    "scatter_last": lambda x: torch.zeros(4, 6).scatter(
        -1, torch.tensor([[3, 1], [0, 5], [2, 4], [1, 0]]), x[:, :2]),
    "gather": lambda x: x.gather(1, torch.tensor([[0, 2, 2, 1]]).expand(4, 4)),
    "index_add": lambda x: torch.zeros(9, 6).index_add(
        0, torch.tensor([1, 1, 3, 2]), x),
    "scatter_add": lambda x: torch.zeros(4, 6).scatter_add(
        1, torch.tensor([[0, 1, 1, 5, 2, 0]]).expand(4, 6), x),
    "nll": lambda x: functional.cross_entropy(
        x, torch.tensor([1, -100, 5, 0]), torch.linspace(1, 2, 6),
        reduction="none"),
    "embedding": lambda x: functional.embedding(
        torch.tensor([[1, 3], [3, 0]]), x, padding_idx=0),
    "first_rows": lambda x: functional.embedding(torch.arange(3), x),
    "attention": lambda x: functional.scaled_dot_product_attention(
        x[None], x[None], x[None], is_causal=True),
    "table": lambda x: x * torch.tensor([1.0, 2.0, 4.0, 3.0, 0.0, 7.0]),
    "booleans": lambda x: torch.where(
        torch.tensor([True, False, True, True, False, True]), x, 2 * x),
}


def _write(target, x):
    """Rows that are written one by one, as recurrences do."""
    for i in range(1, 4):
        target[i] = target[i - 1].clone() * x[i]
    return target


def convolutions() -> dict[str, nn.Module]:
    return {
        "plain": nn.Conv2d(4, 6, 3, 2, 1),
        "dilated": nn.Conv2d(4, 6, 3, 1, 2, dilation=2),
        "grouped": nn.Conv2d(4, 6, 3, 2, 2, dilation=2, groups=2),
        "depthwise": nn.Conv2d(4, 4, 5, 3, 1, groups=4),
        "patches": nn.Conv2d(4, 5, 4, 4),
        "padded_point": nn.Conv2d(4, 4, 1, 1, 1, groups=2),
        "transposed": nn.ConvTranspose2d(4, 6, 3, 2, 1),
        "transposed_groups": nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2),
        "adaptive_max_pool": nn.Sequential(nn.Conv2d(4, 3, (2, 1)),
                                           nn.AdaptiveMaxPool2d((4, 2))),
        "one_dimension": nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 4, 4, 2, 3)),
        "max_pool": nn.Sequential(nn.Conv2d(4, 3, 1), nn.MaxPool2d(3, 2, 1)),
        "average_pool": nn.Sequential(nn.Conv2d(4, 3, 1),
                                      nn.AvgPool2d(3, 2, 1)),
        "adaptive_pool": nn.Sequential(nn.Conv2d(4, 3, (2, 1)),
                                       nn.AdaptiveAvgPool2d((4, 2))),
        "adaptive_pool_uneven": nn.Sequential(nn.Conv2d(4, 3, (2, 1)),
                                              nn.AdaptiveAvgPool2d((3, 5))),
        "ceil_pool": nn.Sequential(nn.Conv2d(4, 3, 1), nn.AvgPool2d(
            3, 2, 1, ceil_mode=True)),
        "single_pool": nn.Sequential(nn.Conv2d(4, 3, 1), nn.AvgPool2d(
            (40, 7), (40, 9), (2, 1), ceil_mode=True)),
        "uncounted_pool": nn.Sequential(nn.Conv2d(4, 3, 1), nn.AvgPool2d(
            2, 3, 1, ceil_mode=True, count_include_pad=False)),
        "pool_over_channels": nn.Sequential(nn.Conv2d(4, 6, 1),
                                            nn.LocalResponseNorm(3)),
        "batch_norm": nn.Sequential(nn.Conv2d(4, 3, 1, bias=False),
                                    nn.BatchNorm2d(3)),
        "weight_norm": nn.utils.parametrizations.weight_norm(
            nn.Conv2d(4, 3, 2)),
        "weight_norm_last": nn.utils.parametrizations.weight_norm(
            nn.Conv2d(4, 3, 2), dim=3),
        "weight_norm_whole": nn.utils.parametrizations.weight_norm(
            nn.Conv2d(4, 3, 2), dim=None),
        "reflected": nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"),
        "replicated": nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate"),
        "bilinear": nn.Sequential(nn.Conv2d(4, 3, 2), nn.Upsample(
            scale_factor=2, mode="bilinear")),
        "group_norm": nn.Sequential(nn.Conv2d(4, 6, 1), nn.GroupNorm(2, 6)),
    }


def weigh(y: torch.Tensor) -> torch.Tensor:
    """A scalar in which every element counts differently."""
    weight = torch.linspace(0.1, 2, y.numel()).cos().view(y.shape)
    return ((1.3 * y + 0.2 * y.square()) * weight).sum()


class Elementwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.of = nn.ParameterDict(
            {n: nn.Parameter(torch.randn(4, 6)) for n in ELEMENTWISE})

    def forward(self, x):
        return sum(weigh(f(self.of[n] * x)) for n, f in ELEMENTWISE.items())


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.of = nn.ModuleDict(convolutions())

    def forward(self, x):
        return sum(weigh(f(x)) for f in self.of.values())


def step_of(module: nn.Module, *shape: int) -> Step:
    return Step("ops", module, lambda m, x: m(x), {"x": torch.randn(shape)},
                InitRecorder())


@needs_mlir
def test_elementwise_operations_agree_with_pytorch(tmp_path):
    compare(step_of(Elementwise(), 4, 6), tmp_path, 2e-5)


@needs_mlir
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_agree_with_pytorch(cell, tmp_path):
    layer = cell(4, 6, 2, batch_first=True, bidirectional=True)
    compare(Step("rnn", layer, lambda m, x: weigh(m(x)[0]),
                 {"x": torch.randn(2, 5, 4)}, InitRecorder()), tmp_path, 2e-5)


@needs_mlir
def test_convolutions_agree_with_pytorch(tmp_path):
    # The input's gradient is needed too: it comes from a layer below.
    below = nn.Sequential(nn.Conv2d(3, 4, 1), Convolutions())
    compare(step_of(below, 2, 3, 9, 8), tmp_path, 2e-5)


def test_elu_keeps_its_digits_near_0():
    module = nn.Sequential(nn.Linear(2, 2), nn.ELU())
    text = export(Step("elu", module, lambda m, x: m(x).sum(),
                       {"x": torch.randn(3, 2)}, InitRecorder()))[1]
    assert "math.expm1" in text


@pytest.mark.parametrize("dtype, most, tolerance", [
    (torch.float32, 9, 6e-8), (torch.float64, 26, 1e-15)])
def test_erfc_keeps_its_digits(dtype, most, tolerance):
    erfc = decompositions.decompositions()[torch.ops.aten.erfc.default]
    x = torch.linspace(-6, most, 10001, dtype=dtype)
    exact = torch.erfc(x.double())
    assert ((erfc(x).double() - exact).abs() <= tolerance * exact).all()
    ends = torch.tensor([-torch.inf, torch.inf, torch.nan], dtype=dtype)
    assert torch.equal(erfc(ends)[:2], torch.tensor([2., 0.], dtype=dtype))
    assert erfc(ends)[2].isnan()


@pytest.mark.parametrize("name, function, operation", [
    ("lgamma", torch.lgamma, "torch.aten.lgamma in inner"),
    ("sort", lambda x: x.repeat(1, 1000).sort(1).values, "sort in inner"),
    ("bag", lambda x: functional.embedding_bag(
        torch.tensor([[0, 1]]), x, mode="max"),
     "torch.aten._embedding_bag"),
])
def test_operation_without_lowering_is_named_with_its_module(
        name, function, operation):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 6))

        def forward(self, x):
            return weigh(function(self.weight * x))

    outer = nn.Sequential()
    outer.add_module("inner", Inner())
    with pytest.raises(ExportError, match=operation.replace(".", r"\.")):
        export(step_of(outer, 4, 6))
