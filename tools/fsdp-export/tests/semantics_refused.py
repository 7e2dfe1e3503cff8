#===- semantics_refused.py - Steps that have no counterpart --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What is refused, each with the part of the message that names it."""

import random

import numpy
import torch
from semantics import hooked, two, under, weigh
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def _counter(m, x):
    m.calls = getattr(m, "calls", 0) + 1
    return weigh(m.a(x) * 0.9 ** m.calls)


def _history(m, x):
    if not hasattr(m, "history"):
        m.history = [torch.zeros(3)]
    m.history.append(0.5 * m.history[-1] + m.a(x).detach().mean(0))
    return weigh(m.a(x) * m.history[-1])


def _cell():
    n = 0

    def forward(m, x):
        nonlocal n
        n += 1
        return weigh(m.a(x) * n)
    return two(forward)()


def _late(m, x):
    """Neither of the first steps shows it."""
    m.calls = getattr(m, "calls", 0) + 1
    return weigh(m.a(x)) * (2 if m.calls / 10 > 100 else 1)


def _late_beside_cache(m, x):
    """The second step differs anyway: it reads what the first one stored."""
    if not hasattr(m, "table"):
        m.table = torch.linspace(0, 1, x.shape[0]).unsqueeze(-1)
    m.calls = [*getattr(m, "calls", []), 0]
    return weigh(m.a(x) * m.table) * (2 if len(m.calls) > 2 else 1)


def _warming_up():
    state = {"n": 0}

    def loss(m, x):
        state["n"] += 1
        return weigh(m(x)) * (1 if min(1.0, state["n"] / 100) < 1 else 2)
    return nn.Linear(4, 3), (torch.randn(5, 4),), loss


def _running_mean():
    state = {"mean": torch.ones(())}

    def loss(m, x):
        y = weigh(m(x))
        state["mean"] = 0.9 * state["mean"] + 0.1 * y.detach()
        return y / state["mean"]
    return nn.Linear(4, 3), (torch.randn(5, 4),), loss


def _drawn(draw):
    return two(lambda m, x: weigh(m.a(x)) * (2 if draw() < 0.01 else 1))


_CALLS = []


def _global(m, x):
    _CALLS.append(1)
    return weigh(m.a(x) * len(_CALLS))


_MEANS = {"mean": 1.0}


def _global_mean(m, x):
    y = weigh(m.a(x))
    _MEANS["mean"] = 0.9 * _MEANS["mean"] + 0.1 * y.detach()
    return y / _MEANS["mean"]


def _all_ignored():
    return nn.Linear(4, 3), (torch.randn(5, 4), torch.full((5,), -100)), (
        lambda m, x, y: functional.cross_entropy(m(x), y.clamp(max=-100)))


def _made_in_the_step(m, x):
    if not hasattr(m, "mask"):
        m.register_buffer("mask", torch.ones(3), persistent=False)
    return weigh(m.a(x) * m.mask)


def _lazy():
    return nn.LazyLinear(3), (torch.randn(5, 4),), lambda m, x: weigh(m(x))


def _checked(m, x):
    loss = weigh(m.a(x))
    if torch.isnan(loss):
        raise ValueError("diverged")
    return loss


def _attribute_in_place(m, x):
    m.plain.mul_(0.9)
    return weigh(m.a(x) * m.plain)


def _plain_attribute():
    module, inputs = two(_attribute_in_place)()
    module.plain = torch.ones(3)
    return module, inputs


def _view_of_buffer():
    module, inputs = two(lambda m, x: weigh(m.a(x) * m.view[0]),
                         table=torch.randn(2, 3))()
    module.view = module.table[1:]
    return module, inputs


def _buffer_of_parameter():
    module, inputs = two(lambda m, x: weigh(m.a(x) @ m.w))()
    module.register_buffer("w", module.b.weight.data)
    return module, inputs


def _criterion(call):
    """A loss with a parameter of its own, used by `call`."""
    def make():
        centre = nn.Parameter(torch.randn(3))
        return nn.Linear(4, 3), (torch.randn(5, 4),), lambda m, x: call(
            lambda y: weigh(y - centre), m(x))
    return make


def _derived():
    scale = nn.Parameter(torch.ones(3)).exp()
    return nn.Linear(4, 3), (torch.randn(5, 4),), lambda m, x: weigh(
        m(x) * scale)


def _graph_in_buffer(m, x):
    m.u = 0.9 * m.u + m.a(x).mean(0)
    return weigh(m.a(x) * m.u)


def _other_shape(m, x):
    m.u = torch.cat([m.u, m.u])
    return weigh(m.a(x) * m.u[:3])


def _to_none(m, x):
    m.u = None
    return weigh(m.a(x))


def _writes_parameter(m, x):
    with torch.no_grad():
        m.b.weight.lerp_(m.a.weight, 0.1)
    return weigh(m.a(x) * m.b(x).detach())


def _writes_data(m, x):
    m.b.weight.data.mul_(0.99)
    return weigh(m.a(x) * m.b(x).detach())


def _freezes(m, x):
    m.a.weight.requires_grad_(False)
    return weigh(m.b(x))


