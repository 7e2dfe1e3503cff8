#===- joint.py - The joint graph of forward and backward -----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Traces a step into one graph: (parameters, buffers, inputs) to (loss,
gradients, new buffers).

Three traces follow each other. torch.export takes the Python control flow out
of the model; the joint trace runs its graph under autograd; the last one makes
the result functional and decomposes it to core operations.
"""

import contextlib
import io
import os
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch._functorch._aot_autograd.logging_utils import (
    setup_stacktrace_preservation_hooks)
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx

from . import graphs
from .attention import attention_lowering
from .bounds import input_bounds
from .decompositions import decompositions, forward_decompositions
from .errors import ExportError
from .folding import fold_constants
from .step import PREFIX, Held, Step, StepModule, buffers_of, parameters_of

aten = torch.ops.aten


@dataclass
class Joint:
    """The joint graph and what its arguments and results are.

    Arguments: `parameters`, `buffers`, `inputs`; results: the loss, the
    gradients of `gradients`, the new values of `updates`. `unused` names
    parameters that the loss does not depend on. `bounds` holds (low, high) of
    integer inputs where they are known.
    """

    graph: fx.GraphModule
    parameters: list[Held]
    buffers: list[Held]
    inputs: dict[str, torch.Tensor]
    gradients: list[str]
    unused: set[str]
    updates: list[str]
    bounds: dict[str, tuple[int, int]]


def trace(step: Step) -> Joint:
    """Traces a step. Nothing is computed; the module is left as it was."""
    parameters = parameters_of(step.module)
    buffers = buffers_of(step.module)
    # oneDNN's recurrent layers are operations of their own.
    with attention_lowering(), torch.backends.mkldnn.flags(enabled=False):
        exported = _export(step)
        # Inputs are named here, while an embedding still is an embedding.
        bounds = input_bounds(exported, list(step.inputs))
        functional = exported.run_decompositions(
            forward_decompositions())
        wiring = _Wiring(functional, parameters, buffers, step)
        values = [h.tensor.detach() for h in parameters + buffers]
        values += [*step.inputs.values(), *wiring.constants]
        first = _trace_autograd(functional, wiring, values)
        second = _trace_functional(first, values)
    graphs.bind_constants(second, wiring.constants)
    graphs.clean(second)
    graphs.count_from_front(second)
    graphs.refuse_randomness(second)
    fold_constants(second)
    return Joint(second, parameters, buffers, step.inputs,
                 [parameters[i].fqn for i in wiring.gradients],
                 {parameters[i].fqn for i in wiring.trainable
                  if i not in wiring.gradients},
                 [buffers[i].fqn for i, _ in wiring.updates], bounds)


def _export(step: Step) -> torch.export.ExportedProgram:
    inputs = tuple(step.inputs.values())
    try:
        # PyTorch prints the whole graph beside some of its exceptions.
        with contextlib.redirect_stderr(io.StringIO()):
            exported = torch.export.export(StepModule(step), inputs,
                                           strict=False)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(_explain(error)) from error
    graphs.refuse_dynamic(exported.graph)
    graphs.refuse_complex(exported.graph)
    return exported


def _explain(error: Exception) -> str:
    """One line on what torch.export could not follow, and where."""
    text = str(error).strip() or "no message"
    first = text.splitlines()[0]
    frames = [(f.filename, f.lineno)
              for f in traceback.extract_tb(error.__traceback__)]
    frames += re.findall(r'File "([^"]+)", line (\d+)', text)
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    users = [f for f in frames if not f[0].startswith((*ours, "<"))]
    place = f" ({users[-1][0]}:{users[-1][1]})" if users else ""
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        return ("expected control flow that does not depend on the values of "
                f"tensors, got a branch on one{place}: {first}")
    return f"the step cannot be traced: {type(error).__name__}: {first}{place}"


class _Wiring:
    """Where the exported program's arguments and results come from."""

    def __init__(self, exported: torch.export.ExportedProgram,
                 parameters: Sequence[Held], buffers: Sequence[Held],
                 step: Step):
        held = list(parameters) + list(buffers)
        index = {name: i for i, h in enumerate(held)
                 for name in (h.fqn, *h.tied)}
        first_input = len(held)
        first_constant = first_input + len(step.inputs)
        self.trainable = [i for i, h in enumerate(parameters)
                          if h.tensor.requires_grad]
        self.constants: list[torch.Tensor] = []
        self.sources: list[int] = []
        self.gradients: list[int] = []
        seen_inputs = 0
        for spec in exported.graph_signature.input_specs:
            name = (spec.target or "").removeprefix(PREFIX)
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                self.sources.append(index[name])
            elif spec.kind is InputKind.USER_INPUT:
                self.sources.append(first_input + seen_inputs)
                seen_inputs += 1
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                self.sources.append(first_constant + len(self.constants))
                self.constants.append(exported.constants[spec.target])
            else:
                raise ExportError(f"expected tensors only in the step, got "
                                  f"{spec.kind.name.lower()} {spec.target}")
        self.updates: list[tuple[int, int]] = []
        self.loss = None
        for i, spec in enumerate(exported.graph_signature.output_specs):
            name = (spec.target or "").removeprefix(PREFIX)
            if spec.kind is OutputKind.USER_OUTPUT:
                self.loss = i
            elif spec.kind is OutputKind.BUFFER_MUTATION:
                self.updates.append((index[name] - len(parameters), i))
            elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                at = int(spec.target.rpartition("_")[2])
                raise ExportError("expected a step that leaves its inputs "
                                  "alone, got a write to "
                                  f"{list(step.inputs)[at]}")
            else:
                raise ExportError(f"expected only buffers to change, got "
                                  f"{spec.kind.name.lower()} of {name}")
        self.updates.sort()


