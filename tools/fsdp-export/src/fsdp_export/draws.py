#===- draws.py - Random numbers that a step draws ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Makes PyTorch draw what a compiled step draws.

Wherever the step runs, traced or beside its export, an operation that draws
random numbers takes them from fsdp_export::uniform or fsdp_export::normal, whose
elements are functions of a site and their number (docs/random.md). In a traced
graph a call of these becomes an argument, with `fsdp.random`.

A site is the number of a draw within the step. It is kept as the seed of
PyTorch's default generator, whose state torch.utils.checkpoint puts back before
it runs a part of forward again: that draws at the sites of the first time.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .errors import ExportError
from .graphs import module_path
from .places import user_line
from .step import Step

aten = torch.ops.aten

SITES = 1 << 16
# Of the default generator at the first draw of a step: "fsdp" in its upper half.
_SEED = 0x66736470 << 32
_MASK = 0xFFFFFFFF

_library = torch.library.Library("fsdp_export", "DEF")
_library.define("uniform(int site, SymInt[] size) -> Tensor")
_library.define("normal(int site, SymInt[] size) -> Tensor")


@dataclass(frozen=True)
class Draw:
    """An argument of the step that is drawn anew each time."""

    kind: str
    site: int
    shape: tuple[int, ...]
    # The module that draws, "" for the root.
    path: str

    @property
    def name(self) -> str:
        return f"{self.path or 'root'}#{self.site}"

    def values(self) -> torch.Tensor:
        return _KINDS[self.kind](self.site, self.shape)


@dataclass
class _Position:
    """Where a training run is that draws."""

    step: int = 0
    rank: int = 0
    micro_batch: int = 0


_position = _Position()


@contextlib.contextmanager
def at(step: int, rank: int, micro_batch: int = 0) -> Iterator[None]:
    """Draws what this rank draws of this micro-batch after so many steps."""
    global _position
    before, _position = _position, _Position(step, rank, micro_batch)
    try:
        yield
    finally:
        _position = before


def philox(counter: list[torch.Tensor], key: list[int]) -> list[torch.Tensor]:
    """Ten rounds of Philox4x32, of words in int64."""
    for _ in range(10):
        # Of 64 bits without a sign, as two's complement has them.
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32 & _MASK) ^ counter[1] ^ key[0], b & _MASK,
                   (a >> 32 & _MASK) ^ counter[3] ^ key[1], a & _MASK]
        key = [key[0] + 0x9E3779B9 & _MASK, key[1] + 0xBB67AE85 & _MASK]
    return counter


