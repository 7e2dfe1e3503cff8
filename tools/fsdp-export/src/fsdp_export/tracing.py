#===- tracing.py - Runs a step once and records it -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Records the operations of one step, forward and backward.

The user's module itself runs, under PyTorch's own autograd, on tensors without
data in the place of its parameters and buffers. So whatever decides about
gradients in PyTorch decides here: torch.no_grad, detach, custom autograd
functions, hooks of tensors and modules, checkpointing.
"""

import contextlib
import io
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx, nn
from torch._export.utils import _compiling_state_context
from torch._functorch._aot_autograd.logging_utils import (
    setup_stacktrace_preservation_hooks)
from torch._subclasses import FakeTensor
from torch.autograd.graph import _engine_run_backward
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from . import graphs, lossscale, outside, ranks
from .attention import attention_lowering
from .checkpointing import Checkpoints
from .decompositions import forward_decompositions
from .errors import ExportError
from .messages import describe_inputs, explain
from .overrides import replaced_before_autograd
from .places import UserLines
from .pythonstate import replace_values
from .refusals import no_control_flow
from .step import Held, Step, StepModule, dtype_name

# Operators whose functions run or not as tensors decide; without a compiler
# they hide gradients.
_CONTROL_FLOW = ("cond", "while_loop", "while_loop_stack_output", "scan",
                 "map_impl", "switch")


@dataclass
class Trace:
    """What one step does, as a graph with operations that write in place.

    Arguments: parameters, buffers, inputs, `constants`. Results: the loss,
    the gradients of the parameters at `gradients` or the `outputs`, the count
    of a loss that `is_sum`, then what every parameter, buffer and input holds
    after the step.
    """

    graph: fx.GraphModule
    is_sum: bool = False
    # Of a step that evaluates: names of results, which stand in the place of
    # gradients.
    outputs: list[str] = field(default_factory=list)
    # What else it returned: types by name.
    left_out: dict[str, str] = field(default_factory=dict)
    constants: list[torch.Tensor] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    # Buffers that hold a gradient's graph after the step, by their places.
    attached: list[int] = field(default_factory=list)
    # Where the module's Python state holds tensors that the step computed, and
    # those of them that it computed from constants alone.
    stored: list[str] = field(default_factory=list)
    constant: set[str] = field(default_factory=set)
    # Buffers of `differentiated` that the loss is differentiated by.
    reached: list[int] = field(default_factory=list)
    # Modules under torch.utils.checkpoint, and how many checkpoints had none.
    checkpointed: list[str] = field(default_factory=list)
    nameless_checkpoints: int = 0


def record(step: Step, parameters: Sequence[Held], buffers: Sequence[Held],
           differentiated: Sequence[int] = ()) -> Trace:
    """Records a step. The module's Python state is left as the step leaves it.

    Buffers at `differentiated` are taken to come from a differentiable
    computation, as an earlier step may leave them.
    """
    run = _Run(step, parameters, buffers, set(differentiated))
    values = [h.tensor.detach() for h in (*parameters, *buffers)]
    values += step.inputs.values()
    try:
        # PyTorch prints whole graphs beside some of its exceptions.
        # oneDNN's recurrent layers are operations of their own.
        # What the user compiles is recorded as the user wrote it.
        with (contextlib.redirect_stderr(io.StringIO()), attention_lowering(),
              torch.compiler.set_stance("force_eager"),
              torch.backends.mkldnn.flags(enabled=False),
              _compiling_state_context(), fx_traceback.preserve_node_meta()):
            graph = make_fx(run, tracing_mode="fake",
                            _allow_non_fake_inputs=True)(*values)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(_explain(error, run)) from error
    graphs.drop_profiling(graph)
    graphs.name_backward(graph)
    trace = run.trace
    trace.graph = graph
    trace.constants = _constants_as_arguments(graph)
    outside.refuse_differentiated(trace.constants)
    _take_stored(trace)
    return trace


class _Run:
    """The step as a function of tensors, which make_fx calls once."""

    def __init__(self, step: Step, parameters: Sequence[Held],
                 buffers: Sequence[Held], differentiated: set[int]):
        self._step = step
        self._parameters, self._buffers = parameters, buffers
        self._differentiated = differentiated
        self.checkpoints = Checkpoints()
        self.paths = _ModulePaths(step.module, self.checkpoints)
        self.trace = Trace(None)
        self.backward = False
        self.inputs = step.inputs

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        count = len(self._parameters)
        held = [*self._parameters, *self._buffers]
        leaves = [self._parameter(h, t)
                  for h, t in zip(self._parameters, tensors)]
        sources = {}
        for i, t in enumerate(tensors[count:len(held)]):
            leaf = t.detach()
            if i in self._differentiated:
                sources[i] = leaf.requires_grad_()
                leaf = leaf.clone()
            leaves.append(leaf)
        for h, leaf in zip(held, leaves):
            _dress(leaf, h.tensor)
        inputs = [t.detach() for t in tensors[len(held):]]
        module = self._step.module
        with (installed(module, held, leaves), self.checkpoints, self.paths,
              replaced_before_autograd(forward_decompositions()
                                       | ranks.collectives()),
              _Substitution(held, leaves, self.paths), UserLines(),
              torch.set_grad_enabled(not self._step.evaluates)):
            loss = StepModule(self._step)(*inputs)
            loss_count = self._step.take_count()
            outputs = {}
            if self._step.evaluates:
                outputs = self._step.loss.take()
            else:
                self._differentiate(loss)
            self._refuse_new()
            after = self._buffers_after()
            stored = _stored_tensors(self._step)
        trace = self.trace
        trace.outputs = list(outputs)
        trace.checkpointed = [*self.checkpoints.modules]
        trace.nameless_checkpoints = self.checkpoints.nameless
        if self._step.evaluates:
            trace.left_out = self._step.loss.left_out
        gradients = [t.detach() for t in outputs.values()]
        for i, (h, leaf) in enumerate(zip(self._parameters, leaves)):
            if leaf.requires_grad != h.tensor.requires_grad:
                raise ExportError(
                    f"expected a step that leaves requires_grad of {h.fqn} at "
                    f"{h.tensor.requires_grad}, got {leaf.requires_grad}; set "
                    "it where the model is built")
            if leaf.grad is None:
                continue
            if leaf.grad.layout != torch.strided:
                raise ExportError(
                    f"expected dense gradients, got a sparse one of {h.fqn}; "
                    "build its embedding with sparse=False")
            trace.gradients.append(i)
            gradients.append(leaf.grad.detach())
        trace.attached = [i for i, t in enumerate(after) if t.requires_grad]
        trace.reached = [i for i, t in sources.items() if t.grad is not None]
        trace.stored = list(stored)
        trace.is_sum = loss_count is not None
        counts = [loss_count.detach()] if trace.is_sum else []
        return [loss.detach(), *gradients, *counts,
                *(t.detach() for t in leaves[:count]),
                *(t.detach() for t in after), *inputs,
                *(t.detach() for t in stored.values())]

    def _differentiate(self, loss: torch.Tensor) -> None:
        if loss.grad_fn is None:
            raise ExportError("expected a loss that depends on a parameter "
                              "with requires_grad, got one that does not")
        outside.refuse_reached(loss.grad_fn)
        # Each backward node learns the sequence number of its forward node.
        setup_stacktrace_preservation_hooks([loss.grad_fn])
        self.backward = True
        # loss.backward() would suspend the substitution.
        with self._step.around_backward:
            _engine_run_backward(
                (loss,), (self._cotangent(loss),), False, False, (),
                allow_unreachable=True, accumulate_grad=True)

    def _cotangent(self, loss: torch.Tensor) -> torch.Tensor:
        return (lossscale.cotangent(loss) if self._step.scales_loss
                else torch.ones_like(loss))

    def _parameter(self, held: Held, tensor: torch.Tensor) -> torch.Tensor:
        """A leaf in the place of a parameter, with the parameter's hooks."""
        leaf = nn.Parameter(tensor.detach(), held.tensor.requires_grad)
        if not leaf.requires_grad:
            return leaf
        for hook in (held.tensor._backward_hooks or {}).values():
            leaf.register_hook(hook)
        after = getattr(held.tensor, "_post_accumulate_grad_hooks", None) or {}
        for hook in after.values():
            leaf.register_post_accumulate_grad_hook(hook)
        return leaf

    def _refuse_new(self) -> None:
        """Parameters and buffers that the step made: they are no arguments."""
        module = self._step.module
        for kind, held, now in (
                ("parameter", self._parameters, module.named_parameters),
                ("buffer", self._buffers, module.named_buffers)):
            known = {name for h in held for name in (h.fqn, *h.tied)}
            for name, _ in now(remove_duplicate=False):
                if name not in known:
                    raise ExportError(
                        f"expected a step that finds its parameters and "
                        f"buffers made, got one that makes {kind} {name}; run "
                        "the module once before returning it, or make it in "
                        "__init__")

    def _buffers_after(self) -> list[torch.Tensor]:
        """What each buffer is after the step; assigned ones are others."""
        found = []
        for h in self._buffers:
            now = {name: _slot(self._step.module, name)
                   for name in (h.fqn, *h.tied)}
            first = now[h.fqn]
            other = [n for n, t in now.items() if t is not first]
            if other:
                raise ExportError(
                    f"expected tied buffers to stay tied, got a step that "
                    f"assigns one of {h.fqn} and {other[0]}; write into it "
                    "with copy_()")
            if not isinstance(first, torch.Tensor):
                raise ExportError(f"expected a step that keeps buffer {h.fqn}, "
                                  "got one that sets it to "
                                  f"{type(first).__name__}")
            want, got = (f"{list(t.shape)} of {dtype_name(t.dtype)}"
                         for t in (h.tensor, first))
            if want != got:
                raise ExportError(
                    f"expected a step that keeps the shape and type of buffer "
                    f"{h.fqn}, {want}, got {got}")
            found.append(first)
        return found


