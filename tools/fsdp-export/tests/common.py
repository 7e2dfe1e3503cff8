#===- common.py - Helpers of the tests -----------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#

import subprocess

import pytest
from fsdp_export import (huggingface, joint, lowering, userfunction,
                         verification)
from fsdp_export.attention import attention_lowering
from fsdp_export.contract import annotate
from fsdp_export.recorder import InitRecorder
from fsdp_export.reference import make_batches
from fsdp_export.step import Step, remove_dropout
from native import Native, find_tool

needs_mlir = pytest.mark.skipif(
    not all(map(find_tool, ("mlir-opt", "mlir-translate", "clang"))),
    reason="mlir-opt, mlir-translate or clang not found; set MLIR_BIN_DIR")


def hf_step(model_type: str, config: str, **options) -> Step:
    options = {"batch": 2, "seq": 8} | options
    return huggingface.build(
        model_type, huggingface.HFOptions(
            huggingface.parse_config(config), **options), InitRecorder())


def py_step(name: str) -> Step:
    return userfunction.build(f"models:{name}", InitRecorder())


def built(make) -> Step:
    """The step of a function like those of py:MODULE:FUNCTION."""
    recorder = InitRecorder()
    with recorder:
        made = make()
    return userfunction.make_step(made, "test", "test", recorder)


def verified(step: Step) -> str:
    """Exports and compares with PyTorch; what the exporter says of it."""
    remove_dropout(step.module)
    traced = joint.trace(step)
    module = lowering.lower(traced.graph, "forward_backward")
    return verification.verify(step, traced, module, 0)


def export(step: Step) -> tuple[joint.Joint, str]:
    """The joint graph and the text of model.mlir."""
    remove_dropout(step.module)
    traced = joint.trace(step)
    module = lowering.lower(traced.graph, "forward_backward")
    annotate(module, traced, step.module, step.recorder)
    return traced, lowering.print_module(module, True)


def parse(path) -> None:
    """Stock mlir-opt has to accept the file."""
    done = subprocess.run(
        [find_tool("mlir-opt"), "--allow-unregistered-dialect", str(path),
         "-o", "/dev/null"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def compare(step: Step, folder, tolerance: float = 1e-4) -> joint.Joint:
    """Runs the exported step natively; every result is PyTorch's."""
    traced, text = export(step)
    source = folder / "model.mlir"
    source.write_text(text)
    parse(source)
    batch = [b[0, 0] for b in make_batches(step, traced.bounds, 1, 0).values()]
    held = {h.fqn: h.tensor for h in traced.parameters + traced.buffers}
    arguments = [t.detach().clone() for t in held.values()] + batch
    with attention_lowering():
        loss = step.loss(step.module, *batch)
    loss.backward()
    names = ["loss", *traced.gradients, *traced.updates]
    want = [loss.detach(), *(held[n].grad for n in traced.gradients),
            *(held[n] for n in traced.updates)]
    got = Native(source, folder)(arguments, want)
    # Some gradients are 0 but for rounding (a key's bias): they are measured
    # against the largest one.
    scale = max(g.abs().max().item() for g in want[1:1 + len(traced.gradients)])
    for name, a, b in zip(names, got, want):
        floor = 1e-3 * scale if name in traced.gradients else 1e-6
        error = (a.double() - b.double()).abs().max().item()
        size = max(b.double().abs().max().item(), floor)
        assert error <= tolerance * size, (name, error, size)
    return traced
