#===- contract.py - Names for arguments and results ----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Writes the attributes of the input contract onto a lowered module."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import nn
from torch_mlir import ir

from .bounds import Bounds
from .errors import ExportError
from .groups import StepOptimizer
from .joint import Joint
from .lowering import dense, element_type
from .recorder import InitRecorder
from .step import Held

# Unexplained values of at most so many elements are written into the module.
INLINE_ELEMENTS = 1 << 16


def annotate_evaluation(module: ir.Module, joint: Joint) -> None:
    """Adds the attributes of a function that evaluates; parameters and buffers
    are those of the function that trains, by name."""
    with module.context, ir.Location.unknown():
        function = module.body.operations[0]
        arguments = [{"fsdp.param": ir.DictAttr.get({"fqn": _text(h.fqn)})}
                     for h in joint.parameters]
        arguments += [{"fsdp.buffer": ir.DictAttr.get({"fqn": _text(h.fqn)})}
                      for h in joint.buffers]
        arguments += [{"fsdp.input": _input(name, joint)}
                      for name in joint.inputs]
        results = [{"fsdp.loss": ir.UnitAttr.get()}]
        results += [{"fsdp.output": ir.DictAttr.get({"name": _text(n)})}
                    for n in joint.gradients]
        results += _count(joint)
        set_attributes(function, arguments, results)
        function.attributes["fsdp.program"] = _text("eval")


def annotate(module: ir.Module, joint: Joint, root: nn.Module,
             recorder: InitRecorder, verified: str | None = None,
             config: tuple[str, dict] | None = None,
             optimizer: StepOptimizer | None = None,
             notes: Sequence[str] = ()) -> bool:
    """Adds every attribute; True if a value has to be kept in a file.

    `verified` says how the module was compared with PyTorch; `config` is a
    module's name and what a config.json beside its parameters must say;
    `optimizer` is the one that the step came with; `notes` are what runs say.
    """
    with module.context, ir.Location.unknown():
        function = module.body.operations[0]
        inits = {h.fqn: _init(h, recorder)
                 for h in joint.parameters + joint.buffers}
        arguments = [{"fsdp.param": _parameter(h, joint, inits[h.fqn],
                                               optimizer)}
                     for h in joint.parameters]
        arguments += [{"fsdp.buffer": ir.DictAttr.get(
            {"fqn": _text(h.fqn), "tied": _texts(h.tied),
             "init": inits[h.fqn], **_sign(h.tensor)})} for h in joint.buffers]
        arguments += [{"fsdp.input": _input(name, joint)}
                      for name in joint.inputs]
        arguments += [{"fsdp.random": ir.DictAttr.get(
            {"name": _text(draw.name), "kind": _text(draw.kind),
             "site": _integer(draw.site)})} for draw in joint.draws]
        arguments += [{"fsdp.loss_scale": ir.UnitAttr.get()}] * (
            joint.scales_loss)
        results = [{"fsdp.loss": ir.UnitAttr.get()}]
        results += [{"fsdp.grad": ir.DictAttr.get({"fqn": _text(n)})}
                    for n in joint.gradients]
        results += [{"fsdp.buffer_update": ir.DictAttr.get({"fqn": _text(n)})}
                    for n in joint.updates]
        results += _count(joint)
        set_attributes(function, arguments, results)
        of, entries = config or (None, {})
        module.operation.attributes["fsdp.modules"] = ir.ArrayAttr.get([
            ir.DictAttr.get({"fqn": _text(fqn),
                             "class": _text(type(child).__name__)}
                            | ({"config": _text(json.dumps(entries))}
                               if fqn == of else {})
                            | ({"checkpoint": ir.BoolAttr.get(True)}
                               if fqn in joint.checkpointed else {}))
            for fqn, child in root.named_modules()])
        if optimizer:
            _set_optimizer(module, optimizer)
        if verified is not None:
            module.operation.attributes["fsdp.verified"] = _text(verified)
        if notes:
            module.operation.attributes["fsdp.notes"] = _texts(notes)
        file = ir.DictAttr.get({"kind": _text("file")})
        return any(init == file for init in inits.values())


