#===- test_verification.py - Does the exporter notice its own faults? ----===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""An error is planted in each rewriting step; verification has to refuse the
export, and to accept it without the error."""

import re

import pytest
import torch
from common import built, hf_step, verified
from fsdp_export import (decompositions, folding, graphs, interpreter, joint,
                         lowering, rewriting, scalars, unsigned, verification)
from fsdp_export.errors import ExportError
from semantics import weigh
from torch import nn
from torch._subclasses import FakeTensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch_mlir import ir

aten = torch.ops.aten


class Everything(nn.Module):
    """Something for each rewriting: embeddings and positions, a scan, a sort,
    a convolution, writes, bytes, padding, and a buffer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 6)
        self.places = nn.Embedding(9, 6)
        self.out = nn.Linear(6, 7)
        self.conv = nn.Conv1d(6, 6, 3, padding=1)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("bytes", torch.tensor([200, 3, 130, 77, 9, 255],
                                                   dtype=torch.uint8))
        self.mask = torch.arange(5) % 2 == 0
        self.table = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0])

    def forward(self, ids, labels):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + self.conv(x.mT).mT.tanh()
        x = x * (self.bytes // 2).to(x.dtype) / 64
        x = x.cumsum(1) * self.table[:, None] / 4
        x = torch.where(self.mask[:, None], x, x ** 3)
        x = x + x.sort(-1).values + functional.pad(x, (0, 0, -1, 1))
        x = x - self.mean
        with torch.no_grad():
            self.mean.lerp_(x.mean((0, 1)), 0.1)
        return functional.cross_entropy(self.out(x).flatten(0, 1),
                                        labels.flatten())


def everything():
    return Everything(), {"ids": torch.randint(7, (2, 5)),
                          "labels": torch.randint(7, (2, 5))}


def test_without_an_error_it_is_verified():
    assert verified(built(everything)) == "graph and MLIR, 2 batches"


def _wrong(function):
    """The same result, but for one element."""
    def run(*args, **kwargs):
        result = function(*args, **kwargs)
        if result is NotImplemented:
            return result
        first = result[0] if isinstance(result, tuple) else result
        wrong = first * 1.01
        return (wrong, *result[1:]) if isinstance(result, tuple) else wrong
    return run


@pytest.mark.parametrize("op", [
    aten.pow.Tensor_Scalar, aten.convolution_backward.default, aten.nll_loss_backward.default,
    aten.embedding_dense_backward.default, aten.lerp.Scalar,
    aten.sort.default, aten.constant_pad_nd.default], ids=str)
def test_error_in_a_decomposition_is_noticed(op, monkeypatch):
    table = decompositions.decompositions()
    table[op] = _wrong(table[op])
    monkeypatch.setattr(joint, "decompositions", lambda: table)
    with pytest.raises(ExportError, match="in the traced graph and"):
        verified(built(everything))


class Gated(nn.Module):
    """What the gate multiplies gets no gradient at first."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        y = self.outer(x + self.gate * self.inner(x).tanh())
        return y.square().mean()


def test_error_behind_a_gate_is_noticed(monkeypatch):
    def gated():
        return Gated(), (torch.randn(3, 4),)
    assert verified(built(gated)) == "graph and MLIR, 2 batches"
    table = decompositions.decompositions()
    op = aten.tanh_backward.default
    table[op] = _wrong(table[op])
    monkeypatch.setattr(joint, "decompositions", lambda: table)
    with pytest.raises(ExportError, match="the gradient of inner.weight has "
                       "norm .* in the second step"):
        verified(built(gated))


def test_one_batch_is_said_where_pytorch_fails_on_the_other():
    def make():
        return nn.Linear(4, 4), (-torch.arange(8.0).view(2, 4),), loss

    def loss(m, x):
        if not isinstance(x, FakeTensor) and x[0, 0]:
            raise ValueError("expected zero first")
        return m(x).square().mean()
    assert verified(built(make)) == "graph and MLIR, 1 batch"


@pytest.mark.parametrize("plant", [
    lambda m: m.setattr(folding, "_core", lambda v: (v + 1) if
                        v.is_floating_point() else v),
    lambda m: m.setattr(unsigned, "_numbers", lambda x: x.to(torch.int32)),
    lambda m: m.setattr(graphs, "make_table", _reversed_table),
    lambda m: m.setattr(joint._AnyStride, "call_function", _negated_tanh),
], ids=["folding", "bytes", "tables", "strides"])
def test_error_in_a_rewriting_of_the_graph_is_noticed(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(ExportError, match="is not what PyTorch computes"):
        verified(built(everything))


_make_table = graphs.make_table
_call = joint._AnyStride.call_function


def _reversed_table(graph, node, value):
    return _make_table(graph, node, value.flip(0) if value.dim() else value)


def _negated_tanh(self, target, args, kwargs):
    result = _call(self, target, args, kwargs)
    return -result if target is aten.tanh.default else result


def _edit(text, pattern, replacement):
    """Changes the first match in a module's text."""
    changed, count = re.subn(pattern, replacement, text, count=1)
    assert count, pattern
    return changed


def _change_module(monkeypatch, change):
    """What the rewriting of MLIR leaves is changed as text."""
    lower = lowering.lower

    def lowered(*args, **kwargs):
        module = lower(*args, **kwargs)
        with module.context:
            return ir.Module.parse(change(module.operation.get_asm()))
    monkeypatch.setattr(lowering, "lower", lowered)


def test_error_in_scatters_is_noticed(monkeypatch):
    """Rows that are looked up twice are added up only once."""
    monkeypatch.setattr(rewriting, "_is_overwrite", lambda op: True)
    with pytest.raises(ExportError, match="words.weight has norm .* in the "
                       "MLIR and .* please report"):
        verified(built(everything))


def test_error_in_index_checks_is_noticed(monkeypatch):
    plain = rewriting._compare
    monkeypatch.setattr(
        rewriting, "_compare", lambda p, a, b: plain(
            rewriting.arith.CmpIPredicate.sgt
            if p == rewriting.arith.CmpIPredicate.sge else p, a, b))
    with pytest.raises(ExportError, match="an assertion of it does not hold"):
        for seed in range(5):  # Row 0 has to be looked up.
            torch.manual_seed(seed)
            verified(built(everything))


def test_error_in_scans_is_noticed(monkeypatch):
    plain = rewriting._combine
    monkeypatch.setattr(rewriting, "_combine",
                        lambda block, a, b: plain(block, b, b))
    with pytest.raises(ExportError, match="in the MLIR and"):
        verified(built(everything))


def test_error_in_narrowed_constants_is_noticed(monkeypatch):
    """1e-5 for 1e-6 in a norm that has to be of small numbers."""
    found = []
    plain = ir.FloatAttr.get

    def get(kind, value, *rest):
        found.append(value)
        return plain(kind, value * 4, *rest)

    module = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6, eps=0.3))
    fold = rewriting._fold_truncation

    def folded(op):
        monkeypatch.setattr(ir.FloatAttr, "get", get)
        try:
            fold(op)
        finally:
            monkeypatch.setattr(ir.FloatAttr, "get", plain)

    monkeypatch.setattr(rewriting, "_fold_truncation", folded)
    with pytest.raises(ExportError, match="in the MLIR and"):
        verified(built(lambda: (module, (torch.randn(3, 4),),
                                lambda m, x: m(x).square().sum())))
    assert found


