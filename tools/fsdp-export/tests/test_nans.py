#===- test_nans.py - What is not finite is PyTorch's ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The MLIR of operations on NaN and its like, by the interpreter.

test/specials compares what compiled code makes of an export that is checked in;
this compares the export of today.
"""

import sys
from pathlib import Path

import pytest
import torch
from fsdp_export import evaluation, interpreter, joint, lowering, userfunction
from fsdp_export.recorder import InitRecorder

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "test/specials"))
cases = pytest.importorskip("cases")

# Those that torch-mlir, or PyTorch's decomposition, would compute otherwise.
NAMES = """clamp clamp_crossed relu6 hardsigmoid hardtanh_of clip_of_tensor
    isfinite equals_itself trunc elu floor_divide fmod_of at_least_0.3
    maximum minimum hypot clamp_by margin_ranking smooth_l1 huber soft_margin
    argmax_rows argmin_columns max_rows max_index_rows median_rows
    bucketize_rows max_pool2d_rows max_pool_index_rows layer_norm_of_large_rows
    adaptive_avg_pool_uneven_rows embedding_bag_mean_rows
    normalize_rows""".split()
# By the kernels' own functions on other vectors.
ROUNDING = {"rtol": 1e-4, "atol": 1e-37, "equal_nan": True}


def test_of_operations():
    step = _step("f32", NAMES)
    for name, value in _run(step).items():
        case, _, place = name.partition(".grad_")
        if place and not case.endswith(("_rows", "_columns")):
            continue  # PyTorch's vectors and scalars differ.
        arguments, function = cases.CASES[case]
        want = cases.run(function, [step.inputs[a] for a in arguments])
        want = want[f".grad_{place}" if place else ""]
        if case == "floor_divide":  # As is its fmod() of large numbers.
            value, want = value[2:7], want[2:7]
        torch.testing.assert_close(value, want, **ROUNDING, msg=lambda text,
                                   name=name: f"{name}: {text}")


def test_of_sums_of_narrow_floats():
    names = ["mean_rows", "layer_norm_of_large_rows", "lerp",
             "adaptive_avg_pool_uneven_rows"]
    step = _step("f16", names)
    found = _run(step)
    for name in names:
        arguments, function = cases.CASES[name]
        want = cases.run(function, [step.inputs[a] for a in arguments])[""]
        torch.testing.assert_close(found[name], want, rtol=2e-3, atol=2e-3,
                                   equal_nan=True)


def _step(dtype, names):
    recorder = InitRecorder()
    with recorder:
        made = cases.step(dtype, names)
    return userfunction.make_step(made, "test", "test", recorder)


def _run(step):
    """The outputs of the step's evaluation, in MLIR, by name."""
    with evaluation.evaluating(step, step.inputs) as forward:
        traced = joint.trace(forward, False)
        module = lowering.lower(traced.graph, evaluation.NAME)
    held = [h.tensor for h in traced.parameters + traced.buffers]
    results = interpreter.run(module, [*held, *step.inputs.values()])
    return dict(zip(traced.gradients, traced.restore(results)[1:]))
