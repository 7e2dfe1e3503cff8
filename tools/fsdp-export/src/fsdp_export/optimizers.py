#===- optimizers.py - The optimizer's step -------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Traces torch.optim's AdamW and SGD on flat tensors of any size."""

from dataclasses import dataclass, field

import torch
from torch import fx, nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd
from torch_mlir import ir

from . import graphs
from .contract import set_attributes
from .decompositions import decompositions
from .errors import ExportError, nearest
from .groups import print_value
from .lowering import lower
from .step import dtype_name

# torch.optim's, as fsdp-compile has them.
_DEFAULTS = {
    "adamw": {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
              "weight_decay": 0.01},
    "sgd": {"lr": 1e-3, "momentum": 0.0, "weight_decay": 0.0},
}


@dataclass(frozen=True)
class Optimizer:
    """An optimizer by name, with all of its hyper-parameters."""

    name: str
    hyper: dict[str, float] = field(default_factory=dict)

    def make(self, parameters) -> torch.optim.Optimizer:
        """PyTorch's own, for a reference run."""
        h = self.hyper
        if self.name == "adamw":
            return torch.optim.AdamW(
                parameters, lr=h["lr"], betas=(h["beta1"], h["beta2"]),
                eps=h["eps"], weight_decay=h["weight_decay"], foreach=False)
        return torch.optim.SGD(
            parameters, lr=h["lr"], momentum=h["momentum"],
            weight_decay=h["weight_decay"], foreach=False)

    def __str__(self) -> str:
        return f"{self.name}: " + ", ".join(f"{name} {value:g}" for name, value
                                            in self.hyper.items())

    def constants(self) -> str:
        """All but the rate, as `--optimizer` takes them."""
        return f"{self.name}:" + ",".join(
            f"{name}={print_value(value)}" for name, value in self.hyper.items()
            if name != "lr")

    def describe(self) -> dict:
        """The hyper-parameters as expect.json names them."""
        h = self.hyper
        if self.name == "adamw":
            return {"lr": h["lr"], "betas": [h["beta1"], h["beta2"]],
                    "eps": h["eps"], "weight_decay": h["weight_decay"]}
        return dict(h)


def parse(text: str) -> Optimizer | None:
    """`adamw:lr=1e-3,beta1=0.9`; None for `none`."""
    name, _, options = text.partition(":")
    if name == "none" and not options:
        return None
    if name not in _DEFAULTS:
        raise ExportError(
            f"--optimizer: expected adamw, sgd or none, got {name}; export any "
            "other with --optimizer none: fsdp-compile --optimizer NAME:.. has "
            "adam, rmsprop, lion and more built in, and --optimizer-file takes "
            "functions in MLIR")
    hyper = dict(_DEFAULTS[name])
    given = set()
    for option in filter(None, options.split(",")):
        key, equals, value = option.partition("=")
        if key not in hyper:
            raise ExportError(f"--optimizer: {name} has no {key}"
                              f"{nearest(key, hyper)}")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not 0 <= number < float("inf") or (key.startswith("beta")
                                              and number >= 1):
            raise ExportError(f"--optimizer: expected {key}=number"
                              f"{' below 1' if key.startswith('beta') else ''} "
                              f"and not negative, got {option}")
        if key in given:
            raise ExportError(f"--optimizer: expected {key} once, got {options}")
        given.add(key)
        hyper[key] = number
    return Optimizer(name, hyper)


def lower_optimizer(optimizer: Optimizer, dtype: torch.dtype) -> ir.Module:
    """A module with `@optimizer` for parameters of one element type.

    Arguments: param, grad, the states, the scalars; results: the new parameter
    and states. Flat tensors share one dynamic size; `step` and `lr` are f32
    scalars whatever the parameters are. Narrow types are widened to f32 to
    compute, and rounded once.
    """
    adam = optimizer.name == "adamw"
    states = {"exp_avg": True, "exp_avg_sq": True, "step": False} if adam else (
        {"momentum_buffer": True} if optimizer.hyper["momentum"] else {})
    flat = [True, True, *states.values(), False]
    values = tuple(torch.ones(8, dtype=dtype) if f else torch.ones(())
                   for f in flat)
    graph = _trace(_Adamw if adam else _Sgd, optimizer.hyper, values, flat)
    module = lower(graph, "optimizer", same_sizes=True)
    with module.context, ir.Location.unknown():
        f64 = ir.F64Type.get()

        def role(role: str, name: str, **numbers: float) -> dict:
            entries = {"role": ir.StringAttr.get(role),
                       "name": ir.StringAttr.get(name)}
            entries |= {k: ir.FloatAttr.get(f64, v) for k, v in numbers.items()}
            return {"fsdp.optimizer": ir.DictAttr.get(entries)}

        param = role("param", "param")
        state = [role("state", name, init=0.0) for name in states]
        set_attributes(
            module.body.operations[0],
            [param, role("grad", "grad"), *state,
             role("scalar", "lr", default=optimizer.hyper["lr"])],
            [param, *state])
        module.body.operations[0].attributes["fsdp.optimizer_spec"] = (
            ir.StringAttr.get(optimizer.constants()))
    return module