@pytest.mark.parametrize("pattern, replacement", [
    (r"math\.exp ", "math.exp2 "),
    (r"arith\.addf (%\w+), (%\w+)", r"arith.subf \1, \2"),
    (r"arith\.cmpi sge,", "arith.cmpi sgt,"),
])
def test_error_in_the_finished_module_is_noticed(pattern, replacement,
                                                 monkeypatch):
    _change_module(monkeypatch, lambda t: _edit(t, pattern, replacement))
    with pytest.raises(ExportError, match="the export is not what PyTorch"):
        for seed in range(3):
            torch.manual_seed(seed)
            verified(built(everything))


GPT2 = ("gpt2", "n_layer=1,n_embd=16,n_head=2,vocab_size=20,n_positions=8")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_error_of_one_gradient_is_noticed(dtype, monkeypatch):
    """One weight's gradient is 5 % too large."""
    plain = joint.Joint.restore

    def restore(self, results):
        results = plain(self, results)
        at = 1 + self.gradients.index("transformer.h.0.mlp.c_fc.weight")
        results[at] = results[at] * 1.05
        return results

    monkeypatch.setattr(joint.Joint, "restore", restore)
    with pytest.raises(ExportError, match=r"of transformer\.h\.0\.mlp\.c_fc\."
                       r"weight has norm \S+ in the traced graph and \S+ in "
                       r"PyTorch, at a relative distance of 0\.0"):
        verified(hf_step(*GPT2, dtype=dtype))


