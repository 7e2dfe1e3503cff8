#===- elements.py - How a graph computes integers from one input ---------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Follows the elements of one integer input through a graph.

Every tensor that depends on the input is represented by a tensor of tags of
the same shape. A tag names the element of the input that an element comes
from, and the function that made it: `function * count + position`, where
`count` is the input's number of elements. Operations that move elements run on
the tags themselves, views and writes into views included; operations on single
elements make new functions. OTHER marks elements that do not come from the
input in a known way.
"""

from collections.abc import Iterator

import torch
from torch import fx
from torch.utils._pytree import tree_map

from .ranges import Function

aten = torch.ops.aten

OTHER = -1

# No tensor of tags is larger.
_MOST_ELEMENTS = 1 << 24

# Operations that move elements without changing them.
_MOVES = {
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze",
    "unsqueeze", "expand", "expand_as", "permute", "transpose", "t", "slice",
    "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "cat",
    "stack", "clone", "contiguous", "alias", "detach", "detach_", "roll",
    "flip", "copy", "copy_", "slice_scatter", "select_scatter", "lift_fresh",
    "lift_fresh_copy", "repeat", "movedim", "unsafe_chunk", "unsafe_split",
    "swapaxes", "view_as", "concat", "hstack", "vstack", "tile", "numpy_T",
    "moveaxis", "swapdims", "tensor_split",
}
# Operations on single elements that PyTorch does not tag as such.
_POINTWISE = {"floor_divide", "floor_divide_", "rsub"}
_CASTS = {"to", "_to_copy", "type_as"}
_FILLS = {"full", "zeros", "ones", "scalar_tensor", "new_zeros", "new_ones",
          "new_full", "zeros_like", "ones_like", "full_like"}
_PADS = {"constant_pad_nd", "pad"}


def name_of(node: fx.Node) -> str:
    """The operation's name without its overload, `` for what is none."""
    packet = getattr(node.target, "overloadpacket", node.target)
    return getattr(packet, "__name__", "")