def optimizer_dtype(parameters: list[torch.Tensor]) -> torch.dtype:
    """The element type that all trainable parameters share."""
    dtypes = {p.dtype for p in parameters if p.requires_grad}
    if len(dtypes) != 1:
        raise ExportError(
            "--optimizer: expected trainable parameters of one element type, "
            f"got {', '.join(sorted(map(dtype_name, dtypes)))}; pass "
            "--optimizer none and let fsdp-compile append its own")
    return dtypes.pop()


class _Adamw(nn.Module):
    def __init__(self, hyper: dict[str, float]):
        super().__init__()
        self._hyper = hyper

    def forward(self, param, grad, exp_avg, exp_avg_sq, step, lr):
        h = self._hyper
        state = [_widen(t) for t in (param, exp_avg, exp_avg_sq)]
        # PyTorch corrects the bias in double precision: 1 - 0.999 has few
        # digits left in f32.
        state.append(step.to(torch.float64))
        # Not the capturable form: that one divides by the learning rate, and
        # a warm-up that starts at 0 would end in NaN.
        adamw([state[0]], [_widen(grad)], [state[1]], [state[2]], [],
              [state[3]], foreach=False, capturable=False, amsgrad=False,
              beta1=h["beta1"], beta2=h["beta2"], lr=lr,
              weight_decay=h["weight_decay"], eps=h["eps"], maximize=False)
        return (*(t.to(param.dtype) for t in state[:3]),
                state[3].to(step.dtype))


class _Sgd(nn.Module):
    def __init__(self, hyper: dict[str, float]):
        super().__init__()
        self._hyper = hyper

    def forward(self, param, grad, *rest):
        h = self._hyper
        state = [_widen(t) for t in (param, *rest[:-1])]
        # A buffer of zeros gives PyTorch's first step as well: dampening is 0.
        sgd([state[0]], [_widen(grad)], state[1:] or [None], foreach=False,
            weight_decay=h["weight_decay"], momentum=h["momentum"],
            lr=rest[-1], dampening=0.0, nesterov=False, maximize=False)
        return tuple(t.to(param.dtype) for t in state)


def _widen(value: torch.Tensor) -> torch.Tensor:
    """A copy in which to compute: 0.95 is not 0.95 in bf16."""
    wide = torch.promote_types(value.dtype, torch.float32)
    return value.clone() if wide == value.dtype else value.to(wide)


def _trace(make, hyper: dict[str, float], values: tuple,
           flat: list[bool]) -> fx.GraphModule:
    size = torch.export.Dim("n", min=2)
    shapes = [{0: size} if f else {} for f in flat]
    if make is _Sgd:
        shapes = [*shapes[:2], tuple(shapes[2:])]
    # Only the strict tracer keeps a learning rate symbolic in these functions.
    exported = torch.export.export(make(hyper), values, strict=True,
                                   dynamic_shapes=tuple(shapes))
    prims = torch.ops.prims
    table = {**decompositions(),
             prims.fma.default: lambda a, b, c: a * b + c,
             # Of a dynamic size, the copy would check that size for its sign.
             torch.ops.aten._to_copy.default: lambda x, *, dtype:
                 prims.convert_element_type.default(x, dtype)}
    graph = exported.run_decompositions(table).graph_module
    _narrow_scalars(graph)
    graphs.clean(graph)
    return graph


def _narrow_scalars(graph: fx.GraphModule) -> None:
    """Rounds a double scalar once, not again for every element."""
    for node in list(graph.graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not value.dim():
            continue
        for scalar in node.all_input_nodes:
            given = scalar.meta.get("val")
            if (not isinstance(given, torch.Tensor) or given.dim()
                    or given.dtype != torch.float64 != value.dtype):
                continue
            with graph.graph.inserting_before(node):
                narrow = graph.graph.call_function(
                    torch.ops.prims.convert_element_type.default,
                    (scalar, value.dtype))
            narrow.meta["val"] = given.to(value.dtype)
            node.replace_input_with(scalar, narrow)