def _words(site: int, size: tuple[int, ...]) -> torch.Tensor:
    """A word for each element, and those of the last block behind them."""
    block = torch.arange((math.prod(size) + 3) // 4)
    same = torch.zeros_like(block)
    counter = [block & _MASK, (block >> 32) + (_position.rank << 8),
               same + site + (_position.micro_batch << 16),
               same + _position.step]
    # Of a run without --random-seed.
    return torch.stack(philox(counter, [0, 0]), -1).view(-1)


def _uniform(site: int, size) -> torch.Tensor:
    words = _words(site, tuple(size))[:math.prod(size)]
    return ((words >> 8).double() * 2.0**-24).float().view(list(size))


def _normal(site: int, size) -> torch.Tensor:
    pairs = (_words(site, tuple(size)) >> 8).double().view(-1, 2)
    radius = ((pairs[:, 0] + 1) * 2.0**-24).log().mul(-2).sqrt()
    angle = pairs[:, 1] * (2.0**-24 * 2 * torch.pi)
    both = torch.stack([radius * angle.cos(), radius * angle.sin()], -1)
    return both.view(-1)[:math.prod(size)].float().view(list(size))


_KINDS = {"uniform": _uniform, "normal": _normal}
_TARGETS = {torch.ops.fsdp_export.uniform.default: "uniform",
            torch.ops.fsdp_export.normal.default: "normal"}
for _name, _function in _KINDS.items():
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(
        f"fsdp_export::{_name}",
        lambda site, size: torch.empty(size, dtype=torch.float32),
        lib=_library)


#===----------------------------------------------------------------------===#
# Operations
#===----------------------------------------------------------------------===#

def _next_site() -> int:
    generator = torch.default_generator
    site = generator.initial_seed() - _SEED
    if not 0 <= site < SITES:
        raise ExportError(
            "expected a step that draws random numbers in forward, at most "
            f"{SITES} times, and leaves PyTorch's seed alone, got one that "
            f"draws elsewhere or sets it{user_line() or ''}")
    generator.manual_seed(_SEED + site + 1)
    return site


def _draw(kind: str, size) -> torch.Tensor:
    return getattr(torch.ops.fsdp_export, kind)(_next_site(), list(size))


def _refuse_generator(generator) -> None:
    if generator is not None:
        raise ExportError(
            "expected a step that draws from PyTorch's default generator, got "
            "one with a generator of its own; leave it out, or draw outside "
            "of the step and make the numbers an input")


def _bernoulli(like, p, generator=None):
    _refuse_generator(generator)
    return (_draw("uniform", like.shape) < p).to(like.dtype)


def _bernoulli_in_place(like, p=0.5, generator=None):
    return like.copy_(_bernoulli(like, p, generator))


# Bits that a uniform number has, as PyTorch's own: in narrow floats rounding
# would make some of them 1.
_BITS = {torch.float16: 11, torch.bfloat16: 8}


def _draw_as(kind: str, size, dtype: torch.dtype) -> torch.Tensor:
    drawn = _draw(kind, size)
    bits = _BITS.get(dtype)
    if kind == "uniform" and bits:
        drawn = (drawn * 2.0**bits).floor() * 2.0**-bits
    return drawn.to(dtype)


def _new(kind: str, size, dtype=None, layout=None, device=None,
         pin_memory=None, generator=None, names=None):
    _refuse_generator(generator)
    return _draw_as(kind, size, dtype or torch.get_default_dtype())


def _new_like(kind: str, like, dtype=None, layout=None, device=None,
              pin_memory=None, memory_format=None):
    return _draw_as(kind, like.shape, dtype or like.dtype)


def _uniform_in_place(like, low=0.0, high=1.0, generator=None):
    _refuse_generator(generator)
    return like.copy_(_draw_as("uniform", like.shape, like.dtype)
                      * (high - low) + low)


def _normal_in_place(like, mean=0.0, std=1.0, generator=None):
    _refuse_generator(generator)
    return like.copy_(_draw("normal", like.shape) * std + mean)


def _native_dropout(x, p, train):
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = _draw("uniform", x.shape) < 1 - p
    return x * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


_OPERATIONS: dict[object, Callable] = {
    aten.bernoulli.default: lambda x, generator=None: _bernoulli(
        x, x, generator),
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli_.float: _bernoulli_in_place,
    aten.bernoulli_.Tensor: _bernoulli_in_place,
    aten.native_dropout.default: _native_dropout,
    aten.rand.default: functools.partial(_new, "uniform"),
    aten.randn.default: functools.partial(_new, "normal"),
    aten.rand.generator: functools.partial(_new, "uniform"),
    aten.randn.generator: functools.partial(_new, "normal"),
    aten.rand_like.default: functools.partial(_new_like, "uniform"),
    aten.randn_like.default: functools.partial(_new_like, "normal"),
    aten.uniform_.default: _uniform_in_place,
    aten.normal_.default: _normal_in_place,
}


class Draws(TorchDispatchMode):
    """Draws by site."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operation = _OPERATIONS.get(func)
        if operation is None:
            return func(*args, **(kwargs or {}))
        return operation(*args, **(kwargs or {}))


@contextlib.contextmanager
def _first_site() -> Iterator[None]:
    """The draws within are those of a step from its first one on."""
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(_SEED)
    try:
        yield
    finally:
        generator.set_state(before)


@contextlib.contextmanager
def drawing(step: int, rank: int, micro_batch: int = 0) -> Iterator[None]:
    """Forward and backward of one micro-batch within draw what a compiled run
    without --random-seed draws of it."""
    with at(step, rank, micro_batch), _first_site(), Draws():
        yield


def draw_by_site(step: Step) -> None:
    """Runs the step with random numbers that are functions of sites."""
    mode, loss, around = Draws(), step.loss, step.around_backward

    @functools.wraps(loss)
    def run(*args, **kwargs):
        with _first_site(), mode:
            return loss(*args, **kwargs)

    step.loss, step.around_backward = run, _Both(around, mode)


def refuse_recurrent(module: nn.Module) -> None:
    """PyTorch traces recurrent layers without the dropout between them."""
    for name, child in module.named_modules():
        if isinstance(child, nn.RNNBase) and child.dropout and (
                child.num_layers > 1):
            raise ExportError(
                "expected recurrent layers without dropout between them, got "
                f"{child.dropout} in {name or 'the root module'}: make it "
                "modules of one layer, with nn.Dropout between them, or export "
                "with --no-dropout")


class _Both(contextlib.AbstractContextManager):
    """Two contexts, one in the other, which may be entered again."""

    def __init__(self, outer, inner):
        self._outer, self._inner = outer, inner

    def __enter__(self):
        self._outer.__enter__()
        self._inner.__enter__()
        return self

    def __exit__(self, *error):
        try:
            self._inner.__exit__(*error)
        finally:
            self._outer.__exit__(*error)


#===----------------------------------------------------------------------===#
# Graphs
#===----------------------------------------------------------------------===#

def make_arguments(graph: fx.GraphModule) -> list[Draw]:
    """What a graph draws becomes its last arguments."""
    arguments: dict[tuple, fx.Node] = {}
    draws = []
    after = graph.graph.find_nodes(op="placeholder")[-1]
    for node in list(graph.graph.nodes):
        kind = _TARGETS.get(node.target)
        if kind is None:
            continue
        site, size = node.args
        draw = Draw(kind, site, tuple(size), module_path(node))
        key = (kind, site, draw.shape)
        if key not in arguments:
            if any(other[1] == site for other in arguments):
                raise ExportError(
                    "expected a step that leaves the state of PyTorch's "
                    f"generator alone, got one that draws in {draw.path or 'the root module'} "
                    "at a state that it had before; leave out fork_rng and "
                    "set_rng_state, or make the numbers an input")
            with graph.graph.inserting_after(after):
                after = graph.graph.placeholder(f"random_{site}")
            after.meta["val"] = node.meta["val"]
            arguments[key] = after
            draws.append(draw)
        node.replace_all_uses_with(arguments[key])
        graph.graph.erase_node(node)
    graph.recompile()
    return draws
