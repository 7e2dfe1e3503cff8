#===- test_contract.py - Names, initialisers, bounds ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What the attributes of an exported module say."""

import re

import pytest
import torch
from common import export, hf_step, py_step
from fsdp_export import contract, userfunction
from fsdp_export.bounds import Bounds
from fsdp_export.recorder import InitRecorder
from fsdp_export.step import Step
from torch import nn


def attributes(text: str, kind: str) -> list[str]:
    """The bodies of all attributes of a kind, in order."""
    found = []
    for match in re.finditer(rf"fsdp\.{kind} = {{", text):
        depth, i = 1, match.end()
        while depth:
            depth += (text[i] == "{") - (text[i] == "}")
            i += 1
        found.append(text[match.end():i - 1])
    return found


@pytest.fixture(scope="module")
def mixed():
    torch.manual_seed(0)
    return export(py_step("mixed"))[1]


def test_tied_parameter_appears_once(mixed):
    parameters = attributes(mixed, "param")
    tied = [p for p in parameters if "embedding.weight" in p]
    assert len(tied) == 1 and 'tied = ["head.weight"]' in tied[0]
    assert not any('fqn = "head.weight"' in p for p in parameters)


def test_frozen_and_unused_parameters_have_no_gradient(mixed):
    gradients = " ".join(attributes(mixed, "grad"))
    for p in attributes(mixed, "param"):
        fqn = re.search(r'fqn = "([^"]+)"', p).group(1)
        frozen, unused = fqn.startswith("frozen"), fqn.startswith("unused")
        assert ("requires_grad = false" in p) == frozen, p
        assert ("unused = true" in p) == unused, p
        assert (f'"{fqn}"' in gradients) == (not frozen and not unused)


def test_only_changing_buffers_are_returned(mixed):
    assert attributes(mixed, "buffer_update") == ['fqn = "count"',
                                                  'fqn = "mean"']
    assert len(attributes(mixed, "buffer")) == 4


def test_buffers_carry_their_values(mixed):
    buffers = dict(zip(("count", "mean", "scale", "keep"),
                       attributes(mixed, "buffer")))
    assert 'kind = "constant", value = 0.0' in buffers["count"]
    assert "value = 1.500000e+00 : f64" in buffers["scale"]
    assert "dense<[false, true, true, false" in buffers["keep"]


def test_padding_row_keeps_the_values(mixed):
    assert 'kind = "values", values = dense<"0x0000' in attributes(
        mixed, "param")[1]


def test_inputs_are_bounded_by_the_tables_they_index(mixed):
    tokens, labels, weight = attributes(mixed, "input")
    assert tokens == 'high = 20 : i64, low = 0 : i64, name = "tokens"'
    assert labels == ('allowed = array<i64: -100>, high = 20 : i64, '
                      'low = 0 : i64, name = "labels"')
    assert weight == 'name = "weight"'


def test_modules_are_listed_with_their_classes(mixed):
    listed = re.search(r"fsdp\.modules = \[(.*?)\]", mixed).group(1)
    names = re.findall(r'{class = "(\w+)", fqn = "([\w.]*)"}', listed)
    assert names[:4] == [("Mixed", ""), ("Embedding", "embedding"),
                         ("Sequential", "body"), ("Linear", "body.0")]


def test_operations_carry_their_module_forward_and_backward():
    _, text = export(hf_step("gpt2", "n_layer=1,n_embd=16,n_head=2,"
                             "vocab_size=20,n_positions=8"))
    aliases = dict(re.findall(r'(#loc\d+) = loc\("([^"]+)"\)', text))
    paths = [aliases.get(a) for a in
             re.findall(r"linalg\.matmul.*loc\((#loc\d*)\)", text)]
    # Forward, then twice backward.
    assert paths.count("transformer.h.0.mlp.c_fc") == 3, paths
    assert all(paths)


def recorded(build) -> tuple[torch.Tensor, object]:
    recorder = InitRecorder()
    with recorder:
        value = build()
    return value, recorder.find(value)


def kind_of(build) -> str | None:
    known = recorded(build)[1]
    return known.kind if known else None


def fresh():
    return nn.Parameter(torch.empty(40, 30))


@pytest.mark.parametrize("build, kind, numbers", [
    (lambda: nn.init.normal_(fresh(), 0.5, 0.1), "normal", (0.5, 0.1)),
    (lambda: nn.init.uniform_(fresh(), -2, 3), "uniform", (-2, 3)),
    (lambda: nn.init.constant_(fresh(), 4), "constant", (4,)),
    (lambda: nn.init.trunc_normal_(fresh(), 0, 1, -1.5, 1.5),
     "truncated_normal", (0, 1, -1.5, 1.5)),
    # No element was ever outside: the distribution is truncated all the same.
    (lambda: nn.init.trunc_normal_(fresh(), 0, 0.02, -2, 2),
     "truncated_normal", (0, 0.02, -2, 2)),
    (lambda: nn.init.xavier_normal_(fresh()), "normal", (0, 0.169031)),
    (lambda: nn.Parameter(torch.randn(8, 9) * 0.3 + 1), "normal", (1, 0.3)),
    (lambda: nn.Parameter(3 - 2 * torch.zeros(9)), None, ()),
    (lambda: nn.Parameter(1 - torch.rand(8, 9).mul_(2)), None, ()),
    (lambda: nn.Parameter(torch.rand(8, 9).mul_(2).sub_(1)), "uniform",
     (-1, 1)),
    (lambda: nn.Parameter(torch.rand(8, 9).neg().div(4)), "uniform",
     (-0.25, 0)),
    (lambda: nn.Linear(16, 4).weight, "uniform", (-0.25, 0.25)),
    (lambda: fresh().data.normal_(std=0.2), "normal", (0, 0.2)),
    (lambda: torch.empty(5).bfloat16().fill_(0.5), "constant", (0.5,)),
])
def test_initialiser_is_recorded(build, kind, numbers):
    known = recorded(build)[1]
    if kind is None:
        # Not followed; the values are kept.
        assert known is None
        return
    assert known.kind == kind
    found = [v for k, v in vars(known).items()]
    assert found == pytest.approx(numbers, rel=1e-4, abs=1e-12)


