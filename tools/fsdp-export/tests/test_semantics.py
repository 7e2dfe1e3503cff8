#===- test_semantics.py - Gradients and state are PyTorch's --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Each step is exported and verified against PyTorch, or refused by name."""

import os
import re
import signal

import pytest
from common import built, export, verified
from fsdp_export import crashes
from fsdp_export.bounds import Bounds
from fsdp_export.errors import ExportError
from semantics import STEPS
from semantics_beside import BESIDE
from semantics_refused import REFUSED


@pytest.mark.parametrize("name", STEPS | BESIDE)
def test_step_is_exported_as_pytorch_runs_it(name):
    assert verified(built((STEPS | BESIDE)[name])) == "graph and MLIR, 2 batches"


@pytest.mark.parametrize("name", REFUSED)
def test_step_is_refused_by_name(name):
    make, message = REFUSED[name]
    with pytest.raises(ExportError) as error:
        verified(built(make))
    assert message in str(error.value)


def test_bytes_are_written_as_bytes():
    _, text = export(built(STEPS["images"]))
    assert text.count("unsigned = true") == 4
    assert re.search(r'draw = array<i64: 0, 256>, name = "images"', text)
    assert re.search(r'high = 4 : i64, name = "classes"', text)


def test_classes_of_one_hot_are_bounds():
    traced, _ = export(built(STEPS["classes_without_a_table"]))
    assert traced.bounds == {"index": Bounds(0, 5, draw=(0, 5))}


def test_crash_of_the_lowering_names_the_operation(monkeypatch):
    """A signal in torch-mlir is an error of ours."""
    guard = crashes.guard

    def fragile(module, passes):
        def run(m):
            if "torch.aten.tanh" in m.operation.get_asm():
                os.kill(os.getpid(), signal.SIGSEGV)
            passes(m)
        return guard(module, run)

    monkeypatch.setattr(crashes, "guard", fragile)
    with pytest.raises(ExportError, match=r"got torch\.aten\.tanh in 1, on which "
                       "torch-mlir ends with SIGSEGV"):
        verified(built(STEPS["hooked_below"]))