def _overwrite(target, source, non_blocking=False):
    """What `target` holds after target.copy_(source)."""
    return source.to(target.dtype).expand_as(target).clone()


class _AnyStride(fx.Interpreter):
    """Runs a graph whose tensors may have come to lie differently.

    Decompositions choose other strides than the kernels they replace, so a
    view may need a copy now. Pooling asks for its input as it should lie, or
    it restrides its result.
    """

    def call_function(self, target, args, kwargs):
        if target in graphs.VIEWS:
            target = aten.reshape.default
        elif target is aten.copy.default:
            # What functionalisation makes of a write has no derivative.
            target, kwargs = _overwrite, {}
        elif target in (aten.adaptive_avg_pool1d.default,
                        aten.adaptive_avg_pool2d.default):
            args = (args[0].contiguous(), *args[1:])
        return super().call_function(target, args, kwargs)


def _trace_autograd(exported: torch.export.ExportedProgram, wiring: _Wiring,
                    values: Sequence[torch.Tensor]) -> fx.GraphModule:
    def joint(*tensors):
        leaves = [t.detach() for t in tensors]
        for i in wiring.trainable:
            leaves[i].requires_grad_()
        results = _AnyStride(exported.graph_module).run(
            *(leaves[i] for i in wiring.sources))
        loss = results[wiring.loss]
        if loss.grad_fn is None:
            raise ExportError("expected a loss that depends on a parameter "
                              "with requires_grad, got one that does not")
        # Each backward node learns the sequence number of its forward node.
        setup_stacktrace_preservation_hooks([loss.grad_fn])
        try:
            gradients = torch.autograd.grad(
                loss, [leaves[i] for i in wiring.trainable], allow_unused=True)
        except (RuntimeError, NotImplementedError) as error:
            raise ExportError("the step cannot be differentiated: "
                              f"{str(error).splitlines()[0]}") from error
        found = {i: g for i, g in zip(wiring.trainable, gradients)
                 if g is not None}
        wiring.gradients = list(found)
        updates = [results[at].detach() for _, at in wiring.updates]
        return [loss.detach(), *found.values(), *updates]

    with fx_traceback.preserve_node_meta():
        graph = make_fx(joint, tracing_mode="fake")(*values)
    graphs.name_backward(graph)
    return graph


def _trace_functional(joint: fx.GraphModule,
                      values: Sequence[torch.Tensor]) -> fx.GraphModule:
    def run(*tensors):
        return _AnyStride(joint).run(*tensors)

    with fx_traceback.preserve_node_meta():
        return make_fx(torch.func.functionalize(run), tracing_mode="fake",
                       decomposition_table=decompositions())(*values)
