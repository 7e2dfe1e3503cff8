#===- shifts.py - Which inputs are targets, and of which token -----------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Decides how token data fills the inputs of a step.

All inputs of a text model take a window of the same tokens, each `shift`
tokens further on. An input that indexes parameters (an embedding) is a model
input: shift 0. One that selects from what the model computed (a class of the
logits) and meets no parameter before is a target. Which token a target is
compared with is followed through the graph: a position tag travels from the
model input along the residual stream to the logits, another one from the
target. Where both tags agree, the target has to be the next token: shift 1;
where the step itself compares position i with target i + 1, shift 0. What
cannot be followed, and what is neither, is not clear: None.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import fx

from .bounds import index_ranges
from .causality import Prediction
from .elements import name_of
from .errors import ExportError, nearest
from .step import dtype_name

aten = torch.ops.aten

_UNKNOWN = -1
_MOST_ELEMENTS = 1 << 24

_VIEWS = {"view", "_unsafe_view", "reshape", "flatten", "unflatten", "alias",
          "detach", "slice", "select", "squeeze", "unsqueeze", "expand",
          "permute", "transpose", "t", "narrow", "split", "split_with_sizes",
          "chunk", "unbind", "movedim", "view_as", "expand_as"}
_COPIES = {"to", "_to_copy", "clone", "contiguous", "type_as",
           "lift_fresh_copy"}
_FILLS = {"zeros", "ones", "full", "empty", "new_zeros", "new_ones",
          "new_full", "new_empty", "zeros_like", "ones_like", "full_like",
          "empty_like"}
# Results that lie as their first argument does, but for the last dimensions.
_ROWS = {"linear", "addmm", "mm", "matmul", "bmm", "baddbmm"}
_SAME_ROWS = {"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm",
              "softmax", "_softmax", "_safe_softmax", "log_softmax",
              "_log_softmax", "dropout", "native_dropout", "sum", "mean",
              "amax", "amin", "var", "std", "logsumexp", "norm", "var_mean",
              "scaled_dot_product_attention", "linalg_vector_norm"}


@dataclass
class _Input:
    """What is known of one input: whether it meets parameters, whether it
    indexes them, and the distances from prediction to target."""

    meets_parameter: bool = False
    indexes_parameter: bool = False
    distances: list[int | None] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)


def parse_shifts(options: list[str]) -> dict[str, int]:
    """What `--shift INPUT=N,..` says, by input."""
    shifts = {}
    for item in ",".join(options).split(",") if options else []:
        name, equals, number = item.partition("=")
        if not name or not equals or not (number.isascii()
                                          and number.isdecimal()):
            raise ExportError(f"--shift: expected INPUT=N, got {item}")
        shifts[name] = int(number)
    return shifts


def token_shifts(inputs: dict[str, fx.Node], parameters: list[fx.Node],
                 loss: fx.Node, given: dict[str, int | None],
                 looks_ahead: Callable[[str, list[Prediction]], bool]
                 ) -> dict[str, int | None]:
    """The shift of every input in token data; None where it is not clear.

    Empty where token data cannot fill the inputs anyway: they have to be
    integers of one shape [batch, sequence]. What is `given` goes first.
    `looks_ahead` says whether predictions depend on later tokens of an input:
    then the next token is no target for them, and it is not clear what is.
    """
    for name in given:
        if name not in inputs:
            raise ExportError(f"--shift: expected one of the inputs "
                              f"{', '.join(inputs)}, got {name}"
                              f"{nearest(name, inputs)}")
    values = [n.meta["val"] for n in inputs.values()]
    if not values or any(
            v.dtype.is_floating_point or v.dtype == torch.bool or v.dim() != 2
            or v.shape != values[0].shape or not v.numel() for v in values):
        if any(shift is not None for shift in given.values()):
            raise ExportError(
                f"--shift {next(iter(given))}: expected inputs that token data "
                "can fill, integers of one shape [batch, sequence], got "
                + ", ".join(f"{n} of {dtype_name(v.dtype)} {list(v.shape)}"
                            for n, v in zip(inputs, values)))
        return {}
    while name_of(loss) in ("alias", "detach"):
        loss = loss.args[0]
    flow = _Flow(inputs, parameters)
    for node in loss.graph.nodes:
        flow.visit(node)
        if node is loss:
            break
    embedded = [n for n in inputs if flow.found[n].indexes_parameter]
    found = {name: _shift(flow.found[name], embedded[:1] == [name],
                          alone=len(inputs) == 1) for name in inputs}
    for name, shift in found.items():
        predictions = flow.found[name].predictions
        if (shift is not None and name not in given and name not in embedded
                and embedded and looks_ahead(embedded[0], predictions)):
            found[name] = None
    return found | given