def set_attributes(function: ir.OpView, arguments: list[dict],
                   results: list[dict]) -> None:
    """Sets a function's argument and result attributes, all of them."""
    kind = function.type
    if (len(arguments), len(results)) != (len(kind.inputs), len(kind.results)):
        raise AssertionError(
            f"{len(arguments)} arguments and {len(results)} results are named, "
            f"the function has {len(kind.inputs)} and {len(kind.results)}")
    function.arg_attrs = ir.ArrayAttr.get(list(map(ir.DictAttr.get, arguments)))
    function.attributes["res_attrs"] = ir.ArrayAttr.get(
        list(map(ir.DictAttr.get, results)))


def _set_optimizer(module: ir.Module, optimizer: StepOptimizer) -> None:
    f64 = ir.F64Type.get()
    attributes = module.operation.attributes
    attributes["fsdp.optimizer_spec"] = _text(optimizer.spec)
    if optimizer.numbers:
        attributes["fsdp.optimizer_groups"] = ir.DictAttr.get(
            {name: ir.DictAttr.get({key: ir.FloatAttr.get(f64, value)
                                    for key, value in own.items()})
             for name, own in optimizer.numbers.items()})


def _parameter(held: Held, joint: Joint, init: ir.Attribute,
               optimizer: StepOptimizer | None) -> ir.Attribute:
    entries = {"fqn": _text(held.fqn), "tied": _texts(held.tied), "init": init,
               "requires_grad": ir.BoolAttr.get(held.tensor.requires_grad)}
    if held.fqn in joint.unused:
        entries["unused"] = ir.BoolAttr.get(True)
    if optimizer and held.fqn in optimizer.group_of:
        entries["group"] = _text(optimizer.group_of[held.fqn])
    return ir.DictAttr.get(entries)


def _sign(tensor: torch.Tensor) -> dict[str, ir.Attribute]:
    """Says of bytes that they carry no sign."""
    if tensor.dtype != torch.uint8:
        return {}
    return {"unsigned": ir.BoolAttr.get(True)}


def _input(name: str, joint: Joint) -> ir.Attribute:
    entries = {"name": _text(name), **_sign(joint.inputs[name])}
    bounds = joint.bounds.get(name, Bounds())
    for key, value in (("low", bounds.low), ("high", bounds.high)):
        if value is not None:
            entries[key] = _integer(value)
    if bounds.allowed:
        entries["allowed"] = ir.DenseI64ArrayAttr.get(bounds.allowed)
    if bounds.draw not in (None, (bounds.low, bounds.high)):
        entries["draw"] = ir.DenseI64ArrayAttr.get(bounds.draw)
    shift = joint.shifts.get(name, 0)
    if shift is None:
        entries["shift"] = _text("unknown")
    elif shift:
        entries["shift"] = _integer(shift)
    return ir.DictAttr.get(entries)


def _count(joint: Joint) -> list[dict[str, ir.Attribute]]:
    return [{"fsdp.loss_count": ir.UnitAttr.get()}] if joint.is_sum else []


def _integer(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _init(held: Held, recorder: InitRecorder) -> ir.Attribute:
    """The initialiser: a distribution, else the values, else the file."""
    value = held.tensor.detach()
    known = recorder.find(value)
    if known is not None:
        f64 = ir.F64Type.get()
        return ir.DictAttr.get({"kind": _text(known.kind)} | {
            k: ir.FloatAttr.get(f64, v) for k, v in asdict(known).items()})
    if not recorder.is_filled(value):
        raise ExportError(f"{held.fqn}: its initialiser is not a known "
                          "distribution, and --skip-init leaves no values to "
                          "keep; export it without")
    if value.numel() and _uniform(value):
        return ir.DictAttr.get({
            "kind": _text("constant"),
            "value": ir.FloatAttr.get(ir.F64Type.get(),
                                      float(value.flatten()[0]))})
    if value.numel() > INLINE_ELEMENTS:
        return ir.DictAttr.get({"kind": _text("file")})
    return ir.DictAttr.get({"kind": _text("values"),
                            "values": dense(value, element_type(value.dtype))})


def _uniform(value: torch.Tensor) -> bool:
    """Whether one number that a float64 can hold fills the tensor."""
    first = value.flatten()[0]
    return (bool((value == first).all()) and abs(float(first)) <= 2.0**53)


def _text(value: str) -> ir.Attribute:
    return ir.StringAttr.get(value)


def _texts(values: Sequence[str]) -> ir.Attribute:
    return ir.ArrayAttr.get(list(map(_text, values)))