def _cast(asserted):
    """A step that computes in f32 but for one place."""
    def loss(m, x):
        y = m[1](x).bfloat16()
        assert not asserted or y.dtype == torch.bfloat16
        return (m[0](x).square() + y.float()).mean()
    return lambda: (nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)]),
                    (torch.randn(5, 4),), loss)


def _autocast():
    def loss(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = m[1](x)
        return (m[0](x).square() + y.float()).mean()
    return *_cast(False)()[:2], loss


@pytest.mark.parametrize("make", [_cast(False), _autocast],
                         ids=["cast", "autocast"])
def test_narrow_floats_in_one_place_hide_no_error(make, monkeypatch):
    assert verified(built(make)) == "graph and MLIR, 2 batches, also in f32"
    plain = joint.Joint.restore

    def restore(self, results):
        results = plain(self, results)
        at = 1 + self.gradients.index("0.weight")
        results[at] = results[at] * 1.001
        return results

    monkeypatch.setattr(joint.Joint, "restore", restore)
    with pytest.raises(ExportError, match="the gradient of 0.weight has norm"):
        verified(built(make))


def test_what_was_compared_as_narrow_floats_alone_is_said():
    assert verified(built(_cast(True))) == (
        "graph and MLIR, 2 batches, at bf16 tolerance")


def test_what_the_interpreter_does_not_know_is_said(monkeypatch):
    def unknown(op):
        raise interpreter.Unsupported("operation my.op")
    monkeypatch.setattr(interpreter, "elementwise", unknown)
    assert verified(built(everything)) == (
        "graph only: the MLIR has operation my.op")


def test_nan_at_the_same_places_agrees():
    nan = torch.tensor([1.0, float("nan"), float("inf")])
    assert verification._distance(nan, nan) == 0
    assert verification._distance(nan, nan.flip(0)) == float("inf")


def test_rounding_is_measured():
    """In bf16, maxima move by a rounding, and a gradient goes elsewhere."""
    def make():
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1)).bfloat16()
        x = torch.randn(2, 3, 32, 32).bfloat16()
        return module, (x,), lambda m, x: weigh(m(x))

    assert verified(built(make)) == "graph and MLIR, 2 batches, also in f32"


class TwoCheckpoints(nn.Module):
    """A table of bf16 in a checkpoint within a checkpoint, under autocast."""

    def __init__(self):
        super().__init__()
        self.outer, self.inner = nn.Linear(4, 4), nn.Linear(4, 4)

    def scaled(self, x):
        table = torch.tensor([1.0, 2.5, -3.0, 0.1]).bfloat16()
        return self.inner(x) * table

    def both(self, x):
        return checkpoint(self.scaled, self.outer(x), use_reentrant=False)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = checkpoint(self.both, x, use_reentrant=False)
        return y.float().square().mean()


def test_tables_of_narrow_floats():
    assert verified(built(lambda: (
        TwoCheckpoints(), (torch.randn(3, 4),)))) == (
            "graph and MLIR, 2 batches, also in f32")


@pytest.mark.parametrize("kind, dtype", [("bf16", torch.bfloat16),
                                         ("f16", torch.float16)])
@pytest.mark.parametrize("count", [6, 200])
def test_constants_of_narrow_floats(kind, dtype, count):
    # Long tables are written as bytes, numbers without digits as bits.
    want = torch.randn(count).to(dtype)
    want[:4] = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0])
    bits = want.view(torch.int16).numpy()
    with ir.Context(), ir.Location.unknown():
        element = ir.Type.parse(kind)
        value = ir.DenseElementsAttr.get(bits, type=element,
                                         shape=[2, count // 2])
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            op = ir.Operation.create(
                "arith.constant", results=[value.type],
                attributes={"value": value})
        got = scalars.constant(op)()
    assert got.dtype == dtype
    assert torch.equal(got.view(-1)[3:], want[3:]) and bool(
        got.view(-1)[2].isnan())
    assert got.view(-1)[:2].tolist() == [torch.inf, -torch.inf]
