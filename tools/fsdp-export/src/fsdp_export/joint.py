#===- joint.py - The joint graph of forward and backward -----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Traces a step into one graph: (parameters, buffers, inputs) to (loss,
gradients, new buffers).

Two traces follow each other. The first records the user's module under
PyTorch's autograd (tracing.py); the second makes the result functional and
decomposes it to core operations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx

from . import graphs, lossscale, messages, ranks, refusals, statefulness, unsigned
from .attention import attention_lowering
from .bounds import Bounds, input_bounds
from .causality import Prediction, is_cheap, sees_later_tokens
from .decompositions import decompositions
from .draws import Draw, make_arguments
from .eager import fill_caches
from .errors import ExportError
from .folding import fold_constants
from .pythonstate import Snapshot, find_tensor
from .randomness import Generators
from .shifts import token_shifts
from .step import Held, Step, buffers_of, parameters_of
from .tracing import Trace, record

aten = torch.ops.aten


@dataclass
class Joint:
    """The joint graph and what its arguments and results are.

    Arguments: `parameters`, `buffers`, `inputs`, `draws` and, where it
    `scales_loss`, the scale; results: the loss, the
    gradients of `gradients` (where it `evaluates`: the outputs of these names),
    the new values of `updates`, and over how many a loss that `is_sum` is one.
    `unused` names
    parameters that the loss does not depend on. `unfolded` is the graph before
    its constants were evaluated, in the types that it computes in. `bounds`
    holds what is known of the values of integer inputs. `shifts` holds, for a
    step that token data can fill, how many tokens later each input starts, None
    where it is not clear. `left_out`: what it returns that is no tensor, types by
    name. `checkpointed`: modules under torch.utils.checkpoint; checkpointed
    functions that call no module are `nameless_checkpoints`.
    """

    graph: fx.GraphModule
    unfolded: fx.GraphModule
    parameters: list[Held]
    buffers: list[Held]
    inputs: dict[str, torch.Tensor]
    gradients: list[str]
    unused: set[str]
    updates: list[str]
    bounds: dict[str, Bounds]
    shifts: dict[str, int | None]
    evaluates: bool = False
    is_sum: bool = False
    left_out: dict[str, str] = field(default_factory=dict)
    checkpointed: list[str] = field(default_factory=list)
    nameless_checkpoints: int = 0
    draws: list[Draw] = field(default_factory=list)
    scales_loss: bool = False

    def given(self) -> list[torch.Tensor]:
        """Values of the arguments after the inputs, of a loss times 1."""
        scale = [torch.ones(())] if self.scales_loss else []
        return [*(draw.values() for draw in self.draws), *scale]

    def run(self, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The graph's results for all arguments."""
        results = graphs.Run(self.graph).run(
            *map(unsigned.as_signed, arguments))
        return self.restore(results)

    def restore(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Results with the types that PyTorch gives them."""
        kinds = {h.fqn: h.tensor.dtype for h in self.buffers}
        new = [kinds[n] for n in self.updates]
        first = 1 + len(self.gradients)
        end = first + len(new)
        return [*results[:first], *(
            r.view(k) if k == torch.uint8 else r
            for r, k in zip(results[first:end], new)), *results[end:]]


def trace(step: Step, compare: bool = True) -> Joint:
    """Traces a step; the module is left as it was.

    Tracing computes nothing. Where PyTorch itself is to run the step later
    (`compare`), it also runs it before.
    """
    parameters = parameters_of(step.module)
    buffers = buffers_of(step.module)
    refusals.refuse_modules(step.module)
    refusals.refuse_lazy(parameters + buffers)
    refusals.refuse_views(parameters, buffers)
    refusals.refuse_types(parameters, buffers, step.inputs)
    if compare and all(step.recorder.is_filled(h.tensor)
                       for h in parameters + buffers):
        fill_caches(step)
    before, generators = Snapshot(step), Generators(step)
    try:
        with ranks.watch() as asked:
            first = record(step, parameters, buffers)
        generators.refuse_drawn()
        refusals.refuse_higher_order(first.graph.graph)
        graphs.refuse_dynamic(first.graph.graph)
        graphs.refuse_complex(first.graph.graph)
        messages.refuse_mixed_products(first.graph.graph)
        _refuse_stale(first, step, parameters + buffers)
        if not step.evaluates:
            statefulness.check(step, parameters, buffers, first, before)
        _check_ranks(step, parameters, buffers, first, before, asked)
    finally:
        before.restore()
    placeholders = first.graph.graph.find_nodes(op="placeholder")
    names = dict(zip(step.inputs, placeholders[len(parameters + buffers):]))
    # Inputs are known here, while an embedding still is an embedding.
    known = dict(zip(placeholders[len(parameters + buffers) + len(names):],
                     first.constants))
    bounds = input_bounds(names, known)
    held = parameters + buffers

    def looks_ahead(name: str, predictions: list[Prediction]) -> bool:
        if not (name in bounds and bounds[name].draw and predictions
                and all(step.recorder.is_filled(h.tensor) for h in held)
                and is_cheap([h.tensor for h in parameters],
                             step.inputs[name])):
            return True  # Nothing is known.
        values = [*(h.tensor for h in held), *step.inputs.values(),
                  *first.constants]
        trained = [i for i, h in enumerate(parameters)
                   if h.tensor.requires_grad]
        try:
            return sees_later_tokens(
                first.graph, values, trained,
                len(held) + list(step.inputs).index(name),
                *bounds[name].draw, predictions)
        except Exception:
            # The example is none that PyTorch takes: nothing is known.
            return True

    shifts = {} if step.evaluates else token_shifts(
        names, placeholders[:len(parameters)],
        first.graph.graph.output_node().args[0][0], step.shifts, looks_ahead)
    values = [h.tensor.detach() for h in parameters + buffers]
    values += [*step.inputs.values(), *first.constants]
    graph = _trace_again(torch.func.functionalize(
        lambda *tensors: _AnyStride(first.graph).run(*tensors)), values)
    updates = _select_results(graph, step, parameters, buffers, first)
    if unsigned.has_bytes(graph):
        graph = unsigned.widen(graph, values, _trace_again)
        first.constants = list(map(unsigned.as_signed, first.constants))
    graphs.bind_constants(graph, first.constants)
    graphs.clean(graph)
    graphs.count_from_front(graph)
    graphs.fit_scalars(graph)
    messages.refuse_randomness(graph.graph, first.graph.graph)
    draws = make_arguments(graph)
    if step.evaluates and draws:
        raise ExportError(
            "expected an evaluation without random numbers, got one that draws "
            f"them in {draws[0].path or 'the root module'}")
    scales_loss = lossscale.make_argument(graph)
    unfolded = graphs.copied(graph)
    fold_constants(graph)
    gradients = [parameters[i].fqn for i in first.gradients]
    unused = {h.fqn for h in parameters
              if h.tensor.requires_grad} - {*gradients}
    return Joint(graph, unfolded, parameters, buffers, step.inputs,
                 first.outputs or gradients, unused, updates, bounds, shifts,
                 step.evaluates, first.is_sum, first.left_out, first.checkpointed,
                 first.nameless_checkpoints, draws, scales_loss)


def _check_ranks(step: Step, parameters: Sequence[Held],
                 buffers: Sequence[Held], first: Trace, before: Snapshot,
                 asked: ranks.Asked) -> None:
    """Refuses a step that is another one on other ranks."""
    def again() -> list:
        before.restore()
        return statefulness.describe(record(step, parameters, buffers))

    if asked:
        ranks.check(again, statefulness.describe(first), asked)


def _refuse_stale(first: Trace, step: Step, held: Sequence[Held]) -> None:
    """A constant may not be a parameter or buffer seen from elsewhere."""
    storages = {h.tensor.untyped_storage()._cdata: h.fqn for h in held
                if h.tensor.numel()}
    for constant in first.constants:
        name = storages.get(constant.untyped_storage()._cdata)
        if name is not None:
            place = find_tensor(step, constant)
            where = f" at {place}" if place else ""
            raise ExportError(
                f"expected the step to read {name} from the module, got a view "
                f"of it that was made before the step{where}, or a use that "
                "cannot be followed; take it from the module where it is used")


def _select_results(graph: fx.GraphModule, step: Step,
                    parameters: Sequence[Held], buffers: Sequence[Held],
                    first: Trace) -> list[str]:
    """Keeps loss, gradients, changed buffers and, after them, the loss's count;
    returns the buffers' names.

    What a parameter, buffer or input holds after the step is its argument
    where the step leaves it alone.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    output = graph.graph.output_node()
    results = list(output.args[0])
    count = 1 + len(first.gradients) + len(first.outputs)
    loss_count = results[count:count + first.is_sum]
    after = results[count + len(loss_count):]
    names = [h.fqn for h in (*parameters, *buffers)] + list(step.inputs)
    kept, updates = results[:count], []
    for i, (name, argument, value) in enumerate(zip(names, placeholders,
                                                    after)):
        if _origin(value) is argument:
            continue
        if i < len(parameters):
            raise ExportError(
                f"expected only buffers to change, got a write to parameter "
                f"{name}; make it a buffer, which needs no gradient "
                "(register_buffer), or write to it outside of the step")
        if i >= len(parameters) + len(buffers):
            raise ExportError("expected a step that leaves its inputs alone, "
                              f"got a write to {name}; write into a clone()")
        kept.append(value)
        updates.append(name)
    for argument, constant in zip(placeholders[len(names):], first.constants):
        for user in argument.users:
            if user.target is aten.copy_.default and user.args[0] is argument:
                place = find_tensor(step, constant)
                raise ExportError(
                    "expected only buffers to change, got a write to "
                    f"{place or 'a tensor'} that is no buffer; register it "
                    "with register_buffer")
    # What functionalisation writes back to the arguments is a result now.
    for node in list(graph.graph.nodes):
        if node.target is aten.copy_.default and node.args[0] in placeholders:
            node.replace_all_uses_with(node.args[1])
            graph.graph.erase_node(node)
    output.args = (kept + loss_count,)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return updates


def _origin(node: fx.Node) -> fx.Node:
    while node.target in (aten.alias.default, aten.detach.default):
        node = node.args[0]
    return node


class _AnyStride(fx.Interpreter):
    """Runs a graph whose tensors may have come to lie differently.

    Decompositions choose other strides than the kernels they replace, so a
    view may need a copy now. Pooling asks for its input as it should lie, or
    it restrides its result.
    """

    def call_function(self, target, args, kwargs):
        if target in graphs.VIEWS:
            target = aten.reshape.default
        elif target in (aten.adaptive_avg_pool1d.default,
                        aten.adaptive_avg_pool2d.default):
            args = (args[0].contiguous(), *args[1:])
        return super().call_function(target, args, kwargs)


def _trace_again(function: Callable,
                 values: Sequence[torch.Tensor]) -> fx.GraphModule:
    """The function's operations, decomposed to core ones."""
    with (attention_lowering(), torch.backends.mkldnn.flags(enabled=False),
          fx_traceback.preserve_node_meta()):
        return make_fx(function, tracing_mode="fake",
                       decomposition_table=decompositions())(*values)
