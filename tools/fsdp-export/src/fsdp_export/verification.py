#===- verification.py - Is the export what PyTorch computes? -------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Compares the graph and the MLIR that is written with PyTorch itself.

The module runs eagerly for two steps: on the example batch, and on another one
from the buffers that the first step left, with parameters that were constant
tensors moved a little, since zeros hide what they are multiplied with. The
traced graph runs the same, and the finished MLIR runs the second step. Loss,
every gradient and every buffer have to agree.

How much may differ: for a tensor t of PyTorch's and a tensor g of ours, in
2-norms over the elements,

    |g - t| <= FLOOR eps |t| + SMALL eps |all gradients| + MARGIN |p - t|

For the loss, whose terms may cancel, the second term is

    CONDITION eps sum |p| |dl/dp| over the elements p of all parameters,

what that many roundings of the parameters do to it at most.

eps is the spacing of the element type at 1. p is what PyTorch computes when
only rounding differs, the more distant of two: in the next wider float type,
and from parameters of which every other one is moved to the next number. So a tensor
that is all rounding (the gradient of a key's bias) is measured by its own
noise. p is computed where the first two terms do not suffice.

Narrow floats hide much: bf16 itself is off by a percent. A step that computes
in them, if only in one place, is compared twice. With f32 in their place it is
compared by the measure of f32: in PyTorch (the parameters converted, and what
the step casts, itself or under autocast, left in f32), in the graph before its
constants are evaluated, and in the MLIR. Numbers in both are rounded to the
narrow type: FLOOR eps is at least one eps of that for the MLIR, an eighth of it
for the graph. As it is, the step is compared by the measure of the narrowest
type, without the second term where p is known; by MARGIN of f32 where the
comparison in f32 ran, too. Where narrow floats
remain all the same, the first comparison says nothing and is left out, and the
result says so.
"""

from collections.abc import Sequence

import torch
from torch_mlir import ir

from . import interpreter, unsigned
from .batches import ascending, other_batch
from .eager import Batch, Outcome, run_steps
from .elementwise import NARROW, Unsupported
from .errors import ExportError
from .graphs import Run
from .joint import Joint
from .step import Held, Step, dtype_name

FLOOR = {torch.float64: 64, torch.float32: 64, torch.float16: 4,
         torch.bfloat16: 4}
MARGIN = {torch.float64: 20, torch.float32: 20, torch.float16: 4,
          torch.bfloat16: 4}
SMALL = 4
CONDITION = 16

_WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32,
          torch.float16: torch.float32}

VERIFIED = "verified"
UNVERIFIED = "unverified"


def verify(step: Step, joint: Joint, module: ir.Module, seed: int) -> str:
    """Raises ExportError, which names what differs; else says what ran."""
    batches, want = _run(step, joint, seed)
    _refuse_nan(want[0])
    judges = [_Judge(step, joint, batches, want)]
    if judges[0].dtype in NARROW:
        wide = _run_wide(step, batches)
        if wide:
            judges.append(_Judge(step, joint, batches, wide, wide=True))
            judges[0].is_second = True
    for judge in judges:
        _compare_graph(judge)
    try:
        for judge in judges:
            _compare_module(judge, module)
    except Unsupported as error:
        return f"graph only: the MLIR has {error}"
    also = ", also in f32" if len(judges) > 1 else (
        f", at {dtype_name(judges[0].dtype)} tolerance"
        if judges[0].dtype in NARROW else "")
    count = "1 batch" if batches[-1].inputs is step.inputs else "2 batches"
    return f"graph and MLIR, {count}{also}"


def _run(step: Step, joint: Joint,
         seed: int) -> tuple[list[Batch], list[Outcome]]:
    """PyTorch's results on the example and on the best other batch."""
    moved = moved_parameters(joint.parameters, seed)
    other = other_batch(step.inputs, joint.bounds, seed)
    first = Batch(step.inputs)
    # The other batch, or moved parameters, may be none that the step takes.
    for second in ([Batch(other, moved)], [Batch(other)],
                   [Batch(step.inputs, moved)], []):
        try:
            want = run_steps(step, [first, *second])
        except ExportError:
            raise
        except Exception as error:
            failure = error
            continue
        if all(bool(o.loss.isfinite()) for o in want[1:]):
            return [first, *second], want
    raise ExportError("PyTorch itself cannot run the step: "
                      f"{_line(failure)}") from failure


def _refuse_nan(outcome: Outcome) -> None:
    """Results that are no numbers agree with everything."""
    what = None
    if not bool(outcome.loss.isfinite()):
        what = "a finite loss"
    elif outcome.gradients and not any(
            bool(g.isfinite().any()) for g in outcome.gradients.values()):
        what = "finite gradients"
    if what:
        raise ExportError(
            f"expected {what} on the example inputs, got a loss of "
            f"{outcome.loss.item()} and nothing to compare; return other "
            "example inputs (labels that are not all ignored), or pass "
            "--no-verify")


def moved_parameters(parameters: Sequence[Held],
                     seed: int) -> dict[str, torch.Tensor]:
    """Other values for parameters whose elements are all equal.

    A gate that starts at 0 hides what is behind it, a gain of 1 that it is
    multiplied by. The sign stays, and zeros become positive.
    """
    generator = torch.Generator().manual_seed(seed + 2)
    moved = {}
    for h in parameters:
        value = h.tensor.detach()
        if not value.numel() or not bool(
                (value == value.flatten()[0]).all() & value.isfinite().all()):
            continue
        by = 0.1 * torch.rand(value.shape, generator=generator)
        moved[h.fqn] = (by if not bool(value.any()) else
                        value * (1 + by)).to(value.dtype)
    return moved


def _run_wide(step: Step, batches: list) -> list[Outcome] | None:
    """PyTorch's results in f32; None where narrow floats remain."""
    try:
        found = run_steps(step, batches, torch.float32)
    except Exception:
        return None  # It does not run in another type.
    return None if any(o.narrow for o in found) else found


class _Judge:
    """PyTorch's results, and how far from them is too far."""

    def __init__(self, step: Step, joint: Joint, batches: list,
                 want: list[Outcome], wide: bool = False):
        self.step, self.joint, self.wide = step, joint, wide
        self._word = ("output" if joint.evaluates else "the gradient of")
        self.batches, self.want = [Batch(
            *({n: self.cast(x) for n, x in part.items()}
              for part in (b.inputs, b.parameters))) for b in batches], want
        # Whether the same is also compared in f32, where errors show: what
        # narrow floats add to them by rounding may be large.
        self.is_second = False
        self._noise: list[list[Outcome]] | None = None
        floats = [t.dtype for t in (*(h.tensor for h in joint.parameters),
                                    *step.inputs.values(), want[0].loss)
                  if t.is_floating_point()]
        floats += [v.dtype for n in joint.unfolded.graph.nodes
                   if isinstance(v := n.meta.get("val"), torch.Tensor)
                   and v.is_floating_point()]
        narrowest = max(floats, key=lambda d: torch.finfo(d).eps)
        self.dtype = torch.float32 if wide else narrowest
        # Numbers in the MLIR of a narrow step are rounded to its type; of the
        # graph, a few.
        self._constants = torch.finfo(narrowest).eps if wide else 0.0

    def cast(self, x: torch.Tensor) -> torch.Tensor:
        """The value in the type that is compared in."""
        return x.float() if self.wide and x.dtype in NARROW else x.detach()

    def parameters(self, i: int) -> dict[str, torch.Tensor]:
        """Those that step `i` starts from."""
        return {h.fqn: self.cast(h.tensor) for h in self.joint.parameters
                } | self.batches[i].parameters

    def buffers(self, i: int) -> dict[str, torch.Tensor]:
        """Those that PyTorch's step `i` starts from."""
        old = {h.fqn: self.cast(h.tensor) for h in self.joint.buffers}
        return old | self.want[i - 1].buffers if i else old

    def compare(self, what: str, i: int, got: list[torch.Tensor]) -> None:
        """`got` are loss, gradients and updates of step `i`."""
        want, joint = self.want[i], self.joint
        ours = dict(zip(joint.gradients, got[1:1 + len(joint.gradients)]))
        for name in sorted(want.gradients.keys() ^ ours.keys()):
            has = "one" if name in want.gradients else "none"
            raise ExportError(
                f"expected {self._word} {name} where PyTorch has one, got "
                f"{has} in PyTorch only{self._hint(what, i)}"
                if has == "one" else
                f"expected not {self._word} {name}, as in PyTorch, got one"
                f"{self._hint(what, i)}")
        scale = SMALL * sum(
            _norm(g) ** 2 for g in want.gradients.values()) ** 0.5
        self._check(what, i, "the loss", got[0], want.loss,
                    CONDITION * self._condition(i), lambda o: o.loss)
        for name, g in ours.items():
            self._check(what, i, f"{self._word} {name}", g,
                        want.gradients[name], scale,
                        lambda o, n=name: o.gradients.get(n))
        if joint.is_sum:
            self._check(what, i, "the loss's count", got[-1], want.count, 0.0,
                        lambda o: o.count)
        new = dict(zip(joint.updates, got[1 + len(joint.gradients):]))
        old = self.buffers(i)
        for name, value in want.buffers.items():
            self._check(what, i, f"buffer {name}", new.get(name, old[name]),
                        value, 0.0, lambda o, n=name: o.buffers.get(n))

    def _condition(self, i: int) -> float:
        gradients = self.want[i].gradients
        return sum(float((value * gradients[name]).abs()
                         .nan_to_num(0, 0, 0).sum(dtype=torch.float64))
                   for name, value in self.parameters(i).items()
                   if name in gradients)

    def _check(self, what: str, i: int, name: str, got: torch.Tensor,
               want: torch.Tensor, scale: float, pick) -> None:
        if got.shape != want.shape or got.dtype != want.dtype:
            raise ExportError(f"{name}: expected {list(want.shape)} of "
                              f"{want.dtype}, got {list(got.shape)} of "
                              f"{got.dtype}{self._hint(what, i)}")
        distance = _distance(got, want)
        eps = torch.finfo(self.dtype).eps
        exact = not want.is_floating_point()
        floor = eps * FLOOR[self.dtype]
        floor = max(floor, self._constants if what == "the MLIR" else
                    self._constants / 8)
        own = 0.0 if exact else floor * _norm(want)
        rest = 0.0 if exact else eps * scale
        narrow = self.dtype in NARROW
        limit = own + (0.0 if narrow else rest)
        if distance <= limit:
            return
        noise = [_distance(value, want) for other in self._noises()
                 if (value := pick(other[i])) is not None]
        if noise:
            margin = MARGIN[torch.float32 if self.is_second else self.dtype]
            limit += margin * max(noise)
        elif narrow:
            limit += rest
        if distance <= limit:
            return
        size = _norm(want)
        raise ExportError(
            f"the export is not what PyTorch computes: {name} has norm "
            f"{_norm(got):.6g} in {what} and {size:.6g} in PyTorch, at a "
            f"relative distance of {distance / max(size, 1e-300):.2g} (rounding "
            f"explains {limit / max(size, 1e-300):.2g}){self._hint(what, i)}")

    def _noises(self) -> list[list[Outcome]]:
        """PyTorch's results with other rounding: wider, and disturbed. None of
        a step that gives other results when it is run again: what differs would
        be taken for rounding."""
        if self._noise is None:
            self._noise = []
            own = {"dtype": self.dtype} if self.wide else {}
            if not self._is_repeatable(own):
                return self._noise
            settings = [own | {"disturb": True}]
            if self.dtype in _WIDER:
                settings.append({"dtype": _WIDER[self.dtype]})
            for setting in settings:
                try:
                    # The comparison itself runs without gradients.
                    with torch.enable_grad():
                        found = run_steps(self.step, self.batches, **setting)
                except Exception:
                    continue  # It does not run in another type.
                self._noise.append(found)
        return self._noise

    def _is_repeatable(self, own: dict) -> bool:
        with torch.enable_grad():
            again = run_steps(self.step, self.batches, **own)
        eps = torch.finfo(self.dtype).eps * FLOOR[self.dtype]
        return all(torch.allclose(a.loss, b.loss, rtol=eps, atol=0,
                                  equal_nan=True)
                   for a, b in zip(again, self.want))

    def _hint(self, what: str, i: int) -> str:
        if what != "the traced graph":
            return ("; the traced graph agrees, so its lowering to MLIR is at "
                    "fault: please report it (--no-verify writes the export "
                    "all the same)")
        if i:
            return (" in the second step, on another batch, and the first one "
                    "agrees; usual causes: a value that was read from a tensor "
                    "while tracing (.item(), numpy), or state that is kept "
                    "outside of the module (a global, a counter)"
                    f"{self._unsorted(i)}; --no-verify writes the export all "
                    "the same")
        return ("; usual causes: code that asks whether it is being compiled "
                "or traced, tensors that are kept outside of the module, "
                "operations that bypass PyTorch's dispatcher (numpy, .data_ptr)")


    def _unsorted(self, i: int) -> str:
        """Inputs that ascend in the example only."""
        names = [n for n, x in self.step.inputs.items()
                 if {*ascending(x)} - {*ascending(self.batches[i].inputs[n])}]
        return (f"; or an order that an input has to have: {', '.join(names)} "
                "is ascending in the example and leaves no other values in "
                "that order (give it gaps)" if names else "")


def _compare_graph(judge: _Judge) -> None:
    joint, buffers = judge.joint, judge.buffers(0)
    run = joint.run
    if judge.wide:
        graph = _Wide(joint.unfolded)

        def run(arguments):
            return joint.restore(graph.run(*map(unsigned.as_signed, arguments)))
    with torch.no_grad():
        for i, batch in enumerate(judge.batches):
            got = run([*judge.parameters(i).values(), *buffers.values(),
                       *batch.inputs.values(),
                       *joint.given()])
            judge.compare("the traced graph", i, got)
            buffers |= zip(joint.updates, got[1 + len(joint.gradients):])


class _Wide(Run):
    """The graph with f32 in the place of narrow floats."""

    def call_function(self, target, args, kwargs):
        args = [torch.float32 if isinstance(a, torch.dtype) and a in NARROW
                else a for a in args]
        kwargs = {k: torch.float32 if isinstance(v, torch.dtype) and v in NARROW
                  else v for k, v in kwargs.items()}
        return super().call_function(target, tuple(args), kwargs)

    def get_attr(self, target, args, kwargs):
        value = super().get_attr(target, args, kwargs)
        return value.float() if value.dtype in NARROW else value


def _compare_module(judge: _Judge, module: ir.Module) -> None:
    joint, last = judge.joint, len(judge.batches) - 1
    arguments = [*judge.parameters(last).values(),
                 *judge.buffers(last).values(),
                 *judge.batches[last].inputs.values(),
                 *joint.given()]
    try:
        got = joint.restore(interpreter.run(module, arguments, judge.wide))
    except interpreter.AssertionFailed as error:
        raise ExportError("the export is not what PyTorch computes: an "
                          f"assertion of it does not hold: {error}"
                          f"{judge._hint('the MLIR', last)}") from error
    judge.compare("the MLIR", last, got)


def _norm(x: torch.Tensor) -> float:
    """The 2-norm of the finite elements."""
    x = x.detach().double()
    return float(torch.where(x.isfinite(), x, torch.zeros_like(x)).norm())


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """The 2-norm of the difference; infinite where one is not finite and the
    other is, or is something else."""
    a, b = got.detach().double(), want.detach().double()
    special = ~(a.isfinite() & b.isfinite())
    if bool((special & ~((a == b) | (a.isnan() & b.isnan()))).any()):
        return float("inf")
    return float(torch.where(special, torch.zeros_like(a), a - b).norm())


def _line(error: Exception) -> str:
    first = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {first}"