def _shift(found: _Input, is_first: bool, alone: bool) -> int | None:
    known = [d for d in found.distances if d is not None]
    if found.indexes_parameter or found.meets_parameter:
        return 0 if is_first or alone else None
    if not known or len(known) < len(found.distances):
        return None
    return max(0, 1 - min(known))


class _Flow:
    """Visits nodes in order; keeps what they depend on, and position tags."""

    def __init__(self, inputs: dict[str, fx.Node], parameters: list[fx.Node]):
        self.found = {name: _Input() for name in inputs}
        # By the tensor that a chain of views looks at.
        self._inputs: dict[fx.Node, frozenset[str]] = {}
        self._trained: set[fx.Node] = set(parameters)
        self._tags: dict[fx.Node, object] = {}
        for name, node in inputs.items():
            value = node.meta["val"]
            self._inputs[node] = frozenset([name])
            self._tags[node] = torch.arange(value.numel()).view(value.shape)

    def visit(self, node: fx.Node) -> None:
        if node.op != "call_function":
            return
        name = name_of(node)
        sources = [self._base(n) for n in node.all_input_nodes]
        names = frozenset().union(*(self._inputs.get(s, frozenset())
                                    for s in sources))
        trained = any(s in self._trained for s in sources)
        names -= self._note_lookups(node)
        weights = [s for s in sources
                   if s in self._trained and not self._inputs.get(s)]
        if weights:
            for used in names:
                self.found[used].meets_parameter = True
        self._follow(node, name)
        for target in {self._base(node), *([self._base(node.args[0])] if
                       _writes(name) and node.args else [])}:
            self._inputs[target] = self._inputs.get(target,
                                                    frozenset()) | names
            if trained:
                self._trained.add(target)

    def _base(self, node: fx.Node) -> fx.Node:
        while (node.op == "call_function" and node.all_input_nodes
               and name_of(node) in _VIEWS | {"getitem"}
               and isinstance(node.args[0], fx.Node)):
            node = node.args[0]
        return node

    def _note_lookups(self, node: fx.Node) -> frozenset[str]:
        """Records what `node` looks up; returns the targets among it."""
        targets: frozenset[str] = frozenset()
        for index, _, high, _ in index_ranges(node):
            names = self._inputs.get(self._base(index), frozenset())
            table = self._base(node.args[0])
            if not names:
                continue
            if not self._inputs.get(table):
                if table in self._trained:
                    for name in names:
                        self.found[name].indexes_parameter = True
                continue
            if table not in self._trained:
                continue
            for name in names:
                self.found[name].distances.append(
                    self._distance(node, index))
                tags = self._tags.get(node.args[0])
                if isinstance(tags, torch.Tensor):
                    self.found[name].predictions.append(
                        Prediction(node.args[0], tags))
            targets |= names
        return targets

    def _distance(self, node: fx.Node, index: fx.Node) -> int | None:
        """How many positions a target lies after its prediction."""
        name = name_of(node)
        target = self._tags.get(index)
        prediction = self._tags.get(node.args[0])
        if not isinstance(target, torch.Tensor) or not isinstance(
                prediction, torch.Tensor):
            return None
        if name in ("gather", "scatter", "scatter_add"):
            dim = node.args[1]
            line = prediction.narrow(dim, 0, 1).expand_as(target)
        elif "loss" in name:
            line = prediction.select(0 if prediction.dim() == 1 else 1, 0)
        else:
            return None
        if line.shape != target.shape:
            return None
        both = (line != _UNKNOWN) & (target != _UNKNOWN)
        # Tags are batch * sequence + position; rows must be the same.
        apart = (target - line)[both].unique().tolist()
        return apart[0] if len(apart) == 1 else None

    def _follow(self, node: fx.Node, name: str) -> None:
        value = node.meta.get("val")
        if name in _FILLS:
            if value.numel() <= _MOST_ELEMENTS:
                self._tags[node] = torch.full(value.shape, _UNKNOWN)
            return
        if not any(n in self._tags for n in node.all_input_nodes):
            return
        try:
            tags = self._transfer(node, name)
        except (RuntimeError, TypeError, ValueError, IndexError):
            # The operation does not run on tags: nothing is known of it.
            return
        if tags is not None:
            self._tags[node] = tags

    def _transfer(self, node: fx.Node, name: str):
        value = node.meta.get("val")
        first = node.args[0] if node.args else None
        if name == "getitem":
            parts = self._tags.get(first)
            if isinstance(parts, (list, tuple)):
                return parts[node.args[1]]
            return parts if node.args[1] == 0 else None
        if name in _VIEWS and first in self._tags:
            return _view(node, self._tags[first])
        if name in ("constant_pad_nd", "pad") and first in self._tags:
            return aten.constant_pad_nd(self._tags[first], node.args[1],
                                        _UNKNOWN)
        if name in _COPIES and first in self._tags:
            return self._tags[first]
        if name == "copy_" and first in self._tags:
            return self._tags[first].copy_(self._operand(node.args[1]))
        if name in ("cat", "stack"):
            return node.target([self._operand(n) for n in first],
                               *node.args[1:], **node.kwargs)
        if name in ("embedding", "index_select", "index"):
            return self._looked_up(node, name, value)
        if name in _ROWS:
            # addmm and baddbmm add to the product of their next arguments.
            left = node.args[1 if name in ("addmm", "baddbmm") else 0]
            return _rows(self._tags.get(left), value)
        if (name in _SAME_ROWS or _is_one_way(node, name)) and (
                first in self._tags):
            like = value[0] if isinstance(value, (list, tuple)) else value
            # The values of a tuple are not recorded in every trace.
            return _rows(self._tags[first],
                         first.meta["val"] if like is None else like)
        if torch.Tag.pointwise in getattr(node.target, "tags", ()):
            return self._pointwise(node, value)
        return None

    def _looked_up(self, node: fx.Node, name: str, value: torch.Tensor):
        """Rows of a table lie as their indices do."""
        rows = {"embedding": [node.args[1]], "index_select": node.args[2:3],
                "index": node.args[1]}[name]
        tags = self._tags.get(rows[0]) if len(rows) == 1 else None
        if tags is None or (name == "index_select" and node.args[1] != 0):
            return None
        return tags.view(*tags.shape, *[1] * (value.dim() - tags.dim())
                         ).expand(value.shape)

    def _operand(self, node: fx.Node) -> torch.Tensor:
        tags = self._tags.get(node)
        if isinstance(tags, torch.Tensor):
            return tags
        return torch.tensor(_UNKNOWN).expand(node.meta["val"].shape)

    def _pointwise(self, node: fx.Node, value: torch.Tensor):
        """Where operands disagree, the last token that took part counts."""
        found = None
        for operand in node.all_input_nodes:
            tags = self._tags.get(operand)
            if not isinstance(tags, torch.Tensor):
                continue
            tags = tags.expand(value.shape)
            if found is None:
                found = tags
            elif tags.dim() and found.stride(-1) == tags.stride(-1) == 0:
                found = torch.maximum(_narrow(found), _narrow(tags)).expand(
                    value.shape)
            elif value.numel() <= _MOST_ELEMENTS:
                found = torch.maximum(found, tags)
            else:
                return None
        return found