def _dress(leaf: torch.Tensor, original: torch.Tensor) -> None:
    """Gives a traced tensor what Python code may ask the original for: its
    attributes and its class."""
    for name, value in original.__dict__.items():
        leaf.__dict__.setdefault(name, value)
    kind = type(original)
    if isinstance(leaf, kind):
        return
    try:
        leaf.__class__ = type(kind.__name__, (type(leaf), kind), {})
    except TypeError:
        pass  # It is laid out in another way.


@contextlib.contextmanager
def installed(module: nn.Module, held: Sequence[Held],
              tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Puts `tensors` where the module holds `held`, under all names."""
    by_id = {id(h.tensor): t for h, t in zip(held, tensors)}
    before = []
    for child in module.modules():
        for own in (child._parameters, child._buffers):
            before.append((own, dict(own)))
            for name, tensor in own.items():
                if id(tensor) in by_id:
                    own[name] = by_id[id(tensor)]
    try:
        yield
    finally:
        for own, entries in before:
            own.clear()
            own.update(entries)


def _slot(module: nn.Module, fqn: str) -> object:
    path, _, name = fqn.rpartition(".")
    return module.get_submodule(path)._buffers.get(name)


class _Substitution(TorchFunctionMode):
    """Takes the traced tensor wherever Python code still has the parameter or
    buffer itself: in a list beside it, in a closure."""

    def __init__(self, held: Sequence[Held], tensors: Sequence[torch.Tensor],
                 paths: "_ModulePaths"):
        super().__init__()
        self._paths = paths
        self._held = [h.tensor for h in held]
        self._by_id = {id(h.tensor): t for h, t in zip(held, tensors)}

    def _replace(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            return self._by_id.get(id(value), value)
        if type(value) in (list, tuple):
            return type(value)(map(self._replace, value))
        if type(value) is dict:
            return {k: self._replace(v) for k, v in value.items()}
        return value

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in _CONTROL_FLOW and isinstance(
                func, torch._ops.HigherOrderOperator):
            raise no_control_flow(func, self._paths.current())
        kwargs = kwargs or {}
        return func(*map(self._replace, args),
                    **{k: self._replace(v) for k, v in kwargs.items()})


class _ModulePaths:
    """A context in which recorded nodes carry the path of the module that is
    being called, in forward and wherever backward calls it again."""

    def __init__(self, module: nn.Module, checkpoints: Checkpoints):
        self._checkpoints = checkpoints
        self._names: dict[int, tuple[str, str]] = {}
        for name, child in module.named_modules():
            self._names[id(child)] = (name, type(child).__name__)
        self._stack: list[str] = []
        # Where the step was when an exception passed.
        self.failed: str | None = None

    def current(self) -> str:
        return self._stack[-1] if self._stack else ""

    def __enter__(self):
        self._call = nn.Module.__call__
        nn.Module.__call__ = self._wrap(self._call)
        return self

    def __exit__(self, *_):
        nn.Module.__call__ = self._call

    def _wrap(self, call):
        def wrapped(module, *args, **kwargs):
            entry = self._names.get(id(module))
            if entry is None:
                return call(module, *args, **kwargs)
            meta = fx_traceback.get_current_meta()
            before = meta.get("nn_module_stack")
            meta["nn_module_stack"] = {entry[0]: entry}
            self._stack.append(entry[0])
            self._checkpoints.enter_module(entry[0])
            try:
                return call(module, *args, **kwargs)
            except BaseException:
                if self.failed is None:
                    self.failed = self._stack[-1]
                raise
            finally:
                self._stack.pop()
                self._checkpoints.leave_module()
                # Not the same dictionary where a node's own was in force.
                meta = fx_traceback.get_current_meta()
                if before is None:
                    meta.pop("nn_module_stack", None)
                else:
                    meta["nn_module_stack"] = before
        return wrapped


def _stored_tensors(step: Step) -> dict[str, torch.Tensor]:
    """Traced tensors in the step's Python state, by their places."""
    found = {}

    def look(path, tensor):
        found[path] = tensor
        return tensor

    replace_values(step, FakeTensor, look)
    return found


def _take_stored(trace: Trace) -> None:
    """Removes the stored tensors from the results; finds the constant ones."""
    graph = trace.graph.graph
    output = graph.output_node()
    results = list(output.args[0])
    count = len(results) - len(trace.stored)
    arguments = graph.find_nodes(op="placeholder")
    varying = {*arguments[:len(arguments) - len(trace.constants)]}
    for node in graph.nodes:
        if varying.intersection(node.all_input_nodes):
            varying.add(node)
    trace.constant = {path for path, node in zip(trace.stored, results[count:])
                      if node not in varying}
    output.args = (results[:count],)
    trace.graph.recompile()


def _constants_as_arguments(graph: fx.GraphModule) -> list[torch.Tensor]:
    """Makes tensors that the graph holds further arguments; returns them."""
    values, first = [], {}
    after = graph.graph.find_nodes(op="placeholder")[-1]
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, node.target)
        if node.target not in first:
            with graph.graph.inserting_after(after):
                after = graph.graph.placeholder(f"constant_{len(values)}")
            after.meta["val"] = node.meta.get("val", value)
            first[node.target] = after
            values.append(value)
        node.replace_all_uses_with(first[node.target])
        graph.graph.erase_node(node)
    graph.recompile()
    return values


