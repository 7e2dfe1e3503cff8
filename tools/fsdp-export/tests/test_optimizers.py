#===- test_optimizers.py - @optimizer against torch.optim ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#

import pytest
import torch
from common import needs_mlir, parse
from fsdp_export import lowering, optimizers
from fsdp_export.errors import ExportError
from native import Native


def export(spec: str, folder, dtype=torch.float32) -> Native:
    module = optimizers.lower_optimizer(optimizers.parse(spec), dtype)
    source = folder / "optimizer.mlir"
    source.write_text(lowering.print_module(module, False))
    parse(source)
    return Native(source, folder, "optimizer")


@needs_mlir
@pytest.mark.parametrize("spec", [
    "adamw", "adamw:lr=1e-2,beta1=0.5,beta2=0.999,eps=1e-5,weight_decay=0",
    "sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01"])
# The second size is below the vector width and differs from the traced one.
@pytest.mark.parametrize("size", [37, 1])
def test_optimizer_follows_torch_for_five_steps(spec, size, tmp_path):
    step = export(spec, tmp_path)
    optimizer = optimizers.parse(spec)
    reference = torch.nn.Parameter(torch.randn(size))
    theirs = optimizer.make([reference])
    states = ([torch.zeros(size), torch.zeros(size), torch.zeros(())]
              if optimizer.name == "adamw" else
              [torch.zeros(size)] if optimizer.hyper["momentum"] else [])
    state = [reference.detach().clone(), *states]
    # A warm-up from 0 must not end in NaN.
    for lr in (0.0, 1e-3, 1e-2, 1e-2, 5e-3):
        gradient = torch.randn(size)
        reference.grad = gradient.clone()
        theirs.param_groups[0]["lr"] = lr
        theirs.step()
        state = step([state[0], gradient, *state[1:], torch.tensor(lr)], state)
        torch.testing.assert_close(state[0], reference.detach(), rtol=2e-5,
                                   atol=1e-6)


@needs_mlir
def test_narrow_parameters_are_rounded_once(tmp_path):
    step = export("adamw:beta2=0.95,weight_decay=0.1", tmp_path, torch.bfloat16)
    param, gradient = torch.randn(2, 16).bfloat16()
    zero = torch.zeros(16).bfloat16()
    new, m, v, count = step(
        [param, gradient, zero, zero, torch.zeros(()), torch.tensor(1e-2)],
        [param, zero, zero, torch.zeros(())])
    g = gradient.float()
    torch.testing.assert_close(m, (0.1 * g).bfloat16(), rtol=8e-3, atol=0)
    torch.testing.assert_close(v, (0.05 * g * g).bfloat16(), rtol=8e-3, atol=0)
    want = param.float() * (1 - 1e-3) - 1e-2 * g.sign()
    torch.testing.assert_close(new, want.bfloat16(), rtol=8e-3, atol=1e-4)
    assert count == 1


def test_roles_names_and_defaults():
    module = optimizers.lower_optimizer(
        optimizers.parse("adamw:lr=0.25"), torch.float32)
    text = str(module)
    for role in ('name = "param", role = "param"',
                 'name = "grad", role = "grad"',
                 'init = 0.000000e+00 : f64, name = "exp_avg", role = "state"',
                 'init = 0.000000e+00 : f64, name = "step", role = "state"',
                 'default = 2.500000e-01 : f64, name = "lr", role = "scalar"'):
        assert role in text
    assert "cf.assert" not in text
    # torch.optim.AdamW's own, by name.
    wanted = torch.optim.AdamW([torch.zeros(1)]).defaults
    hyper = optimizers.parse("adamw").hyper
    assert hyper == {"lr": wanted["lr"], "beta1": wanted["betas"][0],
                     "beta2": wanted["betas"][1], "eps": wanted["eps"],
                     "weight_decay": wanted["weight_decay"]}


def test_plain_sgd_has_no_state():
    module = optimizers.lower_optimizer(optimizers.parse("sgd"), torch.float32)
    assert "state" not in str(module)


@pytest.mark.parametrize("spec, message", [
    ("adam", "expected adamw, sgd or none, got adam"),
    ("adamw:beta=1", "adamw has no beta; did you mean beta"),
    ("rmsprop", "--optimizer none: fsdp-compile --optimizer NAME:.. has adam, rmsprop"),
    ("my_own", "--optimizer-file takes functions in MLIR"),
    ("adamw:lr=1e-3,lr=2e-3", "expected lr once, got lr=1e-3,lr=2e-3"),
    ("adamw:lr", "expected lr=number and not negative, got lr"),
    ("adamw:lr=-1", "not negative"),
    ("adamw:beta2=1", "below 1"),
    ("sgd:lr=nan", "expected lr=number"),
    ("none:lr=1", "expected adamw, sgd or none"),
])
def test_bad_specification_is_refused(spec, message):
    with pytest.raises(ExportError, match=message):
        optimizers.parse(spec)


@needs_mlir
def test_the_optimizer_is_named_without_its_rate(tmp_path):
    source = tmp_path / "optimizer.mlir"
    for spec, name in (
            ("adamw:lr=1,eps=1e-6",
             "adamw:beta1=0.9,beta2=0.999,eps=1e-06,weight_decay=0.01"),
            ("sgd:momentum=0.5", "sgd:momentum=0.5,weight_decay=0")):
        module = optimizers.lower_optimizer(optimizers.parse(spec),
                                            torch.float32)
        source.write_text(lowering.print_module(module, False))
        assert f'fsdp.optimizer_spec = "{name}"' in source.read_text()
        assert optimizers.parse(name).constants() == name