def _is_one_way(node: fx.Node, name: str) -> bool:
    """A recurrent layer whose results lie as its argument does."""
    return (name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
            and len(node.args) > 7 and not node.args[7])


def _writes(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _narrow(tags: torch.Tensor) -> torch.Tensor:
    """The last dimension once, where the tags do not depend on it."""
    if tags.dim() and tags.stride(-1) == 0:
        return tags.narrow(-1, 0, 1)
    return tags


def _rows(tags: torch.Tensor | None, value: torch.Tensor):
    """Tags of a result that keeps the rows of its argument."""
    if not isinstance(tags, torch.Tensor):
        return None
    if tags.shape == value.shape:
        return tags
    if tags.dim() != value.dim() or tags.shape[:-1] != value.shape[:-1]:
        return None
    first = tags.narrow(-1, 0, 1)
    if not (tags.stride(-1) == 0 or torch.equal(tags, first.expand_as(tags))):
        return None
    return first.expand(value.shape)


def _view(node: fx.Node, tags):
    """The view's tags; a last dimension of equal tags stays one in memory."""
    name, shape = name_of(node), None
    value = node.meta.get("val")
    if name in ("view", "_unsafe_view", "reshape", "flatten", "unflatten",
                "view_as"):
        shape = list(value.shape)
        if (tags.dim() and shape and tags.stride(-1) == 0
                and tags.shape[-1] == shape[-1]):
            return tags.narrow(-1, 0, 1).reshape(
                [*shape[:-1], 1]).expand(shape)
        if tags.numel() > _MOST_ELEMENTS:
            return tags.view(shape)
        return tags.reshape(shape)
    if name in ("expand_as",):
        return tags.expand(value.shape)
    return node.target(tags, *node.args[1:], **node.kwargs)
