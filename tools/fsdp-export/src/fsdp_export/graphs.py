#===- graphs.py - Work on FX graphs --------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Small transformations of the traced graphs, each a function of one graph."""

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from .errors import ExportError
from .step import PREFIX

aten = torch.ops.aten

_PASS_THROUGH = (aten.alias.default, aten.detach.default,
                 aten.lift_fresh_copy.default)
# They want their input to lie in a certain way; a reshape does not.
VIEWS = (aten.view.default, aten._unsafe_view.default)
_COMPARISONS = tuple(getattr(aten, name).Scalar for name in (
    "eq", "ne", "lt", "le", "gt", "ge"))
_CHECKS = (aten._assert_tensor_metadata.default, aten._assert_async.msg,
           aten.sym_constrain_range_for_size.default)


class Run(fx.Interpreter):
    """Runs a graph on tensors whose strides are others than when it was
    traced, those of evaluated constants for example: views may copy."""

    def call_function(self, target, args, kwargs):
        target = aten.reshape.default if target in VIEWS else target
        return super().call_function(target, args, kwargs)


def module_path(node: fx.Node) -> str:
    """The module that a node belongs to, `` for the root or where unknown."""
    stack = node.meta.get("nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()][-1:] or [""]
    return path[0].removeprefix(PREFIX.rstrip(".")).removeprefix(".")


def drop_profiling(graph: fx.GraphModule) -> None:
    """Drops the marks of torch.profiler.record_function."""
    for node in reversed(graph.graph.nodes):
        if getattr(node.target, "namespace", "") == "profiler":
            graph.graph.erase_node(node)
    graph.recompile()


def name_backward(graph: fx.GraphModule) -> None:
    """Gives each backward node the module of its forward node.

    The first node of a sequence number is the one that autograd recorded;
    later ones with the same number were not differentiated.
    """
    forward: dict[int, dict] = {}
    for node in graph.graph.nodes:
        number = node.meta.get("seq_nr")
        if number is None or node.op != "call_function":
            continue
        stack = node.meta.get("nn_module_stack")
        if stack:
            forward.setdefault(number, stack)
        elif number in forward:
            node.meta["nn_module_stack"] = forward[number]


def copied(graph: fx.GraphModule) -> fx.GraphModule:
    """The same nodes again; tensors that the graph holds are shared."""
    nodes = fx.Graph()
    nodes.output(nodes.graph_copy(graph.graph, {}))
    return fx.GraphModule(graph, nodes)


def bind_constants(graph: fx.GraphModule,
                   constants: list[torch.Tensor]) -> None:
    """Replaces the last placeholders by the constants that they stand for."""
    if not constants:
        return
    placeholders = graph.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders[-len(constants):], constants):
        node.replace_all_uses_with(make_table(graph, node, value.detach()))
        graph.graph.erase_node(node)


def clean(graph: fx.GraphModule) -> None:
    """Drops checks that tracing has settled, and identities."""
    for node in list(graph.graph.nodes):
        if node.target in _PASS_THROUGH:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        elif node.target in _CHECKS and not node.users:
            graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def count_from_front(graph: fx.GraphModule) -> None:
    """Replaces negative dimensions of gathers and scatters.

    torch-mlir crashes on some of them.
    """
    for node in graph.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        names = [a.name for a in schema.arguments] if schema else []
        if not {"dim", "index"} <= {*names}:
            continue
        at = names.index("dim")
        value = node.args[0].meta.get("val")
        if len(node.args) > at and node.args[at] < 0 and value is not None:
            node.update_arg(at, node.args[at] + value.dim())


def fit_scalars(graph: fx.GraphModule) -> None:
    """Writes numbers that floats are compared with as floats, those of f32 as
    PyTorch rounds them, and tensors of one value that take only a shape from
    another one without it.

    torch-mlir compares in f64, and crashes where it folds a comparison of a
    table of floats with an integer. (Numbers that narrow floats are compared
    with stay: verification compares such a step in f32, too.)
    """
    for node in list(graph.graph.nodes):
        value = node.meta.get("val")
        if node.target in _COMPARISONS:
            kind = node.args[0].meta["val"].dtype
            if kind.is_floating_point and type(node.args[1]) is int:
                node.update_arg(1, float(node.args[1]))
            if kind == torch.float32 and type(node.args[1]) is float:
                node.update_arg(1, torch.tensor(node.args[1]).float().item())
        elif node.target is aten.full_like.default:
            with graph.graph.inserting_before(node):
                full = graph.graph.call_function(
                    aten.full.default, (list(value.shape), node.args[1]),
                    {"dtype": value.dtype})
            full.meta = make_meta(node, value)
            node.replace_all_uses_with(full)
            graph.graph.erase_node(node)
    graph.recompile()


def refuse_dynamic(graph: fx.Graph) -> None:
    """Every shape has to be known: none may come from a tensor's values."""
    for node in graph.nodes:
        for value in tree_leaves(node.meta.get("val")):
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            if any(isinstance(s, torch.SymInt | torch.SymFloat | torch.SymBool)
                   for s in sizes):
                place = module_path(node) or "the root module"
                if node.target is aten._local_scalar_dense.default:
                    raise ExportError(
                        "expected values of tensors to stay in tensors, got "
                        f"one that is read in {place} (.item(), int(), or an "
                        "index of rank 0, which index_select(0, i.view(1)) "
                        "takes)")
                raise ExportError(
                    "expected shapes that do not depend on the values of "
                    f"tensors, got {node.target} in {place}")


def refuse_complex(graph: fx.Graph) -> None:
    """Complex numbers have no lowering; tracing them further fails oddly."""
    for node in graph.nodes:
        if any(isinstance(v, torch.Tensor) and v.is_complex()
               for v in tree_leaves(node.meta.get("val"))):
            raise ExportError(
                "expected real numbers only, got complex ones from "
                f"{node.target} in {module_path(node) or 'the root module'}")


def make_table(graph: fx.GraphModule, node: fx.Node,
               value: torch.Tensor) -> fx.Node:
    """A constant in the place of `node`."""
    name = f"table_{node.name}"
    graph.register_buffer(name, value.contiguous())
    with graph.graph.inserting_before(node):
        table = graph.graph.get_attr(name)
        # The importer wants an attribute to have one user; this is dropped.
        copy = graph.graph.call_function(aten.clone.default, (table,))
    table.meta = make_meta(node, node.meta["val"].new_empty(value.shape))
    copy.meta = dict(table.meta)
    return copy


def make_meta(node: fx.Node, value: torch.Tensor) -> dict:
    """A replacement's metadata: the node's module, its own shape."""
    kept = {"nn_module_stack": node.meta.get("nn_module_stack")}
    return {**kept, "val": value}