def test_textbook_truncated_normal_is_recorded():
    def build():
        x = torch.empty(50, 40)
        low, high = (0.5 * (1 + torch.erf(torch.tensor(b / 2**0.5)).item())
                     for b in (-2, 2))
        x.uniform_(2 * low - 1, 2 * high - 1).erfinv_().mul_(0.1 * 2**0.5)
        return x.add_(0.3).clamp_(0.3 - 0.2, 0.3 + 0.2)
    known = recorded(build)[1]
    assert known.kind == "truncated_normal"
    assert list(vars(known).values()) == pytest.approx([0.3, 0.1, 0.1, 0.5],
                                                       rel=1e-3)


@pytest.mark.parametrize("build", [
    lambda: nn.Embedding(5, 6, padding_idx=2).weight,
    lambda: nn.init.orthogonal_(fresh()),
    lambda: nn.init.eye_(torch.empty(4, 4)),
    lambda: torch.randn(6, 6).tril_(),
    lambda: torch.randn(6, 6).clamp_(-1, 1),
    lambda: torch.linspace(0, 1, 5),
    lambda: torch.ones(2).mul_(torch.tensor([1.0, 2.0])),
])
def test_unexplained_values_are_not_guessed(build):
    assert kind_of(build) is None


def test_write_behind_the_recorder_is_noticed():
    def build():
        x = torch.randn(30, 30)
        x.numpy()[:] = 7
        return x
    assert kind_of(build) is None


def test_recording_goes_on_through_deep_copies():
    import copy
    assert kind_of(lambda: copy.deepcopy(nn.Linear(4, 4)).weight) == "uniform"


def test_skipped_fills_touch_nothing_but_are_recorded():
    recorder = InitRecorder(skip=True)
    with recorder:
        large = nn.Linear(1024, 512)
        cut = nn.init.trunc_normal_(torch.empty(512, 512), 5, 1, 4, 6)
        squared = torch.empty(512, 512).normal_().square()
    assert recorder.find(large.weight).kind == "uniform"
    assert not recorder.is_filled(large.weight)
    assert recorder.find(cut).low == 4
    assert recorder.is_filled(large.bias)
    assert not recorder.is_filled(squared)
    with recorder:
        large.weight.data.zero_()
    assert recorder.is_filled(large.weight)


def test_values_too_large_for_the_text_go_to_the_file():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(70000.0))

        def forward(self, x):
            return (self.weight * x).sum()

    recorder = InitRecorder()
    with recorder:
        module = Wide()
    step = Step("wide", module, lambda m, x: m(x), {"x": torch.ones(1)},
                recorder)
    _, text = export(step)
    assert 'init = {kind = "file"}' in text and len(text) < 10000


def test_boolean_tables_are_bits_as_mlir_22_reads_them():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(240))
            self.register_buffer("keep", torch.arange(240) % 3 == 0)

        def forward(self, x):
            return torch.where(self.keep, self.weight, x).sum()

    recorder = InitRecorder()
    with recorder:
        module = Table()
    _, text = export(Step("t", module, lambda m, x: m(x),
                          {"x": torch.ones(240)}, recorder))
    table = re.search(r'dense<"0x(\w+)"> : tensor<240xi1>', text).group(1)
    assert table == "499224" * 10


def test_input_names_come_from_the_loss_or_the_module():
    step = userfunction.build("models:transformer", InitRecorder())
    assert list(step.inputs) == ["src", "tgt"]


@pytest.mark.parametrize("inputs, high", [
    (("input_ids", "token_type_ids", "labels"), {"token_type_ids": 2}),
    (("input_ids", "attention_mask", "labels"), {"attention_mask": 2}),
    (("input_ids", "position_ids", "labels"), {"position_ids": 24}),
])
def test_bounds_of_further_inputs(inputs, high):
    step = hf_step("bert", "hidden_size=16,num_hidden_layers=1,"
                   "num_attention_heads=2,intermediate_size=8,vocab_size=30,"
                   "max_position_embeddings=24", inputs=inputs)
    traced, _ = export(step)
    for name, limit in ({"input_ids": 30, "labels": 30} | high).items():
        assert traced.bounds[name].draw == (0, limit)


def test_bounds_follow_the_shifted_labels_of_t5():
    step = hf_step("t5", "d_model=16,num_layers=1,num_heads=2,d_ff=8,"
                   "vocab_size=30,d_kv=8")
    traced, _ = export(step)
    assert traced.bounds == {
        "input_ids": Bounds(0, 30, draw=(0, 30)),
        "labels": Bounds(0, 30, (-100,), (0, 30))}


def test_contract_counts_are_checked():
    with pytest.raises(AssertionError, match="are named"):
        class Fake:
            class type:
                inputs, results = [1, 2], [1]
        contract.set_attributes(Fake, [{}], [{}])