class Elements:
    """The tags of every node that depends on `source`."""

    def __init__(self, source: fx.Node, constants: dict[fx.Node, torch.Tensor]):
        self.count = source.meta["val"].numel()
        self._constants = constants
        self._functions: list[Function] = []
        self._known: dict[object, int] = {}
        self._tags: dict[fx.Node, object] = {}
        # No zero, which integers cannot be divided by.
        sample = torch.tensor([1, 2, 3], dtype=source.meta["val"].dtype)
        first = self._add(Function("input", None, (), sample))
        positions = torch.arange(self.count).view(source.meta["val"].shape)
        self._tags[source] = positions + first * self.count

    def run(self, node: fx.Node) -> None:
        """Computes the tags of one node; its arguments were run before."""
        if node.op != "call_function":
            if node in self._constants:
                self._run_constant(node)
            return
        name = name_of(node)
        if name in _FILLS:
            self._run_fill(node, name)
            return
        if not any(n in self._tags for n in node.all_input_nodes):
            return
        try:
            self._tags[node] = self._transfer(node, name)
        except (RuntimeError, TypeError, ValueError, IndexError,
                NotImplementedError):
            # The operation does not run on tags: nothing is known of it.
            self._tags.pop(node, None)
        if isinstance(self._tags.get(node), _Nothing):
            del self._tags[node]
            self._forget_target(node, name)

    def found(self, node: fx.Node) -> Iterator[tuple[Function, torch.Tensor]]:
        """What `node` holds of the input: the functions, and the positions of
        the input that each covers."""
        tags = self._tags.get(node)
        if not isinstance(tags, torch.Tensor):
            return
        tags = _compact(tags)
        tags = tags[tags != OTHER].flatten()
        for number in (tags // self.count).unique().tolist():
            function = self._functions[number]
            if function.constant is not None:
                continue
            covered = torch.zeros(self.count, dtype=torch.bool)
            covered[tags[tags // self.count == number] % self.count] = True
            yield function, covered

    def _add(self, function: Function) -> int:
        self._functions.append(function)
        return len(self._functions) - 1

    def _constant(self, value: torch.Tensor) -> int:
        """The number of the function that is `value`, of rank 0, everywhere."""
        key = (value.dtype, value.item())
        if key not in self._known:
            self._known[key] = self._add(
                Function("constant", None, (), value, value))
        return self._known[key]

    def _run_constant(self, node: fx.Node) -> None:
        value = self._constants[node]
        if value.numel() == 1:
            tag = self._constant(value.detach().reshape(())) * self.count
            self._tags[node] = torch.full(value.shape, tag)

    def _run_fill(self, node: fx.Node, name: str) -> None:
        like = node.meta.get("val")
        if not isinstance(like, torch.Tensor) or like.numel() > _MOST_ELEMENTS:
            return
        if name.startswith("zeros") or name == "new_zeros":
            value = 0
        elif name.startswith("ones") or name == "new_ones":
            value = 1
        else:
            value = node.args[0 if name == "scalar_tensor" else
                              2 if name == "new_full" else 1]
        if isinstance(value, fx.Node):
            return
        number = self._constant(torch.tensor(value, dtype=like.dtype))
        self._tags[node] = torch.full(like.shape, number * self.count)

    def _transfer(self, node: fx.Node, name: str):
        if name == "getitem":
            return self._tags[node.args[0]][node.args[1]]
        if name in _MOVES:
            if not _fits(node, name):
                return NOTHING
            args = tree_map(self._tags_of, tuple(node.args))
            kwargs = {k: tree_map(self._tags_of, v)
                      for k, v in node.kwargs.items() if k != "memory_format"}
            return node.target(*args, **kwargs)
        if name in _PADS:
            return self._pad(node)
        if name in _CASTS:
            return self._cast(node)
        if name in ("where", "masked_fill", "masked_fill_"):
            return self._choose(node, name)
        if name in _POINTWISE or torch.Tag.pointwise in getattr(
                node.target, "tags", ()):
            return self._pointwise(node, node.args)
        return NOTHING

    def _tags_of(self, arg):
        """The tags of an argument; of what is not the input's: OTHER."""
        if not isinstance(arg, fx.Node):
            return arg
        if arg in self._tags:
            return self._tags[arg]
        value = arg.meta["val"]
        return torch.full((), OTHER).expand(value.shape)

    def _forget_target(self, node: fx.Node, name: str) -> None:
        """What an unknown operation writes into is not known any more."""
        if name.endswith("_") and not name.endswith("__") and node.args:
            tags = self._tags.get(node.args[0])
            if isinstance(tags, torch.Tensor):
                tags.fill_(OTHER)

    def _pad(self, node: fx.Node):
        source, amounts = node.args[:2]
        rest = [a for a in node.args[2:] if not isinstance(a, str)]
        if "mode" in node.kwargs or "constant" != (
                node.args[2] if len(node.args) > 2
                and isinstance(node.args[2], str) else "constant"):
            return NOTHING
        value = rest[0] if rest else node.kwargs.get("value")
        like = node.meta["val"]
        number = self._constant(torch.tensor(value or 0, dtype=like.dtype))
        return aten.constant_pad_nd(self._tags[source], amounts,
                                    number * self.count)

    def _cast(self, node: fx.Node):
        if node.args[0] not in self._tags:
            return NOTHING
        before = node.args[0].meta["val"].dtype
        after = node.meta["val"].dtype
        tags = self._tags[node.args[0]]
        if before == after:
            return tags
        return self._apply("to", lambda x: x.to(after), [tags], 0)

    def _pointwise(self, node: fx.Node, args: tuple):
        """A function of single elements, which may be written in place."""
        name, target = name_of(node), node.target
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place:
            target = getattr(getattr(aten, name[:-1]),
                             node.target._overloadname)
        nodes = [a for a in args if isinstance(a, fx.Node)]
        if any(n not in self._tags for n in nodes):
            return NOTHING

        def call(*values):
            left = list(values)
            return target(*(left.pop(0) if isinstance(a, fx.Node) else a
                            for a in args), **node.kwargs)

        number = args[1] if (len(nodes) == 1 and len(args) > 1
                             and nodes[0] is args[0]
                             and isinstance(args[1], (int, float))) else None
        tags = self._apply(name[:-1] if in_place else name, call,
                           [self._tags[n] for n in nodes], number)
        if in_place:
            return self._tags[args[0]].copy_(tags)
        return tags

    def _choose(self, node: fx.Node, name: str):
        """where and masked_fill: the condition may be unknown."""
        if name == "where":
            condition, left, right = node.args
        else:
            # What it writes into comes first.
            left, condition, right = node.args
            if name == "masked_fill_" and left not in self._tags:
                return NOTHING
            left, right = right, left
        if condition in self._tags:
            tags = self._apply("where", torch.where, [
                self._tags[condition], self._operand(left, node),
                self._operand(right, node)])
        else:
            left, right = torch.broadcast_tensors(
                self._operand(left, node), self._operand(right, node))
            left, right = (x.expand(node.meta["val"].shape)
                           for x in (left, right))
            tags = torch.where(left == right, left, OTHER)
            for side in (right, left):
                mine = self._is_from_input(side) & (tags == OTHER)
                tags = torch.where(mine, self._doubted(side), tags)
        if name == "masked_fill_":
            return self._tags[node.args[0]].copy_(tags)
        return tags

    def _operand(self, arg, node: fx.Node) -> torch.Tensor:
        if isinstance(arg, fx.Node):
            return self._tags_of(arg)
        dtype = node.meta["val"].dtype
        return torch.tensor(self._constant(torch.tensor(arg, dtype=dtype))
                            * self.count)

    def _is_from_input(self, tags: torch.Tensor) -> torch.Tensor:
        constant = torch.tensor([f.constant is not None
                                 for f in self._functions])
        return (tags != OTHER) & ~constant[(tags // self.count).clamp(min=0)]

    def _doubted(self, tags: torch.Tensor) -> torch.Tensor:
        """The same functions, which may not be the elements' after all."""
        numbers = tags // self.count
        result = tags.clone()
        for number in numbers[self._is_from_input(tags)].unique().tolist():
            key = ("doubted", number)
            if key not in self._known:
                function = self._functions[number]
                self._known[key] = self._add(Function(
                    "alias", lambda x: x, (function,), function.sample,
                    sure=False))
            result = torch.where(numbers == number,
                                 tags % self.count
                                 + self._known[key] * self.count, result)
        return result

    def _apply(self, name: str, call, operands: list[torch.Tensor],
               number: int | float | None = None) -> torch.Tensor:
        """Tags of call(operands), element by element.

        Elements that come from different positions, or from elsewhere, are
        not followed.
        """
        operands = torch.broadcast_tensors(*operands)
        shape = operands[0].shape
        stacked = torch.stack([_compact_like(o, operands) for o in operands])
        numbers = torch.where(stacked == OTHER, OTHER, stacked // self.count)
        positions = stacked % self.count
        result = torch.full(stacked.shape[1:], OTHER)
        for row in numbers.flatten(1).unique(dim=1).t().tolist():
            if OTHER in row:
                continue
            functions = [self._functions[n] for n in row]
            here = (numbers == torch.tensor(row).view(
                -1, *[1] * (stacked.dim() - 1))).all(0)
            moving = [i for i, f in enumerate(functions) if f.constant is None]
            value = call(*(f.sample for f in functions))
            if not moving:
                tag = self._constant(value.reshape(())) * self.count
                result = torch.where(here, tag, result)
                continue
            for i in moving[1:]:
                here = here & (positions[i] == positions[moving[0]])
            made = self._add(Function(
                name, call, tuple(functions), value, number=number,
                sure=all(f.sure for f in functions)))
            result = torch.where(
                here, positions[moving[0]] + made * self.count, result)
        return result.expand(shape)


def _fits(node: fx.Node, name: str) -> bool:
    """Whether moving tags makes no large tensor."""
    value = node.meta.get("val")
    return (not isinstance(value, torch.Tensor)
            or value.numel() <= _MOST_ELEMENTS
            or name in ("expand", "unsqueeze", "view", "select", "slice",
                        "permute", "transpose", "alias", "detach"))


class _Nothing:
    """The result of an operation that is not followed."""


NOTHING = _Nothing()


def _compact(tags: torch.Tensor) -> torch.Tensor:
    """One slice of every dimension that repeats itself."""
    return _compact_like(tags, [tags])


def _compact_like(tags: torch.Tensor, group: list) -> torch.Tensor:
    for dim in range(tags.dim()):
        if tags.shape[dim] > 1 and all(t.stride(dim) == 0 for t in group):
            tags = tags.narrow(dim, 0, 1)
    return tags
