#===- test_groups.py - Optimizers that steps come with -------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#

import pytest
import torch
from fsdp_export import groups
from fsdp_export.contract import annotate
from fsdp_export.errors import ExportError
from fsdp_export.recorder import InitRecorder
from fsdp_export.userfunction import make_step
from torch import nn


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def two_groups(module: nn.Module) -> list[dict]:
    """As nanoGPT has them: what has two dimensions decays."""
    every = list(module.parameters())
    return [{"params": [p for p in every if p.dim() >= 2],
             "weight_decay": 0.1},
            {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0,
             "name": "no decay"}]


def test_groups_are_read():
    module = net()
    optimizer = torch.optim.AdamW(two_groups(module), lr=6e-4,
                                  betas=(0.9, 0.95), fused=False)
    read = groups.read(optimizer, module)
    assert read.spec == ("adamw:lr=0.0006,beta1=0.9,beta2=0.95,eps=1e-08,"
                         "weight_decay=0.1")
    assert read.numbers == {"no_decay": {"weight_decay": 0.0}}
    assert read.group_of == dict.fromkeys(
        ("0.bias", "1.weight", "1.bias", "2.bias"), "no_decay")


@pytest.mark.parametrize("make, spec", [
    (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
     "sgd:lr=0.1,momentum=0.9,dampening=0,weight_decay=0,nesterov=true"),
    (lambda p: torch.optim.RMSprop(p, lr=torch.tensor(0.5)),
     "rmsprop:lr=0.5,momentum=0,alpha=0.99,eps=1e-08,weight_decay=0"),
    (lambda p: torch.optim.Adam(p, amsgrad=True),
     "adam:lr=0.001,beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0,"
     "amsgrad=true")])
def test_kinds_and_flags(make, spec):
    module = net()
    kind, _, values = groups.read(make(module.parameters()),
                                  module).spec.partition(":")
    assert (kind, set(values.split(","))) == (
        spec.partition(":")[0], set(spec.partition(":")[2].split(",")))


def test_groups_of_equal_numbers_are_one():
    module = net()
    optimizer = torch.optim.SGD([{"params": [p]} for p in module.parameters()],
                                lr=0.1)
    read = groups.read(optimizer, module)
    assert not read.numbers and not read.group_of


def bad_unused(module):
    return torch.optim.SGD(module[0].parameters(), lr=0.1)


def bad_other(module):
    return torch.optim.SGD([*module.parameters(), nn.Parameter(torch.ones(5))],
                           lr=0.1)


def bad_flags(module):
    first, *rest = module.parameters()
    return torch.optim.Adam([{"params": [first], "amsgrad": True},
                             {"params": rest}])


def bad_kind(module):
    return torch.optim.Adafactor(module.parameters())


@pytest.mark.parametrize("make, message", [
    (bad_unused, "got 1.weight in none of its param_groups"),
    (bad_other, r"got another one of shape \[5\] in group0"),
    (bad_flags, "expected one amsgrad for all param_groups, got True and in "
     "group1 False"),
    (bad_kind, "got torch.optim.*Adafactor; leave it out, and give "
     "fsdp-compile one by --optimizer")])
def test_what_cannot_be_said_is_refused(make, message):
    module = net()
    with pytest.raises(ExportError, match=message):
        groups.read(make(module), module)


def test_the_module_says_so():
    from fsdp_export.lowering import lower, print_module
    from fsdp_export.joint import trace
    recorder = InitRecorder()
    with recorder:
        module = net()
    built = (module, (torch.ones(2, 3),), lambda m, x: m(x).square().mean(),
             torch.optim.AdamW(two_groups(module), lr=1e-3))
    step = make_step(built, "a:b", "b", recorder)
    joint = trace(step)
    lowered = lower(joint.graph, "forward_backward")
    annotate(lowered, joint, step.module, recorder, optimizer=step.optimizer)
    text = print_module(lowered, False)
    assert 'fsdp.optimizer_spec = "adamw:lr=0.001,' in text
    assert "fsdp.optimizer_groups = {no_decay = {weight_decay = 0.0" in text
    assert text.count('group = "no_decay"') == 4