def _cond(m, x):
    return torch.cond(x.sum() > 0, lambda t: weigh(m.a(t)),
                      lambda t: weigh(m.b(t)), (x,))


def _sync():
    module = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)))
    return module, (torch.randn(5, 4),), lambda m, x: weigh(m(x))


def _sparse():
    return nn.Embedding(9, 4, sparse=True), (torch.randint(9, (5,)),), (
        lambda m, i: weigh(m(i)))


def _sparse_function(m, x):
    return weigh(functional.embedding(torch.tensor([1, 2]), m.a.weight,
                                      sparse=True))


def _typed(dtype, parameter=False):
    def make():
        module = nn.Module()
        module.l = nn.Linear(4, 4)
        value = torch.ones(4, 4).to(dtype)
        if parameter:
            module.w = nn.Parameter(value, requires_grad=False)
        else:
            module.register_buffer("w", value)
        return module, (torch.randn(3, 4),), (
            lambda m, x: weigh(m.l(x) @ m.w.float()))
    return make


def _max_norm():
    return nn.Embedding(9, 4, max_norm=0.1), (torch.randint(9, (5,)),), (
        lambda m, i: weigh(m(i)))


def _optimizer_in_backward():
    def update(p):
        p.data.add_(p.grad, alpha=-0.1)
        p.grad = None
    return hooked(lambda m: m.a.weight.register_post_accumulate_grad_hook(
        update))()


def _while(m, x):
    from torch._higher_order_ops.while_loop import while_loop
    return weigh(while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5),
                            (torch.tensor(0), m.a(x)))[1])


def _lies_when_compiled(m, x):
    return weigh(m.a(x) * (2 if torch.compiler.is_compiling() else 1))


REFUSED = {
    "counter": (two(_counter), "from what it changed: calls"),
    "late": (two(_late), "from what it changed: calls"),
    "late_beside_cache": (two(_late_beside_cache), "from what it changed:"),
    "warming_up": (_warming_up, "loss['n'] (1 to 2)"),
    "running_mean": (_running_mean, "one step stores at state of"),
    "python_random": (_drawn(random.random), "draws from Python's random"),
    "numpy_random": (_drawn(numpy.random.rand), "draws from numpy.random"),
    "own_random": (_drawn(random.Random(1).random), "draws from the generator"),
    "history": (two(_history), "one step stores at history"),
    "cell": (_cell, "n of"),
    "global": (two(_global), "the export is not what PyTorch computes"),
    "global_mean": (two(_global_mean), "keeps one outside of the module"),
    "all_ignored": (_all_ignored, "expected a finite loss"),
    "made_in_the_step": (two(_made_in_the_step), "that makes buffer mask"),
    "assigned_to_none": (
        two(lambda m, x: (setattr(m, "u", torch.ones(3)), weigh(m.a(x)))[1],
            u=None), "that makes buffer u"),
    "lazy": (_lazy, "got weight of a lazy module"),
    "checked": (two(_checked), "; remove the check, or choose between both"),
    "attribute_in_place": (_plain_attribute, "a write to plain"),
    "view_of_buffer": (_view_of_buffer, "read table from the module"),
    "buffer_of_parameter": (_buffer_of_parameter,
                            "buffer w, a view of parameter b.weight"),
    "criterion": (_criterion(lambda f, y: f(y)),
                  "one of f32 [3] that is not in it"),
    "criterion_reentrant": (
        _criterion(lambda f, y: checkpoint(f, y, use_reentrant=True)),
        "one of f32 [3] that is not in it"),
    "derived": (_derived, "one of f32 [3] that is not in it"),
    "graph_in_buffer": (two(_graph_in_buffer, u=torch.zeros(3)),
                        "buffers without gradients, got u"),
    "other_shape": (two(_other_shape, u=torch.ones(3)), "of buffer u"),
    "to_none": (two(_to_none, u=torch.ones(3)), "keeps buffer u"),
    "writes_parameter": (two(_writes_parameter), "parameter b.weight"),
    "writes_data": (two(_writes_data), "parameter b.weight"),
    "inference_saved": (under(torch.inference_mode),
                        "Inference tensors cannot be saved for backward"),
    "freezes": (two(_freezes), "requires_grad of a.weight"),
    "cond": (two(_cond), "got cond in the root module"),
    "while_loop": (two(_while), "got while_loop"),
    "max_norm": (_max_norm, "a write to parameter weight"),
    "optimizer_in_backward": (_optimizer_in_backward,
                              "a write to parameter a.weight"),
    "sync_batch_norm": (_sync, "got the SyncBatchNorm 1"),
    "sparse": (_sparse, "with sparse=True"),
    "sparse_function": (two(_sparse_function), "sparse"),
    "float8": (_typed(torch.float8_e4m3fn), "buffer w of f8_e4m3fn"),
    "complex": (_typed(torch.complex64), "buffer w of complex64"),
    "unsigned_32": (_typed(torch.uint32), "buffer w of ui32"),
    "integer_parameter": (_typed(torch.int8, True), "got w of i8"),
    "lies_when_compiled": (two(_lies_when_compiled),
                           "the export is not what PyTorch computes"),
}
