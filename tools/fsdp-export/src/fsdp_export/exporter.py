#===- exporter.py - From a step to a directory ---------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Puts the parts together."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from . import (checkpointing, configuration, evaluation, gradients, reference,
               verification)
from .contract import annotate, annotate_evaluation
from .draws import draw_by_site, refuse_recurrent
from .dropout import silence_functions
from .errors import ExportError
from .joint import Joint, trace
from .lowering import lower, print_module, print_modules
from .optimizers import Optimizer, lower_optimizer, optimizer_dtype
from .step import Step, remove_dropout, stop_layer_dropping
from .writer import staged


@dataclass
class Options:
    """What to write besides model.mlir."""

    optimizer: Optimizer | None = None
    locations: bool = True
    params: bool = False
    reference: int = 0
    skew: bool = False
    seed: int = 0
    verify: bool = True
    # Inputs of a function that evaluates; None: there is none.
    evaluation: dict[str, torch.Tensor] | None = None
    # Dropout of train mode stays; else it is set to 0.
    dropout: bool = True
    # What the loss is multiplied by for backward is an argument.
    loss_scale: bool = False


def export(step: Step, target: Path, options: Options) -> list[str]:
    """Writes the export of `step` into `target`; returns lines to report.

    Raises ExportError, and leaves `target` alone then.
    """
    dropouts, functions = [], None
    if options.dropout:
        stop_layer_dropping(step.module)
        refuse_recurrent(step.module)
    else:
        dropouts = remove_dropout(step.module)
        functions = silence_functions(step)
    draw_by_site(step)
    step.scales_loss = options.loss_scale
    joint = trace(step, options.verify or bool(options.reference))
    if functions:
        dropouts += [f"{name}()" for name, _ in functions.places]
    module = lower(joint.graph, "forward_backward")
    verified = _verify(step, joint, module, options)
    evaluated, expected = [], {}
    if options.evaluation is not None:
        evaluated, report, expected = _evaluate(step, joint, options)
        verified += report
    needs_file = annotate(
        module, joint, step.module, step.recorder, verified,
        configuration.decisive(step.module, step.overridden), step.optimizer,
        [_silenced(dropouts)] if dropouts else [])
    params = options.params or bool(options.reference) or needs_file
    held = joint.parameters + joint.buffers
    if params:
        empty = [h.fqn for h in held if not step.recorder.is_filled(h.tensor)]
        if empty:
            raise ExportError("params.safetensors is needed, and --skip-init "
                              f"leaves no values for {empty[0]}")
    optimizer = None
    if options.optimizer:
        dtype = optimizer_dtype([h.tensor for h in joint.parameters])
        optimizer = lower_optimizer(options.optimizer, dtype)
    with staged(target) as stage:
        _write(stage / "model.mlir", print_modules(
            [module, *evaluated], options.locations))
        if optimizer:
            _write(stage / "optimizer.mlir", print_module(optimizer, False))
        if params:
            save_file({h.fqn: h.tensor.detach().contiguous().clone()
                       for h in held}, stage / "params.safetensors")
        if options.reference:
            batches = reference.make_batches(
                step, joint.bounds, options.reference, options.seed)
            if options.skew:
                batches = gradients.skew(batches, joint.bounds)
            save_file(batches, stage / "batches.safetensors")
            try:
                expect = reference.measure(step, options.optimizer, batches)
                exact, expect["gradients"] = gradients.measure_gradients(
                    step, batches)
            except Exception as error:
                raise ExportError("--reference: PyTorch could not train the "
                                  f"model: {error}") from error
            save_file(exact, stage / "gradients.safetensors")
            if expected:
                save_file(expected, stage / "evaluation.safetensors")
            _write(stage / "expect.json", json.dumps(expect, indent=1) + "\n")
    lines = _report(joint, dropouts, needs_file)
    if options.optimizer or step.optimizer:
        lines.append(f"optimizer {options.optimizer or step.optimizer}")
    lines += checkpointing.describe(joint.checkpointed,
                                    joint.nameless_checkpoints, step.module)
    return [*lines, *step.notes, verified]


def _evaluate(step: Step, joint: Joint, options: Options) -> tuple:
    """The module of the function that evaluates, what is said of it, and what
    it makes of some batches, if that is to be kept."""
    with evaluation.evaluating(step, options.evaluation) as forward:
        traced = trace(forward, options.verify)
        evaluation.refuse_changes(traced)
        if traced.left_out:
            step.notes.append("the evaluation leaves out what is no tensor: "
                              + ", ".join(f"{n} ({kind})" for n, kind
                                          in traced.left_out.items()))
        # What fills the inputs is said of their names.
        traced.shifts = {n: joint.shifts[n] for n in traced.inputs
                         if n in joint.shifts}
        module = lower(traced.graph, evaluation.NAME)
        verified = _verify(forward, traced, module, options)
        expected = evaluation.measure(
            forward, traced, options.seed) if options.reference else {}
    annotate_evaluation(module, traced)
    names = ", ".join(["loss", *traced.gradients])
    return [module], f"; evaluation ({names}) {verified}", expected


def _verify(step: Step, joint: Joint, module, options: Options) -> str:
    """What the file and the command say of its comparison with PyTorch."""
    if not options.verify:
        return f"{verification.UNVERIFIED}: --no-verify"
    empty = [h.fqn for h in joint.parameters + joint.buffers
             if not step.recorder.is_filled(h.tensor)]
    if empty:
        return f"{verification.UNVERIFIED}: --skip-init leaves no values"
    return (f"{verification.VERIFIED}: "
            f"{verification.verify(step, joint, module, options.seed)}")


def _report_shifts(shifts: dict[str, int | None]) -> list[str]:
    lines = [f"token data: {name} starts {shift} token{'s' * (shift > 1)} later"
             for name, shift in shifts.items() if shift]
    unclear = [name for name, shift in shifts.items() if shift is None]
    if unclear:
        lines.append(
            f"token data: not clear how to fill {', '.join(unclear)}; where "
            f"text is to be read, export with --shift {unclear[0]}=1 (the next "
            f"token) or {unclear[0]}=0 (the same ones)")
    return lines


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _silenced(dropouts: list[str]) -> str:
    """What the command and each run say of dropouts that are gone."""
    return f"dropout set to 0 in {len(dropouts)} places (--no-dropout)"


def _report(joint: Joint, dropouts: list[str], needs_file: bool) -> list[str]:
    count = sum(h.tensor.numel() for h in joint.parameters)
    frozen = sum(not h.tensor.requires_grad for h in joint.parameters)
    lines = [f"{len(joint.parameters)} parameters of {count:,} elements, "
             f"{frozen} frozen, {len(joint.unused)} unused; "
             f"{len(joint.buffers)} buffers, {len(joint.updates)} updated; "
             f"inputs {', '.join(joint.inputs)}"]
    if dropouts:
        lines.append(f"{_silenced(dropouts)}: "
                     + ", ".join(sorted({*dropouts})))
    if joint.draws:
        modules = sorted({draw.path or "the root" for draw in joint.draws})
        lines.append(f"random numbers drawn in {len(joint.draws)} places: "
                     + ", ".join(modules))
    if needs_file:
        lines.append("some initial values are only in params.safetensors")
    for name, value in joint.inputs.items():
        bounds = joint.bounds.get(name)
        if value.dtype not in (torch.bool,) and not value.is_floating_point() \
                and not (bounds and bounds.draw):
            lines.append(f"input {name} has no bounds: nothing says which "
                         "integers it may hold")
    lines += _report_shifts(joint.shifts)
    return lines