def _explain(error: Exception, run: _Run) -> str:
    """One line on what could not be followed, and where."""
    text = str(error).strip() or "no message"
    first = text.splitlines()[0]
    frames = [(f.filename, f.lineno)
              for f in traceback.extract_tb(error.__traceback__)]
    frames += re.findall(r'File "([^"]+)", line (\d+)', text)
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    users = [f for f in frames if not f[0].startswith((*ours, "<"))]
    place = f" ({users[-1][0]}:{users[-1][1]})" if users else ""
    kind = type(error).__name__
    inside = (f" in {run.paths.failed or 'the root module'}"
              if not run.backward else "")
    if kind == "DynamicOutputShapeException":
        return ("expected shapes that do not depend on the values of tensors, "
                f"got {first}{inside}{place}")
    if "data-dependent" in text or "DataDependent" in kind:
        return ("expected control flow that does not depend on the values of "
                f"tensors, got a branch on one{place}: {first}; remove the "
                "check, or choose between both results with torch.where")
    if known := ranks.explain(error):
        return known
    if known := explain(text):
        return f"{known}{inside}{place}{describe_inputs(run.inputs)}"
    if run.backward:
        return f"the step cannot be differentiated: {first}{place}"
    return (f"the step cannot be traced: {kind}: {first}{inside}{place}"
            f"{describe_inputs(run.inputs)}")
